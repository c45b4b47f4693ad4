"""Buy-and-hold of StockBench's twenty stocks, through the main graph, against the published baseline.

The twelve digits are recomputed from the published bars by other code; the paper (arXiv 2510.02209, table 2) prints
0.4 %, -15.2 % and 0.0155 for the passive baseline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langchain_core.messages import HumanMessage
from states import grouped

from quantgraph import create_trading_graph
from quantgraph.broker.ledger import Ledger
from quantgraph.market import Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.report.metrics import session_returns, sortino_ratio
from quantgraph.runtime import Resources

WITHOUT_DIVIDENDS = (0.004082313370, -0.152096806354, 0.015489847804)
WITH_DIVIDENDS = (0.008829178540, -0.150981682737, 0.019918418976)
SENTENCE = "Buy when the 5-day average crosses above the 20-day average, sell when it crosses below"


@pytest.fixture(scope="module")
def bars(shared_data: Path) -> Path:
    return shared_data / "stockbench" / "bars_daily.csv.gz"


def held(source: Path, folder: Path, **book: Any) -> tuple[dict[str, Any], Ledger]:
    """The summary and the ledger of 100,000 USD held over the 83 sessions, valued at opens."""
    rules = Rulebook.zero_cost("us", fractional=True, **book)
    ledger = Ledger(folder / "ledger.sqlite")
    graph = create_trading_graph(
        source=source,
        decider=BuyAndHold(),
        rules=rules,
        cash=100_000,
        mark_at="open",
        on_clarify="default",
        resources=Resources(ledger=ledger),
    )
    symbols = ",".join(pd.read_csv(source_bars(source))["symbol"].unique())
    given = {"ts_code": symbols, "start_date": "20250303", "end_date": "20250630"}
    state = graph.invoke(
        grouped({"messages": [HumanMessage(SENTENCE)], "given": given, "run_id": "baseline"})
    )
    assert state["ended_because"] == "done"
    return state["summary"], ledger


def source_bars(source: Path) -> Path:
    return source / "bars_daily.csv.gz" if source.is_dir() else source


def measured(ledger: Ledger) -> tuple[float, float, float]:
    values = ledger.values("baseline")
    returns = session_returns(values)
    sortino = sortino_ratio(returns, downside="std_losses", periods_per_year=1)
    return values.iloc[-1] / values.iloc[0] - 1, (values / values.cummax() - 1).min(), sortino


def test_buy_and_hold_at_opens_is_the_published_baseline(bars: Path, tmp_path: Path) -> None:
    summary, ledger = held(bars, tmp_path)
    assert measured(ledger) == pytest.approx(WITHOUT_DIVIDENDS, abs=1e-9)
    assert (summary["account"]["return"], summary["account"]["max_drawdown"]) == pytest.approx(
        WITHOUT_DIVIDENDS[:2], abs=1e-9
    )
    assert len(ledger.sessions("baseline")) == 83
    ledger.check("baseline")


def test_dividends_are_credited_on_ex_dates_when_that_is_all_that_is_known(
    bars: Path, tmp_path: Path
) -> None:
    dividends = pd.read_csv(bars.parent / "dividends.csv")[["ticker", "ex_dividend_date", "cash_amount"]]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / bars.name).write_bytes(bars.read_bytes())
    dividends.to_csv(folder / "dividends.csv", index=False)
    _, ledger = held(folder, tmp_path)
    assert measured(ledger) == pytest.approx(WITH_DIVIDENDS, abs=1e-9)
    assert ledger.account("baseline").owed == 0
    ledger.check("baseline")


def test_what_is_owed_counts_from_the_ex_date_so_pay_dates_change_no_value(
    bars: Path, tmp_path: Path
) -> None:
    """The shipped table has pay dates: the cash comes later, the value is the same at every session."""
    _, ledger = held(bars.parent, tmp_path)
    assert measured(ledger) == pytest.approx(WITH_DIVIDENDS, abs=1e-9)
    assert ledger.account("baseline").owed > 0
    ledger.check("baseline")


def test_slippage_of_200_basis_points_costs_two_percent_of_the_purchase(bars: Path, tmp_path: Path) -> None:
    """1.004082 / 1.02 - 1: what is left of the cash after slippage buys less of everything."""
    _, ledger = held(bars, tmp_path, slippage_bps=200)
    assert measured(ledger)[0] == pytest.approx(1.004082313370 / 1.02 - 1, abs=1e-6)


def test_the_benchmark_beside_a_run_is_the_same_number(bars: Path, tmp_path: Path) -> None:
    summary, _ = held(bars, tmp_path)
    assert summary["benchmark"]["return"] == pytest.approx(summary["account"]["return"], abs=1e-15)
    assert summary["equity"]["benchmark"] == summary["equity"]["account"]
