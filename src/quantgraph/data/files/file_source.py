"""Market data from files: tushare's tables as CSV or Parquet, AI-Trader's JSON, or a folder of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from quantgraph.data.files._file_reader import KNOWN_ENDINGS, FileContents, read_file
from quantgraph.data.files._record_files import to_records
from quantgraph.data.files._size_limits import MEGABYTE
from quantgraph.data.frame_source import FrameSource, MarketTables
from quantgraph.data.market_tables import market_tables
from quantgraph.data.table_reader import TableOptions
from quantgraph.errors import BadFile, BadOption
from quantgraph.market.exchange_time import time_zone

__all__ = ["FileSource"]

_VALID = (
    f"a file ends in {', '.join(KNOWN_ENDINGS)} and holds daily bars (ts_code, trade_date, open, high, low, "
    'close, vol) or daily series in JSON ("Meta Data", "Time Series (Daily)")'
)


class FileSource(FrameSource):
    """Daily bars from a file or a folder (without its sub-folders).

    Formats are CSV and Parquet in the columns of tushare, yfinance or akshare, and AI-Trader's
    ``merged.jsonl`` and ``daily_prices_*.json``. A folder may also hold ``daily_basic``,
    ``adj_factor`` and ``stk_limit`` tables, index members (``index_code, con_code, trade_date``), names
    (``ts_code, name``), news (JSON lines) and quarterly filings. Files are recognised by content. Two files
    must agree about a symbol and session; within a relative 1e-4 the first file by name wins.

    ``pre_close`` and ``amount`` are NaN if no file has them: an ex-dividend reference price is not guessed.

    Parameters
    ----------
    path
        File or folder. Read on the first request, not here.
    max_file_mb
        Maximum megabytes of one unpacked file.
    record_zone
        Time zone, such as ``Asia/Shanghai``, of the times of news that have none; None refuses them.
    table_options
        Units and the order of dates, where the tables do not tell them.

    Raises
    ------
    BadFile
        Here if the path does not exist; on the first request if the content is not valid.
    BadOption
        If ``max_file_mb`` is below 1, or ``record_zone`` is not a time zone.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_file_mb: int = 2048,
        record_zone: str | None = None,
        table_options: TableOptions | None = None,
    ) -> None:
        super().__init__()
        if max_file_mb < 1:
            raise BadOption(f"max_file_mb={max_file_mb}; must be >= 1", parameter="max_file_mb")
        self._max_bytes = max_file_mb * MEGABYTE
        self._record_zone = None if record_zone is None else time_zone(record_zone, "record_zone")
        self._table_options = table_options or TableOptions()
        self._name = str(path)
        self._path = Path(path)
        if not self._path.exists():
            raise BadFile(f"{path} does not exist; give a file or a folder of daily bars", file=str(path))

    @property
    def name(self) -> str:
        """The path as given."""
        return self._name

    @property
    def synthetic(self) -> bool:
        """False: the numbers are the files' own."""
        return False

    def _load(self) -> MarketTables:
        try:
            return self._merged(self._read())
        except OSError as error:
            raise BadFile(f"{self._name} cannot be read: {error.strerror}", file=self._name) from error

    def _read(self) -> list[FileContents]:
        if self._path.is_dir():
            found = sorted(self._path.iterdir())
            return [self._read_one(each) for each in found if each.is_file() and each.name[0] != "."]
        contents = self._read_one(self._path)
        if contents.ignored_because:
            raise BadFile(
                f"{self._name} cannot be read: {contents.ignored_because}; {_VALID}", file=self._name
            )
        return [contents]

    def _read_one(self, path: Path) -> FileContents:
        return read_file(path, self._max_bytes, self._record_zone, self._table_options)

    def _merged(self, files: Sequence[FileContents]) -> MarketTables:
        ignored = [(each.file, each.ignored_because) for each in files if each.ignored_because]
        others = "; ".join(f"{file}: {reason}" for file, reason in ignored)
        tables = [table for each in files for table in each.tables]
        market = market_tables(tables, self._name, found=f"{_VALID}. Found {others}" if others else _VALID)
        left_out = (f"{file} was left out: {reason}" for file, reason in ignored)
        return replace(
            market,
            notes=(*left_out, *market.notes, *_never_known_notes(files)),
            records=to_records((record for each in files for record in each.records), market.symbols),
        )


def _never_known_notes(files: Sequence[FileContents]) -> list[str]:
    counts = (
        (each.file, sum(one.known is None for one in each.records), len(each.records)) for each in files
    )
    return [
        f"{file}: {never} of {total} records have no date and are never known"
        for file, never, total in counts
        if never
    ]
