"""What to say: the agents of the nodes, their prompts and forms of reply, and what a state lets them see.

A prompt is a file for each node and language in ``prompts/``.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from quantgraph._util.texts import language_of
from quantgraph.agents import SignalRule
from quantgraph.audit.causality import rehearsal_panel
from quantgraph.broker import Decider, TradePlan
from quantgraph.data import AsOfSource, FrameSource, MarketDataSource, commit_source
from quantgraph.errors import BadOption
from quantgraph.llm import role_model
from quantgraph.market import Moment
from quantgraph.recording import unrecorded_source
from quantgraph.rules import Node, Rule, expression, language_of_rules, make, read_condition
from quantgraph.runtime import Agent, OpenResources, create_node_agent
from quantgraph.runtime.endings import kept_request
from quantgraph.runtime.graph_state import request_of, strategy_of
from quantgraph.settings import Role
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.tools import ToolContext, split_codes, tools_of, with_docstring

_NOTHING = {"", "null", "none", "n/a", "无"}
"""Texts that models write for a missing value."""
PromptName = Literal[
    "reflection", "signal_generate", "conditions", "validation", "second", "language", "idioms"
]
_VERSIONS: Mapping[PromptName, int] = {
    "reflection": 3,
    "signal_generate": 1,
    "conditions": 1,
    "validation": 1,
    "second": 1,
    "language": 1,
    "idioms": 1,
}

_FOLDER = Path(__file__).resolve().parent / "prompts"


@with_docstring
class ModelClause(BaseModel):
    """A piece of the sentence: the person's own words, and the condition or part of the plan that they are.

    ``rule`` is an expression of the rule language, ``became`` what code has to do where that cannot say it.
    """

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    quote: str = ""
    part: Literal["entry", "exit", "plan", "other"] = "other"
    rule: str = ""
    plan: dict[str, Any] = Field(default_factory=dict)
    acts: Literal["", "next_open", "trade_day"] = ""
    became: str = ""
    status: Literal["done", "default", "not_done"] = "done"

    @model_validator(mode="before")
    @classmethod
    def _from_its_key(cls, value: Any) -> Any:
        """Take ``code``, ``default`` and ``not_done``, which say at once what a clause is."""
        if not isinstance(value, Mapping):
            return value
        found = {key: each for key, each in value.items() if not (key in cls.model_fields and each is None)}
        for key, status in (("code", "done"), ("default", "default"), ("not_done", "not_done")):
            if value.get(key):
                found |= {"status": status, "became": value[key] if isinstance(value[key], str) else ""}
        return {**found, "part": "plan"} if found.get("plan") else found


@with_docstring
class Params(BaseModel):
    """Parameters of an intent; empty means not in the sentence."""

    model_config = ConfigDict(extra="ignore")

    ts_code: str = ""
    watch: str = ""
    trade: str = ""
    start_date: str = ""
    end_date: str = ""
    windows: list[tuple[str, str]] = Field(default_factory=list)
    strategy_desc: str = ""
    entry: str = ""
    exit: str = ""
    required_indicators: list[str] = Field(default_factory=list)
    plan: dict[str, Any] = Field(default_factory=dict)
    clauses: list[ModelClause] = Field(default_factory=list)

    @model_validator(mode="after")
    def _fill_from_clauses(self) -> Self:
        """Fill entry, exit and rule from the clauses, if the reply has them there alone."""
        if any(each.rule for each in self.clauses):
            return self._of_trees()
        done = [each for each in self.clauses if each.status == "done"]
        texts = {
            part: [each.became or each.quote for each in done if each.part == part]
            for part in ("entry", "exit")
        }
        comma = "，" if language_of("".join(each.became for each in done)) == "zh" else "; "
        self.entry = self.entry or comma.join(texts["entry"])
        self.exit = self.exit or comma.join(texts["exit"])
        self.strategy_desc = self.strategy_desc or comma.join(filter(None, (self.entry, self.exit)))
        return self

    def _of_trees(self) -> Self:
        """The parts of clauses that entry and exit name, and the rule in words; names of Python are none."""
        for clause in self.clauses:
            if keyword.iskeyword(clause.name) and clause.name not in {"and", "or", "not"}:
                name = rf"\b{clause.name}\b"
                clause.name += "_"
                self.entry, self.exit = (re.sub(name, clause.name, each) for each in (self.entry, self.exit))
        sides = {"entry": set(re.findall(r"\w+", self.entry)), "exit": set(re.findall(r"\w+", self.exit))}
        for clause in self.clauses:
            part = next((side for side, names in sides.items() if clause.name and clause.name in names), "")
            clause.part = part or clause.part  # type: ignore[assignment]
        quotes = (each.quote or each.became for each in self.clauses if each.part in sides)
        self.strategy_desc = self.strategy_desc or "; ".join(dict.fromkeys(filter(None, quotes)))
        return self

    @field_validator("windows", "clauses", mode="before")
    @classmethod
    def _entries(cls, value: object) -> object:
        """Take nothing for an empty list, and a text as ``start-end`` or as the words of a clause."""
        if isinstance(value, str) and value.lstrip().startswith(("{", "[{")):  # a list that became a text
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                value = list(ast.literal_eval(f"[{value.strip().removeprefix('[').removesuffix(']')}]"))
        entries = value if isinstance(value, list | tuple) else [] if _is_nothing(value) else [value]
        return [_entry(entry) for entry in entries if not _is_nothing(entry)]

    @field_validator("plan", mode="before")
    @classmethod
    def _plan_parts(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return {} if _is_nothing(value) else value
        return {name: texts for name, texts in value.items() if not _is_nothing(texts)}

    @field_validator(
        "ts_code", "watch", "trade", "start_date", "end_date", "strategy_desc", "entry", "exit", mode="before"
    )
    @classmethod
    def _text(cls, value: object) -> object:
        if isinstance(value, list | tuple):
            value = ",".join(str(item) for item in value)
        if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
            return ""
        return str(value).strip() if isinstance(value, str | int) else value

    @field_validator("required_indicators", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        names = split_codes(value) if isinstance(value, str) else [] if value is None else value
        if not isinstance(names, list | tuple):
            return names
        return [name for name in names if not isinstance(name, str) or name.strip().lower() not in _NOTHING]


HELD = Rule(read_condition("close > 0"), make("never"))
"""The rule of a plan that buys on a schedule."""


def buys_regularly(plan: Mapping[str, Any]) -> bool:
    """Whether a plan buys on a schedule."""
    regular = plan.get("accumulate")
    return isinstance(regular, Mapping) and regular.get("on") == "schedule"


def rule_in(params: Mapping[str, Any]) -> Rule | None:
    """Return the rule of a reading, whose entry and exit combine clauses; None if all of it is free code.

    A condition that is free code, beside others that are not, is :data:`given <.rules.Rule.given>`.

    Raises
    ------
    BadOption
        If an expression is not of the language, or a name is of no clause.
    """
    parts = {each["name"]: _condition(each) for each in params["clauses"] if _is_condition(each)}
    used = {*re.findall(r"\w+", f"{params['entry']} {params['exit']}")}
    read = any(each["rule"] for each in params["clauses"] if each["name"] in used)
    of_rule = any(each["part"] in ("entry", "exit") for each in params["clauses"])
    if not of_rule and not params["exit"] and buys_regularly(params["plan"]):
        return HELD
    if not (read and params["entry"]):
        return None
    leave = read_condition(params["exit"], "exit", parts) if params["exit"] else make("never")
    rule = Rule(read_condition(params["entry"], "entry", parts), leave)
    return on_schedule(rule, whole_plan(params).get("trade_on"), waiting_terms(rule, params["clauses"]))


def _is_condition(clause: Mapping[str, Any]) -> bool:
    return str(clause["name"]).isidentifier() and clause["status"] == "done"


def _condition(clause: Mapping[str, Any]) -> Node:
    rule, name = clause["rule"], clause["name"]
    return read_condition(rule, name) if rule else make("given", name)


def whole_plan(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a reading, whose parts may be in its clauses or beside them."""
    plan = dict(params["plan"])
    for clause in params["clauses"]:
        plan |= clause["plan"]
    return plan


def waits(clause: Mapping[str, Any]) -> bool:
    """Whether a condition acts on the plan's next trade day: it says so, or is a place in a ranking."""
    return clause["acts"] == "trade_day" or (not clause["acts"] and "rank" in clause["rule"])


def waiting_terms(rule: Rule, clauses: Sequence[Mapping[str, Any]] = ()) -> list[bool]:
    """Return which terms that *or* joins in an exit wait for the plan's trade day: ranks, or what says so."""
    said = {expression(_condition(each)): waits(each) for each in clauses if _is_condition(each)}
    texts = [expression(each) for each in _terms(rule)]
    found = ([late for part, late in said.items() if part in text] for text in texts)
    return [any(each) if each else "rank" in text for each, text in zip(found, texts, strict=True)]


def _terms(rule: Rule) -> tuple[Node, ...]:
    return rule.exit.operands if rule.exit.name == "or" else (rule.exit,)


def on_schedule(rule: Rule, trade_on: object, waiting: Sequence[bool] = ()) -> Rule:
    """Return a rule in whose exit what waits holds before a trade day alone, if the rest acts at once."""
    period, waiting = _DAYS.get(str(trade_on)), waiting or waiting_terms(rule)
    if period is None or len({*waiting}) < 2:
        return rule
    day, terms = read_condition(f'left("{period}") == 0'), zip(_terms(rule), waiting, strict=True)
    return Rule(rule.entry, make("or", *(make("and", each, day) if late else each for each, late in terms)))


_DAYS = {"week_start": "week", "month_start": "month", "quarter_start": "quarter"}


def as_params(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request as a state has them; ``ValueError`` for any other form."""
    read = Params.model_validate(value).model_dump(mode="json")
    read |= {name: "" for name in ("strategy_desc", "entry", "exit") if value.get(name) == ""}
    if read != value or TradePlan.of(read["plan"]).to_json() != read["plan"]:
        raise ValueError("these are not the parameters of a request")
    return read


def last_request_of(messages: Sequence[AnyMessage]) -> dict[str, Any]:
    """Return the last request that messages carry, and its code; what a graph would not write is ignored."""
    with suppress(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        kept: Any = kept_request(messages)
        params, cells = as_params(kept["last_request"]), kept["last_cells"]
        if isinstance(cells, list) and all(isinstance(cell, str) for cell in cells):
            return {"last_request": params, "last_cells": cells}
    return {}


_JSON = re.compile(r"\s*(?:```(?:json)?\s*)?[\[{]\s*[\"{\[]")  # "```json [{"


def is_json(text: str) -> bool:
    """Whether a text is JSON, which is no question to a person.

    >>> is_json('```json{"question": "?"}'), is_json("[600519.SH] or all?")
    (True, False)
    """
    return _JSON.match(text) is not None


def _is_nothing(value: object) -> bool:
    return value in (None, (), [], {}) or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def _entry(entry: object) -> object:
    if isinstance(entry, Mapping) and {"start", "end"} <= entry.keys():
        return [str(entry["start"]), str(entry["end"])]
    if not isinstance(entry, str):
        return entry
    dates = re.findall(r"\d{8}|\d{4}-\d{2}-\d{2}", entry)  # "20240102到20240630"
    return dates if len(dates) == 2 else {"quote": entry}


@with_docstring
class Intent(BaseModel):
    """What the user wants."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["data_fetch", "signal_gen", "mixed", "unclear"] = "unclear"
    params: Params = Field(default_factory=Params)
    needs_clarification: bool = False


@with_docstring
class ReflectionReply(BaseModel):
    """A reflection reply. ``next_action`` is advice: what is ready is decided by code."""

    model_config = ConfigDict(extra="ignore", title="Decision")

    analysis: str = ""
    task_type: Literal["data_fetch", "signal_gen", "mixed", "unclear"]
    next_action: Literal["data_fetch", "signal_generate", "clarify", "validate", "end"] | None = None
    user_intent: Intent
    clarification_question: str | None = None
    reasoning: str = ""
    unread: list[str] = Field(default_factory=list)
    usual_answers: bool = False
    """Whether the question asks for a part that is missing, as the keyless planner's do."""

    @field_validator("unread", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return [] if value in (None, "", "null") else [value] if isinstance(value, str) else value

    @field_validator("clarification_question", mode="before")
    @classmethod
    def _question(cls, value: object) -> object:
        is_none = isinstance(value, str) and (value.strip().lower() in _NOTHING or is_json(value))
        return None if is_none else value


@with_docstring
class Issue(BaseModel):
    """One thing that a model found; an error counts with a cell of the signal and code that asserts it."""

    model_config = ConfigDict(extra="ignore")

    severity: Literal["error", "warning", "info"]
    message: str
    symbol: str = ""
    date: str = ""
    expected: float | None = None
    why: str = ""
    cell: str = ""

    @field_validator("symbol", "date", "why", "cell", mode="before")
    @classmethod
    def _missing(cls, value: object) -> object:
        return "" if value is None else value


@with_docstring
class ReviewReply(BaseModel):
    """All that it found; what else it says decides nothing."""

    model_config = ConfigDict(extra="ignore", title="Review")

    issues_found: list[Issue] = Field(default_factory=list)


@with_docstring
class SecondReading(BaseModel):
    """The rule and the plan, as another reader of the same words has them."""

    model_config = ConfigDict(extra="ignore")

    entry: str = ""
    exit: str = ""
    plan: dict[str, Any] = Field(default_factory=dict)

    @property
    def rule(self) -> Rule | None:
        """Its rule; None if there is none in the language."""
        if not self.entry and buys_regularly(self.plan):
            return HELD
        return Rule.read(self.entry, self.exit or None) if self.entry else None

    @model_validator(mode="after")
    def _is_of_the_language(self) -> Self:
        try:
            _ = self.rule
        except BadOption as error:
            raise ValueError(error.message) from None
        return self


@cache
def prompt_text(name: PromptName, language: str) -> str:
    """Return the prompt of a node in the user's language, with its placeholders.

    A prompt that changes its meaning gets a new version.
    """
    ending = f"_v{_VERSIONS[name]}{'_zh' if language == 'zh' else ''}.txt"
    text = (_FOLDER / f"{name}{ending}").read_text(encoding="utf-8")
    if "{language}" in text:
        text = text.replace("{language}", prompt_text("language", language).rstrip())
    return text.replace("{rule_language}", language_of_rules())


def build_agent(role: Role, resources: OpenResources, *, with_tools: bool = True) -> Agent:
    """Return the agent of a node, with its model and its tools; it is built when it is first asked."""
    model = role_model(role, model=resources.model, settings=resources.settings)
    return cast("Agent", _AskedAgent(role, model, with_tools))


class _AskedAgent:
    def __init__(self, role: Role, model: BaseChatModel, with_tools: bool) -> None:
        self._role, self._model, self._with_tools = role, model, with_tools

    @cached_property
    def invoke(self) -> Callable[..., Any]:
        tools = [*tools_of(self._role).values()] if self._with_tools else []
        return create_node_agent(self._role, self._model, tools).invoke


def build_clarify_model(resources: OpenResources) -> BaseChatModel:
    """Build the model that words questions."""
    return role_model("clarify", model=resources.model, settings=resources.settings)


def as_of(state: SignalSubgraphState, resources: OpenResources) -> Moment:
    """Return the run's moment: nothing later is fetched, shown or used."""
    return _moment(state, market_source(state, resources))


def _moment(state: SignalSubgraphState, source: MarketDataSource) -> Moment:
    as_of = request_of(state)["as_of"]
    return Moment.at(as_of) if as_of else Moment(source.sessions()[-1])


def market_source(state: SignalSubgraphState, resources: OpenResources) -> MarketDataSource:
    """Return the source, below the commit that the host gave."""
    ref = request_of(state)["given_ref"]
    return commit_source(resources.source, resources.store.snapshot(ref)) if ref else resources.source


def known_source(state: SignalSubgraphState, resources: OpenResources) -> AsOfSource:
    """Return the source as known at the run's moment, which is what nodes use."""
    source = market_source(state, resources)
    return AsOfSource(source, _moment(state, source))


def local_source(state: SignalSubgraphState, resources: OpenResources) -> AsOfSource | None:
    """Return the source as known at the run's moment, unrecorded, if all of it is here already; else None."""
    inner, ref = unrecorded_source(resources.source), request_of(state)["given_ref"]
    if not isinstance(inner, FrameSource):
        return None
    source = commit_source(inner, resources.store.snapshot(ref)) if ref else inner
    return AsOfSource(source, as_of(state, resources))


def current_ref(state: SignalSubgraphState, resources: OpenResources) -> str:
    """Return the run's commit; a run without one starts with the empty commit."""
    return state.get("data_ref") or resources.store.empty


def current_decider(resources: OpenResources) -> Decider:
    """Return who trades: it says which data are needed, and whether a signal is."""
    return resources.decider or SignalRule()


def tool_context(state: SignalSubgraphState, resources: OpenResources, ref: str) -> ToolContext:
    """Return the tools' context for one agent call on the commit ``ref``.

    Cells that run before a strategy has walked through these data find invented rows in their place.
    """
    view = (tree := resources.store.checkout(ref)).view(as_of(state, resources))
    rehearses = len(view["ohlcv"]) and "first_run" not in strategy_of(state)
    return ToolContext(
        view,
        code=resources.runner,
        source=market_source(state, resources),
        tree=tree,
        rehearsal=(lambda: rehearsal_panel(view.frozen())) if rehearses else None,
    )
