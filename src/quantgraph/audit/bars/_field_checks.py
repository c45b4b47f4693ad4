"""Fields compared with each other: wrong units, and fields that stand one row early or late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quantgraph.audit.bars._bar_arrays import PRICES, TICK, BarArrays, Floats, Mask
from quantgraph.audit.findings import Finding

UNIT_SLACK = 0.15
"""In powers of ten, a factor of 1.4: a session's average price is within its limits from the close."""

_NEAR = 0.5
"""Relative; an indicator that is no further off is in the right unit."""

LEAST_TURNOVER = 1e-3
"""Percent; below it the four decimals of an indicator are too few."""

ADJUSTED_SHARE = 0.2
"""Of the bars of a symbol; no real raw bar has its average price outside of low and high."""

_FEN = -2
"""Power of ten of amount / vol over the price when prices are in fen, or vol in shares."""

_VOLUME_UNITS = {
    -2: "vol looks like shares; it must be in hands of 100",
    -1: "amount looks like ten thousand CNY; it must be in thousand CNY",
    1: "vol looks like shares and amount like CNY; they must be in hands of 100 and thousand CNY",
    2: "vol looks like ten thousand shares; it must be in hands of 100",
    3: "amount looks like CNY; it must be in thousand CNY",
}

SHIFT_SESSIONS = 10
"""Fewer prove nothing: of real bars, more than half of the closes lie within the next session's bar too."""

SHIFT_BREAKS = 3
SHIFT_RATIO = 5
"""A shifted field breaks its bounds on at least so many sessions, and so many times as often as it does one
row away: a real open may lie within the bar before all the time, but then it fits its own."""

SHIFT_MOST = 0.5
"""If more of the symbols are shifted, the whole field is."""

_ROUNDING = 2e-3
"""Indicators have four decimals: a turnover of 0.0300 % is rounded by 0.2 %."""


def volume_units(bars: BarArrays) -> Iterator[Finding]:
    """Check the average price of a session, amount over vol: it lies between low and high."""
    vol = np.where(bars["vol"] > 0, bars["vol"], np.nan)
    average = bars["amount"] * 10 / vol
    slack = TICK + average * (0.5 / vol)  # vol may be rounded to a hand
    outside = (average < bars["low"] - slack) | (average > bars["high"] + slack)
    if not outside.any():
        return
    power = _power_of_ten(np.where(outside, average / bars["close"], np.nan))
    whole_prices = np.logical_and.reduce([bars[name] % 1 == 0 for name in PRICES])
    in_fen = (power == _FEN) & whole_prices
    if in_fen.any():
        yield from bars.findings(
            "error",
            "price_unit",
            in_fen,
            "prices of {n} bars look like fen, the first at {place}: whole numbers, and 100 times "
            "amount / vol; they must be in CNY",
        )
        bars.drop_bars(in_fen)
        bars.drop(in_fen, "pre_close")
    for each in np.unique(power[power != 0]).astype(int).tolist():
        where = (power == each) & ~in_fen
        if where.any():
            reading = _VOLUME_UNITS.get(each, "vol must be in hands of 100, amount in thousand CNY")
            yield from bars.findings(
                "warning",
                "volume_unit",
                where,
                f"amount / vol is 10^{each} times the price on {{n}} bars, the first at {{place}}: {reading}",
            )
            bars.drop(where, "vol", "amount")
    yield from _average_outside(bars, outside & (power == 0))


def _average_outside(bars: BarArrays, outside: Mask) -> Iterator[Finding]:
    adjusted = outside & (outside.sum(axis=0) > ADJUSTED_SHARE * bars.traded.sum(axis=0))
    adjusted &= outside.sum(axis=0) > 1
    message = (
        f"amount / vol is outside of low and high on {{n}} bars of {int(adjusted.any(axis=0).sum())} "
        "symbols, the first at {place}: the prices look adjusted"
    )
    yield from bars.findings("warning", "adjusted_prices", adjusted, message)
    message = "amount / vol is outside of low and high on {n} bars, the first at {place}"
    yield from bars.findings("warning", "vwap_outside", outside & ~adjusted, message)


def indicator_units(bars: BarArrays) -> Iterator[Finding]:
    """Check turnover in percent, share counts in ten thousands, market values in ten thousand CNY."""
    for name, of, by in (
        ("turnover_rate", "vol", "float_share"),
        ("turnover_rate_f", "vol", "free_share"),
        ("total_mv", "close", "total_share"),
        ("circ_mv", "close", "float_share"),
    ):
        if name not in bars or by not in bars:
            continue
        turnover = of == "vol"
        expected = bars[of] / bars[by] if turnover else bars[of] * bars[by]
        odd = np.abs(bars[name] - expected) > _NEAR * expected
        odd &= (bars[name] >= LEAST_TURNOVER) & (expected > 0)
        if not odd.any():
            continue
        power = _power_of_ten(np.where(odd, bars[name] / expected, np.nan))
        wrong = power != 0
        if wrong.any():
            formula = f"{of} {'/' if turnover else 'x'} {by}"
            unit = "percent" if turnover else "ten thousand CNY"
            yield from bars.findings(
                "warning",
                "indicator_unit",
                wrong,
                f"{name} is 10^{int(power[wrong][0])} times {formula} on {{n}} bars, the first at {{place}}; "
                f"it must be in {unit}",
            )


def _power_of_ten(ratio: Floats) -> Floats:
    """The power of ten that a ratio is, 0 if it is none."""
    log = np.log10(ratio)
    power = np.rint(log)
    return np.where(np.abs(log - power) < UNIT_SLACK, power, 0.0)


@dataclass(frozen=True, kw_only=True)
class _Relation:
    """Bounds of a field in its own session: ``value`` lies from ``low`` to ``high``, all (T, N).

    Attributes
    ----------
    to
        What the bounds come from, for the message.
    of_bars
        Whether the field is one of the bars, not an indicator.
    drops
        Fields to remove where it is shifted.
    """

    name: str
    value: Floats
    low: Floats
    high: Floats
    to: str
    of_bars: bool = True
    drops: tuple[str, ...]


def shifted_fields(bars: BarArrays) -> Iterator[Finding]:
    """Find fields that fit the bars of the session before or after, and not their own."""
    for relation in _relations(bars):
        own = _breaks(relation.value, relation.low, relation.high)
        if own.max() < SHIFT_BREAKS:
            continue
        known = (~np.isnan(relation.value) & ~np.isnan(relation.low)).sum(axis=0)
        for direction, value, bounds in (
            ("early", relation.value[:-1], slice(1, None)),
            ("late", relation.value[1:], slice(None, -1)),
        ):
            other = _breaks(value, relation.low[bounds], relation.high[bounds])
            shifted = (known >= SHIFT_SESSIONS) & (own >= SHIFT_BREAKS) & (other * SHIFT_RATIO <= own)
            if not shifted.any():
                continue
            if shifted.sum() > SHIFT_MOST * (known > 0).sum():
                shifted = known > 0
            yield from bars.findings(
                "error" if relation.of_bars or direction == "early" else "warning",
                "shifted",
                shifted[None, :],
                f"{relation.name} of {{n}} symbols stands one row {direction}, the first at {{place}}: it "
                f"does not fit {relation.to} of its own session on {own[shifted][0]} of {known[shifted][0]}, "
                f"and of the session {'after' if direction == 'early' else 'before'} on {other[shifted][0]}",
            )
            bars.drop(shifted, *relation.drops)


def _breaks(value: Floats, low: Floats, high: Floats) -> NDArray[np.int64]:
    """On how many sessions, by symbol, a value is not within its bounds."""
    count: NDArray[np.int64] = ((value < low) | (value > high)).sum(axis=0)
    return count


def _relations(bars: BarArrays) -> Iterator[_Relation]:
    # A generator: a relation is made after the check of the one before has dropped its cells.
    for name in ("open", "close"):
        yield _Relation(
            name=name,
            value=bars[name],
            low=bars["low"],
            high=bars["high"],
            to="low and high",
            drops=(name,),
        )
    vol = np.where(bars["vol"] > 0, bars["vol"], np.nan)
    yield _Relation(
        name="vol and amount",
        value=bars["amount"] * 10 / vol,
        low=bars["low"] - TICK,
        high=bars["high"] + TICK,
        to="low and high",
        drops=("vol", "amount"),
    )
    before = bars.at_last(bars["close"])
    yield _Relation(
        name="pre_close",
        value=bars["pre_close"],
        low=before - TICK,
        high=before + TICK,
        to="the close before",
        drops=("pre_close", "up_limit", "down_limit", "adj_factor"),
    )
    for name, one, other, to in (
        ("turnover_rate", bars["vol"], 1 / bars["float_share"], "vol / float_share"),
        ("total_mv", bars["close"], bars["total_share"], "close x total_share"),
        ("circ_mv", bars["close"], bars["float_share"], "close x float_share"),
    ):
        if name in bars:
            product = one * other
            yield _Relation(
                name=name,
                value=bars[name],
                low=product * (1 - _ROUNDING),
                high=product * (1 + _ROUNDING),
                to=to,
                of_bars=False,
                drops=(name,),
            )
