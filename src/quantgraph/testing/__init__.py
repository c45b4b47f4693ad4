"""For tests of projects that build on quantgraph: scripted and misbehaving models, stub servers, canaries.

As pytest fixtures they are in :mod:`quantgraph.testing.pytest_plugin`.

Importing this package loads nothing heavy; each name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.testing.canary.canary_data import CanarySource, CanaryStore
    from quantgraph.testing.canary.canary_watch import CanaryFound, CanaryWatch, differences
    from quantgraph.testing.canary.sentinels import find_canaries
    from quantgraph.testing.models.faulty_model import FaultContext, FaultyChatModel
    from quantgraph.testing.models.misbehaving import (
        INJECTIONS,
        MISBEHAVING,
        flaky_model,
        misbehaving_in,
        slow_model,
    )
    from quantgraph.testing.models.scripted import RecordedCall, ScriptedChatModel, ScriptExhausted
    from quantgraph.testing.servers.jina_stub import JinaRequest, JinaStub
    from quantgraph.testing.servers.openai_stub import OpenAIStub
    from quantgraph.testing.servers.openai_wire import ChatRequest, Fault, Reply
    from quantgraph.testing.servers.tushare_stub import TushareFault, TushareRequest, TushareStub
    from quantgraph.testing.signal_states import sample_store, signal_state

__all__ = [
    "INJECTIONS",
    "MISBEHAVING",
    "CanaryFound",
    "CanarySource",
    "CanaryStore",
    "CanaryWatch",
    "ChatRequest",
    "Fault",
    "FaultContext",
    "FaultyChatModel",
    "JinaRequest",
    "JinaStub",
    "OpenAIStub",
    "RecordedCall",
    "Reply",
    "ScriptExhausted",
    "ScriptedChatModel",
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

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(
        __name__,
        {
            "canary.canary_data": ("CanarySource", "CanaryStore"),
            "canary.canary_watch": ("CanaryFound", "CanaryWatch", "differences"),
            "canary.sentinels": ("find_canaries",),
            "models.faulty_model": ("FaultContext", "FaultyChatModel"),
            "models.misbehaving": (
                "INJECTIONS",
                "MISBEHAVING",
                "flaky_model",
                "misbehaving_in",
                "slow_model",
            ),
            "models.scripted": ("RecordedCall", "ScriptExhausted", "ScriptedChatModel"),
            "servers.jina_stub": ("JinaRequest", "JinaStub"),
            "servers.openai_stub": ("OpenAIStub",),
            "servers.openai_wire": ("ChatRequest", "Fault", "Reply"),
            "servers.tushare_stub": ("TushareFault", "TushareRequest", "TushareStub"),
            "signal_states": ("sample_store", "signal_state"),
        },
    )


def __dir__() -> list[str]:
    return sorted(__all__)
