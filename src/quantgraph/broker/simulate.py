"""The simulated session, and the plain loop over sessions for those who want no graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import action_book
from quantgraph.broker.decider import Decider
from quantgraph.broker.open_session import collect_orders, fill_orders, open_session
from quantgraph.broker.session_result import SessionResult
from quantgraph.broker.valuation import MarkAt
from quantgraph.broker.vectorized.block import Block, BlockRule, trade_block
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
"""Sessions of a block: enough to pay for its start, few enough to keep its arrays small."""


@dataclass(frozen=True, kw_only=True)
class Market:
    """What sessions are traded in.

    Attributes
    ----------
    store, data_ref
        A commit of a data state.
    rules
        The rulebook in force.
    mark_at
        The price of a session that holdings are valued at.
    blocks_from
        Cells (sessions times symbols) of the data from which on a rule that allows it is traded in blocks.
        The fills are the same; with fewer cells it is not worth the ten seconds in which a machine compiles
        the block code when it first meets it.
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
        """What a run may not change on its way: data, rules with every fee, marks."""
        rules = self.rules
        return {
            "data_ref": self.data_ref,
            "rules": f"{rules.name} {content_hash(repr(rules), size=8)}",
            "mark_at": self.mark_at,
        }


def trade_session(market: Market, session: pd.Timestamp, account: Account, decider: Decider) -> SessionResult:
    """Open the session, ask the decider, fill its orders, mark what is held.

    Corporate actions come first. The decider sees the view of the open and the account of the morning; the
    desk that fills its orders knows the whole session.

    Parameters
    ----------
    market, session
        Where and when.
    account
        As the session before left it.
    decider
        Who decides.
    """
    view = market.store.growing_view(market.data_ref).at(Moment(session, "open"))
    view.growing_view_id = None  # whether the next session is of the same run nobody knows
    return _traded(market, account, under(decider, market.rules), view)


def simulate(
    market: Market, sessions: Iterable[object], decider: Decider, *, account: Account
) -> Iterator[SessionResult]:
    """Trade one session after the other, order by order, and yield what each did.

    Raises
    ------
    BadWindow
        If they are not sessions of the data that follow each other without a gap.
    """
    decider, walk = under(decider, market.rules), market.store.growing_view(market.data_ref)
    for session in _checked(market, sessions):
        result = _traded(market, account, decider, walk.at(Moment(session, "open")))
        yield result
        account = result.account


def advance(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    account: Account,
    walk: GrowingView | None = None,
) -> Iterator[SessionResult | Block]:
    """Trade sessions in blocks where the decider has a :class:`BlockRule`, else one by one.

    A decider that can be traded in blocks says how in ``block_rule(account)``; None there means that it wants
    to be asked in the next session. Who calls this for one part of a run after the other gives them the run's
    own ``walk`` over the market's commit.
    """
    decider, walk = under(decider, market.rules), walk or market.store.growing_view(market.data_ref)
    left, blocks = list(sessions), market.cells >= market.blocks_from
    while left:
        rule = _block_rule(decider, account) if blocks else None
        block = rule and trade_block(
            market.store,
            market.data_ref,
            left[:BLOCK_SESSIONS],
            rule,
            account=account,
            rules=market.rules,
            book=action_book(market.store, market.data_ref),
            mark_at=market.mark_at,
        )
        if block:
            yield block
            account, left = block.account, left[len(block.sessions) :]
        else:
            result = _traded(market, account, decider, walk.at(Moment(left[0], "open")))
            yield result
            account, left = result.account, left[1:]


def run_identity(market: Market, decider: Decider) -> dict[str, Any]:
    """What a run may not change on its way: the market's identity, and the decider with its options.

    A decider that has options says them in a mapping ``options`` of plain JSON.
    """
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

    A run that is in the ledger already goes on after its last committed session.

    Raises
    ------
    LedgerConflict
        If the ledger holds a run of this name with other cash, data, decider, rules or sessions.
    BadWindow
        If they are not sessions of the data that follow each other without a gap.
    """
    days = _checked(market, sessions)
    ledger.open_run(run_id, cash, run_identity(market, decider))
    recorded = ledger.sessions(run_id)
    if recorded != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that do not begin the {len(days)} asked for",
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
    walk: GrowingView | None = None,
    tell: Callable[[pd.Timestamp, Decimal], None] = lambda _session, _value: None,
) -> None:
    """Trade sessions that follow the last one of a run, and commit each as one transaction.

    ``walk`` is the run's own, see :func:`advance`; ``tell`` is called with each session that was committed,
    and the account's value at its end.
    """
    account = ledger.account(run_id)
    for done in advance(market, sessions, decider, account=account, walk=walk):
        if isinstance(done, Block):
            ledger.commit_block(run_id, account, done.days, done.account)
            told = zip(done.sessions, done.values, strict=True)
        else:
            ledger.commit_day(run_id, done)
            told = zip([done.session], [done.value], strict=True)
        for session, value in told:
            tell(session, value)
        account = done.account


def under(decider: Decider, rules: Rulebook) -> Decider:
    """The decider, sizing its orders by these rules; see :class:`~quantgraph.broker.Decider`.

    Raises
    ------
    BadOption
        If it was made with other rules.
    """
    bind = getattr(decider, "under", None)
    bound: Decider = bind(rules) if bind else decider
    return bound


def _traded(market: Market, account: Account, decider: Decider, view: View) -> SessionResult:
    """Trade the session at whose open ``view`` stands: the decider's; the desk reads for itself."""
    morning = open_session(market, view.moment.session, account)
    return fill_orders(morning, decider.name, collect_orders(decider, view, morning.account))


def _block_rule(decider: Decider, account: Account) -> BlockRule | None:
    ask = getattr(decider, "block_rule", None)
    rule: BlockRule | None = ask(account.copy()) if ask else None
    return rule


def _checked(market: Market, sessions: Iterable[object]) -> list[pd.Timestamp]:
    if isinstance(sessions, str):
        raise BadWindow(f"sessions={sessions!r}; a list of sessions is wanted", parameter="sessions")
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
                f"there are sessions of the data between {days[place - 1]:%Y-%m-%d} and {day:%Y-%m-%d}: "
                "dividends and splits happen in them, so none may be left out; a decider that has nothing to "
                "do returns no orders",
                session=str(day.date()),
            )
    return days
