"""What the page of a run shows: plain data that were gathered from its folder, and nothing that runs.

The arithmetic of a page's pictures: drawdowns, months, rolling ratios, fewer points for a curve.

What a page's script draws, as JSON: curves, fills, candles, sessions; large parts in own files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Language, escape_controls


@dataclass(frozen=True, kw_only=True)
class CallStory:
    """A request to a model, an agent's tool or a person, as it was recorded at the path of a node.

    ``kind`` is ``model``, ``tool`` or ``answer``; ``role`` the model's, or who answered. ``asked`` has the
    messages that the calls before it at the path did not have: who says it, and the text. ``reply`` is a
    text, the error's line if it failed; ``tools`` its tool calls, name and arguments; ``tokens`` those of
    prompt and completion, None if one is not known.
    """

    path: str
    kind: str
    role: str
    model: str
    asked: tuple[tuple[str, str], ...]
    reply: str
    tools: tuple[tuple[str, str], ...] = ()
    failed: bool = False
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class SessionStory:
    """A session (``YYYYMMDD``) of a decider that thinks: its calls in order, the notes of its decision.

    ``before`` and ``after`` are the shares held at the end of the session before, and of this one;
    ``drawings`` the SVG of its executions, each with its symbol, ``*`` if it is of all at once.
    """

    session: str
    calls: tuple[CallStory, ...]
    notes: Mapping[str, Any]
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    drawings: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class RunView:
    """A run as its page shows it.

    Attributes
    ----------
    language
        Of its sentence.
    result
        The content of ``result.json``.
    understood
        The request as understood, a line each.
    parameters
        Its configuration by name, plain JSON, without places of the machine.
    hashes
        Names and hashes: the run's identity, its data, its strategy, the head of its ledger.
    days
        See :meth:`~quantgraph.broker.ledger.Ledger.days`; empty if nothing was traded.
    fills
        A row a fill, in order: ``session`` is ``YYYY-MM-DD``, ``cost`` all charges.
    refused
        A row an order that was refused, or cut off by the volume cap.
    splits, delistings
        By symbol: sessions in which a split changed a holding, and by how many shares; or in which the shares
        were delisted, and what was paid for all of them.
    names
        Names of stocks and indices by code, as far as the run's source had them.
    bars
        Frames sessions x symbols of open, high, low, close and vol, as far as there are any.
    indicators
        Called with symbols: by a label for people, the values (sessions x symbols) that the rule names.
    labels
        Words of the decider, by name.
    stories, calls
        Sessions of deciders that keep notes or ask models; the calls outside of a session.
    code
        The strategy's source, empty if there is none.
    closing, resumed_by
        If it is not done: what happened, and what to do next; and the command that goes on with it, empty if
        it would end the same way.
    missing
        Names of files and folders of the run that are gone, so that the page lacks what they had.
    """

    FILL_COLUMNS: ClassVar = (
        "session",
        "symbol",
        "side",
        "quantity",
        "price",
        "notional",
        "cost",
        "sequence",
        "reason",
    )
    REFUSED_COLUMNS: ClassVar = (
        "session",
        "symbol",
        "side",
        "quantity",
        "code",
        "message",
        "sequence",
        "reason",
    )

    run_id: str
    language: Language
    result: Mapping[str, Any]
    decider: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    understood: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    days: pd.DataFrame = field(default_factory=pd.DataFrame)
    fills: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=RunView.FILL_COLUMNS))
    refused: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=RunView.REFUSED_COLUMNS))
    splits: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    delistings: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    bars: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    signal: pd.DataFrame | None = None
    indicators: Callable[[Sequence[str]], Mapping[str, pd.DataFrame]] = lambda _symbols: {}
    stories: Sequence[SessionStory] = ()
    calls: Sequence[CallStory] = ()
    code: str = ""
    closing: str = ""
    resumed_by: str = ""
    missing: Sequence[str] = ()

    def equity(self, name: str) -> pd.Series[float] | None:
        """The values of ``account``, ``benchmark`` or ``index``, initial cash first; None without."""
        equity = self.result.get("equity")
        if not equity or not equity.get(name):
            return None
        index = pd.DatetimeIndex(pd.to_datetime(equity["sessions"], format="%Y%m%d"))
        return pd.Series(equity[name], index=index, dtype=np.float64)


ROLLING = 63
"""Sessions of a rolling ratio: a quarter."""

Floats = NDArray[np.float64]


def drawdown(values: pd.Series[float]) -> pd.Series[float]:
    """Value over the highest so far, less 1."""
    return values / values.cummax() - 1


def rolling_ratios(
    values: pd.Series[float], benchmark: pd.Series[float] | None, *, periods_per_year: int
) -> dict[str, pd.Series[float]]:
    """Sharpe ratio, volatility and beta of the last :data:`ROLLING` returns; NaN before there are so many.

    Of a year as the numbers of the summary: mean over standard deviation (ddof 1) times its root; beta is the
    covariance with the benchmark's returns over their variance.
    """
    window = values.pct_change(fill_method=None).rolling(ROLLING)
    spread, root = window.std(), periods_per_year**0.5
    found = {"sharpe": window.mean() / spread.where(spread > 0) * root, "volatility": spread * root}
    if benchmark is not None:
        theirs = benchmark.pct_change(fill_method=None)
        variance = theirs.rolling(ROLLING).var()
        found["beta"] = window.cov(theirs) / variance.where(variance > 0)
    return found


def largest_triangles(y: Floats, count: int) -> NDArray[np.int64]:
    """Places of ``count`` points that keep the shape of a curve (n,) at equal distances; NaN counts as 0.

    The first and the last one stay; of each block of equal length the point that makes the largest triangle
    with the point kept before it and the mean of the block behind. (Sveinn Steinarsson, Downsampling Time
    Series for Visual Representation, 2013: Largest-Triangle-Three-Buckets.)
    """
    if len(y) <= count:
        return np.arange(len(y))
    heights = np.nan_to_num(y)
    edges = np.linspace(1, len(y) - 1, count - 1).astype(np.int64)
    kept = [0]
    for (first, end), mean_x, mean_y in zip(pairwise(edges), *_behind(heights, edges), strict=True):
        x = np.arange(first, end)
        before = kept[-1]
        area = np.abs(
            (before - mean_x) * (heights[first:end] - heights[before])
            - (before - x) * (mean_y - heights[before])
        )
        kept.append(first + int(np.argmax(area)))
    return np.array([*kept, len(y) - 1])


def _behind(heights: Floats, edges: NDArray[np.int64]) -> Iterator[list[float]]:
    """Mean place and mean height of the block behind each block; behind the last one is the last point."""
    blocks = [*pairwise(edges[1:]), (len(heights) - 1, len(heights))]
    yield [(first + end - 1) / 2 for first, end in blocks]
    yield [float(heights[first:end].mean()) for first, end in blocks]


FOLDER = "report_files"
"""Folder beside the page with what it loads on demand."""
MOST_FILLS, MOST_CANDLES = 5_000, 60
"""Fills and symbols' candles in the page itself."""
_POINTS = 2_000
"""Of a curve."""
_FILLS_A_FILE = 50_000
_SYMBOLS = 1_000
"""Whose candles are written at all: those with the most fills."""
_STORY_BYTES = 500_000
_TEXT = 20_000
"""Characters of one message that are shown."""


def _levels(view: RunView) -> dict[str, float]:
    """Fractions of the plan's stops and target."""
    plan = view.result.get("plan") or {}
    levels = {name: plan.get(name) for name in ("stop_loss", "take_profit", "trailing_stop")}
    return {name: float(far) for name, far in levels.items() if isinstance(far, str | float)}


@dataclass(kw_only=True)
class PageData:
    """The JSON in the page, the files beside it by name, and which candles were left out."""

    inside: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    without_candles: int = 0


def page_data(view: RunView, rows: pd.DataFrame, trips: pd.DataFrame, *, inline: bool) -> PageData:
    """Gather the JSON of a page, of fills and round trips whose reasons are words."""
    sessions = [f"{day:%Y-%m-%d}" for day in view.days.index]
    symbols = list(dict.fromkeys([*view.fills["symbol"], *view.refused["symbol"]]))
    named = view.names if view.stories else symbols
    inside: dict[str, Any] = {
        "sessions": sessions,
        "symbols": [_as_text(symbol) for symbol in symbols],
        "names": {_as_text(symbol): _as_text(view.names[symbol]) for symbol in named if symbol in view.names},
        "curves": _curves(view),
        "var": (view.result.get("account") or {}).get("value_at_risk"),
        "levels": _levels(view),
        "splits": {_as_text(symbol): [day for day, _ in events] for symbol, events in view.splits.items()},
        "days": _days(view.days),
    }
    data = PageData(inside=inside)
    charted = _charted_symbols(data, view, symbols, inline=inline)
    values = _indicator_values(view, charted)
    _add_fills(data, view, rows, symbols, values, inline=inline)
    _add_trips(data, view, trips, symbols, values, inline=inline)
    _add_candles(data, view, charted, values)
    _add_stories(data, view.stories, inline=inline)
    return data


def curve(values: pd.Series[float]) -> dict[str, Any]:
    """A curve of at most :data:`_POINTS` points: days and values."""
    known = values[values.notna()]
    places = largest_triangles(np.asarray(known, dtype=np.float64), _POINTS)
    return {
        "x": [f"{day:%Y-%m-%d}" for day in known.index[places]],
        "y": known.to_numpy(dtype=np.float64)[places].tolist(),
    }


def _curves(view: RunView) -> dict[str, Any]:
    named = {name: view.equity(name) for name in ("account", "benchmark", "index")}
    frames = {name: values for name, values in named.items() if values is not None}
    if not frames:
        return {}
    account, periods = frames["account"], view.result.get("periods_per_year") or 252
    rolling = rolling_ratios(account, frames.get("benchmark"), periods_per_year=periods)
    returns = account.pct_change(fill_method=None).iloc[1:]
    return {
        "equity": {name: curve(values) for name, values in frames.items()},
        "drawdown": {name: curve(drawdown(values)) for name, values in frames.items()},
        "rolling": {name: curve(values) for name, values in rolling.items()},
        "returns": {
            "x": [f"{day:%Y-%m-%d}" for day in returns.index],
            "y": [round(each, 8) for each in returns.tolist()],
        },
    }


def _days(days: pd.DataFrame) -> dict[str, Any]:
    if days.empty:
        return {}
    return {
        "positions": days["positions"].astype(int).tolist(),
        "exposure": (days["stocks"] / days["value"]).round(6).tolist(),
        "traded": days["traded"].tolist(),
    }


def _add_fills(
    data: PageData,
    view: RunView,
    rows: pd.DataFrame,
    symbols: Sequence[str],
    values: Mapping[str, pd.DataFrame],
    *,
    inline: bool,
) -> None:
    """The fills; those that the signal wanted at the close before have the rule's values of then."""
    place, number = (
        {name: at for at, name in enumerate(names)} for names in (data.inside["sessions"], symbols)
    )
    reasons = list(dict.fromkeys(rows["words"]))
    reason = {text: at for at, text in enumerate(reasons)}
    columns: dict[str, Any] = {
        "day": rows["session"].map(place),
        "symbol": rows["symbol"].map(number),
        "sell": (rows["side"] == "sell").astype(int),
        **{name: rows[name] for name in ("quantity", "price", "notional", "cost")},
        "profit": rows["profit"].astype(float).round(2),
        "holding": rows["holding"],
        "reason": rows["words"].map(reason),
    }
    side = rows["side"].map({"buy": 1, "sell": -1}).to_numpy()
    columns |= _decisive(view, values, rows["symbol"], columns["day"], side, "value")
    data.inside |= {
        "reasons": [_as_text(text) for text in reasons],
        "refused": _refusals(view.refused, place, number),
    }
    _add_columns(data, "fills", columns, inline=inline)


def _add_columns(data: PageData, kind: str, columns: Mapping[str, Any], *, inline: bool) -> None:
    """The first rows of a table inside, the others in files."""
    places = {"day", "symbol", "sell", "reason", "kind", "opened", "closed", "entry", "exit"}
    arrays = {
        name: np.asarray(
            column, dtype=np.int64 if name.partition("_")[0] in places and "price" not in name else np.float64
        )
        for name, column in columns.items()
    }
    count = len(next(iter(arrays.values())))
    data.inside |= {kind: {name: array[:MOST_FILLS] for name, array in arrays.items()}, f"{kind}_files": []}
    for first in () if inline else range(MOST_FILLS, count, _FILLS_A_FILE):
        name = f"{kind}-{first}.js"
        part = {key: array[first : first + _FILLS_A_FILE] for key, array in arrays.items()}
        data.files[name] = _script(kind, part)
        data.inside[f"{kind}_files"].append(name)


KINDS = ("closed", "delisted", "open")


def _add_trips(
    data: PageData,
    view: RunView,
    trips: pd.DataFrame,
    symbols: Sequence[str],
    values: Mapping[str, pd.DataFrame],
    *,
    inline: bool,
) -> None:
    """The round trips, with the rule's values at the close before the entry and the exit by the signal."""
    number = {symbol: at for at, symbol in enumerate(symbols)}
    words = list(dict.fromkeys([*trips["entry_words"], *trips["exit_words"]]))
    reason = {text: at for at, text in enumerate(words)}
    columns: dict[str, Any] = {
        "symbol": trips["symbol"].map(number),
        "kind": trips["kind"].map(KINDS.index),
        **{name: trips[name] for name in ("opened", "closed", "entry", "exit", "holding", "quantity")},
        "entry_price": trips["entry_price"].astype(float).round(6),
        "exit_price": trips["exit_price"].astype(float).round(6),
        "profit": trips["profit"].astype(float).round(2),
        **{name: trips[name].astype(float).round(6) for name in ("gain", "mae", "mfe")},
        "reason_in": trips["entry_words"].map(reason),
        "reason_out": trips["exit_words"].map(reason),
    }
    for name, side in (("opened", 1), ("closed", -1)):
        columns |= _decisive(view, values, trips["symbol"], trips[name], side, f"value_{name}")
    data.inside |= {
        "trip_reasons": [_as_text(text) for text in words],
        "value_labels": list(map(_as_text, values)),
    }
    _add_columns(data, "trips", columns, inline=inline)


def _decisive(  # noqa: PLR0917 - as the columns need it
    view: RunView,
    values: Mapping[str, pd.DataFrame],
    symbols: pd.Series[str],
    places: pd.Series[int],
    side: Any,
    name: str,
) -> dict[str, Floats]:
    """Columns of the values at the close before, where the signal is of that side then."""
    days, signal = view.days.index, view.signal
    decides = True if signal is None or not values else _before(signal, days, symbols, places) == side
    return {
        f"{name}_{at}": np.where(decides, _before(frame, days, symbols, places), np.nan)
        for at, frame in enumerate(values.values())
    }


def _before(frame: pd.DataFrame, days: pd.Index, symbols: pd.Series[str], places: pd.Series[int]) -> Floats:
    """The values of symbols in the row before a session; NaN where there is none."""
    rows = frame.index.get_indexer(days)[places.to_numpy(dtype=np.int64)] - 1
    columns = frame.columns.get_indexer(pd.Index(symbols))
    known = (rows >= 0) & (columns >= 0)
    found = np.full(len(rows), np.nan)
    found[known] = frame.to_numpy(dtype=np.float64)[rows[known], columns[known]]
    return found.round(6)


def _refusals(table: pd.DataFrame, place: Mapping[str, int], number: Mapping[str, int]) -> list[list[Any]]:
    """Refused orders: session, symbol, side, quantity, code, message."""
    return [
        [place.get(row[0], -1), number[row[1]], row[2], row[3], *map(_as_text, row[4:6])]
        for row in table.head(MOST_FILLS).itertuples(index=False, name=None)
    ]


def _charted_symbols(data: PageData, view: RunView, symbols: Sequence[str], *, inline: bool) -> list[str]:
    """The traded symbols whose bars are written, those with the most fills first."""
    close = view.bars.get("close")
    if close is None:
        return []
    traded = view.fills["symbol"].value_counts(sort=True)
    order = [*sorted(traded.index, key=lambda each: -int(traded[each]))]
    order += [each for each in symbols if each not in traded.index]
    known = [each for each in order if each in close.columns]
    kept = known[: MOST_CANDLES if inline else _SYMBOLS]
    data.without_candles = len(known) - len(kept)
    return kept


def _indicator_values(view: RunView, symbols: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The values that the rule names, by label, on the sessions of the bars."""
    if not symbols:
        return {}
    index = view.bars["close"].index
    return {
        label: frame.reindex(index=index, columns=list(symbols)).round(6)
        for label, frame in view.indicators(symbols).items()
    }


def _add_candles(
    data: PageData, view: RunView, symbols: Sequence[str], values: Mapping[str, pd.DataFrame]
) -> None:
    """The bars of symbols; the files on demand are by symbol."""
    data.inside |= {"candles": {}, "candle_files": {}}
    if "close" not in view.bars:
        return
    data.inside["bar_days"] = [f"{day:%Y-%m-%d}" for day in view.bars["close"].index]
    for number, (symbol, bars) in enumerate(_candles(view, symbols, values)):
        if number < MOST_CANDLES:
            data.inside["candles"][symbol] = bars
        else:
            name = f"bars-{number}.js"
            data.files[name] = _script("bars", {"symbol": symbol, "bars": bars})
            data.inside["candle_files"][symbol] = name


def _candles(
    view: RunView, symbols: Sequence[str], values: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, dict[str, Any]]]:
    index = view.bars["close"].index
    signal = None if view.signal is None else view.signal.reindex(index)
    frames = {
        name: frame.reindex(columns=list(symbols)).to_numpy(dtype=np.float64).T
        for name, frame in view.bars.items()
    }
    lines = {_as_text(label): frame.to_numpy(dtype=np.float64).T for label, frame in values.items()}
    for at, symbol in enumerate(symbols):
        bars: dict[str, Any] = {name: np.ascontiguousarray(array[at]) for name, array in frames.items()}
        if signal is not None and symbol in signal.columns:
            opinions = signal[symbol].to_numpy()
            bars["signal"] = [[int(day), int(opinions[day])] for day in np.flatnonzero(np.abs(opinions) == 1)]
        bars["lines"] = {label: np.ascontiguousarray(array[at]) for label, array in lines.items()}
        yield _as_text(symbol), bars


def _add_stories(data: PageData, stories: Sequence[SessionStory], *, inline: bool) -> None:
    """The sessions of a decider that thinks, in files of about half a megabyte."""
    data.inside |= {"stories": [story.session for story in stories], "story_files": []}
    packs: list[list[dict[str, Any]]] = [[]]
    size = 0
    for story in stories:
        session = _story(story)
        length = len(_dumps(session))
        if packs[-1] and size + length > _STORY_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(session)
        size += length
    inside = itertools.chain.from_iterable(packs if inline else packs[:1])
    data.inside["told"] = {each["session"]: each for each in inside}
    if inline:
        return
    for number, pack in enumerate(packs[1:], 1):
        name = f"sessions-{number}.js"
        data.files[name] = _script("sessions", pack)
        data.inside["story_files"].append([name, *(each["session"] for each in pack)])


def _story(story: SessionStory) -> dict[str, Any]:
    return {
        "session": story.session,
        "notes": _visible(story.notes),
        "drawings": [[_as_text(symbol), svg] for symbol, svg in story.drawings],
        "calls": [_call(call) for call in story.calls],
        "held": [
            [_as_text(symbol), story.before.get(symbol, 0.0), story.after.get(symbol, 0.0)]
            for symbol in sorted({*story.before, *story.after})
        ],
    }


def _call(call: CallStory) -> dict[str, Any]:
    return {
        **{name: _as_text(getattr(call, name)) for name in ("path", "kind", "role", "model", "reply")},
        "asked": [[_as_text(who), _as_text(text)] for who, text in call.asked],
        "tools": [[_as_text(name), _as_text(text)] for name, text in call.tools],
        "failed": call.failed,
        "tokens": call.tokens,
    }


def _visible(value: Any) -> Any:
    """A JSON value without characters that are obeyed instead of shown."""
    if isinstance(value, str):
        return _as_text(value)
    if isinstance(value, Mapping):
        return {_as_text(str(name)): _visible(each) for name, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value


def _as_text(text: str) -> str:
    return escape_controls(text[:_TEXT], multiline=True)


def _dumps(value: Any) -> bytes:
    """JSON in which nothing ends a script; NaN is null."""
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return (
        text.replace(b"<", b"\\u003c")
        .replace(b"\xe2\x80\xa8", b"\\u2028")
        .replace(b"\xe2\x80\xa9", b"\\u2029")
    )


def _script(kind: str, value: Any) -> bytes:
    """A file that hands its content to the page: a page that was opened from a folder may fetch nothing."""
    return b"quantgraph(" + _dumps(kind) + b"," + _dumps(value) + b")\n"


def page_json(inside: Mapping[str, Any]) -> str:
    """The JSON in the page."""
    return _dumps(inside).decode()
