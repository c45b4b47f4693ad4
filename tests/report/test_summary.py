"""The summary of a run, against a market small enough to do by hand."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider, Decision, Market, Order, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.market import Rulebook
from quantgraph.report import summarise
from quantgraph.report._summary import _reply_errors, summary_notes
from quantgraph.state import DataState

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"])


@pytest.fixture
def summary(tmp_path):
    """Buy 600000.SH with half the cash at 10.00 on the second day; 0.50 go ex on the third."""
    close = pd.DataFrame({"600000.SH": [10.0, 10.0, 9.5, 9.5], "600036.SH": [20.0] * 4}, index=DAYS)
    before = pd.DataFrame({"600000.SH": [10.0, 10.0, 9.5, 9.5], "600036.SH": [20.0] * 4}, index=DAYS)
    signal = pd.DataFrame({"600000.SH": [1.0, 0, 0, 0], "600036.SH": [0.0] * 4}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close, "pre_close": before})
    ref = store.update("signal", {"s": signal})
    rules = Rulebook.zero_cost()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = TradePlan(size={"percent": 0.5})
        market = Market(store=store, data_ref=ref, rules=rules, blocks_from=0)
        run_sessions(market, DAYS, SignalRule(), cash=100_000, ledger=ledger, run_id="r", plan=plan)
        return summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(100_000))


def test_exposure_and_the_largest_weight_are_shares_of_the_value(summary):
    # 5,000 shares: 50,000 of 100,000 on day two; 47,500 of 97,500 on days three and four; nothing on day one.
    account = summary["account"]
    assert account["trades"] == 1
    assert account["largest_weight"] == pytest.approx(0.5)
    assert account["exposure"] == pytest.approx((0 + 0.5 + 2 * 47_500 / 97_500) / 4)


def test_what_went_ex_while_held_is_counted_and_valued(summary):
    assert summary["account"]["ex_dates"] == {"count": 1, "not_credited": 2_500.0}
    assert summary["account"]["final_value"] == 97_500.0


def test_a_run_that_never_trades_has_no_exposure(tmp_path):
    close = pd.DataFrame({"600000.SH": [10.0] * 4}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close})
    ref = store.update("signal", {"s": close * 0})
    rules = Rulebook.mainland()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        market = Market(store=store, data_ref=ref, rules=rules, blocks_from=0)
        run_sessions(market, DAYS, SignalRule(), cash=100_000, ledger=ledger, run_id="r")
        told = summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(100_000))
    assert (told["account"]["exposure"], told["account"]["largest_weight"]) == (0.0, 0.0)
    assert told["account"]["sharpe"] is None
    assert told["account"]["ex_dates"] is None
    assert told["account"]["win_rate"] is None
    assert (told["account"]["realised"], told["account"]["turnover"]) == (0.0, 0.0)


def test_sales_won_and_lost_turnover_and_costs_by_hand(tmp_path):
    """One bought at 10 and sold at 12, another bought at 20 and sold at 19; each order costs the 5 minimum."""
    opens = pd.DataFrame({"600000.SH": [10.0, 10.0, 12.0, 12.0], "600036.SH": [20.0, 20, 19, 19]}, index=DAYS)
    signal = pd.DataFrame({"600000.SH": [1.0, -1, 0, 0], "600036.SH": [1.0, -1, 0, 0]}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": opens, "close": opens})
    ref = store.update("signal", {"s": signal})
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(market, DAYS, SignalRule(), cash=10_000, ledger=ledger, run_id="r")
        told = summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(10_000))["account"]
    # 400 at 10 for 4,005.04, back 4,800 - 5 - 2.40 - 0.05; 200 at 20 for 4,005.04, back 3,800 - 5 - 1.90 - 0.04
    won, lost = 4792.55 - 4005.04, 3793.06 - 4005.04
    assert (told["win_rate"], told["realised"]) == (0.5, round(won + lost, 2))
    assert told["final_value"] == pytest.approx(10_000 + won + lost, abs=1e-9)
    values = [10_000 - 10.08, 10_000 + won + lost, 10_000 + won + lost]
    traded = 4000 + 4000 + 4800 + 3800
    assert told["turnover"] == pytest.approx(traded / ((10_000 + sum(values)) / 4))
    assert told["costs"] == {
        "commission": 20.0,
        "stamp_duty": 4.3,
        "transfer_fee": 0.17,
        "regulatory": 0.0,
        "slippage": 0.0,
        "total": 24.47,
    }


def test_a_dividend_in_the_data_is_earned_and_not_counted_as_missed(tmp_path):
    close = pd.DataFrame({"600000.SH": [10.0, 10.0, 9.5, 9.5]}, index=DAYS)
    paid = pd.DataFrame({"600000.SH": [float("nan"), float("nan"), 0.5, float("nan")]}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close, "pre_close": close, "dividend": paid})
    ref = store.update("signal", {"s": pd.DataFrame({"600000.SH": [1.0, 0, 0, 0]}, index=DAYS)})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost(), blocks_from=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = TradePlan(cash_reserve=0.5)
        run_sessions(market, DAYS, SignalRule(), cash=100_000, ledger=ledger, run_id="r", plan=plan)
        told = summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(100_000))["account"]
    assert (told["dividends"], told["final_value"]) == (2500.0, 100_000.0)
    assert told["ex_dates"] == {"count": 0, "not_credited": 0.0}


def test_a_delisting_is_a_sale_that_may_be_lost(tmp_path):
    """1,000 at 10.00 gone for nothing: one sale, none won, 10,000 lost; nothing is left to divide by."""
    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])
    price = pd.DataFrame({"600000.SH": [10.0, 10.0, np.nan]}, index=days)
    gone = pd.DataFrame({"600000.SH": [np.nan, np.nan, 0.0]}, index=days)
    store = DataState()
    store.update("ohlcv", {"open": price, "close": price, "delisting": gone})
    ref = store.update("signal", {"s": price.fillna(0) * 0 + 1})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost(), blocks_from=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(market, days, SignalRule(), cash=10_000, ledger=ledger, run_id="r")
        ledger.check("r")
        account = summarise(ledger, "r", market, days, signal="s", cash=Decimal(10_000))["account"]
    assert (account["win_rate"], account["realised"], account["final_value"]) == (0.0, -10_000.0, 0.0)
    assert (account["return"], account["max_drawdown"], account["sharpe"]) == (-1.0, -1.0, None)


def test_a_split_in_the_data_is_not_counted_as_missed(tmp_path):
    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])
    price = pd.DataFrame({"600000.SH": [10.0, 10.0, 5.0]}, index=days)
    before = pd.DataFrame({"600000.SH": [10.0, 10.0, 5.0]}, index=days)
    split = pd.DataFrame({"600000.SH": [np.nan, np.nan, 2.0]}, index=days)
    store = DataState()
    store.update("ohlcv", {"open": price, "close": price, "pre_close": before, "split": split})
    ref = store.update("signal", {"s": price * 0 + 1})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost())
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        run_sessions(market, days, SignalRule(), cash=10_000, ledger=ledger, run_id="r")
        account = summarise(ledger, "r", market, days, signal="s", cash=Decimal(10_000))["account"]
    assert (account["ex_dates"], account["return"]) == ({"count": 0, "not_credited": 0.0}, 0.0)


def three_of(tmp_path, opens, signal, cash, *, closes=None, rules=None, **options):
    """A run over the four days, and its summary; without ``closes`` a session closes where it opens."""
    cells = (opens, closes or opens, signal)
    opens, closes, signal = (pd.DataFrame(each, index=DAYS, dtype="float64") for each in cells)
    store = DataState()
    store.update("ohlcv", {"open": opens, "close": closes})
    ref = store.update("signal", {"s": signal})
    market = Market(store=store, data_ref=ref, rules=rules or Rulebook.zero_cost(), blocks_from=0)
    decider = options.pop("decider", None) or SignalRule()
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = TradePlan(**options)
        run_sessions(market, DAYS, decider, cash=cash, ledger=ledger, run_id="r", plan=plan)
        return summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(cash))


def test_round_trips_and_the_dates_of_the_fall_by_hand(tmp_path):
    """500 of one from 10 to 12 in two sessions: 1,000. 200 of the other from 20 to 19 in one: -200."""
    told = three_of(
        tmp_path,
        {"600000.SH": [10, 10, 12, 12], "600036.SH": [20, 20, 19, 18]},
        {"600000.SH": [1, 0, -1, 0], "600036.SH": [1, -1, 0, 0]},
        10_000,
    )
    account, held = told["account"], told["benchmark"]
    assert (account["round_trips"], account["profit_factor"], account["average_holding"]) == (2, 5.0, 1.5)
    assert account["realised"] == 800.0
    assert account["drawdown"] == dict.fromkeys(("peak", "trough", "recovery"))
    # Bought on day one: 500 and 200. 10,000, 10,000, 10,800, 10,600: 200 of 10,800 lost on the last day.
    assert held["drawdown"] == {"peak": "20240104", "trough": "20240105", "recovery": None}
    assert held["max_drawdown"] == pytest.approx(-200 / 10_800)
    returns = np.array([0, 0, 0.08, -200 / 10_800])
    assert held["sharpe"] == pytest.approx(returns.mean() / returns.std(ddof=1) * 252**0.5)
    assert (held["bought"], held["symbols"], told["periods_per_year"]) == (2, 2, 252)


def test_a_fall_from_the_initial_cash_is_dated_on_the_first_session(tmp_path):
    """Bought at 10 on the first open, worth 9 at its close. The day before, 2024-01-01, is no session."""
    opens = {"600000.SH": [10, 9, 9, 9], "600036.SH": [20, 20, 20, 20]}
    closes = {"600000.SH": [9, 9, 9, 9], "600036.SH": [20, 20, 20, 20]}
    told = three_of(tmp_path, opens, {name: [0] * 4 for name in opens}, 10_000, closes=closes)
    # 500 of the first lose 500 of 10,000 on the day on which they were bought.
    assert told["benchmark"]["max_drawdown"] == pytest.approx(-0.05)
    assert told["benchmark"]["drawdown"] == {"peak": "20240102", "trough": "20240102", "recovery": None}


def test_buys_that_no_cash_was_left_for_are_counted_once_a_session(tmp_path):
    """Half of 3,000 buys 100 at 10 on day two, and no lot at 20 on days two, three and four."""
    told = three_of(
        tmp_path,
        {"600000.SH": [10, 10, 10, 10], "600036.SH": [20, 20, 20, 20]},
        {"600000.SH": [1, 1, 1, 0], "600036.SH": [1, 1, 1, 1]},
        3_000,
        size={"percent": 0.5},
    )
    assert told["account"]["trades"] == 1
    assert told["account"]["buys_not_followed"] == 3
    assert [str(note)[:67] for note in summary_notes(told)] == [
        "3 buy signals led to no order: 3 had too little cash for a lot",
        "buy and hold bought 1 of 2 symbols: the others did not trade at its",
    ]


class Counting(SignalRule):
    """Counts, from what each morning knows, the buys that it does not order, by the reason."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def block_rule(self, context):
        return None

    def decide(self, context):
        orders, plan = super().decide(context), context.plan
        signal, held = context.view["signal"]["s"], context.account.positions
        sold = {order.symbol for order in [*orders, *context.exits] if order.side == "sell"}
        wanted = [
            symbol
            for symbol in signal.columns
            if len(signal) and signal.index[-1] == context.view["ohlcv"]["close"].index[-1]
            if signal[symbol].iloc[-1] == 1 and symbol not in held
        ]
        waits = [
            symbol
            for symbol in wanted
            if symbol in context.exited
            and plan.reentry == "new_signal"
            and (signal[symbol].to_numpy()[signal.index < context.exited[symbol]][-1:] == 1).all()
            and (signal[symbol].to_numpy()[signal.index >= context.exited[symbol]] == 1).all()
        ]
        past = context.view["ohlcv"]["open"].index[-1 - (plan.cooldown or 0) : -1]
        cools = [each for each in wanted if each not in waits and context.sold.get(each) in past]
        free = [symbol for symbol in wanted if symbol not in waits + cools]
        is_day = plan.trade_on == "every" or len(signal) % plan.trade_on == 1
        is_day &= context.session.isoweekday() not in (plan.no_entry_on or {}).get("weekdays", ())
        room = max(0, plan.slots(3) - len(held.keys() - sold))
        bought = {order.symbol for order in orders if order.side == "buy"}
        self.counts["awaits_new_signal"] += len(waits)
        self.counts["cooldown"] += len(cools)
        self.counts["not_a_trade_day"] += 0 if is_day else len(free)
        self.counts["no_room"] += max(0, len(free) - room) if is_day else 0
        self.counts["too_little_cash"] += min(len(free), room) - len(bought) if is_day else 0
        return orders


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        ({"max_positions": 1}, ["no_room"]),
        ({"size": {"cash": 2_000}}, ["too_little_cash"]),
        ({"max_positions": 2, "stop_loss": 0.02, "take_profit": 0.03}, ["no_room", "awaits_new_signal"]),
        ({"max_positions": 2, "stop_loss": 0.02, "reentry": "any"}, ["no_room"]),
        ({"max_positions": 2, "stop_loss": 0.02, "cooldown": 4}, ["awaits_new_signal", "cooldown"]),
        ({"max_positions": 2, "no_entry_on": {"weekdays": [2, 5]}}, ["no_room", "not_a_trade_day"]),
    ],
    ids=str,
)
def test_buys_without_an_order_are_counted_by_their_reasons(plan, kinds, tmp_path):
    """Random markets of three symbols, against what the rule itself could know each morning."""
    days = pd.bdate_range("2024-01-02", periods=60, name="trade_date").as_unit("us")
    symbols, seen = ["600000.SH", "600036.SH", "601398.SH"], set()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        close = (20 * np.exp(rng.normal(0, 0.015, (60, 3)).cumsum(axis=0))).round(2)
        opens = (close * (1 + rng.normal(0, 0.005, close.shape))).round(2)
        bars = {
            "open": opens,
            "high": np.maximum(opens, close) + 0.1,
            "low": np.minimum(opens, close) - 0.1,
            "close": close,
        }
        opinions = np.repeat(rng.choice([1.0, 0.0, -1.0], (20, 3), p=[0.6, 0.2, 0.2]), 3, axis=0)
        store = DataState()
        store.update("ohlcv", {name: pd.DataFrame(each, days, symbols) for name, each in bars.items()})
        ref = store.update("signal", {"s": pd.DataFrame(opinions, days, symbols)})
        market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost())
        rule = Counting()
        with Ledger(tmp_path / f"{seed}.sqlite") as ledger:
            run_sessions(market, days, rule, cash=10_000, ledger=ledger, run_id="r", plan=TradePlan(**plan))
            account = summarise(ledger, "r", market, days, signal="s", cash=Decimal(10_000))["account"]
        counted = {reason: count for reason, count in rule.counts.items() if count}
        assert account["buys_not_followed_by_reason"] == counted
        assert account["buys_not_followed"] == sum(counted.values())
        seen |= counted.keys()
    assert seen >= {*kinds}


def test_buys_on_a_session_on_which_the_plan_does_not_buy_are_told(tmp_path):
    """Every third session buys: the first that can decide, the second, buys one; the 1 of the other waits."""
    told = three_of(
        tmp_path,
        {"600000.SH": [10] * 4, "600036.SH": [20] * 4},
        {"600000.SH": [1, 1, 1, 0], "600036.SH": [0, 1, 0, 0]},
        10_000,
        trade_on=3,
    )
    assert told["account"]["buys_not_followed_by_reason"] == {"not_a_trade_day": 1}
    (note, *_) = summary_notes(told)
    assert str(note) == ("1 buy signals led to no order: 1 came on a session on which the plan does not buy")
    assert note.zh == "1 个买入信号没有下单：计划当天不买 1"


@pytest.mark.parametrize(
    ("cash", "counted"), [(10_000, {}), (500, {"too_little_cash": 1})], ids=["bought later", "no cash later"]
)
def test_a_buy_that_waits_for_the_next_trade_day_is_counted_there(cash, counted, tmp_path):
    """The second and the fourth day decide; the 1 of the second day is still the last opinion on the fourth."""
    told = three_of(tmp_path, {"600000.SH": [10] * 4}, {"600000.SH": [0, 1, 0, 0]}, cash, trade_on=2)
    account = told["account"]
    assert (account["buys_not_followed_by_reason"], account["trades"]) == (counted, 1 - len(counted))


def test_a_delisting_makes_room_on_its_morning(tmp_path):
    """One position; the delisted one is gone, and a lot of the other is too dear."""
    close = pd.DataFrame({"600000.SH": [10.0, 10.0, np.nan, np.nan], "600036.SH": [900.0] * 4}, index=DAYS)
    gone = pd.DataFrame({"600000.SH": [np.nan, np.nan, 0.0, np.nan], "600036.SH": [np.nan] * 4}, index=DAYS)
    signal = pd.DataFrame({"600000.SH": [1.0, 0, 0, 0], "600036.SH": [0.0, 1, 0, 0]}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": close, "close": close, "delisting": gone})
    ref = store.update("signal", {"s": signal})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost())
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = TradePlan(max_positions=1)
        run_sessions(market, DAYS, SignalRule(), cash=2_000, ledger=ledger, run_id="r", plan=plan)
        account = summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(2_000))["account"]
    assert account["buys_not_followed_by_reason"] == {"too_little_cash": 1}


def test_refused_orders_are_counted_by_their_codes(tmp_path):
    class Wrong(Decider):
        name, options, uses_signal = "wrong", {}, False

        def decide(self, context):
            session = context.session
            shares = {"FOO": 100, "600000.SH": 50}
            return [
                Order(symbol=symbol, side="buy", quantity=quantity, sequence=place)
                for place, (symbol, quantity) in enumerate(shares.items(), 1)
                if symbol == "FOO" or session == DAYS[0]
            ]

    cells = {"600000.SH": [10, 10, 10, 10]}
    told = three_of(tmp_path, cells, cells | {"600000.SH": [0] * 4}, 1_500, decider=Wrong())
    account = told["account"]
    assert account["rejections_by_reason"] == {"unknown_symbol": 4, "lot_size": 1}
    assert (account["rejections"], account["trades"], account["buys_not_followed"]) == (5, 0, None)
    assert (account["round_trips"], account["profit_factor"], account["average_holding"]) == (0, None, None)
    english, chinese = ([note.text(language) for note in summary_notes(told)] for language in ("en", "zh"))
    assert english == ["nothing was traded: all 5 orders were refused (unknown_symbol 4, lot_size 1)"]
    assert chinese == ["5 笔委托全部被拒，没有成交（unknown_symbol 4, lot_size 1）"]


def test_a_reverse_split_that_leaves_no_share_closes_its_round_trip(tmp_path):
    """1,000 shares become half a share, which is none: 10,000 are lost, and the report is made all the same."""
    price = pd.DataFrame({"600000.SH": [10.0, 10.0, 10.0, 10.0]}, index=DAYS)
    split = pd.DataFrame({"600000.SH": [np.nan, np.nan, 0.0005, np.nan]}, index=DAYS)
    store = DataState()
    store.update("ohlcv", {"open": price, "close": price, "split": split})
    ref = store.update("signal", {"s": pd.DataFrame({"600000.SH": [1.0, 0, 0, 0]}, index=DAYS)})
    market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost(), blocks_from=0)
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        plan = TradePlan(cash_reserve=0.5)
        run_sessions(market, DAYS, SignalRule(), cash=20_000, ledger=ledger, run_id="r", plan=plan)
        account = summarise(ledger, "r", market, DAYS, signal="s", cash=Decimal(20_000))["account"]
    assert (account["round_trips"], account["profit_factor"], account["final_value"]) == (1, 0.0, 10_000.0)


class Replied(Decider):
    """Trades nothing, and notes one reply of three that could not be read, in its first session alone."""

    name = "replied"
    uses_signal = False

    def decide(self, context):
        schema = int(not context.history)
        return Decision([], notes={"reply_errors": {"replies": 3, "schema": schema, "logic": 0, "cash": 2}})


def test_the_errors_of_replies_are_summed_by_kind_and_noted_with_their_shares(tmp_path):
    store = DataState()
    prices = pd.DataFrame({"600000.SH": [10.0] * 4}, index=DAYS)
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        market = Market(store=store, data_ref=ref, rules=Rulebook.zero_cost())
        run_sessions(market, DAYS[:2], Replied(), cash=10_000, ledger=ledger, run_id="r")
        told = summarise(ledger, "r", market, DAYS[:2], signal=None, cash=Decimal(10_000))
    assert told["reply_errors"] == {"replies": 6, "schema": 1, "logic": 0, "cash": 4}
    (note, *_) = summary_notes(told)
    assert note.en == (
        "of 6 replies of the decider's models 1 (17%) had an error of form, 0 (0%) contradicted the facts or the "
        "market's rules, and 4 (67%) spent more than there was"
    )
    assert note.zh.startswith("决策模型的 6 个回复中，1 (17%) 个有格式错误")


@pytest.mark.parametrize("noted", [None, {"replies": 0, "schema": 1}, {"replies": "3"}, [1]])
def test_notes_of_another_form_under_that_name_count_nothing(noted):
    assert _reply_errors([{"reply_errors": noted}, {}]) is None
