"""An account that carries out a trade plan in plain loops and whole cents: the documents, written a second time.

Nothing of quantgraph is used. A panel is a dict of days to dicts of symbols to a Fraction; what is missing is
absent. ``mainland`` has lots, fees, limits and T+1 of 2025; without it there are none, and shares are whole.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from math import ceil, floor

INTERVALS = {
    "week_start": lambda day: day.isocalendar()[:2],
    "month_start": lambda day: (day.year, day.month),
}
INTERVALS["quarter_start"] = lambda day: (day.year, (day.month - 1) // 3)
AGAIN = "again"


def half_up(value):
    return floor(value + Fraction(1, 2))


@dataclass
class Held:
    """A position: shares, those bought today, place of the entry, and what a plan follows."""

    shares: int
    today: int
    entry: int
    basis: Fraction
    peak: Fraction
    last: Fraction
    purchases: int = 1
    waiting: bool = False


@dataclass
class PlanAccount:
    """:meth:`run` trades all days; ``fills`` and ``values`` tell what happened."""

    bars: dict
    signal: list
    plan: dict
    cash: int
    mainland: bool
    days: list = field(init=False)
    held: dict = field(default_factory=dict)
    exited: dict = field(default_factory=dict)
    sold: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)
    fills: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def __post_init__(self):
        self.days = sorted(self.bars["open"])
        self.symbols = sorted(self.signal[0])
        self.ranges = {}

    # The market

    def lots(self, symbol):
        if not self.mainland:
            return 1, 1
        return (200, 1) if symbol.startswith("688") else (100, 100)

    def fees(self, side, cents):
        if not self.mainland:
            return 0
        duty = half_up(Fraction(cents * 5, 10_000)) if side == "sell" else 0
        return max(500, half_up(Fraction(cents * 25, 100_000))) + duty + half_up(Fraction(cents, 100_000))

    def is_blocked(self, day, symbol, side, price):
        """Whether a price is at the limit of its side."""
        before = self.bars.get("pre_close", {}).get(day, {}).get(symbol)
        if not self.mainland or before is None:
            return False
        band = 20 if symbol.startswith("688") else 10
        upper, lower = (Fraction(half_up(before * (100 + sign * band)), 100) for sign in (1, -1))
        return price >= upper if side == "buy" else price <= lower

    def fitting(self, symbol, price, cents):
        """The most shares that the cents pay for with fees."""
        first, step = self.lots(symbol)
        shares = floor(Fraction(cents, 100) / (price * step)) * step if cents > 0 else 0
        while shares and self.cost(price, shares) > cents:
            shares -= step
        return shares if shares >= first else 0

    def cost(self, price, shares):
        notional = half_up(price * shares * 100)
        return notional + self.fees("buy", notional)

    # Orders

    def sell(self, at, symbol, shares, price, by_plan):
        held, day = self.held[symbol], self.days[at]
        if price is None or self.is_blocked(day, symbol, "sell", price):
            return
        notional = half_up(price * shares * 100)
        self.cash += notional - self.fees("sell", notional)
        self.fills.append((day, symbol, "sell", shares, price))
        held.shares -= shares
        if not held.shares:
            del self.held[symbol]
            self.sold[symbol] = at
            if by_plan:
                self.exited[symbol] = at

    def buy(self, at, symbol, shares):
        day, price = self.days[at], self.opens.get(symbol)
        if price is None or self.is_blocked(day, symbol, "buy", price):
            return
        self.cash -= self.cost(price, shares)
        self.fills.append((day, symbol, "buy", shares, price))
        self.exited.pop(symbol, None)
        held = self.held.get(symbol)
        if held is None:
            self.held[symbol] = Held(shares, shares, at, price, price, price)
            return
        held.basis = (held.basis * held.shares + price * shares) / (held.shares + shares)
        held.shares, held.today, held.last = held.shares + shares, held.today + shares, price
        held.purchases, held.peak = held.purchases + 1, max(held.peak, held.basis)

    # The plan

    def trades_on(self, at, when):
        """Whether a session is one of a schedule."""
        if when == "every":
            return True
        if isinstance(when, int):
            return at >= 1 and (at - 1) % when == 0
        key = INTERVALS[when]
        first = at > 0 and key(self.days[at]) != key(self.days[at - 1])
        return first or (at == 1 and self.plan.get("begins", False))

    def last_day(self, at, when):
        """The last session of a schedule up to one; None before the first."""
        return next((each for each in range(at, -1, -1) if self.trades_on(each, when)), None)

    def is_closed(self, day):
        """Whether nothing is bought on a day; the data may lack sessions of its month before and after them."""
        when, first = self.plan.get("no_entry_on", {}), day.replace(day=1)
        month = [first + timedelta(days=each) for each in range(31)]
        month = [each for each in month if each.month == day.month and each.isoweekday() < 6]
        known = [each for each in month if self.days[0] <= each <= self.days[-1] and each not in self.days]
        month = [each for each in month if each not in known and (each.month, each.day) != (1, 1)]
        numbers = {month.index(day) + 1, month.index(day) - len(month)} & {*when.get("sessions", ())}
        return bool(
            numbers or day.isoweekday() in when.get("weekdays", ()) or day.month in when.get("months", ())
        )

    def levels(self, symbol, at):
        """Stop, target: prices or None."""
        held = self.held[symbol]
        loss, trail, gain = (self.plan.get(name) for name in ("stop_loss", "trailing_stop", "take_profit"))
        far = [self.far(symbol, loss, held.basis, held.entry, at)] if loss else []
        stops = [floor((held.basis - each) * 100) for each in far if each is not None]
        if trail and held.entry < at:
            far = self.far(symbol, trail, held.peak, at, at)
            stops += [] if far is None else [floor((held.peak - far) * 100)]
        far = self.far(symbol, gain, held.basis, held.entry, at) if gain else None
        target = None if far is None else Fraction(ceil((held.basis + far) * 100), 100)
        return (Fraction(max(stops), 100) if stops else None), target

    def far(self, symbol, said, price, first, at):
        """How far a level is from a price: a part of it, or average true ranges of before a session."""
        if not isinstance(said, dict):
            return said * price
        known = self.average_ranges(symbol, int(said.get("window", 14)))
        # A position has no level until the average is known.
        found = next((each for each in known[first : max(first, at) + 1] if each is not None), None)
        return None if found is None else said["atr"] * found

    def average_ranges(self, symbol, window):
        """Wilder's average true range before each session, to four decimals; None before there are enough."""
        if (symbol, window) in self.ranges:
            return self.ranges[symbol, window]
        before, ranges, average, found = None, 0, Fraction(0), [None]
        for day in self.days:
            high, low, close = (self.bars[name][day].get(symbol) for name in ("high", "low", "close"))
            if None not in (high, low, close):
                if before is not None:
                    ranges += 1
                    true = max(high, before) - min(low, before)
                    average = average + (true - average) / min(ranges, window)
                before = close
            found.append(Fraction(round(average * 10_000), 10_000) if ranges >= window else None)
        return self.ranges.setdefault((symbol, window), found)

    def is_due(self, symbol, at):
        held, opened = self.held[symbol], self.opens.get(symbol)
        if held.waiting:
            return True
        stop, target = self.levels(symbol, at)
        if opened is not None and ((stop and opened <= stop) or (target and opened >= target)):
            return True
        longest = self.plan.get("max_holding")
        return bool(longest) and at - held.entry >= longest

    def wants_out(self, symbol, at):
        always = self.plan.get("exit_on") == "every"
        last = at if always else self.last_day(at, self.plan.get("trade_on", "every"))
        if last is None or last - self.held[symbol].entry < self.plan.get("min_holding", 0):
            return False
        said = [self.signal[row].get(symbol) for row in range(self.held[symbol].entry, last)]
        said = [value for value in said if value in (1, -1)]
        return bool(said) and said[-1] == -1

    def entries(self, at):
        when = self.plan.get("trade_on", "every")
        if not self.trades_on(at, when) or self.is_closed(self.days[at]):
            return []
        before = self.last_day(at - 1, when)
        rows = range(0 if before is None else before, at)
        found = []
        for symbol in self.symbols:
            seen = rows[-1:] if self.plan.get("entry_row") == "last" else rows
            said = [self.signal[row][symbol] for row in seen if self.signal[row].get(symbol) in (1, -1)]
            if not said or said[-1] != 1 or symbol in self.morning:
                continue
            if at - self.sold.get(symbol, -1_000) <= self.plan.get("cooldown", 0):
                continue
            since = self.exited.get(symbol)
            ever = since is not None and all(
                self.signal[row].get(symbol) == 1 for row in range(max(0, since - 1), at)
            )
            if ever and self.plan.get("reentry", "new_signal") == "new_signal":
                continue
            if "weights" in self.size and symbol not in self.size["weights"]:
                continue
            found.append(symbol)
        if rank := self.plan.get("rank"):
            sign, name = (1, rank[1:]) if rank[0] == "-" else (-1, rank)
            known = self.bars[name.removeprefix("ohlcv.")][self.days[at - 1]]
            found.sort(key=lambda each: (each not in known, sign * known.get(each, 0), each))
        return found[: max(0, self.slots - len(self.held))]

    @property
    def size(self):
        said, more = self.plan.get("size"), self.plan.get("accumulate")
        if isinstance(said, dict):
            return said
        if said is None and more and more["on"] == "schedule":
            return {{"amount": "cash"}.get(kind, kind): value for kind, value in more.items() if kind != "on"}
        return {"equal": said == "equal_weight"}

    @property
    def slots(self):
        if "max_positions" in self.plan:
            return self.plan["max_positions"]
        return len(self.size["weights"]) if "weights" in self.size else min(10, len(self.symbols))

    def wish(self, symbol, size, count):
        """Cents and the most shares."""
        if "shares" in size:
            first, step = self.lots(symbol)
            shares = floor(size["shares"] / step) * step
            shares = shares if shares >= first else 0
            price = self.price(symbol)
            cost = half_up(price * shares * 100) if price else 0
            return cost + (self.fees("buy", cost) if shares else 0), shares
        if "cash" in size:
            return floor(size["cash"] * 100), None
        if "equal" in size:
            return self.investable // (max(1, count) if size["equal"] else self.slots), None
        share = size["weights"][symbol] if "weights" in size else size["percent"]
        return floor(self.investable * share), None

    def price(self, symbol):
        return self.opens.get(symbol, self.seen.get(symbol))

    def additions(self, at, leaving):
        more, found = self.plan.get("accumulate"), {}
        if not more or (
            more["on"] == "schedule" and not self.trades_on(at, self.plan.get("trade_on", "every"))
        ):
            return found
        size = {
            {"amount": "cash"}.get(kind, kind): more[kind]
            for kind in ("amount", "percent", "shares")
            if kind in more
        }
        for symbol in sorted(self.held):
            held, close = self.held[symbol], self.seen.get(symbol)
            if symbol in leaving or held.purchases > more.get("times", 10**9):
                continue
            if more["on"] == "rise" and close < held.last * (1 + more["by"]):
                continue
            if more["on"] == "fall" and close > held.last * (1 - more["by"]):
                continue
            found[symbol] = self.wish(symbol, size, 0)
        return found

    def resize(self, at, leaving, entries):
        """Sell what holdings have too much of; return what they lack."""
        when = self.plan.get("rebalance") or (
            self.plan.get("trade_on", "every") if self.size.get("equal") else None
        )
        lacking, count = {}, len(self.held) + len(entries)
        if when is None or not self.trades_on(at, when):
            return lacking
        band, sales = self.plan.get("band", 0) * self.investable, []
        for symbol in sorted(set(self.held) - leaving):
            if "weights" in self.size and symbol not in self.size["weights"]:
                continue
            held, price = self.held[symbol], self.price(symbol)
            missing = self.wish(symbol, self.size, count)[0] - floor(price * held.shares * 100)
            if abs(missing) <= band:
                continue
            if missing > 0:
                lacking[symbol] = missing, None
                continue
            first, step = self.lots(symbol)
            shares = floor(Fraction(-missing, 100) / price / step) * step
            if shares >= first:
                sales.append((symbol, min(shares, held.shares)))
        for symbol, shares in sales:
            self.sell(at, symbol, shares, self.opens.get(symbol), by_plan=False)
        return lacking

    # A session

    def decide(self, at):
        """Exits, then what is bought."""
        total = self.cash * 1 + floor(
            sum((self.price(symbol) * held.shares for symbol, held in self.held.items()), Fraction(0)) * 100
        )
        self.investable = floor(total * (1 - self.plan.get("cash_reserve", Fraction(0))))
        signalled = [symbol for symbol in sorted(self.held) if self.wants_out(symbol, at)]
        due = [symbol for symbol in self.held if symbol not in signalled and self.is_due(symbol, at)]
        all_due = {symbol for symbol in self.held if self.is_due(symbol, at)}
        for symbol in signalled:
            self.sell(at, symbol, self.held[symbol].shares, self.opens.get(symbol), by_plan=False)
        for symbol in due:
            self.sell(at, symbol, self.held[symbol].shares, self.opens.get(symbol), by_plan=True)
        entries = self.entries(at) if at else []
        leaving = {*signalled, *all_due}
        wishes = {symbol: self.wish(symbol, self.size, len(self.held) + len(entries)) for symbol in entries}
        wishes |= self.resize(at, leaving, entries)
        wishes |= self.additions(at, leaving)
        wishes = {} if self.is_closed(self.days[at]) else wishes
        free, needed = (
            max(0, self.cash - (total - self.investable)),
            sum(cents for cents, _ in wishes.values()),
        )
        bought = []
        for symbol, (cents, most) in wishes.items():
            if price := self.price(symbol):
                cents = cents * free // needed if needed > free else cents
                shares = self.fitting(symbol, price, cents)
                bought.append((symbol, shares if most is None else min(shares, most)))
        for symbol, shares in bought:
            if shares:
                self.buy(at, symbol, shares)
        return set(due)

    def reach(self, at, tried):
        """Within the session: stops and targets that were reached after the open."""
        day = self.days[at]
        for symbol in list(self.held):
            held = self.held[symbol]
            free = held.shares - (held.today if self.mainland else 0)
            opened, high, low = (self.bars[name][day].get(symbol) for name in ("open", "high", "low"))
            stop, target = self.levels(symbol, at)
            price = None
            if opened is not None and symbol not in tried:
                if stop and low <= stop:
                    price = min(opened, stop)
                elif target and high >= target:
                    price = max(opened, target)
            if price is None:
                held.waiting = symbol in tried
            elif free:
                self.sell(at, symbol, free, price, by_plan=True)
                held.waiting = True  # of what is left
            else:
                held.waiting = True

    def run(self):
        for at, day in enumerate(self.days):
            self.opens = self.bars["open"][day]
            self.morning = set(self.held)
            for held in self.held.values():
                held.today = 0
            tried = self.decide(at) if at else set()
            self.reach(at, tried)
            self.seen |= self.bars["close"][day]
            for symbol, held in self.held.items():
                held.peak = max(held.peak, self.bars["close"][day].get(symbol, held.peak))
            worth = sum((self.seen[symbol] * held.shares for symbol, held in self.held.items()), Fraction(0))
            self.values.append(Fraction(self.cash, 100) + worth)
        return self


def panel(rows, fields):
    """Panels of rows of dicts with ``day`` and ``symbol``, of fields as text."""
    bars = {name: defaultdict(dict) for name in fields}
    for row in rows:
        for name in fields:
            bars[name][row["day"]][row["symbol"]] = Fraction(row[name])
    return bars
