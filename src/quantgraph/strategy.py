"""A strategy as a file: written by a run, read again, and audited against any data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from quantgraph.audit import CodeTrials, Verdict, check_causality
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadFile
from quantgraph.market.moment import Moment
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState
from quantgraph.tools import code_runner
from quantgraph.tools.window import read_window

__all__ = ["StrategyFile", "audit_strategy", "read_strategy", "strategy_source"]

_CELL = re.compile(r"^# %%.*$", re.MULTILINE)
_NAME = re.compile(r"^name: (.+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class StrategyFile:
    """What a strategy's file says.

    Attributes
    ----------
    about
        The sentence it was made from, as its docstring begins.
    cells
        Its code, to be run in this order.
    name
        The signal that it hands over; None if the file does not say, then it is the last one.
    """

    about: str
    cells: tuple[str, ...]
    name: str | None = None


def strategy_source(strategy: Mapping[str, Any], question: str) -> str:
    """The cells of a strategy as one file: a docstring, then ``# %%`` cells as editors know them."""
    about = question.replace("\\", "\\\\").replace('"""', "'''")
    head = (
        f'"""{about}\n\nname: {strategy["name"]}\ncode_hash: {strategy["code_hash"]}\n'
        f"data_ref: {strategy['data_ref']}\n\n"
        'In scope: pd, np, GLOBAL_DATA_STATE and snapshot = GLOBAL_DATA_STATE.snapshot().\n"""\n'
    )
    return head + "".join(f"\n# %%\n{cell.rstrip()}\n" for cell in strategy["cells"])


def read_strategy(path: str | Path) -> StrategyFile:
    """Read a file written by :func:`strategy_source`, or any Python file with or without ``# %%`` cells.

    Raises
    ------
    BadFile
        If it cannot be read, or holds no code.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error
    head, *cells = _CELL.split(text) if _CELL.search(text) else ("", text)
    code = tuple(cell.strip("\n") for cell in cells if cell.strip())
    if not code:
        raise BadFile(f"{path} holds no code; a strategy hands a signal over to GLOBAL_DATA_STATE")
    named = _NAME.search(head)
    about = head.strip().strip('"').split("\n\n")[0]
    return StrategyFile(about=about, cells=code, name=named.group(1).strip() if named else None)


def audit_strategy(
    path: str | Path,
    *,
    source: str | Path | MarketDataSource | None = None,
    symbols: Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    exhaustive: bool | Literal["auto"] = "auto",
    runner: CodeRunner | None = None,
    settings: Settings | None = None,
) -> Verdict:
    """Prove a strategy's file causal on a source's data, or refute it.

    Parameters
    ----------
    path
        The file, see :func:`read_strategy`.
    source
        As in :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`.
    symbols, start, end
        What of it: codes, names or an index code, ``YYYYMMDD``. Default: everything there is.
    exhaustive
        True proves every session, False the settings' ``audit_cuts``, ``auto`` every session if that takes no
        more than their ``audit_cells``.

    Raises
    ------
    BadFile
        If the file is no strategy.
    UnknownSymbol, BadWindow, NoData
        If the source does not have what is asked for.
    """
    strategy, settings = read_strategy(path), settings or load_settings()
    market = open_source(source, settings=settings)
    sessions = market.sessions()
    as_of = Moment(sessions[-1])
    first, last = start or f"{sessions[0]:%Y%m%d}", end or f"{sessions[-1]:%Y%m%d}"
    resolved, begin, finish, _ = read_window(market, as_of, ",".join(symbols) or "ALL", first, last)
    store = DataState()
    store.update("ohlcv", market.bars(resolved.symbols, begin, finish))
    if any("indicators" in cell for cell in strategy.cells):
        store.update("indicators", market.indicators(resolved.symbols, begin, finish))
    return check_causality(
        CodeTrials(runner or code_runner(settings), strategy.cells, strategy.name),
        store.view(as_of).frozen(),
        exhaustive=exhaustive,
        cuts=settings.audit_cuts,
        cells=settings.audit_cells,
    )
