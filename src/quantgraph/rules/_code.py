"""A rule as lines of pandas: those that the evaluator runs are those that a cell has."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.parsing import parse_code
from quantgraph.rules import _formulas
from quantgraph.rules._registry import BARS, ROWS, STORED, UNITS
from quantgraph.rules._tree import COMPARISONS, GIVEN, PERIODS, SUMS, WATCHED, Node, expression, number_text

_LONGEST_NAME = 48
_CALLS = {
    **{name: f"{{}} {sign} {{}}" for name, sign in SUMS.items()},
    "div": "divided({}, {})",
    "gt": "greater({}, {})",
    "ge": "at_least({}, {})",
    "eq": "equal({}, {})",
    "lt": "greater({1}, {0})",
    "le": "at_least({1}, {0})",
    "ne": "negated(equal({}, {}))",
}


@dataclass(frozen=True)
class Line:
    """``name = code``; ``key`` identifies what it computes, whatever the rule."""

    name: str
    code: str
    key: str


class Writer:
    """The lines of trees; what is computed twice is one line."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.lines: dict[str, Line] = {}
        self.all = f"[{self.define('symbols', str(list(symbols)))}]" if symbols else ""

    def define(self, name: str, code: str) -> str:
        """Add a line; a name that stands for other code gets a suffix."""
        if name in self.lines and self.lines[name].code != code:
            name = f"{name}_{content_hash(code, size=4)}"
        if name not in self.lines:
            known = re.sub(r"[A-Za-z_]\w*", lambda word: self._key(word[0]), code)  # "close"
            self.lines[name] = Line(name, code, content_hash(known))
        return name

    def _key(self, word: str) -> str:
        return self.lines[word].key if word in self.lines else word

    def value(self, node: Node, of: str = "") -> str:
        """The code of a tree: a name, or a number. ``of`` is the code of the one security it is of, or ""."""
        if node.name == "number":
            return number_text(node.constant)
        if node.name in WATCHED:
            code, inner = node.watched
            of = f"{node.name}:{code}"
            its = f'on_calendar({self.raw(inner, of)}, {self.traded(of)})["{code}"]'
            return self.define(short_name(node), f"by_session({its}, {self.traded('')})")
        if node.name in BARS or (node.name in ROWS and not ROWS[node.name].formula):
            return self.field(node.name, of)
        return self.define(f"{short_name(node)}{_suffix(of)}", self.call(node, of))

    def call(self, node: Node, of: str) -> str:
        """The code that computes a node from its operands."""
        if node.name in {"and", "or"}:
            joined = "both" if node.name == "and" else "either"
            code, *parts = (self.value(each, of) for each in node.operands)
            for part in parts:
                code = f"{joined}({code}, {part})"
            return code
        if node.name in {"not", "neg"}:
            inner = self.value(node.operands[0], of)
            return f"negated({inner})" if node.name == "not" else f"-{inner}"
        if node.name in SUMS or node.name in COMPARISONS:
            return _CALLS[node.name].format(*self.sides(node, of))
        if node.name == GIVEN:
            return f'greater(own_sessions(snapshot["signal"]["{node.args[0]}"], {self.traded(of)}), 0)'
        row = ROWS[node.name]
        sides = self.sides(node, of) if node.name.startswith("cross") else []
        args = sides or [self.argument(arg, of, raw=row.across) for arg in node.args]
        named = dict(zip((each.name for each in row.params), args, strict=True))
        named |= {name: self.field(name, of) for name in row.inputs}
        if "traded" in row.formula:
            named["traded"] = self.traded(of)
        # A name of the formula, and not a method or a text: "x" in "x.rolling(n).max()"
        return re.sub(r"(?<![\w.\"])[a-z]\w*", lambda word: named.get(word[0], word[0]), row.formula)

    def argument(self, arg: Node | float | str, of: str, *, raw: bool) -> str:
        """The code of an operand or a constant."""
        if isinstance(arg, Node):
            return self.raw(arg, of) if raw else self.value(arg, of)
        return f'"{PERIODS[arg][0]}"' if isinstance(arg, str) else number_text(arg)

    def sides(self, node: Node, of: str) -> list[str]:
        """Two operands on one basis: as traded beside another security; a number on that of the other."""
        units = {each.unit for each in node.operands} - {"number"}
        if any("raw" in unit for unit in units):
            return [self.raw(each, of) for each in node.operands]
        basis = "*" if units == {"price"} else "/" if units == {"volume"} else ""
        is_scaled = bool(basis) and node.name not in {"mul", "div"}
        return [
            f"({self.value(each, of)} {basis} {self.factor(of)})"
            if is_scaled and each.unit == "number"
            else self.value(each, of)
            for each in node.operands
        ]

    def raw(self, node: Node, of: str) -> str:
        """The code of a value as traded."""
        sign = {"price": "/", "volume": "*"}.get(node.unit, "")
        code = self.value(node, of)
        return f"({code} {sign} {self.factor(of)})" if sign and not of.startswith("index") else code

    def field(self, name: str, of: str) -> str:
        """A field of the data on the own sessions of each security."""
        kind, _, code = of.partition(":")
        stored, times = STORED.get(name, name), UNITS.get(name, 1.0)
        panel = "index" if kind == "index" else "ohlcv" if name in BARS else "indicators"
        raw = f'snapshot["{panel}"]["{stored}"]' + self.columns(code)
        moved = f"own_sessions({raw}, {self.traded(of)})"
        scaled = moved if times == 1.0 else f"{number_text(times)} * {moved}"
        if kind != "index" and name in BARS and name != "amount":
            scaled += f" {'/' if name == 'volume' else '*'} {self.factor(of)}"
        return self.define(f"{name}{_suffix(of)}", scaled)

    def traded(self, of: str) -> str:
        """Where each security traded."""
        kind, _, code = of.partition(":")
        panel = "index" if kind == "index" else "ohlcv"
        close = f'snapshot["{panel}"]["close"]{self.columns(code)}'
        return self.define(f"traded{_suffix(of)}", f"{close}.notna()")

    def columns(self, code: str) -> str:
        """The selection of one security, or of those that are traded where others are watched."""
        return f'[["{code}"]]' if code else self.all

    def factor(self, of: str) -> str:
        """What makes prices compare over ex-dates, as known at each session."""
        kind, _, code = of.partition(":")
        if kind == "index":
            return "1.0"
        its = self.define("factors", "factor_of(snapshot)") + self.columns(code)
        return self.define(f"factor{_suffix(of)}", f"own_sessions({its}, {self.traded(of)})")


def short_name(node: Node, longest: int = _LONGEST_NAME) -> str:
    """A name for what a tree computes, without the closes of its windows.

    >>> from quantgraph.rules import read_condition
    >>> short_name(read_condition("sma(close, 5) > sma(open, 20)"))
    'sma_5_gt_sma_open_20'
    """
    text = re.sub(r"\W+", "_", _spoken(node)).strip("_").lower()  # "20-day average"
    if len(text) > longest:
        text = f"{text[: longest - 9].rstrip('_')}_{content_hash(expression(node), size=4)}"
    return f"v_{text}" if text[0].isdigit() else text  # 20 < rsi(14)


def _spoken(node: Node) -> str:
    """The names and numbers of a tree in the order in which they are read."""
    windowed = len(node.args) > 1 and isinstance(node.args[1], float)
    args = [
        _spoken(arg) if isinstance(arg, Node) else number_text(arg) if isinstance(arg, float) else arg
        for arg in node.args
        if not (windowed and isinstance(arg, Node) and arg.name == "close")
    ]
    if node.name == "number":
        return args[0].replace("-", "minus ").replace(".", "p")
    if len(args) > 1 and node.name in {"and", "or", *SUMS, *COMPARISONS}:
        return f" {node.name} ".join(args)
    return " ".join([node.name, *args])


def _suffix(of: str) -> str:
    return f"_of_{re.sub(r'[^0-9A-Za-z]', '_', of.partition(':')[2])}" if of else ""  # "600519.SH"


def lines_of(roots: Mapping[str, Node], symbols: Sequence[str] = (), *, raw: bool = False) -> list[Line]:
    """The lines that compute trees of ``symbols``, or all, named as ``roots``; as traded if ``raw``."""
    writer = Writer(symbols)
    for name, node in roots.items():
        is_call = node.name not in {"number", *WATCHED} and node.args
        code = writer.raw(node, "") if raw else writer.call(node, "") if is_call else writer.value(node)
        writer.define(name, code)
    writer.traded("")
    return list(writer.lines.values())


def write_cell(roots: Mapping[str, Node], signal: str, about: Iterable[str], symbols: Sequence[str]) -> str:
    """A cell that computes the signal of an ``entry`` and a ``leave``, with the source of what it calls."""
    lines = lines_of(roots, symbols)
    used = _used(line.code for line in lines)
    sources = [source for name, source in _sources().items() if name in used]
    return "\n".join(
        [
            *(f"# {each}" for each in about),
            *(["import talib", ""] if any("talib." in line.code for line in lines) else [""]),
            *("\n\n".join(sources).splitlines()),
            "\n",
            "snapshot = GLOBAL_DATA_STATE.snapshot()",
            *(f"{line.name} = {line.code}" for line in lines),
            "signal = signal_of(entry, leave, traded)",
            f'GLOBAL_DATA_STATE.update("signal", {{"{signal}": signal}})',
            f'print("signal {signal}:", *signal.shape, "sessions x securities")',
            "",
        ]
    )


def _used(codes: Iterable[str]) -> set[str]:
    """The formulas that some code calls, and those that they call."""
    found, waiting = {"signal_of"}, [*codes, _sources()["signal_of"]]
    while waiting:
        for name in (set(re.findall(r"([a-z]\w*)\(", waiting.pop())) & _sources().keys()) - found:  # "ema("
            found.add(name)
            waiting.append(_sources()[name])
    return found


@cache
def _sources() -> dict[str, str]:
    """The source of each formula by name, without types."""
    found = {}
    for node in parse_code(inspect.getsource(_formulas)).body:
        if isinstance(node, ast.FunctionDef):
            for each in ast.walk(node):
                if isinstance(each, ast.arg):
                    each.annotation = None
                if isinstance(each, ast.FunctionDef):
                    each.returns = None
            found[node.name] = ast.unparse(node)
    return found
