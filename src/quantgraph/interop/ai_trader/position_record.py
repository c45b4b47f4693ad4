"""One line of AI-Trader's ``position.jsonl``: its shape, read strictly and written back byte for byte."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from quantgraph.errors import BadFile

__all__ = ["Action", "PositionRecord", "is_date", "parse_record", "record_line"]

Action = Literal["buy", "sell", "no_trade"]

_CASH = "CASH"
_OPENING_KEYS = frozenset({"date", "id", "positions"})
_KEYS = _OPENING_KEYS | {"this_action"}
_ACTION_KEYS = frozenset({"action", "symbol", "amount"})
_OPTIONAL_KEYS = frozenset({"price", "trading_costs"})
_SHOWN = 60
_EXACT = 2**53
"""Whole numbers up to here are doubles without rounding."""


@dataclass(frozen=True, kw_only=True)
class PositionRecord:
    """The state of an account after an action.

    Attributes
    ----------
    date
        Session, ``YYYY-MM-DD``.
    id
        0 for the first record of a file, then one more for each, over all dates.
    action
        None in the first record, the registration.
    symbol, amount
        What was traded, in shares; ``""`` and 0 for ``no_trade``. Real files hold trades of 0 shares.
    price
        Price of the fill, in the market's currency; None where the file has none: then it was the open.
    costs
        ``trading_costs``: amounts by kind, and perhaps their sum as ``total_cost``.
    positions
        Shares by symbol after the action, every symbol of the universe, zeros too.
    cash
        Cash after the action, an unrounded double.
    """

    date: str
    id: int
    action: Action | None = None
    symbol: str = ""
    amount: int = 0
    price: float | None = None
    costs: Mapping[str, float] | None = None
    positions: Mapping[str, int]
    cash: float

    @property
    def fees(self) -> float:
        """``total_cost`` if the costs have it, else their sum; 0 without costs."""
        costs = self.costs or {}
        return float(costs.get("total_cost", sum(costs.values())))


def record_line(record: PositionRecord) -> str:
    """One line without its end, as AI-Trader writes it: ASCII, its order of keys, ``CASH`` last."""
    document: dict[str, Any] = {"date": record.date, "id": record.id}
    if record.action is not None:
        document["this_action"] = {
            "action": record.action,
            "symbol": record.symbol,
            "amount": record.amount,
            **({} if record.price is None else {"price": record.price}),
            **({} if record.costs is None else {"trading_costs": dict(record.costs)}),
        }
    document["positions"] = {**record.positions, _CASH: record.cash}
    return json.dumps(document, allow_nan=False)


def parse_record(line: bytes) -> PositionRecord:
    """Read one line.

    Raises
    ------
    BadFile
        With ``field`` and ``found`` in its data: no JSON, a key missing, unknown or twice, a value of
        the wrong type.
    """
    document = _object("the line", _json(line))
    _keys("the line", document, required=_OPENING_KEYS, allowed=_KEYS)
    positions = _object("positions", document["positions"])
    if _CASH not in positions:
        raise _bad("positions", sorted(positions)[:3], "has no CASH")
    shares = {symbol: _whole(f"positions.{symbol}", n) for symbol, n in positions.items() if symbol != _CASH}
    traded = _action(document["this_action"]) if "this_action" in document else {}
    return PositionRecord(
        date=_date(document["date"]),
        id=_whole("id", document["id"]),
        positions=shares,
        cash=_number("positions.CASH", positions[_CASH]),
        **traded,
    )


def is_date(text: str) -> bool:
    """Whether a text is a day, ``YYYY-MM-DD``."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _date(value: object) -> str:
    text = _text("date", value)
    if not is_date(text):
        raise _bad("date", text, "is no date YYYY-MM-DD")
    return text


def _action(value: object) -> dict[str, Any]:
    found = _object("this_action", value)
    _keys("this_action", found, required=_ACTION_KEYS, allowed=_ACTION_KEYS | _OPTIONAL_KEYS)
    kind, symbol = found["action"], _text("this_action.symbol", found["symbol"])
    if kind not in get_args(Action):
        raise _bad("this_action.action", kind, f"is none of {', '.join(get_args(Action))}")
    amount = _whole("this_action.amount", found["amount"])
    if amount < 0:
        raise _bad("this_action.amount", amount, "is negative")
    if kind == "no_trade" and (symbol or amount):
        raise _bad("this_action", found, 'is no_trade with a symbol or an amount; it has "" and 0')
    traded = {"action": kind, "symbol": symbol, "amount": amount}
    if "price" in found:
        traded["price"] = _number("this_action.price", found["price"])
    if "trading_costs" in found:
        traded["costs"] = _costs(found["trading_costs"])
    return traded


def _costs(value: object) -> dict[str, float]:
    costs = _object("this_action.trading_costs", value)
    for name, cost in costs.items():
        if _number(f"this_action.trading_costs.{name}", cost) < 0:
            raise _bad(f"this_action.trading_costs.{name}", cost, "is negative")
    parts = [cost for name, cost in costs.items() if name != "total_cost"]
    total = costs.get("total_cost", 0.0)
    if parts and "total_cost" in costs and abs(total - sum(parts)) > 0.005 * (len(costs) + 1):
        # each part and the total may be rounded to the cent on its own
        raise _bad(
            "this_action.trading_costs.total_cost", total, f"is not the sum of its parts, {sum(parts)}"
        )
    return costs


def _json(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadFile):
            raise
        reason = " ".join(str(error).split())
        raise BadFile(
            f"no JSON: {reason}", field="json", found=line[-_SHOWN:].decode("utf-8", "replace")
        ) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad(twice, names.count(twice), "is there more than once")
    for name in document:
        _text("a key", name)
    return document


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(field, value, "is no JSON object")
    return value


def _keys(field: str, found: dict[str, Any], *, required: frozenset[str], allowed: frozenset[str]) -> None:
    missing, unknown = sorted(required - found.keys()), sorted(found.keys() - allowed)
    if missing or unknown:
        said = [f"misses {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(unknown)}"] * bool(
            unknown
        )
        raise _bad(field, sorted(found), f"{' and '.join(said)}; valid keys: {', '.join(sorted(allowed))}")


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise _bad(field, value, "is no printable text")
    return value


def _whole(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _EXACT:
        raise _bad(field, value, "is no whole number")
    return value


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _bad(field, value, "is no number")
    if not abs(value) < math.inf:
        raise _bad(field, value, "is not finite")
    if isinstance(value, int) and abs(value) > _EXACT:
        raise _bad(field, value, "is too large to be exact")
    return value


def _bad(field: str, value: object, reason: str) -> BadFile:
    found = repr(value)
    found = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
    return BadFile(f"{field} {reason}; found {found}", field=field, found=found)
