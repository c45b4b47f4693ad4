"""Tags by which a decision is found again."""

import pytest

from quantgraph.agents.dual_agent._validation import _extract_decision_tags

DECISION = {
    "action": "increase",
    "confidence": 0.85,
    "reasons": [
        "Strong momentum with positive 7-day trend",
        "Reasonable valuation with pe_ratio below sector average",
    ],
}
FEATURES = {
    "market_data": {"close_7d": [180.0, 182.0, 181.5, 183.0, 185.0, 186.5, 188.0]},
    "fundamental_data": {"pe_ratio": 22.5, "market_cap": 2500000000000, "dividend_yield": 1.5},
    "news_events": {"top_k_events": ["Strong earnings beat expectations"]},
    "position_state": {"current_position_value": 5000, "holding_days": 45},
}


def tags(decision=None, **features):
    return _extract_decision_tags(decision or {}, features)


def test_the_documented_example():
    """The document lists ``uptrend`` too, which its own rule forbids: 188.0 is 0.8 % above 186.5, not 2 %."""
    assert _extract_decision_tags(DECISION, FEATURES) == [
        "increase",
        "high_confidence",
        "momentum",
        "trend",
        "valuation",
        "pe_ratio",
        "has_fundamental",
        "large_cap",
        "has_news",
        "positive_news",
        "has_position",
        "medium_hold",
    ]
    steeper = FEATURES | {"market_data": {"close_7d": [186.5, 190.3]}}  # 2.04 %
    assert _extract_decision_tags(DECISION, steeper)[6] == "uptrend"


def test_without_features_there_are_only_the_tags_of_the_decision():
    assert _extract_decision_tags(DECISION) == _extract_decision_tags(DECISION, FEATURES)[:6]
    assert _extract_decision_tags({}) == []


@pytest.mark.parametrize(
    ("confidence", "tag"),
    [(0.8, ["high_confidence"]), (0.79, []), (0.31, []), (0.3, ["low_confidence"]), (None, []), ("0.9", [])],
)
def test_confidence(confidence, tag):
    assert _extract_decision_tags({"confidence": confidence}) == tag


@pytest.mark.parametrize(
    ("closes", "tag"),
    [
        ([100, 102.01], ["uptrend"]),
        ([100, 102], []),
        ([100, 97.99], ["downtrend"]),
        ([100, 98], []),
        ([1, 100, 100], []),  # the last two alone count
        ([100], []),
        ([], []),
        ([None, 100], []),
        ([0, 100], []),
        (None, []),
    ],
)
def test_trend(closes, tag):
    assert tags(market_data={"close_7d": closes}) == [*tag, "no_fundamental"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"pe_ratio": 30.1}, ["has_fundamental", "high_pe"]),
        ({"pe_ratio": 30}, ["has_fundamental"]),
        ({"pe_ratio": 15}, ["has_fundamental"]),
        ({"pe_ratio": 14.9}, ["has_fundamental", "low_pe"]),
        ({"dividend_yield": 2.0}, ["has_fundamental"]),
        ({"dividend_yield": 2.1}, ["has_fundamental", "dividend_stock"]),
        ({"market_cap": 100_000_000_000}, ["has_fundamental"]),
        ({"market_cap": 100_000_000_001}, ["has_fundamental", "large_cap"]),
        ({"market_cap": 10_000_000_000}, ["has_fundamental"]),
        ({"market_cap": 9_999_999_999}, ["has_fundamental", "small_cap"]),
        ({"pe_ratio": None, "market_cap": 5e11, "dividend_yield": None}, ["has_fundamental", "large_cap"]),
        ({"pe_ratio": None, "market_cap": None}, ["no_fundamental"]),
        ({"pe_ratio": float("nan")}, ["has_fundamental"]),
        (None, ["no_fundamental"]),
    ],
)
def test_fundamentals(data, expected):
    assert tags(fundamental_data=data) == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (["Upgrade to buy"], ["has_news", "positive_news"]),
        (["Loss widens", "Growth at last"], ["has_news", "positive_news", "negative_news"]),
        (["Annual meeting"], ["has_news"]),
        ([], []),
        (None, []),
    ],
)
def test_news(events, expected):
    assert tags(news_events={"top_k_events": events}) == ["no_fundamental", *expected]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"current_position_value": 1, "holding_days": 91}, ["has_position", "long_hold"]),
        ({"current_position_value": 1, "holding_days": 90}, ["has_position", "medium_hold"]),
        ({"current_position_value": 1, "holding_days": 31}, ["has_position", "medium_hold"]),
        ({"current_position_value": 1, "holding_days": 30}, ["has_position", "short_hold"]),
        ({"current_position_value": 0, "holding_days": 0}, ["no_position"]),
        ({"current_position_value": None}, []),
        ({}, []),
    ],
)
def test_position(state, expected):
    assert tags(position_state=state) == ["no_fundamental", *expected]


def test_keywords_come_once_in_the_order_of_the_reasons_and_in_english_only():
    decision = {"action": "hold", "reasons": ["Risk of low VOLUME near support", "风险 volume stop_loss", 3]}
    assert _extract_decision_tags(decision) == ["hold", "risk", "volume", "support", "stop_loss"]
