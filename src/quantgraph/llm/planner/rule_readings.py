"""The signals that a rule means under every convention it leaves open, for the check of code that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd

from quantgraph.audit.meaning import Reading
from quantgraph.llm.planner.conventions import Gaps, Ties, open_conventions, values_of
from quantgraph.llm.planner.describe import describe, describe_value
from quantgraph.llm.planner.evaluation import Panel, RuleValues
from quantgraph.llm.planner.rules import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Cross,
    Extreme,
    Not,
    Number,
    Rank,
    TradingRule,
    Value,
)

_NEAR = 1e-9
"""Relative difference below which two values may be equal but for rounding."""
_BORDERS: dict[str, Literal["min", "first"]] = {"in": "min", "order": "first"}
_TIES: tuple[Ties, ...] = ("apart", "touching", "strict")
_GAPS: tuple[Gaps, ...] = ("blind", "filled", "skipped")


def rule_readings(rule: TradingRule, panel: Panel) -> Iterator[Iterator[Reading]]:
    """Yield the readings of a rule: groups by convention, in each what may differ by symbol.

    Raises
    ------
    UnknownField
        If the panel lacks a field of the rule.
    """
    gaps = _GAPS if _suspends(panel.bars["close"]) else _GAPS[:1]
    for common in open_conventions(rule, adjusted=bool(panel.adjusted)):
        yield (
            reading
            for gap in gaps
            for reading in _readings(rule, RuleValues(panel=panel, common=common, gaps=gap))
        )


def _readings(rule: TradingRule, values: RuleValues) -> Iterator[Reading]:
    plain = _Conditions(values, "floats")
    yield _reading(rule, plain)
    if plain.near:
        for ties in _TIES:
            yield _reading(rule, _Conditions(values, ties))


def buys_and_sells(rule: TradingRule, panel: Panel) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return where the entry and where the exit hold, as the planner would code them."""
    common = next(open_conventions(rule, adjusted=False))
    values = RuleValues(panel=panel, common=common, gaps="blind")
    conditions = _Conditions(values, "floats")
    known = conditions.known(rule)
    return conditions.holds(rule.entry) & known, conditions.holds(rule.exit) & known


def _suspends(close: pd.DataFrame) -> bool:
    known = close.notna().to_numpy()
    begun, on = np.logical_or.accumulate(known, axis=0), np.logical_or.accumulate(known[::-1], axis=0)[::-1]
    return bool((begun & on & ~known).any())


def _reading(rule: TradingRule, conditions: _Conditions) -> Reading:
    entry, leave = conditions.holds(rule.entry), conditions.holds(rule.exit)
    signal = pd.DataFrame(0.0, index=entry.index, columns=entry.columns)
    signal = signal.mask(entry, 1.0).mask(leave, -1.0).where(conditions.known(rule))
    return Reading(signal=signal, explain=partial(_explain, rule, conditions.values))


def _explain(rule: TradingRule, values: RuleValues, session: pd.Timestamp, symbol: str) -> str:
    """The rule as read, and its values at a cell and on the session before."""
    shown = []
    for value in dict.fromkeys(values_of(rule)):
        if isinstance(value, Number):
            continue
        now, before = (
            float(frame.to_numpy()[frame.index.get_loc(session), frame.columns.get_loc(symbol)])
            for frame in (values.frame(value), values.before(value))
        )
        shown.append(f"{describe_value(value, 'en')} {now:.6g} (session before {before:.6g})")
    rule_text = f"buy when {describe(rule.entry, 'en')}, sell when {describe(rule.exit, 'en')}"
    return f"{rule_text}; {', '.join(shown)}"


class _Conditions:
    """Where conditions hold, with ties as agreed; ``near`` says whether values were equal but for rounding."""

    def __init__(self, values: RuleValues, ties: Ties) -> None:
        self.values = values
        self.near = False
        self._ties = ties

    def known(self, rule: TradingRule) -> pd.DataFrame:
        """Where all values are known, those of the session before a cross included."""
        known = self.values.close.notna()
        for condition in (rule.entry, rule.exit):
            for value, earlier in _needs(condition):
                known &= self.values.frame(value).notna()
                if earlier:
                    known &= self.values.before(value).notna()
        return known

    def holds(self, condition: Condition) -> pd.DataFrame:
        """Where a condition holds; False where a value is not known, and True for its negation."""
        match condition:
            case AllOf(parts=parts):
                return _joined([self.holds(part) for part in parts], np.logical_and)
            case AnyOf(parts=parts):
                return _joined([self.holds(part) for part in parts], np.logical_or)
            case Not(part=part):
                return ~self.holds(part)
            case Compare(left=left, op=op, right=right):
                one, other = self.values.frame(left), self.values.frame(right)
                today = self._equality_counts(condition)
                return self._above(one, other, today) if op[0] == ">" else self._above(other, one, today)
            case Cross(left=left, direction=direction, right=right):
                return self._crosses(left, right) if direction == "up" else self._crosses(right, left)
            case Rank():
                return self._ranked(condition)

    def _equality_counts(self, compare: Compare) -> bool | None:
        """Whether equality counts in a comparison; None leaves it to the floats."""
        if isinstance(compare.right, Extreme) and self.values.common.breakout.endswith("today"):
            return True
        equal = compare.op.endswith("=")
        if self._ties == "floats":
            return True if equal else None
        return self._ties == "touching"

    def _crosses(self, left: Value, right: Value) -> pd.DataFrame:
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
        self.near = self.near or bool((np.abs(apart) <= room).any())
        held = apart > 0 if equal is None else apart >= -room if equal else apart > room
        return pd.DataFrame(held, index=left.index, columns=left.columns)

    def _ranked(self, rank: Rank) -> pd.DataFrame:
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


def _needs(condition: Condition) -> Iterator[tuple[Value, bool]]:
    """Values of a condition, and whether that of the session before is needed too."""
    match condition:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            for part in parts:
                yield from _needs(part)
        case Not(part=part):
            yield from _needs(part)
        case Rank(value=value):
            yield value, False
        case Compare(left=left, right=right) | Cross(left=left, right=right):
            yield from ((side, isinstance(condition, Cross)) for side in (left, right))


def _joined(frames: list[pd.DataFrame], operator: np.ufunc) -> pd.DataFrame:
    whole = operator.reduce([frame.to_numpy() for frame in frames])
    return pd.DataFrame(whole, index=frames[0].index, columns=frames[0].columns)
