"""Parameters of a caller's strategy, by name: of a function, of a ``functools.partial``, and of a file."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from quantgraph.errors import BadOption

_GIVEN = (
    'a strategy is given a dict of frames by panel and field: data["ohlcv"]["close"] is a frame of sessions '
    'x symbols. Example: def cross(data): close = data["ohlcv"]["close"]; '
    "return (close > close.rolling(20).mean()).astype(float).diff()"
)
_MISTAKEN = re.compile(r"'dict'|KeyError|positional argument")
_CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")  # "FAST"


def bind(
    function: Callable[..., Any], params: Mapping[str, Any]
) -> tuple[Callable[..., Any], Callable[[Any], Any], dict[str, Any]]:
    """Return a function, what calls it with the data alone, and its parameters; plain defaults are some, too.

    Raises
    ------
    BadOption
        If it has not such a parameter, or needs one that it is not given, or a value is not plain.
    """
    given, args = dict(params), tuple[Any, ...]()
    while isinstance(function, partial):
        given, args, function = {**function.keywords, **given}, (*function.args, *args), function.func
    name = getattr(function, "__name__", type(function).__name__)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a compiled one nothing is known
        signature = inspect.signature(lambda _data, **_params: None)
    known = signature.parameters
    defaults = {each: _plain(one.default) for each, one in known.items()}
    same = {each for each, value in given.items() if defaults.get(each, ...) == _plain(value) is not ...}
    given = {each: value for each, value in given.items() if each not in same}
    try:
        bound = signature.bind(*args, None, **given)
    except TypeError as error:
        has = ", ".join([*known][len(args) + 1 :]) or "none beside the data"
        raise BadOption(f"params of {name}: {error}; it has {has}; {_GIVEN}", parameter="params") from None
    bound.apply_defaults()
    values = {each: value for each, value in [*bound.arguments.items()] if each != [*known][len(args)]}
    values |= values.pop(next((each for each, one in known.items() if one.kind is one.VAR_KEYWORD), ""), {})
    plain = {each: _plain(value) for each, value in values.items()}
    for each in given:
        if plain[each] is ...:
            raise BadOption(
                f"params: {each} of {name} is {given[each]!r:.60}; must be a finite number, a text, a "
                "boolean or a date",
                parameter="params",
            )
    call = partial(function, *args, **given) if given or args else function
    return function, call, {each: value for each, value in plain.items() if value is not ...}


def _plain(value: Any) -> Any:
    """A value as JSON, a date as its text; ``...`` if it is none."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, date):
        return value.isoformat().removesuffix("T00:00:00")
    is_plain = (
        value is None or isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))
    )
    return value if is_plain else ...


def file_parameters(cell: str) -> dict[str, Any]:
    """Names in capitals that the first statements of a cell assign literals, after docstring and imports.

    >>> file_parameters("FAST, SLOW = 5, 20; NAME = 'x'; close = prices(); LATER = 4")
    {'FAST': 5, 'SLOW': 20, 'NAME': 'x'}
    """
    found, pairs = dict[str, Any](), list[tuple[ast.expr, ast.expr]]()
    for statement in ast.parse(cell).body:
        match statement:
            case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign([ast.Name() as name], value) | ast.AnnAssign(name, _, ast.expr() as value):
                pairs = [(name, value)]
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                pairs = [*zip(names, values, strict=False)]
            case _:
                break
        try:
            literals = {ast.unparse(name): _plain(ast.literal_eval(value)) for name, value in pairs}
        except ValueError:
            break
        found |= {name: value for name, value in literals.items() if _CAPITALS.fullmatch(name)}
    return {name: value for name, value in found.items() if value is not ...}


def call_text(name: str, params: Mapping[str, Any]) -> str:
    """A name with its parameters.

    >>> call_text("cross", {"fast": 10, "slow": 30})
    'cross(fast=10, slow=30)'
    """
    return f"{name}({', '.join(f'{each}={value!r}' for each, value in params.items())})" if params else name


def with_hint(error: str) -> str:
    """The error of a function, and what it is given where it seems to take the data for something else."""
    return f"{error}; {_GIVEN}" if _MISTAKEN.search(error) else error
