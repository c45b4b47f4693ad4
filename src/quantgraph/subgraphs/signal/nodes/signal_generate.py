"""Signal generation: an agent writes pandas code; the cells that its signal needs are the strategy."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import Language, Note, say
from quantgraph.audit.bars import check_signal
from quantgraph.broker import Decider
from quantgraph.broker.session import load_block_code
from quantgraph.errors import CodeFailed, QuantGraphError, UnknownField
from quantgraph.llm.messages import escape_tags, field_list, wrap
from quantgraph.recording.scope import call_once
from quantgraph.rules import trials_of
from quantgraph.runtime import Agent, OpenResources, Resources, invoke_agent, open_resources
from quantgraph.runtime.endings import (
    FATAL_ERRORS,
    MODEL_ERRORS,
    end_reason,
    end_update,
    language,
    success_update,
)
from quantgraph.runtime.graph_state import (
    Attempt,
    Update,
    dialogue_of,
    progress_of,
    request_of,
    written,
)
from quantgraph.state import View
from quantgraph.subgraphs.signal._agents import (
    build_agent,
    current_ref,
    known_source,
    prompt_text,
    tool_context,
)
from quantgraph.subgraphs.signal._attempts import (
    CodeRefusal,
    attempt_of,
    earlier_messages,
    instead_of_code,
    keep_attempts,
    no_signal_error,
    open_attempts,
)
from quantgraph.subgraphs.signal._meaning import clauses_beside, user_words
from quantgraph.subgraphs.signal._needs import with_request
from quantgraph.subgraphs.signal._own import own_update
from quantgraph.subgraphs.signal._proof import run_strategy_first
from quantgraph.subgraphs.signal._updates import failure_update, question_update, read_messages
from quantgraph.subgraphs.signal._warm_up import DraftStrategy, fix_window, in_window
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    only_traded,
    request_hash,
    restrict_to_request,
    rule_of_trees,
    traded_symbols,
)
from quantgraph.tools import ToolContext

SIGNAL_GENERATE_AGENT_PROMPT = prompt_text("signal_generate", "en")


def signal_generate_node(
    state: SignalSubgraphState, *, resources: Resources | None = None, agent: Agent | None = None
) -> dict[str, Any]:
    """Let the agent code and run the strategy, and keep its cells.

    The agent goes on in the conversation of the attempts before. It may ask the user or decline in place of a
    signal.

    Returns
    -------
    dict
        The commit with the signal and the strategy that made it; the errors of this attempt; a question; or
        the end.
    """
    if state.get("messages"):
        state = {**state, "messages": read_messages(state["messages"])}
    resources = open_resources(resources)
    count = progress_of(state)["generated"] + 1
    if (own := request_of(state)["own"]) is not None:
        _prepare_trading(resources, current_ref(state, resources))
        return written(state, own_update(state, resources, own))
    generated = _generate(with_request(state, resources), resources, agent)
    return written(state, {**generated, "generated": count})


def _generate(state: SignalSubgraphState, resources: OpenResources, agent: Agent | None) -> Update:
    request, attempts = _before_last_attempt(state)
    window = _without_earlier_sessions(request)
    data_ref = restrict_to_request(  # the code is written for the window alone
        resources.store, current_ref(state, resources), window, known_source(state, resources)
    )
    data_ref = resources.store.without("signal", data_ref)
    _prepare_trading(resources, data_ref)
    context = tool_context(state, resources, data_ref)
    if request.get("trees"):
        return _of_trees(state, resources, context, request, data_ref)
    try:
        replies = invoke_agent(
            agent or build_agent("signal_generate", resources),
            context,
            _prompt(state, context, request, attempts, resources.settings.sandbox_packages),
            earlier=earlier_messages(attempts, language(state)),
        )
    except MODEL_ERRORS as error:
        return end_update(state, "model_unavailable", error)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return failure_update(state, "signal_generate", [error.line])
    attempt = attempt_of(request, replies, context.cells)
    if (refusal := instead_of_code(replies)) is not None:
        return _reply_update(state, refusal, attempts, attempt)
    if not context.names:
        has_call = any(isinstance(reply, ToolMessage) for reply in replies)
        return _failure_update(state, attempts, attempt, no_signal_error(replies), has_call=has_call)
    try:
        made = _make_signal(state, resources, context, request, data_ref)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        return _failure_update(state, attempts, attempt, error.line, has_call=True)
    if "misaligned" in made:
        return _failure_update(state, attempts, attempt, made["misaligned"], has_call=True)
    return _signal_update(state, context, attempt, made)


def _of_trees(
    state: SignalSubgraphState,
    resources: OpenResources,
    context: ToolContext,
    request: dict[str, Any],
    data_ref: str,
) -> Update:
    """Run the cell of a rule that was read whole, for which no model is asked."""
    rule = rule_of_trees(request["trees"])
    name, traded = rule.name, traded_symbols(request, context.source)
    others = {*rule.watched} - {*traded}
    context.restore([rule.cell(name, traded if others else ())], [name])
    attempt: Attempt = {
        "request": dict(request),
        "cells": context.cells,
        "said": "",
        "errors": [],
        "made": None,
    }
    try:
        made = _make_signal(state, resources, context, request, data_ref)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:  # a rule that fails would fail again
        because = "repeated_error" if isinstance(error, CodeFailed) else end_reason(error)
        return end_update(state, because, error)
    return _signal_update(state, context, attempt, made)


def _without_earlier_sessions(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != "data_start"}


def _misaligned(context: ToolContext, request: Mapping[str, Any]) -> str:
    """Return which sessions or symbols the signal lacks in its rehearsal; empty if it has all."""
    closes = context.view["ohlcv"]["close"][list(traded_symbols(request, context.source))]
    errors = check_signal(context.names[-1], context.signal(context.names[-1]), closes).errors
    return next((f"{each.code}: {each.message}" for each in errors if each.code == "misaligned"), "")


def _make_signal(
    state: SignalSubgraphState,
    resources: OpenResources,
    context: ToolContext,
    request: dict[str, Any],
    data_ref: str,
) -> dict[str, Any]:
    """Return what the cells made, run once: the commit, the first run behind it, the sessions they need, notes."""
    name, audit = context.names[-1], resources.settings.audit
    least = (progress_of(state)["validation"] or {}).get("data_summary", {}).get("needs") or 1
    facts = {
        "step": "signal_generate",
        "data_ref": data_ref,
        "code_hash": code_hash(context.needed_cells()),
        "name": name,
        "request": request,
        "as_of": str(context.moment),
        "audit": [audit.prove, audit.cuts, audit.seed],
        **({"least": least} if least > 1 else {}),
    }
    seed = audit.seed
    if seed is None:  # drawn before anything runs: a killed run continues with the same seed
        seed = call_once("code", {**facts, "step": "audit_seed"}, lambda: secrets.randbits(32))
    options: Any = {"seed": seed, "language": language(state), "least": least}
    return call_once("code", facts, partial(_commit_signal, resources, context, request, data_ref, **options))


def _signal_update(
    state: SignalSubgraphState, context: ToolContext, attempt: Attempt, made: Mapping[str, Any]
) -> Update:
    """Return the update of an attempt that made a signal: its commit, its strategy, and the request for it."""
    request, name, cells = attempt["request"], context.names[-1], list(context.needed_cells())
    window = _without_earlier_sessions(request)
    if made["data_start"]:
        window["data_start"] = made["data_start"]
    notes = [Note(**note).text(language(state)) for note in made["notes"]]
    warmed = {**window, "notes": [*request["notes"], *notes]}
    strategy = {
        "name": name,
        "signals": list(context.names),
        "cells": cells,
        "code_hash": code_hash(cells),
        "data_ref": made["data_ref"],
        "request": request_hash(warmed),
        "warm_up": made["warm_up"],
        "first_run": made["first_run"],
        "said": attempt["said"],
    }
    attempts = _before_last_attempt(state)[1]
    return {
        "data_ref": made["signal_ref"],
        "checked": warmed,
        "strategy": strategy,
        "attempts": keep_attempts(attempts, {**attempt, "made": request_hash(warmed)}),
        "signal_ready": True,
        "current_task": "validate",
        **success_update(state, f"signal_generate: {name}"),
    }


def _prepare_trading(resources: OpenResources, data_ref: str) -> None:
    """Load the code of the trades that follow beside the signal's, if they can be made in blocks."""
    decider = resources.decider
    if decider is not None and type(decider).block_rule is not Decider.block_rule:
        cells = resources.store.snapshot(data_ref)["ohlcv"]["open"].size
        load_block_code(int(cells), resources.settings.cache_dir)


def _before_last_attempt(state: SignalSubgraphState) -> tuple[dict[str, Any], list[Attempt]]:
    """Return the request without what the last attempt added, and the attempts of its conversation."""
    request, attempts = request_of(state)["checked"], progress_of(state)["attempts"]
    if attempts and attempts[-1]["made"] == request_hash(request):
        request = attempts[-1]["request"]
    return request, open_attempts(attempts, request)


def _prompt(
    state: SignalSubgraphState,
    context: ToolContext,
    request: Mapping[str, Any],
    attempts: Sequence[Attempt],
    packages: Sequence[str],
) -> str:
    view, words = context.view, language(state)
    known = {error for attempt in attempts for error in attempt["errors"]}
    errors = [error for error in state.get("error_messages", []) if error not in known]
    prompt = prompt_text("signal_generate", words).format(
        available_ohlcv=_bars(view, request, words),
        available_indicators=field_list(view["indicators"]),
        strategy_description=_strategy_text(state, request, context),
    )
    parts = [
        prompt,
        say(words, zh="未解决的错误\n", en="Open errors\n") + wrap("errors", "\n".join(errors))
        if errors
        else "",
        _watched_text(state, request, context),
        _previous_code(state),
        say(words, zh="还可以导入：", en="These can be imported, too: ") + ", ".join(packages)
        if packages
        else "",
        prompt_text("idioms", words),
    ]
    return "\n\n".join(filter(None, parts))


def _strategy_text(state: SignalSubgraphState, request: Mapping[str, Any], context: ToolContext) -> str:
    """Return the user's own words, the rule as it was read, clauses beside it and the plan, each in its part."""
    understanding: Mapping[str, Any] = request_of(state)["understanding"] or {}
    text, _ = user_words(state, context.source)
    clauses = clauses_beside(understanding, request["strategy"])
    parts = [
        wrap("request", text) if text else "",
        wrap("strategy", request["strategy"]),
        wrap("clauses", "\n".join(map(canonical_json, clauses))) if clauses else "",
        wrap("plan", canonical_json(understanding["plan"])) if understanding.get("plan") else "",
    ]
    return "\n".join(filter(None, parts))


def _bars(view: View, request: Mapping[str, Any], words: Language) -> str:
    """Return the fields of bars that have values, their extent, and adjusted prices if there are any."""
    bars, (sessions, stocks) = view["ohlcv"], view["ohlcv"]["close"].shape
    listed = field_list(name for name in bars if bars[name].notna().to_numpy().any())
    index, span = request["index_code"], f"{request['start']}-{request['end']}"
    extent = say(
        words,
        zh=f"{span}，{sessions} 个交易日，{index + ' 的 ' if index else ''}{stocks} 只股票",
        en=f"{span}, {sessions} sessions, {stocks} stocks{' of ' + index if index else ''}",
    )
    adjusted = ""
    with suppress(UnknownField):
        if not view.adjusted("close").equals(bars["close"]):
            adjusted = say(
                words,
                zh='\n- snapshot.adjusted("close")：复权价，用于跨除权日的均线、涨幅和新高；说出的价格是不复权的',
                en='\n- snapshot.adjusted("close"): for averages, returns and highs that span an ex-dividend day; '
                "a price that was said is raw",
            )
    return f"{listed} ({extent}){adjusted}"


def _watched_text(state: SignalSubgraphState, request: Mapping[str, Any], context: ToolContext) -> str:
    """Return what the rule watches and what it trades, if these differ."""
    understanding = request_of(state)["understanding"]
    if not understanding or not understanding["watch"]:
        return ""
    refusal = {name: understanding[name] for name in ("watch", "index")}
    refusal["trade"] = list(traded_symbols(request, context.source))
    note = say(
        language(state),
        zh='信号只含 trade 的列，规则读的是 watch。指数的收盘价是 snapshot["index"]["close"][code]。',
        en="Only the columns of trade are in the signal; the rule reads watch. The closes of an index are "
        'snapshot["index"]["close"][code].',
    )
    return f"{wrap('understanding', canonical_json(refusal))}\n{note}"


def _previous_code(state: SignalSubgraphState) -> str:
    """Return the code of the thread's previous request, which the user has changed."""
    cells = "\n\n".join(dialogue_of(state)["last_cells"])
    if not cells:
        return ""
    text = say(
        language(state),
        zh="上一次请求的代码，规则没变的地方不要改：",
        en="The code of the request before this one; where the rule is the same, change nothing else:",
    )
    return f"{text}\n```python\n{escape_tags(cells)}\n```"


def _reply_update(
    state: SignalSubgraphState, refusal: CodeRefusal, attempts: Sequence[Attempt], attempt: Attempt
) -> dict[str, Any]:
    if refusal["kind"] == "decline":
        return end_update(state, "declined", f"declined: {refusal['text']}")
    asked: Attempt = {**attempt, "question": refusal["text"]}
    return {
        "checked": attempt["request"],
        "attempts": keep_attempts(attempts, asked),
        **question_update(state, "strategy", refusal["text"]),
    }


def _failure_update(
    state: SignalSubgraphState, attempts: Sequence[Attempt], attempt: Attempt, error: str, *, has_call: bool
) -> dict[str, Any]:
    """Return the update of an attempt without a signal; one without a call leaves the open errors open."""
    before = [] if has_call else [each for each in state.get("error_messages", []) if each != error]
    return {
        "checked": attempt["request"],
        **failure_update(state, "signal_generate", [*before, error]),
        "attempts": keep_attempts(attempts, {**attempt, "errors": [error]}),
    }


def _commit_signal(
    resources: OpenResources,
    context: ToolContext,
    request: Mapping[str, Any],
    data_ref: str,
    *,
    seed: int,
    language: Language,
    least: int,
) -> dict[str, Any]:
    """Fix the window on invented rows, run through the real ones, and commit the signal of that run alone."""
    name, store = context.names[-1], resources.store
    traded = traded_symbols(request, context.source)
    only_traded(name, context.signal(name), traded)  # before the longer runs
    if missing := _misaligned(context, request):
        return {"misaligned": missing}
    trials = trials_of(resources.runner, context.needed_cells(), name, prove=resources.settings.audit.prove)
    draft = DraftStrategy(trials=trials, data_ref=data_ref, store=store, least=least)
    window = fix_window(draft, request, context.source, context.moment)
    panel = store.view(context.moment, window.data_ref).frozen()
    options: Any = {"window": window, "request": request, "seed": seed, "user_language": language}
    first = run_strategy_first(resources, trials, panel, **options)
    first_ref = store.update("signal", {name: first.signal.frame}, base=window.data_ref)
    signal = only_traded(name, in_window(first.completed(trials, panel).frame, request), traded)
    return {
        "data_ref": window.data_ref,
        "signal_ref": store.update("signal", {name: signal}, base=window.data_ref),
        "first_run": {**first.as_json(), "ref": first_ref},
        "warm_up": window.warm_up,
        "data_start": window.data_start,
        "notes": [asdict(note) for note in window.notes],
    }


def code_hash(cells: Sequence[str]) -> str:
    """Return the content hash of a strategy's cells."""
    return content_hash("\n# cell\n".join(cells))
