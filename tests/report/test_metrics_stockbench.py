"""Equal dollar amounts of StockBench's twenty stocks, bought and valued at the opens of its 83 sessions.

The paper's table (arXiv 2510.02209 v2, table 2, "Passive Baseline") prints 0.4 %, -15.2 % and 0.0155.
"""

import pandas as pd
import pytest

from quantgraph.report.metrics._metrics import max_drawdown, session_returns, sortino_ratio, total_return

SORTINO = 0.015489847804


@pytest.fixture(scope="module")
def opens(shared_data):
    rows = pd.read_csv(shared_data / "stockbench" / "bars_daily.csv.gz", parse_dates=["date"])
    opens = rows.pivot(index="date", columns="symbol", values="open").loc["2025-03-03":"2025-06-30"]
    assert opens.shape == (83, 20)
    return opens


@pytest.fixture(scope="module")
def sessions(opens):
    """Value of one dollar at the open of each session; the first one is worth 1."""
    return (opens / opens.iloc[0]).mean(axis=1)


@pytest.fixture(scope="module")
def values(sessions):
    """The same account as this library keeps it: the initial cash, then one value per session."""
    return pd.concat([pd.Series([1.0], index=[pd.Timestamp("2025-03-02")]), sessions])


def test_the_return_and_the_drawdown_of_the_baseline(sessions, values):
    for account in (sessions, values):
        assert total_return(account) == pytest.approx(0.004082313370, abs=1e-9)
        fall = max_drawdown(account)
        assert fall.depth == pytest.approx(-0.152096806354, abs=1e-9)
        assert (fall.peak, fall.trough) == (pd.Timestamp("2025-03-03"), pd.Timestamp("2025-04-09"))
        assert fall.falling == 27


def test_its_published_sortino_from_both_kinds_of_values(sessions, values):
    both = [session_returns(values), session_returns(sessions, leading_zero=True)]
    assert [len(returns) for returns in both] == [83, 83]
    for returns in both:
        assert sortino_ratio(returns, downside="std_losses", periods_per_year=1) == pytest.approx(
            SORTINO, abs=1e-9
        )


def test_without_the_first_session_the_sortino_is_another(sessions):
    # 82 returns: the same sum over one session less
    returns = session_returns(sessions)
    assert sortino_ratio(returns, downside="std_losses", periods_per_year=1) == pytest.approx(
        SORTINO * 83 / 82, abs=1e-9
    )


def test_the_other_deviations_make_other_numbers_of_it(sessions, values):
    # the code's per-symbol series have the leading 0 as well, the paper's equation 3 has not
    zeroed = sortino_ratio(session_returns(values), downside="std_zeroed", periods_per_year=1)
    assert zeroed == pytest.approx(0.0189, abs=5e-5)
    for kind, expected in (("rms_all", 0.0171), ("rms_losses", 0.0126)):
        ratio = sortino_ratio(session_returns(sessions), downside=kind, periods_per_year=1)
        assert ratio == pytest.approx(expected, abs=5e-5)


def test_with_dividends_kept_as_cash(shared_data, opens):
    rows = pd.read_csv(shared_data / "stockbench" / "dividends.csv", parse_dates=["ex_dividend_date"])
    paid = rows.pivot_table(index="ex_dividend_date", columns="ticker", values="cash_amount", aggfunc="sum")
    paid = paid.reindex(index=opens.index, columns=opens.columns).fillna(0.0)
    paid.iloc[0] = 0.0
    account = ((opens + paid.cumsum()) / opens.iloc[0]).mean(axis=1)
    returns = session_returns(account, leading_zero=True)
    assert total_return(account) == pytest.approx(0.008829178540, abs=1e-9)
    assert max_drawdown(account).depth == pytest.approx(-0.150981682737, abs=1e-9)
    assert sortino_ratio(returns, downside="std_losses", periods_per_year=1) == pytest.approx(
        0.019918418976, abs=1e-9
    )
