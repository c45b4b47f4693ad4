"""Checks of data, of code and of meaning, each with findings that name the place.

A *finding* has a code, a severity, a sentence and, where there is one, a symbol and a session; a *report*
collects them. ``bars`` checks market data and signals, ``causality`` proves that code reads no future,
``meaning`` compares a signal with its sentence. To add a check: return more findings from the
room's ``check_`` function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.audit._findings import Finding, Report, first_lines, issue_text

__all__ = ["Finding", "Report", "first_lines", "issue_text"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
