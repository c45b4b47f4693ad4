"""What a view says of dividends and splits, and that the future never changes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.data import open_source
from quantgraph.errors import BadFrame, UnknownField
from quantgraph.market import Moment, sessions
from quantgraph.state import DataState

DAYS = sessions("2024-01-02", "2024-02-29")
CODES = ["000001.SZ", "600000.SH", "600519.SH"]
PHASES = ("pre_open", "open", "close", "post_close")


@pytest.fixture(scope="module")
def market(shared_data: Path) -> DataState:
    store, source = DataState(), open_source(shared_data / "stockbench")
    store.update("ohlcv", source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1]))
    return store


def coming(store: DataState, day: str, phase: str) -> dict[str, str]:
    """Ex-dates after a moment that are known at it."""
    view = store.view(Moment.at(day, phase))
    return {a.symbol: f"{a.ex:%Y-%m-%d}" for a in view.actions() if a.ex > view.moment.session}


def test_an_announced_dividend_is_known_from_the_end_of_its_day(market: DataState) -> None:
    # dividends.csv: AAPL declared on 2025-05-01, ex 2025-05-12.
    assert "AAPL" not in coming(market, "2025-05-01", "close")
    assert coming(market, "2025-05-01", "post_close")["AAPL"] == "2025-05-12"


def test_one_without_an_announcement_is_known_in_the_morning_of_its_ex_date(market: DataState) -> None:
    # The only row of dividends.csv without a declaration: UNH, ex 2025-06-16.
    def known(day: str, phase: str) -> bool:
        actions = market.view(Moment.at(day, phase)).actions()
        return any(a.symbol == "UNH" and a.ex == pd.Timestamp("2025-06-16") for a in actions)

    assert not known("2025-06-13", "post_close")
    assert known("2025-06-16", "pre_open")


def test_no_view_shows_a_declaration_of_its_future(market: DataState) -> None:
    everything = market.view(Moment.at("2025-06-30")).actions()
    assert len(everything) == 37
    for day in sessions("2024-12-16", "2025-06-30", exchange="XNYS"):
        view = market.view(Moment(day, "open"))
        actions = view.actions()
        assert set(actions) == {
            a for a in everything if a.ex <= day or (a.declared is not None and a.declared < day)
        }
        assert view["ohlcv"]["dividend"].index[-1] <= day
        assert view["ohlcv"]["dividend"].index.equals(view["ohlcv"]["action_pay"].index)


def test_a_commit_with_other_dates_has_other_actions(store: DataState) -> None:
    cash = pd.DataFrame({"A": [np.nan, 1.0]}, index=DAYS[:2])
    first = store.update("ohlcv", {"dividend": cash})
    (action,) = store.view(Moment(DAYS[1])).actions()
    assert action.pay is None
    store.update("ohlcv", {"action_pay": cash * 20240110})
    assert store.view(Moment(DAYS[1])).actions()[0].pay == pd.Timestamp("2024-01-10")
    assert store.view(Moment(DAYS[1]), first).actions() == (action,)


def test_the_same_numbers_in_another_field_are_another_action(store: DataState) -> None:
    values = pd.DataFrame({"A": [np.nan, 2.0]}, index=DAYS[:2])
    for name, told in (("dividend", (2, 1, None)), ("split", (0, 2, None)), ("delisting", (0, 1, 2))):
        ref = store.update("ohlcv", {name: values}, base=store.empty)
        (action,) = store.view(Moment(DAYS[1]), ref).actions()
        assert (action.cash, action.ratio, action.delisting) == told


def test_a_market_without_actions_has_none_and_a_bad_cell_is_told(store: DataState) -> None:
    close = pd.DataFrame({"A": [9.0, 10.0]}, index=DAYS[:2])
    store.update("ohlcv", {"close": close})
    assert store.view(Moment(DAYS[1])).actions() == ()
    store.update("ohlcv", {"split": -close})
    with pytest.raises(BadFrame, match=r"corporate actions are not valid"):
        store.view(Moment(DAYS[1])).actions()


def test_snapshots_and_views_at_the_end_adjust_alike(market: DataState) -> None:
    whole = market.snapshot().adjusted()
    assert whole.equals(market.view(Moment.at("2025-06-30")).adjusted())
    assert whole.iloc[-1].equals(market.snapshot()["ohlcv"]["close"].iloc[-1])
    assert not whole.iloc[0].equals(market.snapshot()["ohlcv"]["close"].iloc[0])


def test_a_view_adjusts_to_its_own_moment(market: DataState) -> None:
    eve, morning = market.view(Moment.at("2025-05-09")), market.view(Moment.at("2025-05-12", "open"))
    raw = eve["ohlcv"]["close"]["AAPL"].iloc[-1]
    assert eve.adjusted()["AAPL"].iloc[-1] == raw
    assert morning.adjusted()["AAPL"].iloc[-1] == pytest.approx(raw - 0.26, rel=1e-12)
    assert morning.adjusted("open")["AAPL"].iloc[-1] == morning["ohlcv"]["open"]["AAPL"].iloc[-1]


def test_prices_that_cannot_be_adjusted_are_told(store: DataState) -> None:
    store.update("ohlcv", {"close": pd.DataFrame({"A": [9.0]}, index=DAYS[:1])})
    with pytest.raises(UnknownField, match="nothing to adjust prices by"):
        store.view(Moment(DAYS[0])).adjusted()


@st.composite
def markets(draw: st.DrawFn) -> tuple[dict[str, pd.DataFrame], int]:
    """A market that knows its actions in one way or more, and how many of its sessions come first."""
    count = draw(st.integers(4, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (count, len(CODES))
    close = np.round(20 * np.exp(np.cumsum(0.03 * rng.standard_normal(shape), axis=0)), 2)
    close[rng.random(shape) < 0.1] = np.nan
    cash = np.where(rng.random(shape) < 0.2, np.round(rng.uniform(0.01, 2, shape), 2), np.nan)
    ratio = np.where(rng.random(shape) < 0.1, rng.choice([0.5, 1.3, 2.0], shape), np.nan)
    before = pd.DataFrame(close).ffill().shift().to_numpy()
    reference = np.round((before - np.nan_to_num(cash)) / np.nan_to_num(ratio, nan=1.0), 2)
    fields = {"close": close, "open": np.round(close * 1.01, 2)}
    ways = {
        "adj_factor": {
            "adj_factor": np.where(np.isnan(close), np.nan, np.cumprod(1 + (rng.random(shape) < 0.2), axis=0))
        },
        "pre_close": {"pre_close": np.where(np.isnan(close), np.nan, reference)},
        "actions": {"dividend": cash, "split": ratio},
    }
    for way in draw(st.sets(st.sampled_from(sorted(ways)), min_size=1)):
        fields |= ways[way]
    frames = {
        name: pd.DataFrame(values, index=DAYS[:count], columns=CODES) for name, values in fields.items()
    }
    return frames, draw(st.integers(2, count - 1))


@settings(max_examples=30)
@given(markets(), st.sampled_from(PHASES))
def test_later_sessions_change_no_earlier_adjusted_price_by_a_bit(
    made: tuple[dict[str, pd.DataFrame], int], phase: str
) -> None:
    frames, known = made
    store = DataState()
    early = store.update("ohlcv", {name: frame.head(known) for name, frame in frames.items()})
    late = store.update("ohlcv", frames)
    for day in DAYS[1:known]:
        for name in ("close", "open"):
            one = _adjusted(store, Moment(day, phase), early, name)
            other = _adjusted(store, Moment(day, phase), late, name)
            assert one == other
        assert (
            store.view(Moment(day, phase), early).actions() == store.view(Moment(day, phase), late).actions()
        )


def _adjusted(store: DataState, moment: Moment, ref: str, name: str) -> tuple[object, ...] | str:
    view = store.view(moment, ref)
    try:
        frame = view.adjusted(name)
    except UnknownField as error:
        return str(error)
    raw = view["ohlcv"][name]
    assert frame.index.equals(raw.index)
    if len(raw) and raw.index[-1] == moment.session:
        pd.testing.assert_series_equal(
            frame.iloc[-1], raw.iloc[-1].where(frame.iloc[-1].notna()), check_exact=True
        )
    return frame.to_numpy().tobytes(), *frame.index, *frame.columns
