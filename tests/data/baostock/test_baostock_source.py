"""What a source of baostock's data answers, with the real package on a loopback server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from baostock_market import CODES, SESSIONS, source_on
from baostock_stub import Fault

from quantgraph.data import DatedLists, DescribedSource, MarketDataSource, open_source
from quantgraph.data.baostock import BaostockSource
from quantgraph.errors import (
    BadOption,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)

FIRST, LAST = pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-10")
BARS, BASIC, LOGIN = "query_history_k_data_plus", "query_stock_basic", "login"


def kept_bars(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{BARS}/*.parquet"))


def test_bars_are_unadjusted_in_the_projects_units(source: BaostockSource) -> None:
    panel = source.bars(CODES, FIRST, LAST)
    assert [f"{day:%Y-%m-%d}" for day in panel["open"].index] == SESSIONS
    assert panel["close"]["600519.SH"].tolist() == [1700.25 + n for n in range(7)]
    assert panel["pre_close"]["600519.SH"].tolist() == [1699.25 + n for n in range(7)]
    assert panel["vol"]["600519.SH"].tolist() == [100.0 * n for n in range(1, 8)]
    assert panel["amount"]["600519.SH"].tolist() == [20.0 * n for n in range(1, 8)]
    for field in ("open", "high", "low", "close", "pre_close", "vol", "amount"):
        assert panel[field]["600000.SH"].isna().tolist() == [n == 2 for n in range(7)]
    assert panel["is_st"]["600000.SH"].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_dividends_and_bonus_shares_are_actions_of_their_ex_date(source: BaostockSource) -> None:
    panel = source.bars(["600519.SH"], FIRST, LAST)
    row = {field: panel[field]["600519.SH"].dropna() for field in ("dividend", "split", "action_declared")}
    assert row["dividend"].to_dict() == {pd.Timestamp("2024-01-04"): 1.5}
    assert row["split"].to_dict() == {pd.Timestamp("2024-01-04"): pytest.approx(1.3)}
    assert row["action_declared"].tolist() == [20240102.0]


def test_lists_and_names_are_the_vendors(source: BaostockSource) -> None:
    assert isinstance(source, (MarketDataSource, DatedLists, DescribedSource))
    assert source.symbols() == ("000001.SZ", "600000.SH", "600519.SH", "603999.SH")
    assert source.symbols_on(LAST - pd.Timedelta(days=2)) == CODES
    assert source.names()["000300.SH"] == "沪深300"
    assert "603999.SH" not in source.names_on(FIRST)
    assert "names are today's" in source.notes[0]
    assert "adjustflag=3" in source.provenance("zh")[0]
    assert "unadjusted" in source.provenance("en")[0]


def test_members_are_those_of_the_day(source: BaostockSource) -> None:
    members = source.members("000300.SH", pd.Timestamp("2024-01-05"))
    assert members.symbols == ("000001.SZ", "600519.SH")
    assert (members.listed_on, members.point_in_time) == (pd.Timestamp("2023-12-11"), True)
    assert source.members("000300.SH", pd.Timestamp("2024-01-08")).symbols == ("600519.SH",)
    early = source.members("000300.SH", pd.Timestamp("2023-01-04"))
    assert (early.symbols, early.point_in_time) == (("600519.SH",), False)
    with pytest.raises(UnknownSymbol, match=r"indices with members: 000300.SH, 000016.SH, 000905.SH"):
        source.members("000852.SH", FIRST)


def test_levels_and_indicators(source: BaostockSource) -> None:
    levels = source.index_bars("000300.SH", FIRST, LAST)
    assert levels["close"].tolist() == [3400.25 + n for n in range(7)]
    found = source.indicators(CODES, FIRST, LAST, ["pb", "turnover_rate"])
    assert list(found) == ["turnover_rate", "pb"]
    assert found["turnover_rate"]["600519.SH"].tolist() == [0.5 + n for n in range(7)]
    with pytest.raises(
        NoData, match=r"no daily indicator total_mv; it has: turnover_rate, pe_ttm, pb, ps_ttm"
    ):
        source.indicators(CODES, FIRST, LAST, ["total_mv"])


def test_a_second_request_is_served_from_the_cache_without_a_server(stub, source, tmp_path) -> None:
    first = source.bars(CODES, FIRST, LAST)
    asked = len(stub.requests)
    again = source.bars(CODES, FIRST, LAST)
    assert len(stub.requests) == asked
    source.close()
    stub.__exit__()
    offline = source_on(stub, tmp_path / "kept")
    panel = offline.bars(CODES, FIRST, LAST)
    for field in first:
        pd.testing.assert_frame_equal(first[field], panel[field])
        pd.testing.assert_frame_equal(first[field], again[field])
    offline.close()


def test_on_a_later_day_without_the_server_what_was_fetched_is_there_with_notes(
    stub, source, tmp_path
) -> None:
    before = source.bars(CODES, FIRST, LAST)
    stub.__exit__()
    later = source_on(stub, tmp_path / "kept", day="2024-02-20")
    panel = later.bars(CODES, FIRST, LAST)
    pd.testing.assert_frame_equal(panel["close"], before["close"])
    assert later.sessions()[-1] == LAST
    assert any("sessions are 2024-01-02 to 2024-01-10 only" in note for note in later.notes)
    assert any("query_stock_basic is as of 2024-01-15" in note for note in later.notes)
    with pytest.raises(SourceUnavailable):
        later.bars(CODES, FIRST, pd.Timestamp("2024-02-01"))
    later.close()


def test_the_packages_process_ends_with_the_source(stub, tmp_path) -> None:
    source = source_on(stub, tmp_path)
    source.symbols()
    process = source._client._process._process
    assert process.poll() is None
    del source
    assert process.poll() is not None


def test_more_rows_than_a_page_holds_are_all_read(source: BaostockSource) -> None:
    assert len(source.sessions()) == len(SESSIONS)  # of 12,082 days of the calendar, in pages of 2,000


def test_unknown_codes_and_empty_answers_are_told_apart(stub, source, tmp_path) -> None:
    with pytest.raises(UnknownSymbol, match=r"baostock lists no 600001.SH"):
        source.bars(["600001.SH"], FIRST, LAST)
    with pytest.raises(UnknownSymbol, match="AAPL: not a stock code of baostock"):
        source.bars(["AAPL"], FIRST, LAST)
    with pytest.raises(NoData, match=r"no bars of 603999.SH in 2024-01-02 to 2024-01-10"):
        source.bars(["603999.SH"], FIRST, LAST)
    assert kept_bars(tmp_path / "kept") == []  # it is asked for again


def renamed(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename(columns={"preclose": "pre"})


def cell(column: str, value: str):
    def change(table: pd.DataFrame) -> pd.DataFrame:
        table = table.copy()
        table.iloc[3, table.columns.get_loc(column)] = value
        return table

    return change


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (
            Fault(refusal=("10001005", "账号登陆数达到上限")),
            RateLimited,
            "too many connections: 账号登陆数达到上限",
        ),
        (
            Fault(refusal=("10001011", "黑名单用户")),
            PermissionDenied,
            "the server refuses this address: 黑名单",
        ),
        (Fault(refusal=("10001004", "版本过期")), NotConfigured, "the package is too old for the server"),
        (
            Fault(refusal=("10005001", "系统级别错误")),
            SourceUnavailable,
            "refused with 10005001: 系统级别错误",
        ),
        (Fault(refusal=("10004011", "无效的证券代码")), UnknownSymbol, "sh.600519: 无效的证券代码"),
        (Fault(text=b"<html>502</html><![CDATA[]]>\n"), SourceUnavailable, "no answer that can be read"),
        (
            Fault(text=b"00.9.40\x0196\x010000000005abcde<![CDATA[]]>\n"),
            SourceUnavailable,
            "no answer that can be read",
        ),
        (Fault(change=renamed), SourceUnavailable, "the answer has no column preclose"),
        (Fault(change=cell("close", "n/a")), SourceUnavailable, "column close holds something unreadable"),
        (
            Fault(change=cell("close", "-5")),
            SourceUnavailable,
            "prices that cannot be: sh.600519 on 2024-01-05",
        ),
        (Fault(change=cell("high", "1")), SourceUnavailable, "prices that cannot be"),
        (Fault(change=cell("date", "2024-01-08")), SourceUnavailable, "a day twice: sh.600519 on 2024-01-08"),
        (Fault(change=cell("date", "2024-02-08")), SourceUnavailable, "the answer also holds 2024-02-08"),
        (Fault(change=cell("code", "sh.600000")), SourceUnavailable, "the answer also holds sh.600000"),
    ],
)
def test_a_wrong_answer_is_one_line_and_is_not_kept(stub, source, tmp_path, *, fault, kind, said) -> None:
    source.symbols()
    stub.fail(BARS, fault, fault)  # a lost connection is opened once more
    with pytest.raises(kind) as caught:
        source.bars(["600519.SH"], FIRST, LAST)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert kept_bars(tmp_path / "kept") == []
    stub.faults.clear()
    assert source.bars(["600519.SH"], FIRST, LAST)["close"].notna().all().all()


@pytest.mark.proof
def test_a_server_that_says_nothing_or_closes_is_left_in_time(stub, tmp_path) -> None:
    source = source_on(stub, tmp_path, timeout=3.0)
    stub.fail(LOGIN, Fault(close=True))  # the package would wait for ever, and busily
    begun = time.monotonic()
    with pytest.raises(SourceUnavailable, match="no answer within 3 s"):
        source.sessions()
    stub.fail(LOGIN, Fault(silence=True))
    with pytest.raises(SourceUnavailable, match="no answer within 3 s"):
        source.sessions()
    assert time.monotonic() - begun < 12
    source.close()


def test_a_lost_connection_is_opened_once_more(stub, source) -> None:
    source.symbols()
    stub.fail(BARS, Fault(close=True))
    assert source.bars(["600519.SH"], FIRST, LAST)["close"].notna().all().all()
    assert len(stub.asked(LOGIN)) == 2


def test_a_page_that_is_lost_is_not_a_shorter_answer(stub, source, tmp_path) -> None:
    stub.fail("query_trade_dates", Fault(), Fault(close=True), Fault(), Fault(close=True))
    with pytest.raises(SourceUnavailable, match="a page is missing"):
        source.sessions()
    assert not list((tmp_path / "kept").glob("query_trade_dates/*"))


CHILD = """
import sys
from pathlib import Path
import pandas as pd
from quantgraph.data.baostock import BaostockClient, BaostockSource
source = BaostockSource(
    client=BaostockClient(address=sys.argv[1]), cache_dir=Path(sys.argv[2]),
    now=lambda: pd.Timestamp("2024-01-15 12:00", tz="Asia/Shanghai"),
)
source.bars(sys.argv[3].split(","), pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-10"))
"""


@pytest.mark.proof
def test_a_fetch_that_is_killed_goes_on_where_it_was(stub, tmp_path) -> None:
    stub.fail(BARS, Fault(), Fault(silence=True))  # the second stock never comes
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, stub.address, str(tmp_path), ",".join(CODES)],
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},
    )
    deadline = time.monotonic() + 60
    while len(stub.asked(BARS)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert len(kept_bars(tmp_path)) == 1
    source = source_on(stub, tmp_path)
    panel = source.bars(CODES, FIRST, LAST)
    assert [arguments[0] for arguments in stub.asked(BARS)] == [
        "sz.000001", "sh.600000", "sh.600000", "sh.600519",
    ]  # fmt: skip
    assert panel["close"]["000001.SZ"].tolist() == [9.25 + n for n in range(7)]
    source.close()


def test_the_name_opens_it_and_what_is_missing_is_said(stub, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("BAOSTOCK_ADDRESS", stub.address)
    source = open_source("baostock")
    assert source.symbols()[0] == "000001.SZ"
    assert source.opens() == "baostock"
    source.close()
    monkeypatch.setenv("BAOSTOCK_ADDRESS", "nowhere")
    with pytest.raises(BadOption, match=r"'nowhere' is not an address such as 127.0.0.1:10030"):
        open_source("baostock").symbols()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("BAOSTOCK_ADDRESS", "127.0.0.1:9")
    with pytest.raises(NotConfigured, match=r"not installed; run: pip install 'quantgraph\[baostock\]'"):
        open_source("baostock").symbols()


@pytest.mark.proof
def test_a_run_by_the_command(stub, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("BAOSTOCK_ADDRESS", stub.address)
    sentence = "600519.SH, buy when close is above 1701, sell when close is above 1704, 20240102 to 20240110"
    done = subprocess.run(
        [sys.executable, "-m", "quantgraph", "run", sentence, "--source", "baostock", "--headless"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unadjusted (adjustflag=3)" in done.stdout
    (record,) = tmp_path.glob("runs/*/run.json")
    assert json.loads(record.read_text())["source"]["open"] == "baostock"
