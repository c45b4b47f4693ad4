"""Every source that the package has keeps one protocol, and the check finds what breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from baostock_market import market_tables, source_on
from baostock_stub import BaostockStub
from load_script import load_script
from qlib_folder import adjusted, write_qlib
from yahoo_stub import Security, YahooStub

from quantgraph.data import MarketDataSource, open_source
from quantgraph.data.yfinance import YfinanceClient, YfinanceSource
from quantgraph.market import sessions
from quantgraph.testing import SourceContract, check_source

DAYS = sessions("2024-01-02", "2024-01-10")


def bars() -> pd.DataFrame:
    close = 10 + np.arange(len(DAYS)) / 10
    volume = np.full(len(DAYS), 5000.0)
    prices = {"open": close - 0.05, "high": close + 0.1, "low": close - 0.1, "close": close}
    return pd.DataFrame({**prices, "vol": volume, "amount": volume * close / 10}, index=DAYS).round(4)


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MarketDataSource]:
    match request.param:
        case "sample":
            yield open_source("sample")
        case "frame":
            yield open_source({"600519.SH": bars(), "000001.SZ": bars()})
        case "file":
            bars().rename_axis("trade_date").reset_index().assign(ts_code="600519.SH").to_csv("bars.csv")
            yield open_source("bars.csv")
        case "qlib":
            factor = pd.Series(0.5, index=DAYS)
            tables = {"600519.SH": adjusted(bars(), factor), "000001.SZ": adjusted(bars(), factor)}
            yield open_source(f"qlib:{write_qlib(tmp_path / 'cn', tables)}")
        case "baostock":
            with BaostockStub(market_tables()) as stub:
                made = source_on(stub, tmp_path, day="2024-01-11")
                yield made
                made.close()
        case "yfinance":
            raw = (
                bars()
                .rename(columns={"vol": "volume"})
                .set_axis(sessions("2020-08-26", "2020-09-03", exchange="XNYS"))
            )
            with YahooStub({"AAPL": Security(raw, splits={"2020-08-31": (4, 1)})}) as stub:
                client = YfinanceClient(tmp_path / "session", address=stub.address, timeout=20)
                now = pd.Timestamp("2020-09-04 12:00", tz="America/New_York")
                yahoo = YfinanceSource("AAPL", client=client, cache_dir=tmp_path, now=lambda: now)
                yield yahoo
                yahoo.close()


WINDOWS = {"baostock": ("2024-01-02", "2024-01-10"), "yfinance": ("2020-08-26", "2020-09-03")}


@pytest.mark.parametrize(
    "source", ["sample", "frame", "file", "qlib", "baostock", "yfinance"], indirect=True, ids=str
)
class TestEachSource(SourceContract):
    @pytest.fixture(autouse=True)
    def given(self, source: MarketDataSource) -> None:
        self.source, self.window = source, WINDOWS.get(source.name)

    def make_source(self) -> MarketDataSource:
        return self.source


class Broken:
    """A good source with one answer replaced."""

    def __init__(self, **other: object) -> None:
        self._other, self._good = other, open_source({"600519.SH": bars(), "000001.SZ": bars()})

    def __getattr__(self, name: str) -> object:
        return self._other[name] if name in self._other else getattr(self._good, name)


def changed(change):
    def ask(symbols, start, end):
        good = open_source({"600519.SH": bars(), "000001.SZ": bars()})
        return change(good.bars(symbols, start, end), start)

    return {"bars": ask}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"sessions": lambda: DAYS[::-1]}, "sessions\\(\\) is ascending"),
        ({"sessions": lambda: DAYS.tz_localize("UTC")}, "sessions\\(\\) is naive"),
        ({"symbols": lambda: ("B", "A")}, "symbols\\(\\) is an ascending tuple"),
        (changed(lambda panel, _: {"close": panel["close"]}), "bars\\(\\) has open, close"),
        (changed(lambda panel, _: {**panel, "price": panel["close"]}), "BAR_FIELDS alone: \\['price'\\]"),
        (changed(lambda panel, _: {**panel, "vol": panel["vol"].astype("float32")}), "vol is float64"),
        (changed(lambda panel, _: {**panel, "low": panel["low"] * 0}), "low is above 0"),
        (changed(lambda panel, _: {**panel, "high": panel["low"]}), "open lies between low and high"),
        (
            changed(lambda panel, _: {f: x.iloc[:-1] for f, x in panel.items()}),
            "open are the sessions of the window",
        ),
        (
            changed(lambda panel, start: {**panel, "vol": panel["vol"] + start.day}),
            "vol does not depend on the window's start",
        ),
        ({"members": lambda code, on: None}, "an index that it lacks is a UnknownSymbol, not an answer"),
        ({"index_bars": lambda *told: {}["x"]}, "levels that it lacks is a UnknownSymbol, not KeyError"),
    ],
)
def test_the_check_names_what_is_broken(other, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_source(Broken(**other))


def test_make_live_says_a_line_for_each_vendor(monkeypatch, capsys, tmp_path) -> None:
    live = load_script(Path(__file__).resolve().parents[2] / "scripts" / "live.py")
    tables = market_tables()
    with BaostockStub(tables) as stub:
        monkeypatch.setenv("BAOSTOCK_ADDRESS", stub.address)
        monkeypatch.setenv("YFINANCE_URL", "http://127.0.0.1:9")
        assert live.main(tmp_path, first="2024-01-02", last="2024-01-10") == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("tushare: skipped: not_configured: tushare needs a token")
    assert told[1] == "baostock: 7 sessions of 600519.SH to 2024-01-10, close 1706.25"
    assert told[2].startswith("yfinance:AAPL: source_unavailable: yfinance history at http://127.0.0.1:9")
