"""How a command that runs a graph is stopped."""

from __future__ import annotations

import pytest
from langgraph.runtime import RunControl

from quantgraph.cli.going import _Stop


def test_the_first_signal_stops_at_the_next_step_and_the_second_at_once(capsys):
    stop = _Stop(RunControl())
    stop.handle()
    assert stop.control.drain_requested
    assert "once more stops at once" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt):
        stop.handle()


def test_a_question_that_waits_is_left_at_once():
    stop = _Stop(RunControl())

    def ask(_question):
        stop.handle()
        return "never"

    with pytest.raises(KeyboardInterrupt):
        stop.asking(ask)({})
    stop.handle()
    assert stop.control.drain_requested
