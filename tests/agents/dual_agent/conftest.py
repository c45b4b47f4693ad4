"""Features, and what the dual agent is asked with."""

import pytest
from dual_agent_models import item

from quantgraph.agents.memory import PipelineContext


@pytest.fixture
def features():
    """AAPL with fundamentals and a position of 5,000, TSLA with one of 3,000."""
    apple = item("AAPL", 5_000.0, price=185.50)
    apple["features"]["fundamental_data"] = {
        "market_cap": 2850000000000.0,
        "pe_ratio": 28.5,
        "dividend_yield": 0.52,
        "week_52_high": 199.62,
        "week_52_low": 164.08,
        "quarterly_dividend": 0.24,
    }
    return [apple, item("TSLA", 3_000.0)]


@pytest.fixture
def context():
    """Makes the context of a run of scripted models."""

    def make(models, **given):
        return PipelineContext(config=models.cfg, run_id="backtest_20250615", **given)

    return make
