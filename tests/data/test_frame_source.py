"""Answers from a market in memory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from bar_files import day, everything

from quantgraph.data.files import FileSource
from quantgraph.errors import BadWindow, NoData, UnknownField, UnknownSymbol


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
