"""Does the code do it: what goes back to the model that wrote it, and what becomes of a fault that stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from quantgraph._util.texts import say
from quantgraph.audit import Finding, Report, issue_text
from quantgraph.errors import CheckpointerRequired
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import check_checkpointer
from quantgraph.runtime.endings import end_update, extended_history, language
from quantgraph.runtime.graph_state import (
    Update,
    dialogue_of,
    progress_of,
    request_of,
    strategy_of,
)
from quantgraph.subgraphs.signal._attempts import REVIEW, with_errors
from quantgraph.subgraphs.signal._updates import MAX_CLARIFICATIONS, question_update
from quantgraph.subgraphs.signal.state import SignalSubgraphState

_SENT = ("meaning_differs", "meaning_on_schedule", "meaning_lost_number", "meaning_review", "meaning_doubt")
"""Findings that go back to the model that wrote free code, each kind once."""
_FAULTS = ("meaning_differs", "meaning_review")
"""Findings with a cell that shows them: with one of these a run does not end done."""
MAX_GENERATIONS = 6
"""Times that code is asked for in a request before no finding goes back any more."""


def sent_back_update(state: SignalSubgraphState, report: Report) -> Update:
    """Return the update in which findings go back to the model that wrote code; empty if none is new."""
    progress = progress_of(state)
    codes = dict.fromkeys(each.code for each in report.findings if each.code in _SENT)
    new = [code for code in codes if code not in progress["sent_back"]]
    is_written = bool(request_of(state)["checked"].get("trees"))
    if not new or is_written or progress["generated"] >= MAX_GENERATIONS:
        return {}
    findings = [replace(each, severity="error") if each.code in codes else each for each in report.findings]
    lines = [_line(each) for each in findings if each.code in codes]
    line = f"validate signal sent back ({', '.join(new)}): {lines[0].splitlines()[0]}"
    return {
        "validation": replace(report, findings=tuple(findings)).as_json(),
        "signal_ready": False,
        "strategy": {},
        "error_messages": lines,
        "execution_history": extended_history(state, line),
        "attempts": with_errors(progress["attempts"], lines),
        "sent_back": [*progress["sent_back"], *new],
    }


def _line(finding: Finding) -> str:
    """The text of a finding for the model."""
    if finding.code == "meaning_doubt":
        return f"{REVIEW}a reviewer thinks: {finding.detail}"
    return "\n".join(filter(None, (f"meaning: {finding.message}", finding.detail)))


def previous_review(state: SignalSubgraphState) -> list[Finding]:
    """Return what the review found in the same code before; empty if other code came back."""
    attempts = progress_of(state)["attempts"]
    if len(attempts) < 2 or attempts[-1]["cells"] != attempts[-2]["cells"]:
        return []
    before = progress_of(state)["validation"].get("issues_found", ())
    found = (Finding(**issue) for issue in before if issue["code"] in ("meaning_review", "meaning_doubt"))
    return [replace(each, severity="warning") for each in found]


def open_fault(report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first issue of a report that shows a cell where the code departs from the sentence."""
    return next((issue for issue in report.get("issues_found", ()) if issue["code"] in _FAULTS), None)


def fault_update(state: SignalSubgraphState, fault: Mapping[str, Any], resources: OpenResources) -> Update:
    """Return the update that asks whether to go on with a fault, or ends a run that cannot ask."""
    words = language(state)
    line = issue_text(fault, words)
    if not _can_ask(state, resources):
        return failed_update(state, fault)
    if request_of(state)["checked"].get("trees"):
        zh, en = "同样的话有两种读法，交易不同。", "The words have two readings that trade otherwise. "
        other = [fault["detail"]] if fault.get("detail") else []
        options = say(words, zh="按现在读到的做|停止", en="go on as it is read|stop").split("|")
        return _question_about_code(state, say(words, zh=zh, en=en) + line, [options[0], *other, options[1]])
    stayed = say(words, zh="改过之后仍然如此。", en="It stayed so after it was sent back. ")
    go_on = say(words, zh="要按代码现在的做法继续吗？", en="Go on as the code does?")
    reason = f"{line}\n" + ("" if request_of(state)["own"] else stayed) + go_on
    options = say(words, zh="按代码的做法继续|停止", en="go on as the code does|stop").split("|")
    return _question_about_code(state, reason, options)


def failed_update(state: SignalSubgraphState, fault: Mapping[str, Any]) -> Update:
    """Return the update that ends a run whose code departs from the sentence."""
    return end_update(state, "meaning_failed", f"meaning_failed: {issue_text(fault, language(state))}")


def _can_ask(state: SignalSubgraphState, resources: OpenResources) -> bool:
    """Whether a person, or a function in its place, can be asked one more question."""
    if state.get("clarification_count", 0) >= MAX_CLARIFICATIONS:
        return False
    if resources.on_clarify != "ask":
        return callable(resources.on_clarify)
    with suppress(CheckpointerRequired):
        check_checkpointer("meaning")
        return True
    return False


def _question_about_code(state: SignalSubgraphState, reason: str, options: Sequence[str]) -> Update:
    """Return a question about the code; the answer goes on in the conversation that wrote it, if one did."""
    asked, attempts = (
        question_update(state, "meaning", reason, options=options),
        progress_of(state)["attempts"],
    )
    last = [{**attempt, "question": reason} for attempt in attempts[-1:]]
    return {**asked, "attempts": [*attempts[:-1], *last]}


def accepted_report(report: Report) -> Report:
    """Return the report in which the faults say that the user goes on with the code as it is."""
    findings = (
        replace(
            each,
            message=f"You chose to go on as the code does. {each.message}",
            zh=f"您选择按代码的做法继续。{each.zh}",
        )
        if each.code in _FAULTS
        else each
        for each in report.findings
    )
    return replace(report, findings=tuple(findings))


def is_accepted(state: SignalSubgraphState) -> bool:
    """Whether the user accepts the signal's code, though it departs from the sentence."""
    accepted = dialogue_of(state)["accepted_code"]
    return accepted is not None and accepted == strategy_of(state).get("code_hash")
