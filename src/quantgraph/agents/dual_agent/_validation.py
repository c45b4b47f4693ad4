"""Checks of a model's decisions: each symbol alone, the cash they need together, and their tags.

``target_cash_amount`` is the wished total value of a position, not a change of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NotRequired, get_args

from typing_extensions import TypedDict

from quantgraph._util.texts import Note, escape_controls
from quantgraph._util.values import is_number, read_number

Action = Literal["increase", "decrease", "hold", "close"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
FaultKind = Literal["shape", "missing", "action", "target", "logic", "confidence"]

_CLOSED = 0.01
_HOLD_SHARE, _HOLD_AMOUNT = 0.01, 100.0
_HALF_CENT = 0.005
_DEFAULT_CONFIDENCE = 0.5
_MOST_REASONS, _REASON_LENGTH = 10, 500
_SHOWN_LENGTH = 40
_LARGEST_SHOWN = 10**15


class CheckedDecision(TypedDict):
    """A decision that passed the checks; ``target_cash_amount`` of a hold is the position's current value.

    ``wished_cash_amount`` is the target before it was cut to the cash.
    """

    action: Action
    target_cash_amount: float
    confidence: float
    reasons: list[str]
    note: NotRequired[str]
    wished_cash_amount: NotRequired[float]
    hold_reason: NotRequired[Literal["rejected"]]


class DecisionFault(Exception):
    """Why a reply has no valid decision for a symbol; ``message`` says it in English.

    ``kind`` is ``shape``: not an object; ``missing``: the symbol is not in the reply; ``action``, ``target``,
    ``confidence``: the field has no valid value; ``logic``: action and target contradict each other.
    """

    def __init__(self, kind: FaultKind, *, zh: str, en: str) -> None:
        super().__init__(en)
        self.kind, self.note, self.message = kind, Note(zh=zh, en=en), en


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
    """Read the decisions of a reply, in the reply's order. A faulty symbol changes nothing for the others."""
    entries = value.get("decisions", value) if isinstance(value, Mapping) else value
    named = _by_symbol(entries, positions)
    decisions: dict[str, CheckedDecision] = {}
    faults: dict[str, DecisionFault] = {}
    for symbol in dict.fromkeys([*(named or ()), *positions]):
        try:
            entry = _entry(entries, named, symbol)
            decisions[symbol] = _read_decision(entry, positions[symbol], total_assets)
        except DecisionFault as fault:
            faults[symbol] = fault
    return decisions, {symbol: faults[symbol] for symbol in positions if symbol in faults}


def asked_symbol(name: Any, symbols: Collection[str]) -> str | None:
    """The symbol that a model means: also in lower case, or with a dollar sign; None if it was not asked.

    >>> asked_symbol("$tsla", {"AAPL", "TSLA"}), asked_symbol("FAKE", {"AAPL", "TSLA"})
    ('TSLA', None)
    """
    if not isinstance(name, str) or name in symbols:
        return name if isinstance(name, str) else None
    plain = name.strip().removeprefix("$").upper()
    return plain if plain in symbols else None


def _by_symbol(entries: Any, symbols: Collection[str]) -> dict[str, Any] | None:
    """What a reply says by symbol, in its order: an object, or a list whose items have a ``symbol``."""
    if isinstance(entries, Mapping):
        pairs = list(entries.items())
    else:
        pairs = _listed(entries)
        if not pairs:
            return None
    named: dict[str, Any] = {}
    for name, entry in pairs:
        symbol = asked_symbol(name, symbols)
        if symbol is not None and (symbol not in named or symbol == name):
            named[symbol] = entry
    return named


def not_asked(value: Any, symbols: Collection[str]) -> list[str]:
    """The first names of a reply's decisions that are none of the symbols."""
    entries = value.get("decisions", value) if isinstance(value, Mapping) else value
    pairs = entries.items() if isinstance(entries, Mapping) else _listed(entries)
    named = [name for name, each in pairs if isinstance(each, Mapping) and "action" in each]
    names = [escape_controls(str(name))[:_SHOWN_LENGTH] for name in named if not asked_symbol(name, symbols)]
    return list(dict.fromkeys(names))[:_MOST_REASONS]


def _listed(entries: Any) -> list[tuple[Any, Any]]:
    items = [each for each in entries if isinstance(each, Mapping)] if isinstance(entries, list) else []
    return [(each["symbol"], each) for each in items if "symbol" in each]


def _entry(entries: Any, named: Mapping[str, Any] | None, symbol: str) -> Mapping[Any, Any]:
    """Return what a reply says of a symbol."""
    if named is None:
        raise DecisionFault(
            "shape",
            zh=f"decisions 应是以代码为键的对象，而不是 {_shown(entries)}",
            en=f"decisions must be an object by symbol, not {_shown(entries)}",
        )
    if symbol not in named:
        raise DecisionFault("missing", zh="回复中没有这个代码", en="the symbol is not in the reply")
    entry = named[symbol]
    if not isinstance(entry, Mapping):
        raise DecisionFault(
            "shape",
            zh=f"决策应是一个对象，而不是 {_shown(entry)}",
            en=f"a decision must be an object, not {_shown(entry)}",
        )
    return entry


def _read_decision(entry: Mapping[Any, Any], current: float, total_assets: float | None) -> CheckedDecision:
    action, target, confidence = _fields(entry, current)
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
        raise DecisionFault(
            "target",
            zh=f"目标 {_amount(target)} 超过总资产 {_amount(total_assets)}；"
            "target_cash_amount 是持仓的目标总市值，不借钱",
            en=f"target {_amount(target)} is above the total assets {_amount(total_assets)}; "
            "target_cash_amount is the total value of the position, and nothing is borrowed",
        )
    elif action == "close":
        decision["target_cash_amount"] = 0.0
    return decision


def _fields(entry: Mapping[Any, Any], current: float) -> tuple[Action, float, float]:
    """Return action, target and confidence, or raise all of their faults as one."""
    faults: list[DecisionFault] = []

    def read(reader: Callable[..., Any], *values: Any) -> Any:
        try:
            return reader(*values)
        except DecisionFault as fault:
            faults.append(fault)

    action = read(_action, entry.get("action"))
    target = read(_target, action, entry.get("target_cash_amount"), current)
    confidence = read(_confidence, entry.get("confidence"))
    if faults:
        zh, en = ([each.note.text(language) for each in faults] for language in ("zh", "en"))
        raise DecisionFault(faults[0].kind, zh="；".join(zh), en="; ".join(en))
    return action, target, confidence


def _wrong(kind: FaultKind, field: str, value: Any, *, zh: str, en: str) -> DecisionFault:
    """The fault of a field whose value is not valid; the texts say what would be."""
    shown = _shown(value)
    return DecisionFault(kind, zh=f"{field} 是 {shown}；应是{zh}", en=f"{field} is {shown}; must be {en}")


def _action(value: Any) -> Action:
    word = value.strip().lower() if isinstance(value, str) else ""
    for action in ACTIONS:
        if word == action:
            return action
    zh, en = f" {'、'.join(ACTIONS)} 之一", f"one of {', '.join(ACTIONS)}"
    raise _wrong("action", "action", value, zh=zh, en=en)


def _target(action: Action | None, value: Any, current: float) -> float:
    if value is None and action in ("close", "hold"):
        return 0.0 if action == "close" else current
    target = read_number(value)
    if target is None or target < 0:
        zh, en = "不小于 0 的数，即持仓的目标总市值", "a number >= 0, the position's total value"
        raise _wrong("target", "target_cash_amount", value, zh=zh, en=en)
    return target + 0.0  # -0.0 becomes 0.0


def _contradiction(action: Action, target: float, current: float) -> DecisionFault:
    relations = {"increase": ("高于", "above"), "decrease": ("低于", "below"), "close": ("等于", "equal to")}
    wanted = relations[action]
    value = _amount(current)
    zh, en = ("0", "0") if action == "close" else (f"当前市值 {value}", f"the current value {value}")
    if action == "increase":
        zh, en = (
            f"{zh}；请写买入后持仓的总市值，或 hold",
            f"{en}; write what the position is to be worth, or hold",
        )
    return DecisionFault(
        "logic",
        zh=f"{action} 的目标 {_amount(target)} 应{wanted[0]}{zh}",
        en=f"the target of {action}, {_amount(target)}, must be {wanted[1]} {en}",
    )


def _confidence(value: Any) -> float:
    if value is None:
        return _DEFAULT_CONFIDENCE
    confidence = read_number(value)
    if confidence is None or not 0 <= confidence <= 1:
        raise _wrong("confidence", "confidence", value, zh=" 0 到 1 之间的数", en="a number from 0 to 1")
    return confidence + 0.0


def _reasons(value: Any) -> list[str]:
    """Return the texts among the reasons, each on one line."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = (" ".join(each[: 2 * _REASON_LENGTH].split()) for each in listed if isinstance(each, str))
    return [escape_controls(text)[:_REASON_LENGTH] for text in texts if text][:_MOST_REASONS]


def _amount(value: float) -> str:
    return f"{value:.2f}" if value < _LARGEST_SHOWN else f"{value:g}"


def _shown(value: Any) -> str:
    """Return a model's value for a message, short and on one line, however large or deep it is."""
    if isinstance(value, str):
        more = "…" if len(value) > _SHOWN_LENGTH else ""
        return f'"{escape_controls(value[:_SHOWN_LENGTH])}{more}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, int):
        return str(value) if abs(value) < _LARGEST_SHOWN else "…"
    return "{…}" if isinstance(value, Mapping) else "[…]"


@dataclass(frozen=True, kw_only=True)
class CashFault:
    """Why decisions do not fit the cash together. Amounts are in the market's currency.

    ``reserve`` is what ``min_cash_ratio`` keeps of the ``total`` assets. ``kind`` is ``cash`` if there is not
    enough, and ``ratio`` if less would be left than must stay.
    """

    available_cash: float
    required_cash: float
    min_cash_ratio: float
    proceeds: float = 0.0
    total: float = 0.0

    @property
    def reserve(self) -> float:
        return self.min_cash_ratio * self.total

    @property
    def remaining_cash(self) -> float:
        return self.available_cash + self.proceeds - self.required_cash

    @property
    def remaining_ratio(self) -> float:
        return self.remaining_cash / self.total if self.total > 0 else 0.0

    @property
    def shortfall(self) -> float:
        return self.reserve - self.remaining_cash

    @property
    def kind(self) -> Literal["cash", "ratio"]:
        return "cash" if self.remaining_cash < -_HALF_CENT else "ratio"


def check_cash(
    decisions: Mapping[str, CheckedDecision],
    positions: Mapping[str, float],
    portfolio: Mapping[str, float],
    *,
    min_cash_ratio: float,
    cost_rate: float,
) -> CashFault | None:
    """Check the cash that decisions need together, with what is sold counted first.

    Decisions that buy nothing pass, whatever the cash.
    """
    needed = _needed(_changes(decisions, positions), portfolio, min_cash_ratio, cost_rate)
    return needed if needed.required_cash and needed.shortfall > _HALF_CENT else None


def fit_to_cash(
    decisions: Mapping[str, CheckedDecision],
    positions: Mapping[str, float],
    portfolio: Mapping[str, float],
    *,
    least_buys: Mapping[str, float],
    min_cash_ratio: float,
    cost_rate: float,
) -> dict[str, CheckedDecision]:
    """Cut the increases to the cash, in the order of ``decisions``; sales and holds stand.

    One that does not fit takes what is left, if that is at least its least buy, else it is held.
    """
    changes = _changes(decisions, positions)
    needed = _needed(changes, portfolio, min_cash_ratio, cost_rate)
    room = needed.available_cash + needed.proceeds - needed.reserve
    fitted: dict[str, CheckedDecision] = {}
    for symbol, each in decisions.items():
        cost, left = max(0.0, changes[symbol]), max(0.0, math.floor(100 * room + _HALF_CENT) / 100)
        if cost <= max(0.0, room + _HALF_CENT):
            fitted[symbol] = each
            room -= cost
        elif 0 < least_buys.get(symbol, math.inf) <= left:
            fitted[symbol] = cut_to(left, each, positions[symbol])
            room -= left
        else:
            fitted[symbol] = {
                **each,
                "action": "hold",
                "target_cash_amount": positions[symbol],
                "note": f"an increase by {cost:.2f} does not fit the cash that is left, {left:.2f}",
                "hold_reason": "rejected",
            }
    return fitted


def cut_to(left: float, decision: CheckedDecision, current: float) -> CheckedDecision:
    """An increase that has what cash is left."""
    cost = decision["target_cash_amount"] - current
    note = f"an increase by {cost:.2f} is cut to the cash that is left, {left:.2f}"
    wished = decision.get("wished_cash_amount", decision["target_cash_amount"])
    smaller: CheckedDecision = {**decision, "target_cash_amount": current + left, "note": note}
    return {**smaller, "wished_cash_amount": wished}


def _changes(decisions: Mapping[str, CheckedDecision], positions: Mapping[str, float]) -> dict[str, float]:
    return {
        symbol: 0.0 if each["action"] == "hold" else each["target_cash_amount"] - positions[symbol]
        for symbol, each in decisions.items()
    }


def _needed(
    changes: Mapping[str, float], portfolio: Mapping[str, float], min_cash_ratio: float, cost_rate: float
) -> CashFault:
    """What changes of positions cost and bring."""
    return CashFault(
        available_cash=portfolio["available_cash"],
        required_cash=sum(change for change in changes.values() if change > 0),
        proceeds=-sum(change for change in changes.values() if change < 0) * (1 - cost_rate),
        total=portfolio["total_assets"],
        min_cash_ratio=min_cash_ratio,
    )


_KEYWORDS = (
    "breakout", "support", "resistance", "trend", "momentum", "overbought", "oversold", "risk", "stop_loss",
    "volatility", "volume", "news", "earnings", "dividend", "valuation", "fundamental", "technical",
    "pe_ratio", "market_cap",
)  # fmt: skip
_GOOD_NEWS = ("positive", "beat", "strong", "growth", "upgrade")
_BAD_NEWS = ("negative", "miss", "weak", "loss", "downgrade")
_TREND = 0.02


def _extract_decision_tags(
    decision: Mapping[str, Any], features: Mapping[str, Any] | None = None
) -> list[str]:
    """Tags of a decision and of the features that it was made from, each once.

    In this order: the action; ``high_confidence`` from 0.8, ``low_confidence`` to 0.3; keywords of the
    reasons in the order in which they first occur; ``uptrend`` and ``downtrend``, the last close more than
    2 % above or below the one before; ``has_fundamental`` or ``no_fundamental``, ``high_pe`` above 30,
    ``low_pe`` below 15, ``dividend_stock`` above 2 percent, ``large_cap`` above 100 billion, ``small_cap``
    below 10 billion; ``has_news``, ``positive_news``, ``negative_news``; ``has_position`` or
    ``no_position``, ``long_hold`` above 90 sessions, ``medium_hold`` above 30, ``short_hold``.

    A value that is missing gives no tag. Only English words are found.
    """
    action, text = decision.get("action"), _lower_text(decision.get("reasons"))
    confidence = _as_number(decision.get("confidence"))
    tags = {
        str(action): isinstance(action, str) and bool(action),
        "high_confidence": confidence >= 0.8,
        "low_confidence": confidence <= 0.3,
        **dict.fromkeys(sorted((word for word in _KEYWORDS if word in text), key=text.index), True),
    }
    if features is not None:
        tags |= {tag: is_given for tag, is_given in _feature_tags(features).items() if tag not in tags}
    return [tag for tag, is_given in tags.items() if is_given]


def _feature_tags(features: Mapping[str, Any]) -> dict[str, bool]:
    market, data, news, state = (
        part if isinstance(part := features.get(name), Mapping) else {}
        for name in ("market_data", "fundamental_data", "news_events", "position_state")
    )
    closes = market.get("close_7d")
    two = closes[-2:] if isinstance(closes, list | tuple) and len(closes) > 1 else (None, None)
    before, last = map(_as_number, two)
    ratio, cap = _as_number(data.get("pe_ratio")), _as_number(data.get("market_cap"))
    is_known = any(each is not None for each in data.values())
    text = _lower_text(news.get("top_k_events"))
    value, days = _as_number(state.get("current_position_value")), _as_number(state.get("holding_days"))
    return {
        "uptrend": last > (1 + _TREND) * before > 0,
        "downtrend": before > 0 and last < (1 - _TREND) * before,
        "has_fundamental": is_known,
        "no_fundamental": not is_known,
        "high_pe": ratio > 30,
        "low_pe": ratio < 15,
        "dividend_stock": _as_number(data.get("dividend_yield")) > 2,
        "large_cap": cap > 100e9,
        "small_cap": cap < 10e9,
        "has_news": bool(text),
        "positive_news": any(word in text for word in _GOOD_NEWS),
        "negative_news": any(word in text for word in _BAD_NEWS),
        "has_position": value > 0,
        "no_position": value <= 0,
        "long_hold": days > 90,
        "medium_hold": 30 < days <= 90,
        "short_hold": 0 < days <= 30,
    }


def _lower_text(texts: Any) -> str:
    listed = [texts] if isinstance(texts, str) else texts if isinstance(texts, list | tuple) else []
    return "\n".join(each for each in listed if isinstance(each, str) and each).lower()


def _as_number(value: Any) -> float:
    """A number; NaN, of which no comparison holds, for anything else."""
    return float(value) if is_number(value) else math.nan
