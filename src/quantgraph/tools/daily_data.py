"""The data tools: daily bars and daily indicators, published to the data state.

The tools' docstrings are the descriptions that models are sent.
"""

from __future__ import annotations

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph._util.docstrings import with_docstring
from quantgraph.data.market_data import INDICATOR_FIELDS
from quantgraph.errors import BadOption
from quantgraph.tools.tool_context import data_context
from quantgraph.tools.window import publish_frames, read_window, split_codes

_KEY_COLUMNS = ("ts_code", "trade_date")
"""Columns that models request and every indicator has."""


@tool("tushare_daily_bar", response_format="content_and_artifact", parse_docstring=True)
@with_docstring
def tushare_daily_bar(
    ts_code: str,
    start_date: str,
    end_date: str,
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> tuple[str, dict[str, Any]]:
    """Fetch daily bars (open, high, low, close, vol, …) and publish them to GLOBAL_DATA_STATE's ohlcv.

    Args:
        ts_code: Codes separated by commas, e.g. "600519.SH,000001.SZ"; an index code such as
            "000016.SH" stands for its members at the window's start; "ALL" for everything there is.
        start_date: First date, YYYYMMDD.
        end_date: Last date, YYYYMMDD. It is cut to the last day the run may know.
    """
    context = data_context(runtime)
    resolved, start, end, remarks = read_window(context.source, context.as_of, ts_code, start_date, end_date)
    frames = context.source.bars(resolved.symbols, start, end)
    return publish_frames(context, "ohlcv", frames, remarks)


@tool("tushare_daily_basic", response_format="content_and_artifact", parse_docstring=True)
@with_docstring
def tushare_daily_basic(
    ts_code: str,
    start_date: str,
    end_date: str,
    fields: str = "",
    runtime: ToolRuntime[Any, Any] = None,  # type: ignore[assignment]  # absent outside an agent
) -> tuple[str, dict[str, Any]]:
    """Fetch daily indicators (pe, pb, turnover_rate, …) and publish them to GLOBAL_DATA_STATE's indicators.

    Args:
        ts_code: Codes separated by commas; an index code stands for its members; "ALL" for everything.
        start_date: First date, YYYYMMDD.
        end_date: Last date, YYYYMMDD. It is cut to the last day the run may know.
        fields: Indicators separated by commas, e.g. "pe,pb,turnover_rate"; empty for all there are.
    """
    context = data_context(runtime)
    names = [name for name in split_codes(fields) if name not in _KEY_COLUMNS]
    unknown = [name for name in names if name not in INDICATOR_FIELDS]
    if unknown:
        raise BadOption(f"fields has unknown {unknown[0]!r}; valid are {', '.join(INDICATOR_FIELDS)}")
    resolved, start, end, remarks = read_window(context.source, context.as_of, ts_code, start_date, end_date)
    frames = context.source.indicators(resolved.symbols, start, end, names)
    return publish_frames(context, "indicators", frames, remarks)
