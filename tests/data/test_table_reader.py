"""Files as vendors' libraries write them: yfinance, akshare, and by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from bar_files import day, everything, refusal

from quantgraph.data.files import FileSource
from quantgraph.data.table_reader import TableOptions

HISTORY = """Date,Open,High,Low,Close,Volume,Dividends,Stock Splits
2024-01-02 00:00:00-05:00,10.0,11.0,9.0,10.5,20000,0.0,0.0
2024-07-03 00:00:00-04:00,10.5,12.0,10.0,11.0,30000,0.0,0.0
"""
DOWNLOAD = """Price,Close,Close,High,High,Low,Low,Open,Open,Volume,Volume
Ticker,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT,AAPL,MSFT
Date,,,,,,,,,,
2024-01-02,10.5,20.5,11,21,9,19,10,20,20000,40000
2024-01-03,11,,12,,10,,10.5,,30000,
"""
AKSHARE = """日期,股票代码,开盘,收盘,最高,最低,成交量,成交额,振幅,涨跌幅,涨跌额,换手率
2024-01-02,{code},10.00,10.20,10.50,9.90,1000,1020000.0,6.0,2.0,0.2,0.5
2024-01-03,{code},10.20,10.40,10.60,10.10,1200,1248000.0,4.9,1.96,0.2,0.6
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_yfinance_has_its_symbol_in_its_name(tmp_path: Path) -> None:
    source = FileSource(write(tmp_path / "AAPL.csv", HISTORY))
    assert source.symbols() == ("AAPL",)
    assert source.sessions().tolist() == [day("2024-01-02"), day("2024-07-03")]
    assert everything(source)["vol"]["AAPL"].tolist() == [200, 300]
    (note,) = source.provenance
    assert note.en == (
        "AAPL.csv: ts_code = its name; trade_date = Date; vol = Volume (in shares, by the convention of its name); "
        "not used: Dividends, Stock Splits"
    )
    assert "ts_code 取自名称" in note.zh


@pytest.mark.parametrize("by", ["Price", "Ticker"])
def test_two_headers_of_yfinance(tmp_path: Path, by: str) -> None:
    path = write(tmp_path / "download.csv", DOWNLOAD)
    if by == "Ticker":
        table = pd.read_csv(path, header=[0, 1], index_col=0).swaplevel(axis="columns")
        table.sort_index(axis="columns").to_csv(path)
        assert path.read_text().startswith("Ticker,AAPL,AAPL")
    panel = everything(FileSource(path))
    assert panel["close"].to_numpy()[0].tolist() == [10.5, 20.5]
    assert panel["close"]["MSFT"].notna().tolist() == [True, False]
    assert panel["vol"]["AAPL"].tolist() == [200, 300]


def test_bars_of_akshare(tmp_path: Path) -> None:
    source = FileSource(write(tmp_path / "bars.csv", AKSHARE.format(code="000001")))
    assert source.symbols() == ("000001.SZ",), "a column of shares"
    panel = everything(source)
    assert panel["vol"]["000001.SZ"].tolist() == [1000, 1200]
    assert panel["amount"]["000001.SZ"].tolist() == [1020.0, 1248.0], "thousand yuan"
    turnover = source.indicators(["000001.SZ"], day("2024-01-02"), day("2024-01-03"), ["turnover_rate"])
    assert turnover["turnover_rate"]["000001.SZ"].tolist() == [0.5, 0.6]


@pytest.mark.parametrize(
    ("written", "code"),
    [("600519", "600519.SH"), ("sz000001", "000001.SZ"), ("600519.XSHG", "600519.SH"), ("BRK.B", "BRK.B")],
)
def test_codes_without_their_exchange_and_with_prefixes(tmp_path: Path, written: str, code: str) -> None:
    bars = f"code,date,open,high,low,close,volume\n{written},2024-01-02,10,11,9,10,100\n"
    assert FileSource(write(tmp_path / "bars.csv", bars)).symbols() == (code,)
    named = "\n".join(line.split(",", 1)[1] for line in bars.splitlines())
    assert FileSource(write(tmp_path / f"{written}.csv", named)).symbols() == (code,)


PLAIN = "Date,High,Low,Close,Volume,Open\n20240102,11,9,10,100,"
CODED = "code,Date,High,Low,Close,Volume,Open\n{},20240102,11,9,10,100,10"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bars.csv", CODED.format("000001"), "'000001' may be 000001.SZ or 000001.SH; write which"),
        (
            "bars.csv",
            CODED.format("1"),
            "row 1, column code: '1' is not a code: has it lost its leading zeros",
        ),
        ("000016.csv", f"{PLAIN}10", "column (its name): '000016' may be 000016.SZ or 000016.SH"),
        ("prices.csv", f"{PLAIN}10", "name a file of one symbol by it, such as AAPL.csv"),
        ("AAPL.csv", f"{PLAIN}10\n20240102,11,9,10,100,9", "different open; give each row its symbol"),
        ("AAPL.csv", f'{PLAIN}"10,5"', "row 1, column Open: '10,5' is not a number; write a decimal point"),
        ("AAPL.csv", f"{PLAIN}10%", "row 1, column Open: '10%' is not a number; write it without the sign"),
        ("AAPL.csv", f"{PLAIN}10\n20240103,11,9,10,100,ten", "row 2, column Open: 'ten' is not a number"),
        ("AAPL.csv", f"{PLAIN}10,5", "more cells than its header; is there a comma in a number?"),
        ("AAPL.csv", f"{PLAIN}10,5".replace(",", ";"), "its cells are separated by ';'; save it with commas"),
        (
            "AAPL.csv",
            f"{PLAIN}10".replace("20240102", "01/02/2024"),
            "say date_order='month_first' or date_order='day_first'",
        ),
    ],
)
def test_bad_files_are_one_line_with_what_is_valid(tmp_path: Path, name: str, text: str, said: str) -> None:
    message = refusal(write(tmp_path / name, f"{text}\n"))
    assert said in message
    assert name in message


def test_units_that_are_said(tmp_path: Path) -> None:
    path = write(
        tmp_path / "bars.csv", "日期,代码,开盘,最高,最低,收盘,成交量\n2024/1/2,600519,10,11,9,10,300\n"
    )
    assert "say volume_unit='shares' or volume_unit='hands'" in refusal(path)
    said = FileSource(path, table_options=TableOptions(volume_unit="shares"))
    assert everything(said)["vol"]["600519.SH"].tolist() == [3]
    assert "vol = 成交量 (in shares, as volume_unit says)" in said.provenance[0].en
