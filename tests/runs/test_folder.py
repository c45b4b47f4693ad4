"""Run folders: the next start removes what a killed start left, and keeps the folder of a living one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from quantgraph.runs import RunSpec, run_strategy
from quantgraph.runs.folder._folder import staged_run_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks that end with their process are POSIX's")

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"
CHILD = """
import sys
from pathlib import Path
from quantgraph.runs.folder._folder import staged_run_folder
with staged_run_folder(Path(sys.argv[1])) as made:
    (made / "data").mkdir()
    (made / "data" / "half").write_text("x")
    print(made.parent.name, flush=True)
    sys.stdin.readline()
"""


def starting(folder):
    """A process in the middle of a start, and the name of its hidden folder."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return child, child.stdout.readline().strip()


def kill(child):
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()


@pytest.mark.proof
def test_the_next_run_removes_the_folder_of_a_killed_start_and_keeps_that_of_a_living_one(tmp_path):
    (dead, left), (alive, held) = starting(tmp_path / "dead"), starting(tmp_path / "alive")
    kill(dead)
    (tmp_path / ".mine").mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {left, held, ".mine"}
    told = run_strategy(RunSpec(question=SENTENCE, trade=False), out=tmp_path)
    assert told["ended_because"] == "done"
    assert {path.name for path in tmp_path.iterdir()} == {told["run_id"], held, ".mine"}
    assert (tmp_path / held / "alive" / "data" / "half").is_file()
    alive.communicate("go on\n")
    assert alive.returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {told["run_id"], "alive", ".mine"}


def test_a_folder_of_another_boot_or_machine_is_kept_for_a_day(tmp_path):
    child, left = starting(tmp_path / "dead")
    kill(child)
    old, young = tmp_path / ".start-00000000-old", tmp_path / ".start-00000000-young"
    (tmp_path / left).rename(old)
    young.mkdir()
    os.utime(old, (0, os.stat(old).st_mtime - 90_000))
    with staged_run_folder(tmp_path / "next"):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"next", young.name}


def test_a_run_that_is_killed_before_its_folder_has_its_place_is_removed(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from quantgraph.runs import _start as start, run_strategy\n"
        "start.write_result = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"run_strategy({SENTENCE!r}, out=sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert (next(left.iterdir()) / "run.json").is_file()
    with staged_run_folder(tmp_path / "next") as made:
        assert list(tmp_path.iterdir()) == [made.parent]
    assert list(tmp_path.iterdir()) == [tmp_path / "next"]
