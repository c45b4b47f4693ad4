"""A signal's positions against those of the rule that the words mean.

A signal of 1, 0, -1 and NaN holds a position: 1 enters, -1 leaves, 0 and NaN keep. Positions are compared,
not cells, so that a rule coded as a state (1 on every session above the average) and the same rule coded as
an event (1 on the session of the cross) are one. Before a signal's first 1 or -1 its position is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit._findings import Finding

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first session and symbol at which a signal and the words hold different positions.

    Attributes
    ----------
    code_long
        Whether the signal is long there, and the words are out.
    cells
        How many positions differ.
    waits
        Whether the signal has said nothing yet where the words say a state that holds.
    """

    session: pd.Timestamp
    symbol: str
    code_long: bool
    cells: int
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class _Path:
    """Whether each cell is long, whether a 1 or -1 came by then, and the row of the first (T if none)."""

    long: Bools
    spoken: Bools
    first: npt.NDArray[np.intp]


def compare_positions(
    signal: pd.DataFrame,
    words: pd.DataFrame,
    close: pd.DataFrame,
    *,
    first: pd.Timestamp | None = None,
    state: bool = False,
    lookback: int = 0,
    ends: bool = False,
    excused: pd.DataFrame | None = None,
) -> Difference | None:
    """Return where a signal holds other positions than the words' signal; None if it holds the same.

    NaN in ``close`` is a session without trading, which is not compared. For ``lookback`` sessions after a
    suspension the signal may be blind. With ``state`` one that waits for a state that holds differs. With
    ``ends`` a plan ends positions, so each new 1 counts, also one of what the signal holds. Differences that
    begin on an ``excused`` cell are none, until the positions agree again.
    """
    close, words = (each.reindex(index=signal.index, columns=signal.columns) for each in (close, words))
    traded = close.notna().to_numpy()
    code = signal.to_numpy(dtype=np.float64)
    differs = _differs(code, words.to_numpy(dtype=np.float64), traded, state=state)
    differs &= traded & _from(signal, first)[:, None]
    excuse = _settling(traded, lookback) & ~_speaks(code, traded)
    if excused is not None:
        excuse |= excused.reindex(index=signal.index, columns=signal.columns, fill_value=False).to_numpy()
    differs = _without_excused(differs, excuse, traded)
    if ends and not differs.any():
        differs = (_new_buys(signal) ^ _new_buys(words)) & _from(signal, first)[:, None]
    return _difference(signal, traded, differs) if differs.any() else None


def _new_buys(signal: pd.DataFrame) -> Bools:
    return np.asarray((signal == 1) & ~(signal.shift(1) == 1))


def _from(frame: pd.DataFrame, first: pd.Timestamp | None) -> Bools:
    index = pd.DatetimeIndex(frame.index)
    return np.ones(len(index), dtype=bool) if first is None else np.asarray(index >= first)


def _differs(code: Any, words: Any, traded: Bools, *, state: bool) -> Bools:
    """Whether the positions of each cell differ, from the first session on which the words are known.

    A symbol whose words are known on the first session has a past that the signal does not show.
    """
    known = traded & ~np.isnan(words)
    begins = np.where(known.any(axis=0), known.argmax(axis=0), len(known))
    inside = np.arange(len(known))[:, None] >= begins
    ours, theirs = _path(np.where(inside, code, 0.0)), _path(np.where(inside, words, 0.0))
    both = ours.spoken & theirs.spoken & (ours.long != theirs.long)
    alone = _alone(ours, theirs, begins) | _alone(theirs, ours, begins)
    waits = state & ~ours.spoken & theirs.spoken & theirs.long & (code == 0)
    return np.asarray((both | alone | waits) & inside & traded)


def _settling(traded: Bools, lookback: int) -> Bools:
    """Cells of the sessions after a suspension in which the windows of a rule may hold it."""
    begun = np.logical_or.accumulate(traded, axis=0)
    rows = np.arange(len(traded))[:, None]
    last = np.maximum.accumulate(np.where(begun & ~traded, rows, -lookback - 1), axis=0)
    return np.asarray(rows - last <= lookback)


def _speaks(code: Any, traded: Bools) -> Bools:
    """Where a signal changes its position."""
    long = _path(np.where(traded, code, 0.0)).long
    return np.asarray(long != np.vstack([np.zeros((1, long.shape[1]), dtype=bool), long[:-1]]))


def _without_excused(differs: Bools, excuse: Bools, traded: Bools) -> Bools:
    """The differences without those that begin on an excused cell, up to where the positions agree again."""
    kept = differs.copy()
    for column in np.flatnonzero((differs & excuse).any(axis=0)):
        excused = before = False
        for row in np.flatnonzero(traded[:, column]):
            now = bool(differs[row, column])
            excused = now and (excused or (not before and bool(excuse[row, column])))
            kept[row, column] = now and not excused
            before = now
    return kept


def _path(values: Any) -> _Path:
    """The path of a signal; one that never says 1 or -1 in a symbol is out of it throughout."""
    expected = np.nan_to_num(values) != 0
    last = np.maximum.accumulate(np.where(expected, np.arange(len(expected))[:, None], -1), axis=0)
    long = (np.take_along_axis(values, np.maximum(last, 0), axis=0) == 1) & (last >= 0)
    never = ~expected.any(axis=0)
    first = np.where(never, len(expected), expected.argmax(axis=0))
    return _Path(long=long, spoken=(last >= 0) | never, first=first)


def _alone(speaker: _Path, silent: _Path, begins: Any) -> Bools:
    """Where one signal has spoken and the other has not, and they cannot be the same rule.

    A signal of states shows a state that held from the beginning at once, and one of events only where it
    ends; both show a state that begins later, unless the silent one held it before.
    """
    count = len(speaker.long)
    place = np.minimum(speaker.first, count - 1)
    initial = np.take_along_axis(speaker.long, place[None, :], axis=0)
    may_be_held = (speaker.first <= begins + 1) | (begins == 0)
    wrong = np.where(may_be_held, speaker.long != initial, speaker.long)
    return np.asarray(speaker.spoken & ~silent.spoken & wrong)


def _difference(signal: pd.DataFrame, traded: Bools, differs: Bools) -> Difference:
    row = int(differs.any(axis=1).argmax())
    column = int(differs[row].argmax())
    return Difference(
        session=pd.DatetimeIndex(signal.index)[row],
        symbol=str(signal.columns[column]),
        code_long=_long_at(signal, traded, row, column),
        cells=int(differs.sum()),
        waits=not np.nan_to_num(signal.to_numpy(dtype=np.float64)[: row + 1, column]).any(),
    )


def _long_at(signal: pd.DataFrame, traded: Bools, row: int, column: int) -> bool:
    values = signal.to_numpy(dtype=np.float64)[: row + 1, column]
    expected = values[(np.nan_to_num(values) != 0) & (np.cumsum(traded[: row + 1, column]) > 0)]
    return bool(len(expected) and expected[-1] == 1)


def difference_finding(difference: Difference, code: Note, words: Note, *, values: Note) -> Finding:
    """Return the finding of a difference, with what each side does and the ``values`` compared there."""
    ours, theirs = ("long", "out") if difference.code_long else ("out", "long")
    zh_ours, zh_theirs = ("持有", "空仓") if difference.code_long else ("空仓", "持有")
    where = f"{difference.session:%Y-%m-%d} {difference.symbol}"
    return Finding(
        severity="warning",
        code="meaning_differs",
        message=f"{code.en} departs from {words.en}. At {where} the first is {ours}, the second {theirs}: "
        f"{values.en}. {difference.cells} positions differ.",
        zh=f"{code.zh}与{words.zh}不一致：{where} 前者{zh_ours}，后者应{zh_theirs}：{values.zh}。"
        f"共有 {difference.cells} 处持仓不同。",
        session=f"{difference.session:%Y-%m-%d}",
        symbol=difference.symbol,
        count=difference.cells,
    )
