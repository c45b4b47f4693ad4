"""A machine without room for the strategy's code ends a run that can be resumed; the model is not at fault."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from quantgraph import run_strategy
from quantgraph.runs import replay, resume_run
from quantgraph.runtime import Resources
from quantgraph.sandbox import ForkRunner

pytestmark = pytest.mark.proof

SENTENCE = "000343.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月到3月"


@pytest.fixture(scope="module", autouse=True)
def kept_code():
    """The processes are the matter here."""


class Starved(ForkRunner):
    """A runner whose next processes are killed as soon as they are there, as by a machine without memory."""

    deaths = 0

    def _run(self, cells, frames):
        if self.deaths:
            self.deaths -= 1
            killer = threading.Thread(target=self._kill_next)
            killer.start()
            try:
                return super()._run(["import time; time.sleep(30)", *cells], frames)
            finally:
                killer.join()
        return super()._run(cells, frames)

    def _kill_next(self):
        self._server.start()
        children = Path(f"/proc/{self._server.process.pid}/task/{self._server.process.pid}/children")
        for _ in range(1000):
            if found := children.read_text().split():
                os.kill(int(found[0]), signal.SIGKILL)
                return
            time.sleep(0.005)


@pytest.mark.parametrize(("deaths", "because"), [(3, "done"), (4, "code_unavailable")])
def test_a_run_survives_three_deaths_in_a_node_and_ends_resumable_after_four(tmp_path, deaths, because):
    with closing(Starved(timeout=60.0)) as runner:
        runner.deaths = deaths
        ended = run_strategy(SENTENCE, out=tmp_path, resources=Resources(runner=runner))
        assert ended["ended_because"] == because
        if because != "done":
            assert ended["error"].startswith("code_unavailable: the machine ended the code's process at ")
            ended = resume_run(ended["run_dir"], resources=Resources(runner=runner))
            assert ended["ended_because"] == "done"
    calls = {row["role"]: row["calls"] for row in ended["usage"]}
    assert calls == {"reflection": 1}  # code writes the cell: no attempt more
    assert replay(ended["run_dir"]).identical


def test_a_process_that_does_not_start_ends_the_run_resumable(tmp_path, monkeypatch):
    with closing(ForkRunner(start_seconds=0.05)) as slow:
        ended = run_strategy(SENTENCE, out=tmp_path, resources=Resources(runner=slow))
    assert (ended["ended_because"], ended["state"]) == ("code_unavailable", ended["state"])
    assert "did not start within 0.05 s" in ended["error"]
    assert resume_run(ended["run_dir"])["ended_because"] == "done"
