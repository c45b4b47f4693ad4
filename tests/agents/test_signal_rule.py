import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, DecisionContext, Market, RunContext, TradePlan, simulate
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.broker.session import advance
from quantgraph.errors import BadOption, NoSignal, UnknownField
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState

D = Decimal
A, B, C = "600000.SH", "600036.SH", "601318.SH"
DAYS = pd.bdate_range("2024-01-02", periods=8).as_unit("us")
NAN = np.nan


def market(signal, *, opens=None, closes=None):
    """A store in which everything costs 10 unless said otherwise; panels are dicts of columns."""
    signal = pd.DataFrame(signal, dtype="float64")
    signal.index = DAYS[: len(signal)]
    flat = pd.DataFrame(10.0, DAYS, list(signal.columns))
    prices = {"open": flat.copy(), "close": flat.copy(), "pre_close": flat.copy()}
    for name, changes in (("open", opens or {}), ("close", closes or {})):
        for (day, code), price in changes.items():
            prices[name].loc[DAYS[day], code] = price
    store = DataState()
    store.update("ohlcv", prices)
    return store, store.update("signal", {"s": signal})


def decide(rule, store_ref, day, account=None, *, rules=None, **plan):
    store, ref = store_ref
    view = store.view(Moment(DAYS[day], "open"), ref)
    run = RunContext(plan=TradePlan(**plan), start=DAYS[1])
    return rule.decide(DecisionContext(view, account or Account.opening(100_000), rules=rules, run=run))


def brief(orders):
    return [(order.sequence, order.side, order.symbol, order.quantity) for order in orders]


def holding(code=A, quantity=1000, entered=1, cash="100000.00"):
    position = Position(quantity=quantity, sellable=quantity, cost=D("1.00"), entered=DAYS[entered])
    return Account(cash=D(cash), positions={code: position})


def replay(store_ref, cash=100_000, **plan):
    store, ref = store_ref
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    results = simulate(market, DAYS, SignalRule(), account=Account.opening(cash), plan=TradePlan(**plan))
    return [
        (place, outcome.order.side, getattr(outcome, "code", "filled"))
        for place, result in enumerate(results)
        for outcome in result.outcomes
    ]


def test_it_is_a_decider():
    assert isinstance(SignalRule(), Decider)
    assert SignalRule().name == "signal_rule"


def test_a_signal_of_a_session_is_traded_at_the_next_open_and_only_there():
    data = market({A: [0, 1, 0, 0]})
    assert decide(SignalRule(), data, 1) == []
    # 100,000 / 10 = 100 lots; with 25 of commission and 1 of transfer fee, 99 fit.
    assert brief(decide(SignalRule(), data, 2)) == [(1, "buy", A, 9900)]
    assert decide(SignalRule(), data, 3) == []


def test_nothing_is_decided_on_the_first_session():
    assert decide(SignalRule(), market({A: [1, 1]}), 0) == []


def test_a_signal_that_ended_earlier_is_stale_and_enters_nothing():
    assert decide(SignalRule(), market({A: [1, 1]}), 2) != []
    assert decide(SignalRule(), market({A: [1, 1]}), 3) == []


def test_entries_are_in_ascending_order_and_share_equally():
    orders = decide(SignalRule(), market({C: [1, 1], A: [1, 1], B: [1, 1]}), 1)
    # 33,333.33 each: 33 lots cost 33,000 + 8.25 + 0.33
    assert brief(orders) == [(1, "buy", A, 3300), (2, "buy", B, 3300), (3, "buy", C, 3300)]


def test_a_held_symbol_is_left_alone_at_one_zero_and_nan():
    for value in (1, 0, NAN):
        data = market({A: [1, 0, value], B: [0, 0, 0]})
        assert decide(SignalRule(), data, 3, holding()) == []


def test_an_exit_sells_the_whole_holding():
    data = market({A: [1, 0, -1]})
    assert brief(decide(SignalRule(), data, 3, holding(quantity=1050))) == [(1, "sell", A, 1050)]


def test_a_minus_one_from_before_the_entry_does_not_count():
    # The row of the entry's own session is the first that is younger than the entry.
    data = market({A: [-1, -1, 0, 0]})
    assert decide(SignalRule(), data, 3, holding(entered=2)) == []
    assert brief(decide(SignalRule(), data, 3, holding(entered=1))) == [(1, "sell", A, 1000)]


def test_a_later_one_takes_a_pending_exit_back():
    data = market({A: [1, 0, -1, NAN, 1, 0]})
    assert brief(decide(SignalRule(), data, 4, holding())) == [(1, "sell", A, 1000)]
    assert decide(SignalRule(), data, 6, holding()) == []


def test_a_rejected_exit_is_tried_again_until_it_is_filled():
    opens = {(3, A): NAN, (4, A): 9.0}
    data = market({A: [1, 0, -1, 0, NAN, 0, 0, 0]}, opens=opens, closes={(3, A): NAN})
    assert replay(data) == [
        (1, "buy", "filled"),
        (3, "sell", "suspended"),
        (4, "sell", "limit_down"),
        (5, "sell", "filled"),
    ]


def test_an_entry_into_a_suspended_symbol_is_sized_at_its_last_close_and_rejected():
    data = market({A: [0, 1, 0, 0]}, opens={(2, A): NAN}, closes={(1, A): 20.0, (2, A): NAN})
    assert brief(decide(SignalRule(), data, 2)) == [(1, "buy", A, 4900)]
    assert replay(data) == [(2, "buy", "suspended")]


def test_a_ticket_is_what_one_entry_may_cost_with_its_fees():
    # 10,005.10 buys 1,000 at 10; a cent less buys a lot less.
    data, rule = market({A: [1, 1], C: [1, 1]}), SignalRule()
    orders = decide(rule, data, 1, size={"cash": "10005.10"})
    assert brief(orders) == [(1, "buy", A, 1000), (2, "buy", C, 1000)]
    assert brief(decide(rule, data, 1, size={"cash": "10005.09"}))[0] == (1, "buy", A, 900)


def test_tickets_that_the_cash_does_not_cover_shrink_alike():
    data = market({A: [1, 1], B: [1, 1]})
    # 15,000 for two tickets of 10,000: 7,500 each
    orders = decide(SignalRule(), data, 1, Account.opening(15_000), size={"cash": 10_000})
    assert brief(orders) == [(1, "buy", A, 700), (2, "buy", B, 700)]


def test_star_shares_are_bought_from_200_on_and_by_the_share():
    data = market({"688981.SH": [1, 1]})
    # 6,665 at 10 cost 66,650 and 16.66 + 0.67 in fees; one more would cost 66,677.34
    assert brief(decide(SignalRule(), data, 1, Account.opening("66677.33"))) == [
        (1, "buy", "688981.SH", 6665)
    ]
    assert decide(SignalRule(), data, 1, Account.opening(1_999)) == []


def test_an_entry_is_one_order_at_most_and_an_exit_is_as_many_as_it_needs():
    # 100,000 shares a STAR order
    data = market({"688981.SH": [1, 1]})
    assert brief(decide(SignalRule(), data, 1, Account.opening(5_000_000))) == [
        (1, "buy", "688981.SH", 100_000)
    ]
    data = market({"688981.SH": [1, 0, -1], B: [0, 0, -1]})
    account = holding("688981.SH", 250_300)
    account = Account(cash=account.cash, positions={**account.positions, **holding(B).positions})
    assert brief(decide(SignalRule(), data, 3, account)) == [
        (1, "sell", B, 1000),
        (2, "sell", "688981.SH", 100_000),
        (3, "sell", "688981.SH", 100_000),
        (4, "sell", "688981.SH", 50_300),
    ]


def test_dividends_on_their_way_are_equity_and_no_cash():
    account = Account(
        cash=D("10000.00"), receivables=(Receivable(symbol=B, amount=D("10000.00"), pay=DAYS[5]),)
    )
    # A quarter of 20,000 at 10: 500 would cost 5,005.05. All of it is more than the cash.
    data = market({A: [1, 1]})
    assert brief(decide(SignalRule(), data, 1, account, size={"percent": 0.25})) == [(1, "buy", A, 400)]
    assert brief(decide(SignalRule(), data, 1, account)) == [(1, "buy", A, 900)]


def test_each_amount_is_floored_to_the_cent():
    # 19.999 may be invested, that is 19.99; 0.5001 of it are 9.99 and no lot at 0.10, though 10.00 of 19.999.
    rules = Rulebook.zero_cost()
    plan = {"size": {"weights": {A: 0.4999, B: 0.5001}}, "cash_reserve": 0.00005}
    data = market({A: [1, 1], B: [1, 1]}, opens={(1, A): 0.0999, (1, B): 0.1})
    assert [
        order.symbol for order in decide(SignalRule(), data, 1, Account.opening(20), rules=rules, **plan)
    ] == [A]
    # A third of 100.00 is 33.33.
    data = market({A: [1, 1], B: [1, 1], C: [1, 1]}, opens={(1, A): 0.3333, (1, B): 0.3334, (1, C): 0.3334})
    assert [order.symbol for order in decide(SignalRule(), data, 1, Account.opening(100), rules=rules)] == [A]


def test_its_options_are_plain_json():
    assert json.loads(json.dumps(SignalRule(signal="s").options)) == {"signal": "s"}


def test_a_symbol_without_any_price_is_not_ordered():
    missing = {(day, A): NAN for day in range(8)}
    data = market({A: [1, 1], B: [0, 0]}, opens=missing, closes=missing)
    assert decide(SignalRule(), data, 1) == []


def test_a_signal_of_a_symbol_that_the_data_does_not_have_is_not_ordered():
    store, _ = market({A: [0, 0]})
    prices = store.snapshot()["ohlcv"]
    alone = store.update("signal", {"s": pd.DataFrame({"000002.SZ": 1.0}, index=DAYS)}, base=store.empty)
    ref = store.update("ohlcv", {name: prices[name] for name in prices}, base=alone)
    assert decide(SignalRule(), (store, ref), 1) == []


def test_room_is_what_max_positions_leaves_after_the_exits():
    data = market({A: [0, 0, -1], B: [0, 0, 1], C: [0, 0, 1]})
    assert brief(decide(SignalRule(), data, 3, holding(), max_positions=1)) == [
        (1, "sell", A, 1000),
        (2, "buy", B, 10900),
    ]
    assert decide(SignalRule(), data, 3, holding(B), max_positions=1) == []
    assert [o.symbol for o in decide(SignalRule(), data, 3, holding(B), max_positions=2)] == [C]


def test_an_exit_that_the_desk_would_reject_keeps_its_room_and_brings_nothing():
    data = market({A: [0, 0, -1], B: [0, 0, 1]}, opens={(3, A): 9.0})
    blocked = holding(cash="20000.00")
    assert brief(decide(SignalRule(), data, 3, blocked, max_positions=1)) == [(1, "sell", A, 1000)]
    # equity 20,000 + 9,000; two positions: a ticket of 14,500, and no proceeds to pay it with
    assert brief(decide(SignalRule(), data, 3, blocked, max_positions=2)) == [
        (1, "sell", A, 1000),
        (2, "buy", B, 1400),
    ]


def test_tickets_beyond_the_free_cash_shrink_alike():
    # equity 103,000: tickets of 34,333.33, cash for 30,000 of the 68,666.67
    data = market({A: [0, 0, 0], B: [0, 0, 1], C: [0, 0, 1]}, opens={(3, C): 30.0 / 3 + 0.5})
    account = holding(quantity=7300, cash="30000.00")
    # 15,000 each: 1,400 at 10 (15 lots and fees do not fit), 1,400 at 10.5
    assert brief(decide(SignalRule(), data, 3, account)) == [(1, "buy", B, 1400), (2, "buy", C, 1400)]


def test_no_entry_takes_more_than_its_largest_weight():
    # A quarter of 100,000 at 10.00: 2,500 shares would cost 25,000 and fees, so it is 2,400.
    data = market({A: [1, 0]})
    assert brief(decide(SignalRule(), data, 1, size={"percent": 0.25})) == [(1, "buy", A, 2400)]


def test_a_cash_reserve_is_kept():
    data = market({A: [1, 1]})
    assert brief(decide(SignalRule(), data, 1, cash_reserve=0.25)) == [(1, "buy", A, 7400)]


def test_a_reserve_larger_than_the_cash_buys_nothing():
    data = market({A: [0, 0, 0], B: [0, 0, 1]})
    assert decide(SignalRule(), data, 3, holding(quantity=9000, cash="10000.00"), cash_reserve=0.5) == []


def test_weights_size_the_tickets_and_choose_the_symbols():
    data = market({A: [1, 1], B: [1, 1], C: [1, 1]})
    orders = decide(SignalRule(), data, 1, size={"weights": {A: 0.5, C: 0.2}})
    assert brief(orders) == [(1, "buy", A, 4900), (2, "buy", C, 1900)]


def test_a_weight_of_one_tenth_is_exactly_one_tenth():
    # 10,010.10 is what 1,000 shares at 10.005 cost with fees of 5.00 and 0.10: the ticket fits to the cent.
    data = market({A: [1, 1]}, opens={(1, A): 10.005})
    account = Account.opening("100101.00")
    assert brief(decide(SignalRule(), data, 1, account, size={"weights": {A: 0.1}})) == [(1, "buy", A, 1000)]


def test_a_ticket_too_small_for_a_lot_orders_nothing():
    assert decide(SignalRule(), market({A: [1, 1]}), 1, Account.opening(1_000)) == []


def test_the_signal_must_be_named_when_there_are_several():
    store, _ = market({A: [1, 1], B: [0, 0]})
    ref = store.update("signal", {"other": pd.DataFrame({B: [1.0, 1.0]}, index=DAYS[:2])})
    with pytest.raises(BadOption, match="signal must be one of"):
        decide(SignalRule(), (store, ref), 1)
    assert [order.symbol for order in decide(SignalRule(signal="other"), (store, ref), 1)] == [B]
    with pytest.raises(UnknownField, match="nothing"):
        decide(SignalRule(signal="nothing"), (store, ref), 1)


def test_data_without_a_signal_is_an_error():
    store, _ = market({A: [1, 1]})
    ref = store.override(signal={})
    with pytest.raises(NoSignal):
        decide(SignalRule(), (store, ref), 1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cash_reserve": 1.0}, r"cash_reserve=1.0; must be a fraction in \[0, 1\)"),
        ({"cash_reserve": -0.1}, "cash_reserve"),
        ({"cash_reserve": NAN}, "cash_reserve"),
        ({"max_positions": 0}, "max_positions=0; must be a whole number >= 1"),
        ({"max_positions": 2.5}, "max_positions"),
        ({"max_positions": True}, "max_positions"),
        ({"size": "equal_wieght"}, "did you mean equal_weight?"),
        ({"size": {"percent": 0.0}}, r"size.percent=0.0; must be a fraction in \(0, 1\]"),
        ({"size": {"percent": 1.5}}, "percent"),
        ({"size": {"weight": 1}}, "did you mean weights?"),
        ({"size": {"weights": {A: 1.1}}}, r"weights\[600000.SH\]=1.1; must be a fraction in \[0, 1\]"),
        ({"size": {"weights": {A: -0.1}}}, "weights"),
        ({"size": {"weights": {A: 0.6, B: 0.6}}}, "weights add up to 1.2; must be at most 1"),
        ({"size": {"weights": {A: NAN}}}, "weights"),
        ({"size": {"cash": 0}}, "cash=0; must be an amount above 0 in whole cents"),
        ({"size": {"cash": "0.001"}}, "cash"),
        ({"size": {"cash": NAN}}, "cash"),
        ({"size": {"shares": 0}}, "shares=0; must be a number above 0"),
        ({"size": {"cash": 1, "shares": 1}}, "must be one of percent, cash, shares, weights"),
        ({"rank": "amount"}, "must be PANEL.FIELD"),
        ({"trade_on": "monthly"}, "must be every, week_start, month_start"),
        ({"trade_on": "month_strat"}, "did you mean month_start?"),
        ({"trade_on": 0}, "trade_on=0"),
        ({"rebalance": "month_start", "size": {"cash": 1}}, "a fraction of the equity as size, not cash"),
        ({"band": 0.1}, "must be with rebalance"),
        ({"accumulate": {"on": "schedule"}}, "with one of amount, percent, shares"),
        ({"accumulate": {"amount": 1, "on": "rise"}}, "with by, a fraction such as 0.05"),
        ({"accumulate": {"amount": 1, "by": 0.1}}, "with by, a fraction such as 0.05"),
        ({"accumulate": {"amount": 1, "on": "fall", "by": 1}}, "by=1"),
        ({"accumulate": {"amount": 1, "time": 2}}, "did you mean times?"),
        (
            {"accumulate": {"amount": 1}, "size": "equal_weight"},
            "without rebalance, equal_weight and weights",
        ),
    ],
)
def test_a_plan_out_of_its_range_is_named_with_the_range(options, text):
    with pytest.raises(BadOption, match=text):
        TradePlan(**options)


def test_an_unknown_word_of_a_plan_has_the_nearest_one():
    with pytest.raises(BadOption, match="did you mean stop_loss"):
        TradePlan.of({"stoploss": 0.1})


def test_weights_that_add_up_to_one_in_decimals_are_accepted():
    TradePlan(size={"weights": {A: 0.1, B: 0.2, C: 0.7}})


def test_the_order_of_the_columns_changes_nothing():
    signal = {A: [0, 1, -1, 0, 1, 0, 0, 0], B: [1, 0, 0, -1, 0, 1, 0, 0], C: [0, 0, 1, 0, 0, 0, -1, 0]}
    mirrored = dict(reversed(signal.items()))
    assert replay(market(signal), max_positions=2) == replay(market(mirrored), max_positions=2)


def test_a_holding_that_is_suspended_over_a_split_is_worth_what_it_was():
    """2,500 at 10.00 become 5,000 at 5.00 while suspended: equity stays 100,000, a quarter of it is 2,500 at 10."""
    days = pd.bdate_range("2024-01-08", periods=6).as_unit("us")
    halved, other = "600000.SH", "600036.SH"
    nothing = [np.nan] * 2
    prices = pd.DataFrame({halved: [10.0, 10.0, *nothing, 5.0, 5.0], other: [10.0] * 6}, index=days)
    split = pd.DataFrame({halved: [np.nan, np.nan, 2.0, *nothing, np.nan], other: [np.nan] * 6}, index=days)
    signal = pd.DataFrame({halved: [1.0, 0, 0, 0, 0, 0], other: [0, 0, 1.0, 0, 0, 0]}, index=days)
    store = DataState()
    store.update("ohlcv", {"open": prices, "close": prices, "split": split})
    ref = store.update("signal", {"s": signal})
    rules = Rulebook.zero_cost()
    market = Market(store=store, data_ref=ref, rules=rules, blocks_from=0)
    rule, plan = SignalRule(), TradePlan(size={"percent": 0.25})
    results = list(simulate(market, days, rule, account=Account.opening(100_000), plan=plan))
    assert [(fill.order.symbol, fill.quantity) for result in results for fill in result.fills] == [
        (halved, 2500),
        (other, 2500),
    ]
    run = RunContext(plan=plan)
    blocks = list(advance(market, list(days), SignalRule(), account=Account.opening(100_000), run=run))
    assert blocks[-1].account == results[-1].account
    assert results[-1].value == 100_000


def test_a_purchase_of_a_schedule_that_is_less_than_a_lot_is_a_line_of_the_result():
    """3,000 buy 100 shares at 10 with fees, and none at 30, where a lot costs 3,000 and the fees."""
    dear = market({A: [1, 1, 1, 1, 1, 1, 1, 1]}, opens={(3, A): 30.0})
    plan = {"accumulate": {"amount": 3000, "on": "schedule"}, "trade_on": 2}
    assert brief(decide(SignalRule(), dear, 1, **plan)) == [(1, "buy", A, 200)]
    missed = decide(SignalRule(), dear, 3, **plan)
    assert (list(missed.orders), missed.notes) == ([], {"not_bought": {A: ["2024-01-05", 300000]}})
    (note,) = SignalRule().result_notes([{}, json.loads(json.dumps(missed.notes))])
    assert note.en.startswith(f"{A} was not bought at 1 times of its schedule, 2024-01-05: 3,000.00 is less")
    assert "2024-01-05，3,000.00 不够买一手" in note.zh
    assert SignalRule().result_notes([{}]) == []
