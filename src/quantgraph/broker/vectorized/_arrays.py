"""Arrays and tables of whole numbers for the compiled code, and its compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
MORNING, ORDERS, MARKS = range(3)
"""Phases of a session."""

LARGEST = 10**14
"""Largest amount in cents: its products with the scales below can be corrected in 64 bits."""
RATE = 10**14
"""Scale of the rates of charges."""
SHARE = 10**8
"""Scale of price limits as shares of the previous close."""


def _table(names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names.split()])


TERM = _table(
    "known first step cap t_plus least commission duty transfer slippage band up down tick one_tick"
)
"""Terms of a kind of symbol: whether they are known; lots, size cap, T+n; the least commission in cents and
rates over RATE; whether there is a band (-1: unknown), its limits as shares of the previous close over SHARE,
the tick in 1e-4, and whether limits are at least one tick away."""

ORDER = _table(
    "column sells quantity cash filled price notional commission duty transfer slippage t_plus profit"
)
"""An order: ``cash`` is the cash before it; the fields after ``filled`` are of a fill, ``profit`` (proceeds
less the cost of the shares) of a sale."""

MARK = _table("column price carried")
DAY = _table("cash owed stocks largest held orders marks")
"""The account at a session's end; ``orders`` and ``marks`` are counts up to then."""

PURSE = _table("cash owed held orders marks unpriced next_pay")
"""Cash and dividends that are owed; counts of holdings, of logged orders and marks, and of holdings without a
price; the session of the next payment."""


class MarketArrays(NamedTuple):
    """S sessions of N symbols. Panels have S + 1 rows, the first for the session before; NaN without data.

    Attributes
    ----------
    open, mark, close, upper, lower, before, volume, signal
        Shape (S + 1, N); ``before`` is ``pre_close``.
    past, past_columns, past_rows
        All closes, each symbol's column in them (-1 for none), and the rows before the panels begin.
    ex_before
        Number of their rows before each symbol's last ex-date before the sessions, 0 without one.
    rank
        Place of each symbol in ascending order.
    kind, era, terms
        Each symbol's kind (-1: unknown board), each session's era, and TERM by era and kind.
    entries, stop
        Whether a session's row of the signal may open positions, and whether it needs the fallback.
    events, events_from, ex, ex_from
        Columns with a corporate action on a session's morning, and columns whose carried price changes: those
        of session t are from ``..._from[t]`` to ``..._from[t + 1]``.
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
        Weight of each symbol, 0 for equal weights; -1 for a symbol that is not bought.
    enough
        Equity in 1e-4 above which tickets no longer depend on it.
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
    """The account by column, and work space.

    Attributes
    ----------
    carried
        Last price for marks, adjusted for corporate actions; -1 if unknown.
    past
        Last close before the panels begin; 0 for none, -1 if it is not a valid price, -2 if not read yet.
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
    candidates: Ints
    tickets: Ints
    unpriced: Ints


class BlockLog(NamedTuple):
    """Orders, marks and days of a run; ``orders`` and ``marks`` have room for the most there can be."""

    orders: Table
    marks: Table
    days: Table
