"""Bars and indicators as arrays of one shape, for checks that look at many fields at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.findings import Finding, Severity

__all__ = ["BAR", "TICK", "BarArrays", "Floats", "Mask", "below"]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

BAR = ("open", "high", "low", "close")

TICK = 0.01
"""Largest step of a mainland or US price (CNY, USD); what differs by no more may be rounded."""


class BarArrays:
    """Fields on the sessions and symbols of ``close``, shape (T, N), NaN where there is no number.

    A field that is not there is NaN throughout, so a check compares and finds nothing. What a check has
    found wrong it takes out with :meth:`drop`, so that the checks after it do not tell the same again.

    Attributes
    ----------
    traded
        Whether there is a bar; this and the next three are of all bars, taken out or not.
    last, following
        Row of the last bar before each cell (-1 where there is none), and of the next one from it on (the
        last row where there is none).
    resumed
        Rows and columns of the bars after a gap in their symbol.
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
            self._arrays[name] = self.given(name)
        return self._arrays[name]

    def given(self, name: str) -> Floats:
        """A field as it was given, nothing taken out."""
        if name not in self._frames:
            return np.broadcast_to(np.float64("nan"), self.shape)
        frame, close = self._frames[name], self._close
        if not (frame.index.equals(close.index) and frame.columns.equals(close.columns)):
            frame = frame.reindex(index=close.index, columns=close.columns)
        return frame.to_numpy(dtype="float64")

    def drop(self, where: Mask, *names: str) -> None:
        """Take cells out; ``where`` broadcasts to (T, N)."""
        for name in names:
            if name in self:
                self._arrays[name] = np.where(where, np.nan, self[name])

    def drop_bars(self, where: Mask) -> None:
        """Take bars out, and ``pre_close`` of the next session, which comes from them."""
        self.drop(where, *BAR, "vol", "amount")
        self.drop(where | below(where), "pre_close")

    def finding(self, severity: Severity, code: str, where: Mask, message: str) -> Finding:
        """A finding at the first cell of ``where``; the message may use ``{n}`` and ``{place}``."""
        row, column = divmod(int(where.argmax()), where.shape[1])
        session, symbol, count = f"{self.sessions[row]:%Y-%m-%d}", self.symbols[column], int(where.sum())
        return Finding(
            severity=severity,
            code=code,
            message=message.format(n=count, place=f"({session}, {symbol})"),
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
        """Last close before, less the cash and over the ratio of the actions since then."""
        price = self.at_last(self["close"])
        for name, apply in (("dividend", np.subtract), ("split", np.divide)):
            if name in self:
                rows, columns = np.nonzero(self[name] > 0)
                apply.at(price, (self.following[rows, columns], columns), self[name][rows, columns])
        return price


def below(where: Mask) -> Mask:
    """The cells one row below."""
    moved = np.zeros_like(where)
    moved[1:] = where[:-1]
    return moved
