"""What the trading nodes work with, built once per graph."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pandas as pd

from quantgraph.broker.decider import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.simulate import Market, run_identity
from quantgraph.broker.valuation import MarkAt
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadOption, NoSignal, UnknownSymbol
from quantgraph.market.moment import Moment, session_of, sessions_between
from quantgraph.market.money import CENT
from quantgraph.market.rulebook import Rulebook
from quantgraph.nodes.state import TradingState
from quantgraph.recording import Recorder
from quantgraph.runtime.questions import OnClarify
from quantgraph.state import DataState, GrowingView

__all__ = ["TradingResources", "run_database_path"]


_KNOWN = {
    "cn": "it knows codes such as 600519.SH, 000001.SZ, 920099.BJ; for US stocks pass rules=Rulebook.us(), "
    "on the command line --market us",
    "us": "it knows codes such as AAPL; for mainland shares pass rules=Rulebook.mainland(), "
    "on the command line --market cn",
}
_WALKS = 8
"""Runs whose walks are kept between two steps; one of another run begins anew and is as right."""
_RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def run_database_path(runs_dir: Path, run_id: str) -> Path:
    """The file that holds a run's ledger and recording.

    Raises
    ------
    BadOption
        If the name is none for a folder.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise BadOption(
            f"run_id={run_id!r}; letters, digits, '-', '_' and '.' (not first) are wanted, at most 200",
            parameter="run_id",
        )
    return runs_dir / run_id / "ledger.sqlite"


@dataclass(frozen=True, kw_only=True)
class TradingResources:
    """Handles of one graph.

    Attributes
    ----------
    mark_at
        The price of a session that holdings are valued at.
    sessions_per_step
        Sessions that one step of the graph trades.
    ledger
        A ledger of the caller's for all runs; None gives each run ``runs_dir/run_id/ledger.sqlite``.
    source
        Where the levels of an index are asked for.
    recorder
        Where runs are recorded.
    approve
        Whether a session's orders are shown to somebody before they are sent; ``on_clarify`` says to whom.
    """

    store: DataState
    decider: Decider
    rules: Rulebook
    cash: Decimal
    runs_dir: Path
    mark_at: MarkAt = "close"
    sessions_per_step: int = 1
    ledger: Ledger | None = None
    source: MarketDataSource | None = None
    recorder: Recorder = field(default_factory=Recorder)
    approve: bool = False
    on_clarify: OnClarify = "ask"
    _open: dict[str, Ledger] = field(default_factory=dict, repr=False)
    _walks: OrderedDict[str, GrowingView] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def market(self, state: TradingState) -> Market:
        """Where the state's sessions are traded."""
        return Market(store=self.store, data_ref=state["data_ref"], rules=self.rules, mark_at=self.mark_at)

    def ledger_of(self, run_id: str) -> Ledger:
        """The ledger that holds a run. It stays open until :meth:`close`; the lock keeps it one a run."""
        where = run_database_path(self.runs_dir, run_id)
        if self.ledger is not None:
            return self.ledger
        with self._lock:
            if run_id not in self._open:
                self._open[run_id] = Ledger(where)
            return self._open[run_id]

    def open_run(self, run_id: str, state: TradingState) -> Ledger:
        """The ledger, with the run in it.

        Raises
        ------
        LedgerConflict
            If it has a run of this name with other cash, data, strategy, decider, rules or window.
        """
        request = state["request"]
        identity = {
            **run_identity(self.market(state), self.decider),
            "code_hash": state["strategy"]["code_hash"],
            "window": [request["start"], request["end"]],
            **({"approve": True} if self.approve else {}),
        }
        ledger = self.ledger_of(run_id)
        ledger.open_run(run_id, self.cash, identity)
        return ledger

    @contextmanager
    def walk(self, run_id: str, state: TradingState, first: pd.Timestamp) -> Iterator[GrowingView]:
        """A run's walk over the data, from ``first`` on; the next step of the run goes on with it.

        Nobody else has it meanwhile. After an error it is not kept.
        """
        ref = state["data_ref"]
        with self._lock:
            walk = self._walks.pop(run_id, None)
        if walk is None or walk.data_ref != ref or not walk.reaches(Moment(first, "open")):
            walk = self.store.growing_view(ref)
        yield walk
        with self._lock:
            self._walks[run_id] = walk
            if len(self._walks) > _WALKS:
                self._walks.popitem(last=False)

    def check_tradable(self, state: TradingState) -> None:
        """Before the first session: the rules must know every symbol, a fund's kind, and fees that early.

        Raises
        ------
        UnknownSymbol
            If the rulebook does not know a symbol.
        BadWindow
            If its tables begin later.
        """
        symbols = self.store.snapshot(state["data_ref"])["ohlcv"]["open"].columns
        strange = [symbol for symbol in symbols if not self._has_board(symbol)]
        if strange:
            raise UnknownSymbol(
                f"the rulebook {self.rules.name} has no board for {', '.join(strange[:5])}"
                f"{' …' if len(strange) > 5 else ''}; {_KNOWN[self.rules.market]}",
                symbols=tuple(strange),
            )
        first = self.sessions(state)[:1]
        for symbol in symbols if len(first) else ():
            self.rules.t_plus(symbol, first[0].date())
            self.rules.charges(symbol, "sell", 100, CENT, first[0].date())

    def close(self, run_id: str) -> None:
        """Close a run's own ledger and recording, and let its walk go; all are there again when asked for."""
        self.recorder.close(run_id)
        with self._lock:
            self._walks.pop(run_id, None)
            ledger = self._open.pop(run_id, None)
        if ledger is not None:
            ledger.close()

    def sessions(self, state: TradingState) -> pd.DatetimeIndex:
        """The sessions to trade: the data's, within the window that was asked for.

        Those in which a strategy's signal does not count yet are left out.
        """
        if not state.get("strategy"):
            raise NoSignal(
                "there is nothing to trade: the state has no strategy; run the signal subgraph first"
            )
        index = self.store.snapshot(state["data_ref"])["ohlcv"]["open"].index
        request, first = state["request"], state["request"]["start"]
        if getattr(self.decider, "uses_signal", True):
            first = max(first, state["strategy"].get("evaluated_from") or first)
        return sessions_between(index, session_of(first), session_of(request["end"]))

    def _has_board(self, symbol: str) -> bool:
        try:
            self.rules.board(symbol)
        except UnknownSymbol:
            return False
        return True
