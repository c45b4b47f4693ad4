"""AI-Trader's ledger file, ``position.jsonl``: read strictly, written back byte for byte, made from fills.

Each line is one JSON object: an action and the state of the account after it. Cash is an unrounded double.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from quantgraph._util.values import is_number, is_whole
from quantgraph.broker import Fill, Market, Order
from quantgraph.broker.ledger import Ledger, Opening, import_fills, imported_sessions
from quantgraph.errors import BadFile, BadOption, NoData, UnknownSymbol
from quantgraph.market.money import ZERO, Side, money, notional, to_decimal

Action = Literal["buy", "sell", "no_trade", "dividend", "split", "delisting"]
"""What a record says was done. AI-Trader knows the first three; the others are corporate actions."""

_CASH = "CASH"
_REQUIRED = frozenset({"date", "id", "positions"})
_ACTION_REQUIRED = frozenset({"action", "symbol", "amount"})
_ACTION_OPTIONAL: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("buy", "sell", "no_trade"), frozenset({"price", "trading_costs"})),
    **dict.fromkeys(("dividend", "delisting"), frozenset({"cash"})),
    "split": frozenset({"cash", "ratio"}),
}
_SHOWN = 60
_EXACT = 2**53
"""Whole numbers up to here are doubles without rounding."""


@dataclass(frozen=True, kw_only=True)
class PositionRecord:
    """The state of an account after an action."""

    date: str
    id: int
    action: Action | None = None
    symbol: str = ""
    amount: int = 0
    price: float | None = None
    costs: Mapping[str, float] | None = None
    received: float | None = None
    ratio: float | None = None
    positions: Mapping[str, int]
    cash: float

    @property
    def fees(self) -> float:
        """``total_cost`` if the costs have it, else their sum; 0 without costs."""
        costs = self.costs or {}
        return float(costs.get("total_cost", sum(costs.values())))


def scan_positions(path: str | Path) -> list[tuple[int, PositionRecord | BadFile]]:
    """Read each line that is not blank: its number from 1, and the record or the error."""
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}", file=str(path)) from error
    scanned = [(number, _parse(line)) for number, line in enumerate(lines, 1) if line.strip()]
    if all(isinstance(record, BadFile) for _, record in scanned):
        found = f"; line {scanned[0][0]}: {scanned[0][1]}" if scanned else ""
        raise BadFile(f"{path} has no record of a position.jsonl{found}", file=str(path))
    return scanned


def read_positions(path: str | Path) -> list[PositionRecord]:
    """Read all records; whether they follow from each other is not checked."""
    records = []
    for line, record in scan_positions(path):
        if isinstance(record, BadFile):
            raise BadFile(f"{path}, line {line}: {record}", file=str(path), line=line)
        records.append(record)
    return records


def write_positions(path: str | Path, records: Iterable[PositionRecord]) -> None:
    """Write the records, replacing the file at once or not at all.

    Records that were read and not changed give the bytes they came from.

    Raises
    ------
    BadFile
        If the file cannot be written.
    """
    target = Path(path)
    content = "".join(record_line(record) + "\n" for record in records)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content.encode("ascii"))
        part.replace(target)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", file=str(path)) from error


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
            **({} if record.ratio is None else {"ratio": record.ratio}),
            **({} if record.received is None else {"cash": record.received}),
        }
    document["positions"] = {**record.positions, _CASH: record.cash}
    return json.dumps(document, allow_nan=False)


def parse_record(line: bytes) -> PositionRecord:
    """Read one line."""
    document = _object("the line", _json(line))
    _check_keys("the line", document, required=_REQUIRED, optional=frozenset({"this_action"}))
    positions = _object("positions", document["positions"])
    if _CASH not in positions:
        raise _bad("positions", sorted(positions)[:3], "has no CASH")
    shares = {symbol: _whole(f"positions.{symbol}", n) for symbol, n in positions.items() if symbol != _CASH}
    date = _text("date", document["date"])
    if not is_date(date):
        raise _bad("date", date, "is not a date YYYY-MM-DD")
    return PositionRecord(
        date=date,
        id=_whole("id", document["id"]),
        positions=shares,
        cash=_number("positions.CASH", positions[_CASH]),
        **(_action(document["this_action"]) if "this_action" in document else {}),
    )


def is_date(text: str) -> bool:
    """Whether a text is a day, ``YYYY-MM-DD``."""
    try:
        return dt.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _parse(line: bytes) -> PositionRecord | BadFile:
    try:
        return parse_record(line)
    except BadFile as error:
        return error


def _action(value: object) -> dict[str, Any]:
    found = _object("this_action", value)
    kind = found.get("action")
    known = kind if isinstance(kind, str) and kind in get_args(Action) else "buy"
    _check_keys("this_action", found, required=_ACTION_REQUIRED, optional=_ACTION_OPTIONAL[known])
    if kind != known:
        raise _bad("this_action.action", kind, f"is not one of {', '.join(get_args(Action))}")
    symbol = _text("this_action.symbol", found["symbol"])
    amount = _whole("this_action.amount", found["amount"])
    if amount < 0:
        raise _bad("this_action.amount", amount, "is negative")
    if kind == "no_trade" and (symbol or amount):
        raise _bad("this_action", found, 'is no_trade with a symbol or an amount; they must be "" and 0')
    fields: dict[str, Any] = {"action": kind, "symbol": symbol, "amount": amount}
    if "price" in found:
        fields["price"] = _number("this_action.price", found["price"])
    if "trading_costs" in found:
        fields["costs"] = _costs("this_action.trading_costs", found["trading_costs"])
    for name, field in (("cash", "received"), ("ratio", "ratio")):
        if name in found:
            fields[field] = _not_negative(f"this_action.{name}", found[name])
    return fields


def _costs(field: str, value: object) -> dict[str, float]:
    costs = _object(field, value)
    for name, cost in costs.items():
        if _number(f"{field}.{name}", cost) < 0:
            raise _bad(f"{field}.{name}", cost, "is negative")
    parts = [cost for name, cost in costs.items() if name != "total_cost"]
    total = costs.get("total_cost", 0.0)
    if parts and "total_cost" in costs and abs(total - sum(parts)) > 0.005 * (len(costs) + 1):
        # each part and the total may be rounded to the cent on its own
        raise _bad(f"{field}.total_cost", total, f"is not the sum of its parts, {sum(parts)}")
    return costs


def _json(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadFile):
            raise
        reason, found = " ".join(str(error).split()), line[-_SHOWN:].decode("utf-8", "replace")
        raise BadFile(f"invalid JSON: {reason}", field="json", found=found) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _bad(repeated, names.count(repeated), "is there more than once")
    for name in document:
        _text("a key", name)
    return document


def _check_keys(
    field: str, found: dict[str, Any], *, required: frozenset[str], optional: frozenset[str]
) -> None:
    allowed = required | optional
    missing, unknown = sorted(required - found.keys()), sorted(found.keys() - allowed)
    if missing or unknown:
        problem = f"misses {', '.join(missing)}" if missing else f"has {', '.join(unknown)}"
        raise _bad(field, sorted(found), f"{problem}; valid keys: {', '.join(sorted(allowed))}")


def _object(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(field, value, "is not a JSON object")
    return value


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise _bad(field, value, "is not printable text")
    return value


def _whole(field: str, value: object) -> int:
    if not is_whole(value) or abs(value) > _EXACT:
        raise _bad(field, value, "is not a whole number")
    return value


def _number(field: str, value: object) -> float:
    if not is_number(value):
        raise _bad(field, value, "is not a number")
    if not abs(value) < math.inf:
        raise _bad(field, value, "is not finite")
    if isinstance(value, int) and abs(value) > _EXACT:
        raise _bad(field, value, "is too large to be exact")
    return value


def _not_negative(field: str, value: object) -> float:
    if _number(field, value) < 0:
        raise _bad(field, value, "is negative")
    return float(value)  # type: ignore[arg-type]  # a number, see above


def _bad(field: str, value: object, reason: str) -> BadFile:
    found = repr(value)
    found = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
    return BadFile(f"{field} {reason}; found {found}", field=field, found=found)


_CASH_DUST = 1e-6
"""Doubles that add up to zero may end this far below it."""
_HALF_CENT = 0.005


class PositionFill(NamedTuple):
    """A trade: session ``YYYY-MM-DD``, shares, price of a share, costs by kind."""

    date: str
    side: Side
    symbol: str
    amount: int
    price: float
    costs: Mapping[str, float] | None = None


class PositionEvent(NamedTuple):
    """What a corporate action did: session, kind, symbol; see :class:`.PositionRecord` for the rest."""

    date: str
    kind: Literal["dividend", "split", "delisting"]
    symbol: str
    amount: int
    cash: float
    ratio: float | None = None


def cash_after(cash: float, side: Side, price: float, amount: int, fees: float = 0.0) -> float:
    """Cash after a trade, in the order of operations of AI-Trader's tool, each rounded to a double.

    >>> cash_after(9000.0, "buy", 20.1, 3), cash_after(1000.0, "sell", 20.1, 3, 5.0)
    (8939.7, 1055.3)
    """
    return cash - (price * amount + fees) if side == "buy" else cash + (price * amount - fees)


def overdrawn(cash: float, trades: int) -> bool:
    """Whether cash is below zero by more than doubles, and half a cent a trade, explain.

    A ledger of exact cents rounds each amount, so a fold in doubles may end below its zero.
    """
    return cash < -(_CASH_DUST + _HALF_CENT * trades)


def fills_of(records: Iterable[PositionRecord], opens: pd.DataFrame) -> list[PositionFill]:
    """Trades of the records. Trades of 0 shares are left out: they changed nothing."""
    return [
        PositionFill(
            record.date, record.action, record.symbol, record.amount, _price(record, opens), record.costs
        )
        for record in records
        if record.action in ("buy", "sell") and record.amount
    ]


def opening_record(date: str, cash: float, symbols: Sequence[str]) -> PositionRecord:
    """Build the registration: cash alone."""
    return PositionRecord(date=date, id=0, positions=dict.fromkeys(symbols, 0), cash=float(cash))


def day_records(
    before: PositionRecord,
    day: str,
    trades: Sequence[PositionFill],
    events: Sequence[PositionEvent] = (),
    *,
    with_price: bool = True,
) -> list[PositionRecord]:
    """Build the records of a session from the one before it: corporate actions, then trades or ``no_trade``.

    There is no ``no_trade`` on the day of the registration.
    """
    records = [before]
    for event in events:
        records.append(_action_record(records[-1], event))
    for fill in trades:
        records.append(_trade_record(records[-1], fill, with_price=with_price))
    if not trades and (before.action is not None or day > before.date):
        records.append(_next(records[-1], date=day, action="no_trade"))
    return records[1:]


def import_positions(ledger: Ledger, run_id: str, market: Market, path: str | Path) -> None:
    """Enter a ``position.jsonl`` as a run: every session from its first trade to its last.

    Trades without a price were made at the session's open. The file's cash is an unrounded double and the
    ledger's is exact to the cent, so the two may differ by half a cent a trade.

    Raises
    ------
    BadFile
        If the file is not a ``position.jsonl``.
    NoData, LedgerConflict
        See :func:`~quantgraph.broker.ledger.import_fills`.
    """
    records = read_positions(path)
    import_fills(
        ledger, run_id, market, _ledger_fills(records, market), cash=money(to_decimal(records[0].cash))
    )


def open_with_positions(path: Path) -> Opening:
    """What opens the account of a run with a ``position.jsonl``: all sessions after its registration."""

    def enter(ledger: Ledger, run_id: str, market: Market) -> None:
        records = read_positions(path)
        sessions = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
        first, last = (pd.Timestamp(records[place].date) for place in (0, -1))
        days = sessions[(sessions > first) & (sessions <= last)]
        fills = _ledger_fills(records, market)
        ledger.commit_days(run_id, imported_sessions(ledger.account(run_id), run_id, market, fills, days))

    return enter


def _ledger_fills(records: Sequence[PositionRecord], market: Market) -> list[Fill]:
    opens = market.store.snapshot(market.data_ref)["ohlcv"]["open"]
    return [_ledger_fill(trade, number) for number, trade in enumerate(fills_of(records, opens), 1)]


def _ledger_fill(trade: PositionFill, sequence: int) -> Fill:
    price, costs = to_decimal(trade.price), trade.costs or {}
    total = costs.get("total_cost", sum(costs.values()))
    return Fill(
        order=Order(symbol=trade.symbol, side=trade.side, quantity=trade.amount, sequence=sequence),
        session=pd.Timestamp(trade.date).as_unit("us"),
        side=trade.side,
        price=price,
        quantity=trade.amount,
        notional=notional(price, trade.amount),
        commission=money(to_decimal(total)),
        stamp_duty=ZERO,
        transfer_fee=ZERO,
    )


def _price(record: PositionRecord, opens: pd.DataFrame) -> float:
    if record.price is not None:
        return record.price
    column = opens.get(record.symbol)
    price = math.nan if column is None else float(column.get(pd.Timestamp(record.date), math.nan))
    if math.isnan(price):
        raise NoData(f"record {record.id}: no open of {record.symbol} on {record.date}", symbol=record.symbol)
    return price


def _action_record(before: PositionRecord, event: PositionEvent) -> PositionRecord:
    """The record of a corporate action."""
    _check_listed(before, event.symbol)
    left = {"dividend": before.positions[event.symbol], "split": event.amount, "delisting": 0}
    return _next(
        before,
        date=event.date,
        action=event.kind,
        symbol=event.symbol,
        amount=event.amount,
        received=event.cash,
        ratio=event.ratio,
        positions={**before.positions, event.symbol: left[event.kind]},
        cash=before.cash + event.cash,
    )


def _check_listed(before: PositionRecord, symbol: str) -> None:
    if symbol not in before.positions:
        raise UnknownSymbol(f"{symbol} is not in the ledger's universe", symbols=(symbol,))


def _trade_record(before: PositionRecord, fill: PositionFill, *, with_price: bool) -> PositionRecord:
    _check_listed(before, fill.symbol)
    held = before.positions[fill.symbol] + (fill.amount if fill.side == "buy" else -fill.amount)
    record = _next(
        before,
        date=fill.date,
        action=fill.side,
        symbol=fill.symbol,
        amount=fill.amount,
        price=float(fill.price) if with_price else None,
        costs=None if fill.costs is None else {name: float(cost) for name, cost in fill.costs.items()},
        positions={**before.positions, fill.symbol: held},
    )
    cash = cash_after(before.cash, fill.side, float(fill.price), fill.amount, record.fees)
    if held < 0 or overdrawn(cash, record.id):
        raise BadOption(
            f"{fill.side} {fill.amount} {fill.symbol} on {fill.date} takes more than there is: "
            f"it would leave {held} shares and {cash:.2f} of cash",
            parameter="fills",
        )
    return replace(record, cash=cash)


def _next(before: PositionRecord, **changes: Any) -> PositionRecord:
    """The record after ``before``: its state, the next id, and an action of its own."""
    blank: dict[str, Any] = {
        "symbol": "",
        "amount": 0,
        "price": None,
        "costs": None,
        "received": None,
        "ratio": None,
    }
    return replace(before, id=before.id + 1, **{**blank, **changes})
