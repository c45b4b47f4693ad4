"""Data fetch: an agent calls the data tools; code checks that the data are there afterwards."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from quantgraph.errors import QuantGraphError, UnknownField
from quantgraph.runtime.agent_factory import Agent, invoke_agent, tool_errors
from quantgraph.runtime.endings import FATAL_ERRORS, MODEL_ERRORS, end_update, language, success_update
from quantgraph.runtime.resources import OpenResources, Resources, open_resources
from quantgraph.subgraphs.signal.agents import (
    build_agent,
    current_decider,
    current_ref,
    known_source,
    tool_context,
)
from quantgraph.subgraphs.signal.data_request import has_data, restrict_to_request
from quantgraph.subgraphs.signal.decider_needs import fetch_needed_sessions
from quantgraph.subgraphs.signal.indicator_fields import check_source_fields, fields_question_update
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import failure_update

__all__ = ["DATA_FETCH_AGENT_PROMPT", "data_fetch_node"]

DATA_FETCH_AGENT_PROMPT = """\
You fetch market data for a strategy run; the tools put it into GLOBAL_DATA_STATE. 你负责获取行情数据。

Wanted / 需求
- ts_code: {ts_code}
- window 时间范围: {start_date} - {end_date} (YYYYMMDD)
- daily indicators 每日指标: {required_indicators}

Tools / 工具
- tushare_daily_bar(ts_code, start_date, end_date): open, high, low, close, vol … into ohlcv
- tushare_daily_basic(ts_code, start_date, end_date, fields): pe, pb, turnover_rate … into indicators;
  fields is a comma-separated list such as "pe,pb"

Rules / 规则
1. Call tushare_daily_bar once with exactly the codes and dates above. An index code stands for its members and
   several codes go into one call, joined by commas. 一次调用取全部代码。
2. Call tushare_daily_basic only if indicators are wanted, with these fields. 没有要求指标就不要取。
3. A tool that answers with an error code is not called again with the same arguments: report the error.
   工具报错后不要用同样的参数重试，直接报告。
4. Never change symbols or dates, and never make up data. 不得更改代码和日期，不得编造数据。
Then say in one or two sentences what was fetched, or what failed and why."""


def data_fetch_node(
    state: SignalSubgraphState, *, resources: Resources | None = None, agent: Agent | None = None
) -> dict[str, Any]:
    """Fetch what the request needs into a new commit.

    The agent fetches the window, unless the commit has it already; code fetches the sessions before it.

    Returns
    -------
    dict
        The new ``data_ref`` and what is ready, or the errors of this attempt.
    """
    resources = open_resources(resources)
    request = state["request"]
    facts = {
        "ts_code": request["ts_code"],
        "start_date": request["start"],
        "end_date": request["end"],
        "required_indicators": request["indicators"],
    }
    prompt = DATA_FETCH_AGENT_PROMPT.format(
        **{**facts, "required_indicators": json.dumps(request["indicators"])}
    )
    context = tool_context(state, resources, current_ref(state, resources))
    replies: list[AnyMessage] = []
    try:
        if not _has_window(state, resources, request):
            replies = invoke_agent(
                agent or build_agent("data_fetch", resources),
                context,
                prompt,
                "fetch",
                {**facts, "language": language(state)},
            )
    except MODEL_ERRORS as error:
        return end_update(state, "model_unavailable", error)
    try:
        data_ref = restrict_to_request(resources.store, context.tree.ref, request, context.source)
        bars, indicators = has_data(resources.store, data_ref, request, context.source)
        if bars and indicators and "data_start" in request:
            data_ref, request, notes = fetch_needed_sessions(
                resources.store, data_ref, request, context.source, current_decider(resources)
            )
            lacking = [note.text(language(state)) for note in notes]
            request["notes"] = [*request["notes"], *lacking]
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return failure_update(state, "data_fetch", [error.line])
    update = {
        "data_ref": data_ref,
        "request": request,
        "data_ready": bars,
        "indicators_ready": bool(request["indicators"]) and indicators,
    }
    if bars and indicators:
        what = f"{request['ts_code']} {request['start']}-{request['end']}"
        return {**update, "current_task": "validate", **success_update(state, f"data_fetch: {what}")}
    try:
        if bars:
            check_source_fields(request, context.source)
    except UnknownField as error:
        return {**update, "error_messages": [error.line], **fields_question_update(state, error)}
    problem = "bars are missing" if not bars else f"one of {request['indicators']} is missing"
    called = any(isinstance(reply, ToolMessage) for reply in replies)
    problem = f"bad_tool_call: {problem}{' after the fetch' if called else '; the model called no tool'}"
    return {**update, **failure_update(state, "data_fetch", tool_errors(replies) or [problem])}


def _has_window(state: SignalSubgraphState, resources: OpenResources, request: dict[str, Any]) -> bool:
    """Whether only the sessions before the window are missing."""
    ref, source = current_ref(state, resources), known_source(state, resources)
    return "data_start" in request and all(has_data(resources.store, ref, request, source))
