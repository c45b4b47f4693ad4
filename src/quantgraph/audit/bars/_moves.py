"""Moves that a market's rules forbid, or that look like a split, of which the data say no action."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Language, say
from quantgraph.audit.bars._checks import TICK, BarArrays, Floats
from quantgraph.errors import QuantGraphError
from quantgraph.market import Rulebook, bar_of
from quantgraph.market.actions import action_between
from quantgraph.market.rules import ListingStatus, find_board

Rows = NDArray[np.intp]

_LEAST_MOVE, _LEAST_OF_ST, _LEAST_SPLIT = 0.095, 0.045, 0.3
"""Smaller moves since the close before are within every limit, and no split of the US."""
_ROOM = 5e-3
"""Adjusted prices are rounded, and so are their limits."""
_NEW_SESSIONS = 5
"""A new share may have no limits in its first sessions, and the first of the data may be these."""
_NEAR = 0.03
_SPLITS = (1.5, *map(float, (*range(2, 9), 10, 15, 20, 25, 30, 40, 50, 100, 1000)))
_UNITS = (10.0, 100.0, 1000.0)
_MOST_BONUS = 30
"""Of new shares for ten."""


class Move(TypedDict):
    """A move that no action in the data explains, and the action that would.

    Attributes
    ----------
    session
        ``YYYY-MM-DD``, whose close is the first after it.
    move
        Close over the close before, less 1.
    split
        Shares after the action of one; None if no action explains it.
    dividend
        Cash a share that goes with the split, in the market's currency.
    """

    session: str
    move: float
    split: float | None
    dividend: float


def unexplained_moves(
    fields: Mapping[str, pd.DataFrame], *, symbols: Sequence[str], sessions: pd.DatetimeIndex
) -> dict[str, list[Move]]:
    """Moves of daily bars that their market's rules forbid, or that are near a split, by symbol.

    On the mainland that is a close beyond the limits of its day, which count from the close before, less the
    actions in the data. First sessions of a listing and those after a gap are exempt: the limits of these are
    others, or count from another price. In the US it is an open near a split's share of the close before.

    Parameters
    ----------
    fields
        Frames of ``open`` and ``close``, and of ``pre_close``, limits, ``dividend``, ``split`` and listing
        status where there are, sessions x symbols.
    """
    if len(sessions) < 2 or bar_of(sessions) != "daily":
        return {}
    listed = [symbol for symbol in symbols if symbol in fields["close"] and find_board(symbol)]
    close = fields["close"].reindex(index=sessions, columns=listed)
    bars = BarArrays(close, fields)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = bars.theoretical()
        moves = np.abs(bars["close"] / before - 1)
    moves[bars.resumed] = np.nan
    moves[(bars["close"] <= 0) | (before <= 0)] = np.nan  # bars that cannot be are another question
    found: dict[str, list[Move]] = {}
    for column, symbol in enumerate(listed):
        is_us = find_board(symbol) == "us"
        least = np.where(bars["is_st"][:, column] == 1, _LEAST_OF_ST, _LEAST_MOVE)
        rows = np.flatnonzero(moves[:, column] > (_LEAST_SPLIT if is_us else least))
        each = _splits_of(bars, before, rows, column) if is_us else _beyond_limits(bars, before, rows, column)
        if listed_moves := list(each):
            found[symbol] = listed_moves
    return found


def _splits_of(bars: BarArrays, before: Floats, rows: Rows, column: int) -> Iterator[Move]:
    for row in map(int, rows):
        opened, closed = (bars[name][row, column] / before[row, column] for name in ("open", "close"))
        start = closed if math.isnan(opened) else opened
        split = _nearest(start, [*_SPLITS, *(1 / each for each in _SPLITS)])
        if abs(start * split - 1) < _NEAR:
            yield _move(bars, row, closed, split)


def _beyond_limits(bars: BarArrays, before: Floats, rows: Rows, column: int) -> Iterator[Move]:
    symbol = bars.symbols[column]
    for row in map(int, rows):
        reference, stated = before[row, column], bars["pre_close"][row, column]
        if int(bars.traded[:row, column].sum()) < _NEW_SESSIONS:
            continue
        limits = _limits(bars, symbol, row, column, reference)
        if limits is None:
            continue
        closed = bars["close"][row, column]
        room = TICK + _ROOM * reference
        if limits[0] - room <= closed <= limits[1] + room:
            continue
        if stated > 0 and abs(stated - reference) > room:  # the exchange says what it counts from
            if stated > reference:  # an action that the price did not follow
                continue
            split, cash = action_between(float(reference), float(stated))
            yield _move(bars, row, closed / reference, split, cash)
            continue
        opened = bars["open"][row, column]
        start = (closed if math.isnan(opened) else opened) / reference
        bonus = [1 + new / 10 for new in range(1, _MOST_BONUS + 1)]
        split = _nearest(start, [*bonus, *_UNITS, *(1 / each for each in _UNITS)])
        fits = limits[0] - room <= closed * split <= limits[1] + room
        yield _move(bars, row, closed / reference, split if fits else None)


def _limits(
    bars: BarArrays, symbol: str, row: int, column: int, reference: float
) -> tuple[float, float] | None:
    """Lower and upper limit of a day, as if it counted from the close before; None without."""
    of_day = ListingStatus.of(
        {name: bars[name][row, column] for name in ("is_st", "listing_day", "delisting_day")}
    )
    try:
        found = Rulebook.mainland().limits(symbol, bars.sessions[row].date(), float(reference), of_day)
    except QuantGraphError:  # a fund of a kind that its code does not tell, a day before the known rules
        return None
    return None if found is None else (float(found[1]), float(found[0]))


def _nearest(start: float, splits: Sequence[float]) -> float:
    return min(splits, key=lambda split: abs(math.log(start * split)))


def _move(bars: BarArrays, row: int, ratio: float, split: float | None, dividend: float = 0.0) -> Move:
    return {
        "session": f"{bars.sessions[row]:%Y-%m-%d}",
        "move": round(float(ratio) - 1, 4),
        "split": split,
        "dividend": dividend,
    }


def move_lines(moves: Mapping[str, Sequence[Move]], user_language: Language) -> list[str]:
    """A line for the moves of one kind on one day.

    >>> bonus: Move = {"session": "2024-02-13", "move": -0.48, "split": 2.0, "dividend": 0.0}
    >>> move_lines({"600000.SH": [bonus], "600016.SH": [bonus]}, "en")
    ['2024-02-13 -48.0%, as by a 10-for-10 bonus, 600000.SH and 1 more']
    """
    alike: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for code, each in moves.items():
        for move in each:
            alike.setdefault((move["session"], _action_words(code, move, user_language)), []).append(
                (code, move["move"])
            )
    lines = []
    for (session, words), found in alike.items():
        code, size = found[0]
        more = len(found) - 1
        zh, en = (f" 等 {more + 1} 只", f" and {more} more") if more else ("", "")
        as_zh, as_en = (f"，像是{words}", f", as by {words}") if words else ("", "")
        lines.append(
            say(
                user_language,
                zh=f"{session} {code}{zh} {size:+.1%}{as_zh}",
                en=f"{session} {size:+.1%}{as_en}, {code}{en}",
            )
        )
    return lines


def _action_words(symbol: str, move: Move, user_language: Language) -> str:
    """The action that would explain a move; empty if none does."""
    split, cash = move["split"], move["dividend"]
    if split is None:
        return ""
    if find_board(symbol) == "us":
        whole = f"{split:g}" if split >= 1 else f"{1 / split:g}"
        ratio = "3-for-2" if split == 1.5 else f"{whole}-for-1" if split > 1 else f"1-for-{whole}"
        zh = f"{'拆股' if split > 1 else '合股'} {ratio}"
        return say(user_language, zh=zh, en=f"a {ratio} split")
    if split in _UNITS or 1 / split in _UNITS:
        return say(user_language, zh=f"单位改变 {1 / split:g} 倍", en=f"a change of unit by {1 / split:g}")
    bonus = round((split - 1) * 10, 1)
    zh, en = (f"10 送转 {bonus:g}", f"a {bonus:g}-for-10 bonus") if bonus else ("", "")
    if cash:
        zh += f"{'，' if zh else ''}每股分红 {cash:g}"
        en += f"{' and ' if en else 'a dividend of '}{cash:g} in cash a share"
    return say(user_language, zh=zh, en=en)
