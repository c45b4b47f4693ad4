"""Putting together what several files say about the same symbols and sessions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from quantgraph.data.files._readers import Table
from quantgraph.data.protocol import EVENT_FIELDS
from quantgraph.errors import BadFile

__all__ = ["PRICE_TOLERANCE", "merge_tables"]

PRICE_TOLERANCE = 1e-4
"""Largest relative difference between two files' prices of one symbol and session."""

_KEYS = ["ts_code", "trade_date"]
_NOTHING = pd.DataFrame({"ts_code": pd.Series(dtype="str"), "trade_date": pd.Series(dtype="datetime64[us]")})
_PRICES = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit", *EVENT_FIELDS[:3])


def merge_tables(tables: Sequence[Table]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """One row a (symbol, session); of each cell the first file that has it, in the order given.

    Returns
    -------
    tuple
        Columns ``ts_code``, ``trade_date`` and the union of the tables' fields; and a note for each
        field but prices on which the files disagree.

    Raises
    ------
    BadFile
        If prices disagree by more than ``PRICE_TOLERANCE``, naming both files and the cell.
    """
    if not tables:
        return _NOTHING, ()
    if len(tables) == 1:
        return tables[0].rows, ()
    files = [table.file for table in tables]
    rows = pd.concat(
        [table.rows.assign(_file=number) for number, table in enumerate(tables)], ignore_index=True
    )
    shared = rows.duplicated(subset=_KEYS, keep=False)
    if not shared.any():
        return rows.drop(columns="_file"), ()
    common = rows[shared]
    notes = _disagreements(common, files)
    merged = common.drop(columns="_file").groupby(_KEYS, sort=False, as_index=False).first()
    return pd.concat([rows[~shared].drop(columns="_file"), merged], ignore_index=True), notes


def _disagreements(common: pd.DataFrame, files: Sequence[str]) -> tuple[str, ...]:
    notes = []
    groups = common.groupby(_KEYS, sort=False)
    for field in common.columns.difference([*_KEYS, "_file"], sort=False):
        values = common[field]
        first = groups[field].transform("first")
        apart = ((values - first).abs() > PRICE_TOLERANCE * first.abs()).to_numpy()
        if not apart.any():
            continue
        other = common.iloc[int(np.argmax(apart))]
        if field in _PRICES:
            raise _contradiction(common, other, field, files)
        notes.append(
            f"{field} of {int(apart.sum())} rows differs between files, for example {other['ts_code']} "
            f"{other['trade_date']:%Y-%m-%d} in {files[other['_file']]}; the first file by name is used"
        )
    return tuple(notes)


def _contradiction(common: pd.DataFrame, other: pd.Series, field: str, files: Sequence[str]) -> BadFile:
    same = (common["ts_code"] == other["ts_code"]) & (common["trade_date"] == other["trade_date"])
    one = common[same & common[field].notna()].iloc[0]
    return BadFile(
        f"{files[one['_file']]} and {files[other['_file']]} disagree: {field} of {other['ts_code']} on "
        f"{other['trade_date']:%Y-%m-%d} is {one[field]:g} and {other[field]:g}; keep one of the two",
        files=(files[one["_file"]], files[other["_file"]]),
        cell=(other["ts_code"], other["trade_date"], field),
    )
