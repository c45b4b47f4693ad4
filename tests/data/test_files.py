from __future__ import annotations

import csv
import gzip
import json
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.data import BAR_FIELDS, MarketDataSource, open_source
from quantgraph.data.files import FileSource
from quantgraph.data.market_data import long_to_panel
from quantgraph.errors import BadWindow, NoData, UnknownField, UnknownSymbol

REAL = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "ai-trader"
needs_real = pytest.mark.skipif(not REAL.exists(), reason="the real AI-Trader price files are not here")

HEADER = "ts_code,trade_date,open,high,low,close,pre_close,vol,amount"
TWO_DAYS = f"""{HEADER}
600519.SH,20240102,10.00,10.50,9.90,10.20,9.80,1000,1020.5
000001.SZ,20240102,5,5.1,4.9,5.05,5,2000,1005
600519.SH,20240103,10.20,10.60,10.10,10.50,10.20,1100,1133.25
"""


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def everything(source: FileSource) -> dict[str, pd.DataFrame]:
    sessions = source.sessions()
    return source.bars(source.symbols(), sessions[0], sessions[-1])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bars.csv").write_text(TWO_DAYS)
    return tmp_path


# --- real files -----------------------------------------------------------------------------------


@needs_real
def test_real_a_share_folder_has_every_cell_of_its_files() -> None:
    source = FileSource(REAL / "a_share")
    panel = everything(source)
    assert len(source.symbols()) == 50
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for path in sorted((REAL / "a_share").glob("daily_prices*.csv")):
        with path.open(encoding="utf-8") as lines:
            cells |= {(row["ts_code"], row["trade_date"]): row for row in csv.DictReader(lines)}
    # 9,968 + 1,500 rows, of which the read-me says that 850 are in both files.
    assert len(cells) == 9968 + 1500 - 850
    for field in BAR_FIELDS[:7]:
        assert int(panel[field].notna().to_numpy().sum()) == len(cells)
        expected = pd.Series({(day(date), code): float(row[field]) for (code, date), row in cells.items()})
        assert (panel[field].stack().reindex(expected.index) == expected).all()


@needs_real
def test_real_suspensions_are_rows_of_nan() -> None:
    source = FileSource(REAL / "a_share" / "daily_prices_sse_50_20250102_20251031.csv")
    missing = everything(source)["close"].isna().sum()
    assert missing[missing > 0].to_dict() == {
        "600150.SH": 4,
        "601088.SH": 10,
        "601211.SH": 2,
        "688041.SH": 10,
        "688981.SH": 6,
    }


@needs_real
def test_real_index_levels_members_and_names() -> None:
    source = FileSource(REAL / "a_share")
    levels = source.index_bars("000016.SH", day("2025-01-02"), day("2025-11-19"))
    text = json.loads((REAL / "a_share" / "index_daily_sse_50_20250102_20251031.json").read_text())
    bar = text["Time Series (Daily)"]["2025-10-31"]
    assert levels.loc["2025-10-31", "close"] == float(bar["4. close"])
    assert list(levels.columns) == ["open", "high", "low", "close"]
    assert len(levels) == 200 + 31 - 18
    later = source.members("000016.SH", day("2025-01-02"))
    assert (len(later.symbols), later.point_in_time, later.listed_on) == (50, False, day("2025-09-30"))
    assert source.members("000016.SH", day("2025-09-30")).point_in_time
    assert source.names()["600519.SH"] == "贵州茅台"
    assert source.names()["000016.SH"] == "上证50"
    assert not source.synthetic


@needs_real
def test_real_a_share_folder_loads_quickly() -> None:
    source = FileSource(REAL / "a_share")
    start = time.process_time()
    source.sessions()
    assert time.process_time() - start < 0.5


@needs_real
def test_real_us_volume_is_turned_from_shares_into_hands() -> None:
    source = FileSource(REAL / "us")
    panel = source.bars(["AAPL"], day("2025-06-10"), day("2025-06-10"))
    with gzip.open(next((REAL / "us").glob("*.csv.gz")), "rt") as lines:
        row = next(csv.DictReader(lines))
    assert (row["symbol"], row["date"]) == ("AAPL", "2025-06-10")
    assert panel["open"].iloc[0, 0] == float(row["open"])
    assert panel["vol"].iloc[0, 0] == int(row["volume"]) / 100
    assert np.isnan(panel["pre_close"].iloc[0, 0])
    assert len(source.sessions()) == 100
    assert any("shares" in note for note in source.notes)


@needs_real
def test_a_fund_with_bars_can_be_the_benchmark() -> None:
    levels = FileSource(REAL / "us").index_bars("QQQ", day("2025-10-30"), day("2025-10-30"))
    assert levels.iloc[0].tolist() == [632.17, 633.5, 625.94, 626.05]


# --- what is read ---------------------------------------------------------------------------------


def test_it_is_a_source_and_constructing_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text("not, bars\n")
    source = open_source(str(path))
    assert isinstance(source, MarketDataSource)
    assert (source.name, source.synthetic) == (str(path), False)


def test_bars_are_a_panel_over_the_sessions_of_the_window(folder: Path) -> None:
    panel = FileSource(folder).bars(["600519.SH", "000001.SZ"], day("2024-01-01"), day("2024-01-05"))
    assert list(panel) == list(BAR_FIELDS[:7])
    close = panel["close"]
    assert list(close.columns) == ["000001.SZ", "600519.SH"]
    assert close.index.name == "trade_date"
    assert close.index.dtype == "datetime64[us]"
    assert close.loc["2024-01-02"].tolist() == [5.05, 10.2]
    assert np.isnan(close.loc["2024-01-03", "000001.SZ"])


@pytest.mark.parametrize(
    "dates",
    [
        [20240102, 20240103],
        ["20240102", "20240103"],
        ["2024-01-02", "2024-01-03"],
        pd.to_datetime(["2024-01-02", "2024-01-03"]),
        pd.to_datetime(["2024-01-02", "2024-01-03"]).date,
    ],
    ids=["int", "text", "dashes", "datetime", "date"],
)
def test_dates_of_every_kind_and_both_table_formats(tmp_path: Path, dates: object) -> None:
    columns = {name: [1.0, 2.0] for name in ("open", "high", "low", "close", "vol")}
    table = pd.DataFrame({"ts_code": "600519.SH", "trade_date": dates, **columns})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_csv(tmp_path / "b.csv.gz", index=False)
    table.to_parquet(tmp_path / "c.parquet")
    for path in sorted(tmp_path.iterdir()):
        assert FileSource(path).sessions().strftime("%Y%m%d").tolist() == ["20240102", "20240103"]


def test_indicators_limits_and_factors_come_from_other_files_of_the_folder(folder: Path) -> None:
    (folder / "basic.csv").write_text(
        "ts_code,trade_date,close,turnover_rate,pe\n600519.SH,20240102,10.2,0.5,\n"
    )
    (folder / "factor.csv").write_text("ts_code,trade_date,adj_factor\n600519.SH,20240103,1.25\n")
    (folder / "limit.csv").write_text(
        "trade_date,ts_code,up_limit,down_limit\n20240102,600519.SH,10.78,8.82\n"
    )
    source = FileSource(folder)
    panel = source.bars(["600519.SH"], day("2024-01-02"), day("2024-01-03"))
    assert list(panel) == list(BAR_FIELDS[:10])
    assert panel["up_limit"].iloc[0, 0] == 10.78
    assert panel["adj_factor"].iloc[1, 0] == 1.25
    indicators = source.indicators(["600519.SH"], day("2024-01-02"), day("2024-01-03"))
    assert list(indicators) == ["turnover_rate", "pe"]
    assert indicators["turnover_rate"].iloc[0, 0] == 0.5
    assert indicators["pe"].isna().all().all()
    assert list(
        source.indicators(["600519.SH"], day("2024-01-02"), day("2024-01-03"), ["pe", "turnover_rate"])
    ) == [
        "turnover_rate",
        "pe",
    ]


def test_a_table_with_bars_and_indicators_together_gives_both(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(
        "ts_code,trade_date,open,high,low,close,vol,pb\n600519.SH,20240102,1,1,1,1,5,3.5\n"
    )
    source = FileSource(tmp_path / "all.csv")
    assert source.indicators(["600519.SH"], day("2024-01-02"), day("2024-01-02"))["pb"].iloc[0, 0] == 3.5
    assert "in no file, so NaN: pre_close, amount" in source.notes


@pytest.mark.parametrize("keys", [("1. open", "4. close"), ("1. buy price", "4. sell price")])
def test_merged_jsonl_with_a_last_bar_that_has_only_the_open(tmp_path: Path, keys: tuple[str, str]) -> None:
    full = {keys[0]: "10.0", "2. high": "11.0", "3. low": "9.0", keys[1]: "10.5", "5. volume": "12345"}
    lines = [
        {"Meta Data": {"2. Symbol": code, "2.1. Name": name}, "Time Series (Daily)": series}
        for code, name, series in [
            ("600519.SH", "贵州茅台", {"2025-10-10": {keys[0]: "10.6"}, "2025-10-09": full}),
            ("000300.SH", "", {"2025-10-09": full}),
        ]
    ]
    path = tmp_path / "merged.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    source = FileSource(path)
    panel = everything(source)
    assert source.symbols() == ("600519.SH",)
    assert panel["open"].iloc[:, 0].tolist() == [10.0, 10.6]
    assert panel["vol"].iloc[0, 0] == 123.45
    assert panel["close"].iloc[:, 0].isna().tolist() == [False, True]
    assert source.names() == {"600519.SH": "贵州茅台", "000300.SH": "沪深300"}
    assert source.index_bars("000300.SH", day("2025-10-09"), day("2025-10-09"))["close"].tolist() == [10.5]


def test_a_newer_file_completes_a_bar_that_had_only_its_open(tmp_path: Path) -> None:
    def write(name: str, bar: dict[str, str]) -> None:
        document = {"Meta Data": {"2. Symbol": "AAPL"}, "Time Series (Daily)": {"2025-10-30": bar}}
        (tmp_path / name).write_text(json.dumps(document))

    write("daily_prices_a.json", {"1. open": "271.0"})
    write("daily_prices_b.json", {"1. open": "271.0", "2. high": "275", "3. low": "270", "4. close": "272"})
    assert everything(FileSource(tmp_path))["close"].iloc[0, 0] == 272.0


def test_symbols_that_look_like_numbers_or_blanks_stay_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "symbol,date,open,high,low,close,volume\n000001,2024-01-02,1,1,1,1,1\nNA,2024-01-02,1,1,1,1,1\n"
    )
    assert FileSource(tmp_path).symbols() == ("000001", "NA")


def test_the_latest_of_several_names_counts(folder: Path) -> None:
    (folder / "names.csv").write_text(
        "ts_code,name,start_date\n600519.SH,ST新,20240301\n600519.SH,旧,20200101\n", "utf-8"
    )
    assert FileSource(folder).names() == {"600519.SH": "ST新"}


def test_newest_list_published_by_the_day_counts(folder: Path) -> None:
    rows = "index_code,con_code,trade_date,weight\n"
    rows += "000016.SH,600519.SH,20240630,1\n000016.SH,000001.SZ,20231231,1\n"
    (folder / "weights.csv").write_text(rows)
    source = FileSource(folder)
    expected = {
        "2023-12-30": (("000001.SZ",), False),
        "2023-12-31": (("000001.SZ",), True),
        "2024-06-29": (("000001.SZ",), True),
        "2024-06-30": (("600519.SH",), True),
    }
    for on, (symbols, known) in expected.items():
        members = source.members("000016.SH", day(on))
        assert (members.symbols, members.point_in_time) == (symbols, known)
    with pytest.raises(UnknownSymbol, match=r"000300\.SH; indices with members: 000016\.SH"):
        source.members("000300.SH", day("2024-01-02"))


def test_what_is_not_recognised_is_noted_and_sub_folders_are_not_read(folder: Path) -> None:
    (folder / "readme.txt").write_text("hello")
    (folder / "news.jsonl").write_text('{"title": "x"}\n')
    (folder / "trades.csv").write_text("a,b\n1,2\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "bad.csv").write_text(f"{HEADER}\nx")
    notes = "\n".join(FileSource(folder).notes)
    assert all(name in notes for name in ("readme.txt", "news.jsonl", "trades.csv"))
    assert "bad.csv" not in notes


def test_small_differences_between_files_take_the_first_by_name(folder: Path) -> None:
    other = f"{HEADER}\n600519.SH,20240102,10.00,10.50,9.90,10.2005,9.80,9999,1020.5\n"
    (folder / "a_first.csv").write_text(other)
    source = FileSource(folder)
    panel = source.bars(["600519.SH"], day("2024-01-02"), day("2024-01-02"))
    assert panel["close"].iloc[0, 0] == 10.2005
    assert panel["vol"].iloc[0, 0] == 9999
    assert any(note.startswith("vol of 1 rows differs") for note in source.notes)


# --- refusals -------------------------------------------------------------------------------------


def test_requests_without_an_answer_say_what_there_is(folder: Path) -> None:
    source = FileSource(folder)
    with pytest.raises(UnknownSymbol, match=r"has no 300750\.SZ, AAPL"):
        source.bars(["600519.SH", "AAPL", "300750.SZ"], day("2024-01-02"), day("2024-01-03"))
    with pytest.raises(BadWindow, match="is after"):
        source.bars(["600519.SH"], day("2024-01-03"), day("2024-01-02"))
    with pytest.raises(NoData, match="run from 2024-01-02 to 2024-01-03"):
        source.bars(["600519.SH"], day("2025-01-03"), day("2025-01-04"))
    with pytest.raises(NoData, match="no daily indicator"):
        source.indicators(["600519.SH"], day("2024-01-02"), day("2024-01-03"))
    with pytest.raises(UnknownField, match="valid: turnover_rate"):
        source.indicators(["600519.SH"], day("2024-01-02"), day("2024-01-03"), ["pee"])
    with pytest.raises(UnknownSymbol, match="indices with levels: none"):
        source.index_bars("000016.SH", day("2024-01-02"), day("2024-01-03"))


def test_answers_are_copies_and_names_read_only(folder: Path) -> None:
    source = FileSource(folder)
    close = everything(source)["close"]
    close.iloc[:, :] = -1.0
    assert (everything(source)["close"].min() > 0).all()
    with pytest.raises(TypeError):
        source.names()["x"] = "y"  # type: ignore[index]


def test_threads_that_ask_first_together_get_one_load(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    load = FileSource._load
    monkeypatch.setattr(FileSource, "_load", lambda self: (loads.append(1), load(self))[1])
    source, gate = FileSource(folder), threading.Barrier(8)
    found: list[int] = []

    def ask() -> None:
        gate.wait()
        found.append(len(source.symbols()))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, loads) == ([2] * 8, [1])


def test_long_to_panel_refuses_a_cell_said_twice() -> None:
    table = pd.DataFrame(
        {"ts_code": ["a", "a"], "trade_date": pd.to_datetime(["2024-01-02"] * 2), "close": [1, 2]}
    )
    with pytest.raises(ValueError, match="more than once"):
        long_to_panel(table, ["close"], pd.DatetimeIndex(["2024-01-02"]), ["a"])
