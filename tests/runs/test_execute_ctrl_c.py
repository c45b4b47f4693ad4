"""Ctrl-C in a program that runs a strategy: it comes through though a model hangs."""

from __future__ import annotations

import os
import signal
import threading
import time

from quantgraph.runs import run_strategy
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub


def test_ctrl_c_ends_a_run_whose_model_hangs(tmp_path):
    with OpenAIStub(lambda _: Fault.hang()) as stub:
        interrupted = []

        def press():
            while not stub.requests:
                time.sleep(0.01)
            interrupted.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press, daemon=True).start()
        settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="m")
        told = run_strategy(
            "000341.SZ, 5-day average, 2025", source="sample", settings=settings, out=tmp_path
        )
        assert len(stub.requests) == 1
    assert told["ended_because"] == "cancelled"
    assert time.monotonic() - interrupted[0] < 10  # its timeout is a minute
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
