"""What holds of every run: in random markets, under random orders, recomputed from the journal by a plain loop.

The examples are always the same ones; ``LAWS=1000`` in the environment draws a thousand new ones for each law.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from datetime import date
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from load_script import load_script

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Order, RunContext, Session, TradePlan, simulate
from quantgraph.broker.accounts import Block
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.accounts._results import DayLines
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._journal import day_lines
from quantgraph.broker.session import advance, run_sessions
from quantgraph.broker.session._exits import FIRST_EXIT
from quantgraph.market import Rulebook

pytestmark = pytest.mark.proof

rm = load_script(Path(__file__).with_name("random_market.py"))

HALF_A_BILLIONTH = Fraction(1, 2 * 10**9)
"""Shares after a split are rounded to billionths before the fraction is cut: 1:3 is no exact number in the data."""

CHARGES = ("commission", "stamp_duty", "transfer_fee", "regulatory", "slippage")
RULES = {
    "cn": (
        Rulebook.mainland(),
        Rulebook.mainland(volume_share="0.1", slippage_bps=5),
        Rulebook.mainland(commission_min=0, slippage_bps="0.5"),
        Rulebook.zero_cost(),
    ),
    "us": (
        Rulebook.us(),
        Rulebook.us(commission_per_share="0.005", commission_min=1, slippage_bps=3),
        Rulebook.us(fractional=True, commission_bps=3, volume_share="0.2"),
        Rulebook.zero_cost("us", fractional=True),
        Rulebook.us(fractional=True, commission_per_share="0.0035", commission_min="0.35", slippage_bps=3),
    ),
}
laws = settings(
    deadline=None,
    derandomize="LAWS" not in os.environ,
    phases=[Phase.generate],  # a seed does not shrink
    max_examples=int(os.environ.get("LAWS", "15")),
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


PRICES = {"open", "high", "low", "close", "pre_close", "up_limit", "down_limit"}


class Case:
    """A market, its rules, cash and deciders, all of one seed."""

    def __init__(self, *, seed, market, rules, symbols, sessions, cash, mark_at, options, fine=False):
        self.seed, self.rules, self.cash, self.mark_at = seed, RULES[market][rules], cash, mark_at
        self.options = options
        self.world = rm.random_world(seed, market=market, symbols=symbols, sessions=sessions)
        for name in PRICES & self.world.frames.keys() if fine else ():  # as adjusted prices are
            self.world.frames[name] = (self.world.frames[name] * 1.0173461).round(8)

    def market(self, world=None):
        return (world or self.world).market(self.rules, self.mark_at)

    def decider(self, kind):
        if kind == "signal":
            return SignalRule()
        return rm.RandomDecider(self.seed, self.world.symbols)

    def plan(self, kind):
        return TradePlan(**self.options) if kind == "signal" else None

    def run(self, ledger, kind, *, world=None, rows=None, decider=None):
        world = world or self.world
        options = {"cash": self.cash, "ledger": ledger, "run_id": "r", "plan": self.plan(kind)}
        run_sessions(self.market(world), world.sessions[:rows], decider or self.decider(kind), **options)

    def lines(self, kind, **options):
        """The journal of the run: kind, session and body of each line."""
        with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/l.db") as ledger:
            self.run(ledger, kind, **options)
            ledger.check("r")
            return [(row["kind"], row["session"], row["body"]) for row in ledger.journal("r")]


ADDED = [{"amount": 2000, "on": "schedule"}, {"percent": 0.1, "on": "rise", "by": 0.01, "times": 1}]
ADDED += [{"shares": 200, "on": "fall", "by": 0.02}]
MORE = [*({"accumulate": each} for each in ADDED), {"size": "equal_weight", "band": 0.01}, {"rebalance": 2}]
ENDS = ("stop_loss", "take_profit", "trailing_stop", "max_holding")


def fitting(words):
    """A plan that adds to holdings or sizes them again, in half of the cases without exits; or neither."""
    more = MORE[words["more"] % len(MORE)] if words["more"] < 2 * len(MORE) else {}
    without = {
        "more",
        *(ENDS if words["more"] < len(MORE) else ()),
        *(["size"] if "rebalance" in more else []),
    }
    return {name: value for name, value in words.items() if name not in without} | more


options = st.fixed_dictionaries(
    {"more": st.integers(0, 4 * len(MORE))},
    optional={
        "max_positions": st.integers(1, 4),
        "cash_reserve": st.sampled_from([0.0, 0.013, 0.5]),
        "stop_loss": st.sampled_from([0.01, 0.08, {"atr": 1, "window": 2}]),
        "take_profit": st.sampled_from([0.01, 0.1]),
        "trailing_stop": st.sampled_from([0.02, 0.2, {"atr": 0.7, "window": 2}]),
        "max_holding": st.integers(1, 5),
        "reentry": st.just("any"),
        "trade_on": st.sampled_from(["week_start", 2]),
        "exit_on": st.just("every"),
        "entry_row": st.just("last"),
        "no_entry_on": st.just({"weekdays": [1, 3], "sessions": [2]}),
        "min_holding": st.integers(1, 4),
        "cooldown": st.integers(1, 3),
        "rank": st.sampled_from(["ohlcv.close", "-ohlcv.open", "ohlcv.vol"]),
        "size": st.sampled_from(
            [
                *({"percent": share} for share in (0.05, 0.3, 0.77)),
                *({"cash": cash} for cash in ("1.01", "3000.00", "25000")),
                *({"shares": shares} for shares in (1, 250, 3000)),
            ]
        ),
    },
).map(fitting)
cases = st.builds(
    Case,
    seed=st.integers(0, 2**32),
    market=st.sampled_from(["cn", "cn", "us"]),
    rules=st.integers(0, 3),
    symbols=st.integers(2, 6),
    sessions=st.integers(2, 12),
    cash=st.sampled_from(["0.00", "1234.56", "20000.01", "300000.00", "98765432.10"]),
    mark_at=st.sampled_from(["close", "open"]),
    options=options,
    fine=st.booleans(),
)
kinds = pytest.mark.parametrize("kind", ["random", "signal"])


def worth(price: Fraction, shares: Fraction) -> Fraction:
    """Half up to the cent for whole shares, to 1e-8 for parts of one; neither is negative."""
    parts = 10**8 if shares.denominator > 1 else 100
    return Fraction((price * shares * parts * 2 + 1) // 2, parts)


def value(price: Fraction, shares: Fraction) -> Fraction:
    """What is held: exact for whole shares, else as it is paid."""
    return worth(price, shares) if shares.denominator > 1 else price * shares


class Book:
    """An account kept by hand from the lines of a journal, in exact fractions; refuses what breaks a law.

    ``parts`` of shares may be traded, and bring parts of a cent with them.
    """

    def __init__(self, *, parts):
        self.parts = parts
        self.cash, self.shares, self.owed, self.today = Fraction(0), Counter(), [], Counter()

    def deposit(self, session, body):
        self.cash += Fraction(body["amount"])

    def dividend(self, session, body):
        assert Fraction(body["quantity"]) == self.shares[body["symbol"]] > 0
        amount = Fraction(body["amount"])
        assert amount == worth(Fraction(body["per_share"]), self.shares[body["symbol"]]) > 0
        if date.fromisoformat(body["pay"]) <= date.fromisoformat(session):
            self.cash += amount
        else:
            self.owed.append((body["pay"], body["symbol"], amount))

    def payment(self, session, body):
        due = [row for row in self.owed if row[1:] == (body["symbol"], Fraction(body["amount"]))]
        assert due[0][0] <= session
        self.owed.remove(due[0])
        self.cash += due[0][2]

    def split(self, session, body):
        held, after, cash = self.shares[body["symbol"]], Fraction(body["after"]), Fraction(body["cash"])
        assert Fraction(body["before"]) == held > 0
        assert -HALF_A_BILLIONTH <= held * Fraction(body["ratio"]) - after < 1
        assert cash >= 0
        self.shares[body["symbol"]], self.cash = after, self.cash + cash

    def delisting(self, session, body):
        held = self.shares.pop(body["symbol"])
        assert Fraction(body["quantity"]) == held > 0
        assert Fraction(body["amount"]) == worth(Fraction(body["per_share"]), held)
        self.cash += Fraction(body["amount"])

    def fill(self, session, body):
        symbol, shares = body["symbol"], Fraction(body["filled"])
        notional, cost = Fraction(body["notional"]), sum(Fraction(body[name]) for name in CHARGES)
        assert shares > 0
        assert notional == worth(Fraction(body["price"]), shares)
        assert all(Fraction(body[name]) >= 0 for name in CHARGES)
        if body["side"] == "buy":
            self.shares[symbol] += shares
            self.today[symbol] += 0 if symbol in rm.SAME_DAY else shares
            self.cash -= notional + cost
        else:
            assert self.shares[symbol] - self.today[symbol] >= shares, "sold what was bought today"
            self.shares[symbol] -= shares
            self.cash += notional - cost

    def rejection(self, session, body):
        assert body["message"]

    def notes(self, session, body):
        """What the decider says of its decision moves no money."""

    def marks(self, session, body):
        self.prices = {symbol: Fraction(str(price)) for symbol, price in body["prices"].items()}
        assert set(self.prices) == {symbol for symbol, shares in self.shares.items() if shares}

    def day(self, session, body):
        owed = sum(amount for *_, amount in self.owed)
        stocks = sum(value(price, self.shares[symbol]) for symbol, price in self.prices.items())
        written = [Fraction(body[name]) for name in ("cash", "owed", "stocks", "value")]
        assert written == [self.cash, owed, stocks, self.cash + owed + stocks]
        assert body["positions"] == len(self.prices)
        self.today.clear()

    def enter(self, kind, session, body):
        getattr(self, kind)(session, body)
        assert self.cash >= 0
        assert self.parts or (self.cash * 100).denominator == 1, "no part of a cent"
        assert all(shares >= 0 for shares in self.shares.values())


@kinds
@laws
@given(cases)
def test_an_account_kept_by_hand_from_the_journal_agrees_to_the_cent(kind, case):
    book = Book(parts=case.rules.fraction_step < 1)
    for line, session, body in case.lines(kind):
        if line != "run":
            book.enter(line, session, body)


@laws
@given(cases)
def test_every_order_ends_as_one_line(case):
    decider = case.decider("random")
    lines = case.lines("random", decider=decider)
    ended = {f"{day:%Y-%m-%d}": Counter() for day in case.world.sessions}
    for line, session, body in lines:
        if line in {"fill", "rejection"}:
            ended[session][body["sequence"]] += 1
            assert (line == "fill") != ("code" in body)
    assert ended == decider.asked
    assert all(count == 1 for day in ended.values() for count in day.values())


@kinds
@laws
@given(cases)
def test_a_fill_is_at_a_price_of_the_session_within_its_limits_and_in_lots(kind, case):
    frames = case.world.frames

    def cell(name, symbol, session):
        return frames[name].loc[session, symbol] if name in frames else np.nan

    for line, session, body in case.lines(kind):
        if line != "fill":
            continue
        symbol, price, shares = body["symbol"], float(body["price"]), Fraction(body["filled"])
        first, low, high = (cell(name, symbol, session) for name in ("open", "low", "high"))
        assert bool(body.get("trigger")) == (body["sequence"] >= FIRST_EXIT), "no exit without its trigger"
        if body["type"] == "stop":
            level = float(body["stop_price"])
            assert price == first <= level or low <= price == level
            assert body["side"] == "sell"
        elif body["type"] != "limit":
            assert price == cell(body["type"], symbol, session)
        elif body["side"] == "buy":
            assert (
                price == first <= float(body["limit_price"])
                or low <= price == float(body["limit_price"]) < first
            )
        else:
            assert price == first >= float(body["limit_price"]) or high >= price == float(body["limit_price"])
        if body["side"] == "buy":
            assert not price >= cell("up_limit", symbol, session)
            assert shares.denominator == 1 or case.rules.fraction_step < 1
            if case.rules.market == "cn":
                star, bse = symbol.startswith("688"), symbol.endswith(".BJ")
                assert shares >= (200 if star else 100)
                assert star or bse or shares % 100 == 0
        else:
            assert not price <= cell("down_limit", symbol, session)
        assert cell("vol", symbol, session) != 0
        if case.rules.volume_share is not None and not np.isnan(cell("vol", symbol, session)):
            traded = Fraction(str(cell("vol", symbol, session))) * 100
            assert shares <= traded * Fraction(case.rules.volume_share)


@kinds
@laws
@given(cases, st.integers(0, 99))
def test_the_order_of_the_columns_changes_nothing(kind, case, seed):
    whole, other = case.lines(kind), case.lines(kind, world=case.world.shuffled(seed))
    assert whole[1:] == other[1:], "only the name of the data differs"


@kinds
@laws
@given(cases, st.data())
def test_a_run_in_two_halves_is_the_run_in_one(kind, case, data):
    middle = data.draw(st.integers(0, len(case.world.sessions)))
    with tempfile.TemporaryDirectory() as folder:
        with Ledger(f"{folder}/whole.db") as whole, Ledger(f"{folder}/halves.db") as first:
            case.run(whole, kind)
            case.run(first, kind, rows=middle)
            expected = list(whole.journal("r"))
        with Ledger(f"{folder}/halves.db") as second:
            case.run(second, kind)
            assert list(second.journal("r")) == expected


@kinds
@laws
@given(cases, st.data())
def test_later_sessions_change_no_earlier_line(kind, case, data):
    rows = data.draw(st.integers(1, len(case.world.sessions)))
    decider = case.decider(kind)
    early = case.lines(kind, world=case.world.cut(rows), decider=decider)
    late = case.lines(kind, rows=rows, decider=decider)
    assert early[1:] == late[1:], "only the name of the data differs"


@kinds
@laws
@given(cases, st.sampled_from([1, 3, 64]))
def test_blocks_write_the_lines_that_session_by_session_writes(kind, case, length):
    sessions, market = case.world.sessions, case.market()
    account = Account.opening(case.cash)
    plain, blocks = [], []
    plan = case.plan(kind) or TradePlan()
    for result in simulate(market, sessions, case.decider(kind), account=account, plan=plan):
        plain.append(day_lines(account, result))
        account = result.account
    end, account = account, Account.opening(case.cash)
    with patch.multiple(
        sys.modules["quantgraph.broker.session._simulate"], BLOCK_SESSIONS=length, BLOCK_CELLS=0
    ):
        run = RunContext(plan=plan, start=sessions[0])
        for done in advance(market, sessions, case.decider(kind), account=account, run=run):
            blocks += done.days if isinstance(done, Block) else [day_lines(account, done)]
            account = done.account
    assert [_plain(day) for day in blocks] == [_plain(day) for day in plain]
    assert account.open_session() == end.open_session()


def _plain(day: DayLines):
    return day.session, [tuple(line) for line in day.lines]


@kinds
@laws
@given(cases)
def test_what_is_read_back_is_what_was_done(kind, case):
    market, account, plan = case.market(), Account.opening(case.cash), case.plan(kind)
    done = [*simulate(market, case.world.sessions, case.decider(kind), account=account, plan=plan)]
    with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/l.db") as ledger:
        case.run(ledger, kind)
        read = list(ledger.results("r"))
        last = ledger.account("r")
    assert [(a.session, a.outcomes, a.events, a.marks, a.value) for a in read] == [
        (a.session, a.outcomes, a.events, a.marks, a.value) for a in done
    ]
    assert last.open_session() == done[-1].account.open_session()


def test_what_was_bought_at_a_close_without_an_open_has_a_price_for_weights():
    """Found by the laws: the only price of such a holding is the one it was bought at."""
    quotes = {"AAPL": Quote(open=np.nan, close=10.0), "MSFT": Quote(open=20.0, close=20.0)}
    trading_session = Session(
        Account.opening(1000), quotes, Rulebook.zero_cost("us"), rm.weekdays("2024-01-02", 1)[0]
    )
    trading_session.submit(Order(symbol="AAPL", side="buy", quantity=10, type="close", sequence=1))
    fill = trading_session.submit(Order(symbol="MSFT", target_weight=rm.D("0.5"), type="close", sequence=2))
    assert (fill.quantity, trading_session.account.cash) == (25, 400)
