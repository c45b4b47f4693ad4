"""Frames of the caller's as a source: as yfinance and akshare give them, with zones, levels and texts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph import open_source
from quantgraph.data.files import CallerTables
from quantgraph.errors import BadFile, BadOption
from quantgraph.settings import load_settings

DAYS = pd.bdate_range("2024-01-02", periods=3)


def prices(first=10.0, index=DAYS, **more):
    close = first + np.arange(len(index))
    columns = {"Open": close, "High": close + 1, "Low": close - 1, "Close": close, "Volume": 100 * close}
    return pd.DataFrame({**columns, **more}, index=index)


def closes(source):
    panel = source.bars(source.symbols(), *source.sessions()[[0, -1]])
    return {name: panel["close"][name].tolist() for name in source.symbols()}, panel


def test_a_frame_of_one_symbol_is_named_and_its_index_has_the_dates():
    source = open_source({"AAPL": prices(index=DAYS.tz_localize("America/New_York"))})
    found, panel = closes(source)
    assert found == {"AAPL": [10.0, 11.0, 12.0]}
    assert panel["vol"]["AAPL"].tolist() == [10.0, 11.0, 12.0]  # in hands of 100 shares
    assert source.sessions().tolist() == DAYS.tolist()
    (line, missing) = source.provenance("en")
    assert line == "AAPL: ts_code = its name; vol = Volume (in shares, by the convention of its name)"
    assert missing == "in no file, so NaN: pre_close, amount"
    assert "ts_code = 名称" in source.provenance("zh")[0]


def test_several_symbols_are_rows_or_a_level_of_the_header_or_frames_by_symbol():
    two = {"AAPL": prices(), "MSFT": prices(20.0)}
    expected = {"AAPL": [10.0, 11.0, 12.0], "MSFT": [20.0, 21.0, 22.0]}
    wide = pd.concat(two, axis=1)
    indexed = pd.concat(two, names=["ticker", "date"])
    for given in (two, wide, wide.swaplevel(axis=1).sort_index(axis=1), indexed, indexed.reset_index()):
        assert closes(open_source(given))[0] == expected


def test_closes_alone_are_series_or_a_frame_of_them():
    close = prices()["Close"]
    for given in (
        {"AAPL": close},
        close.rename("AAPL"),
        close.rename("AAPL").to_frame(),
        {"AAPL": prices()[["Close"]]},
    ):
        source = open_source(given)
        found, panel = closes(source)
        assert found == {"AAPL": [10.0, 11.0, 12.0]}
        assert panel["open"].isna().to_numpy().all()
        assert "no open prices: a signal can be made and proved, and no order can fill" in source.notes
    with pytest.raises(BadFile, match=r"DataFrame misses the column\(s\) ts_code"):
        open_source(close)


def test_names_of_frames_are_symbols_as_they_are_or_raised():
    for name, symbol in {
        "0700.HK": "0700.HK",
        "BTC-USD": "BTC-USD",
        "goog": "GOOG",
        "sh600519": "600519.SH",
    }.items():
        assert open_source({name: prices()}).symbols() == (symbol,)


def test_akshares_columns_are_read_and_what_is_not_used_is_told():
    table = pd.DataFrame(
        {
            "日期": ["2024-01-02", "2024-01-03"],
            "股票代码": ["000001", "000001"],  # of shares: not the index
            "开盘": [10.0, 10.0],
            "收盘": [10.0, 10.5],
            "最高": [10.2, 10.6],
            "最低": [9.9, 9.9],
            "成交量": [500, 600],
            "成交额": [5.0e5, 6.1e5],
            "振幅": [1.0, 2.0],
            "换手率": [0.1, 0.2],
        }
    )
    source = open_source(table)
    panel = closes(source)[1]
    assert source.symbols() == ("000001.SZ",)
    assert panel["vol"]["000001.SZ"].tolist() == [500, 600]
    assert panel["amount"]["000001.SZ"].tolist() == [500, 610]
    told = source.provenance("zh")[0]
    for part in ("ts_code = 股票代码", "vol = 成交量（单位为手（100股），由数值推知）", "未使用 振幅"):
        assert part in told


def test_codes_are_read_in_the_usual_forms_and_asked_for_where_they_are_two():
    for written in ("600519", 600519, "sh600519", "SH.600519", "600519.XSHG", "600519.ss"):
        assert open_source(prices(symbol=written)).symbols() == ("600519.SH",)
    with pytest.raises(BadFile, match=r"'000001' may be 000001.SZ or 000001.SH; write which"):
        open_source(prices(symbol="000001"))
    with pytest.raises(BadFile, match="has it lost its leading zeros"):
        open_source(prices(symbol=1))


def test_numbers_as_texts_are_read_and_a_bad_one_is_named():
    assert closes(open_source({"A": prices().astype(str)}))[0] == {"A": [10.0, 11.0, 12.0]}
    bad = prices().astype(str)
    bad.iloc[1, 3] = "n/q"
    with pytest.raises(BadFile, match="A, row 2, column Close: 'n/q' is not a number"):
        open_source({"A": bad})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "source is empty"),
        ({1: prices()}, "source: 1 is a DataFrame; give frames by symbol"),
        ({"A": [1]}, "source: 'A' is a list"),
        ([prices()["Open"]], "source=.2024-01-02 10.0 2024-01-03 11.0"),
        (12, "source=12 is not a source; valid: sample, tushare, "),
    ],
)
def test_what_is_no_frame_is_refused(given, told):
    with pytest.raises(BadOption, match=told):
        open_source(given)


def test_tables_that_are_not_bars_say_what_is_missing():
    with pytest.raises(BadFile, match=r"DataFrame misses the column\(s\) ts_code; .*\{'AAPL': frame\}"):
        open_source(prices())
    with pytest.raises(BadFile, match=r"bars misses the column\(s\) .*vol"):
        open_source({"bars": prices(symbol="A").rename(columns={"Volume": "amount"})})
    with pytest.raises(BadFile, match="x: its columns"):
        open_source({"x": pd.DataFrame({"a": [1]})})
    with pytest.raises(BadFile, match="its columns have 3 levels"):
        open_source(pd.concat({"y": pd.concat({"A": prices()}, axis=1)}, axis=1))
    twice = pd.concat([prices(), prices(11.0)])
    with pytest.raises(
        BadFile, match=r"A 2024-01-02 is there twice with different open.*give each row its sym"
    ):
        open_source({"A": twice})
    wide = pd.concat({"A": prices(), "B": prices(-9.0)}, axis=1)
    with pytest.raises(BadFile, match="DataFrame, 2024-01-02 B, column Open: -9 is below 0"):
        open_source(wide)


def test_a_source_is_what_its_frames_were():
    table = prices()
    source = CallerTables({"A": table})
    before = source.fingerprint()
    table.iloc[0, 3] = 99.0
    assert closes(source)[0] == {"A": [10.0, 11.0, 12.0]}
    assert CallerTables({"A": table}).fingerprint() != before
    assert CallerTables({"A": prices()}).fingerprint() == before


def test_the_settings_say_what_the_table_does_not():
    table = prices(index=None or range(3)).assign(Date=["01/02/2024", "01/03/2024", "01/04/2024"], code="A")
    with pytest.raises(BadFile, match=r"date_order=day_first, with --table or in \[tables\] of the settings"):
        open_source(table)
    read = open_source(table, settings=load_settings(tables={"date_order": "month_first"}))
    assert read.sessions()[-1] == pd.Timestamp("2024-01-04")
