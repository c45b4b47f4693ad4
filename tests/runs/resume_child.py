"""The scripted run in forked children that are stopped or killed, and resumed until they are done.

Usage: ``resume_child.py WAYS SAVER KILLS SEED FOLDER``; prints one JSON object. ``WAYS``, joined by commas, are
``stops`` (after every superstep), ``each`` (a run of its own for each superstep) and ``kills`` (with SIGKILL at
random instants). ``SAVER`` is ``sqlite``, or the URL of a PostgreSQL database, in which each run gets a schema.

The parent never runs a graph: what a child knows it has from disk. The parent imports what the first child did,
so that the others begin within milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.runtime import RunControl
from scripted_run import ANSWER, QUESTION, told

from quantgraph import SignalRule  # noqa: F401 - loaded before the first fork
from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.files import MANIFEST_FILE
from quantgraph.audit.causality import LookLog
from quantgraph.broker.ledger import Ledger
from quantgraph.recording import Recorder
from quantgraph.runs import _identity as identity
from quantgraph.runs import _start as start
from quantgraph.runs import resume_run, run_strategy
from quantgraph.runs._resume import last_thread
from quantgraph.runtime import Resources

RUN = "r"
LookLog.add = lambda *_, **__: 0  # runs are held against each other, each as on a machine of its own


@dataclass(frozen=True)
class Place:
    """Where one run is kept: a folder, and a PostgreSQL schema or None."""

    folder: Path
    url: str | None

    @property
    def where(self) -> str | Path:
        return self.url or self.folder / RUN / "ledger.sqlite"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        if self.url:
            from langgraph.checkpoint.postgres import PostgresSaver

            with PostgresSaver.from_conn_string(self.url.replace("+psycopg", "")) as saver:
                saver.setup()
                yield saver
        else:
            (self.folder / RUN).mkdir(parents=True, exist_ok=True)
            path = self.folder / RUN / "checkpoints.sqlite"
            with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
                yield SqliteSaver(connection)


def work(place: Place, steps: int | None) -> str:
    """Begin or go on; stop after so many supersteps, None for none. Returns how it ended."""
    control = RunControl()
    options: dict[str, Any] = {"answer": lambda _question: ANSWER, "control": control, "ledger": place.url}
    if not (place.folder / RUN / MANIFEST_FILE).is_file():
        shutil.rmtree(place.folder / RUN, ignore_errors=True)
    begun = (place.folder / RUN).exists()
    with counted(place, steps, control) as saver:
        options["checkpointer"] = saver
        if begun:
            return resume_run(place.folder / RUN, resources=Resources(**options))["ended_because"]
        return run_strategy(QUESTION, out=place.folder, resources=Resources(**options))["ended_because"]


@contextmanager
def counted(place: Place, steps: int | None, control: RunControl) -> Iterator[Any]:
    """A saver that asks for a stop with the n-th checkpoint; the run's own where nothing is counted."""
    if steps is None and place.url is None and not is_apart(place):
        yield None
        return
    folder = place.folder if place.url else place.folder / "apart"
    with Place(folder, place.url).saver() as saver:
        put, made = saver.put, []

        def counting(*arguments: Any) -> Any:
            saved = put(*arguments)
            made.append(saved)
            if len(made) == steps:
                control.request_drain("enough")
            return saved

        saver.put = counting
        yield saver


def forked(job: Callable[[], str], place: Place) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        (place.folder / "ended").write_text(job())
        (place.folder / "modules").write_text("\n".join(sys.modules))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def waited(pid: int, place: Place) -> str:
    """How a child's leg ended; ``killed`` if it did not end by itself."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == -signal.SIGKILL:
        return "killed"
    if status:
        sys.exit(f"a child ended with {status}")
    return (place.folder / "ended").read_text()


def imported(place: Place) -> None:
    """Import what a child did."""
    for name in (place.folder / "modules").read_text().split():
        with suppress(ImportError):  # submodules that are only attributes
            import_module(name)


class Legs:
    """Counts the legs of all runs, and tells the server."""

    def __init__(self, folder: Path) -> None:
        self._file, self.number = folder / "leg", 0

    def next(self) -> int:
        self.number += 1
        half = self._file.with_suffix(".new")
        half.write_text(str(self.number))
        half.replace(self._file)
        return self.number


def outcome(place: Place) -> dict[str, Any]:
    """What a run has come to, as nobody but its disk knows."""
    with Ledger(place.where) as book:
        journal = list(book.journal(RUN))
        book.check(RUN)
    with (Place(place.folder / "apart", None) if is_apart(place) else place).saver() as saver:
        thread = last_thread(saver, RUN)
        saved = saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
    values = {name: value for name, value in saved.checkpoint["channel_values"].items() if not is_inner(name)}
    values["messages"] = [message.model_dump(mode="json") for message in values["messages"]]
    result = json.loads((place.folder / RUN / "result.json").read_text())
    del result["seconds"], result["run_dir"], result["started"]
    for part in ("strategy", "signal"):
        del result[part]["path"]
    return {
        "journal": journal,
        "state": canonical_json(values),
        "result": result,
        "asked": sorted(asked(place)),
    }


def is_apart(place: Place) -> bool:
    return place.url is None and (place.folder / "apart").exists()


def is_inner(channel: str) -> bool:
    return channel.startswith(("__", "branch:"))


def asked(place: Place) -> list[str]:
    """What the record has as answered by a model."""
    recording = Recorder(place.where).of(RUN)
    try:
        return [
            told([message["content"] for message in json.loads(entry.request)["messages"]])
            for entry in recording.entries()
            if entry.key.kind == "model"
        ]
    finally:
        recording.close()


def stopped(place: Place, legs: Legs, steps: int, after: int | None) -> list[int]:
    """Stop after ``steps`` supersteps, then after ``after`` each time; the numbers of the legs."""
    made = []
    ended = "cancelled"
    while ended == "cancelled":
        made.append(legs.next())
        limit = after if len(made) > 1 else steps
        ended = waited(forked(lambda limit=limit: work(place, limit), place), place)
    assert ended == "done", ended
    return made


def killed(place: Place, legs: Legs, kills: int, rng: random.Random, whole: float) -> dict[str, Any]:
    """Kill until there are enough kills or it is done; what the record had after each."""
    made, records = [], {}
    while True:
        made.append(legs.next())
        pid = forked(lambda: work(place, None), place)
        if len(records) < kills:
            time.sleep(rng.uniform(0, whole))
            os.kill(pid, signal.SIGKILL)
        ended = waited(pid, place)
        if ended != "killed":
            assert ended == "done", ended
            return {"legs": made, "records": records}
        records[made[-1]] = asked(place) if (place.folder / RUN / MANIFEST_FILE).is_file() else []


def opened(folder: Path, saver: str) -> Place:
    folder.mkdir(parents=True)
    if saver == "sqlite":
        return Place(folder, None)
    import psycopg

    with psycopg.connect(saver.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {folder.name}")
    return Place(folder, f"{saver}&options=-csearch_path%3D{folder.name}")


def stops(folder: Path, saver: str, legs: Legs) -> list[dict[str, Any]]:
    place = opened(folder / "stops", saver)
    return [{"legs": stopped(place, legs, 1, 1), "outcome": outcome(place)}]


def each(folder: Path, saver: str, legs: Legs) -> list[dict[str, Any]]:
    runs, more = [], True
    while more:
        place = opened(folder / f"each{len(runs)}", saver)
        numbers = stopped(place, legs, len(runs) + 1, None)
        runs.append({"legs": numbers, "outcome": outcome(place)})
        more = len(numbers) > 1
    return runs


def deaths(
    folder: Path, saver: str, legs: Legs, *, kills: int, seed: int, whole: float
) -> list[dict[str, Any]]:
    runs, rng, left = [], random.Random(seed), kills
    while left > 0:
        place = opened(folder / f"kills{len(runs)}", saver)
        runs.append(killed(place, legs, left, rng, whole) | {"outcome": outcome(place)})
        left -= len(runs[-1]["records"])
    return runs


def main(ways: str, saver: str, kills: int, seed: int, folder: Path) -> None:
    start.new_run_id = lambda: RUN
    identity.code_hashes()  # read once, before the first fork
    legs = Legs(folder)
    whole = opened(folder / "whole", saver)
    first = stopped(whole, legs, 0, None)
    imported(whole)
    began = time.perf_counter()
    second = stopped(opened(folder / "again", saver), legs, 0, None)
    seconds = time.perf_counter() - began
    assert len(first) == len(second) == 1
    jobs: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "stops": lambda: stops(folder, saver, legs),
        "each": lambda: each(folder, saver, legs),
        "kills": lambda: deaths(folder, saver, legs, kills=kills, seed=seed, whole=seconds),
    }
    runs = {way: jobs[way]() for way in ways.split(",")}
    print(json.dumps({"whole": outcome(whole), "seconds": seconds, "first": first, "runs": runs}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
