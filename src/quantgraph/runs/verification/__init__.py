"""Verify a finished run: the strategy's proof, the ledger, and the sentence against what ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runs._outputs import read_strategy
    from quantgraph.runs.verification._verification import audit_sentence, audit_strategy, check_run_folder

__all__ = ["audit_sentence", "audit_strategy", "check_run_folder", "read_strategy"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
