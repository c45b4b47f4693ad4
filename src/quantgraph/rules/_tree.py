"""A rule as a tree of nodes, each checked when it is made: its parameters and the units that it compares."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import cast

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadOption
from quantgraph.rules._registry import ROWS, Kind, Row, Unit

Arg = "Node | float | str"

MOST_NODES, MOST_DEPTH, MOST_SESSIONS = 500, 40, 2_000
PERIODS = {"week": ("W", "周"), "month": ("M", "月"), "quarter": ("Q", "季")}
"""By name: what pandas calls it, and its Chinese word."""
SUMS: Mapping[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARISONS: Mapping[str, str] = {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}
WATCHED = ("of", "index")
"""Nodes about another security and about an index: its code, then a value or a truth."""
GIVEN = "given"
"""A condition that code of a cell before hands over, as a signal of this name: 1 where it holds."""
_CODE = re.compile(r"[0-9A-Z.^-]{1,12}")  # 600519.SH, BRK-B


@dataclass(frozen=True)
class Node:
    """A node with its operands and constants; :func:`make` checks it and finds its unit."""

    name: str
    args: tuple[Node | float | str, ...] = ()
    unit: Unit = field(default="truth", compare=False)
    size: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    @property
    def watched(self) -> tuple[str, Node]:
        """The code of the security or index that it is of, and what it is of it."""
        code, inner = self.args
        return str(code), inner  # type: ignore[return-value]

    @property
    def constant(self) -> float:
        """The value of a number."""
        return self.args[0]  # type: ignore[return-value]

    @property
    def operands(self) -> tuple[Node, ...]:
        """The nodes that it is of."""
        return tuple(arg for arg in self.args if isinstance(arg, Node))


def number(value: float) -> Node:
    """A constant."""
    if not math.isfinite(value):
        raise _bad(f"{value} is not a number to compare with")
    return Node("number", (float(value),), "number")


def make(name: str, *args: Node | float | str, **named: Node | float | str) -> Node:
    """Make a node; ``BadOption`` if there is none, an argument is of another kind, or units differ."""
    if name in SUMS or name in COMPARISONS or name == "neg":
        return _made(name, args, _unit_of_operator(name, args))
    if name in {"and", "or", "not"}:
        for each in args:
            _check(each, "truth", name, name)
        flat = (
            each.args if isinstance(each, Node) and each.name == name != "not" else (each,) for each in args
        )
        return _made(name, tuple(chain.from_iterable(flat)), "truth")
    if name in WATCHED:
        return _watched(name, args)
    if name == GIVEN:
        _check(args[0] if len(args) == 1 else "", "label", "name", name)
        return _made(name, args, "truth")
    if name not in ROWS:
        raise _bad(f"{name!r} is no name of the language{near(name)}")
    row = ROWS[name]
    given = _bound(row, args, named)
    for param, arg in zip(row.params, given, strict=True):
        _check(arg, param.kind, param.name, name)
    if "talib." in row.formula and 1.0 in given:
        raise _bad(f"{name}: n = 1; must be at least 2")
    values = [arg for arg in given if isinstance(arg, Node) and arg.unit != "truth"]
    unit = values[0].unit if row.unit == "same" and values else row.unit
    if name.startswith("cross"):
        _unit_of_operator("gt", given)
    unit = cast("Unit", unit)
    return _made(name, given, _raw(unit) if row.across else unit)


def _raw(unit: Unit) -> Unit:
    return "raw price" if unit == "price" else "raw volume" if unit == "volume" else unit


def make_bounded(name: str, *args: Node | float | str, **named: Node | float | str) -> Node:
    """Make a node within the bounds of expressions; sentences have bounds of their own."""
    node = make(name, *args, **named)
    given = dict(
        zip((each.name for each in ROWS[name].params) if name in ROWS else (), node.args, strict=False)
    )
    for param, arg in given.items():
        if isinstance(arg, float) and param != "width" and arg > MOST_SESSIONS:
            raise _bad(f"{name}: {param} = {number_text(arg)}; must be {_WANTED['sessions']}")
    if "fast" in given and given["fast"] >= given["slow"]:  # type: ignore[operator]
        raise _bad(f"{name}: fast = {given['fast']:g} and slow = {given['slow']:g}; fast must be below slow")
    return node


def near(name: str) -> str:
    """The nearest name of the language, as a question."""
    found = difflib.get_close_matches(name.lower(), [*ROWS, *WATCHED], 1)
    return f"; did you mean {found[0]!r}?" if found else ""


def signature(row: Row) -> str:
    """How a node is written: ``rsi(n=14)``."""
    params = (f"{each.name}={each.default:g}" if each.default else each.name for each in row.params)
    return f"{row.name}({', '.join(params)})"


def language_of_rules() -> str:
    """All that stands in an expression, for a prompt: fields, and the nodes with their parameters."""
    fields = " ".join(row.name for row in ROWS.values() if not row.formula)
    nodes = " ".join(signature(row).replace(", ", ",") for row in ROWS.values() if row.formula)
    return f"{fields}; {nodes}; + - * / > >= < <= == != and or not"


def walk(*nodes: Node) -> Iterator[Node]:
    """All nodes of trees, each as often as it is there."""
    for node in nodes:
        yield node
        yield from walk(*node.operands)


def lookback(node: Node, /, **given: int) -> int:
    """Sessions before today's that a tree needs to be known; those of conditions of code are ``given``."""
    row, own = ROWS.get(node.name), given.get(str(node.args[0]), 0) if node.name == GIVEN else 0
    if row:
        own = row.lookback({param.name: arg for param, arg in zip(row.params, node.args, strict=True)})
    return own + max((lookback(each, **given) for each in node.operands), default=0)


def edited(node: Node, path: Sequence[int], arg: Node | float | str) -> Node:
    """A tree with the argument at a path of positions replaced, checked anew."""
    if not path:
        if not isinstance(arg, Node):
            raise _bad(f"{arg!r} stands for a whole rule; must be a node")
        return arg
    at, *rest = path
    if not 0 <= at < len(node.args):
        raise _bad(f"{node.name} has no argument {at}; it has {len(node.args)}")
    old = node.args[at]
    if rest and not isinstance(old, Node):
        raise _bad(f"{node.name} has the constant {old!r} at {at}, and nothing below it")
    args = list(node.args)
    args[at] = edited(old, rest, arg) if rest and isinstance(old, Node) else arg
    return number(args[0]) if node.name == "number" and isinstance(args[0], float) else make(node.name, *args)


_BINDS = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(COMPARISONS, 4),
    "add": 5,
    "sub": 5,
    "mul": 6,
    "div": 6,
    "neg": 7,
}
_WORD = {**SUMS, **COMPARISONS, "and": "and", "or": "or"}


def expression(node: Node) -> str:
    """A tree as the expression that is read back to it."""
    if node.name == "number":
        return number_text(node.constant)
    if node.name in {"not", "neg"}:
        return f"{'not ' if node.name == 'not' else '-'}{_inside(node, 0)}"
    if node.name in _WORD:
        return f" {_WORD[node.name]} ".join(_inside(node, at) for at in range(len(node.args)))
    shown = (expression(arg) if isinstance(arg, Node) else _constant(arg) for arg in node.args)
    calls = node.args or (node.name in ROWS and ROWS[node.name].formula)
    return f"{node.name}({', '.join(shown)})" if calls else node.name


def _inside(node: Node, at: int) -> str:
    inner = node.operands[at]
    binds = _BINDS.get(inner.name, 9)
    is_looser = binds < _BINDS[node.name] or (
        binds == _BINDS[node.name] and (at > 0 or node.name in COMPARISONS) and node.name not in {"and", "or"}
    )
    return f"({expression(inner)})" if is_looser else expression(inner)


def _constant(arg: float | str) -> str:
    return f'"{arg}"' if isinstance(arg, str) else number_text(arg)


def number_text(value: float) -> str:
    """A number without a zero fraction.

    >>> number_text(20.0), number_text(1.5)
    ('20', '1.5')
    """
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(float(value))


def tree_hash(*nodes: Node) -> str:
    """What identifies trees, whatever the spelling of their expressions."""
    return content_hash("\n".join(map(expression, nodes)))


def _made(name: str, args: Sequence[Node | float | str], unit: Unit) -> Node:
    nodes = [arg for arg in args if isinstance(arg, Node)]
    size, depth = 1 + sum(each.size for each in nodes), 1 + max((each.depth for each in nodes), default=0)
    if size > MOST_NODES or depth > MOST_DEPTH:
        raise _bad(f"a rule has at most {MOST_NODES} parts, {MOST_DEPTH} inside each other")
    return Node(name, tuple(args), unit, size, depth)


def _bound(
    row: Row, args: Sequence[Node | float | str], named: Mapping[str, Node | float | str]
) -> list[Node | float | str]:
    names = [each.name for each in row.params]
    if len(args) > len(names) or any(name not in names[len(args) :] for name in named):
        raise _bad(f"{row.name} is written {signature(row)}")
    given = {**dict(zip(names, args, strict=False)), **named}
    found = [given.get(each.name, each.default) for each in row.params]
    if any(each is None for each in found):
        raise _bad(f"{row.name} needs {names[found.index(None)]}: {signature(row)}")
    return [
        number(each) if param.kind == "side" and isinstance(each, float) else each
        for param, each in zip(row.params, found, strict=True)
        if each is not None
    ]


_WANTED: Mapping[Kind, str] = {
    "value": 'a value of the market, such as close; of another one inside it: of("CODE", sma(close, 20))',
    "side": "a value of the market or a number",
    "truth": "a condition, such as close > open",
    "sessions": f"a whole number of sessions from 1 to {MOST_SESSIONS}",
    "number": "a number above 0",
    "period": "one of week, month, quarter, in quotes",
    "code": 'a code in quotes, such as "600519.SH"',
    "label": "one name in quotes, of a condition that code computes",
}


def _check(arg: Node | float | str, kind: Kind, param: str, name: str) -> None:
    """Refuse an argument of another kind."""
    plain = arg.args[0] if isinstance(arg, Node) and arg.name == "number" else arg
    fits = {
        "value": isinstance(arg, Node)
        and arg.unit not in {"truth", "number", "date"}
        and "raw" not in arg.unit,
        "side": isinstance(arg, Node) and arg.unit not in {"truth", "date"},
        "truth": isinstance(arg, Node) and arg.unit == "truth",
        "sessions": isinstance(plain, float) and plain.is_integer() and plain >= 1,
        "number": isinstance(plain, float) and 0 < plain < math.inf,
        "period": plain in PERIODS,
        "code": isinstance(plain, str) and _CODE.fullmatch(plain) is not None,
        "label": isinstance(plain, str) and plain.isidentifier(),
    }[kind]
    if not fits:
        told = arg if isinstance(arg, str) else expression(arg) if isinstance(arg, Node) else number_text(arg)
        raise _bad(f"{name}: {param} = {told:.60}; must be {_WANTED[kind]}")


def _watched(name: str, args: Sequence[Node | float | str]) -> Node:
    if len(args) != 2:
        raise _bad(f'{name} is written {name}("CODE", value or condition)')
    code, inner = args
    _check(code, "code", "code", name)
    if not isinstance(inner, Node) or inner.unit in {"number", "date"}:
        raise _bad(f"{name}: it needs a value or a condition of {code}, such as close > sma(close, 60)")
    alone = (*WATCHED, GIVEN)
    if any(each.name in alone or (each.name in ROWS and ROWS[each.name].across) for each in walk(inner)):
        raise _bad(f"{name}: inside it there is one security, so nothing is compared with others")
    return _made(name, args, _raw(inner.unit))


_TIMES: Mapping[tuple[Unit, Unit], Unit] = {("price", "volume"): "money", ("volume", "price"): "money"}
_OVER: Mapping[tuple[Unit, Unit], Unit] = {("money", "volume"): "price", ("money", "price"): "volume"}


def _unit_of_operator(name: str, args: Sequence[Node | float | str]) -> Unit:
    units = [arg.unit for arg in args if isinstance(arg, Node)]
    shown = " and ".join(f"{expression(arg)} ({arg.unit})" for arg in args if isinstance(arg, Node))
    if "truth" in units:
        raise _bad(f"{shown}: a condition is joined by and, or, not, and is not computed with")
    if name == "neg":
        return units[0]
    pure = [unit for unit in units if unit != "number"]
    is_raw = any("raw" in unit for unit in pure)
    if name in {"mul", "div"}:
        return _unit_of_product(name, [_raw(unit) if is_raw else unit for unit in units], shown)
    if len({*map(_raw, pure)}) > 1:
        raise _bad(f"{shown} are unlike: only values of one unit are compared, added or subtracted")
    if name in SUMS:
        if pure[:1] == ["date"]:
            raise _bad(f"{shown}: dates are compared, not computed with")
        return (_raw(pure[0]) if is_raw else pure[0]) if pure else "number"
    if not pure:
        raise _bad(f"{shown}: two numbers are compared, and no value of the market")
    return "truth"


def _unit_of_product(name: str, units: Sequence[Unit], shown: str) -> Unit:
    one, other = units
    if name == "div" and shown.endswith(" 0 (number)"):
        raise _bad(f"{shown}: a division by 0")
    scalars = {"number", "ratio", "count"}
    if other in scalars:
        return ("ratio" if one == "count" and name == "div" else one) if one != "number" else other
    if name == "div" and one == other and one != "date":
        return "ratio"
    if name == "mul" and one in scalars and other != "date":
        return other
    if (one, other) in (found := _TIMES if name == "mul" else _OVER):
        return found[one, other]
    raise _bad(f"{shown} have no {'product' if name == 'mul' else 'quotient'} in this language")


def _bad(message: str) -> BadOption:
    return BadOption(message, parameter="rule")
