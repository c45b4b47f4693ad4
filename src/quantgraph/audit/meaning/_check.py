"""A signal's positions against those that the words mean, under every convention that they leave open.

A signal of 1, 0, -1 and NaN holds a position: 1 enters, -1 leaves, 0 and NaN keep. Positions are compared,
not cells, so that a rule coded as a state (1 on every session above the average) and the same rule coded as
an event (1 on the session of the cross) are one. Before a signal's first 1 or -1 its position is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit._findings import Finding
from quantgraph.audit.meaning._structure import ExpectedSignal, structural_findings

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The signal that the words mean under one set of conventions.

    Attributes
    ----------
    signal
        Sessions x symbols, 1, 0, -1; NaN until the values that the rule compares are known.
    explain
        What the words say at a session and symbol, with the values compared.
    tied
        Where values that the rule compares are equal but for rounding; None if that is not known.
    """

    signal: pd.DataFrame
    explain: Callable[[pd.Timestamp, str], Note]
    tied: pd.DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first session and symbol at which a signal and the words hold different positions."""

    session: pd.Timestamp
    symbol: str
    code_long: bool
    cells: int
    explanation: Note
    waits: bool = False


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A signal beside the closest reading of the words."""

    code_counts: tuple[int, int]
    words_counts: tuple[int, int]
    difference: Difference | None


@dataclass(frozen=True, kw_only=True)
class _Path:
    """Whether each cell is long, whether a 1 or -1 came by then, and the row of the first (T if none)."""

    long: Bools
    spoken: Bools
    first: npt.NDArray[np.intp]


def compare_positions(
    signal: pd.DataFrame,
    close: pd.DataFrame,
    readings: Iterable[Iterable[Reading]],
    *,
    first: pd.Timestamp | None = None,
    state: bool = False,
    lookback: int = 0,
) -> Comparison | None:
    """Compare a signal with the readings until one holds the same positions; None if there is no reading.

    NaN in ``close`` is a session without trading, which is not compared. For ``lookback`` sessions after a
    suspension, and where values are tied, the code may be blind or take another reading of the group; a
    position that no reading holds is a difference there, too.
    """
    columns = [str(name) for name in signal.columns]
    close = close.reindex(index=signal.index, columns=signal.columns)
    traded = close.notna().to_numpy()
    compared = traded & _from(signal, first)[:, None]
    code = signal.to_numpy(dtype=np.float64)
    settling, speaks = _settling(traded, lookback), _speaks(code, traded)
    best: tuple[Bools, Reading] | None = None
    for group in readings:
        ways: list[Bools] = []
        tied = np.zeros(signal.shape, dtype=bool)
        chosen: Reading | None = None
        for reading in group:
            words = reading.signal.reindex(index=signal.index, columns=signal.columns)
            way = _differs(code, words.to_numpy(dtype=np.float64), traded, state=state) & compared
            ways.append(way)
            tied |= _ties(reading, signal)
            chosen = chosen or reading
            if not _fewest(ways).any():
                return _comparison(signal, compared, reading, None)
        if chosen is None:
            continue
        held = np.logical_or.reduce([~way for way in ways])
        excuse = (tied & held) | (settling & (held | ~speaks))
        fewest = _fewest([_without_excused(way, excuse, traded) for way in ways])
        if not fewest.any():
            return _comparison(signal, compared, chosen, None)
        if best is None or fewest.sum() < best[0].sum():
            best = fewest, chosen
    if best is None:
        return None
    return _comparison(signal, compared, best[1], _difference(signal, columns, compared, *best))


def _ties(reading: Reading, signal: pd.DataFrame) -> Bools:
    if reading.tied is None:
        return np.zeros(signal.shape, dtype=bool)
    tied = reading.tied.reindex(index=signal.index, columns=signal.columns)
    return np.asarray(tied.fillna(False).to_numpy(dtype=bool))


def _fewest(ways: Sequence[Bools]) -> Bools:
    """The differences from the first reading, without the symbols on which another reading agrees."""
    agreed = np.logical_or.reduce([~way.any(axis=0) for way in ways])
    return np.where(agreed, False, ways[0])


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


def _comparison(
    signal: pd.DataFrame, traded: Bools, reading: Reading, difference: Difference | None
) -> Comparison:
    words = reading.signal.reindex(index=signal.index, columns=signal.columns)
    return Comparison(
        code_counts=_counts(signal, traded), words_counts=_counts(words, traded), difference=difference
    )


def _difference(
    signal: pd.DataFrame, columns: list[str], traded: Bools, differs: Bools, reading: Reading
) -> Difference:
    row = int(differs.any(axis=1).argmax())
    column = int(differs[row].argmax())
    session, symbol = pd.DatetimeIndex(signal.index)[row], columns[column]
    return Difference(
        session=session,
        symbol=symbol,
        code_long=_long_at(signal, traded, row, column),
        cells=int(differs.sum()),
        explanation=reading.explain(session, symbol),
        waits=not np.nan_to_num(signal.to_numpy(dtype=np.float64)[: row + 1, column]).any(),
    )


def _long_at(signal: pd.DataFrame, traded: Bools, row: int, column: int) -> bool:
    values = signal.to_numpy(dtype=np.float64)[: row + 1, column]
    expected = values[(np.nan_to_num(values) != 0) & (np.cumsum(traded[: row + 1, column]) > 0)]
    return bool(len(expected) and expected[-1] == 1)


def _counts(signal: pd.DataFrame, traded: Bools) -> tuple[int, int]:
    values = np.where(traded, signal.to_numpy(dtype=np.float64), 0.0)
    return int((values == 1).sum()), int((values == -1).sum())


_DECIDED_BY_READING = ("meaning_never_buys", "meaning_never_sells", "meaning_alike")
"""Structural findings that say nothing where the positions were compared."""


def check_meaning(
    signal: pd.DataFrame,
    close: pd.DataFrame,
    expected: ExpectedSignal,
    readings: Iterable[Iterable[Reading]] | None = None,
    *,
    first: pd.Timestamp | None = None,
) -> tuple[Finding, ...]:
    """Return how a signal departs from the sentence, as warnings; the difference of positions comes first.

    Parameters
    ----------
    signal, close
        Sessions x symbols. NaN in ``close`` is a session without trading.
    readings
        The signals that the words mean, see :func:`.compare_positions`; None if code cannot read them whole.
    first
        First session that counts.
    """
    found = list(structural_findings(signal, close, expected, first=first))
    if readings is None:
        return tuple(found)
    compared = compare_positions(
        signal, close, readings, first=first, state=expected.state, lookback=expected.lookback
    )
    if compared is None:
        return tuple(found)
    found = [_with_words(each, compared) for each in found if each.code not in _DECIDED_BY_READING]
    difference = compared.difference
    return (*([] if difference is None else [_difference_finding(compared, difference, expected)]), *found)


def _with_words(finding: Finding, compared: Comparison) -> Finding:
    if finding.code != "meaning_not_an_event":
        return finding
    count = compared.words_counts[0]
    return replace(
        finding,
        message=f"{finding.message} The words buy on {count} cells.",
        zh=f"{finding.zh}按原话买入 {count} 次。",
    )


def _difference_finding(compared: Comparison, difference: Difference, expected: ExpectedSignal) -> Finding:
    return Finding(
        severity="warning",
        code="meaning_differs",
        message=_difference_in_english(compared, difference, expected),
        zh=_difference_in_chinese(compared, difference, expected),
        session=f"{difference.session:%Y-%m-%d}",
        symbol=difference.symbol,
        count=difference.cells,
    )


def _waits(difference: Difference, expected: ExpectedSignal) -> bool:
    return expected.state and difference.waits and not difference.code_long


def _difference_in_english(compared: Comparison, difference: Difference, expected: ExpectedSignal) -> str:
    ours, theirs = ("long", "out") if difference.code_long else ("out", "long")
    (buys, sells), (word_buys, word_sells) = compared.code_counts, compared.words_counts
    waits = " The words say a state, which holds already; the code waits for its beginning."
    state = waits if _waits(difference, expected) else ""
    quote = f" The words: «{expected.sentence}»." if expected.sentence else ""
    return (
        f"The code departs from the sentence. At {difference.session:%Y-%m-%d} {difference.symbol} the code "
        f"is {ours}, the words are {theirs}: {difference.explanation.en}. The code buys {buys} times and "
        f"sells {sells} times, the words {word_buys} and {word_sells}; {difference.cells} positions "
        f"differ.{state}{quote}"
    )


def _difference_in_chinese(compared: Comparison, difference: Difference, expected: ExpectedSignal) -> str:
    ours, theirs = ("持有", "空仓") if difference.code_long else ("空仓", "持有")
    (buys, sells), (word_buys, word_sells) = compared.code_counts, compared.words_counts
    state = "所说的是一种状态，当时已经成立，代码却在等它开始。" if _waits(difference, expected) else ""
    quote = f"原话：“{expected.sentence}”。" if expected.sentence else ""
    return (
        f"代码与所说的不一致：{difference.session:%Y-%m-%d} {difference.symbol} 代码{ours}，"
        f"按原话应{theirs}：{difference.explanation.zh}。代码买入 {buys} 次、卖出 {sells} 次，"
        f"按原话为 {word_buys} 次和 {word_sells} 次；共有 {difference.cells} 处持仓不同。{state}{quote}"
    )
