"""Which board a symbol is on, and which kind of fund it is, by its code."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal, get_args

from quantgraph.errors import UnknownSymbol
from quantgraph.market.dated_rules import load_rules

Board = Literal["main", "chinext", "star", "bse", "fund", "us"]

FundKind = Literal["stock", "stock_20", "bond", "gold", "commodity", "cross_border"]
"""``bond`` includes money-market funds; ``stock_20`` tracks only shares with a 20 % band."""

_US = re.compile(r"[A-Z]{1,5}([.-](P?[A-Z]|PR[A-Z]|WS|WT|RT))?")
_LONGEST_FIRST = (6, 3, 2)


@lru_cache(maxsize=2**14)
def board_of(symbol: str) -> Board:
    """Board of a symbol by its code.

    Mainland symbols are six digits and an exchange. US symbols are up to five capital letters, with a
    class, preferred share, warrant or right after a dot or hyphen where there is one.

    Raises
    ------
    UnknownSymbol
        If the code belongs to no board: REITs, bonds, B shares and indices have other rules.

    Examples
    --------
    >>> [board_of(code) for code in ("600519.SH", "301001.SZ", "688981.SH", "920002.BJ", "510300.SH")]
    ['main', 'chinext', 'star', 'bse', 'fund']
    >>> board_of("AAPL"), board_of("BRK.B")
    ('us', 'us')
    """
    entry = _entry(symbol)
    if entry:
        return entry[0]
    if _US.fullmatch(symbol):
        return "us"
    raise UnknownSymbol(
        f"{symbol!r} is on no board of the rulebook; shares are written like 600519.SH, 000001.SZ, "
        "300750.SZ, 688981.SH, 920002.BJ, funds like 510300.SH, US symbols like AAPL or BRK.B",
        symbol=symbol,
    )


def find_board(symbol: str) -> Board | None:
    """Board of a symbol by its code, None if it is on none.

    >>> find_board("600519.SH"), find_board("000016.SH")
    ('main', None)
    """
    try:
        return board_of(symbol)
    except UnknownSymbol:
        return None


def fund_kind(symbol: str) -> FundKind:
    """Kind of a fund by its code.

    Raises
    ------
    UnknownSymbol
        If its code segment holds funds of many kinds.

    Examples
    --------
    >>> fund_kind("510300.SH"), fund_kind("510900.SH"), fund_kind("588000.SH")
    ('stock', 'cross_border', 'stock_20')
    """
    entry = _entry(symbol)
    kind = entry[1] if entry else None
    if kind is None:
        raise UnknownSymbol(
            f"the code of {symbol} does not tell what kind of fund it is; say it when the rulebook is made: "
            f"funds={{{symbol!r}: 'stock'}}, one of {', '.join(get_args(FundKind))}",
            symbol=symbol,
        )
    return kind


def exchange_of(symbol: str) -> str:
    """Exchange of a mainland symbol as the names of tables have it: ``sh``, ``sz``, ``bj``."""
    return symbol[-2:].lower()


def _entry(symbol: str) -> tuple[Board, FundKind | None] | None:
    digits, _, exchange = symbol.partition(".")
    if len(digits) != 6 or not (digits.isascii() and digits.isdecimal()):
        return None
    codes = _codes()
    found = (codes.get((exchange, digits[:length])) for length in _LONGEST_FIRST)
    return next(filter(None, found), None)


@cache
def _codes() -> dict[tuple[str, str], tuple[Board, FundKind | None]]:
    codes: dict[tuple[str, str], tuple[Board, FundKind | None]] = {}
    for row in load_rules("cn")["codes"]:
        kind = row.get("kind")
        entry = row["board"], None if kind == "unknown" else kind
        codes |= {(row["exchange"], prefix): entry for prefix in row["prefixes"]}
    return codes
