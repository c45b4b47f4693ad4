"""backtrader's side of the comparison: its broker keeps cash and positions and fills; nothing of quantgraph is used.

What backtrader does not have (lots, price limits, sizes by ticket, dividends, splits) its strategies say here, in
whole cents and plain code.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, isnan
from typing import Any, NamedTuple

import backtrader as bt
import pandas as pd

STAMP_CUT = pd.Timestamp("2023-08-28")
"""Sellers pay 0.05 % instead of 0.1 % (Ministry of Finance, notice 2023-39)."""

KINDS = {"open": bt.Order.Market, "limit": bt.Order.Limit, "close": bt.Order.Close}

Panel = dict[str, pd.DataFrame]


class Fill(NamedTuple):
    day: pd.Timestamp
    symbol: str
    side: str
    quantity: int
    price: float
    fee: int  # cents


class Refusal(NamedTuple):
    day: pd.Timestamp
    symbol: str
    why: str


class Story(NamedTuple):
    """What happened in a run; cash and values by session."""

    fills: list[Fill]
    refused: list[Refusal]
    cash: list[float]
    values: list[float]


class Options(NamedTuple):
    """The signal rule's options; shares of the equity are exact."""

    ticket: int | None = None  # cents
    max_positions: int | None = None
    weights: dict[str, Fraction] | None = None
    share: Fraction = Fraction(1)
    reserve: Fraction = Fraction(0)


class Wish(NamedTuple):
    """An order of the evening; a sale is of ``share`` of what is held then, a buy of so many ``shares``."""

    symbol: str
    side: str
    kind: str
    share: Fraction = Fraction(0)
    shares: int = 0
    limit: float | None = None

    def quantity(self, held: int) -> int:
        return self.shares if self.side == "buy" else floor(held * self.share)


class Bars(bt.feed.DataBase):
    """Bars from rows of a number for the day and four prices; backtrader's own reader of frames takes seconds."""

    params = (("rows", ()),)

    def start(self) -> None:
        super().start()
        self.left = iter(self.p.rows)

    def _load(self) -> bool:
        row = next(self.left, None)
        if row is not None:
            lines = self.lines
            lines.datetime[0], lines.open[0], lines.high[0], lines.low[0], lines.close[0] = row
        return row is not None


class Free(bt.CommInfoBase):
    """No fee, single shares."""

    params = (("stocklike", True), ("commtype", bt.CommInfoBase.COMM_PERC))
    day = pd.NaT

    def cents(self, size: float, price: float) -> int:
        return 0

    def _getcommission(self, size: float, price: float, pseudoexec: bool) -> float:
        return self.cents(size, price) / 100

    def lots(self, symbol: str) -> tuple[int, int, int]:
        """Smallest buy, the step above it, and the most of one order."""
        return 1, 1, 10**9


class Mainland(Free):
    """0.025 % and at least 5 CNY, 0.001 % transfer fee, stamp duty of the day; lots by code."""

    def cents(self, size: float, price: float) -> int:
        notional = abs(round(size)) * round(price * 100)
        duty = (10 if self.day < STAMP_CUT else 5) if size < 0 else 0
        commission = max(500, _half_up(notional * 25, 100_000))
        return commission + _half_up(notional * duty, 10_000) + _half_up(notional, 100_000)

    def lots(self, symbol: str) -> tuple[int, int, int]:
        if symbol.startswith(("688", "689")):
            return 200, 1, 100_000
        if symbol.endswith(".BJ"):
            return 100, 1, 1_000_000
        return 100, 100, 300_000 if symbol.startswith("30") else 1_000_000


class Recorder(bt.Strategy):
    """Tells the story. Symbols that are listed late must not hold the others up: before is as after."""

    params = (("panel", None), ("days", ()), ("fees", None))

    def __init__(self) -> None:
        self.t = 0
        self.story = Story([], [], [], [])

    def prenext(self) -> None:
        self.next()

    def prenext_open(self) -> None:
        self.next_open()

    def start(self) -> None:
        self.p.fees.day = self.p.days[0]

    def next(self) -> None:
        self.story.cash.append(self.broker.getcash())
        self.story.values.append(self.broker.getvalue())
        self.evening()
        self.t += 1
        if self.t < len(self.p.days):
            self.p.fees.day = self.p.days[self.t]

    def evening(self) -> None:
        """Order after the close of session ``t``."""

    def notify_order(self, order: Any) -> None:
        day, symbol = self.p.days[self.t], order.data._name
        if order.status == order.Completed:
            done = order.executed
            (part,) = done.exbits  # its price is the bar's; that of the order is an average, with float dust
            assert pd.Timestamp(bt.num2date(part.dt)).normalize() == day
            side, fee = "buy" if order.isbuy() else "sell", round(done.comm * 100)
            self.story.fills.append(Fill(day, symbol, side, abs(part.size), float(part.price), fee))
        elif order.status == order.Margin:
            self.story.refused.append(Refusal(day, symbol, "margin"))


class SignalTrader(Recorder):
    """Trades a signal at the open of the next session, sized there; ``cheat_on_open`` lets it see that open."""

    params = (("signal", None), ("options", Options()))

    def start(self) -> None:
        super().start()
        names = ("up_limit", "down_limit", "dividend", "split")
        rows = {name: self.p.panel[name].to_dict("index") for name in names if name in self.p.panel}
        self.rows: dict[str, dict] = {name: rows.get(name, {}) for name in names}
        self.signals = self.p.signal.to_dict("index")
        self.opinions: dict[str, float] = {}  # of what is held: the last one since its entry

    def next_open(self) -> None:
        self.day = self.p.days[self.t]
        for symbol in sorted(self.opinions):
            self._ex_date(symbol)
        row = self.signals[self.p.days[self.t - 1]] if self.t else {}
        for symbol in self.opinions:
            if abs(row[symbol]) == 1:
                self.opinions[symbol] = row[symbol]
        held = {symbol: self._size(symbol) for symbol in sorted(self.opinions)}
        cash = round(self.broker.getcash() * 100)
        equity = cash + sum(size * self._price(symbol) for symbol, size in held.items())
        after = cash + sum(
            self._exit(symbol, size) for symbol, size in held.items() if self.opinions[symbol] == -1
        )
        entries = [symbol for symbol in sorted(row) if row[symbol] == 1 and symbol not in held]
        self._enter(entries, equity, after)

    def _exit(self, symbol: str, size: int) -> int:
        """Sell all in orders that are not too large; the cents that it brings."""
        brought, cap = 0, self.p.fees.lots(symbol)[2]
        for part in [min(cap, size - start) for start in range(0, size, cap)]:
            if self._sends("sell", symbol, part):
                price = self.getdatabyname(symbol).open[0]
                brought += part * self._price(symbol) - self.p.fees.cents(-part, price)
                self.opinions.pop(symbol, None)
        return brought

    def _enter(self, entries: list[str], equity: int, cash: int) -> None:
        options = self.p.options
        if options.weights is not None:
            entries = [symbol for symbol in entries if symbol in options.weights]
        if options.max_positions is not None:
            entries = entries[: max(0, options.max_positions - len(self.opinions))]
        investable = floor(equity * (1 - options.reserve))
        tickets = {}
        for symbol in entries:
            if options.ticket is not None:
                tickets[symbol] = options.ticket
            else:
                share = options.share if options.weights is None else options.weights[symbol]
                tickets[symbol] = floor(investable * share)
        free, total = max(0, cash - (equity - investable)), sum(tickets.values())
        for symbol, wished in tickets.items():
            ticket = wished if total <= free else wished * free // total
            quantity = self._fitting(symbol, ticket)
            if quantity and self._sends("buy", symbol, quantity):
                self.opinions[symbol] = 0.0

    def _fitting(self, symbol: str, ticket: int) -> int:
        """Most shares that fit the ticket with their fees."""
        if not len(self.getdatabyname(symbol)):
            return 0  # not listed yet
        first, step, cap = self.p.fees.lots(symbol)
        price = self._price(symbol)
        quantity = ticket // (price * step) * step
        while quantity and quantity * price + self.p.fees.cents(quantity, price / 100) > ticket:
            quantity -= step
        return min(quantity, cap) if quantity >= first else 0

    def _sends(self, side: str, symbol: str, quantity: int) -> bool:
        """Order, unless it could not trade: backtrader would fill it all the same, at the bar before."""
        data, why = self.getdatabyname(symbol), ""
        up, down = (self.rows[name].get(self.day, {}).get(symbol) for name in ("up_limit", "down_limit"))
        if not self._has_bar(symbol):
            why = "suspended"
        elif side == "buy" and up is not None and data.open[0] >= up:
            why = "limit_up"
        elif side == "sell" and down is not None and data.open[0] <= down:
            why = "limit_down"
        if why:
            self.story.refused.append(Refusal(self.day, symbol, why))
        else:
            (self.buy if side == "buy" else self.sell)(data=data, size=quantity)
        return not why

    def _ex_date(self, symbol: str) -> None:
        """The dividend is in the cash on the ex-date, for the shares before a split; parts of shares lapse."""
        amount, ratio = (
            self.rows[name].get(self.day, {}).get(symbol, float("nan")) for name in ("dividend", "split")
        )
        data = self.getdatabyname(symbol)
        position = self.broker.getposition(data)
        if not isnan(amount):
            self.broker.add_cash(_half_up(position.size * round(amount * 10_000), 100) / 100)
            self.broker.getvalue([data])  # only a valuation takes it in, and the next one is after the fills
        if not isnan(ratio):
            position.fix(floor(position.size * Fraction(str(ratio))), position.price / ratio)

    def _has_bar(self, symbol: str) -> bool:
        data = self.getdatabyname(symbol)
        return len(data) > 0 and data.datetime.date(0) == self.day.date()

    def _price(self, symbol: str) -> int:
        """The open, or the last close, in cents."""
        data = self.getdatabyname(symbol)
        return round((data.open[0] if self._has_bar(symbol) else data.close[0]) * 100)

    def _size(self, symbol: str) -> int:
        return round(self.broker.getposition(self.getdatabyname(symbol)).size)


class EveningTrader(Recorder):
    """Sends each evening's wishes, and cancels the next evening what is still open: no cheating, no look at a bar."""

    params = (("wishes", None),)

    def evening(self) -> None:
        today = self.p.days[self.t]
        for order in self.broker.get_orders_open():
            self.broker.cancel(order)
            self.story.refused.append(Refusal(today, order.data._name, "open"))
        if self.t + 1 == len(self.p.days):
            return
        for wish in self.p.wishes.get(self.p.days[self.t + 1], ()):
            data = self.getdatabyname(wish.symbol)
            size = wish.quantity(round(self.broker.getposition(data).size))
            if size:
                send = self.buy if wish.side == "buy" else self.sell
                send(data=data, size=size, exectype=KINDS[wish.kind], price=wish.limit)


def run(
    strategy: type[Recorder], panel: Panel, cash: float, *, fees: Free, at_open: bool, **options: Any
) -> Story:
    """Run a strategy over the bars of a panel; a row without an open is a missing bar."""
    cerebro = bt.Cerebro(cheat_on_open=at_open, stdstats=False)
    numbers = [bt.date2num(day.to_pydatetime()) for day in panel["open"].index]
    for symbol in panel["open"].columns:
        prices = [panel[name][symbol].tolist() for name in ("open", "high", "low", "close")]
        rows = [row for row in zip(numbers, *prices, strict=True) if not isnan(row[1])]
        cerebro.adddata(Bars(rows=rows), name=symbol)
    cerebro.broker.setcash(cash)
    cerebro.broker.set_checksubmit(at_open)  # in the evening it would judge tomorrow's cash by today's close
    cerebro.broker.addcommissioninfo(fees)
    cerebro.addstrategy(strategy, panel=panel, days=tuple(panel["open"].index), fees=fees, **options)
    return cerebro.run()[0].story


def _half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)
