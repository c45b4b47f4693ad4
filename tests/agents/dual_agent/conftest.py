"""Small markets, as a decider sees them at an open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dual_agent_models import item

from quantgraph.agents.memory import PipelineContext
from quantgraph.market.moment import Moment
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


@pytest.fixture(scope="session")
def small_market():
    """Makes a :class:`SmallMarket`."""
    return SmallMarket


@pytest.fixture(scope="session")
def rising():
    """A number of closes 1.0, 2.0, …"""
    return lambda count: np.arange(1.0, count + 1).tolist()


@pytest.fixture
def features():
    """AAPL with fundamentals and a position of 5,000, TSLA with one of 3,000."""
    apple = item("AAPL", 5_000.0, price=185.50)
    apple["features"]["fundamental_data"] = {
        "market_cap": 2850000000000.0,
        "pe_ratio": 28.5,
        "dividend_yield": 0.52,
        "week_52_high": 199.62,
        "week_52_low": 164.08,
        "quarterly_dividend": 0.24,
    }
    return [apple, item("TSLA", 3_000.0)]


@pytest.fixture
def context():
    """Makes the context of a run of scripted models."""

    def make(models, **given):
        return PipelineContext(config=models.cfg, run_id="backtest_20250615", **given)

    return make
