"""Words, data and a signal are put together: conventions, watched symbols, and what cannot be compared."""

import numpy as np
import pandas as pd
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from signal_panels import market_panel
from states import grouped

from quantgraph.market import Moment
from quantgraph.sentences import RequestContext, read_request, write_code
from quantgraph.sentences.phrases import rule_in
from quantgraph.subgraphs.signal._meaning import Words, hold_against_words, rule_in_words, user_words

CROSS = "收盘价上穿20日均线买入，下穿卖出"


@pytest.fixture(scope="module")
def frames():
    return market_panel()


@pytest.fixture
def view_of(frames, store):
    def view(**panels):
        panels = {"ohlcv": frames["ohlcv"]} | panels
        store.override(**panels)
        return store.view(Moment.at("2025-12-31"))

    return view


def cross(close, period):
    mean = close.rolling(period).mean()
    above = close > mean
    before = above.shift(1, fill_value=False)
    signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
    return signal.mask(above & ~before, 1.0).mask(~above & before, -1.0).where(mean.shift(1).notna())


def codes(words, signal, view, cells=()):
    return [
        each.code for each in hold_against_words(words, signal, cells, view, first=signal.index[40]).findings
    ]


def words(text, **more):
    return Words(text=text, trade=more.pop("trade", ()), **more)


def test_only_the_users_own_words_are_the_reference(frames, view_of):
    signal, view = cross(frames["ohlcv"]["close"], 20), view_of()
    other = CROSS.replace("20", "30")
    assert codes(words(CROSS), signal, view) == []
    assert codes(words(other), signal, view) == ["meaning_differs"]
    unreadable = words("请看" + CROSS + "呀呀呀")
    assert rule_in_words(unreadable) is None
    assert codes(unreadable, signal, view) == []


class Source:
    """What the words are read with."""

    @staticmethod
    def sessions():
        return pd.bdate_range("2025-01-02", "2025-12-31")

    @staticmethod
    def names():
        return {"600036.SH": "招商银行", "601899.SH": "紫金矿业"}

    @staticmethod
    def symbols():
        return ["600036.SH", "601899.SH"]


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("换成紫金矿业", CROSS),
        ("改成30天", CROSS.replace("20", "30")),
        ("RSI低于30买入，高于70卖出，招商银行", None),
    ],
)
def test_a_later_message_changes_the_users_own_words(message, rule):
    closing = AIMessage("done", response_metadata={"quantgraph_ended": "done"})
    first = HumanMessage(f"招商银行，{CROSS}，2025年", id="1")
    messages = [first, AIMessage("?"), closing, HumanMessage(message, id="2")]
    said, context = user_words(grouped({"messages": messages}), Source())
    expected = read_request(rule or message, context).strategy
    assert expected is not None
    assert read_request(said, context).strategy == expected
    assert user_words(grouped({"messages": []}), Source())[0] == ""


def test_words_without_what_was_given_up_are_not_the_reference():
    assert rule_in_words(words(CROSS, waived=("下穿卖出",))) is None


def test_code_of_the_planner_is_not_held_against_itself(frames, view_of):
    source = write_code(rule_in(CROSS, read_request(CROSS, RequestContext()))).source
    wrong = cross(frames["ohlcv"]["close"], 30)
    assert codes(words(CROSS), wrong, view_of(), [source]) == []
    assert codes(words(CROSS), wrong, view_of(), [source + "# mine"]) == ["meaning_differs"]


def test_a_plan_beside_a_rule_leaves_the_rule_as_the_reference():
    assert rule_in_words(words(f"{CROSS}，止损5%，每周一调仓")) == rule_in_words(words(CROSS))
    assert rule_in_words(words(f"{CROSS}，2倍杠杆")) is None


def test_an_exit_that_nobody_said_is_not_a_reference():
    assert rule_in_words(words("5日均线上穿20日均线买入")) is None


def test_a_watched_index_is_read_as_its_own_series(frames, view_of):
    close = frames["ohlcv"]["close"]
    level = close[["600000.SH"]].set_axis(["000016.SH"], axis=1) * 100
    traded = close[["600003.SH", "600004.SH"]]
    rule = cross(level, 20)["000016.SH"]
    signal = pd.concat([rule, rule], axis=1, keys=traded.columns)
    view = view_of(
        ohlcv={name: frame[traded.columns] for name, frame in frames["ohlcv"].items()}, index={"close": level}
    )
    said = words(CROSS, trade=tuple(traded.columns), watch=("000016.SH",))
    assert codes(said, signal, view) == []
    assert codes(said, cross(traded, 20), view) == ["meaning_differs"]


def test_a_cross_where_the_words_say_a_state_is_found(frames, view_of):
    close = frames["ohlcv"]["close"]
    held = "hold when the close is above its 20-day average, sell when it is below"
    mean = close.rolling(20).mean()
    state = (close * 0).mask(close > mean, 1.0).mask(close < mean, -1.0).where(mean.notna())
    assert codes(words(held), state, view_of()) == []
    late = state.index[40]
    (found,) = hold_against_words(
        words(held), cross(close, 20).loc[late:], [], view_of(), first=late
    ).findings
    assert found.code == "meaning_differs"
    assert "the first is out, the second long" in found.message


@pytest.mark.parametrize("watch", [("600000.SH",), ()])
def test_one_stock_that_is_watched_for_others_is_read_from_the_sentence(frames, view_of, watch):
    """With or without the model's ``watch``: the planner reads the roles itself."""
    text = "when 600000.SH crosses above its 20-day average, buy 600003.SH and 600004.SH; when 600000.SH crosses below it, sell them"
    close = frames["ohlcv"]["close"]
    traded = ("600003.SH", "600004.SH")
    rule = cross(close[["600000.SH"]], 20)["600000.SH"]
    signal = pd.concat([rule, rule], axis=1, keys=traded)
    said = words(text, trade=traded if watch else ("600000.SH", *traded), watch=watch)
    assert rule_in_words(said) is not None
    assert "meaning_differs" not in codes(said, signal, view_of())
    assert "meaning_differs" in codes(said, cross(close[list(traded)], 20), view_of())


def test_a_field_that_was_not_fetched_is_said_not_to_be_compared(frames, view_of):
    said = words("市盈率最低的2只股票买入，其余卖出")
    signal = cross(frames["ohlcv"]["close"], 20) * 0
    held = hold_against_words(said, signal, (), view_of(), first=signal.index[40])
    assert held.findings == ()
    assert "pe" in held.not_compared.en


def test_dividends_leave_raw_and_adjusted_prices_open(frames, view_of):
    close = frames["ohlcv"]["close"]
    factor = pd.DataFrame(1.0, index=close.index, columns=close.columns)
    factor.iloc[120:] = 1.5
    view = view_of(ohlcv={**frames["ohlcv"], "adj_factor": factor})
    assert codes(words(CROSS), cross(close, 20), view) == []
    assert codes(words(CROSS), cross(close * factor, 20), view) == []
    doubled = close.mul(np.where(np.arange(len(close)) < 120, 1.0, 2.5), axis=0)
    assert codes(words(CROSS), cross(doubled, 20), view) == ["meaning_differs"]
