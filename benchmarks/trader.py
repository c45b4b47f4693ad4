"""What the autonomous trader costs in a session beyond a decider that returns nothing.

A panel of 100 symbols and 250 sessions; five calls of tools a day in five replies, without the model's own
time. Also the same with its steps logged and its calls recorded.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from core import CLOCK, missed, show
from execution_agent import Nothing
from langchain_core.messages import AIMessage, AnyMessage

from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import Account, Decider, Market, RunContext
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import advance
from quantgraph.llm import role_model
from quantgraph.market import Rulebook
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, branch, in_scope
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

BEFORE, TRADED, RECORDED, SYMBOLS, CASH = 260, 250, 50, 100, 10_000_000
CALLS = 5
BOUND = 40.0
"""Milliseconds of a session."""


@dataclass
class Model:
    """Plays five replies with a call each, and the end; counts its own time."""

    seconds: float = 0.0

    def bind_tools(self, _tools: Any) -> Model:
        return self

    def invoke(self, messages: Sequence[AnyMessage]) -> AIMessage:
        began = time.thread_time()
        reply = self.play(messages)
        self.seconds += time.thread_time() - began
        return reply

    @staticmethod
    def play(messages: Sequence[AnyMessage]) -> AIMessage:
        day = str(messages[1].content).partition("(")[2][:10]
        symbol, given = f"S{int(day[-2:]):03}", sum(message.type == "ai" for message in messages)
        calls = [
            ("get_price_local", {"symbol": symbol, "date": day}),
            ("get_price_history", {"symbol": symbol, "limit": 20}),
            ("multiply", {"a": 145.2, "b": 20.0}),
            ("buy", {"symbol": symbol, "amount": 2}),
            ("sell", {"symbol": symbol, "amount": 1}),
        ]
        if given == len(calls):
            return AIMessage("done <FINISH_SIGNAL>")
        name, args = calls[given]
        return AIMessage("x" * 200, tool_calls=[{"name": name, "args": args, "id": f"c{given}"}])


def market() -> Market:
    """Random walks."""
    rng, days = np.random.default_rng(7), pd.bdate_range("2022-01-03", periods=BEFORE + TRADED)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (len(days), SYMBOLS)), axis=0))
    names = [f"S{place:03}" for place in range(SYMBOLS)]
    frame = pd.DataFrame(close.round(2), index=days, columns=names)
    store = DataState()
    ref = store.update("ohlcv", dict.fromkeys(("open", "high", "low", "close", "vol"), frame))
    return Market(store=store, data_ref=ref, rules=Rulebook.us())


def seconds_a_session(
    where: Market, decider: Decider, played: Model, sessions: int = TRADED, **run: Any
) -> float:
    """Return the time of a session without the model's own; ``run`` replaces parts of the run's context."""
    days = list(pd.DatetimeIndex(where.store.snapshot(where.data_ref)["ohlcv"]["open"].index)[-sessions:])
    done: list[Any] = []
    context = RunContext(**{"model": lambda _role: played, "history": lambda: done, **run})
    began, played.seconds = CLOCK(), 0.0
    for result in advance(where, days, decider, account=Account.opening(CASH), run=context):
        done.append(result)  # noqa: PERF402 - the history grows session by session
    fills = sum(len(each.fills) for each in done)
    assert fills in {0, 2 * sessions}, fills
    return (CLOCK() - began - played.seconds) / len(days)


def recorded(where: Market, folder: Path) -> float:
    """Return the time of a session whose steps are logged and whose calls are recorded."""
    model = Model()
    asked = role_model(
        "trader", model=ScriptedChatModel(model.invoke), settings=load_settings(budget="calls=10000")
    )
    scope = Scope(recording=Recorder(folder / "recording.sqlite").of("r"), path="decision")
    with Ledger(folder / "ledger.sqlite") as book, in_scope(scope):
        book.open_run("r", CASH)
        run = {"model": lambda _role: asked, "scope": branch, "log_step": partial(book.log_step, "r")}
        seconds = seconds_a_session(where, TraderAgent(), model, RECORDED, **run)
        steps = sum(len(each.steps) for each in book.executions("r"))
    assert steps == RECORDED * (CALLS + 1), steps
    return seconds


def main() -> None:
    where = market()
    seconds_a_session(where, TraderAgent(), Model(), 20)
    own = min(seconds_a_session(where, TraderAgent(), Model()) for _ in range(3))
    without = min(seconds_a_session(where, Nothing(), Model()) for _ in range(3))
    show("the trader, 100 symbols, five calls, a session", 1000 * (own - without), BOUND, "ms")
    with tempfile.TemporaryDirectory() as folder:
        logged = recorded(where, Path(folder)) - without
    print(f"the same with 6 steps logged and 6 calls recorded: {1000 * logged:.1f} ms")


if __name__ == "__main__":
    main()
    sys.exit(bool(missed))
