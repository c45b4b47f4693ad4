"""Blocks against the order-by-order path: the same lines, byte for byte, and the same account."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_session import trade_session

from quantgraph.agents import SignalRule
from quantgraph.broker import (
    Account,
    BlockRule,
    Decider,
    DecisionContext,
    Market,
    RunContext,
    TradePlan,
    simulate,
)
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.broker.accounts._results import value_of
from quantgraph.broker.blocks._block import BlockRun, trade_block
from quantgraph.broker.blocks._panel import BlockTask
from quantgraph.broker.blocks._panel import market_of as arrays_of
from quantgraph.broker.blocks._panel import rule_of as rule_in_numbers
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._journal import day_lines
from quantgraph.broker.session._simulate import exits_of
from quantgraph.data import open_source
from quantgraph.errors import LedgerConflict, QuantGraphError, UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.market import sessions as sessions_of
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

D = Decimal
RULES = Rulebook.mainland()
DAYS = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"])
CODES = ["600000.SH", "600036.SH"]


class Holder(Decider):
    """Lets its holdings be."""

    name = "holder"

    def decide(self, context):
        return []

    def block_rule(self, context):
        return BlockRule(name=self.name, trades=False)


def rule_data(decider, plan=None):
    run = RunContext(plan=plan or TradePlan())
    return decider.block_rule(DecisionContext(lambda: None, Account.opening(1), run=run))


def block_of(market, sessions, decider, account, plan=None, exits=None):  # noqa: PLR0917
    if exits is not None:
        exits.open(sessions[0])
    followed = exits if exits is None or exits.follows else None
    return trade_block(market, sessions, rule_data(decider, plan), account, followed)


def in_blocks(market, sessions, decider, account, size, plan):  # noqa: PLR0917
    """Days, values, final account and how many sessions were traded in blocks; or the error."""
    days, values, left, blocked = [], [], list(sessions), 0
    exits = exits_of(RunContext(plan=plan or TradePlan()), market)
    try:
        while left:
            block = block_of(market, left[:size], decider, account, plan, exits)
            if block:
                days, values, account = [*days, *block.days], [*values, *block.values], block.account
                left, blocked = left[len(block.sessions) :], blocked + len(block.sessions)
            else:
                result = trade_session(market, left.pop(0), account, decider, plan, exits)
                days.append(day_lines(account, result))
                values, account = [*values, result.value], result.account
    except QuantGraphError as error:
        return days, values, repr(error), blocked
    return days, values, account, blocked


def order_by_order(market, sessions, decider, account, plan=None):
    days, values = [], []
    try:
        for result in simulate(market, sessions, decider, account=account, plan=plan):
            days.append(day_lines(account, result))
            values, account = [*values, result.value], result.account
    except QuantGraphError as error:
        return days, values, repr(error)
    return days, values, account


def same(market, sessions, decider, account, size=64, plan=None):  # noqa: PLR0917
    """Trade both ways, compare, and return what happened and how many sessions went in blocks."""
    *got, blocked = in_blocks(market, sessions, decider, account, size, plan)
    days, values, after = order_by_order(market, sessions, decider, account, plan)
    for one, other in zip(got[0], days):
        assert one.lines == other.lines
    assert got == [days, values, after]
    assert list(map(str, got[1])) == list(map(str, values))
    return days, after, blocked


def market_of(opens, signal, closes=None, *, rules=RULES, mark_at="close", days=DAYS, codes=CODES, **fields):
    """A market of lists of rows; ``closes`` are the opens where they are not given."""
    store = DataState()
    rows = {"open": opens, "close": opens if closes is None else closes, **fields}
    frames = {name: pd.DataFrame(row, days[: len(row)], codes, dtype=float) for name, row in rows.items()}
    store.update("ohlcv", frames)
    ref = store.update("signal", {"x": pd.DataFrame(signal, days[: len(signal)], codes, dtype=float)})
    return Market(store=store, data_ref=ref, rules=rules, mark_at=mark_at, blocks_from=0)


def kinds(days):
    return [[kind for kind, _ in day.lines if kind not in ("marks", "day")] for day in days]


NAN = np.nan
FLAT = [[10.0, 30.0]] * 5
ENTER = [[1, 1], [0, 0], [-1, 0], [0, 0], [0, 0]]


def test_a_block_buys_and_sells_what_hand_arithmetic_says():
    market = market_of(FLAT, ENTER)
    block = block_of(market, DAYS, SignalRule(), Account.opening(100_000))
    # Tickets of 50,000: 4,900 at 10 cost 49,000 + 12.25 + 0.49; 1,600 at 30 cost 48,000 + 12 + 0.48.
    assert block.values[:3] == (D("100000.00"), D("99974.78"), D("99974.78"))
    # The sale of 49,000 costs 12.25 + 24.50 duty + 0.49.
    assert block.account.cash == D("100000") - D("49012.74") - D("48012.48") + D("48962.76")
    assert list(block.account.positions) == ["600036.SH"]
    assert kinds(block.days) == [[], ["fill", "fill"], [], ["fill"], []]
    same(market, DAYS, SignalRule(), Account.opening(100_000))


@pytest.mark.parametrize("size", [1, 3, 64])
def test_the_sample_market_is_the_same_in_blocks_of_any_size(size):
    source = open_source("sample")
    sessions = source.sessions()[: 120 if size < 64 else None]
    bars = dict(source.bars(source.symbols(), sessions[0], sessions[-1]))
    above = bars["close"].rolling(5).mean() - bars["close"].rolling(20).mean()
    before = above.shift()
    signal = ((above > 0) & (before <= 0)) * 1.0 - ((above < 0) & (before >= 0)) * 1.0
    store = DataState()
    store.update("ohlcv", bars)
    ref = store.update("signal", {"cross": signal})
    market = Market(store=store, data_ref=ref, rules=RULES, blocks_from=0)
    sized = TradePlan(size={"cash": 20_000}, cash_reserve=0.1, max_positions=20)
    for plan in (None, sized):
        days, _, blocked = same(market, sessions, SignalRule(), Account.opening(1_000_000), size, plan)
        assert blocked == len(sessions)
        found = {kind for day in kinds(days) for kind in day}
        assert size < 64 or found >= {"fill", "rejection", "dividend"}


def test_blocks_enter_the_ledger_and_explain_it(tmp_path):
    market = market_of(FLAT, ENTER, dividend=[[NAN, NAN]] * 2 + [[0.35, NAN]] + [[NAN, NAN]] * 2)
    rule, account = SignalRule(), Account.opening(100_000)
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.open_run("a", 100_000)
        for part in (DAYS[:2], DAYS[2:]):
            block = block_of(market, part, rule, account)
            ledger.commit_block("a", account, block.days, block.account)
            account = block.account
        ledger.check("a")
        assert ledger.account("a") == account
        assert ledger.days("a")["dividends"].sum() == 4900 * 0.35


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"up_limit": [[NAN, NAN], [10.0, NAN]] + [[NAN, NAN]] * 3}, [[], ["rejection", "fill"], [], [], []]),
        (
            {"down_limit": [[NAN, NAN]] * 3 + [[10.0, NAN]] + [[NAN, NAN]]},
            [[], ["fill", "fill"], [], ["rejection"], ["fill"]],
        ),
        (
            {"pre_close": [[NAN, NAN], [9.09, NAN]] + [[NAN, NAN]] * 3},
            [[], ["rejection", "fill"], [], [], []],
        ),
        (
            {"pre_close": [[NAN, NAN], [9.1, NAN]] + [[NAN, NAN]] * 3},
            [[], ["fill", "fill"], [], ["fill"], []],
        ),
    ],
)
def test_an_order_at_its_limit_is_refused_in_the_desks_words(change, told):
    market = market_of(FLAT, ENTER, **change)
    days, _, blocked = same(market, DAYS, SignalRule(), Account.opening(100_000))
    assert blocked == 5
    assert kinds(days) == told


def test_without_an_open_the_last_close_sizes_the_order_and_it_is_refused():
    opens = [[10.0, 30.0], [NAN, 30.0], [10.0, 30.0], [NAN, 30.0], [NAN, 30.0]]
    for closes in (opens, [[10.0, 30.0]] * 5, [[NAN, 30.0], [NAN, 30.0], *opens[2:]]):
        market = market_of(opens, [[1, 1], [1, 0], [-1, 1], [0, 0], [0, 0]], closes)
        for plan in (None, TradePlan(size={"cash": 20_000})):
            days, _, blocked = same(market, DAYS, SignalRule(), Account.opening(100_000), plan=plan)
            assert blocked == 5
    assert [("fill" in day, "rejection" in day) for day in kinds(days)][3] == (False, True)


def test_a_sale_whose_fees_nobody_can_pay_is_refused():
    account = Account(cash=D("0.00"), positions={"600000.SH": held(1)})
    market = market_of([[0.5, 30.0]] * 5, [[-1, 0]] * 5)
    days, after, blocked = same(market, DAYS, SignalRule(), account)
    # Nobody can tell what it is worth on the first morning: that is one for the trading_session.
    assert (kinds(days)[1:], blocked) == ([["rejection"]] * 4, 4)
    assert "needs 4.50 with fees, cash is 0.00" in days[1].lines[0][1]
    assert after.positions == {"600000.SH": held(1)}


def test_a_carried_mark_loses_the_dividend_and_the_split():
    gone = [[NAN, NAN]] * 5
    closes = [[10.0, 30.0], [10.0, 30.0], [NAN, 30.0], [NAN, 30.0], [9.0, 30.0]]
    dividend, split = [row[:] for row in gone], [row[:] for row in gone]
    dividend[2][0], split[3][0] = 0.333, 1.3
    for mark_at in ("close", "open"):
        market = market_of(
            FLAT if mark_at == "close" else closes,
            ENTER,
            closes,
            mark_at=mark_at,
            dividend=dividend,
            split=split,
        )
        for size in (1, 2, 64):
            days, _, _ = same(market, DAYS, SignalRule(), Account.opening(100_000), size)
    assert '"prices":{"600000.SH":9.667,' in days[2].lines[-2][1]
    assert '"prices":{"600000.SH":7.4362,' in days[3].lines[-2][1]
    assert kinds(days)[2:4] == [["dividend"], ["split", "rejection"]]


def test_what_is_bought_again_is_not_marked_at_the_price_it_was_sold_at():
    closes = [[10.0, 30.0], [10.0, 30.0], [11.0, 30.0], [NAN, 30.0], [NAN, 30.0]]
    market = market_of(FLAT, [[1, 0], [-1, 0], [1, 0], [0, 0], [0, 0]], closes)
    days, _, blocked = same(market, DAYS, SignalRule(), Account.opening(100_000))
    assert blocked == 5
    assert '"prices":{"600000.SH":11.0}' in days[3].lines[-2][1]


def test_a_ticket_is_bounded_by_all_that_is_held_and_not_by_a_part_of_it():
    codes = ["000001.SZ", "600000.SH", "600036.SH"]
    market = market_of([[10.0, 30.0, 5.0]] * 5, [[0, 0, 0], [0, 0, 1], *[[0, 0, 0]] * 3], codes=codes)
    positions = {codes[0]: held(4000), codes[1]: held(834)}
    plan, account = TradePlan(size={"percent": 0.3}), Account(cash=D("30000.00"), positions=positions)
    days, _, blocked = same(market, DAYS[1:], SignalRule(), account, plan=plan)
    assert blocked == 4
    # Three tenths of 30,000 + 40,000 + 25,020 are 28,506; 5,700 shares would cost 28,500 + 7.13 + 0.29.
    assert '"quantity":"5600"' in days[1].lines[0][1]


def test_dividends_are_paid_when_they_are_due_and_delistings_close_positions():
    gone = [[NAN, NAN]] * 5
    fields = {name: [row[:] for row in gone] for name in ("dividend", "action_pay", "delisting")}
    fields["dividend"][2] = [0.12345, 0.5]
    fields["action_pay"][2] = [20240105.0, 20240220.0]
    fields["delisting"][4][0] = 1.5
    market = market_of(FLAT, [[1, 1], [0, 0], [0, 0], [0, 0], [0, 0]], **fields)
    for size in (1, 3, 64):
        days, after, blocked = same(market, DAYS, SignalRule(), Account.opening(100_000), size)
        assert blocked == 5
        assert kinds(days) == [[], ["fill", "fill"], ["dividend", "dividend"], ["payment"], ["delisting"]]
        assert after.owed == D("800.00")


@pytest.mark.parametrize("what", ["cash", "quantity", "notional", "commission"])
def test_a_block_that_does_not_add_up_is_a_conflict(what):
    market, rule, account = market_of(FLAT, ENTER), SignalRule(), Account.opening(100_000)
    task = BlockTask.of(market, list(DAYS), rule_data(rule))
    run = BlockRun(
        task=task, market=arrays_of(task), rule=rule_in_numbers(task), before=account, count=len(DAYS)
    )
    run.go()
    run.check()
    (run.log.days if what == "cash" else run.log.orders)[what][1] += 1
    with pytest.raises(LedgerConflict, match="do not lead to its cash and holdings"):
        run.check()


def test_holdings_that_are_let_be_go_on_until_none_is_left():
    account = Account(
        cash=D("5.00"),
        positions={"600000.SH": held(333)},
        receivables=(Receivable(symbol="600036.SH", amount=D("7.00"), pay=DAYS[1]),),
    )
    delisting = [[NAN, NAN]] * 3 + [[2.0, NAN], [NAN, NAN]]
    market = market_of(FLAT, ENTER, delisting=delisting)
    _, after, blocked = same(market, DAYS, Holder(), account)
    assert blocked == 3
    assert after.cash == D("5.00") + D("7.00") + D("666.00")


def held(quantity, cost="5.00"):
    return Position(quantity=quantity, sellable=quantity, cost=D(cost), entered=DAYS[0])


def flat(closes=None, **options):
    return market_of(FLAT, ENTER, closes, **options)


GONE = [[NAN, NAN]] * 5
EXACT = Rulebook.mainland(commission_rate="0.000123456789012345")
LEFT_TO_THE_DESK = {
    "a volume cap": (0, {"market": flat(vol=[[1e6, 1e6]] * 5, rules=Rulebook.mainland(volume_share="0.1"))}),
    "a rate too fine": (0, {"market": flat(rules=EXACT)}),
    "cash not written to the cent": (0, {"account": Account(cash=D(100_000))}),
    "fractions": (0, {"account": Account(cash=D("1.00"), positions={CODES[0]: held(D("0.5"))})}),
    "too much money": (0, {"account": Account.opening(10**13)}),
    "nine decimals": (2, {"market": flat([*FLAT[:2], [10.000000001, 30.0], *FLAT[3:]])}),
    "nine decimals carried": (1, {"market": flat([[10.000000001, 30.0], *[[NAN, 30.0]] * 4])}),
    "nothing traded": (3, {"market": flat(vol=[*[[1.0, 1.0]] * 3, [0.0, 1.0], [1.0, 1.0]])}),
    "a status": (1, {"market": flat(pre_close=FLAT, is_st=[[0.0, 0.0]] * 5)}),
    "too large a sale": (3, {"market": flat(split=[*GONE[:2], [300.0, NAN], *GONE[3:]])}),
}


@pytest.mark.parametrize("name", LEFT_TO_THE_DESK)
def test_what_the_arrays_do_not_know_is_left_to_the_desk(name):
    done, change = LEFT_TO_THE_DESK[name]
    case = {"market": flat(), "account": Account.opening(100_000), "sessions": DAYS} | change
    rule, account = SignalRule(), case["account"]
    block = block_of(case["market"], case["sessions"], rule, account)
    assert (len(block.sessions) if block else 0) == done
    same(case["market"], case["sessions"], rule, account)


def test_markets_symbols_signals_and_sizes_beyond_the_arrays_are_left_to_the_desk():
    rule, account = SignalRule(), Account.opening(100_000)
    assert block_of(flat(), DAYS, SignalRule(signal="y"), account) is None
    rich = Account(cash=D("1.00"), positions={CODES[0]: held(10**20)})
    assert block_of(flat(), DAYS, rule, rich) is None
    block = block_of(flat(codes=["600000.SH", "900901.SH"]), DAYS, rule, account)
    assert len(block.sessions) == 1
    with pytest.raises(UnknownSymbol):
        trade_session(flat(codes=["600000.SH", "900901.SH"]), DAYS[1], account, rule)


CODES_OF = [
    *("600000.SH", "000001.SZ", "300750.SZ", "688981.SH", "830799.BJ"),
    *("510300.SH", "511880.SH", "159915.SZ", "920002.BJ", "603000.SH"),
]


@st.composite
def worlds(draw):
    """A small market with everything in it that goes wrong in markets, a rule and an account."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, length = draw(st.integers(1, 8)), draw(st.integers(2, 16))
    codes = [str(code) for code in rng.permutation(CODES_OF)[:count]]
    start = draw(st.sampled_from(["2022-04-20", "2023-04-03", "2023-08-18", "2024-03-01"]))
    days = sessions_of(start, "2025-12-31")[:length]
    shape = length, count
    level = 10.0 ** rng.uniform(*draw(st.sampled_from([(0, 2), (-2, 0), (2, 4), (-1, 3)])), count)
    wide = draw(st.sampled_from([0.02, 0.1, 0.5]))
    decimals = draw(st.sampled_from([2, 2, 2, 3, 4]))
    least = 10.0**-decimals
    opens = np.maximum(least, np.round(level * np.exp(rng.normal(0, wide, shape).cumsum(axis=0)), decimals))
    closes = np.maximum(least, np.round(opens * np.exp(rng.normal(0, wide / 2, shape)), decimals))
    gaps = draw(st.sampled_from([0.0, 0.05, 0.4]))
    opens[rng.random(shape) < gaps] = np.nan
    closes[np.isnan(opens) & (rng.random(shape) < 0.8)] = np.nan
    closes[rng.random(shape) < gaps / 4] = np.nan
    spread = np.exp(np.abs(rng.normal(0, wide, (2, *shape)))) * (rng.random((2, *shape)) < 0.7)
    high = np.fmax(opens, closes) * np.maximum(1, spread[0])
    low = np.fmin(opens, closes) / np.maximum(1, spread[1])
    high[rng.random(shape) < gaps / 8] = np.nan
    fields = {
        "open": opens,
        "close": closes,
        "high": np.round(high, decimals),
        "low": np.round(low, decimals),
    }
    before = pd.DataFrame(closes).ffill().shift().to_numpy()
    if draw(st.booleans()):
        fields["pre_close"] = before
    if draw(st.booleans()):
        fields["up_limit"], fields["down_limit"] = np.round(before * 1.1, 2), np.round(before * 0.9, 2)
    if draw(st.integers(0, 5)) == 0:
        fields["vol"] = np.where(rng.random(shape) < 0.05, 0.0, 100.0)
    if draw(st.integers(0, 5)) == 0:
        fields["is_st"] = np.zeros(shape)
    if draw(st.booleans()):
        fields |= actions(rng, days, shape)
    signal = rng.choice(
        [1.0, -1.0, 0.0, np.nan],
        shape,
        p=draw(st.sampled_from([(0.2, 0.2, 0.5, 0.1), (0.45, 0.45, 0.05, 0.05)])),
    )
    frames = {name: pd.DataFrame(cells, days, codes) for name, cells in fields.items()}
    shown = pd.DataFrame(signal, days, codes)
    if draw(st.integers(0, 3)) == 0:
        shown = shown.loc[rng.random(length) < 0.8, rng.permutation(codes)[: max(1, count - 1)]]
        kept = (rng.random(length) < 0.8) | (np.arange(length) == 0)
        frames["close"] = frames["close"].loc[
            kept if draw(st.booleans()) else slice(None), rng.permutation(codes)
        ]
        if draw(st.booleans()) and count > 1:
            frames["open"] = frames["open"][codes[1:]]
    store = DataState()
    if len(shown):  # first, for it may have rows that the closes do not have
        store.update("signal", {"x": shown})
    ref = store.update("ohlcv", frames)
    rules = draw(st.sampled_from([RULES, Rulebook.zero_cost(), fees(draw)]))
    market = Market(
        store=store, data_ref=ref, rules=rules, mark_at=draw(st.sampled_from(["close", "close", "open"]))
    )
    cash = D(draw(st.sampled_from(["0.00", "3.21", "800.00", "54321.98", "1000000.00", "98765432.10"])))
    owned = codes[: draw(st.sampled_from([0, 0, 1, 3]))]
    positions = {
        code: Position(
            quantity=shares, sellable=shares, cost=D("1234.56"), entered=days[0] - pd.Timedelta(days=1)
        )
        for code, shares in zip(owned, rng.choice([1, 100, 333, 2000], len(owned)).tolist())
    }
    account = Account(cash=cash, positions=positions)
    return market, list(days), plan_of(draw, codes), account, draw(st.integers(1, length))


def fees(draw):
    return Rulebook.mainland(
        commission_rate=draw(st.sampled_from(["0", "0.00025", "0.003", "0.00012345"])),
        commission_min=draw(st.sampled_from(["0", "5", "0.1", "1.005"])),
        slippage_bps=draw(st.sampled_from(["0", "2.5", "300", "9000"])),
    )


def plan_of(draw, codes):
    shares = st.sampled_from([0.0, 0.1, 1 / 3, 0.07])
    weights = {code: draw(shares) for code in codes[: draw(st.integers(1, 3))]}
    size = draw(
        st.sampled_from(
            [
                None,
                {"weights": weights},
                {"percent": 0.3},
                {"percent": 1},
                *({"cash": cash} for cash in ("1000", "33333.33", "100000")),
            ]
        )
    )
    return TradePlan(
        size=size,
        max_positions=draw(st.sampled_from([None, None, 1, 2, 5])),
        cash_reserve=draw(st.sampled_from([0.0, 0.1, 1 / 3])),
        stop_loss=draw(st.sampled_from([None, None, 0.03, 0.2, "0.0777777"])),
        trailing_stop=draw(st.sampled_from([None, None, 0.04, 0.25])),
        take_profit=draw(st.sampled_from([None, None, 0.05, 0.5])),
        max_holding=draw(st.sampled_from([None, None, 1, 3])),
        reentry=draw(st.sampled_from(["new_signal", "any"])),
        trade_on=draw(st.sampled_from(["every", "every", "week_start", "month_start", 3])),
    )


def actions(rng, days, shape):
    def sparse(share, values):
        return np.where(rng.random(shape) < share, values, np.nan)

    dates = np.array([float(f"{day:%Y%m%d}") for day in days])
    fields = {
        "dividend": sparse(0.1, rng.choice([0.01, 0.333, 0.12345, 5.0], shape)),
        "split": sparse(0.05, rng.choice([1.3, 2.0, 0.1, 1.05], shape)),
        "delisting": sparse(0.01, rng.choice([0.0, 1.234], shape)),
    }
    later = dates[np.minimum(np.arange(shape[0]) + rng.integers(0, 4), shape[0] - 1)]
    earlier = dates[np.maximum(np.arange(shape[0]) - rng.integers(0, 3), 0)]
    fields["action_pay"] = np.where(~np.isnan(fields["dividend"]), later[:, None], np.nan)
    fields["action_record"] = np.where(~np.isnan(fields["dividend"]), earlier[:, None], np.nan)
    return fields


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_random_markets_are_the_same_in_blocks(world):
    market, days, plan, account, size = world
    same(market, days, SignalRule(), account, size, plan)


def test_values_are_those_of_the_account_and_its_marks():
    market = market_of(FLAT, ENTER, [[10.0123, 30.0]] * 5)
    block = block_of(market, DAYS, SignalRule(), Account.opening(100_000))
    last = list(simulate(market, DAYS, SignalRule(), account=Account.opening(100_000)))[-1]
    assert block.values[-1] == value_of(block.account, last.marks)
    # 97,025.22 were paid for 4,900 at 10.0123 and 1,600 at 30.
    assert str(block.values[1]) == "100035.05"
