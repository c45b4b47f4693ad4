"""Starting a run: ``run_strategy``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.runtime import RunControl

from quantgraph._run_id import new_run_id
from quantgraph.broker.account import Account
from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption
from quantgraph.market.rulebook import Rulebook
from quantgraph.run.carry import carry
from quantgraph.run.drive import Answer, Driver, Event
from quantgraph.run.folder import held, make
from quantgraph.run.identity import identity_of
from quantgraph.run.manifest import Manifest, ledger_place, versions
from quantgraph.run.opened import Handles, begun, open_run
from quantgraph.run.options import Options
from quantgraph.run.sources import source_json
from quantgraph.settings import Settings, load_settings
from quantgraph.subgraphs.signal.kit import Model, OnClarify

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
    watch: Callable[[Event], None] | None = None,
    control: RunControl | None = None,
    trade: bool = True,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    ledger: str | Path | None = None,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Run a sentence and write strategy, signal, ledger, data and result into ``out/run_id``.

    The folder says what the run is (``run.json``) and how it ended (``result.json``, which begins with
    ``running``) from the start on, so that :func:`~quantgraph.run.resume_run` can go on with it whenever and
    however it was stopped.

    Parameters
    ----------
    question
        The sentence, in Chinese or English.
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

    Returns
    -------
    dict
        The result as it stands in ``result.json``. ``ended_because`` is ``done`` if it worked; else ``error``
        is one line that says what went wrong. ``usage`` is what was asked of models, a row for each role,
        model and session, ``unknown`` or None where a server did not say.

    Raises
    ------
    BadOption
        If an argument is outside of its range; nothing has been written then.
    """
    if answer is not None and on_clarify not in {None, "ask"}:
        raise BadOption("answer= and on_clarify= both say who answers; give one", parameter="on_clarify")
    who = on_clarify or ("default" if answer is None else "ask")
    settings = settings or load_settings()
    market = open_source(source, settings=settings)
    options = Options(
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
    handles = Handles(
        settings=settings,
        source=market,
        model=model,
        on_clarify=who,
        checkpointer=checkpointer,
        ledger=ledger,
        decider=decider,
    )
    run_id = new_run_id()
    folder = Path(out or settings.runs_dir) / run_id
    driver = Driver(answer=answer or _nobody, control=control)
    if watch:
        driver.watch = watch
    make(folder)
    begins = False
    try:
        with open_run(options, run_id, folder, handles) as opened:
            manifest = Manifest(
                run_id=run_id,
                started=datetime.now(UTC).isoformat(timespec="seconds"),
                options=options,
                source=source_json(market, settings.data_source if source is None else source),
                budgets={"budget": settings.budget, "session_budget": settings.session_budget},
                ledger=ledger_place(ledger),
                versions=versions(),
                identity=identity_of(
                    options,
                    graph=opened.graph,
                    source=market,
                    model=model,
                    settings=settings,
                    decider=decider,
                ),
            )
            manifest.write(folder)
            begins = True
            with held(folder):
                return carry(manifest, folder, opened, driver, market, begun(manifest), run_id)
    finally:
        if not begins:
            shutil.rmtree(folder)


def _nobody(_asked: Mapping[str, Any]) -> None:
    return None
