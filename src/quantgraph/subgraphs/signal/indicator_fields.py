"""The daily indicators that a rule asks for: which need fetching, and which there are not."""

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
from quantgraph.subgraphs.signal.messages import without_fields
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import question_update

__all__ = ["check_fields", "check_source_fields", "fields_question_update", "fields_to_fetch"]

_OF_BARS = frozenset({*BAR_FIELDS, "boll", "bollinger", "momentum", "price", "return", "volume"})
"""What else models name that comes from prices and volumes, beside the functions of TA-Lib."""


@functools.cache
def _computed() -> frozenset[str]:
    return frozenset(name.lower() for name in talib.get_functions())  # type: ignore[no-untyped-call]


def fields_to_fetch(names: Iterable[str]) -> list[str]:
    """Fields as they are written here, each once, without what bars hold or gives by computing.

    >>> to_fetch(["PE ", "close", "ma5", "RSI(14)", "roe", "pe"])
    ['pe', 'roe']
    """
    written = dict.fromkeys(name.strip().lower() for name in names)
    return [name for name in written if name not in _OF_BARS and not _of_bars(name)]


def check_fields(names: Sequence[str]) -> None:
    """See that there are such indicators.

    Raises
    ------
    UnknownField
        If not; ``data`` has the ``fields``, and those that are ``close`` to them.
    """
    unknown = [name for name in names if name not in INDICATOR_FIELDS]
    if unknown:
        raise _unknown(unknown, INDICATOR_FIELDS, f"there is no daily indicator {', '.join(unknown)}")


def check_source_fields(request: Mapping[str, Any], source: MarketDataSource) -> None:
    """After a fetch that brought no indicators, see that the source has them at all.

    It is asked once in a run, about one symbol and one session.

    Raises
    ------
    UnknownField
        If so, as in :func:`check_fields`.
    """
    names, symbol = request["indicators"], request_symbols(request, source)[:1]
    session = request_sessions(request, source)[-1]

    def ask() -> dict[str, Any]:
        try:
            source.indicators(symbol, session, session, names)
        except (NoData, UnknownField) as error:
            return {name: list(error.data.get(name, ())) for name in ("fields", "available")}
        return {"fields": [], "available": []}

    told = recorded("source", {"has": names, "source": source.name}, ask)
    if told["fields"]:
        lacking = f"{source.name} has no daily indicator {', '.join(told['fields'])}"
        raise _unknown(told["fields"], told["available"], lacking)


def fields_question_update(state: SignalSubgraphState, error: UnknownField) -> dict[str, Any]:
    """The question which fields are meant, or whether to go on without them."""
    names, spoken = error.data["fields"], language(state)
    listed = "、".join(error.data["available"]) or "无"
    reason = say(spoken, zh=f"没有每日指标 {'、'.join(names)}；现有：{listed}", en=error.message)
    options = [*error.data["close"], without_fields(names, spoken)]
    return question_update(state, "fields", reason, unread=names, options=options)


def _unknown(names: Sequence[str], available: Sequence[str], said: str) -> UnknownField:
    close = [near for name in names for near in difflib.get_close_matches(name, available, n=3, cutoff=0.5)]
    return UnknownField(
        f"{said}; there are {', '.join(available) or 'none'}",
        fields=list(names),
        close=list(dict.fromkeys(close)),
        available=list(available),
    )


def _of_bars(name: str) -> bool:
    """Whether it is a function of TA-Lib, with its numbers or a part: ``ma5``, ``rsi(14)``, ``macd_dif``."""
    return not _computed().isdisjoint({name, re.split(r"[^a-z]", name, maxsplit=1)[0]})
