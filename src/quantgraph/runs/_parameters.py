"""Parameters of a caller's strategy, by name: of a function, of a ``functools.partial``, and of a file."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

import numpy as np

from quantgraph.errors import BadOption

GIVEN = (
    'a strategy is given a dict of frames by panel and field: data["ohlcv"]["close"] is a frame of sessions '
    'x symbols. Example: def cross(data): close = data["ohlcv"]["close"]; '
    "return (close > close.rolling(20).mean()).astype(float).diff()"
)
"""What a function must know of its argument."""
_MISTAKEN = re.compile(r"'dict'|^KeyError|positional argument|missing \d+ required")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")  # "FAST"


@dataclass(frozen=True, kw_only=True)
class BoundFunction:
    """A function with its parameters; ``call`` takes the data alone."""

    function: Callable[..., Any]
    call: Callable[[Any], Any]
    params: Mapping[str, Any]


def bind(function: Callable[..., Any], params: Mapping[str, Any]) -> BoundFunction:
    """Bind parameters to a function or a partial of one; those of its defaults that are plain count, too.

    Raises
    ------
    BadOption
        If the function has no such parameter, or needs one that it is not given, or a value is not plain.
    """
    given, args = dict(params), tuple[Any, ...]()
    while isinstance(function, partial):
        given, args = _kept(given, function.keywords), (*function.args, *args)
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a compiled one nothing is known
        known = None
    plain = {each: plain_value(name, each, value) for each, value in given.items()}
    if known is not None:
        own = _own_parameters(name, known, len(args))
        _check_names(name, known, own, given)
        first = {each: plain_value(name, each, value) for each, value in zip(known, args, strict=False)}
        defaults = {each: one.default for each, one in own.items() if _is_plain(one.default)}
        plain = first | {each: _plain(value) for each, value in defaults.items()} | plain
        plain = {each: plain[each] for each in dict.fromkeys((*known, *sorted(plain))) if each in plain}
        typed = _kept(given, defaults)
        given = {each: typed[each] for each in given}
    call = partial(function, *args, **given) if given or args else function
    return BoundFunction(function=function, call=call, params=plain)


def _kept(given: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Both; a date that is given as its text stays the date that was there before."""
    same = {each for each, value in before.items() if each in given and _is_plain(value)}
    return {**before, **given, **{each: before[each] for each in same if _plain(before[each]) == given[each]}}


def _own_parameters(
    name: str, known: Mapping[str, inspect.Parameter], bound: int
) -> dict[str, inspect.Parameter]:
    """The parameters that have a name and are not the data, which are the first that is not bound."""
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not known:
        raise BadOption(f"{name} takes no argument; {GIVEN}", parameter="strategy")
    return {each: one for each, one in list(known.items())[bound + 1 :] if one.kind not in many}


def _check_names(
    name: str,
    known: Mapping[str, inspect.Parameter],
    own: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
) -> None:
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        for each in given:
            if each not in own:
                has = ", ".join(own) or "no parameter beside the data"
                raise BadOption(f"params: {name} has no parameter {each!r}; it has {has}", parameter="params")
    needed = [each for each, one in own.items() if one.default is one.empty and each not in given]
    if needed:
        raise BadOption(
            f"{name} needs {', '.join(needed)}: give params={{{needed[0]!r}: …}}, or it takes one argument: "
            f"{GIVEN}",
            parameter="params",
        )


def plain_value(name: str, parameter: str, value: object) -> Any:
    """The JSON value of a parameter: a number, a text, a boolean, None, or a date as text."""
    if not _is_plain(value):
        raise BadOption(
            f"params: {parameter} of {name} is {value!r:.60}; must be a finite number, a text, a boolean "
            "or a date",
            parameter="params",
        )
    return _plain(value)


def _is_plain(value: object) -> bool:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str | date)


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, datetime) and value.time() == datetime.min.time():
        value = value.date()
    return value.isoformat() if isinstance(value, date) else value


def file_parameters(cell: str) -> dict[str, Any]:
    """Names in capitals that the first statements of a cell assign plain values, after docstring and imports.

    >>> file_parameters("FAST, SLOW = 5, 20; NAME = 'x'; x = 3; LATER = 4")
    {'FAST': 5, 'SLOW': 20, 'NAME': 'x'}
    """
    found: dict[str, Any] = {}
    for statement in ast.parse(cell).body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_text or isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        values = dict(_assigned(statement))
        if not values:
            break
        found |= values
    return found


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, Any]]:
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return
    try:
        value = ast.literal_eval(statement.value or ast.Tuple([]))
    except ValueError:
        return
    for target in targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value if isinstance(target, ast.Tuple) and isinstance(value, tuple) else [value]
        for name, each in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and _CAPITALS.fullmatch(name.id) and _is_plain(each):
                yield name.id, each


def call_text(name: str, params: Mapping[str, Any]) -> str:
    """A name with its parameters.

    >>> call_text("cross", {"fast": 10, "slow": 30})
    'cross(fast=10, slow=30)'
    """
    return f"{name}({', '.join(f'{each}={value!r}' for each, value in params.items())})" if params else name


def with_hint(error: str) -> str:
    """The error of a function, and what it is given where it seems to take the data for something else."""
    return f"{error}; {GIVEN}" if _MISTAKEN.search(error) else error
