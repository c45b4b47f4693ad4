"""A model's formula that is a plain Python expression, evaluated in the sandbox."""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Mapping
from typing import Any

from quantgraph._util.parsed_code import parse_code
from quantgraph.recording import recorded
from quantgraph.tools.decision_tools import DecisionTools
from quantgraph.tools.plain_json import to_plain
from quantgraph.tools.symbol_bars import PRICES, SymbolBars

_ARRAYS = (*PRICES, "volume")
_BARS = 500
_LONGEST = 1_000
_INPUTS = 20_000
_FUNCTIONS = {
    "abs",
    "all",
    "any",
    "bool",
    "float",
    "int",
    "len",
    "max",
    "min",
    "np",
    "pow",
    "range",
    "round",
    "sorted",
    "sum",
    "zip",
}
_MEANS = frozenset({"mean", "avg", "average"})
_ASSIGNED = re.compile(r"(?<![=<>!:])=(?!=)")


class Formula:
    """A formula as an expression over names.

    Attributes
    ----------
    left
        What stands left of its equals sign, "" without one.
    code
        The expression.
    names
        The free names of the expression.
    """

    def __init__(self, left: str, code: str, names: frozenset[str]) -> None:
        self.left, self.code, self.names = left, code, names


def formula_of(text: str) -> Formula | str:
    """Read a formula; return why not, if it is not a plain expression."""
    if not text.strip():
        return "there is no formula"
    if len(text) > _LONGEST:
        return f"the formula has {len(text)} characters; at most {_LONGEST} are checked"
    parts = _ASSIGNED.split(text, maxsplit=1)
    left, code = ("", parts[0]) if len(parts) == 1 else parts
    code = code.strip()
    try:
        (statement,) = parse_code(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "the formula is not a Python expression"
    if not isinstance(statement, ast.Expr) or not _computes(statement.value):
        return "the formula is not a Python expression that gives a number"
    return Formula(left.strip(), code, frozenset(_free_names(statement.value)))


def evaluated(
    formula: Formula, inputs: Mapping[str, Any], bars: SymbolBars, context: DecisionTools
) -> float | str:
    """Return the formula's number, computed in a process of its own, or why there is none.

    Its names are ``inputs``, each input that is a number or a list of them, ``open``, ``high``, ``low``,
    ``close`` and ``volume``, arrays of the last 500 bars, and the usual functions, ``mean`` among them. The
    number is recorded.
    """
    given = {name: to_plain(value) for name, value in inputs.items()}
    if len(json.dumps(given, ensure_ascii=False)) > _INPUTS:
        return f"the inputs are longer than {_INPUTS} characters"
    values = {name: value for name, value in given.items() if _is_name(name) and _is_numeric(value)}
    arrays = {name: bars.values[name][-_BARS:].tolist() for name in _ARRAYS if name not in values}
    known = {"inputs"} | values.keys() | arrays.keys() | _FUNCTIONS | _MEANS
    if unknown := sorted(formula.names - known):
        return f"the formula reads {unknown[0][:60]}, which is not among the inputs"
    cell = _cell(formula, {"inputs": given} | values, arrays)
    request = {"calculation": formula.code, "cell": cell}

    def run() -> dict[str, Any]:
        result = context.code.evaluate(cell)
        return {"error": result.error.line if result.error else None, "value": result.value}

    answer = recorded("code", request, run)
    if answer["error"]:
        return str(answer["error"])
    number = float(answer["value"])
    return number if math.isfinite(number) else f"the formula gives {number}"


def _cell(formula: Formula, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """A cell whose value is the formula's; plain JSON values are written as Python's literals."""
    used = [name for name in arrays if name in formula.names]
    data = {name: value for name, value in values.items() if name in formula.names}
    lines = [f"{name} = {value!r}" for name, value in data.items()]
    lines += [f"{name} = np.array({_literal(arrays[name])})" for name in used]
    lines += [f"{name} = np.mean" for name in sorted(_MEANS & formula.names - values.keys())]
    return "\n".join([*lines, f"float({formula.code})"])


def _literal(values: list[float]) -> str:
    return "[" + ",".join("np.nan" if math.isnan(value) else repr(value) for value in values) + "]"


def _computes(node: ast.expr) -> bool:
    """Whether an expression is more than a constant or an ellipsis, and defines nothing."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    inner = list(ast.walk(node))
    ellipsis = any(isinstance(each, ast.Constant) and each.value is Ellipsis for each in inner)
    return not ellipsis and not any(
        isinstance(each, ast.Lambda | ast.NamedExpr | ast.Await | ast.Yield) for each in inner
    )


def _free_names(node: ast.expr) -> set[str]:
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    bound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
    return {each.id for each in names} - bound


def _is_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("_")
    )


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, int | float) for each in value)
    return isinstance(value, int | float)
