"""Whether the machine has the memory that a request's data need, asked before they are fetched."""

from __future__ import annotations

from quantgraph._util.machine import available_memory
from quantgraph._util.texts import Note
from quantgraph.errors import DataTooLarge

BYTES_A_CELL = 400
"""Of a stock on a session: ten fields of eight bytes, five times over all processes (docs/performance.md)."""


def check_fits(symbols: int, sessions: int) -> None:
    """Check that bars of so many stocks and sessions can be traded in the memory that is free.

    Raises
    ------
    DataTooLarge
        If they cannot.
    """
    free, need = available_memory(), symbols * sessions * BYTES_A_CELL
    if free is None or need <= free:
        return
    facts = {"symbols": symbols, "sessions": int(free / BYTES_A_CELL / symbols), "need": need, "free": free}
    raise DataTooLarge(
        f"{symbols:,} stocks x {sessions:,} sessions need about {need / 1e9:.1f} GB of memory, "
        f"{free / 1e9:.1f} GB are free; {facts['sessions']:,} sessions of these stocks fit",
        **facts,
    )


def too_large_text(error: DataTooLarge) -> Note:
    """What a person is asked."""
    need, free, fit = error.data["need"] / 1e9, error.data["free"] / 1e9, error.data["sessions"]
    return Note(
        zh=f"这些数据大约需要 {need:.1f} GB 内存，目前只有 {free:.1f} GB 可用；"
        f"这些股票最多可做 {fit:,} 个交易日。请给一个更短的区间。",
        en=f"{error.message}. Name a shorter window.",
    )
