"""Deciders: who turns a signal, or a view of the market, into orders.

A *decider* is a :class:`~quantgraph.broker.Decider` with a name and one method, ``decide``. ``SignalRule``
trades the signal by fixed rules and asks no model. The deciders that ask models have a folder each;
``memory`` keeps what they learned from earlier sessions.

To add one: subclass ``Decider`` in a file and name it ``FILE.py:CLASS``, or ship it in a package with an
entry point of the group ``quantgraph.deciders``. Its roles, prompts and keyless replies are its class's. A
folder here has ``_decider``, ``_keyless``, its loop or graph, and its prompts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.agents._registry import (
        as_decider,
        decider_code,
        decider_names,
        decider_place,
        make_decider,
        recorded_decider_of,
    )
    from quantgraph.agents._signal_rule import SignalRule

__all__ = [
    "SignalRule",
    "as_decider",
    "decider_code",
    "decider_names",
    "decider_place",
    "make_decider",
    "recorded_decider_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
