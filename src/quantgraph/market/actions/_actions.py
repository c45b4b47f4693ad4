"""Corporate actions, each with the moment from which it is known, and prices adjusted for them.

Dividends, splits and delistings are read from sparse fields of the ``ohlcv`` panel,
:data:`quantgraph.data.EVENT_FIELDS`, as exact decimals.

Prices are adjusted point in time: ``adjusted[t] = raw[t] * factor[t] / factor[as_of]``, anchored at the last
known row, so later data never changes earlier results. Prices adjusted to the end of a data set carry the
dividends of their future.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.errors import BadFrame, UnknownField
from quantgraph.market._moment import PHASES, Moment
from quantgraph.market.money._fees import ZERO, to_decimal

ACTION_FIELDS: tuple[str, ...] = ("dividend", "split", "delisting")
"""Fields whose numbers are actions; the ``action_*`` fields date them."""

DATE_FIELDS: tuple[str, ...] = ("action_declared", "action_record", "action_pay")
"""Fields that date an action, as numbers ``YYYYMMDD``."""

_NO_SPLIT = Decimal(1)

Place = tuple[pd.Timestamp, str]
Cells = dict[Place, float]


@dataclass(frozen=True, kw_only=True)
class CorporateAction:
    """One session's dividend, split and delisting of a symbol.

    Attributes
    ----------
    ex
        Ex-date: the first session whose price no longer includes it; of a delisting, the first one without
        trading.
    cash
        Dividend per share held before the split, before tax, in the market's currency; 0 for none.
    ratio
        Shares after per share before; 1 for no split.
    declared, record, pay
        Its dates, None if the data has none.
    delisting
        Cash per share paid for shares that cease to trade; None if it is not a delisting.
    """

    symbol: str
    ex: pd.Timestamp
    cash: Decimal = ZERO
    ratio: Decimal = _NO_SPLIT
    declared: pd.Timestamp | None = None
    record: pd.Timestamp | None = None
    pay: pd.Timestamp | None = None
    delisting: Decimal | None = None

    @property
    def known_from(self) -> Moment:
        """End of the day of its announcement, and in any case before the open of ``ex``.

        An announcement may come at any hour of its day, so it counts as known at the end of the day.
        """
        latest = Moment(self.ex, "pre_open")
        return latest if self.declared is None else min(Moment(self.declared), latest)

    def entitlement_session(self, sessions: pd.DatetimeIndex) -> pd.Timestamp:
        """Session before whose open a share has to be held: ``ex``, or the one after ``record`` if earlier.

        Holders in the register at the close of the record date are entitled: those who hold before the next
        open. In China that is the ex-date (register T, ex-date T+1). Where trades settle a day later, as in
        the United States since 2024-05-28 (SEC rule 15c6-1), the record date is the ex-date itself, and
        shares bought on it come too late for the register: the earlier of the ex-date and the session after
        the record date applies. A dividend that is paid before its ex-date trades with due bills (NYSE Listed
        Company Manual 703.02): a buyer before the ex-date gets it whatever the register says.

        Parameters
        ----------
        sessions
            The market's sessions, ascending.
        """
        if self.record is None or (self.pay is not None and self.pay < self.ex):
            return self.ex
        after = sessions[sessions.searchsorted(self.record, side="right") :]
        return min(self.ex, after[0]) if len(after) else self.ex


def actions_of(fields: Mapping[str, pd.DataFrame]) -> tuple[CorporateAction, ...]:
    """Read the actions of an ``ohlcv`` panel, ascending by ``ex`` and symbol.

    Parameters
    ----------
    fields
        Frames by field, of any shapes. Of these, :data:`ACTION_FIELDS` and :data:`DATE_FIELDS` are read. A
        dividend of 0 and a split of 1 are not actions.

    Raises
    ------
    BadFrame
        At the first cell that is not a possible amount or date, or is declared after its ex-date.
    """
    amounts = {name: _cells(fields, name) for name in ACTION_FIELDS}
    dates = {name: _cells(fields, name) for name in DATE_FIELDS}
    places = sorted({place for cells in amounts.values() for place in cells})
    actions = (_action(place, amounts, dates) for place in places)
    return tuple(
        action
        for action in actions
        if action.cash or action.ratio != _NO_SPLIT or action.delisting is not None
    )


class KnownActions:
    """The actions of a panel, read once and looked up at many moments."""

    def __init__(self, fields: Mapping[str, pd.DataFrame]) -> None:
        self._actions = actions_of(fields)
        self._from = np.array([_order(action.known_from) for action in self._actions], dtype=np.int64)
        self._last: tuple[CorporateAction, ...] = ()

    def at(self, moment: Moment) -> tuple[CorporateAction, ...]:
        """Those known at a moment, announced future ones too, ascending by ``ex`` and symbol."""
        known, last = self._from <= _order(moment), self._last
        # Each moment's set contains those of earlier moments, so an equal number is the same set.
        if np.count_nonzero(known) != len(last):
            last = self._last = tuple(compress(self._actions, known.tolist()))
        return last


def _order(moment: Moment) -> int:
    return moment.session.toordinal() * len(PHASES) + PHASES.index(moment.phase)


def _cells(fields: Mapping[str, pd.DataFrame], name: str) -> Cells:
    if name not in fields:
        return {}
    frame = fields[name]
    values, days, symbols = frame.to_numpy(), pd.DatetimeIndex(frame.index), frame.columns
    return {(days[row], symbols[column]): values[row, column] for row, column in _known(values)}


def _known(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Iterator[tuple[int, int]]:
    return ((int(row), int(column)) for row, column in np.argwhere(~np.isnan(values)))


def _action(place: Place, amounts: Mapping[str, Cells], dates: Mapping[str, Cells]) -> CorporateAction:
    ex, symbol = place
    declared, record, pay = (_date(name, place, dates[name].get(place)) for name in DATE_FIELDS)
    if declared is not None and declared > ex:
        raise _bad("action_declared", place, dates["action_declared"][place], "on or before the ex-date")
    ratio = _amount("split", place, amounts["split"])
    if ratio == 0:
        raise _bad("split", place, 0.0, "a number > 0")
    return CorporateAction(
        symbol=symbol,
        ex=ex,
        cash=_amount("dividend", place, amounts["dividend"]) or ZERO,
        ratio=_NO_SPLIT if ratio is None else ratio,
        declared=declared,
        record=record,
        pay=pay,
        delisting=_amount("delisting", place, amounts["delisting"]),
    )


def _amount(name: str, place: Place, cells: Cells) -> Decimal | None:
    value = cells.get(place)
    if value is None:
        return None
    if not 0 <= value < np.inf:
        raise _bad(name, place, value, "a number >= 0")
    return to_decimal(value)


def _date(name: str, place: Place, value: float | None) -> pd.Timestamp | None:
    if value is None:
        return None
    try:
        if value != int(value) or not 19000101 <= value < 22000101:
            raise ValueError(value)
        return pd.to_datetime(str(int(value)), format="%Y%m%d").as_unit("us")
    except (ValueError, OverflowError) as error:
        raise _bad(name, place, value, "a date written YYYYMMDD") from error


def _bad(name: str, place: Place, value: float, valid: str) -> BadFrame:
    ex, symbol = place
    return BadFrame(
        f"ohlcv[{name!r}] has {value:.12g} at ({ex:%Y-%m-%d}, {symbol}); it must be {valid}",
        session=f"{ex:%Y-%m-%d}",
        symbol=symbol,
        value=float(value),
    )


ADJUSTABLE: tuple[str, ...] = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit")
"""Prices that an adjustment scales."""

Fields = Mapping[str, pd.DataFrame]
Floats = NDArray[np.float64]


def action_between(before: float, reference: float) -> tuple[float, float]:
    """Shares after of one and cash a share that make a close the mainland's reference price of the next day.

    Bonus shares come in tenths; the rest is cash. The exchange rounds the reference to 0.01.

    >>> action_between(20.0, 14.07), action_between(10.0, 9.76), action_between(10.01, 5.0)
    ((1.4, 0.302), (1.0, 0.24), (2.0, 0.0))
    """
    split = max(1.0, math.floor(10 * before / (reference - 0.005)) / 10)
    cash = round(before - split * reference, 4)
    return split, cash if cash > 0.01 * (split - 1) + 1e-9 else 0.0


def adjusted(fields: Fields, name: str = "close") -> pd.DataFrame:
    """Adjust one price field.

    Parameters
    ----------
    fields
        An ``ohlcv`` panel cut at one moment; its frames may end at different rows.
    name
        One of :data:`ADJUSTABLE`.

    Returns
    -------
    DataFrame
        Shape of the raw frame, in prices of the last row that a field used has; NaN where the raw price or
        the factor is.

    Raises
    ------
    UnknownField
        If there is no such price, or no field to adjust by.
    """
    if name not in ADJUSTABLE:
        raise UnknownField(
            f"{name!r} is not a price that can be adjusted; valid are {', '.join(ADJUSTABLE)}", field=name
        )
    raw, factor = fields[name], adjustment_factors(fields)
    factor = factor.reindex(index=factor.index.union(raw.index), columns=raw.columns).ffill()
    return raw * (factor / factor.iloc[-1]).reindex(raw.index) if len(factor) else raw.copy()


def adjustment_factors(fields: Fields) -> pd.DataFrame:
    """Cumulative adjustment factor by session and symbol of ``close``, carried over sessions without trading.

    Each symbol's come from the first of these that has a number for it: ``adj_factor``; ``pre_close``
    (product of the last close before over ``pre_close``, over the sessions in which it trades; a session
    that the data lacks looks like an action there); ``dividend`` and ``split`` (the ex-date's theoretical
    price: last close before less cash, over ratio). NaN for symbols without any of them.
    """
    close = fields["close"]
    result = close * np.nan
    for names, factor_of in _METHODS:
        missing = result.columns[result.isna().all()]
        if len(missing) and names & set(fields):
            found = factor_of(fields).reindex(columns=missing)
            result = result.reindex(result.index.union(found.index)).fillna(found)
    if close.notna().any(axis=None) and result.isna().all(axis=None):
        raise UnknownField(
            "nothing to adjust prices by: ohlcv has no number in adj_factor, pre_close, dividend or split; "
            "use the raw prices, or a source that has one of them",
            field="adj_factor",
        )
    return result.ffill()


def _from_pre_close(fields: Fields) -> pd.DataFrame:
    reference = fields["pre_close"]
    step = _before(fields["close"], reference) / reference
    return step.fillna(1.0).cumprod().where(reference.notna().cummax())


def _from_actions(fields: Fields) -> pd.DataFrame:
    frames = [fields[name] for name in ("dividend", "split") if name in fields]
    sessions, symbols = fields["close"].index, frames[0].columns
    for frame in frames:
        sessions, symbols = sessions.union(frame.index), symbols.union(frame.columns)
    nothing = pd.DataFrame(np.nan, index=sessions, columns=symbols)
    cash, ratio = (
        fields.get(name, nothing).reindex_like(nothing).fillna(neutral)
        for name, neutral in (("dividend", 0.0), ("split", 1.0))
    )
    before = _before(fields["close"], nothing)
    too_much = cash >= before
    if too_much.any(axis=None):
        row, column = (int(place) for place in np.argwhere(too_much.to_numpy())[0])
        session, symbol = pd.DatetimeIndex(sessions)[row], list(symbols)[column]
        raise _too_much(session, symbol, cash.to_numpy()[row, column], before.to_numpy()[row, column])
    return (before * ratio / (before - cash)).fillna(1.0).cumprod()


def _before(close: pd.DataFrame, at: pd.DataFrame) -> pd.DataFrame:
    """Last close before each row of ``at``."""
    sessions = close.index.union(at.index)
    return close.reindex(index=sessions, columns=at.columns).ffill().shift().reindex(at.index)


_METHODS: tuple[tuple[frozenset[str], Callable[[Fields], pd.DataFrame]], ...] = (
    (frozenset({"adj_factor"}), lambda fields: fields["adj_factor"].ffill()),
    (frozenset({"pre_close"}), _from_pre_close),
    (frozenset({"dividend", "split"}), _from_actions),
)


def _too_much(session: pd.Timestamp, symbol: str, cash: float, before: float) -> BadFrame:
    return BadFrame(
        f"ohlcv['dividend'] has {cash:g} at ({session:%Y-%m-%d}, {symbol}), and the close before it is "
        f"{before:g}; it must be less",
        session=f"{session:%Y-%m-%d}",
        symbol=symbol,
    )
