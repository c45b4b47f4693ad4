"""How far the result of a run can be believed: a verdict, and the evidence under it.

``judge`` reads a run's account beside its benchmark and returns plain JSON; ``verdict_line`` and
``card_rows`` say it in words. The formulas of Sharpe ratios are functions of their own: a ratio is one of
sessions (``SessionSharpe``) or of years (``YearSharpe``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.judgement._sharpe import (
        SessionSharpe,
        Shape,
        YearSharpe,
        deflated_sharpe,
        least_backtest_years,
        least_track_record,
        observed_false_discovery,
        power_of,
        probabilistic_sharpe,
        sharpe_of,
    )
    from quantgraph.judgement._tries import TRIES_FILE, Tries, counted, try_of
    from quantgraph.judgement._verdict import Circumstances, cut_off_of, judge
    from quantgraph.judgement._words import card_rows, is_judged, verdict_line

__all__ = [
    "TRIES_FILE",
    "Circumstances",
    "SessionSharpe",
    "Shape",
    "Tries",
    "YearSharpe",
    "card_rows",
    "counted",
    "cut_off_of",
    "deflated_sharpe",
    "is_judged",
    "judge",
    "least_backtest_years",
    "least_track_record",
    "observed_false_discovery",
    "power_of",
    "probabilistic_sharpe",
    "sharpe_of",
    "try_of",
    "verdict_line",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
