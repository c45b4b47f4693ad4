"""Dividends and splits from files: every cell from text written here or from real tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.data._source import Panel
from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile, NoData
from quantgraph.state import DataState

DAYS = ("20240102", "20240103", "20240104", "20240105", "20240108", "20240109")


def everything(source: FileSource) -> Panel:
    return source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1])


def cells(panel: Panel, field: str) -> dict[tuple[str, str], float]:
    return {(f"{day:%m-%d}", code): value for (day, code), value in panel[field].stack().dropna().items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(
        f"{code},{day},10,11,9,10,10,100,1000\n" for code in ("000001.SZ", "600519.SH") for day in DAYS
    )
    (tmp_path / "bars.csv").write_text(f"ts_code,trade_date,open,high,low,close,pre_close,vol,amount\n{rows}")
    return tmp_path


def test_a_real_folder_of_bars_dividends_and_splits_is_one_source(shared_data: Path) -> None:
    source = open_source(shared_data / "stockbench")
    panel = everything(source)
    with (shared_data / "stockbench" / "dividends.csv").open(encoding="utf-8") as lines:
        rows = [
            row for row in csv.DictReader(lines) if "2024-12-13" <= row["ex_dividend_date"] <= "2025-06-30"
        ]
    for field, column in (
        ("dividend", "cash_amount"),
        ("action_pay", "pay_date"),
        ("action_record", "record_date"),
    ):
        expected = {
            (pd.Timestamp(row["ex_dividend_date"]), row["ticker"]): float(row[column].replace("-", ""))
            for row in rows
        }
        assert panel[field].stack().dropna().to_dict() == expected
    assert len(rows) == 37
    assert panel["action_declared"].count().sum() == 36
    assert panel["split"].isna().all(axis=None), "the splits of splits.csv lie before the bars"
    notes = " ".join(source.notes)
    assert "published_results.csv was left out" in notes
    assert "dividends.csv" not in notes
    assert "splits.csv" not in notes


def test_real_sparse_frames_survive_the_data_state(shared_data: Path, tmp_path: Path) -> None:
    source = open_source(shared_data / "stockbench")
    first, last = source.sessions()[0], source.sessions()[-1]
    store = DataState(tmp_path)
    for symbols in (["AAPL", "AMZN"], ["GS", "AMZN"]):
        ref = store.update("ohlcv", source.bars(symbols, first, last))
    expected = source.bars(["AAPL", "AMZN", "GS"], first, last)
    found = DataState(tmp_path).snapshot(ref)["ohlcv"]
    assert sorted(found) == sorted(expected)
    for field, frame in expected.items():
        pd.testing.assert_frame_equal(found[field], frame, check_names=False)


def test_of_tushares_table_only_implemented_rows_count(folder: Path) -> None:
    (folder / "dividend.csv").write_text(
        "ts_code,end_date,ann_date,div_proc,stk_div,cash_div,cash_div_tax,record_date,ex_date,pay_date,imp_ann_date\n"
        "600519.SH,20231231,20231201,预案,0.3,1.2,1.5,,,,\n"
        "600519.SH,20231231,20231201,实施,0.3,1.2,1.5,20240103,20240104,20240105,20231228\n"
        "000001.SZ,20231231,20231202,实施,0,0.1,0.12,20240104,20240105,,20231229\n"
        "600036.SH,20231231,20231202,实施,0,0.1,0.12,20240104,20240105,,20231229\n"
        "000001.SZ,20221231,20221202,实施,0,0.1,0.12,20230104,20230105,,20221229\n",
        encoding="utf-8",
    )
    panel = everything(FileSource(folder))
    assert cells(panel, "dividend") == {("01-04", "600519.SH"): 1.5, ("01-05", "000001.SZ"): 0.12}
    assert cells(panel, "split") == {("01-04", "600519.SH"): 1.3}
    assert cells(panel, "action_declared") == {
        ("01-04", "600519.SH"): 20231228,
        ("01-05", "000001.SZ"): 20231229,
    }
    assert cells(panel, "action_pay") == {("01-04", "600519.SH"): 20240105}


def test_the_announcement_of_a_plan_is_not_a_declaration(folder: Path) -> None:
    (folder / "dividend.csv").write_text(
        "ts_code,ann_date,div_proc,cash_div_tax,ex_date\n600519.SH,20231201,实施,1.5,20240104\n", "utf-8"
    )
    assert "action_declared" not in everything(FileSource(folder))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_events_on_one_ex_date_are_combined(tmp_path: Path, ending: str) -> None:
    (tmp_path / "bars.csv").write_text(
        "symbol,date,open,high,low,close,volume\n"
        + "".join(f"600519,{day},1,1,1,1,1\nNA,{day},1,1,1,1,1\n" for day in DAYS)
    )
    table = pd.DataFrame(
        [
            ("600519", "2024-01-04", 0.1, 1.1, "2024-01-02", "2024-01-03", "2024-01-08"),
            ("600519", "2024-01-04", 0.2, 1.2, "2024-01-03", "2024-01-03", "2024-02-01"),
            ("600519", "2024-01-04", 0.2, 1.2, "2024-01-03", "2024-01-03", "2024-02-01"),
            ("NA", "2024-01-06", 0.5, None, "2024-01-02", None, "2024-01-10"),  # a Saturday
            ("NA", "2024-01-08", 0.25, None, None, None, "2024-01-09"),
        ],
        columns=["symbol", "ex_date", "cash", "split", "declaration_date", "record_date", "pay_date"],
    )
    path = tmp_path / f"events.{ending}"
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    panel = everything(FileSource(tmp_path))
    assert cells(panel, "dividend") == {("01-04", "600519.SH"): 0.3, ("01-08", "NA"): 0.75}
    assert cells(panel, "split") == {("01-04", "600519.SH"): 1.32}
    assert cells(panel, "action_declared") == {("01-04", "600519.SH"): 20240103}, "one of NA's is unknown"
    assert cells(panel, "action_record") == {("01-04", "600519.SH"): 20240103}
    assert cells(panel, "action_pay") == {("01-04", "600519.SH"): 20240201, ("01-08", "NA"): 20240110}


def test_bars_may_carry_their_events_and_status(folder: Path) -> None:
    header = (
        "ts_code,trade_date,open,high,low,close,vol,dividend,split,action_pay,delisting,is_st,listing_day"
    )
    (folder / "bars.csv").write_text(
        f"{header}\n"
        "A,20240102,1,1,1,1,1,0,1,,,0,1\n"
        "A,20240103,.5,.5,.5,.5,1,0.25,2,2024-01-09,,1,2\n"
        "B,20240103,1,1,1,1,1,,,,,0,\n"
        "A,20240104,,,,,,,,,1.5,1,\n"
        "B,20240104,1,1,1,1,1,0,0,,,0,\n"
    )
    panel = everything(FileSource(folder))
    assert cells(panel, "dividend") == {("01-03", "A"): 0.25}
    assert cells(panel, "split") == {("01-03", "A"): 2.0}
    assert cells(panel, "action_pay") == {("01-03", "A"): 20240109}
    assert cells(panel, "delisting") == {("01-04", "A"): 1.5}
    assert panel["is_st"]["A"].tolist() == [0.0, 1.0, 1.0]
    assert cells(panel, "listing_day") == {("01-02", "A"): 1, ("01-03", "A"): 2}


def test_an_event_in_the_bars_and_in_a_table_is_one(folder: Path) -> None:
    (folder / "extra.csv").write_text(
        "ts_code,trade_date,dividend\n600519.SH,20240104,1.5\n600519.SH,20240105,0\n"
    )
    (folder / "table.csv").write_text("ticker,ex_dividend_date,cash_amount\n600519.SH,2024-01-04,1.5\n")
    assert cells(everything(FileSource(folder)), "dividend") == {("01-04", "600519.SH"): 1.5}
    (folder / "table.csv").write_text("ticker,ex_dividend_date,cash_amount\n600519.SH,2024-01-04,1.6\n")
    with pytest.raises(
        BadFile, match=r"extra.csv and table.csv disagree: dividend of 600519.SH on 2024-01-04"
    ):
        everything(FileSource(folder))


@pytest.mark.parametrize(("adjusted", "left"), [(False, {("01-04", "A"): 4.0}), (True, {})])
def test_a_split_that_the_prices_are_adjusted_for_does_not_count_again(
    tmp_path: Path, adjusted: bool, left: dict[tuple[str, str], float]
) -> None:
    prices = {"20240102": 100.0, "20240103": 104.0, "20240104": 24.0, "20240105": 25.0}
    if adjusted:
        prices |= {"20240102": 25.0, "20240103": 26.0}
    (tmp_path / "bars.csv").write_text(
        "symbol,date,open,high,low,close,volume\n"
        + "".join(f"A,{d},{p},{p},{p},{p},1\n" for d, p in prices.items())
    )
    (tmp_path / "splits.csv").write_text(
        "ticker,execution_date,split_from,split_to\nA,2024-01-04,1,4\nA,2020-01-02,1,7\nB,2024-01-04,1,2\n"
    )
    (tmp_path / "dividends.csv").write_text("ticker,ex_dividend_date,cash_amount\nA,2024-01-03,0.5\n")
    source = FileSource(tmp_path)
    panel = everything(source)
    assert cells(panel, "split") == left
    assert cells(panel, "dividend") == {("01-03", "A"): 0.5}
    told = [note for note in source.notes if "adjusted already for these splits" in note]
    assert [note.endswith(": A 2024-01-04") for note in told] == [True] * adjusted


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("600519.SH,20240104,-1,,USD\n", r"events.csv, row 1, column dividend: -1 is too small"),
        ("600519.SH,20240104,x,,USD\n", r"column dividend: 'x' is not a number"),
        ("600519.SH,2024-13-04,1,,USD\n", r"row 1, column trade_date: 2024-13-04 is not a day"),
        (",20240104,1,,USD\n", r"row 1, column ts_code: is empty"),
        ("600519.SH,20240104,1,soon,USD\n", r"row 1, column action_pay: soon is not a date"),
        ("A,20240104,1,,USD\nB,20240104,1,,CAD\n", r"events.csv has amounts in CAD, USD; keep one currency"),
    ],
)
def test_a_bad_cell_is_named(folder: Path, table: str, message: str) -> None:
    (folder / "events.csv").write_text(f"ticker,ex_date,cash_amount,pay_date,currency\n{table}")
    with pytest.raises(BadFile, match=message):
        everything(FileSource(folder))


def test_a_declaration_after_the_ex_date_is_left_out_with_a_note(folder: Path) -> None:
    (folder / "events.csv").write_text(
        "ts_code,ex_date,cash,declaration_date\n600519.SH,20240104,1,20240105\n000001.SZ,20240104,2,20240104\n"
    )
    source = FileSource(folder)
    assert cells(everything(source), "action_declared") == {("01-04", "000001.SZ"): 20240104}
    assert "1 actions are declared after their ex-date; that date is left out" in source.notes


def test_a_file_of_events_alone_is_not_a_source(folder: Path) -> None:
    path = folder / "events.csv"
    path.write_text("ts_code,ex_date,cash\n600519.SH,20240104,1\n")
    with pytest.raises(BadFile, match="holds no daily bar"):
        FileSource(path).sessions()


def test_a_window_without_a_trade_is_no_data_whatever_the_status(folder: Path) -> None:
    (folder / "bars.csv").write_text(
        "ts_code,trade_date,open,high,low,close,vol,is_st\n"
        "A,20240102,1,1,1,1,1,0\nA,20240103,,,,,,0\nB,20240103,1,1,1,1,1,0\n"
    )
    source = FileSource(folder)
    assert everything(source)["is_st"]["A"].tolist() == [0.0, 0.0]
    with pytest.raises(NoData):
        source.bars(["A"], pd.Timestamp("2024-01-03"), pd.Timestamp("2024-01-03"))


def test_what_is_declared_is_a_record_whatever_its_ex_date(folder: Path) -> None:
    (folder / "dividends.csv").write_text(
        "ticker,ex_dividend_date,cash_amount,declaration_date\n"
        "600519.SH,2023-06-30,21.5,2023-06-20\n"  # before the bars
        "600519.SH,2024-01-04,1.5,\n"
        "600519.SH,2024-02-01,2.3,2024-01-05\n"  # after them
    )
    source = FileSource(folder)
    found = source.records(["action"], ["600519.SH"], pd.Timestamp("2020-01-01"), pd.Timestamp("2024-01-31"))
    assert {(each.body["ex"], each.body["cash"], str(each.known)) for each in found} == {
        ("2023-06-30", "21.5", "2023-06-20"),
        ("2024-01-04", "1.5", "2024-01-04 00:00:00"),
        ("2024-02-01", "2.3", "2024-01-05"),
    }
    # Of a window that ends before its declaration, a dividend is not known.
    end = pd.Timestamp("2024-01-04")
    known = source.records(["action"], ["600519.SH"], pd.Timestamp("2020-01-01"), end)
    assert len(known) == 2
    # The bars have what goes ex within them, and nothing else.
    assert cells(everything(source), "dividend") == {("01-04", "600519.SH"): 1.5}
