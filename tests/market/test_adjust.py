"""Adjusted prices by hand, and against the ex-dates of real files."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.errors import BadFrame, UnknownField
from quantgraph.market.actions._actions import adjusted, adjustment_factors

DAYS = pd.to_datetime(["2025-06-05", "2025-06-06", "2025-06-09", "2025-06-10", "2025-06-11"])
NAN = float("nan")


def frame(*values: float) -> pd.DataFrame:
    return pd.DataFrame({"A": values}, index=DAYS[: len(values)])


def column(prices: pd.DataFrame) -> list[float]:
    return prices["A"].tolist()


# Four bonus shares for ten and 1.00 in cash: (15 - 1) / 1.4 = 10.
CLOSE = frame(14.0, 15.0, 10.5, NAN, 11.0)
BY = {
    "adj_factor": {"adj_factor": frame(1.0, 1.0, 1.5, NAN, 1.5)},
    "pre_close": {"pre_close": frame(13.0, 14.0, 10.0, NAN, 10.5)},
    "actions": {"dividend": frame(NAN, NAN, 1.0, NAN, NAN), "split": frame(NAN, NAN, 1.4, NAN, NAN)},
}


@pytest.mark.parametrize("by", BY)
def test_prices_before_an_ex_date_are_lowered_and_the_last_is_raw(by: str) -> None:
    prices = adjusted({"close": CLOSE, **BY[by]})
    assert column(prices) == pytest.approx([14 / 1.5, 10.0, 10.5, NAN, 11.0], nan_ok=True)
    assert prices.index.equals(CLOSE.index)
    assert column(prices)[2:3] + column(prices)[4:] == [10.5, 11.0]


@pytest.mark.parametrize("by", BY)
def test_at_the_open_of_an_ex_date_the_last_close_is_the_reference_price(by: str) -> None:
    fields = {name: values.head(3) for name, values in BY[by].items()}
    prices = adjusted({"close": CLOSE.head(2), "open": frame(14.0, 15.0, 10.2), **fields})
    assert column(prices) == pytest.approx([14 / 1.5, 10.0])
    opens = adjusted({"close": CLOSE.head(2), "open": frame(14.0, 15.0, 10.2), **fields}, "open")
    assert column(opens) == pytest.approx([14 / 1.5, 10.0, 10.2])


def test_an_ex_date_within_a_suspension_counts_from_the_first_price_on() -> None:
    fields = {"close": frame(20.0, NAN, 10.0), "pre_close": frame(19.0, NAN, 10.0)}
    assert column(adjusted(fields)) == pytest.approx([10.0, NAN, 10.0], nan_ok=True)
    fields = {"close": frame(20.0, NAN, 10.0), "split": frame(NAN, 2.0, NAN)}
    assert column(adjusted(fields)) == pytest.approx([10.0, NAN, 10.0], nan_ok=True)


def test_each_symbol_takes_the_first_field_that_knows_it() -> None:
    close = pd.DataFrame(
        {"A": [10.0, 5.0], "B": [10.0, 5.0], "C": [10.0, 5.0], "D": [10.0, 5.0]}, index=DAYS[:2]
    )
    fields = {
        "close": close,
        "adj_factor": pd.DataFrame({"A": [1.0, 4.0], "B": [NAN, NAN]}, index=DAYS[:2]),
        "pre_close": pd.DataFrame({"A": [9.0, 5.0], "B": [9.0, 5.0], "C": [NAN, NAN]}, index=DAYS[:2]),
        "split": pd.DataFrame({"B": [NAN, NAN], "C": [NAN, 2.5]}, index=DAYS[:2]),
    }
    prices = adjusted(fields).iloc[0]
    assert prices[["A", "B", "C"]].tolist() == [2.5, 5.0, 4.0]
    assert np.isnan(prices["D"])


def test_rows_of_ex_dates_alone_are_enough() -> None:
    fields = {
        "close": CLOSE,
        "dividend": BY["actions"]["dividend"].iloc[2:3],
        "split": BY["actions"]["split"].iloc[2:3],
    }
    assert column(adjustment_factors(fields)) == pytest.approx([1.0, 1.0, 1.5, 1.5, 1.5])


def test_before_the_first_row_there_is_nothing_to_adjust() -> None:
    empty = CLOSE.head(0)
    assert adjusted({"close": empty, "pre_close": empty}).empty
    assert column(adjusted({"close": empty, "open": frame(9.0), "pre_close": frame(8.0)}, "open")) == [9.0]


def test_without_anything_to_adjust_by_the_way_out_is_told() -> None:
    for fields in ({}, {"pre_close": CLOSE * NAN}):
        with pytest.raises(
            UnknownField, match="no number in adj_factor, pre_close, dividend or split; use the raw"
        ):
            adjusted({"close": CLOSE, **fields})
    with pytest.raises(UnknownField, match="'vol' is not a price that can be adjusted; valid are open"):
        adjusted({"close": CLOSE, "vol": CLOSE}, "vol")


def test_a_dividend_above_the_price_is_refused() -> None:
    with pytest.raises(BadFrame, match=r"has 15 at \(2025-06-09, A\), and the close before it is 15; "):
        adjusted({"close": CLOSE, "dividend": frame(NAN, NAN, 15.0)})


def test_real_a_shares_have_74_ex_dates(a_share: Path) -> None:
    path = a_share / "daily_prices_sse_50_20250102_20251031.csv"
    source = open_source(path)
    bars = source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1])
    factor = adjustment_factors(bars)
    steps = factor / factor.shift() != 1
    steps.iloc[0] = False
    by_code: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            by_code[row["ts_code"]].append((row["trade_date"], float(row["close"]), float(row["pre_close"])))
    expected = {
        (pd.Timestamp(now[0]), code): before[1] / now[2]
        for code, rows in by_code.items()
        for before, now in zip(sorted(rows), sorted(rows)[1:], strict=False)
        if now[2] != before[1]
    }
    assert len(expected) == int(steps.to_numpy().sum()) == 74
    for (day, code), step in expected.items():
        assert (factor / factor.shift()).at[day, code] == pytest.approx(step, rel=1e-12)
    assert adjusted(bars).iloc[-1].equals(bars["close"].iloc[-1])


def test_real_dividends_lower_the_prices_before_them(shared_data: Path) -> None:
    source = open_source(shared_data / "stockbench")
    bars = source.bars(["AAPL", "AMZN"], source.sessions()[0], source.sessions()[-1])
    close, prices = bars["close"]["AAPL"].dropna(), adjusted(bars)
    # dividends.csv: 0.25 on 2025-02-10 and 0.26 on 2025-05-12; AMZN pays none.
    kept = (1 - 0.25 / close["2025-02-07"]) * (1 - 0.26 / close["2025-05-09"])
    assert prices["AAPL"].iloc[0] / close.iloc[0] == pytest.approx(kept, rel=1e-12)
    assert prices["AMZN"].equals(bars["close"]["AMZN"])


def test_real_prices_without_any_reference_cannot_be_adjusted(shared_data: Path) -> None:
    source = open_source(shared_data / "ai-trader" / "us")
    with pytest.raises(UnknownField, match="nothing to adjust prices by"):
        adjusted(source.bars(["AAPL"], source.sessions()[0], source.sessions()[-1]))
