"""What the compiled code works on: tables of whole numbers, and what they are grouped in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = [
    "DAY",
    "DONE",
    "EVENTS",
    "LARGEST",
    "MARK",
    "MARKS",
    "MORNING",
    "ORDER",
    "ORDERS",
    "PRICES",
    "PURSE",
    "RATE",
    "SHARE",
    "STOPPED",
    "TERM",
    "AccountArrays",
    "BlockLog",
    "Flags",
    "Floats",
    "Ints",
    "MarketArrays",
    "RuleArrays",
    "Table",
    "compiled",
]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile a function when it is first called, and keep the result beside its file or in the user's cache.

    Where neither can be written, each process compiles anew. Integers wrap at 64 bits. The cache is
    renewed when the function's own file changes: what it calls has to stand there, and who changes a constant
    that it takes from another file has to touch its file, too.
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
"""Why a run returns: the end, a session for the desk, corporate actions, carried prices are wanted."""
MORNING, ORDERS, MARKS = range(3)
"""Phases of a session."""

LARGEST = 10**14
"""Largest amount in cents: products of it with the numbers below stay where they can be put right."""
RATE = 10**14
"""Rates of charges are whole numbers over this."""
SHARE = 10**8
"""Shares of the previous close are whole numbers over this."""


def _table(names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names.split()])


TERM = _table(
    "known first step cap t_plus least commission duty transfer slippage band up down tick one_tick"
)
"""What holds for a kind of symbol: whether anything is known; lots, size cap, day of resale; the least
commission in cents and rates over RATE; whether there is a band (-1: not known), its limits as shares of the
previous close over SHARE, the tick in 1e-4, and whether limits are at least one tick away."""

ORDER = _table(
    "column sells quantity cash filled price notional commission duty transfer slippage t_plus profit"
)
"""An order: ``cash`` is what was there before it; what follows ``filled`` holds for a fill alone, ``profit``
(beyond what the shares had cost) for a sale."""

MARK = _table("column price carried")
DAY = _table("cash owed stocks largest held orders marks")
"""The account at a session's end; ``orders`` and ``marks`` are how many there are up to it."""

PURSE = _table("cash owed held orders marks asked next_pay")
"""Cash and dividends on their way; how many symbols are held, how many orders and marks are logged, how many
prices are asked for; the session of the next payment."""


class MarketArrays(NamedTuple):
    """S sessions of N symbols; panels have a row more, the session before.

    What the data does not have is NaN in them.

    Attributes
    ----------
    open, mark, close, upper, lower, before, volume, signal
        Shape (S + 1, N); ``before`` is ``pre_close``.
    past, past_columns, past_rows
        All closes, each symbol's column in them (-1 for none), and the rows before the panels begin.
    ex_before
        How many of their rows lie before each symbol's last ex-date before the sessions, 0 without one.
    rank
        Place of each symbol in ascending order.
    kind, era, terms
        Each symbol's kind (-1: on no board), each session's era, and TERM by era and kind.
    entries, stop
        Whether a session's row of the signal may open positions, and whether it is one for the desk.
    events, events_from, ex, ex_from
        Columns with a corporate action to be done in a session's morning, and columns whose carried price it
        changes: those of session t stand from ``..._from[t]`` to ``..._from[t + 1]``.
    """

    open: Floats
    mark: Floats
    close: Floats
    upper: Floats
    lower: Floats
    before: Floats
    volume: Floats
    signal: Floats
    past: Floats
    past_columns: Ints
    past_rows: int
    ex_before: Ints
    rank: Ints
    kind: Ints
    era: Ints
    terms: Table
    entries: Flags
    stop: Flags
    events: Ints
    events_from: Ints
    ex: Ints
    ex_from: Ints


class RuleArrays(NamedTuple):
    """A :class:`~quantgraph.broker.BlockRule` in whole numbers; -1 is None, fractions are in two parts.

    Attributes
    ----------
    share, share_of
        Weight of each symbol, 0 where all are alike; -1 for one that is not bought.
    enough
        Worth in 1e-4 from which on more of it changes no ticket.
    """

    trades: bool
    max_positions: int
    ticket: int
    invested: int
    invested_of: int
    most: int
    most_of: int
    weighted: bool
    share: Ints
    share_of: Ints
    enough: int


class AccountArrays(NamedTuple):
    """The account by column, and room to work in.

    Attributes
    ----------
    carried
        Last price for marks, corporate actions taken off; -1 where it has to be asked for.
    past
        Last close before the panels begin, 0 for none, -1 where it is no price, -2 where nobody looked yet.
    entered, cost
        Session of the block in which what is held was bought, -1 for earlier, and what was paid for it.
    held
        Columns of what is held, in ascending order of symbol.
    """

    purse: Table
    quantity: Ints
    opinion: Ints
    carried: Ints
    past: Ints
    entered: Ints
    cost: Ints
    held: Ints
    wanted: Ints
    tickets: Ints
    asked: Ints


class BlockLog(NamedTuple):
    """What happened; ``orders`` and ``marks`` have room for all that can."""

    orders: Table
    marks: Table
    days: Table
