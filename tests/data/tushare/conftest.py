"""A small market behind tushare's protocol, and a source on it."""

from __future__ import annotations

import pandas as pd
import pytest
from tushare_stub import TushareStub

from quantgraph.data._source import INDICATOR_FIELDS
from quantgraph.data.tushare import TushareSource
from quantgraph.data.tushare._client import ENDPOINTS

TOKEN = "f00dcafe5ec2e7"
SESSIONS = ["20240102", "20240103", "20240104", "20240105", "20240108", "20240109", "20240110"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
BASE = {"000001.SZ": 9.0, "600000.SH": 6.0, "600519.SH": 1700.0}
SUSPENDED = ("600000.SH", "20240104")
DATES_OF_600519 = ("20240103", "20240104", "20240104", "20240102")  # record, ex, pay, announced


def market_days(fields) -> pd.DataFrame:
    """``fields`` give the numbers of a row from the base price and the number of the session."""
    rows = [
        {"ts_code": code, "trade_date": day, **fields(BASE[code], number)}
        for code in CODES
        for number, day in enumerate(SESSIONS)
        if (code, day) != SUSPENDED
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    calendar = pd.DataFrame({"cal_date": pd.date_range("2023-12-25", "2024-12-31").strftime("%Y%m%d")})
    calendar["exchange"] = "SSE"
    calendar["is_open"] = calendar["cal_date"].isin(SESSIONS).astype(int)
    calendar["pretrade_date"] = None
    return {
        "trade_cal": calendar,
        "daily": market_days(
            lambda base, n: {
                "open": base + n,
                "high": base + n + 0.5,
                "low": base + n - 0.5,
                "close": base + n + 0.25,
                "pre_close": base + n - 0.75,
                "change": 1.0,
                "pct_chg": 1.0,
                "vol": 100.0 * n,
                "amount": 10.0 * n,
            }
        ),
        "daily_basic": market_days(
            lambda base, n: {"close": base, **dict.fromkeys(INDICATOR_FIELDS, 1.0 * n), "pe": None}
        ),
        "stk_limit": market_days(
            lambda base, n: {"pre_close": base, "up_limit": base * 1.1, "down_limit": base * 0.9}
        ),
        "adj_factor": pd.DataFrame(
            [
                {"ts_code": code, "trade_date": day, "adj_factor": 2.0}
                for code in CODES
                for day in SESSIONS  # the vendor gives factors on suspended days too
            ]
        ),
        "dividend": pd.DataFrame(
            [
                ("600519.SH", "20231231", "20231205", "预案", 0.3, 1.5, *[None] * 4),
                ("600519.SH", "20231231", "20231205", "实施", 0.3, 1.5, *DATES_OF_600519),
                ("600519.SH", "20231231", "20231205", "实施", 0.3, 1.5, *DATES_OF_600519),
                (
                    "000001.SZ",
                    "20230630",
                    "20231101",
                    "实施",
                    0.0,
                    0.12,
                    "20240108",
                    "20240109",
                    *["20240110"] * 2,
                ),
                (
                    "000001.SZ",
                    "20220630",
                    "20221101",
                    "实施",
                    0.0,
                    0.11,
                    "20230108",
                    "20230109",
                    *["20230110"] * 2,
                ),
            ],
            columns=[
                *("ts_code", "end_date", "ann_date", "div_proc", "stk_div", "cash_div_tax"),
                *("record_date", "ex_date", "pay_date", "imp_ann_date"),
            ],
        ),
        "suspend_d": pd.DataFrame(
            [(*SUSPENDED, None, "S"), ("600519.SH", "20240301", None, "S")],
            columns=["ts_code", "trade_date", "suspend_timing", "suspend_type"],
        ),
        "stock_basic": pd.DataFrame(
            [
                ("000001.SZ", "平安银行", "主板", "L", "19910403", None),
                ("600000.SH", "浦发银行", "主板", "L", "19991110", None),
                ("600519.SH", "贵州茅台", "主板", "L", "20010827", None),
                ("600001.SH", "邯郸钢铁(退)", "主板", "D", "19980122", "20091229"),
            ],
            columns=["ts_code", "name", "market", "list_status", "list_date", "delist_date"],
        ),
        "index_basic": pd.DataFrame(
            [
                ("000300.SH", "沪深300", "CSI"),
                ("000001.SH", "上证指数", "SSE"),
                ("399001.SZ", "深证成指", "SZSE"),
            ],
            columns=["ts_code", "name", "market"],
        ),
        "index_daily": pd.DataFrame(
            [
                ("000300.SH", day, 3400.0 + n, 3410.0 + n, 3390.0 + n, 3405.0 + n, 3400.0, 5.0, 0.1, 1.0, 1.0)
                for n, day in enumerate(SESSIONS)
                if day != "20240105"
            ],
            columns=list(ENDPOINTS["index_daily"].fields),
        ),
        "index_weight": pd.DataFrame(
            [
                ("000300.SH", "600519.SH", "20231229", 60.0),
                ("000300.SH", "000001.SZ", "20231229", 40.0),
                ("000300.SH", "600519.SH", "20240105", 100.0),
                ("000016.SH", "600519.SH", "20240109", 100.0),
            ],
            columns=["index_code", "con_code", "trade_date", "weight"],
        ),
        "namechange": pd.DataFrame(
            [
                ("600000.SH", "G浦发", "改名", "20060512", "20061008", "20060510"),
                ("600000.SH", "浦发银行", "上市", "19991110", "20060511", None),
            ],
            columns=["ts_code", "name", "change_reason", "start_date", "end_date", "ann_date"],
        ),
    }


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("TUSHARE_TOKEN", "TUSHARE_URL", "TS_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stub(tables):
    with TushareStub(tables, token=TOKEN) as running:
        yield running


@pytest.fixture
def source(stub, tmp_path):
    return TushareSource(
        TOKEN,
        base_url=stub.url,
        cache_dir=tmp_path,
        now=lambda: pd.Timestamp("2024-01-15 12:00", tz="Asia/Shanghai"),
    )
