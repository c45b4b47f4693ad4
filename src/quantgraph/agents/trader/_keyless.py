"""The keyless planner as the autonomous trader: a fixed rule, see ``docs/keyless-planner.md``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from quantgraph._util.values import json_object
from quantgraph.agents.loop._model_decider import bar_closes
from quantgraph.llm.messages import read

_RESULTS = "Tool results: "
"""Beginning of the text with what a trader's tools answered."""
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
    done = f"keyless rule: {len(above)} symbols were looked at, {len(trades)} orders sent, {refused} refused"
    rule = "; the rule in words is not executed" if has_rule else ""
    return TraderMove(f"{done}{rule}.\n{stop_signal}")


def _read_day(day: str) -> tuple[dict[str, float], dict[str, float], bool]:
    """Return positions, opens, and whether there is a rule in words."""
    lines = [line.strip() for line in day.splitlines()]
    begin = next((place for place, line in enumerate(lines) if line.startswith("symbol,")), len(lines))
    names, *table = [line.split(",") for line in takewhile(bool, lines[begin:])] or [[]]
    rows = [dict(zip(names, cells, strict=False)) for cells in table]
    held, opens = ({row["symbol"]: row[name] for row in rows if name in row} for name in ("held", "open"))
    has_rule = any(line.startswith(("Rule: ", "用户的规则: ")) for line in lines)
    return _numbers(held), _numbers(opens), has_rule


def _looked_at(positions: Mapping[str, float], opens: Mapping[str, float]) -> list[str]:
    """Return what is held before what is not, in the order of the prompt; what has no open is left out."""
    priced = [symbol for symbol in opens if symbol in positions]
    return sorted(priced, key=lambda symbol: not positions[symbol])[:_LOOKED]


def _is_above(bars: Any) -> bool | None:
    """Whether the last close is above the average; None if it is equal, or there are too few."""
    closes = bar_closes(bars.get("bars") if isinstance(bars, Mapping) else None)
    if len(closes) < _TRADER_BARS:
        return None
    last, average = closes[-1], sum(closes[-_TRADER_BARS:]) / _TRADER_BARS
    return None if math.isclose(last, average) else last > average


def _trades(
    above: Mapping[str, bool], positions: Mapping[str, float], opens: Mapping[str, float]
) -> list[tuple[str, str, int]]:
    """Return what is sold, then what is bought: a fifth of the portfolio each, while the cash lasts."""
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


def _numbers(texts: Mapping[str, str | None]) -> dict[str, float]:
    """The numbers of a column; a symbol whose cell has none is left out."""
    known = {name: text for name, text in texts.items() if text not in {None, "", "null"}}
    return {name: float(str(text)) for name, text in known.items()}


def reply_to_day(messages: Sequence[BaseMessage], day: str) -> AIMessage:
    """The next move of a trader's day: what the tools answered stands in the messages, in either form."""
    answers = [
        message.text.removeprefix(_RESULTS)
        for message in messages
        if isinstance(message, ToolMessage)
        or (isinstance(message, HumanMessage) and message.text.startswith(_RESULTS))
    ]
    prompt = next(each.text for each in reversed(messages) if read("trader_day", each.text) is not None)
    stop_signal = prompt.rstrip().rpartition("\n")[2]
    move = next_move(day, stop_signal, [json_object(answer) for answer in answers])
    calls = [tool_call(name=move.tool, args=dict(move.args), id=None)] if move.tool else []
    return AIMessage(move.text, tool_calls=calls)


KEYLESS = {"trader_day": reply_to_day}
