"""The signal of a rule as a run's own: computed here by the rule, whose cell is run sealed as a check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import pandas as pd

from quantgraph._util.texts import language_of, say
from quantgraph.audit.causality import Verdict
from quantgraph.errors import BadOption, BadWindow, CodeFailed
from quantgraph.market import Moment, session_of
from quantgraph.rules import Rule, RuleEvaluator
from quantgraph.runs._outputs import StrategyFile
from quantgraph.runs._specification import OwnSignal, RunSpec
from quantgraph.runs.verification._verification import signal_of_cells
from quantgraph.runtime import OpenResources
from quantgraph.state import DataState

_NAME = "rule"
_CHECKED = 40
"""Sessions on which the sealed cell is compared, beside those that the rule needs before them."""
EARLIER = 250
"""Sessions before the window at least, on which averages without an end have settled."""


def file_of(rule: Rule, symbols: Sequence[str] = ()) -> StrategyFile:
    """The rule of ``symbols``, by default of all, as the cell that a run of it keeps."""
    return StrategyFile(about="", cells=(rule.cell(_NAME, symbols),), name=_NAME)


def rule_in(file: StrategyFile) -> Rule | None:
    """The rule whose cell a file is, unchanged; None for other code."""
    found = re.search(r"^# entry: (.+)\n# exit: (.+)$", file.cells[0], re.MULTILINE)
    symbols = re.findall(r"'([^']+)'", *re.findall(r"^symbols = (.+)$", file.cells[0], re.MULTILINE) or [""])
    if found and len(file.cells) == 1:
        with suppress(BadOption):
            rule = Rule.read(*found.groups())
            return rule if rule.cell(file.name or _NAME, symbols).strip() == file.cells[0].strip() else None
    return None


def own_signal(
    rule: Rule, symbols: Sequence[str], store: DataState, opened: OpenResources, spec: RunSpec
) -> tuple[OwnSignal, pd.DataFrame]:
    """Compute the signal of a rule of ``symbols``; ``CodeFailed`` if its sealed cell gives another."""
    language = language_of(spec.question)
    sessions = pd.DatetimeIndex(store.snapshot()["ohlcv"]["close"].index)
    symbols = symbols if {*rule.watched} - {*symbols} else ()  # others are there only where one is watched
    file, signal = file_of(rule, symbols), RuleEvaluator(store.snapshot(), symbols).signal(rule)
    if signal.isna().to_numpy().all():
        raise BadWindow(f"the rule is known nowhere: it needs {rule.lookback + 1} sessions, or an event")
    part = store.view(Moment(sessions[min(rule.lookback + _CHECKED, len(sessions)) - 1]))
    name, sealed = signal_of_cells(file, opened.runner, part.frozen(), _NAME)
    if not sealed.equals(signal.loc[sealed.index]):
        raise CodeFailed(f"the cell of the rule gives another signal than the rule: {rule.expressions}")
    en = "causal by construction: each part looks back only"
    text = say(language, zh="无未来函数：由规则构造保证，每个部分只看过去", en=en)
    verdict = Verdict(result="causal", sessions=len(sessions), proved=len(sessions), method="walked")
    coverage = {**verdict.coverage, "method": "construction"}
    proof = {**verdict.as_json(), "line": en, "text": text, "coverage": coverage}
    buys, sells = rule.words(language)
    told = say(language, zh=f"{buys}时买入，{sells}时卖出", en=f"buys when {buys}, sells when {sells}")
    if rule.exit.name == "never":
        told = say(language, zh=f"{buys}时买入，不卖出", en=f"buys when {buys}, never sells")
    own = OwnSignal(
        kind="rule",
        name=name,
        origin=told,
        cells=file.cells,
        code_hash=rule.hash,
        ref="",
        proof=proof,
        warm_up=rule.lookback + 1,
        data_start=f"{sessions[0]:%Y%m%d}" if sessions[0] < session_of(spec.start) else None,
    )
    return own, signal
