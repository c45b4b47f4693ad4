"""Does the code do it: what goes back to the model that wrote it, and what becomes of a fault that stays.

Each kind of finding goes back at least once; a false alarm of one kind leaves the others theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from quantgraph._util.texts import say
from quantgraph.audit import Finding, Report, issue_text
from quantgraph.errors import CheckpointerRequired
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import check_checkpointer
from quantgraph.runtime.endings import end_update, extended_history, language
from quantgraph.runtime.graph_state import (
    Clause,
    Understanding,
    Update,
    dialogue_of,
    progress_of,
    request_of,
    strategy_of,
)
from quantgraph.subgraphs.signal._attempts import REVIEW, with_errors
from quantgraph.subgraphs.signal._updates import MAX_CLARIFICATIONS, question_update
from quantgraph.subgraphs.signal.state import SignalSubgraphState

Kind = Literal["blind", "words", "numbers", "plan", "review", "doubt"]

_KINDS: dict[str, Kind] = {
    "meaning_differs": "words",
    "meaning_not_an_event": "words",
    "meaning_never_buys": "words",
    "meaning_never_sells": "words",
    "meaning_alike": "words",
    "meaning_on_schedule": "plan",
    "meaning_unsaid_symbol": "words",
    "meaning_missing_symbol": "words",
    "meaning_unsaid_session": "words",
    "meaning_lost_number": "numbers",
    "meaning_blind": "blind",
    "meaning_review": "review",
    "meaning_doubt": "doubt",
}
"""Of the findings that other code can mend. A rule that says both sides at once is not among them."""
_FAULTS = ("meaning_differs", "meaning_review")
"""Findings with a cell that shows them: with one of these a run does not end done."""
MAX_GENERATIONS = 6
"""Times that code is asked for in a request before no finding goes back any more."""


def sent_back_update(state: SignalSubgraphState, report: Report) -> Update:
    """Return the update in which the findings go back to the model; empty if no kind of them is new to it."""
    progress = progress_of(state)
    kinds = dict.fromkeys(_KINDS[each.code] for each in report.findings if each.code in _KINDS)
    new = [kind for kind in kinds if kind not in progress["sent_back"]]
    if not new or progress["generated"] >= MAX_GENERATIONS:
        return {}
    findings = [replace(each, severity="error") if each.code in _KINDS else each for each in report.findings]
    lines = [_line(each) for each in findings if each.code in (*_KINDS, "meaning_closing_words")]
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


def convention_lines(state: SignalSubgraphState, report: Report) -> list[str]:
    """Return what the code chose where the words leave it open and another choice changes positions."""
    return [say(language(state), zh=str(each.zh), en=each.message) for each in _conventions(report)]


def _conventions(report: Report) -> list[Finding]:
    return [each for each in report.findings if each.code.startswith("convention")]


def with_conventions(state: SignalSubgraphState, report: Report) -> Understanding | None:
    """Return the understanding with the conventions that were chosen, as defaults."""
    before = request_of(state)["understanding"]
    known = {each["became"] for each in before["clauses"]} if before else set()
    new = [line for line in convention_lines(state, report) if line not in known]
    if before is None or not new:
        return before
    clauses: list[Clause] = [{"words": "", "became": line, "status": "default"} for line in new]
    return {**before, "clauses": [*before["clauses"], *clauses]}


def convention_question(state: SignalSubgraphState, report: Report, resources: OpenResources) -> Update:
    """Return the question about a convention that decides many positions; empty if none does or was asked."""
    line = [each for each in _conventions(report) if each.code == "convention_matters"]
    words, dialogue = language(state), dialogue_of(state)
    begin = say(words, zh="这句话有几种读法", en="The words have several readings")
    was_asked = any(each["question"].startswith(begin) for each in dialogue["answers"])
    settled = was_asked or is_accepted(state) or request_of(state)["own"]
    if not line or settled or not _can_ask(state, resources):
        return {}
    lines = say(
        words, zh="；".join(str(each.zh) for each in line), en="; ".join(each.message for each in line)
    )
    reason = say(
        words, zh=f"{begin}。代码取了：{lines}。要这样吗？", en=f"{begin}. The code took: {lines}. Go on?"
    )
    options = say(words, zh="就这样|用另一种读法", en="go on so|take the other reading").split("|")
    return _question_about_code(state, reason, options)


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
