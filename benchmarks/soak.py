"""A thousand kills: runs that end with SIGKILL at random instants and are resumed; ``make soak`` runs it.

Each line: what was run, kills, and what a run takes without them. Exit status 1 if a resumed run's journal is
not that of the uninterrupted one, byte for byte. ``resume`` are whole runs with a model over HTTP, stopped at
each superstep and killed: the state has to be the same, too, and no call that had returned is sent again.
``agent`` are runs whose decider is an agent, killed at each of its requests, replies and tool calls, in every
durability, alone and embedded in a host. ``execution`` is the stepwise agent without a key on sixty sessions
of the SSE 50, several symbols at a time: its execution log is compared, too, and its replay.

``soak.py KILLS SEED`` draws the same delays again; the seed is the day's number, and is printed. With a saver
behind them, ``sqlite`` or ``postgresql``, it is ``resume`` and ``agent`` alone, on that one.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
CHILD = TESTS / "broker" / "crash_child.py"
SHARES = {"rule": 0.4, "orders": 0.4, "graph1": 0.07, "graph8": 0.07}
"""Which part of the kills hits which run."""
RESUMED = 0.03
"""Which part hits whole runs on each saver."""
EXECUTIONS = 0.006
"""Which part hits the stepwise agent, whose run takes minutes."""
SAVERS = ("sqlite", "postgresql")


def soak(what: str, way: str, kills: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(CHILD), what, way, folder, str(kills), str(seed)]
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{what:<8}{way:<10}{len(told['kills']):>6} kills {told['seconds']:>8.3f} s a run  ok", flush=True)


def resume(saver: str, kills: int, seed: int) -> None:
    checks = module(TESTS / "runs" / "interrupted_runs.py")
    with ExitStack() as stack:
        place, folder = saver, Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if saver == "postgresql":
            place = stack.enter_context(module(TESTS / "broker" / "postgres.py").server()).database()
        told = checks.play(folder, "each,kills", place, str(kills), str(seed))
        stops = checks.check_stops(told, folder)
        killed = checks.check_kills(told, folder)
    print(
        f"resume  {saver:<10}{killed:>6} kills {told['seconds']:>8.3f} s a run, {stops} stops  ok", flush=True
    )


def agent(saver: str, seed: int) -> None:
    checks = module(TESTS / "runtime" / "agent_kills.py")
    with ExitStack() as stack:
        url, folder = None, Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if saver == "postgresql":
            url = stack.enter_context(module(TESTS / "broker" / "postgres.py").server()).database()
        places = checks.cases(url, every=True, rng=random.Random(seed))
        told, served = checks.play(folder, places)
        kills = sum(checks.check(told, served, place) for place in places)
    print(f"agent   {saver:<10}{kills:>6} kills {told['seconds']:>8.3f} s a run  ok", flush=True)


def execution(kills: int, seed: int) -> None:
    prices = TESTS.parents[1] / "shared" / "data" / "ai-trader" / "a_share"
    if not prices.is_dir():
        print(f"execution           left out: the prices of {prices} are missing")
        return
    checks = module(TESTS / "agents" / "execution" / "execution_runs.py")
    with tempfile.TemporaryDirectory() as folder:
        told = checks.check(
            Path(folder),
            kills,
            seed,
            sentence="execution agent on the SSE 50, 20250401 to 20250630",
            source=str(prices),
            model="keyless",
        )
    shape = f"{len(told['sessions'])} sessions, {len(told['rows'])} steps"
    print(
        f"execution {told['kills']:>16} kills {told['seconds']:>8.3f} s a run, {shape}, replay "
        f"{told['replay']:.3f} s  ok",
        flush=True,
    )


def module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def main(kills: int, seed: int, saver: str | None) -> None:
    print(f"seed {seed}")
    if saver is not None:
        resume(saver, kills, seed)
        return agent(saver, seed)
    for what in ("rule", "orders"):
        soak(what, "boundary", 0, seed)
    for what, share in SHARES.items():
        soak(what, "time", round(kills * share), seed)
    for each in SAVERS:
        resume(each, round(kills * RESUMED), seed)
        agent(each, seed)
    execution(round(kills * EXECUTIONS), seed)
    return None


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    numbers = (*given, *(1000, dt.datetime.now(tz=dt.UTC).toordinal())[len(given) :])
    main(*numbers, sys.argv[3] if len(sys.argv) > 3 else None)
