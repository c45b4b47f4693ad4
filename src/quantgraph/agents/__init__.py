"""Who decides."""

from quantgraph.agents.decider import Decider
from quantgraph.agents.signal_rule import SignalRule

__all__ = ["Decider", "SignalRule"]
