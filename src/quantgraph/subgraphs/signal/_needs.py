"""May it run: what a request needs besides its words, the decider's data, indicators, memory."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import talib
from pydantic import ValidationError

from quantgraph._util.files import available_memory
from quantgraph._util.texts import Note, say
from quantgraph.broker import Decider, ModelDecider
from quantgraph.data import BAR_FIELDS, INDICATOR_FIELDS, MarketDataSource, record_kinds_of, records_of
from quantgraph.errors import BadOption, DataTooLarge, NoData, UnknownField
from quantgraph.llm import KeylessPlanner, get_llm
from quantgraph.market import session_of
from quantgraph.recording.scope import call_once
from quantgraph.runtime import OpenResources, settings_of
from quantgraph.runtime.endings import is_edited, language
from quantgraph.runtime.graph_state import changed, request_of
from quantgraph.sentences import without_names
from quantgraph.settings import check_role
from quantgraph.state import DataState, Record, RecordKind, Snapshot
from quantgraph.subgraphs.signal._agents import Params, known_source
from quantgraph.subgraphs.signal._source_facts import known_bars, known_indicators
from quantgraph.subgraphs.signal._updates import question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    check_request,
    data_start,
    market_sessions,
    missing_part,
    request_sessions,
    request_symbols,
    restrict_to_request,
    symbols_of,
    with_sessions,
)
from quantgraph.tools import split_codes

_RECENT_KINDS: frozenset[RecordKind] = frozenset({"news", "memory"})
"""Kinds of records that lose their worth; the others hold until they are replaced."""
_RECENT_DAYS = pd.Timedelta(days=14)
"""Days before the data of which there is news: more than the longest holiday of an exchange."""
_CLAUSE_END = re.compile(r"[,，;；。\n]|[.]\s")  # "贵州茅台，"
_TRADES = re.compile(  # "买入"
    r"\b(?:buy|sell|hold|enter|exit|long|close)\b|[买卖持平清建加减]仓|买|卖|持有|入场|出场", re.IGNORECASE
)
_WORDS = re.compile(r"[a-z]{3,}|\d+|[\u4e00-\u9fff]{2}")  # "上穿"
_DAY = r"(?:\d{8}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}年(?:\d{1,2}月)?(?:\d{1,2}[日号])?)"
_SAME_YEAR = r"(?:(?:\d{1,2}月)?\d{1,2}[日号]|\d{1,2}月|\d{1,2}[-/.]\d{1,2}(?!\d))"
_WINDOW = re.compile(  # "from 2024-01-02 to 2024-06-30"
    rf"(?:\b(?:from|between)\s+)?{_DAY}"
    rf"(?:\s*(?:to|until|till|through|and|[-–~至到])\s*(?:{_DAY}|{_SAME_YEAR}))?"
)
_LABELS: frozenset[RecordKind] = frozenset({"name"})
"""Kinds of records that are not missed where there are none."""
_BEGINNING = pd.Timestamp("1970-01-01")


_PARTS = {"symbol": "ts_code", "window": "start_date and end_date", "strategy": "strategy_desc"}


def with_request(state: SignalSubgraphState, resources: OpenResources) -> SignalSubgraphState:
    """Return the state of a node that a host calls with the documented fields alone, with what these lack.

    The request is ``user_intent.params`` as checked by code; data that are ready are the store's latest.
    """
    if request_of(state)["checked"] and not is_edited(state):
        return state
    intent = state["user_intent"]
    try:
        params = Params.model_validate(intent.get("params") or {}).model_dump()
    except ValidationError as error:
        wrong = ", ".join(str(each["loc"][0]) for each in error.errors())
        raise BadOption(f"user_intent.params is not valid: {wrong}", parameter="user_intent.params") from None
    if missing := missing_part(intent.get("type", ""), params):
        raise BadOption(
            f"user_intent.params has no {_PARTS[missing]}; reflection_node fills it from the messages",
            parameter="user_intent.params",
        )
    if "data_ref" in state:
        ref = request_of(state)["given_ref"]
        state = changed(state, {"given_ref": state["data_ref"] if ref is None else ref})
    elif state["data_ready"]:
        state = {**state, "data_ref": resources.store.head}
    params["required_indicators"] = fields_to_fetch(params["required_indicators"])
    check_fields(params["required_indicators"])
    source = known_source(state, resources)
    return changed(state, {"checked": check_request(params, symbols_of(params), source, language(state))})


def rule_as_worded(rule: str, text: str) -> str:
    """Return a rule that a model has read, in the user's words; "" if it is not from the user.

    A rule whose clauses all stand in the text, or half of whose words do, stays; in place of another one the
    user's own clauses that trade are the rule.
    """
    own_text, clauses = _plain(text), list(filter(None, map(_plain, _CLAUSE_END.split(rule))))
    if all(clause in own_text for clause in clauses):
        return rule
    own = [clause.strip() for clause in _CLAUSE_END.split(text) if _TRADES.search(clause)]
    words = _WORDS.findall(rule.casefold())
    is_near = 2 * sum(word in own_text for word in words) >= len(words)
    return "; ".join(own) or (rule if is_near else "")


def _plain(text: str) -> str:
    """Return a text in small letters, without spaces and outer punctuation."""
    return "".join(text.casefold().split()).strip(".,;:!?。，；：！？、")


def rule_in_text(params: Mapping[str, Any], words: Sequence[str], text: str, aliases: Sequence[str]) -> str:
    """Return the rule of a reading and the clauses that were not read, in the user's words."""
    rule, codes = params["strategy_desc"], split_codes(params["ts_code"])
    own_text, text = _without_window(rule, aliases, codes), without_names(text, (*aliases, *codes))
    words = [word for word in words if word.casefold() in text.casefold() and word not in rule]
    clauses = [_without_window(clause, (), ()) for clause in _CLAUSE_END.split(text)]
    kept = [
        each
        for each in clauses
        if any(word.casefold() in each.casefold() for word in words)
        or (words and not rule and _TRADES.search(each))
    ]
    return "; ".join([*([own_text] if own_text else []), *dict.fromkeys(kept)])


def _without_window(rule: str, aliases: Sequence[str], codes: Sequence[str]) -> str:
    """Return a rule without the decider's name, dates, and what it begins with: codes and signs."""
    rule = " ".join(_WINDOW.sub(" ", without_names(rule, aliases)).split())
    first = "|".join([r"on\b", r"[\s,，、:：;；.。]", *map(re.escape, codes)])
    return re.sub(rf"^(?:{first})+", "", rule, flags=re.IGNORECASE)  # "600519.SH:"


def has_keyless_models(decider: Decider, resources: OpenResources) -> bool:
    """Whether the keyless planner stands in for one of the decider's models: it executes no rule in words.

    A replay has no models: it takes the answer from the record.
    """
    roles = ModelDecider.of(decider).roles
    if not roles:
        return False

    def ask() -> bool:
        chosen = (
            get_llm(
                check_role(role),
                model=resources.model,
                settings=settings_of(decider, role, resources.settings),
            )
            for role in roles
        )
        return any(isinstance(model, KeylessPlanner) for model in chosen)

    return call_once("code", {"step": "keyless_models", "roles": list(roles)}, ask)


def rule_note(decider: Decider, rule: str) -> Note:
    """Return the note that a rule in words was handed to the decider's models, or to who else decides."""
    if not ModelDecider.of(decider).roles:
        return Note(
            zh=f"规则已原样交给 {decider.name}，没有代码检查是否遵守：{rule}",
            en=f"{decider.name} is given the rule in your words, and no code checks that it is followed: "
            f"{rule}",
        )
    return Note(
        zh=f"规则已原样交给 {decider.name} 的模型，没有代码检查是否遵守：{rule}",
        en=f"the models of {decider.name} are given the rule in your words, and no code checks that they "
        f"follow it: {rule}",
    )


def invented_rule_note(rule: str) -> Note:
    """Return the note that a rule which the model invented is left out."""
    return Note(
        zh=f"模型读出的规则没有人说过，未采用：{rule}",
        en=f"a model read a rule that the sentence does not have; it is left out: {rule}",
    )


def keyless_note(decider: Decider) -> Note:
    """Return the note that no language model decides."""
    return Note(
        zh=f"没有语言模型参与决策：{decider.name} 的模型由无密钥规划器按固定规则代替",
        en=f"no language model decides: the keyless planner stands in for the models of {decider.name} "
        "with a fixed rule",
    )


def not_executed_note(decider: Decider, words: str) -> Note:
    """Return the note that a decider without a signal does not execute the user's words."""
    return Note(
        zh=f"决策器 {decider.name} 不执行：{words}", en=f"decider {decider.name} does not execute: {words}"
    )


def needed_start(decider: Decider, sessions: pd.DatetimeIndex, start: pd.Timestamp) -> pd.Timestamp | None:
    """Return the first of the sessions before ``start`` that a decider needs; None if there is none."""
    before = sessions[sessions < start]
    count = min(decider.needs.sessions, len(before))
    return before[-count] if count else None


def needs_notes(
    decider: Decider,
    sessions: pd.DatetimeIndex,
    start: pd.Timestamp,
    data: Snapshot,
    fetched: Collection[RecordKind] | None = None,
) -> list[Note]:
    """Return notes on what a decider needs and the data do not have.

    Parameters
    ----------
    sessions
        Sessions of the source or the data.
    data
        What the records are looked for in.
    fetched
        Kinds of records that are still to be fetched; None if nothing is, so that indicators are needed, too.
    """
    there, needed = int((sessions < start).sum()), decider.needs.sessions
    notes = [
        Note(zh=f"没有数据源提供 {kind} 类记录", en=f"no source gives records of kind {kind}")
        for kind in decider.needs.records
        if kind not in {*(fetched or ()), *_LABELS} and not data.records(kind)
    ]
    if there < needed:
        notes.append(_fewer_sessions(decider, there))
    names = decider.needs.indicators if fetched is None else ()
    return notes + lacking_indicators(name for name in names if name not in data["indicators"])


def lacking_indicators(names: Iterable[str]) -> list[Note]:
    """Return notes on indicators that a decider needs and the data do not have."""
    return [
        Note(
            zh=f"决策器需要指标 {name}，数据中没有",
            en=f"the decider needs the indicator {name}, which the data do not have",
        )
        for name in names
    ]


def fetch_needed_sessions(
    store: DataState,
    ref: str,
    request: Mapping[str, Any],
    source: MarketDataSource,
    decider: Decider,
    *,
    attempt: Mapping[str, int],
) -> tuple[str, dict[str, Any], list[Note]]:
    """Fetch the sessions before the window that a request needs, onto a commit with the window's data."""
    request, asked, sessions = dict(request), data_start(request), market_sessions(request, source)
    before = sessions[sessions < session_of(request["start"])]

    def fetch() -> dict[str, Any]:
        try:
            extended = with_sessions(store, ref, request, source, first=asked, last=before[-1])
        except NoData:
            return {"data_ref": ref, "first": None}
        extended = restrict_to_request(store, extended, request, source)
        return {"data_ref": extended, "first": f"{store.snapshot(extended)['ohlcv']['open'].index[0]:%Y%m%d}"}

    facts = {"step": "earlier_sessions", "data_ref": ref, "request": request, "source": source.name}
    fetched = call_once("code", {**facts, **attempt}, fetch)
    first = fetched["first"]
    if first == f"{asked:%Y%m%d}":
        return fetched["data_ref"], request, []
    del request["data_start"]
    there = 0
    if first is not None and first < request["start"]:
        request["data_start"] = first
        there = int((before >= session_of(first)).sum())
    return fetched["data_ref"], request, [_fewer_sessions(decider, there)]


def has_needed_records(
    store: DataState, ref: str, request: Mapping[str, Any], source: MarketDataSource, decider: Decider
) -> bool:
    """Return whether the records that a decider needs and the source has are fetched or in the commit."""
    fetched = request.get("records", ())
    missing = [kind for kind in decider.needs.records if kind not in fetched]
    data = store.snapshot(ref)
    return not missing or all(data.records(kind) for kind in record_kinds_of(source) if kind in missing)


def fetch_needed_records(
    store: DataState,
    ref: str,
    request: Mapping[str, Any],
    source: MarketDataSource,
    decider: Decider,
    *,
    attempt: Mapping[str, int],
) -> tuple[str, dict[str, Any], list[Note]]:
    """Fetch the records that a decider needs, up to the end of the request's window, on top of a commit.

    News is fetched from two weeks before the request's data on; what holds until it is replaced, such as a
    filing, from the beginning.
    """
    request = dict(request)
    kinds = [kind for kind in decider.needs.records if kind in record_kinds_of(source)]
    if not kinds:
        return ref, request, []
    symbols, last = (*request_symbols(request, source), *request["index"]), session_of(request["end"])

    def fetch() -> str:
        found: list[Record] = []
        for recent in (True, False):
            chosen = [kind for kind in kinds if (kind in _RECENT_KINDS) is recent]
            first = data_start(request) - _RECENT_DAYS if recent else _BEGINNING
            found += records_of(source, chosen, symbols, first, last) if chosen else ()
        return store.record(found, base=ref)

    facts = {"step": "records", "data_ref": ref, "request": request, "kinds": kinds, "source": source.name}
    fetched = call_once("code", {**facts, **attempt}, fetch)
    data = store.snapshot(fetched)
    notes = [
        Note(
            zh=f"{source.name} 没有这些代码的 {kind} 类记录",
            en=f"{source.name} has no records of kind {kind} about these symbols",
        )
        for kind in kinds
        if kind not in _LABELS and not data.records(kind)
    ]
    return fetched, {**request, "records": kinds}, notes


def _fewer_sessions(decider: Decider, there: int) -> Note:
    needed = decider.needs.sessions
    return Note(
        zh=f"决策器 {decider.name} 需要区间之前的 {needed} 个交易日，数据只有 {there} 个",
        en=f"decider {decider.name} needs {needed} sessions before the window; the data have {there}",
    )


_BAR_NAMES = frozenset({*BAR_FIELDS, "boll", "bollinger", "momentum", "price", "return", "volume"})
"""Names that models use for what prices and volumes give, besides the functions of TA-Lib."""


@functools.cache
def _talib_functions() -> frozenset[str]:
    return frozenset(name.lower() for name in talib.get_functions())  # type: ignore[no-untyped-call]


def fields_to_fetch(names: Iterable[str]) -> list[str]:
    """Return the fields to fetch, in lower case, each once, without what bars hold or bars give.

    >>> fields_to_fetch(["PE ", "close", "ma5", "RSI(14)", "roe", "pe"])
    ['pe', 'roe']
    """
    written = dict.fromkeys(name.strip().lower() for name in names)
    return [name for name in written if name not in _BAR_NAMES and not _is_computed(name)]


def check_fields(names: Sequence[str]) -> None:
    """Check that the indicators exist."""
    unknown = [name for name in names if name not in INDICATOR_FIELDS]
    if unknown:
        raise _unknown_field(unknown, INDICATOR_FIELDS, f"there is no daily indicator {', '.join(unknown)}")


def check_source_fields(request: Mapping[str, Any], source: MarketDataSource) -> None:
    """After a fetch without indicators, check that the source has them at all.

    The source is asked once in a run, about one symbol and one session.
    """
    names, symbol = request["indicators"], request_symbols(request, source)[:1]
    session = request_sessions(request, source)[-1]

    def probe() -> dict[str, Any]:
        try:
            source.indicators(symbol, session, session, names)
        except (NoData, UnknownField) as error:
            return {name: list(error.data.get(name, ())) for name in ("fields", "available")}
        return {"fields": [], "available": []}

    result = call_once("source", {"has": names, "source": source.name}, probe)
    if result["fields"]:
        lacking = f"{source.name} has no daily indicator {', '.join(result['fields'])}"
        raise _unknown_field(result["fields"], result["available"], lacking)


def check_known_fields(names: Sequence[str], source: MarketDataSource) -> None:
    """Check before a fetch that the source has daily indicators; the error names what is there."""
    available = known_indicators(source) if names else None
    lacking = [] if available is None else [name for name in names if name not in available]
    if lacking:
        bars = [name for name in BAR_FIELDS[:7] if name in (known_bars(source) or ())]
        problem = f"there is no daily indicator {', '.join(lacking)}"
        raise _unknown_field(lacking, available or [], problem, bars)


def fields_question_update(state: SignalSubgraphState, error: UnknownField) -> dict[str, Any]:
    """Return the update that asks which fields are meant, or whether to go on without them."""
    names, user_language = error.data["fields"], language(state)
    listed, bars = "、".join(error.data["available"]) or "无", "、".join(error.data["bars"])
    there = f"现有：{listed}" + (f"；行情有：{bars}" if bars else "")
    reason = say(user_language, zh=f"没有每日指标 {'、'.join(names)}；{there}", en=error.message)
    options = [*error.data["close"], without_words(names, user_language)]
    return question_update(state, "fields", reason, words=names, options=options)


def _unknown_field(
    names: Sequence[str], available: Sequence[str], problem: str, bars: Sequence[str] = ()
) -> UnknownField:
    close = [near for name in names for near in difflib.get_close_matches(name, available, n=3, cutoff=0.5)]
    beside = f"; bars: {', '.join(bars)}" if bars else ""
    return UnknownField(
        f"{problem}; available: {', '.join(available) or 'none'}{beside}",
        fields=list(names),
        bars=list(bars),
        close=list(dict.fromkeys(close)),
        available=list(available),
    )


def _is_computed(name: str) -> bool:
    """Whether it is a TA-Lib function, with numbers or an output: ``ma5``, ``rsi(14)``, ``macd_dif``."""
    return not _talib_functions().isdisjoint({name, re.split(r"[^a-z]", name, maxsplit=1)[0]})  # "ma5"


BYTES_A_CELL = {"rule": 280, "code": 400}
"""Of a stock on a session: ten fields of eight bytes, so often over all processes (docs/performance.md)."""


def check_fits(request: Mapping[str, Any], symbols: int, sessions: int) -> None:
    """Check that bars of so many stocks and sessions can be traded in the memory that is free."""
    free, by = available_memory(), BYTES_A_CELL["rule" if request.get("trees") else "code"]
    if free is None or (need := symbols * sessions * by) <= free:
        return
    facts = {"symbols": symbols, "sessions": int(free / by / symbols), "need": need, "free": free}
    raise DataTooLarge(
        f"{symbols:,} stocks x {sessions:,} sessions need about {need / 1e9:.1f} GB of memory, "
        f"{free / 1e9:.1f} GB are free; {facts['sessions']:,} sessions of these stocks fit",
        **facts,
    )


def too_large_text(error: DataTooLarge) -> Note:
    """What a person is asked."""
    need, free, fit = error.data["need"] / 1e9, error.data["free"] / 1e9, error.data["sessions"]
    return Note(
        zh=f"这些数据大约需要 {need:.1f} GB 内存，目前只有 {free:.1f} GB 可用；"
        f"这些股票最多可做 {fit:,} 个交易日。请给一个更短的区间。",
        en=f"{error.message}. Name a shorter window.",
    )
