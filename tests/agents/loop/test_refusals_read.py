"""What the market refuses is read by the model that asked for it, and no order of the symbols decides anything.

A decider is one more ``Player``: how it replies at random, what of a session was refused, and whether its
replies were used up.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from execution_play import act, call, decide
from trader_play import STOP, says, table_of

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import Account, Market, RunContext
from quantgraph.broker.session import advance
from quantgraph.data import open_source
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

LATER = {"volume_cap", "market_closed"}
"""Codes of rejections that the open does not tell."""


@dataclass(frozen=True, kw_only=True)
class Player:
    """A decider in random play.

    ``reply`` answers a conversation. ``refused`` has of a session's result the places (a symbol, or "*" for one
    conversation of all) with a text of each refusal, "" for any. ``spent`` says whether a place's replies are used up.
    """

    name: str
    make: Callable[[], Any]
    place: Callable[[Sequence[Any]], tuple[str, str]]
    reply: Callable[[random.Random, Sequence[Any]], Any]
    refused: Callable[[Any], list[tuple[str, str]]]
    spent: Callable[[Any, str], bool]


def trader_place(messages):
    return messages[1].text.partition("(")[2].partition(")")[0], "*"


def trader_reply(rng, messages):
    rows, end = table_of(messages[0].text), rng.choice(["", "", STOP])
    calls = []
    for _ in range(rng.randint(0, 3)):
        symbol = rng.choice([*rows, {"symbol": "NONE"}])["symbol"]
        amount = rng.choice([1, 50, 100, 150, 200, 700, 3_000, 10**6])
        calls.append((rng.choice(["buy", "buy", "sell", "byu"]), {"symbol": symbol, "amount": amount}))
    return says(f"because {end}", *calls) if calls else f"nothing {STOP}"


def trader_refused(result):
    return [("*", each.message) for each in result.rejections if each.code not in LATER]


def execution_place(messages):
    facts = json.loads(read("execution_facts", messages[0].text))
    return facts["session"], facts["symbol"]


def execution_reply(rng, messages):
    _, symbol = execution_place(messages)
    confidence = rng.choice([0.0, 0.01, 0.1, 0.5, 0.5, 0.9, 1.0])
    return rng.choice(
        [
            *[decide(rng.choice(["buy", "buy", "sell", "hold"]), confidence)] * 4,
            call("get_kline_data", symbol=symbol, limit=2),
            act("observation"),
            "well",
        ]
    )


def execution_refused(result):
    notes = result.notes["executions"]
    lost = [(name, "") for name, each in notes.items() if each.get("no_order") in ("cash", "nothing_held")]
    sent = [(each.order.symbol, each.message) for each in result.rejections if each.code not in LATER]
    return lost + sent


ROUNDS = 4
PLAYERS = [
    Player(
        name="trader",
        make=lambda: TraderAgent(max_steps=ROUNDS, base_delay=0.0),
        place=trader_place,
        reply=trader_reply,
        refused=trader_refused,
        spent=lambda result, _place: result.notes["trader"]["steps"] >= ROUNDS,
    ),
    Player(
        name="execution",
        make=lambda: ExecutionAgent(rounds=ROUNDS, share=0.6),
        place=execution_place,
        reply=execution_reply,
        refused=execution_refused,
        spent=lambda result, place: result.notes["executions"][place]["steps"] >= ROUNDS,
    ),
]


def traded(player, market, days, cash, reply):
    """The sessions that are traded, and by session and place what was asked."""
    asked: dict[tuple[str, str], list[str]] = {}
    lock = threading.Lock()

    def answer(messages):
        with lock:
            texts = asked.setdefault(player.place(messages), [])
            texts.append("\n".join(message.text for message in messages))
        return reply(messages, len(texts))

    model, done = ScriptedChatModel(answer), list[Any]()
    run = RunContext(model=lambda _role: model, history=lambda: done)
    for result in advance(market, days, player.make(), account=Account.opening(cash), run=run):
        done.append(result)
    return done, asked


SOURCES = {
    "cn": ("ai-trader/a_share", ["600519.SH", "601398.SH", "600030.SH", "688981.SH"], 200_000),
    "us": ("ai-trader/us", ["AAPL", "NVDA", "COST", "INTC"], 3_000),
}


@pytest.fixture(scope="module", params=list(SOURCES))
def real(request, shared_data):
    """A market of real prices, and its last sessions; a dear share is beyond the cash."""
    folder, symbols, cash = SOURCES[request.param]
    source, store = open_source(shared_data / folder), DataState()
    days = source.sessions()[:70]
    store.update("ohlcv", source.bars(symbols, days[0], days[-1]))
    rules = Rulebook.mainland() if request.param == "cn" else Rulebook.us()
    return Market(store=store, data_ref=store.head, rules=rules), days[-6:], cash


@pytest.mark.parametrize("player", PLAYERS, ids=lambda each: each.name)
def test_no_session_ends_with_a_refusal_that_the_model_did_not_read_while_replies_were_left(real, player):
    market, days, cash = real
    seen = 0
    for seed in range(12):

        def reply(messages, turn, seed=seed):
            return player.reply(random.Random(f"{seed} {player.place(messages)} {turn}"), messages)

        done, asked = traded(player, market, days, cash, reply)
        for result in done:
            for place, text in player.refused(result):
                seen += 1
                told = asked[f"{result.session:%Y-%m-%d}", place]
                is_read = any(
                    (text and text[:60] in each) or (not text and '"error"' in each) for each in told[1:]
                )
                assert is_read or player.spent(result, place), (seed, result.session, place, text)
    assert seen > 20


POLICY = {10.0: 0.9, 20.0: 0.5, 40.0: 0.5, 80.0: 0.2}
"""What is wished, by the price, which tells a share from the others under whatever name."""


def by_price(player):
    def trader(messages, turn):
        rows = sorted(table_of(messages[0].text), key=lambda row: -POLICY[float(row["open"])])
        wished = [("buy", {"symbol": row["symbol"], "amount": 100}) for row in rows if row["held"] == "0"]
        return says("by price", *wished) if turn == 1 and wished else STOP

    def execution(messages, turn):
        price = json.loads(read("execution_facts", messages[0].text))["runtime_status"]["open"]
        return decide("buy", POLICY[price]) if turn == 1 else decide("hold")

    return {"trader": trader, "execution": execution}[player.name]


@pytest.mark.parametrize("player", PLAYERS, ids=lambda each: each.name)
def test_other_names_of_the_symbols_change_nothing_but_the_names(small_market, player):
    """Four shares ask for more than there is: the same shares get the same, whichever name and place they have."""
    results = []
    for names in ("ABCD", "DCBA", "BDAC"):
        market = small_market({name: [price] * 40 for name, price in sorted(zip(names, POLICY, strict=True))})
        where = Market(store=market.store, data_ref=market.ref, rules=Rulebook.zero_cost("us"))
        done, _ = traded(player, where, list(market.days[-2:]), 7_000, by_price(player))
        results.append(
            [{(float(fill.price), fill.side, fill.quantity) for fill in each.fills} for each in done]
        )
    assert results[0][0]
    assert results[0] == results[1] == results[2]
