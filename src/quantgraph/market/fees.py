"""What a fill costs: commission, stamp duty, transfer fee, US regulatory fees, each to the cent."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import cache
from typing import Literal

from quantgraph.errors import BadOption
from quantgraph.market.boards import Board
from quantgraph.market.dated_rules import DatedValues, load_rules
from quantgraph.market.money import CENT, ZERO, money

__all__ = ["Charges", "MainlandFees", "Side", "UsFees"]

Side = Literal["buy", "sell"]
_BASIS_POINT = Decimal("0.0001")
_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Charges:
    """What one fill costs, each in the market's currency to the cent.

    Attributes
    ----------
    regulatory
        SEC section 31 fee and FINRA trading activity fee.
    slippage
        What the fill was worse than the market's price, charged in cash.
    """

    commission: Decimal = ZERO
    stamp_duty: Decimal = ZERO
    transfer_fee: Decimal = ZERO
    regulatory: Decimal = ZERO
    slippage: Decimal = ZERO

    @property
    def total(self) -> Decimal:
        """Sum of the five."""
        return self.commission + self.stamp_duty + self.transfer_fee + self.regulatory + self.slippage


@dataclass(frozen=True, kw_only=True)
class MainlandFees:
    """``commission = max(commission_min, notional * commission_rate)`` on both sides, by contract.

    Sellers of shares pay stamp duty, both sides of shares a transfer fee, funds neither. Each is rounded
    half up.
    """

    commission_rate: Decimal
    commission_min: Decimal

    def __post_init__(self) -> None:
        _at_least_zero(self, "commission_rate", "commission_min")
        cap = Decimal(load_rules("cn")["fee"]["commission_cap"][-1]["value"])
        if self.commission_rate > cap:
            raise BadOption(
                f"commission_rate={self.commission_rate:f}; the law allows at most {cap} of the notional",
                parameter="commission_rate",
            )

    def of(self, board: Board, side: Side, notional: Decimal, day: dt.date) -> Charges:
        """Charges of a fill of ``notional`` CNY.

        Raises
        ------
        BadWindow
            If a table does not reach back to the day.
        """
        commission = money(max(self.commission_min, notional * self.commission_rate))
        if board == "fund":
            return Charges(commission=commission)
        duty = money(notional * _rate("stamp_duty").on(day)) if side == "sell" else ZERO
        transfer = _rate("transfer_bse" if board == "bse" else "transfer").on(day)
        return Charges(commission=commission, stamp_duty=duty, transfer_fee=money(notional * transfer))


@dataclass(frozen=True, kw_only=True)
class UsFees:
    """``commission = max(commission_min, per share + basis points)`` half up, by contract.

    Sellers pay the SEC section 31 fee and the FINRA trading activity fee, each rounded up to the cent as
    brokers bill them.
    """

    commission_per_share: Decimal
    commission_bps: Decimal
    commission_min: Decimal

    def __post_init__(self) -> None:
        _at_least_zero(self, "commission_per_share", "commission_bps", "commission_min")

    def of(self, side: Side, quantity: int | Decimal, notional: Decimal, day: dt.date) -> Charges:
        """Charges of a fill of ``notional`` USD.

        Raises
        ------
        BadWindow
            If it is a sale before the tables begin.
        """
        wanted = quantity * self.commission_per_share + notional * self.commission_bps * _BASIS_POINT
        commission = money(max(self.commission_min, wanted))
        if side == "buy":
            return Charges(commission=commission)
        per_share, most = _activity().on(day)
        section_31 = _up(notional * _section_31().on(day) / _MILLION)
        return Charges(commission=commission, regulatory=section_31 + _up(min(most, quantity * per_share)))


def _up(fee: Decimal) -> Decimal:
    return fee.quantize(CENT, rounding=ROUND_CEILING)


def _at_least_zero(options: object, *names: str) -> None:
    """Refuse a negative option.

    Raises
    ------
    BadOption
        Naming the first one.
    """
    for name in names:
        if getattr(options, name) < 0:
            raise BadOption(f"{name}={getattr(options, name)}; it must be at least 0", parameter=name)


@cache
def _rate(name: str) -> DatedValues[Decimal]:
    what = "stamp duty" if name == "stamp_duty" else "transfer fee"
    return DatedValues(what, load_rules("cn")["fee"][name], lambda row: Decimal(row["value"]))


@cache
def _section_31() -> DatedValues[Decimal]:
    return DatedValues(
        "SEC section 31 fee", load_rules("us")["fee"]["section_31"], lambda row: Decimal(row["value"])
    )


@cache
def _activity() -> DatedValues[tuple[Decimal, Decimal]]:
    rows = load_rules("us")["fee"]["activity"]
    return DatedValues("FINRA activity fee", rows, lambda row: (Decimal(row["value"]), Decimal(row["cap"])))
