"""Indicators as their authors wrote them down, in plain loops: what TA-Lib's numbers are held against."""

from __future__ import annotations

import numpy as np

__all__ = ["seeded_ema", "wilder"]


def seeded_ema(values, period, start=None):
    """The average of the first numbers, then 2 / (n + 1) of each new one, from ``start`` on."""
    start = period - 1 if start is None else start
    ema = np.mean(values[start - period + 1 : start + 1])
    line = [ema]
    for value in values[start + 1 :]:
        ema += (value - ema) * 2 / (period + 1)
        line.append(ema)
    return np.array(line)


def wilder(values, period):
    """The average of the first numbers, then 1 / n of each new one: the last value."""
    average = np.mean(values[:period])
    for value in values[period:]:
        average = (average * (period - 1) + value) / period
    return average
