"""What was asked: the trade plan, what the decider carries out, and the words of what it does not."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from quantgraph._util.texts import language_of, say
from quantgraph.broker import TradePlan
from quantgraph.errors import BadOption
from quantgraph.sentences.coverage import find_anchors, plain, plan_keys, plan_pieces

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


def unplanned_quotes(params: Mapping[str, Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """Quotes of clauses marked as done by the plan, though the plan lacks their part.

    A part that is named twice has one value in the plan: the quote with the other number is lost.
    """
    plan = params["plan"]
    for clause in params["clauses"]:
        quote = clause["quote"]
        keys = plan_keys(quote) if (clause["part"], clause["status"]) == ("plan", "done") else frozenset()
        held = keys & plan.keys() and (
            not _has_number(quote) or any(says(quote, *each) for each in plan.items())
        )
        if keys and not held:
            yield quote, keys


_SIDES = {"stop_loss": "down", "trailing_stop": "down", "take_profit": "up", "rise": "up", "fall": "down"}
"""Where the price goes before a part of a plan acts."""


def turned_quotes(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Quotes with a number that the plan has in no part but one of the other side, and that part's name."""
    for clause in params["clauses"]:
        quote, ends = clause["quote"], plan_keys(clause["quote"]) & _SIDES.keys()
        named = [each for each in params["plan"].items() if clause["part"] == "plan" and says(quote, *each)]
        turned = [
            name
            for name, value in named
            if _is_turned(quote, value.get("on") if isinstance(value, Mapping) else name)
            or (ends and name in _SIDES and name not in ends)
        ]
        if turned and len(turned) == len(named) and _has_number(quote):
            yield quote, turned[0]


def _is_turned(words: str, part: str | None) -> bool:
    """Whether words move the price to the other side only."""
    moves = {
        value for each in find_anchors(plain(words)) if each.kind == "direction" for value in each.values
    }
    return part in _SIDES and bool(moves & {"up", "down"}) and _SIDES[part] not in moves


def _has_number(words: str) -> bool:
    return any(each.kind == "number" for each in find_anchors(plain(words)))


def names_an_end(plan: Mapping[str, Any]) -> bool:
    """Whether a plan says how positions end, or that they do not, so that the exit is not a default.

    >>> names_an_end({"max_holding": 20}), names_an_end({"stop_loss": "0.08"})
    (True, False)
    """
    return any(name in plan for name in NAMED_ENDS) or buys_regularly(plan)


def buys_regularly(plan: Mapping[str, Any]) -> bool:
    """Whether a plan buys on a schedule."""
    return bool(plan.get("accumulate", {}).get("on") == "schedule")


def _as_planned(name: str, value: Any) -> Any:
    """A value as a plan takes it: ``8%`` and 8 are 0.08 for a stop, a size of 20,000 is cash."""
    if name in _SHARES:
        number = _number(value)
        is_whole = number is not None and number >= 1 and "%" not in str(value)
        return value if number is None else number / 100 if is_whole else number
    if name in {"max_positions", "max_holding"}:
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


def with_plan(params: Mapping[str, Any], text: str, executes: Collection[str]) -> dict[str, Any]:
    """A reading's parameters with the plan that is carried out, and a clause of each part in the sentence.

    What is not carried out is a clause with the status ``not_done``, in the person's words if there are any.
    Regular buying without an entry buys and holds.
    """
    taken, rest = executed_plan(params["plan"], executes)
    clauses = [dict(each) for each in params["clauses"]]
    for name, value in params["plan"].items():
        status = "not_done" if name in rest else "done"
        same = [each for each in clauses if each["quote"] and says(each["quote"], name, value)]
        if not same:
            pieces = [piece for piece in plan_pieces(text) if says(piece, name, value)]
            pieces = pieces or ([f"{name} {value}"] if status == "not_done" else [])
            clauses += [{"quote": each, "part": "plan", "became": each, "status": status} for each in pieces]
        own = [each for each in same if each["status"] != "default" and each["part"] not in {"entry", "exit"}]
        if status == "done" and any(each["status"] == "done" for each in own):
            continue  # another with the same number is of something else
        for clause in own:
            turns = clause["status"] == "done" and status == "not_done"
            clause |= {"status": status, **({"became": ""} if turns else {})}
    lost = {quote for quote, _ in unplanned_quotes({**params, "clauses": clauses})}
    clauses = [{**each, "status": "not_done"} if each["quote"] in lost else each for each in clauses]
    made = {**params, "plan": taken, "clauses": clauses}
    if buys_regularly(taken) and not params.get("strategy_desc"):
        made["strategy_desc"] = made["entry"] = say(language_of(text), zh="买入并持有", en="buy and hold")
    return made


_REFUSED = frozenset({"leverage", "short"})


def says(words: str, name: str, value: object) -> bool:
    """Whether words say a part of a plan: a number of it or, for a part without one, what it is about.

    >>> says("止损8%", "stop_loss", "0.08"), says("every month", "trade_on", "month_start")
    (True, True)
    >>> says("2x leverage", "trade_on", "month_start"), says("2x leverage", "max_positions", 2)
    (False, False)
    """
    anchors, keys = find_anchors(plain(words)), plan_keys(words)
    refused = {anchor.value for anchor in anchors if anchor.kind == "plan"} & _REFUSED
    if refused and name not in refused | keys:
        return False
    numbers = {f"{float(each):g}" for each in re.findall(r"\d+(?:\.\d+)?", str(value))}  # "5.5%"
    numbers |= {f"{100 * float(each):g}" for each in numbers}
    if numbers:
        return any(numbers & anchor.values for anchor in anchors if anchor.kind == "number")
    is_schedule = name in {"trade_on", "rebalance"} and any(anchor.kind == "schedule" for anchor in anchors)
    return is_schedule or name in keys
