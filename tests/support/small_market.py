"""Small markets, as a decider sees them at an open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from quantgraph.market import Moment
from quantgraph.state import DataState, Record, View


class SmallMarket:
    """Bars by symbol over business days from 2024-01-01 on; a field that is not given follows ``close``."""

    def __init__(
        self, closes: Mapping[str, Sequence[float | None]], *, first: str = "2024-01-01", **fields: Any
    ):
        self.store = DataState()
        frame = pd.DataFrame(closes, dtype="float64")
        self.days = pd.bdate_range(first, periods=len(frame))
        close = frame.set_axis(self.days)
        panel = dict.fromkeys(("open", "high", "low", "close"), close)
        for name, given in fields.items():
            panel[name] = pd.DataFrame(given, index=self.days, columns=close.columns, dtype="float64")
        self.ref = self.store.update("ohlcv", panel)

    def act(self, field: str, symbol: str, day: int, value: float, declared: int | None = None) -> None:
        """Add a dividend or a split; ``day`` and ``declared`` count sessions."""
        for name, number in ((field, value), ("action_declared", self._number(declared))):
            if number is not None:
                frame = pd.DataFrame({symbol: [number]}, index=self.days[[day]])
                self.ref = self.store.update("ohlcv", {name: frame}, base=self.ref)

    def record(self, *records: Record) -> None:
        self.ref = self.store.record(records, base=self.ref)

    def indicators(self, field: str, values: Mapping[str, Sequence[float]]) -> None:
        frame = pd.DataFrame(values, index=self.days, dtype="float64")
        self.ref = self.store.update("indicators", {field: frame}, base=self.ref)

    def view(self, day: int = -1) -> View:
        return self.store.view(Moment(self.days[day], "open"), self.ref)

    def _number(self, day: int | None) -> float | None:
        return None if day is None else float(f"{self.days[day]:%Y%m%d}")
