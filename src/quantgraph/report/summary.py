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
        rejections, costs {commission, stamp_duty, transfer_fee, total}}``, ``benchmark {name, return,
        max_drawdown, final_value}`` in CNY and fractions, and the two equity curves (one value a session,
        the initial cash first).
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


def _performance(values: pd.Series[float]) -> dict[str, Any]:
    return {
        "final_value": float(values.iloc[-1]),
        "return": total_return(values),
        "max_drawdown": max_drawdown(values).depth,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
