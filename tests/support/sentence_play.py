"""A model that reads a sentence, writes cells and reviews them as a script says, and graphs that it plays in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from quantgraph.broker import TradePlan
from quantgraph.llm.messages import _json as tags
from quantgraph.subgraphs.signal._agents import Params, rule_in
from quantgraph.subgraphs.signal._plan import with_plan
from quantgraph.testing import ScriptedChatModel

Json = dict[str, Any]
PLAN = frozenset(each.name for each in fields(TradePlan))
ROLES = {"clarify": "question", "validate": "review", "user_request": "reading"}
"""The part of a prompt that only one role's has; the prompt without any is that of the code."""


def clause(quote: str, part: str, became: str, status: str = "done") -> Json:
    """A piece of the person's words, and what a model made of it."""
    return {"quote": quote, "part": part, "became": became, "status": status}


def reading(codes: str, window: tuple[str, str] = ("", ""), *clauses: Json, **more: Any) -> Json:
    """A model's reading of a request; ``question`` is what it asks instead, the rest goes to the parameters."""
    question = more.pop("question", None)
    params = {"ts_code": codes, "start_date": window[0], "end_date": window[1], "clauses": list(clauses)}
    intent = {"type": "mixed", "params": params | more, "needs_clarification": question is not None}
    return {"task_type": "mixed", "user_intent": intent, "clarification_question": question}


class SentenceModel:
    """A model with a reply for each role; the last of a role's replies is given again and again.

    Attributes
    ----------
    asked
        For each role its prompts, a cell's errors included.
    """

    def __init__(
        self,
        *,
        readings: Sequence[Json],
        cells: Sequence[str] = (),
        reviews: Sequence[Sequence[Json] | Json] = ((),),
        closing: str = "The code does what the clauses say.",
    ) -> None:
        self._readings, self._cells, self._reviews = map(_each, (readings, cells, reviews))
        self._closing = closing
        self.asked: dict[str, list[str]] = {}
        self.model = ScriptedChatModel(self._answer)

    def _answer(self, messages: list[AnyMessage]) -> AIMessage | str:
        begun = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        shown = messages[: begun + 1] if not isinstance(messages[-1], ToolMessage) else messages[-1:]
        text = "\n".join(message.text for message in messages[: begun + 1])
        role = next((role for tag, role in ROLES.items() if tags.read(tag, text) is not None), "code")  # type: ignore[arg-type]
        self.asked.setdefault(role, []).append("\n".join(message.text for message in shown))
        if role == "code":
            return self._code(messages[-1])
        if role == "question":
            return "What exactly is meant?"
        reply = next(self._readings if role == "reading" else self._reviews)
        if role == "reading":
            self._read = reply
        elif not isinstance(reply, dict):
            reply = {"issues_found": reply, **(_again(self._read) if '"assumed"' in text else {})}
        return f"```json\n{json.dumps(reply, ensure_ascii=False)}\n```"

    def _code(self, last: AnyMessage) -> AIMessage | str:
        if isinstance(last, ToolMessage) and "Error" not in last.text:
            return self._closing
        call = {"name": "python_repl", "args": {"query": next(self._cells)}, "id": "cell"}
        return AIMessage("", tool_calls=[call])


def _again(reply: Json) -> Json:
    """The rule and the plan of a reading, as an independent reader has them, too."""
    params = Params.model_validate(reply["user_intent"]["params"]).model_dump()
    rule = rule_in(params)
    if rule is None:
        return {}
    entry, leave = rule.expressions
    return {
        "entry": entry,
        "exit": "" if leave == "never()" else leave,
        "plan": with_plan(params, PLAN)["plan"],
    }


def _each(replies: Sequence[Any]) -> Iterator[Any]:
    yield from replies
    while True:
        yield replies[-1]


def dispute(symbol: str, date: str, expected: int, why: str) -> Json:
    """A review's error with a cell that fails while the signal of a session is another than expected."""
    found = f'signal = next(iter(snapshot["signal"].values()))\nvalue = signal.at["{date}", "{symbol}"]'
    words = {"severity": "error", "message": why, "why": why, "symbol": symbol, "date": date}
    return words | {"expected": expected, "cell": f"{found}\nassert value == {expected}, value"}
