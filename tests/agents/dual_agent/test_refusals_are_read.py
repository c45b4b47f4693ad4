"""No session ends with a refusal that the model did not read, while replies were left: drawn replies on real prices."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pytest
from dual_agent_models import Models, decision, rows_by_column

from quantgraph.agents.dual_agent import DualAgent, create_dual_agent_subgraph
from quantgraph.broker import Account, Market, RunContext
from quantgraph.broker.session import advance
from quantgraph.data import open_source
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.state import DataState

ATTEMPTS = 3
MOVES = ("increase", "increase", "decrease", "close", "hold", "buy")


def market_of(folder, symbols, rules, first, last):
    source, store = open_source(folder), DataState()
    return Market(store=store, data_ref=store.update("ohlcv", source.bars(symbols, first, last)), rules=rules)


@pytest.fixture(scope="module")
def markets(shared_data):
    """Real prices, of the mainland with lots, T+1 and limits, and of the US."""
    a_share = ("600519.SH", "601398.SH", "688981.SH", "600036.SH")
    mainland = shared_data / "ai-trader" / "a_share"
    return {
        "cn": market_of(mainland, a_share, Rulebook.mainland(), "20250820", "20251010"),
        "us": market_of(
            shared_data / "stockbench", ("AAPL", "GS", "HD", "V"), Rulebook.us(), "20250201", "20250331"
        ),
    }


class Drawn:
    """Plays the decision by chance, and keeps what each session's model said last of each symbol."""

    def __init__(self, seed, cash):
        self.rng, self.cash, self.sessions = random.Random(seed), cash, []

    def __call__(self, _role):
        return self

    def invoke(self, messages):
        facts = rows_by_column(read("decision_facts", messages[1].text))
        if len(messages) == 2:
            self.sessions.append({"said": {}, "replies": 0, "values": {}})
        session, asked = self.sessions[-1], list(facts["symbols"])
        if len(messages) > 2:
            asked = [name.strip() for name in messages[-1].text.rsplit(":", 1)[1].split(",")]
        session["replies"] += 1
        for name in self.rng.sample(asked, len(asked)):
            session["values"][name] = value = facts["symbols"][name]["current_position_value"]
            move = self.rng.choice(MOVES if len(messages) == 2 else (*MOVES, "hold", "hold", "hold"))
            target = value + self.rng.uniform(-0.6, 0.6) * self.cash
            session["said"][name] = decision(move, round(value if move == "hold" else max(0.0, target), 2))
        return Models({name: session["said"][name] for name in asked}).model.invoke(messages)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "cash"), [("cn", 60_000), ("cn", 900_000), ("us", 20_000)])
def test_with_replies_left_all_that_was_said_last_is_traded(markets, name, cash, seed):
    market, drawn, done = markets[name], Drawn(seed, cash), []
    days = pd.DatetimeIndex(market.store.snapshot(market.data_ref)["ohlcv"]["open"].index)[-20:]
    run = RunContext(model=drawn, history=lambda: done)
    for result in advance(market, list(days), DualAgent(), account=Account.opening(cash), run=run):
        done.append(result)
    ended_early = 0
    for result, session in zip(done, drawn.sessions, strict=True):
        assert session["replies"] <= ATTEMPTS
        assert not result.rejections
        filled = {fill.order.symbol for fill in result.fills}
        decided = result.notes["decisions"]
        assert filled == {symbol for symbol, each in decided.items() if each["action"] != "hold"}
        if session["replies"] == ATTEMPTS:
            continue
        ended_early += 1
        for symbol, each in session["said"].items():
            of_nothing = each["action"] == "close" and not session["values"][symbol]
            is_trade = each["action"] != "hold" and not of_nothing
            assert (symbol in filled) == is_trade, (result.session, symbol, each)
            assert decided[symbol].get("hold_reason", "model") == "model"
    assert 0 < ended_early < len(done)


def test_form_logic_and_the_market_are_refused_in_one_message_and_what_fits_stands(markets):
    """On 2025-10-10 a lot of 600519.SH costs more than 140,000."""
    models = Models(
        {
            "600519.SH": decision("increase", 50_000),
            "601398.SH": decision("increase", 0),
            "688981.SH": decision("buy", 5_000),
            "600036.SH": decision("increase", 30_000),
        },
        *[{name: decision("hold") for name in ("600519.SH", "601398.SH", "688981.SH", "600036.SH")}] * 2,
    )
    market = markets["cn"]
    graph = create_dual_agent_subgraph(model=models.model, resources=Resources(store=market.store))
    asked = {"data_ref": market.data_ref, "moment": "20251010", "cash": 60_000}
    done = graph.invoke(asked)
    told = models.asked[1][-1]
    assert (
        "- 601398.SH: the target of increase, 0.00, must be above the current value 0.00; write what" in told
    )
    assert '- 688981.SH: action is "buy"' in told
    assert "- 600519.SH: the market refuses it, lot_size: " in told
    assert "the increases cost" not in told  # what is refused takes no cash
    assert told.endswith(": 600519.SH, 601398.SH, 688981.SH")
    assert done["decisions"]["600036.SH"]["action"] == "increase"
    assert done["meta"]["calls"] == 2


def test_what_the_open_does_not_tell_is_pending_and_not_refused(markets):
    """With a cap by the session's volume no fill is known; that 5,000 buy no lot of 600519.SH is."""
    market, rules = markets["cn"], replace(Rulebook.mainland(), volume_share=Decimal("0.1"))
    models = Models(
        {"600036.SH": decision("increase", 20_000), "600519.SH": decision("increase", 5_000)},
        {"600519.SH": decision("hold")},
    )
    graph = create_dual_agent_subgraph(
        model=models.model, rules=rules, resources=Resources(store=market.store)
    )
    asked = {"data_ref": market.data_ref, "moment": "20251010", "cash": 60_000}
    done = graph.invoke(asked | {"symbols": ["600036.SH", "600519.SH"]})
    told = models.asked[1][-1]
    assert "- 600519.SH: the market refuses it, lot_size" in told
    assert "Pending, not refused, as the open does not tell what is filled: 600036.SH." in told
    assert done["decisions"]["600036.SH"]["target_cash_amount"] == 20_000
