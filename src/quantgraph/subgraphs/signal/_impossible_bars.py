"""Bars that cannot be, of symbols that are traded: the user is asked before the run goes on with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quantgraph._util.texts import say
from quantgraph.audit import Report
from quantgraph.data import MarketDataSource
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import Clause, Understanding, Update, dialogue_of, progress_of, request_of
from quantgraph.subgraphs.signal._updates import question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import request_symbols, traded_symbols, understanding_hash

_IMPOSSIBLE = ("bad_price", "bad_bar")


def with_impossible_bars(report: Report, impossible: Mapping[str, str]) -> Report:
    """Return a report of data whose impossible bars are warnings, and are named where they are traded."""
    findings = tuple(
        replace(each, severity="warning") if each.code in _IMPOSSIBLE else each for each in report.findings
    )
    summary = {**report.summary, **({"impossible_bars": dict(impossible)} if impossible else {})}
    return replace(report, findings=findings, summary=summary)


def _open(state: SignalSubgraphState, summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the impossible bars that the user has not decided about."""
    dialogue = dialogue_of(state)
    decided = (*dialogue["accepted_bars"], *dialogue["waived_symbols"])
    found: Mapping[str, str] = summary.get("impossible_bars", {})
    return {code: session for code, session in found.items() if code not in decided}


def impossible_bars_question(
    state: SignalSubgraphState, report: Report, source: MarketDataSource
) -> dict[str, Any]:
    """Return the question whether to go on with bars that cannot be; empty if there are none.

    The default leaves their symbols out; where no symbol would be left there is none.
    """
    found = _open(state, report.summary)
    if not found:
        return {}
    places = ", ".join(f"{code} {session}" for code, session in list(found.items())[:5])
    places += "" if len(found) <= 5 else f" (+{len(found) - 5})"
    reason = say(
        language(state),
        zh=f"要交易的股票有不可能的行情（价格不大于零，或开高低收矛盾）：{places}。怎么办？",
        en=f"Symbols that are traded have bars that cannot be (a price <= 0, or open, high, low and close "
        f"that contradict each other): {places}. How to go on?",
    )
    return question_update(state, "bars", reason, options=_options(state, list(found), source))


def _options(state: SignalSubgraphState, codes: Sequence[str], source: MarketDataSource) -> list[str]:
    """Leaving the symbols out, if others are left; going on; and the end."""
    left = set(traded_symbols(request_of(state)["checked"], source)) - set(codes)
    others = say(language(state), zh="照原样继续|停止", en="go on as it is|stop").split("|")
    return [without_words(codes, language(state)), *others] if left else others


def bars_answer_update(
    state: SignalSubgraphState, source: MarketDataSource, *, left_out: bool, by_default: bool
) -> Update:
    """The update of a decision about the bars in question, with request and understanding."""
    codes = list(_open(state, progress_of(state)["validation"]["data_summary"]))
    request, dialogue = request_of(state)["checked"], dialogue_of(state)
    request = leave_out(request, codes, source) if left_out else request
    named = ", ".join(codes)
    became = (
        say(language(state), zh=f"去掉 {named}：行情不可能", en=f"without {named}: bars that cannot be")
        if left_out
        else say(language(state), zh=f"保留 {named} 的不可能行情", en=f"with bars of {named} that cannot be")
    )
    update: Update = {"checked": {**request, "notes": [became, *request["notes"]]}}
    if left_out:
        update["waived"] = [*dialogue["waived"], *codes]
        update["waived_symbols"] = [*dialogue["waived_symbols"], *codes]
    else:
        update["accepted_bars"] = [*dialogue["accepted_bars"], *codes]
    before = request_of(state)["understanding"]
    if before:
        clause: Clause = {"words": "", "became": became, "status": "default"}
        if not by_default:
            clause = {"words": named, "became": became, "status": "not_done" if left_out else "done"}
        trade = [code for code in before["trade"] if not (left_out and code in codes)]
        after: Understanding = {**before, "trade": trade, "clauses": [*before["clauses"], clause]}
        update["understanding"] = after
        if dialogue["confirmed"] == understanding_hash(before):
            update["confirmed"] = understanding_hash(after)
    return update


def leave_out(request: Mapping[str, Any], codes: Sequence[str], source: MarketDataSource) -> dict[str, Any]:
    """Return a request without symbols; an index among its codes becomes the members that are left."""
    if not set(codes) & set(request_symbols(request, source)):
        return dict(request)

    def without(symbols: Sequence[str]) -> str:
        return ",".join(symbol for symbol in symbols if symbol not in codes)

    return {
        **request,
        "ts_code": without(request_symbols(request, source)),
        "trade": without(traded_symbols(request, source)),
    }
