"""A market's calendar, moments and dated rules."""

from quantgraph.market.calendar import next_session, previous_session, sessions
from quantgraph.market.moment import Moment, Phase
from quantgraph.market.rulebook import (
    Board,
    Charges,
    FundKind,
    ListingStatus,
    Lots,
    OrderType,
    Rulebook,
    Side,
    board_of,
)

__all__ = [
    "Board",
    "Charges",
    "FundKind",
    "ListingStatus",
    "Lots",
    "Moment",
    "OrderType",
    "Phase",
    "Rulebook",
    "Side",
    "board_of",
    "next_session",
    "previous_session",
    "sessions",
]
