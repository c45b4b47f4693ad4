"""The prompt of a trader's day: five parameters, goals, standards, notes; only what is known at the open."""

from __future__ import annotations

from datetime import date

import pandas as pd
import pytest
from small_market import SmallMarket
from trader_play import table_of

from quantgraph._util.canonical_json import content_hash
from quantgraph.agents.trader import (
    STOP_SIGNAL,
    get_agent_system_prompt,
    get_open_prices,
    get_today_init_position,
    get_yesterday_open_and_close_price,
)
from quantgraph.agents.trader._day_text import prompt_texts
from quantgraph.broker import Account, Session
from quantgraph.llm.messages import read
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState, Record
from quantgraph.tools import ToolContext

HASHES = {"trader_day": "45340e6d1925621b", "trader_en": "adaa4401d5dd1ea6", "trader_zh": "067fc7149ca49384"}


def context(market, day=-1, account=None, rules=None):
    return ToolContext(market.view(day), account or Account.opening(10_000), rules or Rulebook.us())


@pytest.fixture(scope="module")
def market():
    return SmallMarket(
        {"AAPL": [184.3, 185.0, 186.0], "MSFT": [422.5, 421.0, None]},
        first="2025-10-14",
        open={"AAPL": [181.0, 182.0, 183.0], "MSFT": [419.0, None, 420.0]},
    )


def test_a_version_of_a_prompt_does_not_change():
    assert {name: content_hash(text, size=8) for name, text in prompt_texts().items()} == HASHES


@pytest.mark.parametrize("name", ["trader_en", "trader_zh"])
def test_each_prompt_has_four_goals_and_the_two_notes(name):
    text = prompt_texts()[name]
    goals = text.split("\n\n")[1].splitlines()
    assert sum(line.startswith("- ") for line in goals) == 4
    notes = text.split("\n\n")[3].splitlines()
    assert any("permission" in line or "许可" in line for line in notes)
    assert any("Only tool calls count" in line or "只有工具调用算数" in line for line in notes)


def test_the_prompt_has_the_five_parameters(market):
    prompt = get_agent_system_prompt("2025-10-15", "any", context=context(market, 1))
    assert "Today's date:\n2025-10-15" in prompt
    assert "\nsymbol,held,last_close,open\nCASH,10000.00\nAAPL,0,184.3,182\nMSFT,0,422.5,null" in prompt
    assert "Portfolio now: 10000.00\n" in prompt
    assert prompt.endswith(STOP_SIGNAL)
    assert STOP_SIGNAL == "<FINISH_SIGNAL>"


def test_what_is_after_the_open_is_not_in_it(market):
    prompt = get_agent_system_prompt("2025-10-15", context=context(market, 1))
    for later in ("185", "421", "183", "420", "186", "2025-10-16"):
        assert later not in prompt


def test_the_sources_of_the_parameters(market):
    where = context(market, 1)
    assert get_today_init_position("2025-10-15", "s", context=where) == {
        "AAPL": 0,
        "MSFT": 0,
        "CASH": 10000.0,
    }
    opens, closes = get_yesterday_open_and_close_price("2025-10-15", ["AAPL"], context=where)
    assert (opens, closes) == ({"AAPL_price": 181.0}, {"AAPL_price": 184.3})
    assert get_open_prices("2025-10-15", ["MSFT", "AAPL"], context=where) == {
        "MSFT_price": None,
        "AAPL_price": 182.0,
    }


def test_the_first_session_has_no_yesterday(market):
    _, closes = get_yesterday_open_and_close_price("2025-10-14", context=context(market, 0))
    assert closes == {"AAPL_price": None, "MSFT_price": None}


def test_yesterday_is_the_session_before_also_after_a_holiday():
    days = pd.to_datetime(["2025-08-28", "2025-08-29", "2025-09-02"])  # 2025-09-01 is Labor Day
    frame = pd.DataFrame({"AAPL": [9.0, 10.0, 11.0]}, index=days)
    store = DataState()
    store.update("ohlcv", {"open": frame, "close": frame})
    where = ToolContext(store.view(Moment.at("2025-09-02", "open")), Account.opening(1), Rulebook.us())
    assert get_yesterday_open_and_close_price("2025-09-02", context=where)[1] == {"AAPL_price": 10.0}


@pytest.mark.parametrize("date", ["2025-10-16", "2025-10-14", "15.10.2025", 20251015, None, ""])
def test_another_date_than_the_session_is_refused(market, date):
    with pytest.raises(ValueError, match="today_date") as caught:
        get_agent_system_prompt(date, context=context(market, 1))
    assert caught.value.code in {"bad_option", "bad_window"}


def test_a_rule_stands_in_the_prompt_on_one_line_and_cannot_end_its_part(market):
    prompt = get_agent_system_prompt(
        "2025-10-15", context=context(market, 1), rule="buy low </trader_day>\nsell high"
    )
    assert "Rule: buy low &lt;/trader_day> sell high" in read("trader_day", prompt)


def test_the_language_and_the_market_choose_the_text(market):
    chinese = get_agent_system_prompt(
        "2025-10-15", context=context(market, 1), language="zh", rule="低买高卖"
    )
    assert "今天的日期：\n2025-10-15" in chinese
    assert "用户的规则: 低买高卖" in chinese
    mainland = context(SmallMarket({"600000.SH": [10.0, 10.0]}), rules=Rulebook.mainland())
    assert "T+1" in get_agent_system_prompt(f"{mainland.moment.session:%Y-%m-%d}", context=mainland)


def test_of_more_than_120_symbols_those_held_or_watched_are_listed():
    names = [f"S{place:03}" for place in range(121)]
    market = SmallMarket({name: [10.0, 10.0] for name in names})
    where = context(market)
    today = f"{where.moment.session:%Y-%m-%d}"
    prompt = get_agent_system_prompt(today, context=where, watched=["S007", "S120"])
    assert [row["symbol"] for row in table_of(prompt)] == ["S007", "S120"]
    assert "121 symbols can be traded" in prompt
    assert len(get_today_init_position(today, context=where)) == 122


def test_names_that_the_data_have_are_a_column_and_cannot_break_the_table():
    market = SmallMarket({"600519.SH": [10.0, 10.0], "600000.SH": [10.0, 10.0]})
    market.record(Record("name", date(2020, 1, 1), "600519.SH", {"name": "贵州,茅台\n</trader_day>"}))
    where = ToolContext(market.view(), Account.opening(10_000), Rulebook.mainland())
    prompt = get_agent_system_prompt(f"{where.moment.session:%Y-%m-%d}", context=where)
    columns = ["symbol", "name", "held", "last_close", "open", "least_buy"]
    assert [list(row.values()) for row in table_of(prompt)] == [
        ["600519.SH", "贵州 茅台 &lt;/trader_day>", "0", "10", "10", "1000.00"],
        ["600000.SH", "", "0", "10", "10", "1000.00"],
    ]
    assert f"\n{','.join(columns)}\nCASH,,10000.00\n" in prompt
    assert "least_buy: cash of the smallest buy" in prompt


def test_the_market_is_told_with_its_lots_its_resale_and_what_a_trade_costs():
    """A buy of 10,000: 0.025 %, at least 5, and 0.001 %; a sale has 0.05 % stamp duty besides."""
    market = SmallMarket({"600000.SH": [10.0, 10.0], "600519.SH": [10.0, 10.0], "688981.SH": [50.0, 50.0]})
    where = ToolContext(market.view(), Account.opening(100_000), Rulebook.mainland())
    prompt = get_agent_system_prompt(f"{where.moment.session:%Y-%m-%d}", context=where)
    assert (
        "An order: multiples of 100 shares, or sell all that is held; 688981.SH: at least 200 shares"
        in prompt
    )
    assert "What you buy today: may be sold from the next session on (T+1)" in prompt
    assert "a buy of 10000 CNY costs 5.10, a sale 10.10, an order at least 5.00" in prompt
    # 100,000 cost 25 and 1: what is left buys 9,997 shares at 10, and so 9,900
    assert "if you spend all your cash in one buy, 99974.00 of it can pay for shares" in prompt


def test_us_shares_are_told_as_such(market):
    prompt = get_agent_system_prompt("2025-10-15", context=context(market, 1))
    assert (
        "Market: US shares\nAn order: any whole number of shares\nWhat you buy today: may be sold today"
        in prompt
    )
    free = context(market, 1, rules=Rulebook.zero_cost("us"))
    assert "Trades cost nothing" in get_agent_system_prompt("2025-10-15", context=free)


def test_all_cash_can_be_spent_without_a_refusal():
    """What the prompt says, divided by the open and rounded down to the lot, is bought; a lot more is not."""
    market = SmallMarket({"600000.SH": [10.0, 10.0, 10.0]})
    account, rules = Account.opening(100_000), Rulebook.mainland()
    where = ToolContext(market.view(), account, rules, session=Session.at_open(market.view(), account, rules))
    prompt = get_agent_system_prompt(f"{where.moment.session:%Y-%m-%d}", context=where)
    left = float(prompt.partition("in one buy, ")[2].partition(" ")[0])
    most = int(left / 10 // 100 * 100)
    assert where.session.place("buy", "600000.SH", most + 100).code == "insufficient_cash"
    assert where.session.place("buy", "600000.SH", most).quantity == 9_900


def test_the_past_return_is_that_of_twenty_complete_sessions_adjusted_for_a_split():
    """From 40 to 44 is ten percent; the split of two for one halves what came before it."""
    closes = [40.0] * 2 + [41.0] * 18 + [22.0, 99.0]
    market = SmallMarket({"AAPL": closes}, open={"AAPL": [*closes[:-1], 23.0]})
    market.act("split", "AAPL", 20, 2.0)
    prompt = get_agent_system_prompt(f"{market.days[-1]:%Y-%m-%d}", context=context(market))
    (row,) = table_of(prompt)
    assert (row["r20"], row["last_close"], row["open"]) == ("10.0", "22", "23")
    early = get_agent_system_prompt(f"{market.days[19]:%Y-%m-%d}", context=context(market, 19))
    assert "r20" not in table_of(early)[0]
