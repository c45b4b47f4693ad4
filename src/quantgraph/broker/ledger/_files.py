"""Fills and rejections as files in CSV or Parquet, and the import of fills into a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph.broker.accounts._account import Account, action_book, apply_corporate_actions
from quantgraph.broker.accounts._orders import Fill, Order, Rejection, normalize_quantity
from quantgraph.broker.accounts._results import SessionResult, mark, value_of
from quantgraph.broker.ledger._frames import FILL_NUMBERS, fills_table, rejections_table
from quantgraph.broker.ledger._journal import CHARGES
from quantgraph.broker.ledger._ledger import Ledger
from quantgraph.broker.session._session import Market
from quantgraph.errors import BadFile, LedgerConflict, NoData
from quantgraph.market import Moment, session_of
from quantgraph.market.money import money, notional, to_decimal

IMPORTED = "imported"
"""Decider of sessions that another program traded."""

Opening = Callable[[Ledger, str, Market], object]
"""Enters sessions in the ledger of a run that has none, by its name, on its market."""


def write_fills(path: str | Path, fills: Iterable[Fill]) -> None:
    """Write the table as CSV or Parquet, by the file's suffix; in Parquet the numbers are float64.

    Raises
    ------
    BadFile
        If the suffix is another one, or the file cannot be written.
    """
    _write(Path(path), fills_table(fills), FILL_NUMBERS)


def write_rejections(path: str | Path, rejections: Iterable[Rejection]) -> None:
    """Write the table of rejections, see :func:`write_fills`."""
    _write(Path(path), rejections_table(rejections), ("size",))


def read_fills(path: str | Path) -> list[Fill]:
    """Read a table of fills, as :func:`write_fills` writes it or with fewer columns.

    Required are ``trade_date``, ``ts_code``, ``side``, ``quantity`` and ``price``. Without ``sequence`` the
    fills of a session count from 1, without ``notional`` it is price times quantity, a missing charge
    is 0.
    """
    target = Path(path)
    try:
        table = (
            pd.read_csv(target, dtype=str, keep_default_na=False)
            if _suffix(target) == ".csv"
            else pd.read_parquet(target)
        )
    except (OSError, ValueError) as error:
        raise BadFile(f"{target} cannot be read: {' '.join(str(error).split())}", file=str(target)) from error
    missing = [name for name in ("trade_date", "ts_code", "side", "quantity", "price") if name not in table]
    if missing:
        raise BadFile(f"{target} has no column {', '.join(missing)}", file=str(target))
    fills: list[Fill] = []
    for place, row in enumerate(table.to_dict("records"), 1):
        before = fills[-1] if fills else None
        try:
            fills.append(_fill({str(name): value for name, value in row.items()}, before))
        except ValueError as error:
            raise BadFile(f"{target}, row {place}: {error}", file=str(target), row=place) from error
    return fills


def import_fills(
    ledger: Ledger,
    run_id: str,
    market: Market,
    fills: str | Path | Sequence[Fill],
    *,
    cash: Decimal | float | str,
) -> None:
    """Enter fills of another program as a run: every session from the first fill to the last.

    ``fills`` may be the path of a file for :func:`read_fills`. Corporate actions and marks come from the
    market's data. The ledger checks the fills as all others: cash, shares, T+1, notional.

    Raises
    ------
    NoData
        If there are no fills, or one is not in a session of the data.
    LedgerConflict
        If a fill does not follow, or the run exists with something else.
    """
    if isinstance(fills, str | Path):
        fills = read_fills(fills)
    days = sorted({fill.session for fill in fills})
    if not days:
        raise NoData("there are no fills")
    sessions = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
    inside = sessions[(sessions >= days[0]) & (sessions <= days[-1])]
    traded = imported_sessions(Account.opening(cash), run_id, market, fills, inside)
    ledger.open_run(run_id, cash, {**market.identity, "decider": IMPORTED})
    ledger.commit_days(run_id, traded)
    ledger.extend(run_id, f"{days[-1]:%Y%m%d}", market.data_ref)


def imported_sessions(
    account: Account, run_id: str, market: Market, fills: Sequence[Fill], sessions: pd.Index
) -> list[SessionResult]:
    """The sessions that another program traded, from an account on; raises as :func:`import_fills` does."""
    unknown = sorted({fill.session for fill in fills} - {*sessions})
    if unknown:
        raise NoData(f"{unknown[0]:%Y-%m-%d} is not a session of the data")
    results = list[SessionResult]()
    for session in sessions:
        today = [fill for fill in fills if fill.session == session]
        results.append(_session(account, run_id, market, session, today))
        account = results[-1].account
    return results


def _session(
    account: Account, run_id: str, market: Market, session: pd.Timestamp, fills: Sequence[Fill]
) -> SessionResult:
    evening = market.store.trusted_view(Moment(session, "close"), market.data_ref)
    book = action_book(market.store, market.data_ref)
    account, events = apply_corporate_actions(account, session, book, market.rules)
    made = [replace(fill, t_plus=market.rules.t_plus(fill.order.symbol, session.date())) for fill in fills]
    for fill in made:
        if fill.side == "sell" and account.quantity(fill.order.symbol) < fill.quantity:
            raise LedgerConflict(
                f"run {run_id!r}, {session:%Y-%m-%d}: sells {fill.quantity} {fill.order.symbol}, "
                f"{account.quantity(fill.order.symbol)} are held",
                run_id=run_id,
            )
        account = account.apply(fill)
    marks = mark(account, evening, at=market.mark_at)
    return SessionResult(
        session=session,
        decider=IMPORTED,
        account=account,
        events=events,
        outcomes=tuple(made),
        marks=marks,
        value=value_of(account, marks),
    )


def _fill(row: dict[str, Any], before: Fill | None) -> Fill:
    session = session_of(row["trade_date"], name="trade_date")
    follows = before is not None and before.session == session
    sequence = int(row.get("sequence") or (before.order.sequence + 1 if before and follows else 1))
    quantity = normalize_quantity(to_decimal(row["quantity"], name="quantity"))
    price = to_decimal(row["price"], name="price")
    order = Order(
        symbol=str(row["ts_code"]),
        side=row["side"],
        quantity=quantity,
        sequence=sequence,
        reason=str(row.get("reason") or ""),
    )
    amount = row.get("notional")
    charges: dict[str, Any] = {name: money(to_decimal(row.get(name) or 0, name=name)) for name in CHARGES}
    return Fill(
        order=order,
        session=session,
        side=row["side"],
        price=price,
        quantity=quantity,
        notional=notional(price, quantity) if amount in (None, "") else to_decimal(amount, name="notional"),
        **charges,
    )


def _write(target: Path, table: pd.DataFrame, numbers: Sequence[str]) -> None:
    try:
        if _suffix(target) == ".csv":
            table.to_csv(target, index=False, lineterminator="\n")
        else:
            table.astype(dict.fromkeys(numbers, "float64")).to_parquet(target, index=False)
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise BadFile(f"{target} cannot be written: {reason}", file=str(target)) from error


def _suffix(path: Path) -> str:
    if path.suffix not in (".csv", ".parquet"):
        raise BadFile(f"{path}: the suffix must be .csv or .parquet", file=str(path))
    return path.suffix
