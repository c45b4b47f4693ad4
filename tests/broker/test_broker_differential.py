"""Orders, blocks and the ledger against backtrader's broker: the same fills, cash and value in every session.

The embedded market's stocks of all boards over two years, with suspensions, late listings, sessions at the
limit, STAR and Beijing lots, dividends and bonus shares, and the stamp duty that was halved in between.

Three comparisons, from the one in which backtrader decides most to the one with every rule:

- orders of the evening, which see no price of their session: backtrader alone finds the bar, the price of an order at the
  open, at a limit or at the close, and who has not the cash;
- the signal rule without fees, lots and limits, filled by backtrader at the open that sizes it;
- the signal rule in the mainland, where lots, limits, suspensions, dividends and splits are said in the strategy.

The rule never sells on the day of a purchase, so T+1 does not bind. backtrader counts in floats: its cash and its
values may differ by a relative 1e-6. Sessions, symbols, sides, quantities, prices and fees are equal.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from string import ascii_uppercase

import pytest
from load_script import load_script

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider, Market, Order, Rejection, TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.data import open_source
from quantgraph.market import Rulebook
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

theirs = load_script(Path(__file__).with_name("backtrader_side.py"))

PRICES = ("open", "high", "low", "close")
DUST = 1e-6


@pytest.fixture(scope="module")
def panel():
    """Forty symbols of the embedded market over two years."""
    source = open_source("sample")
    symbols = [symbol for place, symbol in enumerate(source.symbols()) if place % 3]
    return dict(source.bars(symbols, "2023-01-03", "2024-12-31"))


@pytest.fixture(scope="module")
def signal(panel):
    """1 after a gain of more than 2.5 % in a session, -1 after such a loss; NaN without a close.

    With hindsight, so that orders meet what refuses them and holdings meet ex-dates: 1 on the eve of an open at the
    upper limit, -1 on the eve of one at the lower limit and of a suspension, 1 two sessions before any of the last
    two and before an ex-date.
    """
    opens, change = panel["open"], panel["close"] / panel["pre_close"] - 1
    opinions = ((change > 0.025) * 1.0 - (change < -0.025) * 1.0).where(change.notna())
    stuck = (opens <= panel["down_limit"]) | opens.isna()
    wanted = stuck | panel["dividend"].notna() | panel["split"].notna()
    for moment, ahead, opinion in ((wanted, 2, 1.0), (stuck, 1, -1.0), (opens >= panel["up_limit"], 1, 1.0)):
        opinions = opinions.mask(moment.shift(-ahead, fill_value=False), opinion)
    return opinions


def liquid(panel):
    """A year of what trades in every session, under names of a market without lots and limits."""
    panel = {name: panel[name].loc["2024"] for name in PRICES}
    traded = panel["open"].columns[panel["open"].notna().all()]
    names = {
        symbol: "Q" + ascii_uppercase[k // 26] + ascii_uppercase[k % 26] for k, symbol in enumerate(traded)
    }
    return {name: panel[name][traded].rename(columns=names) for name in PRICES}, names


def told(panel, rules, decider, cash, folder, *, signal=None, plan=None):
    """What our side did, as backtrader's side tells it, with the events of the mornings counted."""
    store = DataState()
    ref = store.update("ohlcv", panel)
    if signal is not None:
        ref = store.update("signal", {"moves": signal})
    market = Market(store=store, data_ref=ref, rules=rules, blocks_from=0)
    with Ledger(folder / "ledger.db") as ledger:
        run_sessions(market, panel["open"].index, decider, cash=cash, ledger=ledger, run_id="run", plan=plan)
        results = list(ledger.results("run"))
    story, events = theirs.Story([], [], [], []), Counter()
    for result in results:
        for outcome in result.outcomes:
            day, symbol = result.session, outcome.order.symbol
            if isinstance(outcome, Rejection):
                story.refused.append(theirs.Refusal(day, symbol, outcome.code))
            else:
                price, fee = float(outcome.price), int(outcome.cost * 100)
                story.fills.append(theirs.Fill(day, symbol, outcome.side, outcome.quantity, price, fee))
        events.update(type(event).__name__ for event in result.events)
        story.cash.append(float(result.account.cash))
        story.values.append(float(result.value))
    return story, events


def assert_same(ours, other):
    """The same story; the first fill that differs is shown alone, for all later ones follow from it."""
    for mine, his in zip(ours.fills, other.fills, strict=False):
        assert mine == his
    assert len(ours.fills) == len(other.fills)
    assert sorted(ours.refused) == sorted(other.refused)
    assert other.cash == pytest.approx(ours.cash, rel=DUST, abs=DUST)
    assert other.values == pytest.approx(ours.values, rel=DUST)


class Evening(Decider):
    """Orders of wishes that were written down beforehand."""

    name = "evening"

    def __init__(self, wishes):
        self.wishes = wishes

    def decide(self, context):
        account, session = context.account, context.session
        sizes = [
            (wish, wish.quantity(account.quantity(wish.symbol))) for wish in self.wishes.get(session, ())
        ]
        return [
            Order(
                symbol=wish.symbol,
                side=wish.side,
                quantity=quantity,
                type=wish.kind,
                limit_price=None if wish.limit is None else Decimal(str(wish.limit)),
                sequence=number,
            )
            for number, (wish, quantity) in enumerate(sizes, 1)
            if quantity
        ]


def evening_wishes(panel, seed):
    """Random wishes by session, known from the close before, in the order of the auctions, sales first."""
    rng, days, closes, wishes = random.Random(seed), panel["open"].index, panel["close"], {}
    for t, day in enumerate(days[1:]):
        rows = []
        for symbol in closes.columns:
            close = closes[symbol].iloc[t]
            if rng.random() < 0.85:
                continue
            kind, side = rng.choice(("open", "limit", "close")), rng.choice(("buy", "sell"))
            limit = round(close * rng.uniform(0.97, 1.03), 2) if kind == "limit" else None
            share = rng.choice((Fraction(1), Fraction(1, 2), Fraction(1, 3)))
            shares = int(rng.uniform(2_000, 20_000) / close)
            rows.append(theirs.Wish(symbol, side, kind, share=share, shares=shares, limit=limit))
        turn = ["open", "limit", "close"]
        wishes[day] = sorted(rows, key=lambda wish: (turn.index(wish.kind), wish.side == "buy"))
    return wishes


def test_orders_of_the_evening_meet_the_bars_that_backtrader_finds(panel, tmp_path):
    prices, _ = liquid(panel)
    wishes = evening_wishes(prices, seed=7)
    ours, _ = told(prices, Rulebook.zero_cost("us"), Evening(wishes), 300_000, tmp_path)
    other = theirs.run(
        theirs.EveningTrader, prices, 300_000.0, fees=theirs.Free(), at_open=False, wishes=wishes
    )
    codes = {"insufficient_cash": "margin", "market_closed": "open"}
    ours.refused[:] = [refusal._replace(why=codes[refusal.why]) for refusal in ours.refused]
    assert_same(ours, other)
    assert len(ours.fills) > 300
    assert Counter(refusal.why for refusal in ours.refused).keys() == {"margin", "open"}


@pytest.mark.parametrize(
    "options",
    [{"size": {"cash": Decimal(30_000)}, "max_positions": 40}, {"max_positions": 12}],
    ids=["ticket", "shares_of_equity"],
)
def test_the_rule_without_fees_lots_and_limits_is_filled_alike(options, panel, signal, tmp_path):
    prices, names = liquid(panel)
    opinions = signal.loc["2024", list(names)].rename(columns=names)
    ours, _ = filled_alike(prices, Rulebook.zero_cost("us"), theirs.Free(), opinions, options, tmp_path)
    assert not ours.refused


def filled_alike(prices, rules, fees, signal, options, folder):  # noqa: PLR0917
    """What the rule does with a signal, and the events, after the same of the other tool."""
    plan = TradePlan(**options)
    ours, events = told(prices, rules, SignalRule(), 1_000_000, folder, signal=signal, plan=plan)
    how = {"fees": fees, "at_open": True, "signal": signal, "options": plain(options)}
    assert_same(ours, theirs.run(theirs.SignalTrader, prices, 1e6, **how))
    assert len(ours.fills) > 300
    return ours, events


@pytest.mark.parametrize(
    "options",
    [
        {"size": {"cash": Decimal("6000.50")}, "max_positions": 40},
        {"size": {"percent": Decimal("0.07")}, "max_positions": 20, "cash_reserve": Decimal("0.1")},
        {"size": {"weights": Decimal("0.05")}},
    ],
    ids=["ticket", "max_positions", "weights"],
)
def test_the_rule_in_the_mainland_is_filled_alike(options, panel, signal, tmp_path):
    if "weights" in options["size"]:  # of every third symbol
        share = options["size"]["weights"]
        options = {"size": {"weights": dict.fromkeys(panel["open"].columns[::3], share)}}
    ours, events = filled_alike(panel, Rulebook.mainland(), theirs.Mainland(), signal, options, tmp_path)
    assert {refusal.why for refusal in ours.refused} == {"suspended", "limit_up", "limit_down"}
    assert events.keys() == {"Dividend", "Split"}


def plain(options):
    """The rule's options as backtrader's side takes them."""
    size = options.get("size", {})
    weights, most = size.get("weights"), options.get("max_positions")
    return theirs.Options(
        ticket=int(size["cash"] * 100) if "cash" in size else None,
        max_positions=most,
        weights=weights and {symbol: Fraction(str(share)) for symbol, share in weights.items()},
        share=Fraction(str(size["percent"])) if "percent" in size else Fraction(1, most or 1),
        reserve=Fraction(str(options.get("cash_reserve", 0))),
    )
