"""Random markets, signals and deciders from a seed: gaps, limits, ex-dates, splits, delistings, nonsense orders."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd

from quantgraph.broker import Decider, Market, Order
from quantgraph.market import Rulebook
from quantgraph.state import DataState

D = Decimal
CN = ("600000.SH", "000001.SZ", "300750.SZ", "688981.SH", "920002.BJ", "510300.SH", "511880.SH", "513100.SH")
US = ("AAPL", "BRK.B", "F", "MSFT", "T", "ZZZZ")
SAME_DAY = {"511880.SH", "513100.SH", *US}
"""Bond and cross-border funds, and US shares, may be sold on the day they were bought."""

STRANGE = ("", "CASH", "999999.SH", "600000.sh", "159915.SZ", "113001.SH", "aapl", "TSLA", "000002.SZ")
REASONS = ("", "试一试", 'a "quoted"\nline', "\u2028 \\ \x00 {} \ud83d", "signal 1")
STARTS = ("2016-01-04", "2021-11-15", "2023-08-23", "2024-01-02", "2025-10-09")


def weekdays(start: str, count: int) -> pd.DatetimeIndex:
    return pd.bdate_range(start, periods=count).as_unit("us")


class World(NamedTuple):
    """Frames of a market by field, and a signal; ``cut`` and ``shuffled`` make others of them."""

    frames: dict[str, pd.DataFrame]
    signal: pd.DataFrame

    @property
    def sessions(self) -> list[pd.Timestamp]:
        return list(self.frames["open"].index)

    @property
    def symbols(self) -> list[str]:
        return sorted(self.frames["open"].columns)

    def cut(self, rows: int) -> World:
        return World(
            {name: frame.iloc[:rows] for name, frame in self.frames.items()}, self.signal.iloc[:rows]
        )

    def shuffled(self, seed: int) -> World:
        rng = random.Random(seed)

        def shuffle(frame: pd.DataFrame) -> pd.DataFrame:
            return frame[rng.sample(list(frame.columns), len(frame.columns))]

        return World({name: shuffle(frame) for name, frame in self.frames.items()}, shuffle(self.signal))

    def market(self, rules: Rulebook, mark_at: str = "close") -> Market:
        store = DataState()
        store.update("ohlcv", self.frames)
        ref = store.update("signal", {"noise": self.signal})
        return Market(store=store, data_ref=ref, rules=rules, mark_at=mark_at, blocks_from=0)


def random_world(seed: int, *, market: str, symbols: int, sessions: int, calm: bool = False) -> World:
    """A market of ``sessions`` rows; ``calm`` has no corporate action."""
    rng = random.Random(seed)
    start = rng.choice(STARTS if market == "cn" else STARTS[1:])
    known = (
        [code for code in CN if start >= "2021" or code[:3] not in {"688", "920"}] if market == "cn" else US
    )
    codes = sorted(rng.sample(known, min(symbols, len(known))))
    days = weekdays(start, sessions)
    columns = {code: _column(rng, code, days, market, calm=calm) for code in codes}
    names = sorted({name for column in columns.values() for name in column})
    gaps = [np.nan] * sessions
    frames = {
        name: pd.DataFrame(
            {code: columns[code].get(name, gaps) for code in codes}, index=days, dtype="float64"
        )
        for name in names
    }
    for name in ("up_limit", "down_limit"):
        if rng.random() < 0.5:
            frames.pop(name, None)
    opinions = rng.choices([1.0, 1.0, 0.0, -1.0, np.nan], k=sessions * len(codes))
    signal = pd.DataFrame(np.reshape(opinions, (sessions, len(codes))), index=days, columns=codes)
    return World(frames, signal)


def _column(
    rng: random.Random, code: str, days: pd.DatetimeIndex, market: str, *, calm: bool
) -> dict[str, list[float]]:
    digits = 3 if code[:2] == "51" else 2
    step = 10**-digits
    band = 0.3 if code.endswith("BJ") else 0.2 if code[:3] in {"300", "688"} else 0.1
    price = round(rng.choice([1.0, 5.0, 20.0, 180.0]) * rng.uniform(0.8, 1.3), digits)
    rows: dict[str, list[float]] = {}
    gone = paid = False
    for place in range(len(days)):
        ratio, cash = 1.0, 0.0
        row: dict[str, float] = {}
        if place and not gone and not calm and rng.random() < 0.15:
            what = rng.choice(["dividend", "dividend", "split", "both", "delisting"])
            if what in {"dividend", "both"}:
                cash = rng.choice([0.0001, 0.023, 0.1, 0.3337])
                row |= {"dividend": cash} | _dates(rng, days, place)
            if what in {"split", "both"}:
                ratio = rng.choice([2.0, 1.3, 1.05, 1.0001, 0.5, 0.1, 1.5])
                row["split"] = ratio
            if what == "delisting" and rng.random() < 0.5:
                row["delisting"], gone = rng.choice([0.0, 0.37, price]), True
        before = max(step, round((price - cash) / ratio, digits))
        row |= {"pre_close": before, "is_st": 0.0, "vol": rng.choice([1e5, 1e5, 57.0, 3.17])}
        if market == "cn":
            row["up_limit"] = max(round(before * (1 + band), digits), round(before + step, digits))
            row["down_limit"] = max(
                step, min(round(before * (1 - band), digits), round(before - step, digits))
            )
        low, high = row.get("down_limit", before * 0.7), row.get("up_limit", before * 1.4)
        path = [before if rng.random() < 0.1 else before * rng.uniform(0.93, 1.07) for _ in range(4)]
        if rng.random() < 0.1:
            path[rng.randrange(4)] = rng.choice([low, high])
        path = [max(step, round(min(max(value, low), high), digits)) for value in path]
        row |= {"open": path[0], "close": path[3], "high": max(path), "low": min(path)}
        price = path[3]
        chance = rng.random()
        if gone:
            row = {name: row[name] for name in ("delisting",) if name in row and not paid}
            paid = True
        elif place and chance < 0.08:
            row = {name: value for name, value in row.items() if name not in {"open", "high", "low", "close"}}
            row["vol"] = 0.0
            price = before
        elif place and chance < 0.12:
            del row[rng.choice(["open", "close", "high", "low", "vol", "pre_close"])]
        for name, value in row.items():
            rows.setdefault(name, [np.nan] * len(days))[place] = value
    return rows


def _dates(rng: random.Random, days: pd.DatetimeIndex, place: int) -> dict[str, float]:
    """Some of the dates of a dividend: declared long before, in the register on the eve, paid by and by."""
    ex, eve = days[place], days[place - 1]
    dates = {
        "action_declared": ex - pd.Timedelta(days=rng.randrange(30)),
        "action_record": eve,
        "action_pay": ex + pd.Timedelta(days=rng.choice([0, 1, 4, 9, 60])),
    }
    return {name: float(f"{date:%Y%m%d}") for name, date in dates.items() if rng.random() < 0.7}


def _rounded(price: Decimal, digits: int) -> Decimal:
    return price if price > D("1e20") else round(price, digits)


class RandomDecider(Decider):
    """Every kind and size of order, sound ones and nonsense, decided by the seed, the day and the account alone."""

    name = "random"

    def __init__(self, seed: int, symbols: list[str], most: int = 8) -> None:
        self.seed, self.symbols, self.most = seed, symbols, most
        self.asked: dict[str, Counter] = {}

    def decide(self, context) -> list[Order]:
        view, account, session = context.view, context.account, context.session
        rng = random.Random(f"{self.seed} {session:%Y%m%d}")
        sequences = rng.sample(range(1, 100), rng.randrange(self.most + 1))
        opens = view.row("ohlcv", "open", session)
        orders = [self._order(rng, number, account, opens) for number in sequences]
        self.asked[f"{session:%Y-%m-%d}"] = Counter(order.sequence for order in orders)
        return orders

    def _order(self, rng: random.Random, sequence: int, account, opens) -> Order:
        held = list(account.positions)
        sells = bool(held) and rng.random() < 0.5
        symbol = rng.choice(held if sells else self.symbols) if rng.random() < 0.93 else rng.choice(STRANGE)
        price = opens.get(symbol, 10.0)
        price = D(10) if np.isnan(price) else D(str(price))
        size = rng.choice(("quantity", "quantity", "target_quantity", "target_weight", "target_value"))
        limits = (
            price,
            price,
            price * D("1.01"),
            price * D("0.97"),
            D("0.01"),
            D("10.005"),
            D("1e9"),
            D("1e40"),
        )
        kind = rng.choice(("open", "open", "close", "limit"))
        digits = 3 if rng.random() < 0.1 or symbol[:2] == "51" else 2
        return Order(
            symbol=symbol,
            side=(("sell" if sells else "buy") if rng.random() < 0.9 else "sell")
            if size == "quantity"
            else None,
            **{size: self._size(rng, size, account.quantity(symbol) if sells else 0)},
            type=kind,
            limit_price=_rounded(rng.choice(limits), digits) if kind == "limit" else None,
            sequence=sequence,
            reason=rng.choice(REASONS),
        )

    @staticmethod
    def _size(rng: random.Random, size: str, held):
        if size == "target_weight":
            return rng.choice([D(0), D("0.1"), D("0.333"), D(1), D("1.7"), D("-0.2"), D("1e12")])
        if size == "target_value":
            return rng.choice([D(0), D(5000), D("33333.33"), D("1e7"), D(-1), D("1e30")])
        sound = (100, 100, 200, 300, 1000, 201, 2300, held, held, held // 2 if held else 500)
        strange = (
            0,
            -100,
            1,
            37,
            10**6 + 100,
            10**9,
            10**40,
            D("0.5"),
            D("1.25"),
            D("100.000000001"),
            D("1e-12"),
        )
        return rng.choice(sound if rng.random() < 0.8 else strange)


def told(ledger, run_id):
    """The lines of a run without their hashes, which begin with its name: to compare runs of other names."""
    return [
        {name: value for name, value in line.items() if name != "hash"} for line in ledger.journal(run_id)
    ]
