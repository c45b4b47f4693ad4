"""The page that compares runs: their curves, numbers, what was said differently, and a map of two numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from quantgraph.page._data import RunView, curve, page_json
from quantgraph.page._drawings import labels
from quantgraph.page._page import Page, environment, scripts, shown_value
from quantgraph.report.metrics import metric_rows

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LEAST_CELLS = 4


def render_comparison(views: Sequence[RunView], *, inline: bool = False) -> Page:
    """Render the page that compares runs, in the language of the first one."""
    language = views[0].language
    words = labels(language)
    curves = {
        view.run_id: curve(values / values.iloc[0])
        for view in views
        if (values := view.equity("account")) is not None
    }
    mainland = all(view.parameters.get("rules.market", "cn") == "cn" for view in views)
    data = page_json({"words": words, "mainland": mainland, "curves": curves})
    html = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            views=views,
            language=language,
            words=words,
            mainland=mainland,
            numbers=list(metric_rows([view.result.get("account") for view in views])),
            differences=list(run_differences(views)),
            grid=two_numbers(views),
            data=data,
            **scripts("comparison.js", data, inline=inline, up=""),
        )
    )
    return Page(html=html, files={}, card="")


def run_differences(views: Sequence[RunView]) -> Iterator[tuple[str, list[str]]]:
    """What was said and the parameters, where they are not the same in all runs."""
    rows: dict[str, list[str]] = {
        "question": [view.result["question"] for view in views],
        "said": ["\n".join(view.said) for view in views],
        "source": [str(view.result["source"]["name"]) for view in views],
        "window": [" - ".join(filter(None, _window(view))) for view in views],
        "evaluated_from": [str(view.result.get("evaluated_from") or "") for view in views],
    }
    names = dict.fromkeys(name for view in views for name in sorted(view.parameters))
    rows |= {
        name: [shown_value(view.parameters.get(name, "")) for view in views]
        for name in names
        if name not in rows
    }
    for name, cells in rows.items():
        if len({*cells}) > 1:
            yield name, cells


def _window(view: RunView) -> tuple[str, str]:
    window: Mapping[str, Any] = view.result.get("window") or {}
    return window.get("start") or "", window.get("end") or ""


def two_numbers(views: Sequence[RunView]) -> dict[str, Any] | None:
    """The returns of runs that differ in two numbers of their sentence or parameters, as a table.

    Returns
    -------
    dict or None
        ``names`` of the two; ``rows`` and ``columns``, their values ascending; ``cells``, returns or
        None. None if not exactly two differ, or two runs have the same.
    """
    found = [_numbers_of(view) for view in views]
    if len(views) < _LEAST_CELLS or len({frozenset(each) for each in found}) != 1:
        return None
    varying = [name for name in found[0] if len({each[name] for each in found}) > 1]
    if len(varying) != 2:
        return None
    first, second = varying
    places = {(each[first], each[second]): view for each, view in zip(found, views, strict=True)}
    if len(places) < len(views):
        return None
    rows, columns = (sorted({each[name] for each in found}) for name in varying)
    cells = [[_return(places.get((row, column))) for column in columns] for row in rows]
    return {"names": varying, "rows": rows, "columns": columns, "cells": cells}


def _numbers_of(view: RunView) -> dict[str, float]:
    """The numbers of a sentence by their place in it, and the numeric parameters."""
    question = str(view.result["question"])
    words = _NUMBER.sub("#", question)
    said = {f"{number}: {words}": float(text) for number, text in enumerate(_NUMBER.findall(question), 1)}
    numeric = {
        name: float(value)
        for name, value in view.parameters.items()
        if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    }
    return {**said, **numeric}


def _return(view: RunView | None) -> float | None:
    account = view.result.get("account") if view else None
    return None if account is None else float(account["return"])
