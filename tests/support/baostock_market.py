"""A small market in baostock's tables, and a source on a server that has them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from baostock_stub import BaostockStub

from quantgraph.data.baostock import BaostockClient, BaostockSource

SESSIONS = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09", "2024-01-10"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
BASE = {"sz.000001": 9.0, "sh.600000": 6.0, "sh.600519": 1700.0, "sh.000300": 3400.0}
SUSPENDED = ("sh.600000", "2024-01-04")


def bar(code: str, day: str, number: int) -> dict[str, str]:
    """One row as the vendor writes it: shares, yuan, ten decimals; empty where nothing was traded."""
    base, traded = BASE[code] + number, (code, day) != SUSPENDED
    close = base + 0.25 if traded else base - 0.75
    return {
        "date": day,
        "code": code,
        "open": f"{base if traded else close:.10f}",
        "high": f"{base + 0.5 if traded else close:.10f}",
        "low": f"{base - 0.5 if traded else close:.10f}",
        "close": f"{close:.10f}",
        "preclose": f"{base - 0.75:.10f}",
        "volume": str(10_000 * (number + 1)) if traded else "",
        "amount": f"{20_000.0 * (number + 1):.4f}" if traded else "",
        "turn": f"{0.5 + number:.6f}" if traded else "",
        "tradestatus": "1" if traded else "0",
        "peTTM": "6.500000",
        "pbMRQ": "0.600000",
        "psTTM": "1.500000",
        "isST": "1" if code == "sh.600000" and day >= "2024-01-08" else "0",
    }


def market_tables() -> dict[str, pd.DataFrame]:
    days = pd.date_range("1990-12-19", "2024-12-31").strftime("%Y-%m-%d")
    plan = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-04"]  # announced, record, ex, pay
    return {
        "query_trade_dates": pd.DataFrame(
            {"calendar_date": days, "is_trading_day": [str(int(day in SESSIONS)) for day in days]}
        ),
        "query_stock_basic": pd.DataFrame(
            [
                ("sz.000001", "平安银行", "1991-04-03", "", "1", "1"),
                ("sh.600000", "浦发银行", "1999-11-10", "", "1", "1"),
                ("sh.600519", "贵州茅台", "2001-08-27", "", "1", "1"),
                ("sh.603999", "新股", "2024-01-09", "", "1", "1"),
                ("sh.000300", "沪深300", "2005-04-08", "", "2", "1"),
            ],
            columns=["code", "code_name", "ipoDate", "outDate", "type", "status"],
        ),
        "query_history_k_data_plus": pd.DataFrame(
            [bar(code, day, number) for code in BASE for number, day in enumerate(SESSIONS)]
        ),
        "query_dividend_data": pd.DataFrame(
            [
                ("sh.600519", "2023-12-05", *plan, "1.5", "1.35或1.425", "0.1", "0.2"),
                ("sh.600519", "2022-12-05", *[f"2023{day[4:]}" for day in plan], "1.1", "", "", ""),
            ],
            columns=[
                *("code", "dividPlanAnnounceDate", "dividPlanDate", "dividRegistDate", "dividOperateDate"),
                *("dividPayDate", "dividCashPsBeforeTax", "dividCashPsAfterTax", "dividStocksPs"),
                "dividReserveToStockPs",
            ],
        ),
        "query_hs300_stocks": pd.DataFrame(
            [
                ("2023-12-11", "2023-12-11", "sh.600519", "贵州茅台"),
                ("2023-12-11", "2023-12-11", "sz.000001", "平安银行"),
                ("2024-01-08", "2024-01-08", "sh.600519", "贵州茅台"),
            ],
            columns=["date", "updateDate", "code", "code_name"],
        ),
    }


def source_on(stub: BaostockStub, folder: Path, *, day: str = "2024-01-15", timeout: float = 15.0):
    return BaostockSource(
        client=BaostockClient(address=stub.address, timeout=timeout),
        cache_dir=folder,
        now=lambda: pd.Timestamp(f"{day} 12:00", tz="Asia/Shanghai"),
    )
