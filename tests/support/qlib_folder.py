"""A writer of qlib's binary folders, after its documentation, and what float32 leaves of a volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd


def qlib_code(code: str) -> str:
    """``600519.SH`` as ``SH600519``; others as they are."""
    stem, dot, exchange = code.rpartition(".")
    return f"{exchange}{stem}" if dot else code


def write_qlib(
    folder: Path,
    tables: Mapping[str, pd.DataFrame],
    *,
    calendar: Sequence[pd.Timestamp] = (),
    lists: Mapping[str, Sequence[tuple[str, str, str]]] = {},
) -> Path:
    """Write tables of adjusted prices, ``volume``, ``amount`` and ``factor`` by code, with dates as index."""
    days = pd.DatetimeIndex(calendar or sorted({day for table in tables.values() for day in table.index}))
    for part in ("calendars", "instruments", "features"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "calendars" / "day.txt").write_text("".join(f"{day:%Y-%m-%d}\n" for day in days))
    everything = []
    for code, table in tables.items():
        rows = table.reindex(days[(days >= table.index[0]) & (days <= table.index[-1])])
        place = folder / "features" / qlib_code(code).lower()
        place.mkdir(exist_ok=True)
        start = int(days.get_indexer(rows.index[:1])[0])
        for field, values in rows.items():
            cells = np.concatenate([[start], values.to_numpy()]).astype("<f4")
            cells.tofile(place / f"{field}.day.bin")
        everything.append((qlib_code(code), f"{rows.index[0]:%Y-%m-%d}", f"{rows.index[-1]:%Y-%m-%d}"))
    for name, listed in {"all": everything, **lists}.items():
        text = "".join("\t".join(row) + "\n" for row in listed)
        (folder / "instruments" / f"{name}.txt").write_text(text)
    return folder


def adjusted(bars: pd.DataFrame, factor: pd.Series) -> pd.DataFrame:
    """One stock's raw bars as qlib keeps them."""
    prices = {field: bars[field] * factor for field in ("open", "high", "low", "close")}
    return pd.DataFrame(
        {**prices, "volume": bars["vol"] / factor, "amount": bars["amount"], "factor": factor}
    )


def as_float32(values: pd.Series) -> pd.Series:
    """What float32 leaves of numbers."""
    return values.astype("float32").astype("float64")
