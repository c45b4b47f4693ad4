"""Many sessions at once, for a decider that nobody has to ask in between.

What a :class:`BlockRule` says is traded in whole cents by array code, with the same fills as the desk would
make order by order. Where something comes up that the arrays do not know, the block ends before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial

import pandas as pd

from quantgraph.broker.account import Account
from quantgraph.broker.corporate_actions import ActionBook
from quantgraph.broker.ledger.journal import DayLines
from quantgraph.broker.valuation import MarkAt
from quantgraph.market.rulebook import Rulebook
from quantgraph.state import DataState

__all__ = ["Block", "BlockRule", "trade_block"]


@dataclass(frozen=True, kw_only=True)
class BlockRule:
    """A decider's rule as plain data, see :class:`~quantgraph.agents.SignalRule`.

    Attributes
    ----------
    name
        The decider's name.
    trades
        False lets the holdings be.
    signal
        Name of the signal; None means the only one there is.
    weights
        Share of the investable equity by symbol; None means equal shares.
    max_positions
        Most positions held; None means no limit.
    max_weight, cash_reserve
        Exact fractions.
    ticket
        Cash of one entry; None means a share of the investable equity.
    rules
        The rulebook that sizes are computed with; None means the market's.
    """

    name: str
    trades: bool
    signal: str | None = None
    weights: Mapping[str, Fraction] | None = None
    max_positions: int | None = None
    max_weight: Fraction = Fraction(1)
    cash_reserve: Fraction = Fraction(0)
    ticket: Decimal | None = None
    rules: Rulebook | None = None


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a block of sessions did.

    Attributes
    ----------
    sessions, values
        The sessions that were traded, and the account's value at the end of each.
    account
        After the last of them.
    write
        Writes their lines.
    """

    sessions: tuple[pd.Timestamp, ...]
    values: tuple[Decimal, ...]
    account: Account
    write: Callable[[], Sequence[DayLines]]

    @cached_property
    def days(self) -> Sequence[DayLines]:
        """Their lines for the journal, written when they are asked for."""
        return self.write()


def trade_block(
    store: DataState,
    data_ref: str,
    sessions: Sequence[pd.Timestamp],
    rule: BlockRule,
    *,
    account: Account,
    rules: Rulebook,
    book: ActionBook,
    mark_at: MarkAt,
) -> Block | None:
    """Trade sessions from an account on the evening before the first of them.

    Returns
    -------
    Block or None
        Some or all of the sessions, from the first on. None when the first of them needs the desk: fractions
        of shares and the US market, a volume cap, prices finer than four decimals, amounts of 10^12 and more,
        a sale above the size cap of an order, symbols on no board, limits that have to be computed from a
        symbol's status, a rule with a rulebook of its own, and holdings that are let be until none is left.

    Raises
    ------
    LedgerConflict
        If the orders do not lead to the cash and the holdings at the end, or the desk would fill what was
        refused: an error in here, found before anything is recorded.
    """
    from quantgraph.broker.vectorized._block_run import BlockRun
    from quantgraph.broker.vectorized._lines import days_of, worths_of
    from quantgraph.broker.vectorized._market import BlockTask, FallbackRequired, market_of, rule_of

    if rule.rules not in (None, rules):
        return None
    try:
        task = BlockTask.of(store, data_ref, sessions, rule, rules=rules, book=book, mark_at=mark_at)
        market, plain = market_of(task), rule_of(task)
        run = BlockRun(task=task, market=market, rule=plain, before=account, count=len(task.sessions))
        done = run.go()
        if 0 < done < run.count:  # the session after them has begun in the arrays: once more, without it
            run = BlockRun(task=task, market=market, rule=plain, before=account, count=done)
            run.go()
    except FallbackRequired:
        return None
    if not done:
        return None
    run.check()
    values = worths_of(run)
    return Block(
        sessions=tuple(task.sessions[:done]),
        values=values,
        account=run.account(),
        write=partial(days_of, run, values),
    )
