"""Market data: its fields, its panels, and the protocol of a source.

Units are tushare's at this boundary and everywhere inside: prices in CNY per share (unadjusted),
``vol`` in hands of 100 shares, ``amount`` in thousand CNY, ``turnover_rate`` in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Language
from quantgraph.errors import BadWindow
from quantgraph.market import FeedZones, local_zone
from quantgraph.state import Record, RecordKind

Panel = dict[str, pd.DataFrame]
"""Wide frames by field: index = sessions (naive ``datetime64``, named ``trade_date``), columns =
``ts_code``, values float64, NaN where there was no trading."""

EVENT_FIELDS: tuple[str, ...] = (
    "dividend",
    "split",
    "delisting",
    "action_declared",
    "action_record",
    "action_pay",
)
"""Corporate actions, in the row of the session in which they take effect; NaN elsewhere.

``dividend`` is cash per share before tax, ``split`` shares after per share before (1.3 for three bonus shares
for ten), ``delisting`` the cash paid per share in the first session without trading; ``action_*`` are its
dates as numbers ``YYYYMMDD``, NaN where unknown. :mod:`quantgraph.market.actions._actions` reads them.
"""

STATUS_FIELDS: tuple[str, ...] = ("is_st", "listing_day", "delisting_day")
"""``is_st`` is 1.0 or 0.0 in every row; the others count sessions from 1 since the listing or the start of
the delisting period, and are NaN otherwise."""

BAR_FIELDS: tuple[str, ...] = (
    "open",
    "high",
    "low",
    "close",
    "pre_close",
    "vol",
    "amount",
    "up_limit",
    "down_limit",
    "adj_factor",
    *EVENT_FIELDS,
    *STATUS_FIELDS,
)
"""Fields of the ``ohlcv`` panel, in this order. Those after ``amount`` are optional."""

INDICATOR_FIELDS: tuple[str, ...] = (
    "turnover_rate",
    "turnover_rate_f",
    "volume_ratio",
    "pe",
    "pe_ttm",
    "pb",
    "ps",
    "ps_ttm",
    "dv_ratio",
    "dv_ttm",
    "total_share",
    "float_share",
    "free_share",
    "total_mv",
    "circ_mv",
)
"""Numeric fields of tushare's ``daily_basic``."""

LEVEL_FIELDS: tuple[str, ...] = BAR_FIELDS[:4]
"""Columns of an index's daily levels: ``open, high, low, close``."""


@dataclass(frozen=True, kw_only=True)
class Members:
    """Members of an index, and whether the list was known on the requested day.

    ``point_in_time`` is False when every list was published after that day: the universe then carries
    survivorship bias, and reports must say so.
    """

    index_code: str
    symbols: tuple[str, ...]
    listed_on: pd.Timestamp
    point_in_time: bool


@runtime_checkable
class MarketDataSource(Protocol):
    """A source of daily market data. All methods are thread-safe.

    Dates are naive ``pd.Timestamp`` at midnight, both ends inclusive. Errors are
    :class:`~quantgraph.errors.QuantGraphError`: ``UnknownSymbol`` names the unknown codes,
    ``NoData`` means that no row matches the request, ``BadWindow`` that the window is reversed.
    """

    @property
    def name(self) -> str:
        """Short name for display: ``sample``, ``tushare``, or a path."""

    @property
    def synthetic(self) -> bool:
        """True when the data is invented. Shown beside every result."""

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions of the source, ascending, unit ``us``, named ``trade_date``."""

    def symbols(self) -> tuple[str, ...]:
        """All codes of the source, ascending."""

    def names(self) -> Mapping[str, str]:
        """Name by ``ts_code`` (stocks and indices); empty when the source has no names."""

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index on a day.

        The newest list published on or before it, else the earliest later one with
        ``point_in_time=False``. Raises ``UnknownSymbol``.
        """

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars as a panel of :data:`BAR_FIELDS`.

        Index = the market's sessions in the window (a suspended day is a row of NaN), columns =
        ``symbols`` in ascending order.
        """

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Daily indicators as a panel; empty ``fields`` means all that the source has.

        Same index and columns as :meth:`bars` for the same window.
        """

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index: columns ``open, high, low, close`` (index points), index sessions.

        Raises ``UnknownSymbol`` or ``NoData``.
        """


@runtime_checkable
class DatedLists(Protocol):
    """Optional methods of a source: its lists as they were on a day.

    With both methods, :class:`quantgraph.data.AsOfSource` hides later listings, renames and ST marks.
    """

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes listed on or before a day, delisted ones too, ascending."""

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Name by ``ts_code`` on a day, of the codes listed by then."""


@runtime_checkable
class DatedRecords(Protocol):
    """Optional members of a source: dated records, such as news and filings.

    One whose news have instants also has ``feed_zones``, a :class:`.FeedZones`: ``EXCHANGE_TIME`` of it if
    they are in the local time of the symbol's exchange. Without it they are known at the end of their day.
    """

    @property
    def record_kinds(self) -> tuple[RecordKind, ...]:
        """Kinds of records that the source has, in the order of :data:`.RECORD_KINDS`."""

    def records(
        self, kinds: Sequence[RecordKind], symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp
    ) -> tuple[Record, ...]:
        """Records of these kinds about these symbols or about none, in any order.

        Those that became known from ``start`` to ``end``, days at the exchange, both inclusive. Records that
        never become known may be among them: no view shows them. None is not an error.
        """


@runtime_checkable
class DescribedSource(Protocol):
    """Optional members of a source: what its numbers are, and how a run finds the same ones again."""

    def provenance(self, language: Language) -> tuple[str, ...]:
        """What the numbers are, one line each: columns, units, adjustment, what was left out."""

    @property
    def local(self) -> bool:
        """Whether its codes are known without asking a vendor."""

    def opens(self) -> str | None:
        """Argument of ``open_source`` that opens the source from any folder; None if there is none."""

    def fingerprint(self) -> Mapping[str, str]:
        """Hashes of the content by name; a run is resumed only while they are the same."""


SourceLike = str | Path | MarketDataSource | pd.DataFrame | pd.Series | Mapping[str, pd.DataFrame | pd.Series]
"""What :func:`~quantgraph.data.open_source` opens."""


def record_kinds_of(source: MarketDataSource) -> tuple[RecordKind, ...]:
    """Kinds of records that a source has; none if it is not a :class:`DatedRecords`."""
    return source.record_kinds if isinstance(source, DatedRecords) else ()


def records_of(
    source: MarketDataSource,
    kinds: Sequence[RecordKind],
    symbols: Sequence[str],
    start: pd.Timestamp,
    end: pd.Timestamp,
) -> tuple[Record, ...]:
    """Records of a source, dated by what it declares of their stamps; none if it has none."""
    found = source.records(kinds, symbols, start, end) if isinstance(source, DatedRecords) else ()
    zones: FeedZones = getattr(source, "feed_zones", FeedZones())
    return found if zones == FeedZones.EXCHANGE_TIME else tuple(_dated(record, zones) for record in found)


def _dated(record: Record, zones: FeedZones) -> Record:
    if record.kind != "news" or not isinstance(record.known, datetime):
        return record
    body = record.body
    feed = body.get("publisher") if isinstance(body, dict) else None
    known = zones.known(f"{feed or ''}", record.known, local_zone(record.symbol))
    return Record(record.kind, known, record.symbol, body)


def session_index(values: Iterable[Any]) -> pd.DatetimeIndex:
    """Index of a panel: ascending, unique, naive sessions, unit ``us``, named ``trade_date``.

    >>> session_index(["2024-01-03", "2024-01-02", "2024-01-03"]).strftime("%m-%d").tolist()
    ['01-02', '01-03']
    """
    index = pd.DatetimeIndex(pd.Index(values).unique()).as_unit("us")
    return pd.DatetimeIndex(index.sort_values(), name="trade_date")


def long_to_panel(
    table: pd.DataFrame, fields: Sequence[str], sessions: pd.DatetimeIndex, symbols: Sequence[str]
) -> Panel:
    """Pivot a long table into one wide float64 frame per field.

    Parameters
    ----------
    table
        Columns ``ts_code``, ``trade_date`` (naive ``datetime64``) and ``fields``; each
        (symbol, session) at most once. Rows of other sessions or symbols are ignored.
    sessions
        Index of every frame, ascending and unique.

    Returns
    -------
    Panel
        Frames of shape ``(len(sessions), len(symbols))``; NaN where the table has no row. Each frame
        owns its memory.
    """
    columns = {field: table[field].to_numpy("float64", na_value=np.nan) for field in fields if field in table}
    return columns_to_panel(table["ts_code"], table["trade_date"], columns, sessions, symbols)


def columns_to_panel(
    codes: Iterable[str],
    dates: Iterable[Any],
    columns: Mapping[str, npt.NDArray[Any]],
    sessions: pd.DatetimeIndex,
    symbols: Sequence[str],
) -> Panel:
    """Pivot loose columns of equal length: :func:`long_to_panel` without a table."""
    index, header = session_index(sessions), pd.Index(list(symbols), name="ts_code", dtype="str")
    rows = index.get_indexer(pd.DatetimeIndex(pd.Index(dates)).as_unit("us"))
    cols = header.get_indexer(pd.Index(codes))
    inside = (rows >= 0) & (cols >= 0)
    cells = rows[inside] * len(header) + cols[inside]
    taken = np.zeros(len(index) * len(header), dtype=bool)
    taken[cells] = True
    if taken.sum() != len(cells):
        raise ValueError("a (ts_code, trade_date) occurs more than once in the table")
    panel: Panel = {}
    for field, values in columns.items():
        flat = np.full(len(taken), np.nan)
        flat[cells] = values[inside]
        panel[field] = pd.DataFrame(flat.reshape(len(index), len(header)), index=index, columns=header)
    return panel


def check_window(start: pd.Timestamp, end: pd.Timestamp) -> None:
    """Raise ``BadWindow`` if the window is reversed."""
    if end < start:
        raise BadWindow(
            f"start={start:%Y-%m-%d} is after end={end:%Y-%m-%d}; give the earlier date first",
            start=start,
            end=end,
        )
