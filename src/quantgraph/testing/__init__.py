"""For tests of what is built on quantgraph: scripted and misbehaving models, stub servers, canaries.

As pytest fixtures they are in :mod:`quantgraph.testing.pytest_plugin`.

Importing this package loads nothing heavy; each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.testing.canary import CanaryStore
    from quantgraph.testing.canary_find import find_canaries
    from quantgraph.testing.canary_source import CanarySource
    from quantgraph.testing.canary_watch import CanaryFound, CanaryWatch, differences
    from quantgraph.testing.misbehaving import (
        INJECTIONS,
        MISBEHAVING,
        flaky_model,
        misbehaving_in,
        slow_model,
    )
    from quantgraph.testing.openai_stub import OpenAIStub
    from quantgraph.testing.openai_wire import ChatRequest, Fault, Reply
    from quantgraph.testing.scripted import ModelCall, ScriptedChatModel, ScriptExhausted
    from quantgraph.testing.spoiled import Asked, SpoiledChatModel
    from quantgraph.testing.states import sample_store, signal_state
    from quantgraph.testing.tushare_faults import TushareFault
    from quantgraph.testing.tushare_stub import TushareRequest, TushareStub

__all__ = [
    "INJECTIONS",
    "MISBEHAVING",
    "Asked",
    "CanaryFound",
    "CanarySource",
    "CanaryStore",
    "CanaryWatch",
    "ChatRequest",
    "Fault",
    "ModelCall",
    "OpenAIStub",
    "Reply",
    "ScriptExhausted",
    "ScriptedChatModel",
    "SpoiledChatModel",
    "TushareFault",
    "TushareRequest",
    "TushareStub",
    "differences",
    "find_canaries",
    "flaky_model",
    "misbehaving_in",
    "sample_store",
    "signal_state",
    "slow_model",
]

_HOME = {
    "INJECTIONS": "quantgraph.testing.misbehaving",
    "MISBEHAVING": "quantgraph.testing.misbehaving",
    "Asked": "quantgraph.testing.spoiled",
    "CanaryFound": "quantgraph.testing.canary_watch",
    "CanarySource": "quantgraph.testing.canary_source",
    "CanaryStore": "quantgraph.testing.canary",
    "CanaryWatch": "quantgraph.testing.canary_watch",
    "ChatRequest": "quantgraph.testing.openai_wire",
    "Fault": "quantgraph.testing.openai_wire",
    "ModelCall": "quantgraph.testing.scripted",
    "OpenAIStub": "quantgraph.testing.openai_stub",
    "Reply": "quantgraph.testing.openai_wire",
    "ScriptExhausted": "quantgraph.testing.scripted",
    "ScriptedChatModel": "quantgraph.testing.scripted",
    "SpoiledChatModel": "quantgraph.testing.spoiled",
    "TushareFault": "quantgraph.testing.tushare_faults",
    "TushareRequest": "quantgraph.testing.tushare_stub",
    "TushareStub": "quantgraph.testing.tushare_stub",
    "differences": "quantgraph.testing.canary_watch",
    "find_canaries": "quantgraph.testing.canary_find",
    "flaky_model": "quantgraph.testing.misbehaving",
    "misbehaving_in": "quantgraph.testing.misbehaving",
    "sample_store": "quantgraph.testing.states",
    "signal_state": "quantgraph.testing.states",
    "slow_model": "quantgraph.testing.misbehaving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
