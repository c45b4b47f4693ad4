"""The tool that shows a model the bars of a symbol.

The tool's docstring is the description that models are sent.
"""

from __future__ import annotations

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph._util.docstrings import with_docstring
from quantgraph.errors import BadOption
from quantgraph.market.boards import exchange_of
from quantgraph.tools.decision_tools import check_limit, decision_tools
from quantgraph.tools.symbol_bars import bars_by, check_timeframe, known_symbol

_MOST_ROWS = 250
_EXCHANGES: dict[str, tuple[str, ...]] = {
    "sh": ("sh", "sse", "xshg", "shanghai", "上交所", "上海", "上海证券交易所"),
    "sz": ("sz", "szse", "xshe", "shenzhen", "深交所", "深圳", "深圳证券交易所"),
    "bj": ("bj", "bse", "bjse", "beijing", "北交所", "北京", "北京证券交易所"),
    "us": ("us", "nyse", "xnys", "nasdaq", "xnas", "amex", "xase", "美股", "纽交所", "纳斯达克"),
}
_EXCHANGE_OF_NAME = {name: exchange for exchange, names in _EXCHANGES.items() for name in names}


@tool("get_kline_data", parse_docstring=True)
@with_docstring
def get_kline_data(
    symbol: str,
    exchange: str = "",
    timeframe: str = "1d",
    limit: int = 100,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> list[dict[str, Any]]:
    """Get the last bars of a symbol, oldest first: time, date, open, high, low, close, volume.

    date is the session's, time the same in epoch seconds (00:00 UTC); of a week or a month, that of its first
    session. Sessions that are not over are not shown; a week or month that is not over is, with
    "running": true. Past prices are adjusted for dividends and splits up to today. volume is in shares of a
    US symbol, and in hands of 100 shares (手) of a Chinese one.

    Args:
        symbol: The code, e.g. "600519.SH".
        exchange: Empty, or the symbol's exchange: SH, SZ, BJ, SSE, SZSE, BSE, NYSE, NASDAQ.
        timeframe: "1d", "1w" or "1mo".
        limit: Number of bars, 1 to 250.
    """
    context = decision_tools(runtime)
    by, rows = check_timeframe(timeframe), check_limit(limit, _MOST_ROWS)
    name = _on_exchange(exchange, symbol)
    _check_exchange(exchange, known_symbol(context.view, name))
    return bars_by(context.bars(name), by, context.as_of).rows(rows)


def _on_exchange(exchange: str, symbol: str) -> str:
    """Add the exchange to a bare code of six digits, which may be on two."""
    suffix = _EXCHANGE_OF_NAME.get(exchange.strip().casefold(), "us")
    return f"{symbol.strip()}.{suffix.upper()}" if symbol.strip().isdecimal() and suffix != "us" else symbol


def _check_exchange(exchange: str, symbol: str) -> None:
    """Check that an exchange, if one is named, is the symbol's.

    Raises
    ------
    BadOption
        If it is another one, or none that the data can have.
    """
    wanted = exchange.strip().casefold()
    if not wanted:
        return
    own = exchange_of(symbol) if symbol[-3:-2] == "." and exchange_of(symbol) in _EXCHANGES else "us"
    valid = ", ".join(name.upper() for name in _EXCHANGES[own][: 2 if own != "us" else 4])
    if wanted not in _EXCHANGE_OF_NAME:
        raise BadOption(
            f"exchange={exchange[:60]!r} is not one of this data, which has shares; for {symbol} write "
            f"{valid}, or leave it empty",
            parameter="exchange",
        )
    if _EXCHANGE_OF_NAME[wanted] != own:
        raise BadOption(
            f"exchange={exchange[:60]!r} is not that of {symbol}; write {valid}, or leave it empty",
            parameter="exchange",
        )
