"""Four ledgers that real models left, repeated by scripted models through the trader's tools, without fees."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from quantgraph.broker.ledger import Ledger
from quantgraph.data.files import FileSource
from quantgraph.integrations.ai_trader import verify_positions
from quantgraph.integrations.ai_trader._base_agent import BaseAgent
from quantgraph.integrations.ai_trader._trades import read_positions
from quantgraph.market import Rulebook
from quantgraph.runs import replay
from quantgraph.testing import ScriptedChatModel

PRICES = {
    "us": "us/daily_prices_nasdaq_100_20250610_20251030.csv.gz",
    "a_share": "a_share/daily_prices_sse_50_20251009_20251119.csv",
}
MARKET = {"us": "us", "a_share": "cn"}
FINISH = "<FINISH_SIGNAL>"

STAR_BUYS = {
    "claude-3.7-sonnet": ["2025-10-09", "2025-10-09", "2025-10-29"],
    "qwen3-max": ["2025-10-09", "2025-10-09", "2025-10-15"],
}
"""Buys of 100 shares of a code of the STAR market, whose first lot is 200."""
STAR_SELLS = 6
"""Sells of those shares, of both models together."""


class Repeated:
    """A ledger, and what a model that repeats it through the tools leaves."""

    def __init__(self, shared: Path, folder: Path, place: str, name: str, *, days_left: int = 0) -> None:
        file = shared / place / "positions" / f"{name}.position.jsonl"
        self.theirs = read_positions(file)
        if days_left:
            eve = sorted({each.date for each in self.theirs})[-days_left - 1]
            begun = sum(each.date <= eve for each in self.theirs)
            self.begun = "".join(file.read_text().splitlines(keepends=True)[:begun])
            there = folder / name / "position" / "position.jsonl"
            there.parent.mkdir(parents=True)
            there.write_text(self.begun)
        self.prices = shared / PRICES[place]
        script = defaultdict(list)
        for each in self.theirs[1:]:
            if each.action in ("buy", "sell"):
                script[each.date].append((each.action, {"symbol": each.symbol, "amount": each.amount}))
        told = {day: iter([*map(called, trades), AIMessage(FINISH)]) for day, trades in script.items()}

        def reply(messages):
            day = messages[1].text.partition("(")[2][:10]
            return next(told[day]) if day in told else AIMessage(FINISH)

        self.agent = BaseAgent(
            name,
            ScriptedChatModel(reply),
            source=str(self.prices),
            log_path=folder,
            init_date=self.theirs[0].date,
            end_date=self.theirs[-1].date,
            initial_cash=self.theirs[0].cash,
            stock_symbols=list(self.theirs[0].positions),
            market=MARKET[place],
            rules=Rulebook.zero_cost(MARKET[place]),
            max_steps=60,
        )
        self.result = self.agent.run_for_dates()
        self.file = self.agent.files.position_file
        self.ours = read_positions(self.file)
        run = self.agent.run_dir
        with Ledger(run / "ledger.sqlite") as book:
            self.refused = [
                (
                    f"{each.session:%Y-%m-%d}",
                    each.order.side,
                    each.order.symbol,
                    each.order.quantity,
                    each.code,
                )
                for each in book.rejection_records(run.name)
            ]
            self.exact = float(book.account(run.name).cash)
            self.fills = len(book.fill_records(run.name))


def called(trade):
    name, args = trade
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])


def traded(records):
    """Trades as date, action, symbol and amount; ids and prices are not compared."""
    return [
        (each.date, each.action, each.symbol, each.amount) for each in records if each.action != "no_trade"
    ]


@pytest.fixture(scope="module")
def repeated(shared_data, tmp_path_factory):
    made = {}

    def once(place, name):
        if (place, name) not in made:
            folder = tmp_path_factory.mktemp("agents")
            made[place, name] = Repeated(shared_data / "ai-trader", folder, place, name)
        return made[place, name]

    return once


@pytest.mark.parametrize("name", ["claude-3.7-sonnet", "qwen3-max"])
def test_a_ledger_goes_on_from_its_own_file_for_five_sessions(shared_data, tmp_path, name):
    one = Repeated(shared_data / "ai-trader", tmp_path, "us", name, days_left=5)
    assert one.result["ended_because"] == "done"
    assert one.file.read_text().startswith(one.begun)
    moved = [each for each in one.theirs if each.amount]
    ours = [each for each in one.ours if each.amount]
    assert traded(ours) == traded(moved)
    assert [each.cash for each in ours] == [each.cash for each in moved]  # as doubles, to the last bit
    assert verify_positions(one.file, one.prices, "us").mismatches == ()
    assert replay(one.agent.run_dir).identical


@pytest.mark.parametrize(("name", "records", "zeros"), [("claude-3.7-sonnet", 73, 2), ("qwen3-max", 30, 0)])
def test_a_us_ledger_is_repeated_but_for_its_trades_of_nothing(repeated, name, records, zeros):
    one = repeated("us", name)
    assert one.result["ended_because"] == "done"
    assert len(one.theirs) == records
    nothing = [
        (each.date, each.action, each.symbol, 0) for each in one.theirs if each.action and not each.amount
    ]
    nothing = [each for each in nothing if each[1] != "no_trade"]
    assert len(nothing) == zeros
    assert one.refused == [(*each, "bad_quantity") for each in nothing]
    theirs = [each for each in one.theirs if each.amount or each.action in (None, "no_trade")]
    assert traded(one.ours) == traded(theirs)
    moved = [each for each in theirs if each.amount]
    ours = [each for each in one.ours if each.amount]
    for mine, real in zip(ours, moved, strict=True):
        assert dict(mine.positions) == dict(real.positions)
        assert mine.cash == real.cash, real.id  # as doubles, to the last bit
    assert one.ours[-1].cash == one.theirs[-1].cash


def test_the_default_list_of_ai_trader_is_that_of_its_registration(shared_data, tmp_path):
    listed = read_positions(shared_data / "ai-trader/us/positions/qwen3-max.position.jsonl")[0].positions
    agent = BaseAgent(
        "all",
        ScriptedChatModel([]),
        source=str(shared_data / "ai-trader" / PRICES["us"]),
        stock_symbols="NASDAQ-100",
        init_date="2025-10-01",
        log_path=tmp_path,
    )
    assert agent.symbols == tuple(listed)


def test_the_cash_of_all_us_records_is_reached_in_doubles(repeated):
    """Each of the 103 rows has the cash that the exported records have after the same trades."""
    rows = 0
    for name in ("claude-3.7-sonnet", "qwen3-max"):
        one = repeated("us", name)
        ours = iter([one.ours[0], *(each for each in one.ours if each.amount)])
        state = None
        for real in one.theirs:
            if state is None or real.amount:
                state = next(ours)
            assert state.cash == real.cash, real.id
            rows += 1
        assert next(ours, None) is None
    assert rows == 103


@pytest.mark.parametrize("place", ["us", "a_share"])
@pytest.mark.parametrize("name", ["claude-3.7-sonnet", "qwen3-max"])
def test_the_ledger_and_the_doubles_differ_by_half_a_cent_a_fill_at_most(repeated, place, name):
    one = repeated(place, name)
    assert abs(one.exact - one.ours[-1].cash) <= 0.005 * one.fills + 1e-6


@pytest.mark.parametrize("place", ["us", "a_share"])
@pytest.mark.parametrize("name", ["claude-3.7-sonnet", "qwen3-max"])
def test_the_exported_file_verifies(repeated, place, name):
    one = repeated(place, name)
    assert verify_positions(one.file, one.prices, MARKET[place]).mismatches == ()


@pytest.mark.parametrize(("name", "zeros"), [("claude-3.7-sonnet", 5), ("qwen3-max", 0)])
def test_a_mainland_ledger_is_repeated_but_for_what_dated_rules_refuse(repeated, name, zeros):
    one = repeated("a_share", name)
    by_code = defaultdict(list)
    for day, side, symbol, amount, code in one.refused:
        by_code[code].append((day, side, symbol, int(amount)))
    assert len(by_code.pop("bad_quantity", [])) == zeros
    lots = by_code.pop("lot_size")
    assert [day for day, *_ in lots] == STAR_BUYS[name]
    assert all(
        side == "buy" and symbol.startswith("688") and amount == 100 for _, side, symbol, amount in lots
    )
    unheld = by_code.pop("insufficient_shares", [])
    assert not by_code
    bought = {symbol for _, _, symbol, _ in lots}
    assert all(side == "sell" and symbol in bought for _, side, symbol, _ in unheld)
    # Without the refused trades the two ledgers are the same.
    refused = [*lots, *unheld]
    theirs = traded([each for each in one.theirs if each.amount])
    for each in refused:
        theirs.remove(each)
    assert traded([each for each in one.ours if each.amount]) == theirs
    # The cash differs by exactly the refused trades, at the opens of their days.
    opens = FileSource(one.prices).market.bars["open"]
    paid = sum(
        (1 if side == "buy" else -1) * amount * opens.at[day, symbol] for day, side, symbol, amount in refused
    )
    assert one.ours[-1].cash - one.theirs[-1].cash == pytest.approx(paid, abs=0.01)


def test_six_sells_of_the_refused_shares_are_refused(repeated):
    refused = [each for name in STAR_BUYS for each in repeated("a_share", name).refused]
    assert sum(code == "insufficient_shares" for *_, code in refused) == STAR_SELLS
