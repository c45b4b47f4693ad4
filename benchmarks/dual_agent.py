"""What the dual agent costs in a session beyond a decider that returns nothing, without the models' own time.

Also a recorded call, and the size of its prompts in an early and in a late session.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from core import CLOCK, missed, show
from langchain_core.messages import AIMessage, AnyMessage

from quantgraph.agents.dual_agent import DualAgent
from quantgraph.broker import Account, Decider, DecisionContext, Market, RunContext, SessionResult
from quantgraph.broker.session import advance
from quantgraph.llm import role_model
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.state import DataState, Record
from quantgraph.testing import ScriptedChatModel

BEFORE, TRADED = 260, 30
BOUNDS = {20: 15.0, 300: 150.0}
"""Milliseconds of a session, by symbols."""
CALL = 3.0


class Nothing(Decider):
    """Returns nothing."""

    name = "nothing"

    def decide(self, context: DecisionContext) -> list[Any]:
        context.view  # noqa: B018 - every decider looks at it
        return []


@dataclass
class Models:
    """Both models; counts their own time and the prompts' characters by session."""

    seconds: float = 0.0
    characters: dict[str, int] = field(default_factory=dict)

    def __call__(self, _role: str) -> Models:
        return self

    def invoke(self, messages: Sequence[AnyMessage]) -> AIMessage:
        began = CLOCK()
        told = messages[1].text
        filtered = read("filter_facts", told)
        facts = json.loads(filtered or read("decision_facts", told) or "{}")
        if filtered:
            reply: dict[str, Any] = {"stocks_need_fundamental": list(facts["symbols"]), "reasoning": {}}
        else:
            rows = {
                name: dict(zip(facts["columns"], row, strict=True)) for name, row in facts["symbols"].items()
            }
            reply = {"decisions": {name: self._decide(row) for name, row in rows.items()}}
            day = facts["date"]
            self.characters[day] = self.characters.get(day, 0) + len(told)
        answer = AIMessage(json.dumps(reply))
        self.seconds += CLOCK() - began
        return answer

    @staticmethod
    def _decide(row: dict[str, Any]) -> dict[str, Any]:
        value, closes = row["current_position_value"], row["close_7d"]
        if not value and closes[-1] > closes[0]:
            return {"action": "increase", "target_cash_amount": 2_000, "reasons": ["momentum"]}
        if value and closes[-1] < 0.98 * closes[0]:
            return {"action": "close", "reasons": ["risk"]}
        return {"action": "hold", "reasons": ["nothing changed"]}


def market(symbols: int) -> Market:
    """Random walks with a story a day and a filing a quarter for each symbol."""
    rng, days = np.random.default_rng(7), pd.bdate_range("2024-01-01", periods=BEFORE + TRADED)
    names = [f"{chr(65 + number // 26)}{chr(65 + number % 26)}" for number in range(symbols)]
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (len(days), symbols)), axis=0))
    frame = pd.DataFrame(close.round(2), index=days, columns=names)
    store = DataState()
    ref = store.update("ohlcv", dict.fromkeys(("open", "high", "low", "close", "vol"), frame))
    stories = [
        Record("news", day.to_pydatetime() + timedelta(hours=8), name, _story(name, day))
        for day in days[-45:]
        for name in names
    ]
    filings = [Record("filing", day.date(), name, _filing(day)) for day in days[::63] for name in names]
    return Market(store=store, data_ref=store.record([*stories, *filings], base=ref), rules=Rulebook.us())


def _story(name: str, day: pd.Timestamp) -> dict[str, str]:
    return {"title": f"{name} on {day:%m-%d}", "description": "x" * 200}


def _filing(day: pd.Timestamp) -> dict[str, Any]:
    return {
        "fiscal_year": 2024,
        "fiscal_period": "Q1",
        "start_date": f"{day - timedelta(days=89):%Y-%m-%d}",
        "end_date": f"{day:%Y-%m-%d}",
        "diluted_earnings_per_share": 1.0,
        "diluted_average_shares": 1e9,
    }


def seconds_a_session(where: Market, decider: Decider, models: Models) -> float:
    """Return the time of a session without the models' own."""
    sessions = pd.DatetimeIndex(where.store.snapshot(where.data_ref)["ohlcv"]["open"].index)[-TRADED:]
    done: list[SessionResult] = []
    run = RunContext(model=models, history=lambda: done)
    began, models.seconds = CLOCK(), 0.0
    trading = advance(where, list(sessions), decider, account=Account.opening(1_000_000), run=run)
    for result in trading:
        done.append(result)  # noqa: PERF402 - the history grows session by session
    return (CLOCK() - began - models.seconds) / len(sessions)


def recorded_call(folder: Path) -> float:
    """Return the time that recording adds to a call with the prompt of 20 symbols."""
    reply = json.dumps(
        {"decisions": {f"S{n:03}": {"action": "hold", "reasons": ["x" * 80]} for n in range(20)}}
    )
    model, calls = ScriptedChatModel(lambda _messages: reply), 60
    messages = [("system", "x" * 2_600), ("human", "y" * 30_000)]
    recorder = Recorder(folder / "recording.sqlite")
    recorded = role_model("decision", model=model, settings=load_settings(budget="calls=1000"))

    def time_of(ask: Any) -> float:
        times = []
        for number in range(calls):
            began = CLOCK()
            ask([*messages, ("human", str(number))])
            times.append(CLOCK() - began)
        return median(times)

    plain = time_of(model.invoke)
    with in_scope(Scope(recording=recorder.of("r"), path="decision")):
        return time_of(recorded.invoke) - plain


def main() -> None:
    for symbols, bound in BOUNDS.items():
        where, models = market(symbols), Models()
        seconds_a_session(where, DualAgent(), models)
        own = min(seconds_a_session(where, DualAgent(), models) for _ in range(3))
        without = min(seconds_a_session(where, Nothing(), Models()) for _ in range(3))
        show(f"the dual agent, {symbols} symbols, a session", 1000 * (own - without), bound, "ms")
        sizes = [size / 4 / symbols for size in models.characters.values()]
        print(
            f"characters of the decision's facts a symbol and session: {sizes[0]:.0f} in the first, "
            f"{sizes[TRADED // 2]:.0f} in the middle, {sizes[-1]:.0f} in the last"
        )
    with tempfile.TemporaryDirectory() as folder:
        show("a recorded call of 32 kB beyond the model", 1000 * recorded_call(Path(folder)), CALL, "ms")


if __name__ == "__main__":
    main()
    sys.exit(bool(missed))
