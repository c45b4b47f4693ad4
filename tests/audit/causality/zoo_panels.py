"""The two markets in which the zoo is tested, and the part of it that the default suite runs."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from quantgraph.data import open_source
from quantgraph.market import Moment
from quantgraph.state import DataState

__all__ = ["CUTS", "INDICATORS", "WHOLE", "in_suite", "market", "whole_bars"]

WHOLE = bool(os.environ.get("WHOLE"))

CUTS = 40 if WHOLE else 15
"""Sessions at which an honest strategy is proved; a leaky one is always tested at 40."""

INDICATORS = ("turnover_rate", "pe_ttm")
"""Indicator fields that snippets read."""


def in_suite(number: int, panel: str) -> bool:
    """Whether a snippet is run: every third on real prices, every twelfth on the sample; all by ``make zoo``."""
    return WHOLE or number % (12 if panel == "sample" else 3) == 0


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
