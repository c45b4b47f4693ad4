"""Units, where one field tells that of another: a wrong one is off by a power of ten."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quantgraph.audit.bars._bar_arrays import BAR, TICK, BarArrays, Floats, Mask
from quantgraph.audit.findings import Finding

__all__ = ["indicator_units", "volume_units"]

UNIT_SLACK = 0.15
"""In powers of ten, a factor of 1.4: a session's average price is within its limits from the close."""

_NEAR = 0.5
"""Relative; an indicator that is no further off is in the right unit."""

LEAST_TURNOVER = 1e-3
"""Percent; below it the four decimals of an indicator are too few."""

ADJUSTED_SHARE = 0.2
"""Of the bars of a symbol; of real raw bars none has its average price outside."""

_FEN = -2
"""Power of ten of amount / vol over the price when prices are in fen, or vol in shares."""

_VOLUME_READINGS = {
    -2: "vol looks like shares; hands of 100 are wanted",
    -1: "amount looks like ten thousand CNY; thousand CNY is wanted",
    1: "vol looks like shares and amount like CNY; hands of 100 and thousand CNY are wanted",
    2: "vol looks like ten thousand shares; hands of 100 are wanted",
    3: "amount looks like CNY; thousand CNY is wanted",
}


def volume_units(cells: BarArrays) -> Iterator[Finding]:
    """Average price of a session, amount over vol: it lies between low and high."""
    vol = np.where(cells["vol"] > 0, cells["vol"], np.nan)
    average = cells["amount"] * 10 / vol
    slack = TICK + average * (0.5 / vol)  # vol may be rounded to a hand
    outside = (average < cells["low"] - slack) | (average > cells["high"] + slack)
    if not outside.any():
        return
    power = _power(np.where(outside, average / cells["close"], np.nan))
    in_fen = (power == _FEN) & _whole(cells)
    if in_fen.any():
        yield cells.finding(
            "error",
            "price_unit",
            in_fen,
            "prices of {n} bars look like fen, the first at {place}: whole numbers, and 100 times "
            "amount / vol; CNY is wanted",
        )
        cells.drop_bars(in_fen)
        cells.drop(in_fen, "pre_close")
    for each in np.unique(power[power != 0]).astype(int).tolist():
        where = (power == each) & ~in_fen
        if where.any():
            reading = _VOLUME_READINGS.get(each, "thousand CNY over hands of 100 is wanted")
            yield cells.finding(
                "warning",
                "volume_unit",
                where,
                f"amount / vol is 10^{each} times the price on {{n}} bars, the first at {{place}}: {reading}",
            )
            cells.drop(where, "vol", "amount")
    yield from _outside(cells, outside & (power == 0))


def _outside(cells: BarArrays, outside: Mask) -> Iterator[Finding]:
    adjusted = outside & (outside.sum(axis=0) > ADJUSTED_SHARE * cells.traded.sum(axis=0))
    adjusted &= outside.sum(axis=0) > 1
    if adjusted.any():
        yield cells.finding(
            "warning",
            "adjusted_prices",
            adjusted,
            f"amount / vol is outside of low and high on {{n}} bars of {int(adjusted.any(axis=0).sum())} "
            "symbols, the first at {place}: the prices look adjusted",
        )
    rest = outside & ~adjusted
    if rest.any():
        yield cells.finding(
            "warning",
            "vwap_outside",
            rest,
            "amount / vol is outside of low and high on {n} bars, the first at {place}",
        )


def indicator_units(cells: BarArrays) -> Iterator[Finding]:
    """Turnover in percent, share counts in ten thousands, market values in ten thousand CNY."""
    for name, of, by in (
        ("turnover_rate", "vol", "float_share"),
        ("turnover_rate_f", "vol", "free_share"),
        ("total_mv", "close", "total_share"),
        ("circ_mv", "close", "float_share"),
    ):
        if name not in cells or by not in cells:
            continue
        turnover = of == "vol"
        product = cells[of] / cells[by] if turnover else cells[of] * cells[by]
        odd = np.abs(cells[name] - product) > _NEAR * product
        odd &= (cells[name] >= LEAST_TURNOVER) & (product > 0)
        if not odd.any():
            continue
        power = _power(np.where(odd, cells[name] / product, np.nan))
        wrong = power != 0
        if wrong.any():
            words = f"{of} {'/' if turnover else 'x'} {by}"
            wanted = "percent" if turnover else "ten thousand CNY"
            yield cells.finding(
                "warning",
                "indicator_unit",
                wrong,
                f"{name} is 10^{int(power[wrong][0])} times {words} on {{n}} bars, the first at {{place}}; "
                f"{wanted} is wanted",
            )


def _power(ratio: Floats) -> Floats:
    """The power of ten that a ratio is, 0 if it is none."""
    log = np.log10(ratio)
    power = np.rint(log)
    return np.where(np.abs(log - power) < UNIT_SLACK, power, 0.0)


def _whole(cells: BarArrays) -> Mask:
    whole: Mask = np.logical_and.reduce([cells[name] % 1 == 0 for name in BAR])
    return whole
