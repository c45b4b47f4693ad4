"""Where to cut a panel: at sessions where a leak would show."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit.causality._signal_comparison import Bools
from quantgraph.state.frames import Dates, Floats

__all__ = ["secret_cuts", "symbol_cuts"]

Rows = NDArray[np.int64]


def secret_cuts(
    signal: Floats, close: Floats, sessions: Dates, *, count: int, seed: int
) -> tuple[tuple[int, ...], int]:
    """Rows after which to cut, ``count`` of them, ascending; and how many are drawn from all alike.

    The last row is none of them: cut after it the panel is whole.

    Every other one is drawn: no code can stay away from those. The rest are aimed, spread over the kinds of
    places where leaks show: sessions in which a signal changes and those before; inside the gaps of a symbol
    (NaN between prices) and their last session; ends of months, quarters and years; first and last rows with
    a price.

    Parameters
    ----------
    signal, close
        (T, N), on ``sessions`` (T,); NaN for no opinion and no price.
    seed
        Equal seeds give equal cuts.
    """
    total, rng = len(sessions), np.random.default_rng(seed)
    if count >= total:
        return tuple(range(total)), total
    drawn = (count + 1) // 2
    taken = dict.fromkeys(rng.choice(total - 1, drawn, replace=False).tolist())
    places = (*_kinds(signal, close, sessions), np.arange(total))
    kinds = [iter(_shuffled(rows[rows < total - 1], rng)) for rows in places]
    while len(taken) < count:
        for rows in kinds:
            fresh = next((row for row in rows if row not in taken), None)
            if fresh is not None and len(taken) < count:
                taken[fresh] = None
    return tuple(sorted(taken)), drawn


def _kinds(signal: Floats, close: Floats, sessions: Dates) -> Iterable[Rows]:
    change, gap = changes(signal), gaps(close)
    yield _rows(change)
    yield _rows(_before(change))
    yield _rows(gap & _before(gap))
    yield _rows(gap & ~_before(gap))
    days = pd.DatetimeIndex(sessions)
    for part in (days.month, days.quarter, days.year):
        number = part.to_numpy()
        yield np.flatnonzero(number[:-1] != number[1:])
    priced = ~np.isnan(close)
    first = priced.argmax(axis=0)[priced.any(axis=0)]
    last = len(close) - 1 - priced[::-1].argmax(axis=0)[priced.any(axis=0)]
    yield np.unique(first)
    yield np.unique(last)


def symbol_cuts(signal: Floats, close: Floats, *, count: int, seed: int) -> Rows:
    """Rows after which to cut each symbol: (count, N), aimed at where its own signal and its gaps are."""
    rng = np.random.default_rng(seed)
    change, gap = changes(signal), gaps(close)
    places = np.stack([change, _before(change), gap & ~_before(gap), gap, np.ones_like(gap)])
    cuts = np.empty((count, signal.shape[1]), dtype=np.int64)
    for column in range(signal.shape[1]):
        kinds = [rows for kind in places if len(rows := np.flatnonzero(kind[:-1, column]))] or [
            np.zeros(1, int)
        ]
        cuts[:, column] = [rng.choice(kinds[number % len(kinds)]) for number in range(count)]
    return cuts


def changes(signal: Floats) -> Bools:
    """Where a signal (T, N) is an opinion and another one than in the row before."""
    before = np.vstack([np.full((1, signal.shape[1]), np.nan), signal[:-1]])
    return np.asarray((np.nan_to_num(signal) != 0) & (signal != before))


def gaps(close: Floats) -> Bools:
    """Where a price (T, N) is missing between two that are there."""
    priced = ~np.isnan(close)
    begun = np.logical_or.accumulate(priced, axis=0)
    goes_on = np.logical_or.accumulate(priced[::-1], axis=0)[::-1]
    return np.asarray(~priced & begun & goes_on)


def _before(marked: Bools) -> Bools:
    return np.vstack([marked[1:], np.zeros((1, marked.shape[1]), dtype=bool)])


def _rows(marked: Bools) -> Rows:
    return np.flatnonzero(marked.any(axis=1))


def _shuffled(rows: Rows, rng: np.random.Generator) -> list[int]:
    """All of them: first a tenth of the range each, so that few are spread as well."""
    parts = [list(rng.permutation(part)) for part in np.array_split(rows, 10)]
    order = rng.permutation(10)
    longest = max(map(len, parts), default=0)
    return [
        int(parts[number][turn]) for turn in range(longest) for number in order if turn < len(parts[number])
    ]
