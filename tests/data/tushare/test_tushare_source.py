"""The source, with the real ``tushare`` package on a loopback server."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tushare_stub import (
    TushareFault,
    TushareStub,
    allowance_used_up,
    bad_token,
    connection_dropped,
    http_error,
    no_permission,
)

from quantgraph.data._source import BAR_FIELDS, INDICATOR_FIELDS, MarketDataSource
from quantgraph.data.tushare import TushareSource
from quantgraph.data.tushare._client import TushareClient
from quantgraph.errors import (
    BadOption,
    BadWindow,
    NoData,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownField,
    UnknownSymbol,
)

TOKEN = "f00dcafe5ec2e7"
SESSIONS = ["20240102", "20240103", "20240104", "20240105", "20240108", "20240109", "20240110"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
TRADED = BAR_FIELDS[:10]
WITH_ACTIONS = (*TRADED, "dividend", "split", "action_declared", "action_record", "action_pay")
SUSPENDED = ("600000.SH", "20240104")
SHARED = Path(__file__).resolve().parents[3] / ".." / "shared" / "data"


def T(day: str) -> pd.Timestamp:
    return pd.Timestamp(day).as_unit("us")


def noon(day: str, hour: int = 12):
    return lambda: pd.Timestamp(f"{day} {hour}:00", tz="Asia/Shanghai")


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

    def test_only_requested_indicators_are_returned(self, source):
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
                client=TushareClient(token=TOKEN, base_url=stub.url, row_limits={"daily": 100}),
                cache_dir=tmp_path,
                now=noon("2025-11-20"),
            )
            panel = source.bars(codes, T(days[0]), T(days[-1]))
        assert sum(frame.count().sum() for frame in panel.values()) == 7 * len(real)
        for field, frame in panel.items():
            assert frame["600519.SH"].tolist() == expected[field].tolist()


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

    def test_two_different_rows_of_one_day_are_refused(self, tables, stub, source):
        daily = tables["daily"]
        stub.set_table("daily", pd.concat([daily, daily.head(1).assign(close=1.0)]))
        with pytest.raises(SourceUnavailable, match="more than once"):
            source.bars(CODES, T("20240102"), T("20240105"))

    @pytest.mark.parametrize(
        "change", [{"ts_code": "600519.SH"}, {"trade_date": "20240108"}], ids=["code", "day"]
    )
    def test_rows_that_were_not_asked_for_are_refused(self, source, monkeypatch, change):
        monkeypatch.setattr("tushare_stub._matching", lambda table, params: table)
        source._store._client._row_limits["daily"] = 10_000
        with pytest.raises(SourceUnavailable, match="the answer also holds"):
            source.query("daily", "600000.SH", start_date="20240102", end_date="20240105")

    def test_an_http_error_is_not_taken_for_no_data(self, stub, source):
        stub.add_faults("daily", http_error(500))
        with pytest.raises(SourceUnavailable):
            source.bars(CODES, T("20240102"), T("20240105"))


class TestOptionalFields:
    @pytest.mark.parametrize(
        ("endpoint", "left_out"), [("stk_limit", {"up_limit", "down_limit"}), ("adj_factor", {"adj_factor"})]
    )
    def test_fields_without_permission_are_left_out_with_a_note(self, stub, source, endpoint, left_out):
        stub.add_faults(endpoint, no_permission())
        panel = source.bars(CODES, T("20240102"), T("20240105"))
        assert set(WITH_ACTIONS) - set(panel) == left_out
        assert len(source.notes) == 1
        assert endpoint in source.notes[0]
        assert "权限" in source.notes[0]

    def test_fields_without_rows_are_left_out_with_a_note(self, tables, stub, source):
        stub.set_table("stk_limit", tables["stk_limit"].head(0))
        panel = source.bars(CODES, T("20240102"), T("20240105"))
        assert "up_limit" not in panel
        assert "has no rows" in source.notes[0]

    def test_other_failures_of_optional_tables_are_raised(self, stub, source):
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

    def test_a_broken_answer_about_dividends_is_raised(self, stub, source):
        stub.add_faults("dividend", connection_dropped())
        with pytest.raises(SourceUnavailable, match="dividend"):
            source.bars(CODES, T("20240102"), T("20240105"))

    def test_no_dividend_in_the_window_is_known_and_no_note(self, source):
        panel = source.bars(CODES, T("20240102"), T("20240103"))
        assert panel["dividend"].isna().all(axis=None)
        assert source.notes == ()

    def test_implemented_dividends_are_placed_on_their_ex_date(self, source):
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


class TestToken:
    def test_construction_needs_no_token_and_creates_no_folder(self, tmp_path):
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
        assert TushareSource()._cache.folder.name == "tushare"
        assert "127.0.0.1_8000" in str(TushareSource(base_url="http://127.0.0.1:8000/dataapi")._cache.folder)
        assert repr(TushareSource()) == "TushareSource()"

    def test_limits_pass_through_the_source(self, stub, tmp_path):
        waits: list[float] = []
        stub.add_faults("daily", allowance_used_up())
        client = TushareClient(token=TOKEN, base_url=stub.url, sleep=waits.append)
        source = TushareSource(client=client, cache_dir=tmp_path)
        with pytest.raises(RateLimited):
            source.query("daily", "600519.SH", start_date="20240102", end_date="20240105")
        assert waits == []
