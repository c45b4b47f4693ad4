"""Compare the positions of a signal with those of a rule that the same words say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.audit.meaning._check import Difference, compare_positions, difference_finding

__all__ = ["Difference", "compare_positions", "difference_finding"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
