"""Tables and lists, with the real ``tushare`` package on a loopback server."""

from __future__ import annotations

import pandas as pd
import pytest
from tushare_stub import no_permission

from quantgraph.data._as_of import AsOfSource
from quantgraph.data._source import BAR_FIELDS
from quantgraph.data.tushare import TushareSource
from quantgraph.errors import BadOption, BadWindow, NoData, PermissionDenied, UnknownSymbol
from quantgraph.market import Moment

TOKEN = "f00dcafe5ec2e7"
SESSIONS = ["20240102", "20240103", "20240104", "20240105", "20240108", "20240109", "20240110"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
TRADED = BAR_FIELDS[:10]


def T(day: str) -> pd.Timestamp:
    return pd.Timestamp(day).as_unit("us")


def noon(day: str, hour: int = 12):
    return lambda: pd.Timestamp(f"{day} {hour}:00", tz="Asia/Shanghai")


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

    def test_the_error_of_a_cut_window_does_not_name_the_newest_data(self, source):
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
        with pytest.raises(BadOption, match="endpoint='cashflow'; valid: daily, daily_basic, adj_factor"):
            source.query("cashflow")

    @pytest.mark.parametrize("codes", ["", "000300.SH,000016.SH"])
    def test_an_index_table_needs_one_code(self, source, codes):
        with pytest.raises(BadOption, match="index_daily needs one ts_code"):
            source.query("index_daily", codes)

    def test_an_incomplete_or_contradictory_request_is_a_bad_option(self, source):
        with pytest.raises(BadOption, match="give code"):
            source.query("daily")
        with pytest.raises(BadOption, match="namechange is a list as of today"):
            source.query("namechange", start_date="20240103")
        with pytest.raises(BadOption, match="stands alone"):
            source.query("daily", trade_date="20240103", start_date="20240103")
        with pytest.raises(BadWindow, match="is after"):
            source.query("daily", "600519.SH", start_date="20240105", end_date="20240103")
