"""A strategy file held against a sentence, without a run, and the data that it is audited on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from quantgraph._util.files import check_sentence
from quantgraph._util.packages import parse_code
from quantgraph.audit import Finding
from quantgraph.data import MarketDataSource, SourceLike
from quantgraph.data.symbols import names_in, symbol_list
from quantgraph.errors import BadOption, BadWindow, NoData
from quantgraph.market import Moment, session_of
from quantgraph.runs._outputs import StrategyFile, read_strategy
from quantgraph.runtime import Resources, merge_resources, open_resources
from quantgraph.sentences import RequestContext, read_request
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import Words, meaning_findings
from quantgraph.tools import read_window


def strategy_data(
    strategy: StrategyFile,
    market: MarketDataSource,
    *,
    symbols: str | Sequence[str],
    start: str | None,
    end: str | None,
) -> DataState:
    """Return a source's bars, and its indicators if the code names them; by default all of them."""
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


def audit_said(
    path: str | Path,
    said: str,
    *,
    source: SourceLike | None = None,
    symbols: str | Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    resources: Resources | None = None,
) -> tuple[Finding, ...]:
    """Return how a strategy file departs from a sentence on the data of a source, as :func:`audit_strategy`.

    Codes and dates that are not given are those of the sentence.

    Raises
    ------
    BadFile, BadOption
        If the file is not a strategy, or the sentence is empty or too long.
    UnknownSymbol, BadWindow, NoData, CodeFailed
        If the source does not have the data, or the code fails on them.
    """
    check_sentence(said, "said")
    if not said.strip():
        raise BadOption("said is empty; it must be the sentence that the strategy was made from")
    strategy, opened = read_strategy(path), open_resources(merge_resources(resources, source=source))
    sessions = opened.source.sessions()
    context = RequestContext(
        first_session=f"{sessions[0]:%Y%m%d}",
        last_session=f"{sessions[-1]:%Y%m%d}",
        names=names_in(said, opened.source),
    )
    request = read_request(said, context)
    store = strategy_data(
        strategy,
        opened.source,
        symbols=symbols or request.symbols,
        start=start or request.start,
        end=end or request.end,
    )
    view = store.view(Moment(sessions[-1]))
    result = opened.runner.run(strategy.cells, view.frozen())
    if result.error is not None:
        raise result.error
    name = strategy.name or next(reversed(list(result.signals)), "")
    if name not in result.signals:
        raise BadOption(f"{path} hands over no signal {name}".rstrip())
    signal = result.signals[name]
    words = Words(texts=(said,), context=context, trade=tuple(map(str, signal.columns)))
    return tuple(meaning_findings(words, signal, strategy.cells, view, first=None))
