"""Journal lines: a session as lines and back, and the table that is read in order and appended to.

A line is ``(kind, body)``; the body is JSON with its keys in a fixed order, money and quantities as text.
The lines of a session are in this order: ``dividend``, ``payment``, ``split``, ``delisting`` as they
happened, ``fill`` and ``rejection`` in the order of submission, ``notes`` and ``exits`` if the decision has
any, ``marks``, ``day``.

The writer is its own, not ``_util``'s: the hash chain is over these bytes, whose keys are not sorted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import pandas as pd
from sqlalchemy import Column, Integer, MetaData, String, Table, Text, func, insert, select

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.database import create_tables, open_engine
from quantgraph.broker.accounts._account import (
    Account,
    Delisting,
    Dividend,
    Event,
    Payment,
    Split,
    apply_event,
)
from quantgraph.broker.accounts._orders import (
    PRICES,
    SIZES,
    Fill,
    Order,
    Outcome,
    Quantity,
    Rejection,
    escape_surrogates,
    normalize_quantity,
    number_text,
    order_from_json,
)
from quantgraph.broker.accounts._results import DayLines, Line, Mark, SessionResult
from quantgraph.errors import BadOption, LedgerConflict
from quantgraph.market.money import ZERO, market_value, to_decimal, trim_zeros

Stored = tuple[int, str, str, str]
"""Line number, session, kind and body."""

CHARGES = ("commission", "stamp_duty", "transfer_fee", "regulatory", "slippage")
DAY = (
    *("decider", "cash", "owed", "stocks", "value", "positions", "largest", "fills", "rejections", "traded"),
    *CHARGES,
    *("dividends", "sales", "won", "realised"),
)
"""Keys of a day's body, in order."""


def iso(session: pd.Timestamp) -> str:
    """A session as it is stored."""
    return session.date().isoformat()


def session_from_iso(session: str) -> pd.Timestamp:
    """A stored session as a timestamp."""
    return pd.Timestamp(session).as_unit("us")


def compact_json(value: Any) -> str:
    """Compact JSON, keys in their order; lone surrogates are escaped, because UTF-8 has none."""
    return escape_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def chain_hash(before: str, line: int, session: str, kind: str, body: str) -> str:
    """Hash of a line and of the hash before it (of the first line: the run's name), 128 bits of BLAKE2b."""
    return content_hash(f"{before}\n{line}\n{session}\n{kind}\n{body}")


def day_lines(before: Account, result: SessionResult) -> DayLines:
    """Lines of a session that began with the account ``before``."""
    events: list[Line] = [_event_line(event) for event in result.events]
    orders: list[Line] = [outcome_line(outcome) for outcome in result.outcomes]
    notes: list[Line] = [("notes", compact_json(result.notes))] if result.notes else []
    exits: list[Line] = [("exits", compact_json([rule.to_json() for rule in result.exits]))]
    marks = {symbol: float(mark.price) for symbol, mark in result.marks.items()}
    carried = [symbol for symbol, mark in result.marks.items() if mark.carried]
    lines = [
        *events,
        *orders,
        *notes,
        *(exits if result.exits else []),
        ("marks", marks_body(marks, carried)),
        day_line(before, result),
    ]
    return DayLines(session=iso(result.session), lines=lines)


def day_line(before: Account, result: SessionResult) -> Line:
    """The last line of a session that began with the account ``before``."""
    try:
        return "day", _day_body_of(before, result)
    except (KeyError, ArithmeticError, StopIteration) as error:
        raise LedgerConflict(
            f"{iso(result.session)}: the result does not follow from the account before it "
            f"({type(error).__name__}: {error})"
        ) from error


_json_of = lru_cache(1 << 14)(compact_json)  # symbols and reasons come again and again


def plain_order(sequence: int, symbol: str, side: str, quantity: object, reason: str) -> str:
    """An order for shares at the open, as a JSON object without its braces."""
    return (
        f'"sequence":{sequence},"symbol":{_json_of(symbol)},"type":"open","wish":"{side}",'
        f'"quantity":"{quantity}","reason":{_json_of(reason)}'
    )


def fill_body(  # noqa: PLR0917 - the columns of a fill
    order: str,
    side: str,
    quantity: object,
    price: str,
    notional: object,
    charges: Sequence[object],
    t_plus: int,
    rest: str = "",
) -> str:
    """Body of a fill; ``order`` is a JSON object without braces, ``charges`` are in the order of CHARGES."""
    commission, duty, transfer, regulatory, slippage = charges
    return (
        f'{{{order},"side":"{side}","filled":"{quantity}","price":"{price}","notional":"{notional}",'
        f'"commission":"{commission}","stamp_duty":"{duty}","transfer_fee":"{transfer}",'
        f'"regulatory":"{regulatory}","slippage":"{slippage}","t_plus":{t_plus}{rest}}}'
    )


def rejection_body(order: str, code: str, message: str) -> str:
    """Body of a rejection."""
    return f'{{{order},"code":"{code}","message":{compact_json(message)}}}'


def marks_body(marks: Mapping[str, float], carried: Sequence[str]) -> str:
    """Body of the marks: prices as numbers in their shortest form, which is exact."""
    return f'{{"prices":{compact_json(marks)},"carried":{compact_json(list(carried))}}}'


def day_body(**values: Decimal | str | int) -> str:
    """Body of a day: the account at its end, and the sums of the session; the names are :data:`DAY`.

    ``sales`` are fills that sell and delistings, ``won`` are those that brought more than the cost of their
    shares (average cost, fees of both sides included), ``realised`` is what all of them brought beyond it.
    """
    return compact_json({name: _plain(values[name]) for name in DAY})


def _plain(value: Decimal | str | int) -> str | int:
    return value if isinstance(value, int) else str(value)


def outcome_of(kind: str, body: Mapping[str, Any], session: pd.Timestamp) -> Outcome:
    """Read a fill or a rejection."""
    order = _order_of(body)
    if kind == "rejection":
        return Rejection(order=order, session=session, code=body["code"], message=body["message"])
    rest = body.get("rest")
    return Fill(
        order=order,
        session=session,
        side=body["side"],
        price=Decimal(body["price"]),
        quantity=_quantity(body["filled"]),
        notional=Decimal(body["notional"]),
        **{name: Decimal(body[name]) for name in CHARGES},
        t_plus=body["t_plus"],
        rest=rest and Rejection(order=order, session=session, code=rest["code"], message=rest["message"]),
    )


def event_of(kind: str, body: Mapping[str, Any], session: pd.Timestamp) -> Event:
    """Read the event of a corporate action."""
    return EVENTS[kind](session=session, **{name: _READ[name](value) for name, value in body.items()})


def marks_of(body: Mapping[str, Any]) -> dict[str, Mark]:
    """Read the marks."""
    carried = set(body["carried"])
    return {
        symbol: Mark(price=to_decimal(price), carried=symbol in carried)
        for symbol, price in body["prices"].items()
    }


def outcome_line(outcome: Outcome) -> Line:
    """Write a fill or a rejection."""
    order = _order_text(outcome.order)
    if isinstance(outcome, Rejection):
        return "rejection", rejection_body(order, outcome.code, outcome.message)
    rest = outcome.rest
    return "fill", fill_body(
        order,
        outcome.side,
        number_text(outcome.quantity),
        number_text(outcome.price),
        outcome.notional,
        [getattr(outcome, name) for name in CHARGES],
        outcome.t_plus,
        f',"rest":{compact_json({"code": rest.code, "message": rest.message})}' if rest else "",
    )


def _order_text(order: Order) -> str:
    name, size = order.size
    if order.side is not None and order.type == "open" and not order.trigger:
        return plain_order(order.sequence, order.symbol, order.side, number_text(size), order.reason)
    fields = {
        "sequence": order.sequence,
        "symbol": order.symbol,
        "type": order.type,
        "wish": order.side,
        name: number_text(size),
        **{each: number_text(price) for each in PRICES if (price := getattr(order, each)) is not None},
        "reason": order.reason,
        "trigger": order.trigger or None,
    }
    return compact_json({key: value for key, value in fields.items() if value is not None})[1:-1]


def _order_of(body: Mapping[str, Any]) -> Order:
    sizes = {name: body[name] for name in (*SIZES, *PRICES, "trigger") if name in body}
    named = {name: body[name] for name in ("symbol", "type", "sequence", "reason")}
    return order_from_json({"side": body.get("wish"), **named, **sizes})


def _day_body_of(before: Account, result: SessionResult) -> str:
    account, fills = result.account, result.fills
    profits = _profits(before, result)
    worths = [
        market_value(result.marks[symbol].price, position.quantity)
        for symbol, position in account.positions.items()
    ]
    charges = {name: sum((getattr(fill, name) for fill in fills), ZERO) for name in CHARGES}
    return day_body(
        decider=result.decider,
        cash=account.cash,
        owed=account.owed,
        stocks=trim_zeros(sum(worths, Decimal(0))),
        value=result.value,
        positions=len(worths),
        largest=trim_zeros(max(worths, default=ZERO)),
        fills=len(fills),
        rejections=len(result.rejections),
        traded=sum((fill.notional for fill in fills), ZERO),
        **charges,
        dividends=sum((event.amount for event in result.events if isinstance(event, Dividend)), ZERO),
        sales=len(profits),
        won=sum(profit > 0 for profit in profits),
        realised=sum(profits, ZERO),
    )


def delisting_profits(before: Account, events: Iterable[Event]) -> list[Decimal]:
    """The profit of each delisting: its payment less the cost of the shares in ``before``."""
    gone = (event for event in events if isinstance(event, Delisting))
    return [event.amount - before.positions[event.symbol].cost for event in gone]


def _profits(before: Account, result: SessionResult) -> list[Decimal]:
    """The profit of each sale and delisting; a split does not change the cost."""
    account, profits = before.open_session(), delisting_profits(before, result.events)
    for event in result.events:
        account = apply_event(account, event)
    for fill in result.fills:
        cost = account.positions[fill.order.symbol].cost if fill.side == "sell" else ZERO
        account = account.apply(fill)
        if fill.side == "sell":
            left = account.positions.get(fill.order.symbol)
            profits.append(fill.cash_change - cost + (left.cost if left else ZERO))
    return profits


EVENTS: dict[str, Callable[..., Event]] = {
    "dividend": Dividend,
    "payment": Payment,
    "split": Split,
    "delisting": Delisting,
}
_KINDS = {made: kind for kind, made in EVENTS.items()}


def _quantity(value: str) -> Quantity:
    return normalize_quantity(Decimal(value))


_READ: dict[str, Callable[[str], Any]] = {
    "symbol": str,
    "pay": session_from_iso,
    **dict.fromkeys(("quantity", "before", "after"), _quantity),
    **dict.fromkeys(("per_share", "amount", "ratio", "cash"), Decimal),
}


def _event_line(event: Event) -> Line:
    values = {name: value for name, value in vars(event).items() if name != "session"}
    return _KINDS[type(event)], compact_json({name: _dump(value) for name, value in values.items()})


def _dump(value: Any) -> str:
    return iso(value) if isinstance(value, pd.Timestamp) else number_text(value)


RUN_ID_LENGTH = 200

SCHEMA = MetaData()

journal = Table(
    "journal",
    SCHEMA,
    Column("run_id", String(RUN_ID_LENGTH), primary_key=True),
    Column("line", Integer, primary_key=True, autoincrement=False),
    Column("session", String(10), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("body", Text, nullable=False),
    Column("hash", String(32), nullable=False),
    sqlite_with_rowid=False,
)
"""One row per line. The primary key lets only one writer append a line to a run."""


windows = Table(
    "windows",
    SCHEMA,
    Column("run_id", String(RUN_ID_LENGTH), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("end", String(10), nullable=False),
    Column("data_ref", String(64), nullable=False),
    sqlite_with_rowid=False,
)
"""The ends of a run, and the commits that it was traded on up to them: a run that grows has more than one."""


OPENING = 2
"""Lines before the first session: the run and its deposit."""

_PARTITION = 10_000
"""Lines that are held in memory at a time, where many are read."""

_COLUMNS = ("run_id", "line", "session", "kind", "body", "hash")


class JournalStore:
    """A database with a journal, which is made if it does not exist, or only read."""

    def __init__(self, where: str | Path, *, read_only: bool = False) -> None:
        self.engine = open_engine(where, reads=SCHEMA if read_only else None)
        self._writer = self.engine.execution_options(quantgraph_writes=True)
        # Compiled once: a session may have thousands of rows.
        statement = insert(journal).compile(dialect=self.engine.dialect)
        self._insert, self._positional = str(statement), statement.positional
        create_tables(self.engine, SCHEMA)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def append(self, run_id: str, line: int, before: str, days: Sequence[DayLines]) -> tuple[int, str]:
        """Append the lines of sessions after ``line``, whose hash is ``before``, in one transaction.

        Returns the number of the last line, and its hash.
        """
        rows = []
        for day in days:
            for kind, body in day.lines:
                line += 1
                before = chain_hash(before, line, day.session, kind, body)
                rows.append((run_id, line, day.session, kind, body, before))
        if rows:
            values = rows if self._positional else [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
            with self._writer.begin() as connection:
                connection.exec_driver_sql(self._insert, values)
        return line, before

    def add_window(self, run_id: str, end: str, data_ref: str) -> None:
        """Append a window; the primary key lets only one writer do it."""
        number = select(func.count()).select_from(windows).where(windows.c.run_id == run_id)
        with self._writer.begin() as connection:
            place = connection.execute(number).scalar_one()
            row = {"run_id": run_id, "number": place, "end": end, "data_ref": data_ref}
            connection.execute(insert(windows).values(row))

    def windows(self, run_id: str) -> list[tuple[str, str]]:
        """End and commit of each window, in order."""
        columns = windows.c
        query = select(columns.end, columns.data_ref).where(columns.run_id == run_id).order_by(columns.number)
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def runs(self) -> list[str]:
        """Names of all runs, ascending."""
        query = select(journal.c.run_id).distinct()
        with self.engine.connect() as connection:
            return sorted(connection.execute(query).scalars())  # databases sort by locale

    def find(self, run_id: str) -> dict[str, str]:
        """Bodies of the opening lines by kind; empty if there is no such run."""
        columns = journal.c
        query = select(columns.kind, columns.body).where(columns.run_id == run_id, columns.line < OPENING)
        with self.engine.connect() as connection:
            return {row.kind: row.body for row in connection.execute(query)}

    def opening(self, run_id: str) -> dict[str, str]:
        """Bodies of the opening lines by kind."""
        found = self.find(run_id)
        if found.keys() != {"run", "deposit"}:
            self.last_line(run_id)
            raise LedgerConflict(f"run {run_id!r}: its opening lines are missing", run_id=run_id, line=0)
        return found

    def last_line(self, run_id: str) -> int:
        """Number of the last line."""
        query = select(func.max(journal.c.line)).where(journal.c.run_id == run_id)
        with self.engine.connect() as connection:
            line: int | None = connection.execute(query).scalar()
        if line is None:
            raise BadOption(
                f"run_id={run_id!r} is not in this ledger; open_run begins one", parameter="run_id"
            )
        return line

    def hash_of(self, run_id: str, line: int) -> str:
        """Hash of a line."""
        query = select(journal.c.hash).where(journal.c.run_id == run_id, journal.c.line == line)
        with self.engine.connect() as connection:
            return str(connection.execute(query).scalar_one())

    def lines(self, run_id: str, *kinds: str, after: int = OPENING - 1) -> list[Stored]:
        """Lines of the sessions, or of some kinds, in order."""
        columns = journal.c
        query = (
            select(columns.line, columns.session, columns.kind, columns.body)
            .where(columns.run_id == run_id, columns.line > after)
            .order_by(columns.line)
        )
        if kinds:
            query = query.where(columns.kind.in_(kinds))
        self.opening(run_id)
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(query)]

    def parts(self, run_id: str, *kinds: str) -> Iterator[Sequence[tuple[str, str, str]]]:
        """The sessions' lines of some kinds in order, in parts: session, kind and body of each."""
        columns = journal.c
        query = (
            select(columns.session, columns.kind, columns.body)
            .where(columns.run_id == run_id, columns.line >= OPENING, columns.kind.in_(kinds))
            .order_by(columns.line)
        )
        self.opening(run_id)
        with self.engine.connect() as connection:
            read = connection.execution_options(stream_results=True).execute(query)
            yield from cast("Iterator[Sequence[tuple[str, str, str]]]", read.partitions(_PARTITION))

    def last_body(self, run_id: str, kind: str) -> str | None:
        """Body of the last line of a kind."""
        query = (
            select(journal.c.body)
            .where(journal.c.run_id == run_id, journal.c.kind == kind)
            .order_by(journal.c.line.desc())
            .limit(1)
        )
        with self.engine.connect() as connection:
            body: str | None = connection.execute(query).scalar()
        return body

    def rows(self, run_id: str) -> Iterator[Any]:
        """Every line with its hash, in order."""
        query = select(journal).where(journal.c.run_id == run_id).order_by(journal.c.line)
        self.last_line(run_id)
        with self.engine.connect() as connection:
            yield from connection.execute(query)
