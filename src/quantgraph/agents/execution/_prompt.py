"""What the stepwise agent is told: prompt file, facts, round, results, and its bounded history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph.agents._model_decider import prompt_files, shortened_conversation
from quantgraph.agents.execution._actions import LONGEST_ACTION, Action
from quantgraph.llm.messages import (
    escape_tags,
    is_too_deep,
    read,
    reply_text,
    to_json,
    without_thoughts,
    wrap,
)
from quantgraph.tools import shortened

LONGEST_RESULT: Final = 12_000
"""Characters of one result, as JSON, in the conversation."""

LONGEST_CONVERSATION: Final = 60_000
"""Characters of the whole conversation."""

_OLD_RESULT, _OLD_REPLY = 400, 400  # characters of what is shortened for room


def record_of(action: Action, result: Any, timestamp: str) -> dict[str, Any]:
    """Record of a step.

    A call of a tool and an observation have a ``result``; a calculation and a decision only if there is one.
    """
    record: dict[str, Any] = {"step": action.step, "type": action.type, "reasoning": action.reasoning}
    if action.action is not None:
        record |= action.action.model_dump()
    if action.type == "calculation":
        record["intermediate_result"] = action.intermediate_result
    kept = action.result if result is None else result
    if kept is not None or action.type in ("tool_call", "observation"):
        record["result"] = kept
    return {**record, "timestamp": timestamp}


def bounded(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A conversation of at most :data:`LONGEST_CONVERSATION` characters, where that is possible.

    Older results are shortened first, the oldest before the others, then older replies.
    """
    answers = [place for place, each in enumerate(messages) if place and not isinstance(each, AIMessage)]
    replies = [place for place, each in enumerate(messages) if isinstance(each, AIMessage)]
    last = next((place for place in reversed(answers) if read("observation", messages[place].text)), 0)
    order = [*(each for each in answers if each != last), *replies]
    return shortened_conversation(messages, LONGEST_CONVERSATION, order, _short)


def short_args(args: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Arguments of a call as plain JSON of at most so many characters."""
    short = shortened("…" if is_too_deep(args) else to_json(args), limit)
    return short if isinstance(short, dict) else {"…": short}


def _short(message: AnyMessage) -> AnyMessage:
    return _short_reply(message) if isinstance(message, AIMessage) else _short_answer(message)


def _short_answer(message: AnyMessage) -> AnyMessage:
    """Return an answer with its result shortened; other text stays."""
    text = message.text
    told = read("observation", text)
    if told is None or not isinstance(message, HumanMessage | ToolMessage):
        return message
    observation = json.loads(told)
    observation["result"] = shortened(observation["result"], _OLD_RESULT)
    after = text[text.rindex("</observation>") + len("</observation>") :]
    return message.model_copy(
        update={"content": wrap("observation", canonical_json(observation, sort_keys=False)) + after}
    )


def _short_reply(message: AIMessage) -> AIMessage:
    """Return the beginning of a reply; long arguments of its calls are left out."""
    text = reply_text(message.content)
    if len(text) > _OLD_REPLY:
        text = f"{escape_tags(text[:_OLD_REPLY])}…"
    calls = [{**each, "args": short_args(each["args"], _OLD_REPLY)} for each in message.tool_calls]
    return message.model_copy(update={"content": text, "tool_calls": calls})


_FOLDER = Path(__file__).resolve().parent / "prompts"
_FILES: Final = {"execution_en": "execution_v1.txt", "execution_zh": "execution_v1_zh.txt"}
_FAULTY_REPLY = 2_000
_NOT_DONE = "not done: one action a reply"
_EMPTY = "(no text)"


@cache
def prompt_texts() -> Mapping[str, str]:
    """The system prompts: ``execution_en`` and ``execution_zh``. One that changes gets a new version."""
    return prompt_files(_FOLDER, _FILES)


def described(tools: Iterable[BaseTool]) -> list[dict[str, Any]]:
    """Tools for ``available_tools``: name, description, parameters, and which of them are required."""
    return [_described(convert_to_openai_tool(tool)["function"]) for tool in tools]


def first_messages(
    facts: Mapping[str, Any], prompt: str, *, rounds: int, language: Language = "en"
) -> list[AnyMessage]:
    """The conversation up to the first round."""
    told = wrap("execution_facts", canonical_json(dict(facts), sort_keys=False))
    return [SystemMessage(f"{prompt.rstrip()}\n\n{told}"), step_message(1, rounds, language)]


def step_message(step: int, rounds: int, language: Language = "en") -> HumanMessage:
    """The question for the action of a round."""
    return HumanMessage(_question(step, rounds, language))


def observed(
    reply: AIMessage, action: Action, result: Any, *, next_step: int, rounds: int, language: Language = "en"
) -> list[AnyMessage]:
    """A reply, and the result of its action with the question of the next round.

    The result is data: it stands inside ``observation``, and no text in it can end that part.
    """
    told = canonical_json({"step": action.step, "result": shortened(result, LONGEST_RESULT)}, sort_keys=False)
    answer = f"{wrap('observation', told)}\n{_question(next_step, rounds, language)}"
    text = without_thoughts(reply_text(reply.content))
    if len(text) > LONGEST_ACTION:
        text = canonical_json(action.model_dump(), sort_keys=False)
    return _answered(reply, text, answer, action.step)


def sent_back(
    reply: AIMessage, fault: str, *, step: int, rounds: int, is_last: bool = False, language: Language = "en"
) -> list[AnyMessage]:
    """A reply that is no action, what is wrong with it, and the question once more."""
    told = say(
        language,
        zh=f"上一个回复不能用：{fault}。请重新回复，只给出一个操作。",
        en=f"Your last reply could not be used: {fault}. Reply again, with one action and nothing else.",
    )
    if is_last:
        told += say(language, zh="再有一个不能用的回复，就持有。", en=" Another one like it ends in a hold.")
    text = without_thoughts(reply_text(reply.content))
    text = text if len(text) <= _FAULTY_REPLY else f"{text[:_FAULTY_REPLY]}…"
    return _answered(reply, text, f"{escape_tags(told)}\n{_question(step, rounds, language)}", step)


def _described(function: Mapping[str, Any]) -> dict[str, Any]:
    schema = function.get("parameters", {})
    fields = {
        name: {key: value for key, value in field.items() if key != "title"}
        for name, field in schema.get("properties", {}).items()
    }
    return {
        "name": function["name"],
        "description": " ".join(function["description"].split()),
        "parameters": fields,
        "required": schema.get("required", []),
    }


def _question(step: int, rounds: int, language: Language) -> str:
    told = wrap("execution_step", canonical_json({"current_step": step, "rounds": rounds}))
    if step >= rounds:
        return told + say(language, zh="这是最后一轮：请做出决策。", en="This is the last round: decide.")
    return told + say(language, zh="请给出下一步操作。", en="Give the next action.")


def _answered(reply: AIMessage, text: str, answer: str, step: int) -> list[AnyMessage]:
    """Return a reply and its answer: a message, or where it made calls, an answer to each."""
    if reply.invalid_tool_calls or not reply.tool_calls:
        clean = escape_tags(text.encode("utf-8", "replace").decode())
        return [AIMessage(clean or _EMPTY), HumanMessage(answer)]
    ids = [call["id"] or f"call_{step}_{place}" for place, call in enumerate(reply.tool_calls)]
    calls = [
        {**call, "id": name, "args": short_args(call["args"], LONGEST_ACTION)}
        for call, name in zip(reply.tool_calls, ids, strict=True)
    ]
    return [
        reply.model_copy(update={"tool_calls": calls}),
        ToolMessage(answer, tool_call_id=ids[0]),
        *(ToolMessage(_NOT_DONE, tool_call_id=name) for name in ids[1:]),
    ]
