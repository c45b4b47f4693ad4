"""Each example runs as a user would run it, in a folder of its own."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from loopback_only import OUTSIDE, loopback_only

pytestmark = pytest.mark.proof

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
SERVERS = {"remote_graph.py"}
"""The examples that start a server."""
LAST_LINE = {
    "agent_tool.py": "The signal is there. rsi_14_lt_30_exit_rsi_14_gt_70: 21 times buy, 10 times sell.",
    "akshare_sina.py": "done ",
    "deep_agent.py": "The backtest is there. Synthetic data: ",
    "dual_agent.py": "done 9 trades",
    "execution_agent.py": "done: 6 executions, drawn in runs/execution.svg",
    "follow_ups.py": "You are welcome; nothing was changed.",
    "nested_stream.py": "['the desk says done']",
    "own_source.py": "done {'buy': ",
    "parent_graph.py": "done: filed cross_up_sma_5_sma_20",
    "remote_graph.py": "done. Synthetic data: ",
    "resume_and_replay.py": "identical",
    "standalone.py": "assumed: nothing",
    "test_one_node.py": "2 passed",
    "trader.py": "done: value 1,000,301.60",
    "two_models.py": "done 14 trades",
}


def test_every_example_is_known_here() -> None:
    assert [path.name for path in EXAMPLES] == list(LAST_LINE)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=pytest.mark.proof if path.name in SERVERS else (), id=path.stem)
        for path in EXAMPLES
    ],
)
def test_the_example_runs_and_ends_as_it_should(
    example: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if example.name in SERVERS:
        monkeypatch.setenv("PYTHONPATH", loopback_only(tmp_path))
    if example.stem.startswith("test_"):
        tool = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path)]
        subprocess.run([sys.executable, *tool, str(example)], check=True, timeout=60)
    else:
        runpy.run_path(str(example), run_name="__main__")
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith(LAST_LINE[example.name]), out
    assert not err, "an example ends without a warning"
    if example.name in SERVERS:
        log = Path("server.log").read_text(encoding="utf-8")
        assert not {OUTSIDE, "Traceback", "BlockingError"} & {*re.findall(r"[A-Za-z]+", log)}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 66
