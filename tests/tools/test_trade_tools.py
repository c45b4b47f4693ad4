"""buy, sell and get_positions: AI-Trader's shapes, every refusal by its own code, one account for all threads."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pandas as pd
import pytest
from decision_views import trading_tools_at
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.broker import Account, Decider, Decision, Fill, Market, simulate
from quantgraph.broker.accounts._orders import REJECTION_CODES
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.state import DataState, Record
from quantgraph.tools import ToolContext, call_tool, tools_of

DAYS = pd.to_datetime(["2025-10-13", "2025-10-14", "2025-10-15"])
FREE_US = Rulebook.zero_cost("us")
US = ["AAPL", "MSFT", "NVDA"]
OPENS = {"AAPL": 182.0, "MSFT": 420.0, "NVDA": 145.2}
CN = "600519.SH", "688981.SH", "000001.SZ"


def flat(prices, days=DAYS):
    return pd.DataFrame([prices] * len(days), index=days)


def bars(prices, days=DAYS, **fields):
    frame = flat(prices, days)
    return {"open": frame, "high": frame, "low": frame, "close": frame, "vol": frame * 0 + 1e6, **fields}


def us(cash=10_000, **options):
    return trading_tools_at(bars(OPENS), "2025-10-15", cash=cash, rules=FREE_US, **options)


def cn(cash=1_000_000, prices=(10.0, 50.0, 20.0), holding=None, **fields):
    panel = bars(dict(zip(CN, prices, strict=True)), **fields)
    rules = Rulebook.zero_cost("cn")
    return trading_tools_at(panel, "2025-10-15", cash=cash, rules=rules, holding=holding)


def call(context, name, *args):
    params = dict(zip(("symbol", "amount"), args, strict=False))
    return call_tool(tools_of("trader")[name], params, context, timeout=5)


def code_of(answer):
    assert "\n" not in answer["error"]
    return answer["code"]


def test_the_answer_is_what_is_held_and_what_was_traded_with_cash_last():
    """AI-Trader's own example: AAPL 10, MSFT 5, cash 8500, 20 NVDA at 145.2 leave 5596."""
    context = us(cash=8500 + 10 * 182 + 5 * 420)
    call(context, "buy", "AAPL", 10)
    call(context, "buy", "MSFT", 5)
    assert call(context, "get_positions") == {"AAPL": 10, "MSFT": 5, "CASH": 8500.0}
    answer = call(context, "buy", "NVDA", 20)
    assert answer == {"AAPL": 10, "MSFT": 5, "NVDA": 20, "CASH": 5596.0}
    assert list(answer) == [*US, "CASH"]
    assert json.dumps(answer) == '{"AAPL": 10, "MSFT": 5, "NVDA": 20, "CASH": 5596.0}'
    assert call(context, "sell", "AAPL", 10) == {"AAPL": 0, "MSFT": 5, "NVDA": 20, "CASH": 7416.0}
    assert call(context, "get_positions") == {"MSFT": 5, "NVDA": 20, "CASH": 7416.0}
    assert [(one.side, one.symbol, one.quantity, one.sequence) for one in context.session.orders] == [
        ("buy", "AAPL", 10, 1),
        ("buy", "MSFT", 5, 2),
        ("buy", "NVDA", 20, 3),
        ("sell", "AAPL", 10, 4),
    ]


def test_without_a_market_the_account_of_the_morning_is_shown_and_nothing_is_traded():
    context = us()
    bare = ToolContext(context.view, Account.opening(5), FREE_US)
    assert call(bare, "get_positions") == {"CASH": 5.0}
    with pytest.raises(BadOption, match="this tool needs the market of a session"):
        call(bare, "buy", "AAPL", 1)


@pytest.mark.parametrize("side", ["buy", "sell"])
@pytest.mark.parametrize(
    "amount",
    [2.9, 10.0, "ten", None, True, 0, -5, 10**13, 10**400, float("nan"), [], {}],
    ids=lambda each: repr(each)[:9],
)
def test_only_a_whole_amount_above_0_is_an_order(side, amount):
    context = us()
    answer = call(context, side, "AAPL", amount)
    assert code_of(answer) == "bad_quantity"
    assert (answer["symbol"], answer["date"]) == ("AAPL", "2025-10-15")
    assert len(answer["error"]) < 200
    assert context.session.orders == ()


def test_a_missing_amount_is_a_wrong_call():
    with pytest.raises(BadOption, match="buy lacks its parameter 'amount'; valid are symbol, amount"):
        call(us(), "buy", "AAPL")


@pytest.mark.parametrize("wrong", ["600519.SH", "APPL", "苹果", "", "AAPL; DROP", "CASH"])
def test_a_symbol_of_elsewhere_is_unknown(wrong):
    answer = call(us(), "buy", wrong, 1)
    assert code_of(answer) == "unknown_symbol"
    assert "there is AAPL, MSFT, NVDA" in answer["error"]
    assert ("did you mean AAPL?" in answer["error"]) == (wrong == "APPL")


def test_a_symbol_in_lower_case_and_a_bare_code_are_the_only_ones_of_their_kind():
    assert call(us(), "buy", " nvda ", 1)["NVDA"] == 1
    assert call(cn(), "buy", "600519", 100)["600519.SH"] == 100


def test_a_name_is_not_a_symbol_and_the_code_is_told():
    names = (Record("name", pd.Timestamp("2020-01-01").date(), "600519.SH", {"name": "贵州茅台"}),)
    context = trading_tools_at(bars({"600519.SH": 10.0}), "2025-10-15", records=names)
    answer = call(context, "buy", "贵州茅台", 100)
    assert code_of(answer) == "unknown_symbol"
    assert "did you mean 600519.SH?" in answer["error"]


def test_a_day_without_trading_is_not_a_session():
    context = trading_tools_at(bars(OPENS), "2025-10-18", rules=FREE_US)  # a Saturday
    answer = call(context, "buy", "AAPL", 1)
    assert code_of(answer) == "not_a_session"


def without_open(symbol, value=float("nan")):
    frame = flat(dict(zip(CN, (10.0, 50.0, 20.0), strict=True)))
    frame.loc["2025-10-15", symbol] = value
    return frame


def test_a_suspended_symbol_is_told_from_one_without_a_price():
    assert code_of(call(cn(open=without_open(CN[0])), "buy", CN[0], 100)) == "suspended"
    assert code_of(call(cn(open=without_open(CN[0], 0.0)), "buy", CN[0], 100)) == "no_price"


def test_a_lot_is_told_with_its_size():
    answer = call(cn(), "buy", CN[0], 150)
    assert code_of(answer) == "lot_size"
    assert (answer["amount"], answer["lot"], answer["step"]) == (150, 100, 100)
    answer = call(cn(), "buy", CN[1], 100)  # the STAR market begins at 200 shares
    assert code_of(answer) == "lot_size"
    assert (answer["lot"], answer["step"]) == (200, 1)


def test_cash_that_is_missing_is_told_in_numbers():
    answer = call(us(cash=1000), "buy", "MSFT", 3)
    assert code_of(answer) == "insufficient_cash"
    assert (answer["required_cash"], answer["cash_available"]) == (1260.0, 1000.0)
    paid = trading_tools_at(bars({CN[0]: 10.0}), "2025-10-15", cash=1000, rules=Rulebook.mainland())
    answer = call(paid, "buy", CN[0], 100)  # 1000 and the least commission, 5, and the transfer fee, 0.01
    assert (answer["required_cash"], answer["cash_available"]) == (1005.01, 1000.0)
    assert call(us(cash=1260), "buy", "MSFT", 3)["CASH"] == 0.0


def test_shares_that_are_missing_are_told_in_numbers():
    context = us()
    assert code_of(none := call(context, "sell", "AAPL", 1)) == "insufficient_shares"
    assert (none["have"], none["want_to_sell"]) == (0, 1)
    call(context, "buy", "AAPL", 3)
    few = call(context, "sell", "AAPL", 4)
    assert (few["code"], few["have"], few["want_to_sell"]) == ("insufficient_shares", 3, 4)


def test_shares_of_today_are_told_in_numbers():
    context = cn()
    call(context, "buy", CN[0], 300)
    answer = call(context, "sell", CN[0], 200)
    assert code_of(answer) == "t_plus_one"
    assert {name: answer[name] for name in ("have", "bought_today", "sellable", "want_to_sell")} == {
        "have": 300,
        "bought_today": 300,
        "sellable": 0,
        "want_to_sell": 200,
    }


def test_no_buy_at_the_upper_limit_and_no_sale_at_the_lower_one():
    before = flat(dict.fromkeys(CN, 10.0))
    context = cn(prices=(11.0, 10.0, 9.0), pre_close=before)
    up = call(context, "buy", CN[0], 100)
    assert code_of(up) == "limit_up"
    assert (up["open"], up["limit"]) == (11.0, 11.0)
    held = cn(prices=(9.0, 10.0, 9.0), pre_close=before, holding={CN[2]: 100})
    down = call(held, "sell", CN[2], 100)
    assert code_of(down) == "limit_down"
    assert (down["open"], down["limit"]) == (9.0, 9.0)


def test_an_order_that_is_too_large_is_told_the_largest():
    answer = call(cn(cash=10**9), "buy", CN[0], 1_000_100)
    assert code_of(answer) == "order_size_cap"
    assert (answer["amount"], answer["most"]) == (1_000_100, 1_000_000)


def test_an_outcome_that_the_open_does_not_tell_is_pending():
    rules = Rulebook.zero_cost("us", volume_share="0.1")
    context = trading_tools_at(bars(OPENS), "2025-10-15", rules=rules)
    answer = call(context, "buy", "AAPL", 10)
    assert (answer["code"], answer["symbol"], answer["side"], answer["amount"]) == (
        "volume_cap",
        "AAPL",
        "buy",
        10,
    )
    assert answer["positions"] == {"AAPL": 0, "CASH": 100_000.0}
    later = call(context, "sell", "AAPL", 10)
    assert later["code"] == "earlier_order"
    assert len(context.session.orders) == 2


def test_positions_are_in_the_order_of_the_data_whatever_was_bought_first():
    context = us(cash=1_000)
    call(context, "buy", "NVDA", 1)
    call(context, "buy", "AAPL", 1)
    assert list(call(context, "get_positions")) == ["AAPL", "NVDA", "CASH"]


def test_a_buy_that_the_cash_does_not_pay_is_told_the_largest_one_that_it_pays():
    answer = call(us(cash=1_000), "buy", "NVDA", 10)
    assert (answer["code"], answer["required_cash"], answer["largest_buy"]) == (
        "insufficient_cash",
        1452.0,
        6,
    )
    rules = Rulebook.mainland()  # 0.025 %, at least 5 for a buy, and 0.001 % for the transfer
    context = trading_tools_at(bars({CN[0]: 10.0}), "2025-10-15", cash=5_005, rules=rules)
    assert call(context, "buy", CN[0], 500)["largest_buy"] == 400  # 5,005.05 are short of five cents
    assert call(context, "buy", CN[0], 400) == {CN[0]: 400, "CASH": 999.96}


def test_the_reason_of_an_order_is_in_the_market():
    context = us()
    context.reason = "it rises"
    call(context, "buy", "AAPL", 1)
    assert [order.reason for order in context.session.orders] == ["it rises"]


def test_a_share_called_cash_cannot_be_listed_beside_the_cash():
    context = trading_tools_at(bars({"CASH": 10.0}), "2025-10-15", rules=FREE_US)
    for name, arguments in (("get_positions", ()), ("buy", ("CASH", 1))):
        with pytest.raises(BadOption, match="the data has a share called CASH"):
            call(context, name, *arguments)
    assert context.session.orders == ()


def test_calls_side_by_side_keep_one_account():
    context = us(cash=182 * 40)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: call(context, "buy", "AAPL", 1), range(60)))
    assert sum("error" in each for each in answers) == 20
    assert {each["code"] for each in answers if "error" in each} == {"insufficient_cash"}
    assert call(context, "get_positions") == {"AAPL": 40, "CASH": 0.0}
    assert len({one.sequence for one in context.session.orders}) == 40


class Caller(Decider):
    """Makes calls, keeps what it was told, and returns the market's orders."""

    name = "caller"

    def __init__(self, calls):
        self.calls, self.told = calls, []

    def decide(self, context):
        tools = ToolContext(context.view, context.account, context.rules, session=context.market)
        self.told.append([call(tools, *each) for each in self.calls])
        return Decision(context.market.orders, in_order=True)


def test_what_a_tool_said_is_what_the_ledger_has():
    store = DataState()
    market = Market(store=store, data_ref=store.update("ohlcv", bars(OPENS)), rules=FREE_US)
    caller = Caller(
        [
            ("buy", "AAPL", 20),
            ("buy", "MSFT", 20),
            ("sell", "AAPL", 5),
            ("buy", "NVDA", 4),
            ("buy", "NVDA", 0),
        ]
    )
    results = list(simulate(market, DAYS, caller, account=Account.opening(5000)))
    for told, result in zip(caller.told, results, strict=True):
        positions = [each for each in told if "error" not in each]
        fills = [each for each in result.outcomes if isinstance(each, Fill)]
        assert len(fills) == len(result.outcomes) == len(positions)
        assert positions[-1]["CASH"] == float(result.account.cash)
        assert positions[-1]["AAPL"] == result.account.quantity("AAPL")
    assert [one.order.quantity for one in results[0].outcomes] == [20, 5, 4]


PRICES = st.sampled_from([9.0, 9.9, 10.0, 10.5, 11.0, 12.0, float("nan"), 0.0])
ORDERS = st.tuples(
    st.sampled_from(["buy", "buy", "sell"]),
    st.sampled_from([*CN, "600519", "AAPL"]),
    st.sampled_from([100, 200, 300, 1000, 150, 1, 0, -100, 10**7, 2.5, None]),
)


@settings(max_examples=60)
@given(
    opens=st.lists(st.tuples(PRICES, PRICES, PRICES), min_size=3, max_size=3),
    calls=st.lists(ORDERS, max_size=12),
    cash=st.sampled_from([2_000, 10_000, 1_000_000]),
)
def test_every_answer_is_the_ledgers_whatever_is_ordered(opens, calls, cash):
    """Cash and shares of each answer are those of the ledger's fills so far, added up by hand; no order is lost."""
    opened = pd.DataFrame(opens, DAYS, list(CN))
    closes, before = opened.fillna(10.0).replace(0.0, 10.0), flat(dict.fromkeys(CN, 10.0))
    panel = {"open": opened, "close": closes, "pre_close": before, "vol": before * 1000}
    store = DataState()
    market = Market(store=store, data_ref=store.update("ohlcv", panel), rules=Rulebook.mainland())
    caller = Caller(calls)
    money, held = Decimal(cash), dict.fromkeys(CN, 0)
    results = list(simulate(market, DAYS, caller, account=Account.opening(cash)))
    for told, result in zip(caller.told, results, strict=True):
        answers = [each for each in told if "error" not in each]
        assert [type(each) for each in result.outcomes] == [Fill] * len(answers)
        for answer, fill in zip(answers, result.outcomes, strict=True):
            money += fill.cash_change
            held[fill.order.symbol] += fill.quantity if fill.side == "buy" else -fill.quantity
            listed = {name: each for name, each in held.items() if each or name == fill.order.symbol}
            assert answer == {**listed, "CASH": float(money)}
        assert all(each["code"] in REJECTION_CODES for each in told if "error" in each)
