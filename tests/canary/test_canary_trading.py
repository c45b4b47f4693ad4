"""Deciders and trading nodes: what they decide and what the ledger says was known; a broken one is found."""

from __future__ import annotations

import pandas as pd
import pytest
from canary_data import CanarySource, CanaryStore
from canary_watch import CanaryFound, CanaryWatch, differences
from one_session import trade_session
from states import grouped

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, DataNeeds, Decider, Market, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.graph import create_trading_graph
from quantgraph.market import Rulebook
from quantgraph.report import BuyAndHold
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

RULES = Rulebook.mainland()
SYMBOLS = ["000341.SZ", "000344.SZ"]


class Watched(Decider):
    """Shows a watch each view and the orders that another decider makes of it."""

    def __init__(self, decider, watch):
        self._decider, self._watch, self._name = decider, watch, decider.name

    @property
    def name(self):
        return self._name

    @property
    def needs(self):
        return self._decider.needs if isinstance(self._decider, Decider) else DataNeeds()

    def decide(self, context):
        self._watch.see("view", context.view, transcript=False)
        orders = self._decider.decide(context)
        self._watch.see("orders", orders)
        return orders


def sessions_of(market, seed, decider_of, count):
    """Sessions are traded one after the other, each over a store whose snapshots end with it."""
    account = Account.opening(1_000_000)
    ohlcv = market.SAMPLE.bars(SYMBOLS, market.SESSIONS[80], market.SESSIONS[220])
    signal = ohlcv["close"].diff().gt(0).astype(float).replace(0.0, -1.0)
    plain = DataState()
    plain.update("ohlcv", ohlcv)
    plain.update("signal", {"up_day": signal})
    frames = plain.view(market.Moment(market.SESSIONS[-1])).frozen()
    with CanaryWatch() as watch:
        for session in market.SESSIONS[100 : 100 + count]:
            store = CanaryStore(market.Moment(session), seed=seed)
            ref = store.adopt(frames)
            desk = Market(store=store, data_ref=ref, rules=RULES)
            result = trade_session(desk, session, account, Watched(decider_of(store, ref), watch))
            account = result.account
            watch.see("result", result)
    return watch


@pytest.mark.parametrize(("decider", "sessions", "at_least"), [(SignalRule, 105, 40), (BuyAndHold, 10, 1)])
def test_a_decider_decides_by_what_it_may_know(market, decider, sessions, at_least):
    one, other = (sessions_of(market, seed, lambda store, ref: decider(), sessions) for seed in (0, 1))
    assert differences(one, other) == []
    assert sum(line.startswith("orders: Order(") for line in one.transcript) >= at_least


class Peeks:
    """Holds the commit from before, and looks up what happens after today."""

    name = "peeks"

    def __init__(self, store, ref):
        self._close = store.snapshot(ref)["ohlcv"]["close"]

    def after(self, session):
        return self._close[self._close.index > session].iloc[0]


class Tells(Peeks):
    def decide(self, context):
        session = context.session
        close = self.after(session)["000341.SZ"]
        return [Order(symbol="000341.SZ", side="buy", quantity=100, sequence=1, reason=f"closes at {close}")]


class Compares(Peeks):
    def decide(self, context):
        session = context.session
        rises = [symbol for symbol, close in self.after(session).items() if close > 0]
        orders = enumerate(rises, start=1)
        return [Order(symbol=symbol, side="buy", quantity=100, sequence=number) for number, symbol in orders]


def test_a_decider_that_tells_a_later_price_is_found(market):
    with pytest.raises(CanaryFound, match=r"orders \[0\].reason: closes at \d\.\d+e\+7[67]"):
        sessions_of(market, 0, Tells, 3)


def test_a_decider_that_only_compares_with_a_later_price_is_found_by_two_plantings(market):
    one, other = (sessions_of(market, seed, Compares, 3) for seed in (0, 1))
    assert any("orders: " in line for line in differences(one, other))


# The graph ---------------------------------------------------------------------------------------


def traded(market, folder, seed, decider=None):
    """A run of the main graph over 105 sessions; what it said."""
    as_of = market.Moment(market.SESSIONS[205])
    store = CanaryStore(as_of, seed=seed)
    source = CanarySource(market.SAMPLE, as_of, seed=seed)
    text = market.request(market.SESSIONS[101])
    with Ledger(folder / f"{seed}.sqlite") as ledger, CanaryWatch(store) as watch:
        graph = create_trading_graph(
            model=ScriptedChatModel(market.curious),
            source=source,
            decider=decider and Watched(decider, watch),
            settings=load_settings(audit={"cuts": 1, "prove": "sampled"}),
            resources=Resources(store=store, runner=market.Inline(), ledger=ledger),
        )
        given = grouped({"messages": [("user", text)], "run_id": "r", "as_of": f"{as_of.session:%Y%m%d}"})
        for update in graph.stream(given, stream_mode="updates", subgraphs=True):
            watch.see("streamed", update, transcript=False)
        assert len(ledger.sessions("r")) > 100
        watch.see_ledger(ledger, "r")
    return watch


def test_a_run_through_the_graph_tells_nothing_later(market, tmp_path):
    one, other = (traded(market, tmp_path, seed) for seed in (0, 1))
    assert differences(one, other) == []
    assert sum(line.startswith("ledger r") for line in one.transcript) > 200


@pytest.mark.proof
def test_no_view_of_a_run_through_the_graph_shows_anything_later(market, tmp_path):
    watch = traded(market, tmp_path, 1, SignalRule())
    assert sum(line.startswith("orders") for line in watch.transcript) > 100


class Reads(Decider):
    """Orders what has news since yesterday, with the newest text it knows and the newest filing's as the reason."""

    name = "reads"
    needs = DataNeeds(records=("news", "filing"))

    def decide(self, context):
        view, since, orders = context.view, context.session - pd.Timedelta(days=1), []
        for symbol in SYMBOLS:
            news, filings = view.records("news", symbol), view.records("filing", symbol)
            if news and pd.Timestamp(news[-1].known) >= since:
                told = f"{news[-1].body} {filings[-1].body if filings else ''}"
                orders.append(
                    Order(symbol=symbol, side="buy", quantity=100, sequence=len(orders) + 1, reason=told)
                )
        return orders


@pytest.mark.proof
def test_news_and_filings_of_a_source_reach_a_decider_and_no_later_ones(market, tmp_path):
    one, other = (traded(market, tmp_path, seed, Reads()) for seed in (0, 1))
    assert differences(one, other) == []
    orders = [line for line in one.transcript if line.startswith("orders: Order(")]
    assert len(orders) > 3
    assert all("合成" in line for line in orders)
    assert any("fiscal_period" in line for line in orders)
