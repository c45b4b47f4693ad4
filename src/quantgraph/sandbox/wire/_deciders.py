"""Accounts, decisions and growing views as messages: decimals are text, so that they stay exact."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker import Account, Decision, ExitRule, Order
from quantgraph.broker.accounts import Position, Quantity, Receivable
from quantgraph.errors import BadFrame, BadOption, CodeFailed
from quantgraph.market import Moment, session_of
from quantgraph.market.actions import CorporateAction
from quantgraph.sandbox.wire._wire import Block, Frames, array_bytes, require_type, with_token
from quantgraph.state import PANELS, GrowingBuffer, Record, View, private_mapping
from quantgraph.state.frames import FrozenFrame, KnownData, KnownRecords, is_plain

Value = TypeVar("Value", Position, Receivable, CorporateAction)
Part = TypeVar("Part", Order, ExitRule)

_DATES = frozenset({"entered", "ex", "declared", "record", "pay"})
_MOST_ORDERS = 10_000
_MOST_REASON = 2_000
_MOST_SEQUENCE = 1 << 31
_NUMBER = re.compile(r"-?[0-9]{1,200}(\.[0-9]{1,200})?(E[+-][0-9]{1,2})?")
_DIGITS = 15
"""Limit of digits before the decimal point, beyond any real amount or number of shares."""


def date_text(session: pd.Timestamp) -> str:
    """Return a date as ISO text."""
    return session.date().isoformat()


@lru_cache(maxsize=10_000)
def parse_session(text: str) -> pd.Timestamp:
    """Read the text of :func:`date_text`."""
    return session_of(text)


def value_to_json(value: Position | Receivable | CorporateAction | Order) -> dict[str, Any]:
    """Return the fields of a dataclass that are not None."""
    named = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _to_json(part) for name, part in named.items() if part is not None}


def _to_json(part: object) -> object:
    if isinstance(part, pd.Timestamp):
        return date_text(part)
    return str(part) if isinstance(part, Decimal) else part


def value_from_json(kind: type[Value], named: dict[str, Any]) -> Value:
    """Read what :func:`value_to_json` made of a position, receivable or corporate action."""
    parts = {name: _from_json(name, part) for name, part in named.items()}
    return kind(**parts)


def _from_json(name: str, part: Any) -> Any:
    if name in _DATES:
        return parse_session(part)
    return Decimal(part) if isinstance(part, str) and name != "symbol" else part


def account_to_json(account: Account) -> dict[str, Any]:
    """Return an account as JSON."""
    return {
        "cash": str(account.cash),
        "positions": {symbol: value_to_json(position) for symbol, position in account.positions.items()},
        "receivables": [value_to_json(receivable) for receivable in account.receivables],
    }


def account_from_json(account: dict[str, Any]) -> Account:
    """Read what :func:`account_to_json` made."""
    positions = account["positions"].items()
    return Account(
        cash=Decimal(account["cash"]),
        positions={symbol: value_from_json(Position, position) for symbol, position in positions},
        receivables=tuple(value_from_json(Receivable, item) for item in account["receivables"]),
    )


def host_account(state: Mapping[str, Any], *, cash: float) -> Account:
    """Read the ``account`` of a host's state, as :func:`account_to_json` writes it; else open one.

    Parameters
    ----------
    cash
        What it is opened with, where the state has no ``cash``.

    Raises
    ------
    BadOption
        If it is not an account.
    """
    if "account" not in state:
        return Account.opening(state.get("cash", cash))
    account = state["account"]
    try:
        return account_from_json(account)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadOption(
            f"account={account!r:.80} is not an account ({type(error).__name__}: {error}); write it "
            "with account_to_json(account)",
            parameter="account",
        ) from error


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON."""
    orders = [value_to_json(order) for order in decision.orders]
    exits = [rule.to_json() for rule in decision.exits]
    return {"orders": orders, "notes": decision.notes, "in_order": decision.in_order, "exits": exits}


def decision_from_json(reply: dict[str, Any]) -> Decision:
    """Read what :func:`decision_to_json` made, or what untrusted code sent in its place.

    Notes are plain JSON by their way here; the caller checks their length.

    Raises
    ------
    CodeFailed
        At the first invalid order or exit rule; names its place in the list, from 1.
    """
    notes = reply.get("notes", {})
    if type(notes) is not dict:
        raise CodeFailed(f"notes must be a dict, not {type(notes).__name__}")
    return Decision(
        _read_list(reply.get("orders"), "order", _read_order),
        notes=notes,
        in_order=reply.get("in_order") is True,
        exits=_read_list(reply.get("exits", []), "exit rule", _read_exit),
    )


def _read_list(listed: object, what: str, read: Callable[[dict[str, Any]], Part]) -> list[Part]:
    if type(listed) is not list:
        raise CodeFailed(f"{what}s must be a list, not {type(listed).__name__}")
    if len(listed) > _MOST_ORDERS:
        raise CodeFailed(f"{len(listed)} {what}s for one session; at most {_MOST_ORDERS} are allowed")
    found = []
    for place, part in enumerate(listed, 1):
        try:
            found.append(read(require_type(part, dict)))
        except (TypeError, ValueError, BadOption) as error:
            raise CodeFailed(f"{what} {place}: {error}", order=place) from error
    return found


def _read_order(named: dict[str, Any]) -> Order:
    unknown = sorted(named.keys() - _READERS.keys())
    if unknown:
        raise ValueError(f"an order has no field {unknown[0]!r:.60}")
    return Order(**{name: _read_field(name, value) for name, value in named.items()})


def _read_exit(named: dict[str, Any]) -> ExitRule:
    if len(str(named)) > _MOST_REASON:
        raise ValueError(f"{named!r:.60} is too long")
    return ExitRule.of(named)


def _read_field(name: str, value: object) -> Any:
    try:
        return _READERS[name](value)
    except ValueError as error:
        raise ValueError(f"{name}={value!r:.60}; {error}") from None


def _read_quantity(value: object) -> Quantity:
    if type(value) is not int:
        return _read_decimal(value)
    if abs(value) >= 10**_DIGITS:
        raise ValueError(f"must have at most {_DIGITS} digits")
    return value


def _read_decimal(value: object) -> Decimal:
    if type(value) is not str or not _NUMBER.fullmatch(value):
        raise ValueError("must be a whole number of shares, or a decimal number as text")
    number = Decimal(value)
    if number.adjusted() >= _DIGITS:
        raise ValueError(f"must have at most {_DIGITS} digits before the point")
    return number


def _read_sequence(value: object) -> int:
    if type(value) is not int or not 0 < value < _MOST_SEQUENCE:
        raise ValueError(f"must be a whole number from 1 to {_MOST_SEQUENCE - 1}")
    return value


def _read_word(value: object) -> str:
    if not is_plain(value):
        raise ValueError("must be a short word without control characters or quotes")
    return value


def _read_reason(value: object) -> str:
    if type(value) is not str or len(value) > _MOST_REASON or not value.replace("\n", " ").isprintable():
        raise ValueError(f"must be printable text of at most {_MOST_REASON} characters")
    return value


def _read_no_trigger(value: object) -> str:
    if value != "":
        raise ValueError("must be empty: what a plan reached is the broker's to say")
    return ""


_READERS: dict[str, Callable[[object], Any]] = {
    **{field.name: _read_word for field in fields(Order)},
    "quantity": _read_quantity,
    "target_quantity": _read_quantity,
    "target_weight": _read_decimal,
    "target_value": _read_decimal,
    "limit_price": _read_decimal,
    "stop_price": _read_decimal,
    "sequence": _read_sequence,
    "reason": _read_reason,
    "trigger": _read_no_trigger,
}


class FramesSender:
    """The host's end: sends the rows of frames that were not sent before."""

    def __init__(self) -> None:
        self._table: list[tuple[str, str, tuple[str, ...]]] = []
        self._sent: list[int] = []

    def send(self, frames: Frames) -> tuple[dict[str, Any], list[Block]]:
        """Return header and blocks that bring a child to ``frames``, which begin with the rows sent before.

        If fields or symbols differ from those before, all rows are sent again.
        """
        listed = [(panel, name, frame) for panel, fields in frames.items() for name, frame in fields.items()]
        table = [(panel, name, frame.symbols) for panel, name, frame in listed]
        header: dict[str, Any] = {}
        if table != self._table:
            self._table, self._sent = table, [0] * len(table)
            axes = {symbols: number for number, symbols in enumerate(dict.fromkeys(row[2] for row in table))}
            header["symbols"] = list(axes)
            header["fields"] = [(panel, name, axes[symbols]) for panel, name, symbols in table]
        blocks: list[Block] = []
        for (_, _, frame), first in zip(listed, self._sent, strict=True):
            blocks += [array_bytes(frame.sessions[first:].view("<i8")), array_bytes(frame.values[first:])]
        rows = [len(frame.sessions) for _, _, frame in listed]
        header["rows"] = [last - first for first, last in zip(self._sent, rows, strict=True)]
        self._sent = rows
        return header, [block for block in blocks if len(block)]


class FramesReceiver:
    """The child's end: the frames as far as they were sent."""

    def __init__(self) -> None:
        self._symbols: list[tuple[str, ...]] = []
        self._fields: list[tuple[str, str, int]] = []
        self._buffer = GrowingBuffer[tuple[str, int]]({}, memory=private_mapping)
        self._step = 0

    def receive(self, header: dict[str, Any], body: bytes | bytearray) -> dict[str, dict[str, FrozenFrame]]:
        """Append the rows of a message, and return all frames."""
        if "fields" in header:
            self._symbols = [tuple(symbols) for symbols in header["symbols"]]
            self._fields = [tuple(entry) for entry in header["fields"]]
            self._buffer = GrowingBuffer(self._shapes(), memory=private_mapping, growth=2)
        self._step += 1
        self._buffer.append(self._rows(header["rows"], body))
        arrays = self._buffer.arrays()
        frames: dict[str, dict[str, FrozenFrame]] = {}
        for place, (panel, name, axis) in enumerate(self._fields):
            days, values = (_alone(arrays[part, place]) for part in ("sessions", "values"))
            frame = FrozenFrame(days, self._symbols[axis], values)
            frames.setdefault(panel, {})[name] = with_token(frame, f"{self._step}-{place}")
        return frames

    def _shapes(self) -> dict[tuple[str, int], tuple[np.dtype[Any], int | None]]:
        shapes: dict[tuple[str, int], tuple[np.dtype[Any], int | None]] = {}
        for place, (_, _, axis) in enumerate(self._fields):
            shapes["sessions", place] = np.dtype("<M8[us]"), None
            shapes["values", place] = np.dtype("<f8"), len(self._symbols[axis])
        return shapes

    def _rows(self, counts: list[int], body: bytes | bytearray) -> dict[tuple[str, int], NDArray[Any]]:
        rows: dict[tuple[str, int], NDArray[Any]] = {}
        start = 0
        for (part, place), (dtype, width) in self._shapes().items():
            shape = (counts[place],) if width is None else (counts[place], width)
            block = np.frombuffer(body, dtype, math.prod(shape), start).reshape(shape)
            start += block.nbytes
            rows[part, place] = block
        return rows


def _alone(array: NDArray[Any]) -> NDArray[Any]:
    """The array over a memoryview of it alone: the last base of a frame ends with its last row."""
    rows = array.view("<i8").data if array.size else b""
    return np.frombuffer(rows, array.dtype, array.size).reshape(array.shape)


class ViewSender:
    """The host's end: sends what a view has and those before it did not have."""

    def __init__(self) -> None:
        self._frames = FramesSender()
        self._actions: set[CorporateAction] = set()
        self._records = 0

    def send(self, view: View) -> tuple[dict[str, Any], list[Block]]:
        """Return header and blocks that bring a child to ``view``, which has all that those before had."""
        header, blocks = self._frames.send(view.frozen())
        records = view.all_records()
        header["moment"] = [date_text(view.moment.session), view.moment.phase]
        header["actions"] = self._new_actions(view)
        header["records"] = [record.line for record in records[self._records :]]
        self._records = len(records)
        return header, blocks

    def _new_actions(self, view: View) -> list[dict[str, Any]] | None:
        try:
            known = view.actions()
        except BadFrame:
            return None
        if len(known) <= len(self._actions):
            return []
        new = [action for action in known if action not in self._actions]
        self._actions.update(new)
        return [value_to_json(action) for action in new]


class ViewReceiver:
    """The child's end: the view as far as it was sent.

    Its ``data_ref`` is empty. A commit's name is made from the whole commit, so code that has the name could
    test guesses about what is to come.
    """

    def __init__(self) -> None:
        self._frames = FramesReceiver()
        self._actions: list[CorporateAction] = []
        self._records = KnownRecords()

    def receive(self, header: dict[str, Any], body: bytes | bytearray) -> View:
        """Append what a message has, and return the view of its moment."""
        frames = self._frames.receive(header, body)
        session, phase = header["moment"]
        if header["actions"]:
            self._actions += [value_from_json(CorporateAction, action) for action in header["actions"]]
            self._actions.sort(key=lambda action: (action.ex, action.symbol))
        self._records = self._records.plus(map(Record.read, header["records"]))
        return View(
            "",
            Moment(parse_session(session), phase),
            KnownData(
                panels={panel: frames.get(panel, {}) for panel in PANELS},
                actions=None if header["actions"] is None else tuple(self._actions),
                records=self._records.plus(()),
            ),
        )
