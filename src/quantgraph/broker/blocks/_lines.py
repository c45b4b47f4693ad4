"""A rulebook's terms as whole numbers, and journal lines written from tables of them.

Rates and bands are computed by the rulebook's own methods, for a large fill and a large close. An era is the
time between two days on which any of the dated rules changes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quantgraph.broker.blocks._kernel import RATE, SHARE, SIGNAL, TERM, Ints, Table, compiled
from quantgraph.broker.ledger._journal import fill_body, marks_body, plain_order
from quantgraph.errors import UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.market.money import ZERO, MainlandFees, money
from quantgraph.market.rules import load_rules

Kinds = tuple[Ints, tuple[str, ...]]
"""Each symbol's kind, -1 if the rulebook does not know it; and a symbol of each kind."""

_FILL = Decimal(10**12)
_CLOSE = Decimal(10**6)
_UNITS = 10**4
_MANY = 10**9


def exact_rates(rules: Rulebook) -> bool:
    """Whether the fees are of a known type, with rates that are multiples of ``1 / RATE``."""
    fees = rules.fees
    rate = fees.commission_rate if isinstance(fees, MainlandFees) else Decimal(0)
    known = fees is None or isinstance(fees, MainlandFees)
    return known and rate * RATE % 1 == 0 and rules.slippage_bps / 10_000 * RATE % 1 == 0


@lru_cache(maxsize=8)
def kinds_of(symbols: tuple[str, ...], rules: Rulebook) -> Kinds:
    """Group symbols into kinds with the same rules."""
    places: dict[tuple[str, ...], int] = {}
    examples: list[str] = []
    kinds = np.full(len(symbols), -1, np.int64)
    for column, symbol in enumerate(symbols):
        try:
            key = rules.kind(symbol)
        except UnknownSymbol:
            continue
        if key not in places:
            places[key] = len(examples)
            examples.append(symbol)
        kinds[column] = places[key]
    return kinds, tuple(examples)


def terms_of(
    rules: Rulebook, examples: Sequence[str], sessions: NDArray[np.datetime64]
) -> tuple[Ints, Table]:
    """Each session's era, counted from 0, and TERM by era and kind."""
    eras = np.searchsorted(np.array(_changes(), "datetime64[D]"), sessions, side="right").astype(np.int64)
    first, last = int(eras[0]), int(eras[-1])
    terms = np.zeros((last - first + 1, max(1, len(examples))), TERM)
    for era in sorted({*eras.tolist()}):
        for kind, symbol in enumerate(examples):
            terms[era - first, kind] = _term(rules, symbol, era)
    return eras - first, terms


@cache
def _changes() -> list[dt.date]:
    return sorted({*_since(load_rules("cn"))})


def _since(table: Any) -> Iterator[dt.date]:
    if isinstance(table, dict):
        if "since" in table:
            yield table["since"]
        table = list(table.values())
    if isinstance(table, list):
        for part in table:
            yield from _since(part)


@lru_cache(maxsize=1024)
def _term(rules: Rulebook, symbol: str, era: int) -> tuple[int, ...]:
    day = _changes()[era - 1] if era else dt.date.min
    lots, cap = rules.lots(symbol, day), rules.order_cap(symbol, day, "open")
    costs, least = (rules.charges(symbol, "sell", 1, amount, day) for amount in (_FILL, ZERO))
    bought = rules.charges(symbol, "buy", _MANY, _FILL, day)
    t_plus, tick = rules.t_plus(symbol, day), rules.tick(symbol, day, _CLOSE)
    # Until 2008 buyers paid stamp duty, until 2015 the transfer fee was by shares.
    early = bought.stamp_duty or least.transfer_fee or costs.transfer_fee != bought.transfer_fee
    if cap is None or cap % lots.step or cap < lots.first or early:
        return (0,) * len(TERM.names or ())
    rate = rules.fees.commission_rate if isinstance(rules.fees, MainlandFees) else Decimal(0)
    rates = [rate, *(part / _FILL for part in (costs.stamp_duty, costs.transfer_fee, costs.slippage))]
    return (
        1,
        int(lots.first),
        int(lots.step),
        cap,
        t_plus,
        int(least.commission * 100),
        *(int(part * RATE) for part in rates),
        *_band(rules, symbol, day, tick),
    )


def _band(rules: Rulebook, symbol: str, day: dt.date, tick: Decimal) -> tuple[int, int, int, int, int]:
    """The band fields of TERM for a symbol without a special status."""
    units = int(money(tick * _UNITS))
    band, smallest = rules.limits(symbol, day, _CLOSE), rules.limits(symbol, day, tick)
    if band is None or smallest is None:
        return 0, 0, 0, units, 0
    up, down = (int(limit / _CLOSE * SHARE) for limit in band)
    # Ten percent of one tick round to 0, unless limits are at least one tick away.
    return 1, up, down, units, int(smallest[0] > tick)


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
    return Names(*_join([symbol.encode() for symbol in symbols]))


def fill_texts(orders: Table, names: Names) -> list[str]:
    """The body of each fill of the signal, an empty text for another order."""
    templates = _fill_templates()
    plain = orders["filled"] * (orders["kind"] == SIGNAL)
    cells = np.stack([plain, orders["sells"], *(orders[name] for name in _BLANKS)], axis=1)
    texts = _room(len(orders), len(templates.text) + len(_BLANKS) * _NUMBER + _longest(names))
    _write_fill_lines(cells, templates, names, texts)
    return _cut(texts)


def mark_texts(marks: Table, day_ends: Ints, names: Names) -> list[str]:
    """The body of each day's marks, which are from ``day_ends[t]`` to ``day_ends[t + 1]``."""
    frame = Names(*_join([part.encode() for part in re.split(r"(?<=[{[])(?=[}\]])", marks_body({}, []))]))
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
    text, ends = _join(pieces)
    return _FillTemplates(
        text=text,
        ends=ends,
        blanks=np.array(blanks, np.int64).reshape(len(REASONS), -1),
        kinds=np.array(list(_BLANKS.values()), np.int64),
    )


def _join(parts: Sequence[bytes]) -> tuple[Bytes, Ints]:
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
                at = _name(marks[place].column, text[at - 1] != _BRACKET, names.text, names.ends, text, at)
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
