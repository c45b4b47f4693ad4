"""For tests of your own graphs: models that follow a script, an OpenAI server, pytest fixtures.

``ScriptedChatModel`` replies from a list and fails when asked too often; ``OpenAIStub`` speaks the protocol
over HTTP on loopback, and fails as real servers do. ``DeciderContract``,
``SourceContract`` and ``ToolContract`` are the tests that every one of its kind passes. The fixtures come
with the pytest plugin ``quantgraph``, which an installation registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.testing._contracts import DeciderContract, SourceContract, ToolContract, check_source
    from quantgraph.testing._openai import ChatRequest, Fault, OpenAIStub, Reply
    from quantgraph.testing._scripted import ScriptedChatModel, ScriptExhausted
    from quantgraph.testing._signal_states import sample_store, signal_state

__all__ = [
    "ChatRequest",
    "DeciderContract",
    "Fault",
    "OpenAIStub",
    "Reply",
    "ScriptExhausted",
    "ScriptedChatModel",
    "SourceContract",
    "ToolContract",
    "check_source",
    "sample_store",
    "signal_state",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
