"""The context of a decision: its history, its scopes, and nothing that leads further."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pandas as pd
import pytest

from quantgraph.broker import (
    Account,
    Decider,
    Decision,
    DecisionContext,
    Order,
    RunContext,
    TradePlan,
    simulate,
)
from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.broker.session import run_sessions
from quantgraph.errors import BadOption, BudgetExceeded, FutureRequested
from quantgraph.market import Moment
from quantgraph.state import decision_moment

CODE = "600000.SH"


class Remembers(Decider):
    """Buys in the first session and notes what it finds of the sessions before."""

    name = "remembers"

    def __init__(self, stop_after=99):
        self.left, self.histories = stop_after, []

    def decide(self, context):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("switched off")
        self.histories.append(context.history)
        buys = [Order(symbol=CODE, side="buy", quantity=100, sequence=1)] if not context.history else []
        seen = [[f"{day.value}", len(day.fills), dict(day.notes)] for day in context.history]
        return Decision(buys, notes={"before": seen})


@pytest.fixture
def days(toy):
    return toy[2]


@pytest.fixture
def context(market, days):
    view = market.store.view(Moment(days[1], "open"), market.data_ref)
    return DecisionContext(view, Account.opening(1_000), rules=market.rules)


def test_history_is_the_same_with_a_ledger_without_one_and_after_a_resume(market, days, tmp_path):
    plain = list(simulate(market, days, Remembers(), account=Account.opening(20_000)))
    with Ledger(tmp_path / "whole.db") as ledger:
        run_sessions(market, days, Remembers(), cash=20_000, ledger=ledger, run_id="a")
        whole = list(ledger.results("a"))
    with Ledger(tmp_path / "two.db") as ledger, pytest.raises(RuntimeError):
        run_sessions(market, days, Remembers(2), cash=20_000, ledger=ledger, run_id="a")
    with Ledger(tmp_path / "two.db") as ledger:
        run_sessions(market, days, Remembers(), cash=20_000, ledger=ledger, run_id="a")
        resumed = list(ledger.results("a"))
        ledger.check("a")
        assert list(ledger.notes("a")) == list(days)
    assert [day.notes for day in whole] == [day.notes for day in resumed] == [day.notes for day in plain]
    assert whole[-1].notes["before"][0][1] == 1
    assert len(whole[-1].notes["before"]) == len(days) - 1


def test_what_is_written_into_the_history_changes_no_later_one(market, days, tmp_path):
    class Writes(Remembers):
        def decide(self, context):
            for day in context.history:
                object.__setattr__(day.account, "positions", {})
            return super().decide(context)

    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(market, days, Writes(), cash=20_000, ledger=ledger, run_id="a")
        ledger.check("a")
        assert len(list(ledger.results("a"))[-1].account.positions) == 1


def test_a_changed_note_breaks_the_chain(market, days, tmp_path):
    import sqlite3

    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(market, days, Remembers(), cash=20_000, ledger=ledger, run_id="a")
    with sqlite3.connect(tmp_path / "l.db") as connection:
        connection.execute("update journal set body = '{}' where kind = 'notes' and line > 8")
    connection.close()
    with Ledger(tmp_path / "l.db") as ledger, pytest.raises(Exception, match="the chain breaks"):
        ledger.check("a")


def test_in_a_scope_a_new_thread_has_the_moment_of_the_decision(market, days):
    tried = {}

    class Side(Decider):
        name = "side"

        def decide(self, context):
            def look(name):
                with context.scope(name):
                    tried[name] = decision_moment()
                    try:
                        market.store.snapshot(market.data_ref)
                    except FutureRequested:
                        return True

            with ThreadPoolExecutor(2) as pool:
                assert list(pool.map(look, ["a", "b"])) == [True, True]
            return []

    list(simulate(market, days[:1], Side(), account=Account.opening(1)))
    assert tried == dict.fromkeys("ab", Moment(days[0], "open"))


def test_each_scope_has_a_name_of_its_own(context):
    inside, done = threading.Event(), threading.Event()

    def hold():
        with context.scope("a"):
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with pytest.raises(BadOption, match="scope 'a' is in use"), context.scope("a"):
        pass
    done.set()
    thread.join()
    with context.scope("a"):
        pass


@pytest.mark.parametrize("name", ["", "a/b", "x" * 101, None, 3])
def test_the_name_of_a_scope_is_a_part_of_a_path(context, name):
    with pytest.raises(BadOption, match="must be 1 to 100 characters without '/'"), context.scope(name):
        pass


def test_a_run_hands_on_its_plan_its_scopes_and_its_models(market, days):
    entered = []

    @contextmanager
    def scope(name):
        entered.append(name)
        yield

    run = RunContext(plan=TradePlan(max_positions=3), scope=scope, model=lambda role: f"model of {role}")
    view = market.store.view(Moment(days[1], "open"), market.data_ref)
    context = DecisionContext(view, Account.opening(1), run=run)
    with context.scope("600000.SH"):
        assert entered == ["600000.SH"]
    assert (context.plan.max_positions, context.model("trader")) == (3, "model of trader")


def test_without_a_run_there_are_no_models(context):
    with pytest.raises(BadOption, match="no model for role 'trader': models come from a run"):
        context.model("trader")


@pytest.mark.parametrize(("of", "ends"), [("session", False), ("run", True), ("node", True)])
def test_the_end_of_a_sessions_budget_leaves_it_without_orders_and_that_of_the_run_ends_it(
    market, days, of, ends
):
    class Spends(Decider):
        name = "spends"

        def decide(self, context):
            raise BudgetExceeded("nothing is left", limit="calls", of=of)

    trading = simulate(market, days, Spends(), account=Account.opening(1_000))
    if ends:
        with pytest.raises(BudgetExceeded):
            list(trading)
        return
    results = list(trading)
    assert [dict(day.notes) for day in results] == [{"error": "budget_exceeded: nothing is left"}] * len(days)
    assert all(day.outcomes == () for day in results)


def test_an_error_that_ends_the_run_ends_it_though_the_decider_swallowed_it(market, days):
    def ended():
        raise BudgetExceeded("the run's budget", limit="calls", of="run")

    view = market.store.view(Moment(days[0], "open"), market.data_ref)
    from quantgraph.broker.session import collect_decision

    with pytest.raises(BudgetExceeded):
        collect_decision(Remembers(), DecisionContext(view, Account.opening(1), run=RunContext(check=ended)))


def test_the_context_is_that_of_a_morning(context, days):
    assert context.session == days[1]
    assert isinstance(context.session, pd.Timestamp)
    assert context.history == ()


def test_steps_are_handed_on_and_must_be_of_the_session_that_is_decided(market, days):
    kept = []
    view = market.store.view(Moment(days[1], "open"), market.data_ref)
    context = DecisionContext(view, Account.opening(1_000), run=RunContext(log_step=kept.append))
    fields = {"rule_name": "r", "rule": "", "symbol": CODE, "timestamp": "2024-01-03T09:00:00"}
    step = LoggedStep(session=days[1], step=1, action_type="observation", action={}, **fields)
    context.log_step(step)
    assert kept == [step]
    with pytest.raises(BadOption, match="a step of 2024-01-04 in the decision of 2024-01-03"):
        context.log_step(replace(step, session=days[2]))


def test_a_decision_without_a_ledger_keeps_no_steps(market, days, context):
    fields = {"rule_name": "r", "rule": "", "symbol": CODE, "timestamp": "2024-01-03T09:00:00"}
    context.log_step(LoggedStep(session=days[1], step=1, action_type="observation", action={}, **fields))
