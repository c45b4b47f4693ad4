"""The report: the run's results from its ledger, beside the benchmark's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pandas as pd
from langchain_core.messages import AIMessage

from quantgraph._util.texts import Language, Note, say
from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Market, ModelDecider, SessionResult, TradePlan, plan_words, simulate
from quantgraph.errors import (
    NoData,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)
from quantgraph.graph._judgement import judgement
from quantgraph.graph._state import TradingState
from quantgraph.graph._trading import Trading
from quantgraph.judgement import verdict_line
from quantgraph.market import session_of
from quantgraph.report import summarise, summary_notes
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import progress_of, request_of, written
from quantgraph.subgraphs.signal import decided_moves, left_out, market_source, only_symbols, traded_symbols

_INDEX_ERRORS = (NoData, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable, UnknownSymbol)
"""Errors of a source without levels of the index; the run is then reported without them."""


def report_node(state: TradingState, *, trading: Trading) -> dict[str, Any]:
    """Summarise the run, as far as it was traded, and close its ledger."""
    run_id, sessions = state["run_id"], trading.sessions(state)
    ledger, is_done = trading.ledger_of(run_id), state.get("ended_because") in {None, "done"}
    if not is_done:
        done = ledger.last_session(run_id)
        if done is None:
            trading.close(run_id)
            return {"session": None}
        sessions = sessions[sessions <= done]
    levels, user_language = _benchmark_levels(state, trading), language(state)
    bar_notes = _bar_notes(progress_of(state)["validation"].get("issues_found", ()))
    summary = summarise(
        ledger,
        run_id,
        trading.market(state),
        sessions,
        signal=trading.strategy(state).get("name"),
        cash=trading.opening_cash(state),
        index=levels,
        benchmark=_traded_market(state, trading),
        judge=partial(judgement, state, trading, bar_notes),
    )
    understood = _with_first_fills(state, trading, sessions, ledger.results(run_id))
    own: Sequence[Note] = ()
    if isinstance(trading.decider, ModelDecider | SignalRule):
        own = trading.decider.result_notes(list(ledger.notes(run_id).values()))
    trading.close(run_id)
    summary["plan"] = trading.plan_of(state).to_json()
    notes = [note.text(user_language) for note in (*own, *summary_notes(summary))]
    summary["notes"] = [
        *decided_moves(state),
        *_late_notes(state, trading, sessions, user_language),
        *(note.text(user_language) for note in bar_notes),
        *_plan_notes(state, trading, user_language),
        *_early_notes(state, trading, user_language),
        *notes,
        *_lacking_notes(trading.plan_of(state).benchmark if levels is None else None, user_language),
    ]
    account, benchmark = summary["account"], summary["benchmark"]
    text = verdict_line(summary["judgement"], user_language) + say(
        user_language,
        zh=f"回测完成：收益 {account['return']:.2%}，最大回撤 {account['max_drawdown']:.2%}，"
        f"成交 {account['trades']} 笔；买入持有 {benchmark['return']:.2%}。",
        en=f" Done: return {account['return']:.2%}, maximum drawdown {account['max_drawdown']:.2%}, "
        f"{account['trades']} fills; buy and hold {benchmark['return']:.2%}.",
    )
    request_notes = [] if trading.resources.makes_signal else request_of(state)["checked"]["notes"]
    closing = [*summary["notes"], *request_notes]
    text += "".join(say(user_language, zh=f"{note}。", en=f" {note}.") for note in closing)
    message = {"messages": [AIMessage(text)]} if is_done else {}  # otherwise the ending has its message
    return written(state, {"summary": summary, "session": None, "understanding": understood, **message})


_MOST_CELLS = 50_000
"""Sessions times symbols up to which it is worth its time."""


def _with_first_fills(
    state: TradingState, trading: Trading, sessions: pd.DatetimeIndex, results: Iterable[SessionResult]
) -> Any:
    """Return the understanding whose clauses say which fill of the signal rule each changed first."""
    understood, market = request_of(state)["understanding"], trading.market(state)
    cells = len(market.store.snapshot(market.data_ref)["ohlcv"]["open"].columns) * len(sessions)
    if understood is None or type(trading.decider) is not SignalRule or cells > _MOST_CELLS:
        return understood
    plan, clauses, done = trading.plan_of(state).to_json(), [*map(dict, understood["clauses"])], list(results)
    for place, signal, words in left_out(state, trading.resources):
        named = {trading.strategy(state)["name"]: signal}
        other = replace(market, data_ref=market.store.update("signal", named, base=market.data_ref))
        with suppress(QuantGraphError):  # other words need these, or what is bought then has no price
            less = TradePlan.of({word: each for word, each in plan.items() if word not in words})
            account = Account.opening(trading.opening_cash(state))
            without = simulate(other, sessions, trading.decider, account=account, plan=less)
            clauses[place]["mattered"] = _first(done, without)
    return {**understood, "clauses": clauses}


def _first(results: Iterable[SessionResult], without: Iterable[SessionResult]) -> dict[Language, str]:
    """The first session on which a symbol's fills are others without the clause."""
    for result, other in zip(results, without, strict=False):
        for symbol in sorted({fill.order.symbol for fill in (*result.fills, *other.fills)}):
            one, two = _bought(result, symbol), _bought(other, symbol)
            if one != two:
                day = f"{result.session:%Y-%m-%d} {symbol}"
                zh = f"首次改变成交：{day}，有它 {one:f} 股，没有它 {two:f} 股"
                en = f"first changes a fill: {day}, {one:f} shares with it, {two:f} without"
                return {"zh": zh, "en": en}
    return {"zh": "在这个区间里没有改变成交", "en": "changed no fill in this window"}


def _bought(result: SessionResult, symbol: str) -> Decimal:
    own = (fill for fill in result.fills if fill.order.symbol == symbol)
    return Decimal() + sum(fill.quantity if fill.side == "buy" else -fill.quantity for fill in own)


_LATE = pd.Timedelta(days=10)
"""Longer than an exchange is closed."""


def _late_notes(
    state: TradingState, trading: Trading, sessions: pd.DatetimeIndex, user_language: Language
) -> list[str]:
    """A line where the data begin after the window that was asked for."""
    asked = session_of(request_of(state)["checked"]["start"])
    first = trading.resources.store.snapshot(state["data_ref"])["ohlcv"]["close"].index[0]
    if first - asked <= _LATE or not len(sessions):
        return []
    note = say(
        user_language,
        zh=f"数据从 {first:%Y-%m-%d} 开始：从 {sessions[0]:%Y-%m-%d} 起评价，不是从 {asked:%Y-%m-%d} 起",
        en=f"the data begin on {first:%Y-%m-%d}: judged from {sessions[0]:%Y-%m-%d}, "
        f"not from {asked:%Y-%m-%d}",
    )
    return [note]


_OF_BARS = {
    "no_actions": Note(
        zh="昨收低于前收盘 {count} 次（首次 {symbol} {session}），而数据没有分红和拆分：账户按下跌计算",
        en="pre_close is below the close before {count} times, first of {symbol} on {session}, and the data "
        "has no dividends or splits: the account takes it as a fall",
    ),
    "extreme_return": Note(
        zh="{count} 次涨跌超过 50%（首次 {symbol} {session}），数据没有说明：请检查是否少了拆分",
        en="{count} moves are beyond 50%, first of {symbol} on {session}, and the data has no action for "
        "them: is a split missing?",
    ),
}
"""Findings about bars that change the account, as its notes say them."""


def _bar_notes(found: Iterable[Mapping[str, Any]]) -> list[Note]:
    known = [(_OF_BARS[each["code"]], each) for each in found if each["code"] in _OF_BARS]
    return [Note(zh=note.zh.format(**each), en=note.en.format(**each)) for note, each in known]


def _plan_notes(state: TradingState, trading: Trading, user_language: Language) -> list[str]:
    """Lines of what the decider does not carry out, and where the caller's plan replaces the sentence's."""
    replaced, plan = trading.replaced_plan(state), trading.plan_of(state).to_json()
    join, name = say(user_language, zh="、", en=", "), trading.decider.name
    left = {word: each for word, each in plan.items() if word not in trading.decider.executes}
    left_words = join.join(plan_words(left, user_language))
    taken = join.join(plan_words({word: plan[word] for word in replaced}, user_language))
    replaced_words = join.join(plan_words(replaced, user_language))
    up_to = say(
        user_language,
        zh=f"计划的这一部分没有代码执行，由 {name} 自行决定：{left_words}",
        en=f"no code carries out this part of the plan, it is up to {name}: {left_words}",
    )
    holds = say(
        user_language,
        zh=f"计划以给出的参数为准：{taken}，不是句子里的{replaced_words}",
        en=f"the plan of the options holds: {taken}, not {replaced_words} of the sentence",
    )
    return [*([up_to] if left else []), *([holds] if replaced else [])]


def _lacking_notes(benchmark: str | None, user_language: Language) -> list[str]:
    """A line about a benchmark of which the source has no levels."""
    zh, en = f"数据源没有 {benchmark} 的行情，没有与它比较", f"the source has no {benchmark} to compare with"
    return [say(user_language, zh=zh, en=en)] if benchmark else []


_RULES = {
    "tick": "最小变动价位",
    "lots": "每手股数",
    "largest order": "单笔上限",
    "day of resale": "可卖出日",
    "price band": "涨跌幅",
    "stamp duty": "印花税",
    "transfer fee": "过户费",
    "SEC section 31 fee": "SEC 规费",
    "FINRA activity fee": "FINRA 规费",
}


def _early_notes(state: TradingState, trading: Trading, user_language: Language) -> list[str]:
    """A line where the run begins before the first known rules, which are taken for it."""
    days, market = trading.sessions(state)[:1], trading.market(state)
    symbols = market.store.snapshot(market.data_ref)["ohlcv"]["open"].columns
    found = market.rules.assumed(symbols, days[0]) if len(days) else {}
    since = {
        name: max([day for what, day in found.items() if what.startswith(name)], default=None)
        for name in _RULES
    }
    rows = [(name, day) for name, day in since.items() if day is not None]
    zh = "、".join(f"{_RULES[name]}（{day} 起）" for name, day in rows)
    en = ", ".join(f"{name} (from {day})" for name, day in rows)
    note = say(
        user_language,
        zh=f"更早的规则未知，按最早已知的执行：{zh}",
        en=f"earlier rules are not known, the first known ones are taken: {en}",
    )
    return [note] if rows else []


def _traded_market(state: TradingState, trading: Trading) -> Market:
    """Return the market of what is traded alone, without what is only watched."""
    request, market = request_of(state)["checked"], trading.market(state)
    if request.get("trade") == request.get("ts_code"):
        return market
    traded = traded_symbols(request, market_source(state, trading.resources))
    return replace(market, data_ref=only_symbols(market.store, market.data_ref, traded))


def _benchmark_levels(state: TradingState, trading: Trading) -> pd.DataFrame | None:
    """Return the levels of the plan's benchmark, else of the requested index; None if the source has none."""
    request, plan = request_of(state)["checked"], trading.plan_of(state)
    code = plan.benchmark or request.get("index_code")
    source = market_source(state, trading.resources)
    first, last = session_of(request["start"]), trading.sessions(state)[-1]
    with suppress(*_INDEX_ERRORS):
        return None if code is None else _reaching(last, source.index_bars(code, first, last))
    with suppress(*_INDEX_ERRORS):
        bars = source.bars([str(plan.benchmark)], first, last) if plan.benchmark else {}
        levels = {name: bars[name][plan.benchmark] for name in ("open", "close")}
        return _reaching(last, pd.concat(levels, axis=1))
    return None


def _reaching(last: pd.Timestamp, levels: pd.DataFrame) -> pd.DataFrame:
    """The levels; ``NoData`` if they end before a run does: the rest would be a line without a move."""
    known = levels["close"].dropna().index
    if not len(known) or known[-1] < last - _LATE:
        raise NoData("the levels end before the run")
    return levels
