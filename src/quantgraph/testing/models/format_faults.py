"""Faults in the form of a reply: broken JSON, wrong types, thoughts, tool calls as text."""

from __future__ import annotations

import json
import re
from typing import Any

from langchain_core.messages import AIMessage

from quantgraph.testing.models.faulty_model import (
    FaultContext,
    ReplyFault,
    calls_as_text,
    edit_json,
    edit_text,
    map_leaves,
)

_DRAFT = 'First idea: {"task_type": "unclear"}. No, better:'


def prose(context: FaultContext) -> str:  # noqa: ARG001
    """Prose about the reply instead of the reply."""
    return (
        "Let me think about it step by step. I would first look at the prices, then at the rule, and then "
        "decide; on the whole the plan looks reasonable. 总体来看，这个方案是可行的。"
    )


def bad_json(context: FaultContext) -> AIMessage:
    """JSON with single quotes, a trailing comma and without the last brace."""
    return edit_text(context.correct, lambda text: re.sub(r"\}\s*(?:```)?\s*\Z", ",", text.replace('"', "'")))


def truncated(context: FaultContext) -> AIMessage:
    """First half of the reply, with ``finish_reason`` ``length``."""
    return edit_text(context.correct, lambda text: text[: len(text) // 2], finish_reason="length")


def empty(context: FaultContext) -> AIMessage:  # noqa: ARG001
    """Empty reply."""
    return AIMessage("", response_metadata={"finish_reason": "stop"})


def null_strings(context: FaultContext) -> AIMessage:
    """The text ``null`` in place of every value."""
    return edit_json(context.correct, lambda value: map_leaves(value, lambda _: "null"))


def wrong_types(context: FaultContext) -> AIMessage:
    """Objects in place of texts, texts in place of truth values and lists."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, str):
            return {"value": value}
        return "perhaps" if isinstance(value, bool) else "a, b" if isinstance(value, list) else [value]

    return edit_json(context.correct, change)


def numbers_as_strings(context: FaultContext) -> AIMessage:
    """Numbers, truth values and nulls as texts; lists as texts with commas."""

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, list):
            return ", ".join(str(item) for item in value)
        return value if isinstance(value, str) else json.dumps(value)

    return edit_json(context.correct, change)


def strings_as_numbers(context: FaultContext) -> AIMessage:
    """Texts of digits, such as dates, as numbers."""

    def change(value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdigit() else value

    return edit_json(context.correct, lambda value: map_leaves(value, change))


def thinking_blocks(context: FaultContext) -> AIMessage:
    """Thinking block before the reply."""
    thought: dict[str, Any] = {"type": "thinking", "thinking": _DRAFT}
    text = {"type": "text", "text": str(context.correct.text)}
    return AIMessage(content=[thought, text], tool_calls=context.correct.tool_calls)


def thinking_text(context: FaultContext) -> AIMessage:
    """Thought with a draft of the reply, between ``<think>`` tags in the text."""
    return AIMessage(
        f"<think>{_DRAFT}</think>\n{context.correct.text}", tool_calls=context.correct.tool_calls
    )


def never_stops_thinking(context: FaultContext) -> AIMessage:  # noqa: ARG001
    """Thought without an end, cut at the length limit."""
    return AIMessage(f"<think>{_DRAFT * 40}", response_metadata={"finish_reason": "length"})


def dsml(context: FaultContext) -> AIMessage:
    """Tool calls as DeepSeek's markup in the text."""
    return calls_as_text(context.correct, _as_dsml)


def xml_calls(context: FaultContext) -> AIMessage:
    """Tool calls as ``<tool_call>`` JSON in the text, as Hermes and Qwen write them."""
    return calls_as_text(
        context.correct,
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


FORMAT_FAULTS: dict[str, ReplyFault] = {
    fault.__name__: fault
    for fault in (
        prose,
        bad_json,
        truncated,
        empty,
        null_strings,
        wrong_types,
        numbers_as_strings,
        strings_as_numbers,
        thinking_blocks,
        thinking_text,
        never_stops_thinking,
        dsml,
        xml_calls,
    )
}
"""The faults of this module by name."""
