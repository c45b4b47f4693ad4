"""Starting a run: ``run_strategy``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from quantgraph.market.rulebook import Rulebook
from quantgraph.runs.begin import start_run
from quantgraph.runs.driver import Answer, Driver, RunEvent
from quantgraph.runs.resources import Resources
from quantgraph.runs.options import RunSpec
from quantgraph.runs.source_spec import source_json
from quantgraph.settings import Settings, load_settings
from quantgraph.llm.models import Model
from quantgraph.runtime.questions import OnClarify

__all__ = ["run_strategy"]


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

    The folder says what the run is (``run.json``) and how it ended (``result.json``, whose ``state``
    begins with ``running``) from the start on, so that :func:`~quantgraph.runs.resume_run` can go on with it
    whenever and however it was stopped.

    Parameters
    ----------
    question
        The sentence, in Chinese or English, of at most 10,000 characters.
    symbols, start, end
        Fixed by the caller; they win over the sentence.
    rules
        The market's rules and fees. Default: mainland China's.
    decider
        Who turns signals into orders. Default: :class:`~quantgraph.agents.SignalRule`.
    answer
        Called with each question; the run waits for what it returns, and stops to be resumed at None.
    on_clarify
        Who answers questions if ``answer`` does not: ``default`` (the default) takes what is documented and
        lists it in ``assumptions``, ``fail`` ends the run, ``ask`` lets it wait to be resumed with an answer,
        and a function is called with each question and its answers are listed in ``assumptions``.
    approve
        Whether each session's orders are a question, too, before they are sent.
    watch
        Called with what happens while it happens.
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
        what the environment says.

    Returns
    -------
    dict
        The result as it stands in ``result.json``. ``ended_because`` is ``done`` if it worked, else one of
        :data:`~quantgraph.subgraphs.signal.state.EndedBecause`, and ``error`` is one line that says what went
        wrong. ``usage`` is what was asked of models, a row for each role, model and session, ``unknown`` or
        None where a server did not say.

    Raises
    ------
    BadOption
        If an argument is outside of its range; nothing has been written then.
    StorageUnavailable
        If something of the run cannot be written or read, such as on a full disk.
    Exception
        What the caller's code raises, as it is; a ``QuantGraphError`` about what it returned. ``result.json``
        says ``failed`` then, and the run can be resumed once that is mended; the ``data`` of an error of ours
        has its ``run_id`` and ``run_dir``.
    """
    _check_texts(question, source=source, model=model, out=out, ledger=ledger, start=start, end=end)
    for symbol in symbols:
        check_text(symbol, "symbols")
    if answer is not None and on_clarify not in {None, "ask"}:
        raise BadOption("answer= and on_clarify= both say who answers; give one", parameter="on_clarify")
    who = on_clarify or ("default" if answer is None else "ask")
    settings = settings or load_settings()
    market = open_source(source, settings=settings)
    options = RunSpec(
        question=question,
        symbols=tuple(symbols),
        start=start or "",
        end=end or "",
        cash=Account.opening(cash).cash,
        rules=rules if rules is not None else Rulebook.mainland(),
        trade=trade,
        approve=approve,
        on_clarify="function" if callable(who) else who,
    )
    handles = Resources(
        settings=settings,
        source=market,
        model=model,
        on_clarify=who,
        checkpointer=checkpointer,
        ledger=ledger,
        decider=decider,
    )
    folder = Path(out or settings.runs_dir) / new_run_id()
    driver = Driver(answer=answer, watch=watch, control=control)
    told = source_json(market, settings.data_source if source is None else source)
    return start_run(options, folder, handles, driver, source=told, model=model)


def _check_texts(question: str, **others: object) -> None:
    """See that what will be written into the folder of a run can be written."""
    check_sentence(question, "question")
    for name, value in others.items():
        if isinstance(value, (str, Path)):
            check_text(str(value), name)
