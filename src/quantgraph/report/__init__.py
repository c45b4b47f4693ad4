"""Numbers of a run with their formulas: metrics, round trips, summary.

Metrics are functions of a series of values or returns, per session, NaN where they are not defined.
``summarise`` reads a run's ledger and returns plain JSON. ``BuyAndHold`` is the decider behind the benchmark.
To add a number: a row of :data:`quantgraph.report.metrics.METRICS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.report._periods import deepest_drawdowns, monthly_returns, yearly_returns
    from quantgraph.report._round_trips import (
        Entitlement,
        Trade,
        annual_turnover,
        profit_factor,
        round_trips,
        turnover,
        win_rate,
    )
    from quantgraph.report._summary import BuyAndHold, format_counts, summarise, summary_notes
    from quantgraph.report.metrics._registry import value_numbers

__all__ = [
    "BuyAndHold",
    "Entitlement",
    "Trade",
    "annual_turnover",
    "deepest_drawdowns",
    "format_counts",
    "monthly_returns",
    "profit_factor",
    "round_trips",
    "summarise",
    "summary_notes",
    "turnover",
    "value_numbers",
    "win_rate",
    "yearly_returns",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
