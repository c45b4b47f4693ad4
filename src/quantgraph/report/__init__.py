"""What a run was worth: metrics and benchmarks."""

from quantgraph.report.benchmark import Benchmark, equal_weight_buy_and_hold
from quantgraph.report.metrics import (
    Drawdown,
    annual_return,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    total_return,
    volatility,
)
from quantgraph.report.summary import summarise

__all__ = [
    "Benchmark",
    "Drawdown",
    "annual_return",
    "equal_weight_buy_and_hold",
    "max_drawdown",
    "session_returns",
    "sharpe_ratio",
    "summarise",
    "total_return",
    "volatility",
]
