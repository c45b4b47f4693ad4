"""Each fault planted alone in sound data is found where it is, and nothing else is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit import Finding
from quantgraph.audit.bars import check_data
from quantgraph.data.sample import SampleSource
from quantgraph.market import sessions

START, END = pd.Timestamp("2024-03-01"), pd.Timestamp("2024-08-30")
ROW, COLUMN = 60, 7
PRICES = ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit")

Panels = dict[str, dict[str, pd.DataFrame]]
Frames = dict[str, pd.DataFrame]


@pytest.fixture(scope="module")
def market() -> Panels:
    source = SampleSource()
    first = source.bars(source.symbols(), START, START)["close"].iloc[0]
    symbols = list(first.index[first.notna()])
    return {"ohlcv": source.bars(symbols, START, END), "indicators": source.indicators(symbols, START, END)}


@pytest.fixture
def sound(market: Panels) -> Panels:
    return {panel: {name: frame.copy() for name, frame in fields.items()} for panel, fields in market.items()}


def audit(made: Panels) -> tuple[Finding, ...]:
    close = made["ohlcv"]["close"]
    return check_data(
        made,
        symbols=list(close.columns),
        sessions=pd.DatetimeIndex(close.index),
        expected_sessions=sessions(START, END),
    ).findings


def told(findings: tuple[Finding, ...]) -> list[tuple[str, str, str | None, str | None, int]]:
    return [(each.severity, each.code, each.session, each.symbol, each.count) for each in findings]


def place(made: Panels, row: int = ROW, column: int = COLUMN) -> tuple[str, str]:
    close = made["ohlcv"]["close"]
    return f"{close.index[row]:%Y-%m-%d}", str(close.columns[column])


def scaled(
    frames: Frames, names: tuple[str, ...], factor: float, row: int | slice, column: int | slice
) -> None:
    for name in names:
        frames[name].iloc[row, column] = frames[name].iloc[row, column] * factor


def bars_of(made: Panels, row: slice, column: slice) -> int:
    return int(made["ohlcv"]["close"].iloc[row, column].notna().to_numpy().sum())


EVERY = slice(None)
CELL, SYMBOL, DAY, ALL = (
    (slice(ROW, ROW + 1), slice(COLUMN, COLUMN + 1)),
    (EVERY, slice(COLUMN, COLUMN + 1)),
    (slice(ROW, ROW + 1), EVERY),
    (EVERY, EVERY),
)
AREAS = pytest.mark.parametrize("area", [CELL, SYMBOL, DAY, ALL], ids=["cell", "symbol", "day", "all"])


def first_of(made: Panels, area: tuple[slice, slice]) -> tuple[str, str]:
    close = made["ohlcv"]["close"].iloc[area]
    column = int(close.notna().to_numpy()[0].argmax())
    return f"{close.index[0]:%Y-%m-%d}", str(close.columns[column])


def test_the_market_they_are_planted_in_is_sound(sound: Panels) -> None:
    assert audit(sound) == ()
    assert sound["ohlcv"]["close"].iloc[ROW - 2 : ROW + 3, COLUMN].notna().all(), (
        "there are bars at the place"
    )


# --- units ----------------------------------------------------------------------------------------


@AREAS
def test_prices_in_fen_are_an_error(sound: Panels, area: tuple[slice, slice]) -> None:
    for name in PRICES:
        frame = sound["ohlcv"][name]
        frame.iloc[area] = (frame.iloc[area] * 100).round()
    findings = audit(sound)
    assert told(findings) == [("error", "price_unit", *first_of(sound, area), bars_of(sound, *area))]


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [ROW - 1, ROW - 20], ids=["the one before", "one long before"])
def test_a_session_with_the_bars_of_another_one(sound: Panels, source: int) -> None:
    for frame in sound["ohlcv"].values():
        frame.iloc[ROW] = frame.iloc[source].to_numpy()
    day = place(sound)[0]
    findings = audit(sound)
    assert findings[0].message == (
        f"1 sessions have the bars of another one, the first is {day} with those of {place(sound, source)[0]}"
    )
    assert told(findings) == [("error", "duplicate_session", day, None, 1)]


def test_a_session_with_most_bars_of_another_one(sound: Panels) -> None:
    columns = slice(0, 40)
    for name in ("open", "high", "low", "close", "vol", "amount", "pre_close"):
        frame = sound["ohlcv"][name]
        frame.iloc[ROW, columns] = frame.iloc[ROW - 1, columns].to_numpy()
    errors = [each for each in audit(sound) if each.severity == "error"]
    assert told(tuple(errors)) == [("error", "duplicate_session", place(sound)[0], None, 1)]


# --- sessions and bars that lack -------------------------------------------------------------------


def without(made: Panels, row: int) -> Panels:
    return {
        panel: {name: frame.drop(frame.index[row]) for name, frame in fields.items()}
        for panel, fields in made.items()
    }


def test_a_lacking_session(sound: Panels) -> None:
    day = place(sound)[0]
    assert told(audit(without(sound, ROW))) == [("warning", "calendar_gap", day, None, 1)]


def test_a_session_on_which_the_exchange_was_closed(sound: Panels) -> None:
    def moved(frame: pd.DataFrame) -> pd.DataFrame:
        days = frame.index.to_series()
        days.iloc[ROW] += pd.Timedelta(days=1)
        return frame.set_axis(pd.DatetimeIndex(days.to_numpy(), name="trade_date"))

    friday = sound["ohlcv"]["close"].index[ROW]
    assert friday.day_name() == "Friday"
    made = {panel: {n: moved(f) for n, f in fields.items()} for panel, fields in sound.items()}
    assert told(audit(made)) == [
        ("warning", "calendar_gap", f"{friday:%Y-%m-%d}", None, 1),
        ("warning", "no_session", f"{friday + pd.Timedelta(days=1):%Y-%m-%d}", None, 1),
    ]


def test_a_session_that_most_symbols_lack(sound: Panels) -> None:
    for fields in sound.values():
        for frame in fields.values():
            frame.iloc[ROW, 20:] = np.nan
    assert told(audit(sound)) == [
        ("warning", "thin_session", place(sound)[0], sound["ohlcv"]["close"].columns[20], 1)
    ]


@pytest.mark.parametrize("rows", [1, 3])
def test_bars_that_one_symbol_lacks_and_no_suspension_explains(sound: Panels, rows: int) -> None:
    for fields in sound.values():
        for frame in fields.values():
            frame.iloc[ROW : ROW + rows, COLUMN] = np.nan
    assert told(audit(sound)) == [("warning", "symbol_gap", *place(sound), rows)]


def test_bars_that_lack_are_told_without_pre_close(sound: Panels) -> None:
    for fields in sound.values():
        for frame in fields.values():
            frame.iloc[ROW, COLUMN] = np.nan
    known = sound["ohlcv"]["close"].notna()
    gaps = int((~known & known.cummax() & known[::-1].cummax()[::-1]).to_numpy().sum())
    sound["ohlcv"]["pre_close"][:] = np.nan
    findings = audit(sound)
    assert [(each.severity, each.code, each.count) for each in findings] == [("info", "symbol_gap", gaps)]
    assert gaps > 1, "suspensions look the same then"


# --- reference prices, factors, limits --------------------------------------------------------------


@pytest.mark.parametrize("change", [-0.03, 0.03])
def test_a_pre_close_that_nothing_explains(sound: Panels, change: float) -> None:
    sound["ohlcv"]["pre_close"].iloc[ROW, COLUMN] += change
    assert told(audit(sound)) == [("warning", "pre_close_break", *place(sound), 1)]


def test_a_pre_close_within_a_tick_is_sound(sound: Panels) -> None:
    sound["ohlcv"]["pre_close"].iloc[ROW, COLUMN] += 0.01
    assert audit(sound) == ()


def test_without_actions_a_lower_pre_close_is_an_ex_date_and_a_higher_one_a_fault(sound: Panels) -> None:
    bars = sound["ohlcv"]
    ex = int((bars["dividend"].notna() | bars["split"].notna()).to_numpy().sum())
    for name in ("dividend", "split", "adj_factor"):
        del bars[name]
    findings = audit(sound)
    assert [(each.severity, each.code, each.count) for each in findings] == [("warning", "no_actions", ex)]
    bars["pre_close"].iloc[ROW, COLUMN] += 0.03
    assert told(audit(sound))[1:] == [("warning", "pre_close_break", *place(sound), 1)]


@pytest.mark.parametrize("names", [("dividend", "split"), ("adj_factor",)])
def test_either_actions_or_the_factor_explain_an_ex_date(sound: Panels, names: tuple[str, ...]) -> None:
    for name in names:
        del sound["ohlcv"][name]
    assert audit(sound) == ()


def test_a_dividend_on_the_wrong_day(sound: Panels) -> None:
    bars = sound["ohlcv"]
    del bars["adj_factor"]
    events = bars["dividend"].where(bars["split"].isna()).stack()
    ex, symbol = events[events > 0.1].index[0]
    row, column = bars["close"].index.get_loc(ex), bars["close"].columns.get_loc(symbol)
    bars["dividend"].iloc[row + 1, column] = bars["dividend"].iloc[row, column]
    bars["dividend"].iloc[row, column] = np.nan
    assert told(audit(sound)) == [("warning", "pre_close_break", f"{ex:%Y-%m-%d}", symbol, 2)]


def test_an_exchange_that_spreads_a_dividend_over_all_shares_is_sound(sound: Panels) -> None:
    bars = sound["ohlcv"]
    del bars["adj_factor"]
    bars["dividend"] = bars["dividend"] * 1.08
    assert audit(sound) == ()
    bars["dividend"] = bars["dividend"] * 2
    assert {each.code for each in audit(sound)} == {"pre_close_break"}


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_an_odd_adjustment_factor(sound: Panels, factor: float) -> None:
    scaled(sound["ohlcv"], ("adj_factor",), factor, ROW, COLUMN)
    assert told(audit(sound)) == [("warning", "bad_factor", *place(sound), 2)]


def test_a_factor_that_goes_down_where_there_is_no_pre_close(sound: Panels) -> None:
    bars = sound["ohlcv"]
    del bars["pre_close"]
    scaled(bars, ("adj_factor",), 0.9, slice(ROW, None), COLUMN)
    findings = [each for each in audit(sound) if each.code != "symbol_gap"]
    assert told(tuple(findings)) == [("warning", "bad_factor", *place(sound), 1)]
    bars["split"].iloc[ROW, COLUMN] = 0.9
    assert {each.code for each in audit(sound)} == {"symbol_gap"}


def test_limits_that_are_exchanged(sound: Panels) -> None:
    bars = sound["ohlcv"]
    up = bars["up_limit"].iloc[ROW, COLUMN]
    bars["up_limit"].iloc[ROW, COLUMN] = bars["down_limit"].iloc[ROW, COLUMN]
    bars["down_limit"].iloc[ROW, COLUMN] = up
    assert told(audit(sound)) == [("error", "bad_limit", *place(sound), 1)]


@pytest.mark.parametrize(("name", "of"), [("up_limit", "high"), ("down_limit", "low")])
def test_a_price_outside_of_its_limits(sound: Panels, name: str, of: str) -> None:
    step = 0.01 if of == "low" else -0.01
    sound["ohlcv"][name].iloc[ROW, COLUMN] = sound["ohlcv"][of].iloc[ROW, COLUMN] + step
    findings = audit(sound)
    assert told(findings) == [("warning", "outside_limits", *place(sound), 1)]
    assert findings[0].message.startswith(f"{of} is ")


# --- prices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["open", "high", "low", "close"])
def test_one_price_out_of_order(sound: Panels, name: str) -> None:
    scaled(sound["ohlcv"], (name,), 0.5 if name == "high" else 2, ROW, COLUMN)
    assert told(audit(sound)) == [("error", "bad_bar", *place(sound), 1)]


@pytest.mark.parametrize("name", ["open", "high", "low", "close", "pre_close"])
def test_one_price_of_nothing(sound: Panels, name: str) -> None:
    sound["ohlcv"][name].iloc[ROW, COLUMN] = 0.0
    assert told(audit(sound)) == [("error", "bad_price", *place(sound), 1)]


def test_a_bar_that_repeats_the_one_before(sound: Panels) -> None:
    bars = sound["ohlcv"]
    for name in ("open", "high", "low", "close", "vol", "amount", "pre_close"):
        bars[name].iloc[ROW, COLUMN] = bars[name].iloc[ROW - 1, COLUMN]
    assert ("warning", "repeated_bar", *place(sound), 1) in told(audit(sound))
    assert {each.symbol for each in audit(sound)} == {place(sound)[1]}


@pytest.mark.parametrize(("length", "expected"), [(9, 0), (10, 1), (30, 1)])
def test_a_close_that_stands_still(sound: Panels, length: int, expected: int) -> None:
    bars = sound["ohlcv"]
    where = slice(ROW, ROW + length)
    price = bars["close"].iloc[ROW, COLUMN]
    for name in ("open", "high", "low", "close"):
        bars[name].iloc[where, COLUMN] = price
    bars["pre_close"].iloc[ROW + 1 : ROW + length + 1, COLUMN] = price
    for name in ("up_limit", "down_limit", "adj_factor", "dividend", "split"):
        bars[name].iloc[:, COLUMN] = np.nan
    assert told(audit(sound)) == [("warning", "stale_price", *place(sound), 1)] * expected


def test_a_close_that_stands_still_without_trading_is_sound(sound: Panels) -> None:
    close = pd.DataFrame(10.0, index=sound["ohlcv"]["close"].index, columns=["600000.SH", "600004.SH"])
    made = {"ohlcv": dict.fromkeys(("open", "close"), close) | {"vol": close * 0}, "indicators": {}}
    assert audit(made) == ()


# --- alignment --------------------------------------------------------------------------------------


def test_indicators_of_other_symbols_or_sessions(sound: Panels) -> None:
    basics = sound["indicators"]
    symbol = basics["pe"].columns[3]
    basics["pe"] = basics["pe"].drop(columns=symbol)
    assert [each.message for each in audit(sound)] == [
        f"indicators['pe'] lacks {symbol} of the symbols of close"
    ]
    del basics["pe"]
    basics["pb"] = basics["pb"].set_axis(basics["pb"].index + pd.Timedelta(hours=15))
    assert [(each.code, each.message) for each in audit(sound)] == [
        ("misaligned", "indicators['pb'] has 2024-03-01, which is not a session of close")
    ]


def test_fields_in_another_order_are_sound(sound: Panels) -> None:
    fields = sound["ohlcv"]
    fields["vol"] = fields["vol"][fields["vol"].columns[::-1]]
    assert audit(sound) == ()
