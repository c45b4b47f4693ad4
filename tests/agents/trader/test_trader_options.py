"""The options of the trader: what is not valid is named with its range."""

from __future__ import annotations

import math

import pytest

from quantgraph.agents.trader import TraderAgent, create_trader_subgraph
from quantgraph.agents.trader._day import TraderOptions
from quantgraph.errors import BadOption


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("max_steps", 0, "from 1 to 200"),
        ("max_steps", True, "from 1 to 200"),
        ("max_steps", 201, "from 1 to 200"),
        ("max_retries", 0, "from 1 to 20"),
        ("max_retries", "3", "from 1 to 20"),
        ("base_delay", -1, "at least 0"),
        ("base_delay", math.nan, "at least 0"),
        ("tool_timeout", 0, "above 0"),
        ("window", 100, "from 4000"),
        ("results_as", "json", "messages, text"),
        ("watched", "AAPL", "must be symbols"),
        ("watched", [1], "must be symbols"),
    ],
)
def test_an_option_out_of_its_range_is_refused_everywhere(name, value, valid):
    for make in (TraderOptions, TraderAgent):
        with pytest.raises(BadOption, match=valid) as caught:
            make(**{name: value})
        assert caught.value.data["parameter"] == name


@pytest.mark.parametrize(("name", "value"), [("tools", "mcp"), ("news", "commit")])
def test_the_subgraph_refuses_what_a_run_has(name, value):
    with pytest.raises(BadOption, match=f"{name} is an option of a run"):
        create_trader_subgraph(TraderOptions(**{name: value}))


def test_an_unknown_option_is_named_with_the_nearest():
    with pytest.raises(BadOption, match="there is no option max_step; did you mean 'max_steps'"):
        TraderAgent(max_step=3)


def test_memory_is_a_switch():
    with pytest.raises(BadOption, match="True or False"):
        TraderAgent(memory="yes")


def test_the_options_are_part_of_the_run_and_fix_how_the_model_is_asked():
    trader = TraderAgent(max_steps=5, max_retries=4, base_delay=2, watched=["AAPL"], news=False)
    assert trader.options["max_steps"] == 5
    assert trader.options["watched"] == ["AAPL"]
    assert trader.options["memory"] is True
    assert trader.options["news"] is False
    assert trader.needs.records == ("name", "filing", "action")
    assert trader.model_settings == {"trader": {"max_attempts": 4, "retry_wait": 2.0}}
