"""Canaries: runs over data with sentinels in place of the future, and the search for them in the output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.testing.canary._watch import differences

__all__ = ["differences"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, {"_watch": "differences"})
