"""Corporate actions: dividends, splits and delistings, each with the moment from which it is known.

They are read from sparse fields of the ``ohlcv`` panel, :data:`quantgraph.data.EVENT_FIELDS`, as
exact decimals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress

import numpy as np
import pandas as pd

from quantgraph.errors import BadFrame
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
        """End of the day of its announcement, and in any case the morning of ``ex``.

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
