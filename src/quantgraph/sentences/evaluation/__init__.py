"""Values of a rule tree computed apart from its code, with the conventions that a sentence leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sentences.evaluation._choices import Choice, convention_choices
    from quantgraph.sentences.evaluation._evaluation import (
        RuleData,
        rule_readings,
    )

__all__ = ["Choice", "RuleData", "convention_choices", "rule_readings"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
