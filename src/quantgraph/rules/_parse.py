"""An expression as people write it becomes a tree; every other piece of Python is refused with its place."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from quantgraph._util.parsing import parse_code
from quantgraph.errors import BadOption
from quantgraph.rules._registry import ROWS
from quantgraph.rules._tree import GIVEN, WATCHED, Node, make, make_bounded, near, number, signature

_LONGEST = 4_000
_SUMS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_CURES: dict[type[ast.AST], str] = {
    ast.BitAnd: "& is written and",
    ast.BitOr: "| is written or",
    ast.Invert: "~ is written not",
    ast.Subscript: "the value of n sessions ago is ago(x, n), not x[-n]",
    ast.Attribute: 'a method is written as a function, ago(x, n); another security as of("CODE", x)',
    ast.Tuple: "10,000 is written 10000",
}
_SIGNS = {
    r"\d\s*%": "5% is written 0.05, or 5 where the data are in percent",
    r"&&|\|\||!(?!=)|=>|=<|<>|\b(AND|OR|NOT)\b": "it has and, or, not, >=, <=, ==, !=",
    r"\b\d{6}\.[A-Z]{2}\b|[“”‘’]": 'codes stand in straight quotes, "600519.SH"',
}
"""Signs of other languages, by a regular expression, and what is written here."""


def read_condition(text: str, name: str = "rule", parts: Mapping[str, Node] = MappingProxyType({})) -> Node:
    """Read a condition, such as ``cross_up(sma(close, 5), sma(close, 20))``; ``name`` is what errors call it.

    ``parts`` are conditions that it may name.

    Raises
    ------
    BadOption
        With the column and the cure, if it is not of the language or has more than 4,000 characters.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise BadOption(f"{name}: must be an expression of 1 to {_LONGEST} characters", parameter=name)
    text = unicodedata.normalize("NFKC", text).strip("\ufeff \n\r\t")  # full-width signs of an input method
    try:
        tree = parse_code(f"({text}\n)").body
    except SyntaxError as error:
        why = next((cure for sign, cure in _SIGNS.items() if re.search(sign, text)), error.msg)
        raise BadOption(f"{name}: {text:.60} is no expression: {why}", parameter=name) from None
    if len(tree) != 1 or not isinstance(tree[0], ast.Expr):
        raise BadOption(f"{name}: {text:.60} is no single expression", parameter=name)
    try:
        found = _Reader(name, parts).node(tree[0].value)
    except RecursionError:
        raise BadOption(f"{name}: it is nested too deeply", parameter=name) from None
    if found.unit != "truth":
        message = f"{name}: {text:.60} is a value ({found.unit}), and no condition such as close > open"
        raise BadOption(message, parameter=name)
    return found


class _Reader:
    def __init__(self, name: str, parts: Mapping[str, Node]) -> None:
        self.name, self.parts = name, parts

    def refuse(self, at: ast.AST, message: str) -> BadOption:
        column = getattr(at, "col_offset", 0)
        return BadOption(f"{self.name}: {message} (column {max(1, column)})", parameter=self.name)

    def node(self, at: ast.expr) -> Node:  # noqa: C901, PLR0911 - one case a form
        """Read one piece."""
        match at:
            case ast.Constant(value=bool() | str() | bytes() | None | complex()):
                raise self.refuse(at, f"{at.value!r:.40} is no value; texts in quotes are codes and periods")
            case ast.Constant(value=value):
                return self.made(at, number, value)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.made(at, make, "not", self.node(operand))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.negative(at, self.node(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                return self.made(at, make, _SUMS[type(op)], self.node(left), self.node(right))
            case ast.BoolOp(op=op, values=values):
                return self.made(
                    at, make, "and" if isinstance(op, ast.And) else "or", *map(self.node, values)
                )
            case ast.Compare():
                return self.comparison(at)
            case ast.Name(id=name) if name in self.parts:
                return self.parts[name]
            case ast.Name(id=name):
                if name in ROWS and ROWS[name].params:
                    raise self.refuse(at, f"{name} is written {signature(ROWS[name])}")
                return self.made(at, make, name)
            case ast.Call(func=ast.Name(id=name)):
                return self.call(at, name)
        cure = next((_CURES[type(each)] for each in ast.walk(at) if type(each) in _CURES), None)
        raise self.refuse(at, cure or f"{ast.unparse(at):.60} is no part of the language")

    def negative(self, at: ast.expr, operand: Node) -> Node:
        return number(-operand.constant) if operand.name == "number" else self.made(at, make, "neg", operand)

    def comparison(self, at: ast.Compare) -> Node:
        sides = [self.node(each) for each in (at.left, *at.comparators)]
        if any(type(op) not in _COMPARISONS for op in at.ops):
            raise self.refuse(at, f"{ast.unparse(at):.60}: values are compared by > >= < <= == !=")
        parts = [
            self.made(at, make, _COMPARISONS[type(op)], left, right)
            for op, left, right in zip(at.ops, sides, sides[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else make("and", *parts)

    def call(self, at: ast.Call, name: str) -> Node:
        if name not in ROWS and name not in (*WATCHED, GIVEN):
            raise self.refuse(at, f"{name!r} is no name of the language{near(name)}")
        if any(isinstance(each, ast.Starred) for each in at.args) or any(
            each.arg is None for each in at.keywords
        ):
            raise self.refuse(at, f"{name} is written {signature(ROWS[name])}" if name in ROWS else name)
        named = {str(each.arg): self.argument(each.value) for each in at.keywords}
        if len(named) < len(at.keywords):
            raise self.refuse(at, f"{name} has a parameter twice")
        return self.made(at, make_bounded, name, *map(self.argument, at.args), **named)

    def argument(self, at: ast.expr) -> Node | float | str:
        """An operand or a constant of a call; a number may be either."""
        match at:
            case ast.Constant(value=str() as text):
                return text
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return float(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -float(value)
        return self.node(at)

    def made(self, at: ast.expr, maker: Callable[..., Node], *args: Any, **named: Any) -> Node:
        """Make a node; what is refused is told with its column."""
        try:
            return maker(*args, **named)
        except (BadOption, OverflowError) as error:
            raise self.refuse(at, str(error)) from None
