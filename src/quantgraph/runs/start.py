"""Starting a run: ``run_strategy``, and the beginning that it shares with a branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl

from quantgraph._util.input_limits import check_sentence, check_text
from quantgraph._util.run_id import new_run_id
from quantgraph.broker.account import Account
from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption
from quantgraph.llm.models import Model
from quantgraph.market.rulebook import Rulebook
from quantgraph.runs.execute import Answer, Driver, RunEvent, execute_run
from quantgraph.runs.folder import lock_run, staged_run_folder
from quantgraph.runs.identity import identity_of
from quantgraph.runs.manifest import Manifest, ledger_location, library_versions
from quantgraph.runs.resources import Resources, open_run
from quantgraph.runs.run_result import initial_result, write_result
from quantgraph.runs.specification import RunSpec, source_json
from quantgraph.runtime.questions import OnClarify
from quantgraph.settings import Settings, load_settings

__all__ = ["run_strategy", "start_run"]


def run_strategy(
    question: str,
    *,
    source: str | Path | MarketDataSource | None = None,
    symbols: Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    cash: Decimal | float | str = 1_000_000,
    rules: Rulebook | None = None,
    model: Model | None = None,
    decider: Decider | None = None,
    out: str | Path | None = None,
    answer: Answer | None = None,
    on_clarify: OnClarify | None = None,
    approve: bool = False,
    watch: Callable[[RunEvent], None] | None = None,
    control: RunControl | None = None,
    trade: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    ledger: str | Path | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Run a sentence and write strategy, signal, ledger, data and result into ``out/run_id``.

    From its first moment the folder says what the run is (``run.json``) and how it stands (``result.json``,
    whose ``state`` begins as ``running``): :func:`~quantgraph.runs.resume_run` can continue it whenever and
    however it was stopped.

    Parameters
    ----------
    question
        The sentence, in Chinese or English, of at most 10,000 characters.
    symbols, start, end
        Fixed by the caller; they win over the sentence.
    rules
        The market's rules and fees. Default: mainland China's.
    decider
        Turns signals into orders. Default: :class:`~quantgraph.agents.SignalRule`.
    answer
        Called with each question; the run waits for what it returns, and stops to be resumed at None.
    on_clarify
        How questions are answered if ``answer`` is not given: ``default`` (the default) takes the documented
        defaults and lists them in ``assumptions``, ``fail`` ends the run, ``ask`` stops the run to be resumed
        with an answer, and a function is called with each question and its answers are listed in
        ``assumptions``.
    approve
        Whether the orders of each session are a question, too, before they are sent.
    watch
        Called with each event.
    control
        ``control.request_drain()`` stops the run at its next step.
    trade
        False stops after the signal.
    checkpointer
        Where the graph's checkpoints go. Default: SQLite in the run's folder.
    ledger
        File or database URL of ledger and record. Default: SQLite in the run's folder.
    settings
        Those of this run, such as ``load_settings(budget="calls=100", session_budget="money=0.5")``. Default:
        those of the environment.

    Returns
    -------
    dict
        The content of ``result.json``. ``ended_because`` is ``done`` or another of
        :data:`~quantgraph.subgraphs.signal.state.EndedBecause`; then ``error`` is one line with the reason.
        ``usage`` has a row of model calls, tokens and cost for each role, model and session, with
        ``unknown`` or None where a server did not report them.

    Raises
    ------
    BadOption
        If an argument is not valid; nothing is written then.
    StorageUnavailable
        If a file or database of the run cannot be written or read, such as on a full disk.
    Exception
        From the caller's code, as it is raised, and a ``QuantGraphError`` for a wrong return value.
        ``result.json`` says ``failed`` then, and the run can be resumed after the repair; the ``data`` of a
        ``QuantGraphError`` has ``run_id`` and ``run_dir``.
    """
    _check_texts(question, source=source, model=model, out=out, ledger=ledger, start=start, end=end)
    for symbol in symbols:
        check_text(symbol, "symbols")
    if answer is not None and on_clarify not in {None, "ask"}:
        raise BadOption("answer= and on_clarify= exclude each other; give one", parameter="on_clarify")
    on_clarify = on_clarify or ("default" if answer is None else "ask")
    settings = settings or load_settings()
    market = open_source(source, settings=settings)
    spec = RunSpec(
        question=question,
        symbols=tuple(symbols),
        start=start or "",
        end=end or "",
        cash=Account.opening(cash).cash,
        rules=rules if rules is not None else Rulebook.mainland(),
        trade=trade,
        approve=approve,
        on_clarify="function" if callable(on_clarify) else on_clarify,
    )
    resources = Resources(
        settings=settings,
        source=market,
        model=model,
        on_clarify=on_clarify,
        checkpointer=checkpointer,
        ledger=ledger,
        decider=decider,
    )
    return start_run(
        spec,
        Path(out or settings.runs_dir) / new_run_id(),
        resources,
        Driver(answer=answer, watch=watch, control=control),
        source=source_json(market, settings.data_source if source is None else source),
        model=model,
    )


def _check_texts(question: str, **others: object) -> None:
    """See that the texts can be written into the folder of a run."""
    check_sentence(question, "question")
    for name, value in others.items():
        if isinstance(value, (str, Path)):
            check_text(str(value), name)


def start_run(
    spec: RunSpec,
    folder: Path,
    resources: Resources,
    driver: Driver,
    *,
    source: Mapping[str, Any],
    model: Model | None,
    prepare: Callable[[Path], None] | None = None,
) -> dict[str, Any]:
    """Make the folder of a run, whose name is the run's, and execute the run.

    Whenever the process is killed, the folder has ``run.json`` and ``result.json``, or does not exist.

    Parameters
    ----------
    source
        See :func:`~quantgraph.runs.specification.source_json`.
    model
        The model of the run's identity, which a resume must give again.
    prepare
        Called with the hidden folder before the run is opened in it.

    Returns
    -------
    dict
        As :func:`run_strategy` does.
    """
    run_id, settings = folder.name, resources.settings
    with staged_run_folder(folder) as staged:
        if prepare is not None:
            prepare(staged)
        with open_run(spec, run_id, staged, resources) as opened:
            identity = identity_of(spec, opened.graph, replace(resources, model=model))
        manifest = Manifest(
            run_id=run_id,
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            spec=spec,
            source=source,
            budgets={"budget": settings.budget, "session_budget": settings.session_budget},
            ledger=ledger_location(resources.ledger),
            versions=library_versions(),
            identity=identity,
        )
        manifest.write(staged)
        write_result(staged, initial_result(manifest, folder))
    with lock_run(folder), open_run(spec, run_id, folder, resources) as opened:
        return execute_run(manifest, folder, opened, driver, resources.source, manifest.graph_input, run_id)
