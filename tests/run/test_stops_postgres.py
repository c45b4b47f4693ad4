"""The scripted run on PostgreSQL, checkpoints, ledger and record, killed and resumed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KILLS = 6


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


resumed = module(HERE / "resumed.py")


@pytest.mark.timeout(300)
def test_a_run_on_postgresql_that_is_killed_pays_for_no_call_twice(tmp_path):
    with module(HERE.parent / "broker" / "postgres.py").server() as server:
        told = resumed.play(tmp_path, "kills", server.database(), str(KILLS), "2")
    assert resumed.check_kills(told, tmp_path) == KILLS
