"""The tools by which a model adds and multiplies.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from langchain_core.tools import tool
from pydantic import WithJsonSchema

from quantgraph._util.docstrings import with_docstring
from quantgraph.errors import BadOption

Number = Annotated[Any, WithJsonSchema({"type": "number"})]
"""What a model passes for a number, as it is: JSON's own numbers are told from texts and truth values."""


@tool("add", parse_docstring=True)
@with_docstring
def add(a: Number, b: Number) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return _finite(_number("a", a) + _number("b", b), "a + b")


@tool("multiply", parse_docstring=True)
@with_docstring
def multiply(a: Number, b: Number) -> float:
    """Multiply two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return _finite(_number("a", a) * _number("b", b), "a * b")


def _number(name: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise BadOption(f"{name} must be a finite number, of at most 1.8e308", parameter=name)
    raise BadOption(f"{name}={value!r:.60} must be a number, without quotes", parameter=name)


def _finite(result: float, what: str) -> float:
    if math.isfinite(result):
        return result
    raise BadOption(f"{what} is larger than a number can be (1.8e308)", parameter="a")
