"""Does the code do it: what a model that writes code is told, what goes back, and a fault that stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.texts import Language, say
from quantgraph.audit import Finding, Report, issue_text
from quantgraph.errors import CheckpointerRequired, UnknownField
from quantgraph.llm.messages import escape_tags, field_list, wrap
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import check_checkpointer
from quantgraph.runtime.endings import end_update, extended_history, language
from quantgraph.runtime.graph_state import Attempt, Update, dialogue_of, progress_of, request_of, strategy_of
from quantgraph.state import View
from quantgraph.subgraphs.signal._agents import prompt_text
from quantgraph.subgraphs.signal._attempts import REVIEW, with_errors
from quantgraph.subgraphs.signal._meaning import clauses_beside, user_words
from quantgraph.subgraphs.signal._updates import MAX_CLARIFICATIONS, question_update
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import coded_in, traded_symbols, trees_in
from quantgraph.tools import ToolContext


def code_prompt(
    state: SignalSubgraphState,
    context: ToolContext,
    request: Mapping[str, Any],
    attempts: Sequence[Attempt],
    resources: OpenResources,
) -> str:
    """Return the prompt of code for a request, with the errors that no attempt of its conversation has."""
    view, words = context.view, language(state)
    known = {error for attempt in attempts for error in attempt["errors"]}
    errors = "\n".join(error for error in state.get("error_messages", []) if error not in known)
    packages = ", ".join(resources.settings.sandbox_packages)
    coded = bool(coded_in(request))
    text = _conditions_text if coded else _strategy_text
    ours = prompt_text("conditions" if coded else "signal_generate", words)
    prompt = (ours if coded else resources.prompt("signal_generate", ours)).format(
        available_ohlcv=_bars(view, request, words),
        available_indicators=field_list(view["indicators"]),
        strategy_description=text(state, request, context),
    )
    parts = [
        prompt,
        errors and say(words, zh="未解决的错误\n", en="Open errors\n") + wrap("errors", errors),
        "" if coded else _watched_text(state, request, context),
        _previous_code(state),
        packages and say(words, zh="还可以导入：", en="These can be imported, too: ") + packages,
        "" if coded else prompt_text("idioms", words),
    ]
    return "\n\n".join(filter(None, parts))


def _strategy_text(state: SignalSubgraphState, request: Mapping[str, Any], context: ToolContext) -> str:
    """Return the user's own words, the rule as it was read, clauses beside it and the plan."""
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


def _conditions_text(state: SignalSubgraphState, request: Mapping[str, Any], context: ToolContext) -> str:
    """Return the user's own words, the conditions to code, as they were read, and the rule around them."""
    text, _ = user_words(state, context.source)
    read = {each["name"]: each["became"] for each in state["user_intent"]["params"]["clauses"]}
    conditions = {name: read.get(name) or quote for name, quote in coded_in(request).items()}
    buy, sell = trees_in(request)
    rule = say(language(state), zh=f"规则：买入 {buy}；卖出 {sell}", en=f"The rule: buy {buy}; sell {sell}")
    if levels := ", ".join(request["index"]):
        rule += say(
            language(state), zh=f"\n已载入的指数：{levels}", en=f"\nIndices that are loaded: {levels}"
        )
    return f"{wrap('request', text)}\n{wrap('conditions', canonical_json(conditions))}\n{rule}"


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
                zh='\n- snapshot.adjusted("close")：复权价，用于跨除权日的均线、涨幅和新高；'
                "说出的价格是不复权的",
                en='\n- snapshot.adjusted("close"): for averages, returns and highs that span an ex-dividend '
                "day; a price that was said is raw",
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


_SENT = ("meaning_differs", "meaning_on_schedule", "meaning_lost_number", "meaning_review", "meaning_doubt")
"""Findings that go back to the model that wrote free code, each kind once."""
_FAULTS = ("meaning_differs", "meaning_review")
"""Findings with a cell that shows them: with one of these a run does not end done."""
_NEVER_BUYS = "never_buys"
"""The finding that a rule cannot trade in the window: with it a run goes on if nobody can be asked."""
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
    if coded_in(request_of(state)["checked"]):
        lines[-1] += (
            "\nThat is the whole rule's signal; a condition of yours is 1 where it holds, for an exit, too."
        )
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
    """Return the first issue that a person decides: code that departs, or a rule that never buys."""
    asked = (*_FAULTS, _NEVER_BUYS)
    return next((issue for issue in report.get("issues_found", ()) if issue["code"] in asked), None)


def fault_update(state: SignalSubgraphState, fault: Mapping[str, Any], resources: OpenResources) -> Update:
    """Return the update that asks whether to go on with a fault, or ends a run that cannot ask.

    It is empty for a rule that never buys where nobody can be asked: the verdict says so.
    """
    words, own = language(state), request_of(state)["own"]
    line = issue_text(fault, words)
    if fault["code"] == _NEVER_BUYS:
        if (own and not own["said"]) or not _can_ask(state, resources):
            return {}
        options = say(words, zh="照样运行|停止", en="go on all the same|stop").split("|")
        return _question_about_code(state, _never_buys_text(state), options)
    if not _can_ask(state, resources):
        return failed_update(state, fault)
    if request_of(state)["checked"].get("trees"):
        zh, en = "同样的话有两种读法，交易不同。", "The words have two readings that trade otherwise. "
        other = [fault["detail"]] if fault.get("detail") else []
        options = say(words, zh="按现在读到的做|停止", en="go on as it is read|stop").split("|")
        return _question_about_code(state, say(words, zh=zh, en=en) + line, [options[0], *other, options[1]])
    stayed = say(words, zh="改过之后仍然如此。", en="It stayed so after it was sent back. ")
    go_on = say(words, zh="要按代码现在的做法继续吗？", en="Go on as the code does?")
    reason = f"{line}\n" + ("" if own else stayed) + go_on
    options = say(words, zh="按代码的做法继续|停止", en="go on as the code does|stop").split("|")
    return _question_about_code(state, reason, options)


def _never_buys_text(state: SignalSubgraphState) -> str:
    """What is asked about a rule that never buys, with its words."""
    request, understood = request_of(state)["checked"], request_of(state)["understanding"]
    entry = understood["rule"]["entry"] if understood else request["strategy"]
    window = f"{request['start']} - {request['end']}"
    return say(
        language(state),
        zh=f"「{entry}」在 {window} 的行情里一次也没有成立，不会有任何买入。照样运行，还是换一个条件？",
        en=f'"{entry}" holds nowhere in {window}: nothing would be bought. Go on all the same, or say '
        "another condition?",
    )


def failed_update(state: SignalSubgraphState, fault: Mapping[str, Any]) -> Update:
    """Return the update that ends a run whose code departs from the sentence, or whose rule never buys."""
    line = issue_text(fault, language(state))
    if fault["code"] == _NEVER_BUYS:
        return end_update(state, "cancelled", f"cancelled: {line}")
    return end_update(state, "meaning_failed", f"meaning_failed: {line}")


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
    asked = question_update(state, "meaning", reason, options=options)
    attempts = progress_of(state)["attempts"]
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
