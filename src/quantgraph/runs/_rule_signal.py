"""The signal of a rule as a run's own: computed here by the rule, whose cell is run sealed as a check."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from quantgraph._util.texts import language_of, say
from quantgraph.audit.causality import check_causality
from quantgraph.errors import BadWindow
from quantgraph.market import Moment, session_of
from quantgraph.rules import Rule, trials_of
from quantgraph.runs._outputs import StrategyFile
from quantgraph.runs._specification import OwnSignal, RunSpec
from quantgraph.runtime import OpenResources
from quantgraph.state import DataState

_NAME = "rule"
EARLIER = 250
"""Sessions before the window at least, on which averages without an end have settled."""


def file_of(rule: Rule, symbols: Sequence[str] = ()) -> StrategyFile:
    """The rule of ``symbols``, by default of all, as the cell that a run of it keeps."""
    return StrategyFile(about="", cells=(rule.cell(_NAME, symbols),), name=_NAME)


def own_signal(
    rule: Rule, symbols: Sequence[str], store: DataState, opened: OpenResources, spec: RunSpec
) -> tuple[OwnSignal, pd.DataFrame]:
    """Compute the signal of a rule of ``symbols``; ``CodeFailed`` if its sealed cell gives another."""
    language = language_of(spec.question)
    sessions = pd.DatetimeIndex(store.snapshot()["ohlcv"]["close"].index)
    symbols = symbols if {*rule.watched} - {*symbols} else ()  # others are there only where one is watched
    file = file_of(rule, symbols)
    trials = trials_of(opened.runner, file.cells, _NAME, prove=opened.settings.audit.prove)
    verdict = check_causality(trials, store.view(Moment(sessions[-1])).frozen(), warm_up=False)
    if verdict.signal is None or verdict.signal.isna().to_numpy().all():
        raise BadWindow(
            f"the rule is known nowhere: it needs {rule.lookback + 1} sessions, or what the data lack"
        )
    buys, sells = rule.words(language)
    told = say(language, zh=f"{buys}时买入，{sells}时卖出", en=f"buys when {buys}, sells when {sells}")
    if rule.exit.name == "never":
        told = say(language, zh=f"{buys}时买入，不卖出", en=f"buys when {buys}, never sells")
    own = OwnSignal(
        kind="rule",
        name=_NAME,
        origin=told,
        cells=file.cells,
        code_hash=rule.hash,
        ref="",
        proof={**verdict.as_json(), "text": verdict.text(language), "seconds": 0.0},
        warm_up=rule.lookback + 1,
        data_start=f"{sessions[0]:%Y%m%d}" if sessions[0] < session_of(spec.start) else None,
    )
    return own, verdict.signal
