"""A trader's run in forked children that are killed after each reply and each call of a tool, and resumed.

Usage: ``trader_child.py FOLDER POINTS [DATABASE]``. ``POINTS``, joined by commas, are the events (replies and
calls, counted from 1) after which a run of its own is killed; 0 is a run that is left alone. ``DATABASE`` is the
URL of a PostgreSQL database for ledger and checkpoints, a schema for each run; default: SQLite in the run's folder.
Prints one JSON object: what each run left, by its point.

The parent never runs a graph: what a child knows it has from disk.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quantgraph.agents.trader import (
    TraderAgent,  # noqa: F401 - loaded before the first fork
    _day,
)
from quantgraph.broker.ledger import Ledger
from quantgraph.data.sample import SampleSource
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources

SENTENCE = "trader on 000341.SZ, 600958.SH, 20250102 to 20250103"
NEVER = 10_000


def kill_after(event: int) -> None:
    """Kill this process once so many replies came and calls were made."""
    seen = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            done = function(*args, **options)
            seen[0] += 1
            if seen[0] == event:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return call

    _day.TraderLoop.think = counted(_day.TraderLoop.think)
    _day.call_tool = counted(_day.call_tool)


def forked(work: Callable[[], Any]) -> int:
    """Do work in a child, and return how that ended; what it prints is lost."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def resources(database: str | None, schema: str) -> Any:
    """Ledger and saver of a run: those of its folder, or in a schema of a PostgreSQL database."""
    if database is None:
        yield Resources()
        return
    from langgraph.checkpoint.postgres import PostgresSaver

    url = in_schema(database, schema)
    with PostgresSaver.from_conn_string(url.replace("+psycopg", "")) as saver:
        saver.setup()
        yield Resources(ledger=url, checkpointer=saver)


def in_schema(database: str, schema: str) -> str:
    joint = "&" if "?" in database else "?"
    return f"{database}{joint}options=-csearch_path%3D{schema}"


def make_schema(database: str, schema: str) -> None:
    import psycopg

    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f'create schema "{schema}"')


def play(folder: Path, point: int, database: str | None) -> dict[str, Any]:
    """Kill a run after an event, resume and replay it; return how its processes ended."""
    place, schema = folder / f"point-{point}", f"point_{point}"
    os.environ["QUANTGRAPH_MODELS"] = json.dumps({"trader": place.name})
    if database:
        make_schema(database, schema)

    def begin() -> None:
        kill_after(point or NEVER)
        with resources(database, schema) as given:
            run_strategy(SENTENCE, decider="trader", out=place, resources=given)

    def go_on() -> None:
        (run,) = place.glob("*/")
        with resources(database, schema) as given:
            assert resume_run(run, resources=given)["ended_because"] == "done"

    def repeat() -> None:
        os.environ["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
        (run,) = place.glob("*/")
        url = in_schema(database, schema) if database else None
        assert replay(run, resources=Resources(ledger=url) if url else None).identical

    ends = [forked(begin)]
    if point:
        ends.append(forked(go_on))
    ends.append(forked(repeat))
    (run,) = place.glob("*/")
    return {"ends": ends, "run": str(run), **left(run, in_schema(database, schema) if database else None)}


def left(run: Path, url: str | None) -> dict[str, Any]:
    """What is compared: sessions of the ledger, and steps of its log."""
    with Ledger(url or run / "ledger.sqlite") as book:
        book.check(run.name)
        sessions = [
            [str(each.session), str(each.value), [repr(one) for one in each.outcomes], dict(each.notes)]
            for each in book.results(run.name)
        ]
        logs = [
            [[step.step, dict(step.action), step.result] for step in each.steps]
            for each in book.executions(run.name)
        ]
    return {"sessions": sessions, "logs": logs}


def main(folder: str, points: str, database: str | None = None) -> None:
    SampleSource().sessions()  # loaded once, for every child
    told = {point: play(Path(folder), int(point), database) for point in points.split(",")}
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
