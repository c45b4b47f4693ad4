"""A command imports without the collector, and starts the process for generated code beside the imports."""

import gc
import threading

import pytest

from quantgraph.cli._console import quick_imports, start_code_process
from quantgraph.sandbox import ForkRunner, runner_of
from quantgraph.sandbox import _runner as runners
from quantgraph.settings import load_settings


def test_the_collector_works_again_after_the_imports_whatever_happens_in_them():
    before = gc.get_freeze_count()
    with quick_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), quick_imports():
        raise ImportError
    assert gc.isenabled()
    assert gc.get_freeze_count() > before
    gc.unfreeze()


def test_the_process_that_the_run_uses_is_started(monkeypatch):
    # Another limit than elsewhere in the suite: runners are shared in a process.
    settings = load_settings(code_timeout=29.5)
    start_code_process(settings)
    runner = runner_of(settings)
    assert isinstance(runner, ForkRunner)
    for thread in threading.enumerate():
        if thread.name == "quantgraph-sandbox":
            thread.join(timeout=60)
    process = runner._server.process
    assert process is not None
    assert process.poll() is None
    assert runner.run(["1 + 1"], {}).value == "2"
    assert runner._server.process is process
    runner.close()


def test_trusted_code_needs_no_process(monkeypatch):
    def refuse(*given):
        raise AssertionError

    monkeypatch.setattr(runners, "default_runner", refuse)
    start_code_process(load_settings(code_isolation="trusted"))
