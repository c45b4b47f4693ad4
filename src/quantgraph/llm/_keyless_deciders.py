"""The keyless planner in the roles of the dual agent, the execution agent and the trader: fixed rules.

Its reasons begin with ``keyless rule:``, so that nobody takes them for a language model's. The rule is
documented in ``docs/keyless-planner.md``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from quantgraph._util.values import finite_number

_RANGE = 0.05
_MOMENTUM = 0.02
_INVESTED = 0.9
_CONFIDENCE = "0.5"

Facts = Mapping[str, Any]


def symbols_of(facts: Facts) -> list[str]:
    """The symbols that facts are about."""
    return list(_mapping(facts.get("symbols")))


def filter_symbols(facts: Facts) -> dict[str, Any]:
    """Choose the symbols whose fundamentals are read: those held, and those whose 7-day range is above 5 %.

    The range is the highest close of ``close_7d`` less the lowest, over the lowest.
    """
    reasoning, need = {}, []
    for symbol, entry in _mapping(facts.get("symbols")).items():
        closes, value = _closes(entry), _position_value(entry)
        spread = (max(closes) - min(closes)) / min(closes) if closes else 0.0
        if value > 0:
            why = "it is held"
        elif spread > _RANGE:
            why = f"the range of close_7d is {spread:.2%}, above {_RANGE:.0%}"
        else:
            reasoning[symbol] = _reason(f"it is not held, and the range of close_7d is {spread:.2%}")
            continue
        need.append(symbol)
        reasoning[symbol] = _reason(why)
    return {"stocks_need_fundamental": need, "reasoning": reasoning}


def decide_portfolio(
    facts: Facts,
    *,
    symbols: Collection[str],
    universe: int,
    retries: int = 0,
    rejected: Collection[str] = (),
) -> dict[str, Any]:
    """Decide by the momentum of ``close_7d``: buy what rose by more than 2 %, close what fell by as much."""
    portfolio, limits = _mapping(facts.get("portfolio_info")), _mapping(facts.get("limits"))
    total, cost = (
        finite_number(portfolio.get("total_assets")) or 0.0,
        finite_number(limits.get("cost_rate")) or 0.0,
    )
    reserve = (finite_number(limits.get("min_cash_ratio")) or 0.0) * total
    room = max(0.0, (finite_number(portfolio.get("available_cash")) or 0.0) - reserve) / (1 + cost)
    share = total * _INVESTED / max(1, universe) / 2**retries
    unexecuted = [_reason("the user's rule in words is not executed by it")] if facts.get("rule") else []
    decisions = {}
    for symbol, entry in _mapping(facts.get("symbols")).items():
        if symbol not in symbols:
            continue
        action, target, why = _decide(entry, share=share, room=room, retries=retries)
        if symbol in rejected:
            action, target, why = "hold", _position_value(entry), "the market refused the order"
        if action == "increase":
            room -= target
        decisions[symbol] = {
            "action": action,
            "target_cash_amount": f"{target:.2f}",
            "confidence": _CONFIDENCE,
            "reasons": [_reason(why), *unexecuted],
        }
    return {"decisions": decisions}


def _decide(entry: Any, *, share: float, room: float, retries: int) -> tuple[str, float, str]:
    """Return action, target and reason for one symbol."""
    closes, value = _closes(entry), _position_value(entry)
    features = _features(entry)
    price = finite_number(_mapping(features.get("market_data")).get("open"))
    if price is None or price <= 0:
        return "hold", value, "there is no open today"
    if len(closes) < 2:
        return "hold", value, "close_7d has fewer than 2 closes"
    momentum = (closes[-1] - closes[0]) / closes[0]
    said = f"the momentum of close_7d is {momentum:+.2%}"
    if momentum < -_MOMENTUM and value > 0:
        if retries or not _is_sellable(features):
            return "hold", value, f"{said}, and the position cannot be sold now"
        return "close", 0.0, f"{said}, below -{_MOMENTUM:.0%}, and there is a position"
    if momentum > _MOMENTUM and value <= 0:
        target = math.floor(100 * min(share, room)) / 100
        if target < price:
            return "hold", value, f"{said}, and the cash left does not buy a share"
        return "increase", target, f"{said}, above +{_MOMENTUM:.0%}, and there is no position"
    return "hold", value, said


def _reason(text: str) -> str:
    return f"keyless rule: {text}"


def _features(entry: Any) -> Mapping[str, Any]:
    return _mapping(_mapping(entry).get("features"))


def _closes(entry: Any) -> list[float]:
    closes = _mapping(_features(entry).get("market_data")).get("close_7d")
    numbers = [finite_number(each) for each in closes] if isinstance(closes, list) else []
    return [each for each in numbers if each is not None and each > 0]


def _position_value(entry: Any) -> float:
    return (
        finite_number(_mapping(_features(entry).get("position_state")).get("current_position_value")) or 0.0
    )


def _is_sellable(features: Mapping[str, Any]) -> bool:
    """Whether all of a position may be sold, as far as the facts say."""
    state = _mapping(features.get("position_state"))
    shares, sellable = finite_number(state.get("shares")), finite_number(state.get("sellable"))
    return shares is None or sellable is None or sellable >= shares


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_BARS, _PERIOD, _RSI_PERIOD, _RSI_HIGH = 40, 20, 14, 70.0
_STEP_CONFIDENCE = 0.5


def next_action(
    facts: Mapping[str, Any], step: int, results: Sequence[Any], *, is_sent_back: bool = False
) -> dict[str, Any]:
    """Return the action of a step as JSON: bars, their average, RSI, the position, the decision."""
    symbol = str(facts.get("symbol") or "")
    if is_sent_back:
        return _decision(step, "hold", "the last reply was sent back", facts)
    failed = next((each for each in results if isinstance(each, Mapping) and "error" in each), None)
    if failed is not None:
        return _decision(step, "hold", f"a step failed: {failed['error']}", facts)
    closes = _bar_closes(results[0]) if results else []
    if results and len(closes) < _PERIOD:
        reason = f"{len(closes)} closes are known, {_PERIOD} are needed"
        return _decision(step, "hold", reason, facts)
    average = sum(closes[-_PERIOD:]) / _PERIOD if closes else math.nan
    match len(results):
        case 0:
            params = {"symbol": symbol, "timeframe": "1d", "limit": _BARS}
            return _call(step, "get_kline_data", params, f"the last {_BARS} closes are needed")
        case 1:
            return _action(
                step,
                "calculation",
                {
                    "calculation_type": "MA",
                    "formula": f"MA{_PERIOD} = sum(close[-{_PERIOD}:]) / {_PERIOD}",
                    "inputs": {"period": _PERIOD, "data": "close"},
                },
                f"the average of the last {_PERIOD} closes",
                intermediate_result={f"ma{_PERIOD}": round(average, 4), "close": closes[-1]},
            )
        case 2:
            params = {"symbol": symbol, "name": "RSI", "params": {"period": _RSI_PERIOD}}
            return _call(step, "get_indicator", params, f"RSI({_RSI_PERIOD}) says whether it is overbought")
        case 3:
            return _call(step, "get_position", {"symbol": symbol}, "what is held decides what may be done")
        case _:
            action, reason = _decided(closes[-1], average, _rsi(results[2]), results[3])
            return _decision(step, action, reason, facts)


def _decided(close: float, average: float, rsi: float | None, position: Any) -> tuple[str, str]:
    held = position if isinstance(position, Mapping) else {}
    shares, sellable = (finite_number(held.get(name)) for name in ("shares", "sellable"))
    if rsi is None or shares is None:
        return "hold", "RSI or the position is not known"
    side = "above" if close > average else "below" if close < average else "at"
    said = f"the close of {close:g} is {side} MA{_PERIOD} of {average:.4f}, RSI is {rsi:.2f}"
    if close > average and rsi < _RSI_HIGH and not shares:
        return "buy", f"{said}, and nothing is held"
    if close < average and sellable:
        return "sell", f"{said}, and {sellable:g} shares may be sold"
    return "hold", f"{said}, and {shares:g} shares are held"


def _decision(step: int, action: str, reason: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    rule = "; the rule in words is not executed" if facts.get("user_requirements") else ""
    told = {"action": action, "reason": f"keyless rule: {reason}{rule}", "confidence": _STEP_CONFIDENCE}
    return _action(step, "decision", told, reason)


def _call(step: int, tool: str, params: Mapping[str, Any], reasoning: str) -> dict[str, Any]:
    return _action(step, "tool_call", {"tool_name": tool, "params": params}, reasoning)


def _action(
    step: int, kind: str, action: Mapping[str, Any], reasoning: str, intermediate_result: Any = None
) -> dict[str, Any]:
    return {
        "type": kind,
        "step": step,
        "reasoning": f"keyless rule: {reasoning}",
        "action": action,
        "result": None,
        "intermediate_result": intermediate_result,
        "next_step": None,
    }


def _bar_closes(bars: Any) -> list[float]:
    rows = bars if isinstance(bars, list) else []
    numbers = [finite_number(row.get("close")) for row in rows if isinstance(row, Mapping)]
    return [each for each in numbers if each is not None]


def _rsi(rows: Any) -> float | None:
    last = rows[-1] if isinstance(rows, list) and rows else {}
    return finite_number(last.get("rsi")) if isinstance(last, Mapping) else None


_LOOKED, _TRADER_BARS = 5, 20
_LOT, _LEAST_STAR = 100, 200
_MAINLAND = (".SH", ".SZ", ".BJ")
_MARGIN = 0.99
"""Of the cash that is spent: charges come on top of a price."""


class TraderMove(NamedTuple):
    """A tool call, or a text that ends the day: then ``tool`` is empty."""

    text: str
    tool: str = ""
    args: Mapping[str, Any] = {}


def next_move(day: str, stop_signal: str, results: Sequence[Any]) -> TraderMove:
    """Return the next move of a day: the bars of five symbols, sales, purchases, the end."""
    positions, opens, has_rule = _read_day(day)
    looked = _looked_at(positions, opens)
    if len(results) < len(looked):
        symbol = looked[len(results)]
        return TraderMove(
            f"keyless rule: the last {_TRADER_BARS} closes of {symbol} are needed",
            "get_price_history",
            {"symbol": symbol, "limit": _TRADER_BARS},
        )
    above = {
        symbol: each
        for symbol, bars in zip(looked, results, strict=False)
        if (each := _is_above(bars)) is not None
    }
    trades = _trades(above, positions, opens)
    made = len(results) - len(looked)
    if made < len(trades):
        side, symbol, amount = trades[made]
        where = "above" if side == "buy" else "below"
        text = f"keyless rule: the last close of {symbol} is {where} its average of {_TRADER_BARS}"
        return TraderMove(text, side, {"symbol": symbol, "amount": amount})
    refused = sum(isinstance(each, Mapping) and "error" in each for each in results[len(looked) :])
    said = f"keyless rule: {len(above)} symbols were looked at, {len(trades)} orders sent, {refused} refused"
    rule = "; the rule in words is not executed" if has_rule else ""
    return TraderMove(f"{said}{rule}.\n{stop_signal}")


def _read_day(day: str) -> tuple[dict[str, float], dict[str, float], bool]:
    """Return positions, opens, and whether there is a rule in words."""
    lines = [line.strip() for line in day.splitlines()]
    found = [_object(line) for line in lines if line.startswith("{")]
    positions, opens = (found[0], found[-1]) if len(found) > 1 else ({}, {})
    prices = {name.removesuffix("_price"): price for name, price in _numbers(opens).items()}
    has_rule = any(line.startswith(("Rule: ", "用户的规则: ")) for line in lines)
    return _numbers(positions), prices, has_rule


def _looked_at(positions: Mapping[str, float], opens: Mapping[str, float]) -> list[str]:
    """Return what is held before what is not, in the order of the prompt; what has no open is left out."""
    priced = [symbol for symbol in opens if symbol in positions]
    return sorted(priced, key=lambda symbol: not positions[symbol])[:_LOOKED]


def _is_above(bars: Any) -> bool | None:
    """Whether the last close is above the average; None if it is equal, or there are too few."""
    closes = _bar_closes(bars.get("bars") if isinstance(bars, Mapping) else None)
    if len(closes) < _TRADER_BARS:
        return None
    last, average = closes[-1], sum(closes[-_TRADER_BARS:]) / _TRADER_BARS
    return None if math.isclose(last, average) else last > average


def _trades(
    above: Mapping[str, bool], positions: Mapping[str, float], opens: Mapping[str, float]
) -> list[tuple[str, str, int]]:
    """Return what is sold, then what is bought: a fifth of the portfolio's value each, while the cash lasts."""
    held = {symbol: int(positions[symbol]) for symbol in above if positions[symbol] >= 1}
    sales = [("sell", symbol, shares) for symbol, shares in held.items() if not above[symbol]]
    cash = positions.get("CASH", 0.0) + sum(shares * opens[symbol] for _, symbol, shares in sales)
    worth = positions.get("CASH", 0.0) + sum(
        shares * opens[symbol] for symbol, shares in positions.items() if symbol in opens
    )
    buys = []
    for symbol in above:
        if above[symbol] and symbol not in held:
            amount = _whole_lots(symbol, min(worth / _LOOKED, cash) * _MARGIN / opens[symbol])
            if amount:
                buys.append(("buy", symbol, amount))
                cash -= amount * opens[symbol]
    return [*sales, *buys]


def _whole_lots(symbol: str, shares: float) -> int:
    """Return a number of shares that an exchange takes: lots of a hundred on the mainland."""
    if not symbol.upper().endswith(_MAINLAND):
        return int(shares)
    amount = int(shares // _LOT) * _LOT
    return 0 if symbol.startswith("688") and amount < _LEAST_STAR else amount


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: finite_number(value) for name, value in values.items()}
    return {name: number for name, number in numbers.items() if number is not None}
