"""A decider inside a code process: made once, asked session by session until the host hangs up."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

import quantgraph.state
from quantgraph.broker import Order
from quantgraph.broker.decider import Decider, validate_orders
from quantgraph.errors import BadOption
from quantgraph.sandbox.account_json import account_from_json, orders_to_json, parse_session
from quantgraph.sandbox.cell_runner import CappedOutput, Cell
from quantgraph.sandbox.view_sync import ViewReceiver
from quantgraph.sandbox.wire import Block, Read, encode_message, read_header

__all__ = ["serve_decider"]

_MODULE = "__decider__"


def serve_decider(header: dict[str, Any], read: Read, write: Callable[[Block], Any], *, limit: int) -> None:
    """Make the decider of a request, say how it is named, and answer for one session after the other."""
    cell, growing, made = Cell(header["decider"], 1), ViewReceiver(), {}
    # Nothing is to be found where the code of strategies finds its data.
    quantgraph.state.GLOBAL_DATA_STATE = quantgraph.state.DataState()

    def make(answer: dict[str, Any]) -> None:
        made["decider"] = _made(cell, header["name"], header["options"])
        answer["name"] = str(getattr(made["decider"], "name", header["name"]))
        answer["uses_signal"] = bool(getattr(made["decider"], "uses_signal", True))

    def decide(answer: dict[str, Any]) -> None:
        orders = made["decider"].decide(view, account, session)
        answer["orders"] = orders_to_json(validate_orders(header["name"], orders, session))

    def reply(work: Callable[[dict[str, Any]], None], seed: int) -> None:
        # The same in every run, and in one that was continued: a decider that draws lots draws the same.
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - the global generator is the one that such code uses
        answer: dict[str, Any] = {}
        output = CappedOutput(header["output_limit"])
        error = cell.attempt(lambda: work(answer), output).error
        for part in encode_message({"error": error, "stdout": output.text(), **answer}):
            write(part)

    reply(make, 0)
    while True:
        try:
            step, size = read_header(read, limit=limit)
        except EOFError:
            return
        view, account = growing.add(step, read(size)), account_from_json(step["account"])
        session = parse_session(step["session"])
        reply(decide, session.toordinal())


def _made(cell: Cell, name: str, options: dict[str, Any]) -> Decider:
    module = ModuleType(_MODULE)
    # Under its name, for what looks up the module of a class: dataclasses, copies.
    sys.modules[_MODULE] = module
    vars(module).update(pd=pd, np=np, Order=Order, Decimal=Decimal)
    cell.execute(vars(module))
    if not callable(getattr(module, name, None)):
        raise BadOption(f"the source has no class or function {name!r}", parameter="name")
    decider: Decider = getattr(module, name)(**options)
    if not callable(getattr(decider, "decide", None)):
        raise BadOption(f"{name} has no method decide(view, account, session)", parameter="name")
    return decider
