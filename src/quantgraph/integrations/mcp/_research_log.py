"""The calls of research clients: a log of them, and a Python script that does without a client what they did.

A line of ``research.jsonl`` is written before a call is carried out, and one with what became of it. So a
server that was killed leaves runs that the next one knows.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from quantgraph._util.files import storage_errors
from quantgraph._util.texts import escape_controls, short_line, without_places
from quantgraph.broker import TradePlan
from quantgraph.errors import StorageUnavailable

LOG_FILE: Final = "research.jsonl"
BEGINS: Final = ("understand", "run")
"""Tools that begin a run."""
MOST_LOG_MB: Final = 64
"""Megabytes of the log, all of which every call reads."""
_ARGS: Final = frozenset({"sentence", "symbols", "start", "end", "plan"})
_RUN = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{6}")  # "20240102-093000-0a1b2c"


class CallLog:
    """The calls of all clients of a folder, a line of JSON each; servers may share it."""

    def __init__(self, path: Path, source: str = "") -> None:
        self._path, self._source, self._lock = path, source, threading.Lock()
        self._read: tuple[object, list[dict[str, Any]]] = (None, [])

    def begin(self, tool: str, args: Mapping[str, Any], run: str | None = None) -> str:
        """Write a call that is about to be carried out, with the server's source, and return its key.

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
        facts = {"time": now, "source": self._source, "tool": tool, "args": dict(args), "run": run}
        self._write({"call": call, **facts})
        return call

    def end(self, call: str, answer: Mapping[str, Any]) -> None:
        """Write what became of a call."""
        self._write({"call": call, "answer": dict(answer)})

    def calls(self) -> list[dict[str, Any]]:
        """The calls in their order, each with its ``answer``, empty if there is none."""
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
    is_whole = not begins_run(line) or set(line["args"]) >= _ARGS
    return is_whole and (run is None or (isinstance(run, str) and _RUN.fullmatch(run) is not None))


def _has(line: Any, **kinds: type) -> bool:
    return isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in kinds.items())


def begins_run(call: Mapping[str, Any]) -> bool:
    """Whether a call begins a run."""
    return call["tool"] in BEGINS and not call["args"].get("run")


_HEAD = Path(__file__).with_name("research_head.txt").read_text(encoding="utf-8")
_END = """
sys.exit(0 if all(SAME) else 1)
"""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a script must know of a run: the lines of its ledger, their last hash, and if it was stopped."""

    lines: int
    ledger: str
    stopped: bool


def script_of(
    calls: Sequence[Mapping[str, Any]], states: Mapping[str, RunState], *, code_file: str, places: bool
) -> str:
    """Return a script of calls.

    Parameters
    ----------
    calls
        As :meth:`CallLog.calls` has them.
    states
        Of the runs that have a folder.
    places
        Whether sources may be paths of this machine; else they are names.
    """
    sources = {call["run"]: _source(call, places=places) for call in calls if call["run"] in states}
    first = next(iter(sources.values()), "sample")
    parts = [_HEAD.format(source=first, code_file=code_file)]
    answers: dict[str, dict[str, str]] = {}
    for call in calls:
        if call["args"].get("question") and not call["answer"].get("code"):
            answers.setdefault(call["run"], {})[call["args"]["question"]] = call["args"]["answer"]
    begun: set[str] = set()
    for number, call in enumerate(calls, 1):
        parts.append(f"\n# {number}. {_comment(call)}\n")
        run, refused = call["run"], bool(call["answer"].get("code"))
        if begins_run(call) and run in states and run not in begun:
            begun.add(run)
            other = {} if sources[run] == first else {"source": repr(sources[run])}
            parts.append(_run(call, states[run], {"answers": repr(answers.get(run, {})), **other}))
        elif call["tool"] == "compare" and not refused and begun.issuperset(call["args"]["runs"]):
            folders = ", ".join(f"FOLDER / {name!r}" for name in call["args"]["runs"])
            parts.append(f"print(compare({folders}))\n")
        elif call["tool"] == "report" and run in begun and not refused:
            parts.append(f"print('page:', open_run(FOLDER / {run!r}).report())\n")
    return "".join([*parts, _END])


def _source(call: Mapping[str, Any], *, places: bool) -> str:
    source = str(call.get("source") or "sample")
    return source if places else Path(source).name


def _comment(call: Mapping[str, Any]) -> str:
    args, answer = call["args"], call["answer"]
    shown = next((args[name] for name in ("run", "sentence", "runs") if args.get(name)), "")
    became = answer.get("error") or answer.get("text") or answer.get("state") or ""
    parts = [call["tool"], shown, args.get("answer") and f"answer: {args['answer']}", became]
    texts = ["; ".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts if part]
    return short_line(without_places(": ".join(texts)), 300)


def _run(call: Mapping[str, Any], state: RunState, more: Mapping[str, str]) -> str:
    args, values = call["args"], {"question": repr(call["args"]["sentence"])}
    values |= {name: repr(args[name]) for name in ("symbols", "start", "end") if args[name]}
    if args["plan"]:
        values["plan"] = f"TradePlan.of({TradePlan.of(args['plan']).to_json()!r})"
    values |= {"confirm": "True"} if args.get("confirm") else {}
    values |= {"stopped": "True"} if state.stopped else {}
    values |= more
    if args.get("code"):
        values["code"] = _text(args["code"])
    lines = "".join(f"    {name}={value},\n" for name, value in values.items())
    return f"run(\n    {call['run']!r},\n    {state.lines},\n    {state.ledger!r},\n{lines})\n"


def _text(code: str) -> str:
    """A literal of several lines that reads as the code itself."""
    is_shown = escape_controls(code, multiline=True) == code
    if not is_shown or re.search(r'\\|"""', code) or code.endswith('"'):  # "C:\data"
        return repr(code)
    return f'"""{code}"""'
