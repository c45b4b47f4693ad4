"""Metrics, benchmarks and the summary of a run."""

from quantgraph.report.benchmark import (
    BuyAndHold,
    cash_only,
    equal_weight_buy_and_hold,
    index_buy_and_hold,
)
from quantgraph.report.execution_drawing import ExecutionDrawing, draw_execution
from quantgraph.report.metrics import (
    Downside,
    Drawdown,
    annual_return,
    calmar_ratio,
    downside_deviation,
    exposure,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    sortino_ratio,
    total_return,
    volatility,
)
from quantgraph.report.relative import alpha, beta, correlation, information_ratio, tracking_error
from quantgraph.report.round_trips import profit_factor, round_trips, win_rate
from quantgraph.report.summary import summarise
from quantgraph.report.trades import Trade, annual_turnover, turnover

__all__ = [
    "BuyAndHold",
    "Downside",
    "Drawdown",
    "ExecutionDrawing",
    "Trade",
    "alpha",
    "annual_return",
    "annual_turnover",
    "beta",
    "calmar_ratio",
    "cash_only",
    "correlation",
    "downside_deviation",
    "draw_execution",
    "equal_weight_buy_and_hold",
    "exposure",
    "index_buy_and_hold",
    "information_ratio",
    "max_drawdown",
    "profit_factor",
    "round_trips",
    "session_returns",
    "sharpe_ratio",
    "sortino_ratio",
    "summarise",
    "total_return",
    "tracking_error",
    "turnover",
    "volatility",
    "win_rate",
]
