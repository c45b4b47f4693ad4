"""Who decides."""

from quantgraph.agents.decider import Decider
from quantgraph.agents.isolated import IsolatedDecider
from quantgraph.agents.signal_rule import SignalRule
from quantgraph.report.benchmark import BuyAndHold

__all__ = ["BuyAndHold", "Decider", "IsolatedDecider", "SignalRule"]
