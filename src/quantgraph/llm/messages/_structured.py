"""JSON asked of a model and read from its reply, repaired where only quotes and commas were wrong.

A repair changes quotes, commas and colons alone: the words, numbers and brackets of the object, in their
order, are the same before and after, or there is no repair. Values that do not fit the schema stay unchanged.

Read a JSON object out of a model's reply, and ask again if that fails.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Never, TypeVar

import json_repair
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.utils.json_schema import dereference_refs
from pydantic import BaseModel, ValidationError

from quantgraph._util.values import faults_of, first_of
from quantgraph.errors import BadOption, ModelOutputInvalid
from quantgraph.llm._model_call import cached_attempt
from quantgraph.llm.messages._json import is_cut_off, is_too_deep, reply_text

_NULLS = frozenset({"", "null", "none"})
_LITERALS = {"none": "null"}
_LOOSE_TOKEN = re.compile(r"""-?(?:[1-9]\d*|0)?\.?\d+(?:[eE][+-]?\d+)?(?!\w)|\w+|[^\s\w:,"'“”‘’\\`]""")  # "5"
_STRUCTURE = re.compile(r"""[{}\[\]]|["'“”]\s*[:,]""")  # "{"
_LEADING_ZEROS = re.compile(r"-?0\d")  # "05"
_DEEPEST_ARGUMENTS, _MOST_WHOLE = 64, 10**15
_WHOLE = re.compile(r"[+-]?\d{1,15}(\.0*)?", re.ASCII)  # "20.0"


def repair_json(text: str) -> Any:
    """The value of balanced but broken JSON; None if it needs a guess.

    Quotes, commas, colons and Python's literals are repaired. Duplicate keys, missing values, comments, units
    behind numbers, and anything else that would lose or add a word are not.

    >>> repair_json("{'action': 'buy', sure: True,}")
    {'action': 'buy', 'sure': True}
    >>> repair_json("{'weight': 5%}"), repair_json("{'a': 1, 'a': 2}")
    (None, None)
    """
    try:
        value = json_repair.loads(text, strict=True, skip_json_loads=True)
        written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value if _tokens(written) == _tokens(text) and not _hides_structure(value) else None


def _hides_structure(value: Any) -> bool:
    """Whether a string may hold JSON structure: an extra quote makes fields part of the string before."""
    if isinstance(value, str):
        return bool(_STRUCTURE.search(value))
    if isinstance(value, dict):
        return any(_hides_structure(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(map(_hides_structure, value))


def _tokens(text: str) -> list[str | float]:
    return [_token(word) for word in _LOOSE_TOKEN.findall(text)]


def _token(word: str) -> str | float:
    try:
        if not _LEADING_ZEROS.match(word):
            return float(word)
    except ValueError:
        pass  # a word
    word = word.casefold()
    return _LITERALS.get(word, word)


def typed_args(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a tool in the types of its schema; ``BadOption`` if they are nested deeper than 64 levels.

    Null is absent where it is not allowed. Whole numbers are text, and text a whole number, a list (JSON,
    or joined by commas) or an object (JSON), as the schema wants. What cannot be read stays as it is.
    """
    with suppress(RecursionError):
        mended: dict[str, Any] = normalise_nulls(dict(args), schema, loose=True)
        if not is_too_deep(mended, _DEEPEST_ARGUMENTS):
            return mended
    raise BadOption(f"the arguments are nested deeper than {_DEEPEST_ARGUMENTS} levels; send flat ones")


def _as_typed(value: Any, kinds: set[str | None]) -> Any:
    if isinstance(value, str):
        return _from_text(value, kinds)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) < _MOST_WHOLE or value != int(value):
        return value
    return int(value) if "integer" in kinds else str(int(value)) if "string" in kinds else value


def _from_text(text: str, kinds: set[str | None]) -> Any:
    word = text.strip()
    if kinds & {"array", "object"} and word[:1] in {"[", "{"}:
        with suppress(ValueError, RecursionError):
            value = _DECODER.decode(word)
            return value if ("array" if isinstance(value, list) else "object") in kinds else text
        return text
    if "string" in kinds or _says_null(text):
        return text
    if "array" in kinds:
        return [part.strip() for part in re.split("[,，]", word) if part.strip()]  # "open, close"
    return int(word.split(".")[0]) if "integer" in kinds and _WHOLE.fullmatch(word) else text


def normalise_nulls(value: Any, schema: Mapping[str, Any], *, loose: bool = False) -> Any:
    """A value with null in place of ``"null"``, ``"None"`` or ``""``.

    Such a string becomes null if the schema allows null.

    Parameters
    ----------
    schema
        Without references, see :func:`langchain_core.utils.json_schema.dereference_refs`.

    >>> fields = {"note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "n": {"type": "integer"}}
    >>> normalise_nulls({"note": "None", "n": ""}, {"type": "object", "properties": fields})
    {'note': None}
    """
    options = _options(schema)
    kinds = {option.get("type") for option in options}
    value = _as_typed(value, kinds) if loose and None not in kinds else value
    if isinstance(value, str):
        return None if _says_null(value) and "null" in kinds else value
    if isinstance(value, list):
        items = [option["items"] for option in options if isinstance(option.get("items"), Mapping)]
        return [normalise_nulls(item, items[0], loose=loose) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    return _mended_object(value, options, loose)


def _mended_object(value: dict[str, Any], options: list[Mapping[str, Any]], loose: bool) -> dict[str, Any]:
    required = {name for option in options for name in option.get("required", ())}
    properties: dict[str, Any] = {}
    others: Mapping[str, Any] = {}
    for option in options:
        properties |= option.get("properties", {})
        more = option.get("additionalProperties")
        others = more if isinstance(more, Mapping) else others
    result = {}
    for name, item in value.items():
        field = properties.get(name, others)
        item = normalise_nulls(item, field, loose=loose)  # noqa: PLW2901
        if loose and item is None and not {None, "null"} & {each.get("type") for each in _options(field)}:
            continue
        if isinstance(item, str) and _says_null(item) and name not in required and not _takes_text(field):
            continue
        result[name] = item
    return result


def _says_null(text: str) -> bool:
    return text.strip().casefold() in _NULLS


def _takes_text(schema: Mapping[str, Any]) -> bool:
    """Whether a schema allows any string; a schema without types does."""
    return any(
        option.get("type") in (None, "string") and not {"enum", "const"} & option.keys()
        for option in _options(schema)
    )


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives of a schema."""
    inner = schema.get("anyOf") or schema.get("oneOf")
    if inner:
        return [deep for option in inner for deep in _options(option)]
    kinds = schema.get("type")
    return [{**schema, "type": kind} for kind in kinds] if isinstance(kinds, list) else [schema]


T = TypeVar("T", bound=BaseModel)

TWICE = "(given twice)"
"""Value of a key that an object has twice, see :func:`read_object`."""

_EXCERPT = 80
_FAULTS_SHOWN = 5
_UNCLOSED_BRACES = 8  # bounds the work on a reply of opening braces alone
_OBJECTS = 1_000  # bounds the work on a reply of small objects, each of which may need a repair
_LONGEST = 1_000_000  # characters; reading more may take minutes
_DEEPEST = 2_000
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)  # "{"
_START = re.compile(r"</?think(?:ing)?>|[{\[]", re.IGNORECASE)  # "<think>"
_THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)  # "</think>"
_LOOKS_LIKE_OBJECT = re.compile(r"\{\s*([\"'“}]|\w+\s*:)")  # "{close:"
_LOOKS_LIKE_LIST = re.compile(r"\[\s*\{\s*[\"'}]")  # "[{'close': 1}]"
_GOES_ON = re.compile(r"\s*(?:,?\s*[\"'“]|[:}\]])")  # "}": an extra brace has cut the object in two
_FENCE_BEFORE = re.compile(r"```\s*(?:json\w*)?\s*\Z", re.IGNORECASE)  # "```json"


@dataclass(frozen=True, kw_only=True)
class JsonCandidate:
    """A piece of a reply that is, or was meant to be, JSON: its value or its problem.

    A list has both: it is readable, but not an object.
    """

    begin: int
    value: Any = None
    problem: str | None = None
    fenced: bool = False


def read_json(text: str | Sequence[str | dict[str, Any]], schema: type[T], *, cut_off: bool = False) -> T:
    """Read the JSON object of a reply as ``schema``.

    The object may be bare, fenced, or inside prose; ``<think>`` blocks are skipped. Of several objects the
    fenced ones come first, and the last one that fits the schema is taken. ``"null"``, ``"None"`` and ``""``
    are null in a nullable field and absent in another optional field; a number may be a string.

    Broken JSON is repaired if the repair adds and loses no word. An object that is never closed is truncated,
    which is a fault, as is any broken object of a truncated reply.

    Parameters
    ----------
    text
        Content of the reply: a string or a list of content blocks.
    schema
        Schema of the object.
    cut_off
        Whether the reply is truncated, see :func:`~quantgraph.llm.messages.is_cut_off`.

    Raises
    ------
    ModelOutputInvalid
        The message is one line: the wrong keys and the valid ones, the place where the JSON breaks, or the
        beginning of a reply without JSON. NaN, infinite numbers and duplicate keys are faults.

    Examples
    --------
    >>> class Answer(BaseModel):
    ...     action: str
    >>> read_json('I would say {"action": "hold {for now}"}.', Answer)
    Answer(action='hold {for now}')
    """
    reply = reply_text(text)
    candidates = find_json(reply, cut_off=cut_off)
    problem: ModelOutputInvalid | None = None
    for one in reversed(candidates):
        if one.problem is not None:
            problem = problem or ModelOutputInvalid(f"the reply's JSON is broken: {one.problem}", reply=reply)
            break  # an object before a broken one may be a draft of it
        try:
            return schema.model_validate_json(json.dumps(normalise_nulls(one.value, _plain_schema(schema))))
        except ValidationError as error:
            problem = problem or _misfit(error, schema, reply)
    begins = f"it begins {_begin(reply)!r}" if reply.strip() else "it is empty"
    raise problem or ModelOutputInvalid(f"the reply holds no JSON object; {begins}", reply=reply)


def read_object(message: AIMessage) -> dict[str, Any]:
    """Read the JSON object of a reply, for a caller that judges each of its parts for itself.

    As :func:`read_json`, without a schema. Only broken JSON is a fault of the whole: NaN and infinities are
    read as text, and a repeated key as :data:`TWICE`.

    Raises
    ------
    ModelOutputInvalid
        The message is one line; ``data["reply"]`` has the reply's text.
    """
    reply, cut_off = reply_text(message.content), is_cut_off(message)
    candidates = find_json(reply, cut_off=cut_off, decoder=_LENIENT)
    last = candidates[-1] if candidates else None
    if last is None or not isinstance(last.value, dict) or last.problem is not None:
        begins = f"it begins {_begin(reply)!r}" if reply.strip() else "it is empty"
        problem = (
            f"the reply's JSON is broken: {last.problem}"
            if last is not None
            else f"the reply holds no JSON object; {begins}"
        )
        ending = "; the reply was cut off" if cut_off else ""
        raise ModelOutputInvalid(f"{problem}{ending}", reply=reply)
    value: dict[str, Any] = last.value
    return value


def ask_json(
    agent: Callable[[dict[str, list[AnyMessage]]], Mapping[str, Any]],
    question: Sequence[AnyMessage],
    schema: type[T],
    *,
    check: Callable[[Sequence[AnyMessage]], None] = lambda _replies: None,
) -> T:
    """Answer a question with an object of ``schema``.

    An unreadable answer gets one more question in the same conversation, which names its faults.

    Parameters
    ----------
    agent
        Takes ``{"messages": conversation}`` and returns the state with its replies appended: ``invoke`` of an
        agent of LangChain.
    question
        The conversation up to and including the question.
    check
        Called with the new messages; raises if they cannot be an answer.

    Raises
    ------
    ModelOutputInvalid
        If the second answer is unreadable too; the error names its faults.
    QuantGraphError
        What ``agent`` and ``check`` raise.
    """
    conversation, replies = list(question), list[AnyMessage]()
    try:
        with cached_attempt():
            replies += agent({"messages": conversation})["messages"][len(conversation) :]
            check(replies)
            return _read_last(replies, schema)
    except ModelOutputInvalid as error:
        if not replies:
            raise
        fault = error.message
    repair = (
        f"Your last reply could not be used: {fault}. "
        "Answer the question again, with one whole JSON object and nothing else."
    )
    conversation += [*replies, HumanMessage(repair)]
    with cached_attempt():
        replies = agent({"messages": conversation})["messages"][len(conversation) :]
        check(replies)
        return _read_last(replies, schema)


def _read_last(replies: Sequence[AnyMessage], schema: type[T]) -> T:
    last = replies[-1]
    answer = last if isinstance(last, AIMessage) else AIMessage(last.content)
    return read_json(answer.content, schema, cut_off=is_cut_off(answer))


@cache
def _plain_schema(schema: type[BaseModel]) -> dict[str, Any]:
    plain: dict[str, Any] = dereference_refs(schema.model_json_schema())
    return plain


def find_json(
    reply: str, *, cut_off: bool = False, decoder: json.JSONDecoder | None = None
) -> list[JsonCandidate]:
    """Pieces of a reply that are, or were meant to be, JSON objects, in order; only fenced ones if any."""
    found = _scan(reply, cut_off, decoder or _DECODER)
    return [one for one in found if one.fenced] or found


def _begin(reply: str) -> str:
    return " ".join(reply.split())[:_EXCERPT]


def _misfit(error: ValidationError, schema: type[BaseModel], reply: str) -> ModelOutputInvalid:
    faults = {fault.place or "(the object)": fault.problem for fault in faults_of(error, schema)}
    shown = first_of([f"{key!r}: {message}" for key, message in faults.items()], _FAULTS_SHOWN)
    keys = ", ".join(info.alias or name for name, info in schema.model_fields.items())
    line = " ".join(f"the reply's JSON does not fit: {shown} (its keys: {keys})".split())
    return ModelOutputInvalid(line, reply=reply, faults=faults)


def _scan(reply: str, cut_off: bool, decoder: json.JSONDecoder) -> list[JsonCandidate]:
    """Find JSON at the top level of a reply, in order; thinking blocks are skipped."""
    if len(reply) > _LONGEST:
        return [JsonCandidate(begin=0, problem=f"of {len(reply)} characters, at most {_LONGEST} are read")]
    all_found: list[JsonCandidate] = []
    position = unclosed = seen = 0
    while unclosed < _UNCLOSED_BRACES and seen < _OBJECTS and (start := _START.search(reply, position)):
        at, position = start.start(), start.end()
        if start.group().startswith("</"):
            all_found.clear()  # the prompt opened this thinking block
        elif start.group().startswith("<"):
            end = _THOUGHT_END.search(reply, at)
            if end is None:
                return [
                    JsonCandidate(
                        begin=at, problem="its thinking block is never closed; the reply was cut off"
                    )
                ]
            position = end.end()
        elif start.group() == "{" or _LOOKS_LIKE_LIST.match(reply, at):
            found, position = _decode(reply, at, cut_off, decoder)
            unclosed += position == at + 1
            seen += found is not None
            all_found += [found] if found else []
    return all_found


def _decode(
    reply: str, at: int, cut_off: bool, decoder: json.JSONDecoder
) -> tuple[JsonCandidate | None, int]:
    """Decode JSON at a bracket; return it with the position behind it."""
    fenced = _FENCE_BEFORE.search(reply, max(0, at - 40), at) is not None
    if reply[at] == "{" and not _LOOKS_LIKE_OBJECT.match(reply, at):
        return None, _balanced_end(reply, at) or at + 1
    try:
        value, end = decoder.raw_decode(reply, at)
    except RecursionError:
        return JsonCandidate(begin=at, problem="it is nested too deeply", fenced=fenced), len(reply)
    except ValueError as error:
        return _broken(reply, at, error, fenced=fenced, mend=not cut_off)
    if isinstance(value, list):
        problem = "it is a list; one object is asked for"
        return JsonCandidate(begin=at, value=value, problem=problem, fenced=fenced), end
    return JsonCandidate(begin=at, value=value, fenced=fenced), end


def _broken(
    reply: str, at: int, error: ValueError, *, fenced: bool, mend: bool
) -> tuple[JsonCandidate | None, int]:
    """Handle a bracket that looks like JSON but is not valid; a broken object is skipped whole."""
    end = _balanced_end(reply, at) if reply[at] == "{" else None
    if end is None and _THOUGHT_END.search(reply, at):
        return None, at + 1
    if end is None:
        problem = f"{_begin(reply[at:])!r} is never closed or broken inside; was the reply cut off?"
        return JsonCandidate(begin=at, problem=problem, fenced=fenced), len(reply)
    mend = mend and isinstance(error, json.JSONDecodeError) and not _GOES_ON.match(reply, end)
    value = repair_json(reply[at:end]) if mend else None
    if isinstance(value, dict):
        return JsonCandidate(begin=at, value=value, fenced=fenced), end
    reason = (
        f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else str(error)
    )
    return JsonCandidate(begin=at, problem=f"{reason}, in {_begin(reply[at:end])!r}", fenced=fenced), end


def _balanced_end(reply: str, at: int) -> int | None:
    """The position behind the brace that closes the one at ``at``; braces in strings do not count."""
    depth = 0
    for token in _TOKEN.finditer(reply, at):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0 and token.group() == "}":
            return token.end()
        if depth > _DEEPEST:
            return None
    return None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} is given twice")
    return value


def _mark_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, each in pairs:
        value[key] = TWICE if key in value else each
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return number


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_float=_finite, parse_constant=_no_constant, strict=False
)
_LENIENT = json.JSONDecoder(object_pairs_hook=_mark_duplicates, parse_constant=str, strict=False)
