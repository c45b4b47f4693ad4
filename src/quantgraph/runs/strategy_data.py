"""The data that a strategy file is audited on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress

from quantgraph._util.parsed_code import parse_code
from quantgraph.data import MarketDataSource
from quantgraph.data.symbol_codes import symbol_list
from quantgraph.errors import BadWindow, NoData
from quantgraph.market.moment import Moment, session_of
from quantgraph.runs.outputs import StrategyFile
from quantgraph.state import DataState
from quantgraph.tools.window import read_window


def strategy_data(
    strategy: StrategyFile,
    market: MarketDataSource,
    *,
    symbols: str | Sequence[str],
    start: str | None,
    end: str | None,
) -> DataState:
    """Return a source's bars, and its indicators if the code names them; by default all of them.

    Raises
    ------
    UnknownSymbol, BadWindow, NoData
        If the source does not have the data.
    """
    sessions = market.sessions()
    first, last = start or f"{sessions[0]:%Y%m%d}", end or f"{sessions[-1]:%Y%m%d}"
    if not (start and end) and session_of(first, name="start") > session_of(last, name="end"):
        given = f"start={start}" if start else f"end={end}"
        span = f"{sessions[0]:%Y%m%d} to {sessions[-1]:%Y%m%d}"
        raise BadWindow(f"{given} is outside of what {market.name} has, {span}")
    codes = ",".join(symbol_list(symbols)) or "ALL"
    resolved, begin, finish, _ = read_window(market, Moment(sessions[-1]), codes, first, last)
    store = DataState()
    store.update("ohlcv", market.bars(resolved.symbols, begin, finish))
    if any(_names_indicators(cell) for cell in strategy.cells):
        with suppress(NoData):  # the code's own error names what is missing
            store.update("indicators", market.indicators(resolved.symbols, begin, finish))
    return store


def _names_indicators(cell: str) -> bool:
    names = (node.value for node in ast.walk(parse_code(cell)) if isinstance(node, ast.Constant))
    return "indicators" in names
