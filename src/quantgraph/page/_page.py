"""The page of a run: HTML that opens offline, drawn by plotly."""

from __future__ import annotations

import base64
import calendar
import functools
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from quantgraph._util.texts import Language, escape_controls, say
from quantgraph.judgement import card_rows, is_judged
from quantgraph.page._data import FOLDER, MOST_FILLS, CallStory, RunView, page_data, page_json
from quantgraph.page._drawings import path_drawing, share_card, words_of
from quantgraph.page._summary import (
    caption,
    code_words,
    day_text,
    ending,
    facts,
    judgement_of,
    not_done,
    open_findings,
    proof_text,
    provenance,
    request_lines,
    sentence,
    tiles,
    verdict,
    way,
)
from quantgraph.page._trades import per_reason, per_symbol, round_trip_rows, with_profits, with_words
from quantgraph.report import deepest_drawdowns, monthly_returns, yearly_returns
from quantgraph.report.metrics import metric_rows, table_metrics

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
_SYMBOLS_LISTED = 200
_REFUSED_LISTED = 20
_KEYLESS = "quantgraph-keyless-planner"
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
    trips = round_trip_rows(view)
    rule = (view.result.get("understanding") or {}).get("rule") or {}
    trips, rows = with_words(trips, with_profits(view.fills, trips), rule, view.language)
    data = page_data(view, rows, trips, inline=inline)
    counterexample, episodes = _counterexample(view), _episodes(view)
    shared = {"words": words_of(view), "red_rises": red_rises(view), "language": view.language}
    more = {"counterexample": _around(view, counterexample), "episodes": _marks(episodes)}
    text = page_json({**data.inside, **shared, **more})
    context = {
        **shared,
        **_first_screen(view),
        **_trade_tables(view, rows, trips),
        **_return_tables(view),
        **_provenance(view, data.without_candles, inline=inline),
        **scripts("conversation.js", "page.js", seed=view.run_id + text, inline=inline, up="../"),
    }
    html = (
        environment()
        .get_template("page.html.j2")
        .render(
            **context, view=view, episodes=episodes, counterexample=counterexample, data=text, inline=inline
        )
    )
    card = share_card(view, view.result["question"], _card_numbers(view))
    return Page(html=html, files={} if inline else data.files, card=card)


def _first_screen(view: RunView) -> dict[str, Any]:
    return {
        "ending": ending(view),
        "caption": caption(view),
        "not_done": not_done(view),
        "rule_decided": bool(view.stories) and {each.model for each in _model_calls(view)} == {_KEYLESS},
        "open_findings": open_findings(view),
        "tiles": tiles(view),
        "verdict": verdict(view),
        "is_judged": is_judged(judgement_of(view)),
        "evidence": card_rows(view.result["judgement"], view.language)
        if view.result.get("judgement")
        else [],
        "sentence": sentence(view),
        "said": list(request_lines(view)),
        "facts": list(facts(view)),
        "proof": proof_text(view.result.get("causality"), view.language),
    }


def _model_calls(view: RunView) -> Iterator[CallStory]:
    return (call for story in view.stories for call in story.calls if call.kind == "model")


def _trade_tables(view: RunView, rows: pd.DataFrame, trips: pd.DataFrame) -> dict[str, Any]:
    symbols = per_symbol(rows, trips)
    return {
        "trip_count": len(trips),
        "trips_counted": _count_words(trips, view.language),
        "reasons": per_reason(trips),
        "refused": _refusals(view),
        "refused_orders": list(_refused_orders(view)),
        "by_symbol": symbols.head(_SYMBOLS_LISTED),
        "symbols_left_out": max(0, len(symbols) - _SYMBOLS_LISTED),
    }


def _return_tables(view: RunView) -> dict[str, Any]:
    columns = [view.result.get(name) for name in ("account", "benchmark", "index")]
    return {
        "periods": view.result.get("periods_per_year") or 252,
        "numbers": list(metric_rows(columns)) if columns[0] else [],
        "months": _months(view),
        "month_names": _month_names(view.language),
    }


def _provenance(view: RunView, without_candles: int, *, inline: bool) -> dict[str, Any]:
    return {
        "result": {**_UNKNOWN, **view.result},
        "head": view.hashes.get("ledger", ""),
        "provenance": list(provenance(view, _left_out(view, without_candles, inline=inline))),
        "path": path_drawing(view),
        "models": _models(view.result.get("usage") or (), words_of(view)),
        "parameters": [(name, value_text(value)) for name, value in sorted(view.parameters.items())],
    }


def red_rises(view: RunView) -> bool:
    """Whether gains are red at first: on Chinese pages of the mainland's market."""
    return view.language == "zh" and view.parameters.get("rules.market", "cn") == "cn"


def _models(usage: Sequence[Mapping[str, Any]], words: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return calls, tokens and cost of each role's model over all sessions; "?" where a part is not known."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in usage:
        role, model = (words.get(f"{kind}_{row[kind]}", str(row[kind])) for kind in ("role", "model"))
        rows.setdefault(f"{role} · {model}", []).append(row)
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


def scripts(*own: str, seed: str, inline: bool, up: str) -> dict[str, Any]:
    """The texts and places of scripts and style for a template, and the policy that lets nothing else run."""
    style, *texts = (
        _HERE.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "base.js", *own)
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
    made.filters.update(ending=ending, money=_money, day=day_text, signed=percent, points=_points, way=way)
    return made


def _clean(value: Any) -> Any:
    """Texts without characters that are obeyed instead of shown; scripts and style are ours."""
    return escape_controls(value, multiline=True) if type(value) is str else value


def _money(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.2f}"


def percent(value: float | None) -> str:
    """A fraction in percent with its sign; a dash for none."""
    return "–" if value is None or value != value else f"{value:+.2%}".replace("-", "−")  # noqa: PLR0124 - NaN


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1%}".replace("-", "−")


def value_text(value: Any) -> str:
    """A parameter as text: JSON unless it is a text."""
    return value if isinstance(value, str) else page_json({"": value})[4:-1]


def _card_numbers(view: RunView) -> list[tuple[str, str]]:
    account = view.result.get("account")
    return [
        (metric.words(view.language), metric.text(account[metric.name]))
        for metric in table_metrics()
        if account and metric.name in _CARD
    ]


@dataclass(frozen=True, kw_only=True)
class _Episode:
    """A drawdown of the account: its ``sessions`` to the recovery, or to ``end``, the run's last day."""

    depth: float
    peak: pd.Timestamp
    trough: pd.Timestamp | None
    recovery: pd.Timestamp | None
    end: pd.Timestamp
    sessions: int


def _episodes(view: RunView) -> list[_Episode]:
    values = view.equity("account")
    if values is None:
        return []
    first, last = values.index[min(1, len(values) - 1)], values.index[-1]
    found = []
    for each in deepest_drawdowns(values):
        peak, end = max(each.peak, first), each.recovery or last  # the initial cash stands on the day before
        count = int(values.index.searchsorted(end) - values.index.searchsorted(peak))
        found.append(
            _Episode(
                depth=each.depth,
                peak=peak,
                trough=each.trough,
                recovery=each.recovery,
                end=end,
                sessions=count,
            )
        )
    return found


def _marks(episodes: Sequence[_Episode]) -> list[list[Any]]:
    """What the chart of the equity marks: the deepest fall, and others at least a third as deep."""
    return [
        [each.depth, day_text(each.peak), day_text(each.trough), day_text(each.end)]
        for each in episodes[:3]
        if each.depth <= episodes[0].depth / 3
    ]


def _count_words(trips: pd.DataFrame, language: Language) -> str:
    held = int((trips["kind"] == "open").sum())
    closed = len(trips) - held
    also = say(language, zh=f"，{held:,} 笔仍持有", en=f", {held:,} still open") if held else ""
    return say(language, zh=f"{closed:,} 笔已平仓", en=f"{closed:,} closed") + also


def _month_names(language: Language) -> list[str]:
    return [f"{month}月" if language == "zh" else calendar.month_abbr[month] for month in range(1, 13)]


def _months(view: RunView) -> list[dict[str, Any]]:
    """Rows of the heat map: a year, its months' returns and the benchmark's, and both years."""
    values, benchmark = view.equity("account"), view.equity("benchmark")
    if values is None:
        return []
    theirs = None if benchmark is None else yearly_returns(benchmark)
    their_months = None if benchmark is None else monthly_returns(benchmark)
    years, months_of = yearly_returns(values), monthly_returns(values)
    rows = []
    for year in map(int, months_of.index):
        account = float(years[year])
        other = None if theirs is None else float(theirs[year])
        rows.append(
            {
                "year": year,
                "months": _cells(months_of, year),
                "their_months": None if their_months is None else _cells(their_months, year),
                "account": account,
                "benchmark": other,
                "difference": None if other is None else account - other,
            }
        )
    return rows


def _cells(months: pd.DataFrame, year: int) -> list[float | None]:
    return [None if math.isnan(cell) else float(cell) for cell in months.loc[[year]].to_numpy()[0]]


def _refusals(view: RunView) -> list[tuple[str, int]]:
    counts = view.refused["code"].value_counts()
    return [(code_words(str(code), view.language), int(count)) for code, count in counts.items()]


def _refused_orders(view: RunView) -> Iterator[dict[str, Any]]:
    for row in view.refused.head(_REFUSED_LISTED).to_dict("records"):
        shown = {str(name): value for name, value in row.items()}
        yield shown | {"words": code_words(str(row["code"]), view.language)}


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
