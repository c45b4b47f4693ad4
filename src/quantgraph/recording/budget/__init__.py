"""Limits of a run on calls, tokens and cost, reserved before a call and settled after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.recording.budget._budget import (
        Budget,
        Caller,
        CallEstimate,
        CallUsage,
        Reservation,
        max_tokens_of,
        no_answer_text,
    )

__all__ = ["Budget", "CallEstimate", "CallUsage", "Caller", "Reservation", "max_tokens_of", "no_answer_text"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
