"""Charges of a fill: commission, stamp duty, transfer fee, US regulatory fees, each to the cent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal

from quantgraph.errors import BadOption
from quantgraph.market.boards import Board
from quantgraph.market.dated_rules import DatedValues, dated, decimal_value, load_rules
from quantgraph.market.money import CENT, ZERO, money

Side = Literal["buy", "sell"]
_BASIS_POINT = Decimal("0.0001")
_MILLION = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Charges:
    """Charges of one fill, each in the market's currency to the cent.

    Attributes
    ----------
    regulatory
        SEC section 31 fee and FINRA trading activity fee.
    slippage
        How much worse the fill was than the market's price, charged in cash.
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
        _require_non_negative(self, "commission_rate", "commission_min")
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
        duty = ZERO
        if side == "sell":
            duty = money(notional * _rate("stamp_duty", "stamp duty").on(day))
        transfer = _rate("transfer_bse" if board == "bse" else "transfer", "transfer fee").on(day)
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
        _require_non_negative(self, "commission_per_share", "commission_bps", "commission_min")

    def of(self, side: Side, quantity: int | Decimal, notional: Decimal, day: dt.date) -> Charges:
        """Charges of a fill of ``notional`` USD.

        Raises
        ------
        BadWindow
            If it is a sale before the tables begin.
        """
        by_contract = quantity * self.commission_per_share + notional * self.commission_bps * _BASIS_POINT
        commission = money(max(self.commission_min, by_contract))
        if side == "buy":
            return Charges(commission=commission)
        per_share, most = dated("FINRA activity fee", "us", ("fee", "activity"), _with_cap).on(day)
        per_million = dated("SEC section 31 fee", "us", ("fee", "section_31"), decimal_value).on(day)
        section_31, activity = notional * per_million / _MILLION, min(most, quantity * per_share)
        return Charges(commission=commission, regulatory=_round_up(section_31) + _round_up(activity))


def _round_up(fee: Decimal) -> Decimal:
    return fee.quantize(CENT, rounding=ROUND_CEILING)


def _require_non_negative(options: object, *names: str) -> None:
    for name in names:
        if getattr(options, name) < 0:
            raise BadOption(f"{name}={getattr(options, name)} must be >= 0", parameter=name)


def _rate(name: str, what: str) -> DatedValues[Decimal]:
    return dated(what, "cn", ("fee", name), decimal_value)


def _with_cap(row: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    return Decimal(row["value"]), Decimal(row["cap"])
