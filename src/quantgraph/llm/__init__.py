"""Chat models by role, their wrappers, and the reading of their replies.

Importing this package loads no model library: each name is imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

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

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(
        __name__,
        {
            "models": ("Role", "get_light_llm", "get_llm", "role_model"),
            "recorded_model": ("RecordedChatModel",),
            "retry_policy": ("CallPolicy",),
            "structured": ("read_json",),
        },
    )


def __dir__() -> list[str]:
    return sorted(__all__)
