"""The prices of a session's open, as the desk sees them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from quantgraph.state import View

__all__ = ["Quote", "Quotes", "quotes_at"]

_FIELDS = ("open", "pre_close", "up_limit", "down_limit")


@dataclass(frozen=True, kw_only=True)
class Quote:
    """One symbol at the open; prices in CNY, NaN where there is none.

    The limits of the data win over computed ones. Without limits and without ``pre_close`` no band can
    be known, and none is judged.
    """

    open: float
    pre_close: float = math.nan
    up_limit: float = math.nan
    down_limit: float = math.nan

    @property
    def suspended(self) -> bool:
        """No open price in the session."""
        return math.isnan(self.open)


class Quotes(Mapping[str, Quote]):
    """Quotes of a session by ``ts_code``; each is made when it is asked for."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[str, Mapping[str, float]]) -> None:
        self._rows = rows

    def __getitem__(self, symbol: str) -> Quote:
        rows = self._rows
        return Quote(
            open=rows["open"][symbol],
            **{name: rows[name].get(symbol, math.nan) for name in _FIELDS[1:] if name in rows},
        )

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._rows["open"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows["open"])

    def __len__(self) -> int:
        return len(self._rows["open"])


def quotes_at(view: View) -> Quotes:
    """Quotes of the view's session: its rows of ``open``, ``pre_close``, ``up_limit``, ``down_limit``.

    Raises
    ------
    UnknownField
        If the data has no ``open``.
    FutureRequested
        If the view stands before the open.
    """
    known = view["ohlcv"]
    names = [name for name in _FIELDS if name == "open" or name in known]
    return Quotes({name: _row(view, name, view.moment.session) for name in names})


def _row(view: View, name: str, session: pd.Timestamp) -> dict[str, float]:
    row = view.row("ohlcv", name, session)
    return dict(zip(row.index.tolist(), row.tolist(), strict=True))
