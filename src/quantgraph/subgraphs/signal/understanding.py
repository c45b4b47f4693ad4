"""The request as checked by code: watched and traded symbols, window, rule, and what is not done.

It is made once by reflection from the whole conversation. Later steps read it and nothing else.

A checked request is plain JSON; the functions here also tell which data and signal of a commit belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.files import check_sentence
from quantgraph._util.texts import Language, Note, language_of, say
from quantgraph.broker import plan_words
from quantgraph.data import AsOfSource, MarketDataSource
from quantgraph.data.symbols import index_code, resolve_symbols
from quantgraph.errors import BadOption, BadWindow, CodeFailed, NoData
from quantgraph.market import Moment, session_of, sessions_between
from quantgraph.rules import Rule, published
from quantgraph.runtime.graph_state import Clause, RuleWords, Understanding
from quantgraph.sentences import EARLIEST
from quantgraph.state import DataState, Snapshot
from quantgraph.subgraphs.signal._agents import HELD, rule_in
from quantgraph.subgraphs.signal._plan import names_an_end, side_in_words
from quantgraph.tools import read_window, split_codes


class Symbols(TypedDict):
    """The codes of a request; an index that is watched and traded is a series beside its members."""

    watch: list[str]
    trade: list[str]
    index: list[str]


def symbols_of(params: Mapping[str, Any], *, fixed: str = "") -> Symbols:
    """Return what a reading watches and trades: ``fixed``, else ``trade``, else all that are not watched."""
    named, watched = split_codes(params["ts_code"]), split_codes(params.get("watch", ""))
    traded = split_codes(fixed or params.get("trade", ""))
    traded = traded or [code for code in named if code not in watched] or named
    series = [code for code in map(index_code, watched) if code is not None]
    stocks = [code for code in watched if index_code(code) is None and code not in traded]
    return {"watch": [*series, *stocks], "trade": traded, "index": series}


def not_done_words(params: Mapping[str, Any], waived: Collection[str] = ()) -> list[str]:
    """Return the person's words that are not executed; ``waived`` are those that the user gave up."""
    clauses: Sequence[Mapping[str, Any]] = params.get("clauses", ())
    words = (clause["quote"] for clause in clauses if clause["status"] == "not_done")
    return [each for each in dict.fromkeys(words) if each not in waived]


def understand(
    params: Mapping[str, Any],
    request: Mapping[str, Any],
    symbols: Symbols,
    assumptions: Sequence[str],
    *,
    left_out: Sequence[str] = (),
    unparsed: Sequence[str] = (),
) -> Understanding:
    """Return the understanding of a reading that code has checked.

    ``assumptions`` are default answers; ``left_out`` are waived words and words that the decider does not
    execute; ``unparsed`` words are in no clause and change no trade.
    """
    clauses: list[Clause] = [
        {"words": each["quote"], "became": each["became"], "status": each["status"]}
        for each in params.get("clauses", ())
    ]
    rule = rule_in(params)
    words = _words_of(rule, params) if rule else ("", "")
    if rule and rule.exit.name == "never":
        held = say(language_of(params["strategy_desc"]), zh="买入并持有", en="buy and hold")
        words = (held if rule == HELD else words[0], "")
    known, plan = {clause["words"] for clause in clauses}, dict(params.get("plan", {}))
    clauses += [
        {"words": words, "became": "", "status": "not_done"}
        for words in dict.fromkeys([*not_done_words(params), *left_out])
        if words and words not in known
    ]
    clauses += [{"words": "", "became": answer, "status": "default"} for answer in assumptions]
    clauses += [{"words": words, "became": "", "status": "unparsed"} for words in unparsed]
    return {
        "watch": symbols["watch"],
        "trade": symbols["trade"],
        "index": symbols["index"],
        "windows": [[request["start"], request["end"]]],
        "rule": {
            "entry": words[0] or side_in_words(params, "entry") or params["strategy_desc"],
            "exit": words[1] if rule else side_in_words(params, "exit"),
            "exit_is_default": bool(params.get("entry")) and not (params.get("exit") or names_an_end(plan)),
        },
        "plan": plan,
        "clauses": clauses,
    }


def _words_of(rule: Rule, params: Mapping[str, Any]) -> tuple[str, str]:
    """When a rule buys and sells, with what was read of the words where code computes a condition."""
    language = language_of(params["strategy_desc"])
    read = {each["name"]: each["became"] or each["quote"] for each in params["clauses"]}

    def told(code: re.Match[str]) -> str:
        words = read.get(code[1], code[1])
        return say(language, zh=f"「{words}」（代码）", en=f'"{words}" (code)')

    buys, sells = rule.words(language)
    code = say(language, zh=r"代码 (\w+)", en=r"\bcode (\w+)")
    return re.sub(code, told, buys), re.sub(code, told, sells)


def understanding_hash(understanding: Understanding | None) -> str:
    """Return the content hash of an understanding."""
    return content_hash(canonical_json(understanding), size=8)


def understanding_lines(understanding: Understanding, language: Language) -> list[str]:
    """Return what a person is shown before anything trades, a line each.

    >>> understanding_lines(
    ...     {
    ...         "watch": ["000016.SH"], "trade": ["600519.SH"], "index": ["000016.SH"],
    ...         "windows": [["20250102", "20251031"]], "plan": {},
    ...         "rule": {"entry": "closes above its 20-day average", "exit": "", "exit_is_default": True},
    ...         "clauses": [{"words": "stop at 5%", "became": "", "status": "not_done"}],
    ...     },
    ...     "en",
    ... )
    ['watched: 000016.SH (the index itself)', 'traded: 600519.SH', 'window: 20250102 - 20251031',
     'rule: entry closes above its 20-day average; exit not said', 'not done: stop at 5%']
    """

    def words(zh: str, en: str) -> str:
        return say(language, zh=zh, en=en)

    colon, comma, clauses = words("：", ": "), words("、", ", "), understanding["clauses"]
    lines = [*understanding.get("changed", ())]
    if understanding["watch"]:
        own = words("（指数本身）", " (the index itself)")
        watched = [code + (own if code in understanding["index"] else "") for code in understanding["watch"]]
        lines.append(words("观察", "watched") + colon + comma.join(watched))
    lines.append(words("交易", "traded") + colon + comma.join(understanding["trade"]))
    lines.append(words("区间", "window") + colon + comma.join(map(" - ".join, understanding["windows"])))
    if rule := _rule_text(understanding["rule"], words):
        lines.append(words("规则", "rule") + colon + rule)
    if understanding["plan"]:
        lines.append(words("计划", "plan") + colon + comma.join(plan_words(understanding["plan"], language)))
    for status, label in (
        ("default", words("默认", "default")),
        ("not_done", words("不执行", "not done")),
        ("unparsed", words("未解读", "not read")),
    ):
        for clause in (each for each in clauses if each["status"] == status):
            parts = [each for each in (clause["words"], clause["became"]) if each not in _SAID]
            lines.append(label + colon + " → ".join(parts))
    told = [(each["words"] or each["became"], each) for each in clauses if "mattered" in each]
    return lines + [words(f"「{said}」", f'"{said}" ') + each["mattered"][language] for said, each in told]


_SAID = ("", "不执行", "not done")  # by the label of the line


def rule_line(understanding: Understanding, language: Language) -> str:
    """Return the rule of an understanding, entry and exit, as one phrase."""
    return _rule_text(understanding["rule"], lambda zh, en: say(language, zh=zh, en=en))


def _rule_text(rule: RuleWords, words: Callable[[str, str], str]) -> str:
    is_unsaid = not rule["exit"] and not rule["exit_is_default"]
    if is_unsaid or rule["exit"] == rule["entry"]:  # buy and hold
        return rule["entry"]
    left = rule["exit"] or words("未说明", "not said")
    return words(f"买入 {rule['entry']}；卖出 {left}", f"entry {rule['entry']}; exit {left}")


_SYNTHETIC = Note(zh="数据是合成的，不代表任何真实股票", en="the data are synthetic, not real stocks")


def check_constraints(
    constraints: Mapping[str, str], source: MarketDataSource, last: pd.Timestamp
) -> dict[str, str]:
    """Return the caller's parameters that are set; without an end, the window ends at ``last``."""
    fixed = {key: value for key, value in constraints.items() if value}
    for key, value in fixed.items():
        check_sentence(value, key)
    if "ts_code" in fixed:
        resolve_symbols(source, split_codes(fixed["ts_code"]), last)
    if "start_date" in fixed:
        fixed.setdefault("end_date", f"{last:%Y%m%d}")
    dates = {name: session_of(fixed[name], name=name) for name in ("start_date", "end_date") if name in fixed}
    if len(dates) == 2 and dates["start_date"] > dates["end_date"]:
        raise BadWindow(f"start_date={fixed['start_date']} is after end_date={fixed['end_date']}; swap them")
    return fixed | {name: f"{date:%Y%m%d}" for name, date in dates.items()}


def with_constraints(text: str, constraints: Mapping[str, str]) -> str:
    """Return the user's text with the caller's constraints as its last line."""
    lines = [text, constraints.get("ts_code", "")]
    if "start_date" in constraints:
        start, end = constraints["start_date"], constraints["end_date"]
        lines.append(say(language_of(text), zh=f"{start}到{end}", en=f"from {start} to {end}"))
    return "\n".join(line for line in lines if line)


def missing_part(kind: str, params: Mapping[str, Any]) -> Literal["symbol", "window", "strategy"] | None:
    """Return the first part that is missing: code, then window, then strategy."""
    return next(iter(missing_parts(kind, params)), None)


def missing_parts(kind: str, params: Mapping[str, Any]) -> list[Literal["symbol", "window", "strategy"]]:
    """Return all parts that are missing."""
    missing: dict[Literal["symbol", "window", "strategy"], bool] = {
        "symbol": not params.get("ts_code"),
        "window": not params.get("start_date") or not params.get("end_date"),
        "strategy": kind in ("signal_gen", "mixed") and not params.get("strategy_desc"),
    }
    return [part for part, is_missing in missing.items() if is_missing]


def check_request(
    params: Mapping[str, Any], symbols: Symbols, source: AsOfSource, language: str
) -> dict[str, Any]:
    """Return the request as plain JSON, its dates cut to the run's moment, its codes known to the source.

    ``ts_code`` are the stocks to fetch, ``trade`` the traded ones, ``index`` the indices to fetch levels of.
    ``notes`` are for the reader of the result, in ``language``. Errors are for the user to correct.
    """
    traded, first = ",".join(symbols["trade"]), f"{source.sessions()[0]:%Y%m%d}"
    since = first if params["start_date"] == EARLIEST else params["start_date"]
    resolved, start, end, notes = read_window(source, source.moment, traded, since, params["end_date"])
    if not resolved.symbols:
        raise BadOption(f"ts_code={traded!r} matches no symbol of {source.name}")
    watched = [code for code in symbols["watch"] if code not in symbols["index"]]
    codes = ",".join([*symbols["trade"], *watched])
    if watched:
        notes = read_window(source, source.moment, codes, since, params["end_date"])[3]
    if source.invents(resolved.symbols):
        notes = [*notes, _SYNTHETIC]
    return {
        "ts_code": codes,
        "trade": traded,
        "index": list(symbols["index"]),
        "start": f"{start:%Y%m%d}",
        "end": f"{end:%Y%m%d}",
        "indicators": sorted(set(params["required_indicators"])),
        "strategy": params["strategy_desc"],
        "notes": [note.text(language) for note in notes],
        "index_code": resolved.index_code,
    }


def request_symbols(request: Mapping[str, Any], source: MarketDataSource) -> tuple[str, ...]:
    """Return the codes of a checked request whose bars it needs, ascending."""
    return _resolve(request["ts_code"], request, source)


def traded_symbols(request: Mapping[str, Any], source: MarketDataSource) -> tuple[str, ...]:
    """Return the codes of a checked request that orders may name, ascending."""
    return _resolve(request["trade"], request, source)


def only_traded(name: str, signal: pd.DataFrame, traded: Collection[str]) -> pd.DataFrame:
    """Return a signal's columns of traded symbols; ``CodeFailed`` if it marks another symbol."""
    watched = [symbol for symbol in signal.columns if symbol not in traded]
    values = signal[watched].to_numpy(dtype=float)
    rows, columns = np.nonzero(np.nan_to_num(values))
    if len(rows):
        day, symbol, value = signal.index[rows[0]], watched[columns[0]], values[rows[0], columns[0]]
        raise CodeFailed(
            f"signal[{name!r}] has {value:g} at ({day:%Y-%m-%d}, {symbol}), which is only watched; hand "
            f"over the traded columns alone: {', '.join(sorted(traded)[:3])}",
            symbol=symbol,
        )
    return signal.drop(columns=watched) if watched else signal


def _resolve(codes: str, request: Mapping[str, Any], source: MarketDataSource) -> tuple[str, ...]:
    as_of = Moment.at(request["end"])
    return read_window(source, as_of, codes, request["start"], request["end"])[0].symbols


def market_sessions(request: Mapping[str, Any], source: MarketDataSource) -> pd.DatetimeIndex:
    """Return the sessions of the market of a checked request."""
    if not isinstance(source, AsOfSource):
        return source.sessions()
    return source.sessions_of(request_symbols(request, source))


def request_sessions(request: Mapping[str, Any], source: MarketDataSource) -> pd.DatetimeIndex:
    """Return the sessions of a checked request's window."""
    return sessions_between(
        market_sessions(request, source), session_of(request["start"]), session_of(request["end"])
    )


def data_start(request: Mapping[str, Any]) -> pd.Timestamp:
    """Return the first date of a checked request's data: its window's, or an earlier one that is needed."""
    return session_of(request.get("data_start", request["start"]))


def has_data(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource
) -> tuple[bool, bool]:
    """Return whether a commit holds the bars, and whether it holds the indicators, of this request."""
    snapshot = store.snapshot(ref)
    symbols = pd.Index(request_symbols(request, source))
    sessions = request_sessions(request, source)

    def covers(panel: str, name: str) -> bool:
        if name not in snapshot[panel]:
            return False
        frame = snapshot[panel][name]
        return bool(symbols.isin(frame.columns).all() and sessions.isin(frame.index).all())

    levels = all(_has_levels(snapshot, code, sessions) for code in request["index"])
    bars = levels and all(covers("ohlcv", name) for name in ("open", "close"))
    return bars, all(covers("indicators", name) for name in request["indicators"])


def _has_levels(snapshot: Snapshot, code: str, sessions: pd.DatetimeIndex) -> bool:
    """Whether a commit has the closes of an index, of the last session of a window at least."""
    closes = snapshot["index"]["close"] if "close" in snapshot["index"] else pd.DataFrame()
    return code in closes and bool(closes[code].last_valid_index() in sessions)


def fetch_levels(
    store: DataState,
    ref: str,
    codes: Sequence[str],
    source: MarketDataSource,
    *,
    first: pd.Timestamp,
    last: pd.Timestamp,
) -> str:
    """Return the commit with the levels of indices on top of ``ref``."""
    for code in codes:
        levels = source.index_bars(code, first, last)
        frames = {str(name): levels[[name]].set_axis([code], axis=1) for name in levels}
        ref = store.update("index", frames, base=ref)
    return ref


def has_needed_sessions(store: DataState, ref: str, request: Mapping[str, Any]) -> bool:
    """Return whether a commit has the window's bars and the bars needed before it."""
    begin = store.snapshot(ref)["ohlcv"]["open"].index[0]
    return "data_start" not in request or bool(begin <= data_start(request))


def with_sessions(
    store: DataState,
    ref: str,
    request: Mapping[str, Any],
    source: MarketDataSource,
    *,
    first: pd.Timestamp,
    last: pd.Timestamp,
) -> str:
    """Return the commit with the request's bars and indicators of more sessions on top of ``ref``."""
    symbols = request_symbols(request, source)
    ref = store.update("ohlcv", source.bars(symbols, first, last), base=ref)
    with suppress(NoData):  # an index may be younger than its members
        ref = fetch_levels(store, ref, request["index"], source, first=first, last=last)
    if request["indicators"]:
        earlier = source.indicators(symbols, first, last, request["indicators"])
        ref = store.update("indicators", earlier, base=ref)
    return with_published(store, ref, request)


def with_published(store: DataState, ref: str, request: Mapping[str, Any]) -> str:
    """Return the commit with the limits and the calendar that the request's rule reads, on top of ``ref``."""
    if trees := trees_in(request):
        for panel, frames in published(store, ref, rule_of_trees(trees).inputs).items():
            ref = store.update(panel, frames, base=ref)
    return ref


def trees_in(request: Mapping[str, Any]) -> list[str]:
    """Return the expressions of a checked request's rule, whole or with conditions that code computes."""
    return list(request.get("trees") or request.get("parts", {}).get("trees", ()))


def coded_in(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the conditions that code computes beside others that were read, by name, in words."""
    return dict(request.get("parts", {}).get("coded", {}))


def rule_of_trees(trees: Sequence[str]) -> Rule:
    """Return the rule of a checked request."""
    entry, leave = trees
    return Rule.read(entry, None if leave == "never()" else leave)


def restrict_to_request(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource
) -> str:
    """Return the commit that holds only the request's symbols and window, and sessions needed before it.

    A request so gives the same signal whatever else its thread or its model fetched. If any frame is cut,
    the signal is removed. Records about other symbols are removed too; those after the window are not shown.
    """
    symbols = frozenset(request_symbols(request, source))
    ref = store.only_about(symbols.union(request["index"]), ref)
    snapshot = store.snapshot(ref)
    first, last = data_start(request).to_datetime64(), session_of(request["end"]).to_datetime64()
    panels: dict[str, dict[str, pd.DataFrame]] = {"signal": {}}
    complete = True
    columns_of = {"ohlcv": symbols, "indicators": symbols, "index": frozenset(request["index"])}
    for panel, wanted in columns_of.items():
        panels[panel] = {}
        for name in snapshot[panel]:
            frame = snapshot[panel].frozen(name)
            rows = (frame.sessions >= first) & (frame.sessions <= last)
            columns = np.array([symbol in wanted for symbol in frame.symbols])
            complete = complete and bool(rows.all() and columns.all())
            if rows.any() and columns.any():
                panels[panel][name] = frame.frame.iloc[rows, columns]
    return ref if complete else store.override(base=ref, **panels)


def has_signal(store: DataState, ref: str, request: Mapping[str, Any], strategy: Mapping[str, Any]) -> bool:
    """Whether the commit holds the signal of this strategy for this request, made on exactly these data."""
    return bool(
        strategy
        and strategy["request"] == request_hash(request)
        and strategy["data_ref"] == store.without("signal", ref)
        and strategy["name"] in store.snapshot(ref)["signal"]
    )


def request_hash(request: Mapping[str, Any]) -> str:
    """Return the content hash of a request."""
    return content_hash(canonical_json(dict(request)), size=8)
