"""What the formulas of ``nodes.csv`` call, in pandas, on frames of own sessions.

A frame of own sessions has the sessions on which a security traded moved to the top of its column, so that a
window counts them alone. Truth is 1, 0, or NaN where it is unknown. A cell has the source of the functions
that it uses: each may use ``np``, ``pd``, ``talib`` and other functions of this module, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import talib  # noqa: F401 - formulas name its functions

Frame = Any
"""A pandas.DataFrame; beside another one it may be a number."""


def own_sessions(frame: Frame, traded: Frame) -> Frame:
    """Each column's own sessions, moved to the top."""
    at, top = places_of(traded)
    values, moved = frame.reindex_like(traded).to_numpy(dtype=np.float64), np.full(at.shape, np.nan)
    moved.T[top.T] = values.T[at.T]
    return pd.DataFrame(moved, columns=traded.columns)


def on_calendar(frame: Frame, traded: Frame) -> Frame:
    """A frame of own sessions on the sessions that they are."""
    at, top = places_of(traded)
    values = np.full(at.shape, np.nan)
    values.T[at.T] = frame.to_numpy(dtype=np.float64).T[top.T]
    return pd.DataFrame(values, index=traded.index, columns=traded.columns)


def places_of(traded: Frame) -> tuple[Any, Any]:
    """Where securities traded, on the calendar and at the top of their columns."""
    at = traded.to_numpy()
    return at, np.arange(len(at))[:, None] < at.sum(axis=0)


def across(function: Callable[[Frame], Frame], x: Frame, traded: Frame) -> Frame:
    """A function of all securities' values on each session."""
    return own_sessions(function(on_calendar(x, traded)), traded)


def by_session(values: Any, traded: Frame) -> Frame:
    """What is so on a session, for every security."""
    row = pd.Series(values, index=traded.index).to_numpy(dtype=np.float64)[:, None]
    return own_sessions(pd.DataFrame(row + np.zeros(traded.shape), traded.index, traded.columns), traded)


def factor_of(snapshot: Any) -> Frame:
    """What each session's prices are multiplied with, so that they compare over ex-dates, 1 on the first.

    Where nothing says how to adjust, the last factor holds. The last digits are dropped: they would depend on
    the session to which a snapshot adjusts.
    """
    close = snapshot["ohlcv"]["close"]
    try:
        ratio = snapshot.adjusted("close") / close
    except KeyError:  # the data have nothing to adjust by
        ratio = close / close
    return (ratio / ratio.bfill().iloc[0]).ffill().fillna(1.0).round(10)


def signal_of(entry: Frame, leave: Frame, traded: Frame) -> Frame:
    """1 where the entry holds, -1 where the exit does, 0 where neither; else unknown."""
    return on_calendar(entry.where(leave == 0).mask(leave == 1, -1.0), traded)


def greater(one: Frame, other: Frame) -> Frame:
    """Where one is above the other; equal but for rounding is equal, beside numbers to a billionth."""
    a, b = (np.asarray(each, dtype=np.float64) for each in (one, other))
    size = np.abs(b) if a.ndim and b.ndim else max(1.0, abs(float(a if b.ndim else b)))
    apart, like = a - b, one if a.ndim else other
    return pd.DataFrame(np.where(np.isnan(apart), np.nan, apart > 1e-9 * size), columns=like.columns)


def at_least(one: Frame, other: Frame) -> Frame:
    """Where one is above the other or equal."""
    return negated(greater(other, one))


def equal(one: Frame, other: Frame) -> Frame:
    """Where one equals the other."""
    return both(at_least(one, other), at_least(other, one))


def both(one: Frame, other: Frame) -> Frame:
    """Where both hold: a part that does not hold is enough to know."""
    a, b = one.to_numpy(), other.to_numpy()
    return pd.DataFrame(np.where((a == 0) | (b == 0), 0.0, a * b), columns=one.columns)


def either(one: Frame, other: Frame) -> Frame:
    """Where at least one holds: a part that holds is enough to know."""
    return negated(both(negated(one), negated(other)))


def negated(truth: Frame) -> Frame:
    """Where it does not hold; the unknown stays unknown."""
    return 1 - truth


def divided(one: Frame, other: Frame) -> Frame:
    """A quotient, unknown over zero."""
    return (one / other).replace([np.inf, -np.inf], np.nan)


def cross_up(one: Frame, other: Frame) -> Frame:
    """Where one is above the other and was not on the session before; a number is always the same."""
    before = [x.shift(1) if isinstance(x, pd.DataFrame) else x for x in (one, other)]
    return both(greater(one, other), negated(greater(*before)))


def ema(x: Frame, n: int) -> Frame:
    """Recursive mean with weight 2 / (n + 1), from the first value on; known from the n-th on."""
    return x.ewm(span=n, adjust=False, min_periods=n, ignore_na=True).mean().where(x.notna())


def slope(x: Frame, n: int) -> Frame:
    """Slope of the least-squares line through ``n`` sessions, a session."""
    at, made = np.arange(n) - (n - 1) / 2, np.full(x.shape, np.nan)
    if len(x) >= n:
        windows = np.lib.stride_tricks.sliding_window_view(x.to_numpy(), n, axis=0)
        made[n - 1 :] = windows @ (at / (float(at @ at) or 1.0))
    return pd.DataFrame(made, columns=x.columns)


def percentile(x: Frame, n: int) -> Frame:
    """The percent of ``n`` sessions, today among them, that are not above today."""
    return 100 * sum(at_least(x, x.shift(i)) for i in range(n)) / n


def since(truth: Frame) -> Frame:
    """Sessions since it last held, 0 today; unknown before."""
    at = truth.fillna(0.0) * 0 + np.arange(len(truth))[:, None]
    return at - at.where(truth == 1).ffill()


def first_after(truth: Frame, start: Frame) -> Frame:
    """Where it holds for the first time after the session on which ``start`` last held before."""
    so_far = truth.fillna(0.0).cumsum()
    before = so_far.where(start == 1).ffill().shift(1)
    return ((truth == 1) & (so_far - before == 1)).astype(float).where(truth.notna() & before.notna())


def by_column(function: Callable[..., Any], frames: Sequence[Frame], *options: float) -> Frame:
    """A function of arrays on the sessions of each column on which all of its frames are known."""
    values = [frame.to_numpy(dtype=np.float64) for frame in frames]
    known, made = ~np.isnan(sum(values)), np.full(frames[0].shape, np.nan)
    for column in np.flatnonzero(known.any(axis=0)):
        rows = known[:, column]
        columns = (np.ascontiguousarray(each[rows, column]) for each in values)
        made[rows, column] = function(*columns, *options)
    return pd.DataFrame(made, columns=frames[0].columns)


def stochastic(high: Frame, low: Frame, close: Frame, n: int) -> Frame:
    """Where the close is between the lowest low and the highest high of ``n`` sessions, 0 to 100."""
    floor = low.rolling(n).min()
    return 100 * divided(close - floor, high.rolling(n).max() - floor)


def from_50(x: Frame, n: int) -> Frame:
    """New = old + (value - old) / n, from 50 on, as Chinese software smooths KDJ."""

    def smoothed(values: Any) -> Any:
        return pd.Series(np.append(50.0, values)).ewm(alpha=1 / n, adjust=False).mean().to_numpy()[1:]

    return by_column(smoothed, [x])
