"""Instants in the local time of the exchange on which a symbol is traded."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from quantgraph.errors import BadOption
from quantgraph.market.boards import board_of

_MAINLAND = (".SH", ".SZ", ".BJ")


def exchange_zone(symbol: str) -> ZoneInfo:
    """Time zone of a symbol's exchange: mainland stocks and indices, or US symbols.

    Raises
    ------
    UnknownSymbol
        If the code belongs to none of these exchanges.

    Examples
    --------
    >>> exchange_zone("600519.SH").key, exchange_zone("000300.SH").key, exchange_zone("AAPL").key
    ('Asia/Shanghai', 'Asia/Shanghai', 'America/New_York')
    """
    if not symbol.endswith(_MAINLAND):
        board_of(symbol)  # of what has no mainland exchange, it knows the US alone
    return ZoneInfo("Asia/Shanghai" if symbol.endswith(_MAINLAND) else "America/New_York")


def exchange_time(instant: datetime, zone: ZoneInfo) -> datetime:
    """An instant with a zone as naive local time of an exchange.

    >>> exchange_time(datetime(2025, 3, 10, 13, 0, tzinfo=UTC), exchange_zone("AAPL"))
    datetime.datetime(2025, 3, 10, 9, 0)
    """
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def in_zone(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a naive local time; where the clock is set back or forth, the later one of two.

    >>> in_zone(datetime(2025, 11, 2, 1, 30), exchange_zone("AAPL"))
    datetime.datetime(2025, 11, 2, 6, 30, tzinfo=datetime.timezone.utc)
    """
    return max(local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))


def time_zone(name: str, parameter: str) -> ZoneInfo:
    """The time zone of a name.

    Raises
    ------
    BadOption
        If there is none.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadOption(
            f"{parameter}={name!r:.60} is not a time zone; valid is a name such as Asia/Shanghai or UTC",
            parameter=parameter,
        ) from error
