"""Numbers that a model states, checked against the numbers that it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools.claims._calculations import check_calculation
    from quantgraph.tools.claims._numbers import NumberFacts, numbers_in, unresolved_numbers

__all__ = ["NumberFacts", "check_calculation", "numbers_in", "unresolved_numbers"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
