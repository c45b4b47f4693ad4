"""The result of a run: its JSON, tables, picture and page; runs of a folder side by side."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

import numpy as np
import pandas as pd

from quantgraph._util.files import MANIFEST_FILE, find_run_folder, read_stored, storage_errors, write_atomic
from quantgraph._util.texts import (
    Language,
    Note,
    escape_controls,
    html_lines,
    html_table,
    language_of,
    say,
    short_line,
    without_places,
)
from quantgraph.audit import first_lines
from quantgraph.broker.ledger import Ledger, fills_frame, orders_frame
from quantgraph.errors import BadFile, BadOption, QuantGraphError
from quantgraph.judgement import card_rows, verdict_line
from quantgraph.recording import Trajectory, trajectory
from quantgraph.report import deepest_drawdowns, monthly_returns, yearly_returns
from quantgraph.report.metrics import Drawdown, metric_rows
from quantgraph.runs._outputs import (
    PAGE_FILE,
    RESULT_FILE,
    SIGNAL_FILE,
    can_be_resumed,
    changed_file,
    initial_result,
    read_result,
    read_signal,
)
from quantgraph.runs._parameters import call_text
from quantgraph.runs.folder._folder import existing_ledger, read_manifest
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import understanding_lines

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from quantgraph.page import RunView


T = TypeVar("T")

_LINES, _WIDTH, _PATH_WIDTH, _FINDING_WIDTH = 9, 110, 300, 1000
"""Of a representation: at most so many lines, of so many characters; more where a line must be whole."""
_CURVES = {
    "account": Note(zh="账户", en="account"),
    "benchmark": Note(zh="买入持有", en="buy and hold"),
    "index": Note(zh="指数", en="index"),
}
_COLOURS = {"account": "#1d4ed8", "benchmark": "#f59e0b", "index": "#667085"}
_MARKS = {
    "buy": (Note(zh="买入", en="buy"), "#059669", "triangle-up"),
    "sell": (Note(zh="卖出", en="sell"), "#db2777", "triangle-down"),
}
_TITLE_WIDTH = 90
_TRIP_COLUMNS = [
    *("ts_code", "kind", "opened", "closed", "holding", "quantity", "entry_price", "exit_price"),
    *("profit", "return", "mae", "mfe", "entry_reason", "exit_reason"),
]
_TRADE_COLUMNS = ("profit", "holding", "mae", "mfe")


class RunResult(dict[str, Any]):
    """What a run returns: a dict, the content of ``result.json``, and tables that are read when asked for.

    A run that failed, waits for an answer or made no trade has empty tables. The ``summary`` of a trading
    graph is opened by ``RunResult(state["summary"])``, which has what needs no folder: :attr:`equity`,
    :attr:`returns`, :meth:`plot` and the representations; its orders are in the graph's ``Ledger``.

    Raises
    ------
    BadOption
        From an attribute that the result has no folder for.
    BadFile
        From an attribute whose file is missing, though the run wrote it, or is damaged.
    """

    def __init__(self, result: Mapping[str, Any] | None = None, ledger: str | Path | None = None) -> None:
        super().__init__(result or {})
        self._ledger = ledger
        """Place of a ledger that is not in the folder, as the caller named it."""

    @property
    def folder(self) -> Path:
        """The run's folder."""
        if "run_dir" not in self:
            run = self.get("run_id", "RUN")
            raise BadOption(
                f"the summary of a graph has no folder; its orders and positions are in the graph's ledger: "
                f"Ledger(PLACE).orders({run!r})",
                parameter="run_dir",
            )
        return Path(self["run_dir"])

    @property
    def equity(self) -> pd.DataFrame:
        """Values of ``account``, ``benchmark`` and, if there is one, ``index``, in the market's currency.

        Float64; index ``trade_date``, which begins with the initial cash on the calendar day before the
        first session. Empty if nothing was traded.
        """
        equity = self.get("equity") or {"sessions": [], "account": [], "benchmark": []}
        index = pd.DatetimeIndex(
            pd.to_datetime(equity["sessions"], format="%Y%m%d"), dtype="datetime64[us]", name="trade_date"
        )
        columns = {name: equity[name] for name in _CURVES if equity.get(name) is not None}
        return pd.DataFrame(columns, index=index, dtype=np.float64)

    @property
    def returns(self) -> pd.Series[float]:
        """The account's return of each session, a fraction: float64, index ``trade_date``; empty without one.

        For the others: ``result.equity["benchmark"].pct_change()``.
        """
        account = self.equity.get("account", pd.Series(dtype=np.float64, name="account"))
        return account.pct_change(fill_method=None).iloc[1:]

    @property
    def orders(self) -> pd.DataFrame:
        """One row per order with its outcome, see :meth:`~quantgraph.broker.ledger.Ledger.orders`."""
        return self._of_ledger("orders", orders_frame([]))

    @property
    def trades(self) -> pd.DataFrame:
        """One row per fill as in :meth:`~quantgraph.broker.ledger.Ledger.fills`, and what each sale closed.

        Four more columns are NaN in purchases. ``profit``: proceeds less the average cost of the shares,
        charges of both sides included. ``holding``: sessions since the position's first purchase. ``mae`` and
        ``mfe``: the worst and the best price while it was open, over the mean purchase price, less 1; NaN
        where the bars do not tell, or a split fell in between.
        """
        from quantgraph.page import trade_rows
        from quantgraph.runs._page import view_trades

        fills, place = self._of_ledger("fills", fills_frame([])), self._ledger_place
        if fills.empty or place is None:
            return fills.assign(**dict.fromkeys(_TRADE_COLUMNS, np.array([], dtype=np.float64)))
        closed = trade_rows(view_trades(self.folder, self, place))
        return fills.assign(**{name: closed[name] for name in _TRADE_COLUMNS})

    @property
    def round_trips(self) -> pd.DataFrame:
        """One row per sale with the purchases it closed, at average cost; what is still held comes last.

        ``ts_code``; ``kind``: ``closed``, ``delisted`` or ``open``; ``opened`` and ``closed``, sessions, the
        last one of the run for what is held; ``holding`` in sessions; ``quantity`` in shares; ``entry_price``
        (mean) and ``exit_price`` (the last close for what is held); ``profit``, all charges counted, in the
        market's currency; ``return``, profit over cost; ``mae`` and ``mfe``, see :attr:`trades`;
        ``entry_reason`` and ``exit_reason`` in words, as on the page.
        """
        from quantgraph.page import reason_words, round_trip_rows
        from quantgraph.runs._page import view_trades

        place = self._ledger_place
        if place is None or self._of_ledger("fills", fills_frame([])).empty:
            return pd.DataFrame(columns=_TRIP_COLUMNS)
        view = view_trades(self.folder, self, place)
        trips, days = round_trip_rows(view), view.days.index
        rule = (self.get("understanding") or {}).get("rule") or {}
        spoken = language_of(self["question"])
        for side in ("entry", "exit"):
            trips[f"{side}_reason"] = [
                reason_words(code, rule, spoken, selling=side == "exit", price=price)
                for code, price in zip(trips[f"{side}_reason"], trips[f"{side}_price"], strict=True)
            ]
        dated = {name: days[trips[name].to_numpy(dtype=np.int64)] for name in ("opened", "closed")}
        named = trips.assign(**dated).rename(columns={"symbol": "ts_code", "gain": "return"})
        return named.loc[:, _TRIP_COLUMNS]

    @property
    def metrics(self) -> pd.DataFrame:
        """The numbers of the account, its benchmark and the index: float64, a row a number, NaN without one.

        Fractions and the market's currency; :data:`~quantgraph.report.metrics.METRICS` has their formulas.
        """
        rows = {metric.name: cells for metric, cells in metric_rows([self.get(name) for name in _CURVES])}
        table = pd.DataFrame.from_dict(rows, orient="index", columns=list(_CURVES), dtype=np.float64)
        return table.rename_axis("number")

    @property
    def monthly(self) -> pd.DataFrame:
        """Returns of the account by year and month, as fractions: float64, NaN in months without a session.

        A row a year; columns 1 to 12, ``year``, and ``benchmark``, the benchmark's year.
        """
        equity = self.equity
        if equity.empty:
            return pd.DataFrame(columns=[*range(1, 13), "year", "benchmark"], dtype=np.float64)
        years = {"year": "account", "benchmark": "benchmark"}
        more = {label: yearly_returns(equity[name]) for label, name in years.items() if name in equity}
        return monthly_returns(equity["account"]).assign(**more)

    @property
    def drawdowns(self) -> pd.DataFrame:
        """The ten deepest falls of the account that do not overlap, the deepest first.

        ``peak``, ``trough`` and ``recovery``, dates, NaT if it has not recovered; ``depth``, a fraction below
        0; ``sessions`` from the peak to the recovery, or to the end of the run.
        """
        values = self.equity.get("account", pd.Series(dtype=np.float64))
        rows = [
            [each.peak, each.trough, each.recovery, each.depth, _sessions_of(each, values)]
            for each in (deepest_drawdowns(values, 10) if len(values) else [])
        ]
        table = pd.DataFrame(rows, columns=["peak", "trough", "recovery", "depth", "sessions"])
        dates: dict[str, Any] = dict.fromkeys(("peak", "trough", "recovery"), "datetime64[us]")
        return table.astype(dates | {"depth": "float64", "sessions": "int64"})

    @property
    def positions(self) -> pd.DataFrame:
        """Shares at the end of each session: float64, sessions x symbols, 0 where nothing is held."""
        return self._holdings[0]

    @property
    def weights(self) -> pd.DataFrame:
        """Value at the close over equity, by session: float64, sessions x symbols, 0 where nothing is held.

        The marks of the ledger: the last close of a stock that does not trade. The rest up to 1 is cash.
        """
        shares, marks = self._holdings
        account = self.equity.get("account", pd.Series(dtype=np.float64))
        return (shares * marks).div(account.reindex(shares.index), axis=0).fillna(0.0)

    @property
    def _holdings(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Shares and marks, sessions x symbols."""
        nothing = pd.DataFrame(
            index=pd.DatetimeIndex([], dtype="datetime64[us]", name="trade_date"),
            columns=pd.Index([], name="ts_code", dtype="str"),
            dtype=np.float64,
        )
        return self._of_ledger("holdings", (nothing, nothing))

    @property
    def signal(self) -> pd.DataFrame | None:
        """The signal, sessions x symbols: 1 long, 0 no change, -1 out, NaN no opinion; None without one."""
        content = self._left(SIGNAL_FILE) if self.get("signal") else None
        return None if content is None else read_signal(content, self.folder / SIGNAL_FILE)

    @property
    def understanding(self) -> list[str]:
        """What was understood, a line each, in the sentence's language; empty if it was not understood."""
        understanding = self.get("understanding")
        return understanding_lines(understanding, self._language) if understanding else []

    @property
    def verdict(self) -> str:
        """How far the result can be believed, in a line, see ``docs/judgement.md``; empty without an account.

        The numbers behind it are ``result["judgement"]``.
        """
        judgement = self.get("judgement")
        return verdict_line(judgement, self._language) if judgement else ""

    @property
    def evidence(self) -> pd.DataFrame:
        """The evidence under the verdict: a row a line of the card, ``text``; empty without an account."""
        judgement = self.get("judgement")
        rows = dict(card_rows(judgement, self._language)) if judgement else {}
        return pd.DataFrame({"text": pd.Series(rows, dtype="str")})

    @property
    def code(self) -> str:
        """Text of ``strategy.py``; empty if there is none."""
        return self._left("strategy.py").decode() if self.get("strategy") else ""

    @property
    def changed_file(self) -> str:
        """Which file has not its checksum, in a line; empty if all have theirs."""
        return changed_file(self.folder)

    def _left(self, name: str) -> bytes:
        """The content of a file that the run left in its folder."""
        content = read_stored(self.folder, name)
        if content is None:
            path = self.folder / name
            raise BadFile(f"{path} is missing; the run left it there", path=str(path))
        return content

    def plot(self) -> go.Figure:
        """Draw return, trades and drawdown as a plotly figure; one that says so if nothing was traded."""
        from plotly.subplots import make_subplots

        equity, title = (
            self.equity,
            "<br>".join(map(html.escape, wrap(short_line(self._title), _TITLE_WIDTH))),
        )
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3])
        if equity.empty:
            nothing = say(self._language, zh="没有成交", en="nothing was traded")
            return figure.update_layout(title=f"{title}<br>{nothing}")
        for name, values in equity.items():
            for row, drawn in ((1, values / values.iloc[0] - 1), (2, values / values.cummax() - 1)):
                figure.add_scatter(
                    x=drawn.index,
                    y=drawn,
                    name=_CURVES[str(name)].text(self._language),
                    legendgroup=str(name),
                    showlegend=row == 1,
                    line={"color": _COLOURS[str(name)], "width": 2 if name == "account" else 1.3},
                    row=row,
                    col=1,
                )
        self._draw_trades(figure, equity["account"] / equity["account"].iloc[0] - 1)
        return figure.update_layout(
            title={"text": title, "font": {"size": 14}},
            hovermode="x unified",
            template="plotly_white",
            legend={"orientation": "h", "y": 1, "yanchor": "bottom"},
            margin={"t": 60 + 20 * title.count("<br>"), "l": 60, "r": 20, "b": 40},
            yaxis={"tickformat": "+.0%", "hoverformat": "+.2%"},
            yaxis2={"tickformat": ".0%", "hoverformat": ".2%"},
        )

    def _draw_trades(self, figure: go.Figure, curve: pd.Series[float]) -> None:
        """A mark on the curve for each purchase and each sale."""
        fills = self._of_ledger("fills", fills_frame([])) if "run_dir" in self else fills_frame([])
        for side, (name, colour, symbol) in _MARKS.items():
            shown = fills[fills["side"] == side]
            figure.add_scatter(
                x=shown["trade_date"],
                y=curve.reindex(shown["trade_date"]),
                text=[f"{row.ts_code} {row.quantity:,.0f} @ {row.price:,.2f}" for row in shown.itertuples()],
                name=name.text(self._language),
                mode="markers",
                marker={"color": colour, "symbol": symbol, "size": 8},
                hovertemplate="%{text}",
                visible=bool(len(shown)),
                row=1,
                col=1,
            )

    def report(
        self, *, language: Language | None = None, inline: bool = False, to: str | Path | None = None
    ) -> Path:
        """Write the run's page and return its path, see :func:`~quantgraph.runs.write_page`."""
        from quantgraph.runs._page import write_page

        file = None if to is None else Path(to)
        return write_page([self.folder], language=language, inline=inline, to=file, ledger=self._ledger)

    def trajectory(self) -> Trajectory:
        """The run's steps for evaluators such as agentevals, see :func:`~quantgraph.recording.trajectory`.

        The first input is the sentence, and the last result says how the run ended.
        """
        place = self._ledger_place
        if place is None:
            raise BadOption(f"run {self.get('run_id')} has no recording", parameter="run_dir")
        found = trajectory(place, str(self["run_id"]))
        found["inputs"][0] = {"messages": [{"role": "user", "content": str(self["question"])}]}
        found["results"][-1] = {"ended_because": self["ended_because"]}
        return found

    @property
    def _ledger_place(self) -> str | Path | None:
        """Where the run's ledger is; None if it ended before it had one."""
        own = self.folder / "ledger.sqlite"
        try:
            if own.is_file() and not (self.folder / MANIFEST_FILE).exists():
                return own  # what a replay keeps
            return existing_ledger(read_manifest(self.folder), self.folder, self._ledger)
        except BadFile:
            if self.get("account"):
                raise
            return None

    def _of_ledger(self, reader: str, nothing: T) -> T:
        """What a method of the ledger reads of the run; ``nothing`` if it is not in a ledger."""
        place = self._ledger_place
        if place is None:
            return nothing
        with Ledger(place, read_only=True) as ledger:
            run = str(self["run_id"])
            return cast("T", getattr(ledger, reader)(run)) if ledger.has_run(run) else nothing

    @property
    def _title(self) -> str:
        return escape_controls(str(self.get("question") or self.get("run_id") or ""))

    @property
    def _language(self) -> Language:
        return language_of(self._title)

    def _part(self, name: str) -> Mapping[str, Any]:
        """A part of the result, empty if there is none."""
        return self.get(name) or {}

    def _lines(self, *, data_last: bool = False) -> list[str]:
        """How it ended, what to do, where the code departs from the sentence, the reading, the defaults."""
        ended = str(self.get("ended_because") or self.get("state") or "done")
        error = str(self.get("error") or "")
        question = str(self._part("open_question").get("question", ""))
        title, unsettled = first_lines(self._part("validation"), self._language)
        if ended == "done" and title:
            ended = title
        synthetic = Note(zh="合成数据，不代表任何真实股票", en="synthetic data, not real stocks")
        first = [
            error if error.startswith(ended) else ": ".join(filter(None, (ended, error))),
            "" if question in error else question,
        ]
        understood, assumed = self.understanding, map(str, self.get("assumptions") or ())
        data = [
            synthetic.text(self._language) if self._part("source").get("synthetic") else "",
            *map(str, self._part("source").get("provenance", ())),
        ]
        data = [short_line(line, _WIDTH) for line in data if line]
        others = [
            *([] if data_last else data),
            *understood,
            str(self._part("causality").get("text", "")),
            *(text for text in assumed if not any(text in line for line in understood)),
        ]
        findings = [short_line(line, _FINDING_WIDTH) for line in unsettled if line not in error]
        lines = [*findings, *(short_line(line, _WIDTH) for line in (*first, *others) if line)]
        if (hidden := len(lines) - _LINES) > 0:
            lines[_LINES:] = [say(self._language, zh=f"…另有 {hidden} 行", en=f"… and {hidden} more lines")]
        return [*lines, *self._resumption(), *(data if data_last else [])]

    def _resumption(self) -> list[str]:
        """How the run goes on; its path must be whole."""
        if "run_dir" not in self or not can_be_resumed(self):
            return []
        answer = ", answer=…" if self.get("open_question") else ""
        call = f"resume_run({str(self['run_dir'])!r}{answer})"
        return [short_line(say(self._language, zh=f"继续：{call}", en=f"go on: {call}"), _PATH_WIDTH)]

    def __repr__(self) -> str:
        shown = self._never_raising(self._text)
        head = f"RunResult {short_line(self.get('run_id', ''), _WIDTH)}: {short_line(self._title, _WIDTH)}"
        return "\n  ".join([head, *shown])

    def _text(self) -> list[str]:
        from quantgraph.page import tiles

        figures = [
            f"{each['label']} {each['text']}" + (f" ({each['beside']})" if each["beside"] else "")
            for each in tiles(self._view)[:-1]  # the last one is the proof
        ]
        return [*self._lines(), *filter(None, [self.verdict, ", ".join(figures)])]

    @property
    def _view(self) -> RunView:
        from quantgraph.page import RunView

        return RunView(run_id="", language=self._language, result=self, days=self.equity.iloc[1:])

    def _repr_html_(self) -> str:
        title = f"<b>{html.escape(short_line(self._title, _WIDTH))}</b>"
        shown = self._never_raising(self._cell, html.escape)
        return f"<div>{title}{''.join(shown)}{self._page_link()}</div>"

    def _cell(self) -> list[str]:
        """The first screen of the page: figures, curve, notes; where the data are from comes last."""
        from quantgraph.page import first_screen

        lines = html_lines(self._lines(data_last=True), _FINDING_WIDTH)
        return [first_screen(self._view) if self.get("account") else "", lines]

    @staticmethod
    def _never_raising(shown: Callable[[], list[str]], told: Callable[[str], str] = str) -> list[str]:
        """What a representation shows of a dict, which may hold anything."""
        try:
            return shown()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            line = f"this is not the result of a run: {type(error).__name__}: {error}"
            return [told(short_line(line, _WIDTH))]

    def _page_link(self) -> str:
        """A link to the page, relative where it is beneath the working folder, as notebooks open it."""
        place = self.get("run_dir")
        page = Path(place, PAGE_FILE) if isinstance(place, str) else None
        if page is None or not page.is_file():
            return ""
        whole = page.absolute()
        inside = whole.is_relative_to(Path.cwd())
        target = quote(whole.relative_to(Path.cwd()).as_posix()) if inside else whole.as_uri()
        label = say(self._language, zh="打开页面", en="open the page")
        return f"<a href='{html.escape(target, quote=True)}' target='_blank'>{label}</a>"


def _sessions_of(fall: Drawdown, values: pd.Series[float]) -> int:
    places = values.index.searchsorted([fall.peak or values.index[0], fall.recovery or values.index[-1]])
    return int(places[1] - places[0])


def open_run(run: str | Path, *, ledger: str | Path | None = None) -> RunResult:
    """Open a run's folder, or a run by its name in ``runs_dir`` of the settings; nothing is run or written.

    Parameters
    ----------
    ledger
        File or database URL of a ledger that is not in the folder.

    Raises
    ------
    BadOption
        If there is no such run.
    BadFile
        If its files are damaged, or of another version.
    """
    path = Path(run)
    folder = find_run_folder(run, path.parent if path.is_absolute() else load_settings().runs_dir)
    manifest = read_manifest(folder)
    return RunResult(read_result(folder) or initial_result(manifest, folder), ledger)


_COLUMNS = ("run", "started", "sentence", "decider", "ended", "return", "max_drawdown", "folder", "error")
_NUMBERS = ("return", "max_drawdown")
_PARTS = (MANIFEST_FILE, RESULT_FILE, "ledger.sqlite")
"""Files of which a run's folder has at least one."""
_NO_DIFFERENCE = Note(zh="没有不同", en="no difference")


def list_runs(folder: str | Path | None = None) -> pd.DataFrame:
    """The runs of a folder, newest first, whatever state their folders are in.

    Parameters
    ----------
    folder
        Default: ``runs_dir`` of the settings.

    Returns
    -------
    pandas.DataFrame
        ``run`` (its name), ``started`` (UTC, datetime64[us]), ``sentence``, ``decider``; ``ended``: why it
        ended, ``failed``, ``running`` for one that has not ended, because it is going on or was killed,
        ``graph`` for the ledger of a graph of your own, whose result is in its state, or ``unreadable`` for a
        folder that is damaged, lacks files or is of another version; ``return`` and ``max_drawdown``
        (float64, fractions, NaN without an account), ``folder``; and ``error``, why it did not come to its
        end or cannot be read, or which of its files was changed. Texts are ``str``, empty where nothing is
        known.

    Raises
    ------
    BadOption
        If ``folder`` is not a folder.
    """
    place = Path(folder) if folder is not None else load_settings().runs_dir
    if folder is not None and not place.is_dir():
        raise BadOption(f"folder={str(folder)!r} is not a folder", parameter="folder")
    table = pd.DataFrame(list(map(_row, _run_folders(place))), columns=list(_COLUMNS))
    table["started"] = pd.to_datetime(table["started"], utc=True, format="ISO8601", errors="coerce")
    kinds: dict[str, Any] = {name: "float64" if name in _NUMBERS else "str" for name in _COLUMNS}
    texts = [name for name in _COLUMNS if name not in {*_NUMBERS, "started"}]
    table[texts] = table[texts].astype(object).where(table[texts].notna(), "")
    table = table.astype(kinds | {"started": "datetime64[us, UTC]"})
    return table.sort_values(["started", "run"], ascending=False, na_position="last").reset_index(drop=True)


def _run_folders(place: Path) -> list[Path]:
    try:
        inside = sorted(path for path in place.iterdir() if not path.name.startswith("."))
        return [path for path in inside if any((path / name).exists() for name in _PARTS)]
    except FileNotFoundError:  # no run was begun yet
        return []


def _row(folder: Path) -> dict[str, Any]:
    """A run in one row of :func:`list_runs`."""
    row: dict[str, Any] = {"run": escape_controls(folder.name), "folder": escape_controls(str(folder))}
    if not (folder / MANIFEST_FILE).exists():
        has_result = (folder / RESULT_FILE).exists()
        error = f"there is no {MANIFEST_FILE}: " + (
            "not a run of run_strategy" if has_result else "a run of a graph of your own; this is its ledger"
        )
        return row | {"ended": "unreadable" if has_result else "graph", "error": error}
    try:
        manifest = read_manifest(folder)
        result = read_result(folder) or initial_result(manifest, folder)
        account, own, question = result.get("account") or {}, manifest.spec.own, manifest.spec.question
        numbers = {name: float(account[name]) for name in _NUMBERS if account.get(name) is not None}
        return {
            **row,
            "started": str(manifest.started),
            "sentence": call_text(f"{question} ", own.params)
            if own and own.params and own.said
            else question,
            "decider": str(manifest.identity.configuration.get("decider", "")),
            "ended": str(result["ended_because"] or result["state"]),
            "error": str(result.get("error") or changed_file(folder, MANIFEST_FILE, RESULT_FILE)),
            **numbers,
        }
    except QuantGraphError as error:
        return row | {"ended": "unreadable", "error": error.line}
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return row | {"ended": "unreadable", "error": f"bad_file: {escape_controls(reason)}"}


INDEX_FILE = "index.html"


def write_index(folder: Path, *, language: Language) -> Path:
    """Write ``index.html`` into a folder of runs: the page of all runs, newest first; nothing is run.

    Equal folders give equal bytes; links are relative, so that the folder may be moved.

    Raises
    ------
    BadOption
        If ``folder`` is not a folder.
    StorageUnavailable
        If the disk is full or refuses.
    """
    from quantgraph.page import render_index

    rows, results = [], {}
    for row in list_runs(folder).to_dict("records"):
        place = folder / str(row["run"])
        shown = {"page": (place / PAGE_FILE).is_file(), "error": without_places(str(row["error"] or ""))}
        rows.append({str(name): value for name, value in row.items()} | shown)
        if row["ended"] not in {"unreadable", "graph"}:
            results[str(row["run"])] = read_result(place) or {}
    path = folder / INDEX_FILE
    with storage_errors(folder):
        write_atomic(path, render_index(rows, results, language).encode())
    return path


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunComparison:
    """Several runs side by side.

    ``numbers`` has a row a number of the account, by its name in ``result["account"]`` (``return``,
    ``sharpe``, ``max_drawdown``, … : :data:`~quantgraph.report.metrics.METRICS`; the representation has their
    names in the language of the runs), and a column a run; float64, NaN where a run has none. Columns are
    named by what differs, as on the page: ``fast=10, slow=30``; ``runs`` has the run of each. Where runs
    are judged from different days, numbers of values are from the latest of these days on, for all, with the
    same cash; ``note`` names the day. ``differences`` has a row a difference of requests or of parameters, by
    its name; ``str``.
    """

    numbers: pd.DataFrame
    differences: pd.DataFrame
    runs: Mapping[str, str]
    note: str
    _shown: pd.DataFrame
    """The numbers as texts, labelled in the language of the first run."""
    _nothing: str

    def __repr__(self) -> str:
        lines = [
            "\n".join(
                [name, *(f"  {run}: {cell}" for run, cell in zip(self.numbers.columns, cells, strict=True))]
            )
            for name, *cells in _rows_of(self.differences)
        ]
        parts = [*filter(None, [self.note]), *([self._shown.to_string()] if len(self._shown) else [])]
        named = [f"{name}: {run}" for name, run in self.runs.items() if name != run]
        return "\n\n".join([*parts, *filter(None, ["\n".join(named)]), "\n".join(lines) or self._nothing])

    def _repr_html_(self) -> str:
        rows = [*_rows_of(self._shown), *_rows_of(self.differences)]
        nothing = [] if len(self.differences) else [self._nothing]
        return (
            html_lines([*filter(None, [self.note])])
            + html_table(rows, head=["", *self.numbers.columns])
            + html_lines(nothing)
        )


def _rows_of(table: pd.DataFrame) -> Iterator[list[str]]:
    """The name and the cells of each row, each a short line; the lines of a cell are set apart."""
    for name, cells in zip(table.index, table.to_numpy(), strict=True):
        yield [short_line(name), *(short_line(" | ".join(str(cell).splitlines())) for cell in cells)]


def compare(*runs: str | Path | RunResult) -> RunComparison:
    """Compare two runs or more: folders, names in ``runs_dir`` of the settings, or results.

    Differences are of the sentence, the understanding, the trade plan, the window, the symbols,
    the source and the end, and of every parameter: cash, rules and costs, decider, models, settings.

    Raises
    ------
    BadOption
        If there are fewer than two, one occurs twice, or one does not exist.
    BadFile
        If one is damaged, or of another version.
    """
    from quantgraph.page import common_accounts, common_day_text, run_differences, run_names
    from quantgraph.runs._page import view_run

    if len(runs) < 2:
        raise BadOption(f"compare takes two runs or more, not {len(runs)}", parameter="runs")
    opened = [run if isinstance(run, RunResult) else open_run(run) for run in runs]
    names = [result.folder.name for result in opened]
    names = names if len({*names}) == len(names) else [str(result.folder) for result in opened]
    for name in names:
        if names.count(name) > 1:
            raise BadOption(f"run {name} occurs twice; compare takes different runs", parameter="runs")
    views = [view_run(each.folder, with_calls=False, ledger=each._ledger) for each in opened]  # noqa: SLF001
    folders, names = list(map(escape_controls, names)), run_names(views)
    names = names if len({*names}) == len(names) else folders  # copies of one run
    language = views[0].language
    rows = list(metric_rows(common_accounts(views)[1]))
    differences = {**_different_requests([view.result for view in views]), **dict(run_differences(views))}
    return RunComparison(
        numbers=_table({metric.name: cells for metric, cells in rows}, names).astype("float64"),
        differences=_table(differences, names).astype("str"),
        runs=dict(zip(names, folders, strict=True)),
        note=common_day_text(views, names),
        _shown=_table(
            {metric.words(language): list(map(metric.text, cells)) for metric, cells in rows}, names
        ),
        _nothing=_NO_DIFFERENCE.text(language),
    )


def _table(rows: Mapping[str, Sequence[Any]], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame.from_dict(dict(rows), orient="index", columns=columns)


def _different_requests(results: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The trade plans, traded symbols and ends that are not the same in all runs."""
    plans = [result.get("plan") or {} for result in results]
    traded = [result.get("symbols") or [] for result in results]
    common = set(traded[0]).intersection(*traded)
    own = [", ".join(symbol for symbol in symbols if symbol not in common) for symbols in traded]
    rows = {
        "ended": [str(result["ended_because"] or result["state"]) for result in results],
        "plan": [json.dumps(plan, ensure_ascii=False, sort_keys=True) if plan else "" for plan in plans],
        "traded": [
            f"{len(symbols)}" + (f": {also}" if also else "")
            for symbols, also in zip(traded, own, strict=True)
        ],
    }
    return {name: cells for name, cells in rows.items() if len({*cells}) > 1}
