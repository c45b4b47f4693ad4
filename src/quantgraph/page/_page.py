"""The page of a run, and the page that compares several: HTML that opens offline, drawn by plotly."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from quantgraph._util.texts import escape_controls, say
from quantgraph.audit import OPEN_FINDING, issue_text, meaning_lines
from quantgraph.page._data import (
    FOLDER,
    MOST_FILLS,
    RunView,
    curve,
    deepest_drawdowns,
    monthly_returns,
    page_data,
    page_json,
    yearly_returns,
)
from quantgraph.page._drawings import labels, path_drawing, per_symbol, share_card, trade_rows
from quantgraph.report.metrics import metric_rows, table_metrics


def ending(view: RunView) -> dict[str, str]:
    """How the run ended: whether well, and in a word."""
    because = view.result["ended_because"] or view.result["state"]
    if because == "done" and meaning_lines(view.result.get("validation") or {}, view.language):
        return {"kind": "bad", "text": OPEN_FINDING.text(view.language)}
    if because == "done":
        return {"kind": "good", "text": say(view.language, zh="完成", en="done")}
    endings = {
        "meaning_failed": say(
            view.language, zh="没有交易：代码与所说的不一致", en="not traded: the code is not what was said"
        ),
        "needs_answer": say(view.language, zh="在等待回答，没有结果", en="waits for an answer: no result"),
        "cancelled": say(view.language, zh="中途停止", en="stopped before its end"),
        "failed": say(view.language, zh="失败", en="failed"),
    }
    not_done = say(view.language, zh=f"没有完成（{because}）", en=f"not done ({because})")
    return {"kind": "bad", "text": endings.get(because, not_done)}


def facts(view: RunView) -> Iterator[tuple[str, list[str]]]:
    """The first lines: a label, and what there is to say."""
    result, words = view.result, labels(view.language)
    report = result.get("validation") or {}
    yield words["open"], meaning_lines(report, view.language)
    yield words["said"], list(view.said)
    if question := result.get("open_question"):
        options = [f"{number}. {text}" for number, text in enumerate(question.get("options") or [], 1)]
        yield words["question"], [question["question"], *options]
    if result.get("causality"):
        coverage = result["causality"]["coverage"]
        lines = [result["causality"]["text"]]
        if coverage["method"] == "sampled":
            part, whole = coverage["proved"], coverage["sessions"]
            zh = f"抽样（sampled）：只在 {whole} 个交易日中的 {part} 个上证明"
            lines.append(say(view.language, zh=zh, en=f"sampled: proved at {part} of {whole} sessions"))
        yield words["proof"], lines
    others = (each for each in report.get("issues_found", []) if not each["code"].startswith("meaning"))
    yield words["check"], [_issue(each, view.language) for each in others if each["severity"] != "info"]
    yield words["data"], list(_data_lines(view))
    if account := result.get("account"):
        costs = account["costs"]
        parts = ", ".join(
            f"{name} {amount:,.2f}" for name, amount in costs.items() if name != "total" and amount
        )
        yield words["cost"], [f"{costs['total']:,.2f}" + (f" ({parts})" if parts else "")]
    assumed = result.get("assumptions") or []
    yield words["assumed"], [text for text in assumed if not any(text in line for line in view.said)]
    yield words["cannot_tell"], [*(result.get("notes") or []), *_limits(view)]


def _issue(issue: Mapping[str, Any], language: str) -> str:
    where = " ".join(filter(None, (issue.get("session"), issue.get("symbol"))))
    place = f" ({where})" if language == "en" and where and where not in issue["message"] else ""
    return issue_text(issue, language) + place


def _data_lines(view: RunView) -> Iterator[str]:
    result, window = view.result, view.result.get("window") or {}
    name = result["source"]["name"]
    if result["source"]["synthetic"]:
        name += f" · {labels(view.language)['synthetic']}"
    yield name
    if window.get("start"):
        count = len(result.get("symbols") or [])
        span = f"{shown_day(window['start'])} – {shown_day(window['end'])}"
        plural = "" if count == 1 else "s"
        yield say(view.language, zh=f"{span}，{count} 个代码", en=f"{span}, {count} symbol{plural}")
    if ref := view.hashes.get("data"):
        yield say(view.language, zh=f"数据哈希 {ref}", en=f"hash of the data {ref}")
    yield from result["source"].get("provenance") or ()


def _limits(view: RunView) -> Iterator[str]:
    """What the result does not tell, where no note of the run says it."""
    result = view.result

    def words(zh: str, en: str) -> str:
        return say(view.language, zh=zh, en=en)

    account = result.get("account")
    if account and account["ex_dates"] is None:
        yield words("数据中没有分红，无法知道除权除息", "the data have no dividends: ex-dates are not known")
    elif account and account["ex_dates"]["count"]:
        count, amount = account["ex_dates"]["count"], account["ex_dates"]["not_credited"]
        yield words(
            f"持有期间 {count} 次除权除息没有分红记录，约 {amount:,.0f} 未计入账户",
            f"{count} ex-dates while held have no dividend in the data, about {amount:,.0f} not credited",
        )
    if result.get("not_judged"):
        count = result["not_judged"]
        yield words(f"区间的前 {count} 个交易日不参与评价", f"the first {count} sessions are not evaluated")
    if account and not result.get("causality"):
        yield words(
            "没有信号可证明：逐日决策只看到当日已知的数据",
            "no signal to prove: each session saw only what was known",
        )


def shown_day(value: Any) -> str:
    """A session, a timestamp or ``YYYYMMDD``, as ``YYYY-MM-DD``; a dash for none."""
    if value is None:
        return "–"
    return f"{value:%Y-%m-%d}" if hasattr(value, "strftime") else f"{value[:4]}-{value[4:6]}-{value[6:]}"


_HERE = Path(__file__).parent
_UNKNOWN: Mapping[str, Any] = {
    "usage": (),
    "history": (),
    "strategy": None,
    "causality": None,
    "versions": {},
}
"""What the result of a run that failed does not have."""
_AROUND = 40
"""Sessions before and after the cell of a counterexample."""
_CARD = ("return", "annual_return", "max_drawdown", "sharpe")


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page: its HTML, the files of its folder by name, and the picture to share."""

    html: str
    files: Mapping[str, bytes]
    card: str


def render_page(view: RunView, *, inline: bool = False) -> Page:
    """Render the page of a run. Equal views give equal bytes.

    Parameters
    ----------
    inline
        One file with all in it, the drawing script included. What is loaded on demand otherwise is left out,
        and the page says so.
    """
    rows = trade_rows(view)
    data = page_data(view, rows, inline=inline)
    words = labels(view.language)
    mainland, counterexample = view.parameters.get("rules.market", "cn") == "cn", _counterexample(view)
    more = {"words": words, "mainland": mainland, "counterexample": _around(view, counterexample)}
    text = page_json({**data.inside, **more})
    columns = [view.result.get(name) for name in ("account", "benchmark", "index")]
    html = (
        environment()
        .get_template("page.html.j2")
        .render(
            view=view,
            result={**_UNKNOWN, **view.result},
            head=view.hashes.get("ledger", ""),
            words=words,
            ending=ending(view),
            facts=list(facts(view)),
            numbers=list(metric_rows(columns)) if columns[0] else [],
            episodes=_episodes(view),
            months=_months(view),
            refused=_refusals(view),
            by_symbol=per_symbol(rows).head(200),
            path=path_drawing(view),
            counterexample=counterexample,
            mainland=mainland,
            models=_models(view.result.get("usage") or ()),
            parameters=[(name, shown_value(value)) for name, value in sorted(view.parameters.items())],
            left_out=_left_out(view, data.without_candles, inline=inline),
            data=text,
            inline=inline,
            **scripts("page.js", view.run_id + text, inline=inline, up="../"),
        )
    )
    card = share_card(view, view.result["question"], _card_numbers(view))
    return Page(html=html, files={} if inline else data.files, card=card)


def _models(usage: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return calls, tokens and cost of each role's model over all sessions; "?" where a part is not known."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in usage:
        rows.setdefault(f"{row['role']} · {row['model']}", []).append(row)
    found = []
    for name, parts in rows.items():
        tokens = [part[kind] for part in parts for kind in ("prompt_tokens", "completion_tokens")]
        costs = [part["cost"] for part in parts]
        found.append(
            {
                "name": name,
                "calls": sum(part["calls"] for part in parts),
                "tokens": "?" if None in tokens else sum(tokens),
                "cost": "?" if "unknown" in costs else f"{sum(map(Decimal, costs)):f}",
            }
        )
    return found


def plotly_name() -> str:
    """Name of the file with plotly's script, which all pages share; it has the version."""
    return f"plotly-{version('plotly')}.min.js"


def plotly_script() -> bytes:
    """Plotly's script, from its package, which is not imported for it."""
    spec = find_spec("plotly")
    (folder,) = spec.submodule_search_locations if spec and spec.submodule_search_locations else [""]
    return Path(folder, "package_data", "plotly.min.js").read_bytes()


def scripts(own: str, seed: str, *, inline: bool, up: str) -> dict[str, Any]:
    """The texts and places of scripts and style for a template, and the policy that lets nothing else run."""
    style, *texts = (
        _HERE.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "base.js", own)
    )
    texts = [plotly_script().decode(), *texts] if inline else texts
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in texts)
    nonce = "" if inline else _sha256(seed)
    files = f" 'nonce-{nonce}'" if nonce else ""
    policy = (
        f"default-src 'none'; script-src {hashes}{files}; style-src 'unsafe-inline'; img-src data: blob:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return {
        "style": style,
        "inline_scripts": texts,
        "plotly": None if inline else f"{up}{FOLDER}/{plotly_name()}",
        "folder": FOLDER,
        "nonce": nonce,
        "policy": policy,
    }


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@functools.cache
def environment() -> jinja2.Environment:
    """The templates, in which every text is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    made.filters.update(ending=ending, money=_money, day=shown_day, signed=_signed)
    return made


def _clean(value: Any) -> Any:
    """Texts without characters that are obeyed instead of shown; scripts and style are ours."""
    return escape_controls(value, multiline=True) if type(value) is str else value


def _money(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.2f}"


def _signed(value: float | None) -> str:
    return "–" if value is None or value != value else f"{value:+.2%}"  # noqa: PLR0124 - NaN


def shown_value(value: Any) -> str:
    """A parameter as text: JSON unless it is a text."""
    return value if isinstance(value, str) else page_json({"": value})[4:-1]


def _card_numbers(view: RunView) -> list[tuple[str, str]]:
    account = view.result.get("account")
    return [
        (metric.words(view.language), metric.text(account[metric.name]))
        for metric in table_metrics()
        if account and metric.name in _CARD
    ]


def _episodes(view: RunView) -> list[Any]:
    values = view.equity("account")
    if values is None:
        return []
    first = values.index[min(1, len(values) - 1)]  # the initial cash stands on the day before
    return [replace(each, peak=max(each.peak, first)) for each in deepest_drawdowns(values)]


def _months(view: RunView) -> list[dict[str, Any]]:
    """Rows of the heat map: the year, its months' returns, and the years of account and benchmark."""
    values, benchmark = view.equity("account"), view.equity("benchmark")
    if values is None:
        return []
    years = yearly_returns(values)
    theirs = None if benchmark is None else yearly_returns(benchmark)
    return [
        {
            "year": int(year),
            "months": [None if cell != cell else float(cell) for cell in months],  # noqa: PLR0124 - NaN
            "account": float(years[year]),
            "benchmark": None if theirs is None else float(theirs[year]),
        }
        for year, months in zip(
            monthly_returns(values).index, monthly_returns(values).to_numpy(), strict=True
        )
    ]


def _refusals(view: RunView) -> list[tuple[str, int]]:
    return [(str(code), int(count)) for code, count in view.refused["code"].value_counts().items()]


def _counterexample(view: RunView) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (view.result.get("causality") or {}).get("counterexample")
    if found is None:
        summary = (view.result.get("validation") or {}).get("data_summary") or {}
        found = (summary.get("causality") or {}).get("counterexample")
    return found


def _around(view: RunView, found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The closes around the cell of a counterexample, for its picture."""
    close = view.bars.get("close")
    if found is None or close is None or found["symbol"] not in close.columns:
        return None
    day = pd.Timestamp(found["session"])
    place = int(close.index.searchsorted(day))
    part = close[found["symbol"]].iloc[max(0, place - _AROUND) : place + _AROUND]
    if day not in part.index:
        return None
    return {
        "days": [f"{each:%Y-%m-%d}" for each in part.index],
        "close": part.tolist(),
        "day": f"{day:%Y-%m-%d}",
        "price": float(part[day]),
        "known": str(found["known"]),
        "later": str(found["later"]),
    }


def _left_out(view: RunView, candles: int, *, inline: bool) -> Sequence[str]:
    """What the page lacks of the run."""
    lines, language, fills = [], view.language, len(view.fills)
    if view.missing:
        gone = ", ".join(view.missing)
        lines.append(say(language, zh=f"运行文件夹里缺少 {gone}", en=f"gone from the run's folder: {gone}"))
    if candles:
        lines.append(
            say(
                language,
                zh=f"成交最少的 {candles} 个代码的行情没有写入页面",
                en=f"the bars of the {candles:,} symbols with the fewest fills are not written",
            )
        )
    if inline and fills > MOST_FILLS:
        lines.append(
            say(
                language,
                zh=f"{fills:,} 笔成交中只有前 {MOST_FILLS:,} 笔在这个文件里",
                en=f"of {fills:,} fills this file has the first {MOST_FILLS:,}",
            )
        )
    return lines


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
