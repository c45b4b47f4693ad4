"""Strategy files: written by a run, read again, and audited on any data."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from quantgraph.audit import CodeTrials, Verdict, check_causality
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadFile, BadWindow, NoData
from quantgraph.market.moment import Moment, session_of
from quantgraph.sandbox import CodeRunner
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState
from quantgraph.tools import code_runner
from quantgraph.tools.window import read_window

__all__ = ["StrategyFile", "audit_strategy", "read_strategy", "strategy_source"]

_CELL = "# %%"
_NAME = re.compile(r"\n\nname: (.+)")


@dataclass(frozen=True, kw_only=True)
class StrategyFile:
    """Content of a strategy file.

    Attributes
    ----------
    about
        The sentence it was made from: the beginning of its docstring.
    cells
        Its code, in the order of execution.
    name
        The signal that it writes; None, for the last one, if the file does not name it.
    """

    about: str
    cells: tuple[str, ...]
    name: str | None = None


def strategy_source(strategy: Mapping[str, Any], question: str) -> str:
    """Text of a strategy file: a docstring, then the code as ``# %%`` cells."""
    about = question.replace("\\", "\\\\").replace('"""', "'''")
    head = (
        f'"""{about}\n\nname: {strategy["name"]}\ncode_hash: {strategy["code_hash"]}\n'
        f"data_ref: {strategy['data_ref']}\n\n"
        'In scope: pd, np, GLOBAL_DATA_STATE and snapshot = GLOBAL_DATA_STATE.snapshot().\n"""\n'
    )
    return head + "".join(f"\n# %%\n{cell.rstrip()}\n" for cell in strategy["cells"])


def read_strategy(path: str | Path) -> StrategyFile:
    """Read a file written by :func:`strategy_source`, or any Python file with or without ``# %%`` cells.

    A folder stands for the ``strategy.py`` in it.

    Raises
    ------
    BadFile
        If it cannot be read, or has no code.
    """
    path = Path(path, "strategy.py") if Path(path).is_dir() else path
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error
    about, line = _docstring(text, path)
    code = tuple(cell for cell in _cells(text.splitlines()[line:]) if cell)
    if not code:
        raise BadFile(f"{path} has no code; a strategy must write a signal to GLOBAL_DATA_STATE")
    *_, named = [None, *_NAME.finditer(about)]
    sentence = about[: named.start()] if named else about
    return StrategyFile(about=sentence, cells=code, name=named.group(1).strip() if named else None)


def _docstring(text: str, path: str | Path) -> tuple[str, int]:
    """The docstring and the number of its last line; empty and 0 without one."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise BadFile(f"{path} is not Python: {error}", path=str(path)) from error
    about = ast.get_docstring(tree, clean=False)
    return ("", 0) if about is None else (about, tree.body[0].end_lineno or 0)


def _cells(lines: Sequence[str]) -> Iterator[str]:
    """The text between ``# %%`` comments."""
    tokens = tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline)
    marks = [
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and token.start[1] == 0 and token.string.startswith(_CELL)
    ]
    for first, last in pairwise([0, *marks, len(lines) + 1]):
        yield "\n".join(lines[first : last - 1]).strip("\n")


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
    """Prove that a strategy file is causal on the data of a source, or refute it.

    Parameters
    ----------
    path
        The file, see :func:`read_strategy`.
    source
        As in :func:`~quantgraph.subgraphs.signal.create_signal_subgraph`.
    symbols, start, end
        Codes, names or an index code; dates as ``YYYYMMDD``. Default: all data of the source.
    exhaustive
        True proves every session, False ``audit_cuts`` of the settings, ``auto`` every session if that is at
        most ``audit_cells``.

    Raises
    ------
    BadFile
        If the file is not a strategy.
    UnknownSymbol, BadWindow, NoData
        If the source does not have the data.
    """
    strategy, settings = read_strategy(path), settings or load_settings()
    market = open_source(source, settings=settings)
    sessions = market.sessions()
    as_of = Moment(sessions[-1])
    first, last = start or f"{sessions[0]:%Y%m%d}", end or f"{sessions[-1]:%Y%m%d}"
    if not (start and end) and session_of(first, name="start") > session_of(last, name="end"):
        given = f"start={start}" if start else f"end={end}"
        span = f"{sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}"
        raise BadWindow(f"{given} is outside of what {market.name} has, {span}")
    resolved, begin, finish, _ = read_window(market, as_of, ",".join(symbols) or "ALL", first, last)
    store = DataState()
    store.update("ohlcv", market.bars(resolved.symbols, begin, finish))
    if any(_names_indicators(cell) for cell in strategy.cells):
        with suppress(NoData):  # the code's own error names what is missing
            store.update("indicators", market.indicators(resolved.symbols, begin, finish))
    return check_causality(
        CodeTrials(runner or code_runner(settings), strategy.cells, strategy.name),
        store.view(as_of).frozen(),
        exhaustive=exhaustive,
        cuts=settings.audit_cuts,
        cells=settings.audit_cells,
        seed=settings.audit_seed,
    )


def _names_indicators(cell: str) -> bool:
    names = (node.value for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Constant))
    return "indicators" in names
