"""What a day's closing text may say: the account, the fills and the prices of that day."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from small_market import SmallMarket

from quantgraph.agents.trader import TraderAgent
from quantgraph.agents.trader._closing_facts import unexplained_numbers
from quantgraph.broker import Account, DecisionContext
from quantgraph.market import Rulebook


@pytest.fixture
def day():
    """Cash 10,000; AAA closed at 50 and opens at 52, BBB closed at 20 and opens at 19; 100 AAA are bought."""
    market = SmallMarket({"AAA": [50.0, 53.0], "BBB": [20.0, 19.5]}, open=[[50.0, 20.0], [52.0, 19.0]])
    context = DecisionContext(market.view(), Account.opening(10_000), rules=Rulebook.zero_cost("us"))
    context.market.place("buy", "AAA", 100)
    return context


@pytest.mark.parametrize(
    "text",
    [
        "Bought AAA: 100 shares at 52.00 for $5,200; cash is $4,800.",
        "AAA opened 4.0% above its close of 50; BBB fell 5% from 20 to 19.",
        "The portfolio is worth $10,000: 52% in AAA, 48% in cash.",
        "I spent 52% of the cash, $5,200.00, on AAA; 0 shares of BBB.",
        "买入AAA 100股，成交价52元，现金剩余4,800元，占48%。",
    ],
)
def test_what_is_true_of_the_day_is_explained(day, text):
    assert unexplained_numbers(text, day, []) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Cash is $10,480 now.", ["$10,480"]),
        ("AAA: 110 shares", ["110 shares"]),
        ("AAA closed today at 53, above 50.", ["53"]),  # the close of today is not known
        ("BBB opened at 52", ["52"]),  # that is the open of another one
        ("AAA rose 6%", ["6%"]),
        ("现金剩余 5,520 元", ["5,520 元"]),
    ],
)
def test_what_is_not_is_found(day, text, found):
    assert unexplained_numbers(text, day, []) == found


def test_what_a_tool_answered_is_explained(day):
    text = "The article says that AAA earned 7.35 a share."
    assert unexplained_numbers(text, day, []) == ["7.35"]
    assert unexplained_numbers(text, day, ['{"content": "AAA earned 7.35 a share"}']) == []


def test_no_text_has_no_numbers():
    assert unexplained_numbers("", SimpleNamespace(), []) == []


def test_the_result_of_a_run_names_them():
    (note,) = TraderAgent().result_notes(
        [{"trader": {"ended": "stop_signal", "unresolved_numbers": ["$49,449", "12 shares"]}}]
    )
    assert "2 numbers of the closing texts" in note.en
    assert "$49,449, 12 shares" in note.en
    assert "$49,449, 12 shares" in note.zh
