"""May it run: what a source has, names, the index of the market, levels, fields, asked at the reading."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import say
from quantgraph.data import MarketDataSource
from quantgraph.data.symbols import is_index_code, names_in
from quantgraph.errors import (
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market import session_of
from quantgraph.recording.scope import call_once
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import ClarificationKind, Update
from quantgraph.sentences.coverage import says_part
from quantgraph.sentences.phrases import symbols_in, volume_words
from quantgraph.subgraphs.signal._updates import question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState

_MARKET = re.compile(  # "大盘"
    r"大盘(?![股蓝])|\bthe\s+(?:(?:broad|broader|overall|stock)\s+)?market(?=\s+(?:is|was|has|falls?|fell|drops?|dropped|rises?|rose|gains?"
    r"|gained|loses?|lost|closes?|closed|crosses|breaks|trades|stays)\b)",
    re.IGNORECASE,
)
_OTHER_MARKET = re.compile(r"\bthe\s+market\s+(?:cap|value|price|order|open|close\b)", re.IGNORECASE)
_FUNDAMENTALS = re.compile(  # "市盈率"
    r"市盈|市净|市销|市值|股息|换手|量比|净资产|收益率|利润|营收|估值|基本面|\b(?:pe|pb|ps|roe|roa|eps|p/[ebs]|dividend|turnover|valuation|market\s+cap"
    r"|earnings|revenue|net profit|fundamental)",
    re.IGNORECASE,
)
_MAIN_INDICES = ("000001.SH", "000300.SH")
_MOST_INDICES = 8
_VENDOR = (NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)
_RECENT = pd.Timedelta(days=30)


def market_words(text: str) -> list[str]:
    """The words of a text for the market as a whole.

    >>> market_words("当天大盘跌超1%就不买"), market_words("buy at the market open")
    (['大盘'], [])
    """
    if _OTHER_MARKET.search(text):
        return []
    return list(dict.fromkeys(match[0] for match in _MARKET.finditer(text)))


def names_of(text: str, source: MarketDataSource) -> dict[str, str]:
    """Return codes by the names that a text has; the market's is the source's main index."""
    names, words = names_in(text, source), market_words(text)
    if words and (there := indices_with_levels(text, source)):
        names |= dict.fromkeys(words, there[0])
    return names


def indices_with_levels(text: str, source: MarketDataSource, wanted: Iterable[str] = ()) -> list[str]:
    """Return the indices that a source has levels of: the main ones, the ones in the text, its own.

    The source is asked once in a run.
    """
    named = (code for code in symbols_in(text, names_in(text, source)) if is_index_code(code))
    listed = set(source.symbols())
    own = (code for code in source.names() if is_index_code(code) and code not in listed)
    codes = list(dict.fromkeys([*_MAIN_INDICES, *wanted, *named, *own]))[:_MOST_INDICES]
    last = source.sessions()[-1]

    def has_levels(code: str) -> bool:
        try:
            return not source.index_bars(code, last - _RECENT, last).empty
        except (NoData, UnknownSymbol, *_VENDOR):
            return False

    facts = {"levels_of": codes, "source": source.name}
    return list(call_once("source", facts, lambda: [code for code in codes if has_levels(code)]))


def speaks_of_index(text: str) -> bool:
    """Whether a text speaks of an index itself.

    >>> speaks_of_index("上证50指数在60日线上方"), speaks_of_index("上证50里涨得最多的5只")
    (True, False)
    """
    return re.search(r"指数|大盘|\bindex\b", text, re.IGNORECASE) is not None  # "指数"


def speaks_of_fields(text: str) -> bool:
    """Whether a text may need daily indicators or fundamentals."""
    return _FUNDAMENTALS.search(text) is not None


def known_indicators(source: MarketDataSource) -> list[str] | None:
    """Return the daily indicators that a source has values of; None if the source fails now."""
    return _fields_of(source, "indicators")


def known_bars(source: MarketDataSource) -> list[str] | None:
    """Return the fields of bars that a source has values of, as :func:`known_indicators`."""
    return _fields_of(source, "bars")


def _fields_of(source: MarketDataSource, panel: Literal["bars", "indicators"]) -> list[str] | None:
    symbols, last = source.symbols()[:3], source.sessions()[-1]

    def there() -> list[str] | None:
        ask = source.bars if panel == "bars" else source.indicators
        try:
            found = ask(symbols, last - _RECENT, last)
        except (NoData, UnknownField, UnknownSymbol):
            return []
        except _VENDOR:
            return None
        return [name for name in found if bool(found[name].notna().any(axis=None))]

    facts = {"fields_of": list(symbols), "panel": panel, "source": source.name}
    found: list[str] | None = call_once("source", facts, there)
    return found


def lacking_levels_update(
    state: SignalSubgraphState, lacking: Sequence[str], there: Sequence[str], source: MarketDataSource
) -> Update:
    """Return the question about indices without levels, or about the market where the source has no index."""
    user_language, zh, en = language(state), "、".join(there) or "无", ", ".join(there) or "none"
    reason = say(
        user_language,
        zh=f"{source.name} 没有 {'、'.join(lacking)} 的指数行情，按它的条件无法判断。"
        f"有行情的指数：{zh}。换成哪一个，还是去掉这个条件继续？",
        en=f"{source.name} has no levels of {', '.join(lacking)}, so a condition on it cannot be judged. "
        f"Indices with levels: {en}. Which one instead, or go on without this condition?",
    )
    kind: ClarificationKind = "symbol" if all(map(is_index_code, lacking)) else "plan"
    options = [*there, without_words(lacking, user_language)]
    return question_update(state, kind, reason, words=lacking, options=options)


def lacking_volumes(text: str, source: MarketDataSource) -> list[str]:
    """The words of a text for volumes or amounts that a source does not have in a unit that it shows."""
    words = volume_words(text)
    there = known_bars(source) if words else None
    return [word for field, each in words.items() if there and field not in there for word in each]


def lacking_volumes_update(
    state: SignalSubgraphState, words: Sequence[str], source: MarketDataSource
) -> Update:
    """Return the question for a rule without volumes."""
    reason = say(
        language(state),
        zh=f"{source.name} 没有单位明确的成交量或成交额，无法判断：{'、'.join(words)}。知道单位时用 "
        "volume_unit、amount_unit 说明；否则请给出不用它的规则。",
        en=f"{source.name} has no volumes or amounts in a unit that it shows, so this cannot be judged: "
        f"{', '.join(words)}. If you know the unit, run it again with volume_unit or amount_unit; else "
        "give a rule without it.",
    )
    return question_update(state, "strategy", reason, words=words)


def lacking_benchmark(
    params: Mapping[str, Any], request: Mapping[str, Any], source: MarketDataSource
) -> str | None:
    """The words, else the code, of a benchmark that a source does not have in the window; None if it has."""
    code = params["plan"].get("benchmark")
    if code is None:
        return None
    with suppress(UnknownSymbol, NoData):
        source.index_bars(str(code), *(session_of(request[name]) for name in ("start", "end")))
        return None
    quotes = (each["quote"] for each in params["clauses"])
    return next((quote for quote in quotes if quote and says_part(quote, "benchmark", "")), str(code))


def lacking_benchmark_update(state: SignalSubgraphState, words: str, source: MarketDataSource) -> Update:
    """Return the question whether to go on without a comparison."""
    reason = say(
        language(state),
        zh=f"{source.name} 没有它的行情，无法比较：{words}。不比较，继续吗？",
        en=f"{source.name} has no prices to compare with: {words}. Go on without the comparison?",
    )
    return question_update(
        state, "plan", reason, words=[words], options=[without_words([words], language(state))]
    )
