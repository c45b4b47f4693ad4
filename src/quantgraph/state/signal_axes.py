"""Where a signal may stand: on the sessions and symbols of the data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quantgraph.errors import BadFrame
from quantgraph.state.frames import Dates, FrozenFrame

__all__ = ["check_placed"]


def check_placed(name: str, signal: FrozenFrame, ohlcv: Mapping[str, FrozenFrame]) -> None:
    """Refuse a signal that has a session or a symbol which the data do not have.

    Fewer sessions, fewer symbols and another order of the columns are accepted.

    Parameters
    ----------
    ohlcv
        The data. Their sessions and symbols are those of ``close``, and without it those of all frames
        together; where there is no frame every signal is accepted.

    Raises
    ------
    BadFrame
        Names the first offending cell, row by row; ``data`` has its session, symbol and value.
    """
    if not ohlcv:
        return
    sessions, symbols, listed = _axes(ohlcv)
    rows = ~_among(signal.sessions, sessions)
    columns = [] if signal.symbols == listed else [symbol not in symbols for symbol in signal.symbols]
    if rows.any() and (rows[0] or not any(columns)):
        row, column = int(np.argmax(rows)), 0
        why = f"which is not a session of the data ({_span(sessions)})"
    elif any(columns):
        row, column = 0, columns.index(True)
        why = f"which is not a symbol of the data ({_listed(listed)})"
    else:
        return
    session, symbol = str(signal.sessions[row].astype("datetime64[D]")), signal.symbols[column]
    value = float(signal.values[row, column])
    raise BadFrame(
        f"signal[{name!r}] has {value:g} at ({session}, {symbol}), {why}; sessions and symbols must be those "
        "of the data: use signal.reindex(index=close.index, columns=close.columns)",
        session=session,
        symbol=symbol,
        value=value,
    )


def _axes(ohlcv: Mapping[str, FrozenFrame]) -> tuple[Dates, frozenset[str], tuple[str, ...]]:
    frames = [ohlcv["close"]] if "close" in ohlcv else list(ohlcv.values())
    sessions = frames[0].sessions
    for frame in frames[1:]:
        if not np.array_equal(frame.sessions, sessions):
            sessions = np.union1d(sessions, frame.sessions)
    listed = tuple(dict.fromkeys(symbol for frame in frames for symbol in frame.symbols))
    return sessions, frozenset(listed), listed


def _among(asked: Dates, sessions: Dates) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if not len(sessions):
        return np.zeros(len(asked), dtype=bool)
    places = np.minimum(np.searchsorted(sessions, asked), len(sessions) - 1)
    return np.asarray(sessions[places] == asked)


def _span(sessions: Dates) -> str:
    if not len(sessions):
        return "there is none"
    first, last = (str(sessions[place].astype("datetime64[D]")) for place in (0, -1))
    return f"{len(sessions)} from {first} to {last}"


def _listed(symbols: tuple[str, ...]) -> str:
    more = f" and {len(symbols) - 3} more" if len(symbols) > 3 else ""
    return ", ".join(symbols[:3]) + more
