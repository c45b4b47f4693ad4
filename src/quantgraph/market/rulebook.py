"""Rules of the mainland stock market by board and date: price bands, lots and fees.

Every dated number carries its source. Asking for what the tables do not know is an error. Not here
yet, so that the limits of the data (``up_limit``, ``down_limit``) must speak: ST shares, first days
after listing, delisting periods, and the 200-share minimum of the STAR market.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.money import ZERO, exact, money

__all__ = ["Board", "Charges", "Dated", "Fees", "Rulebook", "Side", "board_of"]

Board = Literal["main", "chinext", "star", "bse"]
Side = Literal["buy", "sell"]


@dataclass(frozen=True, kw_only=True)
class Dated:
    """A rate that holds from a day on, until the next one of its table."""

    since: dt.date
    rate: Decimal
    source: str


_CODES: dict[tuple[str, str], Board] = {
    **dict.fromkeys((("SH", prefix) for prefix in ("600", "601", "603", "605")), "main"),
    **dict.fromkeys((("SZ", prefix) for prefix in ("000", "001", "002", "003")), "main"),
    **dict.fromkeys((("SZ", prefix) for prefix in ("300", "301", "302")), "chinext"),
    **dict.fromkeys((("SH", prefix) for prefix in ("688", "689")), "star"),
}

_BANDS: dict[Board, tuple[Dated, ...]] = {
    "main": (
        Dated(since=dt.date(1996, 12, 16), rate=Decimal("0.10"), source="SSE and SZSE: 10 % for all shares"),
    ),
    "chinext": (
        Dated(
            since=dt.date(2009, 10, 30), rate=Decimal("0.10"), source="SZSE trading rules, first ChiNext day"
        ),
        Dated(since=dt.date(2020, 8, 24), rate=Decimal("0.20"), source="SZSE, 2020-08-21, t20200821_580925"),
    ),
    "star": (
        Dated(
            since=dt.date(2019, 7, 22), rate=Decimal("0.20"), source="SSE, 2019-03-01, c_20190301_10785118"
        ),
    ),
    "bse": (Dated(since=dt.date(2021, 11, 15), rate=Decimal("0.30"), source="BSE trading rules, 200025234"),),
}

_STAMP_DUTY: tuple[Dated, ...] = (
    Dated(since=dt.date(2008, 9, 19), rate=Decimal("0.001"), source="Ministry of Finance: seller only"),
    Dated(
        since=dt.date(2023, 8, 28),
        rate=Decimal("0.0005"),
        source="Ministry of Finance and State Taxation Administration, notice 2023 No. 39",
    ),
)

_TRANSFER_FEE: tuple[Dated, ...] = (
    Dated(since=dt.date(2015, 8, 1), rate=Decimal("0.00002"), source="ChinaClear, both sides"),
    Dated(since=dt.date(2022, 4, 29), rate=Decimal("0.00001"), source="ChinaClear, halved"),
)

_NOTHING: tuple[Dated, ...] = (Dated(since=dt.date(1990, 12, 19), rate=Decimal(0), source="for comparisons"),)


def board_of(ts_code: str) -> Board:
    """Board of a mainland share by its code.

    Raises
    ------
    UnknownSymbol
        If the code belongs to none of the boards: funds, bonds and B shares have other rules.

    Examples
    --------
    >>> [board_of(code) for code in ("600519.SH", "301001.SZ", "688981.SH", "920002.BJ")]
    ['main', 'chinext', 'star', 'bse']
    """
    digits, _, exchange = ts_code.partition(".")
    if len(digits) == 6 and digits.isdecimal():
        if exchange == "BJ" and (digits[0] in "48" or digits.startswith("920")):
            return "bse"
        board = _CODES.get((exchange, digits[:3]))
        if board:
            return board
    raise UnknownSymbol(
        f"{ts_code!r} is on no board of the rulebook; shares are written like 600519.SH, 000001.SZ, "
        "300750.SZ, 688981.SH, 920002.BJ",
        symbol=ts_code,
    )


@dataclass(frozen=True, kw_only=True)
class Charges:
    """What one fill costs, each in CNY to the cent."""

    commission: Decimal = ZERO
    stamp_duty: Decimal = ZERO
    transfer_fee: Decimal = ZERO

    @property
    def total(self) -> Decimal:
        """Sum of the three."""
        return self.commission + self.stamp_duty + self.transfer_fee


@dataclass(frozen=True, kw_only=True)
class Fees:
    """Fees of a fill, each rounded half up to the cent.

    ``commission = max(commission_min, notional * commission_rate)`` on both sides (the broker's own,
    by contract; the law caps it at 0.3 %), stamp duty on sells, transfer fee on both sides.
    """

    commission_rate: Decimal = Decimal("0.00025")
    commission_min: Decimal = Decimal("5.00")
    stamp_duty: tuple[Dated, ...] = _STAMP_DUTY
    transfer_fee: tuple[Dated, ...] = _TRANSFER_FEE

    def __post_init__(self) -> None:
        for name in ("commission_rate", "commission_min"):
            if getattr(self, name) < 0:
                raise BadOption(f"{name}={getattr(self, name)}; it must be at least 0", parameter=name)

    def of(self, side: Side, notional: Decimal, day: dt.date) -> Charges:
        """Charges of a fill of ``notional`` CNY on a day.

        Raises
        ------
        BadWindow
            If a table does not reach back to the day.

        Examples
        --------
        >>> Fees().of("sell", Decimal("100000.00"), dt.date(2023, 8, 28))
        Charges(commission=Decimal('25.00'), stamp_duty=Decimal('50.00'), transfer_fee=Decimal('1.00'))
        """
        duty = notional * _rate("stamp duty", self.stamp_duty, day) if side == "sell" else ZERO
        return Charges(
            commission=max(money(self.commission_min), money(notional * self.commission_rate)),
            stamp_duty=money(duty),
            transfer_fee=money(notional * _rate("transfer fee", self.transfer_fee, day)),
        )


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """What an order must satisfy, and what a fill costs.

    Attributes
    ----------
    name
        Shown wherever results are shown.
    fees
        Commission, stamp duty, transfer fee.
    lot
        Buys are multiples of it; a smaller remainder is sold in one piece
        (SSE and SZSE trading rules, 3.3.8).
    """

    name: str = "mainland"
    fees: Fees = field(default_factory=Fees)
    lot: int = 100

    @classmethod
    def mainland(
        cls,
        *,
        commission_rate: Decimal | float | str = "0.00025",
        commission_min: Decimal | float | str = "5.00",
    ) -> Rulebook:
        """Return the mainland's rules with your broker's commission."""
        fees = Fees(
            commission_rate=exact(commission_rate, name="commission_rate"),
            commission_min=exact(commission_min, name="commission_min"),
        )
        return cls(fees=fees)

    @classmethod
    def zero_cost(cls) -> Rulebook:
        """Return the mainland's rules without any fee, for comparisons."""
        free = Fees(commission_rate=ZERO, commission_min=ZERO, stamp_duty=_NOTHING, transfer_fee=_NOTHING)
        return cls(name="zero_cost", fees=free)

    def limits(self, ts_code: str, day: dt.date, pre_close: Decimal) -> tuple[Decimal, Decimal]:
        """Upper and lower limit price: ``pre_close * (1 ± band)``, half up to the cent.

        Raises
        ------
        UnknownSymbol, BadWindow
            If the board is not known, or had no band on that day.

        Examples
        --------
        >>> Rulebook().limits("600000.SH", dt.date(2024, 1, 2), Decimal("1.15"))
        (Decimal('1.27'), Decimal('1.04'))
        """
        board = board_of(ts_code)
        band = _rate(f"price band of the {board} board", _BANDS[board], day)
        return money(pre_close * (1 + band)), money(pre_close * (1 - band))


def _rate(what: str, table: tuple[Dated, ...], day: dt.date) -> Decimal:
    for row in reversed(table):
        if row.since <= day:
            return row.rate
    raise BadWindow(
        f"the rulebook knows no {what} on {day}; its table begins on {table[0].since}", day=str(day)
    )
