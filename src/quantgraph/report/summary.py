"""A run in one object: account, costs and benchmark, all derived from the ledger."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pandas as pd

from quantgraph.audit import signal_counts
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.orders import Fill
from quantgraph.market.rulebook import Rulebook
from quantgraph.report.benchmark import equal_weight_buy_and_hold
from quantgraph.report.metrics import max_drawdown, session_returns, sharpe_ratio, total_return
from quantgraph.state import DataState

__all__ = ["summarise"]

HALF_A_TICK = 0.005


def summarise(
    ledger: Ledger,
    run_id: str,
    store: DataState,
    data_ref: str,
    sessions: Iterable[pd.Timestamp],
    *,
    signal: str,
    cash: Decimal,
    rules: Rulebook,
) -> dict[str, Any]:
    """Plain JSON of a finished run; a ratio that is not defined (no variation) is None.

    Returns
    -------
    dict
        ``run_id``, ``signal {name, counts}``, ``account {final_value, return, max_drawdown, sharpe, trades,
        rejections, exposure, largest_weight, costs {commission, stamp_duty, transfer_fee, total},
        ex_dates {count, not_credited}}``, ``benchmark {name, return, max_drawdown, final_value}`` in CNY and
        fractions, and the two equity curves (one value a session, the initial cash first).
        ``exposure`` is the mean share of the value that is in stocks at the close, ``largest_weight`` the
        largest share that one stock ever had; ``ex_dates`` are those of stocks held over the night, and
        what they would have paid, which the account does not get.
    """
    values = ledger.values(run_id)
    outcomes = ledger.orders(run_id)
    costs = ledger.costs(run_id)
    held = equal_weight_buy_and_hold(store, data_ref, sessions, cash=cash, rules=rules)
    return {
        "run_id": run_id,
        "signal": {"name": signal, "counts": signal_counts(store.snapshot(data_ref)["signal"][signal])},
        "account": {
            **_performance(values),
            "sharpe": _number(sharpe_ratio(session_returns(values))),
            "trades": sum(isinstance(outcome, Fill) for outcome in outcomes),
            "rejections": sum(not isinstance(outcome, Fill) for outcome in outcomes),
            **_concentration(ledger, run_id, values),
            "ex_dates": _ex_dates(ledger, run_id, store, data_ref),
            "costs": {
                "commission": float(costs.commission),
                "stamp_duty": float(costs.stamp_duty),
                "transfer_fee": float(costs.transfer_fee),
                "total": float(costs.total),
            },
        },
        "benchmark": {"name": "equal_weight_buy_and_hold", **_performance(held.values)},
        "equity": {
            "sessions": [f"{day:%Y%m%d}" for day in values.index],
            "account": [float(value) for value in values],
            "benchmark": [float(value) for value in held.values],
        },
    }


def _concentration(ledger: Ledger, run_id: str, values: pd.Series[float]) -> dict[str, float]:
    quantities, marks = ledger.holdings(run_id)
    weights = (quantities * marks).div(values.iloc[1:], axis=0).fillna(0.0)
    if weights.empty:
        return {"exposure": 0.0, "largest_weight": 0.0}
    return {"exposure": float(weights.sum(axis=1).mean()), "largest_weight": float(weights.to_numpy().max())}


def _ex_dates(ledger: Ledger, run_id: str, store: DataState, data_ref: str) -> dict[str, Any]:
    """Where the reference price of a session is not the close before it, an entitlement went off."""
    quantities, _ = ledger.holdings(run_id)
    bars = store.snapshot(data_ref)["ohlcv"]
    if quantities.empty or "pre_close" not in bars:
        return {"count": 0, "not_credited": 0.0}
    before = bars["close"].ffill().shift().reindex(quantities.index)[quantities.columns]
    dropped = before - bars["pre_close"].reindex(quantities.index)[quantities.columns]
    paid = (dropped.where(dropped.abs() > HALF_A_TICK) * quantities.shift()).fillna(0.0)
    return {
        "count": int((paid != 0).to_numpy().sum()),
        "not_credited": round(float(paid.to_numpy().sum()), 2),
    }


def _performance(values: pd.Series[float]) -> dict[str, Any]:
    return {
        "final_value": float(values.iloc[-1]),
        "return": total_return(values),
        "max_drawdown": max_drawdown(values).depth,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
