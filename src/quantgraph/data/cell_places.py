"""Where a cell of a table is, in messages."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd

from quantgraph.errors import BadFile


def row_name(table: pd.DataFrame | pd.Series, position: int) -> str:
    """Name of a row in messages: counted from 1 below the header, or its own label."""
    label = table.index[position]
    if isinstance(label, tuple):
        return " ".join(f"{each:%Y-%m-%d}" if isinstance(each, dt.datetime) else str(each) for each in label)
    return f"row {label + 1}" if isinstance(label, (int, np.integer)) else str(label)


def bad_cell(file: str, column: pd.Series, position: int, reason: str) -> BadFile:
    """The error about one cell: file, row, column, and the reason with what would be valid."""
    where = row_name(column, position)
    return BadFile(
        f"{file}, {where}, column {column.name}: {reason}", file=file, row=where, column=column.name
    )
