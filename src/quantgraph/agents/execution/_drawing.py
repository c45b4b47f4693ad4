"""One execution drawn as SVG, with its steps in short lines.

All texts of an execution come from models, tools and data: in a drawing they are text and nothing else.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from quantgraph._util.files import write_atomic
from quantgraph._util.texts import Language, escape_controls, say
from quantgraph.broker.ledger import LoggedExecution
from quantgraph.errors import BadOption

_LONGEST = 4_000
"""Characters of a text that are looked at: what is shown is shorter."""
_MOST_ENTRIES = 3
_DAY, _LAST_SECOND = 86_400, 100 * 366 * 86_400
_MOST_DEPTH = 4
_NOT_XML = str.maketrans({"\ufffe": "?", "\uffff": "?"})


@dataclass(frozen=True, kw_only=True)
class StepText:
    """One step for people; each text is one line without control characters.

    ``talib`` has TA-Lib's numbers beside a calculation; ``failed``: its tool did.
    """

    step: int
    type: str
    what: str
    reasoning: str
    inputs: str
    result: str
    talib: str = ""
    failed: bool = False


def record_of_step(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action with the keys of its payload beside the others, as the records of a history are."""
    payload = action.get("action")
    rest = {name: value for name, value in action.items() if name != "action" or isinstance(value, str)}
    return {**rest, **payload} if isinstance(payload, Mapping) else rest


def step_texts(
    execution: LoggedExecution | Sequence[Mapping[str, Any]], language: Language = "en"
) -> list[StepText]:
    """Return the texts of an execution's steps, in order.

    Parameters
    ----------
    execution
        One of a ledger, or the records of an execution history.
    """
    if isinstance(execution, LoggedExecution):
        records = [
            {
                **record_of_step(step.action),
                "step": step.step,
                "type": step.action_type,
                "result": step.result,
            }
            for step in execution.steps
        ]
    else:
        records = [record_of_step(record) for record in execution]
    return [_text_of(record, number, language) for number, record in enumerate(records, 1)]


def execution_title(execution: LoggedExecution | Sequence[Mapping[str, Any]]) -> str:
    """Return symbol, session and rule in one line; "" of a history, which does not know them."""
    if not isinstance(execution, LoggedExecution):
        return ""
    parts = (execution.symbol, f"{execution.session:%Y-%m-%d}", execution.rule or execution.rule_name)
    return one_line(" · ".join(filter(None, parts)))


def _text_of(record: Mapping[str, Any], number: int, language: Language) -> StepText:
    kind = str(record.get("type", ""))
    what, inputs, result, talib, failed = {
        "tool_call": _tool_call,
        "calculation": _calculation,
        "decision": _decision,
        "model_reply": _model_reply,
    }.get(kind, _other)(record, language)
    return StepText(
        step=record["step"] if isinstance(record.get("step"), int) else number,
        type=one_line(kind),
        what=one_line(what),
        reasoning=one_line(str(record.get("reasoning") or record.get("content") or "")),
        inputs=one_line(inputs),
        result=one_line(result),
        talib=one_line(talib),
        failed=failed,
    )


_Parts = tuple[str, str, str, str, bool]
"""What, inputs, result, TA-Lib's numbers, whether it failed."""


def _tool_call(record: Mapping[str, Any], language: Language) -> _Parts:
    result = record.get("result")
    error = result.get("error") if isinstance(result, Mapping) and len(result) == 1 else None
    failed = error is not None
    shown = str(error) if failed else brief(result, language)
    return str(record.get("tool_name", "")), brief(record.get("params"), language), shown, "", failed


def _calculation(record: Mapping[str, Any], language: Language) -> _Parts:
    inputs, formula = brief(record.get("inputs"), language), str(record.get("formula", ""))
    if inputs:
        formula += f" | {inputs}"
    number = brief(record.get("intermediate_result"), language)
    result = record.get("result")
    talib = brief(result.get("talib"), language) if isinstance(result, Mapping) else ""
    return str(record.get("calculation_type", "")), formula, number, talib, False


def _decision(record: Mapping[str, Any], language: Language) -> _Parts:
    confidence = say(language, zh="信心", en="confidence")
    told = brief(record.get("result"), language)  # what the market refused, or does not know yet
    result = "; ".join(filter(None, (f"{confidence} {brief(record.get('confidence'), language)}", told)))
    return str(record.get("action", "")), str(record.get("reason", "")), result, "", told.startswith("error=")


def _model_reply(record: Mapping[str, Any], language: Language) -> _Parts:
    """A reply with any number of calls, each beside what it answered."""
    calls, answers = record.get("tool_calls") or [], record.get("result") or []
    inputs = "; ".join(f"{call['name']}({brief(call['args'], language)})" for call in calls)
    results = [
        _answer(call["args"], answer.get("result"), language)
        for call, answer in zip(calls, answers, strict=False)
    ]
    failed = any(isinstance(each.get("result"), Mapping) and "error" in each["result"] for each in answers)
    names = ", ".join(dict.fromkeys(str(call["name"]) for call in calls))
    return names, inputs, "; ".join(results), "", failed


def _answer(args: Mapping[str, Any], result: Any, language: Language) -> str:
    """What a tool answered; of positions the cash, and the symbol that was asked for."""
    if isinstance(result, Mapping) and "error" in result:
        return f"{result.get('code', 'error')}: {result['error']}"
    if isinstance(result, Mapping) and "CASH" in result:
        shown = [name for name in (str(args.get("symbol")), "CASH") if name in result]
        return brief({name: result[name] for name in shown}, language)
    return brief(result, language)


def _other(record: Mapping[str, Any], language: Language) -> _Parts:
    return "", "", brief(record.get("result"), language), "", False


def brief(value: Any, language: Language = "en", *, depth: int = 0) -> str:
    """Return a JSON value in short: of a long list its length and its last entry, of an object its pairs.

    >>> brief([{"close": 1.5}] * 40)
    '40 entries, the last: close=1.5'
    """
    if value is None:
        return "" if depth == 0 else "null"
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.10g}"
    if depth >= _MOST_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return ", ".join(
            f"{key}={_day(inner) if key == 'time' else brief(inner, language, depth=depth + 1)}"
            for key, inner in value.items()
            if not (key == "time" and "date" in value)  # the same day twice
        )
    if isinstance(value, list | tuple):
        if len(value) > _MOST_ENTRIES:
            last = brief(value[-1], language, depth=depth + 1)
            return say(
                language, zh=f"共 {len(value)} 条，末条：{last}", en=f"{len(value)} entries, the last: {last}"
            )
        return "; ".join(brief(inner, language, depth=depth + 1) for inner in value)
    return str(value)


def _day(time: Any) -> str:
    """Return the day of a bar's time, which is in seconds and has no time of day."""
    if isinstance(time, int) and 0 < time < _LAST_SECOND and time % _DAY == 0:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}"
    return brief(time, depth=1)


def one_line(text: str) -> str:
    """Return a text in one line, its control characters escaped."""
    return escape_controls(" ".join(text[:_LONGEST].split())).translate(_NOT_XML)


def text_width(text: str) -> int:
    """Return how many columns of a fixed-width font a text takes at most; wide ones count as two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WFA" else 1 for character in text)


def cut(text: str, columns: int) -> str:
    """Return a text of at most so many columns, with ``…`` where it was cut."""
    if text_width(text) <= columns:
        return text
    kept, left = "", columns - 1
    for character in text:
        left -= text_width(character)
        if left < 0:
            break
        kept += character
    return f"{kept}…"


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
    """An execution as a drawing; a notebook shows it as its last value."""

    svg: str

    def __repr__(self) -> str:
        """The size of the drawing."""
        return f"ExecutionDrawing(svg={len(self.svg)} characters)"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file, ``.svg``."""
        place = Path(path)
        if place.suffix != ".svg":
            raise BadOption(f"path={str(path)!r} must end in .svg", parameter="path")
        if not place.parent.is_dir():
            raise BadOption(f"path={str(path)!r}: there is no folder {place.parent}", parameter="path")
        write_atomic(place, self.svg.encode())


def draw_execution(
    execution: LoggedExecution | Sequence[Mapping[str, Any]], *, language: Language = "en"
) -> ExecutionDrawing:
    """Draw one execution.

    Parameters
    ----------
    execution
        One of :meth:`.Ledger.executions`, or the records of an execution history.
    language
        The labels' language; words of models and tools stay as they are.

    Raises
    ------
    BadOption
        If it is a state in place of its records.

    Examples
    --------
    >>> record = {"type": "decision", "action": "hold", "reason": "no <signal>", "confidence": 0.5}
    >>> "reason: no &lt;signal&gt;" in draw_execution([record]).svg
    True
    """
    if isinstance(execution, Mapping):
        raise BadOption(
            'execution is an object; give one of Ledger.executions(), or state["execution_history"]',
            parameter="execution",
        )
    title, steps = execution_title(execution), step_texts(execution, language)
    return ExecutionDrawing(svg=_svg(title, steps, language))


def _lines(step: StepText, language: Language) -> Iterator[tuple[str, str]]:
    """Yield the lines of a box: a label, so that no line begins with what a model wrote, and a text."""
    label = ("理由", "reason") if step.type == "decision" else ("输入", "input")
    named = {
        say(language, zh="思考", en="why"): step.reasoning,
        say(language, zh=label[0], en=label[1]): step.inputs,
        say(language, zh="结果", en="result"): step.result,
        "TA-Lib": step.talib,
    }
    yield from ((label, text) for label, text in named.items() if text)


def _svg(title: str, steps: Sequence[StepText], language: Language) -> str:
    boxes = [([("", line) for line in _wrapped(title, _COLUMNS)], ("none", "none"))] if title else []
    alarming = say(language, zh="结果", en="result")
    for step in steps:
        texts = [("bold", cut(" · ".join(filter(None, (str(step.step), step.type, step.what))), _COLUMNS))]
        for label, text in _lines(step, language):
            style = "alert" if step.failed and label == alarming else ""
            texts += [(style, line) for line in _wrapped(f"{label}: {text}", _COLUMNS)]
        fill, border = _COLOURS.get(step.type, _COLOURS["observation"])
        boxes.append((texts, (fill, _ALERT if step.failed else border)))
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
