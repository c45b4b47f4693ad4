"""The two markets in which the zoo is judged."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from quantgraph.data import open_source
from quantgraph.market.moment import Moment
from quantgraph.state import DataState

__all__ = ["CUTS", "INDICATORS", "WHOLE", "is_judged", "market", "whole_bars"]

WHOLE = bool(os.environ.get("WHOLE"))

CUTS = 40 if WHOLE else 15
"""Sessions at which an honest strategy is proved; what a leaky one shows is looked for at as many as ever."""

INDICATORS = ("turnover_rate", "pe_ttm")
"""Those that snippets ask for."""


def is_judged(number: int, panel: str) -> bool:
    """Whether a snippet is: every second on real prices, every twelfth on the sample; all with ``make zoo``."""
    return WHOLE or number % (12 if panel == "sample" else 2) == 0


@functools.cache
def market(spec: str | Path):
    """Everything that a source has as the frames of a view."""
    source, store = open_source(spec), DataState()
    sessions, symbols = source.sessions(), source.symbols()
    ref = store.update("ohlcv", source.bars(symbols, sessions[0], sessions[-1]))
    if source.name == "sample":
        ref = store.update("indicators", source.indicators(symbols, sessions[0], sessions[-1], INDICATORS))
    return store.view(Moment(sessions[-1]), ref).frozen()


def whole_bars(spec: str | Path):
    """The bars by field."""
    return {name: frame.frame for name, frame in market(spec)["ohlcv"].items()}
