"""What was asked: a year, a code or a span that a model read otherwise than the sentence names it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data.symbols import index_code
from quantgraph.sentences.phrases import (
    joined_spans,
    possible_names,
    symbols_in,
    unlisted_capitals,
    watched_only,
    windows_in,
)
from quantgraph.subgraphs.signal._agents import ReflectionReply
from quantgraph.subgraphs.signal._plan import executed_plan, turned_quotes, unplanned_quotes
from quantgraph.subgraphs.signal.understanding import symbols_of
from quantgraph.tools import split_codes

_TOLERANCE = pd.Timedelta(days=7)
"""Ends of a span that differ by less are the same: its first session may come days after its first day."""
_LOOK_BACK = pd.Timedelta(days=100)
_SPEAKS_OF_TIME = re.compile(  # "最近"
    r"年|月|季|周|天|日期|最近|以来|历史|全部数据|(?<!\d)(?:19|20)\d\d(?:\d{4})?(?!\d)|\bq[1-4]\b|year|month|quarter|week|day|since|until|last|past|ytd"
    r"|date|history|recent|all data",
    re.IGNORECASE,
)
_FULL_DAY = re.compile(r"(?<!\d)(?:\d{8}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}年\d{1,2}月\d{1,2})(?!\d)")
_FROM_OR_TO = re.compile(  # "截止"
    r"起|以来|至|到|开始|[以之]后|截止|from|since|until|till|\bto\b|after|onward", re.IGNORECASE
)
_LEAVES_OUT = re.compile(  # "剔除"
    r"不要|除了|剔除|排除|不含|代替|换成|里的|中的|except|instead|without|exclud|rather|\bnot\b|\bno\b",
    re.IGNORECASE,
)
_TEMPLATE = {"one or two sentences", "why", "same as task_type"}
"""Placeholders of the reflection prompt's template."""


@dataclass(frozen=True, kw_only=True)
class Misreading:
    """A difference between a reading and its sentence."""

    kind: Literal["symbol", "window", "plan"]
    note: Note
    certain: bool = True
    """Whether the text contradicts the reading; if not, a model that reads the same again is believed."""


def is_echo(reply: ReflectionReply) -> bool:
    """Whether a reply repeats the prompt's template, as small models do, and says nothing of the sentence."""
    params = reply.user_intent.params
    texts = (reply.analysis, reply.reasoning, params.strategy_desc)
    says_nothing = not params.ts_code or params.strategy_desc.strip().lower() in {"", *_TEMPLATE}
    return says_nothing and any(text.strip().lower() in _TEMPLATE for text in texts)


def reading_errors(
    params: Mapping[str, Any],
    text: str,
    *,
    sessions: pd.DatetimeIndex,
    names: Mapping[str, str],
    listed: Collection[str],
    fixed: Mapping[str, str],
) -> list[Misreading]:
    """Return where a reading differs from what the text names; capitals that are not ``listed`` are words."""
    found = list[Misreading]()
    if "ts_code" not in fixed:
        found = [*_symbol_errors(params, text, names, listed), *_role_errors(params, text, names, listed)]
    return found + ([] if "start_date" in fixed else _window_errors(params, text, sessions))


def plan_errors(params: Mapping[str, Any], executes: Collection[str]) -> list[Misreading]:
    """Return what of a plan is not a value of it, though it would be carried out, and clauses without one."""
    reasons = [why for why in executed_plan(params["plan"], executes)[1].values() if why]
    notes = [Note(zh=f"plan：{why}", en=f"plan: {why}") for why in reasons]
    for quote, keys in unplanned_quotes(params):
        names = ", ".join(sorted(keys))
        en = f"plan: nothing carries out “{quote}”, which has no value in {names}"
        notes.append(Note(zh=f"plan：没有什么执行「{quote}」，{names} 里没有它的值", en=en))
    turned = [
        Note(zh=f"plan：「{quote}」和 {name} 的方向相反", en=f"plan: “{quote}” is the other side of {name}")
        for quote, name in turned_quotes(params)
    ]
    found = [Misreading(kind="plan", note=note, certain=False) for note in notes]
    return [*found, *(Misreading(kind="plan", note=note) for note in turned)]


def _symbol_errors(
    params: Mapping[str, Any], text: str, names: Mapping[str, str], listed: Collection[str]
) -> list[Misreading]:
    lines = [codes for line in text.splitlines() if (codes := symbols_in(line, names, listed))]
    named = tuple(dict.fromkeys(code for codes in lines for code in codes))
    listed = ",".join(str(params.get(name, "")) for name in ("ts_code", "watch", "trade"))
    read = dict.fromkeys(names.get(code) or index_code(code) or code.upper() for code in split_codes(listed))
    if not named or not read:
        return []
    found = []
    beside, capitals = possible_names(text, names, listed), unlisted_capitals(text, listed)
    capital = text.upper()  # a code may be written without its market
    not_named = [code for code in read if code not in named and code.partition(".")[0] not in capital]
    if len(not_named) > len(beside):  # else by names that only a model knows
        unsaid, others = ", ".join(not_named), ", ".join(named)
        zh, en = (
            f"句子里没有 {unsaid}，只有 {others}",
            f"the sentence does not name {unsaid}; it names {others}",
        )
        found.append(_error("symbol", zh=zh, en=en, certain=len(not_named) > len({*beside, *capitals})))
    missing = [code for code in lines[-1] if code not in read and code != "ALL"]
    unknown = (
        [] if missing or not_named else [word for word in beside if word in capitals and word not in read]
    )
    if (missing or unknown) and not _LEAVES_OUT.search(text):
        left_out = ", ".join(missing or unknown)
        en = f"the sentence names {left_out}, which the reading has neither in watch nor in trade"
        found.append(_error("symbol", zh=f"句子里有 {left_out}，解读里没有", en=en, certain=bool(missing)))
    return found


def _role_errors(
    params: Mapping[str, Any], text: str, names: Mapping[str, str], listed: Collection[str]
) -> list[Misreading]:
    """A code that the sentence only watches and the reading trades."""
    read = [names.get(code) or index_code(code) or code.upper() for code in symbols_of(params)["trade"]]
    if not (wrong := ", ".join(code for code in watched_only(text, names, listed) if code in read)):
        return []
    en = f"the sentence only watches {wrong} and trades others; the reading trades it: fill watch and trade"
    return [_error("symbol", zh=f"句子只观察 {wrong}，交易的是别的股票，而解读交易了它", en=en)]


def names_no_dates(text: str) -> bool:
    """Whether a text names no time, so that a reading's dates are not the user's.

    >>> names_no_dates("600519.SH golden cross"), names_no_dates("since the crash")
    (True, False)
    """
    return _SPEAKS_OF_TIME.search(text) is None


def names_one_day(text: str) -> bool:
    """Whether a text names one day alone, so that the other end of a span is not the user's.

    >>> names_one_day("600519.SH，2025年1月6日：金叉买入"), names_one_day("600519.SH since 2025-01-06")
    (True, False)
    """
    return len(_FULL_DAY.findall(text)) == 1 and _FROM_OR_TO.search(text) is None


def _error(kind: Literal["symbol", "window"], *, zh: str, en: str, certain: bool = True) -> Misreading:
    return Misreading(kind=kind, note=Note(zh=zh, en=en), certain=certain)


def _window_errors(params: Mapping[str, Any], text: str, sessions: pd.DatetimeIndex) -> list[Misreading]:
    last_session = f"{sessions[-1]:%Y%m%d}"
    start, end = params.get("start_date", ""), params.get("end_date", "")
    named = [span for span in windows_in(text, last_session) if not _looks_back(span, last_session)]
    read = [tuple(span) for span in params.get("windows") or ()] or ([(start, end)] if start and end else [])
    if not read or not named:
        return []
    read = [*joined_spans(read)] if len(named) == 1 else read
    spans, others = (", ".join(f"{first}-{final}" for first, final in each) for each in (named, read))
    if len(named) > 1 and not params.get("windows"):
        en = f"the sentence names several spans, {spans}: list them in windows"
        return [_error("window", zh=f"句子里有几段时间：{spans}", en=en)]
    if _all_among(read, named, sessions) and _all_among(named, read, sessions):
        return []
    zh = f"句子里的时间是 {spans}，不是 {others}"
    return [_error("window", zh=zh, en=f"the sentence says {spans}, not {others}")]


def _all_among(
    spans: Sequence[Sequence[str]], others: Sequence[Sequence[str]], sessions: pd.DatetimeIndex
) -> bool:
    return all(any(_same_span(span, other, sessions) for other in others) for span in spans)


def _looks_back(span: tuple[str, str], last_session: str) -> bool:
    """Whether a span may be the length of an indicator, counted back from the last session."""
    days = pd.to_datetime(pd.Series(span), errors="coerce", format="%Y%m%d")
    return span[1] == last_session and bool(days[1] - days[0] <= _LOOK_BACK)


def _same_span(one: Sequence[str], other: Sequence[str], sessions: pd.DatetimeIndex) -> bool:
    """Whether two spans are the same as far as there are data; a date that is not one is left to others."""
    if not all(re.fullmatch(r"\d{8}", day) for day in (*one, *other)):  # "20240102"
        return True
    low, high = f"{sessions[0]:%Y%m%d}", f"{sessions[-1]:%Y%m%d}"
    clipped = [min(max(day, low), high) for day in (*one, *other)]
    days = [*one, *other] if clipped[2] == clipped[3] else clipped
    dates = pd.to_datetime(pd.Series(days), errors="coerce", format="%Y%m%d")
    apart = (dates[:2] - dates[2:].to_numpy()).abs() > _TOLERANCE
    return not apart.any()
