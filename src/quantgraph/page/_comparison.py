"""The page that compares runs: named by what differs, judged from a common day, with a map of two numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import pandas as pd

from quantgraph._util.texts import escape_controls, say, short_line
from quantgraph.page._data import RunView, curve, drawdown, page_json
from quantgraph.page._drawings import labels
from quantgraph.page._page import Page, environment, red_rises, scripts, value_text
from quantgraph.page._summary import day_text, verdict, way
from quantgraph.report import value_numbers
from quantgraph.report.metrics import Metric, metric_rows, table_metrics

_NUMBER = re.compile(r"\d+(?:\.\d+)?")  # "20.5"
_WORD = re.compile(r"[\u4e00-\u9fff]|[A-Za-z0-9_.%-]+|[^\w\s]")  # "均"
_RULE = re.compile(r"^# (?:entry|exit): (.+)$", re.MULTILINE)  # "# entry: rsi(14) < 30"
_NODE = re.compile(r"(\w+)\((?:[^()]*, )?(\d+(?:\.\d+)?)\)")  # "sma(close, 20)"
_NUMBERED = "number "
_LEAST_CELLS, _MOST_COLUMNS = 4, 4
_NAME = 48
"""Characters of the name of a run."""
_MAPPED = ("return", "sharpe", "max_drawdown")
_ROW_METRICS = ("return", "annual_return", "sharpe", "max_drawdown", "volatility", "round_trips", "win_rate")
"""What a table shows that has a row a run."""
_HIGHER = frozenset(
    {
        *("final_value", "return", "annual_return", "sharpe", "sortino", "calmar", "recovery_factor"),
        *("max_drawdown", "value_at_risk", "expected_shortfall", "best_month", "worst_month"),
        *("winning_months", "win_rate", "profit_factor", "realised"),
    }
)
_FOLLOWS = frozenset({"own.ref", "own.name", "own.origin", "own.data_start"})
"""Values of a configuration that tell nothing which the title or a parameter does not tell."""
_LOWER = frozenset({"volatility", "time_under_water"})


def render_comparison(views: Sequence[RunView], *, inline: bool = False) -> Page:
    """Render the page that compares runs, in the language of the first one."""
    language = views[0].language
    words, names = labels(language), run_names(views)
    since, accounts = common_accounts(views)
    series = {
        name: values
        for name, view in zip(names, views, strict=True)
        if (values := _since(view.equity("account"), since)) is not None
    }
    benchmark = _since(views[0].equity("benchmark"), since)
    grid = two_numbers(views, accounts)
    red = all(map(red_rises, views))
    data = page_json(
        {
            "words": words,
            "red_rises": red,
            "curves": {
                escape_controls(name): curve(values / values.iloc[0] - 1) for name, values in series.items()
            },
            "falls": {escape_controls(name): curve(drawdown(values)) for name, values in series.items()},
            "benchmark": None if benchmark is None else curve(benchmark / benchmark.iloc[0] - 1),
            "grid": grid,
        }
    )
    html = (
        environment()
        .get_template("comparison.html.j2")
        .render(
            views=views,
            names=names,
            language=language,
            words=words,
            red_rises=red,
            judged=common_day_text(views, names),
            by_row=len(views) > _MOST_COLUMNS,
            rows=list(_run_rows(views, names, accounts)),
            row_metrics=[metric for metric in table_metrics() if metric.name in _ROW_METRICS],
            numbers=list(_comparison_rows(accounts)),
            differences=[(name, _parts(cells)) for name, cells in run_differences(views)],
            grid=grid,
            data=data,
            **scripts("comparison.js", seed=data, inline=inline, up=""),
        )
    )
    return Page(html=html, files={}, card="")


def run_names(views: Sequence[RunView]) -> list[str]:
    """What tells runs apart: parameters, the numbers or the words of their sentences, or their names."""
    params = [_params(view) for view in views]
    varying = [each for each in params[0] if len({repr(one.get(each)) for one in params}) > 1]
    functions = {str(view.parameters.get("own.origin")).partition("(")[0] for view in views}
    if varying and len({frozenset(each) for each in params}) == 1 == len(functions):
        names = [", ".join(f"{name}={each[name]!r}" for name in varying) for each in params]
    else:
        names = _names_by_words(views)
    if len({*names}) < len(views):
        told = ("question", "said", "params.")
        others = (each for each in run_differences(views) if not each[0].startswith(told))
        also = next(others, ("", [""] * len(views)))[1]
        names = [" ".join(filter(None, pair)) for pair in zip(names, also, strict=True)]
    names = [escape_controls(short_line(name, _NAME)) for name in names]
    return [
        name if name and names.count(name) == 1 else " ".join(filter(None, [name, view.run_id]))
        for name, view in zip(names, views, strict=True)
    ]


def _params(view: RunView) -> dict[str, Any]:
    """The parameters of a signal of the caller's, by name."""
    return dict(view.result.get("params") or {})


def _names_by_words(views: Sequence[RunView]) -> list[str]:
    questions = [str(view.result["question"]) for view in views]
    numbers = [_NUMBER.findall(text) for text in questions]
    if len({_NUMBER.sub("#", text) for text in questions}) == 1:
        differing = [at for at in range(len(numbers[0])) if len({each[at] for each in numbers}) > 1]
        return [" / ".join(each[at] for at in differing) for each in numbers]
    return [own.strip(" ,，.。;；") for _, own, _ in _parts(questions)]


def _parts(texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """What all texts begin with, what is a text's own, and what all end with, by whole words."""
    spans = [list(_WORD.finditer(text)) for text in texts]
    words = [[each[0] for each in found] for found in spans]
    first = _common_start(words)
    last = _common_start([each[first:][::-1] for each in words])
    parts = []
    for text, found in zip(texts, spans, strict=True):
        own = found[first : len(found) - last]
        begin, end = (own[0].start(), own[-1].end()) if own else (len(text), len(text))
        parts.append((text[:begin], text[begin:end], text[end:]))
    return parts


def _common_start(lists: Sequence[Sequence[str]]) -> int:
    """How many items all lists begin with."""
    return sum(1 for _ in takewhile(lambda each: len({*each}) == 1, zip(*lists, strict=False)))


def common_accounts(views: Sequence[RunView]) -> tuple[pd.Timestamp | None, list[Mapping[str, Any] | None]]:
    """The latest day from which a run is judged, and the accounts' numbers from that day on for all.

    The day is None where all are judged from the same one: then the numbers are the results'. What is
    not computed from values alone (trades, turnover, invested share) is the whole run's.
    """
    firsts = [_first_day(view) for view in views]
    known = [day for day in firsts if day is not None]
    accounts: list[Mapping[str, Any] | None] = [view.result.get("account") for view in views]
    if len({*known}) < 2:
        return None, accounts
    since = max(known)
    return since, [
        account if account is None or values is None else {**account, **value_numbers(values * scale)}
        for account, values, scale in (_with_equal_cash(view, since) for view in views)
    ]


def _with_equal_cash(
    view: RunView, since: pd.Timestamp
) -> tuple[Mapping[str, Any] | None, pd.Series[float] | None, float]:
    """The account, its values from a day on, and what makes them begin with the initial cash."""
    whole = view.equity("account")
    part = _since(whole, since)
    scale = 1.0 if whole is None or part is None else float(whole.iloc[0] / part.iloc[0])
    return view.result.get("account"), part, scale


def _first_day(view: RunView) -> pd.Timestamp | None:
    values, judged = view.equity("account"), view.result.get("evaluated_from")
    if values is None or len(values) < 2:
        return None
    first = pd.Timestamp(values.index[1])
    return first if judged is None else max(first, pd.Timestamp(judged))


def _since(values: pd.Series[float] | None, since: pd.Timestamp | None) -> pd.Series[float] | None:
    """Values from the last one before a day on, which stands for the initial cash."""
    if values is None or since is None:
        return values
    return values.iloc[max(0, int(values.index.searchsorted(since)) - 1) :]


def common_day_text(views: Sequence[RunView], names: Sequence[str]) -> str:
    """From which day runs are compared that are judged from different ones; empty if they are not."""
    since = common_accounts(views)[0]
    if since is None:
        return ""
    day, own = day_text(since), [(view.result.get("account") or {}).get("return") for view in views]
    totals = [f"{name} {value:+.2%}" for name, value in zip(names, own, strict=True) if value is not None]
    return say(
        views[0].language,
        zh=f"各次运行的起评日不同：这里都从 {day} 起、以同样的本金比较；交易、换手和费用仍是各自全程的。"
        f"各自全程的收益：{'；'.join(totals)}",
        en=f"The runs are judged from different days. Here each begins on {day} with the same cash; trades, "
        f"turnover and costs are of its whole run. Return of each whole run: {'; '.join(totals)}",
    )


def _run_rows(
    views: Sequence[RunView], names: Sequence[str], accounts: Sequence[Mapping[str, Any] | None]
) -> Iterator[dict[str, Any]]:
    metrics = [metric for metric in table_metrics() if metric.name in _ROW_METRICS]
    for view, name, account in zip(views, names, accounts, strict=True):
        values = [(account or {}).get(metric.name) for metric in metrics]
        yield {
            "name": name,
            "view": view,
            "cells": [(metric.text(value), value) for metric, value in zip(metrics, values, strict=True)],
        }


def _comparison_rows(accounts: Sequence[Mapping[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """A row a number: its cells, which of them is the best, and of two runs the difference."""
    for metric, cells in metric_rows(accounts):
        row = {"metric": metric, "cells": cells, "best": _best(metric, cells), "difference": None, "way": ""}
        numbers = [cell for cell in cells if isinstance(cell, int | float)]
        if len(cells) == len(numbers) == 2:
            change = numbers[1] - numbers[0]
            sense = 1 if metric.name in _HIGHER else -1 if metric.name in _LOWER else 0
            row |= {"difference": metric.text(change), "way": way(change * sense)}
        yield row


def _best(metric: Metric, cells: Sequence[Any]) -> int | None:
    known = [(cell, at) for at, cell in enumerate(cells) if isinstance(cell, int | float)]
    if len({cell for cell, _ in known}) < 2 or metric.name not in _HIGHER | _LOWER:
        return None
    return (max if metric.name in _HIGHER else min)(known)[1]


def run_differences(views: Sequence[RunView]) -> Iterator[tuple[str, list[str]]]:
    """The requests and the parameters, where they are not the same in all runs."""
    rows: dict[str, list[str]] = {
        "question": [view.result["question"] for view in views],
        "said": ["\n".join(view.understood) for view in views],
        "source": [str(view.result["source"]["name"]) for view in views],
        "window": [" - ".join(filter(None, _window(view))) for view in views],
        "verdict": [verdict(view) for view in views],
        "evaluated_from": [str(view.result.get("evaluated_from") or "") for view in views],
    }
    names = dict.fromkeys(name for view in views for name in sorted(view.parameters))
    rows |= {
        name: [value_text(view.parameters.get(name, "")) for view in views]
        for name in names
        if name not in rows and name not in _FOLLOWS
    }
    for name, cells in rows.items():
        if len({*cells}) > 1:
            yield name, cells


def _window(view: RunView) -> tuple[str, str]:
    window: Mapping[str, Any] = view.result.get("window") or {}
    return window.get("start") or "", window.get("end") or ""


def two_numbers(
    views: Sequence[RunView], accounts: Sequence[Mapping[str, Any] | None]
) -> dict[str, Any] | None:
    """The numbers of runs that differ in two numbers of their sentence or parameters, as maps; else None.

    ``names`` of the two, such as "short average"; ``rows`` and ``columns``, their values ascending; ``maps``
    by metric: ``cells`` (numbers or None), ``texts``, and the places of the ``best`` and the ``worst``.
    """
    found = [_numbers_of(view) for view in views]
    if len(views) < _LEAST_CELLS or len({frozenset(each) for each in found}) != 1:
        return None
    varying = [name for name in found[0] if len({each[name] for each in found}) > 1]
    if len(varying) != 2:
        return None
    first, second = varying
    places = {(each[first], each[second]): account for each, account in zip(found, accounts, strict=True)}
    if len(places) < len(views):
        return None
    rows, columns = (sorted({each[name] for each in found}) for name in varying)
    metrics = [metric for metric in table_metrics() if metric.name in _MAPPED]
    shown = [[f"{value:g}" for value in values] for values in (rows, columns)]
    maps = {
        metric.name: _map(metric, [[places.get((row, column)) for column in columns] for row in rows], views)
        for metric in metrics
    }
    return {"names": _axes(views, found, varying), "rows": shown[0], "columns": shown[1], "maps": maps}


def _axes(
    views: Sequence[RunView], found: Sequence[Mapping[str, float]], varying: Sequence[str]
) -> list[str]:
    """The names of two varying numbers: a parameter's, the one of its node in the rule, else its place."""
    words = labels(views[0].language)
    of_rules = [
        [(node, float(size)) for rule in _RULE.findall(view.code) for node, size in _NODE.findall(rule)]
        for view in views
    ]
    nodes = [
        set[str].intersection(
            *(
                {node for node, size in sizes if size == each[name]}
                for sizes, each in zip(of_rules, found, strict=True)
            )
        )
        for name in varying
    ]
    averages = [bool({"sma", "ema"} & of_one) for of_one in nodes]
    means = [sum(each[name] for each in found) for name in varying]
    lengths = ["short", "long"] if means[0] < means[1] else ["long", "short"]
    return [
        escape_controls(name.removeprefix("params."))
        if not name.startswith(_NUMBERED)
        else words[f"axis_{lengths[at] if all(averages) else 'average'}"]
        if averages[at]
        else min(nodes[at], default=f"{words['axis_number']} {at + 1}")
        for at, name in enumerate(varying)
    ]


def _map(
    metric: Metric, accounts: Sequence[Sequence[Mapping[str, Any] | None]], views: Sequence[RunView]
) -> dict[str, Any]:
    cells = [[None if each is None else each.get(metric.name) for each in row] for row in accounts]
    known = [
        (cell, [at, column])
        for at, row in enumerate(cells)
        for column, cell in enumerate(row)
        if cell is not None
    ]
    return {
        "label": metric.words(views[0].language),
        "cells": cells,
        "texts": [["–" if cell is None else metric.text(cell) for cell in row] for row in cells],
        "best": max(known)[1] if known else None,
        "worst": min(known)[1] if known else None,
    }


def _numbers_of(view: RunView) -> dict[str, float]:
    """The numbers of a sentence by their places, and the numeric parameters, which a title repeats."""
    question = "" if _params(view) else str(view.result["question"])
    said = {f"{_NUMBERED}{at}": float(each) for at, each in enumerate(_NUMBER.findall(question))}
    numeric = {
        name: float(value)
        for name, value in view.parameters.items()
        if not name.startswith("own.")
        and (isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)))
    }
    return {**said, **numeric}
