"""Stopping a command that executes a run."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from langgraph.runtime import RunControl

from quantgraph.cli import _run as run_command
from quantgraph.cli._run import _StopHandler, stop_signals
from quantgraph.llm import AT_ONCE


def test_the_first_signal_stops_at_the_next_step_and_the_second_at_once(capfd):
    stop = _StopHandler(RunControl())
    stop.handle()
    assert stop.control.drain_requested
    assert "once more stops at once" in capfd.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        stop.handle()
    stop.handle()  # it is ending already


def test_a_step_that_ignores_the_second_signal_is_left_after_a_second(monkeypatch, capfd):
    alarms, exits, before = [], [], signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(run_command.signal, "setitimer", lambda _which, seconds: alarms.append(seconds))
    monkeypatch.setattr(run_command.os, "_exit", exits.append)
    try:
        with stop_signals() as stop:
            stop.handle()
            assert not alarms
            with pytest.raises(KeyboardInterrupt):
                stop.handle()
            assert (stop.control.drain_reason, alarms) == (AT_ONCE, [1.0])
            signal.getsignal(signal.SIGALRM)()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert (alarms, exits) == ([1.0, 0], [130])
    assert "'quantgraph resume RUN' goes on with it" in capfd.readouterr().err


@pytest.mark.proof
def test_many_signals_end_the_command_quietly():
    code = "from quantgraph.cli import main; main()"
    sentence = "990030.SH, 5-day average crosses above the 20-day average, 2024"
    run = subprocess.Popen([sys.executable, "-c", code, "run", sentence], stderr=subprocess.PIPE, text=True)
    told = run.stderr.readline()
    while run.poll() is None:
        run.send_signal(signal.SIGINT)
        time.sleep(0.05)
    told += run.stderr.read()
    run.stderr.close()
    assert run.returncode == 130
    assert "Traceback" not in told
    assert told.count("goes on with it") <= 1


def test_a_waiting_question_is_interrupted_at_once():
    stop = _StopHandler(RunControl())

    def ask(_question):
        stop.handle()
        return "never"

    with pytest.raises(KeyboardInterrupt):
        stop.asking(ask)({})


def test_an_answered_question_does_not_change_how_a_signal_stops():
    stop = _StopHandler(RunControl())
    assert stop.asking(lambda _question: "yes")({}) == "yes"
    stop.handle()
    assert stop.control.drain_requested


def test_a_signal_during_a_write_to_stderr_stops_the_run(monkeypatch):
    class Busy:
        def write(self, _text):
            raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

        flush = write

    control = RunControl()
    monkeypatch.setattr("sys.stderr", Busy())
    _StopHandler(control).handle()
    assert control.drain_requested
