"""Units of volumes and amounts, as names or numbers tell them.

An amount divided by the shares traded is an average price, which lies between the day's low and high. Of the
units that a vendor may mean, which differ by powers of ten, one alone makes it so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._table_columns import ColumnNames, open_choice
from quantgraph.errors import BadFile

_SIZES: dict[str, dict[str, float]] = {
    "vol": {"shares": 1, "hands": 100},
    "amount": {"yuan": 1, "thousand_yuan": 1e3, "ten_thousand_yuan": 1e4},
}
_OPTIONS = {"vol": "volume_unit", "amount": "amount_unit"}
_ZH = {
    "shares": "股",
    "hands": "手（100股）",
    "yuan": "元",
    "thousand_yuan": "千元",
    "ten_thousand_yuan": "万元",
}
_TOLERANCE = 0.01
"""Relative room around low and high for the average price: hands are rounded."""
_LEAST_AGAINST = 20
"""Traded rows from which on the numbers speak against a convention."""
_LOOKED_AT = 200_000
"""Rows of a long table that are looked at, evenly spread."""
_NEAR_POWER = 0.1
_MOST = 0.9
"""Part of the traded rows whose average price must be in its place."""


@dataclass(frozen=True, kw_only=True)
class TableUnits:
    """Shares in a unit of volume, currency units in one of the amount, and how each is known."""

    volume: float
    amount: float
    notes: Mapping[str, Note]
    """By field, for the reader of a result."""
    withheld: Mapping[str, BadFile]
    """Fields whose unit nothing shows, with the error for who needs them."""


def units_of(
    names: ColumnNames,
    numbers: Mapping[str, pd.Series],
    file: str,
    *,
    options: Mapping[str, str | None],
    is_us: bool,
) -> TableUnits:
    """Units of the columns ``vol`` and ``amount`` of bars; the US has no hands.

    A field whose unit nothing shows is withheld: rules on prices do not need it.
    """
    present = [field for field in ("vol", "amount") if field in numbers and (numbers[field] > 0).any()]
    sizes = {field: _stated_unit(field, names, file, options, is_us=is_us) for field in present}
    both = len(present) == 2 and {"low", "high"} <= numbers.keys()
    stated = {field: size for field, (size, _) in sizes.items()}
    likely = _fitting(numbers, stated) if both else []
    mostly = _fitting(numbers, stated, most=1 / 2) if both and not likely else []  # a unit that changes
    fits = [pair for pair in likely if all(sizes[f][0] in {None, pair[f]} for f in present)]
    if len(likely) == 1 and not fits and (numbers["vol"] > 0).sum() >= _LEAST_AGAINST:
        if any(sizes[f][0] != likely[0][f] and f not in names.customary for f in present if sizes[f][0]):
            raise _contradiction(names, sizes, likely[0], file)
        sizes, fits = dict.fromkeys(present, (None, Note(zh="", en=""))), likely  # numbers beat a custom
    notes, found, withheld = {}, {"vol": 1.0, "amount": 1.0}, {}
    for name in present:
        size, how = sizes[name]
        if size is None:
            values = {pair[name] for pair in fits or mostly}
            if len(values) != 1:
                withheld[name], option = _unknown(name, names, file), _OPTIONS[name]
                zh, en = "单位不明，未采用；可说明", "in a unit that nothing shows, so left out; say it with"
                notes[name] = Note(zh=f"{zh} {option}", en=f"{en} {option}")
                continue
            size, how = values.pop(), Note(zh="由数值推知", en="inferred from the numbers")
        found[name], notes[name] = size, _note(name, size, how)
    return TableUnits(volume=found["vol"], amount=found["amount"], notes=notes, withheld=withheld)


def unit_changes(
    names: ColumnNames, rows: pd.DataFrame, units: TableUnits, file: str, *, mend: bool
) -> tuple[pd.DataFrame, list[Note]]:
    """The rows of bars with volumes and amounts in one unit throughout, and notes of what contradicts.

    Where the average price is a power of ten away from the prices, the volume or the amount of that row is in
    another unit: the one whose own median moves by it. ``mend`` multiplies it out.

    Raises
    ------
    BadFile
        If rows are in another unit, and the caller does not say that they are to be mended.
    """
    low, high, volume, amount = (
        rows[name].to_numpy(dtype=float) for name in ("low", "high", "vol", "amount")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        average = amount * units.amount / (volume * units.volume)
        off = (average < low * (1 - _TOLERANCE)) | (average > high * (1 + _TOLERANCE))
        power = np.log10(average / ((low + high) / 2))
    off &= np.isfinite(power) & (low > 0)
    whole = np.round(power)
    flipped = off & (whole != 0) & (np.abs(power - whole) < _NEAR_POWER)
    if not off.any() or (len(rows) < _LEAST_AGAINST and off.mean() > 1 / 2):
        return rows, []
    if not flipped.any() or not (~off & (volume > 0)).any():
        return rows, [_contradicting(names, rows, off, average, "")]
    fields = {"vol": volume, "amount": amount}
    usual = {name: np.median(values[~off & (values > 0)]) for name, values in fields.items()}
    moved = {name: abs(np.log10(np.median(values[flipped]) / usual[name])) for name, values in fields.items()}
    column = max(moved, key=lambda name: moved[name])
    note = _contradicting(names, rows, flipped, average, names.columns[column])
    if not mend:
        raise open_choice(
            f"{file}: {note.en}", "unit_change", ["mend"], file=file, column=names.columns[column]
        )
    factor = np.where(flipped, 10.0 ** (whole if column == "vol" else -whole), 1.0)
    return rows.assign(**{column: rows[column] * factor}), [
        Note(zh=f"{note.zh}，已换算", en=f"{note.en}, multiplied out")
    ]


def _contradicting(
    names: ColumnNames,
    rows: pd.DataFrame,
    off: npt.NDArray[np.bool_],
    average: npt.NDArray[np.float64],
    head: str,
) -> Note:
    place, count = int(off.argmax()), int(off.sum())
    row, of = rows.iloc[place], (names.columns["amount"], names.columns["vol"])
    where = f"{row['ts_code']} {row['trade_date']:%Y-%m-%d}: {average[place]:g}"
    zh = f"{of[0]}/{of[1]} 在 {count} 行不在最低与最高价之间（首行 {where}）"
    en = f"{of[0]} / {of[1]} is not between low and high in {count} rows, the first {where}"
    if head:
        return Note(zh=f"{zh}，这些行的 {head} 单位不同", en=f"{en}; {head} is in another unit there")
    return Note(zh=zh, en=en)


def _stated_unit(
    field: str, names: ColumnNames, file: str, options: Mapping[str, str | None], *, is_us: bool
) -> tuple[float | None, Note]:
    """The size of a unit and what says so; None if it is not stated."""
    option, head = options.get(_OPTIONS[field]), names.columns[field]
    stated = names.stated.get(field)
    if option is not None:
        size = _SIZES[field][option]
        if stated not in {None, size}:
            raise BadFile(
                f"{file}: {_OPTIONS[field]}={option!r} is set, and the column {head} says another unit",
                file=file,
                column=head,
                parameter=_OPTIONS[field],
            )
        return size, Note(zh=f"按 {_OPTIONS[field]}", en=f"as {_OPTIONS[field]} says")
    if stated is not None:
        return stated, Note(zh="列名所示", en="as its name says")
    custom = names.customary.get(field)
    if custom is not None and not (field == "vol" and is_us and custom > 1):  # the US has no hands
        return custom, Note(zh="该列名的约定", en="by the convention of its name")
    if field == "vol" and is_us:
        return 1.0, Note(zh="美股以股计", en="as US volumes are")
    return None, Note(zh="", en="")


def _fitting(
    numbers: Mapping[str, pd.Series], stated: Mapping[str, float | None], *, most: float = _MOST
) -> list[dict[str, float]]:
    """Pairs of units with which nearly all average prices lie between low and high."""
    step = max(1, len(numbers["vol"]) // _LOOKED_AT)
    low, high, volume, amount = (
        numbers[name].to_numpy(dtype=float)[::step] for name in ("low", "high", "vol", "amount")
    )
    traded = (volume > 0) & (amount > 0) & (low > 0) & (high > 0)
    if not traded.any():
        return []
    price = amount[traded] / volume[traded]
    low, high = low[traded] * (1 - _TOLERANCE), high[traded] * (1 + _TOLERANCE)
    known = {field: {size} if size else set() for field, size in stated.items()}
    pairs = product(*({*_SIZES[field].values(), *known[field]} for field in ("vol", "amount")))
    fitting = []
    for of_volume, of_amount in pairs:
        average = price * (of_amount / of_volume)
        if np.mean((average >= low) & (average <= high)) >= most:
            fitting.append({"vol": of_volume, "amount": of_amount})
    return fitting


def _contradiction(
    names: ColumnNames, sizes: Mapping[str, tuple[float | None, Note]], likely: Mapping[str, float], file: str
) -> BadFile:
    field = next(field for field in sizes if sizes[field][0] not in {None, likely[field]})
    size, how = sizes[field]
    right = {_OPTIONS[f]: _unit(f, likely[f]) for f in sizes}
    options = ", ".join(f"{option}={unit!r}" for option, unit in right.items())
    return BadFile(
        f"{file}, column {names.columns[field]}: read in {_unit(field, size or 1)} {how.en}, "
        f"amount / volume is far from the prices; they fit with {options}: say so, or mend the column",
        file=file,
        column=names.columns[field],
        parameter=_OPTIONS[field],
    )


def _unknown(field: str, names: ColumnNames, file: str) -> BadFile:
    head = names.columns[field]
    problem = f"{file}, column {head}: neither its name nor its numbers show its unit"
    return open_choice(problem, _OPTIONS[field], list(_SIZES[field]), file=file, column=head)


def _unit(field: str, size: float) -> str:
    return next((unit for unit, each in _SIZES[field].items() if each == size), f"units of {size:g}")


def _note(field: str, size: float, how: Note) -> Note:
    unit = _unit(field, size)
    shown: Sequence[str] = (_ZH.get(unit, unit), unit.replace("_", " "))
    return Note(zh=f"单位为{shown[0]}，{how.zh}", en=f"in {shown[1]}, {how.en}")
