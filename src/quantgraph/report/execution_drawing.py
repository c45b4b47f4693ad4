"""One execution drawn as Mermaid and as SVG: steps, inputs and outputs, numbers, mismatches, the decision.

All texts of an execution come from models, tools and data: in a drawing they are text and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from quantgraph._util.files import write_atomic
from quantgraph._util.texts import Language, say
from quantgraph.broker import LoggedExecution
from quantgraph.errors import BadOption
from quantgraph.report.execution_text import StepText, cut, execution_title, step_texts, text_width

_FORMATS = (".svg", ".mmd")

_COLUMNS = 92
"""Columns of text in a box, in a fixed-width font."""
_LINES = 2
"""Lines that a text takes at most."""
_CHARACTER, _LINE_HEIGHT, _FONT_SIZE = 7.9, 19, 13
_MARGIN, _PADDING, _GAP = 16, 12, 26
_WIDTH = round(_COLUMNS * _CHARACTER) + 2 * (_MARGIN + _PADDING)

_INK, _PAPER, _LINE = "#1e293b", "#f8fafc", "#64748b"
_ALERT = "#b91c1c"
_COLOURS = {
    "tool_call": ("#e0f2fe", "#0369a1"),
    "calculation": ("#fef9c3", "#a16207"),
    "decision": ("#dcfce7", "#15803d"),
    "observation": ("#ffffff", "#64748b"),
}
"""Fill and border of a box by the type of its step; dark ink is readable on all, whatever the page is."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ExecutionDrawing:
    """An execution as a drawing; a notebook shows it as its last value.

    Attributes
    ----------
    mermaid
        A flowchart in Mermaid's language.
    svg
        A picture of bounded width, as tall as it has steps, that needs nothing else.
    """

    mermaid: str
    svg: str

    def __repr__(self) -> str:
        """The size of both."""
        return f"ExecutionDrawing(mermaid={len(self.mermaid)} characters, svg={len(self.svg)} characters)"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file: ``.svg`` or ``.mmd``.

        Raises
        ------
        BadOption
            If the file's name ends otherwise, or its folder does not exist.
        StorageUnavailable
            If it cannot be written.
        """
        place = Path(path)
        if place.suffix not in _FORMATS:
            raise BadOption(f"path={str(path)!r} must end in {' or '.join(_FORMATS)}", parameter="path")
        if not place.parent.is_dir():
            raise BadOption(f"path={str(path)!r}: there is no folder {place.parent}", parameter="path")
        write_atomic(place, (self.svg if place.suffix == ".svg" else self.mermaid).encode())


def draw_execution(
    execution: LoggedExecution | Sequence[Mapping[str, Any]], *, language: Language = "en"
) -> ExecutionDrawing:
    """Draw one execution.

    Parameters
    ----------
    execution
        One of :meth:`.Ledger.executions`, or the records of an execution history.
    language
        That of the labels; what models and tools said stays as it is.

    Raises
    ------
    BadOption
        If it is a state in place of its records.

    Examples
    --------
    >>> record = {"type": "decision", "action": "hold", "reason": "no <signal>", "confidence": 0.5}
    >>> print(draw_execution([record]).mermaid.splitlines()[1].strip())
    s1["1 · decision · hold<br/>reason: no #60;signal#62;<br/>result: confidence 0.5"]:::decision
    """
    if isinstance(execution, Mapping):
        raise BadOption(
            'execution is an object; give one of Ledger.executions(), or state["execution_history"]',
            parameter="execution",
        )
    title, steps = execution_title(execution), step_texts(execution, language)
    return ExecutionDrawing(mermaid=_mermaid(title, steps, language), svg=_svg(title, steps, language))


def _lines(step: StepText, language: Language) -> Iterator[tuple[str, str]]:
    """Yield the lines of a box: a label, so that no line begins with what a model wrote, and a text."""
    given = ("理由", "reason") if step.type == "decision" else ("输入", "given")
    named = {
        say(language, zh="思考", en="why"): step.reasoning,
        say(language, zh=given[0], en=given[1]): step.given,
        say(language, zh="结果", en="result"): step.result,
        say(language, zh="核对", en="check"): step.check,
    }
    yield from ((label, text) for label, text in named.items() if text)


def _heading(step: StepText) -> str:
    return cut(" · ".join(filter(None, (str(step.step), step.type, step.what))), _COLUMNS)


def _is_alarming(step: StepText) -> bool:
    return step.mark in ("error", "mismatch")


def _mermaid(title: str, steps: Sequence[StepText], language: Language) -> str:
    nodes = [(f"s{place}", _label(step, language), _class(step)) for place, step in enumerate(steps, 1)]
    if title:
        nodes.insert(0, ("s0", _escaped(cut(title, _LINES * _COLUMNS)), "observation"))
    lines = ["flowchart TD", *(f'{name}["{label}"]:::{style}' for name, label, style in nodes)]
    names = [name for name, _, _ in nodes]
    lines += [f"{one} --> {other}" for one, other in pairwise(names)]
    for style, (fill, border) in _COLOURS.items():
        lines.append(f"classDef {style} fill:{fill},stroke:{border},color:{_INK}")
    lines.append(f"classDef alert fill:#fee2e2,stroke:{_ALERT},color:{_INK}")
    return "\n    ".join(lines) + "\n"


def _label(step: StepText, language: Language) -> str:
    lines = [f"{label}: {cut(text, _COLUMNS)}" for label, text in _lines(step, language)]
    return "<br/>".join(map(_escaped, [_heading(step), *lines]))


def _class(step: StepText) -> str:
    if _is_alarming(step):
        return "alert"
    return step.type if step.type in _COLOURS else "observation"


def _escaped(text: str) -> str:
    """Write every character that means something in Mermaid or HTML as an entity."""
    return "".join(map(_entity, text))


def _entity(character: str) -> str:
    if character == '"':
        return "#quot;"
    plain = character.isalnum() or character in _PLAIN or not character.isascii()
    return character if plain else f"#{ord(character)};"


_PLAIN = " .,:=_+-/"
"""Characters of ASCII, besides letters and digits, that mean nothing inside a quoted label."""


def _svg(title: str, steps: Sequence[StepText], language: Language) -> str:
    boxes = [([("", line) for line in _wrapped(title, _COLUMNS)], ("none", "none"))] if title else []
    for step in steps:
        texts = [("bold", _heading(step))]
        for label, text in _lines(step, language):
            style = "alert" if _is_alarming(step) and label == _alarm_label(step, language) else ""
            texts += [(style, line) for line in _wrapped(f"{label}: {text}", _COLUMNS)]
        fill, border = _COLOURS.get(step.type, _COLOURS["observation"])
        boxes.append((texts, (fill, _ALERT if _is_alarming(step) else border)))
    heights = [len(texts) * _LINE_HEIGHT + 2 * _PADDING for texts, _ in boxes]
    height = sum(heights) + _GAP * max(0, len(boxes) - 1) + 2 * _MARGIN
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {_WIDTH} {height}",
            "width": str(_WIDTH),
            "height": str(height),
            "style": "max-width: 100%; height: auto",
            "font-family": "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
            "font-size": str(_FONT_SIZE),
        },
    )
    ET.SubElement(root, "title").text = title or say(language, zh="一次执行", en="an execution")
    ET.SubElement(root, "rect", {"width": str(_WIDTH), "height": str(height), "fill": _PAPER})
    top = _MARGIN
    for place, ((texts, (fill, border)), tall) in enumerate(zip(boxes, heights, strict=True)):
        _draw_box(root, texts, top, tall, fill=fill, border=border)
        top += tall
        if place < len(boxes) - 1:
            _draw_arrow(root, top)
        top += _GAP
    return ET.tostring(root, encoding="unicode")


def _alarm_label(step: StepText, language: Language) -> str:
    is_check = step.type == "calculation"
    return say(language, zh="核对", en="check") if is_check else say(language, zh="结果", en="result")


def _draw_box(
    root: ET.Element, texts: Sequence[tuple[str, str]], top: int, height: int, *, fill: str, border: str
) -> None:
    place = {"x": str(_MARGIN), "y": str(top), "width": str(_WIDTH - 2 * _MARGIN), "height": str(height)}
    ET.SubElement(root, "rect", {**place, "rx": "6", "fill": fill, "stroke": border})
    for number, (style, line) in enumerate(texts, 1):
        attributes = {
            "x": str(_MARGIN + _PADDING),
            "y": str(top + _PADDING + number * _LINE_HEIGHT - 5),
            "fill": _ALERT if style == "alert" else _INK,
        }
        if style:
            attributes["font-weight"] = "bold"
        ET.SubElement(root, "text", attributes).text = line


def _draw_arrow(root: ET.Element, top: int) -> None:
    middle, end = _WIDTH // 2, top + _GAP - 2
    path = f"M{middle} {top + 2}V{end}M{middle - 5} {end - 6}L{middle} {end}L{middle + 5} {end - 6}"
    ET.SubElement(root, "path", {"d": path, "stroke": _LINE, "fill": "none"})


def _wrapped(text: str, columns: int) -> list[str]:
    """Break a text into at most :data:`_LINES` lines of so many columns; the last says if it was cut."""
    lines, left = list[str](), text
    while left and len(lines) < _LINES - 1 and text_width(left) > columns:
        whole = cut(left, columns + 1)[:-1]
        space = whole.rfind(" ")
        end = space if space > len(whole) // 2 else len(whole)
        lines.append(left[:end])
        left = left[end:].lstrip()
    return [*lines, cut(left, columns)] if left else lines
