"""Ctrl-C in a program that runs a strategy ends the run, although its model hangs."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from quantgraph.runs import run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub

pytestmark = pytest.mark.proof


def test_ctrl_c_ends_a_run_whose_model_hangs(tmp_path):
    main_thread, ended, pressed = threading.get_ident(), threading.Event(), []
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    shells = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background

    def press(stub):
        while not stub.requests and not ended.wait(0.01):
            pass
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        # A signal that arrives just before the main thread blocks is handled at the next one: CPython's race.
        while not ended.wait(0.5):
            signal.pthread_kill(main_thread, signal.SIGUSR1)

    with OpenAIStub(lambda _: Fault.hang()) as stub:
        keyboard = threading.Thread(target=press, args=[stub])
        keyboard.start()
        settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="m")
        try:
            result = run_strategy(
                "000341.SZ, 5-day average, 2025",
                source="sample",
                out=tmp_path,
                resources=Resources(settings=settings),
            )
        finally:
            ended.set()
            keyboard.join()
            signal.signal(signal.SIGUSR1, before)
        assert len(stub.requests) == 1
    assert result["ended_because"] == "cancelled"
    assert time.monotonic() - pressed[0] < 10  # its timeout is a minute
    assert signal.signal(signal.SIGINT, shells) is signal.default_int_handler
