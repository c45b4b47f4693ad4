"""Prices before a view's session in terms of today's shares: adjusted for splits, not for dividends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.market.actions import CorporateAction
from quantgraph.state import View
from quantgraph.state.frames import FrozenFrame

_RECENT = 30
_DAY = pd.Timedelta(days=1)


class Splits:
    """The splits known at a moment."""

    def __init__(self, actions: Iterable[CorporateAction], today: pd.Timestamp) -> None:
        self._today = today
        self._of: defaultdict[str, list[tuple[pd.Timestamp, float]]] = defaultdict(list)
        for action in actions:
            if action.ratio != 1:
                self._of[action.symbol].append((action.ex, float(action.ratio)))

    def shares_today(self, symbol: str, day: pd.Timestamp) -> float:
        """Shares today for one share at the end of a day, past or future."""
        shares = 1.0
        for ex, ratio in self._of.get(symbol, ()):
            if day < ex <= self._today:
                shares *= ratio
            elif self._today < ex <= day:
                shares /= ratio
        return shares

    def per_share(self, dividend: CorporateAction) -> float:
        """Cash of a dividend per share of today: it is declared per share before a split of its ex-date."""
        return float(dividend.cash) / self.shares_today(dividend.symbol, dividend.ex - _DAY)

    def adjust(
        self, prices: NDArray[np.float64], symbols: Sequence[str], days: NDArray[np.datetime64]
    ) -> NDArray[np.float64]:
        """Past prices per share of today; ``prices`` has shape (days, symbols) and is not changed."""
        changed = None
        for column, symbol in enumerate(symbols):
            for ex, ratio in self._of.get(symbol, ()):
                before = int(np.searchsorted(days, ex.to_datetime64())) if ex <= self._today else 0
                if before:
                    changed = prices.copy() if changed is None else changed
                    changed[:before, column] /= ratio
        return prices if changed is None else changed


def closes_before(view: View, symbols: Sequence[str], count: int, splits: Splits) -> dict[str, list[float]]:
    """The last ``count`` closes of each symbol before the view's session, oldest first.

    Those of the last 30 sessions count, so a symbol that is suspended for longer has none.
    """
    frame = view["ohlcv"].frozen("close")
    rows = _rows_before(view, frame, _RECENT)
    closes = frame.rows(rows, frame.positions(tuple(symbols)))
    closes = splits.adjust(closes, symbols, frame.sessions[rows])
    known = ~np.isnan(closes)
    columns = enumerate(symbols)
    return {symbol: closes[known[:, column], column][-count:].tolist() for column, symbol in columns}


def high_low_before(
    view: View, symbols: Sequence[str], count: int, splits: Splits
) -> dict[str, tuple[float, float] | None]:
    """Highest high and lowest low of each symbol in the ``count`` sessions before the view's session.

    None where the data has fewer sessions, or no price of the symbol at their beginning or before.
    """
    panel = view["ohlcv"]
    if not {"high", "low"} <= set(panel):
        return dict.fromkeys(symbols)
    high, low = panel.frozen("high"), panel.frozen("low")
    rows, low_rows = _rows_before(view, high, count), _rows_before(view, low, count)
    if min(rows.stop - rows.start, low_rows.stop - low_rows.start) < count:
        return dict.fromkeys(symbols)
    names = tuple(symbols)
    highs = splits.adjust(high.rows(rows, high.positions(names)), names, high.sessions[rows])
    lows = splits.adjust(low.rows(low_rows, low.positions(names)), names, low.sessions[low_rows])
    top, bottom = np.fmax.reduce(highs), np.fmin.reduce(lows)
    known = _is_listed(high, rows.start, names) & ~np.isnan(top) & ~np.isnan(bottom)
    pairs = zip(names, known.tolist(), top.tolist(), bottom.tolist(), strict=True)
    return {symbol: (most, least) if is_known else None for symbol, is_known, most, least in pairs}


def _rows_before(view: View, frame: FrozenFrame, count: int) -> slice:
    end = int(np.searchsorted(frame.sessions, view.moment.session.to_datetime64()))
    return slice(max(0, end - count), end)


def _is_listed(frame: FrozenFrame, first: int, symbols: tuple[str, ...]) -> NDArray[np.bool_]:
    """Whether each symbol has a number in row ``first``, or before it."""
    places = frame.positions(symbols)
    listed: NDArray[np.bool_] = ~np.isnan(frame.rows(slice(first, first + 1), places)[0])
    if not listed.all():
        listed = np.any(~np.isnan(frame.rows(slice(first + 1), places)), axis=0)
    return listed
