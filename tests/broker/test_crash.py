import importlib.util
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from quantgraph.broker import Ledger

CHILD = Path(__file__).with_name("crash_child.py")


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall()
            for table in ("runs", "days", "orders", "holdings")
        }


def run(path, place, count):
    return subprocess.run(
        [sys.executable, str(CHILD), str(path), place, str(count)], capture_output=True, check=False
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "ledger.db"
    spec = importlib.util.spec_from_file_location("crash_child", CHILD)
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    child.run(path)
    found = rows(path)
    assert len(found["days"]) == 40
    assert len(found["orders"]) > 60
    return found


@pytest.mark.parametrize(("place", "count"), [("decide", 17), ("insert", 20), ("insert", 36)])
def test_a_run_killed_anywhere_and_resumed_leaves_the_rows_of_the_uninterrupted_run(
    place, count, uninterrupted, tmp_path
):
    path = tmp_path / "ledger.db"
    killed = run(path, place, count)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    half = rows(path)
    assert 0 < len(half["days"]) < 40
    assert {row[1] for row in half["orders"]} <= {row[1] for row in half["days"]}
    resumed = run(path, "never", 0)
    assert resumed.returncode == 0, resumed.stderr.decode()
    assert rows(path) == uninterrupted
    with Ledger(path) as ledger:
        ledger.check("run")
