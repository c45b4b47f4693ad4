"""Metrics of a series of values: return, volatility, Sharpe, drawdown, and those relative to a benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.report.metrics._metrics import (
        alpha,
        annual_return,
        beta,
        calmar_ratio,
        correlation,
        exposure,
        information_ratio,
        max_drawdown,
        session_returns,
        sharpe_ratio,
        sortino_ratio,
        total_return,
        tracking_error,
        volatility,
    )

__all__ = [
    "alpha",
    "annual_return",
    "beta",
    "calmar_ratio",
    "correlation",
    "exposure",
    "information_ratio",
    "max_drawdown",
    "session_returns",
    "sharpe_ratio",
    "sortino_ratio",
    "total_return",
    "tracking_error",
    "volatility",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
