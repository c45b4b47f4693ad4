"""Each number of the report: its formula here, its words in both languages and how it is shown in its row.

The summary, ``result.json``, the terminal, the page, the comparison of runs and ``docs/metrics.md`` read
:data:`METRICS`. A new number is a row of ``metrics.csv`` and its formula.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Language
from quantgraph.broker import TradePlan
from quantgraph.broker.accounts import Delisting, Event, Split
from quantgraph.broker.ledger import OrderTable
from quantgraph.broker.session import last_of_each
from quantgraph.market import sessions_in_a_year
from quantgraph.report._periods import (
    expected_shortfall,
    months_of,
    recovery_factor,
    time_under_water,
    value_at_risk,
)
from quantgraph.report._round_trips import round_trip_statistics
from quantgraph.report.metrics._metrics import (
    alpha,
    annual_return,
    beta,
    calmar_ratio,
    information_ratio,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    sortino_ratio,
    tracking_error,
    volatility,
)

Format = Literal["money", "percent", "share", "ratio", "times", "days", "count"]
_FORMATS: Mapping[Format, tuple[str, str]] = {
    "money": ("{:,.2f}", "{:,.2f}"),
    "percent": ("{:.2%}", "{:.2%}"),
    "share": ("{:.2%}", "{:.0%}"),
    "ratio": ("{:.2f}", "{:.2f}"),
    "times": ("{:.2f}", "{:.1f}"),
    "days": ("{:.2f}", "{:.1f}"),
    "count": ("{:,.0f}", "{:,.0f}"),
}
"""On a page, and in the short table of the terminal."""
_DUST = 1e-6
"""Rounding of sums of shares."""
_HALF_A_TICK = 0.005


@dataclass(frozen=True, kw_only=True, eq=False)
class RunData:
    """What the numbers of a run are computed from; what several of them need is computed once."""

    values: pd.Series[float]
    days: pd.DataFrame
    orders: OrderTable
    events: Sequence[Event]
    costs: Mapping[str, float]
    traded: pd.DataFrame | None
    """The signal at the sessions that trade it; None if the decider follows none."""
    plan: TradePlan
    trades: NDArray[np.bool_]
    """Whether each session of ``traded`` is one of the plan's schedule."""
    closed: Callable[[pd.DatetimeIndex], NDArray[np.bool_]]
    """Returns whether the plan buys nothing at the open of each session, whatever the schedule."""
    bars: Mapping[str, pd.DataFrame]
    holdings: Callable[[], pd.DataFrame]

    @cached_property
    def account(self) -> Track:
        """The account's own values."""
        return Track(values=self.values, run=self)

    @cached_property
    def sessions(self) -> pd.DatetimeIndex:
        """The committed sessions."""
        return pd.DatetimeIndex(self.days.index)

    @cached_property
    def round_trips(self) -> dict[str, Any]:
        """See :func:`.round_trip_statistics`."""
        return round_trip_statistics(self.orders, self.events, self.sessions)

    @cached_property
    def unfollowed(self) -> dict[str, int] | None:
        """See :func:`unfollowed_buys`; None if the decider follows no signal."""
        return None if self.traded is None else unfollowed_buys(self, self.traded)

    def total(self, column: str) -> float:
        """The sum of a column of the ledger's days."""
        return float(self.days[column].sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Track:
    """Values of the account, of its benchmark or of an index, the initial cash first."""

    values: pd.Series[float]
    run: Any
    """The :class:`RunData`; None for numbers of ``each``, which need the values alone."""

    @cached_property
    def is_positive(self) -> bool:
        """False if all was lost: a division by 0 is not defined."""
        return bool((self.values > 0).all())

    @cached_property
    def returns(self) -> pd.Series[float]:
        """Simple returns per session."""
        return session_returns(self.values)

    @cached_property
    def periods(self) -> int:
        """The sessions that make a year."""
        return sessions_in_a_year(pd.DatetimeIndex(self.values.index[1:]))

    def numbers(self, *of: Owner) -> dict[str, Any]:
        """The numbers of these owners by name, as plain JSON; None where one is not defined."""
        return {metric.name: _json(metric.formula(self)) for metric in METRICS if metric.of in of}


Formula = Callable[[Track], Any]
Series = pd.Series
Owner = Literal["each", "benchmark", "account"]
"""Account, benchmark and index have the numbers of ``each``, the last two also of ``benchmark``."""


@dataclass(frozen=True)
class Metric:
    """A number of the report.

    Attributes
    ----------
    name
        Its key in the result.
    formula
        Called with the values, beside all of the run; NaN or None where it is not defined.
    zh, en
        What tables call it, a colon, and its formula in words; a part of the result without is in no table.
    format
        How it is shown.
    of
        Who has it.
    on_terminal
        Whether the short table of the terminal has it.
    below
        The number above it in tables, if that is not the one before it in the result.
    """

    name: str
    formula: Formula
    zh: str = ""
    en: str = ""
    format: Format = "ratio"
    of: Owner = "each"
    on_terminal: bool = True
    below: str = ""

    def words(self, language: Language) -> str:
        """What tables call the number."""
        return self._parts(language)[0]

    def explained(self, language: Language, periods: int = 252) -> str:
        """Its formula in words, with so many sessions in a year."""
        return self._parts(language)[2].replace("252", str(periods))

    def _parts(self, language: Language) -> tuple[str, str, str]:
        return self.zh.partition("：") if language == "zh" else self.en.partition(": ")

    def text(self, value: float | None) -> str:
        """The number as a page shows it."""
        return "–" if value is None or math.isnan(value) else _FORMATS[self.format][0].format(value)

    def short_text(self, value: float | None) -> str:
        """The number as the terminal shows it."""
        return "-" if value is None else _FORMATS[self.format][1].format(value)


def value_numbers(values: pd.Series[float]) -> dict[str, Any]:
    """The numbers that follow from values alone, which begin with the initial cash, by name."""
    track = Track(values=values, run=None)
    return {metric.name: _json(metric.formula(track)) for metric in METRICS if metric.of == "each"}


def table_metrics() -> list[Metric]:
    """The metrics that tables show, in their order."""
    shown: list[Metric] = []
    waiting = [metric for metric in METRICS if metric.en]
    for metric in (each for each in waiting if not each.below):
        shown += [metric, *(each for each in waiting if each.below == metric.name)]
    return shown


def metric_rows(columns: Sequence[Mapping[str, Any] | None]) -> Iterator[tuple[Metric, list[Any]]]:
    """The rows of a table that has a column for each part of a result: those that some column has."""
    for metric in table_metrics():
        cells = [None if column is None else column.get(metric.name) for column in columns]
        if any(cell is not None for cell in cells):
            yield metric, cells


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _of_values(measure: Callable[..., float], *, yearly: bool = False) -> Formula:
    return lambda track: measure(track.values, **_year(track, yearly)) if track.is_positive else None


def _of_returns(measure: Callable[..., float], *, yearly: bool = False) -> Formula:
    return lambda track: measure(track.returns, **_year(track, yearly)) if track.is_positive else None


def _against(measure: Callable[..., float], *, yearly: bool = True) -> Formula:
    def of_account_and_benchmark(track: Track) -> float | None:
        account = track.run.account
        both = account.is_positive and track.is_positive
        return measure(account.returns, track.returns, **_year(track, yearly)) if both else None

    return of_account_and_benchmark


def _year(track: Track, yearly: bool) -> dict[str, int]:
    return {"periods_per_year": track.periods} if yearly else {}


def drawdown_dates(track: Track) -> dict[str, str | None]:
    """Dates of the deepest fall, ``YYYYMMDD``; the initial cash is dated on the first session."""
    if not track.is_positive:
        return dict.fromkeys(("peak", "trough", "recovery"))
    fall, first = max_drawdown(track.values), track.values.index[min(1, len(track.values) - 1)]
    dates = {"peak": fall.peak, "trough": fall.trough, "recovery": fall.recovery}
    return {name: None if date is None else f"{max(date, first):%Y%m%d}" for name, date in dates.items()}


def rejection_counts(orders: OrderTable) -> dict[str, int]:
    """Number of orders refused or cut by code, the most frequent first."""
    return dict(Counter(code for code in orders.refused if code).most_common())


def unfollowed_buys(run: RunData, signal: pd.DataFrame) -> dict[str, int]:
    """Buys of the signal, for symbols not held, without an order, counted by the reason."""
    orders, sessions = run.orders, run.sessions
    columns = signal.columns.get_indexer(pd.Index(orders.symbols, dtype="str"))
    rows = sessions.get_indexer(pd.DatetimeIndex(orders.days))
    known = columns[orders.symbol] >= 0
    places = rows[orders.day[known]], columns[orders.symbol[known]]
    shape = len(sessions), signal.shape[1]
    cells, shares = np.ravel_multi_index(places, shape), orders.shares[known]
    ordered, moved, sold = (np.zeros(shape, kind) for kind in (bool, float, float))
    ordered.reshape(-1)[cells[orders.wishes_to_buy[known]]] = True
    np.add.at(moved.reshape(-1), cells, shares)
    np.subtract.at(sold.reshape(-1), cells, np.where(orders.at_open[known], np.minimum(shares, 0), 0))
    before = _at_open(run, signal.columns, moved)
    held, kept = before > _DUST, (before - sold > _DUST).sum(axis=1)
    wishes, pending = _wishes(signal, run.trades, sessions)
    waits, cools = np.zeros((2, *shape), dtype=bool)
    by_plan, sells = orders.by_plan[known], orders.sells[known]
    sells = sells if run.plan.cooldown else sells & by_plan
    for row, column, is_exit in zip(*np.unravel_index(cells[sells], shape), by_plan[sells], strict=True):
        if before[row, column] + moved[row, column] > _DUST:
            continue
        cools[row + 1 : row + 1 + (run.plan.cooldown or 0), column] = True
        if is_exit and run.plan.reentry == "new_signal":
            other = signal[signal.columns[column]].reindex(sessions[row:]).to_numpy() != 1
            waits[row + 1 : row + (int(other.argmax()) if other.any() else len(other)), column] = True
    then = (run.trades[signal.index.get_indexer(sessions)] & ~run.closed(sessions))[:, None]
    buys, missed, idle = wishes & ~held, wishes & ~held & ~ordered, waits | cools
    wanted = ((buys & ~idle) | (ordered & ~held)).sum(axis=1)
    room = np.maximum(run.plan.slots(shape[1]) - kept, 0)
    asked = (missed & then & ~idle).sum(axis=1)
    full = int(np.minimum(asked, np.maximum(wanted - room, 0)).sum())
    found = {
        "no_room": full,
        "too_little_cash": int(asked.sum()) - full,
        "awaits_new_signal": int((missed & waits).sum()),
        "cooldown": int((missed & cools & ~waits).sum()),
        "not_a_trade_day": int((missed & ~idle & ~then & ~pending).sum()),
    }
    return {reason: count for reason, count in found.items() if count}


def _at_open(run: RunData, symbols: pd.Index, moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares at the open of each session, after its corporate actions."""
    changed = np.zeros(moved.shape)
    for event in run.events:
        column = int(symbols.get_indexer(pd.Index([event.symbol]))[0])
        if column >= 0 and isinstance(event, Split | Delisting):
            change = event.after - event.before if isinstance(event, Split) else -event.quantity
            changed[run.sessions.get_loc(event.session), column] += float(change)
    return (changed + moved).cumsum(axis=0) - moved


def _wishes(
    signal: pd.DataFrame, trades: NDArray[np.bool_], sessions: pd.DatetimeIndex
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where the signal wants a symbol, and where the next session on which the plan buys still does.

    On such a session the last 1 or -1 since the one before counts, on others the session's.
    """
    rows, pending = signal.to_numpy().copy(), np.zeros(signal.shape, dtype=bool)
    places, here = np.flatnonzero(trades), signal.index.get_indexer(sessions)
    for begin, place in zip([0, *(places[:-1] + 1)], places, strict=True) if not trades.all() else ():
        rows[place] = last_of_each(rows[begin : place + 1])
        if place <= here[-1]:
            pending[begin:place] = rows[place] == 1
    return rows[here] == 1, pending[here]


def _win_rate(track: Track) -> float:
    sales = track.run.total("sales")
    return track.run.total("won") / sales if sales else math.nan


def ex_dates(track: Track) -> dict[str, Any] | None:
    """Ex-dates show where the reference price of a session is not the close before it.

    None if the data has neither dividends nor reference prices.
    """
    bars, nothing = track.run.bars, {"count": 0, "not_credited": 0.0}
    if "pre_close" not in bars:
        return nothing if "dividend" in bars else None
    dropped = bars["close"].ffill().shift() - bars["pre_close"].reindex(bars["close"].index)
    dropped = dropped.where(dropped.abs() > _HALF_A_TICK)
    for name in ("dividend", "split"):  # these have reached the account
        if name in bars:
            dropped = dropped.where(bars[name].reindex_like(dropped).isna())
    if not dropped.notna().to_numpy().any():
        return nothing
    quantities = track.run.holdings()
    drops = dropped.reindex(index=quantities.index, columns=quantities.columns)
    paid = (drops * quantities.shift()).fillna(0.0)
    return {
        "count": int((paid != 0).to_numpy().sum()),
        "not_credited": round(float(paid.to_numpy().sum()), 2),
    }


_FORMULAS: Mapping[str, Formula] = {
    "final_value": lambda track: float(track.values.iloc[-1]),
    "return": lambda track: float(track.values.iloc[-1] / track.values.iloc[0] - 1),
    "max_drawdown": lambda track: float((track.values / track.values.cummax() - 1).min()),
    "drawdown": drawdown_dates,
    "annual_return": _of_values(annual_return, yearly=True),
    "volatility": _of_returns(volatility, yearly=True),
    "sharpe": _of_returns(sharpe_ratio, yearly=True),
    "sortino": _of_returns(sortino_ratio, yearly=True),
    "calmar": _of_values(calmar_ratio, yearly=True),
    "recovery_factor": _of_values(recovery_factor),
    "time_under_water": _of_values(time_under_water),
    "best_month": _of_values(lambda values: float(months_of(values).max())),
    "worst_month": _of_values(lambda values: float(months_of(values).min())),
    "winning_months": _of_values(lambda values: float((months_of(values) > 0).mean())),
    "value_at_risk": _of_returns(value_at_risk),
    "expected_shortfall": _of_returns(expected_shortfall),
    "skewness": _of_returns(lambda returns: float(np.asarray(returns.skew(), dtype=np.float64))),
    "kurtosis": _of_returns(lambda returns: float(np.asarray(returns.kurt(), dtype=np.float64))),
    "tracking_error": _against(tracking_error),
    "information_ratio": _against(information_ratio),
    "beta": _against(beta, yearly=False),
    "alpha": _against(alpha),
    "trades": lambda track: int(track.run.total("fills")),
    "rejections": lambda track: int(track.run.total("rejections")),
    "rejections_by_reason": lambda track: rejection_counts(track.run.orders),
    "buys_not_followed_by_reason": lambda track: track.run.unfollowed,
    "buys_not_followed": lambda track: (
        None if track.run.unfollowed is None else sum(track.run.unfollowed.values())
    ),
    "win_rate": _win_rate,
    "realised": lambda track: round(track.run.total("realised"), 2),
    "round_trips": lambda track: track.run.round_trips["round_trips"],
    "profit_factor": lambda track: track.run.round_trips["profit_factor"],
    "average_holding": lambda track: track.run.round_trips["average_holding"],
    "turnover": lambda track: track.run.total("traded") / track.run.days["value"].mean(),
    "exposure": lambda track: (track.run.days["stocks"] / track.run.days["value"]).mean(),
    "largest_weight": lambda track: (track.run.days["largest"] / track.run.days["value"]).max(),
    "dividends": lambda track: round(track.run.total("dividends"), 2),
    "ex_dates": ex_dates,
    "costs": lambda track: track.run.costs,
}
"""By name; a number's words and how it is shown are its row of ``metrics.csv``."""


with (Path(__file__).parent / "metrics.csv").open(encoding="utf-8", newline="") as _rows:
    METRICS: tuple[Metric, ...] = tuple(
        Metric(**{**row, "formula": _FORMULAS[row["name"]], "on_terminal": bool(row["on_terminal"])})
        for row in cast("Iterator[dict[str, Any]]", csv.DictReader(_rows))
    )
"""The parts of the account, of its benchmark and of an index, in the order of the result."""
