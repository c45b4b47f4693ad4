"""Checks of a model's decisions, each symbol for itself.

``target_cash_amount`` is the wished total value of a position, not a change of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, get_args

from typing_extensions import TypedDict

from quantgraph._util.texts import Note, escape_controls

__all__ = [
    "ACTIONS",
    "Action",
    "CheckedDecision",
    "DecisionFault",
    "_filter_hallucination_decisions",
    "_validate_decision_logic",
    "read_decisions",
]

Action = Literal["increase", "decrease", "hold", "close"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
FaultKind = Literal["shape", "missing", "action", "target", "logic", "confidence"]

_CLOSED = 0.01
_HOLD_SHARE, _HOLD_AMOUNT = 0.01, 100.0
_HALF_CENT = 0.005
_DEFAULT_CONFIDENCE = 0.5
_MOST_REASONS, _REASON_LENGTH = 10, 500
_NUMBER_LENGTH, _SHOWN_LENGTH = 40, 40
_LARGEST_SHOWN = 10**15
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?")


class CheckedDecision(TypedDict):
    """A decision that passed the checks; ``target_cash_amount`` of a hold is the position's current value."""

    action: Action
    target_cash_amount: float
    confidence: float
    reasons: list[str]
    note: NotRequired[str]
    hold_reason: NotRequired[Literal["rejected"]]


@dataclass(frozen=True, kw_only=True)
class DecisionFault:
    """Why a reply has no valid decision for a symbol.

    Attributes
    ----------
    kind
        ``shape``: not an object; ``missing``: the symbol is not in the reply; ``action``, ``target``,
        ``confidence``: the field has no valid value; ``logic``: action and target contradict each other.
    note
        What is wrong, in both languages.
    """

    kind: FaultKind
    note: Note

    @property
    def message(self) -> str:
        """What is wrong, in English."""
        return self.note.en


class _FaultFound(Exception):
    def __init__(self, kind: FaultKind, *, zh: str, en: str) -> None:
        super().__init__(en)
        self.fault = DecisionFault(kind=kind, note=Note(zh=zh, en=en))


def _filter_hallucination_decisions(decisions_data: Any, valid_symbols: Collection[str]) -> dict[str, Any]:
    """Keep the decisions of symbols that were asked about.

    >>> _filter_hallucination_decisions({"AAPL": {"action": "hold"}, "FAKE": {}}, {"AAPL", "TSLA"})
    {'AAPL': {'action': 'hold'}}
    """
    if not isinstance(decisions_data, Mapping):
        return {}
    return {symbol: each for symbol, each in decisions_data.items() if symbol in valid_symbols}


def _validate_decision_logic(action: str, target_cash_amount: float, current_position_value: float) -> bool:
    """Whether an action and its target agree.

    An increase is above the current value, a decrease below it, a close within 0.01 of 0, a hold within 1 %
    of the current value or 100, whichever is more. Another action, and NaN, never agree.

    >>> _validate_decision_logic("increase", 5000, 3000), _validate_decision_logic("increase", 2000, 3000)
    (True, False)
    """
    if action == "increase":
        return target_cash_amount > current_position_value
    if action == "decrease":
        return target_cash_amount < current_position_value
    if action == "close":
        return abs(target_cash_amount) <= _CLOSED
    tolerance = max(_HOLD_SHARE * abs(current_position_value), _HOLD_AMOUNT)
    return action == "hold" and abs(target_cash_amount - current_position_value) <= tolerance


def read_decisions(
    value: Any, positions: Mapping[str, float], *, total_assets: float | None = None
) -> tuple[dict[str, CheckedDecision], dict[str, DecisionFault]]:
    """Read the decisions of a reply. A faulty symbol changes nothing for the others.

    Numbers may be text. A close without a target means 0, a hold without one the current value, and a hold
    that is too far from the current value holds it, with a note. Without a confidence it is 0.5. Symbols
    that were not asked about are dropped.

    Parameters
    ----------
    value
        The JSON of the reply: decisions by symbol, alone or under ``decisions``.
    positions
        Current value of each symbol that was asked about.
    total_assets
        Cash and positions: the most that a target may be. None: no limit.

    Returns
    -------
    tuple
        Decisions and faults by symbol, in the order of ``positions``; every symbol is in one of them.
    """
    entries = value.get("decisions", value) if isinstance(value, Mapping) else value
    decisions: dict[str, CheckedDecision] = {}
    faults: dict[str, DecisionFault] = {}
    for symbol, current in positions.items():
        try:
            decisions[symbol] = _read_decision(_entry(entries, symbol), current, total_assets)
        except _FaultFound as found:
            faults[symbol] = found.fault
    return decisions, faults


def _entry(entries: Any, symbol: str) -> Mapping[Any, Any]:
    """Return what a reply says of a symbol."""
    if not isinstance(entries, Mapping):
        raise _FaultFound(
            "shape",
            zh=f"decisions 应是以代码为键的对象，而不是 {_shown(entries)}",
            en=f"decisions must be an object by symbol, not {_shown(entries)}",
        )
    if symbol not in entries:
        raise _FaultFound("missing", zh="回复中没有这个代码", en="the symbol is not in the reply")
    entry = entries[symbol]
    if not isinstance(entry, Mapping):
        raise _FaultFound(
            "shape",
            zh=f"决策应是一个对象，而不是 {_shown(entry)}",
            en=f"a decision must be an object, not {_shown(entry)}",
        )
    return entry


def _read_decision(entry: Mapping[Any, Any], current: float, total_assets: float | None) -> CheckedDecision:
    action = _action(entry.get("action"))
    target = _target(action, entry.get("target_cash_amount"), current)
    confidence = _confidence(entry.get("confidence"))
    decision = CheckedDecision(
        action=action,
        target_cash_amount=target,
        confidence=confidence,
        reasons=_reasons(entry.get("reasons")),
    )
    agrees = _validate_decision_logic(action, target, current)
    if action == "close" and agrees and not current:
        decision["action"], decision["note"] = "hold", "there was no position to close"
    elif action == "hold":
        decision["target_cash_amount"] = current
        if not agrees:
            decision["note"] = (
                f"a hold keeps the current value {_amount(current)}; its target was {_amount(target)}"
            )
    elif not agrees:
        raise _contradiction(action, target, current)
    elif action == "increase" and total_assets is not None and target > total_assets + _HALF_CENT:
        raise _FaultFound(
            "target",
            zh=f"目标 {_amount(target)} 超过总资产 {_amount(total_assets)}；"
            "target_cash_amount 是持仓的目标总市值，不借钱",
            en=f"target {_amount(target)} is above the total assets {_amount(total_assets)}; "
            "target_cash_amount is the total value of the position, and nothing is borrowed",
        )
    elif action == "close":
        decision["target_cash_amount"] = 0.0
    return decision


def _action(said: Any) -> Action:
    word = said.strip().lower() if isinstance(said, str) else ""
    for action in ACTIONS:
        if word == action:
            return action
    raise _FaultFound(
        "action",
        zh=f"action 是 {_shown(said)}；应是 {'、'.join(ACTIONS)} 之一",
        en=f"action is {_shown(said)}; must be one of {', '.join(ACTIONS)}",
    )


def _target(action: Action, said: Any, current: float) -> float:
    if said is None and action in ("close", "hold"):
        return 0.0 if action == "close" else current
    target = _number(said)
    if target is None or target < 0:
        raise _FaultFound(
            "target",
            zh=f"target_cash_amount 是 {_shown(said)}；应是不小于 0 的数，即持仓的目标总市值",
            en=f"target_cash_amount is {_shown(said)}; must be a number >= 0, the position's total value",
        )
    return target + 0.0  # -0.0 becomes 0.0


def _contradiction(action: Action, target: float, current: float) -> _FaultFound:
    wanted = {
        "increase": ("高于", "above"),
        "decrease": ("低于", "below"),
        "close": ("等于", "equal to"),
    }[action]
    value = _amount(current)
    zh, en = ("0", "0") if action == "close" else (f"当前市值 {value}", f"the current value {value}")
    if action == "increase":
        more = _amount(current + target)
        zh, en = f"{zh}；要增加 {_amount(target)} 请写 {more}", f"{en}; to add {_amount(target)} write {more}"
    return _FaultFound(
        "logic",
        zh=f"{action} 的目标 {_amount(target)} 应{wanted[0]}{zh}",
        en=f"the target of {action}, {_amount(target)}, must be {wanted[1]} {en}",
    )


def _confidence(said: Any) -> float:
    if said is None:
        return _DEFAULT_CONFIDENCE
    confidence = _number(said)
    if confidence is None or not 0 <= confidence <= 1:
        raise _FaultFound(
            "confidence",
            zh=f"confidence 是 {_shown(said)}；应是 0 到 1 之间的数",
            en=f"confidence is {_shown(said)}; must be a number from 0 to 1",
        )
    return confidence + 0.0


def _reasons(said: Any) -> list[str]:
    """Return the texts among the reasons, each on one line."""
    listed = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    texts = (" ".join(each[: 2 * _REASON_LENGTH].split()) for each in listed if isinstance(each, str))
    return [escape_controls(text)[:_REASON_LENGTH] for text in texts if text][:_MOST_REASONS]


def _number(said: Any) -> float | None:
    """Return a finite number, also one written as text; None for anything else."""
    if isinstance(said, str):
        text = said.strip()[: _NUMBER_LENGTH + 1]
        plain = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
        return _finite(plain) if len(text) <= _NUMBER_LENGTH and _NUMBER.fullmatch(plain) else None
    return _finite(said) if isinstance(said, int | float) and not isinstance(said, bool) else None


def _finite(said: float | str) -> float | None:
    try:
        number = float(said)
    except OverflowError:  # an int beyond the floats
        return None
    return number if math.isfinite(number) else None


def _amount(value: float) -> str:
    return f"{value:.2f}" if value < _LARGEST_SHOWN else f"{value:g}"


def _shown(said: Any) -> str:
    """Return a model's value for a message, short and on one line, however large or deep it is."""
    if isinstance(said, str):
        more = "…" if len(said) > _SHOWN_LENGTH else ""
        return f'"{escape_controls(said[:_SHOWN_LENGTH])}{more}"'
    if said is None or isinstance(said, bool):
        return {None: "null", True: "true", False: "false"}[said]
    if isinstance(said, float):
        return f"{said:.15g}"
    if isinstance(said, int):
        return str(said) if abs(said) < _LARGEST_SHOWN else "…"
    return "{…}" if isinstance(said, Mapping) else "[…]"
