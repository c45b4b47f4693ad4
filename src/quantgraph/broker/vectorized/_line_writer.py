"""Journal lines written from tables, equal to those of :mod:`~quantgraph.broker.ledger.journal`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantgraph.broker.ledger.journal import fill_body, marks_body, plain_order
from quantgraph.broker.vectorized._arrays import Ints, Table, compiled
from quantgraph.market.money import ZERO

Bytes = NDArray[np.uint8]

REASONS = {"buy": "signal 1", "sell": "signal -1"}
"""Reasons of the orders of :class:`~quantgraph.agents.SignalRule`."""

_AS_NAME, _AS_NUMBER, _AS_PRICE, _AS_CENTS = range(4)
_BLANKS = {
    "column": _AS_NAME,
    "sequence": _AS_NUMBER,
    "quantity": _AS_NUMBER,
    "price": _AS_PRICE,
    "notional": _AS_CENTS,
    "commission": _AS_CENTS,
    "duty": _AS_CENTS,
    "transfer": _AS_CENTS,
    "slippage": _AS_CENTS,
    "t_plus": _AS_NUMBER,
}
"""Values of a fill, and how each is written."""
_COMMA, _QUOTE, _POINT, _COLON, _BRACKET = b',".:['
_ZERO = 48
_NUMBER = 20
"""Digits of the largest number."""


class Names(NamedTuple):
    """Concatenated symbols in UTF-8, and their ends, beginning with a 0."""

    text: Bytes
    ends: Ints


class _FillTemplates(NamedTuple):
    """Templates of a buy and of a sale: pieces of text, each but the last followed by a value."""

    text: Bytes
    ends: Ints
    blanks: Ints
    kinds: Ints


class _Texts(NamedTuple):
    """Concatenated texts, and their ends, beginning with a 0."""

    text: Bytes
    ends: Ints


def names_of(symbols: Iterable[str]) -> Names:
    """Symbols as arrays."""
    return Names(*_joined([symbol.encode() for symbol in symbols]))


def fill_texts(orders: Table, first: Ints, names: Names) -> list[str]:
    """The body of each fill, an empty text for an order that was not filled.

    Parameters
    ----------
    orders
        ORDER, in the order of submission.
    first
        Place of the first order of each order's session.
    """
    templates = _fill_templates()
    values = {name: orders[name] for name in _BLANKS if name != "sequence"}
    values["sequence"] = np.arange(len(orders)) - first + 1
    cells = np.stack([orders["filled"], orders["sells"], *(values[name] for name in _BLANKS)], axis=1)
    texts = _room(len(orders), len(templates.text) + len(_BLANKS) * _NUMBER + _longest(names))
    _write_fill_lines(cells, templates, names, texts)
    return _cut(texts)


def mark_texts(marks: Table, day_ends: Ints, names: Names) -> list[str]:
    """The body of each day's marks, which are from ``day_ends[t]`` to ``day_ends[t + 1]``."""
    frame = Names(*_joined([part.encode() for part in re.split(r"(?<=[{[])(?=[}\]])", marks_body({}, []))]))
    most = int(np.diff(day_ends).max(initial=0))
    texts = _room(len(day_ends) - 1, len(frame.text) + most * (2 * _longest(names) + _NUMBER + 10))
    _write_marks(marks, day_ends, frame, names, texts)
    return _cut(texts)


@cache
def _fill_templates() -> _FillTemplates:
    pieces: list[bytes] = []
    blanks: list[int] = []
    mark: dict[str, Any] = {name: chr(0xE000 + place) for place, name in enumerate(_BLANKS)}
    for side, reason in REASONS.items():
        order = plain_order(mark["sequence"], mark["column"], side, mark["quantity"], reason)
        charges = [mark["commission"], mark["duty"], mark["transfer"], ZERO, mark["slippage"]]
        body = fill_body(
            order, side, mark["quantity"], mark["price"], mark["notional"], charges, mark["t_plus"]
        )
        parts = re.split("([\ue000-\uf8ff])", body)
        pieces += [part.encode() for part in parts[::2]]
        blanks += [ord(part) - 0xE000 for part in parts[1::2]]
    text, ends = _joined(pieces)
    return _FillTemplates(
        text=text,
        ends=ends,
        blanks=np.array(blanks, np.int64).reshape(len(REASONS), -1),
        kinds=np.array(list(_BLANKS.values()), np.int64),
    )


def _joined(parts: Sequence[bytes]) -> tuple[Bytes, Ints]:
    return np.frombuffer(b"".join(parts), np.uint8), np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _room(count: int, longest: int) -> _Texts:
    return _Texts(text=np.empty(count * longest, np.uint8), ends=np.zeros(count + 1, np.int64))


def _longest(names: Names) -> int:
    return int(np.diff(names.ends).max(initial=0))


def _cut(texts: _Texts) -> list[str]:
    whole = texts.text[: texts.ends[-1]].tobytes()
    return [whole[begin:end].decode() for begin, end in pairwise(texts.ends.tolist())]


@compiled
def _write_fill_lines(cells: Ints, templates: _FillTemplates, names: Names, texts: _Texts) -> None:
    """Columns of ``cells``: whether it was filled, whether it sells, and the values."""
    text, at, count = texts.text, 0, templates.blanks.shape[1]
    pieces, ends, blanks, kinds = templates.text, templates.ends, templates.blanks, templates.kinds
    for place in range(len(cells)):
        if cells[place, 0]:
            sells = cells[place, 1]
            for part in range(count + 1):
                piece = sells * (count + 1) + part
                at = _copy(pieces, ends[piece], ends[piece + 1], text, at)
                if part < count:
                    blank = blanks[sells, part]
                    value = cells[place, 2 + blank]
                    if kinds[blank] == _AS_NAME:
                        at = _copy(names.text, names.ends[value], names.ends[value + 1], text, at)
                    elif kinds[blank] == _AS_NUMBER:
                        at = _whole(value, text, at)
                    elif kinds[blank] == _AS_PRICE:
                        at = _price(value, False, text, at)
                    else:
                        at = _cents(value, text, at)
        texts.ends[place + 1] = at


@compiled
def _write_marks(marks: Table, day_ends: Ints, frame: Names, names: Names, texts: _Texts) -> None:
    text, at = texts.text, 0
    for day in range(len(day_ends) - 1):
        at, carried = _copy(frame.text, frame.ends[0], frame.ends[1], text, at), 0
        for place in range(day_ends[day], day_ends[day + 1]):
            mark = marks[place]
            at = _name(mark.column, place > day_ends[day], names.text, names.ends, text, at)
            text[at] = _COLON
            at = _price(mark.price, True, text, at + 1)
            carried += mark.carried
        at = _copy(frame.text, frame.ends[1], frame.ends[2], text, at)
        for place in range(day_ends[day], day_ends[day + 1]) if carried else range(0):
            if marks[place].carried:
                follows = text[at - 1] != _BRACKET
                at = _name(marks[place].column, follows, names.text, names.ends, text, at)
        at = _copy(frame.text, frame.ends[2], frame.ends[3], text, at)
        texts.ends[day + 1] = at


@compiled
def _name(  # noqa: PLR0917 - compiled code takes arguments by place
    column: int, follows: bool, names: Bytes, ends: Ints, text: Bytes, at: int
) -> int:
    """A symbol in quotes, after a comma where one precedes it."""
    if follows:
        text[at] = _COMMA
        at += 1
    text[at] = _QUOTE
    at = _copy(names, ends[column], ends[column + 1], text, at + 1)
    text[at] = _QUOTE
    return at + 1


@compiled
def _copy(source: Bytes, begin: int, end: int, text: Bytes, at: int) -> int:
    for place in range(begin, end):
        text[at + place - begin] = source[place]
    return at + end - begin


@compiled
def _whole(number: int, text: Bytes, at: int) -> int:
    digits, rest = 1, number // 10
    while rest > 0:
        digits, rest = digits + 1, rest // 10
    for place in range(at + digits - 1, at - 1, -1):
        text[place], number = _ZERO + number % 10, number // 10
    return at + digits


@compiled
def _cents(amount: int, text: Bytes, at: int) -> int:
    at = _whole(amount // 100, text, at)
    text[at], text[at + 1], text[at + 2] = _POINT, _ZERO + amount // 10 % 10, _ZERO + amount % 10
    return at + 3


@compiled
def _price(price: int, point: bool, text: Bytes, at: int) -> int:
    """A price in 1e-4 without trailing zeros; ``point``: a whole one ends with ``.0``."""
    at, rest = _whole(price // 10_000, text, at), price % 10_000
    if rest == 0 and not point:
        return at
    text[at] = _POINT
    at += 1
    scale = 1000
    while True:
        text[at] = _ZERO + rest // scale % 10
        at += 1
        if rest % scale == 0:
            return at
        scale //= 10
