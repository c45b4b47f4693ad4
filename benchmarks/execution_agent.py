"""What the stepwise agent costs in a session beyond a decider that returns nothing.

Four symbols of five steps: bars, a calculation, an indicator, the position, the decision,
without the model's own time. Also the same with its steps logged and its 20 calls recorded, and the longest
conversation.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from core import CLOCK, missed, show
from langchain_core.messages import AIMessage, AnyMessage

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.execution._prompt import column_of
from quantgraph.broker import Account, Decider, DecisionContext, Market, RunContext
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import advance
from quantgraph.llm import role_model
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, branch, in_scope
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel

BEFORE, TRADED, CASH = 260, 20, 1_000_000
SYMBOLS = ("AA", "BB", "CC", "DD")
BOUND = 40.0
"""Milliseconds of a session."""


class Nothing(Decider):
    """Returns nothing."""

    name = "nothing"

    def decide(self, context: DecisionContext) -> list[Any]:
        context.view  # noqa: B018 - every decider looks at it
        return []


@dataclass
class Model:
    """Plays five steps for each symbol; counts its own time and the longest conversation."""

    seconds: float = 0.0
    characters: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def invoke(self, messages: Sequence[AnyMessage]) -> AIMessage:
        began = time.thread_time()
        reply = AIMessage(self.play(messages))
        length = sum(len(message.text) for message in messages)
        with self._lock:
            self.characters = max(self.characters, length)
            self.seconds += time.thread_time() - began
        return reply

    @staticmethod
    def play(messages: Sequence[AnyMessage]) -> str:
        symbol = json.loads(read("execution_facts", messages[0].text) or "{}")["symbol"]
        results = [json.loads(told) for each in messages if (told := read("observation", each.text))]
        closes = column_of(results[0]["result"], "close") if results else []
        mean = sum(closes[-20:]) / 20
        bars = {"symbol": symbol, "timeframe": "1d", "limit": 40}
        rsi = {"symbol": symbol, "name": "RSI", "params": {"period": 14}}
        formula = {"formula": "MA20 = sum(close[-20:]) / 20", "inputs": {"period": 20, "data": "close"}}
        held = bool(results[3]["result"]["shares"]) if len(results) > 3 else False
        side = "buy" if closes and closes[-1] > mean else "sell" if held else "hold"
        steps: list[tuple[str, dict[str, Any]]] = [
            ("tool_call", {"tool_name": "get_kline_data", "params": bars}),
            ("calculation", {"calculation_type": "MA", **formula}),
            ("tool_call", {"tool_name": "get_indicator", "params": rsi}),
            ("tool_call", {"tool_name": "get_position", "params": {"symbol": symbol}}),
            ("decision", {"action": side, "reason": "the average", "confidence": 0.5}),
        ]
        kind, action = steps[len(results)]
        told = {"type": kind, "reasoning": "x" * 200, "action": action}
        return json.dumps({**told, "intermediate_result": {"ma20": mean} if kind == "calculation" else None})


def market() -> Market:
    """Random walks."""
    rng, days = np.random.default_rng(7), pd.bdate_range("2024-01-01", periods=BEFORE + TRADED)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (len(days), len(SYMBOLS))), axis=0))
    frame = pd.DataFrame(close.round(2), index=days, columns=list(SYMBOLS))
    store = DataState()
    ref = store.update("ohlcv", dict.fromkeys(("open", "high", "low", "close", "vol"), frame))
    return Market(store=store, data_ref=ref, rules=Rulebook.us())


def seconds_a_session(where: Market, decider: Decider, played: Model, **run: Any) -> float:
    """Return the time of a session without the model's own; ``run`` replaces parts of the run's context."""
    sessions = list(pd.DatetimeIndex(where.store.snapshot(where.data_ref)["ohlcv"]["open"].index)[-TRADED:])
    done: list[Any] = []
    context = RunContext(**{"model": lambda _role: played, "history": lambda: done, **run})
    began, played.seconds = CLOCK(), 0.0
    for result in advance(where, sessions, decider, account=Account.opening(CASH), run=context):
        done.append(result)  # noqa: PERF402 - the history grows session by session
    return (CLOCK() - began - played.seconds) / len(sessions)


def recorded(where: Market, folder: Path) -> float:
    """Return the time of a session whose steps are logged and whose calls are recorded."""
    model = Model()
    asked = role_model(
        "execution", model=ScriptedChatModel(model.invoke), settings=load_settings(budget="calls=1000")
    )
    scope = Scope(recording=Recorder(folder / "recording.sqlite").of("r"), path="decision")
    with Ledger(folder / "ledger.sqlite") as book, in_scope(scope):
        book.open_run("r", CASH)
        run = {"model": lambda _role: asked, "scope": branch, "log_step": partial(book.log_step, "r")}
        seconds = seconds_a_session(where, ExecutionAgent(), model, **run)
        steps = sum(len(each.steps) for each in book.executions("r"))
    assert steps == TRADED * len(SYMBOLS) * 5, steps
    return seconds


def main() -> None:
    where, model = market(), Model()
    seconds_a_session(where, ExecutionAgent(), model)
    own = min(seconds_a_session(where, ExecutionAgent(), model) for _ in range(3))
    without = min(seconds_a_session(where, Nothing(), Model()) for _ in range(3))
    show("the stepwise agent, 4 symbols of 5 steps, a session", 1000 * (own - without), BOUND, "ms")
    print(f"characters of the longest conversation: {model.characters}")
    with tempfile.TemporaryDirectory() as folder:
        logged = recorded(where, Path(folder)) - without
    print(f"the same with 20 steps logged and 20 calls recorded: {1000 * logged:.1f} ms")


if __name__ == "__main__":
    main()
    sys.exit(bool(missed))
