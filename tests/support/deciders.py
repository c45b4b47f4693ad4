"""Deciders that tests share."""

from __future__ import annotations

from quantgraph.agents import SignalRule
from quantgraph.broker import DataNeeds, ModelDecider


class OneByOne(SignalRule, ModelDecider):
    """The signal rule as one that asks models: each step of the loop is one session."""

    def block_rule(self, context):
        return None


class Needing(ModelDecider):
    """One that needs data, and a signal if it says so; ``seen`` is by session."""

    uses_signal = needs = None

    def __init__(self, *records, signal=False, **needs):
        self.uses_signal = signal
        self.needs = DataNeeds(**({"records": records} if records else {}), **needs)
        self.seen = {}
