"""Still pictures: the graph's path, a card to share, a small curve. Plain SVG; every text is escaped."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from quantgraph._util.texts import Language, escape_controls, short_line
from quantgraph.page._data import CallStory, RunView, largest_triangles

_SIGNAL = ("reflection", "data_fetch", "signal_generate", "validate", "clarify")
_TRADING = ("daily_loop", "decision", "approval", "report")
_BOX, _HIGH, _GAP = 150, 74, 34


@cache
def labels(language: Language) -> Mapping[str, str]:
    """The labels of a page in one language, by name."""
    both = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
    return {name: zh if language == "zh" else en for name, (zh, en) in both.items()}


def words_of(view: RunView) -> Mapping[str, str]:
    """The labels of a run's page and its decider's, which replace none of the page's own."""
    return {**view.labels, **labels(view.language)}


def _text(value: object) -> str:
    return escape(escape_controls(str(value)))


def path_drawing(view: RunView) -> str:
    """The nodes that a run passed, with calls, tokens, failed calls, questions and seconds."""
    words, seconds = labels(view.language), view.result.get("seconds") or {}
    calls = [*view.calls, *(call for story in view.stories for call in story.calls)]
    by_node: dict[str, list[CallStory]] = {}
    for call in calls:
        by_node.setdefault(_node_of(call.path), []).append(call)
    rows = [[name for name in row if name in seconds or name in by_node] for row in (_SIGNAL, _TRADING)]
    rows = [row for row in rows if row]
    width = max((len(row) for row in rows), default=1) * (_BOX + _GAP)
    height = len(rows) * (_HIGH + _GAP)
    parts = [
        f'<svg class="path" width="{width}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{_text(words["graph"])}">'
    ]
    for down, row in enumerate(rows):
        for across, name in enumerate(row):
            x, y = across * (_BOX + _GAP), down * (_HIGH + _GAP) + 4
            if across:
                parts.append(
                    f'<path class="edge" d="M{x - _GAP} {y + _HIGH / 2}h{_GAP - 7}m-6 -5l7 5l-7 5"/>'
                )
            parts.append(f'<rect class="node" x="{x}" y="{y}" width="{_BOX}" height="{_HIGH}" rx="6"/>')
            lines = [name, *_node_lines(by_node.get(name, []), seconds.get(name), words)]
            for number, line in enumerate(lines[:4]):
                kind = "name" if number == 0 else "fact"
                parts.append(
                    f'<text class="{kind}" x="{x + 9}" y="{y + 18 + 16 * number}">{_text(line)}</text>'
                )
    return "".join(parts) + "</svg>"


def _node_of(path: str) -> str:
    parts = path.split("/")
    return parts[1] if parts[0] == "signal" and len(parts) > 1 else parts[0]


def _node_lines(calls: Sequence[CallStory], seconds: float | None, words: Mapping[str, str]) -> list[str]:
    lines, kinds = [], Counter(call.kind for call in calls)
    if kinds["model"]:
        tokens = [call.tokens for call in calls if call.kind == "model"]
        known = "?" if None in tokens else f"{sum(filter(None, tokens)):,}"
        lines.append(f"{kinds['model']:,} {words['calls']} · {known} {words['tokens']}")
    also = [
        f"{count:,} {word}"
        for count, word in (
            (sum(call.failed for call in calls), words["retries"]),
            (kinds["tool"], words["tools"]),
            (kinds["answer"], words["question"]),
        )
        if count
    ]
    if also:
        lines.append(" · ".join(also))
    if seconds is not None:
        lines.append(f"{seconds:,.2f} s")
    return lines


def sparkline(values: Sequence[float], *, width: int = 240, height: int = 48) -> str:
    """A small curve as an SVG path; empty with fewer than two values."""
    if len(values) < 2:
        return ""
    array = np.asarray(values, dtype=np.float64)
    places = largest_triangles(array, max(3, width))
    x = places / (len(array) - 1) * width
    y = 2 + (height - 4) * (1 - (array[places] - array.min()) / (float(np.ptp(array)) or 1.0))
    points = " ".join(f"{across:.1f} {down:.1f}" for across, down in zip(x, y, strict=True))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f'<path d="M{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def axes_drawing(
    equity: Mapping[str, Any], language: Language, *, width: int = 680, height: int = 230
) -> str:
    """Account and buy and hold with their values and dates, as a still SVG; empty with fewer than two."""
    colours, words = {"account": "#1d4ed8", "benchmark": "#f59e0b"}, labels(language)
    series = {name: np.asarray(equity[name], dtype=np.float64) for name in colours if equity.get(name)}
    if not series or min(map(len, series.values())) < 2:
        return ""
    low, high = min(map(np.min, series.values())), max(map(np.max, series.values()))
    left, right, foot, size = 78, 8, height - 22, 10.0 ** np.floor(np.log10((high - low) or 1.0))
    step = size * next(each for each in (0.2, 0.5, 1, 2, 5) if (high - low) / size / each <= 5)
    inner, days = width - left - right, equity["sessions"]

    def at(value: float) -> float:
        return float(24 + (foot - 32) * (1 - (value - low) / ((high - low) or 1.0)))

    size_of = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [f'<svg {size_of} role="img" font-size="11" fill="currentColor">']
    for tick in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step:
        parts.append(f'<path d="M{left} {at(tick):.1f}h{inner}" stroke="currentColor" opacity=".15"/>')
        parts.append(f'<text x="{left - 6}" y="{at(tick) + 4:.1f}" text-anchor="end">{tick:,.12g}</text>')
    for place, anchor in ((0, "start"), ((len(days) - 1) // 2, "middle"), (len(days) - 1, "end")):
        day, x = re.sub(r"(..)(..)$", r"-\1-\2", days[place]), left + place / (len(days) - 1) * inner
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{_text(day)}</text>')
    for number, (name, values) in enumerate(reversed(series.items())):
        places = largest_triangles(values, 240)
        across = left + places / (len(values) - 1) * inner
        points = " ".join(f"{x:.1f} {at(y):.1f}" for x, y in zip(across, values[places], strict=True))
        parts.append(f'<path d="M{points}" fill="none" stroke="{colours[name]}" stroke-width="1.6"/>')
        parts.append(
            f'<text x="{left + 100 * number}" y="12" fill="{colours[name]}">{_text(words[name])}</text>'
        )
    return "".join(parts) + "</svg>"


def share_card(view: RunView, first_line: str, shown: Sequence[tuple[str, str]]) -> str:
    """A picture of a run to share: its first line, its equity and four numbers."""
    words, title = labels(view.language), short_line(first_line, 36 if view.language == "zh" else 72)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 420" font-family="system-ui, sans-serif">',
        '<rect width="800" height="420" fill="#ffffff"/>',
        f'<text x="32" y="46" font-size="20" fill="#0f172a">{_text(title)}</text>',
    ]
    note = words["synthetic"] if view.result["source"]["synthetic"] else view.run_id
    parts.append(f'<text x="32" y="72" font-size="13" fill="#64748b">{_text(note)}</text>')
    curve = axes_drawing(view.result.get("equity") or {}, view.language, width=736, height=230)
    parts.append(f'<g transform="translate(32 88)">{curve}</g>')
    for place, (label, number) in enumerate(shown[:4]):
        x = 32 + 190 * place
        parts.append(f'<text x="{x}" y="350" font-size="13" fill="#64748b">{_text(label)}</text>')
        parts.append(f'<text x="{x}" y="382" font-size="24" fill="#0f172a">{_text(number)}</text>')
    return "".join(parts) + "</svg>\n"
