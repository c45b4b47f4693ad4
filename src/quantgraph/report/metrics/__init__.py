"""Metrics of a series of values, alone and relative to a benchmark, and the table of a report's numbers.

The functions name their formulas. ``METRICS`` has a row for each number of a report: formula, words, format;
the summary, the terminal, the page, comparisons and ``docs/metrics.md`` are made from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.report.metrics._metrics import (
        Drawdown,
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
    from quantgraph.report.metrics._registry import (
        METRICS,
        Metric,
        metric_rows,
        rejection_counts,
        table_metrics,
    )

__all__ = [
    "METRICS",
    "Drawdown",
    "Metric",
    "alpha",
    "annual_return",
    "beta",
    "calmar_ratio",
    "correlation",
    "exposure",
    "information_ratio",
    "max_drawdown",
    "metric_rows",
    "rejection_counts",
    "session_returns",
    "sharpe_ratio",
    "sortino_ratio",
    "table_metrics",
    "total_return",
    "tracking_error",
    "volatility",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
