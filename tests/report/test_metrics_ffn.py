"""The same numbers from ffn, which shares no code with this library."""

import math

import ffn
import numpy as np
import pandas as pd
import pytest

from quantgraph.report.metrics._metrics import (
    annual_return,
    calmar_ratio,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    total_return,
    volatility,
)

# 240 sessions to ffn's year of 365.25 days
SESSIONS = pd.date_range("2020-01-01", periods=400, freq=pd.Timedelta(seconds=31_557_600 // 240))


@pytest.fixture(params=range(5))
def values(request):
    steps = np.random.default_rng(request.param).normal(0.0006, 0.015, 400)
    return pd.Series(1e6 * np.cumprod(1 + steps), index=SESSIONS)


def test_returns_and_their_ratios(values):
    returns = session_returns(values)
    assert total_return(values) == pytest.approx(ffn.core.calc_total_return(values), rel=1e-12)
    assert annual_return(values, periods_per_year=240) == pytest.approx(ffn.core.calc_cagr(values), rel=1e-9)
    assert sharpe_ratio(returns) == pytest.approx(ffn.core.calc_sharpe(returns, nperiods=252), rel=1e-12)
    assert volatility(returns) == pytest.approx(values.to_returns().std() * math.sqrt(252), rel=1e-12)
    assert calmar_ratio(values, periods_per_year=240) == pytest.approx(
        ffn.core.calc_calmar_ratio(values), rel=1e-9
    )


def test_the_deepest_of_its_drawdowns(values):
    days = values.set_axis(pd.date_range("2020-01-01", periods=len(values)))
    table = ffn.core.drawdown_details(ffn.core.to_drawdown_series(days)).astype({"drawdown": float})
    deepest = table.loc[table["drawdown"].idxmin()]
    fall = max_drawdown(days)
    assert fall.depth == pytest.approx(ffn.core.calc_max_drawdown(days), abs=1e-15)
    assert fall.peak == deepest["Start"] - pd.Timedelta(days=1)  # its start is the first session below
    assert (fall.recovery or days.index[-1]) == deepest["End"]
    if fall.recovering is not None:
        assert fall.falling + fall.recovering == deepest["Length"] + 1
