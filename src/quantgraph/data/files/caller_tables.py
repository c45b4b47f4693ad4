"""Market data from tables of the caller's: a frame, or one for each symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.data.files._file_reader import FileContents
from quantgraph.data.files.file_source import market_tables
from quantgraph.data.frame_source import FrameSource, MarketTables
from quantgraph.data.table_reader import TableOptions, read_table, symbol_in
from quantgraph.data.table_shapes import long_table
from quantgraph.errors import BadFile, BadOption

_NAME = "DataFrame"


class CallerTables(FrameSource):
    """Daily bars, and what else a folder of files may hold, from frames in memory.

    Columns are recognised as those of files are. Dates may be the index, with symbols or alone, and tickers a
    level of the header, as yfinance gives them. Later changes of the frames are not seen.

    Parameters
    ----------
    tables
        A frame, or frames by name. A name that is a symbol is that of the rows of a frame without a column of
        symbols.
    options
        Units of volumes and amounts and the order of dates, where the tables do not tell.

    Raises
    ------
    BadOption
        If something is no frame, or a name is no text.
    BadFile
        If a table is not valid; it is named as in ``tables``, and rows are counted from 1.
    """

    def __init__(
        self, tables: pd.DataFrame | Mapping[str, pd.DataFrame], *, options: TableOptions | None = None
    ) -> None:
        super().__init__()
        named = {_NAME: tables} if isinstance(tables, pd.DataFrame) else _named(tables)
        if not named:
            raise BadOption("source is empty; give a frame, or frames by symbol", parameter="source")
        self._contents: list[FileContents] | None = [
            _contents(name, table, options) for name, table in named.items()
        ]
        self._name = ", ".join(named) if len(named) <= 3 else f"{len(named)} frames"
        self.fingerprint = {name: _hash(table) for name, table in named.items()}

    @property
    def name(self) -> str:
        """``DataFrame``, or the names of the frames."""
        return self._name

    @property
    def synthetic(self) -> bool:
        """False: the numbers are the caller's own."""
        return False

    def _load(self) -> MarketTables:
        market = market_tables(self._contents or [], self._name)
        self._contents = None  # the market holds what they held
        return market


def _named(tables: Mapping[Any, Any]) -> dict[str, pd.DataFrame]:
    for name, table in tables.items():
        if not isinstance(name, str) or not isinstance(table, pd.DataFrame):
            raise BadOption(
                f"source: {name!r:.40} is a {type(table).__name__}; give frames by symbol, like "
                "{'600519.SH': frame}",
                parameter="source",
            )
    return dict(tables)


def _contents(name: str, table: pd.DataFrame, options: TableOptions | None) -> FileContents:
    found = read_table(long_table(table, name), name, options, symbol=symbol_in(name))
    if found.ignored_because:
        raise BadFile(f"{name}: its {found.ignored_because}", file=name)
    return FileContents(file=name, tables=found.tables)


def _hash(table: pd.DataFrame) -> str:
    """Hash of a frame's cells, index and columns."""
    rows = pd.util.hash_pandas_object(table).to_numpy()
    return content_hash(repr(list(table.columns)).encode() + rows.tobytes())
