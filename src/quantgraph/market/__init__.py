"""A market's calendar, moments and dated rules."""

from quantgraph.market.calendar import next_session, previous_session, sessions
from quantgraph.market.moment import Moment, Phase
from quantgraph.market.rulebook import (
    Board,
    Charges,
    FundKind,
    Lots,
    OrderType,
    Rulebook,
    Side,
    Status,
    board_of,
)

__all__ = [
    "Board",
    "Charges",
    "FundKind",
    "Lots",
    "Moment",
    "OrderType",
    "Phase",
    "Rulebook",
    "Side",
    "Status",
    "board_of",
    "next_session",
    "previous_session",
    "sessions",
]
