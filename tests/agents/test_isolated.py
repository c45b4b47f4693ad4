"""An isolated decider trades as the same decider in this process, and its process cannot affect the host."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sqlite3
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from one_session import trade_session

from quantgraph.agents import IsolatedDecider
from quantgraph.broker import Account, DataNeeds, Decider, Decision, Market, Order, TradePlan, simulate
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.errors import (
    BadFile,
    BadOption,
    CodeFailed,
    CodeMemoryExceeded,
    CodeRefused,
    CodeTimeout,
    LedgerConflict,
    QuantGraphError,
)
from quantgraph.graph import create_trading_graph
from quantgraph.market import Moment, Rulebook
from quantgraph.runtime import Resources
from quantgraph.sandbox import ForkRunner
from quantgraph.sandbox._server import Channel
from quantgraph.sandbox.wire import account_to_json, decision_from_json
from quantgraph.sandbox.wire._deciders import account_from_json, decision_to_json
from quantgraph.state import DataState, Record

DAYS = pd.bdate_range("2024-01-02", periods=40)
CODES = ["000001.SZ", "300750.SZ", "600000.SH", "600519.SH"]
CASH = Decimal("1000000.07")

MOMENTUM = '''
"""Holds the two that gained most, keeps count, and pauses after what it sold."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from quantgraph.broker import Account, DecisionContext


@dataclass
class Momentum(Decider):
    days: int = 5
    name: str = "momentum"
    sold: Counter[str] = field(default_factory=Counter)

    def decide(self, context: DecisionContext) -> list[Order]:
        view, account = context.view, context.account
        close = view["ohlcv"]["close"]
        if len(close) <= self.days:
            return []
        gain = close.iloc[-1] / close.iloc[-1 - self.days] - 1
        best = set((gain - 0.02 * pd.Series(self.sold, dtype=float)).fillna(gain).nlargest(2).index)
        orders = []
        for number, symbol in enumerate(sorted({*account.positions, *best}), 1):
            self.sold[symbol] += symbol not in best
            weight = Decimal(1) / 3 if symbol in best else Decimal(0)
            orders.append(Order(symbol=symbol, target_weight=weight, sequence=number, reason=f"{self.sold}"))
        return orders
'''

HOLD = """
class Decider(Decider):
    name = 'Decider'
    uses_signal = False

    def decide(self, context):
        view, account = context.view, context.account
        if account.positions:
            return []
        opens = view.row("ohlcv", "open").dropna()
        return [
            Order(symbol=symbol, side="buy", quantity=100, type="limit", sequence=n,
                  limit_price=Decimal(str(round(price * 1.01, 2))), reason="买入并持有")
            for n, (symbol, price) in enumerate(opens.items(), 1)
        ]
"""

TELLS_ALL = """
class Decider(Decider):
    name = 'Decider'
    '''Trades a little, and writes all that it sees into a reason.'''

    def decide(self, context):
        view, account, session = context.view, context.account, context.session
        seen = [session, str(view.moment), type(session), session.unit]
        for panel in view:
            for name, frame in view[panel].items():
                seen += [panel, name, frame.shape, list(frame.columns), str(frame.index[-1:]), frame.sum().tolist()]
        seen += [view.names(), view.members("000016.SH"), [r.body for r in view.records("news")]]
        seen += [view.actions(), view.adjusted().tail(1).values.tolist(), account]
        words = repr(seen)
        import hashlib
        reason = hashlib.sha256(words.encode()).hexdigest() + words[-1500:]
        return [Order(symbol="600000.SH", side="sell" if account.quantity("600000.SH") > 500 else "buy",
                      quantity=100, sequence=1, reason=reason.replace("\\\\", "/"))]
"""


@pytest.fixture(scope="module")
def market():
    rng = np.random.default_rng(11)
    made = 10 * np.exp(np.cumsum(rng.normal(0, 0.02, (40, 4)), axis=0))
    close = pd.DataFrame(made.round(2), index=DAYS, columns=CODES)
    opens = (close.shift(1).fillna(10.0) * (1 + rng.normal(0, 0.004, (40, 4)))).round(2)
    close.iloc[25:, 1] = opens.iloc[25:, 1] = np.nan  # delisted

    def event(place, code, value):
        return pd.DataFrame({code: [value]}, index=DAYS[[place]])

    store = DataState()
    store.update("ohlcv", {"open": opens, "close": close, "pre_close": close.shift(1)})
    store.update("ohlcv", {"high": close + 0.2, "low": close - 0.2, "vol": close * 0 + 1e6})
    store.update(
        "ohlcv", {"dividend": event(20, "600000.SH", 0.123), "delisting": event(25, "300750.SZ", 3.5)}
    )
    store.update("ohlcv", {"action_declared": event(20, "600000.SH", 20240110.0)})
    store.update("ohlcv", {"action_pay": event(20, "600000.SH", 20240220.0)})
    store.update("ohlcv", {"split": event(15, "600519.SH", 1.5), "is_st": (opens * 0).fillna(1.0)})
    store.update("indicators", {"pe": close.iloc[::3] / 2})
    ref = store.record(
        [
            Record("news", (day - pd.Timedelta(hours=1)).to_pydatetime(), code, {"text": f"{day:%m%d}"})
            for day in DAYS[::7]
            for code in CODES
        ]
        + [Record("name", DAYS[2].date(), "600000.SH", {"name": "浦发"})]
        + [Record("membership", DAYS[9].date(), "", {"index": "000016.SH", "symbols": CODES[:2]})]
    )
    return Market(store=store, data_ref=ref, rules=Rulebook.mainland())


def in_process(source, name="Decider", **options):
    """The same source as trusted code in this process."""
    scope = {"pd": pd, "np": np, "Order": Order, "Decimal": Decimal, "__name__": __name__}
    scope |= {"Decider": Decider, "Decision": Decision, "DataNeeds": DataNeeds}
    exec(source, scope)
    return scope[name](**options)


class Lent(ForkRunner):
    """A runner that outlives those it is lent to: the start of its process is half a second."""

    def close(self):
        pass


@pytest.fixture(scope="module")
def lent():
    runner = Lent(timeout=15.0, memory_mb=512)
    yield runner
    ForkRunner.close(runner)


@pytest.fixture
def isolated(lent, monkeypatch):
    """Makes isolated deciders that share one fork server, and closes them."""
    made = []
    monkeypatch.setattr("quantgraph.agents._isolated.ForkRunner", lambda **_: lent)

    def make(source, **options):
        made.append(IsolatedDecider(source, **options))
        return made[-1]

    yield make
    for decider in made:
        decider.close()


def lines(path):
    """All lines of a ledger but the first, which says with what the run was begun."""
    connection = sqlite3.connect(path)
    rows = connection.execute("select session, kind, body from journal order by run_id, line").fetchall()
    connection.close()
    assert rows[0][1] == "run"
    return rows[1:]


def traded(market, decider, path, days=DAYS):
    with Ledger(path) as ledger:
        run_sessions(market, days, decider, cash=CASH, ledger=ledger, run_id="r")
        ledger.check("r")
    return lines(path)


@pytest.mark.parametrize(
    "case",
    [
        (MOMENTUM, "Momentum", {"fill", "rejection", "delisting"}),
        (HOLD, "Decider", {"fill", "dividend", "payment", "split", "delisting"}),
        (TELLS_ALL, "Decider", {"fill", "dividend", "payment"}),
    ],
    ids=["momentum", "hold", "tells all"],
)
def test_the_ledger_is_the_one_of_the_same_decider_in_this_process(market, isolated, tmp_path, case):
    source, name, kinds = case
    here = traded(market, in_process(source, name), tmp_path / "here.sqlite")
    there = traded(market, isolated(source, name=name), tmp_path / "there.sqlite")
    assert there == here
    assert {kind for _, kind, _ in here} >= kinds


def test_everything_of_a_view_and_of_the_account_is_there(market, isolated, tmp_path):
    """The reasons that the twins wrote say what they saw: announced actions, names, T+1, money on its way."""
    rows = traded(market, isolated(TELLS_ALL), tmp_path / "l.sqlite")
    reasons = {
        session: json.loads(body)["reason"] for session, kind, body in rows if kind in ("fill", "rejection")
    }
    assert len(reasons) == len(DAYS)
    announced = reasons[f"{DAYS[8]:%Y-%m-%d}"]
    assert "cash=Decimal('0.123')" in announced
    assert "ex=Timestamp('2024-01-30 00:00:00')" in announced
    assert "cash=Decimal('0.123')" not in reasons["2024-01-10"]
    assert "receivables=(Receivable(" in reasons["2024-02-05"]


def test_it_is_a_decider_and_says_what_it_is(isolated):
    decider = isolated(MOMENTUM, name="Momentum", options={"days": 7})
    assert isinstance(decider, Decider)
    assert (decider.name, decider.uses_signal) == ("momentum", True)
    assert decider.options["days"] == 7
    hold = isolated(HOLD)
    assert (hold.name, hold.uses_signal, list(hold.options)) == ("Decider", False, ["code_hash"])
    assert hold.options != isolated(HOLD + "\n").options


def test_a_file_is_a_source_too(isolated, tmp_path):
    file = tmp_path / "momentum.py"
    file.write_text(MOMENTUM, encoding="utf-8")
    with contextlib.closing(IsolatedDecider.from_file(file, name="Momentum", options={"days": 3})) as decider:
        assert decider.options == isolated(MOMENTUM, name="Momentum", options={"days": 3}).options
    with pytest.raises(BadFile, match=r"none\.py"):
        IsolatedDecider.from_file(tmp_path / "none.py")
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(BadFile, match="momentum"):
        IsolatedDecider.from_file(file)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"source": b"x = 1"}, "source"),
        ({"name": "a.b"}, "name"),
        ({"name": None}, "name"),
        ({"options": [1]}, "options"),
        ({"options": {"day": pd.Timestamp(0)}}, "options"),
        ({"options": {"x": float("nan")}}, "options"),
        ({"options": {"code_hash": "1"}}, "options"),
    ],
)
def test_options_of_the_wrong_kind_are_named(change, named):
    with pytest.raises(BadOption, match=named):
        IsolatedDecider(**{"source": HOLD, **change})


# Through the graph -------------------------------------------------------------------------------

ASK = {
    "messages": [
        ("user", "000341.SZ,000342.SZ,000343.SZ，5日均线上穿20日均线买入，下穿卖出，2024年1月到2月")
    ],
    "run_id": "r",
}
THREAD = {"configurable": {"thread_id": "t"}}
FOLLOWS = """
class Follows(Decider):
    '''Buys what the signal bought on the day before; it has no memory.'''
    name = "follows"

    def decide(self, context):
        view = context.view
        (signal,) = view["signal"].values()
        row = signal.iloc[-1] if len(signal) else pd.Series()
        return [
            Order(symbol=symbol, target_weight=Decimal("0.3") if value > 0 else Decimal(0), sequence=n)
            for n, (symbol, value) in enumerate(row[row.abs() == 1].items(), 1)
        ]
"""


class Stops(Decider):
    """A machine that is switched off after some sessions."""

    name, options, uses_signal = "", None, True

    def __init__(self, decider, after):
        self._decider, self._left = decider, after
        self.name, self.options, self.uses_signal = decider.name, decider.options, decider.uses_signal

    def decide(self, context):
        self._left -= 1
        if self._left < 0:
            raise RuntimeError("switched off")
        return self._decider.decide(context)


def test_the_graph_trades_it_and_goes_on_after_a_stop_with_the_same_ledger(isolated, tmp_path):
    store, saver = DataState(), InMemorySaver()
    for name, decider in (
        ("here", in_process(FOLLOWS, "Follows")),
        ("there", isolated(FOLLOWS, name="Follows")),
    ):
        with Ledger(tmp_path / name) as ledger:
            create_trading_graph(
                source="sample", decider=decider, resources=Resources(store=store, ledger=ledger)
            ).invoke(ASK)
            ledger.check("r")
            assert ledger.fill_records("r")
    assert lines(tmp_path / "there") == lines(tmp_path / "here")

    options = {"source": "sample", "checkpointer": saver}
    decider = isolated(FOLLOWS, name="Follows")
    with Ledger(tmp_path / "stopped") as ledger:
        with pytest.raises(RuntimeError, match="switched off"):
            create_trading_graph(
                decider=Stops(decider, 21), resources=Resources(store=store, ledger=ledger), **options
            ).invoke(ASK, THREAD)
        decider.close()
        assert len(ledger.sessions("r")) == 21
        create_trading_graph(
            decider=decider, resources=Resources(store=store, ledger=ledger), **options
        ).invoke(None, THREAD)
        ledger.check("r")
    assert lines(tmp_path / "stopped") == lines(tmp_path / "here")


CHECKS_FIRST = """
class ChecksFirst(Decider):
    name = "checks_first"
    uses_signal = False
    needs = DataNeeds(sessions=3, indicators=("pe",))

    def decide(self, context):
        market, notes = context.market, {"seen": [str(day.value) for day in context.history[-2:]]}
        notes["lot"] = context.rules.lots("600000.SH", context.session.date()).first
        for number, symbol in enumerate(context.view.row("ohlcv", "open").dropna().index, 1):
            held = context.account.quantity(symbol)
            side = "sell" if held and (len(context.history) + number) % 3 == 0 else "buy"
            order = Order(symbol=symbol, side=side, quantity=held if side == "sell" else 30_000, sequence=number)
            outcome = market.submit(order)
            notes[symbol] = getattr(outcome, "code", type(outcome).__name__)
        return Decision(market.orders, notes=notes, in_order=True)
"""


def test_its_context_has_history_rules_and_the_market_of_the_morning(market, isolated, tmp_path):
    here = traded(market, in_process(CHECKS_FIRST, "ChecksFirst"), tmp_path / "here.sqlite")
    decider = isolated(CHECKS_FIRST, name="ChecksFirst")
    assert traded(market, decider, tmp_path / "there.sqlite") == here
    assert (decider.uses_signal, decider.needs) == (False, DataNeeds(sessions=3, indicators=("pe",)))
    notes = [json.loads(line[2]) for line in here if line[1] == "notes"]
    assert {"Fill", "insufficient_cash"} <= {
        word for said in notes for word in said.values() if type(word) is str
    }
    assert [len(said["seen"]) for said in notes[:4]] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("with context.scope('a'): pass", "an isolated decider asks no model and has no scopes"),
        ("context.model('trader')", "no model for role 'trader'"),
        (
            "from quantgraph.broker.ledger import LoggedStep; context.log_step(LoggedStep(rule_name='r', rule='', "
            "symbol='A', session=context.session, step=1, action_type='decision', action={}, "
            "timestamp='2024-01-02T09:00:00'))",
            "an isolated decider has no ledger",
        ),
        ("return Decision(notes={'x': float('nan')})", "notes on 2024-01-02 that are not valid"),
    ],
)
def test_models_scopes_steps_and_bad_notes_are_refused_there(market, isolated, does, said):
    source = f"class Asks(Decider):\n    name = 'asks'\n    def decide(self, context):\n        {does}"
    with pytest.raises(CodeFailed, match=said):
        trade_session(market, DAYS[0], Account.opening(CASH), isolated(source, name="Asks"))


def test_a_run_is_not_continued_with_other_code_or_options(market, isolated, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:

        def go(days, decider):
            run_sessions(market, days, decider, cash=CASH, ledger=ledger, run_id="r")

        go(DAYS[:5], isolated(MOMENTUM, name="Momentum"))
        for other in (
            isolated(MOMENTUM + "#", name="Momentum"),
            isolated(MOMENTUM, name="Momentum", options={"days": 6}),
        ):
            with pytest.raises(LedgerConflict, match="'r'"):
                go(DAYS, other)
        assert len(ledger.sessions("r")) == 5


# What it costs, and what goes over ---------------------------------------------------------------


def test_only_what_became_known_is_sent_and_never_a_whole_frame(market, isolated, monkeypatch):
    sent, send = [], Channel.send

    def counting(channel, parts):
        sent.append(sum(len(part) for part in parts))
        send(channel, parts)

    decider = isolated(HOLD)
    monkeypatch.setattr(Channel, "send", counting)
    list(simulate(market, DAYS, decider, account=Account.opening(CASH)))
    assert len(sent) == len(DAYS) + 1, "the source, and one message a session"
    fields = sum(len(panel) for panel in market.store.snapshot(market.data_ref).values())
    assert max(sent[2:]) < fields * (4 + 1) * 8 + 4_000, "rows, account, and the session before"


@pytest.mark.proof
def test_a_session_costs_less_than_ten_milliseconds(isolated):
    codes, days = [f"{600000 + n}.SH" for n in range(50)], pd.bdate_range("2023-01-02", periods=260)
    close = pd.DataFrame(
        np.random.default_rng(1).uniform(9, 11, (260, 50)).round(2), index=days, columns=codes
    )
    store = DataState()
    store.update("ohlcv", {"open": close, **{f"field{n}": close for n in range(13)}, "close": close})
    market = Market(store=store, data_ref=store.head, rules=Rulebook.mainland())
    nothing = "class Decider(Decider):\n name = 'Decider'\n def decide(self, context): return []"
    took = []
    for decider in (in_process(nothing), isolated(nothing)):
        clock = [
            time.perf_counter() for _ in simulate(market, days[-100:], decider, account=Account.opening(CASH))
        ]
        took.append(np.median(np.diff(clock)))
    assert took[1] - took[0] < 0.010


def test_what_it_prints_goes_to_the_log(market, isolated, caplog, capfd):
    source = HOLD.replace("if account", "print('day', context.session.day)\n        if account")
    with caplog.at_level(logging.DEBUG, logger="quantgraph.agents._isolated"):
        list(simulate(market, DAYS[:2], isolated(source), account=Account.opening(CASH)))
    assert [record.getMessage().strip().split(": ")[1] for record in caplog.records] == ["day 2", "day 3"]
    assert capfd.readouterr() == ("", "")


# Runs, and what is kept --------------------------------------------------------------------------

COUNTS = """
class Decider(Decider):
    name = 'Decider'
    calls = 0

    def decide(self, context):
        self.calls += 1
        return [Order(symbol="600000.SH", side="buy", quantity=100, sequence=self.calls)]
"""


def counted(results):
    return [result.outcomes[0].order.sequence for result in results]


def test_each_run_has_a_decider_of_its_own_that_stays(market, isolated):
    decider = isolated(COUNTS)

    def begin():
        return simulate(market, DAYS[:6], decider, account=Account.opening(CASH))

    # One object, three runs: side by side in this thread, and in two threads.
    pairs = list(zip(begin(), begin(), strict=True))
    assert [counted(results) for results in zip(*pairs, strict=True)] == [[1, 2, 3, 4, 5, 6]] * 2
    told = {}
    threads = [threading.Thread(target=lambda n=n: told.update({n: counted(begin())})) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [told[n] for n in range(3)] == [[1, 2, 3, 4, 5, 6]] * 3


def test_the_process_of_a_run_ends_with_the_run(market, isolated):
    decider = isolated(COUNTS)
    list(simulate(market, DAYS[:3], decider, account=Account.opening(CASH)))
    assert len(decider._runs) == 0
    run = simulate(market, DAYS[:3], decider, account=Account.opening(CASH))
    next(run)
    assert len(decider._runs) == 1


def test_after_close_it_begins_again(market, isolated):
    decider = isolated(COUNTS)
    told = []
    for result in simulate(market, DAYS[:4], decider, account=Account.opening(CASH)):
        told.append(result)
        if len(told) == 2:
            decider.close()
    assert counted(told) == [1, 2, 1, 2]


def test_it_is_told_of_the_plan_what_a_decider_in_the_process_is_told(market, isolated):
    source = """
class Told(Decider):
    name = "told"
    uses_signal = False

    def decide(self, context):
        held = context.account.positions
        wanted = [code for code in ("000001.SZ", "600000.SH") if code not in held]
        orders = [
            Order(symbol=code, side="buy", quantity=100, sequence=at) for at, code in enumerate(wanted, 1)
        ]
        followed = {name: [str(each.basis), each.purchases] for name, each in context.followed.items()}
        sold = [order.trigger for order in context.exits]
        exited = {name: str(day) for name, day in context.exited.items()}
        notes = {"sold": sold, "exited": exited, "followed": followed, "started": str(context.started)}
        return Decision(orders, notes=notes)
"""
    names = {"Decider": Decider, "Order": Order, "Decision": Decision}
    exec(source, names)
    plan = TradePlan(stop_loss=0.02, take_profit=0.03, max_holding=6)
    own, other = (
        [
            (result.notes, result.outcomes, result.value)
            for result in simulate(market, DAYS, decider, account=Account.opening(CASH), plan=plan)
        ]
        for decider in (names["Told"](), isolated(source, name="Told"))
    )
    assert own == other
    assert any(notes["sold"] for notes, *_ in own)
    assert any(notes["exited"] for notes, *_ in own)


def test_sessions_traded_one_by_one_are_one_run_until_they_go_back(market, isolated):
    decider, account = isolated(COUNTS), Account.opening(CASH)
    days = [*DAYS[:3], *DAYS[1:3]]
    results = [trade_session(market, day, account, decider) for day in days]
    assert counted(results) == [1, 2, 3, 1, 2]
    other = DataState()
    ref = other.adopt(market.store.view(Moment(DAYS[9]), market.data_ref).frozen())
    there = Market(store=other, data_ref=ref, rules=market.rules)
    assert counted([trade_session(there, DAYS[5], account, decider)]) == [1], "other data, another run"


def test_lots_drawn_without_a_seed_are_the_same_in_every_run_and_after_a_stop(market, isolated, tmp_path):
    source = """
import random
class Decider(Decider):
    name = 'Decider'
    def decide(self, context):
        view = context.view
        symbols = list({s + str(random.random()) for s in view["ohlcv"]["open"].columns})
        order = {"symbol": random.choice(symbols)[:9], "side": "buy", "quantity": 100 * int(np.random.randint(1, 50))}
        return [Order(**order, sequence=1, reason=" ".join(symbols))]
"""
    first, second = (traded(market, isolated(source), tmp_path / name) for name in ("1", "2"))
    assert first == second
    decider = isolated(source)
    traded(market, decider, tmp_path / "3", DAYS[:17])
    decider.close()
    assert traded(market, decider, tmp_path / "3") == first


# What goes wrong ---------------------------------------------------------------------------------

BODY = """class Decider(Decider):
    name = "Decider"
    def decide(self, context):
        view = context.view
        if len(view["ohlcv"]["open"]) < 4:
            return [Order(symbol="600000.SH", side="buy", quantity=100, sequence=1)]
        {}
"""
FAILURES = {
    "1 / 0": (CodeFailed, r"line 7 \(1 / 0\): ZeroDivisionError"),
    "raise SystemExit(3)": (CodeFailed, "line 7 .*SystemExit"),
    "return None": (CodeFailed, "must be a Decision or a list of Order"),
    "return (order for order in [])": (CodeFailed, "must be a Decision or a list of Order"),
    "return [1]": (CodeFailed, "must be a Decision or a list of Order"),
    "return [Order(symbol='a', target_weight=0.5, sequence=1)]": (CodeFailed, "line 7.*BadOption.*a Decimal"),
    "return [Order(symbol='a\\n', target_weight=0, sequence=1)]": (CodeFailed, "order 1: symbol="),
    "return [Order(symbol='a', target_weight=0, sequence=1, reason='\\x1b[2J')]": (
        CodeFailed,
        "order 1: reason=",
    ),
    "return [Order(symbol='a', target_value=Decimal('1e999999'), sequence=1)]": (
        CodeFailed,
        "order 1: target_value=",
    ),
    "return [Order(symbol='a', target_quantity=10**15, sequence=1)]": (
        CodeFailed,
        "order 1: target_quantity=",
    ),
    "return [Order(symbol='a', target_weight=0, sequence=10**12)]": (CodeFailed, "order 1: sequence="),
    "return [Order(symbol='a', target_weight=0, sequence=n) for n in range(1, 10_002)]": (
        CodeFailed,
        "10001 orders",
    ),
    "import os; os._exit(7)": (CodeFailed, "exited with status 7"),
    "import os; os.kill(os.getpid(), 9)": (CodeRefused, "no other processes"),
    "open('/etc/passwd')": (CodeRefused, "no files"),
    "import socket; socket.create_connection(('127.0.0.1', 80))": (CodeRefused, "no network"),
    "import quantgraph.graph._graph": (CodeFailed, "No module named 'quantgraph.graph'"),
    "bytearray(3 << 30)": (CodeMemoryExceeded, "512 MB"),
}


@pytest.mark.parametrize("code", FAILURES)
def test_code_that_fails_stops_the_run_and_leaves_the_ledger_whole(market, isolated, tmp_path, code):
    kind, words = FAILURES[code]
    decider = isolated(BODY.format(code))
    with Ledger(tmp_path / "l.sqlite") as ledger:
        for _ in range(2):  # it fails again when it is tried again
            with pytest.raises(kind, match=words) as caught:
                run_sessions(market, DAYS, decider, cash=CASH, ledger=ledger, run_id="r")
            assert type(caught.value) is kind
            assert str(caught.value).startswith("decider 'Decider' on 2024-01-05: ")
            assert "\n" not in str(caught.value)
            assert ledger.sessions("r") == list(DAYS[:3])
            ledger.check("r")
        assert len(ledger.fill_records("r")) == 3


@pytest.mark.proof
def test_a_session_has_a_time_limit_and_the_run_goes_on_where_it_stopped(
    market, isolated, lent, tmp_path, monkeypatch
):
    decider = isolated(
        BODY.format("import time; time.sleep(1.2 * (len(view['ohlcv']['open']) == 4)); return []")
    )
    with monkeypatch.context() as patch:
        patch.setattr(lent, "timeout", 0.8)
        for _ in range(2):
            with pytest.raises(CodeTimeout, match=r"^decider 'Decider' on 2024-01-05: .*more than 0\.8 s"):
                traded(market, decider, tmp_path / "l.sqlite")
    rows = traded(market, decider, tmp_path / "l.sqlite")
    assert [session for session, kind, _ in rows if kind == "day"] == [f"{day:%Y-%m-%d}" for day in DAYS]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = (", "line 1 .*SyntaxError"),
        ("x = 1\nraise ValueError('no')", "line 2 .*ValueError: no"),
        ("x = 1", "no class or function 'Decider'"),
        ("Decider = dict", "must be an instance of"),
        (
            "class Decider(Decider):\n name = 'd'\n def decide(self, context): pass\n def __init__(self, days): pass",
            "TypeError",
        ),
        ("class Decider(Decider):\n name = 'a\\nb'\n def decide(self, context): return []", "name"),
        ("import os; os._exit(0)", "exited with status"),
    ],
)
def test_a_source_that_makes_no_decider_is_refused_at_once(isolated, source, words):
    with pytest.raises(CodeFailed, match=words):
        isolated(source)


def test_it_goes_on_where_the_code_failed_for_once(market, isolated, tmp_path):
    """A day on which it fails half of the time, by its own clock: the run is continued until it is through."""
    source = BODY.format(
        "import time; assert len(view['ohlcv']['open']) % 9 or time.time_ns() // 1000 % 2; return []"
    )
    decider = isolated(source)
    path = tmp_path / "l.sqlite"
    for _ in range(200):
        try:
            rows = traded(market, decider, path)
            break
        except CodeFailed:
            continue
    assert [session for session, kind, _ in rows if kind == "day"] == [f"{day:%Y-%m-%d}" for day in DAYS]


def test_its_clock_shows_the_open_of_the_session(market, isolated, tmp_path):
    source = BODY.format(
        "import datetime\n        now = datetime.datetime.now()\n"
        "        assert str(now)[:16] == f'{context.session:%Y-%m-%d} 09:00', now\n        return []"
    )
    rows = traded(market, isolated(source), tmp_path / "l.sqlite")
    assert len([kind for _, kind, _ in rows if kind == "day"]) == len(DAYS)


@pytest.mark.proof
def test_a_process_that_the_machine_ends_is_begun_again_with_all_that_is_known(market, isolated, tmp_path):
    slow = BODY.format("import time; time.sleep(0.05); return []")
    expected = traded(market, isolated(slow), tmp_path / "whole.sqlite")
    request, asked = Channel.send, []

    def send(channel, parts):
        asked.append(channel)
        request(channel, parts)
        if len(asked) in (6, 9):  # its process is ended while it decides
            server = channel._server.process.pid
            for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "send", send)
        assert traded(market, isolated(slow), tmp_path / "killed.sqlite") == expected
    assert len(asked) > len(DAYS) + 2


FORGE = """
import json, os, struct
def answer(header, body=b"", lengths=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<QQ", *(lengths or (len(text), len(body)))) + text + body
def everywhere(content):
    for number in range(3, 64):
        try:
            os.write(number, content)
        except OSError:
            pass
    os._exit(0)
ORDER = {"symbol": "600000.SH", "side": "buy", "quantity": 100, "sequence": 1}
def orders(*told, **more):
    everywhere(answer({"stdout": "", "error": None, "orders": [ORDER, *told], **more}))
class Decider(Decider):
    name = 'Decider'
    def decide(self, context):
        FORGERY
"""
UNREADABLE = "unreadable reply"
FORGERIES = {
    "everywhere(os.urandom(1000))": UNREADABLE,
    "everywhere(answer({}, lengths=(1 << 63, 0)))": UNREADABLE,
    "everywhere(answer({}, lengths=(2, 1 << 40)))": UNREADABLE,
    "everywhere(answer({}, b'more'))": UNREADABLE,
    "everywhere(answer(b'[' * 100_000))": UNREADABLE,
    "everywhere(answer(b'1' * 5_000))": UNREADABLE,
    "everywhere(answer([1]))": UNREADABLE,
    "everywhere(answer({'stdout': 1, 'error': None, 'orders': []}))": UNREADABLE,
    "everywhere(answer({'stdout': '', 'error': 'x', 'orders': []}))": UNREADABLE,
    "everywhere(answer({'stdout': '', 'error': None}))": "must be a list, not NoneType",
    "orders(orders={})": "must be a list, not dict",
    "orders(1)": "order 2: must be dict, not int",
    "orders({**ORDER, 'price': 1})": "order 2: an order has no field 'price'",
    "orders({'symbol': 'a'})": "order 2: .*sequence",
    "orders({**ORDER, 'symbol': ['a']})": "order 2: symbol=",
    "orders({**ORDER, 'symbol': 'a' * 10_000})": "order 2: symbol=",
    "orders({**ORDER, 'side': 'take'})": "order 2: side=",
    "orders({**ORDER, 'type': None})": "order 2: type=",
    "orders({**ORDER, 'quantity': 1.5})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': True})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': 'NaN'})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': 'Infinity'})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': '1' * 100_000})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': 10**300})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': float('nan')})": "order 2: quantity=",
    "orders({**ORDER, 'quantity': None, 'side': None, 'target_weight': '1E+99'})": "order 2: ",
    "orders({**ORDER, 'target_weight': '0.5'})": "order 2: .*exactly one",
    "orders({**ORDER, 'sequence': 1.0})": "order 2: sequence=",
    "orders({**ORDER, 'sequence': -1})": "order 2: sequence=",
    "orders({**ORDER, 'reason': 'x' * 100_000})": "order 2: reason=",
    "orders({**ORDER, 'reason': '\\ud800'})": "order 2: reason=",
    "orders(*[ORDER] * 10_000)": "10001 orders",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_reply_is_an_error_that_names_the_order(market, isolated, forgery):
    decider = isolated(FORGE.replace("FORGERY", forgery))
    with pytest.raises(CodeFailed, match=FORGERIES[forgery]) as caught:
        trade_session(market, DAYS[3], Account.opening(CASH), decider)
    assert len(str(caught.value)) < 400


def test_a_sequence_twice_is_refused_as_in_this_process(market, isolated):
    decider = isolated(FORGE.replace("FORGERY", "orders(ORDER)"))
    with pytest.raises(BadOption, match=r"sequence=1 of 600000\.SH is used twice"):
        trade_session(market, DAYS[3], Account.opening(CASH), decider)


# As JSON -----------------------------------------------------------------------------------------


def test_amounts_are_exact_on_their_way_there_and_back():
    third = Decimal(1) / 3
    account = Account(
        cash=Decimal("123456789012345.67"),
        positions={
            "AAPL": Position(quantity=third, sellable=Decimal("0.1"), cost=Decimal("0.10"), entered=DAYS[0]),
            "MSFT": Position(quantity=10**12, sellable=0, cost=Decimal("1E+3"), entered=DAYS[1]),
        },
        receivables=(Receivable(symbol="AAPL", amount=Decimal("1E-8"), pay=DAYS[2]),),
    )
    there = account_from_json(json.loads(json.dumps(account_to_json(account))))
    assert there == account
    assert repr(there) == repr(account)
    orders = [
        Order(symbol="AAPL", target_weight=third, sequence=1, reason="a\nb “c”"),
        Order(
            symbol="AAPL",
            target_weight=Decimal("0.1000000000000000055511151231257827021181583404541015625"),
            sequence=2,
        ),
        Order(symbol="BRK/B", side="sell", quantity=Decimal("-1.50"), sequence=3),
        Order(
            symbol="600000.SH",
            side="buy",
            quantity=10**14,
            type="limit",
            limit_price=Decimal("1E-4"),
            sequence=4,
        ),
    ]
    assert repr(
        decision_from_json(json.loads(json.dumps(decision_to_json(Decision(orders))))).orders
    ) == repr(orders)


def test_every_error_is_of_the_family():
    with pytest.raises(QuantGraphError):
        decision_from_json({"orders": [{"symbol": "a"}]})
