"""Runs of the stepwise agent that are killed, resumed and replayed, held against one that was left alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sqlalchemy import text

from quantgraph._util.database import open_engine
from quantgraph.broker.ledger import Ledger

CHILD = Path(__file__).parent / "execution_child.py"

SESSION = "session"


def child(action: str, folder: Path, parallel: int, **given: Any) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), action, str(folder), str(parallel), json.dumps(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[Any]:
    out, error = process.communicate(timeout=1800)
    if process.returncode:
        raise AssertionError(error)
    told: list[Any] = json.loads(out.splitlines()[-1])
    return told


def kill_in(process: subprocess.Popen[str], sessions: int, seconds: float) -> bool:
    """Kill a process so long after its n-th session; False if it was done before."""
    assert process.stdout is not None
    for line in process.stdout:
        sessions -= line.strip() == SESSION
        if sessions <= 0:
            break
    time.sleep(seconds)
    alive = process.poll() is None
    process.kill()
    process.communicate()
    return alive


def outcome(folder: Path) -> dict[str, Any]:
    """What is compared: the sessions of the ledger, and the rows of the execution log without their ids."""
    (run,) = (each for each in folder.iterdir() if each.is_dir())
    with Ledger(run / "ledger.sqlite") as book:
        book.check(run.name)
        sessions = [
            [str(each.session), str(each.value), [repr(one) for one in each.outcomes], dict(each.notes)]
            for each in book.results(run.name)
        ]
    query = text(
        "select r.content, r.created_at, e.session, l.symbol, l.step, l.action_type, l.action_data, l.result_data,"
        " l.timestamp from execution_logs l join executions e on e.execution_id = l.execution_id"
        " join saved_rules r on r.id = l.rule_id where e.run_id = :run"
    )
    engine = open_engine(run / "ledger.sqlite")
    with engine.connect() as connection:
        rows = sorted(tuple(row) for row in connection.execute(query, {"run": run.name}))
    engine.dispose()
    return {"sessions": sessions, "rows": rows}


def check(place: Path, kills: int, seed: int, **given: Any) -> dict[str, Any]:
    """Run once whole, once killed so often and resumed, then replay that; return the whole one's outcome and times.

    Each process decides another number of symbols at a time.
    """
    rng, parallel = random.Random(seed), [4, 1, 8, 3]
    begun = time.perf_counter()
    assert finish(child("run", place / "whole", 4, **given)) == ["done", None]
    seconds = time.perf_counter() - begun
    whole = outcome(place / "whole")
    sessions = len(whole["sessions"])
    killed, process = 0, child("run", place / "killed", parallel[0], **given)
    for turn in range(1, kills + 1):
        killed += kill_in(process, max(1, sessions // (kills + 1)), rng.random() * seconds / sessions)
        process = child("resume", place / "killed", parallel[turn % len(parallel)])
    assert finish(process) == ["done", None]
    assert outcome(place / "killed") == whole
    begun = time.perf_counter()
    assert finish(child("replay", place / "killed", 7)) == ["identical", None]
    return {**whole, "kills": killed, "seconds": seconds, "replay": time.perf_counter() - begun}
