"""Deciders: a signal traded by rule, and code that runs in a process of its own."""

from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.isolated import IsolatedDecider
from quantgraph.agents.named_deciders import make_decider
from quantgraph.agents.signal_rule import SignalRule
from quantgraph.report.benchmark import BuyAndHold

__all__ = ["BuyAndHold", "DualAgent", "IsolatedDecider", "SignalRule", "make_decider"]
