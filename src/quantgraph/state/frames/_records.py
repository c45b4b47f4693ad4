"""Records: dated data that is not numbers, such as names, index members, filings and news."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BadOption
from quantgraph.market import Moment, instant_of
from quantgraph.state.frames._frames import PLAIN_RULE, Dates, is_plain

RecordKind = Literal["name", "membership", "suspension", "filing", "news", "memory", "action"]
RECORD_KINDS: tuple[RecordKind, ...] = get_args(RecordKind)

_Group = tuple[RecordKind, str | None]
"""Kind and symbol; None for all symbols."""

_NEVER = datetime(1, 1, 1)  # noqa: DTZ001 - local, as all instants here
_OVERHEAD = 512
"""Bytes of a record beside its text, about."""


@dataclass(frozen=True, init=False, repr=False)
class Record:
    """A dated statement, and when it became known.

    Parameters
    ----------
    kind
        One of :data:`RECORD_KINDS`.
    known
        When it became known: a naive ``datetime`` in the exchange's local time, or a ``date``, which counts
        from the end of that day. None is not known at any moment.
    symbol
        The symbol it is about, or ``""``.
    body
        JSON. Of a name ``{"name": ...}``, of a membership ``{"index": ..., "symbols": [...]}``, of a
        dividend or split, kind ``action``, ``{"ex": day, "cash": text, "ratio": text}``.

    Raises
    ------
    BadOption
        If one of them is something else, or ``known`` has a time zone.
    """

    kind: RecordKind
    known: date | None
    symbol: str
    _body: str

    def __init__(self, kind: RecordKind, known: date | None, symbol: str = "", body: object = None) -> None:
        check_record_kind(kind)
        if not isinstance(symbol, str) or (symbol and not is_plain(symbol)):
            raise BadOption(
                f"symbol={symbol!r:.60} of a record; valid are '' and {PLAIN_RULE}", parameter="symbol"
            )
        if known is not None and (isinstance(known, datetime) or not isinstance(known, date)):
            known = instant_of(known)
        text = _json_text(body)
        _check_shape(kind, symbol, body)
        for name, value in (("kind", kind), ("known", known), ("symbol", symbol), ("_body", text)):
            object.__setattr__(self, name, value)

    @property
    def body(self) -> Any:
        """A copy for every caller."""
        return json.loads(self._body)

    @property
    def instant(self) -> datetime | None:
        """The instant from which it is known, see :func:`.instant_of`; None for never."""
        return None if self.known is None else instant_of(self.known)

    @cached_property
    def digest(self) -> str:
        """Content name: 32 hex digits."""
        return content_hash(self.line)

    @property
    def line(self) -> str:
        """The record as one line of JSON, for :meth:`read`."""
        known = None if self.known is None else self.known.isoformat()
        return canonical_json([self.kind, known, self.symbol, self._body])

    @classmethod
    def read(cls, line: str) -> Record:
        """Read a :attr:`line`."""
        kind, when, symbol, body = json.loads(line)
        known = None
        if when is not None:
            known = datetime.fromisoformat(when) if "T" in when else date.fromisoformat(when)
        return cls(kind, known, symbol, json.loads(body))

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return sys.getsizeof(self._body) + _OVERHEAD

    def __repr__(self) -> str:
        return f"Record({self.kind} {self.symbol or '-'}, known {self.known or 'never'}: {self._body:.60})"


class KnownRecords:
    """Records that are known at a moment, found by kind and symbol. Nothing in it leads to a later one.

    Attributes
    ----------
    entries
        All of them, in order of becoming known.
    """

    __slots__ = ("_groups", "entries")

    def __init__(self, entries: Iterable[Record] = ()) -> None:
        self.entries: tuple[Record, ...] = tuple(entries)
        self._groups: dict[_Group, tuple[Record, ...]] | None = None

    def __repr__(self) -> str:
        return f"KnownRecords({len(self.entries)})"

    def of(self, kind: RecordKind, symbol: str | None = None) -> tuple[Record, ...]:
        """The records of a kind, and of a symbol unless None, in their order.

        Raises
        ------
        BadOption
            If there is no such kind.
        """
        check_record_kind(kind)
        return self._group().get((kind, symbol), ())

    def plus(self, fresh: Iterable[Record]) -> KnownRecords:
        """These and some that became known after them, at the cost of the symbols that these are about."""
        added = KnownRecords(fresh)
        more = KnownRecords(self.entries + added.entries)
        more._groups = groups = dict(self._group())
        for group, records in added._group().items():
            groups[group] = groups.get(group, ()) + records
        return more

    def _group(self) -> dict[_Group, tuple[Record, ...]]:
        if self._groups is None:
            lists: defaultdict[_Group, list[Record]] = defaultdict(list)
            for record in self.entries:
                lists[record.kind, None].append(record)
                lists[record.kind, record.symbol].append(record)
            self._groups = {group: tuple(records) for group, records in lists.items()}
        return self._groups


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of a commit.

    Attributes
    ----------
    entries
        In order of becoming known, each once; those that never become known are last.
    """

    entries: tuple[Record, ...]

    def __repr__(self) -> str:
        return f"Records({len(self.entries)})"

    @classmethod
    def of(cls, entries: Iterable[Record]) -> Records:
        """Sort records and drop equal ones."""
        return cls(tuple(sorted(set(entries), key=_order)))

    @cached_property
    def digest(self) -> str:
        """Content name: 32 hex digits."""
        return content_hash(*(entry.digest for entry in self.entries))

    @cached_property
    def all(self) -> KnownRecords:
        """All of them, known or not: for readers of the whole commit."""
        return KnownRecords(self.entries)

    @cached_property
    def _instants(self) -> Dates:
        instants = [entry.instant for entry in self.entries if entry.instant is not None]
        return np.array(instants, dtype="datetime64[us]")

    @property
    def nbytes(self) -> int:
        """Bytes of the list alone, without the records."""
        return sys.getsizeof(self.entries)

    def as_of(self, moment: Moment, first: int = 0) -> tuple[Record, ...]:
        """The records published before a moment, from the place ``first`` on."""
        return self.entries[first : int(np.searchsorted(self._instants, moment.timestamp.to_datetime64()))]


NO_RECORDS = Records(())


def check_record_kind(kind: object) -> None:
    """Raise ``BadOption`` if there is no such kind of records."""
    if kind not in RECORD_KINDS:
        raise BadOption(
            f"kind={kind!r:.60} of a record; valid are {', '.join(RECORD_KINDS)}", parameter="kind"
        )


def names_of(records: KnownRecords) -> dict[str, str]:
    """The latest name by symbol."""
    return {record.symbol: record.body["name"] for record in records.of("name")}


def members_of(records: KnownRecords, index: str) -> tuple[str, ...] | None:
    """The latest list of an index; None without one."""
    lists = (record.body for record in reversed(records.of("membership")))
    return next((tuple(body["symbols"]) for body in lists if body["index"] == index), None)


def _order(record: Record) -> tuple[bool, datetime, str, str, str]:
    instant = record.instant
    return instant is None, instant or _NEVER, record.kind, record.symbol, record.digest


def _json_text(body: object) -> str:
    try:
        text = canonical_json(body, allow_nan=False)
        if json.loads(text) == body:
            return text
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"{' '.join(str(error).split()):.200}"
    else:  # a tuple, a key that is not a str, a lone surrogate
        reason = f"{body!r:.60} does not come back as it was"
    raise BadOption(
        f"record body is not JSON-serializable: {reason}; valid are dict with str keys, list, str, int, "
        "float, bool and None",
        parameter="body",
    )


def _check_shape(kind: RecordKind, symbol: str, body: object) -> None:
    fields = body if isinstance(body, Mapping) else {}
    if kind == "name" and not (symbol and _is_text(fields.get("name"))):
        raise BadOption(
            f"body={body!r:.60} of a name must be {{'name': text}}, with a symbol", parameter="body"
        )
    if kind == "action" and not (symbol and _is_action(fields)):
        raise BadOption(
            f"body={body!r:.60} of an action must be {{'ex': 'YYYY-MM-DD', 'cash': text, 'ratio': text}}, "
            "numbers >= 0 as text, with a symbol",
            parameter="body",
        )
    symbols = fields.get("symbols")
    listed = isinstance(symbols, list) and all(_is_text(item) for item in symbols)
    if kind == "membership" and not (_is_text(fields.get("index")) and listed):
        raise BadOption(
            f"body={body!r:.60} of a membership must be {{'index': code, 'symbols': [codes]}}",
            parameter="body",
        )


def _is_action(body: Mapping[str, Any]) -> bool:
    try:
        date.fromisoformat(body["ex"])
        numbers = [Decimal(body[name]) for name in ("cash", "ratio")]
    except (KeyError, TypeError, ValueError, InvalidOperation):
        return False
    return all(number.is_finite() and number >= 0 for number in numbers) and numbers[1] > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
