"""Asking for a JSON object, with one more question when the answer cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import BaseModel

from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.cache import cached_attempt
from quantgraph.llm.model_json import is_cut_off
from quantgraph.llm.structured import read_json

__all__ = ["ask_json"]

T = TypeVar("T", bound=BaseModel)


def ask_json(
    talk: Callable[[list[AnyMessage]], Sequence[AnyMessage]], asked: Sequence[AnyMessage], schema: type[T]
) -> T:
    """Have a question answered by an object of ``schema``.

    An answer that cannot be read is followed by one question that names its faults, in the same conversation.

    Parameters
    ----------
    talk
        Goes on with a conversation and returns the new messages: a model, or an agent with its tools.
    asked
        The conversation up to the question.

    Raises
    ------
    ModelOutputInvalid
        If the second answer cannot be read either; it names the faults of that one.
    QuantGraphError
        What ``talk`` raises.
    """
    conversation, replies = list(asked), list[AnyMessage]()
    try:
        with cached_attempt():
            replies += talk(conversation)
            return _read(replies, schema)
    except ModelOutputInvalid as error:
        if not replies:
            raise
        fault = error.message
    repair = (
        f"Your last reply could not be used: {fault}. "
        "Answer the question again, with one whole JSON object and nothing else."
    )
    with cached_attempt():
        return _read(talk([*conversation, *replies, HumanMessage(repair)]), schema)


def _read(replies: Sequence[AnyMessage], schema: type[T]) -> T:
    """The last message as ``schema``."""
    last = replies[-1]
    said = last if isinstance(last, AIMessage) else AIMessage(last.content)
    return read_json(said.content, schema, cut_off=is_cut_off(said))
