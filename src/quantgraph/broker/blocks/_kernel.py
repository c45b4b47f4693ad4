"""The account's arithmetic for sessions in a row, in whole numbers, compiled.

Prices are in units of the panel's own, 1e-4 or 1e-8 of the currency, ``-1`` for one that cannot be written
so. Money is in cents and shares are whole; where shares have parts, these are counted, and money is in units.
Row ``t`` of a panel is the session before session ``t`` of the block, row ``t + 1`` the session itself. The
rule is that of :class:`~quantgraph.agents.SignalRule`, the rules of the market are those of
:func:`~quantgraph.broker.session._matching.match_order`; where they need more than these numbers, it stops.

Functions that run for every symbol take single arrays, because passing a group costs more than their
work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from quantgraph.broker.session._exits import FIRST_EXIT

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function on its first call, and cache the result beside its file or in the user's cache.

    If neither can be written, each process compiles anew. Integers wrap at 64 bits. The cache is renewed only
    when the function's own file changes: functions that it calls must be in the same file, and a change of a
    constant from another file requires a change of this one.
    """
    try:
        return cast("F", njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba found no folder for the cache
        return cast("F", njit(error_model="numpy")(function))


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Table = NDArray[np.void]

DONE, STOPPED, EVENTS, PRICES = range(4)
"""Why a run returns: the end, a session that needs the fallback, corporate actions, missing marks."""
OPENING, ORDERS, MARKS = range(3)
"""Phases of a session."""
SIGNAL, STOP_LOSS, TRAILING_STOP, TAKE_PROFIT, MAX_HOLDING, KEPT, RESIZED, ADDED = range(8)
"""Why an order is sent; ``KEPT`` is an exit that waited before the block."""
ON_SCHEDULE, ON_RISE, ON_FALL = range(1, 4)
"""When more of a holding is bought."""
TRIED, REACHED = 1, 2
"""How an exit has come to wait: it was tried, it was reached in the session of the entry."""

LARGEST, MOST, ANY = 10**14, 2 * 10**18, 1 << 62
"""Largest amount in cents, whose products with the scales below can be corrected in 64 bits, and in units or
parts; more shares than there are."""
RATE = 10**14
"""Scale of the rates of charges, for amounts in cents and whole shares."""
FINE_CASH, FINE_OWED = 1, 2
"""What the journal writes with eight decimals, because parts of shares were paid with it."""
SHARE = 1000
"""Scale of price limits as shares of the previous close."""


def _table(names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names.split()])


TERM = _table(
    "unit parts cent first step cap t_plus least commission by_share duty bought transfer of_face face_least "
    "section activity most slippage band up down tick fine one_tick"
)
"""Terms of a kind of symbol: units of the currency, parts of a share, as how much a cent is counted; lots,
size cap, T+n; the least commission in cents and rates over RATE, ``by_share``, ``of_face`` and ``activity``
in cents for a share, the last at ``most`` so many, the transfer fee at least ``face_least``; ``bought`` is a
buyer's stamp duty; whether there is a band (-1: unknown), its limits as shares of the close before over
SHARE, the tick in units, and below one dollar, and whether limits are at least one tick away."""

ORDER = _table(
    "column sells quantity sequence kind within base at ranged again since cash "
    "filled price notional commission duty transfer regulatory slippage t_plus profit fine tells"
)
"""An order: ``cash`` is the cash before it, ``fine`` what of it is; the fields after ``filled`` are of a
fill, ``profit`` (proceeds less the cost of the shares) of a sale, which ``tells`` parts of a cent or not;
``within`` is 1 for one that is sent after the open. The others are those of EXIT."""

EXIT = _table("basis peak last count range since waiting kind base at ranged again number exited silent")
"""What a plan follows of a symbol. Basis and peak in units; ``last`` price and ``count`` of its purchases;
its average true ``range`` in units, -1 for none, and the one that an exit was ``ranged`` by; ``since`` is
the session of the entry, below 0 before the block. An exit: ``kind``, the price ``base`` that its level is
counted from, the session ``at`` which it was, how it has come to wait, the ``number`` of today's order (0:
none). ``exited`` is the session of the plan's last sale, -1 for none since the last purchase, -2 for one
before the block; ``silent``, whether the signal was 1 then, and ever since."""

MISS = _table("session column cents")
"""A purchase of the schedule whose cash is too little."""
MARK = _table("column price carried")
DAY = _table("cash owed stocks largest held orders marks fine")
"""The account at a session's end; ``orders`` and ``marks`` are counts up to then."""

PURSE = _table("cash owed held orders misses marks unpriced next_pay fine rest")
"""Cash and dividends that are owed; counts of holdings, of logged orders, misses and marks, and of holdings
without a price; the session of the next payment; what is FINE; a sum of parts of units."""


class MarketArrays(NamedTuple):
    """S sessions of N symbols. Panels have S + 1 rows, the first for the session before; NaN without data.

    ``unit`` is how many of the prices' units the currency has, ``before`` is ``pre_close``, ``signal`` what
    the session buys by, ``said`` what it sells by, as of session ``until``, ``shown`` the signal's row;
    ``order`` are values by which entries are taken, the lowest first, ``rank`` is the place of each symbol in
    ascending order.
    """

    unit: int
    parts: int
    cent: int
    open: Floats
    mark: Floats
    close: Floats
    upper: Floats
    lower: Floats
    before: Floats
    volume: Floats
    signal: Floats
    said: Floats
    until: Ints
    shown: Floats
    order: Floats
    high: Floats
    low: Floats
    ranges: Ints
    past: Floats
    past_columns: Ints
    past_rows: int
    ex_before: Ints
    rank: Ints
    kind: Ints
    era: Ints
    terms: Table
    entries: Flags
    closed: Flags
    resizing: Flags
    adding: Flags
    stop: Flags
    events: Ints
    events_from: Ints
    ex: Ints
    ex_from: Ints


class RuleArrays(NamedTuple):
    """A :class:`~quantgraph.broker.BlockRule` in whole numbers; -1 is none, fractions are in two parts."""

    trades: bool
    max_positions: int
    ticket: int
    shares: int
    invested: int
    invested_of: int
    share: Ints
    share_of: Ints
    needs_worth: bool
    equal: bool
    band: int
    band_of: int
    adds: int
    by: int
    by_of: int
    times: int
    add_ticket: int
    add_shares: int
    add_share: int
    add_share_of: int
    follows: bool
    loss: int
    loss_by: int
    loss_of: int
    trail: int
    trail_by: int
    trail_of: int
    gain: int
    gain_by: int
    gain_of: int
    longest: int
    waits: bool
    least: int
    cooldown: int
    ordered: bool


class AccountArrays(NamedTuple):
    """The account by column, and work space; ``held`` are columns of holdings, ascending by symbol."""

    purse: Table
    quantity: Ints
    opinion: Ints
    carried: Ints
    past: Ints
    entered: Ints
    sold: Ints
    cost: Ints
    fine: Ints
    held: Ints
    candidates: Ints
    tickets: Ints
    unpriced: Ints
    exits: Table


class BlockLog(NamedTuple):
    """Orders, marks and days of a run; all but ``days`` have room for the most there can be."""

    orders: Table
    misses: Table
    marks: Table
    days: Table


_NEAR, _EXACT = 10, 1e33
"""Steps below the most that a purchase is tried at, and a product that can be divided in 64 bits."""
_UNKNOWN = ANY


@compiled
def run(  # noqa: PLR0917 - compiled code takes arguments by place
    t: int, phase: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays, log: BlockLog
) -> tuple[int, int]:
    """Continue with session ``t`` at a phase; return the reason of the end, and its session.

    After ``EVENTS`` the caller applies the session's corporate actions and continues with ``ORDERS``; after
    ``PRICES`` it fills ``carried`` for the columns in ``unpriced`` and continues with ``MARKS``. After
    ``STOPPED`` the state is invalid.
    """
    while t < len(log.days):
        if phase == OPENING:
            for place in range(market.ex_from[t], market.ex_from[t + 1]):
                state.carried[market.ex[place]] = -1
            phase = ORDERS
            if _has_events(t, market, rule.follows, state):
                return EVENTS, t
        if phase == ORDERS:
            if not (rule.trades or state.purse[0].held > 0):
                return STOPPED, t
            if (rule.trades or rule.follows) and not _orders(t, market, rule, state, log):
                return STOPPED, t
            phase = MARKS
        unpriced = _marks(t, market, state, log)
        if unpriced:
            return PRICES if unpriced > 0 else STOPPED, t
        t += 1
        phase = OPENING
    return DONE, t


@compiled
def last_opinions(signal: Floats, first: Ints, rows: int, columns: Ints) -> Ints:
    """Last 1 or -1 of columns from row ``first`` to before ``rows``: -1 of 1, 0, -1, 0; 0 of 0, 0."""
    found = np.zeros(len(columns), np.int64)
    for place in range(len(columns)):
        row = rows - 1
        while columns[place] >= 0 and row >= first[place] and found[place] == 0:
            value = signal[row, columns[place]]
            if abs(value) == 1:
                found[place] = int(value)
            row -= 1
    return found


@compiled
def _orders(t: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays, log: BlockLog) -> bool:
    """Sell A at 9.90, buy B, sell C at a stop of 8.00 that was reached; False for the fallback."""
    if market.stop[t]:
        return False
    purse = state.purse[0]
    cash, begun, count = purse.cash, purse.orders, _opinions(t, market, rule, state)
    purse.rest = 0
    if rule.follows and not _due(t, market, rule, state):
        return False
    sold = _sells(t, begun, False, market, rule, state, log)
    numbered = purse.orders - begun
    due = _sells(t, begun, True, market, rule, state, log) if rule.follows and sold >= 0 else 0
    if sold < 0 or due < 0:
        return False
    count = min(count, max(0, rule.max_positions - purse.held))
    worth = (cash + purse.owed) * (market.unit // 100 // market.cent) + sold + due
    sizes = count > 0 or (purse.held > 0 and (market.resizing[t] or market.adding[t]))
    if sizes and not _buys(t, count, worth, numbered, market, rule, state, log):
        return False
    return not rule.follows or (_sell_at(t, begun, market, rule, state, log) and _follow(t, market, state))


@compiled
def _opinions(t: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays) -> int:
    """Store the row's opinions of holdings, and list the entries by symbol: 1 of B and A is A, B."""
    row, rank, share, enters = market.signal[t], market.rank, rule.share, market.entries[t]
    quantity, opinion, found, count = state.quantity, state.opinion, state.candidates, 0
    exits, waits, shown, said = state.exits, rule.waits, market.shown[t], market.said[t]
    order, most, sold = market.order[t], min(len(found), rule.max_positions), state.sold
    for column in range(len(row)):
        if waits and exits[column].silent and shown[column] != 1:
            exits[column].silent = 0
        if quantity[column] > 0:
            if abs(said[column]) == 1:
                opinion[column] = int(said[column])
        elif (
            row[column] == 1
            and enters
            and share[column] >= 0
            and not (waits and exits[column].silent)
            and t - sold[column] > rule.cooldown
        ):
            place, count = count, min(count + 1, most)
            while place > 0 and _comes_after(found[place - 1], column, order, rank, rule.ordered):
                if place < most:
                    found[place] = found[place - 1]
                place -= 1
            if place < most:
                found[place] = column
    return count


@compiled
def _comes_after(one: int, other: int, order: Floats, rank: Ints, ordered: bool) -> bool:
    """Whether a symbol comes after another: by its value, those without one last, equal ones by symbol."""
    left, right = order[one], order[other]
    if ordered and np.isnan(left) != np.isnan(right):
        return bool(np.isnan(left))
    if ordered and not np.isnan(left) and left != right:
        return bool(left > right)
    return bool(rank[one] > rank[other])


@compiled
def _due(t: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays) -> bool:
    """Number the exits at the open: what waits, 7.90 below a stop of 8.00, the tenth session of ten."""
    opens, terms, kinds = market.open[t + 1], market.terms[market.era[t]], market.kind
    exits, held, number, ranges = state.exits, state.held, FIRST_EXIT, market.ranges[t]
    for place in range(state.purse[0].held):
        column = held[place]
        leaving, value, term = exits[column], opens[column], terms[max(0, kinds[column])]
        if kinds[column] < 0:
            return False
        kind = KEPT if leaving.waiting else SIGNAL
        if not leaving.waiting:
            if 0 < value < np.inf:
                kind = _level_of(leaving, value, value, t, ranges[column], rule, term)[0]
            if not kind and 0 <= rule.longest <= t - leaving.since:
                kind = MAX_HOLDING
            _leave(leaving, kind, t, ranges[column])
        leaving.number = number if kind else 0
        number += kind > 0
    return True


@compiled
def _leave(leaving: Any, kind: int, t: int, ranged: int) -> None:
    """Write down an exit: STOP_LOSS in session 12."""
    leaving.kind, leaving.at, leaving.again = kind, t, 0
    leaving.base, leaving.ranged = leaving.basis, leaving.range
    if kind == TRAILING_STOP:
        leaving.base, leaving.ranged = leaving.peak, ranged


@compiled
def _level_of(  # noqa: PLR0917
    leaving: Any, low: float, high: float, t: int, ranged: int, rule: RuleArrays, term: Any
) -> tuple[int, int]:
    """The level that prices reach, the stop before the target: low 7.9 at a stop of 8 is STOP_LOSS, 80000.

    A trailing stop, by today's range, is not active in the session of the entry.
    """
    kind, level = SIGNAL, 0
    if rule.loss >= 0 and (rule.loss_by == 0 or leaving.range >= 0):
        exact = leaving.basis * rule.loss + leaving.range * rule.loss_by
        tick = _tick(exact, rule.loss_of, term)
        kind, level = STOP_LOSS, exact // (rule.loss_of * tick) * tick
    if rule.trail >= 0 and leaving.since < t and (rule.trail_by == 0 or ranged >= 0):
        exact = leaving.peak * rule.trail + ranged * rule.trail_by
        tick = _tick(exact, rule.trail_of, term)
        higher = exact // (rule.trail_of * tick) * tick
        if kind == SIGNAL or higher > level:
            kind, level = TRAILING_STOP, higher
    if level > 0 and low <= level / term.unit:
        return kind, level
    if rule.gain >= 0 and (rule.gain_by == 0 or leaving.range >= 0):
        exact = leaving.basis * rule.gain + leaving.range * rule.gain_by
        step = rule.gain_of * _tick(exact, rule.gain_of, term)
        level = (exact + step - 1) // step * (step // rule.gain_of)
        if level > 0 and high >= level / term.unit:
            return TAKE_PROFIT, level
    return SIGNAL, 0


@compiled
def _tick(price: int, of: int, term: Any) -> int:
    """The tick near a price in parts: a cent from one dollar up, 1 of 9999 / 1."""
    return int(term.tick if price >= of * term.unit else term.fine)


@compiled
def _sells(  # noqa: PLR0917
    t: int, begun: int, due: bool, market: MarketArrays, rule: RuleArrays, state: AccountArrays, log: BlockLog
) -> int:
    """Sell holdings with opinion -1 that were held long enough, or the others whose exit is due.

    Returns what was sold, at the open in units, or -1 to stop.
    """
    opens, volume, held, purse = market.open[t + 1], market.volume[t + 1], state.held, state.purse[0]
    quantity, opinion, exits, kept, value = state.quantity, state.opinion, state.exits, 0, 0
    for place in range(purse.held):
        column = held[place]
        by_signal = opinion[column] == -1 and market.until[t] - state.entered[column] >= rule.least
        if by_signal if not due else not by_signal and exits[column].number > 0:
            price = _opening(opens[column], volume[column], market.unit)
            number = exits[column].number if due else purse.orders - begun + 1
            sold = _sell(t, column, quantity[column], number, price, opens[column], -1, market, state, log)
            if sold < 0:
                return -1
            worth, rest = worth_of(price, sold, market.parts)
            value, purse.rest = value + worth, purse.rest + rest
        elif due:
            exits[column].number = 0
        if quantity[column] > 0:
            held[kept] = column
            kept += 1
    purse.held = kept
    return value if purse.cash <= largest(market.unit) * market.cent else -1


@compiled
def _sell(  # noqa: PLR0917
    t: int,
    column: int,
    shares: int,
    number: int,
    price: int,
    value: float,
    least: int,
    market: MarketArrays,
    state: AccountArrays,
    log: BlockLog,
) -> int:
    """Order the sale of shares of a holding at a price, ``value`` as a float; those sold, or -1 to stop.

    Numbers from FIRST_EXIT on are exits of the plan. Slippage goes down to ``least``, -1 for no limit.
    """
    purse, leaving, kind = state.purse[0], state.exits[column], market.kind[column]
    term = market.terms[market.era[t], max(0, kind)]
    if kind < 0 or shares > term.cap or _too_much(price, shares, market.unit, market.parts):
        return -1
    if float(state.cost[column]) * state.quantity[column] > _EXACT:
        return -1
    order = log.orders[purse.orders]
    order.column, order.sells, order.quantity, order.sequence = column, 1, shares, number
    order.cash, order.filled, order.kind, order.within, order.fine = purse.cash, 0, SIGNAL, 0, purse.fine
    if number >= FIRST_EXIT:
        order.kind, order.base, order.at = leaving.kind, leaving.base, leaving.at
        order.again, order.since, order.ranged = leaving.again, leaving.since, leaving.ranged
    purse.orders += 1
    beyond = _beyond_limit(
        price, True, value, market.lower[t + 1, column], market.before[t + 1, column], term
    )
    if beyond < 0:
        return -1
    change = 0 if beyond else _fill(order, price, least, term)
    if change == _UNKNOWN:
        return -1
    if beyond or purse.cash + change < 0:
        return 0
    twice = _floor(2 * state.cost[column], state.quantity[column] - shares, state.quantity[column])
    left = (twice + term.cent) // (2 * term.cent) * term.cent
    order.filled, order.profit = 1, change - (state.cost[column] - left)
    order.tells = state.fine[column] | (shares % term.parts > 0)
    purse.cash += change
    purse.fine |= FINE_CASH * (shares % term.parts > 0)
    state.quantity[column], state.cost[column], state.fine[column] = state.quantity[column] - shares, left, 0
    if state.quantity[column] == 0:
        state.sold[column] = t
    if number >= FIRST_EXIT:
        leaving.exited, leaving.silent = t, market.shown[t, column] == 1
    return int(shares)


@compiled
def _sell_at(  # noqa: PLR0917
    t: int, begun: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays, log: BlockLog
) -> bool:
    """Sell what reached its level after the open, where no exit was tried; False to stop."""
    opens, volume, close = market.open[t + 1], market.volume[t + 1], market.close[t + 1]
    low, high, terms = market.low[t + 1], market.high[t + 1], market.terms[market.era[t]]
    exits, held, quantity, purse, kept = state.exits, state.held, state.quantity, state.purse[0], 0
    number, ranges = FIRST_EXIT - 1, market.ranges[t]
    for place in range(begun, purse.orders):
        number = max(number, log.orders[place].sequence)
    for place in range(purse.held):
        column = held[place]
        leaving, term = exits[column], terms[max(0, market.kind[column])]
        locked = leaving.since == t and term.t_plus > 0
        there = volume[column] != 0 and not (np.isnan(opens[column]) and np.isnan(close[column]))
        kind, level = SIGNAL, 0
        if there and not leaving.number:
            kind, level = _level_of(leaving, low[column], high[column], t, ranges[column], rule, term)
        if kind:
            _leave(leaving, kind, t, ranges[column])
            leaving.waiting, leaving.again = locked, REACHED if locked else 0
        if kind and not locked:
            number += 1
            leaving.number = number
            price = _price_within(t, column, kind, level, market, term)
            least = -1 if kind == TAKE_PROFIT else _whole(low[column], market.unit)
            if price < 0 or (least < 0 and kind != TAKE_PROFIT):
                return False
            value, shares = price / market.unit, quantity[column]
            if _sell(t, column, shares, number, price, value, least, market, state, log) < 0:
                return False
            log.orders[purse.orders - 1].within = 1
        if quantity[column] > 0:
            held[kept] = column
            kept += 1
    purse.held = kept
    return bool(purse.cash <= largest(market.unit) * market.cent)


@compiled
def _price_within(t: int, column: int, kind: int, level: int, market: MarketArrays, term: Any) -> int:  # noqa: PLR0917
    """What a sale at a level reached after the open brings: 80000 at a stop of 8.00; -1 if unknown here."""
    price = _opening(market.open[t + 1, column], market.volume[t + 1, column], market.unit)
    if kind != TAKE_PROFIT:
        return min(price, level) if price > 0 else -1
    upper, before = market.upper[t + 1, column], market.before[t + 1, column]
    above = _beyond_limit(level - 1, False, (level - 1) / market.unit, upper, before, term)
    return level if 0 < price < level and above == 0 else -1


@compiled
def _follow(t: int, market: MarketArrays, state: AccountArrays) -> bool:
    """Exits tried in vain, as at a lower limit, wait for the next open; the highest closes; False to stop."""
    close, exits, held = market.close[t + 1], state.exits, state.held
    for place in range(state.purse[0].held):
        leaving, value = exits[held[place]], close[held[place]]
        if leaving.range < 0:
            leaving.range = market.ranges[t + 1, held[place]]
        if leaving.number:
            leaving.waiting, leaving.again = 1, leaving.again | TRIED
        if not np.isnan(value):
            price = _whole(value, market.unit)
            if price < 0:
                return False
            leaving.peak = max(leaving.peak, price)
    return True


@compiled
def _buys(  # noqa: PLR0917
    t: int,
    count: int,
    worth: int,
    numbered: int,
    market: MarketArrays,
    rule: RuleArrays,
    state: AccountArrays,
    log: BlockLog,
) -> bool:
    """Buy the candidates, and trade holdings to their size; False to stop.

    ``worth`` is the account before the open without what is still held, in units. The orders are numbered
    after ``numbered``.
    """
    worth = _worth(t, worth, market, rule, state)
    if worth < 0:
        return False
    purse, cents = state.purse[0], worth // (market.unit // 100)
    investable, wishes = _floor(cents, rule.invested, rule.invested_of), count
    if not _tickets(t, count, investable, market, rule, state):
        return False
    if market.resizing[t]:
        numbered, wishes = _resize(t, count, investable, numbered, market, rule, state, log)
    elif market.adding[t]:
        wishes = _additions(t, count, investable, market, rule, state)
    if wishes < 0 or market.closed[t]:
        return bool(wishes >= 0)
    free = max(0, purse.cash // market.cent - (cents - investable))
    return _purchases(t, count, wishes, numbered, free, market, rule, state, log)


@compiled
def _price_of(t: int, column: int, market: MarketArrays, state: AccountArrays) -> int:
    """What a size is counted at: the open, 100100 of 10.01, or the last close; 0 without, -1 to stop."""
    price = _opening(market.open[t + 1, column], market.volume[t + 1, column], market.unit)
    price = price or _last_close(t, column, market, state)
    return -1 if price and market.kind[column] < 0 else price


@compiled
def _stays(t: int, column: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays) -> bool:
    """Whether no exit of a holding was ordered in this session."""
    by_signal = state.opinion[column] == -1 and market.until[t] - state.entered[column] >= rule.least
    return not (by_signal or (rule.follows and state.exits[column].number > 0))


@compiled
def _resize(  # noqa: PLR0917
    t: int,
    count: int,
    investable: int,
    numbered: int,
    market: MarketArrays,
    rule: RuleArrays,
    state: AccountArrays,
    log: BlockLog,
) -> tuple[int, int]:
    """Sell what holdings have too much of, 300 of 1500, and list what they lack after the candidates.

    Returns the number of the last order and of all wishes, -1 to stop.
    """
    purse, held, wishes, kept = state.purse[0], state.held, count, 0
    slots, band = max(1, purse.held + count), _floor(investable, rule.band, rule.band_of)
    for place in range(purse.held):
        column = held[place]
        if rule.share[column] >= 0 and _stays(t, column, market, rule, state):
            price = _price_of(t, column, market, state)
            if price < 0:
                return numbered, -1
            wished = _floor(investable, rule.share[column], rule.share_of[column])
            if rule.equal:
                wished = investable // slots
            lacking = wished - worth_of(price, state.quantity[column], market.parts)[0] // (
                market.unit // 100
            )
            term, shares = market.terms[market.era[t], market.kind[column]], 0
            if price > 0 and lacking > band:
                state.candidates[wishes], state.tickets[wishes] = column, lacking
                wishes += 1
            elif price > 0 and -lacking > band:
                shares = _in_lots(_floor(-lacking * (market.unit // 100), market.parts, price), term)
            if shares > 0:
                numbered += 1
                opened = _opening(market.open[t + 1, column], market.volume[t + 1, column], market.unit)
                value = market.open[t + 1, column]
                if _sell(t, column, shares, numbered, opened, value, -1, market, state, log) < 0:
                    return numbered, -1
                log.orders[purse.orders - 1].kind = RESIZED
        if state.quantity[column] > 0:
            held[kept] = column
            kept += 1
    purse.held = kept
    return numbered, wishes


@compiled
def _additions(  # noqa: PLR0917
    t: int, count: int, investable: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays
) -> int:
    """List more of holdings after the candidates: 5 % below a purchase at 10.00 is 9.50; -1 to stop."""
    wishes = count
    for place in range(state.purse[0].held):
        column = state.held[place]
        entry = state.exits[column]
        if entry.count > rule.times or not _stays(t, column, market, rule, state):
            continue
        price, close = _price_of(t, column, market, state), 0
        if rule.adds != ON_SCHEDULE:
            close = _last_close(t, column, market, state)
        if price < 0 or close < 0:
            return -1
        far = close * rule.by_of - entry.last * rule.by
        is_far = close > 0 and (far >= 0 if rule.adds == ON_RISE else far <= 0)
        if price == 0 or not (rule.adds == ON_SCHEDULE or is_far):
            continue
        ticket, term = rule.add_ticket, market.terms[market.era[t], market.kind[column]]
        if rule.add_shares < ANY:
            ticket = _price_shares(price, rule.add_shares, term)
            if ticket < 0:
                return -1
        elif ticket < 0:
            ticket = _floor(investable, rule.add_share, rule.add_share_of)
        state.candidates[wishes], state.tickets[wishes] = column, ticket
        wishes += 1
    return wishes


@compiled
def _purchases(  # noqa: PLR0917
    t: int,
    count: int,
    wishes: int,
    numbered: int,
    free: int,
    market: MarketArrays,
    rule: RuleArrays,
    state: AccountArrays,
    log: BlockLog,
) -> bool:
    """Buy for the tickets, less of all if they are more than the free cash; False to stop.

    The first ``count`` are of candidates that are not held, the others of holdings.
    """
    wished = state.tickets[:wishes].sum()
    upper, before, opens = market.upper[t + 1], market.before[t + 1], market.open[t + 1]
    purse, found, bought = state.purse[0], state.candidates, 0
    for place in range(wishes):
        column, is_new = found[place], place < count
        sized_at = _price_of(t, column, market, state)
        if sized_at == 0:
            continue
        term = market.terms[market.era[t], market.kind[column]]
        most, ticket = rule.shares if is_new else rule.add_shares, state.tickets[place]
        if wished > free:
            ticket = _floor(ticket, free, wished)
        if sized_at < 0 or float(ticket) * (market.unit // 100) / sized_at * market.parts > MOST:
            return False
        shares = min(_largest_buy(sized_at, ticket, term), term.cap, _in_lots(most, term))
        if shares == 0:
            if rule.adds == ON_SCHEDULE and market.adding[t]:
                miss = log.misses[purse.misses]
                miss.session, miss.column, miss.cents = t, column, state.tickets[place]
                purse.misses += 1
            continue
        order = log.orders[purse.orders]
        numbered += 1
        order.column, order.sells, order.quantity, order.sequence = column, 0, shares, numbered
        order.cash, order.filled, order.within, order.fine = purse.cash, 0, 0, purse.fine
        order.kind = SIGNAL if is_new else ADDED if rule.adds else RESIZED
        purse.orders += 1
        price = _opening(opens[column], market.volume[t + 1, column], market.unit)
        beyond = _beyond_limit(price, False, opens[column], upper[column], before[column], term)
        if beyond < 0:
            return False
        if not beyond:
            order.filled = 1
            is_fine = shares % term.parts > 0
            purse.fine |= FINE_CASH * is_fine
            _enter(t, column, order, _fill(order, price, -1, term), state, is_new)
            state.fine[column] |= is_fine
            if is_new:
                state.exits[column].range = market.ranges[t, column]
                _insert(column, bought, market.rank, found)
                bought += 1
    _merge(bought, purse.held, market.rank, state.held, found)
    purse.held += bought
    return bool(purse.cash >= 0)


@compiled
def _enter(  # noqa: PLR0917
    t: int, column: int, order: Any, change: int, state: AccountArrays, is_new: bool
) -> None:
    """Add what was bought, 100 for 100100 cents, to the account, and follow it."""
    entry = state.exits[column]
    state.purse[0].cash += change
    if is_new:
        state.quantity[column], state.cost[column], state.fine[column], state.entered[column] = 0, 0, 0, t
        state.opinion[column], state.carried[column] = 0, -1
        entry.basis = entry.peak = order.price
        entry.count, entry.since, entry.waiting, entry.number, entry.exited, entry.silent = 0, t, 0, 0, -1, 0
    state.quantity[column] += order.quantity
    state.cost[column] -= change
    entry.last = order.price
    entry.count += 1


@compiled
def _fill(order: Any, price: int, least: int, term: Any) -> int:
    """Write a fill's price and money into its order; its change of the cash: -100100 of 100 at 10.01."""
    notional = _notional(price, order.quantity, term)
    commission, duty, transfer, regulatory, slippage = charges_of(
        notional, order.quantity, order.sells == 1, term
    )
    if least >= 0:
        most = _notional(price - least, order.quantity, term)
        if most < slippage * term.cent and order.quantity % term.parts:
            return _UNKNOWN
        slippage = min(slippage, most // term.cent)
    order.price, order.notional, order.t_plus, order.profit = price, notional, term.t_plus, 0
    order.commission, order.duty, order.transfer, order.slippage = commission, duty, transfer, slippage
    order.regulatory, order.tells = regulatory, 0
    charges = commission + duty + transfer + regulatory + slippage
    return int((notional if order.sells else -notional) - charges * term.cent)


@compiled
def _insert(column: int, count: int, rank: Ints, found: Ints) -> None:
    """Insert what was bought into the purchases before it, by symbol: 4 into 2, 7 is 2, 4, 7."""
    place = count
    while place > 0 and rank[found[place - 1]] > rank[column]:
        found[place] = found[place - 1]
        place -= 1
    found[place] = column


@compiled
def _merge(bought: int, count: int, rank: Ints, held: Ints, found: Ints) -> None:
    """Merge what was bought into what is held, from the back: 2, 5 into 1, 7 is 1, 2, 5, 7."""
    left, more = count - 1, bought - 1
    while more >= 0:
        if left >= 0 and rank[held[left]] > rank[found[more]]:
            held[left + more + 1] = held[left]
            left -= 1
        else:
            held[left + more + 1] = found[more]
            more -= 1


@compiled
def _worth(t: int, worth: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays) -> int:
    """Add holdings at today's open, else their last close: 100 at 10.01 are 10010000, in units."""
    quantity, most = state.quantity, largest(market.unit) * (market.unit // 100)
    for place in range(state.purse[0].held if rule.needs_worth else 0):
        column = state.held[place]
        price = _price_of(t, column, market, state)
        if price <= 0 or worth > most or _too_much(price, quantity[column], market.unit, market.parts):
            return -1
        more, rest = worth_of(price, quantity[column], market.parts)
        worth, state.purse[0].rest = worth + more, state.purse[0].rest + rest
    worth += state.purse[0].rest // market.parts
    return worth if worth <= most else -1


@compiled
def _price_shares(price: int, wished: int, term: Any) -> int:
    """What shares cost in cents, rounded up: 500 at 10.01 are 501000 with 500 of commission; -1 to stop."""
    shares, of = _in_lots(wished, term), term.unit // 100 // term.cent
    value, rest = worth_of(price, shares, term.parts)
    if price < 0 or rest or value % of:
        return -1
    return -(-_paid(value // of, shares, term) // term.cent) if shares else 0


@compiled
def _in_lots(shares: int, term: Any) -> int:
    """The part of shares that one order may have: 500 of 550, 0 of 50 in lots of 100."""
    found = shares // term.step * term.step
    return int(found if found >= term.first else 0)


@compiled
def _tickets(  # noqa: PLR0917
    t: int, count: int, investable: int, market: MarketArrays, rule: RuleArrays, state: AccountArrays
) -> bool:
    """Give each candidate its cash, a tenth of 1,000,000 is 100,000; False to stop."""
    slots = max(1, state.purse[0].held + count)
    for place in range(count):
        column, ticket = state.candidates[place], rule.ticket
        if rule.shares < ANY:
            term = market.terms[market.era[t], max(0, market.kind[column])]
            ticket = _price_shares(_price_of(t, column, market, state), rule.shares, term)
            if ticket < 0:
                return False
        elif rule.equal:
            ticket = investable // slots
        elif ticket < 0:
            ticket = _floor(investable, rule.share[column], rule.share_of[column])
        state.tickets[place] = ticket
    return True


@compiled
def _largest_buy(price: int, budget: int, term: Any) -> int:
    """Most shares whose notional and charges fit: 900 at 10.01 in 10,000; by bisection of the last steps."""
    step, money = term.step, budget * term.cent
    most = _floor(budget * (term.unit // 100), term.parts, price * step)
    low = max(0, most - _NEAR)
    if low and _paid(_notional(price, step * low, term), step * low, term) > money:
        low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if _paid(_notional(price, step * middle, term), step * middle, term) <= money:
            low = middle
        else:
            most = middle - 1
    return int(step * low if step * low >= term.first else 0)


@compiled
def _paid(notional: int, quantity: int, term: Any) -> int:
    commission, duty, transfer, _, slippage = charges_of(notional, quantity, False, term)
    return int(notional + (commission + duty + transfer + slippage) * term.cent)  # 100100, 500 are 100600


@compiled
def _notional(price: int, quantity: int, term: Any) -> int:
    """Money for shares, half up to a cent, to a unit for parts: 100100 for 100 at 100100."""
    value, rest = worth_of(price, quantity, term.parts)
    if quantity % term.parts:
        return int(value + (2 * rest >= term.parts))
    return int(in_cents(value, term.unit) * term.cent)


@compiled
def worth_of(price: int, quantity: int, parts: int) -> tuple[int, int]:
    """Units that shares are worth, and parts of one: 200200, 0 for 2 at 100100; 3, 1 for one half at 7."""
    if parts == 1:
        return price * quantity, 0
    whole, some = quantity // parts, quantity % parts
    rest = price % parts * some
    return price * whole + price // parts * some + rest // parts, rest % parts


@compiled
def in_cents(amount: int, unit: int) -> int:
    """Units in cents, half up: 12350 of 10000 are 124."""
    return (amount + unit // 200) // (unit // 100)


@compiled
def largest(unit: int) -> int:
    """The largest amount in cents whose units fit 64 bits, too."""
    return min(LARGEST, MOST // (unit // 100))


@compiled
def charges_of(notional: int, quantity: int, sells: bool, term: Any) -> tuple[int, int, int, int, int]:
    """Commission, duty, transfer fee, what regulators take and slippage of a fill, in cents.

    A sale of 1000000 pays 500 of duty, and in 2024 of 100 shares in the United States 28 and 2.
    """
    regulatory = 0
    if sells:
        regulatory = _up(notional, term.section) + min(term.most, _up(quantity, term.activity))
    return (
        max(term.least, _half_up(notional, term.commission, quantity, term.by_share)),
        _half_up(notional, term.duty if sells else term.bought, 0, 0),
        max(term.face_least, _half_up(notional, term.transfer, quantity, term.of_face)),
        regulatory,
        _half_up(notional, term.slippage, 0, 0),
    )


@compiled
def band_of(before: int, term: Any) -> tuple[int, int]:
    """Upper and lower limit for a previous close, half up to the tick: 110600, 90500 of 100500 at 10 %."""
    tick = term.tick
    upper = (2 * before * term.up + SHARE * tick) // (2 * SHARE * tick) * tick
    lower = (2 * before * term.down + SHARE * tick) // (2 * SHARE * tick) * tick
    if term.one_tick:
        upper, lower = max(upper, before + tick), min(lower, before - tick)
    return upper, max(lower, tick)


@compiled
def _half_up(amount: int, rate: int, more: int, by: int) -> int:
    """``(amount * rate + more * by) / RATE`` half up, 3 of 5 at a half: in floats, corrected in 64 bits."""
    if rate == 0 and by == 0:
        return 0
    found = int(amount * (rate / RATE) + more * (by / RATE))
    rest = 2 * (amount * rate + more * by) + RATE - found * (2 * RATE)
    while rest < 0:
        found, rest = found - 1, rest + 2 * RATE
    while rest >= 2 * RATE:
        found, rest = found + 1, rest - 2 * RATE
    return found


@compiled
def _up(amount: int, rate: int) -> int:
    """``amount * rate / RATE`` rounded up, in the same way: 3 of 5 at a half."""
    if rate == 0:
        return 0
    found = int(amount * (rate / RATE))
    rest = amount * rate - found * RATE
    while rest > 0:
        found, rest = found + 1, rest - RATE
    while rest <= -RATE:
        found, rest = found - 1, rest + RATE
    return found


@compiled
def _floor(amount: int, numerator: int, denominator: int) -> int:
    """``amount * numerator / denominator`` rounded down, in the same way: 3 of 10 * 1 / 3."""
    found = int(float(amount) * float(numerator) / float(denominator))
    rest = amount * numerator - found * denominator
    while rest < 0:
        found, rest = found - 1, rest + denominator
    while rest >= denominator:
        found, rest = found + 1, rest - denominator
    return found


@compiled
def _beyond_limit(  # noqa: PLR0917
    price: int, sells: bool, value: float, limit: float, before: float, term: Any
) -> int:
    """1 for an open at or beyond its limit, a buy at 11.00 of 11.00, or none; 0 within; -1 unknown."""
    if price <= 0:
        return -1 if price else 1
    if 0 < limit < np.inf:
        return int(value <= limit if sells else value >= limit)
    close = _whole(before, term.unit)
    if before != before or term.band == 0:  # noqa: PLR0124 - NaN
        return 0
    if term.band < 0 or close <= 0:
        return -1
    upper, lower = band_of(close, term)
    return int(price <= lower if sells else price >= upper)


@compiled
def _opening(value: float, volume: float, unit: int) -> int:
    """The price of the opening auction, 100100 of 10.01; 0 for none, -1 if unknown here."""
    if value != value:  # noqa: PLR0124 - NaN
        return 0
    price = _whole(value, unit)
    return price if price > 0 and volume != 0 else -1


@compiled
def _last_close(t: int, column: int, market: MarketArrays, state: AccountArrays) -> int:
    """The last close before ``t``, 100100 of 10.01; 0 for none, -1 if it is not valid or went ex since."""
    row = t
    while row >= 0 and np.isnan(market.close[row, column]):
        row -= 1
    for place in range(market.ex_from[max(row, 0)], market.ex_from[t + 1]):
        if market.ex[place] == column:
            return -1
    if row >= 0:
        price = _whole(market.close[row, column], market.unit)
        return price if price > 0 else -1
    if state.past[column] < -1:
        row, place = market.past_rows - 1, market.past_columns[column]
        while place >= 0 and row >= 0 and np.isnan(market.past[row, place]):
            row -= 1
        price = _whole(market.past[row, place], market.unit) if place >= 0 and row >= 0 else 0
        if 0 <= row < market.ex_before[column]:
            price = -1
        state.past[column] = price if price > 0 or place < 0 or row < 0 else -1
    return int(state.past[column])


@compiled
def _whole(value: float, unit: int) -> int:
    """A price in units, 100100 of 10.01; -1 if it is negative, no multiple of one, or above a million."""
    if not 0 <= value <= 1e6:
        return -1
    price = int(value * unit + 0.5)
    return price if price / unit == value else -1


@compiled
def _too_much(price: int, quantity: int, unit: int, parts: int) -> bool:
    worth = float(price) * float(quantity) / parts
    return worth > largest(unit) * (unit // 100) or quantity > MOST  # 10**12 shares at 10001


@compiled
def _has_events(t: int, market: MarketArrays, follows: bool, state: AccountArrays) -> bool:
    """Whether a dividend is paid, or something held has an action, or an ex-date that moves its levels."""
    if t >= state.purse[0].next_pay:
        return True
    for place in range(market.ex_from[t], market.ex_from[t + 1]) if follows else range(0):
        if state.quantity[market.ex[place]] > 0:
            return True
    for place in range(market.events_from[t], market.events_from[t + 1]):
        if state.quantity[market.events[place]] > 0:
            return True
    return False


@compiled
def _marks(t: int, market: MarketArrays, state: AccountArrays, log: BlockLog) -> int:
    """Value what is held, 100 at 10.01, and close the day; the number of missing prices, or -1 to stop."""
    values, held, quantity, carried = market.mark[t + 1], state.held, state.quantity, state.carried
    purse, marks, unpriced, stocks, top = state.purse[0], log.marks, 0, 0, 0
    most = largest(market.unit) * (market.unit // 100)
    for place in range(purse.held):
        column = held[place]
        known = not np.isnan(values[column])
        if known:
            carried[column] = _whole(values[column], market.unit)
        price = carried[column]
        if price < 0 and not known:
            state.unpriced[unpriced] = column
            unpriced += 1
        elif price < 0 or stocks > most or _too_much(price, quantity[column], market.unit, market.parts):
            return -1
        worth, rest = worth_of(price, quantity[column], market.parts)
        worth += 2 * rest >= market.parts
        stocks += worth
        top = max(top, worth)
        mark = marks[purse.marks + place]
        mark.column, mark.price, mark.carried = column, price, not known
    purse.unpriced = unpriced
    if not unpriced:
        if stocks > most:
            return -1
        purse.marks += purse.held
        day = log.days[t]
        day.cash, day.owed, day.stocks, day.largest = purse.cash, purse.owed, stocks, top
        day.held, day.orders, day.marks, day.fine = purse.held, purse.orders, purse.marks, purse.fine
    return unpriced
