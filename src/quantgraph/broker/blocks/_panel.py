"""The data of a block: its market, its sessions and its rule as arrays for the compiled code.

Panels are views of the stored frames where these have the sessions and symbols of ``open``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Note
from quantgraph.broker._schedule import days_without_entries, last_of_each, trade_days
from quantgraph.broker.accounts._account import action_book, price_after_actions
from quantgraph.broker.accounts._orders import BlockRule, Quantity, normalize_quantity
from quantgraph.broker.accounts._quotes import per_commit
from quantgraph.broker.blocks._kernel import (
    ANY,
    LARGEST,
    ON_FALL,
    ON_RISE,
    ON_SCHEDULE,
    Flags,
    Floats,
    Ints,
    MarketArrays,
    RuleArrays,
)
from quantgraph.broker.blocks._lines import counted, exact_rates, kinds_of, terms_of
from quantgraph.broker.session._exits import ExitBook, average_true_ranges, range_of
from quantgraph.broker.session._session import Market
from quantgraph.market import known_from
from quantgraph.market.actions import CorporateAction
from quantgraph.market.money import ZERO
from quantgraph.market.rules import halt_days
from quantgraph.state import DataState

STATUS_FIELDS = ("is_st", "listing_day", "delisting_day")
_QUOTED = ("open", "high", "low", "close", "vol", "pre_close", "up_limit", "down_limit", *STATUS_FIELDS)
_MOST_SYMBOLS = 20_000
UNITS, LARGEST_PRICE = (10**4, 10**8), 10**6
"""How many units the currency has, and the largest price in it."""
_FEW = 0.01
"""Share of finer prices from which on a run's are such, and not those of single sessions."""

Dates = NDArray[np.datetime64]


class FallbackRequired(Exception):
    """The arrays cannot do the first session; it must be traded order by order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PanelAxes:
    """Sessions and symbols of ``open``, the axes of all panels; ``rank`` is a column's place by symbol."""

    sessions: Dates
    symbols: tuple[str, ...]
    place: dict[str, int]
    rank: Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class CellIndex:
    """Where a field's cells are: its row of each session, its column of each symbol, -1 for none."""

    rows: Ints
    columns: Ints
    same: bool
    within: bool
    extra: Ints


@dataclass(frozen=True, kw_only=True)
class BlockTask:
    """A block to be traded: consecutive sessions of the data, the first of them in row ``first``."""

    market: Market
    sessions: Sequence[pd.Timestamp]
    first: int
    axes: PanelAxes
    rule: BlockRule
    exits: ExitBook | None = None

    @classmethod
    def of(
        cls, market: Market, sessions: Sequence[pd.Timestamp], rule: BlockRule, exits: ExitBook | None = None
    ) -> BlockTask:
        """Take as many of the sessions as are consecutive in the data and have a row in every field."""
        store, data_ref = market.store, market.data_ref
        fields, axes = store.snapshot(data_ref)["ohlcv"], axes_of(store, data_ref)
        if _of_the_run(market):
            raise FallbackRequired
        days = np.array([session.asm8 for session in sessions], "datetime64[us]")
        first = int(np.searchsorted(axes.sessions, days[0]))
        there = axes.sessions[first : first + len(days)] == days[: len(axes.sessions) - first]
        for name in _QUOTED:
            if name in fields:
                rows = index_of(store, data_ref, "ohlcv", name).rows
                there &= rows[first : first + len(days)] >= 0
        count = int(np.cumprod(there).sum())
        if not count:
            raise FallbackRequired
        found = sessions[:count]
        return cls(market=market, sessions=found, first=first, axes=axes, rule=rule, exits=exits)

    @cached_property
    def unit(self) -> int:
        """How many units of the prices the currency has; money is in units where shares have parts."""
        return UNITS[1] if self.counted[0] > 1 else unit_of(self.market.store, self.market.data_ref)

    @cached_property
    def counted(self) -> tuple[int, int]:
        """How many parts a share has, and as how much a cent of money is counted."""
        return counted(self.market.rules)

    def money(self, amount: Decimal) -> int:
        """An amount as it is counted. The journal keeps its digits: two, or eight where shares have parts."""
        if amount.as_tuple().exponent not in (-2, -2 if self.counted[0] == 1 else -8):
            raise FallbackRequired
        return int(amount * 100 * self.counted[1])

    def amount(self, money: int, fine: int = 0) -> Decimal:
        """Money as an amount: with eight decimals if it is ``fine``, else with two."""
        return Decimal(money).scaleb(-8) if fine else Decimal(money // self.counted[1]).scaleb(-2)

    def shares(self, parts: int) -> Quantity:
        """Parts as shares."""
        each = self.counted[0]
        return parts if each == 1 else normalize_quantity(Decimal(parts) / each)

    def units(self, price: Decimal) -> int:
        """A price in units; it must be a multiple of one, and at most a million."""
        if price * self.unit % 1 or price > LARGEST_PRICE:
            raise FallbackRequired
        return int(price * self.unit)

    def price(self, units: int) -> Decimal:
        """Units as a price."""
        return Decimal(int(units)) / self.unit

    @property
    def end(self) -> int:
        """Row after the last session."""
        return self.first + len(self.sessions)

    def session(self, place: int) -> pd.Timestamp:
        """A session by its place, below 0 before the block."""
        return pd.Timestamp(self.axes.sessions[self.first + place])

    @property
    def days(self) -> Dates:
        """The sessions as an array."""
        return self.axes.sessions[self.first : self.end]


def is_fine(amount: Decimal) -> bool:
    """Whether an amount is written with eight decimals, as what was paid for parts of shares."""
    return amount.as_tuple().exponent == -8


def lasting_refusal(market: Market, rank: str | None) -> Note | None:
    """Why array code trades no session of a market by a plan's ``rank``.

    None where a reason of single sessions is left, such as an amount that is not in whole cents.
    """
    store, data_ref = market.store, market.data_ref
    if lasting := _of_the_run(market):
        return lasting
    if rank is not None and _ranked_by(store, data_ref, rank) is None:
        return Note(zh="排序字段的日期或证券不同", en="a rank on other days or symbols")
    if _share_of_finer(store, data_ref, UNITS[1]) > _FEW:
        return Note(zh="价格超过八位小数", en="prices finer than eight decimals")
    return None


def _of_the_run(market: Market) -> Note | None:
    """Why no session of a market can be traded by array code; None if some may."""
    fields, rules = market.store.snapshot(market.data_ref)["ohlcv"], market.rules
    if rules.volume_share is not None or not exact_rates(rules):
        return Note(zh="成交量上限或这种费用", en="a cap by volume, or fees of this kind")
    if {"open", "close", market.mark_at} - {*fields}:
        return Note(zh="缺少开盘价或收盘价", en="no opens or no closes")
    if len(axes_of(market.store, market.data_ref).symbols) > _MOST_SYMBOLS:
        return Note(zh=f"超过 {_MOST_SYMBOLS:,} 只证券", en=f"more than {_MOST_SYMBOLS:,} securities")
    return None


@per_commit
def unit_of(store: DataState, data_ref: str) -> int:
    """1e4, or 1e8 where a hundredth of the prices is no multiple of 1e-4."""
    return UNITS[_share_of_finer(store, data_ref, UNITS[0]) > _FEW]


def _share_of_finer(store: DataState, data_ref: str, unit: int) -> float:
    """The share of closes that are no multiple of a unit."""
    values = cells_of(store, data_ref, "ohlcv", "close")
    known = values[~np.isnan(values)]
    return float((np.rint(known * unit) / unit != known).mean()) if known.size else 0.0


def field_of(task: BlockTask, panel: str, name: str) -> tuple[Floats, CellIndex]:
    """All cells of a field, and where they are."""
    index = index_of(task.market.store, task.market.data_ref, panel, name)
    if not index.within:
        raise FallbackRequired
    return cells_of(task.market.store, task.market.data_ref, panel, name), index


def signal_of(task: BlockTask) -> tuple[Floats, CellIndex]:
    """The signal's cells; without one the fallback raises the error, and it trades toward weights."""
    data = task.market.store.snapshot(task.market.data_ref)
    names = list(data["signal"])
    name = task.rule.signal or (names[0] if len(names) == 1 else None)
    if name not in names or name in data["weights"]:
        raise FallbackRequired
    return field_of(task, "signal", name)


def last_known(task: BlockTask, name: str, column: int, end: int) -> tuple[float, pd.Timestamp] | None:
    """The last price of a field before row ``end``, and its session."""
    values, where = field_of(task, "ohlcv", name)
    rows = np.flatnonzero(where.rows[:end] >= 0)
    place = where.columns[column]
    known = np.flatnonzero(~np.isnan(values[: len(rows), place])) if place >= 0 else rows[:0]
    if not known.size:
        return None
    return float(values[known[-1], place]), pd.Timestamp(task.axes.sessions[rows[known[-1]]])


@per_commit
def axes_of(store: DataState, data_ref: str) -> PanelAxes:
    """Axes of a commit."""
    frame = store.snapshot(data_ref)["ohlcv"]["open"]
    symbols = tuple(frame.columns.tolist())
    rank = np.empty(len(symbols), np.int64)
    rank[sorted(range(len(symbols)), key=symbols.__getitem__)] = np.arange(len(symbols))
    return PanelAxes(
        sessions=_dates(frame),
        symbols=symbols,
        place={symbol: place for place, symbol in enumerate(symbols)},
        rank=rank,
    )


@per_commit
def index_of(store: DataState, data_ref: str, panel: str, name: str) -> CellIndex:
    """Where a field's cells are on the axes of its commit."""
    axes, frame = axes_of(store, data_ref), store.snapshot(data_ref)[panel][name]
    sessions, symbols = _dates(frame), frame.columns.tolist()
    rows, columns = _places(sessions, axes.sessions), _places(symbols, axes.symbols)
    return CellIndex(
        rows=rows,
        columns=columns,
        same=np.array_equal(sessions, axes.sessions) and tuple(symbols) == axes.symbols,
        within=bool(np.isin(sessions, axes.sessions).all()),
        extra=np.flatnonzero(_places(axes.symbols, symbols) < 0),
    )


def cells_of(store: DataState, data_ref: str, panel: str, name: str) -> Floats:
    """All cells of a field as they are stored: C order, read-only."""
    return store.snapshot(data_ref)[panel][name].to_numpy()


def panel_of(values: Floats, index: CellIndex, first: int, end: int) -> Floats:
    """Cells (end - first + 1, N) of the session before row ``first`` and of rows ``first`` to ``end - 1``.

    They are read-only, NaN where the field has no such cell, and a view where possible.
    """
    if index.same and first:
        return values[first - 1 : end]
    panel = np.full((end - first + 1, len(index.columns)), np.nan)
    if index.same:
        panel[1:] = values[:end]
        panel.flags.writeable = False
        return panel
    rows = np.array([-1, *index.rows[:end]])[first:]
    there, known = np.flatnonzero(rows >= 0), np.flatnonzero(index.columns >= 0)
    panel[np.ix_(there, known)] = values[np.ix_(rows[there], index.columns[known])]
    panel.flags.writeable = False
    return panel


@lru_cache(maxsize=4)
def no_panel(rows: int, columns: int) -> Floats:
    """The panel of a field that the data does not have: NaN."""
    panel = np.full((rows, columns), np.nan)
    panel.flags.writeable = False
    return panel


def _dates(frame: pd.DataFrame) -> Dates:
    return frame.index.to_numpy().astype("datetime64[us]")


def _places(keys: Any, wanted: Any) -> Ints:
    """Place of each ``wanted`` key among the keys, -1 for none."""
    places: Ints = pd.Index(keys).get_indexer(pd.Index(wanted)).astype(np.int64)
    return places


_LARGEST_PART, _TIE = 1 << 60, 1e-4
_LARGEST_LEVEL = 10**12
"""Largest part of a fraction of a price, in units: their product with a price and a tick fits 64 bits."""


_PANELS = {
    **{name: name for name in ("open", "high", "low", "close")},
    "upper": "up_limit",
    "lower": "down_limit",
    "before": "pre_close",
    "volume": "vol",
}
"""Fields of the data, by their name in MarketArrays."""


def market_of(task: BlockTask) -> MarketArrays:
    """The block's sessions for the compiled code."""
    fields = task.market.store.snapshot(task.market.data_ref)["ohlcv"]

    nothing = no_panel(len(task.sessions) + 1, len(task.axes.symbols))

    def panel(name: str) -> Floats:
        return panel_of(*field_of(task, "ohlcv", name), task.first, task.end) if name in fields else nothing

    past, index = field_of(task, "ohlcv", "close")
    shown, entries, stop = nothing, np.zeros(len(task.sessions), np.bool_), _halts(task)
    if task.rule.trades:
        cells, where = signal_of(task)
        shown = panel_of(cells, where, task.first, task.end)
        entries, unclear = _entries(task, cells, where, index)
        stop |= unclear
    decided, plan = _decisions(task, shown, entries), task.rule.plan
    kind, examples = kinds_of(task.axes.symbols, task.market.rules)
    era, terms = terms_of(task.market.rules, examples, task.days, task.unit)
    if task.market.rules.market == "cn" and any(name in fields for name in STATUS_FIELDS):
        terms["band"] = -1
    events, events_from = _events(task)
    ex, ex_from = _ex_dates(task)
    panels: dict[str, Any] = {name: panel(field) for name, field in _PANELS.items()}
    return MarketArrays(
        **panels,
        unit=task.unit,
        parts=task.counted[0],
        cent=task.counted[1],
        mark=panel(task.market.mark_at),
        signal=shown if plan.entry_row == "last" else decided,
        said=shown if plan.exit_on == "every" else decided,
        until=_until(task),
        shown=shown,
        ranges=_ranges(task),
        order=_order(task, nothing),
        past=past,
        past_columns=index.columns,
        past_rows=int((index.rows[: max(0, task.first - 1)] >= 0).sum()),
        ex_before=_ex_before(task, index),
        rank=task.axes.rank,
        kind=kind,
        era=era,
        terms=terms,
        entries=entries,
        stop=stop,
        **_schedules(task, entries),
        events=events,
        events_from=events_from,
        ex=ex,
        ex_from=ex_from,
    )


def decided_of(task: BlockTask, when: Any = None) -> Flags:
    """Whether the plan, or another schedule, trades on each session of the data up to the block's last."""
    _, where = signal_of(task)
    rows, days = task.axes.sessions[where.rows >= 0], task.axes.sessions[: task.end]
    schedule, market = when or task.rule.plan.trade_on, task.market.rules.market
    found: Flags = trade_days(days, schedule, rows, started=task.rule.started, market=market)
    return found


def _schedules(task: BlockTask, entries: Flags) -> dict[str, Any]:
    """By session whether nothing is bought, holdings are sized again, and more of them may be bought.

    Sets ``entries`` to False where nothing is bought.
    """
    plan, nothing = task.rule.plan, np.zeros(len(task.sessions), np.bool_)
    closed = days_without_entries(task.days, plan.no_entry_on, market=task.market.rules.market)
    entries[closed] = False
    found = {"closed": closed, "resizing": nothing, "adding": nothing}
    if task.rule.trades and plan.resizes:
        found["resizing"] = decided_of(task, plan.rebalance)[task.first :]
    if task.rule.trades and plan.accumulate is not None:
        always = plan.accumulate["on"] != "schedule"
        found["adding"] = (decided_of(task)[task.first :] | always) & ~closed
    return found


def _decisions(task: BlockTask, shown: Floats, entries: Flags) -> Floats:
    """What each session decides by: on sessions of ``trade_on`` the last 1 and -1 since the one before.

    Sets ``entries`` to False on other sessions.
    """
    plan = task.rule.plan
    if not task.rule.trades or plan.trade_on == "every":
        return shown
    cells, where = signal_of(task)
    if where.extra.size:
        raise FallbackRequired
    places, decided = np.flatnonzero(decided_of(task)), np.full(shown.shape, np.nan)
    entries[~np.isin(np.arange(task.first, task.end), places)] = False
    begins = np.concatenate([[0], np.cumsum(where.rows >= 0)])
    known = np.flatnonzero(where.columns >= 0)
    for before, place in zip([0, *places], places, strict=False):
        rows = cells[begins[before] : begins[place]][:, where.columns[known]]
        if place >= task.first and len(rows):
            decided[place - task.first, known] = last_of_each(rows)
    return decided


def _until(task: BlockTask) -> Ints:
    """The session up to which each one's opinions are: itself, or the last of ``trade_on``."""
    days, plan = np.arange(len(task.sessions)), task.rule.plan
    if not task.rule.trades or "every" in {plan.trade_on, plan.exit_on}:
        return days
    places = np.flatnonzero(decided_of(task)) - task.first
    found: Ints = np.concatenate([[-_LARGEST_PART], places])[np.searchsorted(places, days, side="right")]
    return found


def _ranges(task: BlockTask) -> Ints:
    """Average true ranges in units as of each session's close, -1 for none; before a split as after it."""
    plan, market = task.rule.plan, task.market
    if task.exits is None or not plan.ranges:
        return np.full((len(task.sessions) + 1, len(task.axes.symbols)), -1)
    ranges = average_true_ranges(market.store, market.data_ref, plan.exit_rule("any").window)
    rows = ranges.to_numpy()[max(0, task.first - 1) : task.end]
    exact = np.vstack([np.full((int(task.first == 0), rows.shape[1]), np.nan), rows]) * 10**4
    found = np.where(np.isnan(exact), -1.0, np.rint(exact)).astype(np.int64)
    for row, column in np.argwhere(np.abs(exact % 1 - 0.5) < _TIE).tolist():
        found[row, column] = int((range_of(ranges, task.axes.symbols[column], task.first + row) or 0) * 10**4)
    for t, session in enumerate(task.sessions):
        for action in task.exits.actions(session):
            place = task.axes.place.get(action.symbol, -1)
            if place >= 0 and found[t, place] > 0:
                if t and found[t - 1, place] < 0:  # the first one has two values then
                    raise FallbackRequired
                range_before = Decimal(int(found[t, place])).scaleb(-4)
                moved = price_after_actions(range_before, [replace(action, cash=ZERO)])
                found[t, place] = int(moved.scaleb(4))
    return found * (task.unit // 10**4)


def _order(task: BlockTask, nothing: Floats) -> Floats:
    """By session the values of the plan's ``rank`` that are known at its open, the lowest first."""
    rank = task.rule.plan.rank
    if rank is None:
        return nothing
    store, data_ref = task.market.store, task.market.data_ref
    if (field := _ranked_by(store, data_ref, rank)) is None:
        raise FallbackRequired
    first = int(known_from(*field) in {"pre_open", "open"})  # a row of today, or of the session before
    sign = 1 if rank.startswith("-") else -1
    values = panel_of(*field_of(task, *field), task.first, task.end)
    return sign * values[first : first + len(task.sessions)]


def _ranked_by(store: DataState, data_ref: str, rank: str) -> tuple[str, str] | None:
    """Panel and name of a rank's field, if it has the sessions and symbols of the prices."""
    panel, _, name = rank.removeprefix("-").partition(".")
    there = panel in {"ohlcv", "indicators"} and name in store.snapshot(data_ref)[panel]
    return (panel, name) if there and index_of(store, data_ref, panel, name).same else None


def rule_of(task: BlockTask) -> RuleArrays:
    """Write the rule in whole numbers."""
    plan, symbols = task.rule.plan, len(task.axes.symbols)
    traded = signal_of(task)[0].shape[1] if task.rule.trades else symbols
    kind, value = plan.sizing(traded)
    share, share_of = np.full(symbols, -1, np.int64), np.ones(symbols, np.int64)
    if kind == "weights":
        for symbol, weight in value.items():
            if symbol in task.axes.place:
                place = task.axes.place[symbol]
                share[place], share_of[place] = _parts(weight)
    else:
        share[:], share_of[:] = _parts(value) if kind == "percent" else (0, 1)
    ticket = int(value * 100) if kind == "cash" else -1
    shares = int(value * task.counted[0]) if kind == "shares" else ANY
    reserve = Fraction(plan.cash_reserve or 0)
    needs_worth = kind not in {"cash", "shares"} or reserve > 0 or task.market.mark_at != "close"
    adds = _additions_of(task)
    invested, invested_of = _parts(1 - reserve)
    band, band_of = _parts(Fraction(plan.band or 0))
    if ticket > LARGEST or (kind == "shares" and value * task.counted[0] % 1):
        raise FallbackRequired
    return RuleArrays(
        trades=task.rule.trades,
        max_positions=plan.slots(traded),
        ticket=ticket,
        shares=shares,
        invested=invested,
        invested_of=invested_of,
        share=share,
        share_of=share_of,
        needs_worth=needs_worth or adds["add_share"] > 0,
        equal=kind == "equal_weight",
        band=band,
        band_of=band_of,
        **adds,
        **_exits_of(task),
    )


_ADDS = {"schedule": ON_SCHEDULE, "rise": ON_RISE, "fall": ON_FALL}
_NO_ADDITIONS = {
    **dict.fromkeys(("adds", "times", "add_share"), 0),
    **dict.fromkeys(("by", "by_of", "add_share_of"), 1),
    "add_ticket": -1,
    "add_shares": ANY,
}


def _additions_of(task: BlockTask) -> dict[str, Any]:
    """What the plan adds to holdings as fields of RuleArrays: at 95 of 100 where they fall by 5 %."""
    plan = task.rule.plan
    adds = plan.accumulate
    if adds is None:
        return _NO_ADDITIONS
    kind, value = plan.addition
    by = 1 + Fraction(adds.get("by", 0)) * (1 if adds["on"] == "rise" else -1)
    found = {"by": by.numerator, "by_of": by.denominator, "times": adds.get("times", LARGEST)}
    if kind == "percent":
        found["add_share"], found["add_share_of"] = _parts(Fraction(value))
    else:
        of = 100 if kind == "cash" else task.counted[0]
        found["add_ticket" if kind == "cash" else "add_shares"] = int(value * of)
    odd = kind == "shares" and value * task.counted[0] % 1
    if odd or value > LARGEST // 100 or max(by.numerator, by.denominator) > _LARGEST_LEVEL // task.unit:
        raise FallbackRequired
    return {**_NO_ADDITIONS, "adds": _ADDS[adds["on"]], **found}


def _exits_of(task: BlockTask) -> dict[str, Any]:
    """The exits of the plan as fields of RuleArrays: levels are these parts of what they are counted from."""
    plan = task.exits.plan if task.exits else None
    found: dict[str, Any] = {
        "follows": plan is not None,
        "longest": -1 if plan is None or plan.max_holding is None else plan.max_holding,
        "waits": plan is not None and plan.reentry == "new_signal",
        "least": task.rule.plan.min_holding or 0,
        "cooldown": task.rule.plan.cooldown or 0,
        "ordered": task.rule.plan.rank is not None,
    }
    changes, ranges = (plan.changes, plan.ranges) if plan else ({}, {})
    for name, word in (("loss", "stop_loss"), ("trail", "trailing_stop"), ("gain", "take_profit")):
        by = Fraction(ranges.get(word, 0))
        part = 1 + Fraction(changes[word]) if word in changes else Fraction(1 if by else -1)
        of = max(part.denominator, by.denominator)
        if max(part.numerator, abs(by.numerator), of) > _LARGEST_LEVEL // task.unit:
            raise FallbackRequired
        found |= {name: int(part * of), f"{name}_by": int(by * of), f"{name}_of": of}
    return found


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
    axes = axes_of(store, data_ref)
    actions = [action for rows in actions_by_symbol(store, data_ref).values() for action in rows]
    known = [action for action in actions if action.symbol in axes.place]
    rows = np.searchsorted(axes.sessions, np.array([action.ex.asm8 for action in known], "datetime64[us]"))
    columns = np.array([axes.place[action.symbol] for action in known], np.int64)
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order]


def _ex_dates(task: BlockTask) -> tuple[Ints, Ints]:
    rows, columns = _all_ex_dates(task.market.store, task.market.data_ref)
    begins = np.searchsorted(rows, np.arange(task.first, task.end + 1))
    return columns[begins[0] : begins[-1]], begins - begins[0]


def _ex_before(task: BlockTask, close: CellIndex) -> Ints:
    rows, columns = _all_ex_dates(task.market.store, task.market.data_ref)
    earlier = rows < task.first
    closes_before = np.concatenate([[0], np.cumsum(close.rows >= 0)])
    before = np.zeros(len(task.axes.symbols), np.int64)
    np.maximum.at(before, columns[earlier], closes_before[rows[earlier]])
    return before


def _events(task: BlockTask) -> tuple[Ints, Ints]:
    columns, ends, place = [], [0], task.axes.place
    book = action_book(task.market.store, task.market.data_ref)
    if not book:
        return np.zeros(0, np.int64), np.zeros(len(task.sessions) + 1, np.int64)
    for session in task.sessions:
        actions = (*book.entitled.get(session, ()), *book.due.get(session, ()))
        columns += [place[action.symbol] for action in actions if action.symbol in place]
        ends.append(len(columns))
    return np.array(columns, np.int64), np.array(ends, np.int64)


def _halts(task: BlockTask) -> Flags:
    found = np.zeros(len(task.sessions), np.bool_)
    for place in np.flatnonzero(np.isin(task.days, np.array([*halt_days()], "datetime64[us]"))).tolist():
        found[place] = task.market.rules.halted(task.sessions[place].date(), "open")
    return found


def _entries(task: BlockTask, signal: Floats, where: CellIndex, close: CellIndex) -> tuple[Flags, Flags]:
    """Whether the row before a session may open positions, and whether that is not known here.

    It may if it is the last row of both the signal and ``close``.
    """
    before = np.arange(task.first, task.end) - 1
    last = [_last_rows(index)[before] for index in (where, close)]
    same = (last[0] == last[1]) & (last[0] >= 0) & (before >= 0)
    entries = same & (last[0] == before)
    unclear = same & ~entries
    if where.extra.size:
        rows = where.rows[before]
        unclear |= entries & (signal[np.ix_(rows, where.extra)] == 1).any(axis=1)
    return entries, unclear


def _last_rows(index: CellIndex) -> Ints:
    """The last session up to each of which the field has a row, -1 for none."""
    known = index.rows >= 0
    return np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))


def _parts(fraction: Fraction) -> tuple[int, int]:
    if fraction.denominator >= _LARGEST_PART:
        raise FallbackRequired
    return fraction.numerator, fraction.denominator
