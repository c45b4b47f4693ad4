"""Each example runs as a user would run it, in a folder of its own."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
LAST_LINE = {
    "akshare_sina.py": "done ",
    "dual_agent.py": "done 9 trades",
    "execution_agent.py": "done: 6 executions, drawn in runs/execution.svg",
    "nested_stream.py": "['the desk says done']",
    "own_source.py": "done {'buy': ",
    "parent_graph.py": "done: filed sma_cross_5_20",
    "resume_and_replay.py": "identical",
    "standalone.py": "assumed: nothing",
    "test_one_node.py": "2 passed",
    "trader.py": "done: value 1,000,301.60",
    "two_models.py": "done 14 trades",
}


def test_every_example_is_known_here() -> None:
    assert [path.name for path in EXAMPLES] == list(LAST_LINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_ends_as_it_should(
    example: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if example.stem.startswith("test_"):
        tool = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
        subprocess.run([sys.executable, *tool, str(example)], check=True, timeout=60)
    else:
        runpy.run_path(str(example), run_name="__main__")
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith(LAST_LINE[example.name]), out
    assert not err, "an example ends without a warning"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60
