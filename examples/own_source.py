"""A data source of your own: two invented stocks from arrays. No base class is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from quantgraph import MarketDataSource, create_signal_subgraph
from quantgraph.data import Members, Panel
from quantgraph.errors import BadWindow, NoData, UnknownSymbol
from quantgraph.testing import check_source

DAYS = pd.bdate_range("2024-01-02", periods=120, name="trade_date").as_unit("us")
CLOSE = {"600001.SH": 10 + np.sin(np.arange(120) / 8), "600002.SH": 20 + np.cos(np.arange(120) / 11)}


class Waves:
    """Prices that go up and down; ``open`` is the close of the day before."""

    name, synthetic = "waves", True

    def sessions(self) -> pd.DatetimeIndex:
        return DAYS

    def symbols(self) -> tuple[str, ...]:
        return tuple(CLOSE)

    def names(self) -> Mapping[str, str]:
        return {"600001.SH": "正弦", "600002.SH": "余弦"}

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        raise UnknownSymbol(f"{self.name} has no index {index_code} on {on:%Y%m%d}")

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        if end < start:
            raise BadWindow(f"{start:%Y%m%d} is after {end:%Y%m%d}")
        if unknown := sorted({*symbols} - {*CLOSE}):
            raise UnknownSymbol(f"{self.name} has no {', '.join(unknown)}", symbols=unknown)
        close = pd.DataFrame(CLOSE, index=DAYS)[sorted({*symbols})]
        return {"open": close.shift().loc[start:end], "close": close.loc[start:end]}

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        raise NoData(f"{self.name} has no daily indicators")

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        raise UnknownSymbol(f"{self.name} has no index {index_code}")


if __name__ == "__main__":
    source: MarketDataSource = Waves()
    check_source(source)  # it keeps the protocol
    graph = create_signal_subgraph(source=source, on_clarify="default")
    state = graph.invoke({"messages": [("user", "正弦和余弦，5日均线上穿20日均线买入，下穿卖出")]})
    report = state["quantgraph"]["progress"]["validation"]
    print(state["ended_because"], report["data_summary"]["signal_counts"])
