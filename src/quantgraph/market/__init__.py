"""A market's calendar, moments and dated rules."""

from quantgraph.market.calendar import next_session, previous_session, sessions
from quantgraph.market.moment import Moment, Phase
from quantgraph.market.rulebook import Board, Fees, Rulebook, board_of

__all__ = [
    "Board",
    "Fees",
    "Moment",
    "Phase",
    "Rulebook",
    "board_of",
    "next_session",
    "previous_session",
    "sessions",
]
