"""The conventions that code chose where the words leave them open, and what others would change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit.meaning import Reading
from quantgraph.sentences._rules import TradingRule
from quantgraph.sentences.evaluation._evaluation import (
    Conventions,
    RuleData,
    open_conventions,
    reading_under,
    rule_readings,
)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A convention that was chosen, the other that changes most, and how many of the positions it changes."""

    chosen: Note
    other: Note
    changed: int
    positions: int

    @property
    def note(self) -> Note:
        """The note for people."""
        return Note(
            zh=f"{self.chosen.zh}；若改为“{self.other.zh}”，{self.positions} 笔持仓中有 {self.changed} 笔不同",
            en=f"{self.chosen.en}; with {self.other.en}, {self.changed} of {self.positions} positions change",
        )


_WORDS: dict[str, dict[str | int, Note]] = {
    "prices": {
        "raw": Note(zh="按不复权价计算", en="prices as traded"),
        "adjusted": Note(zh="按复权价计算", en="adjusted prices"),
    },
    "ddof": {
        0: Note(zh="标准差除以 N", en="a standard deviation over N"),
        1: Note(zh="标准差除以 N-1", en="a standard deviation over N-1"),
    },
    "ema": {
        "recursive": Note(zh="EMA 从第一日递推", en="an EMA that begins with the first close"),
        "weighted": Note(zh="EMA 用归一的权重", en="an EMA of normalized weights"),
        "seeded": Note(zh="EMA 以简单均值起步", en="an EMA that begins with a simple average"),
    },
    "rsi": {
        "wilder": Note(zh="RSI 按 Wilder 平滑", en="an RSI by Wilder's smoothing"),
        "recursive": Note(zh="RSI 从第一日平滑", en="an RSI smoothed from the first session"),
        "weighted": Note(zh="RSI 用归一的权重", en="an RSI of normalized weights"),
        "simple": Note(zh="RSI 按简单平均", en="an RSI of simple averages"),
    },
    "kdj": {
        "fifty": Note(zh="KDJ 从 50 起步", en="a KDJ that begins at 50"),
        "first": Note(zh="KDJ 从第一个值起步", en="a KDJ that begins with its first value"),
        "simple": Note(zh="KDJ 按简单平均", en="a KDJ of simple averages"),
    },
    "breakout": {
        "before": Note(zh="N 日新高不含当天、取最高价", en="an N-day high of the highs before today"),
        "close_before": Note(zh="N 日新高不含当天、取收盘价", en="an N-day high of the closes before today"),
        "today": Note(zh="N 日新高含当天、取最高价", en="an N-day high of highs with today"),
        "close_today": Note(zh="N 日新高含当天、取收盘价", en="an N-day high of closes with today"),
    },
    "volume": {
        "today": Note(zh="均量含当天", en="an average volume with today"),
        "before": Note(zh="均量不含当天", en="an average volume without today"),
    },
}
"""By convention and choice. The end of a rank has none: ties are rare."""


def convention_choices(
    rule: TradingRule,
    panel: RuleData,
    holds: Callable[[Iterable[Reading]], bool],
    *,
    first: pd.Timestamp | None = None,
) -> list[Choice]:
    """Return what a signal chose of the open conventions, where another changes positions from ``first`` on.

    Parameters
    ----------
    holds
        Whether the signal holds the positions of one of the readings.
    """
    kinds = list(open_conventions(rule, adjusted=bool(panel.adjusted)))
    groups = zip(kinds, rule_readings(rule, panel), strict=True)
    chosen = next((kind for kind, group in groups if holds(group)), None) if len(kinds) > 1 else None
    if chosen is None:
        return []
    ours, found = _entries(rule, panel, chosen, first), list[Choice]()
    for name in (each.name for each in fields(Conventions) if each.name in _WORDS):
        value = getattr(chosen, name)
        others = {
            other: _entries(rule, panel, replace(chosen, **{name: other}), first)
            for other in sorted({getattr(kind, name) for kind in kinds} - {value}, key=str)
        }
        if all(ours == theirs for theirs in others.values()):
            continue
        other, theirs = max(others.items(), key=lambda each: len(ours ^ each[1]))
        found.append(
            Choice(
                chosen=_WORDS[name][value],
                other=_WORDS[name][other],
                changed=max(len(ours - theirs), len(theirs - ours)),
                positions=max(len(ours), len(theirs)),
            )
        )
    return found


def _entries(
    rule: TradingRule, panel: RuleData, kind: Conventions, first: pd.Timestamp | None
) -> set[tuple[int, int]]:
    """The cells on which the positions of a reading begin."""
    signal = reading_under(rule, panel, kind).signal
    held = signal.where(signal != 0).ffill().eq(1.0)
    begins = held.to_numpy() & ~held.shift(1, fill_value=False).to_numpy()
    if first is not None:
        begins &= np.asarray(pd.DatetimeIndex(signal.index) >= first)[:, None]
    rows, columns = np.nonzero(begins)
    return set(zip(rows.tolist(), columns.tolist(), strict=True))
