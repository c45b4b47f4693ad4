"""What a reply is: tool calls, native or written as text, or an answer; or what is wrong with it.

What a model writes behind a call is not read: it has not seen the result, so it makes one up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages.tool import ToolCall, tool_call

from quantgraph.llm.capabilities.text_tool_call import calls_in_markup
from quantgraph.llm.capabilities.modes import Wanted
from quantgraph.llm.capabilities.text_tool_call import Spec, Spoken, by_name, calls_of, read_args
from quantgraph.llm.model_json import finish_of, is_cut_off
from quantgraph.llm.repair import mended
from quantgraph.llm.structured import Found, objects_in, reply_text, without_thoughts
from quantgraph.recording import canonical, digest

__all__ = ["Reading", "read_reply"]

_LIKE_A_CALL = re.compile(r"(\[\s*)?\{\s*[\"'](tool|name|function|tool_calls)[\"']\s*:")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Calls to make, or a text.

    Attributes
    ----------
    text
        The final text, or what was said before the calls; None leaves the content as it is.
    fault
        Why the reply can be neither carried out nor taken for an answer; the model is told so.
    """

    calls: tuple[ToolCall, ...] = ()
    text: str | None = None
    fault: str | None = None


def read_reply(message: AIMessage, wanted: Wanted, *, native: bool, turn: int) -> Reading:
    """Read a reply.

    Parameters
    ----------
    native
        Whether tools were offered as tools. A call that is written as text all the same counts, if it is in
        the markup of calls, or a JSON object with exactly a bound tool's name and its arguments.
    turn
        Place of the reply in the conversation; ids of calls are made from it, so that they repeat.

    Notes
    -----
    A call of a tool that is not bound is a call too where it cannot be anything else: whoever runs the tools
    tells the model so.
    """
    if not wanted.tools:
        return Reading()
    own, text = _native(message), without_thoughts(reply_text(message.content))
    said, answer = (own, None) if own else _written(text, wanted, native=native, cut_off=is_cut_off(message))
    if fault := next((one.fault for one in said if one.fault), None):
        return Reading(fault=fault)
    if not said:
        missing = "no tool was called, and one has to be" if wanted.forced else None
        return Reading(text=answer, fault=missing)
    ids = [call["id"] for call in [*message.tool_calls, *message.invalid_tool_calls]] or [None] * len(said)
    given = Counter(ids)  # an id that two calls have names neither
    calls = tuple(
        _made(one, wanted, id_ if id_ and given[id_] == 1 else _id(one, turn, place))
        for place, (one, id_) in enumerate(zip(said, ids, strict=True))
    )
    if own:
        return Reading(calls=calls)
    before = text[: said[0].begin].rstrip()
    return Reading(calls=calls, text=before.removesuffix("```json").removesuffix("```").rstrip())


def _written(text: str, wanted: Wanted, *, native: bool, cut_off: bool) -> tuple[list[Spoken], str | None]:
    """Calls that stand in a text, or what it is as an answer (None: as it is)."""
    said = calls_in_markup(text, wanted.tools, cut_off=cut_off)
    if said:
        return said, None
    found = objects_in(text, cut_off=cut_off)
    said = list(_calls_among(found, by_name(wanted.tools), native=native, text=text))
    return said, None if native else _answer(found, text)


def _native(message: AIMessage) -> list[Spoken]:
    """The message's own calls; when it was cut off, that is in the last of them, however it was parsed."""
    said = [Spoken(name=call["name"], begin=0, args=call["args"]) for call in message.tool_calls]
    said += [_almost(call, cut_off=is_cut_off(message)) for call in message.invalid_tool_calls]
    if said and is_cut_off(message):
        last = said[-1]
        said[-1] = Spoken(
            name=last.name, begin=0, fault=f"the call of {last.name} was cut off ({finish_of(message)})"
        )
    return said


def _almost(call: InvalidToolCall, *, cut_off: bool) -> Spoken:
    return read_args(call["name"] or "", call["args"] or "", 0, cut_off=cut_off)


def _calls_among(
    found: Sequence[Found], known: dict[str, Spec], *, native: bool, text: str
) -> Iterator[Spoken]:
    """The calls up to the first piece of JSON that is none."""
    for one in found:
        if one.value is None:
            if _LIKE_A_CALL.match(text, one.begin):
                yield Spoken(name="", begin=one.begin, fault=f"the call of a tool is broken: {one.problem}")
            return
        calls = calls_of(one.value, one.begin)
        if not calls or (native and any(call.name not in known for call in calls)):
            return
        yield from calls


def _answer(found: Sequence[Found], text: str) -> str:
    """The text of ``{"answer": ...}``; any other reply is the answer itself."""
    value = found[-1].value if found else None
    if isinstance(value, dict) and value.keys() == {"answer"}:
        answer = value["answer"]
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text


def _made(one: Spoken, wanted: Wanted, id_: str) -> ToolCall:
    tool = by_name(wanted.tools).get(one.name, {})
    return tool_call(name=one.name, args=mended(one.args, tool.get("parameters", {})), id=id_)


def _id(one: Spoken, turn: int, place: int) -> str:
    return f"call_{digest(canonical([turn, place, one.name, one.args]))[:24]}"
