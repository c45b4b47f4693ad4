"""Data fetch: code fetches what the request names, or an agent does; code checks that it is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
from langchain_core.messages import ToolMessage

from quantgraph._util.texts import Note, say
from quantgraph.data import MarketDataSource
from quantgraph.errors import DataTooLarge, NoData, QuantGraphError, UnknownField, UnknownSymbol
from quantgraph.market import session_of
from quantgraph.recording.scope import call_once
from quantgraph.runtime import Agent, OpenResources, Resources, invoke_agent, open_resources, tool_errors
from quantgraph.runtime.endings import FATAL_ERRORS, MODEL_ERRORS, end_update, language, success_update
from quantgraph.runtime.graph_state import Update, changed, dialogue_of, progress_of, request_of, written
from quantgraph.state import WorkingTree
from quantgraph.subgraphs.signal._agents import (
    build_agent,
    current_decider,
    current_ref,
    known_source,
    tool_context,
)
from quantgraph.subgraphs.signal._needs import (
    check_fits,
    check_source_fields,
    fetch_needed_records,
    fetch_needed_sessions,
    fields_question_update,
    lacking_indicators,
    too_large_text,
    with_request,
)
from quantgraph.subgraphs.signal._source_facts import with_decided_actions
from quantgraph.subgraphs.signal._updates import failure_update, question_update, read_messages, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    fetch_levels,
    has_data,
    request_sessions,
    request_symbols,
    restrict_to_request,
    with_published,
)
from quantgraph.tools import ToolContext, split_codes

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

    Code fetches exactly the symbols and dates of the checked request. With the setting ``fetch="agent"`` an
    agent fetches the window, unless the commit has it already, and code the sessions before it.

    Returns
    -------
    dict
        The new ``data_ref`` and what is ready, or the errors of this attempt.
    """
    if state.get("messages"):
        state = {**state, "messages": read_messages(state["messages"])}
    resources = open_resources(resources)
    return written(state, _run_fetch(with_request(state, resources), resources, agent))


def _run_fetch(state: SignalSubgraphState, resources: OpenResources, agent: Agent | None) -> Update:
    request = request_of(state)["checked"]
    context = tool_context(state, resources, current_ref(state, resources))
    problems: list[str] = []
    try:
        if not _has_window(state, resources, request):
            by_agent = resources.settings.fetch == "agent"
            problems = _ask_agent(state, resources, context, agent) if by_agent else _fetch(state, context)
    except MODEL_ERRORS as error:
        return end_update(state, "model_unavailable", error)
    except DataTooLarge as error:
        return _too_large_update(state, resources, error)
    try:
        _fetch_levels(state, resources, context)
    except FATAL_ERRORS:
        raise
    except (UnknownSymbol, NoData) as error:
        return _no_levels_update(state, resources, error)
    except QuantGraphError as error:
        problems.append(error.line)
    return _outcome(state, resources, context, problems)


def _outcome(
    state: SignalSubgraphState, resources: OpenResources, context: ToolContext, problems: Sequence[str]
) -> dict[str, Any]:
    """Return the update after the fetch: what is ready in a commit of exactly the request's data, or errors."""
    request = request_of(state)["checked"]
    try:
        data_ref = restrict_to_request(resources.store, context.tree.ref, request, context.source)
        bars, indicators = has_data(resources.store, data_ref, request, context.source)
        earlier = [fetch_needed_sessions] if "data_start" in request else []
        for fetch in (*earlier, fetch_needed_records) if bars and indicators else ():
            decider, attempt = current_decider(resources), _attempt(state)
            data_ref, request, notes = fetch(
                resources.store, data_ref, request, context.source, decider, attempt=attempt
            )
            request = _with_notes(state, request, notes)
        if bars:
            data_ref = with_published(resources.store, data_ref, request)
            data_ref = with_decided_actions(resources.store, data_ref, dialogue_of(state)["moves"])
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return failure_update(state, "data_fetch", [error.line])
    update = {
        "data_ref": data_ref,
        "checked": request,
        "data_ready": bars,
        "indicators_ready": bool(request["indicators"]) and indicators,
    }
    if bars and (without := _without_bars(resources, data_ref, request)):
        return {**update, **_no_bars_update(state, resources, without)}
    if bars and indicators:
        what = f"{request['ts_code']} {request['start']}-{request['end']}"
        return {**update, "current_task": "validate", **success_update(state, f"data_fetch: {what}")}
    try:
        if bars:
            check_source_fields(request, context.source)
    except UnknownField as error:
        if {*error.data["fields"]} <= {*request.get("optional_indicators", ())}:
            request = _without_indicators(state, error.data["fields"])
            return _outcome(changed(state, {"checked": request}), resources, context, problems)
        return {**update, "error_messages": [error.line], **fields_question_update(state, error)}
    problem = "bars are missing" if not bars else f"one of {request['indicators']} is missing"
    problems = problems or [f"no_data: {problem} after the fetch"]
    return {**update, **failure_update(state, "data_fetch", problems)}


def _without_indicators(state: SignalSubgraphState, names: Sequence[str]) -> dict[str, Any]:
    """Return the request without indicators that a decider reads where there are some; notes name them."""
    request = request_of(state)["checked"]
    left = [name for name in request["indicators"] if name not in names]
    return _with_notes(state, {**request, "indicators": left}, lacking_indicators(names))


def _with_notes(state: SignalSubgraphState, request: dict[str, Any], notes: Sequence[Note]) -> dict[str, Any]:
    return {**request, "notes": [*request["notes"], *(note.text(language(state)) for note in notes)]}


def _without_bars(resources: OpenResources, ref: str, request: Mapping[str, Any]) -> list[str]:
    """Return the codes named in the request that have no bar in it, if others have."""
    close = resources.store.snapshot(ref)["ohlcv"]["close"]
    named = [code for code in split_codes(request["ts_code"]) if code in close]
    return [code for code in named if close[code].isna().all()]


def _no_bars_update(state: SignalSubgraphState, resources: OpenResources, codes: list[str]) -> dict[str, Any]:
    """Return the question whether to go on without the codes that have no bar; headless, the end."""
    request, named = request_of(state)["checked"], ", ".join(codes)
    window = f"{request['start']}-{request['end']}"
    if resources.on_clarify in ("default", "fail"):
        return end_update(state, "data_unavailable", f"no_data: {named} has no bar in {window}")
    reason = say(
        language(state),
        zh=f"{named} 在 {window} 没有行情。去掉它继续，还是换一个代码？",
        en=f"{named} has no bar in {window}. Go on without it, or with another code?",
    )
    return question_update(
        state, "symbol", reason, words=codes, options=[without_words(codes, language(state))]
    )


def _fetch(state: SignalSubgraphState, context: ToolContext) -> list[str]:
    """Fetch the window's bars and indicators into the context's tree; return the errors."""
    request, source, tree = request_of(state)["checked"], context.source, context.tree
    symbols = request_symbols(request, source)
    first, last = session_of(request["start"]), session_of(request["end"])
    asks: dict[str, Callable[[], Mapping[str, pd.DataFrame]]] = {
        "ohlcv": partial(_bars_that_fit, state, source)
    }
    if request["indicators"]:
        asks["indicators"] = lambda: source.indicators(symbols, first, last, request["indicators"])
    errors = []
    for panel, ask in asks.items():
        facts = _fetch_facts(state, context, panel)
        try:
            tree.move_to(call_once("code", facts, partial(_fetch_panel, tree, panel, ask)))
        except (*FATAL_ERRORS, DataTooLarge):
            raise
        except QuantGraphError as error:
            errors.append(error.line)
    return errors


def _bars_that_fit(state: SignalSubgraphState, source: MarketDataSource) -> Mapping[str, pd.DataFrame]:
    request = request_of(state)["checked"]
    symbols, sessions = request_symbols(request, source), request_sessions(request, source)
    check_fits(request, len(symbols), len(sessions))
    return source.bars(symbols, session_of(request["start"]), session_of(request["end"]))


def _fetch_panel(tree: WorkingTree, panel: str, ask: Callable[[], Mapping[str, pd.DataFrame]]) -> str:
    return tree.update(panel, ask())


def _fetch_facts(state: SignalSubgraphState, context: ToolContext, panel: str) -> dict[str, Any]:
    return {
        "step": "fetch",
        "panel": panel,
        "data_ref": context.tree.ref,
        "request": request_of(state)["checked"],
        "source": context.source.name,
        **_attempt(state),
    }


def _attempt(state: SignalSubgraphState) -> dict[str, int]:
    """Return what tells a fetch from a failed one before."""
    return {"after": sum(progress_of(state)["calls"].values()), "attempt": state.get("retry_count", 0)}


def _fetch_levels(state: SignalSubgraphState, resources: OpenResources, context: ToolContext) -> None:
    """Fetch the levels of the watched indices into the context's tree."""
    request, source = request_of(state)["checked"], context.source
    first, last = session_of(request["start"]), session_of(request["end"])
    if request["index"]:
        fetch = partial(
            fetch_levels, resources.store, context.tree.ref, request["index"], source, first=first, last=last
        )
        context.tree.move_to(call_once("code", _fetch_facts(state, context, "index"), fetch))


def _too_large_update(
    state: SignalSubgraphState, resources: OpenResources, error: DataTooLarge
) -> dict[str, Any]:
    """Return the question for a window whose data fit into memory; headless, the end."""
    if resources.on_clarify in ("default", "fail"):
        return end_update(state, "data_unavailable", error)
    return question_update(state, "window", too_large_text(error).text(language(state)))


def _no_levels_update(
    state: SignalSubgraphState, resources: OpenResources, error: QuantGraphError
) -> dict[str, Any]:
    """Return the question for another index than one that the source has no levels of; headless, the end."""
    if resources.on_clarify in ("default", "fail"):
        return end_update(state, "data_unavailable", error)
    codes = ", ".join(request_of(state)["checked"]["index"])
    reason = say(
        language(state),
        zh=f"没有指数 {codes} 的行情，无法观察它（{error.message}）。请换一个指数或股票。",
        en=f"There are no levels of {codes} to watch: {error.message}. Name another index or a stock.",
    )
    return question_update(state, "symbol", reason)


def _ask_agent(
    state: SignalSubgraphState, resources: OpenResources, context: ToolContext, agent: Agent | None
) -> list[str]:
    """Let the agent fetch the window into the context's tree; return its errors."""
    request = request_of(state)["checked"]
    facts = {
        "ts_code": request["ts_code"],
        "start_date": request["start"],
        "end_date": request["end"],
        "required_indicators": request["indicators"],
    }
    prompt = resources.prompt("data_fetch", DATA_FETCH_AGENT_PROMPT).format(
        **{**facts, "required_indicators": json.dumps(request["indicators"])}
    )
    agent = agent or build_agent("data_fetch", resources)
    replies = invoke_agent(agent, context, prompt, "fetch", {**facts, "language": language(state)})
    if errors := tool_errors(replies):
        return errors
    has_call = any(isinstance(reply, ToolMessage) for reply in replies)
    return [] if has_call else ["no_tool_call: the data are missing; the model called no tool"]


def _has_window(state: SignalSubgraphState, resources: OpenResources, request: dict[str, Any]) -> bool:
    """Whether only the sessions before the window are missing."""
    ref, source = current_ref(state, resources), known_source(state, resources)
    return "data_start" in request and all(has_data(resources.store, ref, request, source))
