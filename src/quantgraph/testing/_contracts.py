"""What every decider, source and tool keeps, as classes of tests: subclass one and fill its hook in."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from langchain_core.tools import BaseTool

from quantgraph._util.canonical_json import canonical_json, json_copy
from quantgraph.broker import Account, Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.data import BAR_FIELDS, DatedLists, DescribedSource, MarketDataSource, Panel
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, BadWindow, QuantGraphError, RunMismatch, UnknownSymbol
from quantgraph.llm import Model
from quantgraph.market import Moment, Rulebook
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.tools import ToolContext, call_tool

_NOBODY = "NOBODY-X"
_ROWS, _SYMBOLS = 20, 3
_PRICES = ("open", "high", "low", "close")
_ROOM = 1e-9


def check_source(
    source: MarketDataSource,
    symbols: Sequence[str] = (),
    window: tuple[pd.Timestamp, pd.Timestamp] | None = None,
) -> None:
    """Ask a source as a run does, and raise at the first answer that breaks the protocol.

    Parameters
    ----------
    symbols
        Some of its codes with bars in the window. Default: its first three.
    window
        First and last day, both inclusive. Default: its last twenty sessions.

    Raises
    ------
    AssertionError
        With what the source answered and what the protocol says.
    """
    _expect(isinstance(source, MarketDataSource), "it lacks a method of MarketDataSource")
    _expect(bool(source.name) and isinstance(source.synthetic, bool), "name is a text, synthetic is a bool")
    sessions = source.sessions()
    _check_index(sessions, "sessions()")
    listed = source.symbols()
    _expect(
        isinstance(listed, tuple) and list(listed) == sorted({*listed}), "symbols() is an ascending tuple"
    )
    codes = sorted(symbols or listed[:_SYMBOLS])
    first, last = window or (sessions[-_ROWS:][0], sessions[-1])
    days = sessions[(sessions >= first) & (sessions <= last)]
    panel = source.bars(codes, first, last)
    _check_panel(panel, days, codes)
    _check_again(source, panel, codes, (first, last))
    _check_errors(source, codes, (first, last))
    _check_lists(source, days)


def _expect(holds: bool, rule: str) -> None:
    if not holds:
        raise AssertionError(f"the source breaks the protocol: {rule}")


def _check_index(index: object, what: str) -> None:
    _expect(
        isinstance(index, pd.DatetimeIndex) and len(index) > 0, f"{what} is a DatetimeIndex with sessions"
    )
    if isinstance(index, pd.DatetimeIndex):
        _expect(index.tz is None and index.name == "trade_date", f"{what} is naive and named trade_date")
        _expect(index.is_monotonic_increasing and index.is_unique, f"{what} is ascending and unique")


def _check_panel(panel: Panel, days: pd.DatetimeIndex, codes: list[str]) -> None:
    other = sorted({*panel} - {*BAR_FIELDS})
    _expect(
        not other and {"open", "close"} <= {*panel}, f"bars() has open, close and BAR_FIELDS alone: {other}"
    )
    for field, frame in panel.items():
        _check_index(frame.index, f"the index of {field}")
        _expect(frame.index.equals(days), f"the rows of {field} are the sessions of the window")
        _expect(list(frame.columns) == codes, f"the columns of {field} are the symbols, ascending")
        _expect(all(kind == np.float64 for kind in frame.dtypes), f"{field} is float64")
        _expect(not np.isinf(frame.to_numpy()).any(), f"{field} is finite, or NaN where nothing traded")
    for field in _PRICES:
        if field in panel:
            _expect(not (panel[field] <= 0).to_numpy().any(), f"{field} is above 0")
    if {"high", "low"} <= {*panel}:
        for field in ("open", "close"):
            above = panel[field] > panel["high"] * (1 + _ROOM)
            below = panel[field] < panel["low"] * (1 - _ROOM)
            _expect(not (above | below).to_numpy().any(), f"{field} lies between low and high")


def _check_again(
    source: MarketDataSource, panel: Panel, codes: list[str], window: tuple[pd.Timestamp, pd.Timestamp]
) -> None:
    """The same request, in another order and in a part of the window, has the same answer."""
    whole = {field: frame.copy() for field, frame in panel.items()}
    for frame in panel.values():
        if frame.to_numpy().flags.writeable:
            frame.iloc[:, :] = -1.0
    again = source.bars([*reversed(codes), codes[0]], *window)
    for field, frame in whole.items():
        _expect(
            field in again and frame.equals(again[field]), f"{field} is the same when it is asked for again"
        )
    traded = whole["close"].notna().any(axis=1)
    middle = traded.index[traded][-1]
    for field, frame in source.bars(codes, middle, window[1]).items():
        _expect(frame.equals(whole[field].loc[middle:]), f"{field} does not depend on the window's start")


def _check_errors(
    source: MarketDataSource, codes: list[str], window: tuple[pd.Timestamp, pd.Timestamp]
) -> None:
    first, last = window
    if first < last:
        _check_refusal(BadWindow, lambda: source.bars(codes, last, first), "a reversed window")
    _check_refusal(UnknownSymbol, lambda: source.bars([_NOBODY], first, last), "a symbol that it lacks")
    _check_refusal(UnknownSymbol, lambda: source.members(_NOBODY, last), "an index that it lacks")
    _check_refusal(UnknownSymbol, lambda: source.index_bars(_NOBODY, first, last), "levels that it lacks")


def _check_refusal(kind: type[QuantGraphError], ask: Callable[[], object], what: str) -> None:
    try:
        ask()
    except kind as error:
        _expect("\n" not in error.message, f"the error about {what} has one line")
        return
    except Exception as error:
        raise AssertionError(
            f"the source breaks the protocol: {what} is a {kind.__name__}, not {error!r}"
        ) from error
    _expect(False, f"{what} is a {kind.__name__}, not an answer")


def _check_lists(source: MarketDataSource, days: pd.DatetimeIndex) -> None:
    if isinstance(source, DatedLists):
        early, late = ({*source.symbols_on(day)} for day in (days[0], days[-1]))
        _expect(early <= late <= {*source.symbols()}, "symbols_on() grows with the day, up to symbols()")
    if isinstance(source, DescribedSource) and not source.synthetic:
        for language in ("en", "zh"):
            lines = source.provenance(language)
            _expect(bool(lines) and not any("\n" in line for line in lines), "provenance() has lines")


class SourceContract:
    """A source keeps the protocol of :class:`~quantgraph.data.MarketDataSource`, see :func:`check_source`.

    ::

        class TestWaves(SourceContract):
            def make_source(self):
                return Waves()
    """

    symbols: ClassVar[Sequence[str]] = ()
    window: ClassVar[tuple[str, str] | None] = None

    def make_source(self) -> MarketDataSource:
        """Return the source."""
        raise NotImplementedError

    def test_the_source_keeps_the_protocol(self) -> None:
        """Each answer has the documented form, and each refusal its type."""
        first, last = map(pd.Timestamp, self.window or ("", ""))
        check_source(self.make_source(), self.symbols, (first, last) if self.window else None)


class _Altered:
    """The sample with other bars from the close of a session on."""

    def __init__(self, day: pd.Timestamp) -> None:
        self._day, self._sample = day, SampleSource()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sample, name)

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        return altered(self._sample.bars(symbols, start, end), self._day)


def altered(panel: Panel, day: pd.Timestamp) -> Panel:
    """Bars that differ from the close of a session on: prices fall by a tenth, volumes double."""
    changed = {field: frame.copy() for field, frame in panel.items()}
    for field in {"open", "high", "low", "close", "vol", "amount"} & changed.keys():
        frame = changed[field]
        later = frame.index > day if field == "open" else frame.index >= day
        frame.loc[later] *= 2.0 if field in {"vol", "amount"} else 0.9
    if {"open", "high"} <= changed.keys():
        changed["high"] = changed["high"].where(changed["high"] >= changed["open"], changed["open"])
    return changed


class DeciderContract:
    """A decider survives a kill, is replayed, does not know the future, and is not taken for another one.

    ::

        class TestMine(DeciderContract):
            def make_decider(self):
                return Mine()

    Its runs are on the embedded sample, by default with the keyless planner for its models: then the module
    of the tests must be a file that a new process can import.
    """

    sentence: ClassVar[str] = "000341.SZ, 000342.SZ, 600958.SH, 20250102 to 20250117"
    model: ClassVar[Model] = "keyless"
    killed_after: ClassVar[int] = 6
    """Decisions before the process of the run is killed."""
    changed_from: ClassVar[str] = "20250113"
    """Session whose close, and all later bars, are others in the run that must decide the same until then."""

    def make_decider(self) -> Decider:
        """Return the decider, each time a new one."""
        raise NotImplementedError

    def run(self, out: Path, **options: Any) -> Mapping[str, Any]:
        """Run it on the sample."""
        options = {"source": "sample", "model": self.model, **options}
        return run_strategy(self.sentence, decider=self.make_decider(), out=out, **options)

    def test_a_killed_run_is_resumed_to_the_same_ledger(self, tmp_path: Path) -> None:
        """A process that is killed in the middle of a decision loses none and trades none twice."""
        whole, killed = self.run(tmp_path / "whole"), tmp_path / "killed"
        code = _KILLED.format(file=inspect.getfile(type(self)), name=type(self).__qualname__, out=str(killed))
        child = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
        _require(child.returncode == -signal.SIGKILL, f"the run ended before it was killed: {child.stderr}")
        (folder,) = killed.glob("*/run.json")
        resumed = resume_run(folder.parent, decider=self.make_decider(), model=self.model)
        _require(
            resumed["ended_because"] == "done", f"the resumed run ended because: {resumed['ended_because']}"
        )
        _require(_journal(resumed) == _journal(whole), "the ledger differs from that of a run without a kill")

    def test_a_replay_is_identical(self, tmp_path: Path) -> None:
        """Its record is enough to decide the same."""
        replayed = replay(self.run(tmp_path)["run_dir"], decider=self.make_decider())
        _require(replayed.identical, f"a replay differs: {[each.line for each in replayed.differences]}")

    def test_it_does_not_know_the_future(self, tmp_path: Path) -> None:
        """Other bars from a session's close on change no order up to that session."""
        day = pd.Timestamp(self.changed_from)
        known = _orders(self.run(tmp_path / "known"), until=day)
        kept = Resources(settings=load_settings(tables={"unexplained": "keep"}))  # no symbol is left out
        other = _orders(self.run(tmp_path / "other", source=_Altered(day), resources=kept), until=day)
        _require(known == other, f"orders up to {day:%Y-%m-%d} depend on later bars: {known} and {other}")

    def test_another_decider_is_refused(self, tmp_path: Path) -> None:
        """Its options are JSON and the same each time; a run of it is not replayed with another class."""
        one, two = self.make_decider(), self.make_decider()
        options = dict(one.options)
        _require(
            canonical_json(options) == canonical_json(dict(two.options)), "its options change by themselves"
        )
        other = self.make_decider()
        other.__class__ = type(f"Other{type(one).__name__}", (type(one),), {})
        run = self.run(tmp_path)["run_dir"]
        try:
            replay(run, decider=other)
        except RunMismatch:
            return
        _require(False, "a run of it is replayed with a decider of another class")


_KILLED = """
import importlib.util, os, pathlib, signal, sys
file, name = {file!r}, {name!r}
sys.path.insert(0, str(pathlib.Path(file).parent))
spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
contract = getattr(module, name)()
kind, made = type(contract.make_decider()), []
decide = kind.decide
def killing(self, context):
    decision = decide(self, context)
    made.append(decision)
    if len(made) > contract.killed_after:
        os.kill(os.getpid(), signal.SIGKILL)
    return decision
kind.decide = killing
kind.block_rule = lambda self, context: None
contract.run(pathlib.Path({out!r}))
"""


def _journal(run: Mapping[str, Any]) -> list[str]:
    """The lines of a run's ledger that belong to a session."""
    with Ledger(Path(run["run_dir"]) / "ledger.sqlite") as book:
        book.check(run["run_id"])
        lines = [line for line in book.journal(run["run_id"]) if line["session"]]
    return [canonical_json([line["session"], line["kind"], line["body"]]) for line in lines]


def _orders(run: Mapping[str, Any], *, until: pd.Timestamp) -> list[list[str]]:
    with Ledger(Path(run["run_dir"]) / "ledger.sqlite") as book:
        orders = book.orders(run["run_id"])
    known = orders[orders["trade_date"] <= until]
    return known[["trade_date", "ts_code", "side", "quantity", "reason"]].astype(str).to_numpy().tolist()


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


class ToolContract:
    """A tool says what it does, answers with JSON, refuses with a typed error, and does not know the future.

    ::

        class TestSpread(ToolContract):
            params = {"symbol": "000341.SZ"}

            def make_tool(self):
                return spread
    """

    params: ClassVar[Mapping[str, Any]] = {}
    """Parameters of a call that has an answer, on three stocks of the sample in January 2025."""
    session: ClassVar[str] = "20250120"

    def make_tool(self) -> BaseTool:
        """Return the tool."""
        raise NotImplementedError

    def call(self, *, changed: bool = False, **params: Any) -> Any:
        """Call it at the open of the session; ``changed``: over data whose later bars are others."""
        day, source = pd.Timestamp(self.session), SampleSource()
        bars = source.bars(["000341.SZ", "000342.SZ", "600958.SH"], pd.Timestamp("2024-10-08"), day)
        store = DataState()
        store.update("ohlcv", altered(bars, day) if changed else bars)
        context = ToolContext(
            store.view(Moment.at(day, "open")), Account.opening(1_000_000), Rulebook.mainland()
        )
        return call_tool(self.make_tool(), {**self.params, **params}, context, timeout=30)

    def test_the_model_is_told_what_it_is_for(self) -> None:
        """Its name is one that every server takes, and it has a description."""
        tool = self.make_tool()
        _require(
            tool.name.isidentifier() and bool(tool.description.strip()), "it needs a name and a description"
        )

    def test_its_answer_is_json_and_the_same_each_time(self) -> None:
        """What is recorded is what the model got."""
        answer = self.call()
        _require(json_copy(answer) == answer is not None, f"it is not JSON: {answer!r:.200}")
        _require(self.call() == answer, "the same call has another answer")

    def test_an_unknown_parameter_is_a_typed_error(self) -> None:
        """The message is for a model, which may call it again."""
        try:
            self.call(no_such_parameter=1)
        except BadOption:
            return
        _require(False, "a parameter that it does not have must be a BadOption")

    def test_it_does_not_know_the_future(self) -> None:
        """Other bars from the session's close on change no answer at its open."""
        _require(self.call() == self.call(changed=True), "its answer depends on bars after the open")
