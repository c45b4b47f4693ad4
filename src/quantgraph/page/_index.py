"""The page of all runs of a folder: a row a run, with a link to its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from quantgraph._util.texts import Language, short_line
from quantgraph.page._data import page_json
from quantgraph.page._drawings import labels, sparkline
from quantgraph.page._page import environment, scripts
from quantgraph.page._summary import way
from quantgraph.report.metrics import table_metrics

_SENTENCE, _ERROR = 200, 160
_NUMBERS = (
    ("account", "return"),
    ("benchmark", "return"),
    ("account", "sharpe"),
    ("account", "max_drawdown"),
    ("account", "round_trips"),
)


def render_index(
    rows: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]], language: Language
) -> str:
    """Render the page of all runs.

    Parameters
    ----------
    rows
        As :func:`~quantgraph.runs.list_runs` has them; ``page`` is whether the run has one.
    results
        The content of ``result.json`` by run, of those that can be read.
    """
    data = page_json({"words": labels(language), "red_rises": language == "zh"})
    return (
        environment()
        .get_template("runs.html.j2")
        .render(
            language=language,
            words=labels(language),
            rows=[_row(row, results.get(str(row["run"]), {}), language) for row in rows],
            data=data,
            **scripts("runs.js", seed=data, inline=False, up=""),
        )
    )


def _row(row: Mapping[str, Any], result: Mapping[str, Any], language: Language) -> dict[str, Any]:
    started, words = row["started"], labels(language)
    ended = str(row["ended"])
    return {
        "run": row["run"],
        "page": f"{quote(str(row['run']))}/report.html" if row["page"] else "",
        "started": "" if started is None or started != started else f"{started:%Y-%m-%d %H:%M}",  # noqa: PLR0124 - NaT
        "sentence": short_line(row["sentence"], _SENTENCE),
        "ended": words.get(f"ended_{ended}", ended),
        "error": short_line(row["error"], _ERROR),
        "cells": [_cell(result, part, name) for part, name in _NUMBERS],
        "curve": sparkline((result.get("equity") or {}).get("account") or (), width=120, height=28),
    }


def _cell(result: Mapping[str, Any], part: str, name: str) -> tuple[str, Any, str]:
    """The text, the value and the colour of a number."""
    metric = next(each for each in table_metrics() if each.name == name)
    value = (result.get(part) or {}).get(name)
    if not isinstance(value, int | float):
        return "–", None, ""
    return metric.text(value), value, way(value) if name == "return" and part == "account" else ""
