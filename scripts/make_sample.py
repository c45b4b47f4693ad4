"""Make the embedded synthetic sample: ``python scripts/make_sample.py [--check]``.

Sixty invented stocks of an A-share-like market over the XSHG sessions of 2023 to 2025. Nothing is
taken from real prices: returns are a market factor (GARCH, fat tails), a sector factor and an
idiosyncratic part (stochastic volatility, fat tails, news), each split at the open, with drifts too small
to follow, pushed through the exchange's arithmetic:

- tick 0.01 CNY; price limits around ``pre_close``, rounded half up to the tick: 10 % on the main boards,
  5 % under ST, 20 % on ChiNext and STAR, 30 % in Beijing; none in the first five sessions after a listing
  (Beijing: the first);
- on an ex-date ``pre_close = (close - cash) / (1 + bonus)`` rounded half up, and the adjustment factor
  steps by ``close / pre_close``;
- what a limit cuts off a move is lost; the session behind strives for the same limit again now and then
  and fades otherwise, so limits come in streaks without a reward for following them, and some sessions are
  locked at the open;
- a newcomer moves and trades more than it will, less so every session.

How much like a market it is, by ordinary sessions with a price limit
(tests/data/sample/test_sample_source_statistics.py holds the shipped file to these in wider bands):

==========================================================  ===============  ========
statistic                                                   aim              shipped
==========================================================  ===============  ========
standard deviation overnight / in the session               0.45 to 0.55     0.52
correlation of the move overnight with that in the session  -0.05 to 0.05    -0.01
correlation of the size of a return with log volume, mean   0.45 to 0.60     0.52
correlation of the returns of two stocks, mean              0.20 to 0.30     0.23
variance ratio of 20 sessions, mean                         0.90 to 1.05     0.99
long against out, % a year                                  near 0           0.7
limit-up behind a limit-up, % of cases                      15 to 25         18
open behind a limit-up, mean %                              1.0 to 2.5       1.9
dv_ratio and dv_ttm, 99th percentile and highest, %         below 6, near 8  6.0, 8.2
pe and pe_ttm of the profitable, lowest                     near 4           3.9, 4.4
turnover of newcomers, session 1, %                         30 to 60         35 to 46
turnover of newcomers, session 2 / session 21, mean %       25 / 3           28 / 4.6
==========================================================  ===============  ========

Long against out is the mean return of sessions behind a close with SMA5 above SMA20 less that of the other
sessions, times 242, gross. One market of three years says little about it: over a hundred other draws it
averages -0.4 with a standard deviation of 12, and the variance ratio 0.99 with one of 0.09.

Written are ``daily.parquet`` (whole numbers: prices in fen, ``vol`` in hands, amounts in CNY; accounts in
10k CNY and share counts in 10k shares as known on the day) and ``market.json`` (names by date, sectors,
member lists). Everything else is derived when the sample is loaded.

``--check`` regenerates both in memory and exits with 1 if a shipped file differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parents[1] / "src" / "quantgraph" / "data" / "sample" / "market"
SEED = 20230103
FIRST, LAST = "2023-01-03", "2025-12-31"
INDEX_CODE, INDEX_NAME, INDEX_BASE, INDEX_SIZE = "990030.SH", "合成30", 100_000, 30

SECTORS = {  # name: stocks, price/earnings, price/book, price/sales, median free float (100m CNY), beta
    "银行": (7, 6.5, 0.65, 2.2, 900.0, 0.65),
    "科技": (10, 45.0, 4.0, 6.0, 90.0, 1.30),
    "医药": (8, 35.0, 3.5, 5.0, 80.0, 0.95),
    "消费": (8, 25.0, 4.2, 3.5, 150.0, 0.90),
    "能源": (6, 11.0, 1.2, 0.9, 250.0, 0.85),
    "制造": (9, 22.0, 2.3, 1.8, 90.0, 1.10),
    "材料": (7, 18.0, 1.9, 1.3, 70.0, 1.15),
    "地产": (5, 10.0, 0.8, 0.8, 60.0, 1.05),
}
PREFIXES = (  # numbering range, suffix, stocks, first number behind the prefix, band in percent
    ("600", "SH", 8, 952, 10),
    ("601", "SH", 6, 431, 10),
    ("603", "SH", 5, 421, 10),
    ("605", "SH", 1, 461, 10),
    ("000", "SZ", 9, 341, 10),
    ("002", "SZ", 7, 411, 10),
    ("300", "SZ", 6, 431, 20),
    ("301", "SZ", 4, 841, 20),
    ("688", "SH", 7, 851, 20),
    ("689", "SH", 1, 109, 20),
    ("839", "BJ", 3, 931, 30),
    ("920", "BJ", 3, 871, 30),
)
LISTINGS = {"301844.SZ": "2023-08-15", "603425.SH": "2024-03-20", "920873.BJ": "2024-10-16"}
FREE_SESSIONS = {"BJ": 1}
FREE_SESSIONS_ELSEWHERE = 5
SPECIAL_TREATMENT = {  # code: prefix of the name, first session, first session without it
    "600956.SH": ("ST", "2024-04-30", None),
    "000344.SZ": ("*ST", "2023-05-05", "2024-06-12"),
}
OVERNIGHT_SHARE = 0.12  # of a return's variance without news
AFTER_LIMIT = {1: 0.20, -1: 0.15}  # chance that the next session strives for the same limit again
LOSSES = ("600956.SH", "000344.SZ", "688854.SH", "689109.SH", "300433.SZ", "839932.BJ")
BANK, MAIN, GROWTH = 0, 1, 2  # kinds of stocks: banks, others on the main boards, ChiNext, STAR and Beijing
CHEAPEST = np.array([6.5, 8.0, 16.0])  # price/earnings by kind when a report comes out
DEAREST_DIVIDEND = np.array([0.045, 0.035, 0.02])  # of the price, by kind, on the ex-date
LOUDNESS = np.array([0.6, 1.0, 1.35])  # of a stock's own returns, by kind
NEWSWORTH = np.array([0.4, 1.0, 1.0])  # of jumps, by kind
FUNDAMENTALS = (
    "total_share", "float_share", "free_share", "profit_year", "profit_ttm", "sales_year", "sales_ttm",
    "equity", "dividend_year", "dividend_ttm",
)  # fmt: skip
FEN = ("open_fen", "high_fen", "low_fen", "close_fen", "pre_close_fen")
COLUMNS = (*FEN, "vol", "amount_yuan", "adj_factor", "band", *FUNDAMENTALS)


# --- the cast -------------------------------------------------------------------------------------


@dataclass
class Stocks:
    """Constant traits, one array element a stock, in ascending order of code."""

    codes: list[str]
    sectors: list[str]
    names: list[str]
    band: np.ndarray
    listed: np.ndarray
    beta: np.ndarray
    noise: np.ndarray
    turnover: np.ndarray
    start_fen: np.ndarray
    kind: np.ndarray
    multiple: np.ndarray
    accounts: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.codes)


def make_stocks(rng: np.random.RandomState, sessions: pd.DatetimeIndex) -> Stocks:
    """Draw sectors, sizes and habits."""
    bands = {f"{pre}{first + k}.{end}": band for pre, end, n, first, band in PREFIXES for k in range(n)}
    codes = sorted(bands)
    sectors = [name for name, (count, *_) in SECTORS.items() for _ in range(count)]
    rng.shuffle(sectors)
    banks_to_main(sectors, codes, np.array([bands[code] for code in codes]))
    size = len(codes)
    trait = np.array([SECTORS[sector][1:] for sector in sectors])
    wide = np.array([bands[code] for code in codes]) > 10
    free_value = trait[:, 3] * np.exp(0.7 * rng.standard_normal(size)) * np.where(wide, 0.5, 1.0) * 10_000
    bank = np.array(sectors) == "银行"
    kind = np.where(bank, BANK, np.where(wide, GROWTH, MAIN))
    start_fen = np.rint(1200 * np.exp(0.7 * rng.standard_normal(size)) * np.where(bank, 0.6, 1.3))
    seen: dict[str, int] = {}
    names = []
    for sector in sectors:
        seen[sector] = seen.get(sector, 0) + 1
        names.append(f"合成{sector}{seen[sector]:02d}")
    return Stocks(
        codes=codes,
        sectors=sectors,
        names=names,
        band=np.array([bands[code] for code in codes]),
        listed=np.array([sessions.get_loc(LISTINGS[code]) if code in LISTINGS else 0 for code in codes]),
        beta=trait[:, 4] * np.exp(0.2 * rng.standard_normal(size)),
        noise=0.013 * np.exp(0.25 * rng.standard_normal(size)) * LOUDNESS[kind],
        turnover=np.exp(0.6 * rng.standard_normal(size)) * np.where(bank, 0.25, 1.3),
        start_fen=start_fen.astype(np.int64),
        kind=kind,
        multiple=trait[:, 0],
        accounts=make_accounts(rng, codes, trait, kind, free_value=free_value, start_fen=start_fen),
    )


def banks_to_main(sectors: list[str], codes: list[str], band: np.ndarray) -> None:
    """Banks are on the main boards and make no losses: swap those that fell elsewhere."""
    fit = (band == 10) & ~np.isin(codes, LOSSES)
    strangers = [i for i, sector in enumerate(sectors) if sector == "银行" and not fit[i]]
    places = [i for i, sector in enumerate(sectors) if sector != "银行" and fit[i]]
    for one, other in zip(strangers, places, strict=False):
        sectors[one], sectors[other] = sectors[other], sectors[one]


def make_accounts(
    rng: np.random.RandomState,
    codes: list[str],
    trait: np.ndarray,
    kind: np.ndarray,
    *,
    free_value: np.ndarray,
    start_fen: np.ndarray,
) -> dict[str, np.ndarray]:
    """Draw share counts (10k) and accounts (10k CNY) that fit the sector's multiples."""
    size = len(codes)
    free = np.rint(free_value / (start_fen / 100))
    floating = np.rint(free * (1.1 + 0.6 * rng.random_sample(size)))
    total = np.rint(floating * (1.0 + 0.6 * rng.random_sample(size)))
    value = total * start_fen / 100
    multiple = trait[:, 0] * np.exp(0.3 * rng.standard_normal(size))
    profit = value / np.maximum(multiple, CHEAPEST[kind])
    profit = np.where(np.isin(codes, LOSSES), -0.4 * profit, profit)
    sales = value / (trait[:, 2] * np.exp(0.3 * rng.standard_normal(size)))
    paid = np.where(profit > 0, np.minimum(0.3 * profit, DEAREST_DIVIDEND[kind] * value), 0.0)
    return {
        "total_share": total,
        "float_share": floating,
        "free_share": free,
        "profit_year": np.rint(profit),
        "profit_ttm": np.rint(profit * 1.02),
        "sales_year": np.rint(sales),
        "sales_ttm": np.rint(sales * 1.02),
        "equity": np.rint(value / (trait[:, 1] * np.exp(0.25 * rng.standard_normal(size)))),
        "dividend_year": np.rint(paid),
        "dividend_ttm": np.rint(paid),
    }


# --- latent returns -------------------------------------------------------------------------------


def fat_tails(rng: np.random.RandomState, freedom: int, size: Any) -> np.ndarray:
    """Student t with unit variance."""
    return np.asarray(rng.standard_t(freedom, size) * np.sqrt((freedom - 2) / freedom))


def regimes(
    rng: np.random.RandomState, days: int, drifts: tuple[float, ...], shortest: int, longest: int
) -> np.ndarray:
    """Draw a drift that stays for a while and then changes."""
    path: list[float] = []
    while len(path) < days:
        path += [drifts[rng.randint(len(drifts))]] * rng.randint(shortest, longest)
    return np.array(path[:days])


def market_returns(rng: np.random.RandomState, days: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the market factor and its volatility: GARCH(1, 1), fat tails, a small drift that changes."""
    shocks, drift = fat_tails(rng, 5, days), regimes(rng, days, (-0.0003, 0.0001, 0.0005), 40, 120)
    variance, returns, volatility = 0.0105**2, np.empty(days), np.empty(days)
    for day in range(days):
        volatility[day] = np.sqrt(variance)
        shock = volatility[day] * shocks[day]
        returns[day] = drift[day] + shock
        variance = 3.8e-6 + 0.08 * shock**2 + 0.89 * variance
    return returns, volatility


@dataclass
class Latent:
    """Wished log returns before and after the open and the day's volatility, days x stocks; its mean."""

    overnight: np.ndarray
    intraday: np.ndarray
    volatility: np.ndarray
    calm: np.ndarray


def split(
    rng: np.random.RandomState, returns: np.ndarray, volatility: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Split returns at the open into uncorrelated parts, ``OVERNIGHT_SHARE`` of the variance before it."""
    share, noise = OVERNIGHT_SHARE, rng.standard_normal(returns.shape)
    overnight = share * returns + np.sqrt(share * (1 - share)) * volatility * noise
    return overnight, returns - overnight


def latent_returns(rng: np.random.RandomState, stocks: Stocks, days: int) -> Latent:
    """Draw market, sector and own returns, each split at the open; news comes overnight."""
    size = len(stocks)
    returns, market_volatility = market_returns(rng, days)
    market = split(rng, returns, market_volatility)
    by_sector = {
        sector: split(
            rng, 0.006 * fat_tails(rng, 6, days) + regimes(rng, days, (-0.0002, 0.0, 0.0002), 30, 90), 0.006
        )
        for sector in SECTORS
    }
    trend = np.column_stack([regimes(rng, days, (-0.0003, 0.0, 0.0003), 25, 80) for _ in range(size)])
    log_volatility = np.zeros((days, size))
    for day in range(1, days):
        log_volatility[day] = 0.96 * log_volatility[day - 1] + 0.11 * rng.standard_normal(size)
    volatility = stocks.noise * np.exp(log_volatility)
    own = split(rng, trend + volatility * fat_tails(rng, 4, (days, size)), volatility)
    news = rng.random_sample((days, size)) < 0.003
    jumps = np.where(news, rng.choice([-1, 1], (days, size)) * rng.uniform(0.06, 0.24, (days, size)), 0.0)
    overnight, intraday = (
        stocks.beta * market[part][:, None]
        + np.column_stack([by_sector[name][part] for name in stocks.sectors])
        + own[part]
        for part in (0, 1)
    )
    spread = np.sqrt(volatility**2 + (stocks.beta * market_volatility[:, None]) ** 2 + 0.006**2)
    return Latent(overnight + NEWSWORTH[stocks.kind] * jumps, intraday, spread, spread.mean(axis=0))


# --- calendar of events ---------------------------------------------------------------------------


@dataclass
class Events:
    """What happens when, by session number."""

    suspended: np.ndarray
    special: np.ndarray
    dividends: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    reports: dict[int, bool] = field(default_factory=dict)


def make_events(rng: np.random.RandomState, stocks: Stocks, sessions: pd.DatetimeIndex) -> Events:
    """Draw suspensions, dividends and report dates; no stock is suspended before it has settled."""
    days, size = len(sessions), len(stocks)
    events = Events(np.zeros((days, size), dtype=bool), np.zeros((days, size), dtype=bool))
    for code, (_, since, until) in SPECIAL_TREATMENT.items():
        first = int(sessions.searchsorted(pd.Timestamp(since)))
        last = int(sessions.searchsorted(pd.Timestamp(until))) if until else days
        events.special[first:last, stocks.codes.index(code)] = True
        events.suspended[first - 1, stocks.codes.index(code)] = True
    for stock in rng.choice(size, 16, replace=False):
        start = rng.randint(stocks.listed[stock] + 20, days - 25)
        events.suspended[start : start + rng.choice([1, 1, 2, 3, 5, 8, 10, 14, 20]), stock] = True
    for year in range(2023, 2026):
        for stock in sorted(rng.choice(np.flatnonzero(~np.isin(stocks.codes, LOSSES)), 41, replace=False)):
            day = int(sessions.searchsorted(pd.Timestamp(f"{year}-05-15"))) + rng.randint(50)
            bonus = int(rng.choice([2, 3, 4])) if rng.random_sample() < 0.12 else 0
            events.dividends.setdefault(day, []).append((int(stock), bonus))
        for month_day, annual in (("04-27", True), ("08-28", False), ("10-29", False)):
            events.reports[int(sessions.searchsorted(pd.Timestamp(f"{year}-{month_day}")))] = annual
    return events


# --- the exchange ---------------------------------------------------------------------------------


def half_up(numerator: np.ndarray | int, denominator: np.ndarray | int) -> Any:
    """Integer division of positive numbers, rounded half up."""
    return (2 * numerator + denominator) // (2 * denominator)


def limits(pre_close: np.ndarray, band: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Highest and lowest price in fen; without a band a price is bounded only to be sane."""
    up = np.maximum(half_up(pre_close * (100 + band), 100), pre_close + 1)
    down = np.maximum(np.minimum(half_up(pre_close * (100 - band), 100), pre_close - 1), 1)
    return np.where(band > 0, up, pre_close * 4), np.where(band > 0, down, np.maximum(pre_close // 3, 1))


class Exchange:
    """Steps all stocks through one session after the other."""

    def __init__(self, rng: np.random.RandomState, stocks: Stocks, sessions: pd.DatetimeIndex) -> None:
        self.rng, self.stocks, self.sessions = rng, stocks, sessions
        self.events = make_events(rng, stocks, sessions)
        self.latent = latent_returns(rng, stocks, len(sessions))
        self.close = stocks.start_fen.copy()
        self.factor = np.ones(len(stocks))
        self.carried = (np.zeros(len(stocks)), np.zeros(len(stocks)))
        self.mood, self.common_mood = np.zeros(len(stocks)), 0.0
        self.accounts = {name: values.copy() for name, values in stocks.accounts.items()}
        self.due: dict[int, int] = {}
        self.paid = dict.fromkeys(np.flatnonzero(stocks.accounts["dividend_ttm"]).tolist(), -122)

    def run(self) -> dict[str, np.ndarray]:
        """Every column of the daily table as days x stocks, and ``traded``."""
        rows = [self.session(day) for day in range(len(self.sessions))]
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def session(self, day: int) -> dict[str, np.ndarray]:
        """Trade one session of all stocks."""
        listed, new = self.stocks.listed <= day, self.stocks.listed == day
        traded = listed & ~self.events.suspended[day]
        self.report(day)
        pre_close = self.reference(day, traded)
        band = self.band(day)
        up, down = limits(pre_close, band)
        debut = np.where(new & (day > 0), 0.5 + 0.3 * self.rng.random_sample(len(new)), 0.0)
        age = np.where(self.stocks.listed > 0, day - self.stocks.listed, len(self.sessions))
        young = np.where(age > 0, 0.10 * np.exp(-age / 6), 0.0)
        early, late = split(self.rng, young * self.rng.standard_normal(len(new)), young)
        gap = self.latent.overnight[day] + self.carried[0] + early + debut
        move = self.latent.intraday[day] + self.carried[1] + late
        wished = (gap, move, np.hypot(self.latent.volatility[day], young))
        prices, locked = self.prices(wished, pre_close, up, down)
        self.close = np.where(traded, prices["close_fen"], self.close)
        side = np.where(prices["close_fen"] == up, 1, np.where(prices["close_fen"] == down, -1, 0))
        self.carry(day, traded, np.where(band > 0, side, 0), band / 100)
        reached = np.log(prices["close_fen"] / pre_close)
        quantity = self.quantities(day, prices, reached, locked, age)
        state = {"pre_close_fen": pre_close, "adj_factor": self.factor.copy(), "band": band, "traded": traded}
        accounts = {name: values.copy() for name, values in self.accounts.items()}
        return prices | quantity | state | accounts | {"last_fen": self.close.copy()}

    def carry(self, day: int, traded: np.ndarray, side: np.ndarray, width: np.ndarray) -> None:
        """Draw what a limit or a suspension adds to the next session, before its open and after it.

        Behind a limit the next session strives for it again, or opens a little further and fades: the two
        cancel on average, so that neither following nor fading a limit pays.
        """
        rng, size = self.rng, len(side)
        again = rng.random_sample(size) < np.where(side > 0, AFTER_LIMIT[1], AFTER_LIMIT[-1])
        strength = width * rng.uniform(1.0, 1.5, size)
        early = np.where(again, rng.uniform(0.2, 0.9, size) * strength, 0.004)
        late = np.where(again, strength - early, -0.020 + 0.025 * rng.standard_normal(size))
        surprise = 0.10 * rng.standard_normal(size) * self.ends_tomorrow(day)
        self.carried = (
            np.where(traded, side * early, self.carried[0] + surprise),
            np.where(traded, side * late, self.carried[1]),
        )

    def ends_tomorrow(self, day: int) -> np.ndarray:
        """Tell whose suspension ends with this session."""
        following = min(day + 1, len(self.sessions) - 1)
        return np.asarray(self.events.suspended[day] & ~self.events.suspended[following])

    def band(self, day: int) -> np.ndarray:
        """Give the price limits of the session in percent, 0 for none."""
        band = np.where(self.events.special[day], 5, self.stocks.band)
        age = day - self.stocks.listed
        free = np.array([FREE_SESSIONS.get(code[-2:], FREE_SESSIONS_ELSEWHERE) for code in self.stocks.codes])
        return np.asarray(np.where((self.stocks.listed > 0) & (age >= 0) & (age < free), 0, band))

    def report(self, day: int) -> None:
        """Accounts published before this session; prices have led them towards the sector's multiple."""
        if day not in self.events.reports:
            return
        size, books = len(self.stocks), self.accounts
        value = self.close / 100 * books["total_share"]
        expected = np.log(value / np.maximum(np.abs(books["profit_ttm"]), 1.0) / self.stocks.multiple)
        growth = np.exp(0.015 + 0.15 * np.clip(expected, -1, 1) + 0.10 * self.rng.standard_normal(size))
        better = np.where(books["profit_ttm"] > 0, growth, 1 / growth)
        most = value / CHEAPEST[self.stocks.kind]
        books["profit_ttm"] = np.rint(np.minimum(books["profit_ttm"] * better, most))
        books["sales_ttm"] = np.rint(books["sales_ttm"] * (0.4 + 0.6 * growth))
        books["equity"] = np.rint(
            books["equity"] + np.maximum(books["profit_ttm"] / 4, -0.02 * books["equity"])
        )
        if self.events.reports[day]:
            books["profit_year"], books["sales_year"] = books["profit_ttm"].copy(), books["sales_ttm"].copy()

    def reference(self, day: int, traded: np.ndarray) -> np.ndarray:
        """``pre_close`` of the session, after dividends that go ex; one due in a suspension waits."""
        self.due.update(self.events.dividends.get(day, []))
        pre_close = self.close.copy()
        self.forget(day)
        for stock in sorted(self.due):
            if not traded[stock] or day - self.stocks.listed[stock] < 20:
                continue
            bonus = self.due.pop(stock)
            pre_close[stock] = self.go_ex(day, stock, bonus)
            self.factor[stock] = round(self.factor[stock] * self.close[stock] / pre_close[stock], 6)
        return pre_close

    def go_ex(self, day: int, stock: int, bonus: int) -> int:
        """Pay in cash and in ``bonus`` new shares for ten; the ex price in fen."""
        books, close = self.accounts, int(self.close[stock])
        share = 0.2 + 0.2 * self.rng.random_sample()
        cash = int(
            max(10, round(1000 * share * max(books["profit_year"][stock], 0) / books["total_share"][stock]))
        )
        cash = min(cash, int(close * 10 * DEAREST_DIVIDEND[self.stocks.kind[stock]]))
        amount = float(np.rint(cash / 1000 * books["total_share"][stock]))
        self.paid[stock] = day
        books["dividend_year"][stock] = books["dividend_ttm"][stock] = amount
        books["equity"][stock] -= amount
        for name in ("total_share", "float_share", "free_share"):
            books[name][stock] = np.rint(books[name][stock] * (10 + bonus) / 10)
        return int(half_up((close * 10 - cash) * 10, 10 * (10 + bonus)))

    def forget(self, day: int) -> None:
        """Drop the trailing dividend a year after it went ex; until then the next annual one replaces it."""
        for stock in [stock for stock, since in self.paid.items() if since == day - 242]:
            self.accounts["dividend_ttm"][stock] = 0.0
            del self.paid[stock]

    def prices(
        self,
        wished: tuple[np.ndarray, np.ndarray, np.ndarray],
        pre_close: np.ndarray,
        up: np.ndarray,
        down: np.ndarray,
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Draw open, high, low and close in fen, and who is locked at the limit.

        Wished are the log moves to the open and from there to the close, and the volatility.
        """
        gap, move, sigma = wished
        rng, size = self.rng, len(gap)
        opened = self.to_ticks(pre_close * np.exp(gap), up, down)
        closed = self.to_ticks(pre_close * np.exp(gap + move), up, down)
        start, stop, spread = np.log(opened), np.log(closed), 0.85 * sigma
        reach = [
            np.sqrt((stop - start) ** 2 - 2 * spread**2 * np.log(1 - rng.random_sample(size))) for _ in "hl"
        ]
        highest = self.to_ticks(np.exp((start + stop + reach[0]) / 2), up, down)
        lowest = self.to_ticks(np.exp((start + stop - reach[1]) / 2), up, down)
        at_limit = (opened == closed) & ((opened == up) | (opened == down))
        locked = at_limit & (rng.random_sample(size) < 0.7)
        high = np.where(locked, opened, np.maximum(highest, np.maximum(opened, closed)))
        low = np.where(locked, opened, np.minimum(lowest, np.minimum(opened, closed)))
        return {"open_fen": opened, "high_fen": high, "low_fen": low, "close_fen": closed}, locked

    @staticmethod
    def to_ticks(price: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        """Round to the tick and keep within the limits."""
        return np.asarray(np.clip(np.rint(price).astype(np.int64), down, up))

    def quantities(
        self,
        day: int,
        prices: dict[str, np.ndarray],
        reached: np.ndarray,
        locked: np.ndarray,
        age: np.ndarray,
    ) -> dict[str, np.ndarray]:
        """Draw volume (hands) and the amount (CNY) that fits the prices."""
        rng, size, sigma = self.rng, len(reached), self.latent.volatility[day]
        self.mood = 0.9 * self.mood + 0.10 * rng.standard_normal(size)
        self.common_mood = 0.9 * self.common_mood + 0.05 * rng.standard_normal()
        excitement = self.mood + self.common_mood + 0.6 * np.log(sigma / self.latent.calm)
        excitement += 0.30 * np.minimum(np.abs(reached) / self.latent.calm, 5.0)
        percent = np.exp(excitement + 0.18 * rng.standard_normal(size) - 0.25)
        percent = self.stocks.turnover * percent * np.where(locked, 0.08, 1.0)
        fresh = 25.0 * np.exp(-(age - 1) / 9) * np.exp(0.15 * rng.standard_normal(size))
        percent = np.where(age == 0, rng.uniform(35.0, 60.0, size), np.minimum(percent + fresh, 40.0))
        vol = np.maximum(np.rint(percent * self.accounts["float_share"]), 1).astype(np.int64)
        high, low = prices["high_fen"], prices["low_fen"]
        middle = (prices["open_fen"] + high + low + 2 * prices["close_fen"]) / 5
        average = np.clip(middle + 0.1 * (high - low) * rng.standard_normal(size), low, high)
        amount = np.clip(np.rint(average * vol).astype(np.int64), low * vol, high * vol)
        return {"vol": vol, "amount_yuan": amount}


# --- the index ------------------------------------------------------------------------------------


def member_lists(
    stocks: Stocks, sessions: pd.DatetimeIndex, days: dict[str, np.ndarray]
) -> dict[str, list[str]]:
    """List the thirty largest by free float at each half-year's end and on the eve of the data."""
    start = (stocks.start_fen * stocks.accounts["free_share"], stocks.listed == 0)
    lists = {"2022-12-30": largest(stocks, *start)}
    for half in half_years(sessions):
        day = int(sessions.searchsorted(half, side="right")) - 1
        value = days["last_fen"][day] * days["free_share"][day]
        usual = (day - stocks.listed >= 60) & (days["band"][day] != 5)
        lists[f"{sessions[day]:%Y-%m-%d}"] = largest(stocks, value, usual)
    return lists


def half_years(sessions: pd.DatetimeIndex) -> list[pd.Timestamp]:
    """List the last days of the half-years."""
    years = sorted(set(sessions.year))
    return [pd.Timestamp(f"{year}-{month_day}") for year in years for month_day in ("06-30", "12-31")]


def largest(stocks: Stocks, value: np.ndarray, usual: np.ndarray) -> list[str]:
    """Pick the largest by value among those that qualify, in order of code."""
    order = np.argsort(-np.where(usual, value, -1.0), kind="stable")[:INDEX_SIZE]
    return sorted(stocks.codes[i] for i in order)


def index_rows(
    stocks: Stocks, sessions: pd.DatetimeIndex, days: dict[str, np.ndarray], lists: dict[str, list[str]]
) -> pd.DataFrame:
    """Price index weighted by free float, chained; levels in hundredths of a point."""
    last, base, rows = stocks.start_fen, float(INDEX_BASE), []
    shares = stocks.accounts["free_share"]
    for day, session in enumerate(sessions):
        current = max(listed for listed in lists if listed < f"{session:%Y-%m-%d}")
        inside = np.isin(stocks.codes, lists[current])
        before = float((last * shares * inside).sum())
        shares = days["free_share"][day]
        at = {
            name: np.where(days["traded"][day], days[f"{name}_fen"][day], last)
            for name in ("open", "high", "low", "close")
        }
        level = {name: base * float((price * shares * inside).sum()) / before for name, price in at.items()}
        top, bottom = max(level["open"], level["close"]), min(level["open"], level["close"])
        high, low = top + 0.45 * (level["high"] - top), bottom - 0.45 * (bottom - level["low"])
        rows.append((level["open"], max(high, top), min(low, bottom), level["close"], base))
        base, last = level["close"], at["close"]
    frame = pd.DataFrame(np.rint(np.array(rows)), columns=list(FEN), dtype="int64")
    return frame.assign(ts_code=INDEX_CODE, trade_date=sessions)


# --- the files ------------------------------------------------------------------------------------


def daily_rows(stocks: Stocks, sessions: pd.DatetimeIndex, days: dict[str, np.ndarray]) -> pd.DataFrame:
    """Flatten to one row a stock and traded session, by code and session."""
    day, stock = np.nonzero(days["traded"])
    order = np.lexsort((day, stock))
    day, stock = day[order], stock[order]
    columns: dict[str, Any] = {"ts_code": np.array(stocks.codes)[stock], "trade_date": sessions[day]}
    return pd.DataFrame(columns | {name: days[name][day, stock] for name in COLUMNS})


def to_arrow(rows: pd.DataFrame) -> pa.Table:
    """Give every column its type and say in the metadata that the table is synthetic."""
    kinds: dict[str, Any] = {"ts_code": pa.string(), "trade_date": pa.date32()}
    kinds |= dict.fromkeys(FEN, pa.int32()) | {
        "vol": pa.int64(),
        "amount_yuan": pa.int64(),
        "band": pa.int8(),
    }
    kinds |= dict.fromkeys(("adj_factor", *FUNDAMENTALS), pa.float64())
    schema = pa.schema([(name, kinds[name]) for name in ("ts_code", "trade_date", *COLUMNS)])
    return pa.Table.from_pandas(rows, schema=schema, preserve_index=False).replace_schema_metadata(
        {"synthetic": "true", "seed": str(SEED), "made_by": "scripts/make_sample.py"}
    )


def name_rows(stocks: Stocks) -> list[list[str]]:
    """List code, name and the day from which the name holds."""
    rows = []
    for code, name in zip(stocks.codes, stocks.names, strict=True):
        rows.append([code, name, LISTINGS.get(code, FIRST)])
        if code in SPECIAL_TREATMENT:
            prefix, since, until = SPECIAL_TREATMENT[code]
            rows.append([code, prefix + name, since])
            rows += [[code, name, until]] if until else []
    return [*rows, [INDEX_CODE, INDEX_NAME, FIRST]]


def xshg_sessions() -> pd.DatetimeIndex:
    """Ask exchange_calendars for the sessions."""
    import exchange_calendars

    calendar = exchange_calendars.get_calendar("XSHG", start="2022-12-01", end="2026-01-31")
    return pd.DatetimeIndex(calendar.sessions_in_range(FIRST, LAST)).tz_localize(None)


def make_sample() -> tuple[pa.Table, str]:
    """Make the daily table and the text of ``market.json``."""
    # RandomState, because its streams are frozen for good, unlike those of Generator.
    rng, sessions = np.random.RandomState(SEED), xshg_sessions()
    stocks = make_stocks(rng, sessions)
    days = Exchange(rng, stocks, sessions).run()
    lists = member_lists(stocks, sessions, days)
    table = to_arrow(
        pd.concat([daily_rows(stocks, sessions, days), index_rows(stocks, sessions, days, lists)])
    )
    market = {
        "synthetic": True,
        "about": "Invented by scripts/make_sample.py. No company, price or index in here is real.",
        "names": name_rows(stocks),
        "sectors": dict(zip(stocks.codes, stocks.sectors, strict=True)),
        "members": {INDEX_CODE: lists},
    }
    return table, json.dumps(market, ensure_ascii=False, indent=1) + "\n"


def write(table: pa.Table, market: str, folder: Path = FOLDER) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = [*FEN, "vol", "amount_yuan", "trade_date"]
    pq.write_table(
        table,
        folder / "daily.parquet",
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in table.column_names if name not in packed],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        write_statistics=False,
    )
    (folder / "market.json").write_text(market, encoding="utf-8")


def differences(table: pa.Table, market: str, folder: Path = FOLDER) -> list[str]:
    """Names of the shipped files whose content is not what the script makes."""
    shipped = pq.read_table(folder / "daily.parquet")
    different = [] if plain(shipped).equals(plain(table)) else ["daily.parquet"]
    same = (folder / "market.json").read_text(encoding="utf-8") == market
    return different if same else [*different, "market.json"]


def plain(table: pa.Table) -> pa.Table:
    """One chunk and no dictionary: what remains is the content."""
    codes = table["ts_code"].cast(pa.string())
    return table.set_column(0, "ts_code", codes).combine_chunks()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the shipped files, write nothing")
    if not parser.parse_args().check:
        write(*make_sample())
        return 0
    different = differences(*make_sample())
    if different:
        sys.stderr.write(f"not what the script makes: {', '.join(different)}\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
