"""Chat models by role, their wrappers, and the reading of their replies.

Importing this package loads no model library: each name is imported at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.llm.models import get_light_llm, get_llm, role_model
    from quantgraph.llm.recorded_model import RecordedChatModel
    from quantgraph.llm.retry_policy import CallPolicy
    from quantgraph.llm.structured import read_json
    from quantgraph.settings import Role

__all__ = [
    "CallPolicy",
    "RecordedChatModel",
    "Role",
    "get_light_llm",
    "get_llm",
    "read_json",
    "role_model",
]

_HOME = {
    "CallPolicy": "quantgraph.llm.retry_policy",
    "RecordedChatModel": "quantgraph.llm.recorded_model",
    "Role": "quantgraph.settings",
    "get_light_llm": "quantgraph.llm.models",
    "get_llm": "quantgraph.llm.models",
    "read_json": "quantgraph.llm.structured",
    "role_model": "quantgraph.llm.models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
