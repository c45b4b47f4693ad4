"""A run in one object: account, costs and benchmark, all derived from the ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from quantgraph.audit import signal_counts
from quantgraph.broker import Market
from quantgraph.broker.ledger import CHARGES, Ledger
from quantgraph.report.benchmark import equal_weight_buy_and_hold, index_buy_and_hold
from quantgraph.report.downside import sortino_ratio
from quantgraph.report.metrics import (
    annual_return,
    calmar_ratio,
    session_returns,
    sharpe_ratio,
    volatility,
)
from quantgraph.report.relative import alpha, beta, information_ratio, tracking_error

__all__ = ["summarise"]

_HALF_A_TICK = 0.005


def summarise(
    ledger: Ledger,
    run_id: str,
    market: Market,
    sessions: Sequence[pd.Timestamp] | pd.DatetimeIndex,
    *,
    signal: str,
    cash: Decimal,
    index: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Plain JSON of a finished run; a ratio that is not defined (no variation) is None.

    Parameters
    ----------
    index
        Levels of the universe's index, see :func:`~quantgraph.report.benchmark.index_buy_and_hold`.

    Returns
    -------
    dict
        ``run_id``, ``signal {name, counts}``, ``account``, ``benchmark {name, return, max_drawdown,
        final_value, tracking_error, information_ratio, beta, alpha}`` in the market's currency and
        fractions; ``index``, the same for the index if there is one, with ``dividends`` False: it is one
        of prices; ``cash``, the account that does nothing; and the equity curves (one value a session, the
        initial cash first).

        ``account``: ``final_value, return, max_drawdown, annual_return, volatility, sharpe, sortino, calmar``
        (252 sessions a year, ddof 1; Sortino over the root mean square of losses); ``trades, rejections``;
        ``win_rate``, the share of sales that brought more than their shares had cost on average, fees of
        both sides included and dividends not; ``realised``, what the sales brought beyond that cost;
        ``turnover``, traded notional over the mean value; ``exposure``, the mean share of the value that is
        in stocks at the session's mark, and ``largest_weight``, the largest share that one stock ever had
        there; ``dividends`` earned; ``ex_dates {count, not_credited}`` of stocks held over the night whose
        price dropped without a dividend in the data, and what they would have paid, None where the data
        cannot tell; ``costs {commission, stamp_duty, transfer_fee, regulatory, slippage, total}``.
    """
    values, days, costs = ledger.values(run_id), ledger.days(run_id), ledger.costs(run_id)
    held = equal_weight_buy_and_hold(market, sessions, cash=cash)
    levels = None if index is None else index_buy_and_hold(index, sessions, cash=cash, at=market.mark_at)
    counts = signal_counts(market.store.snapshot(market.data_ref)["signal"][signal])
    return {
        "run_id": run_id,
        "signal": {"name": signal, "counts": counts},
        "account": {
            **_performance(values),
            **_ratios(values),
            "trades": int(days["fills"].sum()),
            "rejections": int(days["rejections"].sum()),
            "win_rate": _number(_share(days["won"].sum(), days["sales"].sum())),
            "realised": round(float(days["realised"].sum()), 2),
            "turnover": float(days["traded"].sum() / days["value"].mean()),
            "exposure": float((days["stocks"] / days["value"]).mean()),
            "largest_weight": float((days["largest"] / days["value"]).max()),
            "dividends": round(float(days["dividends"].sum()), 2),
            "ex_dates": _ex_dates(ledger, run_id, market),
            "costs": {name: float(getattr(costs, name)) for name in (*CHARGES, "total")},
        },
        "benchmark": {
            "name": "equal_weight_buy_and_hold",
            **_performance(held),
            **_beside(values, held),
        },
        "index": None if levels is None else _against_index(values, levels),
        "cash": {"final_value": float(cash), "return": 0.0, "max_drawdown": 0.0},
        "equity": {
            "sessions": [f"{day:%Y%m%d}" for day in values.index],
            "account": [float(value) for value in values],
            "benchmark": [float(value) for value in held],
            "index": None if levels is None else [float(value) for value in levels],
        },
    }


def _ex_dates(ledger: Ledger, run_id: str, market: Market) -> dict[str, Any] | None:
    """Where the reference price of a session is not the close before it, an entitlement went off.

    None where the data has neither dividends nor reference prices: what went ex is not known then.
    """
    bars = market.store.snapshot(market.data_ref)["ohlcv"]
    nothing = {"count": 0, "not_credited": 0.0}
    if "pre_close" not in bars:
        return nothing if "dividend" in bars else None
    dropped = bars["close"].ffill().shift() - bars["pre_close"].reindex(bars["close"].index)
    dropped = dropped.where(dropped.abs() > _HALF_A_TICK)
    for name in ("dividend", "split"):  # what the data has has reached the account
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
    return {"dividends": False, **_performance(levels), **_beside(values, levels)}


def _performance(values: pd.Series[float]) -> dict[str, Any]:
    return {
        "final_value": float(values.iloc[-1]),
        "return": float(values.iloc[-1] / values.iloc[0] - 1),
        "max_drawdown": float((values / values.cummax() - 1).min()),
    }


def _ratios(values: pd.Series[float]) -> dict[str, Any]:
    if not (values > 0).all():  # all is lost: nothing can be divided by it
        return dict.fromkeys(("annual_return", "volatility", "sharpe", "sortino", "calmar"))
    returns = session_returns(values)
    return {
        "annual_return": _number(annual_return(values)),
        "volatility": _number(volatility(returns)),
        "sharpe": _number(sharpe_ratio(returns)),
        "sortino": _number(sortino_ratio(returns)),
        "calmar": _number(calmar_ratio(values)),
    }


def _beside(values: pd.Series[float], benchmark: pd.Series[float]) -> dict[str, Any]:
    measures = (tracking_error, information_ratio, beta, alpha)
    if not ((values > 0).all() and (benchmark > 0).all()):
        return {measure.__name__: None for measure in measures}
    ours, theirs = session_returns(values), session_returns(benchmark)
    return {measure.__name__: _number(measure(ours, theirs)) for measure in measures}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
