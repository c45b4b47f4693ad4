"""A rulebook's terms as whole numbers, and journal lines written from tables of them.

Rates and bands are computed by the rulebook's own methods, for a large fill and a large close. An era is the
time between two days on which any of the dated rules changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, lru_cache, partial
from itertools import compress, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.broker._plan import TradePlan
from quantgraph.broker.blocks._kernel import ADDED, ANY, RATE, RESIZED, SHARE, SIGNAL, TERM, Ints, Table
from quantgraph.broker.ledger._journal import fill_body, marks_body, plain_order
from quantgraph.errors import UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.market.money import ZERO, MainlandFees
from quantgraph.market.rules import MarketCode, load_rules

Kinds = tuple[Ints, tuple[str, ...]]
"""Each symbol's kind, -1 if the rulebook does not know it; and a symbol of each kind."""

_FILL = Decimal(10**12)
_SHARES = 40_000
"""A sale's shares whose activity fee is in whole cents, and below its cap."""
_NO_CAP = 10**12
_CLOSE, _BELOW_ONE = Decimal(10**6), Decimal("0.5")


def counted(rules: Rulebook) -> tuple[int, int]:
    """How many parts a share has, and as how much a cent of money is counted: a million 1e-8 for parts."""
    return (1, 1) if rules.fraction_step == 1 else (int(1 / rules.fraction_step), 10**6)


def exact_rates(rules: Rulebook) -> bool:
    """Whether the broker's rates are multiples of ``1 / RATE``, as amounts and shares are counted."""
    (parts, cent), (rate, by_share) = counted(rules), _commission(rules)
    return not any(
        each * RATE % 1 for each in (rate / cent, by_share / parts, rules.slippage_bps / 10_000 / cent)
    )


def _commission(rules: Rulebook) -> tuple[Decimal, Decimal]:
    """A broker's share of the notional, and its cents for a share."""
    fees = rules.fees
    if fees is None or isinstance(fees, MainlandFees):
        return (fees.commission_rate if fees else ZERO), ZERO
    return fees.commission_bps / 10_000, fees.commission_per_share * 100


@lru_cache(maxsize=8)
def kinds_of(symbols: tuple[str, ...], rules: Rulebook) -> Kinds:
    """Group symbols into kinds with the same rules."""
    places: dict[tuple[str, ...], int] = {}
    examples: list[str] = []
    kinds = np.full(len(symbols), -1, np.int64)
    for column, symbol in enumerate(symbols):
        try:
            key = rules.kind(symbol)
        except UnknownSymbol:
            continue
        if key not in places:
            places[key] = len(examples)
            examples.append(symbol)
        kinds[column] = places[key]
    return kinds, tuple(examples)


def terms_of(
    rules: Rulebook, examples: Sequence[str], sessions: NDArray[np.datetime64], unit: int
) -> tuple[Ints, Table]:
    """Each session's era, counted from 0, and TERM by era and kind, for prices in so many units."""
    changes = np.array(_changes(rules.market), "datetime64[D]")
    eras = np.searchsorted(changes, sessions, side="right").astype(np.int64)
    first, last = int(eras[0]), int(eras[-1])
    terms = np.zeros((last - first + 1, max(1, len(examples))), TERM)
    for era in sorted({*eras.tolist()}):
        for kind, symbol in enumerate(examples):
            terms[era - first, kind] = _term(rules, symbol, era, unit)
    return eras - first, terms


@cache
def _changes(market: MarketCode) -> list[dt.date]:
    return sorted({*_since(load_rules(market))})


def _since(table: Any) -> Iterator[dt.date]:
    if isinstance(table, dict):
        if "since" in table:
            yield table["since"]
        table = list(table.values())
    if isinstance(table, list):
        for part in table:
            yield from _since(part)


@lru_cache(maxsize=1024)
def _term(rules: Rulebook, symbol: str, era: int, unit: int) -> tuple[int, ...]:
    day = _changes(rules.market)[era - 1] if era else dt.date.min
    (parts, cent), lots = counted(rules), rules.lots(symbol, day)
    cap = rules.order_cap(symbol, day, "open") or _NO_CAP
    costs, least, probe, most = (
        rules.charges(symbol, "sell", shares, amount, day)
        for shares, amount in ((0, _FILL), (0, ZERO), (_SHARES, ZERO), (_NO_CAP, ZERO))
    )
    bought = rules.charges(symbol, "buy", 0, _FILL, day)
    commission, by_share = _commission(rules)
    duties = costs.stamp_duty / _FILL, bought.stamp_duty / _FILL
    # Until 2015 the transfer fee was by shares: 0.001 a share of Shanghai, at least 1.00.
    transfer = costs.transfer_fee / _FILL, most.transfer_fee / _NO_CAP * 100
    if costs.transfer_fee == least.transfer_fee:
        transfer = ZERO, transfer[1]
    section, activity = costs.regulatory / _FILL, probe.regulatory / _SHARES * 100
    of_money, of_shares = RATE // cent, Decimal(RATE) / parts
    return (
        *(unit, parts, cent, int(lots.first * parts), int(lots.step * parts), min(cap * parts, ANY)),
        *(rules.t_plus(symbol, day), int(least.commission * 100)),
        *(int(commission * of_money), int(by_share * of_shares), *(int(part * of_money) for part in duties)),
        *(int(transfer[0] * of_money), int(transfer[1] * of_shares), int(least.transfer_fee * 100)),
        *(int(section * of_money), int(activity * of_shares), int(most.regulatory * 100)),
        int(costs.slippage / _FILL * of_money),
        *_band(rules, symbol, day, unit),
    )


def _band(rules: Rulebook, symbol: str, day: dt.date, unit: int) -> tuple[int, int, int, int, int, int]:
    """The band and ticks of TERM for a symbol without a special status."""
    tick, fine = rules.tick(symbol, day, _CLOSE), rules.tick(symbol, day, _BELOW_ONE)
    ticks = int(tick * unit), int(fine * unit)
    band, smallest = rules.limits(symbol, day, _CLOSE), rules.limits(symbol, day, tick)
    if band is None or smallest is None:
        return 0, 0, 0, *ticks, 0
    up, down = (int(limit / _CLOSE * SHARE) for limit in band)
    # Ten percent of one tick round to 0, unless limits are at least one tick away.
    return 1, up, down, *ticks, int(smallest[0] > tick)


CHARGES = ("commission", "duty", "transfer", "regulatory", "slippage")


def reasons_of(plan: TradePlan) -> dict[tuple[int, int], str]:
    """Why :class:`~quantgraph.agents.SignalRule` sends orders, by their kind and whether they sell."""
    resized = dict.fromkeys([(RESIZED, 0), (RESIZED, 1)], "rebalance")
    return {(SIGNAL, 0): "signal 1", (SIGNAL, 1): "signal -1", (ADDED, 0): plan.addition_reason, **resized}


def fill_texts(  # noqa: PLR0917
    orders: Table,
    symbols: Sequence[str],
    unit: int,
    reasons: Mapping[Any, str],
    parts: int = 1,
    cent: int = 1,
) -> list[str]:
    """The body of each fill with one of the reasons, an empty text for another order."""
    plain = [orders[name].tolist() for name in ("filled", "kind", "sells", "column", "sequence")]
    numbers = [
        _texts(orders[name], partial(_number, of)) for name, of in (("quantity", parts), ("price", unit))
    ]
    money = [_texts(orders[name], _money) for name in CHARGES]
    notional = _texts(orders["notional"] // cent, _money)
    for place in np.flatnonzero(orders["quantity"] % parts).tolist():
        notional[place] = str(Decimal(int(orders["notional"][place])).scaleb(-8))
    cells = zip(*plain, *numbers, orders["t_plus"].tolist(), notional, *money, strict=True)
    found = []
    for filled, kind, sells, column, sequence, quantity, price, t_plus, notional, *charges in cells:
        side, reason = "sell" if sells else "buy", reasons.get((kind, sells)) if filled else None
        order = plain_order(sequence, symbols[column], side, quantity, reason) if reason else ""
        found.append(order and fill_body(order, side, quantity, price, notional, charges, t_plus))
    return found


def _texts(numbers: Ints, text_of: Callable[[int], str]) -> list[str]:
    """The text of each number, made once for all that are equal."""
    different, places = np.unique(numbers, return_inverse=True)
    texts = [text_of(each) for each in different.tolist()]
    return [texts[place] for place in places.tolist()]


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def _number(of: int, number: int) -> str:
    whole, rest = divmod(number, of)
    return f"{whole}.{of + rest}".replace(".1", ".", 1).rstrip("0") if rest else str(whole)


def mark_texts(marks: Table, day_ends: Ints, symbols: Sequence[str], unit: int) -> list[str]:
    """The body of each day's marks, which are from ``day_ends[t]`` to ``day_ends[t + 1]``."""
    names = [symbols[column] for column in marks["column"].tolist()]
    prices, carried = (marks["price"] / unit).tolist(), marks["carried"].tolist()
    return [
        marks_body(
            dict(zip(names[begin:end], prices[begin:end], strict=True)),
            list(compress(names[begin:end], carried[begin:end])),
        )
        for begin, end in pairwise(day_ends.tolist())
    ]
