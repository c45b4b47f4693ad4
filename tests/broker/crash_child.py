"""Runs a strategy into a ledger and kills itself with SIGKILL at a chosen place: ``FILE PLACE COUNT``.

``PLACE`` is ``decide`` (the nth decision), ``insert`` (after the nth insert, inside its transaction) or ``never``.
"""

import os
import signal
import sys

import numpy as np
import pandas as pd
from sqlalchemy import Engine, event

from quantgraph.agents.signal_rule import SignalRule
from quantgraph.broker import Ledger, run_sessions
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState

SESSIONS = pd.bdate_range("2024-01-02", periods=40).as_unit("us")


def market():
    rng = np.random.default_rng(7)
    codes = [f"{600000 + place}.SH" for place in range(8)]
    close = pd.DataFrame(np.exp(rng.normal(0, 0.02, (40, 8)).cumsum(axis=0)) * 20, SESSIONS, codes).round(2)
    opens = (close.shift().fillna(20.0) * 1.001).round(2)
    store = DataState()
    store.update("ohlcv", {"open": opens, "close": close, "pre_close": close.shift().fillna(20.0)})
    ref = store.update("signal", {"noise": pd.DataFrame(rng.integers(-1, 2, (40, 8)) * 1.0, SESSIONS, codes)})
    return store, ref


class Fuse:
    def __init__(self, count):
        self.left = count

    def burn(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Dying(SignalRule):
    def __init__(self, fuse):
        super().__init__(max_positions=4)
        self.fuse = fuse

    def decide(self, view, account, session):
        self.fuse.burn()
        return super().decide(view, account, session)


def run(path, place="never", count=0):
    fuse = Fuse(count)
    if place == "insert":

        @event.listens_for(Engine, "after_cursor_execute")
        def after(connection, cursor, statement, *_):
            if statement.startswith("INSERT INTO") and "runs" not in statement.split("(")[0]:
                fuse.burn()

    store, ref = market()
    decider = Dying(fuse) if place == "decide" else SignalRule(max_positions=4)
    with Ledger(path) as ledger:
        return run_sessions(
            store,
            ref,
            SESSIONS,
            decider,
            cash=100_000,
            rules=Rulebook.mainland(),
            ledger=ledger,
            run_id="run",
        )


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
