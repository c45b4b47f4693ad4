"""Simulated sessions: one alone, in a loop, in blocks, and as a run in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import action_book
from quantgraph.broker.decider import BlockRule, Decider
from quantgraph.broker.open_session import Block, SessionResult, collect_orders, fill_orders, open_session
from quantgraph.broker.valuation import MarkAt
from quantgraph.errors import BadOption, BadWindow, LedgerConflict
from quantgraph.market.moment import Moment, session_of
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState, GrowingView, View

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger

__all__ = [
    "BLOCK_SESSIONS",
    "Market",
    "advance",
    "commit_sessions",
    "run_identity",
    "run_sessions",
    "simulate",
    "trade_session",
    "under",
]


BLOCK_SESSIONS = 128
"""Sessions of a block: enough to make up for its start, few enough to keep its arrays small."""


@dataclass(frozen=True, kw_only=True)
class Market:
    """Data and rules that sessions are traded with.

    Attributes
    ----------
    store, data_ref
        A commit of a data state.
    rules
        The rulebook in force.
    mark_at
        The price of a session that holdings are valued at.
    blocks_from
        Smallest number of cells (sessions times symbols) of the data for trading in blocks. The fills are the
        same; with fewer cells it is not worth the ten seconds that compiling takes once on each machine.
    """

    store: DataState
    data_ref: str
    rules: Rulebook
    mark_at: MarkAt = "close"
    blocks_from: int = 50_000

    def __post_init__(self) -> None:
        if self.rules.volume_share is not None and "vol" not in self.store.snapshot(self.data_ref)["ohlcv"]:
            raise BadOption(
                f"volume_share={self.rules.volume_share} needs the field 'vol', which the data do not have",
                parameter="volume_share",
            )

    @property
    def cells(self) -> int:
        """Sessions times symbols of the data."""
        return int(self.store.snapshot(self.data_ref)["ohlcv"]["open"].size)

    @property
    def identity(self) -> dict[str, Any]:
        """What must not change within a run: data, rules with every fee, marks."""
        rules = self.rules
        return {
            "data_ref": self.data_ref,
            "rules": f"{rules.name} {content_hash(repr(rules), size=8)}",
            "mark_at": self.mark_at,
        }


def trade_session(market: Market, session: pd.Timestamp, account: Account, decider: Decider) -> SessionResult:
    """Open the session, call the decider, fill its orders, mark the holdings.

    Corporate actions come first. The decider is given the view at the open and the account after corporate
    actions; its orders meet quotes of the whole session.

    Parameters
    ----------
    account
        At the end of the session before.
    """
    view = market.store.growing_view(market.data_ref).at(Moment(session, "open"))
    view.growing_view_id = None  # the next session may be of another run
    return _traded(market, account, under(decider, market.rules), view)


def simulate(
    market: Market, sessions: Iterable[object], decider: Decider, *, account: Account
) -> Iterator[SessionResult]:
    """Trade one session after the other, order by order, and yield the results.

    Raises
    ------
    BadWindow
        If they are not consecutive sessions of the data.
    """
    decider, growing_view = under(decider, market.rules), market.store.growing_view(market.data_ref)
    for session in _checked(market, sessions):
        result = _traded(market, account, decider, growing_view.at(Moment(session, "open")))
        yield result
        account = result.account


def advance(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    account: Account,
    growing_view: GrowingView | None = None,
) -> Iterator[SessionResult | Block]:
    """Trade sessions in blocks where the decider has a :class:`BlockRule`, else one by one.

    ``growing_view`` is one of the market's commit; calls for successive parts of a run share one.
    """
    decider, growing_view = (
        under(decider, market.rules),
        growing_view or market.store.growing_view(market.data_ref),
    )
    left, blocks = list(sessions), market.cells >= market.blocks_from
    while left:
        rule = _block_rule(decider, account) if blocks else None
        block = rule and _trade_block(market, left[:BLOCK_SESSIONS], rule, account)
        if block:
            yield block
            account, left = block.account, left[len(block.sessions) :]
        else:
            result = _traded(market, account, decider, growing_view.at(Moment(left[0], "open")))
            yield result
            account, left = result.account, left[1:]


def run_identity(market: Market, decider: Decider) -> dict[str, Any]:
    """What must not change within a run: the market's identity, and the decider with its options."""
    options = dict(getattr(decider, "options", {}))
    return {**market.identity, "decider": decider.name, "options": options}


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
    ledger.open_run(run_id, cash, run_identity(market, decider))
    recorded = ledger.sessions(run_id)
    if recorded != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that are not the first of the {len(days)} given",
            run_id=run_id,
        )
    commit_sessions(market, days[len(recorded) :], decider, ledger=ledger, run_id=run_id)
    return ledger.account(run_id)


def commit_sessions(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    ledger: Ledger,
    run_id: str,
    growing_view: GrowingView | None = None,
    on_session: Callable[[pd.Timestamp, Decimal], None] = lambda _session, _value: None,
) -> None:
    """Trade sessions that follow the last one of a run, and commit each as one transaction.

    For ``growing_view`` see :func:`advance`. ``on_session`` is called with each committed session and the
    account's value at its end.
    """
    account = ledger.account(run_id)
    for done in advance(market, sessions, decider, account=account, growing_view=growing_view):
        if isinstance(done, SessionResult):
            ledger.commit_day(run_id, done)
            values = [(done.session, done.value)]
        else:
            ledger.commit_block(run_id, account, done.days, done.account)
            values = list(zip(done.sessions, done.values, strict=True))
        for session, value in values:
            on_session(session, value)
        account = done.account


def under(decider: Decider, rules: Rulebook) -> Decider:
    """The decider with these rules, if it has ``under``; see :class:`~quantgraph.broker.Decider`.

    Raises
    ------
    BadOption
        If it was made with other rules.
    """
    bind = getattr(decider, "under", None)
    bound: Decider = bind(rules) if bind else decider
    return bound


def _traded(market: Market, account: Account, decider: Decider, view: View) -> SessionResult:
    """Trade the session of ``view``, which is the decider's; quotes come from the store."""
    opened = open_session(market, view.moment.session, account)
    return fill_orders(opened, decider.name, collect_orders(decider, view, opened.account))


def _block_rule(decider: Decider, account: Account) -> BlockRule | None:
    ask = getattr(decider, "block_rule", None)
    rule: BlockRule | None = ask(account.copy()) if ask else None
    return rule


def _trade_block(
    market: Market, sessions: Sequence[pd.Timestamp], rule: BlockRule, account: Account
) -> Block | None:
    from quantgraph.broker.vectorized import trade_block  # numba takes a second to import

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
