"""The clauses of a conversation: what is asked about, what was given up, and what of it is in the trade plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from quantgraph._util.texts import Note
from quantgraph.llm.planner.clauses import PlanClause, PlanValue, Topic, Waiver


@dataclass(frozen=True, kw_only=True)
class ClauseNote:
    """A piece of the request, what it became, and whether it is done."""

    words: str
    became: Note
    status: Literal["done", "default", "not_done"]


@dataclass(frozen=True, kw_only=True)
class PlanLine:
    """Clauses and waivers of one line, whether it gives up everything asked about, and whether it states a rule."""

    clauses: tuple[PlanClause, ...]
    waivers: tuple[Waiver, ...]
    gives_up: bool
    states_rule: bool


@dataclass(frozen=True, kw_only=True)
class SaidPlan:
    """The plan that was said and not given up, the clauses to ask about, and a note on every other one."""

    plan: dict[str, PlanValue]
    open: tuple[PlanClause, ...]
    notes: tuple[ClauseNote, ...]


_REASONS: dict[Topic, Note] = {
    "trailing": Note(zh="移动止损", en="trailing stop"),
    "leverage": Note(zh="账户没有杠杆", en="the account has no leverage"),
    "short": Note(zh="不能做空", en="short selling is not possible"),
    "bars": Note(zh="只有日线", en="there are daily bars only"),
    "fill": Note(zh="信号在下一个交易日开盘成交", en="a signal is filled at the next session's open"),
    "prices": Note(zh="用数据源给出的价格", en="prices are those of the source"),
    "settlement": Note(zh="按市场的交收规则", en="the market's settlement rule holds"),
    "risk": Note(zh="不按风险定仓位", en="sizes are not set by risk"),
}
_NOT_DONE = Note(zh="不执行", en="not done")
_LEFT_OUT = Note(zh="重述规则时没有再提，不执行", en="left out when the rule was said again, not done")
_DONE = Note(zh="执行", en="done")


def reason_of(clause: PlanClause) -> Note:
    """Why a clause is not done."""
    return _NOT_DONE if clause.key else _REASONS.get(clause.topic, _NOT_DONE)


def _given_up(clause: PlanClause, waivers: Sequence[Waiver], open_: Sequence[PlanClause]) -> bool:
    """Whether a waiver means this clause; *no stop* means a trailing stop only where there is no other."""
    topics = {waiver.topic for waiver in waivers}
    fixed = any(other.topic == "stop" for other in open_)
    return clause.topic in topics or (clause.topic == "trailing" and "stop" in topics and not fixed)


def plan_of(lines: Sequence[PlanLine], executes: frozenset[str]) -> SaidPlan:
    """The trade plan of a conversation.

    A clause stays open until a line gives it up. A line that states the rule again without it leaves it out.

    Parameters
    ----------
    executes
        Keys of the trade plan that the decider executes; a clause with one of them and a value is done.
    """
    open_: list[PlanClause] = []
    notes: list[ClauseNote] = []

    def drop(dropped: Sequence[PlanClause], became: Note | None = None) -> None:
        for clause in dropped:
            open_.remove(clause)
            notes.append(
                ClauseNote(words=clause.words, became=became or reason_of(clause), status="not_done")
            )

    for line in lines:
        drop([clause for clause in open_ if line.gives_up or _given_up(clause, line.waivers, open_)])
        named = {clause.topic for clause in line.clauses}
        if line.states_rule:
            drop([clause for clause in open_ if clause.topic not in named], _LEFT_OUT)
        open_ = [clause for clause in open_ if clause.topic not in named]
        for clause in line.clauses:
            if clause.topic == "long_only":
                notes.append(ClauseNote(words=clause.words, became=_DONE, status="done"))
            else:
                open_.append(clause)
    done = [clause for clause in open_ if clause.key in executes and clause.value is not None]
    notes += [ClauseNote(words=clause.words, became=_DONE, status="done") for clause in done]
    plan = {clause.key: clause.value for clause in open_ if clause.key and clause.value is not None}
    asked = tuple(clause for clause in open_ if clause not in done)
    return SaidPlan(plan=plan, open=asked, notes=tuple(notes))
