"""A block's market and rule as arrays for the compiled code."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from quantgraph.broker.corporate_actions import action_book
from quantgraph.broker.per_commit import per_commit
from quantgraph.broker.vectorized._arrays import LARGEST, Flags, Floats, Ints, MarketArrays, RuleArrays
from quantgraph.broker.vectorized._panel import (
    STATUS_FIELDS,
    BlockTask,
    FallbackRequired,
    Placing,
    field_of,
    layout_of,
    no_panel,
    panel_of,
    signal_of,
)
from quantgraph.broker.vectorized._rule_tables import kinds_of, terms_of
from quantgraph.market.actions import CorporateAction
from quantgraph.market.order_rules import halt_days
from quantgraph.state import DataState

_LARGEST_PART = 1 << 60
_NEVER = 1 << 62


def market_of(task: BlockTask) -> MarketArrays:
    """The block's sessions for the compiled code.

    Raises
    ------
    FallbackRequired
        If fields have sessions that ``open`` does not have, or there is no signal.
    """
    fields = task.store.snapshot(task.data_ref)["ohlcv"]

    nothing = no_panel(len(task.sessions) + 1, len(task.layout.symbols))

    def panel(name: str) -> Floats:
        return panel_of(*field_of(task, "ohlcv", name), task.first, task.end) if name in fields else nothing

    past, placing = field_of(task, "ohlcv", "close")
    signal, entries, stop = nothing, np.zeros(len(task.sessions), np.bool_), _halted(task)
    if task.rule.trades:
        cells, where = signal_of(task)
        signal = panel_of(cells, where, task.first, task.end)
        entries, unclear = _entries(task, cells, where, placing)
        stop |= unclear
    kind, examples = kinds_of(task.layout.symbols, task.rules)
    era, terms = terms_of(task.rules, examples, task.days)
    if any(name in fields for name in STATUS_FIELDS):
        terms["band"] = -1
    events, events_from = _events(task)
    ex, ex_from = _ex_dates(task)
    return MarketArrays(
        open=panel("open"),
        mark=panel(task.mark_at),
        close=panel("close"),
        upper=panel("up_limit"),
        lower=panel("down_limit"),
        before=panel("pre_close"),
        volume=panel("vol"),
        signal=signal,
        past=past,
        past_columns=placing.columns,
        past_rows=int((placing.rows[: max(0, task.first - 1)] >= 0).sum()),
        ex_before=_ex_before(task, placing),
        rank=task.layout.rank,
        kind=kind,
        era=era,
        terms=terms,
        entries=entries,
        stop=stop,
        events=events,
        events_from=events_from,
        ex=ex,
        ex_from=ex_from,
    )


def rule_of(task: BlockTask) -> RuleArrays:
    """Write the rule in whole numbers."""
    rule, weights = task.rule, task.rule.weights
    symbols = len(task.layout.symbols)
    share, share_of = np.full(symbols, -1 if weights is not None else 0, np.int64), np.ones(symbols, np.int64)
    for symbol, weight in (weights or {}).items():
        if symbol in task.layout.place:
            place = task.layout.place[symbol]
            share[place], share_of[place] = _parts(weight)
    ticket = -1 if rule.ticket is None else int(rule.ticket * 100)
    enough = _NEVER
    if ticket >= 0 and not rule.cash_reserve and task.mark_at == "close":
        enough = min(_NEVER, ceil(ticket / rule.max_weight) * 100)
    invested, invested_of = _parts(1 - rule.cash_reserve)
    most, most_of = _parts(rule.max_weight)
    if ticket > LARGEST:
        raise FallbackRequired
    return RuleArrays(
        trades=rule.trades,
        max_positions=-1 if rule.max_positions is None else rule.max_positions,
        ticket=ticket,
        invested=invested,
        invested_of=invested_of,
        most=most,
        most_of=most_of,
        weighted=weights is not None,
        share=share,
        share_of=share_of,
        enough=enough,
    )


@per_commit
def actions_by_symbol(store: DataState, data_ref: str) -> dict[str, tuple[CorporateAction, ...]]:
    """Corporate actions of a commit by symbol, ascending by ex-date."""
    book = action_book(store, data_ref)
    found = {
        (action.symbol, action.ex): action
        for part in (book.entitled, book.due)
        for actions in part.values()
        for action in actions
    }
    by_symbol: dict[str, list[CorporateAction]] = {}
    for key in sorted(found):
        by_symbol.setdefault(key[0], []).append(found[key])
    return {symbol: tuple(actions) for symbol, actions in by_symbol.items()}


@per_commit
def _all_ex_dates(store: DataState, data_ref: str) -> tuple[Ints, Ints]:
    """Row of the first session at or after each action's ex-date, ascending, and its column."""
    layout = layout_of(store, data_ref)
    actions = [action for rows in actions_by_symbol(store, data_ref).values() for action in rows]
    known = [action for action in actions if action.symbol in layout.place]
    rows = np.searchsorted(layout.sessions, np.array([action.ex.asm8 for action in known], "datetime64[us]"))
    columns = np.array([layout.place[action.symbol] for action in known], np.int64)
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order]


def _ex_dates(task: BlockTask) -> tuple[Ints, Ints]:
    rows, columns = _all_ex_dates(task.store, task.data_ref)
    begins = np.searchsorted(rows, np.arange(task.first, task.end + 1))
    return columns[begins[0] : begins[-1]], begins - begins[0]


def _ex_before(task: BlockTask, close: Placing) -> Ints:
    rows, columns = _all_ex_dates(task.store, task.data_ref)
    earlier = rows < task.first
    closes_before = np.concatenate([[0], np.cumsum(close.rows >= 0)])
    before = np.zeros(len(task.layout.symbols), np.int64)
    np.maximum.at(before, columns[earlier], closes_before[rows[earlier]])
    return before


def _events(task: BlockTask) -> tuple[Ints, Ints]:
    columns, ends, place = [], [0], task.layout.place
    if not task.book:
        return np.zeros(0, np.int64), np.zeros(len(task.sessions) + 1, np.int64)
    for session in task.sessions:
        actions = (*task.book.entitled.get(session, ()), *task.book.due.get(session, ()))
        columns += [place[action.symbol] for action in actions if action.symbol in place]
        ends.append(len(columns))
    return np.array(columns, np.int64), np.array(ends, np.int64)


def _halted(task: BlockTask) -> Flags:
    found = np.zeros(len(task.sessions), np.bool_)
    for place in np.flatnonzero(np.isin(task.days, np.array([*halt_days()], "datetime64[us]"))).tolist():
        found[place] = task.rules.halted(task.sessions[place].date(), "open")
    return found


def _entries(task: BlockTask, signal: Floats, where: Placing, close: Placing) -> tuple[Flags, Flags]:
    """Whether the row before a session may open positions, and whether that cannot be told here.

    It may if it is the last row of both the signal and ``close``.
    """
    before = np.arange(task.first, task.end) - 1
    last = [_last_rows(placing)[before] for placing in (where, close)]
    same = (last[0] == last[1]) & (last[0] >= 0) & (before >= 0)
    entries = same & (last[0] == before)
    unclear = same & ~entries
    if where.extra.size:
        rows = where.rows[before]
        unclear |= entries & (signal[np.ix_(rows, where.extra)] == 1).any(axis=1)
    return entries, unclear


def _last_rows(placing: Placing) -> Ints:
    """The last session up to each of which the field has a row, -1 for none."""
    known = placing.rows >= 0
    return np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))


def _parts(fraction: Fraction) -> tuple[int, int]:
    if fraction.denominator >= _LARGEST_PART:
        raise FallbackRequired
    return fraction.numerator, fraction.denominator
