"""Values that come from outside, from JSON, a model, a caller: numbers, and what does not fit its model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, get_args

from quantgraph._util.texts import short_line
from quantgraph.errors import BadOption

if TYPE_CHECKING:  # most who read numbers load no pydantic
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an int; True and False are not.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def check_whole(name: str, value: object, least: int) -> None:
    """Require an option to be an int from ``least`` on."""
    if not is_whole(value) or value < least:
        raise BadOption(f"{name}={value!r:.40}; must be a whole number >= {least}", parameter=name)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is an int or a float, NaN and infinity among them; True and False are not."""
    return isinstance(value, float) or is_whole(value)


def finite_number(value: object) -> float | None:
    """Return a finite number as a float; None for anything else, an int beyond the floats among it.

    >>> finite_number(2), finite_number("2"), finite_number(float("inf")), finite_number(10**400)
    (2.0, None, None, None)
    """
    try:
        number = float(value) if is_number(value) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def plain_number(value: Decimal | float) -> int | float:
    """A finite number as JSON: a whole one without decimals.

    >>> plain_number(Decimal("100.0")), plain_number(Decimal("0.5"))
    (100, 0.5)
    """
    return int(value) if value == int(value) else float(value)


def json_object(text: str | None) -> dict[str, Any]:
    """A text's JSON object; empty if the text is not one.

    >>> json_object('{"a": 1}'), json_object("[1]"), json_object(None)
    ({'a': 1}, {}, {})
    """
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


_DEEPEST = 100


def json_of(content: bytes | str) -> Any:
    """Parse JSON of anybody; ``ValueError`` if it is none, or deeper than what reads it may recurse.

    >>> json_of('{"a": [1]}')
    {'a': [1]}
    """
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level, depth = [value], 0
    while level := [
        inner
        for each in level
        if isinstance(each, dict | list)
        for inner in (each.values() if isinstance(each, dict) else each)
    ]:
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
    return value


def near_or_valid(name: str, valid: Collection[str]) -> str:
    """What is valid in place of an unknown name.

    >>> near_or_valid("Modle", ["model", "seed"]), near_or_valid("x", ["model", "seed"])
    ("did you mean 'model'?", 'valid are model, seed')
    """
    close = get_close_matches(name.lower(), valid, n=1)
    return f"did you mean {close[0]!r}?" if close else f"valid are {', '.join(valid)}"


def short_value(value: object) -> str:
    """A value for a message; not what an object or a list holds, among which may be a key.

    >>> short_value("US"), short_value(["sk-1"])
    ("'US'", 'a list')
    """
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    return f"{value!r:.80}"


def first_of(lines: Collection[str], most: int = 3) -> str:
    """The first lines as one, and how many more there are.

    >>> first_of(["a is missing", "b is missing"], 1)
    'a is missing; and 1 more'
    """
    more = [f"and {len(lines) - most} more"] if len(lines) > most else []
    return "; ".join([*lines][:most] + more)


class Fault(NamedTuple):
    """A place where a document does not fit its model.

    ``shown`` is the value, shortened, ``this value`` for a secret, None if there is none; ``valid`` is the
    field's description, which completes "must be"; ``problem`` is in pydantic's words.
    """

    path: tuple[str | int, ...]
    place: str
    shown: str | None
    valid: str
    problem: str
    line: str


def faults_of(
    error: ValidationError, model: type[BaseModel], *, show: Callable[[Any], str] = short_value
) -> list[Fault]:
    """What does not fit ``model``; a field of type ``SecretStr`` or with ``repr=False`` is a secret."""
    errors = error.errors(include_url=False, include_context=False)
    # A default that is made of another field is not made if that field has a fault, which is reported.
    return [_fault(each, model, show) for each in errors if each["type"] != "default_factory_not_called"]


def _fault(error: ErrorDetails, model: type[BaseModel], show: Callable[[Any], str]) -> Fault:
    path, field, keys = error["loc"], None, model.model_fields
    for part in path:
        if part in keys:
            field = keys[str(part)]
            keys = _keys_within(field.annotation)
    steps = (f"[{part}]" if isinstance(part, int) else f".{short_line(part, 60)}" for part in path)
    place = "".join(steps).removeprefix(".")
    is_missing = error["type"] == "missing"
    is_secret = field is not None and (not field.repr or "SecretStr" in str(field.annotation))
    is_none = is_missing or error["input"] is None
    shown = None if is_none else "this value" if is_secret else show(error["input"])
    valid = (field and field.description) or ""
    problem = "missing" if is_missing else error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        line = f"{place} is not a key; {near_or_valid(str(path[-1]), keys)}"
    elif valid:
        line = f"{place} is {shown or 'missing'}; must be {valid}"
    else:
        line = f"{place}: {problem}" if place else problem
    return Fault(path, place, shown, valid, problem, line)


def _keys_within(annotation: Any) -> dict[str, Any]:
    """The fields of the model that an annotation holds, such as ``dict[str, Model] | None``."""
    own = getattr(annotation, "model_fields", None)
    inner = (_keys_within(each) for each in get_args(annotation))
    return own if own is not None else next(filter(None, inner), {})


_NUMBER_LENGTH = 40
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?")  # "1688.5"
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")  # "1,688.50"


def read_number(value: object) -> float | None:
    """Return a finite number, also one written as text; None for anything else.

    >>> read_number("5,000"), read_number(" 1688.5 "), read_number("5,00")
    (5000.0, 1688.5, None)
    """
    if isinstance(value, str):
        text = value.strip()[: _NUMBER_LENGTH + 1]
        plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
        is_one = len(text) <= _NUMBER_LENGTH and _NUMBER.fullmatch(plain)
        return finite_number(float(plain)) if is_one else None
    return finite_number(value)
