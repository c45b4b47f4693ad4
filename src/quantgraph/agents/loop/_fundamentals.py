"""Fundamentals as known at a moment: from bars, filings, declared dividends and daily indicators.

A value is None where it is not known. The currency is that of the market.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.values import finite_number
from quantgraph.market.actions import CorporateAction
from quantgraph.state import Record, View
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
        prices = prices.copy()
        for column, symbol in enumerate(symbols):
            for ex, ratio in self._of.get(symbol, ()):
                if ex <= self._today:
                    prices[days < ex.to_datetime64(), column] /= ratio
        return prices


def closes_before(view: View, symbols: Sequence[str], count: int, splits: Splits) -> dict[str, list[float]]:
    """The last ``count`` closes of each symbol before the view's session, oldest first.

    Those of the last 30 sessions count, so a symbol that is suspended for longer has none.
    """
    frame = view["ohlcv"].frozen("close")
    rows = _rows_before(view, frame, _RECENT)
    closes = _adjusted(frame, rows, symbols, splits)
    known = ~np.isnan(closes)
    columns = enumerate(symbols)
    return {symbol: closes[known[:, column], column][-count:].tolist() for column, symbol in columns}


def _adjusted(frame: FrozenFrame, rows: slice, symbols: Sequence[str], splits: Splits) -> NDArray[np.float64]:
    prices = frame.rows(rows, frame.positions(tuple(symbols)))
    return splits.adjust(prices, symbols, frame.sessions[rows])


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
    top = np.fmax.reduce(_adjusted(high, rows, symbols, splits))
    bottom = np.fmin.reduce(_adjusted(low, low_rows, symbols, splits))
    begun = ~np.isnan(high.rows(slice(rows.start + 1), high.positions(tuple(symbols))))
    known = np.any(begun, axis=0) & ~np.isnan(top) & ~np.isnan(bottom)
    pairs = zip(symbols, known.tolist(), top.tolist(), bottom.tolist(), strict=True)
    return {symbol: (most, least) if is_known else None for symbol, is_known, most, least in pairs}


def _rows_before(view: View, frame: FrozenFrame, count: int) -> slice:
    end = int(np.searchsorted(frame.sessions, view.moment.session.to_datetime64()))
    return slice(max(0, end - count), end)


FUNDAMENTALS = (
    "market_cap",
    "pe_ratio",
    "dividend_yield",
    "week_52_high",
    "week_52_low",
    "quarterly_dividend",
)

_YEAR = pd.Timedelta(days=365)
_YEAR_OF_SESSIONS = 252
_FILINGS = 12
"""Filings that are looked at, about three years."""
_QUARTERS = 4
_SHORTEST_QUARTER, _LONGEST_QUARTER = timedelta(days=70), timedelta(days=120)
_LARGEST_GAP = timedelta(days=7)
_OLDEST_QUARTER = timedelta(days=200)
"""By then the next quarter is filed: it is over after 98 days at most, and a 10-K is due 90 days later."""
_SLIP = 10.0
"""Filed shares that differ by this factor from net income over earnings per share are in another unit."""
_SMALLEST_EPS = 0.05
_OF_SHARES = ("basic_average_shares", "diluted_average_shares", "net_income_loss", "basic_earnings_per_share")
_TEN_THOUSAND = 10_000  # total_mv of tushare's daily_basic is in 10,000 CNY
_INDICATOR_ROWS = 5


@dataclass(frozen=True, kw_only=True)
class _Filing:
    """What a filing says; None where it says nothing that can be used.

    ``day`` is the one on which it became known, ``span`` has the first and the last day of its quarter.
    """

    day: pd.Timestamp | None
    span: tuple[date, date] | None
    diluted_eps: float | None
    shares: float | None


def fundamental_data(view: View, symbols: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """Fundamentals by symbol, with the fields :data:`FUNDAMENTALS`.

    ``week_52_high`` and ``week_52_low`` are those of the 252 sessions before the view's.
    ``dividend_yield`` is what went ex within 365 days in percent of the last close, None if the data does
    not reach back so far.
    """
    names, today = tuple(symbols), view.moment.session
    actions = _known_actions(view)
    splits = Splits(actions, today)
    closes = closes_before(view, names, 1, splits)
    spans = high_low_before(view, names, _YEAR_OF_SESSIONS, splits)
    values, ratios = _indicator(view, names, "total_mv"), _indicator(view, names, "pe_ttm")
    yearly, latest = _dividends(actions, today, splits)
    tells_dividends = _tells_dividends(view, actions)
    data: dict[str, dict[str, float | None]] = {}
    for name in names:
        close = closes[name][0] if closes[name] else None
        filings, (high, low) = _filings(view, name, splits), spans[name] or (None, None)
        shares = next((filing.shares for filing in reversed(filings) if filing.shares), None)
        earned = _year_earnings(filings, today.date())
        size = close * shares if close is not None and shares else None
        price_earnings = close / earned if close is not None and earned and earned > 0 else None
        data[name] = {
            "market_cap": values[name] * _TEN_THOUSAND if name in values else size,
            "pe_ratio": ratios.get(name, price_earnings),
            "dividend_yield": 100 * yearly.get(name, 0.0) / close if tells_dividends and close else None,
            "week_52_high": high,
            "week_52_low": low,
            "quarterly_dividend": latest.get(name),
        }
    return data


def _year_earnings(filings: Sequence[_Filing], today: date) -> float | None:
    """Diluted earnings per share of the last four quarters; a later filing of a quarter replaces its first.

    None if they are not consecutive, one of them has none, or the last is so old that one is missing.
    """
    by_end = {filing.span[1]: (filing.span, filing.diluted_eps) for filing in filings if filing.span}
    last = [by_end[end] for end in sorted(by_end)[-_QUARTERS:]]
    if len(last) < _QUARTERS or today - last[-1][0][1] > _OLDEST_QUARTER:
        return None
    gaps = [abs(after[0] - before[1]) for (before, _), (after, _) in pairwise(last)]
    earned = [eps for _, eps in last if eps is not None]
    return sum(earned) if max(gaps) <= _LARGEST_GAP and len(earned) == _QUARTERS else None


def _filings(view: View, symbol: str, splits: Splits) -> list[_Filing]:
    """The latest filings of a symbol, in the order in which they became known, per share of today."""
    filings = []
    for record in view.records("filing", symbol)[-_FILINGS:]:
        filing = _read_filing(record)
        ratio = splits.shares_today(symbol, filing.day) if filing.day is not None else 1.0
        if ratio != 1:
            eps, shares = filing.diluted_eps, filing.shares
            filing = replace(filing, diluted_eps=eps and eps / ratio, shares=shares and shares * ratio)
        filings.append(filing)
    return filings


@lru_cache(maxsize=1 << 14)
def _read_filing(record: Record) -> _Filing:
    # Cached: every session reads the same filings again, and a body is parsed each time.
    body = record.body if isinstance(record.body, dict) else {}
    instant = record.instant
    return _Filing(
        day=None if instant is None else pd.Timestamp(instant).normalize(),
        span=_quarter(body),
        diluted_eps=finite_number(body.get("diluted_earnings_per_share")),
        shares=_plausible_shares(body),
    )


def _quarter(body: Mapping[str, Any]) -> tuple[date, date] | None:
    try:
        start, end = (date.fromisoformat(body[name]) for name in ("start_date", "end_date"))
    except (KeyError, TypeError, ValueError):  # absent, or not a date
        return None
    return (start, end) if _SHORTEST_QUARTER <= end - start <= _LONGEST_QUARTER else None


def _plausible_shares(body: Mapping[str, Any]) -> float | None:
    """Average shares of a filing; None for a fourth quarter, where it is the difference of two averages."""
    basic, diluted, income, earnings = (finite_number(body.get(name)) for name in _OF_SHARES)
    shares = basic or diluted
    if shares is None or shares <= 0 or body.get("fiscal_period") == "Q4":
        return None
    if income is None or earnings is None or abs(earnings) < _SMALLEST_EPS or income / earnings <= 0:
        return shares
    return shares if 1 / _SLIP <= shares / (income / earnings) <= _SLIP else None


def _known_actions(view: View) -> Sequence[CorporateAction]:
    """Dividends and splits known at the moment, ascending by ex-date and symbol."""
    records = view.records("action")
    if not records:
        return view.actions()
    return sorted(map(_read_action, records), key=lambda action: (action.ex, action.symbol))


@lru_cache(maxsize=1 << 14)
def _read_action(record: Record) -> CorporateAction:
    body = record.body
    return CorporateAction(
        symbol=record.symbol,
        ex=pd.Timestamp(body["ex"]).as_unit("us"),
        cash=Decimal(body["cash"]),
        ratio=Decimal(body["ratio"]),
    )


def _tells_dividends(view: View, actions: Sequence[CorporateAction]) -> bool:
    """Whether the data would show every dividend of the last 365 days."""
    panel, since = view["ohlcv"], view.moment.session - _YEAR
    sessions = panel.frozen("close").sessions
    has_bars = "dividend" in panel and len(sessions) > 0 and bool(sessions[0] <= since.to_datetime64())
    return has_bars or (len(actions) > 0 and actions[0].ex <= since)


def _dividends(
    actions: Sequence[CorporateAction], today: pd.Timestamp, splits: Splits
) -> tuple[dict[str, float], dict[str, float]]:
    """By symbol the cash that went ex within 365 days, and the last dividend that was declared."""
    since = today - _YEAR
    yearly: defaultdict[str, float] = defaultdict(float)
    latest: dict[str, CorporateAction] = {}
    for action in actions:  # ascending by ex-date
        if action.cash:
            latest[action.symbol] = action
            if since < action.ex <= today:
                yearly[action.symbol] += splits.per_share(action)
    return dict(yearly), {symbol: splits.per_share(action) for symbol, action in latest.items()}


def _indicator(view: View, symbols: tuple[str, ...], field: str) -> dict[str, float]:
    return {symbol: value for symbol, (value, _) in _indicators(view, symbols, field).items()}


def indicator_days(view: View, symbols: Sequence[str], field: str) -> dict[str, str]:
    """The session of an indicator by symbol, ``YYYY-MM-DD``."""
    return {symbol: day for symbol, (_, day) in _indicators(view, tuple(symbols), field).items()}


def _indicators(view: View, symbols: tuple[str, ...], field: str) -> dict[str, tuple[float, str]]:
    """The last positive number of an indicator by symbol, not older than a few sessions, and its session."""
    panel = view["indicators"]
    if field not in panel:
        return {}
    frame = panel.frozen(field)
    rows = _rows_before(view, frame, _INDICATOR_ROWS)
    block, days = frame.rows(rows, frame.positions(symbols)), frame.sessions[rows].astype("datetime64[D]")
    found = {}
    for column, symbol in enumerate(symbols):
        (known,) = np.nonzero(block[:, column] > 0)
        if known.size:
            found[symbol] = float(block[known[-1], column]), str(days[known[-1]])
    return found
