"""Deciders that tests share."""

from __future__ import annotations

from quantgraph.agents import SignalRule


class OneByOne(SignalRule):
    """The signal rule without its rule for blocks: each step of the loop is one session."""

    def block_rule(self, context):
        return None
