"""What is fetched and what is kept, with the real ``tushare`` package on a loopback server."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter

import pandas as pd
import pytest
from tushare_stub import TushareStub, connection_dropped, http_error

from quantgraph.data._source import BAR_FIELDS
from quantgraph.data.tushare import TushareSource
from quantgraph.data.tushare._client import TushareClient
from quantgraph.errors import NoData, NotConfigured, SourceUnavailable

TOKEN = "f00dcafe5ec2e7"
SESSIONS = ["20240102", "20240103", "20240104", "20240105", "20240108", "20240109", "20240110"]
CODES = ("000001.SZ", "600000.SH", "600519.SH")
TRADED = BAR_FIELDS[:10]
WITH_ACTIONS = (*TRADED, "dividend", "split", "action_declared", "action_record", "action_pay")


def T(day: str) -> pd.Timestamp:
    return pd.Timestamp(day).as_unit("us")


def noon(day: str, hour: int = 12):
    return lambda: pd.Timestamp(f"{day} {hour}:00", tz="Asia/Shanghai")


def asked(stub: TushareStub) -> Counter[str]:
    return Counter(request.endpoint for request in stub.requests)


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

    def test_more_rows_than_a_page_come_complete(self, tables, tmp_path):
        limits = {
            "daily": 2,
            "stk_limit": 3,
            "adj_factor": 7,
            "dividend": 2,
            "trade_cal": 5,
            "index_weight": 1,
        }
        with TushareStub(tables, row_limits=limits) as stub:
            client = TushareClient(token=TOKEN, base_url=stub.url, row_limits=limits)
            source = TushareSource(client=client, cache_dir=tmp_path, now=noon("2024-01-15"))
            panel = source.bars(CODES, T("20240102"), T("20240110"))
            assert source.members("000300.SH", T("20240104")).symbols == ("000001.SZ", "600519.SH")
        counts = {field: int(frame.count().sum()) for field, frame in panel.items()}
        assert counts == dict.fromkeys(TRADED, 20) | dict.fromkeys(WITH_ACTIONS[10:], 2) | {
            "split": 1,
            "action_declared": 1,
        }


class TestCache:
    def test_a_repeated_request_is_served_from_the_cache(self, stub, source):
        first = source.bars(CODES, T("20240102"), T("20240110"))
        before = len(stub.requests)
        again = source.bars(CODES, T("20240102"), T("20240110"))
        assert len(stub.requests) == before
        for field in WITH_ACTIONS:
            pd.testing.assert_frame_equal(first[field], again[field])

    def test_a_part_of_a_cached_window_needs_no_request(self, stub, source):
        source.bars(CODES, T("20240102"), T("20240110"))
        before = len(stub.requests)
        part = source.bars(["600519.SH"], T("20240104"), T("20240105"))
        assert len(stub.requests) == before
        assert part["open"]["600519.SH"].tolist() == [1702, 1703]

    def test_only_missing_days_are_asked_for(self, stub, source):
        source.query("daily", "600519.SH", start_date="20240103", end_date="20240104")
        source.query("daily", "600519.SH", start_date="20240102", end_date="20240109")
        windows = [(call.params["start_date"], call.params["end_date"]) for call in stub.requests]
        assert windows == [("20240103", "20240104"), ("20240102", "20240102"), ("20240105", "20240109")]

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

    def test_today_is_asked_for_again_until_it_is_over(self, tables, stub, tmp_path):
        def source_at(day: str, hour: int) -> TushareSource:
            return TushareSource(TOKEN, base_url=stub.url, cache_dir=tmp_path, now=noon(day, hour))

        complete = tables["daily"]
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
    def test_an_empty_page_is_kept_when_the_vendor_cannot_be_late(
        self, tables, stub, tmp_path, today, requests
    ):
        stub.set_table("daily", tables["daily"].head(0))
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

    def test_an_uncached_request_needs_a_token(self, stub, source, tmp_path):
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

    def test_concurrent_equal_requests_fetch_once(self, stub, source):
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
