"""The trade plan of a reading: what the decider carries out, and the words of what it does not."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Any

from quantgraph.broker import TradePlan
from quantgraph.errors import BadOption
from quantgraph.sentences.coverage import find_anchors, plain, plan_pieces

_SCHEDULES = {
    "daily": "every", "weekly": "week_start", "week": "week_start", "monthly": "month_start",
    "month": "month_start", "quarterly": "quarter_start", "quarter": "quarter_start",
}  # fmt: skip
_SHARES = ("stop_loss", "take_profit", "trailing_stop", "band", "cash_reserve")


def executed_plan(
    said: Mapping[str, Any], executes: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan's JSON as it is carried out, and what of it is not, as it was read.

    >>> executed_plan({"stop_loss": "8%", "size": 0.3, "leverage": 2}, {"stop_loss", "size"})
    ({'size': {'percent': '0.3'}, 'stop_loss': '0.08'}, {'leverage': 2})
    """
    taken, rest = dict[str, Any](), dict[str, Any]()
    for name, value in said.items():
        rest[name] = value
        if name in executes:
            with suppress(BadOption):
                taken = TradePlan.of({**taken, name: _as_planned(name, value)}).to_json()
                del rest[name]
    return taken, rest


def _as_planned(name: str, value: Any) -> Any:
    """A value as a plan takes it: ``8%`` and 8 are 0.08 for a stop, a size of 20,000 is cash."""
    if name in _SHARES:
        number = _number(value)
        return value if number is None else number / 100 if number >= 1 else number
    if name in {"max_positions", "max_holding"}:
        number = _number(value)
        return int(number) if number is not None and number % 1 == 0 else value
    if name in {"trade_on", "rebalance"}:
        text = str(value).lower()
        counted = re.search(r"\d+", text)
        return int(counted[0]) if counted and "_" not in text else _SCHEDULES.get(text, value)
    if name == "size":
        return _size(value)
    if name == "accumulate" and isinstance(value, Mapping):
        return {key: part if key in {"on", "times"} else _exact(part) for key, part in value.items()}
    return value


def _size(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {kind: _exact(part) for kind, part in value.items()}
    number = _number(value)
    if number is None:
        return "equal_weight" if str(value).lower() in {"equal", "equal_weights"} else value
    return {"cash": number} if number > 1 else {"percent": number}


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {code: _exact(share) for code, share in value.items()}
    number = _number(value)
    return value if number is None else number


def _number(value: object) -> Decimal | None:
    """A number as written, ``30%`` as 0.3; None for anything else."""
    text = str(value).strip().replace(",", "")
    with suppress(InvalidOperation):
        number = Decimal(text.removesuffix("%"))
        return (number / 100 if text.endswith("%") else number) if number.is_finite() else None
    return None


def with_plan(params: Mapping[str, Any], text: str, executes: Collection[str]) -> dict[str, Any]:
    """A reading's parameters with the plan that is carried out, and a clause of each part that was said.

    What is not carried out is a clause with the status ``not_done``, in the person's words if there are any.
    """
    taken, rest = executed_plan(params["plan"], executes)
    clauses = [dict(each) for each in params["clauses"]]
    for name, value in params["plan"].items():
        status = "not_done" if name in rest else "done"
        said = [each for each in clauses if each["quote"] and says(each["quote"], value)]
        if not said:
            pieces = [piece for piece in plan_pieces(text) if says(piece, value)]
            pieces = pieces or ([f"{name} {value}"] if status == "not_done" else [])
            clauses += [{"quote": each, "part": "plan", "became": each, "status": status} for each in pieces]
        for clause in said:
            if clause["status"] != "default" and clause["part"] not in {"entry", "exit"}:
                clause["status"] = status
    return {**params, "plan": taken, "clauses": clauses}


def says(words: str, value: object) -> bool:
    """Whether words have a number of a plan's value or, for a value without one, name a schedule or plan."""
    numbers = {f"{float(each):g}" for each in re.findall(r"\d+(?:\.\d+)?", str(value))}
    numbers |= {f"{100 * float(each):g}" for each in numbers}
    anchors = find_anchors(plain(words))
    if not numbers:
        return any(anchor.kind in ("schedule", "plan") for anchor in anchors)
    return any(numbers & anchor.values for anchor in anchors if anchor.kind == "number")
