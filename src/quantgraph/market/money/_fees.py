"""Exact money: decimals, rounded half up to the cent; floats are for ratios.

Charges of a fill: commission, stamp duty, transfer fee, US regulatory fees, each to the cent.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Literal

from quantgraph.errors import BadOption
from quantgraph.market.rules._order_rules import board_of, dated, decimal_value, exchange_of, load_rules

CENT = Decimal("0.01")
ZERO = Decimal("0.00")
_DUST = Decimal("1e-8")


def to_decimal(value: Decimal | float | str, *, name: str = "value") -> Decimal:
    """Read a number exactly: a float by its shortest text, not by its binary expansion.

    >>> to_decimal(1.15), to_decimal("0.00025")
    (Decimal('1.15'), Decimal('0.00025'))

    Raises
    ------
    BadOption
        If it is not a finite number.
    """
    try:
        number = value if isinstance(value, Decimal) else Decimal(_text(value))
    except (InvalidOperation, TypeError, ValueError, OverflowError):
        number = Decimal("NaN")
    if not number.is_finite():
        raise BadOption(f"{name}={value!r} is not a finite number", parameter=name)
    return number


def money(amount: Decimal) -> Decimal:
    """Round an amount to the cent, half up.

    >>> money(Decimal("1.005")), money(Decimal("2.004999"))
    (Decimal('1.01'), Decimal('2.00'))
    """
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def notional(price: Decimal, quantity: int | Decimal) -> Decimal:
    """Price of a number of shares: half up to the cent, for fractions of a share to a millionth of a cent.

    Fractions are bought for a round amount of money; rounding to the cent would lose part of it.

    >>> notional(Decimal("0.125"), 1), notional(Decimal("0.125"), Decimal("0.5"))
    (Decimal('0.13'), Decimal('0.06250000'))
    """
    return money(price * quantity) if quantity == int(quantity) else market_value(price, quantity)


def market_value(price: Decimal, quantity: int | Decimal) -> Decimal:
    """Value of shares: exact, for fractions of a share to a millionth of a cent as they are paid."""
    amount = price * quantity
    return amount if quantity == int(quantity) else amount.quantize(_DUST, rounding=ROUND_HALF_UP)


def trim_zeros(amount: Decimal) -> Decimal:
    """Write an exact amount with two decimals, or with as many more as it needs.

    >>> trim_zeros(Decimal("10.5")), trim_zeros(Decimal("10.1230"))
    (Decimal('10.50'), Decimal('10.123'))
    """
    cents = amount.quantize(CENT, rounding=ROUND_HALF_UP)
    return cents if cents == amount else amount.normalize()


def _text(value: float | str) -> str:
    if isinstance(value, (str, int)):
        return str(value)
    number = float(value)
    return repr(int(number)) if math.isfinite(number) and number == int(number) else repr(number)


Side = Literal["buy", "sell"]
_BASIS_POINT = Decimal("0.0001")
_MILLION = 1_000_000
_FACE = Decimal(1)
"""Face value of a share, CNY; a few stocks have another."""


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

    Sellers of shares, and until 2008 buyers, pay stamp duty, both sides of shares a transfer fee, funds
    neither. Each is rounded half up.
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

    def of(self, symbol: str, side: Side, shares: Decimal, notional: Decimal, day: dt.date) -> Charges:
        """Charges of a fill of ``notional`` CNY."""
        commission = money(max(self.commission_min, notional * self.commission_rate))
        if board_of(symbol) == "fund":
            return Charges(commission=commission)
        rate, sides = dated("stamp duty", "cn", ("fee", "stamp_duty"), _duty).on(day)
        name = f"transfer_{exchange_of(symbol)}"
        part, of_face, least = dated("transfer fee", "cn", ("fee", name), _transfer).on(day)
        return Charges(
            commission=commission,
            stamp_duty=money(notional * rate) if side in sides else ZERO,
            transfer_fee=max(least, money((shares * _FACE if of_face else notional) * part)),
        )


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
        """Charges of a fill of ``notional`` USD."""
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


def _duty(row: Mapping[str, Any]) -> tuple[Decimal, frozenset[str]]:
    return Decimal(row["value"]), frozenset(row["sides"])


def _transfer(row: Mapping[str, Any]) -> tuple[Decimal, bool, Decimal]:
    return Decimal(row["value"]), row.get("of") == "face", Decimal(row.get("least", ZERO))


def _with_cap(row: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    return Decimal(row["value"]), Decimal(row["cap"])
