"""The market whose rules hold, by the codes of what is traded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from quantgraph.data.frame_source import FrameSource
from quantgraph.data.market_data import MarketDataSource
from quantgraph.data.symbol_codes import possible_codes, standard_code
from quantgraph.data.symbol_resolution import names_in
from quantgraph.errors import BadOption
from quantgraph.market.boards import find_board
from quantgraph.market.rulebook import Rulebook

_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)?")


def rules_of(
    source: MarketDataSource,
    symbols: Iterable[str] = (),
    said: str = "",
    *,
    slippage_bps: float = 0,
    traded: bool = True,
) -> Rulebook:
    """The rules of the market that all codes are of; mainland China's if there is no code.

    Parameters
    ----------
    source
        Its codes count if none of ``symbols`` is one, and if it holds them in memory: a vendor is not asked.
        Of two markets, the codes and names that are said count.
    symbols
        What the caller trades: codes, names or indices.
    said
        The sentence.
    slippage_bps
        Slippage of each fill, in hundredths of a percent of its amount.
    traded
        False takes mainland China's rules where nothing tells between two markets.

    Raises
    ------
    BadOption
        If the codes are of two markets.
    BadFile
        If the files of the source are not valid.
    """
    codes = list(filter(find_board, symbols))
    if not codes and isinstance(source, FrameSource) and not source.synthetic:
        held = source.symbols()
        codes = list(held) if len(_markets(held)) < 2 else _named(source, said) or list(held)
    return rules_of_codes(codes, slippage_bps=slippage_bps, traded=traded)


def rules_of_codes(codes: Iterable[str], *, slippage_bps: float = 0, traded: bool = True) -> Rulebook:
    """The rules of the market that some codes are of; see :func:`rules_of`.

    Raises
    ------
    BadOption
        If they are of two markets.
    """
    markets = _markets(codes)
    if len(markets) > 1 and traded:
        raise BadOption(
            f"{', '.join(markets.values())} are of two markets; say whose rules hold: "
            "rules=Rulebook.mainland() or Rulebook.us(), on the command line --market cn or us",
            parameter="rules",
        )
    make = Rulebook.us if markets.keys() == {True} else Rulebook.mainland
    return make(slippage_bps=slippage_bps)


def _markets(codes: Iterable[str]) -> dict[bool, str]:
    """An example of each market, whether of the US or not."""
    found: dict[bool, str] = {}
    for code in codes:
        if board := find_board(code):
            found.setdefault(board == "us", code)
    return found


def _named(source: MarketDataSource, said: str) -> list[str]:
    """Codes of a source that a sentence names; words in small letters are none."""
    tokens = [token for token in _TOKEN.findall(said) if re.search(r"[A-Z0-9]", token)]
    meant = [code for token in tokens for code in (standard_code(token), *possible_codes(token))]
    held = frozenset(source.symbols())
    return [code for code in (*names_in(said, source).values(), *meant) if code in held]
