"""Bars and indicators as arrays of one shape, for checks that compare many fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.findings import Finding, Severity

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PRICES = ("open", "high", "low", "close")

TICK = 0.01
"""Largest price step in the mainland and the US (CNY, USD); smaller differences may be rounding."""


class BarArrays:
    """Fields on the sessions and symbols of ``close``, shape (T, N), NaN where there is no number.

    A missing field is NaN throughout, so that a check compares with it and finds nothing. A check removes the
    cells in which it found a fault by :meth:`drop`, so that later checks do not report the fault again.

    Attributes
    ----------
    traded
        Whether the close is a number. This and the next three cover all bars, removed ones included.
    last, following
        Row of the last bar before each cell (-1: none), and of the next bar from the cell on (the last row
        where there is none).
    resumed
        Rows and columns of the first bars after a gap in their symbol.
    """

    def __init__(self, close: pd.DataFrame, fields: Mapping[str, pd.DataFrame]) -> None:
        self.sessions = pd.DatetimeIndex(close.index)
        self.symbols = [str(symbol) for symbol in close.columns]
        self.shape = close.shape
        self._close = close
        self._frames = fields
        self._arrays: dict[str, Floats] = {}
        self.traded: Mask = ~np.isnan(self["close"])
        rows = np.arange(len(close), dtype=np.int32)[:, None]
        self.last = np.full(self.shape, -1, dtype=np.int32)
        self.last[1:] = np.maximum.accumulate(np.where(self.traded, rows, np.int32(-1)), axis=0)[:-1]
        self.following = np.minimum.accumulate(np.where(self.traded, rows, rows[-1])[::-1], axis=0)[::-1]
        self.resumed = np.nonzero(self.traded & (self.last >= 0) & (self.last < rows - 1))

    def __contains__(self, name: str) -> bool:
        return name in self._frames

    def __getitem__(self, name: str) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = self.original(name)
        return self._arrays[name]

    def original(self, name: str) -> Floats:
        """A field as it was given, with nothing removed."""
        if name not in self._frames:
            return np.broadcast_to(np.float64("nan"), self.shape)
        frame, close = self._frames[name], self._close
        if not (frame.index.equals(close.index) and frame.columns.equals(close.columns)):
            frame = frame.reindex(index=close.index, columns=close.columns)
        return frame.to_numpy(dtype="float64")

    def drop(self, where: Mask, *names: str) -> None:
        """Remove cells; ``where`` broadcasts to (T, N)."""
        for name in names:
            if name in self:
                self._arrays[name] = np.where(where, np.nan, self[name])

    def drop_bars(self, where: Mask) -> None:
        """Remove bars, and ``pre_close`` of the next session, which repeats their close."""
        self.drop(where, *PRICES, "vol", "amount")
        self.drop(where | next_row(where), "pre_close")

    def findings(
        self, severity: Severity, code: str, where: Mask, message: str, **values: Floats
    ) -> Iterator[Finding]:
        """Yield a finding at the first cell of ``where``, none if it is empty.

        The message may use ``{n}``, the number of cells, ``{place}``, and ``values`` there by name.
        """
        if not where.any():
            return
        row, column = divmod(int(where.argmax()), where.shape[1])
        session, symbol, count = f"{self.sessions[row]:%Y-%m-%d}", self.symbols[column], int(where.sum())
        numbers = {name: f"{array[row, column]:g}" for name, array in values.items()}
        yield Finding(
            severity=severity,
            code=code,
            message=message.format(n=count, place=f"({session}, {symbol})", **numbers),
            session=session,
            symbol=symbol,
            count=count,
        )

    def at_last(self, values: Floats) -> Floats:
        """Values at the last bar before each bar, NaN where there is none."""
        before = np.full(self.shape, np.nan)
        before[1:] = values[:-1]
        rows, columns = self.resumed
        before[rows, columns] = values[self.last[rows, columns], columns]
        return before

    def theoretical(self) -> Floats:
        """The close of the last bar, less the dividends and over the split ratios since then."""
        price = self.at_last(self["close"])
        for name, apply in (("dividend", np.subtract), ("split", np.divide)):
            if name in self:
                rows, columns = np.nonzero(self[name] > 0)
                apply.at(price, (self.following[rows, columns], columns), self[name][rows, columns])
        return price


def next_row(where: Mask) -> Mask:
    """The cells one row below those of a mask."""
    moved = np.zeros_like(where)
    moved[1:] = where[:-1]
    return moved
