"""Fills leave a ledger as a table and enter another; AI-Trader's real trades become runs of ours."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from quantgraph.broker import Market
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._files import import_fills, read_fills, write_fills
from quantgraph.broker.ledger._frames import FILL_COLUMNS, fills_table
from quantgraph.data import open_source
from quantgraph.errors import BadFile, LedgerConflict, NoData
from quantgraph.integrations.ai_trader import import_positions
from quantgraph.market import Rulebook
from quantgraph.state import DataState

CASES = [
    ("us", "claude-3.7-sonnet", 10_000, Decimal("10711.69")),
    ("us", "qwen3-max", 10_000, Decimal("10343.925")),
    ("a_share", "claude-3.7-sonnet", 100_000, Decimal(101075)),
    ("a_share", "qwen3-max", 100_000, Decimal(96003)),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def market_of(folder: Path, where: str) -> Market:
    name = (
        "daily_prices_nasdaq_100_20250610_20251030.csv.gz"
        if where == "us"
        else "daily_prices_sse_50_20251009_20251119.csv"
    )
    source = open_source(folder / "ai-trader" / where / name)
    days = source.sessions()
    store = DataState()
    ref = store.update("ohlcv", source.bars(source.symbols(), days[0], days[-1]))
    return Market(store=store, data_ref=ref, rules=Rulebook.zero_cost("us" if where == "us" else "cn"))


def real(folder: Path, where: str, agent: str) -> Path:
    return folder / "ai-trader" / where / "positions" / f"{agent}.position.jsonl"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_a_real_ledger_becomes_a_run_of_the_published_value(
    shared_data: Path, ledger: Ledger, case: tuple[str, str, int, Decimal]
) -> None:
    where, agent, cash, value = case
    market = market_of(shared_data, where)
    import_positions(ledger, agent, market, real(shared_data, where, agent))
    assert ledger.cash(agent) == cash
    ledger.check(agent)
    last = list(ledger.results(agent))[-1]
    # Their cash is never rounded and ours is, at each trade: half a cent each at most.
    assert abs(last.value - value) <= Decimal("0.005") * len(ledger.fill_records(agent)) + Decimal("0.5") * (
        where == "a_share"
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_fills_come_back_from_a_table_as_they_were(
    shared_data: Path, ledger: Ledger, tmp_path: Path, ending: str
) -> None:
    market = market_of(shared_data, "a_share")
    import_positions(ledger, "first", market, real(shared_data, "a_share", "qwen3-max"))
    write_fills(tmp_path / f"fills.{ending}", ledger.fill_records("first"))
    import_fills(ledger, "second", market, read_fills(tmp_path / f"fills.{ending}"), cash=100_000)
    first, second = (list(ledger.results(name)) for name in ("first", "second"))
    assert first == second
    assert ledger.values("first").equals(ledger.values("second"))


def test_a_table_needs_five_columns_only(shared_data: Path, ledger: Ledger, tmp_path: Path) -> None:
    """200 at 10.00 and 100 sold at 10.50: 100,000 - 2,000 + 1,050, plus 100 at the last close."""
    table = tmp_path / "trades.csv"
    table.write_text(
        "trade_date,ts_code,side,quantity,price\n2025-10-09,600519.SH,buy,200,10\n20251010,600519.SH,sell,100,10.5\n"
    )
    market = market_of(shared_data, "a_share")
    import_fills(ledger, "mine", market, table, cash=100_000)
    import_fills(ledger, "by_text", market, str(table), cash=100_000)
    account = ledger.account("mine")
    assert (account.cash, account.quantity("600519.SH")) == (Decimal("99050.00"), 100)


def test_the_table_is_tidy(shared_data: Path, ledger: Ledger) -> None:
    market = market_of(shared_data, "a_share")
    import_positions(ledger, "real", market, real(shared_data, "a_share", "qwen3-max"))
    table = fills_table(ledger.fill_records("real")[:2])
    assert tuple(table.columns) == FILL_COLUMNS
    assert len(table) == 2


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("2025-10-09,600519.SH,buy,100,1000\n2025-10-09,600519.SH,sell,100,1000", "may not be sold"),
        ("2025-10-09,600519.SH,sell,100,1000", "0 are held"),
        ("2025-10-09,600519.SH,buy,100,1001", "leaves cash"),
    ],
)
def test_fills_that_do_not_follow_are_refused(
    shared_data: Path, ledger: Ledger, tmp_path: Path, rows: str, told: str
) -> None:
    (tmp_path / "t.csv").write_text(f"trade_date,ts_code,side,quantity,price\n{rows}\n")
    with pytest.raises(LedgerConflict, match=told):
        import_fills(
            ledger, "bad", market_of(shared_data, "a_share"), read_fills(tmp_path / "t.csv"), cash=100_000
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trade_date,ts_code,side,quantity\n", "no column price"),
        ("trade_date,ts_code,side,quantity,price\n2025-10-09,600519.SH,hold,100,10\n", "row 1: side='hold'"),
        (
            "trade_date,ts_code,side,quantity,price\nmonday,600519.SH,buy,100,10\n",
            "row 1: trade_date='monday'",
        ),
        (
            "trade_date,ts_code,side,quantity,price\n2025-10-09,600519.SH,buy,many,10\n",
            "row 1: quantity='many'",
        ),
    ],
)
def test_a_bad_table_names_its_row(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(BadFile, match=told):
        read_fills(tmp_path / "t.csv")


def test_other_endings_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"must be \.csv or \.parquet"):
        read_fills(tmp_path / "fills.xlsx")
    with pytest.raises(BadFile, match="cannot be read"):
        read_fills(tmp_path / "fills.csv")


def test_a_fill_outside_of_the_data_is_refused(shared_data: Path, ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "trade_date,ts_code,side,quantity,price\n2025-10-11,600519.SH,buy,100,10\n"
    )
    with pytest.raises(NoData, match="2025-10-11 is not a session"):
        import_fills(
            ledger, "x", market_of(shared_data, "a_share"), read_fills(tmp_path / "t.csv"), cash=10_000
        )
    assert not ledger.has_run("x")
