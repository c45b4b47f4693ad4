"""Simulated sessions: one alone, in a loop, in blocks, and as a run in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd

from quantgraph.broker._decider import BlockRule, Decider, DecisionContext, RunContext, check_decider
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._corporate_actions import action_book
from quantgraph.broker.accounts._results import Block, SessionResult
from quantgraph.broker.session._market import Market
from quantgraph.broker.session._open_session import OpenSession, collect_decision, fill_orders, open_session
from quantgraph.errors import BadWindow, LedgerConflict
from quantgraph.market import Moment, session_of
from quantgraph.state import GrowingView

if TYPE_CHECKING:
    from quantgraph.broker.ledger._ledger import Ledger


BLOCK_SESSIONS = 128
"""Sessions of a step of the graph, and the fewest of a block: enough to make up for its start."""
TOGETHER = 64
"""Sessions that are committed together where a rule is traded order by order."""
BLOCK_CELLS = 1_000_000
"""Sessions times symbols of a longer block, which keep its arrays at some 100 MB."""


def trade_session(
    market: Market,
    session: pd.Timestamp,
    account: Account,
    decider: Decider,
    *,
    run: RunContext | None = None,
) -> SessionResult:
    """Open the session, call the decider, fill its orders, mark the holdings.

    Corporate actions come first. The decider is given the view at the open and the account after corporate
    actions; its orders meet quotes of the whole session.

    Parameters
    ----------
    run
        What the decision's context hands on.
    """
    view = market.store.growing_view(market.data_ref).at(Moment(session, "open"))
    view.growing_view_id = None  # the next session may be of another run
    opened = open_session(market, session, account)
    context = DecisionContext(view, opened.account, rules=market.rules, run=run)
    return fill_orders(opened, decider.name, collect_decision(check_decider(decider), context))


def simulate(
    market: Market, sessions: Iterable[object], decider: Decider, *, account: Account
) -> Iterator[SessionResult]:
    """Trade one session after the other, order by order, and yield the results.

    Raises
    ------
    BadWindow
        If they are not consecutive sessions of the data.
    """
    check_decider(decider)
    growing_view, results = market.store.growing_view(market.data_ref), list[SessionResult]()
    run = RunContext(history=lambda: results)
    for session in _checked(market, sessions):
        opened = open_session(market, session, account)
        view = growing_view.at(Moment(session, "open"))
        context = DecisionContext(view, opened.account, rules=market.rules, run=run)
        result = fill_orders(opened, decider.name, collect_decision(decider, context))
        yield result
        results.append(result)
        account = result.account


def advance(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    account: Account,
    run: RunContext | None = None,
    growing_view: GrowingView | None = None,
    at_least: int | None = None,
) -> Iterator[SessionResult | Block]:
    """Trade sessions in blocks where the decider has a :class:`BlockRule`, else one by one.

    Parameters
    ----------
    growing_view
        One of the market's commit; calls for successive parts of a run share one.
    at_least
        Once this many sessions are traded, it stops after the next one without a block rule. Default: all.
    """
    for done in _advance(market, sessions, decider, account, run, growing_view, at_least):
        yield from (done,) if isinstance(done, Block) else done


def _advance(  # noqa: PLR0917 - as in advance()
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    account: Account,
    run: RunContext | None,
    growing_view: GrowingView | None,
    at_least: int | None,
) -> Iterator[Sequence[SessionResult] | Block]:
    """Like :func:`advance`; results of sessions that may be committed together come together."""
    view = growing_view or market.store.growing_view(market.data_ref)
    left, blocks = list(sessions), market.in_blocks
    least = len(left) if at_least is None else at_least
    index = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
    longest = max(BLOCK_SESSIONS, BLOCK_CELLS * len(index) // max(1, market.cells))

    def context_of(opened: OpenSession) -> DecisionContext:
        at_open = Moment(opened.session, "open")
        return DecisionContext(partial(view.at, at_open), opened.account, rules=market.rules, run=run)

    def by_orders(opened: OpenSession, context: DecisionContext) -> SessionResult:
        return fill_orders(opened, decider.name, collect_decision(decider, context))

    while left:
        opened = open_session(market, left[0], account)
        context = context_of(opened)
        rule = decider.block_rule(context)
        # The arrays of the data's first session are copies, because none is before it; others are views.
        length = BLOCK_SESSIONS if left[0] == index[0] else longest
        block = _trade_block(market, left[:length], rule, account) if rule and blocks else None
        if block:
            yield block
            account, traded = block.account, len(block.sessions)
        else:
            results = [by_orders(opened, context)]
            account = results[0].account
            for session in left[1:TOGETHER] if rule and not blocks else ():
                try:
                    opened = open_session(market, session, account)
                    results.append(by_orders(opened, context_of(opened)))
                except Exception:  # noqa: BLE001 - it is raised again as the first, after these are recorded
                    break
                account = results[-1].account
            yield results
            traded = len(results)
        left, least = left[traded:], least - traded
        if rule is None and least <= 0:
            return


def run_identity(market: Market, decider: Decider) -> dict[str, Any]:
    """What must not change within a run: the market's identity, and the decider with its options."""
    return {**market.identity, "decider": decider.name, "options": dict(decider.options)}


def run_sessions(
    market: Market,
    sessions: Iterable[object],
    decider: Decider,
    *,
    cash: Decimal | float | str,
    ledger: Ledger,
    run_id: str,
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
    days = _checked(market, sessions)
    ledger.open_run(run_id, cash, run_identity(market, check_decider(decider)))
    recorded = ledger.sessions(run_id)
    if recorded != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that are not the first of the {len(days)} given",
            run_id=run_id,
        )
    run = RunContext(history=partial(ledger.history, run_id), log_step=partial(ledger.log_step, run_id))
    commit_sessions(market, days[len(recorded) :], decider, ledger=ledger, run_id=run_id, run=run)
    return ledger.account(run_id)


def commit_sessions(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    ledger: Ledger,
    run_id: str,
    run: RunContext,
    growing_view: GrowingView | None = None,
    at_least: int | None = None,
    on_session: Callable[[pd.Timestamp, Decimal], None] = lambda _session, _value: None,
) -> None:
    """Trade sessions that follow the last one of a run, and commit them.

    A session is one transaction. Sessions that a decider has a block rule for are one transaction together:
    a block, or up to :data:`TOGETHER` order by order.

    For ``run``, ``growing_view`` and ``at_least`` see :func:`advance`. ``on_session`` is called with each
    committed session and the account's value at its end.
    """
    account = ledger.account(run_id)
    for done in _advance(market, sessions, decider, account, run, growing_view, at_least):
        if isinstance(done, Block):
            ledger.commit_block(run_id, account, done.days, done.account)
            values = list(zip(done.sessions, done.values, strict=True))
            account = done.account
        else:
            ledger.commit_days(run_id, done)
            values = [(result.session, result.value) for result in done]
            account = done[-1].account
        for session, value in values:
            on_session(session, value)


def _trade_block(
    market: Market, sessions: Sequence[pd.Timestamp], rule: BlockRule, account: Account
) -> Block | None:
    from quantgraph.broker.blocks._block import trade_block  # numba takes a second to import

    return trade_block(
        market.store,
        market.data_ref,
        sessions,
        rule,
        account=account,
        rules=market.rules,
        book=action_book(market.store, market.data_ref),
        mark_at=market.mark_at,
    )


def _checked(market: Market, sessions: Iterable[object]) -> list[pd.Timestamp]:
    if isinstance(sessions, str):
        raise BadWindow(f"sessions={sessions!r}; must be a list of sessions", parameter="sessions")
    days = [session_of(session) for session in sessions]
    known = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
    for place, day in enumerate(days):
        if day not in known:
            raise BadWindow(f"{day:%Y-%m-%d} is not a session of the data", session=str(day.date()))
        if place and day <= days[place - 1]:
            raise BadWindow(
                f"{day:%Y-%m-%d} does not come after {days[place - 1]:%Y-%m-%d}", session=str(day.date())
            )
        if place and known.searchsorted(day) != known.searchsorted(days[place - 1]) + 1:
            raise BadWindow(
                f"the data has sessions between {days[place - 1]:%Y-%m-%d} and {day:%Y-%m-%d}; none may be "
                "left out, because dividends and splits happen in them; a decider may return no orders",
                session=str(day.date()),
            )
    return days
