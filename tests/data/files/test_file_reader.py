"""One file is recognised by its content, or refused with its name."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest
from bar_files import GOOD, HEADER, refusal

from quantgraph.data.files import FileSource


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("ts_code,trade_date,open,high,low,vol", "misses the column(s) close; daily bars need"),
        ("ts_code,trade_date,open,high,low,close,amount", "misses the column(s) vol;"),
        ("trade_date,open,high,low,close,vol", "misses the column(s) ts_code;"),
        ("symbol,open,high,low,close,volume", "misses the column(s) trade_date;"),
        ("ts_code,trade_date,high,close", "misses the column(s) open, low;"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, header: str, missing: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(header + "\n" + ",".join("1" for _ in header.split(",")) + "\n")
    assert f"bars.csv {missing}" in refusal(path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("empty.jsonl", b"\n\n", "empty.jsonl is empty"),
        ("header.csv", HEADER.encode(), "header.csv has a header and no row"),
        (
            "gbk.csv",
            "a,名称\n1,贵州茅台\n".encode("gbk"),
            "is neither UTF-8 nor GB18030 text with known column",
        ),
        ("latin.csv", "ts_code,name\nMC.PA,Moët\n".encode("cp1252"), "is neither UTF-8 nor GB18030"),
        ("cut.csv", "ts_code,name\n600519.SH,贵州茅台\n".encode("gbk")[:-2], "is neither UTF-8 nor GB18030"),
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
        ("bars.xlsx", b"PK", "is not a readable workbook: "),
        ("bars.xls", b"\xd0\xcf\x11\xe0", "is a workbook of Excel 97; save it as .xlsx or CSV"),
        ("bars.docx", b"PK", "unknown ending; valid: .csv, .txt, .tsv, .xlsx, .parquet"),
        ("bars.zip", b"PK", "is not a readable zip file: "),
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


def test_a_table_with_bars_and_indicators_together_gives_both(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(
        "ts_code,trade_date,open,high,low,close,vol,pb\n600519.SH,20240102,1,1,1,1,5,3.5\n"
    )
    source = FileSource(tmp_path / "all.csv")
    assert (
        source.indicators(["600519.SH"], pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-02"))["pb"].iloc[
            0, 0
        ]
        == 3.5
    )
    assert "in no file, so NaN: pre_close, amount" in source.notes


def test_symbols_that_look_like_numbers_or_blanks_stay_as_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "symbol,date,open,high,low,close,volume\n600519,2024-01-02,1,1,1,1,1\nNA,2024-01-02,1,1,1,1,1\n"
    )
    assert FileSource(tmp_path).symbols() == ("600519.SH", "NA")


YFINANCE = "Date,Open,High,Low,Close,Volume\n2024-01-02,10,11,9,10.5,1200\n2024-01-03,10,11,9,10,1300\n"
TWO_HEADERS = (
    "Price,Close,Close,High,High,Low,Low,Open,Open,Volume,Volume\n"
    "Ticker,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT\n"
    "Date,,,,,,,,,,\n"
    "2024-01-02,10.5,20.5,11,21,9,19,10,20,1200,2400\n"
    "2024-01-03,10,20,11,21,9,19,10,20,1300,2600\n"
)
AKSHARE = (
    "日期,股票代码,开盘,收盘,最高,最低,成交量,成交额,振幅\n"
    "2024-01-02,600519,10,10.5,11,9,12,12600,1\n2024-01-03,600519,10,10,11,9,13,13000,1\n"
)


@pytest.mark.parametrize(
    ("name", "content", "volumes"),
    [
        ("AAPL.csv", YFINANCE, {"AAPL": 12}),
        ("AAPL.csv", YFINANCE.replace("2024-01-02", "2024-01-02 00:00:00-05:00"), {"AAPL": 12}),
        ("sh600519.csv", YFINANCE.replace("Date", "﻿Date"), {"600519.SH": 12}),
        ("prices.csv", YFINANCE.replace("Date", "Ticker,Date").replace("\n20", "\nMSFT,20"), {"MSFT": 12}),
        ("prices.csv", TWO_HEADERS, {"AAPL": 12, "MSFT": 24}),
        ("daily.csv", AKSHARE, {"600519.SH": 12}),
    ],
)
def test_what_vendors_tools_write_is_read(tmp_path, name, content, volumes):
    (tmp_path / name).write_text(content, encoding="utf-8")
    source = FileSource(tmp_path / name)
    panel = source.bars(source.symbols(), *source.sessions()[[0, -1]])
    assert panel["vol"].iloc[0].to_dict() == volumes  # in hands
    assert panel["open"].iloc[0, 0] == 10
    assert source.sessions().strftime("%Y%m%d").tolist() == ["20240102", "20240103"]
    assert source.provenance("en")[0].startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("bars.csv", YFINANCE, "misses the column(s) ts_code; daily bars need"),
        ("bars.csv", YFINANCE, "name a file of one symbol by it (AAPL.csv)"),
        ("A.csv", YFINANCE.replace("10.5", "n/q"), "A.csv, row 1, column Close: 'n/q' is not a number"),
        (
            "A.csv",
            YFINANCE.replace("10,11", '"10,5",11.5'),
            "the comma means two things: '10,5' in column Open and '11.5' in column High",
        ),
        ("A.csv", YFINANCE.replace("10.5", "10.5%"), "'10.5%' is not a number; write it without the sign"),
        ("A.csv", YFINANCE.replace("10.5", "10,5"), "more cells than its header; is there a comma"),
        ("A.csv", YFINANCE.replace(",", "#"), "A.csv cannot be read: columns (Date#Open#High"),
        ("A.csv", "date,贵州茅台\n2024-01-02,10\n", "; head a column of closes by its code, such as AAPL or"),
        ("A.csv", YFINANCE.replace("10,11,9,10.5", "0,11,9,10.5"), "row 1, column Open: 0 is too small"),
        (
            "A.xls",
            "<html><table><tr><td>Date</td></tr></table></html>",
            "A.xls is a web page; save its table as CSV",
        ),
        ("A.csv", YFINANCE.replace("01-03", "01-02"), "row 1 and row 2: A 2024-01-02 is there twice"),
        (
            "A.csv",
            YFINANCE + "2024-01-02,20,21,19,20,90\n",
            "A 2024-01-02 is there twice with different open",
        ),
        ("000001.csv", YFINANCE, "'000001' may be 000001.SZ or 000001.SH; write which"),
        ("A.csv", YFINANCE.replace("2024-01-", "01/0").replace("/00", "/0"), "is not a date"),
    ],
)
def test_a_bad_file_of_ones_own_is_one_line(tmp_path, name, content, told):
    (tmp_path / name).write_text(content, encoding="utf-8")
    message = refusal(tmp_path / name)
    assert told in message
    assert "\n" not in message
