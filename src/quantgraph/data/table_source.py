"""Market data from pandas frames of the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.data.checked_tables import CheckedTable
from quantgraph.data.frame_source import FrameSource, MarketTables
from quantgraph.data.market_tables import market_tables
from quantgraph.data.table_reader import TableOptions, read_table, symbol_in
from quantgraph.data.table_shapes import long_table
from quantgraph.errors import BadFile, BadOption

__all__ = ["TableSource"]

_VALID = "daily bars have a symbol, a date, open, high, low, close, and vol or volume"


class TableSource(FrameSource):
    """Daily bars from a frame, or from frames by name, recognised as the tables of files are.

    Symbols and dates may be columns, the index, or of two rows of headers one. In a dict, the name of a frame
    without symbols is its symbol. Other frames of the dict may hold what the files of a folder may.

    Parameters
    ----------
    tables
        A frame, or frames by symbol or name. Read on the first request, and not to be changed before.
    table_options
        Units and the order of dates, where the frames do not tell them.

    Raises
    ------
    BadOption
        Here if ``tables`` is not a frame, nor a dict of frames.
    BadFile
        On the first request if the content is not valid.
    """

    def __init__(
        self,
        tables: pd.DataFrame | Mapping[str, pd.DataFrame],
        *,
        table_options: TableOptions | None = None,
    ) -> None:
        super().__init__()
        self._tables = {"DataFrame": tables} if isinstance(tables, pd.DataFrame) else dict(tables)
        self._table_options = table_options or TableOptions()
        for name, table in self._tables.items():
            if not isinstance(name, str) or not isinstance(table, pd.DataFrame):
                raise BadOption(
                    f"source: {name!r:.40} has a {type(table).__name__}; a dict has frames by symbol, such "
                    "as {'AAPL': frame}",
                    parameter="source",
                )

    @property
    def name(self) -> str:
        """``DataFrame``, also of a dict."""
        return "DataFrame"

    @property
    def synthetic(self) -> bool:
        """False: the numbers are the caller's."""
        return False

    @property
    def fingerprint(self) -> Mapping[str, str]:
        """A hash of the bars for each field."""
        return {
            field: content_hash(",".join(frame.columns), str(frame.index[0]), frame.to_numpy().tobytes())
            for field, frame in self.market.bars.items()
        }

    def _load(self) -> MarketTables:
        return market_tables(list(self._checked()), self.name, found=_VALID)

    def _checked(self) -> Iterator[CheckedTable]:
        for name, table in self._tables.items():
            found = read_table(long_table(table, name), name, self._table_options, symbol=symbol_in(name))
            if found.ignored_because:
                raise BadFile(f"{name} cannot be read: {found.ignored_because}", file=name)
            yield from found.tables
