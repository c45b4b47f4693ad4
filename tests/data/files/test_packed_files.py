"""Workbooks and zip files: limits, formulas, several tables, what is not what its name says."""

from __future__ import annotations

import zipfile

import openpyxl
import pytest
from own_files import US

from quantgraph.data.files import FileSource
from quantgraph.data.files import _unpacked as unpacked
from quantgraph.errors import BadFile, NotConfigured

ROWS = [line.split(",") for line in US.splitlines()]


def refusal(path, **options):
    with pytest.raises(BadFile) as caught:
        FileSource(path, **options).sessions()
    assert "\n" not in caught.value.message
    return caught.value


def workbook(path, rows, *, sheets=("Sheet1",)):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append([_number(cell) for cell in row])
    book.save(path)
    return path


def _number(cell):
    return float(cell) if cell.replace(".", "").isdecimal() else cell


def closes(source):
    return source.bars(source.symbols(), *source.sessions()[[0, -1]])["close"]


def test_a_title_above_the_header_and_empty_rows_are_no_rows(tmp_path):
    path = workbook(tmp_path / "MSFT.xlsx", [["Prices of MSFT"], [], *ROWS[:3], [], *ROWS[3:]])
    assert closes(FileSource(path))["MSFT"].tolist() == [370.87, 370.6, 367.94, 367.75, 374.69, 375.79]


def test_sheets_without_data_are_left_out_and_a_bad_cell_is_named_with_its_sheet(tmp_path):
    path = workbook(tmp_path / "book.xlsx", ROWS, sheets=("AAPL", "MSFT"))
    book = openpyxl.load_workbook(path)
    book.create_sheet("notes").append(["from", "where"])
    book.save(path)
    assert FileSource(path).symbols() == ("AAPL", "MSFT")
    book["MSFT"]["E4"] = "n/q"
    book.save(path)
    assert "book.xlsx, sheet MSFT, row 3, column Close: 'n/q' is not a number" in refusal(path).message


def test_a_formula_without_a_saved_value_is_not_a_day_without_trading(tmp_path):
    path = workbook(tmp_path / "MSFT.xlsx", ROWS)
    book = openpyxl.load_workbook(path)
    book.active["E3"] = "=E2*2"
    book.save(path)  # openpyxl computes nothing
    told = refusal(path).message
    assert told == (
        "MSFT.xlsx, sheet Sheet1, row 3: a formula without a saved value; open the file in Excel and save it, or "
        "save it as CSV"
    )


def test_a_workbook_that_unpacks_beyond_the_limit_is_refused(tmp_path):
    path = workbook(tmp_path / "MSFT.xlsx", ROWS)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/media/large.bin", bytes(3 << 20))
    assert path.stat().st_size < 1 << 20
    assert refusal(path, max_file_mb=2).data == {"file": "MSFT.xlsx", "max_mb": 2}


def test_a_damaged_workbook_is_one_line(tmp_path):
    whole = workbook(tmp_path / "whole.xlsx", ROWS)
    with zipfile.ZipFile(whole) as parts:
        inside = {name: parts.read(name) for name in parts.namelist()}
    messages = []
    for damaged in inside:
        for content in (b"", b"<broken", inside[damaged][:-9]):
            path = tmp_path / "MSFT.xlsx"
            with zipfile.ZipFile(path, "w") as parts:
                for name, text in inside.items():
                    parts.writestr(name, content if name == damaged else text)
            try:
                FileSource(path).sessions()
            except BadFile as error:
                messages.append(error.message)
    assert len(messages) > len(inside)
    assert all("MSFT.xlsx" in each and "\n" not in each for each in messages)


def test_without_openpyxl_it_says_what_to_install(tmp_path, monkeypatch):
    path = workbook(tmp_path / "MSFT.xlsx", ROWS)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(NotConfigured, match=r"install quantgraph\[excel\], or save it as CSV"):
        FileSource(path).sessions()


def test_more_rows_than_are_read_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "MSFT.csv"
    path.write_text(US)
    monkeypatch.setattr(unpacked, "MAX_ROWS", 5)
    assert refusal(path).data == {"file": "MSFT.csv", "max_rows": 5}


def test_a_zip_holds_one_table(tmp_path):
    path = tmp_path / "both.zip"
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr("AAPL.csv", US)
    assert FileSource(path).symbols() == ("AAPL",)
    with zipfile.ZipFile(path, "a") as parts:
        parts.writestr("MSFT.csv", US)
    assert refusal(path).message == "both.zip holds 2 files; unpack it, and give a file or the folder"


def test_a_zip_that_unpacks_beyond_the_limit_is_refused(tmp_path):
    path = tmp_path / "MSFT.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("MSFT.csv", US + "\n" * (3 << 20))
    assert refusal(path, max_file_mb=2).data == {"file": "MSFT.zip", "max_mb": 2}
