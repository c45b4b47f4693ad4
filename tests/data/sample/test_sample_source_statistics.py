"""The embedded market moves, trades and is valued like one: statistics of the shipped file in wide bands.

The bands lie around those of large Chinese stocks; the table in scripts/make_sample.py has aims and values.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.data.sample import SampleSource
from quantgraph.data.sample._source import NO_LIMIT

Panel = dict[str, pd.DataFrame]
LISTED = {"301844.SZ": 5, "603425.SH": 5, "920873.BJ": 1}  # sessions without a limit


@pytest.fixture(scope="module")
def source() -> SampleSource:
    return SampleSource()


@pytest.fixture(scope="module")
def bars(source: SampleSource) -> Panel:
    return source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1])


@pytest.fixture(scope="module")
def ordinary(bars: Panel) -> Panel:
    """Log moves of the sessions with a price limit: overnight, intraday, both; and log volume."""
    limited = bars["up_limit"] < NO_LIMIT[0]
    moves = {
        "overnight": np.log(bars["open"] / bars["pre_close"]),
        "intraday": np.log(bars["close"] / bars["open"]),
        "day": np.log(bars["close"] / bars["pre_close"]),
        "volume": np.log(bars["vol"]),
    }
    return {name: frame.where(limited) for name, frame in moves.items()}


@pytest.fixture(scope="module")
def indicators(source: SampleSource) -> Panel:
    return source.indicators(source.symbols(), source.sessions()[0], source.sessions()[-1])


def pooled(frame: pd.DataFrame) -> np.ndarray:
    values = frame.to_numpy()
    return values[~np.isnan(values)]


def test_stocks_move_half_as_much_overnight_as_in_the_session(ordinary: Panel) -> None:
    ratio = pooled(ordinary["overnight"]).std() / pooled(ordinary["intraday"]).std()
    assert 0.42 < ratio < 0.58


def test_the_session_neither_continues_nor_reverts_the_gap(ordinary: Panel) -> None:
    correlation = np.corrcoef(pooled(ordinary["overnight"]), pooled(ordinary["intraday"]))[0, 1]
    assert abs(correlation) < 0.05


def test_volume_goes_with_the_size_of_the_move(ordinary: Panel) -> None:
    assert 0.42 < ordinary["day"].abs().corrwith(ordinary["volume"]).mean() < 0.65


def test_stocks_move_together(ordinary: Panel) -> None:
    pairs = ordinary["day"].corr().to_numpy()[np.triu_indices(60, 1)]
    assert 0.17 < pairs.mean() < 0.33


def test_twenty_sessions_vary_about_twenty_times_as_much_as_one(ordinary: Panel) -> None:
    ratios = []
    for code in ordinary["day"]:
        day = ordinary["day"][code].dropna()
        ratios.append(day.rolling(20).sum().var() / (20 * day.var()))
    assert 0.85 < np.mean(ratios) < 1.10


def test_a_moving_average_rule_earns_about_as_much_as_its_opposite(bars: Panel) -> None:
    held, out = [], []
    for code in bars["close"]:
        price = (bars["close"][code] * bars["adj_factor"][code]).dropna()
        slow = price.rolling(20).mean()
        above = (price.rolling(5).mean() > slow)[slow.notna()].shift().dropna().astype(bool)
        returns = price.pct_change()[above.index]
        held.append(returns[above])
        out.append(returns[~above])
    assert min(sum(map(len, held)), sum(map(len, out))) > 15_000
    assert abs(pd.concat(held).mean() - pd.concat(out).mean()) * 242 < 0.10


def test_some_limit_ups_are_followed_by_another_and_most_by_a_higher_open(bars: Panel) -> None:
    again, opens = [], []
    for code in bars["close"]:
        stock = pd.DataFrame(
            {name: bars[name][code] for name in ("open", "close", "pre_close", "up_limit")}
        ).dropna()
        up = stock["close"] == stock["up_limit"]
        behind = up.shift(fill_value=False)
        again.append(up[behind])
        opens.append((stock["open"] / stock["pre_close"] - 1)[behind])
    assert len(pd.concat(again)) > 50
    assert 0.08 < pd.concat(again).mean() < 0.33
    assert 0.005 < pd.concat(opens).mean() < 0.03


def test_dividends_and_multiples_are_believable(indicators: Panel) -> None:
    for field in ("dv_ratio", "dv_ttm"):
        values = pooled(indicators[field])
        assert values.min() >= 0
        assert np.quantile(values, 0.98) < 6.5
        assert values.max() < 9
        assert 0.5 < np.median(values) < 3
    for field in ("pe", "pe_ttm"):
        values = pooled(indicators[field])
        assert values.min() > 3.5
        assert np.quantile(values, 0.01) > 4.5
        assert 10 < np.median(values) < 40


@pytest.mark.parametrize("code", LISTED)
def test_newcomers_trade_and_move_a_lot_and_calm_down_in_twenty_sessions(
    code: str, bars: Panel, indicators: Panel
) -> None:
    turnover = indicators["turnover_rate"][code].dropna().to_numpy()
    assert 30 <= turnover[0] <= 60
    assert 18 < turnover[1:4].mean() < 36
    assert turnover[4:8].mean() > turnover[9:13].mean() > turnover[17:22].mean()
    assert 1.5 < turnover[17:22].mean() < 6
    moves = np.log(bars["close"][code] / bars["pre_close"][code]).dropna().to_numpy()
    assert 0.3 < moves[0] < 0.9
    free = moves[1 : max(LISTED[code], 5)]
    assert 0.015 < np.sqrt((free**2).mean()) < 0.30
    assert moves[1:9].std() > moves[60:200].std()
