"""What published ledgers and tables show: the numbers of ``docs/published-results.md``."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from quantgraph.broker import Market
from quantgraph.broker.ledger import Ledger
from quantgraph.data import open_source
from quantgraph.integrations.ai_trader import import_positions
from quantgraph.judgement import (
    Circumstances,
    SessionSharpe,
    Shape,
    Tries,
    deflated_sharpe,
    judge,
    probabilistic_sharpe,
    sharpe_of,
)
from quantgraph.judgement._sharpe import sessions_needed
from quantgraph.market import Rulebook
from quantgraph.report import summarise
from quantgraph.state import DataState

PAGE = Path(__file__).parents[2] / "docs" / "published-results.md"
PLACES = {
    "us": ("daily_prices_nasdaq_100_20250610_20251030.csv.gz", "index_daily_qqq_20250610_20251030.json"),
    "a_share": ("daily_prices_sse_50_20251009_20251119.csv", "index_daily_sse_50_20250930_20251119.json"),
}
AGENTS = [(where, agent) for where in PLACES for agent in ("claude-3.7-sonnet", "qwen3-max")]


@pytest.fixture(scope="module")
def rows():
    """The rows of the page's tables, cell by cell."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def index_of(folder: Path, name: str) -> pd.DataFrame:
    days = json.loads((folder / name).read_text(encoding="utf-8"))["Time Series (Daily)"]
    rows = {
        pd.Timestamp(day): {"open": float(row["1. open"]), "close": float(row["4. close"])}
        for day, row in days.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").sort_index()


def judged(shared_data: Path, where: str, agent: str, place: Path) -> dict:
    folder, (prices, index) = shared_data / "ai-trader" / where, PLACES[where]
    source, store = open_source(folder / prices), DataState()
    span = source.sessions()
    ref = store.update("ohlcv", source.bars(source.symbols(), span[0], span[-1]))
    rules = Rulebook.zero_cost("us" if where == "us" else "cn")
    market = Market(store=store, data_ref=ref, rules=rules)
    with Ledger(place) as ledger:
        import_positions(ledger, agent, market, folder / "positions" / f"{agent}.position.jsonl")
        days = ledger.days(agent).index
        summary = summarise(
            ledger,
            agent,
            market,
            days,
            signal=None,
            cash=ledger.cash(agent),
            index=index_of(folder, index),
            judge=lambda run, against: judge(run, against, Tries(), Circumstances()),
        )
    return summary["judgement"]


def percent(number: float) -> str:
    return f"{number:+.1%}"


@pytest.mark.parametrize(("where", "agent"), AGENTS)
def test_four_published_ledgers(where, agent, shared_data, tmp_path, rows):
    found = judged(shared_data, where, agent, tmp_path / "ledger.sqlite")
    assert found["verdict"] == "too short"
    assert [
        agent,
        where,
        str(found["sessions"]),
        percent(found["net"]["return"]),
        percent(found["net"]["same_exposure"]),
        percent(found["difference"]["value"]),
        f"{percent(found['difference']['low'])} to {percent(found['difference']['high'])}",
        percent(found["difference"]["smallest"]),
        f"{found['excess']['probabilistic']:.2f}",
        f"{found['power']:.0%}",
    ] in rows


def test_a_published_table_of_fourteen(shared_data, rows):
    bars = pd.read_csv(shared_data / "stockbench" / "bars_daily.csv.gz", parse_dates=["date"])
    opens = bars.pivot(index="date", columns="symbol", values="open").loc["2025-03-03":"2025-06-30"]
    returns = (opens / opens.iloc[0]).mean(axis=1).pct_change().iloc[1:].to_numpy()
    passive, shape = sharpe_of(returns)
    table = pd.read_csv(shared_data / "stockbench" / "published_results.csv").set_index("model")
    per_sortino = passive / table["sortino"]["Passive Baseline"]
    for model, sortino in table["sortino"].items():
        sharpe = SessionSharpe(sortino * per_sortino)
        plain = Shape(sessions=len(returns), skewness=shape.skewness, kurtosis=shape.kurtosis)
        years = sessions_needed(sharpe) / 252
        cells = [
            str(model),
            f"{sharpe.per_year(252):.2f}",
            f"{probabilistic_sharpe(sharpe, plain):.2f}",
            f"{deflated_sharpe(sharpe, plain, tries=len(table)):.2f}",
            "–" if math.isinf(years) else f"{years:.0f}",
        ]
        assert cells in rows, cells
