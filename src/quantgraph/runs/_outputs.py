"""What a run leaves in its folder: ``strategy.py``, ``signal.parquet``, ``result.json``, ``checksums.json``.

Checksums are 128 bits of BLAKE2b, hexadecimal. Commits of the data state are named by their content, and the
lines of the ledger are a hash chain: both need no checksum.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import MetaData, select

from quantgraph._util.canonical_json import canonical_json, content_hash, file_hash
from quantgraph._util.database import open_engine
from quantgraph._util.files import (
    MANIFEST_FILE,
    MOST_JSON,
    read_stored,
    storage_errors,
    stored_file,
    write_atomic,
)
from quantgraph._util.parsing import parse_code
from quantgraph._util.values import json_of
from quantgraph.audit.bars import signal_counts
from quantgraph.data import AsOfSource, MarketDataSource
from quantgraph.errors import BadFile
from quantgraph.market import Moment
from quantgraph.recording import PASSING_ERRORS, Recording
from quantgraph.runs.folder._folder import Manifest
from quantgraph.runtime.graph_state import dialogue_of, progress_of, request_of, strategy_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import EVALUATION_FIELDS, MAX_CLARIFICATIONS, traded_symbols

CHECKSUMS_FILE, RESULT_FILE, RECORD_KEY = "checksums.json", "result.json", "record"
CHECKPOINTS_FILE, CHECKPOINT_TABLES = "checkpoints.sqlite", ("checkpoints", "writes")
PAGE_FILE, SIGNAL_FILE = "report.html", "signal.parquet"
_MOST_CELLS = 100_000_000
_CELL = "# %%"
_NAME = re.compile(r"\n\nname: (.+)")  # "\n\nname: 均线"
_FINAL = frozenset(
    {
        "done",
        "max_retries",
        "repeated_error",
        "no_open_prices",
        "no_progress",
        "causality_failed",
        "meaning_failed",
        "declined",
    }
)
"""Ends that a resume would only repeat."""
_TEMPORARY_ENDS = frozenset({"code_unavailable", "data_unavailable", "model_unavailable", "timeout"})
"""Ends that a later resume may overcome."""
_SPENT = re.compile(  # "budget of the run: at most 20 calls"
    r"budget of the (run|session)[^:]*: at most (\S+) (calls|prompt tokens|completion tokens|money|seconds)"
)
_REPORTED = ("judgement", "account", "benchmark", "index", "periods_per_year", "cash", "equity")
"""Keys of a report's summary that a result repeats."""


def initial_result(manifest: Manifest, folder: Path) -> dict[str, Any]:
    """Result of a run that has not ended: ``state`` is ``running``."""
    own = manifest.spec.own
    return {
        "run_id": manifest.run_id,
        "run_dir": str(folder),
        "state": "running",
        "ended_because": None,
        "question": manifest.spec.question,
        "source": {name: value for name, value in manifest.source.items() if name != "open" and value != []},
        "started": manifest.started,
        "versions": dict(manifest.versions),
        **({"plan": manifest.spec.plan.to_json()} if manifest.spec.plan else {}),
        **({"params": dict(own.params)} if own and own.params else {}),
    }


def run_outcome(state: Mapping[str, Any], source: MarketDataSource) -> dict[str, Any]:
    """The part of a result that the graph's state holds: how it ended, and the request."""
    request, dialogue = request_of(state), dialogue_of(state)
    checked, history = request["checked"], list(state.get("execution_history") or [])
    reason, errors = state.get("ended_because") or "cancelled", state.get("error_messages") or []
    error = errors[-1] if errors else ": ".join([reason, *history[-1:]])
    unanswered = dialogue["open_question"]
    # Without a request the source may be the reason of the end: it is not asked again.
    known = AsOfSource(source, Moment(source.sessions()[-1])) if checked else None
    symbols = traded_symbols(checked, known) if known else ()
    understood = request["understanding"]
    codes = {*symbols, *((*understood["trade"], *understood["watch"]) if understood else ())}
    return {
        "ended_because": reason,
        **({} if reason == "done" else {"error": error}),
        **({"open_question": open_question(unanswered)} if unanswered else {}),
        "understanding": understood,
        "assumptions": dialogue["assumptions"],
        "notes": [*(checked.get("notes") or []), *(state.get("summary") or {}).get("notes", [])],
        "symbols": list(symbols),
        "names": {code: name for code, name in _names(known).items() if code in codes and name != code},
        "window": {"start": checked.get("start"), "end": checked.get("end")},
        "data_ref": state.get("data_ref"),
        "validation": progress_of(state)["validation"],
        "history": history,
    }


def _names(source: AsOfSource | None) -> Mapping[str, str]:
    return source.names() if source else {}


def can_be_resumed(result: Mapping[str, Any]) -> bool:
    """Whether a run that is resumed would go on, and not end as it did."""
    return result.get("ended_because") not in _FINAL and not questions_used_up(result)


def questions_used_up(result: Mapping[str, Any]) -> bool:
    """Whether a run ended for want of an answer after it had asked as many questions as it may."""
    answered = sum(line.startswith("clarified: ") for line in result.get("history", ()))
    waits = "asked" in result
    return result.get("ended_because") == "needs_answer" and not waits and answered >= MAX_CLARIFICATIONS


def next_command(result: Mapping[str, Any], command: str) -> str:
    """``command``, which resumes a run, with what it needs; empty if the run would end the same way."""
    because, error = result["ended_because"], result["error"]
    if because == "needs_answer":
        return "" if questions_used_up(result) else f"{command} --answer TEXT"
    if spent := _SPENT.search(error):
        whose, most, limit = spent.groups()
        option = "--budget" if whose == "run" else "--session-budget"
        return f"{command} {option} {limit.replace(' ', '_')}=N, with N above {most}"
    passes = because in _TEMPORARY_ENDS and error.partition(":")[0] in PASSING_ERRORS
    return command if passes or because == "cancelled" else ""


def open_question(task: Mapping[str, Any]) -> dict[str, Any]:
    """The question that a run waits at or ended at, as a result has it."""
    return {key: task[key] for key in ("id", "kind", "reason", "question", "options", "default", "unread")}


def save_outputs(folder: Path, question: str, state: Mapping[str, Any], store: DataState) -> dict[str, Any]:
    """Write ``strategy.py`` and ``signal.parquet`` if there are any; return their part of the result."""
    strategy, summary = strategy_of(state), state.get("summary") or {}
    saved: dict[str, Any] = {"strategy": None, "signal": None}
    if strategy and state.get("signal_ready"):
        if (request_of(state)["own"] or {"kind": "file"})["kind"] in {"file", "rule"}:
            saved["strategy"] = _save_strategy(folder / "strategy.py", strategy, question)
        signal = store.snapshot(state["data_ref"])["signal"][strategy["name"]]
        saved["signal"] = _save_signal(folder / "signal.parquet", strategy["name"], signal)
    data_summary = progress_of(state)["validation"].get("data_summary", {})
    saved |= {key: data_summary.get(key) for key in EVALUATION_FIELDS}
    if_any = {key: summary[key] for key in ("plan", "reply_errors") if summary.get(key)}
    return saved | if_any | {key: summary.get(key) for key in _REPORTED}


def _save_strategy(path: Path, strategy: Mapping[str, Any], question: str) -> dict[str, Any]:
    write_atomic(path, strategy_source(strategy, question).encode())
    kept = {key: strategy[key] for key in ("name", "code_hash", "data_ref", "said")}
    return {**kept, "path": str(path)}


def _save_signal(path: Path, name: str, signal: pd.DataFrame) -> dict[str, Any]:
    write_atomic(path, signal.to_parquet())
    return {"name": name, "path": str(path), "counts": signal_counts(signal)}


def read_signal(content: bytes, path: Path) -> pd.DataFrame:
    """A frame of a signal's file, which may say that it has more cells than a memory."""
    from pyarrow import parquet

    facts = parquet.ParquetFile(io.BytesIO(content)).metadata
    if facts.num_rows * facts.num_columns > _MOST_CELLS:
        raise BadFile(f"{path} is not read: it has more than {_MOST_CELLS:,} cells", path=str(path))
    return pd.read_parquet(io.BytesIO(content))


def write_result(folder: Path, result: Mapping[str, Any], sums: Mapping[str, Any] | None = None) -> None:
    """Write ``result.json``, and before it ``checksums.json``, which includes ``sums``."""
    if "run_dir" in result:  # where it is, wherever this process works
        result = {**result, "run_dir": str(Path(result["run_dir"]).absolute())}
    text = json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"
    with storage_errors(folder):
        _write_checksums(folder, result, text, sums or {})
    write_atomic(folder / RESULT_FILE, text)


def read_result(folder: Path) -> dict[str, Any] | None:
    """Result of a run; None if there is no ``result.json``.

    The paths in it are those in this folder, which may be a copy of the original.

    Raises
    ------
    BadFile
        If the file is not a result.
    """
    path, content = folder / RESULT_FILE, read_stored(folder, RESULT_FILE, MOST_JSON)
    if content is None:
        return None
    try:
        result: dict[str, Any] = json_of(content)
        result["ended_because"]
        if "run_dir" in result:
            result["run_dir"] = str(folder)
        for each in filter(None, (result.get("strategy"), result.get("signal"))):
            each["path"] = str(folder / Path(each["path"]).name)
    except (AttributeError, ValueError, LookupError, TypeError) as error:
        raise BadFile(
            f"{path} is not a result of a run: {type(error).__name__}: {error}; without the file the run "
            "counts as stopped",
            file=str(path),
        ) from error
    return result


def recorded_folder_of(folder: Path) -> str:
    """Where a run's result was written; empty if that is not known."""
    try:
        return str(json_of(read_stored(folder, RESULT_FILE, MOST_JSON) or "{}")["run_dir"])
    except (LookupError, TypeError, ValueError):
        return ""


def _write_checksums(folder: Path, result: Mapping[str, Any], text: bytes, more: Mapping[str, Any]) -> None:
    """Write ``checksums.json`` before the result: both the old and the new result match it."""
    named = [Path(result[each]["path"]).name for each in ("strategy", "signal") if result.get(each)]
    sums: dict[str, Any] = {
        name: file_hash(folder / name)
        for name in (MANIFEST_FILE, RESULT_FILE, *named)
        if (folder / name).is_file()
    }
    before = sums.pop(RESULT_FILE, None)
    now = content_hash(text)
    sums |= {**more, RESULT_FILE: [now] if before in {None, now} else [before, now]}
    stored = json.dumps({**sums, CHECKSUMS_FILE: content_hash(canonical_json(sums))}, indent=1)
    write_atomic(folder / CHECKSUMS_FILE, f"{stored}\n".encode())


def read_checksums(folder: Path) -> dict[str, Any]:
    """Checksums by file name; a list for ``result.json``, lines and content for the record."""
    path = folder / CHECKSUMS_FILE
    try:
        sums: dict[str, Any] = json_of(read_stored(folder, CHECKSUMS_FILE, MOST_JSON) or "")
        own = sums.pop(CHECKSUMS_FILE)
    except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadFile(
            f"{path} is not the file of checksums that a run writes: {reason}", path=str(path)
        ) from error
    if own != (content := content_hash(canonical_json(sums))):
        raise BadFile(f"{path} has been changed: its own checksum must be {content}", path=str(path))
    return sums


def check_file(folder: Path, name: str, checksums: str | list[str]) -> None:
    """See that a file of a run has its checksum, or one of several; BadFile if not."""
    valid = checksums if isinstance(checksums, list) else [checksums]
    path = folder / name
    if stored_file(folder, name) is None:
        raise BadFile(f"{path} is missing; the run left it there", path=str(path))
    if file_hash(path) not in valid:
        known = " or ".join(map(str, valid))
        raise BadFile(f"{path} has been changed: its checksum must be {known}", path=str(path))


def changed_file(folder: Path, *names: str) -> str:
    """Say which file is the first without its checksum, of these or of all; empty if all have theirs.

    The record, the checkpoints and the data are left to ``quantgraph verify``.
    """
    try:
        sums = read_checksums(folder)
        for name in names or [name for name in sums if name not in {RECORD_KEY, CHECKPOINTS_FILE}]:
            check_file(folder, name, sums.get(name, ""))
    except BadFile as error:
        return error.line
    return ""


def final_checksums(folder: Path, recording: Recording) -> dict[str, Any]:
    """Checksums of what grows during a run: the lines of its record, and its checkpoints."""
    lines, content = recording.content()
    path = folder / CHECKPOINTS_FILE
    checkpoints = {CHECKPOINTS_FILE: rows_checksum(path)} if path.is_file() else {}
    return {RECORD_KEY: {"lines": lines, "content": content}, **checkpoints}


def rows_checksum(path: Path) -> str:
    """Checksum of all rows of a file of checkpoints, in any order."""
    engine, tables = open_engine(path, reads=CHECKPOINT_TABLES), MetaData()
    try:
        tables.reflect(engine, only=lambda name, _: name in CHECKPOINT_TABLES)
        with engine.connect() as connection:
            rows = [
                content_hash(repr((name, *row)))
                for name, table in tables.tables.items()
                for row in connection.execute(select(table))
            ]
    finally:
        engine.dispose()
    return content_hash(*sorted(rows))


@dataclass(frozen=True, kw_only=True)
class StrategyFile:
    """Content of a strategy file."""

    about: str
    cells: tuple[str, ...]
    name: str | None = None


def strategy_source(strategy: Mapping[str, Any], question: str) -> str:
    """Text of a strategy file: a docstring, then the code as ``# %%`` cells."""
    about = question.replace("\\", "\\\\").replace('"""', "'''")
    head = (
        f'"""{about}\n\nname: {strategy["name"]}\ncode_hash: {strategy["code_hash"]}\n'
        f"data_ref: {strategy['data_ref']}\n\n"
        'In scope: pd, np, GLOBAL_DATA_STATE and snapshot = GLOBAL_DATA_STATE.snapshot().\n"""\n'
    )
    return head + "".join(f"\n# %%\n{cell.rstrip()}\n" for cell in strategy["cells"])


def read_strategy(path: str | Path) -> StrategyFile:
    """Read a file written by :func:`strategy_source`, or any Python file with or without ``# %%`` cells.

    A folder stands for the ``strategy.py`` in it.

    Raises
    ------
    BadFile
        If it cannot be read, or has no code.
    """
    # A file that the caller names may be a link.
    path = Path(path, "strategy.py") if Path(path).is_dir() else Path(path).resolve()
    try:
        content = read_stored(path.parent, path.name, MOST_JSON)
        if content is None:
            raise FileNotFoundError("there is no such file")
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error
    about, line = _docstring(text, path)
    code = tuple(cell for cell in _cells(text.splitlines()[line:]) if cell)
    if not code:
        raise BadFile(f"{path} has no code; a strategy must write a signal to GLOBAL_DATA_STATE")
    *_, named = [None, *_NAME.finditer(about)]
    sentence = about[: named.start()] if named else about
    return StrategyFile(about=sentence, cells=code, name=named.group(1).strip() if named else None)


def _docstring(text: str, path: str | Path) -> tuple[str, int]:
    """The docstring and the number of its last line; empty and 0 without one."""
    try:
        tree = parse_code(text)
    except (SyntaxError, ValueError) as error:
        raise BadFile(f"{path} is not Python: {error}", path=str(path)) from error
    about = ast.get_docstring(tree, clean=False)
    return ("", 0) if about is None else (about, tree.body[0].end_lineno or 0)


def _cells(lines: Sequence[str]) -> Iterator[str]:
    """The text between ``# %%`` comments."""
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline)
    marks = [
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.start[1] == 0 and token.string.startswith(_CELL)
    ]
    for first, last in pairwise([0, *marks, len(lines) + 1]):
        yield "\n".join(lines[first : last - 1]).strip("\n")
