"""Code that means harm, or is merely sloppy: a typed error or nothing, and the host is as it was."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
NOBODY = 65534
USERS = ["own", *(["nobody"] if os.getuid() == 0 else [])]


def rows():
    spec = importlib.util.spec_from_file_location("hostile_rows", FOLDER / "rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ROWS


ROWS = {name: (code, expected, value) for name, code, expected, value in rows()}


@pytest.fixture(scope="module", params=USERS)
def told(request):
    listed = [[name, code, "code_timeout" in expected] for name, (code, expected, _) in ROWS.items()]
    ran = subprocess.run(
        [
            sys.executable,
            "-P",
            "-s",
            "-W",
            "ignore",
            str(FOLDER / "driver.py"),
            str(NOBODY) if request.param == "nobody" else "again",
        ],
        input=json.dumps({"rows": listed}),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={"HOME": str(Path.home()), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        cwd="/",
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("name", ROWS)
def test_hostile_code_does_no_harm(told, name):
    _, expected, value = ROWS[name]
    said = told["outcomes"][name]
    assert said["harmed"] == []
    assert said["error"] in ([expected] if isinstance(expected, str) else expected), said["message"]
    assert said["isolation"] == "full"
    assert (said["leaks"], said["length"] <= 2_100) == ([], True)
    assert not any(said["signals"].values())
    if value is not None and not said["error"]:
        assert said["value"] == value


def test_nothing_was_reached_and_nothing_is_left(told):
    assert (told["reached"], told["left"]) == (False, "")
    assert told["user"] in {os.getuid(), NOBODY}


def test_the_table_is_as_long_as_it_is_said_to_be():
    assert len(ROWS) == len(rows()) >= 65
