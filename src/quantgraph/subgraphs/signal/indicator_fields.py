"""The daily indicators that a rule needs: which are to be fetched, and which do not exist."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import talib

from quantgraph._util.texts import say
from quantgraph.data import MarketDataSource
from quantgraph.data.market_data import BAR_FIELDS, INDICATOR_FIELDS
from quantgraph.errors import NoData, UnknownField
from quantgraph.recording import recorded
from quantgraph.runtime.endings import language
from quantgraph.subgraphs.signal.data_request import request_sessions, request_symbols
from quantgraph.subgraphs.signal.messages import without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import question_update

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
    """Check that the indicators exist.

    Raises
    ------
    UnknownField
        If one does not; ``data`` has the unknown ``fields`` and those ``close`` to them.
    """
    unknown = [name for name in names if name not in INDICATOR_FIELDS]
    if unknown:
        raise _unknown_field(unknown, INDICATOR_FIELDS, f"there is no daily indicator {', '.join(unknown)}")


def check_source_fields(request: Mapping[str, Any], source: MarketDataSource) -> None:
    """After a fetch without indicators, check that the source has them at all.

    The source is asked once in a run, about one symbol and one session.

    Raises
    ------
    UnknownField
        If it does not have one, see :func:`check_fields`.
    """
    names, symbol = request["indicators"], request_symbols(request, source)[:1]
    session = request_sessions(request, source)[-1]

    def probe() -> dict[str, Any]:
        try:
            source.indicators(symbol, session, session, names)
        except (NoData, UnknownField) as error:
            return {name: list(error.data.get(name, ())) for name in ("fields", "available")}
        return {"fields": [], "available": []}

    result = recorded("source", {"has": names, "source": source.name}, probe)
    if result["fields"]:
        lacking = f"{source.name} has no daily indicator {', '.join(result['fields'])}"
        raise _unknown_field(result["fields"], result["available"], lacking)


def fields_question_update(state: SignalSubgraphState, error: UnknownField) -> dict[str, Any]:
    """Return the update that asks which fields are meant, or whether to go on without them."""
    names, user_language = error.data["fields"], language(state)
    listed = "、".join(error.data["available"]) or "无"
    reason = say(user_language, zh=f"没有每日指标 {'、'.join(names)}；现有：{listed}", en=error.message)
    options = [*error.data["close"], without_words(names, user_language)]
    return question_update(state, "fields", reason, unread=names, options=options)


def _unknown_field(names: Sequence[str], available: Sequence[str], problem: str) -> UnknownField:
    close = [near for name in names for near in difflib.get_close_matches(name, available, n=3, cutoff=0.5)]
    return UnknownField(
        f"{problem}; available: {', '.join(available) or 'none'}",
        fields=list(names),
        close=list(dict.fromkeys(close)),
        available=list(available),
    )


def _is_computed(name: str) -> bool:
    """Whether it is a TA-Lib function, with numbers or an output: ``ma5``, ``rsi(14)``, ``macd_dif``."""
    return not _talib_functions().isdisjoint({name, re.split(r"[^a-z]", name, maxsplit=1)[0]})
