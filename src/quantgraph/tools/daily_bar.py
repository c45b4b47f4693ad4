"""Daily bars into the data state."""

from __future__ import annotations

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph.tools.tool_context import context_of
from quantgraph.tools.window import publish, read_window

__all__ = ["tushare_daily_bar"]


@tool("tushare_daily_bar", response_format="content_and_artifact", parse_docstring=True)
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
    context = context_of(runtime)
    resolved, start, end, remarks = read_window(context.source, context.as_of, ts_code, start_date, end_date)
    frames = context.source.bars(resolved.symbols, start, end)
    return publish(context, "ohlcv", frames, remarks)
