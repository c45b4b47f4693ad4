"""The values of a rule as frames under any conventions, computed apart from the code that the planner writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import talib

from quantgraph.errors import UnknownField
from quantgraph.llm.planner.conventions import Conventions, Gaps
from quantgraph.llm.planner.rules import (
    Average,
    Band,
    Bar,
    Extreme,
    Indicator,
    Kdj,
    Macd,
    Number,
    Return,
    Rsi,
    Scaled,
    Value,
)

Floats = npt.NDArray[np.float64]
Column = Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The frames that a rule reads, sessions x symbols.

    Attributes
    ----------
    bars, adjusted, indicators
        By field name. ``adjusted`` holds open, high, low and close; it is empty if they do not differ.
    """

    bars: Mapping[str, pd.DataFrame]
    adjusted: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    indicators: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(kw_only=True)
class RuleValues:
    """Frames of values under conventions, each computed once.

    With ``gaps="skipped"`` a value is computed on each symbol's own sessions, without those of no trading.
    """

    panel: Panel
    common: Conventions
    gaps: Gaps
    _known: dict[Value, pd.DataFrame] = field(default_factory=dict)

    @property
    def close(self) -> pd.DataFrame:
        """Raw closes, NaN where a symbol did not trade."""
        return self.panel.bars["close"]

    def frame(self, value: Value) -> pd.DataFrame:
        """Return a value's frame.

        Raises
        ------
        UnknownField
            If the panel lacks a field.
        """
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def before(self, value: Value) -> pd.DataFrame:
        """Return a value of the session before: with skipped gaps, of the symbol's own session before."""
        frame = self.frame(value)
        if isinstance(value, Number):
            return frame
        return frame.ffill().shift(1) if self.gaps == "skipped" else frame.shift(1)

    def _bar(self, name: str) -> pd.DataFrame:
        """A bar field: of the price that is agreed on, and with filled gaps if they are."""
        prices = self.common.prices == "adjusted" and name in self.panel.adjusted
        bars = self.panel.adjusted if prices else self.panel.bars
        if name not in bars:
            raise UnknownField(f"there is no bar field {name}", field=name)
        return bars[name].ffill() if self.gaps == "filled" else bars[name]

    def _computed(self, value: Value) -> pd.DataFrame:  # noqa: C901, PLR0911 - one case a node
        match value:
            case Number(value=number):
                return pd.DataFrame(number, index=self.close.index, columns=self.close.columns)
            case Bar(field=name):
                return self._bar(name)
            case Indicator(field=name):
                if name not in self.panel.indicators:
                    raise UnknownField(f"there is no indicator {name}", field=name)
                return self.panel.indicators[name].reindex_like(self.close)
            case Average():
                return self._average(value)
            case Scaled(factor=factor, value=average):
                return factor * self._average(average)
            case Return(period=period):
                return self._on_sessions(self._bar("close"), lambda prices: prices / prices.shift(period) - 1)
            case Extreme():
                return self._extreme(value)
            case Band():
                return self._band(value)
            case Rsi(period=period):
                return self._by_column(
                    self._bar("close"), lambda prices: _rsi(prices, period, self.common.rsi)
                )
            case Macd():
                return self._macd(value)
            case Kdj():
                return self._kdj(value)
        raise UnknownField(f"{type(value).__name__} is not computed here", field=type(value).__name__)

    def _average(self, average: Average) -> pd.DataFrame:
        bars = self._bar(average.field)
        if average.kind == "ema":
            made = self._ema(bars, average.period)
        else:
            made = self._on_sessions(bars, lambda frame: frame.rolling(average.period).mean())
        if average.field == "vol" and self.common.volume == "before":
            return self._on_sessions(made, lambda frame: frame.shift(1))
        return made

    def _ema(self, frame: pd.DataFrame, period: int) -> pd.DataFrame:
        return self._by_column(frame, lambda values: _ema(values, period, self.common.ema))

    def _band(self, band: Band) -> pd.DataFrame:
        middle = self._average(Average(period=band.period))
        if band.side == "middle":
            return middle
        spread = self._on_sessions(
            self._bar("close"), lambda frame: frame.rolling(band.period).std(ddof=self.common.ddof)
        )
        return middle + (band.width if band.side == "upper" else -band.width) * spread

    def _extreme(self, extreme: Extreme) -> pd.DataFrame:
        bars = self._bar("close" if self.common.breakout.startswith("close") else extreme.side)
        wanted = "max" if extreme.side == "high" else "min"
        made = self._on_sessions(bars, lambda frame: getattr(frame.rolling(extreme.period), wanted)())
        if self.common.breakout.endswith("today"):
            return made
        return self._on_sessions(made, lambda frame: frame.shift(1))

    def _macd(self, macd: Macd) -> pd.DataFrame:
        close = self._bar("close")
        if self.common.ema == "seeded":
            return self._by_column(close, lambda values: _talib_macd(values, macd))
        dif = self._ema(close, macd.fast) - self._ema(close, macd.slow)
        return dif if macd.part == "dif" else self._ema(dif, macd.signal)

    def _kdj(self, kdj: Kdj) -> pd.DataFrame:
        high, low, close = (self._bar(name) for name in ("high", "low", "close"))
        n = kdj.period
        floor = self._on_sessions(low, lambda frame: frame.rolling(n).min())
        span = self._on_sessions(high, lambda frame: frame.rolling(n).max()) - floor
        rsv = 100 * (close - floor) / span.where(span > 0)
        k = self._by_column(rsv, lambda values: _smooth(values, kdj.smooth_k, self.common.kdj))
        if kdj.part == "k":
            return k
        d = self._by_column(k, lambda values: _smooth(values, kdj.smooth_d, self.common.kdj))
        return d if kdj.part == "d" else 3 * k - 2 * d

    def _on_sessions(
        self, frame: pd.DataFrame, function: Callable[[pd.DataFrame], pd.DataFrame]
    ) -> pd.DataFrame:
        """Apply a function of a frame; with skipped gaps to the values of each column moved together."""
        if self.gaps != "skipped" or not _has_gaps(frame):
            return function(frame)
        return frame.apply(
            lambda column: function(column.dropna().to_frame()).iloc[:, 0].reindex(column.index)
        )

    def _by_column(self, frame: pd.DataFrame, function: Column) -> pd.DataFrame:
        """Apply a function of an array to the known values of each column; recursions skip what is missing."""
        values = frame.to_numpy(dtype=np.float64)
        made = np.full(values.shape, np.nan)
        for column in range(values.shape[1]):
            known = ~np.isnan(values[:, column])
            if known.any():
                made[known, column] = function(np.ascontiguousarray(values[known, column]))
        return pd.DataFrame(made, index=frame.index, columns=frame.columns)


def _has_gaps(frame: pd.DataFrame) -> bool:
    known = frame.notna().to_numpy()
    return bool((np.logical_or.accumulate(known, axis=0) & ~known).any())


def _ema(values: Floats, period: int, kind: str) -> Floats:
    if kind == "seeded":
        return (
            np.asarray(talib.EMA(values, period)) if len(values) >= period else np.full(len(values), np.nan)
        )
    smooth = pd.Series(values).ewm(span=period, adjust=kind == "weighted", min_periods=period)
    return smooth.mean().to_numpy()


def _talib_macd(values: Floats, macd: Macd) -> Floats:
    if len(values) < macd.slow + macd.signal:
        return np.full(len(values), np.nan)
    dif, dea, _ = talib.MACD(values, macd.fast, macd.slow, macd.signal)
    return np.asarray(dif if macd.part == "dif" else dea)


def _rsi(prices: Floats, period: int, kind: str) -> Floats:
    if len(prices) <= period:
        return np.full(len(prices), np.nan)
    if kind == "wilder":
        return np.asarray(talib.RSI(prices, period))
    change = pd.Series(prices).diff()
    sides = change.clip(lower=0), -change.clip(upper=0)
    if kind == "simple":
        gain, loss = (side.rolling(period).mean() for side in sides)
    else:
        gain, loss = (
            side.ewm(alpha=1 / period, adjust=kind == "weighted", min_periods=period).mean() for side in sides
        )
    return (100 * gain / (gain + loss).where(gain + loss > 0)).to_numpy()


def _smooth(values: Floats, sessions: int, kind: str) -> Floats:
    if kind == "simple":
        return pd.Series(values).rolling(sessions).mean().to_numpy()
    seeded = np.append(50.0, values) if kind == "fifty" else values
    smooth = pd.Series(seeded).ewm(alpha=1 / sessions, adjust=False).mean().to_numpy()
    return smooth[1:] if kind == "fifty" else smooth
