"""What a market data source is.

Units are tushare's at this boundary and everywhere inside: prices in CNY per share (unadjusted),
``vol`` in hands of 100 shares, ``amount`` in thousand CNY, ``turnover_rate`` in percent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pandas as pd

__all__ = [
    "BAR_FIELDS",
    "EVENT_FIELDS",
    "INDICATOR_FIELDS",
    "STATUS_FIELDS",
    "DatedLists",
    "MarketDataSource",
    "Members",
    "Panel",
]

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
"""What happens to a holding, in the row of the session in which it takes effect, NaN elsewhere.

``dividend`` is cash per share before tax, ``split`` shares after per share before (1.3 for three bonus
shares for ten), ``delisting`` the cash paid per share in the first session without trading; ``action_*``
are its dates as numbers ``YYYYMMDD``, NaN where unknown. :mod:`quantgraph.market.actions` reads them.
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
"""Fields of the ``ohlcv`` panel, in this order. Those after ``amount`` are there when a source has them."""

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


@dataclass(frozen=True, kw_only=True)
class Members:
    """Members of an index, and whether that list was known at the time it is used for.

    ``point_in_time`` is False when the only list there is was published after the day asked for:
    then the universe carries survivorship bias, and whoever shows a result has to say so.
    """

    index_code: str
    symbols: tuple[str, ...]
    listed_on: pd.Timestamp
    point_in_time: bool


@runtime_checkable
class MarketDataSource(Protocol):
    """A source of daily market data. All methods may be called from several threads.

    Dates are naive ``pd.Timestamp`` at midnight, both ends inclusive. Errors are
    :class:`~quantgraph.errors.QuantGraphError`: ``UnknownSymbol`` names the codes it does not know,
    ``NoData`` means there is no row for the request, ``BadWindow`` a reversed window.
    """

    @property
    def name(self) -> str:
        """Short name shown to people: ``sample``, ``tushare``, or a path."""

    @property
    def synthetic(self) -> bool:
        """True when the numbers are made up. Shown wherever results are shown."""

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions the source has, ascending, unit ``us``, named ``trade_date``."""

    def symbols(self) -> tuple[str, ...]:
        """All codes the source has, ascending."""

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
        self,
        symbols: Sequence[str],
        start: pd.Timestamp,
        end: pd.Timestamp,
        fields: Sequence[str] = (),
    ) -> Panel:
        """Daily indicators as a panel; ``fields`` empty means all the source has.

        Same index and columns as :meth:`bars` for the same window.
        """

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index: columns ``open, high, low, close`` (index points), index sessions.

        Raises ``UnknownSymbol`` or ``NoData``.
        """


@runtime_checkable
class DatedLists(Protocol):
    """What a source may offer beside: its lists as they were on a day.

    A source that has both methods keeps later listings, renames and ST marks from runs that may not know
    them yet; see :class:`quantgraph.data.as_of.AsOfSource`.
    """

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Codes listed on or before a day, delisted ones too, ascending."""

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """Name by ``ts_code`` as on a day, of what was there."""
