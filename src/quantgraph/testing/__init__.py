"""For tests of what is built on quantgraph: scripted and misbehaving models, stub servers, canaries.

As pytest fixtures they are in :mod:`quantgraph.testing.pytest_plugin`.

Importing this package loads nothing heavy; each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.testing.canary.canary_data import CanarySource, CanaryStore
    from quantgraph.testing.canary.canary_watch import CanaryFound, CanaryWatch, differences
    from quantgraph.testing.canary.sentinels import find_canaries
    from quantgraph.testing.models.faulty import Asked, SpoiledChatModel
    from quantgraph.testing.models.misbehaving import (
        INJECTIONS,
        MISBEHAVING,
        flaky_model,
        misbehaving_in,
        slow_model,
    )
    from quantgraph.testing.models.scripted import RecordedCall, ScriptedChatModel, ScriptExhausted
    from quantgraph.testing.servers.openai_stub import OpenAIStub
    from quantgraph.testing.servers.openai_wire import ChatRequest, Fault, Reply
    from quantgraph.testing.servers.tushare_faults import TushareFault
    from quantgraph.testing.servers.tushare_stub import TushareRequest, TushareStub
    from quantgraph.testing.states import sample_store, signal_state

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
    "OpenAIStub",
    "RecordedCall",
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
    "INJECTIONS": "quantgraph.testing.models.misbehaving",
    "MISBEHAVING": "quantgraph.testing.models.misbehaving",
    "Asked": "quantgraph.testing.models.faulty",
    "CanaryFound": "quantgraph.testing.canary.canary_watch",
    "CanarySource": "quantgraph.testing.canary.canary_data",
    "CanaryStore": "quantgraph.testing.canary.canary_data",
    "CanaryWatch": "quantgraph.testing.canary.canary_watch",
    "ChatRequest": "quantgraph.testing.servers.openai_wire",
    "Fault": "quantgraph.testing.servers.openai_wire",
    "RecordedCall": "quantgraph.testing.models.scripted",
    "OpenAIStub": "quantgraph.testing.servers.openai_stub",
    "Reply": "quantgraph.testing.servers.openai_wire",
    "ScriptExhausted": "quantgraph.testing.models.scripted",
    "ScriptedChatModel": "quantgraph.testing.models.scripted",
    "SpoiledChatModel": "quantgraph.testing.models.faulty",
    "TushareFault": "quantgraph.testing.servers.tushare_faults",
    "TushareRequest": "quantgraph.testing.servers.tushare_stub",
    "TushareStub": "quantgraph.testing.servers.tushare_stub",
    "differences": "quantgraph.testing.canary.canary_watch",
    "find_canaries": "quantgraph.testing.canary.sentinels",
    "flaky_model": "quantgraph.testing.models.misbehaving",
    "misbehaving_in": "quantgraph.testing.models.misbehaving",
    "sample_store": "quantgraph.testing.states",
    "signal_state": "quantgraph.testing.states",
    "slow_model": "quantgraph.testing.models.misbehaving",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
