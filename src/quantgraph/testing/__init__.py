"""For tests of what is built on quantgraph: scripted chat models, servers on loopback, and canaries.

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
    from quantgraph.testing.openai_stub import OpenAIStub
    from quantgraph.testing.openai_wire import ChatRequest, Fault, Reply
    from quantgraph.testing.scripted import ModelCall, ScriptedChatModel, ScriptExhausted
    from quantgraph.testing.tushare_faults import TushareFault
    from quantgraph.testing.tushare_stub import TushareRequest, TushareStub

__all__ = [
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
    "TushareFault",
    "TushareRequest",
    "TushareStub",
    "differences",
    "find_canaries",
]

_HOME = {
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
    "TushareFault": "quantgraph.testing.tushare_faults",
    "TushareRequest": "quantgraph.testing.tushare_stub",
    "TushareStub": "quantgraph.testing.tushare_stub",
    "differences": "quantgraph.testing.canary_watch",
    "find_canaries": "quantgraph.testing.canary_find",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
