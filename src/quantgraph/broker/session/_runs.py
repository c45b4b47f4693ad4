"""A run in a ledger: it begins, and goes on to a later end, on data whose past must be as it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from quantgraph.broker._decider import Decider, RunContext
from quantgraph.broker._plan import TradePlan
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.session._session import Market
from quantgraph.broker.session._simulate import check_days, check_decider, commit_sessions
from quantgraph.errors import LedgerConflict
from quantgraph.market import Moment
from quantgraph.state import first_change

if TYPE_CHECKING:
    from quantgraph.broker.ledger._files import Opening
    from quantgraph.broker.ledger._ledger import Ledger


def open_market_run(
    ledger: Ledger,
    run_id: str,
    market: Market,
    decider: Decider,
    *,
    cash: Decimal | float | str,
    end: str,
    plan: TradePlan | None = None,
    also: Mapping[str, Any] | None = None,
    opening: Opening | None = None,
) -> None:
    """Begin a run in the ledger, or go on with it up to ``end``, on data that may be longer than before.

    A run that has no session begins with those of ``opening``.

    What must not change within a run is its first line: the market's rules, the decider with its options, the
    plan, and ``also``. Of the data what was known at the close of its last session must not have changed.

    Raises
    ------
    LedgerConflict
        If one of them differs; names the first cell or record of the data that does.
    """
    plan_json = plan.to_json() if plan else {}
    identity = {**market.identity, "decider": decider.name, "options": dict(decider.options)}
    identity |= {"plan": plan_json} if plan_json else {}
    ledger.open_run(run_id, cash, identity | dict(also or {}))
    before, last = ledger.windows(run_id)[-1:], ledger.last_session(run_id)
    if opening and last is None:
        opening(ledger, run_id, market)
    if before == [(end, market.data_ref)]:
        return
    if before and last is not None and before[0][1] != market.data_ref:
        refs = (before[0][1], market.data_ref)
        was, now = (market.store.view(Moment(last, "close"), ref) for ref in refs)
        if changed := first_change(was, now):
            raise LedgerConflict(
                f"run {run_id!r} exists with other data up to {last:%Y-%m-%d}: {changed}; give the data that "
                "it was traded on, longer if need be, or begin a new run",
                run_id=run_id,
                changed=changed,
            )
    ledger.extend(run_id, end, market.data_ref)


def run_sessions(
    market: Market,
    sessions: Iterable[object],
    decider: Decider,
    *,
    cash: Decimal | float | str,
    ledger: Ledger,
    run_id: str,
    plan: TradePlan | None = None,
) -> Account:
    """Run a decider over sessions into the ledger, and return the account after the last one.

    A run that the ledger has already continues after its last committed session.

    Raises
    ------
    LedgerConflict
        If the ledger holds a run of this name with other cash, data, decider, rules or sessions.
    BadWindow
        If they are not consecutive sessions of the data.
    """
    days = check_days(market, sessions)
    end = f"{days[-1]:%Y%m%d}" if days else ""
    open_market_run(ledger, run_id, market, check_decider(decider), cash=cash, end=end, plan=plan)
    if (recorded := ledger.sessions(run_id)) != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that are not the first of the {len(days)} sessions",
            run_id=run_id,
        )
    run = RunContext(
        plan=plan or TradePlan(),
        start=days[0] if days else None,
        history=partial(ledger.history, run_id),
        gives_exits=partial(ledger.gives_exits, run_id),
        log_step=partial(ledger.log_step, run_id),
    )
    commit_sessions(market, days[len(recorded) :], decider, ledger=ledger, run_id=run_id, run=run)
    return ledger.account(run_id)
