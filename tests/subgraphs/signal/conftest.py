"""A cast for the subgraph's roles: one scripted model that tells from the prompt who is asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from quantgraph.llm.messages import _json as tags
from quantgraph.runtime import Resources, open_resources
from quantgraph.sandbox import default_runner
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import ScriptedChatModel

ONE, TWO = "000341.SZ", "000342.SZ"
SENTENCE = f"{ONE} up-day rule, January 2024"
WINDOW = ("20240102", "20240131")
RULE = "buy after an up day"
GOOD_CODE = """\
close = GLOBAL_DATA_STATE.snapshot()["ohlcv"]["close"]
signal = (close.diff() > 0).astype(float).where(close.diff().notna())
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
signal.shape
"""

Messages = list[BaseMessage]
Answer = str | AIMessage | Exception


def intent(kind: str = "mixed", *, question: str | None = None, **params: Any) -> dict[str, Any]:
    """A reflection reply: all parameters known unless said otherwise."""
    known = {
        "ts_code": ONE,
        "start_date": WINDOW[0],
        "end_date": WINDOW[1],
        "strategy_desc": RULE,
        "required_indicators": [],
    }
    return {
        "task_type": kind,
        "user_intent": {"type": kind, "params": known | params, "needs_clarification": question is not None},
        "clarification_question": question,
    }


def tool_call(name: str, number: int = 0, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"{name}-{number}"}])


class Cast:
    """Answers for each role; ``turns`` counts how often each was asked anew, ``said`` keeps the prompts.

    A role's answer is a value, or a function of (messages, turn) that gives one. ``turn`` counts from 1.
    ``code`` may also be a list: the cells of one turn, one after the other.
    """

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "reflect": intent(),
            "fetch": None,
            "code": GOOD_CODE,
            "review": {"validation_passed": True, "issues_found": []},
            "question": lambda messages, turn: f"question {turn}?",
        } | answers
        self.turns: Counter[str] = Counter()
        self.said: dict[str, list[str]] = {}
        self.stops: set[str] = set()
        """Roles that are switched off at their next call."""
        self.model = ScriptedChatModel(self._answer)

    def _answer(self, messages: Messages) -> Answer:
        text = "\n".join(
            str(message.text) for message in messages if not isinstance(message, AIMessage | ToolMessage)
        )
        role = next(
            name
            for name, tag in {
                "fetch": "fetch",
                "code": "strategy",
                "question": "clarify",
                "review": "validate",
                "reflect": "user_request",
            }.items()
            if tags.read(tag, text) is not None  # type: ignore[arg-type]
        )
        if role in self.stops:
            self.stops.remove(role)
            raise SystemError("switched off")
        begun = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        tools = [message for message in messages[begun:] if isinstance(message, ToolMessage)]
        if not tools:
            self.turns[role] += 1
            self.said.setdefault(role, []).append(text)
        answer = self.answers[role]
        if callable(answer):
            answer = answer(messages, self.turns[role])
        if isinstance(answer, Exception | AIMessage):
            return answer
        if role == "fetch":
            return "fetched" if tools else self._fetch(text, answer)
        if role == "code":
            cells = [answer] if isinstance(answer, str) else list(answer)
            return (
                tool_call("python_repl", len(tools), query=cells[len(tools)])
                if len(tools) < len(cells)
                else "done"
            )
        return answer if isinstance(answer, str) else f"```json\n{json.dumps(answer)}\n```"

    @staticmethod
    def _fetch(text: str, answer: dict[str, Any] | None) -> AIMessage:
        wanted = json.loads(tags.read("fetch", text) or "{}") | (answer or {})
        window = {key: wanted[key] for key in ("ts_code", "start_date", "end_date")}
        message = tool_call("tushare_daily_bar", **window)
        if wanted["required_indicators"]:
            more = tool_call(
                "tushare_daily_basic", 1, **window, fields=",".join(wanted["required_indicators"])
            )
            message.tool_calls.extend(more.tool_calls)
        return message


@pytest.fixture(scope="session")
def runner():
    """The warm runner; a test that needs short limits makes its own."""
    return default_runner()


def given(cast: Cast, store: DataState, runner: Any) -> dict[str, Any]:
    """A cast with an answer for the role of the fetch has it asked; else code fetches."""
    fetch = "code" if cast.answers["fetch"] is None else "agent"
    settings = load_settings(fetch=fetch)
    return {
        "model": cast.model, "source": "sample", "store": store, "runner": runner, "settings": settings
    }  # fmt: skip


@pytest.fixture
def resources_of(store: DataState, runner) -> Callable[..., Any]:
    """A resources on the sample and a store of the test's own, played by a cast."""

    def make(cast: Cast, **options: Any):
        return open_resources(Resources(**given(cast, store, runner) | options))

    return make


@pytest.fixture
def graph_of(store: DataState, runner) -> Callable[..., Any]:
    """The compiled subgraph on the sample and a store of the test's own, played by a cast."""

    def make(cast: Cast, **options: Any):
        return create_signal_subgraph(resources=Resources(**given(cast, store, runner) | options))

    return make


class Helpers:
    """What test modules take from here, since test folders are no packages."""

    Cast = Cast
    intent = staticmethod(intent)
    tool_call = staticmethod(tool_call)
    ONE, TWO, SENTENCE, WINDOW, RULE, GOOD_CODE = ONE, TWO, SENTENCE, WINDOW, RULE, GOOD_CODE


@pytest.fixture(scope="session")
def play() -> type[Helpers]:
    """``Cast`` and its parts."""
    return Helpers
