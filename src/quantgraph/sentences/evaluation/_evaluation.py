"""The values of a rule as frames under every convention it leaves open, apart from its code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
import talib

from quantgraph._util.texts import Language, Note
from quantgraph.audit.meaning import Reading
from quantgraph.errors import UnknownField
from quantgraph.sentences import _rules as tree
from quantgraph.sentences._describe import describe, describe_value
from quantgraph.state import BaseView, Snapshot

Gaps = Literal["blind", "decayed", "filled", "skipped"]
"""A suspension blinds the windows that contain it, is filled with the last price, or is skipped.

Recursions skip it, unless it is ``decayed``: their weights go on over it, as pandas' do.
"""
Ties = Literal["floats", "apart", "touching", "strict"]
"""Whether values equal up to rounding count as above and below: as floats come, never, both ways, or
neither today nor the session before.
"""


@dataclass(frozen=True, kw_only=True)
class Conventions:
    """What one program does alike for all symbols; the first choice of each is the planner's own.

    A rank ends (``border``) without ties across it, with them, or by their order; a percentage is rounded
    down, rounded up, or a quantile.
    """

    prices: Literal["raw", "adjusted"] = "raw"
    ddof: Literal[0, 1] = 0
    ema: Literal["recursive", "weighted", "seeded"] = "recursive"
    rsi: Literal["wilder", "recursive", "weighted", "simple"] = "wilder"
    kdj: Literal["fifty", "first", "simple"] = "fifty"
    breakout: Literal["before", "close_before", "today", "close_today"] = "before"
    volume: Literal["today", "before"] = "today"
    border: Literal["out", "in", "order", "up", "quantile"] = "out"


_CHOICES: dict[str, tuple[Any, ...]] = {
    "prices": ("raw", "adjusted"),
    "ddof": (0, 1),
    "ema": ("recursive", "weighted", "seeded"),
    "rsi": ("wilder", "recursive", "weighted", "simple"),
    "kdj": ("fifty", "first", "simple"),
    "breakout": ("before", "close_before", "today", "close_today"),
    "volume": ("today", "before"),
    "border": ("out", "in", "order", "up", "quantile"),
}


def values_of(rule: tree.TradingRule) -> Iterator[tree.Value]:
    """Values of the symbols that the conditions of a rule compare or rank, in reading order."""
    for condition in (rule.entry, rule.exit):
        yield from (value for code, value, _ in _needs(condition) if not code)


def open_conventions(rule: tree.TradingRule, *, adjusted: bool) -> Iterator[Conventions]:
    """Every combination of what the rule leaves open, the planner's first; ``adjusted`` prices may differ."""
    is_open = set[str]()
    for condition in (rule.entry, rule.exit):
        is_open = is_open.union(*(_open_in(value) for _, value, _ in _needs(condition)))
    if any(isinstance(leaf, tree.Rank) for leaf in (*tree.leaves_of(rule.entry), *tree.leaves_of(rule.exit))):
        is_open.add("border")
    if not adjusted:
        is_open.discard("prices")
    names = [field.name for field in fields(Conventions) if field.name in is_open]
    for choice in product(*(_CHOICES[name] for name in names)):
        yield Conventions(**dict(zip(names, choice, strict=True)))


def _open_in(value: tree.Value) -> set[str]:
    match value:
        case tree.Average(field="vol") as average:
            return {"volume"} | ({"ema"} if average.kind == "ema" else set())
        case tree.Scaled(value=average):
            return _open_in(average)
        case tree.Average(kind="ema") | tree.Macd():
            return {"prices", "ema"}
        case tree.Band():
            return {"prices", "ddof"}
        case tree.Rsi():
            return {"prices", "rsi"}
        case tree.Kdj():
            return {"prices", "kdj"}
        case tree.Extreme():
            return {"prices", "breakout"}
    return set() if isinstance(value, tree.Number | tree.Indicator) else {"prices"}


Floats = npt.NDArray[np.float64]
Column = Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class RuleData:
    """The frames that a rule reads, sessions x symbols.

    Attributes
    ----------
    bars, adjusted, indicators
        By field name. ``adjusted`` holds open, high, low and close; it is empty if they do not differ.
    index
        Closes of indices, sessions x codes, if the rule reads any.
    """

    bars: Mapping[str, pd.DataFrame]
    adjusted: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    indicators: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    index: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(cls, panels: Snapshot | BaseView, symbols: Sequence[str]) -> RuleData:
        """Those of some symbols, from a commit or a view."""
        columns, fields_of = list(symbols), panels["ohlcv"]
        bars = {name: fields_of[name].reindex(columns=columns) for name in _BARS if name in fields_of}
        daily = panels["indicators"]
        return cls(
            bars=bars,
            adjusted=_adjusted(panels, bars),
            indicators={name: daily[name].reindex(columns=columns) for name in daily},
            index=panels["index"].get("close", pd.DataFrame()),
        )


_BARS = ("open", "high", "low", "close", "vol")


def _adjusted(panels: Snapshot | BaseView, bars: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Adjusted prices; empty if they cannot be computed or are the raw ones."""
    try:
        close = panels.adjusted("close").reindex(columns=bars["close"].columns)
    except UnknownField:
        return {}
    ratio = close / bars["close"]
    if float((ratio.max() - ratio.min()).max()) < _NEAR:
        return {}
    return {name: bars[name] * ratio for name in _BARS if name in bars and name != "vol"}


@dataclass(kw_only=True)
class RuleValues:
    """Frames of values under conventions, each computed once.

    With ``gaps="skipped"`` a value is computed on each symbol's own sessions, without sessions of no trading.
    """

    panel: RuleData
    common: Conventions
    gaps: Gaps
    _known: dict[tree.Value, pd.DataFrame] = field(default_factory=dict)
    _indices: dict[str, RuleValues] = field(default_factory=dict)

    @property
    def close(self) -> pd.DataFrame:
        """Raw closes, NaN where a symbol did not trade."""
        return self.panel.bars["close"]

    def of_index(self, code: str) -> RuleValues:
        """Return the values of an index on the sessions of the symbols; ``UnknownField`` without its closes."""
        if code not in self._indices:
            if code not in self.panel.index:
                raise UnknownField(f"there are no closes of the index {code}", field="close")
            levels = RuleData(bars={"close": self.panel.index[[code]].reindex(self.close.index)})
            raw = replace(self.common, prices="raw")
            self._indices[code] = RuleValues(panel=levels, common=raw, gaps="blind")
        return self._indices[code]

    def frame(self, value: tree.Value) -> pd.DataFrame:
        """Return a value's frame; ``UnknownField`` if the panel lacks a field."""
        if value not in self._known:
            self._known[value] = self._compute(value)
        return self._known[value]

    def before(self, value: tree.Value) -> pd.DataFrame:
        """Return a value of the session before: with skipped gaps, of the symbol's own session before."""
        frame = self.frame(value)
        if isinstance(value, tree.Number):
            return frame
        return frame.ffill().shift(1) if self.gaps == "skipped" else frame.shift(1)

    def _bar(self, name: str) -> pd.DataFrame:
        """A bar field: of the price that is agreed on, and with filled gaps if they are."""
        prices = self.common.prices == "adjusted" and name in self.panel.adjusted
        bars = self.panel.adjusted if prices else self.panel.bars
        if name not in bars:
            raise UnknownField(f"there is no bar field {name}", field=name)
        return bars[name].ffill() if self.gaps == "filled" else bars[name]

    def _compute(self, value: tree.Value) -> pd.DataFrame:  # noqa: C901, PLR0911 - one case a node
        match value:
            case tree.Number(value=number):
                return pd.DataFrame(number, index=self.close.index, columns=self.close.columns)
            case tree.Bar(field=name):
                return self._bar(name)
            case tree.Indicator(field=name):
                if name not in self.panel.indicators:
                    raise UnknownField(f"there is no indicator {name}", field=name)
                return self.panel.indicators[name].reindex_like(self.close)
            case tree.Average():
                return self._average(value)
            case tree.Scaled(factor=factor, value=average):
                return factor * self._average(average)
            case tree.Return(period=period):
                return self._on_sessions(self._bar("close"), lambda prices: prices / prices.shift(period) - 1)
            case tree.Extreme():
                return self._extreme(value)
            case tree.Band():
                return self._band(value)
            case tree.Rsi(period=period):
                return self._by_column(
                    self._bar("close"),
                    lambda prices: _rsi(prices, period, self.common.rsi),
                    whole=self.common.rsi != "wilder",
                )
            case tree.Macd():
                return self._macd(value)
            case tree.Kdj():
                return self._kdj(value)
        raise UnknownField(f"{type(value).__name__} is not computed here", field=type(value).__name__)

    def _average(self, average: tree.Average) -> pd.DataFrame:
        bars = self._bar(average.field)
        if average.kind == "ema":
            made = self._ema(bars, average.period)
        else:
            made = self._on_sessions(bars, lambda frame: frame.rolling(average.period).mean())
        if average.field == "vol" and self.common.volume == "before":
            return self._on_sessions(made, lambda frame: frame.shift(1))
        return made

    def _ema(self, frame: pd.DataFrame, period: int) -> pd.DataFrame:
        kind = self.common.ema
        return self._by_column(frame, lambda values: _ema(values, period, kind), whole=kind != "seeded")

    def _band(self, band: tree.Band) -> pd.DataFrame:
        middle = self._average(tree.Average(period=band.period))
        if band.side == "middle":
            return middle
        spread = self._on_sessions(
            self._bar("close"), lambda frame: frame.rolling(band.period).std(ddof=self.common.ddof)
        )
        return middle + (band.width if band.side == "upper" else -band.width) * spread

    def _extreme(self, extreme: tree.Extreme) -> pd.DataFrame:
        bars = self._bar("close" if self.common.breakout.startswith("close") else extreme.side)
        wanted = "max" if extreme.side == "high" else "min"
        made = self._on_sessions(bars, lambda frame: getattr(frame.rolling(extreme.period), wanted)())
        if self.common.breakout.endswith("today"):
            return made
        return self._on_sessions(made, lambda frame: frame.shift(1))

    def _macd(self, macd: tree.Macd) -> pd.DataFrame:
        close = self._bar("close")
        if self.common.ema == "seeded":
            return self._by_column(close, lambda values: _talib_macd(values, macd))
        dif = self._ema(close, macd.fast) - self._ema(close, macd.slow)
        return dif if macd.part == "dif" else self._ema(dif, macd.signal)

    def _kdj(self, kdj: tree.Kdj) -> pd.DataFrame:
        high, low, close = (self._bar(name) for name in ("high", "low", "close"))
        n = kdj.period
        floor = self._on_sessions(low, lambda frame: frame.rolling(n).min())
        span = self._on_sessions(high, lambda frame: frame.rolling(n).max()) - floor
        rsv = 100 * (close - floor) / span.where(span > 0)
        k = self._by_column(rsv, lambda values: _smooth(values, kdj.smooth_k, self.common.kdj), whole=True)
        if kdj.part == "k":
            return k
        d = self._by_column(k, lambda values: _smooth(values, kdj.smooth_d, self.common.kdj), whole=True)
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

    def _by_column(self, frame: pd.DataFrame, function: Column, *, whole: bool = False) -> pd.DataFrame:
        """Apply a function of an array to the known values of each column.

        With ``whole`` and decayed gaps, to all from the first known one on: the function carries over NaN.
        """
        values = frame.to_numpy(dtype=np.float64)
        made = np.full(values.shape, np.nan)
        for column in range(values.shape[1]):
            known = ~np.isnan(values[:, column])
            if known.any():
                rows = np.arange(known.argmax(), len(known)) if whole and self.gaps == "decayed" else known
                made[rows, column] = function(np.ascontiguousarray(values[rows, column]))
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


def _talib_macd(values: Floats, macd: tree.Macd) -> Floats:
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
        moved = (side.fillna(0.0).where(side.index > 0) for side in sides)  # over a gap nothing moved
        gain, loss = (side.rolling(period).mean() for side in moved)
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


_NEAR = 1e-9
"""Relative difference below which two values may be equal but for rounding."""
_BORDERS: dict[str, Literal["min", "first"]] = {"in": "min", "order": "first"}
_TIES: tuple[Ties, ...] = ("apart", "touching", "strict")
_GAPS: tuple[Gaps, ...] = ("blind", "filled", "skipped", "decayed")
_RECURSIVE = frozenset({"ema", "rsi", "kdj"})


def rule_readings(rule: tree.TradingRule, panel: RuleData) -> Iterator[Iterator[Reading]]:
    """Yield the readings of a rule: groups by convention, in each what may differ by symbol.

    Raises
    ------
    UnknownField
        If the panel lacks a field of the rule.
    """
    gaps = _GAPS if _suspends(panel.bars["close"]) else _GAPS[:1]
    if not any(_RECURSIVE & _open_in(value) for value in values_of(rule)):
        gaps = gaps[:3]
    for common in open_conventions(rule, adjusted=bool(panel.adjusted)):
        yield (
            reading
            for gap in gaps
            for reading in _readings(rule, RuleValues(panel=panel, common=common, gaps=gap))
        )


def _readings(rule: tree.TradingRule, values: RuleValues) -> Iterator[Reading]:
    plain = _Conditions(values, "floats")
    yield _reading(rule, plain)
    if plain.near:
        for ties in _TIES:
            yield _reading(rule, _Conditions(values, ties))


def reading_under(rule: tree.TradingRule, panel: RuleData, common: Conventions) -> Reading:
    """Return the reading of a rule under one set of conventions, in which suspensions are skipped."""
    return _reading(rule, _Conditions(RuleValues(panel=panel, common=common, gaps="skipped"), "floats"))


def _suspends(close: pd.DataFrame) -> bool:
    known = close.notna().to_numpy()
    begun, on = np.logical_or.accumulate(known, axis=0), np.logical_or.accumulate(known[::-1], axis=0)[::-1]
    return bool((begun & on & ~known).any())


def _reading(rule: tree.TradingRule, conditions: _Conditions) -> Reading:
    entry, leave = conditions.holds(rule.entry), conditions.holds(rule.exit)
    signal = pd.DataFrame(0.0, index=entry.index, columns=entry.columns)
    signal = signal.mask(entry, 1.0).mask(leave, -1.0).where(conditions.known(rule))
    tied = pd.DataFrame(conditions.tied, index=signal.index, columns=signal.columns)
    return Reading(signal=signal, explain=partial(_explain, rule, conditions.values), tied=tied)


_LANGUAGES: tuple[Language, Language] = ("zh", "en")


def _explain(rule: tree.TradingRule, values: RuleValues, session: pd.Timestamp, symbol: str) -> Note:
    """The rule as read, and its values at a cell and on the session before."""
    zh, en = [], []
    read = [(code, value) for side in (rule.entry, rule.exit) for code, value, _ in _needs(side)]
    for code, value in dict.fromkeys(read):
        if isinstance(value, tree.Number):
            continue
        its = values.of_index(code) if code else values
        now, before = (
            float(frame.to_numpy()[frame.index.get_loc(session), frame.columns.get_loc(code or symbol)])
            for frame in (its.frame(value), its.before(value))
        )
        names = [f"{code} {describe_value(value, language)}".strip() for language in _LANGUAGES]
        zh.append(f"{names[0]} {now:.6g}（前一日 {before:.6g}）")
        en.append(f"{names[1]} {now:.6g} (session before {before:.6g})")
    return Note(
        zh=f"{describe(rule.entry, 'zh')}时买入，{describe(rule.exit, 'zh')}时卖出；{'，'.join(zh)}",
        en=f"buy when {describe(rule.entry, 'en')}, sell when {describe(rule.exit, 'en')}; {', '.join(en)}",
    )


class _Conditions:
    """Where conditions hold, with ties as agreed.

    ``near`` says whether values were equal but for rounding, ``tied`` in which cells they were: not those of
    an extreme, which today's value may be itself.
    """

    def __init__(self, values: RuleValues, ties: Ties) -> None:
        self.values = values
        self.near = False
        self.tied = np.zeros(values.close.shape, dtype=bool)
        self._ties = ties

    def known(self, rule: tree.TradingRule) -> pd.DataFrame:
        """Where all values are known, before a cross also the session's before."""
        known = self.values.close.notna()
        for condition in (rule.entry, rule.exit):
            for code, value, earlier in _needs(condition):
                its = self.values.of_index(code) if code else self.values
                for frame in (its.frame(value), its.before(value)) if earlier else (its.frame(value),):
                    known &= self._for_all(frame.notna()) if code else frame.notna()
        return known

    def _for_all(self, held: pd.DataFrame) -> pd.DataFrame:
        """What holds of an index, for every symbol."""
        close = self.values.close
        return pd.DataFrame(
            np.repeat(held.to_numpy(), close.shape[1], axis=1), index=close.index, columns=close.columns
        )

    def _of_index(self, condition: tree.OfIndex) -> pd.DataFrame:
        inner = _Conditions(self.values.of_index(condition.code), self._ties)
        held = inner.holds(condition.part)
        self.near = self.near or inner.near
        self.tied |= inner.tied
        return self._for_all(held)

    def holds(self, condition: tree.Condition) -> pd.DataFrame:
        """Where a condition holds; False where a value is not known, and True for its negation."""
        match condition:
            case tree.AllOf(parts=parts):
                return _join([self.holds(part) for part in parts], np.logical_and)
            case tree.AnyOf(parts=parts):
                return _join([self.holds(part) for part in parts], np.logical_or)
            case tree.Not(part=part):
                return ~self.holds(part)
            case tree.Compare(left=left, op=op, right=right):
                one, other = self.values.frame(left), self.values.frame(right)
                today, before = self._equality_counts(condition), self.tied.copy()
                held = self._above(one, other, today) if op[0] == ">" else self._above(other, one, today)
                if isinstance(left, tree.Extreme) or isinstance(right, tree.Extreme):
                    self.tied = before
                return held
            case tree.Cross(left=left, direction=direction, right=right):
                return self._crosses(left, right) if direction == "up" else self._crosses(right, left)
            case tree.Rank():
                return self._rank(condition)
            case tree.OfIndex():
                return self._of_index(condition)

    def _equality_counts(self, compare: tree.Compare) -> bool | None:
        """Whether equality counts in a comparison; None leaves it to the floats."""
        if isinstance(compare.right, tree.Extreme) and self.values.common.breakout.endswith("today"):
            return True
        equal = compare.op.endswith("=")
        if self._ties == "floats":
            return True if equal else None
        return self._ties == "touching"

    def _crosses(self, left: tree.Value, right: tree.Value) -> pd.DataFrame:
        one, other = self.values.frame(left), self.values.frame(right)
        earlier, than = self.values.before(left), self.values.before(right)
        if self._ties == "floats":
            return self._above(one, other, None) & ~self._above(earlier, than, None)
        if self._ties == "strict":  # above today and below before, equal on neither
            return self._above(one, other, False) & self._above(than, earlier, False)
        equal = self._ties == "touching"
        return self._above(one, other, equal) & ~self._above(earlier, than, equal)

    def _above(self, left: pd.DataFrame, right: pd.DataFrame, equal: bool | None) -> pd.DataFrame:
        """Where one value is above another; ``equal`` says whether equality counts, None leaves it to floats."""
        one, other = left.to_numpy(dtype=np.float64), right.to_numpy(dtype=np.float64)
        room = _NEAR * np.maximum(np.abs(one), np.abs(other)) + 1e-12
        apart = one - other
        tied = np.abs(apart) <= room
        self.near = self.near or bool(tied.any())
        self.tied |= tied
        held = apart > 0 if equal is None else apart >= -room if equal else apart > room
        return pd.DataFrame(held, index=left.index, columns=left.columns)

    def _rank(self, rank: tree.Rank) -> pd.DataFrame:
        value = self.values.frame(rank.value)
        border, bottom = self.values.common.border, rank.side == "bottom"
        if border == "quantile" and rank.unit == "percent":
            share = rank.amount / 100
            edge = value.quantile(share if bottom else 1 - share, axis=1)
            return value.le(edge, axis=0) if bottom else value.ge(edge, axis=0)
        place = value.rank(axis=1, ascending=bottom, method=_BORDERS.get(border, "max"))
        if rank.unit == "count":
            return place <= rank.amount
        count = rank.amount * value.count(axis=1) / 100
        return place.le(np.ceil(count - _NEAR) if border == "up" else count + _NEAR, axis=0)


def _needs(condition: tree.Condition) -> Iterator[tuple[str, tree.Value, bool]]:
    """Values of a condition, the code of their index or "", and whether it needs the session before."""
    match condition:
        case tree.AllOf(parts=parts) | tree.AnyOf(parts=parts):
            for part in parts:
                yield from _needs(part)
        case tree.Not(part=part):
            yield from _needs(part)
        case tree.OfIndex(code=code, part=part):
            yield from ((code, value, earlier) for _, value, earlier in _needs(part))
        case tree.Rank(value=value):
            yield "", value, False
        case tree.Compare(left=left, right=right) | tree.Cross(left=left, right=right):
            yield from (("", side, isinstance(condition, tree.Cross)) for side in (left, right))


def _join(frames: list[pd.DataFrame], operator: np.ufunc) -> pd.DataFrame:
    whole = operator.reduce([frame.to_numpy() for frame in frames])
    return pd.DataFrame(whole, index=frames[0].index, columns=frames[0].columns)
