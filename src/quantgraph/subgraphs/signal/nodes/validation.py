"""Validation: code checks and decides; a model may warn, and reproduce a fault that code then sends back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Note, say
from quantgraph.audit import Finding, Report, first_lines
from quantgraph.audit.bars import check_data, check_signal, impossible_bars, unexplained_moves
from quantgraph.errors import (
    BadWindow,
    BudgetExceeded,
    ModelOutputInvalid,
    NoProgress,
    NoSignal,
    QuantGraphError,
)
from quantgraph.llm.messages import ask_json, read_json
from quantgraph.market import sessions as exchange_sessions
from quantgraph.recording.scope import call_once
from quantgraph.runtime import Agent, OpenResources, Resources, agent_question, check_finished, open_resources
from quantgraph.runtime.endings import (
    FATAL_ERRORS,
    MODEL_ERRORS,
    end_reason,
    end_update,
    language,
    success_update,
)
from quantgraph.runtime.graph_state import Update, changed, progress_of, request_of, strategy_of, written
from quantgraph.subgraphs.signal._agents import (
    ReviewReply,
    as_of,
    build_agent,
    current_ref,
    known_source,
    prompt_text,
    tool_context,
)
from quantgraph.subgraphs.signal._coding import (
    accepted_report,
    fault_update,
    is_accepted,
    open_fault,
    previous_review,
    sent_back_update,
)
from quantgraph.subgraphs.signal._meaning import clauses_beside, held_to_words, read_again, user_words
from quantgraph.subgraphs.signal._needs import with_request
from quantgraph.subgraphs.signal._own import own_proof
from quantgraph.subgraphs.signal._proof import (
    in_window,
    is_reproduced,
    issue_finding,
    not_evaluated_text,
    prove_causality,
    review_facts,
)
from quantgraph.subgraphs.signal._source_facts import decided_moves, suspect_bars_question, with_suspect_bars
from quantgraph.subgraphs.signal._updates import failure_update, read_messages
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    data_start,
    request_sessions,
    request_symbols,
    traded_symbols,
)

VALIDATION_NODE_PROMPT = prompt_text("validation", "en")


Target = Literal["signal", "data"]
_NOT_PROVED = Note(zh="未经证明", en="not proved")


def validation_node(
    state: SignalSubgraphState, *, resources: Resources | None = None, agent: Agent | None = None
) -> dict[str, Any]:
    """Validate the data, and the signal if there is one.

    Returns
    -------
    dict
        The report; the ending if all that was requested is there and valid; or the errors.
    """
    if state.get("messages"):
        state = {**state, "messages": read_messages(state["messages"])}
    resources = open_resources(resources)
    return written(state, _validate(with_request(state, resources), resources, agent))


def _validate(state: SignalSubgraphState, resources: OpenResources, agent: Agent | None) -> Update:
    target, report, signal_ref = _check_target(state, resources)
    if asked := suspect_bars_question(state, report, known_source(state, resources)):
        return {"validation": report.as_json(), **asked}
    if not report.passed:
        return _failure(state, resources, target, report)
    if not (is_accepted(state) or request_of(state)["own"]):
        if sent_back := sent_back_update(state, report):
            return sent_back
        try:
            if _wants_review(resources, target, report):
                by_trees = target == "signal" and bool(request_of(state)["checked"].get("trees"))
                look = partial(read_again, report) if by_trees else partial(_review, target)
                report = report.with_findings(*look(state, resources, agent, signal_ref))
        except MODEL_ERRORS as error:
            return {"validation": report.as_json(), **end_update(state, "model_unavailable", error)}
        except BudgetExceeded as error:
            return {"validation": report.as_json(), **end_update(state, end_reason(error), error)}
        if sent_back := sent_back_update(state, report):
            return sent_back
    return _success(state, resources, target, report, signal_ref)


def _failure(state: SignalSubgraphState, resources: OpenResources, target: Target, report: Report) -> Update:
    """Return the update of data or a signal with errors."""
    errors = [f"{finding.code}: {finding.message}" for finding in report.errors]
    if target == "signal" and request_of(state)["own"]:  # no model can write another
        return {"validation": report.as_json(), **end_update(state, "repeated_error", errors[0])}
    reset: dict[str, Any] = {"signal_ready": False, "strategy": {}}
    if target == "data":  # so that reflection does not continue with it
        reset = {"data_ready": False, "indicators_ready": False, "data_ref": resources.store.empty}
    return {"validation": report.as_json(), **reset, **failure_update(state, f"validate {target}", errors)}


def _success(
    state: SignalSubgraphState, resources: OpenResources, target: Target, report: Report, signal_ref: str
) -> Update:
    """Return the update of data or a signal without errors; a fault that stays is asked about."""
    update: dict[str, Any] = {"validation": report.as_json()}
    if target == "signal":
        judged_from = {"evaluated_from": report.summary["evaluated_from"]}
        update["strategy"] = {**strategy_of(state), **judged_from}
        update["data_ref"] = signal_ref
    proof = report.summary["causality"] or {"line": _NOT_PROVED} if target == "signal" else None
    end = f", {proof['line']}" if proof else ""
    update |= success_update(state, f"validate: {target} passed{end}")
    wants_signal = state["user_intent"]["type"] != "data_fetch"
    if wants_signal and target == "data":
        return {**update, "current_task": "signal_gen"}
    now = changed(state, update)
    fault = open_fault(update["validation"])
    if fault is not None and not is_accepted(state) and (asked := fault_update(now, fault, resources)):
        return {**update, **asked}
    summary = _summary_text(state, report, target)
    _, line = first_lines(update["validation"], language(state))
    text = "\n".join([*decided_moves(state), *line, summary])
    # The conversation is in the strategy's cells and the record: a checkpoint of each session need not carry it.
    return {**update, "attempts": [], **end_update(changed(now, {"attempts": []}), "done", text=text)}


def _wants_review(resources: OpenResources, target: Target, report: Report) -> bool:
    """Whether a model is asked: by the setting ``review``; ``auto`` is where code compared no positions."""
    wanted = resources.settings.review
    if target == "data":
        return wanted == "always" and bool(report.findings)
    if wanted != "auto":
        return wanted == "always"
    return "meaning" not in report.checks


def _check_target(state: SignalSubgraphState, resources: OpenResources) -> tuple[Target, Report, str]:
    """Return what was checked, the report, and the commit to trade; from the recording if it is there.

    Code with which the user goes on was checked before.
    """
    strategy, source = strategy_of(state), known_source(state, resources)
    if is_accepted(state):
        before = accepted_report(Report.from_json(progress_of(state)["validation"]))
        return "signal", before, current_ref(state, resources)
    facts = {
        "step": "validate",
        "data_ref": current_ref(state, resources),
        "signal_ready": bool(state.get("signal_ready")),
        "strategy": {key: strategy.get(key) for key in ("name", "code_hash", "data_ref", "warm_up")},
        "request": request_of(state)["checked"],
        "as_of": str(as_of(state, resources)),
        "language": language(state),
        "said": [user_words(state, source)[0], request_of(state)["understanding"]],
        "audit": resources.settings.audit.cuts,
        "after": sum(progress_of(state)["calls"].values()),  # a lost commit may be fetched again later
    }
    checked = call_once("code", facts, lambda: _check(state, resources))
    return checked["target"], Report.from_json(checked["report"]), checked["signal_ref"]


def _check(state: SignalSubgraphState, resources: OpenResources) -> dict[str, Any]:
    """Check the data and the signal; an error that a model can correct becomes a finding."""
    target: Target = "data"
    signal_ref = current_ref(state, resources)
    try:
        report = _check_data(state, resources)
        if report.passed and state.get("signal_ready"):
            target = "signal"
            checked = _check_signal(state, resources, signal_ref)
            if checked.passed:  # the most expensive check, for a valid signal only
                prove = own_proof if request_of(state)["own"] else prove_causality
                checked = checked.joined(prove(state, resources))
            report = report.joined(checked)
            if report.passed and (request_of(state)["own"] or {"said": True})["said"]:
                report = held_to_words(state, resources, signal_ref, report)
    except FATAL_ERRORS:
        raise
    except QuantGraphError as error:
        found = Finding(severity="error", code=error.code, message=error.message)
        report = Report(checks=(target,), findings=(found,))
    return {"target": target, "report": report.as_json(), "signal_ref": signal_ref}


def _check_data(state: SignalSubgraphState, resources: OpenResources) -> Report:
    request = request_of(state)["checked"]
    view = resources.store.view(as_of(state, resources), current_ref(state, resources))
    source = known_source(state, resources)
    symbols, sessions = request_symbols(request, source), request_sessions(request, source)
    report = check_data(
        view,
        symbols=symbols,
        sessions=sessions,
        indicators=request["indicators"],
        expected_sessions=_calendar(symbols, data_start(request), sessions[-1]),
    )
    bars, traded = view["ohlcv"], traded_symbols(request, source)
    impossible = {} if report.passed else impossible_bars(bars, symbols=traded, sessions=sessions)
    moves = unexplained_moves(bars, symbols=traded, sessions=sessions) if "close" in bars else {}
    return with_suspect_bars(report, impossible, moves)


def _check_signal(state: SignalSubgraphState, resources: OpenResources, ref: str) -> Report:
    if not strategy_of(state):
        raise NoSignal("the state has no strategy: a signal is checked with the code that made it")
    view, name = resources.store.view(as_of(state, resources), ref), strategy_of(state)["name"]
    closes = in_window(view["ohlcv"]["close"], request_of(state)["checked"])
    traded = list(traded_symbols(request_of(state)["checked"], known_source(state, resources)))
    return check_signal(name, view["signal"][name], closes[traded])


def _calendar(symbols: tuple[str, ...], first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex | None:
    """Return the mainland exchanges' sessions; None for other markets and outside of the calendar."""
    if not all(symbol.endswith((".SH", ".SZ", ".BJ")) for symbol in symbols):
        return None
    try:
        return exchange_sessions(first, last)
    except BadWindow:
        return None


def _review(
    target: Target, state: SignalSubgraphState, resources: OpenResources, agent: Agent | None, ref: str
) -> list[Finding]:
    """Return a model's additional findings; an unreadable review is a finding of its own, as ``info``.

    Code that came back as it was is not reviewed again.
    """
    if target == "signal" and (kept := previous_review(state)):
        return kept
    prompt = resources.prompt("validate", prompt_text("validation", language(state))).format(
        validation_type=target, expected_fields=request_of(state)["checked"]["indicators"]
    )
    view = resources.store.view(as_of(state, resources), ref)
    facts: dict[str, Any] = {"target": target}
    if target == "signal":
        signal = view["signal"][strategy_of(state)["name"]]
        sentence, _ = user_words(state, known_source(state, resources))
        facts |= review_facts(
            sentence, _understood(state), strategy_of(state), signal, view["ohlcv"]["close"]
        )
    try:
        agent = agent or build_agent("validation", resources)
        invoke: Any = partial(agent.invoke, context=tool_context(state, resources, ref))
        review = ask_json(
            invoke, agent_question(prompt, "validate", facts), ReviewReply, check=check_finished
        )
    except (ModelOutputInvalid, NoProgress) as error:
        message = f"the model's review was not used: {error.message}"
        return [Finding(severity="info", code="no_review", message=message)]
    shown = read_json(prompt, ReviewReply).issues_found  # small models repeat the prompt's example
    issues = [issue for issue in review.issues_found if issue not in shown]
    if target == "data":
        return [issue_finding(issue, reproduced=False) for issue in issues]
    return [
        issue_finding(
            issue,
            reproduced=call_once(
                "code",
                {"step": "review", "signal_ref": ref, "issue": issue.model_dump()},
                partial(is_reproduced, issue, signal, resources.runner, view.frozen()),
            ),
        )
        for issue in issues
    ]


def _understood(state: SignalSubgraphState) -> dict[str, Any]:
    """How the words were read, each piece once."""
    rule = request_of(state)["checked"]["strategy"]
    understanding: Mapping[str, Any] = request_of(state)["understanding"] or {}
    words = {name: understanding.get(name) for name in ("watch", "trade", "plan")}
    return {"rule": rule, **words, "clauses": clauses_beside(understanding, rule)}


def _summary_text(state: SignalSubgraphState, report: Report, target: str) -> str:
    summary, request = report.summary, request_of(state)["checked"]
    extent = f"{summary['date_range']}, {summary['stock_count']} x {summary['session_count']}"
    if target == "data":
        return say(language(state), zh=f"数据已就绪：{extent}。", en=f"The data is ready: {extent}.")
    counts, name = summary["signal_counts"], strategy_of(state)["name"]
    others = [each for each in strategy_of(state).get("signals", ()) if each != name]
    proof = (summary["causality"] or {"text": _NOT_PROVED.text(language(state))})["text"] + say(
        language(state), **not_evaluated_text(summary)
    )
    notes = "".join(f" {note}." for note in [*_not_traded(others, state), *request["notes"]])
    return say(
        language(state),
        zh=f"信号 {name} 已生成并通过验证：{extent}；买入 {counts['buy']}，卖出 {counts['sell']}。{proof}。{notes}",
        en=f"Signal {name} is ready and validated: {extent}; {counts['buy']} buys, {counts['sell']} sells; "
        f"{proof}.{notes}",
    )


def _not_traded(others: list[str], state: SignalSubgraphState) -> list[str]:
    """The remark on signals that the code hands over beside the one that is traded."""
    if not others:
        return []
    named = ", ".join(others)
    return [
        say(
            language(state),
            zh=f"代码还给出了信号 {named}，不用于交易",
            en=f"the code hands over {named} too, not traded",
        )
    ]
