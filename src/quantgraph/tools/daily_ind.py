"""Daily indicators into the data state."""

from __future__ import annotations

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.tools import tool

from quantgraph.data.market_data import INDICATOR_FIELDS
from quantgraph.errors import BadOption
from quantgraph.tools.tool_context import context_of
from quantgraph.tools.window import publish, read_window, split_codes

__all__ = ["tushare_daily_basic"]

_KEYS = ("ts_code", "trade_date")


@tool("tushare_daily_basic", response_format="content_and_artifact", parse_docstring=True)
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
    context = context_of(runtime)
    wanted = [name for name in split_codes(fields) if name not in _KEYS]
    unknown = [name for name in wanted if name not in INDICATOR_FIELDS]
    if unknown:
        raise BadOption(f"fields has {unknown[0]!r}; there is {', '.join(INDICATOR_FIELDS)}")
    resolved, start, end, remarks = read_window(context.source, context.as_of, ts_code, start_date, end_date)
    frames = context.source.indicators(resolved.symbols, start, end, wanted)
    return publish(context, "indicators", frames, remarks)
