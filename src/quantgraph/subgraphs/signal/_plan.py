"""What was asked: the trade plan, what the decider carries out, and the words of what it does not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from quantgraph._util.texts import language_of, say
from quantgraph.broker import TradePlan, plan_words
from quantgraph.errors import BadOption
from quantgraph.rules import Node, expression, in_words, make, read_condition
from quantgraph.sentences.coverage import says_part
from quantgraph.subgraphs.signal._agents import HELD, ModelClause, buys_regularly, rule_in, waiting_terms

_SCHEDULES = {
    "quarter_start": r"quarter|季",
    "month_start": r"month|月",
    "week_start": r"week|周|星期|monday",
    "every": r"every|each|daily|day|每[日天]|每个交易日",
}
"""The words of a schedule that is not counted in sessions; the first that is found."""
NAMED_ENDS = ("max_holding", "take_profit", "trailing_stop")
"""Words of a plan that say when a position ends."""
_SHARES = ("stop_loss", "take_profit", "trailing_stop", "band", "cash_reserve", "commission")


def executed_plan(
    plan: Mapping[str, Any], executes: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The plan's JSON as it is carried out, and why the rest is not: empty where the decider does not.

    >>> executed_plan({"stop_loss": "8%", "size": 0.3, "leverage": 2}, {"stop_loss", "size"})
    ({'size': {'percent': '0.3'}, 'stop_loss': '0.08'}, {'leverage': ''})
    """
    taken, rest = dict[str, Any](), dict[str, str]()
    for name, value in plan.items():
        if name not in executes:
            rest[name] = ""
            continue
        try:
            taken = TradePlan.of({**taken, name: _as_planned(name, value)}).to_json()
        except BadOption as error:
            rest[name] = error.message
    return taken, rest


def names_an_end(plan: Mapping[str, Any]) -> bool:
    """Whether a plan says how positions end, or that they do not, so that the exit is not a default.

    >>> names_an_end({"max_holding": 20}), names_an_end({"stop_loss": "0.08"})
    (True, False)
    """
    return any(name in plan for name in NAMED_ENDS) or buys_regularly(plan)


def _as_planned(name: str, value: Any) -> Any:
    """A value as a plan takes it: ``8%`` and 8 are 0.08 for a stop, a size of 20,000 is cash."""
    if name in _SHARES:
        number = _number(value)
        is_whole = number is not None and number >= 1 and "%" not in str(value)
        return value if number is None else number / 100 if is_whole else number
    if name in {"max_positions", "max_holding", "min_holding", "cooldown"}:
        number = _number(value)
        return int(number) if number is not None and number % 1 == 0 else value
    if name in {"trade_on", "rebalance"}:
        return _schedule(value)
    if name == "cash":
        return value if (number := _number(value)) is None else number
    if name == "size":
        return _size(value)
    if name == "accumulate" and isinstance(value, Mapping):
        return {key: _part(key, part) for key, part in value.items()}
    return value


def plain_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan of JSON with numbers in one form, and ``"8%"`` as 0.08 where a share is meant."""
    return {name: _plain(name, value) for name, value in plan.items()}


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain("percent" if name == "weights" else key, part) for key, part in value.items()}
    number = None if name in {"benchmark", "rank"} else _number(value)
    of_a_share = "%" in str(value)
    if name == "size" and of_a_share and number is not None:
        return {"percent": _plain("percent", value)}
    no_share = of_a_share and name not in {*_SHARES, "percent", "by"}
    if not number or no_share or abs(number.adjusted()) > 20:
        return value
    return int(number) if number % 1 == 0 else f"{number.normalize():f}"


def _schedule(value: Any) -> Any:
    """A schedule in words: *first trading day of each month*, *every 5 sessions*; *every 2 weeks* is none.

    >>> _schedule("first trading day of each month"), _schedule("每5个交易日"), _schedule("every 2 weeks")
    ('month_start', 5, 'every 2 weeks')
    """
    text = str(value).lower()
    counted = re.search(r"\d+", text)  # "every 20 days"
    named = next((name for name, words in _SCHEDULES.items() if re.search(words, text)), None)  # "每月"
    if counted and counted[0] != "1":
        return int(counted[0]) if named in (None, "every") else value
    return named or value


def _size(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {kind: _part(kind, part) for kind, part in value.items()}
    number = _number(value)
    if number is None:
        return "equal_weight" if str(value).lower() in {"equal", "equal_weights"} else value
    return {"cash": number} if number > 1 else {"percent": number}


def _part(name: str, value: Any) -> Any:
    """A part of a size or of what is bought more, numbers as written; 30 percent are 0.3."""
    if isinstance(value, Mapping):
        return {code: _part("percent", share) for code, share in value.items()}
    number = None if name in {"on", "times"} else _number(value)
    if number is None:
        return value
    return number / 100 if name in {"percent", "by"} and number > 1 else number


def _number(value: object) -> Decimal | None:
    """A number as written, ``30%`` as 0.3; None for anything else."""
    text = str(value).strip().replace(",", "")
    with suppress(InvalidOperation):
        number = Decimal(text.removesuffix("%"))
        return (number / 100 if text.endswith("%") else number) if number.is_finite() else None
    return None


def with_plan(params: Mapping[str, Any], executes: Collection[str]) -> dict[str, Any]:
    """A reading's parameters with the plan that is carried out, each part in the clause that says it.

    What is not carried out is a clause with the status ``not_done``, in the person's words if there are any,
    as is a clause of the plan that has no part of it. Regular buying without an entry buys and holds.
    """
    clauses, plan = [dict(each) for each in params["clauses"]], dict(params["plan"])
    for clause in (each for each in clauses if each["status"] != "default"):
        if clause["part"] == "plan":
            clause["plan"] = parts_in(clause, plan)
        plan |= clause["plan"]
    taken, rest = executed_plan(plan, executes)
    quoted = {name for clause in clauses for name in clause["plan"]}
    for clause in clauses:
        _keep_taken(clause, plan, taken)
    refused = [each["quote"] for each in clauses if each["status"] == "not_done"]
    quoted |= {name for name in rest if any(says_part(each, name, plan[name]) for each in refused)}
    clauses += [_not_done(f"{name} {plan[name]}") for name in rest if name not in quoted]
    for clause in clauses:
        if clause["rule"]:
            clause["became"] = in_words(read_condition(clause["rule"]), language_of(clause["quote"]))
        elif clause["plan"] and clause["status"] == "done" and not clause["became"]:
            clause["became"] = "; ".join(
                plan_words(executed_plan(clause["plan"], executes)[0], language_of(clause["quote"]))
            )
    if buys_regularly(taken) and "reentry" in executes and taken.keys() & {*NAMED_ENDS, "stop_loss"}:
        taken.setdefault("reentry", "any")  # what is bought on a schedule is bought again on it
    if "exit_on" in executes and any(each["rule"] for each in clauses):
        taken |= _timed(params, taken, clauses)
    made = {**params, "plan": taken, "clauses": clauses}
    if buys_regularly(taken) and not params.get("strategy_desc"):
        words = "".join(each["quote"] for each in clauses)
        made["strategy_desc"] = made["entry"] = say(language_of(words), zh="买入并持有", en="buy and hold")
    return made


def _keep_taken(clause: dict[str, Any], plan: Mapping[str, Any], taken: Mapping[str, Any]) -> None:
    """Leave in a clause what is carried out of the plan; one of which nothing is left is not done."""
    if clause["status"] != "done" and clause["part"] != "plan":
        return
    said = clause["plan"] or {name for name in plan if says_part(clause["quote"], name, plan[name])}
    clause["plan"] = {name: part for name, part in clause["plan"].items() if name in taken}
    is_of_plan = clause["part"] == "plan" or (said and not clause["rule"])
    if is_of_plan and clause["status"] != "default":
        is_done = bool(clause["plan"]) or (clause["part"] != "plan" and bool(taken.keys() & said))
        clause["status"] = "done" if is_done else "not_done"
        clause["became"] = clause["became"] if is_done or clause["part"] == "plan" else ""


_BOTH = re.compile(r"交易(?!日)|买卖|操作|\btrad(?:e|es|ing)\b", re.IGNORECASE)  # "每周一交易"


def _timed(
    params: Mapping[str, Any], plan: Mapping[str, Any], clauses: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """When exits act, at once unless they are said to wait; and that a state buys by the last row alone."""
    rule, timed = rule_in({**params, "plan": plan}), dict[str, Any]()
    if "trade_on" not in plan or rule is None or rule == HELD:
        return timed
    if not _EVENTS.search(expression(rule.entry)) and rule.exit not in _complements(rule.entry):
        timed["entry_row"] = "last"
    said = [each["quote"] for each in clauses if each["quote"] and says_part(each["quote"], "trade_on", "")]
    at_once = rule.exit.name != "never" and not all(waiting_terms(rule, clauses))
    if at_once and "exit_on" not in plan and not any(map(_BOTH.search, said)):
        timed["exit_on"] = "every"
    return timed


_EVENTS = re.compile(r"cross|first_after|since|limit_|was|streak")
"""Conditions of one day, whose 1 waits for the trade day; another is judged by the row before that day."""
_TURNED = {"le": ("gt",), "lt": ("ge", "gt"), "gt": ("le", "lt"), "ge": ("lt",)}


def _complements(entry: Node) -> list[Node]:
    """What holds where an entry does not, so that no 1 outlives its row."""
    return [make("not", entry), *(Node(name, entry.args) for name in _TURNED.get(entry.name, ()))]


def parts_in(clause: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a plan that a clause says; a reply may have the plan beside its clauses."""
    return clause["plan"] or {
        name: part for name, part in plan.items() if says_part(clause["quote"], name, part)
    }


def side_in_words(params: Mapping[str, Any], side: Literal["entry", "exit"]) -> str:
    """A side of a rule that is free code in part, with the person's words in place of names.

    >>> side_in_words({"entry": "up and calm", "clauses": [{"name": "up", "quote": "it rises"}]}, "entry")
    'it rises and calm'
    """
    quotes = {each["name"]: each["quote"] for each in params.get("clauses", ())}
    return re.sub(r"\w+", lambda found: quotes.get(found[0], found[0]), str(params.get(side, "")))


def _not_done(quote: str) -> dict[str, Any]:
    return ModelClause(quote=quote, part="plan", status="not_done").model_dump()
