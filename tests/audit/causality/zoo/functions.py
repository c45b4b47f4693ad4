"""Strategies that are functions: what cells cannot do, because they run afresh on nothing but their panel."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from quantgraph.market import Phase

__all__ = ["HONEST_FUNCTIONS", "LEAKY_FUNCTIONS", "UNSEEN_FUNCTIONS", "FunctionCase", "Panel", "Strategy"]

Panel = dict[str, pd.DataFrame]
"""Frames of bars by field. Decided before the close, those not known yet end a session earlier."""

Strategy = Callable[[Panel], object]


@dataclass(frozen=True, kw_only=True)
class FunctionCase:
    """A strategy that is a function ``panel -> signal``.

    Attributes
    ----------
    name
        Unique among all functions.
    make
        Given all the bars there are, a fresh strategy that remembers nothing yet.
    why
        As for a snippet.
    decide_at
        Phase of a session at which its row is decided.
    memory
        Whether a leak is all in what it keeps from earlier calls: a fresh one is honest on any panel.
    """

    name: str
    make: Callable[[Panel], Strategy]
    why: str
    decide_at: Phase = "post_close"
    memory: bool = False


def _sides(score: pd.DataFrame, width: float) -> pd.DataFrame:
    return (score > width).astype(float) - (score < -width).astype(float)


def _trend(close: pd.DataFrame, fast: int = 5, slow: int = 20) -> pd.DataFrame:
    return _sides(close.rolling(fast).mean() - close.rolling(slow).mean(), 0.0)


def _returns(close: pd.DataFrame) -> pd.DataFrame:
    return close.pct_change(fill_method=None)


# Leaky


def _longest_panel_kept(whole: Panel) -> Strategy:
    kept: Panel = {}

    def strategy(panel: Panel) -> pd.DataFrame:
        close, seen = panel["close"], kept.get("close")
        if seen is None or len(seen) < len(close):
            kept["close"] = close
            return _trend(close)
        ahead = seen.shift(-1).reindex(close.index)
        return _sides(ahead / close - 1, 0.005)

    return strategy


def _highest_price_remembered(whole: Panel) -> Strategy:
    class PeakTracker:
        def __init__(self) -> None:
            self.peak: pd.Series | None = None

        def __call__(self, panel: Panel) -> pd.DataFrame:
            running = panel["high"].cummax()
            if self.peak is not None:
                running = running.clip(lower=self.peak, axis=1)
            self.peak = running.max()
            return _sides(panel["close"] / running - 0.9, 0.05)

    return PeakTracker()


def _trained_at_each_call(whole: Panel) -> Strategy:
    weights = np.array([0.0, 1.0])

    def strategy(panel: Panel) -> pd.DataFrame:
        ret = _returns(panel["close"])
        features = np.stack([ret.to_numpy(), ret.rolling(5).mean().to_numpy()], axis=-1)
        decision = features @ weights
        target = ret.shift(-1).to_numpy()
        ok = np.isfinite(features).all(axis=-1) & np.isfinite(target)
        if ok.sum() > 2:
            weights[:] = np.linalg.lstsq(features[ok], target[ok], rcond=None)[0]
        return pd.DataFrame(np.sign(decision), index=ret.index, columns=ret.columns)

    return strategy


def _scale_of_the_first_panel(whole: Panel) -> Strategy:
    scale: pd.Series | None = None

    def strategy(panel: Panel) -> pd.DataFrame:
        nonlocal scale
        ret = _returns(panel["close"])
        if scale is None:
            scale = ret.std()
        return _sides(-ret / scale, 1.5)

    return strategy


def _cached_by_columns(whole: Panel) -> Strategy:
    current: Panel = {}

    @functools.cache
    def bounds(columns: tuple[str, ...]) -> tuple[pd.Series, pd.Series]:
        close = current["close"][list(columns)]
        return close.quantile(0.1), close.quantile(0.9)

    def strategy(panel: Panel) -> pd.DataFrame:
        current.update(panel)
        low, high = bounds(tuple(panel["close"].columns))
        close = panel["close"]
        return close.lt(low, axis=1).astype(float) - close.gt(high, axis=1).astype(float)

    return strategy


def _overwrites_its_panel(whole: Panel) -> Strategy:
    def prepare(panel: Panel) -> None:
        panel["close"] = panel["close"].shift(-1)  # in the caller's dict

    def strategy(panel: Panel) -> pd.DataFrame:
        prepare(panel)
        return _trend(panel["close"], 3, 10)

    return strategy


def _honest_while_short(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        if len(close) < 60:
            return _sides(close / close.rolling(11).mean() - 1, 0.02)
        return _sides(close / close.rolling(11, center=True).mean() - 1, 0.02)

    return strategy


def _weights_of_whole_volatility(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        weight = 1 / _returns(close).std()
        held = close > close.rolling(20).mean()
        return held.mul(weight / weight.sum(), axis=1)

    return strategy


def _optimal_weights(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        ret = _returns(panel["close"]).fillna(0.0)
        risk = np.cov(ret.to_numpy(), rowvar=False) + 1e-4 * np.eye(ret.shape[1])
        weight = np.linalg.solve(risk, ret.mean().to_numpy())
        weight /= np.abs(weight).sum()
        return pd.DataFrame(np.tile(weight, (len(ret), 1)), index=ret.index, columns=ret.columns)

    return strategy


def _array_of_zscores(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> np.ndarray:
        prices = panel["close"].to_numpy()
        z = (prices - np.nanmean(prices, axis=0)) / np.nanstd(prices, axis=0)
        return np.where(z < -1, 1.0, np.where(z > 1, -1.0, 0.0))

    return strategy


def _close_at_the_open(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        start = panel["open"]
        return _sides(panel["close"].reindex(start.index) / start - 1, 0.005)

    return strategy


def _low_at_the_open(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        start, before = panel["open"], panel["pre_close"]
        touched = panel["low"].reindex(start.index) < 0.98 * before
        return touched.astype(float) - (start > 1.01 * before).astype(float)

    return strategy


def _open_before_the_open(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        before = panel["pre_close"]
        return _sides(panel["open"].reindex(before.index) / before - 1, 0.005)

    return strategy


def _volume_before_the_close(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        start, vol = panel["open"], panel["vol"].reindex(panel["open"].index)
        heavy = vol > 1.5 * vol.rolling(10).mean()
        return heavy.astype(float).where(start > panel["pre_close"], -heavy.astype(float))

    return strategy


LEAKY_FUNCTIONS: tuple[FunctionCase, ...] = (
    FunctionCase(
        name="longest_panel_kept",
        make=_longest_panel_kept,
        why="called on less than it has seen, it looks up tomorrow in the longest panel so far",
        memory=True,
    ),
    FunctionCase(
        name="highest_price_remembered",
        make=_highest_price_remembered,
        why="an object keeps the highest price of all panels it was ever called on",
        memory=True,
    ),
    FunctionCase(
        name="trained_at_each_call",
        make=_trained_at_each_call,
        why="each call decides by what the one before has fitted, also on later sessions",
        memory=True,
    ),
    FunctionCase(
        name="scale_of_the_first_panel",
        make=_scale_of_the_first_panel,
        why="a closure keeps the volatility of the first panel, which is the whole one in a backtest",
    ),
    FunctionCase(
        name="cached_by_columns",
        make=_cached_by_columns,
        why="functools.cache by symbols alone: the bounds are those of whatever panel came first",
    ),
    FunctionCase(
        name="overwrites_its_panel",
        make=_overwrites_its_panel,
        why="a helper puts shifted closes into the caller's dict; the rule itself looks honest",
    ),
    FunctionCase(
        name="honest_while_short",
        make=_honest_while_short,
        why="with fewer than 60 sessions the window trails, with more it is centred",
    ),
    FunctionCase(
        name="weights_of_whole_volatility",
        make=_weights_of_whole_volatility,
        why="who is held is honest, how much of it is not",
    ),
    FunctionCase(
        name="optimal_weights", make=_optimal_weights, why="mean and covariance of the whole sample"
    ),
    FunctionCase(
        name="array_of_zscores", make=_array_of_zscores, why="an array of z-scores over the whole sample"
    ),
    FunctionCase(
        name="close_at_the_open",
        make=_close_at_the_open,
        why="the close of the session whose open it trades at; honest if decided after the close",
        decide_at="open",
    ),
    FunctionCase(
        name="low_at_the_open",
        make=_low_at_the_open,
        why="whether the session will touch a price is not known at its open",
        decide_at="open",
    ),
    FunctionCase(
        name="open_before_the_open",
        make=_open_before_the_open,
        why="the opening gap, for an order that must be in before the opening auction",
        decide_at="pre_open",
    ),
    FunctionCase(
        name="volume_before_the_close",
        make=_volume_before_the_close,
        why="the volume of a whole session, in its morning",
        decide_at="open",
    ),
)


# Honest


def _inverse_volatility(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        weight = 1 / _returns(panel["close"]).rolling(20).std()
        return weight.div(weight.sum(axis=1), axis=0)

    return strategy


def _long_short_by_rank(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        rank = panel["close"].pct_change(10, fill_method=None).rank(axis=1)
        tilt = rank.sub(rank.mean(axis=1), axis=0)
        return tilt.div(tilt.abs().sum(axis=1), axis=0)

    return strategy


def _minimum_variance(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        ret = _returns(panel["close"]).fillna(0.0)
        risk = np.full(ret.shape[1], 1e-4)
        rows = []
        for today in ret.to_numpy():
            risk = 0.94 * risk + 0.06 * today**2
            rows.append((1 / risk) / (1 / risk).sum())
        return pd.DataFrame(rows, index=ret.index, columns=ret.columns)

    return strategy


def _cached_by_content(whole: Panel) -> Strategy:
    known: dict[str, pd.DataFrame] = {}

    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        key = hashlib.blake2b(np.ascontiguousarray(close.to_numpy()).tobytes()).hexdigest() + str(close.shape)
        if key not in known:
            known[key] = _trend(close)
        return known[key]

    return strategy


def _continued_if_it_fits(whole: Panel) -> Strategy:
    class Incremental:
        def __init__(self) -> None:
            self.close: pd.DataFrame | None = None
            self.rows: list[np.ndarray] = []
            self.average = np.zeros(0)

        def __call__(self, panel: Panel) -> pd.DataFrame:
            close = panel["close"]
            done = len(self.rows)
            if self.close is None or len(close) < done or not close.iloc[:done].equals(self.close):
                done, self.rows, self.average = 0, [], np.full(close.shape[1], np.nan)
            for price in close.to_numpy()[done:]:
                fresh = np.where(np.isnan(self.average), price, self.average + 0.1 * (price - self.average))
                self.average = np.where(np.isnan(price), self.average, fresh)
                self.rows.append(np.sign(price - self.average))
            self.close = close
            return pd.DataFrame(self.rows, index=close.index, columns=close.columns)

    return Incremental()


def _counts_its_calls(whole: Panel) -> Strategy:
    calls: list[int] = []

    def strategy(panel: Panel) -> pd.DataFrame:
        calls.append(len(panel["close"]))  # for a log
        return _trend(panel["close"], 4, 12)

    return strategy


def _changes_its_own_copy(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        mine = {name: frame.copy() for name, frame in panel.items()}
        mine["close"] = mine["close"].shift(1)
        mine["close"].iloc[:3] = np.nan
        return _sides(mine["high"] / mine["close"] - 1.01, 0.005)

    return strategy


def _channel(panel: Mapping[str, pd.DataFrame], *, window: int) -> np.ndarray:
    close = panel["close"]
    upper, lower = panel["high"].rolling(window).max().shift(1), panel["low"].rolling(window).min().shift(1)
    return (close > upper).to_numpy() * 1 - (close < lower).to_numpy() * 1


def _partial_that_gives_an_array(whole: Panel) -> Strategy:
    return functools.partial(_channel, window=15)


def _seeded_in_the_function(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        noise = np.random.default_rng(7).standard_normal(close.shape)
        return _sides(_returns(close) + 0.01 * noise, 0.02)

    return strategy


def _gap_at_the_open(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        return _sides(1 - panel["open"] / panel["pre_close"], 0.005)

    return strategy


def _trend_of_yesterday(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        start = panel["open"]
        close = panel["close"].reindex(start.index).shift(1)
        return _trend(close).where(start.notna())

    return strategy


def _ready_before_the_open(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        last = panel["pre_close"]
        return _sides(last / last.rolling(10).mean() - 1, 0.01)

    return strategy


def _at_the_close(whole: Panel) -> Strategy:
    def strategy(panel: Panel) -> pd.DataFrame:
        return _sides(panel["close"] / panel["open"] - 1, 0.01)

    return strategy


HONEST_FUNCTIONS: tuple[FunctionCase, ...] = (
    FunctionCase(name="inverse_volatility", make=_inverse_volatility, why="weights by trailing deviations"),
    FunctionCase(name="long_short_by_rank", make=_long_short_by_rank, why="weights across one row"),
    FunctionCase(name="minimum_variance", make=_minimum_variance, why="variances that are carried forward"),
    FunctionCase(
        name="cached_by_content", make=_cached_by_content, why="remembers answers, each for its very panel"
    ),
    FunctionCase(
        name="continued_if_it_fits",
        make=_continued_if_it_fits,
        why="goes on where it stopped if the panel begins as the last one did, and anew if not",
    ),
    FunctionCase(name="counts_its_calls", make=_counts_its_calls, why="remembers what it does not use"),
    FunctionCase(
        name="changes_its_own_copy", make=_changes_its_own_copy, why="changes frames, but copies of its own"
    ),
    FunctionCase(
        name="partial_that_gives_an_array",
        make=_partial_that_gives_an_array,
        why="a functools.partial, and whole numbers in an array",
    ),
    FunctionCase(
        name="seeded_in_the_function",
        make=_seeded_in_the_function,
        why="a row's numbers do not depend on how many rows follow",
    ),
    FunctionCase(
        name="gap_at_the_open",
        make=_gap_at_the_open,
        why="the open and the close before are known at the open",
        decide_at="open",
    ),
    FunctionCase(
        name="trend_of_yesterday",
        make=_trend_of_yesterday,
        why="closes moved one session later, for a decision at the open",
        decide_at="open",
    ),
    FunctionCase(
        name="ready_before_the_open",
        make=_ready_before_the_open,
        why="the close before is known before the open",
        decide_at="pre_open",
    ),
    FunctionCase(
        name="at_the_close", make=_at_the_close, why="the close is known at the close", decide_at="close"
    ),
)


# What no panel shows


def _reads_a_panel_elsewhere(whole: Panel) -> Strategy:
    future = whole["close"].shift(-1) / whole["close"] - 1

    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        return _sides(future.reindex(index=close.index, columns=close.columns), 0.005)

    return strategy


def _dates_by_heart(whole: Panel) -> Strategy:
    market = _returns(whole["close"]).mean(axis=1)
    rises = market.index[market.shift(-1) > 0.01]

    def strategy(panel: Panel) -> pd.DataFrame:
        close = panel["close"]
        bought = pd.Series(close.index.isin(rises), index=close.index)
        return close.notna().astype(float).mul(bought.astype(float), axis=0)

    return strategy


UNSEEN_FUNCTIONS: tuple[FunctionCase, ...] = (
    FunctionCase(
        name="reads_a_panel_elsewhere",
        make=_reads_a_panel_elsewhere,
        why="the future comes from a global, which is the same whatever panel the function is given",
    ),
    FunctionCase(
        name="dates_by_heart", make=_dates_by_heart, why="the dates to buy on are constants of the code"
    ),
)
"""Functions that leak, and that no test which changes their panel can tell from honest ones."""
