"""A trade plan as options of the command, as people write them."""

from __future__ import annotations

import pytest

from quantgraph.cli._plan import plan_of
from quantgraph.errors import BadOption


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        ({}, None),
        ({"size": "30%"}, {"size": {"percent": "0.3"}}),
        ({"size": "20000"}, {"size": {"cash": "20000"}}),
        ({"size": "500 shares"}, {"size": {"shares": "500"}}),
        ({"size": "500股"}, {"size": {"shares": "500"}}),
        (
            {"size": "600519.SH=50%,601088.SH=0.3"},
            {"size": {"weights": {"600519.SH": "0.5", "601088.SH": "0.3"}}},
        ),
        (
            {"size": "equal_weight", "trade_on": "month_start", "band": "5%"},
            {"size": "equal_weight", "trade_on": "month_start", "band": "0.05"},
        ),
        ({"trade_on": "5", "max_positions": 3}, {"max_positions": 3, "trade_on": 5}),
        (
            {"accumulate": "5000", "trade_on": "week_start"},
            {"accumulate": {"amount": "5000", "on": "schedule"}, "trade_on": "week_start"},
        ),
        (
            {"accumulate": "20% rise 5% 3"},
            {"accumulate": {"percent": "0.2", "on": "rise", "by": "0.05", "times": 3}},
        ),
        ({"accumulate": "500shares fall 4%"}, {"accumulate": {"shares": "500", "on": "fall", "by": "0.04"}}),
        (
            {"rebalance": "quarter_start", "cash_reserve": "10%", "rank": "-ohlcv.amount"},
            {"rank": "-ohlcv.amount", "rebalance": "quarter_start", "cash_reserve": "0.1"},
        ),
        (
            {"stop_loss": "8%", "take_profit": "0.2", "trailing_stop": "10%", "max_holding": 20},
            {"stop_loss": "0.08", "take_profit": "0.2", "trailing_stop": "0.1", "max_holding": 20},
        ),
    ],
)
def test_options_are_a_plan(options, plan):
    made = plan_of(**options)
    assert (None if made is None else made.to_json()) == plan


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": "much"}, "--size much: must be a share such as 30%, cash such as 20000, or 500shares"),
        ({"accumulate": "a b c"}, "--accumulate a b c: must be such as 5000, '20% rise 5%'"),
        ({"stop_loss": "eight"}, "--stop-loss eight: must be a share, such as 8% or 0.08"),
        ({"trade_on": "month"}, "trade_on='month'; did you mean month_start. It must"),
        ({"stop_loss": "8"}, r"stop_loss=Decimal\('8'\); must be a fraction in \(0, 1\)"),
    ],
)
def test_what_cannot_be_read_is_one_line(options, said):
    with pytest.raises(BadOption, match=said):
        plan_of(**options)
