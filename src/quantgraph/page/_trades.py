"""The fills of a run as round trips: what each sale closed, and what is still held at the end.

A round trip is a sale with the purchases it closes, at average cost; a position that was sold in three orders
makes three. Reasons are the ledger's codes here, and become words in :func:`reason_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.texts import Language, say
from quantgraph.page._data import RunView

Floats = NDArray[np.float64]
Kind = Literal["closed", "delisted", "open"]

_BARS = ("low", "high", "close")
_ROUNDING = 1e-6
"""Of a holding: a rest below it is none."""
_SPLIT, _FILL, _DELISTING = range(3)
"""What comes first in a session."""


class RoundTrip(NamedTuple):
    """Shares that were bought and sold, or are still held; days are places of sessions.

    ``profit`` has the charges of both sides; ``gain`` is the profit over what the shares had cost with
    charges. ``mae`` and ``mfe``: the worst and the best price on the way over the mean purchase price, less
    1. ``entry`` and ``exit`` are the places of the first purchase's fill and of the sale's, -1 without one.
    Prices, profit and gain of what is held are at the last close; NaN where the bars do not tell.
    """

    symbol: str
    kind: Kind
    opened: int
    closed: int
    quantity: float
    entry_price: float
    exit_price: float
    profit: float
    gain: float
    mae: float
    mfe: float
    entry: int
    exit: int


def round_trip_rows(view: RunView) -> pd.DataFrame:
    """The round trips of a view, a row each, in the order of their ends; what is held comes last.

    The columns are the fields of :class:`RoundTrip`, ``holding`` in sessions, and ``entry_reason`` and
    ``exit_reason`` as in the ledger.
    """
    fills = view.fills.reset_index(drop=True)
    columns, last = _Fills.of(view, fills), len(fills)
    by_symbol = fills.groupby("symbol", sort=False).indices
    bars = {name: view.bars[name].reindex(view.days.index) for name in _BARS if name in view.bars}
    trips = [
        trip
        for symbol, places in by_symbol.items()
        for trip in _trips_of(view, columns, bars, str(symbol), np.asarray(places).tolist())
    ]
    trips.sort(key=lambda trip: (trip.kind == "open", trip.closed, trip.exit if trip.exit >= 0 else last))
    table = pd.DataFrame(trips, columns=RoundTrip._fields)
    reasons = [*fills["reason"].tolist(), ""]
    return table.assign(
        holding=table["closed"] - table["opened"],
        entry_reason=[reasons[place] for place in table["entry"]],
        exit_reason=[trip.kind if trip.exit < 0 else reasons[trip.exit] for trip in trips],
    )


def trade_rows(view: RunView) -> pd.DataFrame:
    """The fills of a view with what each sale closed: ``profit, holding, mae, mfe``, NaN in purchases."""
    return with_profits(view.fills, round_trip_rows(view))


def with_profits(fills: pd.DataFrame, trips: pd.DataFrame) -> pd.DataFrame:
    """The same, of round trips that are there already."""
    fills = fills.reset_index(drop=True)
    sold = trips[trips["exit"] >= 0].set_index("exit")
    names = ("profit", "holding", "mae", "mfe")
    found: pd.DataFrame = fills.assign(
        **{name: sold[name].reindex(fills.index).astype(np.float64) for name in names}
    )
    return found


@dataclass(frozen=True, kw_only=True)
class _Fills:
    """The fills of a run by columns; ``days`` and ``sessions`` are places."""

    sessions: Mapping[str, int]
    days: NDArray[np.int64]
    sells: NDArray[np.bool_]
    columns: Sequence[Floats]

    @classmethod
    def of(cls, view: RunView, fills: pd.DataFrame) -> _Fills:
        sessions = {f"{day:%Y-%m-%d}": place for place, day in enumerate(view.days.index)}
        return cls(
            sessions=sessions,
            days=np.asarray(fills["session"].map(sessions), dtype=np.int64),
            sells=(fills["side"] == "sell").to_numpy(),
            columns=[fills[name].to_numpy() for name in ("quantity", "price", "notional", "cost")],
        )


def _trips_of(
    view: RunView, fills: _Fills, bars: Mapping[str, pd.DataFrame], symbol: str, places: Sequence[int]
) -> Iterator[RoundTrip]:
    splits = [(fills.sessions[day], _SPLIT, change) for day, change in view.splits.get(symbol, ())]
    gone = [(fills.sessions[day], _DELISTING, paid) for day, paid in view.delistings.get(symbol, ())]
    position = _Position(
        symbol=symbol,
        bars={name: frame[symbol].to_numpy(np.float64) for name, frame in bars.items() if symbol in frame},
        splits=[day for day, *_ in splits],
    )
    filled = [(int(fills.days[place]), _FILL, int(place)) for place in places]
    for day, what, value in sorted([*splits, *filled, *gone], key=lambda event: event[:2]):
        if what == _SPLIT:
            position.held += value
        elif what == _DELISTING:
            yield from position.end(day, "delisted", value / position.held if position.held else np.nan)
        else:
            place = int(value)
            quantity, price, notional, cost = (float(column[place]) for column in fills.columns)
            if fills.sells[place]:
                yield position.sell(day, place, quantity, price, notional - cost)
            else:
                position.buy(day, place, quantity, notional, cost)
    yield from position.end(len(view.days) - 1, "open", position.last_close)


@dataclass(kw_only=True)
class _Position:
    """What is held of a symbol, at average cost, and since when."""

    symbol: str
    bars: Mapping[str, Floats]
    splits: Sequence[int]
    held: float = 0.0
    paid: float = 0.0
    """What the shares cost without charges; ``spent``, with them."""
    spent: float = 0.0
    opened: int = 0
    entry: int = -1

    @property
    def last_close(self) -> float:
        close = self.bars.get("close")
        known = np.array([]) if close is None else close[~np.isnan(close)]
        return float(known[-1]) if len(known) else np.nan

    def buy(self, day: int, place: int, quantity: float, notional: float, cost: float) -> None:
        if self.held <= _ROUNDING:
            self.opened, self.entry = day, place
        self.held += quantity
        self.paid += notional
        self.spent += notional + cost

    def sell(self, day: int, place: int, quantity: float, price: float, brought: float) -> RoundTrip:
        part = min(quantity / self.held, 1.0)
        mean, cost = self.paid / self.held, self.spent * part
        worst, best = self._excursions(day, price)
        self.held, self.paid, self.spent = (
            self.held - quantity,
            self.paid * (1 - part),
            self.spent * (1 - part),
        )
        return RoundTrip(
            symbol=self.symbol,
            kind="closed",
            opened=self.opened,
            closed=day,
            quantity=quantity,
            entry_price=mean,
            exit_price=price,
            profit=brought - cost,
            gain=brought / cost - 1,
            mae=worst / mean - 1,
            mfe=best / mean - 1,
            entry=self.entry,
            exit=place,
        )

    def end(self, day: int, kind: Kind, price: float) -> Iterator[RoundTrip]:
        """What is held leaves without a sale, or stays to the end, at a price."""
        if self.held <= _ROUNDING:
            return
        # A position that lasts to the close has lived through the day's low and high.
        through = day + 1 if kind == "open" else day
        trip = self.sell(through, -1, self.held, price, self.held * price)
        yield trip._replace(kind=kind, closed=day)

    def _excursions(self, day: int, price: float) -> tuple[float, float]:
        """The worst and the best price before ``day``, and the price of the end."""
        low, high = self.bars.get("low"), self.bars.get("high")
        split = any(self.opened < each <= day for each in self.splits)  # the bars are as quoted
        if low is None or high is None or split:
            return np.nan, np.nan
        within = slice(self.opened, day)
        worst, best = np.fmin.reduce(low[within], initial=price), np.fmax.reduce(high[within], initial=price)
        return float(worst), float(best)


def per_symbol(rows: pd.DataFrame, trips: pd.DataFrame) -> pd.DataFrame:
    """A row a symbol, the largest profit or loss first.

    ``buys, sells, won`` are counts, ``profit`` is of sales, ``open_profit`` of what is held,
    ``whole`` both.
    """
    still = trips[trips["kind"] == "open"].groupby("symbol")["profit"].sum()
    sells = rows["side"] == "sell"
    table = pd.DataFrame(
        {
            "buys": (~sells).groupby(rows["symbol"]).sum(),
            "sells": sells.groupby(rows["symbol"]).sum(),
            "notional": rows["notional"].groupby(rows["symbol"]).sum(),
            "cost": rows["cost"].groupby(rows["symbol"]).sum(),
            "profit": rows["profit"].groupby(rows["symbol"]).sum(min_count=1),
            "open_profit": still.astype(np.float64),
            "won": (rows["profit"] > 0).groupby(rows["symbol"]).sum(),
        }
    )
    whole = table["profit"].fillna(0.0) + table["open_profit"].fillna(0.0)
    table["whole"] = whole
    order = whole.abs().sort_values(ascending=False, kind="stable").index
    return table.reindex(order)


def with_words(
    trips: pd.DataFrame, rows: pd.DataFrame, rule: Mapping[str, Any], language: Language
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Round trips with ``entry_words``, ``exit_words`` and ``exit_group``, fills with ``words``: for people.

    The group of an exit by a plan is its kind alone, without prices.
    """

    def of(codes: pd.Series[str], prices: pd.Series[float], *, selling: bool) -> list[str]:
        pairs = [(code, price if ", " in code else 0.0) for code, price in zip(codes, prices, strict=True)]
        known = {
            (code, price): reason_words(code, rule, language, selling=selling, price=price)
            for code, price in {*pairs}
        }
        return [known[pair] for pair in pairs]

    sells, buys = (of(rows["reason"], rows["price"], selling=selling) for selling in (True, False))
    words = np.where(rows["side"] == "sell", sells, buys)
    trips_shown = trips.assign(
        entry_words=of(trips["entry_reason"], trips["entry_price"], selling=False),
        exit_words=(ended := of(trips["exit_reason"], trips["exit_price"], selling=True)),
        exit_group=[
            _group(code, words, language) for code, words in zip(trips["exit_reason"], ended, strict=True)
        ],
    )
    return trips_shown, rows.assign(words=words)


def per_reason(trips: pd.DataFrame) -> list[dict[str, Any]]:
    """Totals by the reason of the exit, in words: ``reason, count, won, profit``, the most frequent first."""
    groups = [
        {
            "reason": str(reason),
            "count": len(group),
            "won": int((group["profit"] > 0).sum()),
            "profit": float(group["profit"].sum()),
        }
        for reason, group in trips.groupby("exit_group", sort=False)
    ]
    return sorted(groups, key=lambda group: -group["count"])


_PLANNED = re.compile(  # "stop_loss 9.5, 5% below 10"
    r"(stop_loss|take_profit|trailing_stop|max_holding) ([\d.]+)"
    r"(?:, (\S+%|\S+ ATR \S+) (below|above) ([\d.]+))?"
    r"(, reached in the entry session)?(, tried again)?"
)
_ADDED = re.compile(r"accumulate (rise|fall) (\S+%)")  # "accumulate fall 5%"
_KINDS = {
    "stop_loss": ("止损", "stop"),
    "take_profit": ("止盈", "target"),
    "trailing_stop": ("移动止损", "trailing stop"),
    "max_holding": ("持有到期", "held long enough"),
}


_LONGEST_GROUP = 40
"""Characters of a reason that several exits may share."""


def _group(code: str, words: str, language: Language) -> str:
    """The words of an exit by a plan without its prices; of another one, its words, unless they are long."""
    if planned := _PLANNED.fullmatch(code):
        return say(language, zh=_KINDS[planned[1]][0], en=_KINDS[planned[1]][1])
    is_own = len(words) > _LONGEST_GROUP and not code.startswith("signal")
    return (
        say(language, zh="模型逐次说明的理由", en="reasons of the model, each its own") if is_own else words
    )


def _plan_words(planned: re.Match[str], price: float, language: Language) -> str:
    """``stop_loss 9.20, 8% below 10, tried again``, filled at a price, for people."""
    kind, level, share, way, basis, early, again = planned.groups()
    zh, en = (f"{name} {level}" for name in _KINDS[kind])
    if share:
        zh += f"（比 {basis} {'低' if way == 'below' else '高'} {share}）"
        en += f", {share} {way} {basis}"
    at_open = bool(share) and price != float(level)  # a level that is reached later is filled at it
    paid = f"{price:.4f}".rstrip("0").rstrip(".")
    zh += "，买入当日触及" * bool(early) + "，再次尝试" * bool(again) + f"，按开盘价 {paid} 成交" * at_open
    en += f"{early or ''}{again or ''}" + f", filled {paid} at the open" * at_open
    return say(language, zh=zh, en=en)


def reason_words(
    code: str, rule: Mapping[str, Any], language: Language, *, selling: bool, price: float
) -> str:
    """A reason of the ledger for people; ``rule`` is the understood one, ``price`` the fill's.

    >>> reason_words("signal 1", {"entry": "closes above its 20-day average"}, "en", selling=False, price=9)
    'closes above its 20-day average'
    >>> reason_words("stop_loss 9.20, 8% below 10", {}, "en", selling=True, price=9.1)
    'stop 9.20, 8% below 10, filled 9.1 at the open'
    """
    if code in {"signal 1", "signal -1"}:
        rule_words = str(rule.get("exit" if selling else "entry") or "")
        side = say(language, zh="卖出信号", en="sell signal") if selling else ""
        return rule_words or side or say(language, zh="买入信号", en="buy signal")
    if planned := _PLANNED.fullmatch(code):
        return _plan_words(planned, price, language)
    if added := _ADDED.fullmatch(code):
        way, share = added.groups()
        zh = f"比上次买入价{'高' if way == 'rise' else '低'} {share}，加仓"
        return say(language, zh=zh, en=f"{share} {'above' if way == 'rise' else 'below'} the last purchase")
    known = {
        "buy and hold": say(language, zh="买入并持有", en="buy and hold"),
        "rebalance": say(language, zh="调回目标比例", en="back to its size"),
        "accumulate schedule": say(language, zh="定期买入", en="regular purchase"),
        "open": say(language, zh="期末仍持有", en="still held at the end"),
        "delisted": say(language, zh="退市", en="delisted"),
    }
    return known.get(code, code)
