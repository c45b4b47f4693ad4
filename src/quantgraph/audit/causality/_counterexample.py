"""Counterexamples: a cell that the future changes, the smallest one, and the lines that look ahead."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.parsing import parse_code
from quantgraph._util.texts import Note, say
from quantgraph.audit.causality._comparison import Bools, ReferenceSignal, differs, first_row
from quantgraph.audit.causality._futures import FutureSpec
from quantgraph.audit.causality._trials import RunPanel, TrialOutcome, axes_of, prefix
from quantgraph.market import Moment, Phase
from quantgraph.sandbox.wire import Frames

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


TestKind = Literal["truncation", "alternative_future"]

_PHASES_ZH: dict[Phase, str] = {"pre_open": "开盘前", "open": "开盘", "close": "收盘", "post_close": "收盘后"}


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """One cell of a signal that the future changes.

    Attributes
    ----------
    test
        What changes it: ``truncation``: later sessions are known; ``alternative_future``: later sessions are
        others.
    session, symbol
        The cell; the earliest one found.
    known, later
        Its value with what was known then, and with the future. NaN means no opinion.
    later_sessions
        How many later sessions it takes; 0 is the rest of its own session.
    phase
        Phase of the session at which the signal is decided.
    error
        Error of the strategy on what was known; empty if it did not fail.
    hints
        Lines of the code to look at first.
    """

    test: TestKind
    session: pd.Timestamp
    symbol: str
    known: float
    later: float
    later_sessions: int
    phase: Phase = "post_close"
    error: str = ""
    hints: tuple[CodeHint, ...] = ()

    def message(self, language: str) -> str:
        """Return the counterexample in one line, for the author of the code."""
        known, later = _value(self.known, language), _value(self.later, language)
        if self.error:
            known = say(language, zh=f"报错（{self.error}）", en=f"an error ({self.error})")
        now, future = self._known_part.text(language), self._future.text(language)
        day, where = f"{self.session:%Y-%m-%d}", self._where(language)
        return say(
            language,
            zh=f"{self.symbol} 在 {day} 的信号{now}是 {known}，{future}变成 {later}：它用到了未来数据{where}",
            en=f"the signal of {self.symbol} on {day} is {known} {now}, and {later} {future}: "
            f"it uses the future{where}",
        )

    @property
    def _known_part(self) -> Note:
        """The condition of the known value."""
        if self.test == "alternative_future":
            return Note(zh="用现有数据", en="with the data as it is")
        return Note(
            zh=f"用当日{_PHASES_ZH[self.phase]}已知的数据",
            en=f"with what is known at {self.session:%Y-%m-%d} {self.phase}",
        )

    @property
    def _future(self) -> Note:
        """The condition of the later value."""
        count = self.later_sessions
        zh = f"之后 {count} 个交易日" if count else "当日其余数据"
        en = f"{count} later session{'' if count == 1 else 's'}" if count else "the rest of that session"
        are = "are" if count > 1 else "is"
        if self.test == "alternative_future":
            return Note(zh=f"只改动{zh}就", en=f"when only {en} {are} changed")
        return Note(zh=f"再给{zh}就", en=f"once {en} {are} known")

    def _where(self, language: str) -> str:
        if not self.hints:
            return ""
        hints = [hint.text_in(language) for hint in self.hints]
        if self.hints[0].reason is None:
            return say(language, zh=f"；信号来自{hints[0]}", en=f"; the signal comes from {hints[0]}")
        return say(language, zh=f"；先看{'；'.join(hints)}", en=f"; look first at {'; '.join(hints)}")

    def as_json(self) -> dict[str, Any]:
        """Return plain values; NaN and infinity are null."""
        return {
            "test": self.test,
            "session": f"{self.session:%Y-%m-%d}",
            "symbol": self.symbol,
            "known": self.known if math.isfinite(self.known) else None,
            "later": self.later if math.isfinite(self.later) else None,
            "later_sessions": self.later_sessions,
            "phase": self.phase,
            "error": self.error,
            "hints": [hint.as_json() for hint in self.hints],
            "message": self.message("en"),
        }


def _value(value: float, language: str) -> str:
    return say(language, zh="无观点", en="no opinion") if math.isnan(value) else f"{value:.12g}"


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """A row and a column of the reference, and the two values of the cell."""

    row: int
    column: int
    known: float
    later: float
    error: str = ""


class Minimizer:
    """Searches the smallest counterexample: the earliest cell, and the fewest later sessions that change it.

    It explains a difference that is found already, and proves nothing.
    """

    def __init__(self, run: RunPanel, panel: Frames, reference: ReferenceSignal, phase: Phase) -> None:
        self._run, self._panel, self._reference, self._phase = run, panel, reference, phase
        self._sessions = axes_of(panel).sessions

    def truncation(self, differing: Bools, cut: int) -> Counterexample:
        """From cells (T, N) in which the panel cut after row ``cut`` differs from the whole."""
        row = first_row(differing)
        session = self._reference.sessions[row]
        base = max(int(np.searchsorted(self._sessions, session, side="right")) - 1, 0)
        least = int(self._phase == "post_close")  # at other phases the rest of the session is later too
        known = self._run(prefix(self._panel, Moment(pd.Timestamp(self._sessions[base]), self._phase)))

        def longer(row: int) -> TrialOutcome:
            return self._run(prefix(self._panel, Moment(pd.Timestamp(self._sessions[row]))))

        return self._smallest(
            "truncation", differing, known, longer, base=base, cut=base, least=least, seen=cut
        )

    def alternative_future(
        self, differing: Bools, spec: FutureSpec, panel: Callable[[FutureSpec], Frames]
    ) -> Counterexample:
        """From cells (T, N) that an alternative future changes; ``panel`` makes the panel of a future."""
        base = int(np.searchsorted(self._sessions, self._reference.sessions[first_row(differing)]))
        least = int(self._phase == "post_close")

        def changed(row: int) -> TrialOutcome:
            return self._run(panel(replace(spec, sessions=row - spec.cut)))

        known = self._run(self._panel)
        return self._smallest(
            "alternative_future", differing, known, changed, base=base, cut=spec.cut, least=least
        )

    def _smallest(
        self,
        test: TestKind,
        differing: Bools,
        known: TrialOutcome,
        outcome_to: Callable[[int], TrialOutcome],
        *,
        base: int,
        cut: int,
        least: int,
        seen: int | None = None,
    ) -> Counterexample:
        """The first row up to which later sessions change a cell of the first differing row.

        Tries rows further and further after ``cut``, and the one at which a difference was ``seen``, then
        bisects the interval. If no row shows it, only the whole panel does.
        """
        row, last = first_row(differing), len(self._sessions) - 1
        columns = np.flatnonzero(differing[row])

        def cell_at(step: int) -> _Cell | None:
            return self._find_changed_cell(known, outcome_to(step), row, columns)

        before, cell, step = cut - 1 + least, None, last
        for step in _growing_steps(cut, least, last, seen):
            cell = cell_at(step)
            if cell:
                break
            before = step
        if cell is None:
            step, cell = last, self._whole_cell(known, row, int(columns[0]))
        while step - before > 1:
            middle = (before + step) // 2
            found = cell_at(middle)
            if found:
                cell, step = found, middle
            else:
                before = middle
        return self._counterexample(test, cell, later_sessions=step - base)

    def _find_changed_cell(
        self, known: TrialOutcome, later: TrialOutcome, row: int, columns: NDArray[np.int64]
    ) -> _Cell | None:
        (a, in_a), (b, in_b) = self._reference.row(known, row), self._reference.row(later, row)
        unequal = differs(a, b, in_a & in_b)
        column = next((int(column) for column in columns if unequal[column]), None)
        if column is None:
            return None
        return _Cell(
            row=row, column=column, known=float(a[column]), later=float(b[column]), error=known.error
        )

    def _whole_cell(self, known: TrialOutcome, row: int, column: int) -> _Cell:
        value, later = self._reference.row(known, row)[0][column], self._reference.values[row, column]
        return _Cell(row=row, column=column, known=float(value), later=float(later), error=known.error)

    def _counterexample(self, test: TestKind, cell: _Cell, *, later_sessions: int) -> Counterexample:
        return Counterexample(
            test=test,
            session=pd.Timestamp(self._reference.sessions[cell.row]),
            symbol=self._reference.symbols[cell.column],
            known=cell.known,
            later=cell.later,
            later_sessions=later_sessions,
            phase=self._phase,
            error=cell.error,
        )


def _growing_steps(cut: int, least: int, last: int, seen: int | None) -> list[int]:
    """Rows from ``cut + least`` on, each twice as far as the one before; also ``seen`` and the last row."""
    rows, step = {last} | ({seen} if seen is not None else set()), least
    while cut + step < last:
        rows.add(cut + step)
        step = max(1, 2 * step)
    return sorted(row for row in rows if cut + least <= row <= last)
