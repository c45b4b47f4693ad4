"""The ``position.jsonl`` of a run of ours: its fills and corporate actions, with cash folded in doubles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from quantgraph.broker import Fill, Quantity, SessionResult
from quantgraph.broker.accounts import Delisting, Dividend, Event, Payment, Split
from quantgraph.errors import BadOption
from quantgraph.integrations.ai_trader._position_file import PositionRecord
from quantgraph.integrations.ai_trader._trades import PositionEvent, PositionFill, day_records, opening_record


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
    events = [told for each in result.events if (told := _event(day, each)) is not None]
    return day_records(before, day, fills, events, with_price=with_price)


def symbols_of_results(results: Iterable[SessionResult]) -> list[str]:
    """Return all symbols that were traded, ascending."""
    return sorted({fill.order.symbol for result in results for fill in result.fills})


def _fill(day: str, fill: Fill) -> PositionFill:
    return PositionFill(
        date=day,
        side=fill.side,
        symbol=fill.order.symbol,
        amount=_whole(fill.quantity, fill.order.symbol, day),
        price=float(fill.price),
        costs={"total_cost": float(fill.cost)} if fill.cost else None,
    )


def _event(day: str, event: Event) -> PositionEvent | None:
    """Return what changed shares or cash; an entitlement that is paid later is told when it is paid."""
    if isinstance(event, Payment) or (isinstance(event, Dividend) and event.pay <= event.session):
        return PositionEvent(day, "dividend", event.symbol, 0, float(event.amount))
    if isinstance(event, Split):
        after = _whole(event.after, event.symbol, day)
        return PositionEvent(day, "split", event.symbol, after, float(event.cash), float(event.ratio))
    if isinstance(event, Delisting):
        lost = _whole(event.quantity, event.symbol, day)
        return PositionEvent(day, "delisting", event.symbol, lost, float(event.amount))
    return None


def _whole(quantity: Quantity, symbol: str, day: str) -> int:
    if quantity % 1:
        raise BadOption(
            f"{quantity} {symbol} on {day}: AI-Trader's records cannot hold fractions of shares; use another "
            "format",
            parameter="format",
        )
    return int(quantity)
