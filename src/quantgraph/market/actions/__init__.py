"""Dividends, splits and other corporate actions by date, and prices adjusted for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.market.actions._actions import (
        ACTION_FIELDS,
        DATE_FIELDS,
        CorporateAction,
        KnownActions,
        action_between,
        actions_of,
        adjusted,
    )

__all__ = [
    "ACTION_FIELDS",
    "DATE_FIELDS",
    "CorporateAction",
    "KnownActions",
    "action_between",
    "actions_of",
    "adjusted",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
