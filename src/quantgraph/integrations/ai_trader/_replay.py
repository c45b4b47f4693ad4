"""Verifying a ``position.jsonl``: each record must follow from the one before; and ``log.jsonl``.

Each damage is reported once, at its record. The next record is compared with the recorded state and, after a
mismatch, also with the state that should have been recorded: a byte that was changed afterwards leaves the
following lines as they were, a program with an error goes on from its error.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from quantgraph.broker import Fill, SessionResult
from quantgraph.broker.accounts import Delisting, Dividend, Event, Payment, Quantity, Split, shares_after
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import fits_lots
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadFile, BadOption, BadWindow, UnknownSymbol
from quantgraph.integrations.ai_trader._trades import (
    PositionEvent,
    PositionFill,
    PositionRecord,
    cash_after,
    day_records,
    opening_record,
    overdrawn,
    scan_positions,
    write_positions,
)
from quantgraph.market import Rulebook
from quantgraph.market.money import to_decimal
from quantgraph.market.rules import Lots


def positions_of_results(
    results: Iterable[SessionResult],
    *,
    opening_date: str,
    cash: Decimal,
    symbols: Sequence[str],
    with_price: bool = True,
) -> Iterator[PositionRecord]:
    """Build the records of a run, the registration first.

    Cash is folded in doubles in AI-Trader's order of operations; the ledger's is exact to the cent, so the
    two may differ by half a cent a fill.

    Parameters
    ----------
    results
        Sessions of a ledger, in order.
    opening_date
        Date of the registration, ``YYYY-MM-DD``.
    cash
        Initial cash.
    symbols
        The universe; each record has all of them, zeros too.
    with_price
        Whether each trade has its price.

    Raises
    ------
    BadOption
        If a fill or a split has fractions of shares, which the file cannot hold.
    """
    last = opening_record(opening_date, float(cash), symbols)
    yield last
    for result in results:
        for record in records_of_session(last, result, with_price=with_price):
            last = record
            yield record


def records_of_session(
    before: PositionRecord, result: SessionResult, *, with_price: bool = True
) -> list[PositionRecord]:
    """Build the records of a session from the one before it; see :func:`positions_of_results`."""
    day = f"{result.session:%Y-%m-%d}"
    fills = [_fill(day, each) for each in result.fills]
    events = [line for each in result.events if (line := _event(day, each)) is not None]
    return day_records(before, day, fills, events, with_price=with_price)


def export_positions(path: str | Path, ledger: Ledger, run_id: str) -> None:
    """Write a run of a ledger as a ``position.jsonl`` of the symbols that it traded.

    Raises
    ------
    BadOption
        If the run has no session, or has fractions of shares.
    BadFile
        If the file cannot be written.
    """
    results = list(ledger.results(run_id))
    if not results:
        raise BadOption(f"run {run_id!r} has no session yet: there is nothing to export", parameter="run")
    traded = sorted({fill.order.symbol for result in results for fill in result.fills})
    first = f"{results[0].session:%Y-%m-%d}"
    cash = ledger.cash(run_id)
    write_positions(path, positions_of_results(results, opening_date=first, cash=cash, symbols=traded))


def _fill(day: str, fill: Fill) -> PositionFill:
    return PositionFill(
        date=day,
        side=fill.side,
        symbol=fill.order.symbol,
        amount=_whole_shares(fill.quantity, fill.order.symbol, day),
        price=float(fill.price),
        costs={"total_cost": float(fill.cost)} if fill.cost else None,
    )


def _event(day: str, event: Event) -> PositionEvent | None:
    """Return what changed shares or cash; an entitlement that is paid later is listed when it is paid."""
    if isinstance(event, Payment) or (isinstance(event, Dividend) and event.pay <= event.session):
        return PositionEvent(day, "dividend", event.symbol, 0, float(event.amount))
    if isinstance(event, Split):
        after = _whole_shares(event.after, event.symbol, day)
        return PositionEvent(day, "split", event.symbol, after, float(event.cash), float(event.ratio))
    if isinstance(event, Delisting):
        lost = _whole_shares(event.quantity, event.symbol, day)
        return PositionEvent(day, "delisting", event.symbol, lost, float(event.amount))
    return None


def _whole_shares(quantity: Quantity, symbol: str, day: str) -> int:
    if quantity % 1:
        raise BadOption(
            f"{quantity} {symbol} on {day}: AI-Trader's records cannot hold fractions of shares; use another "
            "format",
            parameter="format",
        )
    return int(quantity)


LedgerMarket = Literal["cn", "us"]

_TERMS: dict[LedgerMarket, tuple[Lots, int]] = {
    "cn": (Lots(first=100, step=100), 1),
    "us": (Lots(first=1, step=1), 0),
}
"""Lots and T+n that AI-Trader knows; also those of a symbol that the rulebook does not know."""
_MAINLAND = re.compile(r"\d{6}\.(SH|SZ|BJ)")  # 600519.SH
_MOST_LINES = 50
_CORPORATE = frozenset({"dividend", "split", "delisting"})
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A line that does not follow from the one before.

    ``line`` counts from 1.
    """

    line: int
    id: int | None
    date: str | None
    field: str
    expected: Any
    found: Any
    message: str


class RecordFinding(NamedTuple):
    """One thing that is wrong with a record."""

    field: str
    expected: Any
    found: Any
    message: str


class PositionState(NamedTuple):
    """Cash, and shares by symbol."""

    cash: float
    shares: Mapping[str, int]


def replay_positions(
    scanned: Iterable[tuple[int, PositionRecord | BadFile]],
    bars: Mapping[str, pd.DataFrame],
    market: LedgerMarket,
) -> Iterator[Mismatch]:
    """Yield a mismatch for each line that does not follow, in order.

    ``bars`` are wide frames ``open``, ``high``, ``low`` of unadjusted prices, NaN without trading; their
    index is the calendar.
    """
    replay = _Replay(_Prices(bars), market)
    for line, record in scanned:
        read = None if isinstance(record, BadFile) else record
        findings = replay.skip(record) if isinstance(record, BadFile) else replay.check(record)
        if findings:
            yield Mismatch(
                line=line,
                id=read.id if read else None,
                date=read.date if read else None,
                field=findings[0].field,
                expected=findings[0].expected,
                found=findings[0].found,
                message="; ".join(finding.message for finding in findings),
            )


class _Prices:
    """Prices by date as text."""

    def __init__(self, bars: Mapping[str, pd.DataFrame]) -> None:
        days = pd.DatetimeIndex(bars["open"].index).strftime("%Y-%m-%d").tolist()
        self.sessions = {day: row for row, day in enumerate(days)}
        self.symbols = {symbol: column for column, symbol in enumerate(bars["open"].columns)}
        self.span = f"{days[0]} to {days[-1]}"
        self._cells = {name: bars[name].to_numpy() for name in ("open", "high", "low")}

    def at(self, field: str, date: str, symbol: str) -> float:
        """NaN where there is none."""
        row, column = self.sessions.get(date), self.symbols.get(symbol)
        return math.nan if row is None or column is None else float(self._cells[field][row, column])


class _Replay:
    """What the next record may follow from.

    ``states`` is empty while nothing is known: before the registration, after a line that is not a record,
    and after an opening that cannot be.
    """

    def __init__(self, prices: _Prices, market: LedgerMarket) -> None:
        self._prices = prices
        self._rules = Rulebook.mainland() if market == "cn" else Rulebook.us()
        self._terms = _TERMS[market]
        self._ids: tuple[int, ...] = (0,)
        self._states: tuple[PositionState, ...] = ()
        self._since = ""
        self._bought: Counter[tuple[str, str]] = Counter()
        self._at_start = True

    def skip(self, error: BadFile) -> list[RecordFinding]:
        """Go past a line that is not a record: a record may have stood there, or none."""
        self._ids = (self._ids[0] + 1, *self._ids)
        self._states = ()
        return [RecordFinding(error.data["field"], "a record", error.data["found"], str(error))]

    def check(self, record: PositionRecord) -> list[RecordFinding]:
        """Compare a record with the one before, and go on from it."""
        registration = self._at_start and record.action is None
        findings = [*self._check_id(record), *self._check_date(record, registration=registration)]
        findings += self._register(record) if registration else self._check_action(record)
        self._ids = (record.id + 1,) if record.id in self._ids else (record.id + 1, self._ids[0] + 1)
        self._since = min(self._since, record.date) if findings else record.date
        self._at_start = False
        return findings

    def _check_id(self, record: PositionRecord) -> Iterator[RecordFinding]:
        if record.id not in self._ids:
            expected = self._ids[0]
            message = f"id {record.id} where {expected} follows: a line is missing or the id was changed"
            yield RecordFinding("id", expected, record.id, message)

    def _check_date(self, record: PositionRecord, *, registration: bool) -> Iterator[RecordFinding]:
        if not registration and record.date not in self._prices.sessions:
            message = f"date {record.date!r} is not a session of the prices, {self._prices.span}"
            yield RecordFinding("date", "a session", record.date, message)
        elif record.date < self._since:
            yield RecordFinding("date", self._since, record.date, f"date {record.date} after {self._since}")

    def _register(self, record: PositionRecord) -> list[RecordFinding]:
        """An account opens with cash alone."""
        opened = PositionState(record.cash, dict.fromkeys(record.positions, 0))
        self._states = (opened,) if record.cash >= 0 else ()
        findings = []
        if record.cash < 0:
            message = f"the account opens with {record.cash} of cash"
            findings.append(RecordFinding("positions.CASH", "not negative", record.cash, message))
        for symbol, shares in record.positions.items():
            if shares:
                message = f"the account opens with {shares} {symbol} that were never bought"
                findings.append(RecordFinding(f"positions.{symbol}", 0, shares, message))
        return findings

    def _check_action(self, record: PositionRecord) -> list[RecordFinding]:
        recorded = PositionState(record.cash, record.positions)
        candidates, self._states = self._states, (recorded,)
        if record.action is None:
            message = "this_action is missing after the first record"
            return [RecordFinding("this_action", "an action", None, message)]
        price, findings = self._price(record)
        if not candidates:
            if self._at_start and record.id == self._ids[-1]:
                message = "the first record is not a registration: it has an action"
                findings.append(RecordFinding("this_action", None, record.action, message))
            return [*findings, *self._check_rules(record, None)]
        outcomes = [(before, _after(before, record, price)) for before in candidates]
        before, expected = min(outcomes, key=lambda outcome: len(_differences(outcome[1], recorded)))
        differing = _differences(expected, recorded)
        if differing:
            findings.append(_explain(before, record, price, differing))
            self._states = (recorded, expected)
        if record.action == "buy":
            grown = record.positions.get(record.symbol, 0) - before.shares.get(record.symbol, 0)
            self._bought[record.date, record.symbol] += max(0, min(record.amount, grown))
        findings += _corporate_findings(before, record)
        return [*findings, *_below_zero(before, record), *self._check_rules(record, before)]

    def _price(self, record: PositionRecord) -> tuple[float, list[RecordFinding]]:
        """The price of the fill, NaN if it is unknown: the open, or a recorded one that was traded."""
        symbol, date, prices = record.symbol, record.date, self._prices
        opened, low, high = (prices.at(field, date, symbol) for field in ("open", "low", "high"))
        if record.action == "no_trade":
            return math.nan, []
        if symbol not in prices.symbols:
            message = f"symbol {symbol!r} is unknown to the prices"
            return math.nan, [RecordFinding("this_action.symbol", "a symbol of the prices", symbol, message)]
        if record.action in _CORPORATE or not record.amount or date not in prices.sessions:
            return opened, []
        if math.isnan(opened):
            message = f"{symbol} has no price on {date}"
            return math.nan, [RecordFinding("this_action.symbol", "a symbol with a price", symbol, message)]
        price = opened if record.price is None else record.price
        if price == opened or low <= price <= high:
            return price, []
        message = f"price {price} of {symbol} was not traded on {date}, its open is {opened}"
        return opened, [RecordFinding("this_action.price", opened, price, message)]

    def _check_rules(self, record: PositionRecord, before: PositionState | None) -> Iterator[RecordFinding]:
        """Lots and T+1; what is held is unknown without a state ``before``."""
        action, symbol, amount, day = record.action, record.symbol, record.amount, record.date
        if action not in ("buy", "sell") or not amount or (action == "sell" and before is None):
            return
        usual, t_plus = self._terms
        lots = usual
        with suppress(UnknownSymbol, BadWindow):
            lots, t_plus = self._rules.lots(symbol, day), self._rules.t_plus(symbol, day)
        held = before.shares.get(symbol, 0) if before else 0
        if not any(fits_lots(action, amount, held, allowed) for allowed in (usual, lots)):
            message = f"{action} of {amount} {symbol} is not in lots of {usual.step}"
            yield RecordFinding("this_action.amount", f"lots of {usual.step}", amount, message)
        free = held - self._bought[day, symbol] * t_plus
        if action == "sell" and t_plus and amount > free:
            message = f"sells {amount} {symbol} of which {free} were not bought on {day} (T+1)"
            yield RecordFinding("this_action.amount", free, amount, message)


def _after(before: PositionState, record: PositionRecord, price: float) -> PositionState:
    """State after the action. Cash is taken as recorded where the price is unknown."""
    held = before.shares.get(record.symbol, 0)
    if record.action in _CORPORATE:
        left = {"dividend": held, "split": _split_shares(held, record), "delisting": 0}[record.action]
        return PositionState(before.cash + (record.received or 0.0), {**before.shares, record.symbol: left})
    if record.action not in ("buy", "sell") or not record.amount:
        return before
    change = record.amount if record.action == "buy" else -record.amount
    cash = cash_after(before.cash, record.action, price, record.amount, record.fees)
    shares = {**before.shares, record.symbol: held + change}
    return PositionState(record.cash if math.isnan(cash) else cash, shares)


def _split_shares(held: int, record: PositionRecord) -> int:
    """Shares after a split: whole ones, as its ratio says; the record's own without a ratio."""
    return record.amount if record.ratio is None else int(shares_after(held, to_decimal(record.ratio)))


def _differences(
    expected: PositionState, recorded: PositionState
) -> list[tuple[str, float | None, float | None]]:
    """Field, expected and found value, cash first; None for a symbol that is not listed.

    Cash is compared as doubles, to the last bit.
    """
    differing: list[tuple[str, float | None, float | None]] = []
    if expected.cash != recorded.cash:
        differing.append(("positions.CASH", expected.cash, recorded.cash))
    for symbol in {**expected.shares, **recorded.shares}:
        shares = expected.shares.get(symbol), recorded.shares.get(symbol)
        if shares[0] != shares[1]:
            differing.append((f"positions.{symbol}", *shares))
    return differing


def _explain(
    before: PositionState,
    record: PositionRecord,
    price: float,
    differing: list[tuple[str, float | None, float | None]],
) -> RecordFinding:
    """Name the amount if another one explains the whole state, else the first difference."""
    if record.action in ("buy", "sell"):
        change = record.positions.get(record.symbol, 0) - before.shares.get(record.symbol, 0)
        amount = change if record.action == "buy" else -change
        meant = _after(before, replace(record, amount=amount), price)
        if amount >= 0 and not _differences(meant, PositionState(record.cash, record.positions)):
            message = f"amount {record.amount} where the state says {amount}"
            return RecordFinding("this_action.amount", amount, record.amount, message)
    shown = [f"{field} is {found!r}, expected {expected!r}" for field, expected, found in differing[:_SHOWN]]
    more = len(differing) - _SHOWN
    return RecordFinding(*differing[0], ", ".join(shown) + (f" and {more} more" if more > 0 else ""))


def _corporate_findings(before: PositionState, record: PositionRecord) -> Iterator[RecordFinding]:
    """What a corporate action must say of itself; the cash that it paid is taken as recorded."""
    if record.action not in _CORPORATE:
        return
    held = before.shares.get(record.symbol, 0)
    expected = {"dividend": 0, "split": record.positions.get(record.symbol, 0), "delisting": held}
    amount = expected[record.action]
    if record.amount != amount:
        message = f"{record.action} of {record.amount} {record.symbol} where the state says {amount}"
        yield RecordFinding("this_action.amount", amount, record.amount, message)
    missing = "ratio" if record.action == "split" and not record.ratio else ""
    if missing := missing or ("cash" if record.action == "dividend" and not record.received else ""):
        yield RecordFinding(
            f"this_action.{missing}", "above 0", None, f"{record.action} of {record.symbol} without {missing}"
        )


def _below_zero(before: PositionState, record: PositionRecord) -> Iterator[RecordFinding]:
    """What this record took below zero, or further below."""
    if overdrawn(record.cash, record.id) and record.cash < before.cash:
        yield RecordFinding("positions.CASH", "not negative", record.cash, f"cash is negative: {record.cash}")
    for symbol, shares in record.positions.items():
        if shares < 0 and shares < before.shares.get(symbol, 0):
            message = f"{symbol} is negative: {shares} shares"
            yield RecordFinding(f"positions.{symbol}", "not negative", shares, message)


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The value of a ledger, and its lines that do not follow.

    Values come from the recorded states, whether they follow or not: the initial cash, then cash and shares
    at the close of each session of the prices from ``first_date`` to ``last_date``, both inclusive.

    Attributes
    ----------
    records
        Lines that are records.
    mismatches
        At most one a line.
    sessions
        Sessions from the first date to the last.
    carried
        How often a holding without a close in a session was valued at its last one.
    final_value, total_return, max_drawdown
        In the market's currency, and as fractions (drawdown 0 or negative). The value is None where a holding
        never had a close; the fractions also where the account did not open with cash alone, or fell to 0.
    """

    records: int
    mismatches: tuple[Mismatch, ...]
    first_date: str
    last_date: str
    sessions: int
    carried: int
    final_value: float | None
    total_return: float | None
    max_drawdown: float | None

    @property
    def lines(self) -> list[str]:
        """What a person reads: the records, the value, and the first fifty mismatches."""
        value, gain, fall = (
            "unknown" if number is None else shown.format(number)
            for number, shown in (
                (self.final_value, "{:,.2f}"),
                (self.total_return, "{:+.2%}"),
                (self.max_drawdown, "{:.2%}"),
            )
        )
        wrong, carried = len(self.mismatches), f", closes carried: {self.carried}" if self.carried else ""
        more = f"and {wrong - _MOST_LINES} more; --json has all"
        return [
            f"{self.first_date} to {self.last_date}, records: {self.records}, sessions: {self.sessions}, "
            f"mismatches: {wrong}",
            f"final value {value}, return {gain}, max drawdown {fall}{carried}",
            *(f"line {each.line}, {each.date}: {each.message}" for each in self.mismatches[:_MOST_LINES]),
            *([more] if wrong > _MOST_LINES else []),
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the total return is ``return``."""
        return {"return" if name == "total_return" else name: value for name, value in asdict(self).items()}


def verify_positions(
    file: str | Path, prices: str | Path | MarketDataSource, market: LedgerMarket | None = None
) -> Verification:
    """Replay a ledger against prices.

    Parameters
    ----------
    file
        A ``position.jsonl``.
    prices
        Daily bars for :func:`~quantgraph.data.open_source`: unadjusted, with every session of the ledger.
    market
        ``cn`` or ``us``: the rules that trades must keep. Default: the market of the ledger's codes.

    Raises
    ------
    BadFile
        If a file cannot be read or has another format.
    BadOption
        If ``market`` is another one, or ``prices`` is not a source.
    """
    if market not in (None, *get_args(LedgerMarket)):
        raise BadOption(f"market={market!r}; valid: {', '.join(get_args(LedgerMarket))}", parameter="market")
    scanned = scan_positions(file)
    source = open_source(prices)
    sessions = source.sessions()
    bars = source.bars(source.symbols(), sessions[0], sessions[-1])
    records = [record for _, record in scanned if isinstance(record, PositionRecord)]
    if market is None:
        market = "cn" if any(_MAINLAND.fullmatch(symbol) for symbol in records[0].positions) else "us"
    recorded, carried = _values(records, bars["close"])
    values = pd.Series(recorded, dtype="float64")
    measurable = not any(records[0].positions.values()) and bool((values > 0).all())
    return Verification(
        records=len(records),
        mismatches=tuple(replay_positions(scanned, bars, market)),
        first_date=records[0].date,
        last_date=records[-1].date,
        sessions=len(values) - 1,
        carried=carried,
        final_value=None if math.isnan(recorded[-1]) else recorded[-1],
        total_return=float(values.iloc[-1] / values.iloc[0] - 1) if measurable else None,
        max_drawdown=float((values / values.cummax() - 1).min()) if measurable else None,
    )


def _values(records: list[PositionRecord], closes: pd.DataFrame) -> tuple[list[float], int]:
    """The initial cash and the value at each close, and how many closes were carried.

    NaN where a holding never had a close.
    """
    filled, missing = closes.ffill().to_numpy(), closes.isna().to_numpy()
    columns = {symbol: column for column, symbol in enumerate(closes.columns)}
    last_of = {record.date: record for record in records}
    dates = sorted(last_of)
    values, carried = [records[0].cash], 0
    for row, day in enumerate(pd.DatetimeIndex(closes.index).strftime("%Y-%m-%d")):
        if records[0].date <= day <= records[-1].date:
            state = last_of[dates[bisect_right(dates, day) - 1]]
            held = [(columns.get(symbol), shares) for symbol, shares in state.positions.items() if shares]
            known = [(column, shares) for column, shares in held if column is not None]
            worth = sum(shares * float(filled[row, column]) for column, shares in known)
            values.append(state.cash + (worth if len(known) == len(held) else math.nan))
            carried += sum(bool(missing[row, column]) for column, _ in known)
    return values, carried


LogForm = Literal["messages", "ai-trader"]
"""``messages``: ``role`` and ``content`` a line. ``ai-trader``: ``signature`` and ``new_messages``."""


@dataclass(frozen=True, kw_only=True)
class SessionMessage:
    """A message of a session."""

    role: Literal["user", "assistant"]
    content: str
    of_step: bool = False


def session_log(
    messages: Iterable[SessionMessage], form: LogForm = "messages", *, signature: str = ""
) -> bytes:
    r"""Write the messages of a session as lines.

    In AI-Trader's own form the first message and the final answer are lists, and the messages of steps are
    objects.

    >>> begin = SessionMessage(role="user", content="Begin.")
    >>> session_log([begin])
    b'{"role": "user", "content": "Begin."}\n'
    >>> session_log([begin], "ai-trader", signature="a")
    b'{"signature": "a", "new_messages": [{"role": "user", "content": "Begin."}]}\n'
    """
    lines = []
    for each in messages:
        line: dict[str, Any] = {"role": each.role, "content": each.content}
        if form == "ai-trader":
            line = {"signature": signature, "new_messages": line if each.of_step else [line]}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace")
