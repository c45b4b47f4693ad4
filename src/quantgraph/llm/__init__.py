"""Models by role, with or without a key; every call is recorded, budgeted and retried in one place.

Nodes ask ``role_model(role)``; ``get_llm`` gives the bare model. With a key it is any OpenAI-compatible
endpoint or chat model; without one it is the ``KeylessPlanner``, a deterministic reader of a documented
family of sentences. A model without native tool calls gets the text form of them. ``messages`` builds
prompts and reads replies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.llm._keyless import KeylessPlanner
    from quantgraph.llm._model_call import CacheMode, PendingReply, cached_attempt, drop_replies
    from quantgraph.llm._models import KEYLESS, Model, get_light_llm, get_llm, role_model
    from quantgraph.llm._retry import (
        AT_ONCE,
        CallPolicy,
        ModelFacts,
        current_run_control,
        drain_error,
        interruptible_sleep,
        model_facts,
        run_in_thread,
    )

__all__ = [
    "AT_ONCE",
    "KEYLESS",
    "CacheMode",
    "CallPolicy",
    "KeylessPlanner",
    "Model",
    "ModelFacts",
    "PendingReply",
    "cached_attempt",
    "current_run_control",
    "drain_error",
    "drop_replies",
    "get_light_llm",
    "get_llm",
    "interruptible_sleep",
    "model_facts",
    "role_model",
    "run_in_thread",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
