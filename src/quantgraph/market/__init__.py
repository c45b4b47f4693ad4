"""The exchange: its calendar, its moments, its rules by date and board, its fees.

A *session* is a trading day of the calendar (naive ``datetime64``). A *moment* is a session and a phase,
``pre_open < open < close < post_close``: it says when something becomes known or is done. The ``Rulebook``
gives lot, tick, price band, T+1 and fees of a symbol on a date. The tables of rules are TOML files with their
sources in ``_rules/``; to add a rule, add a dated row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.market._calendar import (
        DAYS_IN_A_YEAR,
        Bar,
        FeedZones,
        bar_of,
        local_zone,
        sessions,
        sessions_in_a_year,
        surely_known,
    )
    from quantgraph.market._moment import (
        PHASE_TIME,
        PHASES,
        Moment,
        Phase,
        instant_of,
        known_from,
        session_of,
        sessions_between,
    )
    from quantgraph.market.rules._rulebook import Rulebook

__all__ = [
    "DAYS_IN_A_YEAR",
    "PHASES",
    "PHASE_TIME",
    "Bar",
    "FeedZones",
    "Moment",
    "Phase",
    "Rulebook",
    "bar_of",
    "instant_of",
    "known_from",
    "local_zone",
    "session_of",
    "sessions",
    "sessions_between",
    "sessions_in_a_year",
    "surely_known",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
