"""A file or a folder of files as a source."""

from __future__ import annotations

import csv
import gzip
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bar_files import HEADER, day, everything, refusal

from quantgraph.data import BAR_FIELDS, MarketDataSource, open_source
from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile, BadOption

REAL = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "ai-trader"


needs_real = pytest.mark.skipif(not REAL.exists(), reason="the real AI-Trader price files are not here")


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


@pytest.mark.proof
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
    assert source.provenance("en")[0].endswith(
        ": ts_code = symbol; trade_date = date; vol = volume (in shares, by the convention of its name)"
    )


@needs_real
def test_a_fund_with_bars_can_be_the_benchmark() -> None:
    levels = FileSource(REAL / "us").index_bars("QQQ", day("2025-10-30"), day("2025-10-30"))
    assert levels.iloc[0].tolist() == [632.17, 633.5, 625.94, 626.05]


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
    ) == ["turnover_rate", "pe"]


def test_the_latest_of_several_names_counts(folder: Path) -> None:
    (folder / "names.csv").write_text(
        "ts_code,name,start_date\n600519.SH,ST新,20240301\n600519.SH,旧,20200101\n", "utf-8"
    )
    assert FileSource(folder).names() == {"600519.SH": "ST新"}


def test_unrecognised_files_are_noted_and_sub_folders_are_not_read(folder: Path) -> None:
    (folder / "readme.txt").write_text("hello")
    (folder / "news.jsonl").write_text('{"title": "x"}\n')
    (folder / "trades.csv").write_text("a,b\n1,2\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "bad.csv").write_text(f"{HEADER}\nx")
    notes = "\n".join(FileSource(folder).notes)
    assert all(name in notes for name in ("readme.txt", "news.jsonl", "trades.csv"))
    assert "bad.csv" not in notes


def test_a_folder_without_a_readable_file_is_refused_with_the_valid_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    message = refusal(tmp_path)
    assert "holds no daily bar" in message
    assert "notes.txt" in message
    assert "ts_code, trade_date" in message


def test_a_path_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="does not exist"):
        FileSource(tmp_path / "none")
    with pytest.raises(BadOption, match="valid: sample, tushare, "):
        open_source(str(tmp_path / "none"))
    with pytest.raises(BadOption, match="is not a source"):
        open_source(42)  # type: ignore[arg-type]


def test_a_file_of_a_folder_that_is_no_daily_table_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "daily.csv").write_text(
        "ts_code,trade_date,open,high,low,close,vol\n600519.SH,20250102,10,11,9,10,100\n"
    )
    hourly = tmp_path / "hourly.csv"
    hourly.write_text("stock,trade_date,open,high,low,close,vol\n600519.SH,2025-01-02 10:30,10,11,9,10,100\n")
    source = FileSource(tmp_path)
    assert source.symbols() == ("600519.SH",)
    (note,) = [note for note in source.notes if "hourly.csv" in note]
    assert note.startswith(
        "hourly.csv was left out: hourly.csv, row 1, column trade_date: 2025-01-02 10:30 has a time"
    )
    with pytest.raises(
        BadFile, match=r"hourly\.csv, row 1, column trade_date: 2025-01-02 10:30 has a time of day"
    ):
        FileSource(hourly).symbols()
