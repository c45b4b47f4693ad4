"""Repair what a model almost wrote: broken JSON without missing words, and strings that stand for null.

A repair changes quotes, commas and colons alone: the words, numbers and brackets of the object, in their
order, are the same before and after, or there is no repair. Values that do not fit the schema stay unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import json_repair

_NULLS = frozenset({"", "null", "none"})
_LITERALS = {"none": "null"}
_TOKEN = re.compile(r"""-?(?:[1-9]\d*|0)?\.?\d+(?:[eE][+-]?\d+)?(?!\w)|\w+|[^\s\w:,"'“”‘’\\`]""")
_STRUCTURE = re.compile(r"""[{}\[\]]|["'“”]\s*[:,]""")
_LEADING_ZEROS = re.compile(r"-?0\d")


def repair_json(text: str) -> Any:
    """The value of balanced but broken JSON; None if it needs a guess.

    Quotes, commas, colons and Python's literals are repaired. Duplicate keys, missing values, comments, units
    behind numbers, and anything else that would lose or add a word are not.

    Parameters
    ----------
    text
        From the opening brace to the closing brace; not a truncated object.

    Examples
    --------
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
    return value if _tokens(written) == _tokens(text) and not _swallowed(value) else None


def _swallowed(value: Any) -> bool:
    """Whether a string may hold JSON structure: an extra quote makes fields part of the string before."""
    if isinstance(value, str):
        return bool(_STRUCTURE.search(value))
    if isinstance(value, dict):
        return any(_swallowed(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(map(_swallowed, value))


def _tokens(text: str) -> list[str | float]:
    return [_token(word) for word in _TOKEN.findall(text)]


def _token(word: str) -> str | float:
    try:
        if not _LEADING_ZEROS.match(word):
            return float(word)
    except ValueError:
        pass  # a word
    word = word.casefold()
    return _LITERALS.get(word, word)


def normalise_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value with null in place of ``"null"``, ``"None"`` or ``""``.

    Such a string becomes null if the schema allows null. If the schema allows neither null nor strings and
    the field is optional, the field is left out. A string that the schema allows stays.

    Parameters
    ----------
    schema
        Without references, see :func:`langchain_core.utils.json_schema.dereference_refs`.

    Examples
    --------
    >>> fields = {"note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "n": {"type": "integer"}}
    >>> normalise_nulls({"note": "None", "n": ""}, {"type": "object", "properties": fields})
    {'note': None}
    """
    options = _options(schema)
    if isinstance(value, str):
        is_null = _says_null(value) and any(option.get("type") == "null" for option in options)
        return None if is_null else value
    if isinstance(value, list):
        items = [option["items"] for option in options if isinstance(option.get("items"), Mapping)]
        return [normalise_nulls(item, items[0]) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    return _mended_object(value, options)


def _mended_object(value: dict[str, Any], options: list[Mapping[str, Any]]) -> dict[str, Any]:
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
        item = normalise_nulls(item, field)  # noqa: PLW2901
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
