"""What the research tools answer: short JSON objects, each with what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import pandas as pd
from typing_extensions import TypedDict

from quantgraph._util.texts import Language, escape_controls, language_of, say, short_line, without_places
from quantgraph.audit import first_lines, issue_text
from quantgraph.audit.causality import Verdict
from quantgraph.errors import QuantGraphError
from quantgraph.integrations.mcp._research_runs import RunStatus, refusal_of
from quantgraph.runs import RunResult, next_command
from quantgraph.subgraphs.signal import HeldSignal, understanding_lines

MOST_ROWS: Final = 100
"""Trades of one answer."""
_LINE, _LINES, _MOST_TEXT = 600, 20, 10_000
_WORDS = frozenset(
    {"sentence", "understood", "not_done", "words", "became", "question", "options", "resource"}
)
"""Of an answer, what holds the person's words or an address, in which a slash is no folder."""
_NUMBERS = (
    *("final_value", "return", "annual_return", "volatility", "sharpe", "sortino"),
    *("max_drawdown", "trades", "win_rate", "profit_factor", "turnover", "costs", "exposure"),
)


class Question(TypedDict):
    """A question of a run; an answer names its ``id``."""

    id: str
    kind: str
    text: str
    options: list[str]
    default: str | None
    not_read: list[str]


class _Answer(TypedDict, total=False):
    """What each answer may have: what is next, and of a refusal its error and code."""

    next: str
    error: str
    code: str


class RunAnswer(_Answer, total=False):
    """How a run stands."""

    run: str
    state: str
    understood: list[str]
    not_done: list[str]
    question: Question
    progress: str
    text: list[str]
    notes: list[str]
    numbers: dict[str, Any]
    counterexample: dict[str, Any]


class AuditAnswer(_Answer, total=False):
    """What an audit found."""

    causal: bool
    text: str
    proved: int
    sessions: int
    counterexample: dict[str, Any]
    compared: bool
    departures: list[str]
    not_compared: str


class ResultAnswer(_Answer, total=False):
    """A run's result."""

    run: str
    state: str
    ended_because: str | None
    sentence: str
    text: list[str]
    understood: list[str]
    clauses: list[dict[str, Any]]
    notes: list[str]
    assumptions: list[str]
    window: dict[str, Any]
    symbols: list[str]
    symbol_count: int
    plan: dict[str, Any]
    numbers: dict[str, Any]
    benchmark: dict[str, Any]


class TradesAnswer(_Answer, total=False):
    """Fills of a run."""

    run: str
    total: int
    offset: int
    rows: list[dict[str, Any]]


class ComparisonAnswer(_Answer, total=False):
    """Runs side by side: a list a number or difference, in the order of ``runs``."""

    runs: list[str]
    numbers: dict[str, list[Any]]
    differences: dict[str, list[str]]
    note: str


class ReportAnswer(_Answer, total=False):
    """A page, or a script."""

    run: str
    page: str
    resource: str
    script: str


class StatusAnswer(_Answer, total=False):
    """A run, or the runs of the server."""

    runs: list[dict[str, Any]]
    total: int
    run: str
    state: str
    progress: str
    text: list[str]


_NEXT = {
    "working": "Call status with this run until its state is another one.",
    "understood": "Show the person what was understood. If it is right, call run with this run. If not, "
    "answer the question by understand: run, question (its id) and answer, in words that change the request.",
    "done": "Tell the person the text, the notes, the window and the numbers. More: result (buy and hold, "
    "each clause), trades, compare, report.",
    "stopped": "It can be gone on with: call run with this run.",
}
_ASKS = (
    "Put the question to the person, unless their words answer it, and call {tool} with run, question (its "
    "id) and answer: an option, its number, or words of theirs. An answer with a rule is the whole rule, "
    "with its stops, size and holding time: what it leaves out is dropped. Leave out words that add nothing."
)
_OR_CODE = (
    " Or, if data that audit names can say the rule, write its code: audit it with the sentence, then "
    "run with code and the same sentence; give both the person's symbols, start and end, and run the plan, "
    "where they may not be read."
)

_OR_MEND = " Or mend the code where it departs from the sentence, audit it, and run it anew."
_UNREAD = " The words of not_read count for nothing: say them in other words, or answer yes to go on without."
_SAMPLED = " The proof was sampled, not made at every session: say so."
_AGAIN = "It stopped for a reason that may pass: call run with this run again, or begin another."
_ENDED = (
    "It ended without a result, and would again: tell the person why. Change the sentence, the plan or the "
    "code, and begin another."
)


def run_answer(run: str, status: RunStatus, *, tool: str) -> RunAnswer:
    """How a run stands, for a tool that began it or goes on with it."""
    answer: RunAnswer = {"run": run, "state": status.state, "next": _NEXT.get(status.state, "")}
    if (work := status.work) is not None:
        counted = f"session {work.number} of {work.total}, " if work.total else ""
        answer["progress"] = f"{counted}{short_line(work.text)}" if work.text else "begun"
    if (result := status.result) is not None:
        answer |= _of_result(result, status.state, tool)
    if status.error:
        answer |= cast("RunAnswer", dict(status.error))
        refused = status.state == "refused"
        answer["next"] = next_of_error(str(status.error.get("code"))) if refused else _AGAIN
    return answer


def _of_result(result: RunResult, state: str, tool: str) -> RunAnswer:
    answer: RunAnswer = {}
    if result.understanding:
        answer["understood"] = _understood(result)
        answer["not_done"] = [
            each["words"]
            for each in (result.get("understanding") or {}).get("clauses", ())
            if each["status"] == "not_done"
        ]
    if state in {"asks", "understood"}:
        answer["question"] = question = _question(result["asked"], language_of(str(result["question"])))
        if state == "asks":
            answer["next"] = _ASKS.format(tool=tool) + _other_way(question)
    if state in {"done", "ended"}:
        answer["text"] = headline(result)
        answer["notes"] = _notes(result)
        answer["numbers"] = _account(result)
        if (result.get("causality") or {}).get("coverage", {}).get("method") == "sampled":
            answer["next"] = _NEXT["done"] + _SAMPLED
    if state == "ended":
        answer["next"] = _AGAIN if next_command(result, "run") else _ENDED
    return answer


def _understood(result: RunResult) -> list[str]:
    """What was understood, a line each, with the plan in force: the call's words go before the sentence's."""
    understood: Any = {**result["understanding"]}
    understood["plan"] = {**understood["plan"], **(result.get("plan") or {})}
    lines = understanding_lines(understood, language_of(str(result["question"])))
    return [short_line(line, _LINE) for line in lines]


def _other_way(question: Question) -> str:
    """What the client may do in place of an answer."""
    if question["kind"] == "meaning":
        return _OR_MEND
    if question["kind"] == "confirmation":
        return _UNREAD
    return _OR_CODE if question["kind"] == "strategy" or question["not_read"] else ""


def _question(asked: Mapping[str, Any], language: Language) -> Question:
    text = f"{asked['error']}\n{asked['question']}" if asked.get("error") else asked["question"]
    if asked["kind"] == "confirmation" and not asked.get("error"):  # its lines stand above
        text = say(language, zh="就这样运行吗？", en="Run it so?")
    return {
        "id": asked["id"],
        "kind": asked["kind"],
        "text": text[:4_000],
        "options": list(asked["options"])[:_LINES],
        "default": asked["default"],
        "not_read": list(asked["unread"])[:_LINES],
    }


def headline(result: RunResult) -> list[str]:
    """What a person must read first of a run."""
    language = language_of(str(result["question"]))
    title, first = first_lines(result.get("validation") or {}, language)
    lines = [
        str(result.get("error") or title or result["ended_because"]),
        result.verdict,
        *first,
        str((result.get("causality") or {}).get("text", "")),
        *map(str, result.get("assumptions") or ()),
    ]
    return [short_line(line, _LINE) for line in lines if line][:_LINES]


def _notes(result: RunResult) -> list[str]:
    return [short_line(note, _LINE) for note in result.get("notes") or ()][:_LINES]


def _numbers(account: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: _number(account[name]) for name in _NUMBERS if account and account.get(name) is not None}


def _account(result: RunResult) -> dict[str, Any]:
    """The account's numbers, with the cash that it began with."""
    cash = {"initial_cash": _number(result["cash"])} if result.get("cash") else {}
    return cash | _numbers(result.get("account"))


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value


def result_answer(run: str, status: RunStatus) -> ResultAnswer:
    """The result of a run that has a folder."""
    result = status.result or RunResult()
    understanding = result.get("understanding") or {}
    return {
        "run": run,
        "state": status.state,
        "ended_because": result.get("ended_because"),
        "sentence": str(result.get("question", "")),
        "text": headline(result) if status.state in {"done", "ended"} else [],
        "understood": _understood(result) if result.understanding else [],
        "clauses": [dict(each) for each in understanding.get("clauses", ())][:_LINES],
        "notes": _notes(result),
        "assumptions": [short_line(each, _LINE) for each in result.get("assumptions") or ()][:_LINES],
        "window": dict(result.get("window") or {}),
        "symbols": list(result.get("symbols") or ())[:50],
        "symbol_count": len(result.get("symbols") or ()),
        "plan": dict(result.get("plan") or {}),
        "numbers": _account(result),
        "benchmark": {
            "name": (result.get("benchmark") or {}).get("name"),
            **_numbers(result.get("benchmark")),
        },
        "next": "Say what was not done, not compared or taken by default, too. trades has the fills; "
        "report writes a page.",
    }


def trades_answer(run: str, result: RunResult, offset: int, limit: int) -> TradesAnswer:
    """The fills of a run, some of them."""
    table = result.trades
    names = ("trade_date", "ts_code", "side", "quantity", "price", "amount", "reason", "profit", "holding")
    part = table.iloc[offset : offset + limit]
    rows = [
        {name: _cell(value) for name, value in row.items() if name in names and not _is_missing(value)}
        for row in part.to_dict("records")
    ]
    left = len(table) - offset - len(rows)
    more = f"{left} more: trades with offset={offset + len(rows)}." if left > 0 else "These are the last."
    return {"run": run, "total": len(table), "offset": offset, "rows": rows, "next": more}


def _cell(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d}"
    return _number(value.item() if hasattr(value, "item") else value)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def comparison_answer(runs: Sequence[str], compared: Any) -> ComparisonAnswer:
    """Runs side by side."""
    numbers = {
        str(name): [None if _is_missing(each) else _number(each) for each in row]
        for name, row in zip(compared.numbers.index, compared.numbers.to_numpy().tolist(), strict=True)
    }
    differences = {
        str(name): [short_line(each, _LINE) for each in row]
        for name, row in islice(
            zip(compared.differences.index, compared.differences.to_numpy().tolist(), strict=True), _LINES
        )
    }
    return {
        "runs": list(runs),
        "numbers": numbers,
        "differences": differences,
        "note": compared.note,
        "next": "A better number in one window does not prove a better rule: say so. report writes a page.",
    }


def audit_answer(verdict: Verdict, held: HeldSignal | None, sentence: str) -> AuditAnswer:
    """What the proof and the comparison with the sentence found."""
    found, language = verdict.as_json(), language_of(sentence)
    answer: AuditAnswer = {
        "causal": verdict.causal,
        "text": verdict.text(language),
        "proved": verdict.proved,
        "sessions": verdict.sessions,
    }
    if found["counterexample"]:
        answer["counterexample"] = found["counterexample"]
    if held is not None:
        answer["compared"] = held.not_compared is None
        answer["departures"] = [
            issue_text({"code": each.code, "message": each.message, "zh": each.zh}, language)
            for each in held.findings
        ][:_LINES]
        if held.not_compared is not None:
            answer["not_compared"] = held.not_compared.text(language)
    answer["next"] = _after_audit(answer, has_sentence=bool(sentence))
    return answer


def _after_audit(answer: AuditAnswer, *, has_sentence: bool) -> str:
    if not answer["causal"]:
        return (
            "Mend the line that the counterexample names: row t may use rows up to t alone. Then audit again."
        )
    if answer.get("departures"):
        return (
            "It does something else than the sentence at the cell that is named: mend the code, and audit "
            "again."
        )
    sampled = answer["proved"] < answer["sessions"]
    if sampled:
        return (
            "No use of the future was found, at some sessions of all: text says how many, and so must you. "
            "Fewer symbols or a shorter window are proved whole. Then call run with code and sentence."
        )
    if not has_sentence:
        return (
            "It uses no future. Pass said, the person's sentence, to hold it against the words; or call run."
        )
    if not answer["compared"]:
        return (
            "It uses no future, but the rules here cannot read the whole sentence, so only you say that the "
            "code does it: tell the person that. Then call run with the code and the sentence, and with "
            "symbols, start, end and plan where those were not read; its understood shows what it took."
        )
    return "It uses no future and does what the sentence says: call run with the code and the sentence."


def next_of_error(code: str) -> str:
    """What to do after a refusal."""
    return {
        "not_causal": "Nothing traded. Mend the line that the counterexample names, audit, and run it anew.",
        "rate_limited": "Wait: call status until a run has ended, then call again.",
        "sandbox_weak": "This machine cannot seal code: tell the person; nothing can be run here.",
        "code_unavailable": "The machine has no room for the code now: call again later.",
        "ledger_conflict": "Choose another request_id for another request.",
        "storage_unavailable": "The server's owner must make room: tell the person.",
        "unknown_question": "Call status with the run: it has the open question and its id.",
    }.get(code, "Mend what the error names, and call again.")


def error_answer(error: QuantGraphError) -> dict[str, Any]:
    """A refusal: what was wrong, its code, and what to do."""
    answer = {**refusal_of(error), "next": next_of_error(error.code)}
    return {**answer, "error": without_places(answer["error"])}


def safe_answer(value: Any, *, places: bool) -> Any:
    """An answer of bounded texts without control characters, which name no folder but with ``places``."""
    if isinstance(value, str):
        shown = escape_controls(value[:_MOST_TEXT], multiline=True)
        return shown if places else without_places(shown)
    if isinstance(value, Mapping):  # a script is bounded and escaped, and must stay as it is
        return {
            name: each if name == "script" else safe_answer(each, places=places or name in _WORDS)
            for name, each in value.items()
        }
    return [safe_answer(each, places=places) for each in value] if isinstance(value, list | tuple) else value
