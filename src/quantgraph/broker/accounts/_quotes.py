"""Quotes of a session as known at its open or after its close, cached for each commit."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from quantgraph.market.money import Side
from quantgraph.market.rules import ListingStatus, OrderType
from quantgraph.state import BaseView, DataState

_BEFORE_OPEN = ("pre_close", "up_limit", "down_limit")
_LATER = ("high", "low", "close", "vol")
_STATUS = ("is_st", "listing_day", "delisting_day")
_SHARES_PER_HAND = 100
_PLAIN = ListingStatus()


@dataclass(frozen=True, kw_only=True)
class Quote:
    """One symbol in a session; prices in the market's currency, NaN where there is none.

    Limits in the data take precedence over computed ones. Without limits and ``pre_close`` no band is
    checked.
    """

    open: float
    high: float | None = None
    low: float | None = None
    close: float | None = None
    volume: float | None = None
    pre_close: float = math.nan
    up_limit: float = math.nan
    down_limit: float = math.nan
    status: ListingStatus = _PLAIN

    @property
    def suspended(self) -> bool:
        """Whether there is no price in the session, or no volume."""
        return (math.isnan(self.open) and (self.close is None or math.isnan(self.close))) or self.volume == 0

    def price(self, type: OrderType, side: Side, limit: float | None = None) -> float | None:  # noqa: A002
        """The price of a fill; NaN if there is none, None if a limit or a stop was not reached.

        ``limit`` is the price of the order. Before the session is over, a ``close`` order gets the open, and
        a ``limit`` or ``stop`` order that the open does not reach gets its own price.
        """
        if type == "open":
            return self.open
        if type == "close":
            return self.open if self.close is None else self.close
        if limit is None or math.isnan(self.open):
            return math.nan
        # A sale is stopped by a fall to its price and limited by a rise; of a buy it is the reverse.
        falls = (side == "buy") == (type == "limit")
        best = self.low if falls else self.high
        if _reaches(self.open, limit, falls=falls):
            return self.open
        return limit if best is None or _reaches(best, limit, falls=falls) else None


class Quotes(Mapping[str, Quote]):
    """Quotes of a session by ``ts_code``, made on access.

    A missing value is NaN if the session is ``over``, else None: not known yet.
    """

    __slots__ = ("_has_status", "_later", "_rows")

    def __init__(self, rows: Mapping[str, Mapping[str, float]], *, over: bool = False) -> None:
        self._rows = rows
        self._later = math.nan if over else None
        self._has_status = any(name in rows for name in _STATUS)

    def __getitem__(self, symbol: str) -> Quote:
        cell = {name: row.get(symbol, math.nan) for name, row in self._rows.items()}
        volume = cell.get("vol", self._later)
        return Quote(
            open=self._rows["open"][symbol],
            high=cell.get("high", self._later),
            low=cell.get("low", self._later),
            close=cell.get("close", self._later),
            volume=None if volume is None else volume * _SHARES_PER_HAND,
            pre_close=cell.get("pre_close", math.nan),
            up_limit=cell.get("up_limit", math.nan),
            down_limit=cell.get("down_limit", math.nan),
            status=ListingStatus.of(cell) if self._has_status else _PLAIN,
        )

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._rows["open"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows["open"])

    def __len__(self) -> int:
        return len(self._rows["open"])


def quotes_at(view: BaseView) -> Quotes:
    """Quotes of the view's session, as known at the view's moment.

    Raises
    ------
    UnknownField
        If the data has no ``open``.
    FutureRequested
        If the view stands before the open.
    """
    moment, fields = view.moment, view["ohlcv"]
    names = [
        name
        for name in ("open", *_BEFORE_OPEN, *_STATUS, *_LATER)
        if name == "open" or (name in fields and moment.knows("ohlcv", name))
    ]
    over = moment.knows("ohlcv", "close")
    return Quotes({name: view.numbers("ohlcv", name, moment.session) for name in names}, over=over)


def _reaches(price: float, limit: float, *, falls: bool) -> bool:
    return price <= limit if falls else price >= limit


P = ParamSpec("P")
R = TypeVar("R")

_MOST = 128
"""Results kept for one data state; the oldest is removed first."""


def per_commit(read: Callable[Concatenate[DataState, P], R]) -> Callable[Concatenate[DataState, P], R]:
    """Cache a function of a data state, a commit and more hashable arguments: commits never change.

    The state is referenced weakly, so its frames can be freed. The lock protects the cached results.
    """
    caches: WeakKeyDictionary[DataState, dict[tuple[Any, ...], R]] = WeakKeyDictionary()
    lock = threading.Lock()

    @wraps(read)
    def cached(store: DataState, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with lock:
            results = caches.setdefault(store, {})
            if args in results:
                return results[args]
        result = read(store, *args, **kwargs)
        with lock:
            if len(results) >= _MOST:
                del results[next(iter(results))]
            return results.setdefault(args, result)

    return cached
