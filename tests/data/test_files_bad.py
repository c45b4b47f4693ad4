"""Each bad input: one line naming the file, the place and what would be valid."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile, BadOption

HEADER = "ts_code,trade_date,open,high,low,close,pre_close,vol,amount"
GOOD = "600519.SH,20240102,10,10.5,9.9,10.2,9.8,1000,1020.5"


def refusal(path: Path) -> str:
    source = FileSource(path)
    with pytest.raises(BadFile) as caught:
        source.sessions()
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("600519.SH,2024/13/01,10,10,10,10,10,1,1", "row 2, column trade_date: 2024/13/01 is not a date"),
        ("600519.SH,20240230,10,10,10,10,10,1,1", "20240230 is not a day of the calendar; write YYYYMMDD"),
        ("600519.SH,,10,10,10,10,10,1,1", "row 2, column trade_date:"),
        ("600519.SH,2024-01-03T00:00:00+08:00,10,10,10,10,10,1,1", "has a time zone"),
        ("600519.SH,2024-01-03 09:30:00,10,10,10,10,10,1,1", "is not a date"),
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


def test_a_row_said_twice_in_the_same_words_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text(f"{HEADER}\n{GOOD}\n{GOOD}\n")
    assert len(FileSource(tmp_path).sessions()) == 1


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("ts_code,trade_date,open,high,low,vol", "misses the column(s) close; daily bars need"),
        ("ts_code,trade_date,open,high,low,close", "misses the column(s) vol;"),
        ("trade_date,open,high,low,close,vol", "misses the column(s) ts_code;"),
        ("symbol,open,high,low,close,volume", "misses the column(s) trade_date;"),
        ("ts_code,trade_date,close", "misses the column(s) open, high, low, vol;"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, header: str, missing: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")
    assert f"bars.csv {missing}" in refusal(path)


def test_a_zoned_datetime_column_is_refused(tmp_path: Path) -> None:
    columns = {name: [1.0] for name in ("open", "high", "low", "close", "vol")}
    dates = pd.to_datetime(["2024-01-02"]).tz_localize("Asia/Shanghai")
    path = tmp_path / "bars.parquet"
    pd.DataFrame({"ts_code": ["600519.SH"], "trade_date": dates, **columns}).to_parquet(path)
    assert "row 1, column trade_date: 2024-01-02 00:00:00+08:00 has a time zone" in refusal(path)


def test_a_time_of_day_is_refused(tmp_path: Path) -> None:
    columns = {name: [1.0] for name in ("open", "high", "low", "close", "vol")}
    path = tmp_path / "bars.parquet"
    pd.DataFrame(
        {"ts_code": ["600519.SH"], "trade_date": pd.to_datetime(["2024-01-02 09:30"]), **columns}
    ).to_parquet(path)
    assert "has a time of day" in refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("empty.jsonl", b"\n\n", "empty.jsonl is empty"),
        ("header.csv", HEADER.encode(), "header.csv has a header and no row"),
        ("gbk.csv", "ts_code,name\n600519.SH,贵州茅台\n".encode("gbk"), "is not UTF-8"),
        ("cut.csv.gz", gzip.compress(b"a" * 5000, mtime=0)[:20], "is not a readable CSV"),
        ("plain.csv.gz", b"ts_code,trade_date\n", "is not a readable CSV"),
        ("no.parquet", b"PAR0 nothing", "is not a readable Parquet file"),
        ("cut.json", b'{"Meta Data": {', "cut.json, line 1: not JSON"),
        ("cut.jsonl", b'{"a": 1}\n{"a":', "cut.jsonl, line 2: not JSON"),
        ("ragged.csv", f"{HEADER}\n{GOOD}\n{GOOD},1,2\n".encode(), "is not a readable CSV"),
        ("wide.csv", f"{HEADER}\n{GOOD},1\n{GOOD},1\n".encode(), "more cells than its header"),
        ("list.json", b"[1, 2]", 'has no "Meta Data"'),
        ("hourly.json", b'{"Meta Data": {}, "Time Series (60min)": {}}', "Time Series (60min)"),
        ("other.csv", b"a,b\n1,2\n", "columns (a, b) are not those of bars"),
        ("bars.xlsx", b"PK", "unknown ending; valid: .csv, .csv.gz, .parquet"),
    ],
)
def test_bad_file_is_named_with_what_would_be_valid(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = refusal(path)
    assert said in message
    assert name in message


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"Meta Data": {}, "Time Series (Daily)": {"2024-01-02": {"1. open": "1"}}}, 'has no "2. Symbol"'),
        ({"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {}}, "of A is empty"),
        (
            {"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {"2024-01-02": {"4. close": "1"}}},
            'A 2024-01-02: a bar needs "1. open" or "1. buy price"',
        ),
        (
            {"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {"2024-01-02": {"1. open": "x"}}},
            "A 2024-01-02, column open: 'x' is not a number",
        ),
        (
            {
                "Meta Data": {"2. Symbol": "A"},
                "Time Series (Daily)": {"2024-01-02 10:00:00": {"1. open": "1"}},
            },
            "column trade_date: 2024-01-02 10:00:00 is not a date",
        ),
    ],
)
def test_bad_series_is_named(tmp_path: Path, document: object, said: str) -> None:
    path = tmp_path / "daily_prices_A.json"
    path.write_text(json.dumps(document))
    assert said in refusal(path)


def test_prices_that_disagree_name_both_files_and_the_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{HEADER}\n{GOOD}\n")
    (tmp_path / "b.csv").write_text(f"{HEADER}\n{GOOD.replace('10.2,', '10.3,')}\n")
    message = refusal(tmp_path)
    assert "a.csv and b.csv disagree: close of 600519.SH on 2024-01-02 is 10.2 and 10.3" in message


def test_a_folder_with_nothing_readable_says_what_would_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    message = refusal(tmp_path)
    assert "holds no daily bar" in message
    assert "notes.txt" in message
    assert "ts_code, trade_date" in message


def test_a_path_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="does not exist"):
        FileSource(tmp_path / "none")
    with pytest.raises(BadOption, match="valid: sample, tushare, the path"):
        open_source(str(tmp_path / "none"))
    with pytest.raises(BadOption, match="is no source"):
        open_source(42)  # type: ignore[arg-type]
