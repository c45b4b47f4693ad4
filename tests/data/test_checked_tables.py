"""Cells are checked and named in errors; tables that agree are merged."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from bar_files import GOOD, HEADER, TWO_DAYS, day, refusal

from quantgraph.data.files import FileSource


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            "600519.SH,2024/13/01,10,10,10,10,10,1,1",
            "row 2, column trade_date: 2024/13/01 is not a day of the calendar",
        ),
        ("600519.SH,20240230,10,10,10,10,10,1,1", "20240230 is not a day of the calendar; write YYYYMMDD"),
        ("600519.SH,,10,10,10,10,10,1,1", "row 2, column trade_date:"),
        (
            "600519.SH,2024-01-03T16:00:00+00:00,10,10,10,10,10,1,1",
            "has a time of day, and the rows have several",
        ),
        ("600519.SH,2024-01-03 09:30:00,10,10,10,10,10,1,1", "has a time of day"),
        ("600519.SH,20240103,10,ten,10,10,10,1,1", "row 2, column high: 'ten' is not a number"),
        ("600519.SH,20240103,10,10,-1,10,10,1,1", "row 2, column low: -1 is too small; a price is above 0"),
        ("600519.SH,20240103,0,10,10,10,10,1,1", "row 2, column open: 0 is too small"),
        ("600519.SH,20240103,10,10,10,inf,10,1,1", "row 2, column close: is infinite"),
        (
            "600519.SH,20240103,10,10,10,10,10,-5,1",
            "row 2, column vol: -5 is too small; it must not be negative",
        ),
        (",20240103,10,10,10,10,10,1,1", "row 2, column ts_code: is empty; write a code"),
        (
            "600519.SH,20240102,10,10.5,9.9,10.3,9.8,1000,1020.5",
            "row 1 and row 2: 600519.SH 2024-01-02 is there twice with different close",
        ),
    ],
)
def test_bad_cell_is_named(tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n{row}\n")
    message = refusal(path)
    assert said in message
    assert "bars.csv" in message


def test_equal_rows_count_once(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text(f"{HEADER}\n{GOOD}\n{GOOD}\n")
    assert len(FileSource(tmp_path).sessions()) == 1


def test_midnight_in_a_zone_is_the_date_that_it_shows(tmp_path: Path) -> None:
    columns = {name: [1.0] for name in ("open", "high", "low", "close", "vol")}
    dates = pd.to_datetime(["2024-01-02"]).tz_localize("Asia/Shanghai")
    path = tmp_path / "bars.parquet"
    table = pd.DataFrame({"ts_code": ["600519.SH"], "trade_date": dates, **columns})
    table.to_parquet(path)
    assert FileSource(path).sessions().tolist() == [pd.Timestamp("2024-01-02")]
    table.assign(trade_date=dates.tz_convert("UTC")).to_parquet(path)
    assert "2024-01-01 16:00:00+00:00 has a time of day, and the rows have several" in refusal(path)


def test_a_time_of_day_is_refused(tmp_path: Path) -> None:
    columns = {name: [1.0] for name in ("open", "high", "low", "close", "vol")}
    path = tmp_path / "bars.parquet"
    pd.DataFrame(
        {"ts_code": ["600519.SH"], "trade_date": pd.to_datetime(["2024-01-02 09:30"]), **columns}
    ).to_parquet(path)
    assert "has a time of day" in refusal(path)


def test_prices_that_disagree_name_both_files_and_the_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{HEADER}\n{GOOD}\n")
    (tmp_path / "b.csv").write_text(f"{HEADER}\n{GOOD.replace('10.2,', '10.3,')}\n")
    message = refusal(tmp_path)
    assert "a.csv and b.csv disagree: close of 600519.SH on 2024-01-02 is 10.2 and 10.3" in message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bars.csv").write_text(TWO_DAYS)
    return tmp_path


def test_small_differences_between_files_take_the_first_by_name(folder: Path) -> None:
    other = f"{HEADER}\n600519.SH,20240102,10.00,10.50,9.90,10.2005,9.80,9999,1020.5\n"
    (folder / "a_first.csv").write_text(other)
    source = FileSource(folder)
    panel = source.bars(["600519.SH"], day("2024-01-02"), day("2024-01-02"))
    assert panel["close"].iloc[0, 0] == 10.2005
    assert panel["vol"].iloc[0, 0] == 9999
    assert any(note.startswith("vol of 1 rows differs") for note in source.notes)
