"""Answers from a market in memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from bar_files import day, everything

from quantgraph.data.files import FileSource
from quantgraph.errors import BadWindow, NoData, UnknownField, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.state import DataState


def test_errors_name_what_is_available(folder: Path) -> None:
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


def test_concurrent_first_requests_load_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_names_are_records_known_from_their_first_day_and_without_one_always(folder: Path) -> None:
    (folder / "names.csv").write_text(
        "ts_code,name,start_date\n600519.SH,Old,20200101\n600519.SH,New,20240103\n", encoding="utf-8"
    )
    (folder / "weights.csv").write_text(
        "index_code,con_code,trade_date,weight,stock_name\n000016.SH,000001.SZ,20231229,1,*ST平安银行\n"
    )
    source = FileSource(folder)
    assert source.record_kinds == ("name",)
    found = source.records(["name"], source.symbols(), day("1970-01-01"), day("2024-01-03"))
    known = {(each.symbol, str(each.known), each.body["name"]) for each in found}
    assert known == {
        ("600519.SH", "2020-01-01", "Old"),
        ("600519.SH", "2024-01-03", "New"),
        ("000001.SZ", "1970-01-01", "平安银行"),
    }
    store = DataState()
    store.update("ohlcv", everything(source))
    ref = store.record(found)
    for session, phase, name in (
        ("2024-01-03", "open", "Old"),
        ("2024-01-03", "close", "Old"),
        ("2024-01-04", "open", "New"),
    ):
        names = store.view(Moment.at(session, phase), ref).names()
        assert names == {"600519.SH": name, "000001.SZ": "平安银行"}
