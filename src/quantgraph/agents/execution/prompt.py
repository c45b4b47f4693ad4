"""What a model is told: the prompt, which is a file, the facts, the round, and the result of each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph.agents.execution.history import LONGEST_RESULT, short_args
from quantgraph.agents.execution.step_action import LONGEST_ACTION, Action
from quantgraph.llm.model_json import reply_text, without_thoughts
from quantgraph.llm.tags import escape_tags, wrap
from quantgraph.tools.plain_json import shortened

_FOLDER = Path(__file__).resolve().parent / "prompts"
_FILES: Final = {"execution_en": "execution_v1.txt", "execution_zh": "execution_v1_zh.txt"}
_FAULTY_REPLY = 2_000
_NOT_DONE = "not done: one action a reply"
_EMPTY = "(no text)"


@cache
def _text(file: str) -> str:
    return (_FOLDER / file).read_text(encoding="utf-8")


def prompt_texts() -> dict[str, str]:
    """The system prompts: ``execution_en`` and ``execution_zh``. One that changes gets a new version."""
    return {name: _text(file) for name, file in _FILES.items()}


def described(tools: Iterable[BaseTool]) -> list[dict[str, Any]]:
    """Tools for ``available_tools``: name, description, parameters, and which of them are required."""
    return [_described(convert_to_openai_tool(tool)["function"]) for tool in tools]


def first_messages(
    facts: Mapping[str, Any], prompt: str, *, rounds: int, language: Language = "en"
) -> list[AnyMessage]:
    """The conversation up to the first round.

    Parameters
    ----------
    facts
        ``rule_id``, ``symbol``, ``session``, ``runtime_status``, ``user_requirements`` and
        ``available_tools``, plain JSON.
    prompt
        The system prompt, see :func:`prompt_texts`.
    rounds
        How many rounds there are.
    """
    told = wrap("execution_facts", canonical_json(dict(facts), sort_keys=False))
    return [SystemMessage(f"{prompt.rstrip()}\n\n{told}"), step_message(1, rounds, language)]


def step_message(step: int, rounds: int, language: Language = "en") -> HumanMessage:
    """The question for the action of a round."""
    return HumanMessage(_question(step, rounds, language))


def observed(
    reply: AIMessage,
    action: Action,
    result: Any,
    *,
    next_step: int,
    rounds: int,
    language: Language = "en",
) -> list[AnyMessage]:
    """A reply, and the result of its action with the question of the next round.

    The result is data: it stands inside ``observation``, and no text in it can end that part. The result of a
    native call is the answer to that call; further calls of the reply are answered as not done.
    """
    told = canonical_json({"step": action.step, "result": shortened(result, LONGEST_RESULT)}, sort_keys=False)
    answer = f"{wrap('observation', told)}\n{_question(next_step, rounds, language)}"
    text = without_thoughts(reply_text(reply.content))
    if len(text) > LONGEST_ACTION:
        text = canonical_json(action.model_dump(), sort_keys=False)
    return _answered(reply, text, answer, action.step)


def sent_back(
    reply: AIMessage,
    fault: str,
    *,
    step: int,
    rounds: int,
    is_last: bool = False,
    language: Language = "en",
) -> list[AnyMessage]:
    """A reply that is no action, what is wrong with it, and the question once more.

    Parameters
    ----------
    is_last
        Whether the next reply that is no action ends in a hold.
    """
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
