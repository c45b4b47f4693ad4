"""The market whose rules hold, by the codes of what is traded."""

from __future__ import annotations

from collections.abc import Iterable

from quantgraph.data.frame_source import FrameSource
from quantgraph.data.market_data import MarketDataSource
from quantgraph.errors import UnknownSymbol
from quantgraph.market.boards import board_of
from quantgraph.market.rulebook import Rulebook

__all__ = ["rules_of"]


def rules_of(source: MarketDataSource, symbols: Iterable[str] = (), *, slippage_bps: float = 0) -> Rulebook:
    """The rules of the US if all codes are of US stocks, else mainland China's.

    Parameters
    ----------
    source
        Its codes count if none of ``symbols`` is one, and if it holds them in memory: a vendor is not asked.
    symbols
        What the caller trades: codes, names or indices.
    slippage_bps
        Slippage of each fill, in hundredths of a percent of its amount.

    Raises
    ------
    BadFile
        If the files of the source are not valid.
    """
    codes = [symbol for symbol in symbols if _is_us(symbol) is not None]
    if not codes and isinstance(source, FrameSource) and not source.synthetic:
        codes = list(source.symbols())
    make = Rulebook.us if codes and all(map(_is_us, codes)) else Rulebook.mainland
    return make(slippage_bps=slippage_bps)


def _is_us(symbol: str) -> bool | None:
    """Whether a code is one of the US; None if it is on no board."""
    try:
        return board_of(symbol) == "us"
    except UnknownSymbol:
        return None
