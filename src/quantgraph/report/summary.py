"""The summary of a run: account, costs and benchmarks, derived from the ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.audit import signal_counts
from quantgraph.broker import Market
from quantgraph.broker.ledger import CHARGES, Ledger
from quantgraph.report.benchmark import buy_and_hold_values, index_buy_and_hold
from quantgraph.report.metrics import (
    annual_return,
    calmar_ratio,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    sortino_ratio,
    volatility,
)
from quantgraph.report.order_statistics import count_unfollowed_buys, rejection_counts, round_trip_statistics
from quantgraph.report.relative import alpha, beta, information_ratio, tracking_error

_HALF_A_TICK = 0.005
_SESSIONS_A_YEAR = 252
"""The default of every metric."""
_RULE = "signal_rule"
"""Name of the decider that orders what a signal says and nothing else."""


def summarise(
    ledger: Ledger,
    run_id: str,
    market: Market,
    sessions: Sequence[pd.Timestamp] | pd.DatetimeIndex,
    *,
    signal: str | None,
    cash: Decimal,
    index: pd.DataFrame | None = None,
    benchmark: Market | None = None,
) -> dict[str, Any]:
    """Plain JSON of a finished run; a ratio that is not defined (no variation) is None.

    Parameters
    ----------
    signal
        Name of the signal that was traded; None if the decider uses none.
    index
        Levels of the universe's index, see :func:`~quantgraph.report.benchmark.index_buy_and_hold`.
    benchmark
        The market that buy-and-hold buys. Default: all of ``market``.

    Returns
    -------
    dict
        ``run_id``, ``signal {name, counts}``, ``account``, ``benchmark`` and ``index`` (None without a signal
        or an index), in the market's currency and fractions; ``periods_per_year``, the sessions that make a
        year in all yearly numbers; ``cash``, the account that does nothing; and the equity curves (one value
        a session, the initial cash first).

        Of account, benchmark and index: ``final_value, return, max_drawdown``; ``drawdown {peak, trough,
        recovery}``, its dates, None where there is none; ``annual_return, volatility, sharpe, sortino,
        calmar`` (ddof 1; Sortino over the root mean square of losses). Of the two beside the account:
        ``tracking_error, information_ratio, beta, alpha``. The benchmark: ``bought``, in how many of the
        ``symbols`` it could buy anything. The index: ``dividends`` False, it is one of prices.

        ``account``: ``trades, rejections, rejections_by_reason {code: count}``; ``buys_not_followed``, buys
        of the signal for which :class:`~quantgraph.agents.SignalRule` made no order, None for other deciders;
        ``win_rate``, the share of sales that brought more than their shares had cost on average, fees of
        both sides included and dividends not; ``realised``, what the sales brought beyond that cost;
        ``round_trips, profit_factor, average_holding`` by the same cost, see
        :func:`~quantgraph.report.order_statistics.round_trip_statistics`;
        ``turnover``, traded notional over the mean value; ``exposure``, the mean share of the value that is
        in stocks at the session's mark, and ``largest_weight``, the largest share that one stock ever had
        there; ``dividends`` earned; ``ex_dates {count, not_credited}`` of stocks held over the night whose
        price dropped without a dividend in the data, and what they would have paid, None where the data
        cannot tell; ``costs {commission, stamp_duty, transfer_fee, regulatory, slippage, total}``.
    """
    run = ledger.statement(run_id)
    values, days, costs = run.values, run.days, run.costs
    held, bought = buy_and_hold_values(benchmark or market, sessions, cash=cash)
    levels = None if index is None else index_buy_and_hold(index, sessions, cash=cash, at=market.mark_at)
    data, universe = (each.store.snapshot(each.data_ref) for each in (market, benchmark or market))
    counts = traded = None
    if signal is not None:
        counts = {"name": signal, "counts": signal_counts(data["signal"][signal])}
        traded = _as_traded(data["signal"][signal], data["ohlcv"]["open"], ledger.meta(run_id))
    orders, events, done = run.orders, run.events, pd.DatetimeIndex(days.index)
    return {
        "run_id": run_id,
        "signal": counts,
        "account": {
            **_performance(values),
            **_ratios(values),
            "trades": int(days["fills"].sum()),
            "rejections": int(days["rejections"].sum()),
            "rejections_by_reason": rejection_counts(orders),
            "buys_not_followed": (
                None if traded is None else count_unfollowed_buys(traded, orders, events, done)
            ),
            "win_rate": _number(_share(days["won"].sum(), days["sales"].sum())),
            "realised": round(float(days["realised"].sum()), 2),
            **round_trip_statistics(orders, events, done),
            "turnover": float(days["traded"].sum() / days["value"].mean()),
            "exposure": float((days["stocks"] / days["value"]).mean()),
            "largest_weight": float((days["largest"] / days["value"]).max()),
            "dividends": round(float(days["dividends"].sum()), 2),
            "ex_dates": _ex_dates(ledger, run_id, market),
            "costs": {name: float(getattr(costs, name)) for name in (*CHARGES, "total")},
        },
        "benchmark": {
            "name": "equal_weight_buy_and_hold",
            "symbols": universe["ohlcv"]["open"].shape[1],
            "bought": bought,
            **_performance(held),
            **_ratios(held),
            **_against(values, held),
        },
        "index": None if levels is None else _against_index(values, levels),
        "periods_per_year": _SESSIONS_A_YEAR,
        "cash": {"final_value": float(cash), "return": 0.0, "max_drawdown": 0.0},
        "equity": {
            "sessions": [f"{day:%Y%m%d}" for day in values.index],
            "account": [float(value) for value in values],
            "benchmark": [float(value) for value in held],
            "index": None if levels is None else [float(value) for value in levels],
        },
    }


def _ex_dates(ledger: Ledger, run_id: str, market: Market) -> dict[str, Any] | None:
    """Ex-dates show where the reference price of a session is not the close before it.

    None if the data has neither dividends nor reference prices.
    """
    bars = market.store.snapshot(market.data_ref)["ohlcv"]
    nothing = {"count": 0, "not_credited": 0.0}
    if "pre_close" not in bars:
        return nothing if "dividend" in bars else None
    dropped = bars["close"].ffill().shift() - bars["pre_close"].reindex(bars["close"].index)
    dropped = dropped.where(dropped.abs() > _HALF_A_TICK)
    for name in ("dividend", "split"):  # these have reached the account
        if name in bars:
            dropped = dropped.where(bars[name].reindex_like(dropped).isna())
    if not dropped.notna().to_numpy().any():
        return nothing
    quantities, _ = ledger.holdings(run_id)
    drops = dropped.reindex(index=quantities.index, columns=quantities.columns)
    paid = (drops * quantities.shift()).fillna(0.0)
    return {
        "count": int((paid != 0).to_numpy().sum()),
        "not_credited": round(float(paid.to_numpy().sum()), 2),
    }


def _against_index(values: pd.Series[float], levels: pd.Series[float]) -> dict[str, Any]:
    return {"dividends": False, **_performance(levels), **_ratios(levels), **_against(values, levels)}


def _as_traded(signal: pd.DataFrame, bars: pd.DataFrame, meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """The signal at the sessions that trade it, of symbols that may be bought; None for other deciders."""
    options = meta.get("options", {})
    if meta.get("decider") != _RULE or "weights" not in options:
        return None
    weights = options["weights"]
    bought = signal.columns if weights is None else signal.columns.intersection(list(weights))
    return signal[bought].reindex(bars.index).shift()


def _performance(values: pd.Series[float]) -> dict[str, Any]:
    return {
        "final_value": float(values.iloc[-1]),
        "return": float(values.iloc[-1] / values.iloc[0] - 1),
        "max_drawdown": float((values / values.cummax() - 1).min()),
        "drawdown": _dates(values),
    }


def _dates(values: pd.Series[float]) -> dict[str, str | None]:
    """Dates of the deepest fall, ``YYYYMMDD``."""
    if not (values > 0).all():
        return dict.fromkeys(("peak", "trough", "recovery"))
    fall, first = max_drawdown(values), values.index[min(1, len(values) - 1)]
    dates = {"peak": fall.peak, "trough": fall.trough, "recovery": fall.recovery}
    # The initial cash stands on the day before the first session, which need not be a session.
    return {name: None if date is None else f"{max(date, first):%Y%m%d}" for name, date in dates.items()}


def _ratios(values: pd.Series[float]) -> dict[str, Any]:
    if not (values > 0).all():  # all is lost, and division by 0 is not defined
        return dict.fromkeys(("annual_return", "volatility", "sharpe", "sortino", "calmar"))
    returns = session_returns(values)
    return {
        "annual_return": _number(annual_return(values)),
        "volatility": _number(volatility(returns)),
        "sharpe": _number(sharpe_ratio(returns)),
        "sortino": _number(sortino_ratio(returns)),
        "calmar": _number(calmar_ratio(values)),
    }


def _against(values: pd.Series[float], benchmark: pd.Series[float]) -> dict[str, Any]:
    measures = (tracking_error, information_ratio, beta, alpha)
    if not ((values > 0).all() and (benchmark > 0).all()):
        return {measure.__name__: None for measure in measures}
    ours, theirs = session_returns(values), session_returns(benchmark)
    return {measure.__name__: _number(measure(ours, theirs)) for measure in measures}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
