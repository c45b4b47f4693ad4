"""The requests that a code process serves: one run of cells, a walk of many runs, or a decider's sessions."""

from __future__ import annotations

import pickle
import random
import sys
from base64 import b64decode
from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from functools import partial
from types import ModuleType
from typing import Any, NoReturn, get_args

import numpy as np
import pandas as pd

import quantgraph.state
from quantgraph.broker import (
    DataNeeds,
    Decider,
    Decision,
    DecisionContext,
    LoggedStep,
    Order,
    RunContext,
    SessionResult,
    TradePlan,
)
from quantgraph.broker.decider import check_decider, validate_decision
from quantgraph.errors import BadOption
from quantgraph.market.dated_rules import MarketCode, load_rules
from quantgraph.market.moment import PHASE_TIME
from quantgraph.market.rulebook import Rulebook
from quantgraph.sandbox.cell_runner import (
    CappedOutput,
    Cell,
    CellOutcome,
    cell_namespace,
    new_signals,
    run_cells,
)
from quantgraph.sandbox.clock import install_clock, set_clock, set_clock_at_end
from quantgraph.sandbox.imports import refuse_other_imports
from quantgraph.sandbox.object_operators import refuse_object_operators
from quantgraph.sandbox.trading_json import account_from_json, decision_to_json
from quantgraph.sandbox.view_sync import FramesReceiver, ViewReceiver
from quantgraph.sandbox.window_bounds import remember_window_bounds
from quantgraph.sandbox.wire import Block, Frames, Read, encode_message, encode_signals, read_header
from quantgraph.state.frames import FrozenFrame, freeze

if sys.platform != "win32":
    import resource


REQUEST_LIMIT = 8 << 30
_DECIDER_MODULE = "__decider__"
_SCOPE: dict[str, Any] = {
    "pd": pd,
    "np": np,
    "Decimal": Decimal,
    "DataNeeds": DataNeeds,
    "Decider": Decider,
    "Decision": Decision,
    "Order": Order,
}
"""Names that a decider's source has."""

Write = Callable[[Block], Any]


def serve_cells(header: dict[str, Any], frames: Frames, write: Write) -> None:
    """Run the cells of a request and write the reply."""
    before = _peak_kilobytes()
    with refuse_object_operators():
        outcome, signals = _run(_compile(header["cells"]), frames, header["output_limit"])
    _reply(write, outcome, signals, before)


def serve_walk(header: dict[str, Any], read: Read, write: Write) -> None:
    """Run the cells of a request once for each step that the host sends, until it hangs up."""
    before = _peak_kilobytes()
    cells, receiver = _compile(header["walk"]), FramesReceiver()
    with refuse_object_operators():
        while True:
            try:
                step, size = read_header(read, limit=REQUEST_LIMIT)
            except EOFError:
                return
            frames = receiver.receive(step, read(size))
            outcome, signals = _run(cells, frames, header["output_limit"])
            _reply(write, outcome, signals, before)


def serve_decider(header: dict[str, Any], read: Read, write: Write) -> None:
    """Make the decider of a request, report its name, and answer for each session until the host hangs up."""
    cell, receiver, history = Cell(header["decider"], 1), ViewReceiver(), list[SessionResult]()
    decider: Any = None
    # Code of a decider must find no data where code of a strategy finds it.
    quantgraph.state.GLOBAL_DATA_STATE = quantgraph.state.DataState()

    def make() -> dict[str, Any]:
        nonlocal decider
        decider = _make_decider(cell, header["name"], header["options"])
        needs = decider.needs
        return {
            "name": str(decider.name),
            "uses_signal": bool(decider.uses_signal),
            "needs": {name: getattr(needs, name) for name in ("sessions", "indicators", "records")},
        }

    def decide() -> dict[str, Any]:
        returned = decider.decide(context)
        return decision_to_json(validate_decision(header["name"], returned, context.session))

    def reply(work: Callable[[], dict[str, Any]], seed: int) -> None:
        # The same seed in every run, resumed ones included: unseeded draws are the same too.
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global generator is the one that such code uses
        answer: dict[str, Any] = {}
        output = CappedOutput(header["output_limit"])
        error = cell.attempt(lambda: answer.update(work()), output).error
        for part in encode_message({"error": error, "stdout": output.text(), **answer}):
            write(part)

    reply(make, 0)
    while True:
        try:
            step, size = read_header(read, limit=REQUEST_LIMIT)
        except EOFError:
            return
        rules, plan, results = _unpickled(step["run"])
        history.extend(results)
        run = RunContext(plan=plan, history=partial(tuple, history), scope=_no_scope, log_step=_no_log)
        view, account = receiver.receive(step, read(size)), account_from_json(step["account"])
        set_clock(view.moment.session + PHASE_TIME["open"])
        context = DecisionContext(view, account, rules=rules, run=run)
        reply(decide, context.session.toordinal())


def _unpickled(text: str) -> tuple[Rulebook, TradePlan, list[SessionResult]]:
    """Read what the host pickled. Nothing is ever unpickled in the other direction."""
    values: tuple[Rulebook, TradePlan, list[SessionResult]] = pickle.loads(b64decode(text))  # noqa: S301
    return values


def _no_scope(name: str) -> AbstractContextManager[None]:
    raise BadOption(f"scope({name!r}): an isolated decider asks no model and has no scopes", parameter="name")


def _no_log(_step: LoggedStep) -> NoReturn:
    raise BadOption(
        "log_step(): an isolated decider has no ledger; what it did can be told in the notes of its decision",
        parameter="step",
    )


def _make_decider(cell: Cell, name: str, options: dict[str, Any]) -> Decider:
    module = ModuleType(_DECIDER_MODULE)
    # dataclasses and copy look the module of a class up by its name.
    sys.modules[_DECIDER_MODULE] = module
    vars(module).update(_SCOPE)
    cell.execute(vars(module))
    make = getattr(module, name, None)
    if not callable(make) or make is Decider:
        raise BadOption(f"the source has no class or function {name!r}", parameter="name")
    return check_decider(make(**options))


def _compile(sources: list[str]) -> list[Cell]:
    return [Cell(source, number) for number, source in enumerate(sources, start=1)]


def _run(cells: list[Cell], frames: Frames, output_limit: int) -> tuple[CellOutcome, dict[str, FrozenFrame]]:
    # Every run draws different random numbers, so that an unseeded strategy is found to differ.
    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that generated code uses
    set_clock_at_end(frames)
    store = quantgraph.state.DataState()
    store.adopt(frames)
    # Code that imports the data state gets this one.
    quantgraph.state.GLOBAL_DATA_STATE = store
    with refuse_other_imports():
        outcome = run_cells(cells, cell_namespace(store), output_limit)
    return outcome, new_signals(store, frames)


def _reply(write: Write, outcome: CellOutcome, signals: dict[str, FrozenFrame], before: int) -> None:
    header = {
        "stdout": outcome.stdout,
        "value": outcome.value,
        "error": outcome.error,
        "kilobytes": _peak_kilobytes() - before,
    }
    for part in encode_signals(header, signals):
        write(part)


def _peak_kilobytes() -> int:
    if sys.platform == "win32":
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def preload() -> None:
    """Run a typical strategy once, so that every fork has what libraries import and build on first use."""
    import talib  # noqa: F401 - imported once for all forks

    remember_window_bounds()
    install_clock()

    for market in get_args(MarketCode):
        load_rules(market)  # a sealed process cannot read the tables of a decider's market

    index = pd.date_range("2024-01-01", periods=30)
    close = freeze("ohlcv", "close", pd.DataFrame(np.ones((30, 2)), index=index, columns=["a", "b"]))
    cell = (
        "close = snapshot['ohlcv']['close']\n"
        "mean, rank = close.rolling(5).mean(), close.rank(axis=1, pct=True)\n"
        "signal = ((mean > close.shift(1)) & (rank > 0.5)).astype(float).where(mean.notna())\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': signal})\n"
        "print(signal)\n"
        "signal.loc['2024-01-05':].iloc[-1]"
    )
    serve_cells({"cells": [cell], "output_limit": 1_000}, {"ohlcv": {"close": close}}, len)
