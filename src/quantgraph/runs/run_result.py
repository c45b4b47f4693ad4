"""The result of a run to hold in the hand: its JSON, its tables, its picture and its page."""

from __future__ import annotations

import functools
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Language, escape_controls, language_of, say
from quantgraph.broker import Ledger
from quantgraph.errors import BadOption, QuantGraphError
from quantgraph.report.run_view import RunView
from quantgraph.runs.folder import existing_ledger, find_run_folder, read_manifest
from quantgraph.runs.outputs import initial_result, read_result
from quantgraph.runs.run_view import view_run
from quantgraph.settings import load_settings

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["RunResult", "open_run"]

_SHOWN = 4
"""Numbers of an account in a representation."""


class RunResult(dict[str, Any]):
    """What a run returns: a dict with the content of its ``result.json``, and tables read when asked for.

    A trading graph's ``summary`` is opened alike: ``RunResult(state["summary"])`` has what needs no folder,
    which are :attr:`equity`, :attr:`returns` and :meth:`plot`.

    Raises
    ------
    BadOption
        From an attribute that the result has no folder for, or a run that has not traded.
    """

    @property
    def equity(self) -> pd.DataFrame:
        """Values of ``account``, ``benchmark`` and ``index`` (if there is one), in the market's currency.

        Float64; index ``trade_date``, which begins with the initial cash. Empty if nothing was traded.
        """
        equity = self.get("equity") or {"sessions": []}
        index = pd.DatetimeIndex(
            pd.to_datetime(equity["sessions"], format="%Y%m%d"), dtype="datetime64[us]", name="trade_date"
        )
        columns = {name: equity[name] for name in ("account", "benchmark", "index") if equity.get(name)}
        return pd.DataFrame(columns, index=index, dtype=np.float64)

    @property
    def returns(self) -> pd.DataFrame:
        """Returns of each session, of the columns of :attr:`equity`."""
        return self.equity.pct_change(fill_method=None).iloc[1:]

    @property
    def trades(self) -> pd.DataFrame:
        """The fills with what each sale closed.

        ``session, symbol, side, quantity, price, notional, cost, sequence, reason``, and in sales
        ``profit, holding`` (sessions) ``, mae`` and ``mfe``, which are NaN in purchases, see
        :func:`~quantgraph.report.html.trade_rows.trade_rows`. Numbers are float64, texts ``str``.
        """
        from quantgraph.report.html.trade_rows import trade_rows

        return _typed(trade_rows(self._view))

    @property
    def orders(self) -> pd.DataFrame:
        """Every order in the order of submission within its session: ``outcome`` is ``fill`` or the code.

        ``session, sequence, symbol, side, quantity, outcome, price, cost, message, reason``. Of an order
        that the volume cap cut there are two rows.
        """
        filled = self._view.fills.assign(outcome="fill", message="")
        refused = self._view.refused.rename(columns={"code": "outcome"})
        columns = [
            "session",
            "sequence",
            "symbol",
            "side",
            "quantity",
            "outcome",
            "price",
            "cost",
            "message",
            "reason",
        ]
        both = pd.concat([each for each in (filled, refused) if len(each)] or [filled])
        return _typed(both.reindex(columns=columns).sort_values(["session", "sequence"], kind="stable"))

    @property
    def positions(self) -> pd.DataFrame:
        """Shares at the end of each session: float64, sessions x symbols, 0 where nothing is held."""
        place = existing_ledger(read_manifest(self.folder), self.folder)
        with Ledger(place) as ledger:
            return ledger.holdings(self["run_id"])[0]

    @property
    def signal(self) -> pd.DataFrame | None:
        """The signal, sessions x symbols; None if the run made none."""
        return self._view.signal

    @property
    def understanding(self) -> list[str]:
        """What was understood, a line each, in the sentence's language."""
        return list(self._view.said)

    @property
    def code(self) -> str:
        """The strategy's source; empty if there is none."""
        return self._view.code

    @property
    def folder(self) -> Path:
        """The run's folder."""
        if "run_dir" not in self:
            raise BadOption(
                "this result has no folder: it is the summary of a graph, not of a run of its own"
            )
        return Path(self["run_dir"])

    @functools.cached_property
    def _view(self) -> RunView:
        return view_run(self.folder)

    def plot(self) -> go.Figure:
        """Equity and drawdown as a plotly figure."""
        import plotly.graph_objects as go
        from plotly.subplots import make_subplots

        equity = self.equity
        if equity.empty:
            raise BadOption("nothing was traded: there is no equity to plot")
        figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3])
        for name, values in equity.items():
            for row, drawn in ((1, values), (2, values / values.cummax() - 1)):
                line = go.Scatter(
                    x=drawn.index, y=drawn, name=str(name), showlegend=row == 1, legendgroup=str(name)
                )
                figure.add_trace(line, row=row, col=1)
        title = html.escape(self._sentence)
        return figure.update_layout(title=title, hovermode="x unified", yaxis2_tickformat=".0%")

    def report(
        self, *, language: Language | None = None, inline: bool = False, to: str | Path | None = None
    ) -> Path:
        """Write the run's page and return its path, see :func:`~quantgraph.runs.run_page.write_page`."""
        from quantgraph.runs.run_page import write_page

        return write_page(
            [self.folder], language=language, inline=inline, to=None if to is None else Path(to)
        )

    @property
    def _sentence(self) -> str:
        return escape_controls(str(self.get("question") or self.get("run_id", "")))

    def _lines(self) -> list[str]:
        """How it ended, what was assumed, what to do."""
        language = language_of(self._sentence)
        ended = self.get("ended_because") or self.get("state") or "done"
        lines = [ended if ended == "done" else f"{ended}: {self.get('error', '')}"]
        if (self.get("source") or {}).get("synthetic"):
            lines.append(
                say(language, zh="合成数据：不代表任何真实股票", en="synthetic data: no real stock is meant")
            )
        if self.get("causality"):
            lines.append(str(self["causality"]["text"]))
        lines += [str(line) for line in self.get("assumptions") or ()]
        return [escape_controls(line) for line in lines]

    def _numbers(self) -> list[tuple[str, str]]:
        account = self.get("account")
        if not account:
            return []
        language = language_of(self._sentence)
        shown = (
            ("return", "{:+.2%}", ("收益", "return")),
            ("max_drawdown", "{:.2%}", ("最大回撤", "max drawdown")),
            ("sharpe", "{:.2f}", ("夏普比率", "Sharpe ratio")),
            ("trades", "{:,}", ("成交", "fills")),
        )
        return [
            (say(language, zh=zh, en=en), "-" if account[key] is None else how.format(account[key]))
            for key, how, (zh, en) in shown[:_SHOWN]
        ]

    def __repr__(self) -> str:
        numbers = ", ".join(f"{label} {number}" for label, number in self._numbers())
        lines = [f"RunResult {self.get('run_id', '')}: {self._sentence}", *self._lines(), numbers]
        return "\n  ".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        from quantgraph.report.html.drawings import sparkline

        equity = self.equity
        curve = sparkline(equity["account"].tolist()) if "account" in equity else ""
        cells = "".join(
            f"<td style='text-align:left'>{html.escape(label)}<br><b>{html.escape(number)}</b></td>"
            for label, number in self._numbers()
        )
        lines = "".join(f"<div>{html.escape(line[:500])}</div>" for line in self._lines()[:8])
        title = f"<b>{html.escape(self._sentence[:500])}</b>"
        return f"<div>{title}{lines}{curve}<table><tr>{cells}</tr></table></div>"


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """Texts as ``str``, numbers as float64, sessions as dates."""
    texts = {"symbol", "side", "outcome", "message", "reason"} & {*table.columns}
    numbers = {*table.columns} - texts - {"session"}
    kinds: dict[str, Any] = dict.fromkeys(texts, "str") | dict.fromkeys(numbers, "float64")
    found = table.astype(kinds).reset_index(drop=True)
    found["session"] = pd.to_datetime(found["session"], format="%Y-%m-%d").astype("datetime64[us]")
    return found


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


def result_line(folder: Path) -> dict[str, Any]:
    """A run in one row, whatever state its folder is in: see :func:`~quantgraph.runs.list_runs`."""
    row: dict[str, Any] = {"run": folder.name, "folder": str(folder), "error": ""}
    try:
        result = open_run(folder.absolute())
        manifest = read_manifest(folder)
    except QuantGraphError as error:
        return row | {"ended": "unreadable", "error": error.line}
    account = result.get("account") or {}
    return row | {
        "started": manifest.started,
        "sentence": manifest.spec.question,
        "decider": str(manifest.identity.configuration.get("decider", "")),
        "ended": result["ended_because"] or result["state"],
        "return": account.get("return"),
        "max_drawdown": account.get("max_drawdown"),
        "error": result.get("error", ""),
    }
