"""What a decider is told of an order at the open is what the ledger has."""

from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import (
    Account,
    Decider,
    Decision,
    DecisionContext,
    Fill,
    Market,
    Order,
    Pending,
    Rejection,
    Session,
    simulate,
)
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState

A, B = "AAPL", "MSFT"
SHANGHAI = "600000.SH", "600036.SH"
DAYS = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])
FREE = Rulebook.zero_cost("us")


def market_of(rules=FREE, symbols=(A, B), **fields):
    """Two stocks at 10.00 in each session, 1,000 hands a session."""
    store = DataState()
    flat = pd.DataFrame(10.0, DAYS, list(symbols))
    panel = {"open": flat, "high": flat + 1, "low": flat - 1, "close": flat, "vol": flat * 100, **fields}
    return Market(store=store, data_ref=store.update("ohlcv", panel), rules=rules)


def order(side, symbol, quantity, sequence, **more):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence, **more)


class Tries(Decider):
    """Submits the orders of a session one by one and returns those that were not refused."""

    name = "tries"

    def __init__(self, orders, *, in_order=True):
        self.orders, self.in_order, self.told = orders, in_order, []

    def decide(self, context):
        for each in self.orders.get(f"{context.session:%m-%d}", []):
            self.told.append(context.market.submit(each))
        if self.in_order:
            return Decision(context.market.orders, in_order=True)
        return self.orders.get(f"{context.session:%m-%d}", [])


def traded(market, decider, cash):
    results = list(simulate(market, DAYS, decider, account=Account.opening(cash)))
    return [outcome for result in results for outcome in result.outcomes]


def test_a_buy_that_was_told_no_cash_is_not_sent_and_fills_are_those_of_the_ledger():
    orders = {
        "01-02": [order("buy", A, 100, 1)],
        "01-03": [order("buy", B, 100, 1), order("sell", A, 100, 2), order("buy", B, 50, 3)],
    }
    decider = Tries(orders)
    outcomes = traded(market_of(), decider, 1_000)
    assert [(one.order.sequence, getattr(one, "code", "filled")) for one in decider.told] == [
        (1, "filled"),
        (1, "insufficient_cash"),
        (2, "filled"),
        (3, "filled"),
    ]
    assert outcomes == [one for one in decider.told if isinstance(one, Fill)]


def test_the_same_orders_as_a_plain_list_are_sorted_sells_first():
    orders = {
        "01-02": [order("buy", A, 100, 1)],
        "01-03": [order("buy", B, 100, 1), order("sell", A, 100, 2)],
    }
    outcomes = traded(market_of(), Tries(orders, in_order=False), 1_000)
    assert [(fill.side, fill.order.symbol) for fill in outcomes] == [("buy", A), ("sell", A), ("buy", B)]


def test_a_round_trip_within_a_session_trades_where_the_market_allows_it():
    trip = {"01-02": [order("buy", A, 100, 1), order("sell", A, 100, 2)]}
    fills = traded(market_of(), Tries(trip), 1_000)
    assert [(fill.side, fill.quantity) for fill in fills] == [("buy", 100), ("sell", 100)]
    refused = traded(market_of(), Tries(trip, in_order=False), 1_000)
    assert next(getattr(one, "code", one) for one in refused) == "insufficient_shares"
    one = SHANGHAI[0]
    told = Tries({"01-02": [order("buy", one, 100, 1), order("sell", one, 100, 2)]})
    traded(market_of(Rulebook.mainland(), SHANGHAI), told, 10_000)
    assert [getattr(one, "code", "filled") for one in told.told] == ["filled", "t_plus_one"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"type": "close"}, "close"), ({"type": "limit", "limit_price": Decimal(11)}, "limit")],
)
def test_an_order_that_meets_later_prices_is_pending_and_moves_no_cash(more, reason):
    decider = Tries({"01-02": [order("buy", A, 100, 1, **more), order("buy", B, 100, 2)]})
    outcomes = traded(market_of(), decider, 1_000)
    pending, fill = decider.told
    assert isinstance(pending, Pending)
    assert (pending.reason, fill.order.symbol) == (reason, B)
    assert outcomes[0] == fill, "the opening auction comes before the day and the close"
    assert (outcomes[1].order.sequence, outcomes[1].code) == (1, "insufficient_cash")


def test_under_a_volume_cap_a_fill_is_pending_and_so_is_what_depends_on_it():
    # Nothing is left after the purchase: whether the second one has its cash depends on the sale.
    one, other = SHANGHAI
    capped = market_of(Rulebook.mainland(volume_share="0.01"), SHANGHAI)
    first = {"01-02": [order("buy", one, 900, 1)]}
    second = {"01-03": [order("sell", one, 900, 1), order("buy", other, 800, 2)]}
    decider = Tries(first | second)
    outcomes = traded(capped, decider, 9_100)
    assert [one.reason for one in decider.told] == ["volume_cap", "volume_cap", "earlier_order"]
    assert [fill.order.symbol for fill in outcomes] == [one, one, other]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (order("buy", "600999.SH", 100, 1, type="close"), "unknown_symbol"),
        (order("buy", SHANGHAI[0], 0, 1, type="close"), "bad_quantity"),
        (order("buy", SHANGHAI[0], 100, 1, type="limit", limit_price=Decimal("10.005")), "tick_size"),
    ],
)
def test_what_nothing_can_change_is_refused_at_once(asked, code):
    decider = Tries({"01-02": [asked]})
    traded(market_of(Rulebook.mainland(), SHANGHAI), decider, 1_000_000)
    (refused,) = decider.told
    assert isinstance(refused, Rejection)
    assert refused.code == code


def test_an_order_submitted_again_is_the_same_and_a_sequence_belongs_to_one():
    market = market_of()
    view = market.store.view(Moment(DAYS[0], "open"), market.data_ref)
    context = DecisionContext(view, Account.opening(5_000), rules=FREE)
    first = context.market.submit(order("buy", A, 100, 1))
    assert context.market.submit(order("buy", A, 100, 1)) is first
    assert context.market.account.cash == 4_000
    assert context.account.cash == 5_000, "the decider's account is that of the morning"
    with pytest.raises(LedgerConflict, match="sequence=1 on 2024-01-02 is used by an order of AAPL"):
        context.market.submit(order("buy", B, 100, 1))


def test_nothing_is_traded_that_is_not_returned():
    class Looks(Decider):
        name = "looks"

        def decide(self, context):
            assert isinstance(context.market.submit(order("buy", A, 100, 1)), Fill)
            return []

    assert traded(market_of(), Looks(), 1_000) == []


def test_orders_that_are_placed_are_numbered_in_their_order():
    view = market_of().store.view(Moment.at(DAYS[0], "open"))
    market = Session.at_open(view, Account.opening(1_000), FREE)
    market.submit(order("buy", A, 10, 4))
    told = [
        market.place("buy", B, 10),
        market.place("buy", B, 1_000, reason="all in"),
        market.place("sell", A, 10),
    ]
    assert [(each.order.sequence, getattr(each, "code", "filled")) for each in told] == [
        (5, "filled"),
        (6, "insufficient_cash"),
        (7, "filled"),
    ]
    assert told[1].order.reason == "all in"
    assert [each.sequence for each in market.orders] == [4, 5, 7]
    assert market.submit(told[0].order) is told[0]


def test_no_order_is_filled_on_a_day_that_is_not_a_session():
    view = market_of().store.view(Moment.at("2024-01-06", "open"))  # a Saturday
    refused = Session.at_open(view, Account.opening(1_000), FREE).place("buy", A, 1)
    assert (refused.code, refused.message) == ("not_a_session", "2024-01-06 is not a session of the exchange")


def opened(cash=2_000, **fields):
    market = market_of(**fields)
    return Session.open(market, DAYS[0], Account.opening(cash))


def test_a_closed_session_has_judged_what_was_submitted_and_what_was_pending():
    session = opened(1_500)
    told = [
        session.submit(order("buy", A, 50, 1, type="limit", limit_price=Decimal(9))),
        session.submit(order("buy", B, 100, 2)),
        session.submit(order("sell", B, 50, 3, type="close")),
    ]
    assert [type(each).__name__ for each in told] == ["Pending", "Fill", "Pending"]
    result = session.close()
    # 1,500 - 1,000 at the open, - 450 at the limit, + 500 at the close; 50 of each at 10 are left
    assert [(fill.order.sequence, fill.price) for fill in result.outcomes] == [(2, 10), (1, 9), (3, 10)]
    assert (result.account.cash, result.value) == (550, 1_550)
    assert session.account.cash == 500, "the session still tells what the open told"
    assert session.close() == result


def test_a_decision_is_judged_in_place_of_what_was_submitted():
    session = opened()
    session.submit(order("buy", A, 100, 1))
    result = session.close(Decision([order("buy", B, 10, 1)], notes={"why": "B"}), decider="d")
    assert [fill.order.symbol for fill in result.outcomes] == [B]
    assert (result.decider, result.notes, result.session) == ("d", {"why": "B"}, DAYS[0])


def test_a_copy_is_a_trial():
    session = opened()
    session.submit(order("buy", A, 100, 1))
    trial = session.copy()
    assert isinstance(trial.submit(order("sell", A, 100, 2)), Fill)
    assert [each.account.cash for each in (session, trial)] == [1_000, 2_000]
    assert [each.submitted for each in (session, trial)] == [session.submitted, trial.submitted[:2]]
    assert len(session.submitted) == 1
    with pytest.raises(BadOption, match="a session for trials cannot be closed"):
        trial.close()


def test_a_trial_may_take_the_open_for_the_whole_session():
    """The close of 10.00 is not known: it counts with the open of 9.00, and the cap with any volume."""
    flat = pd.DataFrame(10.0, DAYS, list(SHANGHAI))
    capped = market_of(Rulebook.mainland(volume_share="0.01"), SHANGHAI, open=flat - 1)
    session = Session.open(capped, DAYS[0], Account.opening(1_000_000))
    orders = [order("buy", SHANGHAI[0], 9_000, 1), order("buy", SHANGHAI[1], 100, 2, type="close")]
    trial = session.copy(pending=False)
    trial.batch(orders)
    assert [(fill.quantity, fill.price) for fill in trial.outcomes] == [(9_000, 9), (100, 9)]
    result = session.close(Decision(orders))
    assert [(fill.quantity, fill.price) for fill in result.outcomes] == [(1_000, 9), (100, 10)]


def test_an_open_of_a_session_without_volume_was_none():
    session = opened(vol=pd.DataFrame(0.0, DAYS, [A, B]))
    assert isinstance(session.submit(order("buy", A, 100, 1)), Fill)
    assert [refused.code for refused in session.close().outcomes] == ["suspended"]


def test_the_session_of_a_decider_holds_nothing_of_later():
    """Its quotes end at the open, and no object that it holds is a market, a commit or a view of the close."""
    market = market_of()
    view = market.store.view(Moment(DAYS[0], "open"), market.data_ref)
    context = DecisionContext(view, Account.opening(5_000), rules=FREE)
    for session in (context.market, context.market.copy(), context.market.copy(pending=False)):
        quote = session.quotes[A]
        assert (quote.open, quote.high, quote.low, quote.close, quote.volume) == (10, None, None, None, None)
        with pytest.raises(BadOption, match=r"Session\.open\(market, day, account\) opens one"):
            session.close()
