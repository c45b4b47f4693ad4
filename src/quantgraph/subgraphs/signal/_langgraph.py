"""Two things that LangGraph keeps to itself and we need, and a limit that we need not.

The two are keys of ``config["configurable"]`` as of langgraph 1.2; a test looks at them, so that an upgrade
tells.
"""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config

__all__ = ["SAVES_NOTHING", "STEP_LIMIT", "is_remembered"]

STEP_LIMIT = 100_000
"""``recursion_limit`` of graphs whose loops end for reasons of their own: two hundred years of sessions."""

_CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"

SAVES_NOTHING: RunnableConfig = {"configurable": {_DURABILITY: "exit"}}
"""For a graph without checkpoints inside a node: a host's ``durability="sync"`` is inherited by name, and
would wait for checkpoints that are never written. The argument ``durability=`` would warn of that."""


def is_remembered() -> bool:
    """Whether the running graph has a checkpointer, its own or its host's; True outside of a graph.

    A ``thread_id`` is no sign of one: LangGraph takes it without a checkpointer, and forgets.
    """
    try:
        config = get_config()
    except RuntimeError:
        return True
    return config["configurable"].get(_CHECKPOINTER) is not None
