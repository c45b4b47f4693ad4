from dataclasses import replace
from decimal import Decimal
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from deciders import OneByOne
from one_session import trade_session

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, Fill, Market, Order, Rejection, SessionResult, simulate
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import advance, run_sessions
from quantgraph.errors import BadWindow, FutureRequested, LedgerConflict
from quantgraph.market import Rulebook
from quantgraph.state import DataState

D = Decimal
CODE, OTHER = "600000.SH", "600036.SH"


class Scripted(Decider):
    """Orders by session; keeps what it was shown."""

    name = "scripted"
    options: ClassVar = {}

    def __init__(self, *orders):
        self.orders = dict(orders)
        self.seen = []

    def decide(self, context):
        view, account, session = context.view, context.account, context.session
        self.seen.append((view.moment, account, session))
        return self.orders.get(f"{session:%m-%d}", [])


def order(side, quantity, symbol=CODE, sequence=1):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence)


@pytest.fixture
def days(toy):
    return toy[2]


def test_a_session_is_filled_at_its_open_and_marked_at_its_close(market, days):
    decider = Scripted(("01-03", [order("buy", 1000)]))
    result = trade_session(market, days[1], Account.opening(20_000), decider)
    # 10,100 + 5 + 0.10, and 1,000 shares at 10.15
    assert result.account.cash == D("9894.90")
    assert result.value == D("20044.90")
    assert (result.session, result.decider) == (days[1], "scripted")
    assert len(result.fills) == 1
    assert (result.rejections, result.events) == ((), ())


def test_holdings_may_be_marked_at_the_open(market, days):
    decider = Scripted(("01-03", [order("buy", 1000)]))
    result = trade_session(replace(market, mark_at="open"), days[1], Account.opening(20_000), decider)
    assert result.value == D("19994.90")


def test_the_decider_stands_at_the_open_and_cannot_reach_the_close(market, days):
    class Peeking(Scripted):
        def decide(self, context):
            view, session = context.view, context.session
            view.row("ohlcv", "close", session)

    assert isinstance(Peeking(), Decider)
    with pytest.raises(FutureRequested):
        trade_session(market, days[1], Account.opening(1), Peeking())


def test_what_was_bought_is_sellable_one_session_later_and_not_before(market, days):
    decider = Scripted(
        ("01-02", [order("buy", 100)]),
        ("01-03", [order("buy", 100), order("sell", 200, sequence=2)]),
        ("01-04", [order("sell", 200)]),
    )
    results = list(simulate(market, days, decider, account=Account.opening(10_000)))
    # On the second day the sale comes before the buy, when only 100 are held.
    kinds = [[o.code if isinstance(o, Rejection) else o.order.side for o in r.outcomes] for r in results]
    assert kinds == [["buy"], ["insufficient_shares", "buy"], ["sell"], []]
    assert decider.seen[2][1].positions[CODE].sellable == 200


def test_a_session_that_is_closed_for_a_symbol_carries_its_mark(market, days):
    decider = Scripted(("01-02", [order("buy", 100, OTHER)]), ("01-04", [order("sell", 100, OTHER)]))
    results = list(simulate(market, days, decider, account=Account.opening(10_000)))
    assert results[2].outcomes[0].code == "suspended"
    assert [(result.marks[OTHER].price, result.marks[OTHER].carried) for result in results] == [
        (D("30.2"), False),
        (D("30.4"), False),
        (D("30.4"), True),
        (D("31"), False),
    ]


def test_a_weight_is_of_the_value_at_the_open_or_the_last_close(market, days):
    half = Order(symbol=CODE, target_weight=D("0.5"), sequence=1)
    decider = Scripted(("01-02", [order("buy", 100, OTHER)]), ("01-04", [half]))
    results = list(simulate(market, days, decider, account=Account.opening(10_000)))
    # 6,994.97 in cash and 100 at 30.40, the close before: half of 10,034.97 are 491 shares at 10.20
    assert results[2].fills[0].quantity == 400


def test_orders_of_every_type_are_filled_in_one_session(days):
    frames = {"open": 10.0, "high": 10.5, "low": 9.5, "close": 10.2, "vol": 80.0, "pre_close": 10.0}
    panel = {name: pd.DataFrame(price, days, [CODE]) for name, price in frames.items()}
    store = DataState()
    rules = Rulebook.mainland(volume_share="0.1")
    where = Market(store=store, data_ref=store.update("ohlcv", panel), rules=rules, blocks_from=0)
    orders = [
        Order(symbol=CODE, side="buy", quantity=100, type="close", sequence=1),
        Order(symbol=CODE, side="buy", quantity=100, type="limit", limit_price=D("9.60"), sequence=2),
        Order(symbol=CODE, side="buy", quantity=700, sequence=3),
    ]
    result = trade_session(where, days[0], Account.opening(20_000), Scripted(("01-02", orders)))
    # 80 hands are 8,000 shares, and the account may be 800 of them: the opening, then the limit, then the close.
    assert [(fill.order.sequence, fill.price, fill.quantity) for fill in result.fills] == [
        (3, D("10"), 700),
        (2, D("9.6"), 100),
    ]
    assert [(refused.order.sequence, refused.code) for refused in result.rejections] == [(1, "volume_cap")]


def test_a_decider_without_a_rule_for_blocks_is_asked_in_every_session(market, days):
    class Shy(Scripted):
        def block_rule(self, context):
            return None

    for decider in (Scripted(("01-02", [order("buy", 100)])), Shy(("01-02", [order("buy", 100)]))):
        done = list(advance(market, list(days), decider, account=Account.opening(10_000)))
        assert all(isinstance(result, SessionResult) for result in done)
        assert [session for *_, session in decider.seen] == list(days)
        assert done == list(simulate(market, days, decider, account=Account.opening(10_000)))


@pytest.mark.parametrize(
    ("sessions", "text"),
    [
        (["2024-01-02", "2024-01-06"], "not a session"),
        (["2024-01-03", "2024-01-02"], "does not come after"),
        (["2024-01-02", "2024-01-04"], "the data has sessions between 2024-01-02 and 2024-01-04"),
        ("2024-01-02", "must be a list of sessions"),
        (["2024-01-03", "2024-01-03"], "does not come after"),
    ],
)
def test_only_ascending_sessions_of_the_data_are_traded(market, sessions, text):
    with pytest.raises(BadWindow, match=text):
        list(simulate(market, sessions, Scripted(), account=Account.opening(1)))


def test_running_again_adds_nothing_and_asks_nobody(market, days, tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        options = {"cash": 10_000, "ledger": ledger, "run_id": "a"}
        first = run_sessions(market, days, Scripted(("01-02", [order("buy", 100)])), **options)
        again = Scripted(("01-02", [order("buy", 200)]))
        assert run_sessions(market, days, again, **options) == first
        assert again.seen == []
        assert len(ledger.fill_records("a")) == 1


def test_a_run_goes_on_where_it_stopped(market, days, tmp_path):
    script = [("01-02", [order("buy", 100)]), ("01-04", [order("sell", 100)])]
    with Ledger(tmp_path / "l.db") as ledger:
        options = {"cash": 10_000, "ledger": ledger, "run_id": "a"}
        run_sessions(market, days[:2], Scripted(*script), **options)
        rest = Scripted(*script)
        account = run_sessions(market, days, rest, **options)
        assert [session for _, _, session in rest.seen] == list(days[2:])
        # 10,000 - 1,000 - 5 - 0.01 + 1,020 - 5 - 0.51 - 0.01
        assert account == Account.opening("10009.47")
        assert [fill.order.side for fill in ledger.fill_records("a")] == ["buy", "sell"]
        assert isinstance(ledger.fill_records("a")[0], Fill)


CHANGES = ("cash", "rules", "sessions", "data", "mark_at", "decider", "options")


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_of_the_same_name_with_other_terms_is_a_conflict(market, days, tmp_path, change):
    decider, cash, sessions = Scripted(), 10_000, days
    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(market, days[:2], decider, cash=cash, ledger=ledger, run_id="a")
        if change == "cash":
            cash = 9_999
        if change == "rules":
            market = replace(market, rules=Rulebook.mainland(commission_min=0))
        if change == "sessions":
            sessions = days[1:]
        if change == "data":
            signal = {"x": pd.DataFrame({CODE: 1.0}, index=days)}
            market = replace(market, data_ref=market.store.update("signal", signal))
        if change == "mark_at":
            market = replace(market, mark_at="open")
        if change == "decider":
            decider.name = "another"
        if change == "options":
            decider.options = {"size": 1}
        before = list(ledger.journal("a"))
        with pytest.raises(LedgerConflict):
            run_sessions(market, sessions, decider, cash=cash, ledger=ledger, run_id="a")
        assert list(ledger.journal("a")) == before


def test_the_identity_of_a_run_names_every_fee(market):
    told = [
        replace(market, rules=rules).identity["rules"]
        for rules in (Rulebook.mainland(), Rulebook.mainland(slippage_bps=1), Rulebook.zero_cost())
    ]
    assert len(set(told)) == 3
    assert told[0].startswith("mainland ")
    assert told[2].startswith("zero_cost ")


def test_us_shares_are_bought_broken_and_sold_in_the_same_session(tmp_path):
    index = pd.DatetimeIndex(["2024-06-03", "2024-06-04"])
    prices = pd.DataFrame({"AAPL": [192.9, 194.64]}, index)
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices + 1})
    where = Market(store=store, data_ref=ref, rules=Rulebook.us(fractional=True), blocks_from=0)
    orders = [
        Order(symbol="AAPL", target_value=D(1000), sequence=1),
        Order(symbol="AAPL", target_quantity=D("1.5"), type="close", sequence=2),
    ]
    with Ledger(tmp_path / "l.db") as ledger:
        account = run_sessions(
            where, index, Scripted(("06-03", orders)), cash=1000, ledger=ledger, run_id="a"
        )
        ledger.check("a")
        bought, sold = ledger.fill_records("a")
        shares, _ = ledger.holdings("a")
    # 1,000 / 192.90 to the billionth below; the rest at 193.90, with 0.02 to the SEC and 0.01 to FINRA
    assert (bought.quantity, bought.notional) == (D("5.184033177"), D("999.99999984"))
    assert (sold.quantity, sold.notional, sold.regulatory) == (D("3.684033177"), D("714.33403302"), D("0.03"))
    assert (account.cash, account.quantity("AAPL")) == (D("714.30403318"), D("1.5"))
    assert np.allclose(shares["AAPL"], 1.5)


def test_a_rule_that_keeps_something_keeps_it_whatever_the_rulebook(days):
    class Counting(SignalRule):
        asked = 0

        def block_rule(self, context):
            return None

        def decide(self, context):
            self.asked += 1
            seen.append(self.asked)
            return []

    flat = pd.DataFrame(10.0, days, [CODE])
    store = DataState()
    ref = store.update("ohlcv", {"open": flat, "close": flat})
    where = Market(store=store, data_ref=ref, rules=Rulebook.mainland(slippage_bps=3))
    for run in (simulate, advance):
        seen = []
        list(run(where, list(days), Counting(), account=Account.opening(1000)))
        assert seen == list(range(1, len(days) + 1))


class Failing(SignalRule):
    """A rule that fails in a session, as when its source of data does."""

    def __init__(self, day):
        super().__init__()
        self.day = day

    def decide(self, context):
        if context.session == self.day:
            raise ConnectionError("gone")
        return super().decide(context)


def test_what_was_traded_before_a_rule_fails_is_recorded(market, days, tmp_path):
    store = market.store
    signal = pd.DataFrame(1.0, days, [CODE])
    ref = store.update("signal", {"s": signal}, base=market.data_ref)
    where = replace(market, data_ref=ref, blocks_from=1_000)
    with Ledger(tmp_path / "l.db") as ledger:
        with pytest.raises(ConnectionError):
            run_sessions(where, days, Failing(days[2]), cash=20_000, ledger=ledger, run_id="a")
        assert ledger.sessions("a") == list(days[:2])
        run_sessions(where, days, Failing(None), cash=20_000, ledger=ledger, run_id="a")
        run_sessions(where, days, OneByOne(), cash=20_000, ledger=ledger, run_id="b")
        assert [*ledger.results("a")] == [*ledger.results("b")]


def test_a_decider_of_ones_own_is_asked_once_a_session_and_knows_those_before(market, days, tmp_path):
    class Own(Decider):
        name = "own"

        def __init__(self):
            self.seen = []

        def decide(self, context):
            self.seen.append((context.session, len(context.history) if len(self.seen) % 2 else None))
            if context.session == days[2]:
                raise ConnectionError("gone")
            return []

    own = Own()
    with Ledger(tmp_path / "l.db") as ledger:
        with pytest.raises(ConnectionError, match="gone"):
            run_sessions(market, days, own, cash=20_000, ledger=ledger, run_id="a")
        assert ledger.sessions("a") == list(days[:2])
    assert own.seen == [(days[0], None), (days[1], 1), (days[2], None)]


def test_sessions_of_a_slow_decider_are_committed_as_they_pass(market, days, tmp_path, monkeypatch):
    monkeypatch.setattr("quantgraph.broker.session._simulate._TOGETHER_SECONDS", -1)
    recorded = []

    class Looks(Scripted):
        def decide(self, context):
            recorded.append(len(ledger.sessions("a")))
            return super().decide(context)

    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(market, days, Looks(), cash=20_000, ledger=ledger, run_id="a")
    assert recorded == list(range(len(days)))


def test_a_holding_that_never_closed_with_a_price_is_worth_its_last_open_in_a_target_weight():
    days, nan = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"], name="trade_date"), np.nan
    opens = pd.DataFrame({CODE: [10.0, 10.0, 10.0], OTHER: [nan, 20.0, nan]}, index=days)
    closes = pd.DataFrame({CODE: [10.0, 10.0, 10.0], OTHER: [nan, nan, nan]}, index=days)
    store = DataState()
    ref = store.update("ohlcv", {"open": opens, "close": closes})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost(), mark_at="open")
    half = Order(symbol=CODE, target_weight=D("0.5"), sequence=1)
    decider = Scripted(("01-03", [order("buy", 100, OTHER)]), ("01-04", [half]))
    *_, last = simulate(market, list(days[1:]), decider, account=Account.opening(20_000))
    # Half of 18,000 in cash and 100 shares at 20 is 1,000 shares at 10.
    assert [(fill.order.symbol, fill.quantity) for fill in last.fills] == [(CODE, 1000)]
