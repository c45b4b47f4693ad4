"""Mutated replies through whole days: nothing is raised, and the account is what the fills make of it."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import pytest
from langchain_core.messages import AIMessage
from mutated_replies import KEYS, VALUES, mutated_reply
from small_market import SmallMarket
from trader_play import TraderDay
from trader_script import FIRST, SECOND, SENTENCE, Script, run, sessions

from quantgraph.broker import Account, Fill
from quantgraph.market import Rulebook
from quantgraph.runs import replay
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import tools_of

pytestmark = pytest.mark.proof

NAMES = ("600000.SH", "600001.SH", "688001.SH", "900000.SH", "600000", "600000.sh", "AAPL", "浦发银行")
DATES = ("2024-01-02", "2024-12-31", "20240103", "today", "2024/01/05", "2024-13-40", "tomorrow")
ARGS = {
    "symbol": (*NAMES[:2] * 6, *NAMES),
    "date": DATES,
    "amount": (*(100,) * 12, 200, 1, 0, -5, 2.9, "10", 10**12, True, None),
    "a": (1, 2.5, 1e308, "1"),
    "b": (3, -1e308, None),
    "query": ("news", "银行", "x" * 2_000),
    "limit": (1, 20, 0, 10**9),
    "start": DATES,
    "indicators": (["MA5"], ["RSI"], [], ["VWAP", 7]),
}
TEXTS = (
    "",
    "I hold.",
    "<FINISH_SIGNAL>",
    "<think><FINISH_SIGNAL></think>",
    "x <FINISH_SIGNAL> y",
    "\ud800",
    "\x00",
    "</trader_day>",
)


def mutated_call(rng, place):
    """A call of a tool with fitting arguments, some of them missing, added or of another value."""
    name = rng.choice([*tools_of("trader"), "buy", "buy", "sell", "short", "", "\ud800"])
    own = tools_of("trader")[name].args if name in tools_of("trader") else {"symbol": None}
    args = {key: rng.choice(ARGS.get(key, VALUES)) for key in own if key != "runtime"}
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        key = rng.choice([*args, rng.choice(KEYS)])
        if rng.random() < 0.4:
            args.pop(key, None)
        else:
            args[key] = rng.choice(VALUES)
    return {"name": name, "args": args, "id": rng.choice((f"c{place}", f"c{place}", None, "same"))}


def mutated(rng):
    """A reply as text, with calls, with both or with none."""
    if rng.random() < 0.15:
        return mutated_reply(rng)
    count = rng.choice((0, 1, 1, 2, 5, 40) if rng.random() < 0.1 else (0, 1, 1, 2, 3))
    return AIMessage(rng.choice(TEXTS), tool_calls=[mutated_call(rng, place) for place in range(count)])


def is_sound(day, opening):
    """The account follows from the fills alone, and is what the last trade answered."""
    market = day.market
    fills = [told for order in market.submitted if isinstance(told := market.submit(order), Fill)]
    cash, shares = opening, dict.fromkeys(("600000.SH", "600001.SH", "688001.SH"), 0)
    for fill in fills:
        sign = 1 if fill.side == "buy" else -1
        shares[fill.order.symbol] += sign * fill.quantity
        cash -= sign * fill.notional + fill.commission + fill.stamp_duty + fill.transfer_fee
    account = market.account
    assert {name: account.quantity(name) for name in shares} == shares
    assert account.cash == cash >= 0
    assert min(shares.values()) >= 0
    trades = [
        each["result"]
        for _, _, results in day.kept
        for each in results or []
        if each["name"] in {"buy", "sell"} and "CASH" in each["result"]
    ]
    assert len(trades) == len(fills)
    if trades:
        assert {name: each for name, each in trades[-1].items() if each or name == "CASH"} == {
            **{name: each for name, each in shares.items() if each},
            "CASH": float(cash),
        }
    json.dumps(day.state["log"], allow_nan=False).encode()
    return len(fills)


def test_a_day_of_mutated_replies_ends_and_its_account_is_sound():
    market = SmallMarket({name: [10.0, 10.5, 10.2, 10.4] for name in ("600000.SH", "600001.SH", "688001.SH")})
    rng, asked, filled, ends = random.Random(20261123), 0, 0, set()
    view = market.view()

    def play(_messages):
        nonlocal asked
        asked += 1
        return mutated(rng)

    while asked < 3_000:
        day = TraderDay(
            view,
            [],
            model=ScriptedChatModel(play),
            account=Account.opening(50_000),
            rules=Rulebook.mainland(),
            results_as=rng.choice(("messages", "text")),
            max_steps=rng.choice((2, 10)),
        )
        filled += is_sound(day, Decimal(50_000))
        ends.add(day.state["ended"])
    assert ends == {"stop_signal", "max_steps"}
    assert filled > 200


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_of_mutated_replies_is_done_and_replays(tmp_path, seed):
    rng = random.Random(seed)
    NAMES_OF = {"600000.SH": FIRST, "600001.SH": SECOND}

    class Wild(Script):
        def play(self, messages):
            reply = mutated(rng)
            if isinstance(reply, AIMessage):
                for call in reply.tool_calls:
                    call["args"] = {
                        key: NAMES_OF.get(value, value) if isinstance(value, str) else value
                        for key, value in call["args"].items()
                    }
            return reply

    done, folder = run(Wild({}), tmp_path, sentence=SENTENCE)
    assert done["ended_because"] == "done", done["error"]
    assert [each.notes["trader"]["ended"] in {"stop_signal", "max_steps"} for each in sessions(folder)] == [
        True
    ] * 3
    assert replay(folder).identical
