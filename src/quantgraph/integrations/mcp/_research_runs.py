"""Runs that an MCP client asks for: begun in threads, at most so many at once, and known by their log."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from langgraph.runtime import RunControl

from quantgraph._util.files import new_run_id, storage_errors, write_atomic
from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.data import open_source
from quantgraph.data.symbols import symbol_list
from quantgraph.errors import BadOption, LedgerConflict, QuantGraphError, RateLimited, StorageUnavailable
from quantgraph.integrations.mcp._research_log import (
    BEGINS,
    LOG_FILE,
    CallLog,
    RunState,
    begins_run,
    script_of,
)
from quantgraph.llm import AT_ONCE
from quantgraph.runs import RunResult, RunSpec, open_run, prepare_run, resume_run, start_run
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import RunEvent
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import words_in
from quantgraph.tools.mcp import Progress

CODE_FILE: Final = "assistant.py"
"""The name that a client's code has in its run."""
_CLOSE_SECONDS, _STEP_SECONDS, _MOST_ERROR = 5.0, 0.25, 2_000


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
class RunStatus:
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
        self.folder, self.log = folder, CallLog(folder / LOG_FILE, _place_of(resources))
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
        found = [call for call in of_run if begins_run(call)]
        if not found:
            raise BadOption(
                f"run={run!r:.80} is no run of this server; status without a run lists them", parameter="run"
            )
        return found[0]

    def names(self) -> list[str]:
        """The runs of all clients, the latest first."""
        begun = [call for call in self.log.calls() if call["run"] and begins_run(call)]
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
        self._start(
            run, lambda live: resume_run(self.folder / run, answer=answer, trust=True, resources=live)
        )

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
            except Exception as error:  # noqa: BLE001 - one run fails, and the server goes on
                work.error = QuantGraphError(f"{type(error).__name__}: {error}")
            finally:
                work.ended.set()

        threading.Thread(target=in_thread, name=f"run {run}", daemon=True).start()

    def wait(self, run: str, seconds: float, progress: Progress) -> None:
        """Wait for a run of this process, and tell how far it is."""
        last, work = None, self._works.get(run)
        if work is None:
            return
        for _ in range(int(seconds / _STEP_SECONDS)):
            ended = work.ended.wait(_STEP_SECONDS)
            if (now := (work.number, work.total, work.text)) != last:
                progress(*now)
                last = now
            if ended:
                return

    def stop(self, run: str) -> None:
        """Stop a run of this process at its next step."""
        if work := self._works.get(run):
            work.control.request_drain("a client stops the run")

    def status_of(self, run: str) -> RunStatus:
        """How a run stands."""
        self.begun_with(run)
        work = self._works.get(run)
        if work is not None and not work.ended.is_set():
            return RunStatus(state="working", work=work)
        folder, error = self.folder / run, work.error if work else None
        if not (folder / "run.json").is_file():
            moves = [call for call in self.log.calls() if call["run"] == run and call["tool"] in BEGINS]
            refusals = [call["answer"] for call in moves]
            kept: Mapping[str, Any] = next((each for each in refusals if each.get("error")), {})
            known = refusal_of(error) if error else kept
            return RunStatus(state="refused" if known else "stopped", error=known)
        result = open_run(folder)
        state = _state(result)
        if error is not None and state not in {"done", "ended"}:  # by another server, perhaps
            return RunStatus(state="stopped", result=result, error=refusal_of(error))
        return RunStatus(state=state, result=result)

    def window_of(self, sentence: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Symbols and dates of an audit: those that the client chose, else a sentence's."""
        settings = self.resources.settings
        read = words_in(sentence, open_source(self.resources.source, settings=settings)).read
        named = dict.fromkeys((*read.trade, *read.watch)) if read else ()
        found = {"symbols": ",".join(named), "start": read and read.start, "end": read and read.end}
        return {name: chosen[name] or found[name] for name in found}

    def script(self, *, places: bool) -> str:
        """All calls as a Python script, which names paths of this machine only with ``places``."""
        names = [run for run in self.names() if (self.folder / run / "run.json").is_file()]
        states = {run: self._state_of(run) for run in names}
        return script_of(self.log.calls(), states, code_file=CODE_FILE, places=places)

    def _state_of(self, run: str) -> RunState:
        lines: list[dict[str, Any]] = []
        if self.has_traded(run):
            with Ledger(self.folder / run / "ledger.sqlite", read_only=True) as book:
                lines = list(book.journal(run))
        last = str(lines[-1]["hash"]) if lines else ""
        return RunState(lines=len(lines), ledger=last, stopped=self.status_of(run).state == "stopped")

    def has_traded(self, run: str) -> bool:
        """Whether a run has lines in its ledger."""
        path = self.folder / run / "ledger.sqlite"
        if not path.is_file():
            return False
        with Ledger(path, read_only=True) as book:
            return book.has_run(run)

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
        asked = result["open_question"]  # words that count for nothing are asked about
        return "understood" if asked["kind"] == "confirmation" and not asked["unread"] else "asks"
    return "done" if result["ended_because"] == "done" else "ended"


def refusal_of(error: QuantGraphError) -> dict[str, Any]:
    """What a client must know of an error: its text, its code, and the cell that refutes its code."""
    found = {"error": error.message[:_MOST_ERROR], "code": error.code}
    cell = (error.data.get("verdict") or {}).get("counterexample")
    return found | ({"counterexample": cell} if cell else {})


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


def _place_of(resources: Resources) -> str:
    """The source of a server as a script elsewhere on this machine finds it."""
    source = (resources.settings or load_settings()).data_source
    return str(Path(source).absolute()) if Path(source).exists() else source


def write_script(path: Path, *, out: str | Path | None = None) -> None:
    """Write all calls of research clients in a folder of runs as one Python script.

    Parameters
    ----------
    out
        As of :func:`serve_research`, as it served the clients.

    Raises
    ------
    BadOption
        If there are no calls.
    """
    settings = load_settings()
    folder = Path(out or settings.runs_dir)
    runs = ResearchRuns(folder, Resources(settings=settings), most=1, most_mb=1)
    if not runs.log.calls():
        raise BadOption(f"out={str(folder)!r}: there is no call of a research client", parameter="out")
    with storage_errors(path):
        write_atomic(path, runs.script(places=True).encode())
