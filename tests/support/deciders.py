"""Deciders that tests share."""

from __future__ import annotations

from quantgraph.agents import SignalRule
from quantgraph.broker import ModelDecider


class OneByOne(SignalRule, ModelDecider):
    """The signal rule as one that asks models: each step of the loop is one session."""

    def block_rule(self, context):
        return None
