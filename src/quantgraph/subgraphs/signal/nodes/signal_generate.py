"""Signal generation: an agent writes pandas code; the cells that its signal needs are the strategy."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from langchain_core.messages import ToolMessage

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import Language, Note
from quantgraph.audit.bars import check_signal
from quantgraph.audit.causality import BuiltTrials
from quantgraph.broker import Decider
from quantgraph.broker.session import load_block_code
from quantgraph.errors import CodeFailed, QuantGraphError
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
from quantgraph.runtime.graph_state import Attempt, Update, progress_of, request_of, written
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
from quantgraph.subgraphs.signal._coding import code_prompt
from quantgraph.subgraphs.signal._needs import with_request
from quantgraph.subgraphs.signal._own import own_update
from quantgraph.subgraphs.signal._proof import DraftStrategy, fix_window, in_window, run_strategy_first
from quantgraph.subgraphs.signal._updates import failure_update, question_update, read_messages
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    coded_in,
    only_traded,
    request_hash,
    restrict_to_request,
    rule_of_trees,
    traded_symbols,
    trees_in,
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
            code_prompt(state, context, request, attempts, resources),
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
    if lacking := no_signal_error(replies, context.names, coded_in(request)):
        has_call = any(isinstance(reply, ToolMessage) for reply in replies)
        return _failure_update(state, attempts, attempt, lacking, has_call=has_call)
    _add_rule(context, request)
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
    _add_rule(context, request)
    attempt = Attempt(request=dict(request), cells=context.cells, said="", errors=[], made=None)
    try:
        made = _make_signal(state, resources, context, request, data_ref)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:  # a rule that fails would fail again
        because = "repeated_error" if isinstance(error, CodeFailed) else end_reason(error)
        return end_update(state, because, error)
    return _signal_update(state, context, attempt, made)


def _add_rule(context: ToolContext, request: Mapping[str, Any]) -> None:
    """Add the cell of the request's rule, if it has one; cells before it may hand conditions over to it."""
    if not (trees := trees_in(request)):
        return
    rule, traded = rule_of_trees(trees), traded_symbols(request, context.source)
    cell = rule.cell(rule.name, traded if {*rule.watched} - {*traded} else ())
    context.restore([*context.cells, cell], [*context.names, rule.name])


def _without_earlier_sessions(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != "data_start"}


def _misaligned(context: ToolContext, request: Mapping[str, Any]) -> str:
    """Return what is wrong with the signal, or with a condition, in the rehearsal; empty if nothing is."""
    close, traded = context.view["ohlcv"]["close"], [*traded_symbols(request, context.source)]
    for name in (*coded_in(request), context.names[-1]):
        signal, is_condition = context.signal(name), name in coded_in(request)
        errors = check_signal(name, signal, close if is_condition else close[traded]).errors
        if found := [each for each in errors if each.code == "misaligned"]:
            return f"misaligned: {found[0].message}"
        if is_condition and (lost := [symbol for symbol in traded if symbol not in signal]):
            return f"misaligned: {name} lacks columns of close: {', '.join(lost[:3])}"
        if is_condition and signal.eq(-1).any(axis=None):
            return f"not_a_condition: {name} has -1; 1 is that it holds, 0 that it does not, for an exit, too"
    return ""


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
        "signals": [each for each in context.names if each not in coded_in(request)],
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
    trials = trials_of(resources.runner, context.needed_cells(), name, prove=resources.settings.audit.prove)
    if not isinstance(trials, BuiltTrials):  # a rule's own cell has the axes of the data
        only_traded(name, context.signal(name), traded)  # before the longer runs
        if missing := _misaligned(context, request):
            return {"misaligned": missing}
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
