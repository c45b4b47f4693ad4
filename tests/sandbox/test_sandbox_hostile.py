"""Hostile and sloppy code ends in a typed error or in nothing, and the host stays as it was."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from load_script import load_script
from thinned import thinned

pytestmark = pytest.mark.proof

FOLDER = Path(__file__).parent / "hostile"
NOBODY = 65534
USERS = ["own", *(["nobody"] if os.getuid() == 0 else [])]
BY_USER = pytest.mark.parametrize("user", thinned(USERS, lambda _, user: user == "own"))
WHOLE = bool(os.environ.get("WHOLE"))
USER_MATTERS = ("reads ", "writes ", "reaches ", "starts ")
"""Kinds of rows whose result may depend on the user; only these run as both users unless WHOLE is set."""


LISTED = load_script(FOLDER / "rows.py").ROWS
ROWS = {name: (code, expected, value) for name, code, expected, value in LISTED}


def names_for(user):
    return [name for name in ROWS if WHOLE or user == "own" or name.startswith(USER_MATTERS)]


@pytest.fixture(scope="session")
def report_for(tmp_path_factory):
    """Runs the driver once for each user, also where workers of pytest-xdist share the rows."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    @functools.cache
    def report(user):
        with open(shared / f"hostile-{user}.json", "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            text = file.read()
            if not text:
                text = run_driver(user)
                file.write(text)
        return json.loads(text)

    return report


def run_driver(user):
    rows = [(name, *ROWS[name][:2]) for name in names_for(user)]
    ran = subprocess.run(
        [
            sys.executable,
            "-P",
            "-s",
            "-W",
            "ignore",
            str(FOLDER / "driver.py"),
            str(NOBODY) if user == "nobody" else "again",
        ],
        input=json.dumps(
            {"rows": [[name, code, "code_timeout" in expected] for name, code, expected in rows]}
        ),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"HOME": str(Path.home()), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        cwd="/",
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@BY_USER
def test_hostile_code_does_no_harm(report_for, user, subtests):
    outcomes = report_for(user)["outcomes"]
    for name in names_for(user):
        with subtests.test(name=name):
            _, expected, value = ROWS[name]
            outcome = outcomes[name]
            assert outcome["harmed"] == []
            accepted = [expected] if isinstance(expected, str) else expected
            assert outcome["error"] in accepted, outcome["message"]
            assert outcome["isolation"] == "full"
            assert (outcome["leaks"], outcome["length"] <= 2_100) == ([], True)
            assert not any(outcome["signals"].values())
            if value is not None and not outcome["error"]:
                assert outcome["value"] == value


@BY_USER
def test_no_server_was_reached_and_no_process_is_left(report_for, user):
    report = report_for(user)
    assert (report["reached"], report["left"]) == (False, "")
    assert report["user"] in {os.getuid(), NOBODY}


def test_row_names_are_unique():
    assert len(ROWS) == len(LISTED) >= 65
