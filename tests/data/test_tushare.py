"""The source, with the real ``tushare`` package on a loopback server."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.data.as_of import AsOfSource
from quantgraph.data.market_data import BAR_FIELDS, INDICATOR_FIELDS, MarketDataSource
from quantgraph.data.tushare import TushareSource
from quantgraph.data.tushare.endpoints import INDEX_DAILY
from quantgraph.errors import (
    BadOption,
    BadWindow,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market.moment import Moment
from quantgraph.testing.servers.tushare_stub import (
    TushareFault,
    TushareStub,
    allowance_used_up,
    bad_token,
    connection_dropped,
    http_error,
    no_permission,
)

TOKEN = "f00dcafe5ec2e7"
SESSIONS = ["20240102", "20240103", "20240104", "20240105", "20240108", "20240109", "20240110"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
BASE = {"000001.SZ": 9.0, "600000.SH": 6.0, "600519.SH": 1700.0}
TRADED = BAR_FIELDS[:10]
WITH_ACTIONS = (*TRADED, "dividend", "split", "action_declared", "action_record", "action_pay")
SUSPENDED = ("600000.SH", "20240104")
DATES_OF_600519 = ("20240103", "20240104", "20240104", "20240102")  # record, ex, pay, announced
SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def T(day: str) -> pd.Timestamp:
    return pd.Timestamp(day).as_unit("us")


def noon(day: str, hour: int = 12):
    return lambda: pd.Timestamp(f"{day} {hour}:00", tz="Asia/Shanghai")


def market_days(fields) -> pd.DataFrame:
    """``fields`` give the numbers of a row from the base price and the number of the session."""
    rows = [
        {"ts_code": code, "trade_date": day, **fields(BASE[code], number)}
        for code in CODES
        for number, day in enumerate(SESSIONS)
        if (code, day) != SUSPENDED
    ]
    return pd.DataFrame(rows)


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
            columns=list(INDEX_DAILY.fields),
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
def stub():
    with TushareStub(tables(), token=TOKEN) as running:
        yield running


@pytest.fixture
def source(stub, tmp_path):
    return TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-15"))


def asked(stub: TushareStub) -> Counter[str]:
    return Counter(request.endpoint for request in stub.requests)


class TestPanels:
    def test_it_is_a_source_of_real_data(self, source):
        assert isinstance(source, MarketDataSource)
        assert source.name == "tushare"
        assert source.synthetic is False

    def test_bars_have_all_fields_in_order_on_all_sessions(self, source):
        panel = source.bars(["600519.SH", "600000.SH"], T("20240101"), T("20240107"))
        assert tuple(panel) == WITH_ACTIONS
        for frame in panel.values():
            assert list(frame.index) == [T(day) for day in SESSIONS[:4]]
            assert frame.index.name == "trade_date"
            assert list(frame.columns) == ["600000.SH", "600519.SH"]
            assert set(frame.dtypes.astype(str)) == {"float64"}
        assert panel["open"]["600519.SH"].tolist() == [1700, 1701, 1702, 1703]
        assert panel["pre_close"].loc[T("20240105"), "600000.SH"] == 8.25
        assert panel["up_limit"]["600519.SH"].tolist() == pytest.approx([1870.0] * 4)
        assert panel["vol"]["600519.SH"].tolist() == [0, 100, 200, 300]
        assert source.notes == ()

    def test_a_suspended_day_is_a_row_of_nan_in_every_field(self, source):
        panel = source.bars(CODES, T("20240102"), T("20240110"))
        for field in TRADED:
            nan = panel[field].isna()
            assert nan.loc[T(SUSPENDED[1]), SUSPENDED[0]], field
            assert nan.to_numpy().sum() == 1, field

    def test_indicators_have_the_shape_of_bars(self, source):
        bars = source.bars(CODES, T("20240103"), T("20240108"))
        panel = source.indicators(CODES, T("20240103"), T("20240108"))
        assert tuple(panel) == INDICATOR_FIELDS
        assert panel["pb"].index.equals(bars["close"].index)
        assert panel["pb"].columns.equals(bars["close"].columns)
        assert panel["pb"]["600519.SH"].tolist() == [1, 2, 3, 4]
        assert panel["pe"].isna().all(axis=None)

    def test_only_the_wanted_indicators_come(self, source):
        assert list(source.indicators(CODES, T("20240103"), T("20240108"), ["pb", "pe"])) == ["pb", "pe"]
        with pytest.raises(UnknownField, match=r"no field eps; valid are turnover_rate"):
            source.indicators(CODES, T("20240103"), T("20240108"), ["eps"])

    def test_index_bars_have_a_row_for_every_session(self, source):
        levels = source.index_bars("000300.SH", T("20240104"), T("20240108"))
        assert list(levels.columns) == ["open", "high", "low", "close"]
        assert list(levels.index) == [T("20240104"), T("20240105"), T("20240108")]
        assert levels.loc[T("20240104")].tolist() == [3402, 3412, 3392, 3407]
        assert levels.loc[T("20240105")].isna().all()

    def test_real_prices_arrive_unchanged(self, tmp_path):
        path = SHARED / "ai-trader" / "a_share" / "daily_prices_sse_50_20251009_20251119.csv"
        if not path.exists():
            pytest.skip(f"the real prices are not here: {path}")
        real = pd.read_csv(path, dtype={"trade_date": "str"})
        days = sorted(real["trade_date"].unique())
        calendar = pd.DataFrame({"exchange": "SSE", "cal_date": days, "is_open": 1, "pretrade_date": None})
        expected = real[real["ts_code"] == "600519.SH"].set_index("trade_date").sort_index()
        codes = sorted(real["ts_code"].unique())
        with TushareStub({"daily": real, "trade_cal": calendar}, row_limits={"daily": 100}) as stub:
            stub.add_faults("stk_limit", no_permission())
            stub.add_faults("adj_factor", no_permission())
            stub.add_faults("dividend", no_permission())
            source = TushareSource(
                TOKEN,
                base_url=stub.url,
                cache_dir=tmp_path,
                row_limits={"daily": 100},
                now=noon("2025-11-20"),
            )
            panel = source.bars(codes, T(days[0]), T(days[-1]))
        assert sum(frame.count().sum() for frame in panel.values()) == 7 * len(real)
        for field, frame in panel.items():
            assert frame["600519.SH"].tolist() == expected[field].tolist()


class TestLists:
    def test_sessions_are_the_open_days_up_to_the_last_ready_one(self, stub, tmp_path):
        for hour, last in [(16, "20240109"), (17, "20240110")]:
            source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-10", hour))
            sessions = source.sessions()
            assert sessions[-1] == T(last)
        assert list(sessions) == [T(day) for day in SESSIONS]
        assert sessions.name == "trade_date"
        assert sessions.dtype == "datetime64[us]"

    def test_the_clock_is_read_in_shanghai(self, stub, tmp_path):
        source = TushareSource(
            TOKEN,
            base_url=stub.url,
            cache_dir=tmp_path,
            now=lambda: pd.Timestamp("2024-01-09 23:00", tz="America/Los_Angeles"),  # 15:00 on the 10th
        )
        assert source.sessions()[-1] == T("20240109")

    def test_symbols_include_the_delisted(self, source):
        assert source.symbols() == ("000001.SZ", "600000.SH", "600001.SH", "600519.SH")

    def test_names_are_those_of_stocks_and_indices(self, source):
        names = source.names()
        assert names["600519.SH"] == "贵州茅台"
        assert names["000300.SH"] == "沪深300"
        assert len(names) == 7

    def test_names_that_may_not_be_read_are_left_out_with_a_note(self, stub, source):
        stub.add_faults("index_basic", no_permission())
        assert source.names()["600519.SH"] == "贵州茅台"
        assert ["index_basic" in note for note in source.notes] == [True]

    def test_without_lists_of_stocks_and_indices_the_changes_of_names_stand_in(self, stub, source):
        stub.add_faults("stock_basic", no_permission())
        stub.add_faults("index_basic", no_permission())
        assert source.symbols() == ("600000.SH",)  # the only one in namechange
        assert source.names() == {"600000.SH": "G浦发"}  # its last one
        told = " ".join(source.notes)
        assert "the list of stocks is that of namechange" in told
        assert "index_basic" in told

    @pytest.mark.parametrize(
        ("day", "symbols", "name"),
        [
            ("19991109", ("000001.SZ", "600001.SH"), None),
            ("20011231", ("000001.SZ", "600000.SH", "600001.SH", "600519.SH"), "浦发银行"),
            ("20061009", ("000001.SZ", "600000.SH", "600001.SH", "600519.SH"), "G浦发"),
        ],
    )
    def test_lists_as_of_a_day_have_no_later_listing_and_no_later_name(self, source, day, symbols, name):
        known = AsOfSource(source, Moment.at(day))
        assert known.symbols() == symbols
        names = known.names()
        assert names.get("600000.SH") == name
        assert names.keys() == {*symbols, "000300.SH", "000001.SH", "399001.SZ"}
        assert names["000001.SZ"] == "平安银行"  # never renamed

    def test_without_changes_of_names_they_are_todays_and_a_note_says_so(self, stub, source):
        stub.add_faults("namechange", no_permission())
        assert AsOfSource(source, Moment.at("20011231")).names()["600000.SH"] == "浦发银行"
        assert any("names are today's" in note for note in source.notes)

    def test_a_window_that_is_cut_is_refused_without_a_word_of_the_newest_data(self, source):
        known = AsOfSource(source, Moment.at("20240107"))  # a Sunday
        with pytest.raises(BadWindow) as caught:
            known.bars(["600519.SH"], T("20240106"), T("20240131"))
        assert caught.value.message.endswith(
            "from 2024-01-06 to 2024-01-07; its sessions run from "
            f"{source.sessions()[0]:%Y-%m-%d} to 2024-01-05"
        )

    def test_without_any_list_the_first_refusal_is_told(self, stub, source):
        stub.add_faults("stock_basic", no_permission())
        stub.add_faults("namechange", no_permission())
        with pytest.raises(PermissionDenied, match="stock_basic"):
            source.symbols()

    def test_members_are_the_newest_list_of_the_day_or_before(self, source):
        new_year = source.members("000300.SH", T("20240104"))
        assert new_year.symbols == ("000001.SZ", "600519.SH")
        assert (new_year.listed_on, new_year.point_in_time) == (T("20231229"), True)
        assert source.members("000300.SH", T("20240105")).symbols == ("600519.SH",)

    def test_members_of_a_later_list_are_not_point_in_time(self, source):
        early = source.members("000016.SH", T("20240105"))
        assert early.symbols == ("600519.SH",)
        assert (early.listed_on, early.point_in_time) == (T("20240109"), False)

    def test_members_of_long_ago_are_found(self, stub, source):
        old = [("000903.SH", "600519.SH", "20120629", 1.0)]
        stub.set_table(
            "index_weight", pd.DataFrame(old, columns=["index_code", "con_code", "trade_date", "weight"])
        )
        found = source.members("000903.SH", T("20240105"))
        assert (found.listed_on, found.point_in_time) == (T("20120629"), True)

    def test_an_index_without_lists_is_unknown(self, source):
        with pytest.raises(UnknownSymbol, match=r"999999\.SH"):
            source.members("999999.SH", T("20240105"))


class TestRawTables:
    def test_daily_has_the_columns_of_the_vendor_sorted_by_day(self, source):
        rows = source.query("daily", "600519.SH", start_date="20240103", end_date="2024-01-05")
        assert list(rows.columns[:3]) == ["ts_code", "trade_date", "open"]
        assert rows["trade_date"].tolist() == [T("20240103"), T("20240104"), T("20240105")]
        assert rows["trade_date"].dtype == "datetime64[us]"

    @pytest.mark.parametrize("endpoint", ["daily", "daily_basic", "adj_factor", "stk_limit"])
    def test_a_day_has_all_stocks_and_a_comma_list_some(self, source, endpoint):
        assert source.query(endpoint, trade_date="20240103")["ts_code"].tolist() == list(CODES)
        some = source.query(endpoint, "600519.SH,000001.SZ", trade_date="20240103")
        assert some["ts_code"].tolist() == ["000001.SZ", "600519.SH"]

    def test_a_window_of_all_stocks(self, source):
        rows = source.query("daily", start_date="20240103", end_date="20240104")
        assert len(rows) == 5
        assert rows["trade_date"].is_monotonic_increasing

    def test_the_other_tables(self, source):
        assert source.query("index_daily", "000300.SH", start_date="20240110")["close"].tolist() == [3411.0]
        assert len(source.query("index_weight", "000300.SH", start_date="20231201", end_date="20231231")) == 2
        calendar = source.query("trade_cal", start_date="20240106", end_date="20240109")
        assert calendar["is_open"].tolist() == [0, 0, 1, 1]
        assert source.query("namechange", "600000.SH")["name"].tolist() == ["浦发银行", "G浦发"]

    def test_suspensions_announced_for_the_future_are_not_shown(self, source):
        assert source.query("suspend_d", "600519.SH", end_date="20241231").empty
        assert source.query("suspend_d", "600000.SH")["trade_date"].tolist() == [T("20240104")]

    def test_no_row_is_no_data(self, source):
        with pytest.raises(NoData, match="daily has no row"):
            source.query("daily", "600001.SH", start_date="20240103", end_date="20240105")
        with pytest.raises(NoData, match="2024-02-01"):
            source.query("daily", "600519.SH", start_date="20240201")

    def test_lists_are_whole_or_by_code(self, source):
        assert len(source.query("stock_basic")) == 4  # the delisted one too
        assert source.query("stock_basic", "600001.SH")["list_status"].tolist() == ["D"]
        assert source.query("index_basic")["ts_code"].tolist() == ["000001.SH", "000300.SH", "399001.SZ"]

    def test_an_unknown_table_names_the_known_ones(self, source):
        with pytest.raises(BadOption, match="endpoint='income'; valid: daily, daily_basic, adj_factor"):
            source.query("income")

    @pytest.mark.parametrize("codes", ["", "000300.SH,000016.SH"])
    def test_an_index_table_needs_one_code(self, source, codes):
        with pytest.raises(BadOption, match="index_daily needs one ts_code"):
            source.query("index_daily", codes)

    def test_half_a_request_is_a_bad_option(self, source):
        with pytest.raises(BadOption, match="give code"):
            source.query("daily")
        with pytest.raises(BadOption, match="stands alone"):
            source.query("daily", trade_date="20240103", start_date="20240103")
        with pytest.raises(BadWindow, match="is after"):
            source.query("daily", "600519.SH", start_date="20240105", end_date="20240103")


class TestErrors:
    def test_codes_that_are_not_listed_are_named(self, source):
        with pytest.raises(UnknownSymbol, match=r"no stock 600002\.SH, 600003\.SH$"):
            source.bars(["600519.SH", "600003.SH", "600002.SH"], T("20240102"), T("20240105"))

    def test_a_malformed_code_needs_no_request(self, stub, source):
        with pytest.raises(UnknownSymbol, match="茅台: not a stock code"):
            source.bars(["茅台"], T("20240102"), T("20240105"))
        assert stub.requests == []

    def test_a_listed_stock_without_rows_is_a_column_of_nan(self, source):
        panel = source.bars(["600001.SH", "600519.SH"], T("20240102"), T("20240105"))
        assert panel["close"]["600001.SH"].isna().all()
        assert panel["close"]["600519.SH"].notna().all()

    def test_only_stocks_without_rows_are_no_data(self, source):
        with pytest.raises(NoData, match=r"no bars of 600001\.SH in 2024-01-02 to 2024-01-05"):
            source.bars(["600001.SH"], T("20240102"), T("20240105"))
        with pytest.raises(NoData, match="no indicators"):
            source.indicators(["600001.SH"], T("20240102"), T("20240105"))

    def test_windows_without_a_session_or_reversed_are_bad(self, source):
        with pytest.raises(BadWindow, match="is after"):
            source.bars(CODES, T("20240105"), T("20240102"))
        with pytest.raises(BadWindow, match="no session"):
            source.bars(CODES, T("20240106"), T("20240107"))
        with pytest.raises(BadWindow, match="newest data is of 2024-01-14"):
            source.bars(CODES, T("20250106"), T("20250107"))

    def test_no_symbols_is_a_bad_option(self, source):
        with pytest.raises(BadOption, match="symbols is empty"):
            source.bars([], T("20240102"), T("20240105"))

    def test_an_index_is_unknown_or_without_data(self, source):
        with pytest.raises(UnknownSymbol, match=r"no index 999999\.SH"):
            source.index_bars("999999.SH", T("20240102"), T("20240105"))
        with pytest.raises(NoData, match="no levels"):
            source.index_bars("399001.SZ", T("20240102"), T("20240105"))

    def test_two_different_rows_of_one_day_are_refused(self, stub, source):
        daily = tables()["daily"]
        stub.set_table("daily", pd.concat([daily, daily.head(1).assign(close=1.0)]))
        with pytest.raises(SourceUnavailable, match="more than once"):
            source.bars(CODES, T("20240102"), T("20240105"))

    @pytest.mark.parametrize(
        "change", [{"ts_code": "600519.SH"}, {"trade_date": "20240108"}], ids=["code", "day"]
    )
    def test_rows_that_were_not_asked_for_are_refused(self, source, monkeypatch, change):
        monkeypatch.setattr("quantgraph.testing.servers.tushare_stub._matching", lambda table, params: table)
        source._store._client._row_limits["daily"] = 10_000
        with pytest.raises(SourceUnavailable, match="the answer also holds"):
            source.query("daily", "600000.SH", start_date="20240102", end_date="20240105")

    def test_an_http_error_is_not_taken_for_no_data(self, stub, source):
        stub.add_faults("daily", http_error(500))
        with pytest.raises(SourceUnavailable):
            source.bars(CODES, T("20240102"), T("20240105"))


class TestOptionalFields:
    @pytest.mark.parametrize(
        ("endpoint", "left_out"),
        [("stk_limit", {"up_limit", "down_limit"}), ("adj_factor", {"adj_factor"})],
    )
    def test_fields_without_permission_are_left_out_with_a_note(self, stub, source, endpoint, left_out):
        stub.add_faults(endpoint, no_permission())
        panel = source.bars(CODES, T("20240102"), T("20240105"))
        assert set(WITH_ACTIONS) - set(panel) == left_out
        assert len(source.notes) == 1
        assert endpoint in source.notes[0]
        assert "权限" in source.notes[0]

    def test_fields_without_rows_are_left_out_with_a_note(self, stub, source):
        stub.set_table("stk_limit", tables()["stk_limit"].head(0))
        panel = source.bars(CODES, T("20240102"), T("20240105"))
        assert "up_limit" not in panel
        assert "has no rows" in source.notes[0]

    def test_another_failure_of_theirs_is_not_swallowed(self, stub, source):
        stub.add_faults("adj_factor", http_error(500))
        with pytest.raises(SourceUnavailable, match="adj_factor"):
            source.bars(CODES, T("20240102"), T("20240105"))

    @pytest.mark.parametrize(
        "fault", [no_permission(), TushareFault(kind="refusal", code=40101, message="请指定正确的接口名")]
    )
    def test_a_server_that_refuses_dividends_is_noted(self, stub, source, fault):
        stub.add_faults("dividend", fault)
        assert tuple(source.bars(CODES, T("20240102"), T("20240105"))) == TRADED
        assert ["fields of dividend" in note for note in source.notes] == [True]

    def test_a_broken_answer_about_dividends_is_not_swallowed(self, stub, source):
        stub.add_faults("dividend", connection_dropped())
        with pytest.raises(SourceUnavailable, match="dividend"):
            source.bars(CODES, T("20240102"), T("20240105"))

    def test_no_dividend_in_the_window_is_known_and_no_note(self, source):
        panel = source.bars(CODES, T("20240102"), T("20240103"))
        assert panel["dividend"].isna().all(axis=None)
        assert source.notes == ()

    def test_dividends_carried_out_stand_on_their_ex_date(self, source):
        panel = source.bars(CODES, T("20240102"), T("20240110"))
        ex = {name: panel[name].loc[T("20240104"), "600519.SH"] for name in WITH_ACTIONS[10:]}
        assert ex == {
            "dividend": 1.5,
            "split": 1.3,
            "action_declared": 20240102.0,  # not the plan's 20231205
            "action_record": 20240103.0,
            "action_pay": 20240104.0,
        }
        assert panel["dividend"].loc[T("20240109"), "000001.SZ"] == 0.12
        # Announced, as the vendor has it, after the ex-date: that cannot be.
        assert np.isnan(panel["action_declared"].loc[T("20240109"), "000001.SZ"])
        assert source.notes == (
            "tushare dividend: 1 actions are declared after their ex-date; that date is left out",
        )

    def test_the_raw_table_has_ex_dates_in_the_window_only(self, source):
        rows = source.query("dividend", "000001.SZ", start_date="20240101")
        assert rows["cash_div_tax"].tolist() == [0.12]
        assert source.query("dividend", "600000.SH").empty

    def test_a_note_is_kept_once(self, stub, source):
        stub.add_faults("stk_limit", no_permission())
        for _ in range(2):
            source.bars(CODES, T("20240102"), T("20240105"))
        assert len(source.notes) == 1

    def test_a_stock_that_cannot_be_checked_is_noted(self, stub, source):
        stub.add_faults("stock_basic", allowance_used_up())
        panel = source.bars(["600001.SH", "600519.SH"], T("20240102"), T("20240105"))
        assert panel["close"]["600001.SH"].isna().all()
        assert "600001.SH; whether they exist" in source.notes[0]

    def test_daily_itself_without_permission_is_an_error(self, stub, source):
        stub.add_faults("daily", no_permission())
        with pytest.raises(PermissionDenied):
            source.bars(CODES, T("20240102"), T("20240105"))


class TestFewCalls:
    def test_few_stocks_on_many_days_are_asked_by_stock(self, stub, source):
        source.bars(["600519.SH", "000001.SZ"], T("20240102"), T("20240110"))
        calls = [dict(request.params) for request in stub.requests if request.endpoint == "daily"]
        assert [call["ts_code"] for call in calls] == ["000001.SZ", "600519.SH"]

    def test_many_stocks_on_few_days_are_asked_by_day(self, stub, source):
        panel = source.bars(CODES, T("20240103"), T("20240104"))
        calls = [dict(request.params) for request in stub.requests if request.endpoint == "daily"]
        assert [call["trade_date"] for call in calls] == ["20240103", "20240104"]
        assert panel["open"]["600519.SH"].tolist() == [1701, 1702]

    def test_both_ways_give_the_same_panel(self, stub, tmp_path):
        panels = []
        for way in ("code", "day"):
            source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path / way, now=noon("2024-01-15"))
            if way == "day":
                for day in SESSIONS[:3]:
                    source.query("daily", trade_date=day)
            panels.append(source.bars(CODES[:2], T("20240102"), T("20240104")))
        for field in WITH_ACTIONS:
            pd.testing.assert_frame_equal(panels[0][field], panels[1][field])

    def test_more_rows_than_a_page_come_complete(self, tmp_path):
        limits = {
            "daily": 2,
            "stk_limit": 3,
            "adj_factor": 7,
            "dividend": 2,
            "trade_cal": 5,
            "index_weight": 1,
        }
        with TushareStub(tables(), row_limits=limits) as stub:
            source = TushareSource(
                TOKEN, base_url=stub.url, cache_dir=tmp_path, row_limits=limits, now=noon("2024-01-15")
            )
            panel = source.bars(CODES, T("20240102"), T("20240110"))
            assert source.members("000300.SH", T("20240104")).symbols == ("000001.SZ", "600519.SH")
        counts = {field: int(frame.count().sum()) for field, frame in panel.items()}
        assert counts == dict.fromkeys(TRADED, 20) | dict.fromkeys(WITH_ACTIONS[10:], 2) | {
            "split": 1,
            "action_declared": 1,
        }


class TestCache:
    def test_the_same_request_again_asks_nothing(self, stub, source):
        first = source.bars(CODES, T("20240102"), T("20240110"))
        before = len(stub.requests)
        again = source.bars(CODES, T("20240102"), T("20240110"))
        assert len(stub.requests) == before
        for field in WITH_ACTIONS:
            pd.testing.assert_frame_equal(first[field], again[field])

    def test_a_part_of_what_is_cached_asks_nothing(self, stub, source):
        source.bars(CODES, T("20240102"), T("20240110"))
        before = len(stub.requests)
        part = source.bars(["600519.SH"], T("20240104"), T("20240105"))
        assert len(stub.requests) == before
        assert part["open"]["600519.SH"].tolist() == [1702, 1703]

    def test_only_missing_days_are_asked_for(self, stub, source):
        source.query("daily", "600519.SH", start_date="20240103", end_date="20240104")
        source.query("daily", "600519.SH", start_date="20240102", end_date="20240109")
        windows = [(call.params["start_date"], call.params["end_date"]) for call in stub.requests]
        assert windows == [
            ("20240103", "20240104"),
            ("20240102", "20240102"),
            ("20240105", "20240109"),
        ]

    def test_a_window_far_from_the_cached_one_fills_the_gap_too(self, stub, source):
        source.query("daily", "600519.SH", start_date="20240109", end_date="20240110")
        source.query("daily", "600519.SH", start_date="20240102", end_date="20240103")
        rows = source.query("daily", "600519.SH", start_date="20240102", end_date="20240110")
        assert len(rows) == 7
        assert asked(stub) == {"daily": 2}

    def test_a_day_without_rows_is_not_asked_for_again(self, stub, source):
        for _ in range(2):
            with pytest.raises(NoData):
                source.query("daily", "600001.SH", start_date="20240102", end_date="20240105")
        assert asked(stub) == {"daily": 1}

    def test_today_is_asked_for_again_until_it_is_over(self, stub, tmp_path):
        def source_at(day: str, hour: int) -> TushareSource:
            return TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon(day, hour))

        complete = tables()["daily"]
        stub.set_table("daily", complete[complete["trade_date"] < "20240110"])
        evening = source_at("2024-01-10", 18)
        assert len(evening.query("daily", "600519.SH", start_date="20240102", end_date="20240110")) == 6
        stub.set_table("daily", complete)
        assert len(evening.query("daily", "600519.SH", start_date="20240102", end_date="20240110")) == 7
        assert stub.requests[-1].params["start_date"] == "20240110"
        next_day = source_at("2024-01-11", 9)
        for _ in range(2):
            assert len(next_day.query("daily", "600519.SH", start_date="20240102", end_date="20240110")) == 7
        assert asked(stub) == {"daily": 3}

    def test_the_page_of_today_is_not_kept(self, stub, tmp_path):
        source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-10", 18))
        for _ in range(2):
            assert len(source.query("daily", trade_date="20240110")) == 3
        assert asked(stub)["daily"] == 2

    @pytest.mark.parametrize(("today", "requests"), [("2024-01-15", 2), ("2024-01-25", 1)])
    def test_an_empty_page_is_kept_when_the_vendor_cannot_be_late(self, stub, tmp_path, today, requests):
        stub.set_table("daily", tables()["daily"].head(0))
        source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon(today))
        for _ in range(2):
            with pytest.raises(NoData):
                source.query("daily", trade_date="20240110")
        assert asked(stub)["daily"] == requests

    def test_lists_are_asked_for_once_a_day(self, stub, tmp_path):
        for day in ("2024-01-15", "2024-01-15", "2024-01-16"):
            TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon(day)).symbols()
        assert asked(stub) == {"stock_basic": 6}  # listed, delisted and paused, on two days

    def test_an_old_list_serves_when_there_is_no_new_one(self, stub, tmp_path):
        TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-15")).symbols()
        stub.add_faults("*", connection_dropped())
        later = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-16"))
        assert len(later.symbols()) == 4
        assert "stock_basic is as of 2024-01-15" in later.notes[0]

    def test_sessions_of_the_cache_serve_without_a_network(self, stub, tmp_path):
        source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-09"))
        source.sessions()
        later = TushareSource(base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-11"))
        assert later.sessions()[-1] == T("20240108")
        assert "sessions are 2024-01-02 to 2024-01-08 only" in later.notes[0]

    def test_sessions_without_cache_and_network_are_an_error(self, stub, tmp_path):
        with pytest.raises(NotConfigured):
            TushareSource(base_url=stub.url, cache_dir=tmp_path).sessions()

    def test_a_cached_request_needs_neither_token_nor_server_nor_this_process(self, stub, source, tmp_path):
        expected = source.bars(CODES, T("20240102"), T("20240105"))["close"]
        script = (
            "import pandas as pd, pathlib, sys\n"
            "from quantgraph.data.tushare import TushareSource\n"
            "source = TushareSource(base_url='http://127.0.0.1:9/dataapi', cache_dir=pathlib.Path(sys.argv[1]))\n"
            f"panel = source.bars({list(CODES)}, pd.Timestamp('20240102'), pd.Timestamp('20240105'))\n"
            "assert 'tushare' not in sys.modules\n"
            "print(panel['close'].to_csv())\n"
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TUSHARE")}
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == expected.to_csv().strip(), done.stderr

    def test_what_is_not_cached_needs_a_token(self, stub, source, tmp_path):
        source.bars(CODES, T("20240102"), T("20240105"))
        offline = TushareSource(base_url=stub.url, cache_dir=tmp_path, now=noon("2024-01-15"))
        with pytest.raises(NotConfigured, match="TUSHARE_TOKEN"):
            offline.bars(CODES, T("20240102"), T("20240110"))

    def test_a_damaged_file_is_fetched_again_with_a_note(self, stub, source, tmp_path):
        source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        (file,) = (tmp_path / "daily").iterdir()
        file.write_bytes(file.read_bytes()[:100])
        assert len(source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")) == 4
        assert "is damaged" in source.notes[0]
        source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        assert asked(stub) == {"daily": 2}

    @pytest.mark.parametrize("kind", ["series", "day", "list"])
    def test_a_damaged_file_without_a_network_is_a_clear_error(self, stub, source, tmp_path, kind):
        ask = {
            "series": lambda: source.query("daily", "600519.SH", start_date="20240102", end_date="20240105"),
            "day": lambda: source.query("daily", trade_date="20240102"),
            "list": source.symbols,
        }[kind]
        ask()
        for file in tmp_path.rglob("*.parquet"):
            if file.parent.name != "trade_cal":
                file.write_bytes(b"nonsense")
        stub.add_faults("*", connection_dropped())
        with pytest.raises(SourceUnavailable, match=r"no connection.*cached copy.*is damaged.*delete it"):
            ask()

    def test_damaged_files_do_not_break_the_choice_of_calls(self, source, tmp_path):
        source.bars(CODES, T("20240102"), T("20240110"))
        for file in tmp_path.rglob("*.parquet"):
            file.write_bytes(b"nonsense")
        assert source.bars(CODES, T("20240102"), T("20240110"))["close"].count().sum() == 20

    def test_an_error_is_not_kept(self, stub, source):
        stub.add_faults("daily", http_error(500, times=1))
        with pytest.raises(SourceUnavailable):
            source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        assert len(source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")) == 4

    def test_threads_that_want_the_same_fetch_it_once(self, stub, source):
        barrier = threading.Barrier(6)
        panels: list[pd.DataFrame] = []

        def work() -> None:
            barrier.wait()
            panels.append(source.bars(CODES[:2], T("20240102"), T("20240110"))["close"])

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(panels) == 6
        for panel in panels:
            pd.testing.assert_frame_equal(panel, panels[0])
        assert asked(stub) == {"trade_cal": 1, "daily": 2, "stk_limit": 2, "adj_factor": 2, "dividend": 2}

    def test_callers_cannot_change_the_cache(self, source):
        first = source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        first["close"] = 0.0
        again = source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        assert (again["close"] > 1700).all()


class TestToken:
    def test_making_a_source_needs_nothing_and_makes_nothing(self, tmp_path):
        folder = tmp_path / "cache"
        source = TushareSource(cache_dir=folder)
        assert source.notes == ()
        assert not folder.exists()

    def test_the_token_is_nowhere(self, stub, source, tmp_path, caplog):
        caplog.set_level(logging.DEBUG)
        source.bars(CODES, T("20240102"), T("20240110"))
        source.names()
        source.members("000300.SH", T("20240104"))
        stub.add_faults("daily_basic", bad_token())
        with pytest.raises(PermissionDenied) as caught:
            source.indicators(CODES, T("20240102"), T("20240110"))
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert len(files) > 5
        for file in files:
            assert TOKEN not in str(file)
            assert TOKEN.encode() not in file.read_bytes()
        for text in (repr(source), str(vars(source)), caplog.text, str(caught.value), str(source.notes)):
            assert TOKEN not in text

    def test_the_home_folder_is_not_touched(self, stub, source, tmp_path_factory, monkeypatch):
        home = tmp_path_factory.mktemp("home")
        monkeypatch.setenv("HOME", str(home))
        source.bars(CODES, T("20240102"), T("20240110"))
        assert list(home.iterdir()) == []

    def test_the_default_cache_is_the_users_one_for_each_server(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert repr(TushareSource()).endswith("tushare')")
        assert "127.0.0.1_8000" in repr(TushareSource(base_url="http://127.0.0.1:8000/dataapi"))

    def test_limits_pass_through_the_source(self, stub, tmp_path):
        waits: list[float] = []
        stub.add_faults("daily", allowance_used_up())
        source = TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, sleep=waits.append)
        with pytest.raises(RateLimited):
            source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        assert waits == []
