"""Orders as columns: read in bulk to the same numbers as one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from load_script import load_script

from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._frames import OrderTable
from quantgraph.broker.session import run_sessions
from quantgraph.market import Rulebook
from quantgraph.report.metrics import rejection_counts

random_market = load_script(Path(__file__).parents[1] / "random_market.py")

MARKETS = (
    ("cn", Rulebook.mainland()),
    ("us", Rulebook.us(fractional=True)),
    ("cn", replace(Rulebook.mainland(), volume_share=Decimal("0.05"))),
)


def test_lines_are_read_in_bulk_to_what_they_are_read_to_one_by_one(tmp_path):
    """Orders of every kind and size, whole and broken, in three markets."""
    for seed, (market, rules) in enumerate(MARKETS):
        world = random_market.random_world(seed, market=market, symbols=6, sessions=25)
        ledger, run_id = Ledger(tmp_path / f"{seed}.db"), "r"
        decider = random_market.RandomDecider(seed, world.symbols)
        run_sessions(world.market(rules), world.sessions, decider, cash=10**6, ledger=ledger, run_id=run_id)
        orders, table = ledger.order_records(run_id), ledger.statement(run_id).orders
        one_by_one = OrderTable.of(orders)
        scale, more = 10**table.digits, 10**one_by_one.digits
        assert [table.days[day] for day in table.day] == [f"{each.session:%Y-%m-%d}" for each in orders]
        assert [table.symbols[symbol] for symbol in table.symbol] == [each.order.symbol for each in orders]
        assert list(table.refused) == list(one_by_one.refused)
        for flag in ("sells", "wishes_to_buy", "at_open", "by_plan"):
            assert getattr(table, flag).tolist() == getattr(one_by_one, flag).tolist(), flag
        assert table.at_open.tolist() == [each.order.type == "open" for each in orders]
        for name in ("quantity", "price", "cost"):
            ours, theirs = getattr(table, name), getattr(one_by_one, name)
            assert [number * (more // scale) for number in ours] == list(theirs), name
        assert rejection_counts(table) == Counter(code for code in one_by_one.refused if code)
        statement = ledger.statement(run_id)
        assert statement.days.equals(ledger.days(run_id))
        assert statement.values.equals(ledger.values(run_id))
        assert statement.costs == ledger.costs(run_id)
        assert list(statement.events) == ledger.event_records(run_id)


def test_a_ledger_without_orders_has_an_empty_table(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.open_run("r", 1000)
        table = ledger.statement("r").orders
        assert (len(table), rejection_counts(table)) == (0, {})
