"""A run that is killed with SIGKILL and resumed until it is done leaves the journal of the uninterrupted run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from quantgraph.broker.ledger import Ledger

pytestmark = pytest.mark.proof

CHILD = Path(__file__).with_name("crash_child.py")
SESSIONS = 42


@pytest.fixture
def folder():
    """In memory where there is such a place: a killed process loses nothing that a disk would have kept."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def crash(folder: Path, what: str, way: str, kills: int = 0) -> dict:
    """What the child says; it has compared every resumed run with the whole one, byte for byte."""
    command = [sys.executable, str(CHILD), what, way, str(folder), str(kills), "1"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_journal(lines: list[dict]) -> Counter:
    """The journal is one worth the trouble, and has no order twice; returns its kinds."""
    kinds = Counter(line["kind"] for line in lines)
    assert kinds["day"] == SESSIONS
    orders = [
        (line["session"], line["body"]["sequence"]) for line in lines if line["kind"] in {"fill", "rejection"}
    ]
    assert len(orders) == len(set(orders)) > 60
    return kinds


@pytest.mark.proof
@pytest.mark.parametrize("what", ["rule", "orders", "asked"])
def test_fifty_kills_at_any_instant_change_nothing(what, folder):
    told = crash(folder, what, "time", 50)
    kinds = check_journal(told["journal"])
    assert min(kinds[name] for name in ("fill", "rejection", "dividend", "payment", "split")) > 2
    assert len(told["kills"]) >= 50
    tenths = Counter(int(10 * instant) for instant in told["kills"])
    assert len(tenths) >= 6, f"kills are spread over the run: {tenths}"


@pytest.mark.proof
def test_a_killed_decider_that_logs_steps_leaves_each_step_once(folder):
    told = crash(folder, "steps", "time", 15)
    check_journal(told["journal"])
    assert told["steps"] == SESSIONS * 6 * 3
    assert len(told["kills"]) >= 15


def test_a_step_is_on_the_disk_before_the_next_one_is_made(folder):
    code = """
import os, signal, sys
import pandas as pd
from quantgraph.broker.ledger import Ledger, LoggedStep
rest = dict(rule_name="r", rule="", symbol="A", session=pd.Timestamp("2024-01-02"), timestamp="2024-01-02T09:00:00")
ledger = Ledger(sys.argv[1])
for number in (1, 2, 3):
    ledger.log_step("r", LoggedStep(step=number, action_type="observation", action={}, **rest))
os.kill(os.getpid(), signal.SIGKILL)
"""
    place = folder / "ledger.db"
    done = subprocess.run([sys.executable, "-c", code, str(place)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with Ledger(place) as ledger:
        assert [len(execution.steps) for execution in ledger.executions("r")] == [3]


def check_orders(lines: list[dict]) -> None:
    """Every kind of order is among them."""
    orders = [line["body"] for line in lines if line["kind"] in {"fill", "rejection"}]
    assert {order["type"] for order in orders} == {"open", "close", "limit"}
    sizes = {"quantity", "target_quantity", "target_weight", "target_value"}
    assert {size for order in orders for size in order} >= sizes
    assert len({order.get("code") for order in orders}) > 8


@pytest.mark.parametrize(("what", "parts"), [("asked", SESSIONS), ("orders", 1)])
def test_a_kill_at_every_boundary_of_every_transaction_changes_nothing(what, parts, folder):
    transactions = 1 + 1 + 1 + parts  # the schema, the opening, the window, the sessions
    told = crash(folder, what, "boundary")
    check_journal(told["journal"])
    check_orders(told["journal"])
    assert set(Counter(told["kills"]).values()) == {transactions}
    assert len(told["kills"]) == 5 * transactions
