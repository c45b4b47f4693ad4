"""Runs in forked children that are killed with SIGKILL and resumed until they are done.

Usage: ``crash_child.py WHAT WAY FOLDER KILLS SEED``; prints one JSON object. ``WHAT`` is ``rule`` (a signal rule),
``orders`` (every kind of order), ``asked`` (the same by one that asks models, a transaction a session), ``steps`` (the same by a decider that logs steps from threads) or ``graph`` with the sessions of a step, ``graph8``; ``checkpointed`` and ``bare`` are the graph of a slow decider whose step has several transactions, with and without its checkpoint. ``WAY`` is ``time`` (at
``KILLS`` instants of the run's wall time) or ``boundary`` (at every boundary of every transaction; no ``KILLS``).

All that is imported, compiled and cached is so before the first fork, so a child costs milliseconds.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache, partial
from pathlib import Path

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
sys.path.insert(0, str(Path(__file__).parent))

from random_market import RandomDecider, random_world
from sqlalchemy import event
from sqlalchemy.pool import Pool

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider, ModelDecider, Order, TradePlan
from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.broker.session import run_sessions
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.state import DataState

Work = Callable[[Path], None]

BOUNDARIES = ("before BEGIN", "after BEGIN", "between two rows", "before COMMIT", "after COMMIT")
SENTENCE = "用合成30成分股，5日均线上穿20日均线买入，下穿卖出，2024年1月到3月"
THREAD = {"configurable": {"thread_id": "t"}}


class Asked(RandomDecider, ModelDecider):
    """As one that asks models."""


class StepLogger(RandomDecider):
    """Takes three steps for each symbol, side by side, and then decides."""

    def decide(self, context):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(partial(self.execute, context), sorted(context.view["ohlcv"]["open"].columns)))
        return super().decide(context)

    def execute(self, context, symbol):
        with context.scope(symbol):
            for number in range(1, 4):
                step = LoggedStep(
                    rule_name="r",
                    rule="as drawn",
                    symbol=symbol,
                    session=context.session,
                    step=number,
                    action_type="observation",
                    action={"step": number},
                    result={"cash": str(context.account.cash)},
                    timestamp=context.view.moment.timestamp.isoformat(),
                )
                context.log_step(step)


class Slow(Decider):
    """Trades each day, and takes so long that a step of many sessions has several transactions."""

    name = "slow"

    def decide(self, context):
        time.sleep(0.012)
        symbol = context.view["ohlcv"]["open"].columns[context.session.day % 3]
        sides = dict.fromkeys(context.account.positions, "sell") | {symbol: "buy"}
        numbered = enumerate(sides.items(), 1)
        return [Order(symbol=each, side=side, quantity=100, sequence=n) for n, (each, side) in numbered]


@cache
def traded(what: str):
    """The market, its sessions, and who decides: the rule alone is traded in blocks."""
    world = random_world(4, market="cn", symbols=6, sessions=42)
    if what == "rule":
        return world.market(Rulebook.mainland()), world.sessions, SignalRule()
    rules = Rulebook.mainland(volume_share="0.5")
    kind = {"steps": StepLogger, "asked": Asked}.get(what, RandomDecider)
    return world.market(rules), world.sessions, kind(4, world.symbols)


def run_plain(what: str, folder: Path) -> None:
    market, sessions, decider = traded(what)
    with Ledger(folder / "ledger.db") as ledger:
        plan = TradePlan(max_positions=4) if what == "rule" else None
        run_sessions(market, sessions, decider, cash=400_000, ledger=ledger, run_id="r", plan=plan)


def run_graph(what: str, folder: Path) -> None:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from quantgraph.graph import _loop as decision
    from quantgraph.graph import create_trading_graph

    decider = None if what.startswith("graph") else Slow()
    if decider is None:
        decision.BLOCK_SESSIONS = int(what.removeprefix("graph"))
    folder.mkdir(exist_ok=True)
    if what == "bare":
        (folder / "checkpoints.db").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)
    with closing(connection), Ledger(folder / "ledger.db") as ledger:
        graph = create_trading_graph(
            source="sample",
            decider=decider,
            checkpointer=SqliteSaver(connection),
            resources=Resources(store=DataState(folder / "data"), ledger=ledger),
        )
        # A step whose writes were saved and whose checkpoint was not has no `next`: the result alone says "done".
        saved = graph.get_state(THREAD).values
        if not saved.get("summary"):
            task = None if saved else {"messages": [("user", SENTENCE)], "run_id": "r"}
            saved = graph.invoke(task, THREAD, durability="sync")
            assert saved["summary"]["run_id"] == "r", saved["error_messages"]


def journal(folder: Path, *, checked: bool = True) -> list[dict]:
    with Ledger(folder / "ledger.db") as ledger:
        if "r" not in ledger.runs():
            return []
        if checked:
            ledger.check("r")
        return list(ledger.journal("r"))


def logged(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The steps by session and symbol."""
    with Ledger(folder / "ledger.db") as ledger:
        executions = ledger.executions("r")
    assert len({each.execution_id for each in executions}) == len(executions)
    return {
        (f"{each.session:%Y-%m-%d}", each.symbol): [f"{step.step} {step.result}" for step in each.steps]
        for each in executions
    }


def forked(work: Work, folder: Path, arm: Callable[[], None] = lambda: None) -> int:
    """A child that does the work and exits with 0, or with 1 after a traceback."""
    pid = os.fork()
    if pid:
        return pid
    try:
        arm()
        work(folder)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def was_killed(pid: int) -> bool:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"a child ended with {status}")
    return status != 0


def check_half(folder: Path, expected: list[dict]) -> None:
    """What a killed run leaves is a beginning of the whole one, in whole transactions."""
    half = journal(folder, checked=False)
    assert half == expected[: len(half)]
    assert len(half) in (0, 2) or half[-1]["kind"] == "day"
    whole, steps = logged(folder.parent / "whole"), logged(folder)
    done = {line["session"] for line in half}
    assert [steps.get(key) for key in whole if key[0] in done] == [
        whole[key] for key in whole if key[0] in done
    ]
    assert all(found == whole[key][: len(found)] for key, found in steps.items())


def by_time(
    work: Work, folder: Path, expected: list[dict], *, kills: int, seed: int, whole: float
) -> list[float]:
    """Kill at random instants, each drawn from the whole wall time, until there are enough.

    That is the least that a run took: were it one that the machine has held up, none would live to the later
    instants.
    """
    rng, instants, run = random.Random(seed), [], 0
    while len(instants) < kills:
        run, place, alive, again = run + 1, folder / f"run{run}", True, False
        while alive:
            delay, started = rng.uniform(0, whole), time.perf_counter()
            pid = forked(work, place)
            ended = os.pidfd_open(pid)
            select.select([ended], [], [], delay)
            os.close(ended)
            os.kill(pid, signal.SIGKILL)
            alive = was_killed(pid)
            if not (alive or again):
                whole = min(whole, time.perf_counter() - started)
            again = True
            if alive:
                instants.append(delay / whole)
                if rng.random() < 0.2:
                    check_half(place, expected)
        assert journal(place) == expected, place
        assert logged(place) == logged(folder / "whole"), place
    return instants


def bomb(boundary: str, rows: str) -> None:
    """Kill this process at a boundary of its first transaction with rows that begin so."""
    seen = {"inside": False, "statements": 0, "committed": False}

    def traced(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            seen.update(inside=True, statements=0)
            kill_at("" if rows else "before BEGIN")
        elif seen["inside"] and statement == "COMMIT":
            kill_at("before COMMIT" if seen["statements"] else "")
            seen.update(inside=False, committed=seen["statements"] > 0)
        elif seen["inside"] and statement.startswith(rows):
            seen["statements"] += 1
            kill_at({1: "after BEGIN", 2: "between two rows"}.get(seen["statements"], ""))

    def kill_at(place: str) -> None:
        if place == boundary:
            os.kill(os.getpid(), signal.SIGKILL)

    @event.listens_for(Pool, "connect")
    def connected(connection, _record):
        connection.set_trace_callback(traced)

    @event.listens_for(Pool, "checkin")
    def returned(_connection, _record):
        if seen["committed"]:
            kill_at("after COMMIT")
            seen["committed"] = False


def by_boundary(work: Work, folder: Path, expected: list[dict], rows: str) -> list[str]:
    """Kill at each boundary of the schema's transaction, and of every one after it until the run is done.

    A database that has the schema is only read for it.
    """
    place, deaths, alive = folder / "run1", [], True
    while alive:
        for boundary in BOUNDARIES[bool(rows) :]:
            alive = was_killed(forked(work, place, partial(bomb, boundary, rows)))
            if not alive:
                break
            deaths.append(boundary)
            if len(deaths) > len(BOUNDARIES):  # opening a ledger to look would make the schema
                check_half(place, expected)
    assert journal(place) == expected
    return deaths


def main(what: str, way: str, folder: Path, kills: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    is_graph = what.startswith("graph") or what in ("checkpointed", "bare")
    work = partial(run_graph if is_graph else run_plain, what)
    work(folder / "whole")
    expected = journal(folder / "whole")
    started = time.perf_counter()
    was_killed(forked(work, folder / "again"))
    whole = time.perf_counter() - started
    assert journal(folder / "again") == expected
    if way == "time":
        kills_at: list = by_time(work, folder, expected, kills=kills, seed=seed, whole=whole)
    else:
        kills_at = by_boundary(work, folder, expected, "INSERT INTO journal" if is_graph else "")
    steps = sum(map(len, logged(folder / "whole").values()))
    print(json.dumps({"kills": kills_at, "seconds": whole, "journal": expected, "steps": steps}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
