"""The loop of the agents that ask models, and what they take from a host's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents.loop._host_state import account_to_json
    from quantgraph.agents.loop._model_decider import ModelLoop

__all__ = ["ModelLoop", "account_to_json"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
