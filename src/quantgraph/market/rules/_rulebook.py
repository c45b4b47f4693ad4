"""The dated rulebook: what an order must satisfy on a day, and what a fill costs.

The numbers are in ``_rules/*.toml``, each with the day since which it holds and its source. Before the first
such day a rule is taken as it was then, which :meth:`Rulebook.assumed` tells.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, cast, get_args

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market._moment import session_of
from quantgraph.market.money._fees import ZERO, Charges, MainlandFees, Side, UsFees, money, to_decimal
from quantgraph.market.rules import _order_rules as order_rules
from quantgraph.market.rules._order_rules import (
    Board,
    FundKind,
    ListingStatus,
    Lots,
    MarketCode,
    OrderType,
    assumptions,
    board_of,
    exchange_of,
    fund_kind,
    market_elsewhere,
    rules_digest,
)

_Number = Decimal | float | str
_Day = dt.date | str
_SIDES = get_args(Side)
_CURRENCY: dict[MarketCode, str] = {"cn": "CNY", "us": "USD"}
_ANY_DAY = ListingStatus()
_PLAIN = "plain "
"""Before the currency in the name of plain rules."""
_FRACTION = Decimal("1e-9")


@dataclass(frozen=True, kw_only=True)
class Rulebook:
    """A market's rules with a broker's fees; made by :meth:`mainland`, :meth:`us` or :meth:`zero_cost`.

    Its ``repr`` holds every option and a digest of the tables, so equal texts are equal rules.

    Its methods take a ``day`` as a date, a timestamp or text, and prices and amounts as decimals, floats or
    text. What cannot be read is a ``BadOption``.

    Attributes
    ----------
    name
        Shown wherever results are shown.
    market, currency
        ``cn`` in CNY or ``us`` in USD.
    tables
        Digest of the market's rule file.
    fees
        The broker's commission and what the state and the exchanges take; None takes nothing.
    slippage_bps
        Basis points of the notional that a fill is worse than the market's price, on both sides.
    volume_share
        Most of a session's volume that one order may be, between 0 and 1; None for no cap.
    fraction_step
        Smallest part of a share: 1, or a billionth where shares may be broken.
    funds
        Kinds of mainland funds whose code does not tell, in ascending order of symbol.
    """

    name: str
    market: MarketCode
    tables: str
    fees: MainlandFees | UsFees | None = None
    slippage_bps: Decimal = Decimal(0)
    volume_share: Decimal | None = None
    fraction_step: int | Decimal = 1
    funds: tuple[tuple[str, FundKind], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.slippage_bps < 10_000:
            raise BadOption(
                f"slippage_bps={self.slippage_bps:f} must be >= 0 and < 10000", parameter="slippage_bps"
            )
        if self.volume_share is not None and not 0 < self.volume_share <= 1:
            raise BadOption(
                f"volume_share={self.volume_share:f} must be > 0 and <= 1, or None for no cap",
                parameter="volume_share",
            )
        for symbol, kind in self.funds:
            if board_of(symbol) != "fund" or kind not in get_args(FundKind):
                kinds = ", ".join(get_args(FundKind))
                raise BadOption(
                    f"funds={{{symbol!r}: {kind!r}}} must be a fund's code and one of {kinds}",
                    parameter="funds",
                )

    @classmethod
    def mainland(
        cls,
        *,
        commission_rate: _Number = "0.00025",
        commission_min: _Number = "5.00",
        slippage_bps: _Number = 0,
        volume_share: _Number | None = None,
        funds: Mapping[str, FundKind] | None = None,
    ) -> Rulebook:
        """Rules of Shanghai, Shenzhen and Beijing with your broker's commission.

        Parameters
        ----------
        commission_rate
            Share of the notional, at most 0.3 %.
        commission_min
            At least so much for an order, in CNY.
        slippage_bps, volume_share
            See the class.
        funds
            Kinds of funds whose code does not tell: ``{"159915.SZ": "stock_20"}``.

        Raises
        ------
        BadOption
            If a number is outside of its range.

        Examples
        --------
        >>> day = dt.date(2024, 1, 2)
        >>> Rulebook.mainland().limits("600000.SH", day, Decimal("1.15"))
        (Decimal('1.27'), Decimal('1.04'))
        >>> Rulebook.mainland().charges("600000.SH", "sell", 10_000, Decimal("100000.00"), day).total
        Decimal('76.00')
        """
        fees = MainlandFees(
            commission_rate=_option("commission_rate", commission_rate),
            commission_min=_option("commission_min", commission_min),
        )
        return cls(
            name="mainland",
            market="cn",
            tables=rules_digest("cn"),
            fees=fees,
            slippage_bps=_option("slippage_bps", slippage_bps),
            volume_share=None if volume_share is None else _option("volume_share", volume_share),
            funds=tuple(sorted((funds or {}).items())),
        )

    @classmethod
    def us(
        cls,
        *,
        commission_per_share: _Number = 0,
        commission_bps: _Number = 0,
        commission_min: _Number = 0,
        fractional: bool = False,
        slippage_bps: _Number = 0,
        volume_share: _Number | None = None,
    ) -> Rulebook:
        """Rules of US shares with your broker's commission; ``fractional`` allows parts of a share.

        Raises
        ------
        BadOption
            If a number is outside of its range.

        Examples
        --------
        >>> book, day = Rulebook.us(commission_per_share="0.005", commission_min=1), dt.date(2024, 6, 3)
        >>> charges = book.charges("AAPL", "sell", 100, Decimal("19000.00"), day)
        >>> charges.commission, charges.regulatory
        (Decimal('1.00'), Decimal('0.55'))
        """
        fees = UsFees(
            commission_per_share=_option("commission_per_share", commission_per_share),
            commission_bps=_option("commission_bps", commission_bps),
            commission_min=_option("commission_min", commission_min),
        )
        return cls(
            name="us",
            market="us",
            tables=rules_digest("us"),
            fees=fees,
            slippage_bps=_option("slippage_bps", slippage_bps),
            volume_share=None if volume_share is None else _option("volume_share", volume_share),
            fraction_step=_FRACTION if fractional else 1,
        )

    @classmethod
    def zero_cost(
        cls,
        market: MarketCode = "cn",
        *,
        fractional: bool = False,
        slippage_bps: _Number = 0,
        volume_share: _Number | None = None,
        funds: Mapping[str, FundKind] | None = None,
    ) -> Rulebook:
        """Return a market's trading rules without any fee, for comparisons.

        Raises
        ------
        BadOption
            If the market is not known, or has no parts of shares.
        """
        if market not in _CURRENCY:
            raise BadOption(f"market={market!r} must be 'cn' or 'us'", parameter="market")
        if market == "us":
            book = cls.us(fractional=fractional, slippage_bps=slippage_bps, volume_share=volume_share)
        elif fractional:
            raise BadOption("fractional=True is valid for 'us' only", parameter="fractional")
        else:
            book = cls.mainland(slippage_bps=slippage_bps, volume_share=volume_share, funds=funds)
        return replace(book, name="zero_cost", fees=None)

    @classmethod
    def plain(cls, currency: str, *, slippage_bps: _Number = 0) -> Rulebook:
        """Rules for markets whose own are not here: no fees, no lots, no limits, sold on the day of the buy.

        Their symbols are those of :func:`~quantgraph.market.rules.market_elsewhere` in this currency.

        >>> Rulebook.plain("HKD").board("0700.HK"), Rulebook.plain("HKD").currency
        ('us', 'HKD')
        """
        return replace(cls.us(slippage_bps=slippage_bps), name=f"{_PLAIN}{currency}", fees=None)

    def with_costs(
        self, *, commission: _Number | None = None, slippage_bps: _Number | None = None
    ) -> Rulebook:
        """The rules with another commission, a fraction of the notional, and another slippage.

        The least commission of an order stays, unless there is none at all.

        Raises
        ------
        BadOption
            If a number is outside of its range, or the rules have no costs.

        Examples
        --------
        >>> Rulebook.mainland().with_costs(commission="0.0003").fees
        MainlandFees(commission_rate=Decimal('0.0003'), commission_min=Decimal('5'))
        """
        fees, slippage = self.fees, self.slippage_bps
        if commission is not None:
            rate = _option("commission", commission)
            if isinstance(fees, MainlandFees):
                fees = replace(fees, commission_rate=rate, **({} if rate else {"commission_min": rate}))
            elif isinstance(fees, UsFees):
                fees = UsFees(
                    commission_per_share=ZERO,
                    commission_bps=rate * 10_000,
                    commission_min=fees.commission_min if rate else ZERO,
                )
            else:
                raise BadOption(
                    f"commission={commission}: the rules {self.name} have no costs; leave one of the two out",
                    parameter="commission",
                )
        if slippage_bps is not None:
            slippage = _option("slippage_bps", slippage_bps)
        return replace(self, fees=fees, slippage_bps=slippage)

    @property
    def currency(self) -> str:
        """``CNY`` or ``USD``; of plain rules their own."""
        return self.name.removeprefix(_PLAIN) if self.name.startswith(_PLAIN) else _CURRENCY[self.market]

    def board(self, symbol: str) -> Board:
        """Board of a symbol.

        Raises
        ------
        UnknownSymbol
            If this market has no board for it.
        """
        elsewhere = market_elsewhere(symbol) if self.name.startswith(_PLAIN) else None
        if elsewhere and elsewhere[1] == self.currency:
            return "us"  # shares, without lots and limits
        board = board_of(symbol)
        if (board == "us") != (self.market == "us"):
            raise UnknownSymbol(f"{symbol!r} is on no board of the rulebook {self.name}", symbol=symbol)
        return board

    def kind(self, symbol: str) -> tuple[Board, str, str]:
        """Board, exchange and kind of fund: symbols with the same ones have the same rules.

        Raises
        ------
        UnknownSymbol
            As for :meth:`board`.
        """
        exchange = "" if self.market == "us" else exchange_of(symbol)
        return self.board(symbol), exchange, self._kind(symbol) or ""

    def lots(self, symbol: str, day: _Day) -> Lots:
        """The smallest buy and the step above it."""
        if self.board(symbol) == "us":
            return Lots(first=self.fraction_step, step=self.fraction_step)
        return order_rules.lots(symbol, _date(day))

    def tick(self, symbol: str, day: _Day, price: _Number) -> Decimal:
        """Smallest step of a price near ``price``."""
        if self.board(symbol) == "us":
            return order_rules.us_tick(_date(day), _amount("price", price))
        return order_rules.tick(symbol, _date(day))

    def limits(
        self, symbol: str, day: _Day, pre_close: _Number, status: ListingStatus = _ANY_DAY
    ) -> tuple[Decimal, Decimal] | None:
        """Upper and lower limit price of a session, None when it has no band.

        ``pre_close`` is what the exchange takes for it: on the first session after a listing the issue
        price, on an ex-date the price after the deduction.

        Raises
        ------
        UnknownSymbol
            If it is a fund and neither its code nor ``funds`` says its kind.
        """
        kind = self._kind(symbol)
        if self.market == "us":
            return None
        return order_rules.limits(symbol, _date(day), to_decimal(pre_close, name="pre_close"), status, kind)

    def order_cap(
        self,
        symbol: str,
        day: _Day,
        type: OrderType = "limit",  # noqa: A002, ARG002 - auctions take limit orders alone: one cap for all
    ) -> int | None:
        """Most shares that one order may have, None for no cap."""
        return None if self.board(symbol) == "us" else order_rules.order_cap(symbol, _date(day))

    def t_plus(self, symbol: str, day: _Day) -> Literal[0, 1]:
        """Sessions after which bought shares may be sold: 0 is the same session.

        Raises
        ------
        UnknownSymbol
            If it is a fund and neither its code nor ``funds`` says its kind.
        """
        kind = self._kind(symbol)
        if self.market == "us":
            return 0
        return cast("Literal[0, 1]", order_rules.t_plus(symbol, _date(day), kind))

    def halted(self, day: _Day, type: OrderType) -> bool:  # noqa: A002
        """Whether a halt of the whole market kept such orders from trading on the day."""
        return self.market == "cn" and order_rules.market_halted(_date(day), type)

    def charges(self, symbol: str, side: Side, quantity: _Number, notional: _Number, day: _Day) -> Charges:
        """Charges of a fill; slippage is ``notional * slippage_bps / 10000`` in cash.

        Raises
        ------
        BadOption
            If the side is neither ``buy`` nor ``sell``, or the quantity or the notional is negative.
        """
        self.board(symbol)
        if side not in _SIDES:
            raise BadOption(f"side={side!r} must be 'buy' or 'sell'", parameter="side")
        shares, amount = _amount("quantity", quantity), _amount("notional", notional)
        if isinstance(self.fees, MainlandFees):
            charges = self.fees.of(symbol, side, shares, amount, _date(day))
        elif self.fees:
            charges = self.fees.of(side, shares, amount, _date(day))
        else:
            charges = Charges()
        if not self.slippage_bps:
            return charges
        return replace(charges, slippage=money(amount * self.slippage_bps / 10_000))

    def assumed(self, symbols: Iterable[str], day: _Day) -> dict[str, dt.date]:
        """Rules that are not known so early and are taken as they were first, by the day since which."""
        examples = {self.kind(symbol): symbol for symbol in symbols}
        with assumptions() as found:
            for symbol in examples.values():
                self.lots(symbol, day)
                self.order_cap(symbol, day)
                self.t_plus(symbol, day)
                self.limits(symbol, day, 1)
                self.tick(symbol, day, 1)
                for side in _SIDES:
                    self.charges(symbol, side, 100, 100, day)
        return found

    def _kind(self, symbol: str) -> FundKind | None:
        if self.board(symbol) != "fund":
            return None
        return dict(self.funds).get(symbol) or fund_kind(symbol)


def _date(day: object) -> dt.date:
    if type(day) is dt.date:
        return day
    try:
        return session_of(day, name="day").date()
    except BadWindow as error:
        raise BadOption(error.message, parameter="day") from error


def _amount(name: str, value: _Number) -> Decimal:
    number = Decimal(value) if type(value) is int else to_decimal(value, name=name)
    if number < ZERO:
        raise BadOption(f"{name}={value} must be >= 0", parameter=name)
    return number


def _option(name: str, value: _Number) -> Decimal:
    """Read an option in one way of writing it: equal options have equal texts."""
    number = to_decimal(value, name=name)
    return number.normalize() + 0
