"""Checks of what a run left, and of a strategy file: against prices, and against a sentence."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Literal, ParamSpec

import numpy as np
import pandas as pd

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.database import open_engine
from quantgraph._util.files import MANIFEST_FILE, MOST_JSON, check_sentence, read_stored, stored_file
from quantgraph._util.parsing import parse_code
from quantgraph.audit.causality import LookLog, Verdict, check_causality, rehearse
from quantgraph.broker.ledger import Ledger, LoggedExecution
from quantgraph.data import MarketDataSource, SourceLike
from quantgraph.data.symbols import is_index_code, symbol_list
from quantgraph.errors import BadFile, BadOption, BadWindow, LedgerConflict, NoData, UnknownCommit
from quantgraph.market import Moment, session_of
from quantgraph.recording import Change, Entry, Recorder, Recording, changes
from quantgraph.rules import published, trials_of
from quantgraph.runs._outputs import (
    CHECKPOINT_TABLES,
    CHECKPOINTS_FILE,
    CHECKSUMS_FILE,
    RECORD_KEY,
    RESULT_FILE,
    StrategyFile,
    check_file,
    read_checksums,
    read_result,
    read_signal,
    read_strategy,
    rows_checksum,
)
from quantgraph.runs.folder._folder import ledger_location, read_manifest, stored_data
from quantgraph.runtime import Resources, merge_resources, open_resources
from quantgraph.sandbox import CodeRunner
from quantgraph.sandbox.wire import Frames
from quantgraph.state import DataState, check_stored_commits
from quantgraph.state.frames import Made
from quantgraph.subgraphs.signal import HeldSignal, hold_against_words, indices_with_levels, words_in
from quantgraph.tools import read_window

Export = Literal["ledger", "executions", "signal", "strategy", "result", "record"]

_PLACES = frozenset({"run_dir", "path", "seconds", "order_by_order"})
"""Keys of a result that say where and when it was made."""
_TABLES = ("journal", "windows", "recording", "saved_rules", "executions", "execution_logs")
"""Of a ledger's file."""
_MAX_CHANGES = 20
_REFS = ("ref", "data_ref", "signal_ref")
"""Keys of tool and check results that name commits."""

P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)
class IntegrityReport:
    """Outcome of a check."""

    files: int
    faults: tuple[BadFile, ...]


def check_run_folder(folder: Path | None, ledger: str | Path) -> IntegrityReport:
    """Check the files of a run's folder, and its record.

    ``result.json``, ``run.json`` and the files that the result names must have the checksums of
    ``checksums.json``, and so must checkpoints and record, as far as they went when the run ended; commits
    and objects of the data must have the content they are named by, and every commit that the run names must
    be there. The ledger's lines are checked by :meth:`~quantgraph.broker.ledger.Ledger.check`.

    Parameters
    ----------
    folder
        If it has neither ``run.json`` nor ``checksums.json``, only the ledger's file is read.
    ledger
        File or database URL of ledger and record.

    Raises
    ------
    StorageUnavailable
        If a database cannot be read now.
    """
    own = [] if "://" in str(ledger) else [Path(ledger)]
    files, faults = len(own), [fault for path in own for fault in _faults(_check_database, path, _TABLES)]
    if folder is not None and any((folder / name).is_file() for name in (MANIFEST_FILE, CHECKSUMS_FILE)):
        report = _check_folder(folder, ledger)
        files, faults = files + report.files, [*faults, *report.faults]
    return IntegrityReport(files=files, faults=tuple({fault.message: fault for fault in faults}.values()))


def check_recorded_commits(folder: Path, entries: Iterable[Entry]) -> None:
    """Load each commit of a run's folder that the record names."""
    store = stored_data(folder)
    for ref in _recorded_commits(entries):
        try:
            store.snapshot(ref)
        except UnknownCommit as error:
            raise BadFile(f"{folder / 'data'} has been changed: {error.message}", path=str(folder)) from error


def _recorded_commits(entries: Iterable[Entry]) -> Iterator[str]:
    """Commits in recorded results of tools and checks."""
    for entry in entries:
        outcome = entry.outcome() if entry.reply and entry.key.kind in {"tool", "code"} else None
        for ref in (outcome.get(name) for name in _REFS) if isinstance(outcome, dict) else ():
            if ref:
                yield ref


def _check_folder(folder: Path, ledger: str | Path) -> IntegrityReport:
    """Check everything but the ledger's file."""
    sums: dict[str, Any] = {}
    faults = list(_faults(lambda: sums.update(read_checksums(folder))))
    named = [name for name in sums if name not in {RECORD_KEY, CHECKPOINTS_FILE}]
    faults += [fault for name in named for fault in _faults(check_file, folder, name, sums[name])]
    faults += _faults(_check_checkpoints, folder, sums.get(CHECKPOINTS_FILE))
    faults += _faults(stored_data, folder)
    stored = check_stored_commits(folder / "data")
    faults += stored.faults
    if (folder / MANIFEST_FILE).is_file():  # without it, data and record are the replayed run's
        faults += _faults(read_manifest, folder)
        faults += _faults(_check_record, folder, ledger, sums.get(RECORD_KEY), stored.commits)
    names = {MANIFEST_FILE, CHECKSUMS_FILE, RESULT_FILE, CHECKPOINTS_FILE, *named}
    files = sum((folder / str(name)).is_file() for name in names)
    return IntegrityReport(files=files + stored.files, faults=tuple(faults))


def _faults(check: Callable[P, object], *arguments: P.args, **named: P.kwargs) -> Iterator[BadFile]:
    try:
        check(*arguments, **named)
    except BadFile as error:
        yield error


def _check_checkpoints(folder: Path, checksum: str | None) -> None:
    """Check that the file of checkpoints is not damaged, and its rows against the checksum."""
    path = folder / CHECKPOINTS_FILE
    if stored_file(folder, CHECKPOINTS_FILE) is None:
        if checksum is not None:
            raise BadFile(f"{path} is missing; the run left it there", path=str(path))
        return
    _check_database(path, CHECKPOINT_TABLES)
    if checksum is not None and rows_checksum(path) != checksum:
        raise BadFile(f"{path} has been changed: the checksum of its rows must be {checksum}", path=str(path))


def _check_database(path: Path, tables: Sequence[str]) -> None:
    """Check that these tables of a SQLite file are not damaged."""
    if not path.is_file():
        return
    engine = open_engine(path, reads=tables)
    try:
        with engine.connect() as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            there = {*connection.exec_driver_sql(query).scalars()}.intersection(tables)
            reports = [
                report
                for name in sorted(there)
                for report in connection.exec_driver_sql(f"PRAGMA integrity_check({name})").scalars()
            ]
    finally:
        engine.dispose()
    for report in reports:
        if report != "ok":
            raise BadFile(f"{path} is damaged: {' '.join(report.split())}", path=str(path))


def _check_record(
    folder: Path, ledger: str | Path, checksum: Mapping[str, Any] | None, stored: frozenset[str]
) -> None:
    """Check the record's lines, and that every commit that the run names is one of the ``stored``."""
    place, result = str(ledger_location(ledger)), read_result(folder) or {}
    try:
        with closing(
            Recorder(ledger, read_only=True).of(str(result.get("run_id", folder.name)))
        ) as recording:
            _check_lines(recording, checksum)
            named: set[str | None] = {*_recorded_commits(recording.entries())}
    except BadFile as error:
        raise BadFile(f"{place}: {error.message}", path=place) from error
    named |= {result.get("data_ref"), (result.get("strategy") or {}).get("data_ref")}
    for ref in sorted({ref for ref in named if ref} - {DataState().empty} - stored):
        path = folder / "data" / "commits" / f"{ref}.json"
        raise BadFile(f"{path} is missing, a commit that the run names", path=str(path))


def _check_lines(recording: Recording, checksum: Mapping[str, Any] | None) -> None:
    subject = f"the record of run {recording.run_id!r} was changed"
    for number, entry in enumerate(recording.entries(), start=1):
        if content_hash(entry.request) != entry.key.digest:
            raise BadFile(
                f"{subject} at its line {number}: the request must have the hash {entry.key.digest}"
            )
    if checksum is None:
        return
    lines, content = recording.content(checksum["lines"])
    if lines != checksum["lines"]:
        raise BadFile(f"{subject}: {lines} of {checksum['lines']} lines are there")
    if content != checksum["content"]:
        raise BadFile(f"{subject}: its checksum must be {checksum['content']}")


@dataclass(frozen=True, kw_only=True)
class ReplayDifference:
    """One difference between a run and its replay."""

    export: Export
    place: str
    recorded: str = ""
    replayed: str = ""

    @property
    def line(self) -> str:
        """The difference in one line."""
        sides = f"recorded: {self.recorded or 'nothing'} | replayed: {self.replayed or 'nothing'}"
        return f"{self.export} {self.place}: {sides}"


def compare_ledgers(
    recorded: Ledger, replayed: Ledger, run_id: str, *, whole: bool
) -> list[ReplayDifference]:
    """Compare journals line by line with their hashes; of an unfinished run, as far as it got.

    A line of the recorded journal that was changed afterwards is a difference, too.
    """
    old_lines, new_lines = (list(_lines(book, run_id)) for book in (recorded, replayed))
    pairs = zip_longest(old_lines, new_lines if whole else new_lines[: len(old_lines)], fillvalue="")
    found = [
        ReplayDifference(export="ledger", place=f"line {number}", recorded=old[:300], replayed=new[:300])
        for number, (old, new) in enumerate(pairs)
        if old != new
    ]
    if old_lines and not found:
        try:
            recorded.check(run_id)
        except LedgerConflict as error:
            found = [ReplayDifference(export="ledger", place="chain", recorded=error.message)]
    return found[:1]


def _lines(book: Ledger, run_id: str) -> Iterator[str]:
    if book.has_run(run_id):
        for row in book.journal(run_id):
            yield json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def compare_signals(recorded: Path, replayed: Path) -> list[ReplayDifference]:
    """Compare the frames of two files bit by bit."""
    if not (recorded.is_file() and replayed.is_file()):
        old, new = ("a signal" if path.is_file() else "" for path in (recorded, replayed))
        return (
            []
            if old == new
            else [ReplayDifference(export="signal", place="file", recorded=old, replayed=new)]
        )
    content = read_stored(recorded.parent, recorded.name) or b""
    if content == replayed.read_bytes():
        return []
    try:
        old_frame, new_frame = read_signal(content, recorded), pd.read_parquet(replayed)
    except (OSError, ValueError) as error:
        raise BadFile(f"{recorded} is not a signal: {error}", path=str(recorded)) from error
    if not (old_frame.index.equals(new_frame.index) and old_frame.columns.equals(new_frame.columns)):
        old, new = (f"{len(frame)} x {len(frame.columns)}" for frame in (old_frame, new_frame))
        return [ReplayDifference(export="signal", place="sessions or symbols", recorded=old, replayed=new)]
    old_cells, new_cells = old_frame.to_numpy("float64"), new_frame.to_numpy("float64")
    apart = np.argwhere(old_cells.view("int64") != new_cells.view("int64"))
    return [
        ReplayDifference(
            export="signal",
            place=f"{old_frame.index[row]:%Y-%m-%d} {old_frame.columns[column]}",
            recorded=str(old_cells[row, column]),
            replayed=str(new_cells[row, column]),
        )
        for row, column in apart[:1]
    ]


def compare_strategies(recorded: Path, replayed: Path) -> list[ReplayDifference]:
    """Compare two files line by line."""
    old_lines, new_lines = (
        (read_stored(path.parent, path.name, MOST_JSON) or b"")
        .decode(errors="backslashreplace")
        .splitlines(keepends=True)
        for path in (recorded, replayed)
    )
    pairs = enumerate(zip_longest(old_lines, new_lines, fillvalue=""), start=1)
    return [
        ReplayDifference(
            export="strategy", place=f"line {number}", recorded=old.rstrip(), replayed=new.rstrip()
        )
        for number, (old, new) in pairs
        if old != new
    ][:1]


def compare_results(recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> list[ReplayDifference]:
    """Compare two results, but for where and when they were made."""
    return [
        ReplayDifference(
            export="result", place=change.place, recorded=change.old[:200], replayed=change.new[:200]
        )
        for change in islice(changes(without_places(recorded), without_places(replayed)), _MAX_CHANGES)
    ]


def without_places(value: Any) -> Any:
    """A result without the keys that say where and when it was made."""
    if isinstance(value, Mapping):
        return {name: without_places(inner) for name, inner in value.items() if name not in _PLACES}
    return [without_places(inner) for inner in value] if isinstance(value, list) else value


def audit_strategy(
    path: str | Path,
    *,
    source: SourceLike | None = None,
    symbols: str | Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    prove: Literal["auto", "all", "sampled"] | None = None,
    resources: Resources | None = None,
) -> Verdict:
    """Prove that a strategy file is causal on the data of a source, or refute it.

    Parameters
    ----------
    path
        The file, see :func:`read_strategy`.
    source
        See :class:`~quantgraph.runtime.Resources`.
    symbols, start, end
        Codes, names or an index code; dates as ``YYYYMMDD``. Default: all data of the source.
    prove
        Which sessions are proved, see :func:`.check_causality`. Default: ``audit.prove`` of the settings.
    resources
        Settings, source and code runner.

    Raises
    ------
    BadFile
        If the file is not a strategy.
    UnknownSymbol, BadWindow, NoData
        If the source does not have the data.
    """
    strategy, opened = read_strategy(path), open_resources(merge_resources(resources, source=source))
    market, settings = opened.source, opened.settings
    store = strategy_data(strategy, market, symbols=symbols, start=start, end=end)
    prove = prove or settings.audit.prove
    trials = trials_of(opened.runner, strategy.cells, strategy.name, prove=prove)
    panel = store.view(Moment(market.sessions()[-1])).frozen()
    return check_causality(
        trials,
        panel,
        prove=prove,
        cuts=settings.audit.cuts,
        seed=settings.audit.seed,
        reads=rehearse(trials, panel).reads,
        looks=LookLog(settings.cache_dir),
    )


_Key = tuple[str, str, str, str]
"""Session, symbol, name and text of the rule."""
_NO_STEP: dict[str, Any] = {}


def compare_execution_logs(recorded: Ledger, replayed: Ledger, run_id: str) -> list[ReplayDifference]:
    """Compare the steps of the sessions that the recorded run committed; the first difference.

    The recorded journal must be sound.
    """
    sessions = set(recorded.sessions(run_id)) if recorded.has_run(run_id) else set()
    old, new = (
        {_key(each): each for each in book.executions(run_id) if each.session in sessions}
        for book in (recorded, replayed)
    )
    return list(islice(_differences(old, new), 1))


def _differences(
    old: Mapping[_Key, LoggedExecution], new: Mapping[_Key, LoggedExecution]
) -> Iterator[ReplayDifference]:
    for key in sorted({*old, *new}):
        pairs = zip_longest(_steps(old.get(key)), _steps(new.get(key)), fillvalue=_NO_STEP)
        for number, (before, after) in enumerate(pairs, start=1):
            if canonical_json(before) != canonical_json(after):
                change = next(
                    changes(before, after), Change("", canonical_json(before), canonical_json(after))
                )
                place = " ".join(filter(None, (*key[:3], f"step {number}", change.place)))
                sides = {"recorded": change.old[:300], "replayed": change.new[:300]}
                yield ReplayDifference(export="executions", place=place, **sides)


def _key(execution: LoggedExecution) -> _Key:
    return f"{execution.session:%Y-%m-%d}", execution.symbol, execution.rule_name, execution.rule


def _steps(execution: LoggedExecution | None) -> list[dict[str, Any]]:
    names = ("action_type", "action", "result", "timestamp")
    return [{name: getattr(step, name) for name in names} for step in (execution.steps if execution else ())]


def strategy_data(
    strategy: StrategyFile,
    market: MarketDataSource,
    *,
    symbols: str | Sequence[str],
    start: str | None,
    end: str | None,
    indices: Sequence[str] = (),
) -> DataState:
    """Return a source's bars, and its indicators and index levels if the code names them; by default all.

    The levels of ``indices`` are there, too, if the source has them.
    """
    sessions = market.sessions()
    first, last = start or f"{sessions[0]:%Y%m%d}", end or f"{sessions[-1]:%Y%m%d}"
    if not (start and end) and session_of(first, name="start") > session_of(last, name="end"):
        bound = f"start={start}" if start else f"end={end}"
        span = f"{sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}"
        raise BadWindow(f"{bound} is outside of what {market.name} has, {span}")
    codes = ",".join(symbol_list(symbols)) or "ALL"
    resolved, begin, finish, _ = read_window(market, Moment(sessions[-1]), codes, first, last)
    store = DataState()
    store.update("ohlcv", market.bars(resolved.symbols, begin, finish))
    named = {value for cell in strategy.cells for value in _constants(cell)}
    for panel, frames in published(store, store.head, named).items():
        store.update(panel, frames)
    if "indicators" in named:
        with suppress(NoData):  # the code's own error names what is missing
            store.update("indicators", market.indicators(resolved.symbols, begin, finish))
    if "index" in named or indices:
        wanted = [*indices, *sorted(value for value in named if is_index_code(value))]
        for code in indices_with_levels("", market, wanted):
            with suppress(NoData):
                levels = market.index_bars(code, begin, finish)
                store.update("index", {str(name): levels[[name]].set_axis([code], axis=1) for name in levels})
    return store


def _constants(cell: str) -> Iterator[str]:
    with suppress(SyntaxError):  # the lines around a lambda
        nodes = (node for node in ast.walk(parse_code(cell)) if isinstance(node, ast.Constant))
        yield from (node.value for node in nodes if isinstance(node.value, str))


def audit_sentence(
    path: str | Path,
    sentence: str,
    *,
    source: SourceLike | None = None,
    symbols: str | Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    resources: Resources | None = None,
) -> HeldSignal:
    """Return how a strategy file departs from a sentence on the data of a source, as :func:`audit_strategy`.

    Codes and dates that are not passed are the sentence's. Where it is not read whole, or what it
    watches has no data, positions are not compared, and the result says why.

    Raises
    ------
    BadFile, BadOption
        If the file is not a strategy, or the sentence is empty or too long.
    UnknownSymbol, BadWindow, NoData, CodeFailed
        If the source does not have the data, or the code fails on them.
    """
    check_sentence(sentence, "sentence")
    if not sentence.strip():
        raise BadOption("sentence is empty; it must be the one that the strategy was made from")
    strategy, opened = read_strategy(path), open_resources(merge_resources(resources, source=source))
    words, moment = words_in(sentence, opened.source), Moment(opened.source.sessions()[-1])
    request = words.read
    watched = [code for code in request.watch if code not in request.trade] if request else []
    indices = [code for code in watched if is_index_code(code)]
    read = [*request.trade, *(code for code in watched if code not in indices)] if request else []
    store = strategy_data(
        strategy,
        opened.source,
        symbols=symbols or read,
        start=start or (request.start if request else None),
        end=end or (request.end if request else None),
        indices=indices,
    )
    view = store.view(moment)
    panel = view.frozen()
    LookLog(opened.settings.cache_dir).add(panel)
    made, _, signal = signal_of_cells(strategy, opened.runner, panel, path)
    if made != "signal":
        raise BadOption(f"{path} hands over {made}; a sentence is compared with a signal")
    words = replace(words, trade=tuple(map(str, signal.columns)))
    return hold_against_words(words, signal, strategy.cells, view, first=None)


def signal_of_cells(
    strategy: StrategyFile, runner: CodeRunner, frames: Frames, path: str | Path
) -> tuple[Made, str, pd.DataFrame]:
    """Run the cells of a file once; return the panel, the name and the frame of its signal."""
    result = runner.run(strategy.cells, frames)
    if result.error is not None:
        raise result.error
    made = result.made
    name = strategy.name or next(reversed(made), "")
    if name not in made:
        raise BadOption(f"{path} hands over no signal {name}".rstrip())
    panel, found = made[name]
    return panel, name, found[name]
