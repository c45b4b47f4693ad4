"""Rule files: a value holds from a day on, until the next row; before the first row there is none."""

from __future__ import annotations

import datetime as dt
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Generic, Literal, TypeVar

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadWindow

MarketCode = Literal["cn", "us"]
Row = Mapping[str, Any]
T = TypeVar("T")

_FILES: dict[MarketCode, str] = {"cn": "mainland.toml", "us": "us.toml"}


class DatedValues(Generic[T]):
    """Values of one table by the day since which they hold."""

    __slots__ = ("_since", "_values", "_what")

    def __init__(
        self, what: str, market: MarketCode, path: tuple[str, ...], read: Callable[[Row], T]
    ) -> None:
        rows: Any = load_rules(market)
        for name in path:
            rows = rows[name]
        self._what = what
        self._since: list[dt.date] = [row["since"] for row in rows]
        self._values = [read(row) for row in rows]

    def on(self, day: dt.date) -> T:
        """Value in force on a day."""
        place = bisect_right(self._since, day)
        if not place:
            raise BadWindow(
                f"the rulebook knows no {self._what} on {day}; its table begins on {self._since[0]}",
                day=str(day),
            )
        return self._values[place - 1]


def dated(what: str, market: MarketCode, path: tuple[str, ...], read: Callable[[Row], T]) -> DatedValues[T]:
    """:class:`DatedValues`, each read once."""
    return _dated(what, market, path, read)


_dated = cache(DatedValues)


def decimal_value(row: Row) -> Decimal:
    """The ``value`` of a row."""
    return Decimal(row["value"])


@cache
def load_rules(market: MarketCode) -> dict[str, Any]:
    """Tables of a market's rule file; must not be changed by the caller."""
    file = files("quantgraph.market").joinpath("_rules", _FILES[market])
    return tomllib.loads(file.read_text(encoding="utf-8"))


@cache
def rules_digest(market: MarketCode) -> str:
    """Short hash of a market's tables: equal digests are equal rules."""
    return content_hash(repr(load_rules(market)), size=8)
