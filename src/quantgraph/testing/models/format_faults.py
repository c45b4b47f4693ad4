"""Ways to spoil an answer: in its form."""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_core.messages import AIMessage

from quantgraph.testing.models.faulty_model import (
    FaultContext,
    leaves,
    rebuilt,
    rewritten,
    with_text,
)

__all__ = [
    "bad_json",
    "dsml",
    "empty",
    "never_stops_thinking",
    "null_strings",
    "numbers_as_strings",
    "prose",
    "strings_as_numbers",
    "thinking_blocks",
    "thinking_text",
    "truncated",
    "wrong_types",
    "xml_calls",
]

_DRAFT = 'First idea: {"task_type": "unclear"}. No, better:'


def prose(asked: FaultContext) -> str:  # noqa: ARG001
    """Words about the answer instead of the answer."""
    return (
        "Let me think about it step by step. I would first look at the prices, then at the rule, and then "
        "decide; on the whole the plan looks reasonable. 总体来看，这个方案是可行的。"
    )


def bad_json(asked: FaultContext) -> AIMessage:
    """JSON with single quotes, a trailing comma and no last brace."""
    return rewritten(asked.right, lambda text: re.sub(r"\}\s*(?:```)?\s*\Z", ",", text.replace('"', "'")))


def truncated(asked: FaultContext) -> AIMessage:
    """The first half, and ``finish_reason`` says ``length``."""
    return rewritten(asked.right, lambda text: text[: len(text) // 2], finish_reason="length")


def empty(asked: FaultContext) -> AIMessage:  # noqa: ARG001
    """Nothing."""
    return AIMessage("", response_metadata={"finish_reason": "stop"})


def null_strings(asked: FaultContext) -> AIMessage:
    """Every value is the text ``null``."""
    return rebuilt(asked.right, lambda value: leaves(value, lambda _: "null"))


def wrong_types(asked: FaultContext) -> AIMessage:
    """Objects where texts belong, texts where truth values and lists do."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, str):
            return {"value": value}
        return "perhaps" if isinstance(value, bool) else "a, b" if isinstance(value, list) else [value]

    return rebuilt(asked.right, change)


def numbers_as_strings(asked: FaultContext) -> AIMessage:
    """Numbers, truth values and nulls as texts, lists as texts with commas."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, list):
            return ", ".join(str(item) for item in value)
        return value if isinstance(value, str) else json.dumps(value)

    return rebuilt(asked.right, change)


def strings_as_numbers(asked: FaultContext) -> AIMessage:
    """Texts of digits, such as dates, as numbers."""

    def change(value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdigit() else value

    return rebuilt(asked.right, lambda value: leaves(value, change))


def thinking_blocks(asked: FaultContext) -> AIMessage:
    """A thinking block before the answer."""
    thought: dict[str, Any] = {"type": "thinking", "thinking": _DRAFT}
    text = {"type": "text", "text": str(asked.right.text)}
    return AIMessage(content=[thought, text], tool_calls=asked.right.tool_calls)


def thinking_text(asked: FaultContext) -> AIMessage:
    """The thought, with a draft of the answer in it, between ``<think>`` tags in the text."""
    return AIMessage(f"<think>{_DRAFT}</think>\n{asked.right.text}", tool_calls=asked.right.tool_calls)


def never_stops_thinking(asked: FaultContext) -> AIMessage:  # noqa: ARG001
    """A thought that never ends, cut at the length limit."""
    return AIMessage(f"<think>{_DRAFT * 40}", response_metadata={"finish_reason": "length"})


def dsml(asked: FaultContext) -> AIMessage:
    """Tool calls as DeepSeek's markup in the text."""
    return with_text(asked.right, _as_dsml)


def xml_calls(asked: FaultContext) -> AIMessage:
    """Tool calls as ``<tool_call>`` JSON in the text, as Hermes and Qwen write them."""
    return with_text(
        asked.right,
        lambda name, args: f"<tool_call>\n{json.dumps({'name': name, 'arguments': args})}\n</tool_call>",
    )


def _as_dsml(name: str, args: dict[str, Any]) -> str:
    parameters = [
        f'<｜DSML｜parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
        f"{value if isinstance(value, str) else json.dumps(value)}</｜DSML｜parameter>"
        for key, value in args.items()
    ]
    invoke = [f'<｜DSML｜invoke name="{name}">', *parameters, "</｜DSML｜invoke>"]
    return "\n".join(["<｜DSML｜function_calls>", *invoke, "</｜DSML｜function_calls>"])
