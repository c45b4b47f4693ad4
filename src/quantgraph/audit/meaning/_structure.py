"""Faults that show in a signal alone, each with its first cell: no reading of the words is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit._findings import Finding

Bools = npt.NDArray[np.bool_]

_BLIND_SESSIONS = 3
"""Sessions in a row without an opinion that are a finding: a comparison with the session before lacks one."""
_RUN_SHARE = 0.5
"""Share of the buys of an event that may follow a buy on the session before."""
_MOST = 0.5
"""Share of the sessions on which an event may buy."""
_FEW = 3
"""Buys on consecutive sessions below which a signal is not a state."""


@dataclass(frozen=True, kw_only=True)
class ExpectedSignal:
    """What the words say of a signal, as far as code read it.

    Attributes
    ----------
    sentence
        The rule in the words, quoted in findings.
    event
        ``cross`` if the entry is a cross, which cannot hold on two sessions in a row; ``break`` for another
        event.
    state
        Whether the entry is a state, which may hold on many sessions in a row.
    lookback
        Sessions that the rule looks back, its own included; 0 if it is not read.
    names_exit
        Whether the words name an exit.
    per_symbol
        Whether the rule looks at each symbol by itself.
    traded
        Codes that may have a signal; empty if all may.
    windows
        First and last session of each span; empty if all sessions are inside.
    """

    sentence: str = ""
    event: Literal["", "cross", "break"] = ""
    state: bool = False
    lookback: int = 0
    names_exit: bool = False
    per_symbol: bool = False
    traded: tuple[str, ...] = ()
    windows: tuple[tuple[pd.Timestamp, pd.Timestamp], ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Cells:
    """Values (T, N) of a signal, where the symbols traded, and the names of rows and columns."""

    values: npt.NDArray[np.float64]
    traded: Bools
    sessions: pd.DatetimeIndex
    symbols: tuple[str, ...]

    def finding(self, code: str, message: Note, where: Bools, **more: Any) -> Finding:
        """Return the finding with the first cell of ``where``."""
        row = int(where.any(axis=1).argmax())
        column = int(where[row].argmax())
        session, symbol = f"{self.sessions[row]:%Y-%m-%d}", self.symbols[column]
        value = self.values[row, column]
        held = "NaN" if np.isnan(value) else f"{value:g}"
        return Finding(
            severity="warning",
            code=f"meaning_{code}",
            message=f"{message.en} First at {session} {symbol}, where the signal is {held}.",
            zh=f"{message.zh}首次在 {session} {symbol}，那里的信号是 {held}。",
            session=session,
            symbol=symbol,
            **more,
        )


def structural_findings(
    signal: pd.DataFrame, close: pd.DataFrame, expected: ExpectedSignal, *, first: pd.Timestamp | None = None
) -> Iterator[Finding]:
    """Yield the faults of a signal from ``first`` on, as warnings; NaN in ``close``: no trading."""
    close = close.reindex(index=signal.index, columns=signal.columns)
    sessions = pd.DatetimeIndex(signal.index)
    judged = np.ones(len(sessions), dtype=bool) if first is None else np.asarray(sessions >= first)
    cells = _Cells(
        values=signal.to_numpy(dtype=np.float64)[judged],
        traded=close.notna().to_numpy()[judged],
        sessions=sessions[judged],
        symbols=tuple(map(str, signal.columns)),
    )
    if cells.traded.any():
        yield from _one_sided(cells, expected)
        yield from _not_an_event(cells, expected)
        yield from _blind(cells)
        yield from _alike(cells, expected)
        yield from _unexpected(cells, expected)


_NEVER_BUYS = Note(zh="代码从不买入。", en="The code never buys.")
_NEVER_SELLS = Note(
    zh="说了卖出条件，代码却从不卖出。", en="The code never sells, though the words name an exit."
)


def _one_sided(cells: _Cells, expected: ExpectedSignal) -> Iterator[Finding]:
    buys, sells = cells.values == 1, cells.values == -1
    if not buys.any():
        yield cells.finding("never_buys", _NEVER_BUYS, cells.traded)
    elif expected.names_exit and not sells.any():
        yield cells.finding("never_sells", _NEVER_SELLS, buys)


def _not_an_event(cells: _Cells, expected: ExpectedSignal) -> Iterator[Finding]:
    if not expected.event:
        return
    buys = (cells.values == 1) & cells.traded
    total = int(buys.sum())
    repeated = buys & (_previous_traded(cells) == 1)
    again = int(repeated.sum())
    if expected.event == "cross" and again >= _FEW and again > _RUN_SHARE * total:
        message = Note(
            zh=f"所说的买入是一日之内的穿越事件，代码却买入 {total} 次，其中 {again} 次前一交易日刚买过。",
            en=f"The words call the entry a cross, an event of one session; the code buys on {total} cells, "
            f"{again} of them right after a buy on the session before.",
        )
        yield cells.finding("not_an_event", message, repeated, count=again)
    elif total > _MOST * int((cells.traded & ~np.isnan(cells.values)).sum()):
        message = Note(
            zh=f"所说的买入是一个事件，代码却在大多数交易日买入：{total} 次。",
            en=f"The words call the entry an event, but the code buys on most sessions: {total} cells.",
        )
        yield cells.finding("not_an_event", message, buys, count=total)


def _previous_traded(cells: _Cells) -> npt.NDArray[np.float64]:
    """The signal of each symbol's traded session before; 0 before the first."""
    rows = np.arange(len(cells.values))[:, None]
    last = np.maximum.accumulate(np.where(cells.traded, rows, -1), axis=0)
    before = np.vstack([np.full((1, last.shape[1]), -1), last[:-1]])
    values = np.take_along_axis(np.nan_to_num(cells.values), np.maximum(before, 0), axis=0)
    return np.where(before >= 0, values, 0.0)


def _blind(cells: _Cells) -> Iterator[Finding]:
    """Traded cells behind a suspension without an opinion, several sessions in a row."""
    missing = np.isnan(cells.values)
    seen = np.logical_or.accumulate(~missing & cells.traded, axis=0)
    suspended = ~cells.traded & seen
    blind = np.zeros_like(missing)
    for column in np.flatnonzero((suspended.any(axis=0)) & (missing & cells.traded & seen).any(axis=0)):
        gone, run = False, []
        for row in range(len(missing)):
            if suspended[row, column]:
                gone = True
            elif cells.traded[row, column] and missing[row, column] and gone:
                run.append(row)
                continue
            elif cells.traded[row, column]:
                gone = False
            if len(run) >= _BLIND_SESSIONS:
                blind[run, column] = True
            run = []
        if len(run) >= _BLIND_SESSIONS:
            blind[run, column] = True
    if blind.any():
        count = int(blind.sum())
        listed = _name_list([cells.symbols[at] for at in np.flatnonzero(blind.any(axis=0))])
        message = Note(
            zh=f"停牌之后，代码在 {count} 个有成交的格子上没有观点（{listed.zh}）：滚动窗口里有 NaN。",
            en=f"The code has no opinion on {count} traded cells after a suspension ({listed.en}): a NaN is "
            "inside its rolling windows.",
        )
        detail = (
            "Compute each symbol on its own sessions, for example "
            "close.apply(lambda s: s.dropna().rolling(20).mean().reindex(s.index))."
        )
        yield cells.finding("blind", message, blind, count=count, detail=detail)


def _name_list(names: list[str]) -> Note:
    """The first five names, and how many more there are."""
    first, more = ", ".join(names[:5]), len(names) - 5
    return Note(
        zh=first + (f" 等 {len(names)} 只" if more > 0 else ""),
        en=first + (f" and {more} more" if more > 0 else ""),
    )


def _alike(cells: _Cells, expected: ExpectedSignal) -> Iterator[Finding]:
    values = np.nan_to_num(cells.values)[:, cells.traded.any(axis=0)]
    if not expected.per_symbol or values.shape[1] < 2 or not values.any():
        return
    if bool((values == values[:, :1]).all()):
        count = values.shape[1]
        message = Note(
            zh=f"规则是针对每只股票的，全部 {count} 只股票的信号却完全相同。",
            en=f"The signals of all {count} symbols are equal, though the rule is of each symbol.",
        )
        yield cells.finding("alike", message, (cells.values != 0) & ~np.isnan(cells.values))


def _unexpected(cells: _Cells, expected: ExpectedSignal) -> Iterator[Finding]:
    spoken = np.nan_to_num(cells.values) != 0
    if missing := [code for code in expected.traded if code not in cells.symbols]:
        listed = _name_list(missing)
        yield Finding(
            severity="warning",
            code="meaning_missing_symbol",
            message=f"The signal has no column of symbols that are to be traded: {listed.en}.",
            zh=f"要交易的股票没有信号列：{listed.zh}。",
            symbol=missing[0],
            count=len(missing),
        )
    if expected.traded:
        strange = spoken & ~np.isin(np.array(cells.symbols), expected.traded)[None, :]
        if strange.any():
            count = int(strange.sum())
            message = Note(
                zh=f"代码对没有要求交易的股票发出了信号：{count} 次。",
                en=f"The code has signals for symbols that are not to be traded: {count} cells.",
            )
            yield cells.finding("unsaid_symbol", message, strange, count=count)
    if expected.windows:
        inside = np.zeros(len(cells.sessions), dtype=bool)
        for begin, end in expected.windows:
            inside |= np.asarray((cells.sessions >= begin) & (cells.sessions <= end))
        outside = spoken & ~inside[:, None]
        if outside.any():
            count = int(outside.sum())
            message = Note(
                zh=f"代码在所说的时间段之外发出了信号：{count} 次。",
                en=f"The code has signals outside of the spans of the sentence: {count} cells.",
            )
            yield cells.finding("unsaid_session", message, outside, count=count)
