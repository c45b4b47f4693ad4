"""Hints at lines of a strategy that look ahead, as far as their text tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from quantgraph._util.parsed_code import parse_code
from quantgraph._util.texts import Note, say

_MOST_HINTS = 3
_MOST_TEXT = 120

_FORWARD = Note(zh="负的位移取的是以后的行", en="a negative shift takes later rows")
_BACKFILL = Note(zh="用以后的值填补", en="it fills with later values")
_INTERPOLATE = Note(zh="插值用到缺口之后的值", en="interpolation uses the value after the gap")
_CENTRE = Note(zh="居中窗口的一半在未来", en="half of a centred window lies ahead")
_LAST = Note(zh="它是整段数据的最后一行", en="it is the last row of all the data")
_REVERSED = Note(zh="倒序之后，前面的行就是未来", en="in reverse order the rows before are later ones")
_GRADIENT = Note(zh="中心差分用到下一行", en="central differences take the next row")
_NEAREST = Note(zh="对齐时取了以后的行", en="it aligns with later rows")
_SAMPLE = Note(zh="它是整段样本的统计量", en="it is a statistic of the whole sample")
_PERIOD = Note(zh="整个时期的值用到了时期之内的行", en="the value of a whole period is used within it")

_SHIFTS = {"shift", "diff", "pct_change", "roll", "tshift"}
_CALLS = {
    **dict.fromkeys(("bfill", "backfill"), _BACKFILL),
    **dict.fromkeys(("flip", "flipud", "reversed"), _REVERSED),
    "interpolate": _INTERPOLATE,
    "gradient": _GRADIENT,
}
_OPTIONS: dict[tuple[str | None, object], Note] = {
    **dict.fromkeys((("method", "bfill"), ("method", "backfill")), _BACKFILL),
    **dict.fromkeys((("method", "nearest"), ("direction", "nearest"), ("direction", "forward")), _NEAREST),
    **dict.fromkeys((("center", True), ("mode", "same")), _CENTRE),
}
_LIKELY_CALLS = {
    **dict.fromkeys(("tail", "last"), _LAST),
    **dict.fromkeys(("transform", "resample", "Grouper"), _PERIOD),
}
_STATISTICS = {
    *("mean", "std", "var", "median", "min", "max", "sum", "quantile", "rank", "corr", "cov", "skew", "kurt"),
    *("nanmean", "nanstd", "nanmin", "nanmax", "nanmedian", "percentile", "nanpercentile", "nanquantile"),
    *("idxmax", "idxmin", "polyfit", "lstsq", "qcut", "rfft", "fft", "svd", "eigh", "argsort"),
    *("sort_values", "nlargest", "nsmallest"),
}
_WINDOWS = {"rolling", "expanding", "ewm"}


@dataclass(frozen=True, kw_only=True)
class CodeHint:
    """A line of a strategy: cell and line from 1, its text, and its fault; None if that is not known."""

    cell: int
    line: int
    text: str
    reason: Note | None = None

    def text_in(self, language: str) -> str:
        """Return place, text and fault in one line."""
        text = self.text if len(self.text) <= _MOST_TEXT else f"{self.text[:_MOST_TEXT]}…"
        reason = f"{say(language, zh='，', en=', ')}{self.reason.text(language)}" if self.reason else ""
        return say(
            language,
            zh=f"第 {self.cell} 个单元第 {self.line} 行：{text}{reason}",
            en=f"cell {self.cell}, line {self.line}: {text}{reason}",
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"cell": self.cell, "line": self.line, "text": self.text, "reason": str(self.reason or "")}


def code_hints(cells: Sequence[str]) -> tuple[CodeHint, ...]:
    """Find at most three lines with a look-ahead idiom, the certain ones if any; else the handover's line.

    The text proves nothing: hints are for strategies that were seen to use the future.
    """
    certain: list[CodeHint] = []
    likely: list[CodeHint] = []
    handover: list[CodeHint] = []
    for number, cell in enumerate(cells, start=1):
        try:
            tree = parse_code(cell)
        except SyntaxError:  # the source of a lambda can be a piece of a line
            continue
        lines = cell.splitlines()
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 0)
            text = lines[line - 1].strip() if line else ""
            for hints, reasons in ((certain, _certain(node)), (likely, _likely(node))):
                hints += [CodeHint(cell=number, line=line, text=text, reason=reason) for reason in reasons]
            if _hands_over(node):
                handover.append(CodeHint(cell=number, line=line, text=text))
    by_line = {(hint.cell, hint.line): hint for hint in reversed(certain or likely)}
    return tuple(by_line[key] for key in sorted(by_line))[:_MOST_HINTS] or tuple(handover[-1:])


def _hands_over(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and _name(node) == "update" and node.args:
        return isinstance(node.args[0], ast.Constant) and node.args[0].value == "signal"
    return isinstance(node, ast.Return)


def _certain(node: ast.AST) -> Iterator[Note]:
    """Idioms that read later rows of any data."""
    if isinstance(node, ast.Subscript):
        index = _first_axis(node)
        if isinstance(index, ast.Slice) and index.step is not None and _is_negative(index.step):
            yield _REVERSED
    elif isinstance(node, ast.Call):
        name = _name(node)
        options = {
            (word.arg, word.value.value) for word in node.keywords if isinstance(word.value, ast.Constant)
        }
        if name in _SHIFTS and any(_is_negative(step) for step in _steps(node)):
            yield _FORWARD
        if name in _CALLS:
            yield _CALLS[name]
        if name == "sort_index" and ("ascending", False) in options:
            yield _REVERSED
        yield from (reason for option, reason in _OPTIONS.items() if option in options)


def _likely(node: ast.AST) -> Iterator[Note]:
    """Idioms that read later rows unless the code takes care."""
    if isinstance(node, ast.Subscript) and _is_negative(_first_axis(node)):
        if isinstance(node.value, ast.Attribute) and node.value.attr in ("iloc", "values", "index"):
            yield _LAST
    elif isinstance(node, ast.Call):
        name = _name(node)
        if name == "shift" and any(isinstance(step, ast.Name | ast.BinOp) for step in _steps(node)):
            yield _FORWARD
        if name in _LIKELY_CALLS:
            yield _LIKELY_CALLS[name]
        if name in _STATISTICS and not _is_across(node, name) and not _is_windowed(node):
            yield _SAMPLE


def _first_axis(node: ast.Subscript) -> ast.expr:
    return node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice


def _steps(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(word.value for word in node.keywords if word.arg in ("periods", "shift"))]


def _is_across(node: ast.Call, name: str) -> bool:
    """Whether a statistic is taken over the symbols of a row."""
    axes = [word.value for word in node.keywords if word.arg == "axis"]
    axes += node.args[1:] if name.startswith("nan") else node.args
    return any(isinstance(axis, ast.Constant) and axis.value in (1, "columns") for axis in axes)


def _is_windowed(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and _name(part) in _WINDOWS for part in ast.walk(node))


def _name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _is_negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
