"""The action of a step, read out of a reply: a call of a tool, a calculation, a decision, an observation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args

from langchain_core.messages import AIMessage
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import escape_controls
from quantgraph._util.values import faults_of, first_of
from quantgraph.errors import BadOption, ModelOutputInvalid
from quantgraph.llm.messages import (
    find_json,
    is_cut_off,
    is_too_deep,
    reply_text,
    reworded,
    to_json,
    without_thoughts,
)

ActionType = Literal["tool_call", "calculation", "decision", "observation"]
ACTION_TYPES: Final[tuple[ActionType, ...]] = get_args(ActionType)

LONGEST_ACTION: Final = 8_000
"""Characters of an action as JSON."""

ReplyError = Literal["schema", "logic"]
"""What is wrong with a reply: it has not the form of an action, or its action contradicts facts or itself."""

_PLACE_ORDER = "place_order"
_LONGEST_REASONING = 2_000  # of the text beside a native call
_SHOWN, _FAULTS_SHOWN, _BEGIN = 40, 12, 80


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a boolean is not a number")  # noqa: TRY004 - what pydantic takes
    return value


class _Part(BaseModel):
    """Keys that are not there are refused. A field's description completes "must be"."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_P = TypeVar("_P", bound=_Part)


def _small(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class ToolCall(_Part):
    """A tool, and its parameters."""

    tool_name: str = Field(min_length=1, description="the name of a tool")
    params: dict[str, Any] = Field(
        default_factory=dict, description="an object with the tool's parameters by name"
    )


class Calculation(_Part):
    """A calculation that the model makes itself."""

    calculation_type: str = Field(min_length=1, description="the indicator, such as MA or RSI")
    formula: str = Field(min_length=1, description="the formula as text")
    inputs: dict[str, Any] = Field(
        default_factory=dict, description="an object with what the formula is applied to"
    )


class TradeDecision(_Part):
    """What the model wants for the symbol; of the size it sets the confidence alone."""

    action: Annotated[Literal["buy", "sell", "hold"], BeforeValidator(_small)] = Field(
        description="buy, sell or hold"
    )
    reason: str = Field(min_length=1, description="the reason as text")
    confidence: Annotated[float, BeforeValidator(_no_bool)] = Field(
        ge=0, le=1, description="a number from 0 to 1"
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.action != "hold" and not self.confidence:
            raise ValueError(
                f"a {self.action} with confidence 0 contradicts itself; must be above 0, or a hold"
            )
        return self


Payload = ToolCall | Calculation | TradeDecision

_PAYLOADS: Final[Mapping[ActionType, type[Payload]]] = {
    "tool_call": ToolCall,
    "calculation": Calculation,
    "decision": TradeDecision,
}
_TYPE_OF: Final = {name: kind for kind, part in _PAYLOADS.items() for name in part.model_fields}


class Action(_Part):
    """One step of an execution."""

    type: ActionType
    step: Annotated[int, BeforeValidator(_no_bool)] = Field(ge=1, description="a whole number >= 1")
    reasoning: str = Field(default="", description="text")
    action: Payload | None = None
    result: Any = None
    intermediate_result: Any = None
    next_step: str | None = Field(default=None, description="text")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        wanted = _PAYLOADS.get(self.type)
        if type(self.action) is not (wanted or type(None)):
            raise ValueError(f"action of type {self.type} must be {wanted.__name__ if wanted else 'null'}")
        return self


ACTION_NAMES: Final = ("calculation", "decision")
"""Types of actions that are calls by these names, beside those of tools."""

_INPUTS: Final[Mapping[str, Any]] = {
    "calculation_type": {"type": "string"},
    "formula": {"type": "string"},
    "inputs": {"type": "object"},
    "intermediate_result": {"description": "the number, or an object of numbers by name"},
}
CALCULATION_TOOL: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "calculation",
        "description": "a number that you calculate yourself; TA-Lib's is put beside it",
        "parameters": {
            "type": "object",
            "properties": _INPUTS,
            "required": ["calculation_type", "formula", "intermediate_result"],
        },
    },
}
"""What a model that calls tools is offered beside the tools, in OpenAI's form."""


def parse_action(reply: str | AIMessage, *, step: int | None = None, symbol: str = "") -> Action:
    """Read the one action of a reply.

    The first native call is the action: of ``calculation``, of ``decision`` or ``place_order``, or of any
    other tool. Without one, the reply's text must hold one JSON object that is an action; prose, fences and
    thinking blocks around it are skipped, and JSON that is almost right is repaired. The keys of ``action``
    may stand beside ``type``. A result that the model made up is dropped.

    Parameters
    ----------
    reply
        A model's reply, or its text.
    step
        Number of the step; None: the one that the reply has.
    symbol
        The symbol that is decided: a decision may name it, and no other.

    Raises
    ------
    ModelOutputInvalid
        In one line: all that is wrong, and what is valid. ``data`` has the ``reply``'s text, and as ``kind``
        a :data:`ReplyError`.
    BadOption
        If ``reply`` is neither a message nor text.

    Examples
    --------
    >>> reply = 'So: {"type": "decision", "action": "hold", "reason": "calm", "confidence": "0.8"}'
    >>> parse_action(reply, step=4).action
    TradeDecision(action='hold', reason='calm', confidence=0.8)
    """
    if not isinstance(reply, str | AIMessage):
        raise BadOption(f"reply must be text or an AIMessage, not {type(reply).__name__}", parameter="reply")
    message = AIMessage(reply) if isinstance(reply, str) else reply
    text = reply_text(message.content)
    try:
        is_call = bool(message.tool_calls or message.invalid_tool_calls)
        raw = _native_action(message, text) if is_call else _written(message, text)
        return _read(_plain(raw), step, symbol)
    except _Unreadable as fault:
        line = escape_controls(" ".join(str(fault).split()))
        raise ModelOutputInvalid(line, reply=text, kind=fault.kind) from None


def calls_as_text(reply: AIMessage) -> AIMessage:
    """A reply whose native calls stand in its text as actions, for a conversation without tools.

    A server may send calls though it was offered no tools; such a conversation has no answers to calls.
    """
    if not reply.tool_calls and not reply.invalid_tool_calls:
        return reply
    reasoning = without_thoughts(reply_text(reply.content))[:_LONGEST_REASONING]
    raw = [_action_of(call["name"], call["args"], reasoning) for call in reply.tool_calls]
    lines = ["(a call that cannot be read)"] if reply.invalid_tool_calls or is_too_deep(raw) else raw
    text = "\n".join(canonical_json(to_json(each), sort_keys=False) for each in lines)
    return reworded(reply, text)


class _Unreadable(Exception):
    """What is wrong with a reply, and what is valid."""

    def __init__(self, line: str, kind: ReplyError = "schema") -> None:
        super().__init__(line)
        self.kind = kind


def _native_action(message: AIMessage, text: str) -> dict[str, Any]:
    """Return the action of a native call."""
    if message.invalid_tool_calls:
        name = str(message.invalid_tool_calls[0].get("name") or "")[:_SHOWN]
        raise _Unreadable(f"the arguments of the call of {name!r} are not a JSON object")
    if is_cut_off(message):
        raise _Unreadable("the reply was cut off in its call of a tool; call it again, in fewer words")
    call = message.tool_calls[0]
    return _action_of(call["name"], call["args"], without_thoughts(text)[:_LONGEST_REASONING])


def _action_of(name: str, params: Mapping[str, Any], reasoning: str) -> dict[str, Any]:
    if name in ACTION_NAMES:
        return {"reasoning": reasoning, **params, "type": name}
    return {"type": "tool_call", "reasoning": reasoning, "action": {"tool_name": name, "params": params}}


def _written(message: AIMessage, text: str) -> dict[str, Any]:
    """Return the one JSON object of a text that is meant to be an action."""
    found = find_json(text, cut_off=is_cut_off(message))
    broken = next((each.problem for each in found if each.problem is not None), None)
    if broken is not None:
        cut = "; the reply was cut off" if is_cut_off(message) else ""
        raise _Unreadable(f"the reply's JSON is broken: {broken}{cut}; must be one JSON object, one action")
    values = [each.value for each in found]
    actions = [value for value in values if "type" in value] or values
    if not actions:
        begins = f"it begins {text[: 2 * _BEGIN].strip()[:_BEGIN]!r}" if text.strip() else "it is empty"
        raise _Unreadable(f"the reply holds no JSON object; {begins}; must be one JSON object, one action")
    if len(actions) > 1:
        raise _Unreadable(f"the reply holds {len(actions)} JSON objects; must be one action a reply")
    only: dict[str, Any] = actions[0]
    return only


def _plain(raw: Any) -> dict[str, Any]:
    """Return an action as plain JSON whose text any database takes."""
    if is_too_deep(raw):
        raise _Unreadable("the action is nested too deeply; must be flat JSON")
    try:
        text = canonical_json(raw, sort_keys=False, allow_nan=False)
    except (TypeError, ValueError):
        raise _Unreadable("the action has a value that is not JSON, such as NaN; use null") from None
    if len(text) > LONGEST_ACTION:
        raise _Unreadable(f"the action has {len(text)} characters; must be at most {LONGEST_ACTION}")
    plain: dict[str, Any] = json.loads(text)
    return plain


_Faults = dict[str, ReplyError]
"""What is wrong with an action: lines, and of which kind each is."""


def _read(raw: dict[str, Any], step: int | None, symbol: str) -> Action:
    """Return the action that plain JSON stands for, or raise all that is wrong with it."""
    faults: _Faults = {}
    kind = _type_of(raw, faults)
    payload = _payload_of(kind, raw, faults)
    if kind == "tool_call" and payload and payload.get("tool_name") == _PLACE_ORDER:
        kind, payload = "decision", _params_of(_checked(kind, payload, "", faults), faults)
    common: dict[str, Any] = {name: raw[name] for name in ("intermediate_result", "next_step") if name in raw}
    common |= {"reasoning": raw.get("reasoning") or "", "step": raw.get("step") if step is None else step}
    if kind == "observation":
        common |= {"result": raw.get("result")}
    if kind == "calculation" and raw.get("intermediate_result") is None:
        faults["intermediate_result is missing; must be the number that you calculate"] = "schema"
    part, action = _PAYLOADS.get(kind), None
    if payload is not None:
        payload = _checked(kind, payload, symbol, faults)
        action = part and _fitted(part, payload, "action.", faults)
    whole = {**common, "type": kind if action else "observation", "action": action}
    read = _fitted(Action, whole, "", faults)
    if read is None or faults:
        is_schema = "schema" in faults.values()
        raise _Unreadable(first_of(faults, _FAULTS_SHOWN), "schema" if is_schema else "logic")
    return read


def _fitted(part: type[_P], raw: Mapping[str, Any], prefix: str, faults: _Faults) -> _P | None:
    """Return a part of an action, or add what each wrong field is and what it must be."""
    try:
        return part.model_validate(raw)
    except ValidationError as error:
        found = faults_of(error, part, show=_shown)
    # What is wrong with no field alone contradicts itself.
    faults |= {f"{each.place and prefix}{each.line}": "schema" if each.place else "logic" for each in found}
    return None


def _type_of(raw: Mapping[str, Any], faults: _Faults) -> ActionType:
    """Return the type of an action; of one without a valid type, that to which its keys belong."""
    for kind in ACTION_TYPES:
        if raw.get("type") == kind:
            return kind
    wrong = f"type is {_shown(raw['type'])}" if "type" in raw else "the action has no type"
    faults[f"{wrong}; must be one of {', '.join(ACTION_TYPES)}"] = "schema"
    inner = raw.get("action")
    keys = [*(inner if isinstance(inner, dict) else ()), *raw]
    return next((_TYPE_OF[name] for name in keys if name in _TYPE_OF), "observation")


def _payload_of(kind: ActionType, raw: Mapping[str, Any], faults: _Faults) -> dict[str, Any] | None:
    """Return what is under ``action``, or its keys where they stand beside ``type``; None for neither."""
    inner = raw.get("action")
    beside = {name: value for name, value in raw.items() if name not in Action.model_fields}
    if inner is None:
        return beside
    if isinstance(inner, str) and kind == "decision":
        return {"action": inner, **beside}
    if beside:
        faults[
            f"{_names(beside)} beside action: the keys of a reply are {', '.join(Action.model_fields)}, "
            f"and action has {_keys(kind)}"
        ] = "schema"
    if not isinstance(inner, dict):
        faults[f"action is {_shown(inner)}; must be one object with {_keys(kind)}"] = "schema"
        return None
    return inner


def _params_of(call: Mapping[str, Any], faults: _Faults) -> dict[str, Any] | None:
    params = call.get("params")
    if not isinstance(params, dict):
        faults[f"params of {_PLACE_ORDER} must be an object with {_keys('decision')}"] = "schema"
        return None
    return params


def _checked(kind: ActionType, payload: dict[str, Any], symbol: str, faults: _Faults) -> dict[str, Any]:
    """Return a payload without keys that are not its type's; a decision may name its symbol."""
    part = _PAYLOADS.get(kind)
    known = part.model_fields if part else {}
    others = [name for name in payload if name not in known]
    if kind == "decision" and symbol and payload.get("symbol") == symbol:
        others.remove("symbol")
    if others:
        of = f"; {_shown(others[0])} belongs to {_TYPE_OF[others[0]]}" if others[0] in _TYPE_OF else ""
        is_own = kind == "decision" and symbol
        why = f": it decides {symbol} alone, and its size is set by code" if is_own else ""
        keys = "key" if len(others) == 1 else "keys"
        line = f"{kind} has no {keys} {_names(others)}{why}{of}; its keys are {_keys(kind)}"
        faults[line] = "schema"
    return {name: value for name, value in payload.items() if name in known}


def _names(names: Iterable[str]) -> str:
    return ", ".join(_shown(name) for name in list(names)[:_FAULTS_SHOWN])


def _keys(kind: ActionType) -> str:
    part = _PAYLOADS.get(kind)
    return ", ".join(part.model_fields) if part else "none (its text is reasoning)"


def _shown(value: Any) -> str:
    """Return a value of plain JSON for a message."""
    text = canonical_json(value, sort_keys=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
