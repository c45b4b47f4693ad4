"""Runs that an MCP client asks for: begun in threads, at most so many at once, and every call written down.

The folder of the runs has ``research.jsonl``: a line before a call is carried out, and one with what became
of it. So a server that was killed leaves runs that the next one knows, and a script can be made of the calls.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from langgraph.runtime import RunControl

from quantgraph._util.files import new_run_id, storage_errors, write_atomic
from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.data import open_source
from quantgraph.data.symbols import symbol_list
from quantgraph.errors import BadOption, LedgerConflict, QuantGraphError, RateLimited, StorageUnavailable
from quantgraph.integrations.mcp._research_script import script_of
from quantgraph.llm import AT_ONCE
from quantgraph.runs import RunResult, RunSpec, open_run, prepare_run, resume_run, start_run
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import RunEvent
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import words_in
from quantgraph.tools.mcp import Progress

LOG_FILE: Final = "research.jsonl"
CODE_FILE: Final = "assistant.py"
"""The name that a client's code has in its run."""
BEGINS: Final = ("understand", "run")
"""Tools that begin a run."""
MOST_LOG_MB: Final = 64
"""Megabytes of the log, all of which every call reads."""
_ARGS: Final = frozenset({"sentence", "symbols", "start", "end", "plan"})
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")
_CLOSE_SECONDS, _STEP_SECONDS, _MOST_ERROR = 5.0, 0.25, 2_000


class CallLog:
    """The calls of all clients of a folder, a line of JSON each; servers may share it."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._read: tuple[object, list[dict[str, Any]]] = (None, [])

    def begin(self, tool: str, args: Mapping[str, Any], run: str | None = None) -> str:
        """Write a call that is about to be carried out, and return its number.

        Raises
        ------
        StorageUnavailable
            If the log cannot be written, or has :data:`MOST_LOG_MB` already.
        """
        if self._path.is_file() and self._path.stat().st_size > MOST_LOG_MB * 1_000_000:
            raise StorageUnavailable(
                f"{LOG_FILE} has more than {MOST_LOG_MB} MB; its owner can serve another folder"
            )
        call, now = secrets.token_hex(6), datetime.now(UTC).isoformat(timespec="seconds")
        self._write({"call": call, "time": now, "tool": tool, "args": dict(args), "run": run})
        return call

    def end(self, call: str, answer: Mapping[str, Any]) -> None:
        """Write what became of a call."""
        self._write({"call": call, "answer": dict(answer)})

    def calls(self) -> list[dict[str, Any]]:
        """The calls in their order, each with its ``answer``, empty if none was given."""
        with storage_errors(self._path):
            try:
                found = self._path.stat()
            except FileNotFoundError:
                return []
            version = (found.st_ino, found.st_size, found.st_mtime_ns)
            if self._read[0] != version:
                text = self._path.read_text(encoding="utf-8", errors="replace")
                self._read = version, _calls_of(text.split("\n"))
        return list(self._read[1])

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._lock, storage_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0, os.SEEK_END)
                if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    text = b"\n" + text
                file.write(text)
                file.flush()
                os.fsync(file.fileno())


def _calls_of(texts: Iterable[str]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # the end of one that a kill cut off
            continue
        if _is_answer(line):
            found.get(line["call"], {})["answer"] = line["answer"]
        elif _is_call(line):
            found[line["call"]] = {**line, "answer": {}}
    return list(found.values())


def _is_answer(line: Any) -> bool:
    return _has(line, call=str, answer=dict)


def _is_call(line: Any) -> bool:
    """Whether a line of the log is a call, and nothing else that was written there."""
    if not _has(line, call=str, tool=str, args=dict) or "run" not in line:
        return False
    run = line["run"]
    is_whole = not _begins(line) or set(line["args"]) >= _ARGS
    return is_whole and (run is None or (isinstance(run, str) and _RUN.fullmatch(run) is not None))


def _has(line: Any, **kinds: type) -> bool:
    return isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in kinds.items())


def _begins(call: Mapping[str, Any]) -> bool:
    """Whether a call begins a run."""
    return call["tool"] in BEGINS and not call["args"].get("run")


@dataclass(kw_only=True)
class _Work:
    """A run under way in a thread of this process."""

    control: RunControl = field(default_factory=RunControl)
    ended: threading.Event = field(default_factory=threading.Event)
    number: int = 0
    total: int | None = None
    text: str = ""
    error: QuantGraphError | None = None

    def watch(self, event: RunEvent) -> None:
        if event.kind == "traded":
            self.number, self.total = event.number or 0, event.total
        if event.kind in {"traded", "node", "proof"}:
            self.text = f"{event.name}: {event.text}"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How a run stands.

    Attributes
    ----------
    state
        ``working``; ``asks``: it waits for an answer; ``understood``: it waits to be traded; ``done``;
        ``ended`` for another reason; ``stopped``: it can be gone on with; ``refused``: it never began.
    work
        Progress, while it is working.
    result
        Of a run that has a folder.
    error
        Why it was refused or stopped, if that is known.
    """

    state: str
    work: _Work | None = None
    result: RunResult | None = None
    error: Mapping[str, Any] = field(default_factory=dict)


class ResearchRuns:
    """The runs of a folder: begun, gone on with and looked at by their names.

    Parameters
    ----------
    folder
        Parent of the runs' folders.
    resources
        Settings and source of all runs.
    most
        Runs and audits at once.
    most_mb
        Megabytes that the folder may have when a run begins.
    """

    def __init__(self, folder: Path, resources: Resources, *, most: int, most_mb: int) -> None:
        self.folder, self.log = folder, CallLog(folder / LOG_FILE)
        self.resources = replace(resources, model="keyless")
        self._most, self._most_mb = most, most_mb
        self._lock = threading.Lock()  # guards what is under way
        self._works: dict[str, _Work] = {}
        self._audits = 0

    def new_run(self, request_id: str, tool: str, args: Mapping[str, Any]) -> tuple[str, bool]:
        """The name of a run, and whether it is new: a request id that was used has its first run.

        Raises
        ------
        LedgerConflict
            If the id was used with other arguments.
        """
        for call in self.log.calls() if request_id else ():
            if call["run"] and call["args"].get("request_id") == request_id:
                if (call["tool"], call["args"]) != (tool, json.loads(json.dumps(args))):
                    raise LedgerConflict(
                        f"request_id={request_id!r} belongs to run {call['run']}, whose arguments were others"
                    )
                return call["run"], False
        return new_run_id(), True

    def begun_with(self, run: str) -> dict[str, Any]:
        """The call that began a run.

        Raises
        ------
        BadOption
            If no call began it.
        """
        of_run = [call for call in self.log.calls() if call["run"] == run]
        found = [call for call in of_run if _begins(call)]
        if not found:
            raise BadOption(
                f"run={run!r:.80} is no run of this server; status without a run lists them", parameter="run"
            )
        return found[0]

    def names(self) -> list[str]:
        """The runs of all clients, the latest first."""
        begun = [call for call in self.log.calls() if call["run"] and _begins(call)]
        return list(dict.fromkeys(call["run"] for call in reversed(begun)))

    def has_begun(self, run: str) -> bool:
        """Whether a run has a folder, or is under way."""
        work = self._works.get(run)
        return (self.folder / run / "run.json").is_file() or (work is not None and not work.ended.is_set())

    def check_room(self) -> None:
        """Refuse a run that finds no room: RateLimited if as many as may are going on, or as check_disk."""
        with self._lock:
            self._check_busy()
        self.check_disk()

    def check_disk(self) -> None:
        """Refuse what would be written if the folder is full.

        Raises
        ------
        StorageUnavailable
            If it is.
        """
        found = (Path(where, name) for where, _, names in os.walk(self.folder) for name in names)
        used = sum(map(_size, found))
        if used > self._most_mb * 1_000_000:
            raise StorageUnavailable(
                f"the runs of this server have {used // 1_000_000:,} MB of at most {self._most_mb:,}; its "
                "owner can remove runs or raise --disk-mb"
            )

    def _check_busy(self) -> None:
        going = sum(not work.ended.is_set() for work in self._works.values()) + self._audits
        if going >= self._most:
            raise RateLimited(f"{going} runs and audits are going on, and no more may; wait for one: status")

    @contextmanager
    def audit(self) -> Iterator[None]:
        """Count an audit while the block runs."""
        with self._lock:
            self._check_busy()
            self._audits += 1
        try:
            yield
        finally:
            with self._lock:
                self._audits -= 1

    def begin(self, run: str, begun: Mapping[str, Any]) -> None:
        """Begin a run in a thread, by the arguments of the call."""

        def work(live: Resources) -> None:
            with code_file(begun.get("code", "")) as path:
                spec, _, opened = prepare_run(
                    spec_of(begun), live, strategy=path if begun.get("code") else None
                )
            start_run(spec, self.folder / run, opened)

        self._start(run, work)

    def go_on(self, run: str, answer: Mapping[str, str] | None = None) -> None:
        """Go on with a run in a thread, or begin it if it has no folder yet."""
        if not self.has_begun(run):
            self.begin(run, self.begun_with(run)["args"])
            return
        self._start(run, lambda live: resume_run(self.folder / run, answer=answer, resources=live))

    def _start(self, run: str, do: Callable[[Resources], object]) -> None:
        work = _Work()
        with self._lock:
            before = self._works.get(run)
            if before is not None and not before.ended.is_set():
                return
            self._check_busy()
            self._works[run] = work

        def in_thread() -> None:
            try:
                do(replace(self.resources, control=work.control, watch=work.watch))
            except QuantGraphError as error:
                work.error = error
            except Exception as error:  # noqa: BLE001 - the client is told, and the server goes on
                work.error = QuantGraphError(f"{type(error).__name__}: {error}")
            finally:
                work.ended.set()

        threading.Thread(target=in_thread, name=f"run {run}", daemon=True).start()

    def wait(self, run: str, seconds: float, progress: Progress) -> None:
        """Wait for a run of this process, and tell how far it is."""
        work, told = self._works.get(run), None
        for _ in range(int(seconds / _STEP_SECONDS)):
            if work is None or work.ended.wait(_STEP_SECONDS):
                return
            if (now := (work.number, work.total, work.text)) != told:
                progress(*now)
                told = now

    def stop(self, run: str) -> None:
        """Stop a run of this process at its next step."""
        if work := self._works.get(run):
            work.control.request_drain("told to stop")

    def standing(self, run: str) -> Standing:
        """How a run stands."""
        self.begun_with(run)
        work = self._works.get(run)
        if work is not None and not work.ended.is_set():
            return Standing(state="working", work=work)
        folder, error = self.folder / run, work.error if work else None
        if not (folder / "run.json").is_file():
            refusals = [call["answer"] for call in self.log.calls() if call["run"] == run]
            kept: Mapping[str, Any] = next((each for each in refusals if each.get("error")), {})
            text = error.message[:_MOST_ERROR] if error else ""
            known = {"error": text, "code": error.code, **_verdict(error)} if error else kept
            return Standing(state="refused" if known else "stopped", error=known)
        result = open_run(folder)
        state = _state(result)
        if error is not None and state not in {"done", "ended"}:  # by another server, perhaps
            known = {"error": error.message[:_MOST_ERROR], "code": error.code}
            return Standing(state="stopped", result=result, error=known)
        return Standing(state=state, result=result)

    def window_of(self, said: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Symbols and dates of an audit: those that were given, else a sentence's."""
        settings = self.resources.settings
        read = words_in(said, open_source(self.resources.source, settings=settings)).read
        named = dict.fromkeys((*read.trade, *read.watch)) if read else ()
        found = {"symbols": ",".join(named), "start": read and read.start, "end": read and read.end}
        return {name: given[name] or found[name] for name in found}

    def script(self, source: str) -> str:
        """All calls as a Python script."""
        return script_of(self.log.calls(), source=source, code_file=CODE_FILE, ledger_of=self._ledger_of)

    def _ledger_of(self, run: str) -> str | None:
        """The last hash of a run's ledger; None without one."""
        path = self.folder / run / "ledger.sqlite"
        if not path.is_file():
            return None
        with Ledger(path) as book:
            lines = list(book.journal(run)) if book.has_run(run) else []
        return str(lines[-1]["hash"]) if lines else None

    def close(self) -> bool:
        """Stop all runs, which can be gone on with, and return whether nothing goes on any more."""
        with self._lock:
            works = list(self._works.values())
        for work in works:
            work.control.request_drain(AT_ONCE)
        for work in works:
            work.ended.wait(_CLOSE_SECONDS / len(works))
        return self._audits == 0 and all(work.ended.is_set() for work in works)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # a run that is going on has removed it
        return 0


def _state(result: RunResult) -> str:
    stopped = result["ended_because"] == "cancelled" and "the run was stopped" in result["error"]
    if result["state"] != "ended" or stopped:
        return "stopped"
    if "asked" in result:
        return "understood" if result["open_question"]["kind"] == "confirmation" else "asks"
    return "done" if result["ended_because"] == "done" else "ended"


def _verdict(error: QuantGraphError) -> dict[str, Any]:
    verdict = error.data.get("verdict") or {}
    return {"counterexample": verdict["counterexample"]} if verdict.get("counterexample") else {}


def spec_of(begun: Mapping[str, Any]) -> RunSpec:
    """The specification of a run, by the arguments of the call that began it."""
    return RunSpec(
        question=begun["sentence"],
        symbols=symbol_list(begun["symbols"]),
        start=begun["start"],
        end=begun["end"],
        plan=TradePlan.of(begun["plan"]) if begun["plan"] else None,
        confirm=bool(begun.get("confirm")),
        on_clarify="ask",
    )


@contextmanager
def code_file(code: str) -> Iterator[Path]:
    """The path of a file with the code while the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, CODE_FILE)
        path.write_text(code, encoding="utf-8")
        yield path


def write_script(path: Path, *, source: str | None = None, out: str | Path | None = None) -> None:
    """Write all calls of research clients in a folder of runs as one Python script.

    Parameters
    ----------
    source, out
        As of :func:`serve_research`, when the clients called.

    Raises
    ------
    BadOption
        If no client called there.
    """
    settings = load_settings(**({"data_source": source} if source else {}))
    folder = Path(out or settings.runs_dir)
    runs = ResearchRuns(folder, Resources(settings=settings), most=1, most_mb=1)
    if not runs.log.calls():
        raise BadOption(f"out={str(folder)!r}: no research client called there", parameter="out")
    with storage_errors(path):
        write_atomic(path, runs.script(settings.data_source).encode())
