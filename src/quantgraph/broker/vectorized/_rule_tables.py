"""A rulebook's terms as whole numbers, by kind of symbol and era.

Rates and bands are computed by the rulebook's own methods, for a large fill and a large close. An era is the
time between two days on which any of the dated rules changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quantgraph.broker.vectorized._arrays import RATE, SHARE, TERM, Ints, Table
from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.boards import exchange_of, fund_kind
from quantgraph.market.dated_rules import load_rules
from quantgraph.market.fees import MainlandFees
from quantgraph.market.money import ZERO, money
from quantgraph.market.rulebook import Rulebook

Kinds = tuple[Ints, tuple[str, ...]]
"""Each symbol's kind, -1 if the rulebook does not know it; and a symbol of each kind."""

_FILL = Decimal(10**12)
_CLOSE = Decimal(10**6)
_UNITS = 10**4


def exact_rates(rules: Rulebook) -> bool:
    """Whether the fees are of a known type, with rates that are multiples of ``1 / RATE``."""
    fees = rules.fees
    rate = fees.commission_rate if isinstance(fees, MainlandFees) else Decimal(0)
    known = fees is None or isinstance(fees, MainlandFees)
    return known and rate * RATE % 1 == 0 and rules.slippage_bps / 10_000 * RATE % 1 == 0


@lru_cache(maxsize=8)
def kinds_of(symbols: tuple[str, ...], rules: Rulebook) -> Kinds:
    """Group symbols into kinds with the same rules."""
    places: dict[tuple[str, ...], int] = {}
    examples: list[str] = []
    kinds = np.full(len(symbols), -1, np.int64)
    funds = dict(rules.funds)
    for column, symbol in enumerate(symbols):
        try:
            board = rules.board(symbol)
            kind = (funds.get(symbol) or fund_kind(symbol)) if board == "fund" else ""
        except UnknownSymbol:
            continue
        key = (board, exchange_of(symbol), kind)
        if key not in places:
            places[key] = len(examples)
            examples.append(symbol)
        kinds[column] = places[key]
    return kinds, tuple(examples)


def terms_of(
    rules: Rulebook, examples: Sequence[str], sessions: NDArray[np.datetime64]
) -> tuple[Ints, Table]:
    """Each session's era, counted from 0, and TERM by era and kind."""
    eras = np.searchsorted(np.array(_changes(), "datetime64[D]"), sessions, side="right").astype(np.int64)
    first, last = int(eras[0]), int(eras[-1])
    terms = np.zeros((last - first + 1, max(1, len(examples))), TERM)
    for era in sorted({*eras.tolist()}):
        for kind, symbol in enumerate(examples):
            terms[era - first, kind] = _term(rules, symbol, era)
    return eras - first, terms


@cache
def _changes() -> list[dt.date]:
    return sorted({*_since(load_rules("cn"))})


def _since(table: Any) -> Iterator[dt.date]:
    if isinstance(table, dict):
        if "since" in table:
            yield table["since"]
        table = list(table.values())
    if isinstance(table, list):
        for part in table:
            yield from _since(part)


@lru_cache(maxsize=1024)
def _term(rules: Rulebook, symbol: str, era: int) -> tuple[int, ...]:
    day = _changes()[era - 1] if era else dt.date.min
    try:
        lots, cap = rules.lots(symbol, day), rules.order_cap(symbol, day, "open")
        costs = rules.charges(symbol, "sell", 1, _FILL, day)
        least = rules.charges(symbol, "sell", 1, ZERO, day).commission
        t_plus = rules.t_plus(symbol, day)
    except BadWindow:
        return (0,) * len(TERM.names or ())
    if cap is None or cap % lots.step or cap < lots.first:
        return (0,) * len(TERM.names or ())
    rate = rules.fees.commission_rate if isinstance(rules.fees, MainlandFees) else Decimal(0)
    rates = [rate, *(part / _FILL for part in (costs.stamp_duty, costs.transfer_fee, costs.slippage))]
    return (
        1,
        int(lots.first),
        int(lots.step),
        cap,
        t_plus,
        int(least * 100),
        *(int(part * RATE) for part in rates),
        *_band(rules, symbol, day),
    )


def _band(rules: Rulebook, symbol: str, day: dt.date) -> tuple[int, int, int, int, int]:
    """The band fields of TERM for a symbol without a special status; -1 if the rulebook has none."""
    try:
        tick = rules.tick(symbol, day, _CLOSE)
        band, smallest = rules.limits(symbol, day, _CLOSE), rules.limits(symbol, day, tick)
    except (BadOption, BadWindow):
        return -1, 0, 0, 1, 0
    if band is None or smallest is None:
        return 0, 0, 0, 1, 0
    up, down = (int(limit / _CLOSE * SHARE) for limit in band)
    # Ten percent of one tick round to 0, unless limits are at least one tick away.
    return 1, up, down, int(money(tick * _UNITS)), int(smallest[0] > tick)
