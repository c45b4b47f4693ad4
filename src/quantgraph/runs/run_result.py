"""The result of a run to hold in the hand: its JSON, its tables, its picture and its page."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd

from quantgraph._util.notebook_html import html_lines, short_line
from quantgraph._util.texts import Language, Note, escape_controls, language_of, say
from quantgraph.audit.findings import in_chinese
from quantgraph.broker import Ledger
from quantgraph.broker.ledger.ledger_frames import fills_frame, orders_frame
from quantgraph.errors import BadFile, BadOption
from quantgraph.runs.folder import MANIFEST_FILE, existing_ledger, find_run_folder, read_manifest
from quantgraph.runs.outputs import can_be_resumed, initial_result, read_result
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal.understanding import understanding_lines

if TYPE_CHECKING:
    import plotly.graph_objects as go


T = TypeVar("T")

_SHOWN = (
    ("return", "{:+.2%}", ("收益", "return")),
    ("max_drawdown", "{:.2%}", ("最大回撤", "max drawdown")),
    ("sharpe", "{:.2f}", ("夏普比率", "Sharpe ratio")),
    ("trades", "{:,}", ("成交", "fills")),
)
"""Numbers of an account in a representation."""
_LINES, _WIDTH, _PATH_WIDTH = 9, 110, 300
"""Of a representation: at most so many lines, of so many characters; more where a path must be whole."""
_CURVES = ("account", "benchmark", "index")
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
    def returns(self) -> pd.DataFrame:
        """Return of each session as a fraction, of the columns of :attr:`equity`."""
        return self.equity.pct_change(fill_method=None).iloc[1:]

    @property
    def orders(self) -> pd.DataFrame:
        """One row per order with its outcome, see :meth:`~quantgraph.broker.Ledger.orders`."""
        return self._of_ledger("orders", orders_frame([]))

    @property
    def trades(self) -> pd.DataFrame:
        """One row per fill as in :meth:`~quantgraph.broker.Ledger.fills`, and what each sale closed.

        Four more columns are NaN in purchases. ``profit``: proceeds less the average cost of the shares,
        charges of both sides included. ``holding``: sessions since the position's first purchase. ``mae`` and
        ``mfe``: the worst and the best price while it was open, over the mean purchase price, less 1; NaN
        where the bars do not tell, or a split fell in between.
        """
        from quantgraph.report.html.trade_rows import trade_rows
        from quantgraph.runs.view_reader import view_trades

        fills, place = self._of_ledger("fills", fills_frame([])), self._ledger_place
        if fills.empty or place is None:
            return fills.assign(**dict.fromkeys(_TRADE_COLUMNS, np.array([], dtype=np.float64)))
        closed = trade_rows(view_trades(self.folder, self, place))
        return fills.assign(**{name: closed[name] for name in _TRADE_COLUMNS})

    @property
    def positions(self) -> pd.DataFrame:
        """Shares at the end of each session: float64, sessions x symbols, 0 where nothing is held."""
        nothing = pd.DataFrame(
            index=pd.DatetimeIndex([], dtype="datetime64[us]", name="trade_date"),
            columns=pd.Index([], name="ts_code", dtype="str"),
            dtype=np.float64,
        )
        return self._of_ledger("holdings", (nothing, nothing))[0]

    @property
    def signal(self) -> pd.DataFrame | None:
        """The signal, sessions x symbols: 1 long, 0 no change, -1 out, NaN no opinion; None without one."""
        written = self.get("signal")
        return pd.read_parquet(self.folder / "signal.parquet") if written else None

    @property
    def understanding(self) -> list[str]:
        """What was understood, a line each, in the sentence's language; empty if it was not understood."""
        said = self.get("understanding")
        return understanding_lines(said, self._language) if said else []

    @property
    def code(self) -> str:
        """Text of ``strategy.py``; empty if there is none."""
        written = self.get("strategy")
        return (self.folder / "strategy.py").read_text(encoding="utf-8") if written else ""

    def plot(self) -> go.Figure:
        """Draw equity and drawdown as a plotly figure; one that says so if nothing was traded."""
        from plotly.subplots import make_subplots

        equity, title = self.equity, html.escape(short_line(self._title, _WIDTH))
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3])
        if equity.empty:
            nothing = say(self._language, zh="没有成交", en="nothing was traded")
            return figure.update_layout(title=f"{title}<br>{nothing}")
        for name, values in equity.items():
            for row, drawn in ((1, values), (2, values / values.cummax() - 1)):
                figure.add_scatter(
                    x=drawn.index,
                    y=drawn,
                    name=str(name),
                    legendgroup=str(name),
                    showlegend=row == 1,
                    row=row,
                    col=1,
                )
        return figure.update_layout(title=title, hovermode="x unified", yaxis2_tickformat=".0%")

    def report(
        self, *, language: Language | None = None, inline: bool = False, to: str | Path | None = None
    ) -> Path:
        """Write the run's page and return its path, see :func:`~quantgraph.runs.run_page.write_page`."""
        from quantgraph.runs.run_page import write_page

        file = None if to is None else Path(to)
        return write_page([self.folder], language=language, inline=inline, to=file)

    @property
    def _ledger_place(self) -> str | Path | None:
        """Where the run's ledger is; None if it ended before it had one."""
        own = self.folder / "ledger.sqlite"
        try:
            if own.is_file() and not (self.folder / MANIFEST_FILE).exists():
                return own  # what a replay keeps
            return existing_ledger(read_manifest(self.folder), self.folder)
        except BadFile:
            if self.get("account"):
                raise
            return None

    def _of_ledger(self, reader: str, nothing: T) -> T:
        """What a method of the ledger reads of the run; ``nothing`` if it is not in a ledger."""
        place = self._ledger_place
        if place is None:
            return nothing
        with Ledger(place) as ledger:
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

    def _numbers(self) -> list[tuple[str, str]]:
        account = self._part("account")
        return [
            (say(self._language, zh=zh, en=en), "–" if account.get(key) is None else how.format(account[key]))
            for key, how, (zh, en) in _SHOWN
            if account
        ]

    def _lines(self) -> list[str]:
        """How it ended, what to do, where the code is not what was said, what was understood and assumed."""
        ended = str(self.get("ended_because") or self.get("state") or "done")
        error = str(self.get("error") or "")
        question = str(self._part("open_question").get("question", ""))
        issues = self._part("validation").get("issues_found", ())
        synthetic = Note(zh="合成数据：不代表任何真实股票", en="synthetic data: no real stock is meant")
        first = [
            error if error.startswith(ended) else ": ".join(filter(None, (ended, error))),
            "" if question in error else question,
        ]
        understood, assumed = self.understanding, map(str, self.get("assumptions") or ())
        others = [
            *(_issue_text(issue, self._language) for issue in issues if issue["code"].startswith("meaning")),
            synthetic.text(self._language) if self._part("source").get("synthetic") else "",
            *map(str, self._part("source").get("provenance", ())),
            *understood,
            str(self._part("causality").get("text", "")),
            *(text for text in assumed if not any(text in line for line in understood)),
        ]
        lines = [short_line(line, _WIDTH) for line in (*first, *others) if line]
        if (hidden := len(lines) - _LINES) > 0:
            lines[_LINES:] = [say(self._language, zh=f"…另有 {hidden} 行", en=f"… and {hidden} more lines")]
        return [*lines, *self._resumption()]

    def _resumption(self) -> list[str]:
        """How the run goes on; its path must be whole."""
        if "run_dir" not in self or not can_be_resumed(self):
            return []
        answer = ", answer=…" if self.get("open_question") else ""
        call = f"resume_run({str(self['run_dir'])!r}{answer})"
        return [short_line(say(self._language, zh=f"继续：{call}", en=f"go on: {call}"), _PATH_WIDTH)]

    def _shown(self) -> tuple[list[str], list[tuple[str, str]], list[float]]:
        """Lines, numbers and curve of a representation, which never raises: a dict may hold anything."""
        try:
            curve = [float(value) for value in self._part("equity").get("account") or ()]
            return self._lines(), self._numbers(), curve
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            line = f"this is not the result of a run: {type(error).__name__}: {error}"
            return [short_line(line, _WIDTH)], [], []

    def __repr__(self) -> str:
        lines, numbers, _ = self._shown()
        head = f"RunResult {short_line(self.get('run_id', ''), _WIDTH)}: {short_line(self._title, _WIDTH)}"
        return "\n  ".join(filter(None, [head, *lines, ", ".join(" ".join(each) for each in numbers)]))

    def _repr_html_(self) -> str:
        from quantgraph.report.html.drawings import sparkline

        lines, numbers, curve = self._shown()
        cells = "".join(
            f"<td style='text-align:left'>{html.escape(label)}<br><b>{html.escape(number)}</b></td>"
            for label, number in numbers
        )
        title = f"<b>{html.escape(short_line(self._title, _WIDTH))}</b>"
        told = html_lines(lines, _PATH_WIDTH) + sparkline(curve)
        return f"<div>{title}{told}<table><tr>{cells}</tr></table></div>"


def _issue_text(issue: Mapping[str, Any], language: Language) -> str:
    return say(language, zh=in_chinese(issue), en=str(issue["message"]))


def open_run(run: str | Path) -> RunResult:
    """Open a run's folder, or a run by its name in ``runs_dir`` of the settings; nothing is run.

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
    return RunResult(read_result(folder) or initial_result(manifest, folder))
