"""Numbers as people write them: separators of thousands, decimal commas, signs of currency, percent, 万.

Whether a comma separates thousands or decimals is shown by another number of the table, or asked for: a guess
would change numbers a thousandfold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._table_columns import bad_cell, open_choice
from quantgraph.errors import BadFile

NumberKind = Literal["price", "quantity", "number"]
Decimal = Literal["point", "comma"]

_PERCENT_FIELDS = frozenset({"pct_chg", "turnover_rate", "turnover_rate_f", "dv_ratio", "dv_ttm"})
_SCALED_FIELDS = frozenset(
    {"vol", "amount", "total_mv", "circ_mv", "total_share", "float_share", "free_share"}
)
_SCALES = {"K": 1e3, "M": 1e6, "B": 1e9, "万": 1e4, "亿": 1e8}
_EMPTY = frozenset({"", "-", "--", "—", "——", "N/A", "#N/A", "#N/A N/A", "nan", "NaN", "None"})
_AROUND = re.compile(r"^'|[\s\u00a0\u202f$¥￥€£]|(?<=\d)(?:元|股)$")  # "¥1688"
_POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")  # "1,688.50"
_COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?")  # "1.688,50"
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # "1,688"
_MARKS = {
    "thousands": Note(zh="去掉了千位分隔符", en="separators of thousands removed"),
    "comma": Note(zh="小数逗号", en="decimal comma"),
    "currency": Note(zh="去掉了货币符号", en="signs of currency removed"),
    "percent": Note(zh="去掉了百分号", en="percent signs removed"),
    "scale": Note(zh="按 K、M、B、万、亿换算", en="K, M, B, 万, 亿 multiplied out"),
}


@dataclass(frozen=True, kw_only=True)
class WrittenNumbers:
    """The texts of a table's number columns with plain numbers in place of written ones, by field."""

    columns: Mapping[str, pd.Series]
    notes: Mapping[str, tuple[Note, ...]]
    """What was taken off, by field."""


def plain_numbers(columns: Mapping[str, pd.Series], file: str, option: Decimal | None) -> WrittenNumbers:
    """Take off what is written around the numbers of a table's columns, by field.

    ``BadFile`` if nothing shows what a comma means, or the columns contradict each other.
    """
    texts = {field: column for field, column in columns.items() if _is_text(column)}
    decimal = _decimal(texts, file, option)
    plain, notes = dict(columns), {}
    for field, column in texts.items():
        codes, values = pd.factorize(column.astype("str").str.strip().mask(column.isna(), ""))
        read = [_plain(str(value), field, decimal) for value in values]
        found = {mark for _, marks in read for mark in marks}
        plain[field] = pd.Series(
            np.array([text for text, _ in read], dtype=object)[codes], index=column.index, name=column.name
        )
        notes[field] = tuple(note for mark, note in _MARKS.items() if mark in found)
    return WrittenNumbers(columns=plain, notes=notes)


def read_numbers(column: pd.Series, file: str, kind: NumberKind = "number") -> pd.Series:
    """Finite float64 numbers, NaN where the cell is empty.

    A price must be > 0, a quantity >= 0.
    """
    numbers = _numeric(column, file)
    values = numbers.to_numpy()
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise bad_cell(file, column, int(infinite[0]), "is infinite; leave an unknown value empty")
    if kind == "price":
        low, valid = values <= 0, "a price is above 0; leave it empty where there was no trading"
    elif kind == "quantity":
        low, valid = values < 0, "it must not be negative"
    else:
        return numbers
    if low.any():
        position = int(np.argmax(low))
        raise bad_cell(file, column, position, f"{values[position]:g} is too small; {valid}")
    return numbers


def _is_text(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column)


def _decimal(texts: Mapping[str, pd.Series], file: str, option: Decimal | None) -> Decimal:
    """What a comma is in these columns; "point" where there is none."""
    shown_by: dict[Decimal, tuple[pd.Series, str]] = {}
    ambiguous: tuple[pd.Series, str] | None = None
    for column in texts.values():
        cells = column.dropna().astype("str")
        for cell in cells[cells.str.contains(r"[,.]", regex=True)].unique():
            text = _AROUND.sub("", cell.strip()).rstrip("%KMB万亿")
            meant = _sign_in(text)
            if meant is not None:
                shown_by.setdefault(meant, (column, cell))
            elif ambiguous is None and _EITHER.fullmatch(text):
                ambiguous = (column, cell)
    if len(shown_by) > 1:
        shown = " and ".join(f"{cell!r} in column {column.name}" for column, cell in shown_by.values())
        raise BadFile(f"{file}: the comma means two things: {shown}; write numbers in one way", file=file)
    found = next(iter(shown_by), None)
    if option is not None and found not in {None, option}:
        column, cell = shown_by[found] if found else (pd.Series(), "")
        raise BadFile(
            f"{file}, column {column.name}: decimal={option!r} is set, and {cell!r} shows a decimal {found}",
            file=file,
            column=column.name,
            parameter="decimal",
        )
    if found is None and option is None and ambiguous is not None:
        column, cell = ambiguous
        number = cell.strip().partition(",")
        raise open_choice(
            f"{file}, column {column.name}: {cell.strip()!r} may be {number[0]}{number[2]} or "
            f"{number[0]}.{number[2]}, and no number of the table tells which",
            "decimal",
            ("point", "comma"),
            file=file,
            column=column.name,
        )
    return option or found or "point"


def _sign_in(text: str) -> Decimal | None:
    """What a number shows about commas; None if it has none, or shows nothing."""
    if not re.fullmatch(r"[+-]?[\d.,]+", text):  # "1,688.50"
        return None
    if "," not in text:
        return "point" if re.fullmatch(r"[+-]?\d*\.\d+", text) and not _COMMA_GROUPS.fullmatch(text) else None
    if _EITHER.fullmatch(text):
        return None
    if _POINT_GROUPS.fullmatch(text):
        return "point"
    if _COMMA_GROUPS.fullmatch(text) or re.fullmatch(r"[+-]?\d+,\d+", text):  # "1688,5"
        return "comma"
    return None


def _plain(text: str, field: str, decimal: Decimal) -> tuple[str, tuple[str, ...]]:
    """A number without its marks, and their names; any other text stays as it is."""
    if text in _EMPTY:
        return "", ()
    marks: list[str] = []
    number = _AROUND.sub("", text)
    if re.search(r"[$¥￥€£]", text):  # "¥1688"
        marks.append("currency")
    if number.endswith("%") and field in _PERCENT_FIELDS:
        number = number[:-1]
        marks.append("percent")
    scale = _SCALES.get(number[-1:].upper()) if field in _SCALED_FIELDS else None
    if scale is not None:
        number = number[:-1]
        marks.append("scale")
    if "," in number and decimal == "point" and _POINT_GROUPS.fullmatch(number):
        number = number.replace(",", "")
        marks.append("thousands")
    elif decimal == "comma" and (_COMMA_GROUPS.fullmatch(number) or re.fullmatch(r"[+-]?\d+,\d+", number)):
        marks += ["thousands"] if "." in number else []
        marks += ["comma"] if "," in number else []
        number = number.replace(".", "").replace(",", ".")
    try:
        value = float(number)
    except ValueError:
        return text, ()
    return (number if scale is None else repr(round(value * scale, 6))), tuple(marks)


def _numeric(column: pd.Series, file: str) -> pd.Series:
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        return column.astype("float64")
    text = column.astype("str").str.strip()
    blank = column.isna() | (text == "")
    numbers = pd.to_numeric(text.mask(blank), errors="coerce").astype("float64")
    wrong = np.flatnonzero((numbers.isna() & ~blank).to_numpy(dtype=bool))
    if len(wrong):
        shown = str(column.iloc[int(wrong[0])])[:40]
        raise bad_cell(file, column, int(wrong[0]), f"{shown!r} is not a number{_without_marks(shown)}")
    return numbers


def _without_marks(text: str) -> str:
    """What to write instead of a number with marks."""
    if "," in text:
        return "; write a decimal point, and no separators of thousands"
    return "; write it without the sign" if text.endswith("%") else ""
