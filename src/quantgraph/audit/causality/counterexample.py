"""One cell of a signal that the future changes, and saying so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import say
from quantgraph.audit.causality._lookahead_hints import CodeHint
from quantgraph.market.moment import Phase

__all__ = ["Counterexample", "TestKind"]

TestKind = Literal["truncation", "corruption", "appended", "memory"]

_LINE = 120
_ZH: dict[Phase, str] = {"pre_open": "开盘前", "open": "开盘", "close": "收盘", "post_close": "收盘后"}


@dataclass(frozen=True, kw_only=True)
class Counterexample:
    """One cell of a signal that the future changes.

    Attributes
    ----------
    test
        ``truncation``: the cell is another one when later sessions are there; ``corruption``: when later
        sessions are others; ``appended``: when sessions follow after the last one; ``memory``: when the
        function has seen a longer panel before.
    session, symbol
        The cell; the earliest one found.
    known, later
        Its value with what was known then, and with the future. NaN is no opinion.
    needs
        How many later sessions it takes to change it; 0 is the rest of its own session.
    symbols
        How many symbols the panel must have for it to show: 1, or all there are.
    phase
        Phase of the session at which the signal is decided.
    raised
        What the strategy said when it failed on what was known; empty if it did not.
    places
        Lines to look at first.
    """

    test: TestKind
    session: pd.Timestamp
    symbol: str
    known: float
    later: float
    needs: int
    symbols: int
    phase: Phase = "post_close"
    raised: str = ""
    places: tuple[CodeHint, ...] = ()

    def message(self, language: str) -> str:
        """One line by which a model can mend its code."""
        known, later = self._known(language), _value(self.later, language)
        given, future, where = self._given(language), self._future(language), self._where(language)
        symbol, day = self.symbol, f"{self.session:%Y-%m-%d}"
        return say(
            language,
            zh=f"{symbol} 在 {day} 的信号{given}是 {known}，{future}变成 {later}：它用到了未来数据{where}",
            en=f"the signal of {symbol} on {day} is {known} {given}, and {later} {future}: "
            f"it uses the future{where}",
        )

    def _known(self, language: str) -> str:
        if not self.raised:
            return _value(self.known, language)
        return say(language, zh=f"报错（{self.raised}）", en=f"an error ({self.raised})")

    def _given(self, language: str) -> str:
        """With what the value is the known one."""
        if self.test == "corruption":
            return say(language, zh="用现有数据", en="with the data as it is")
        if self.test == "memory":
            return say(language, zh="单独计算", en="when it is computed on its own")
        return say(
            language,
            zh=f"用当日{_ZH[self.phase]}已知的数据",
            en=f"with what is known at {self.session:%Y-%m-%d} {self.phase}",
        )

    def _future(self, language: str) -> str:
        """With what it is the later one."""
        if self.test == "memory":
            return say(
                language,
                zh="在同一进程里先算过更长的数据后",
                en="once the function has seen a longer panel in the same process",
            )
        count = self.needs
        sessions = (
            f"{count} later session{'' if count == 1 else 's'}" if count else "the rest of that session"
        )
        are = "are" if count > 1 else "is"
        what = say(language, zh=f"之后 {count} 个交易日" if count else "当日其余数据", en=sessions)
        if self.test == "corruption":
            return say(language, zh=f"只改动{what}就", en=f"when only {what} {are} changed")
        done = "appended" if self.test == "appended" else "known"
        added = "在末尾接上" if self.test == "appended" else "再给"
        return say(language, zh=f"{added}{what}就", en=f"once {what} {are} {done}")

    def _where(self, language: str) -> str:
        if not self.places:
            return ""
        told = [_place(place, language) for place in self.places]
        if self.places[0].why is None:
            return say(language, zh=f"；信号来自{told[0]}", en=f"; the signal comes from {told[0]}")
        return say(language, zh=f"；先看{'；'.join(told)}", en=f"; look first at {'; '.join(told)}")

    def as_json(self) -> dict[str, Any]:
        """Plain values; NaN and infinity are null."""
        return {
            "test": self.test,
            "session": f"{self.session:%Y-%m-%d}",
            "symbol": self.symbol,
            "known": self.known if math.isfinite(self.known) else None,
            "later": self.later if math.isfinite(self.later) else None,
            "needs": self.needs,
            "symbols": self.symbols,
            "phase": self.phase,
            "raised": self.raised,
            "places": [place.as_json() for place in self.places],
            "message": self.message("en"),
        }


def _value(value: float, language: str) -> str:
    return say(language, zh="无观点", en="no opinion") if math.isnan(value) else f"{value:.12g}"


def _place(place: CodeHint, language: str) -> str:
    text = place.text if len(place.text) <= _LINE else f"{place.text[:_LINE]}…"
    why = f"{say(language, zh='，', en=', ')}{place.why.text(language)}" if place.why else ""
    return say(
        language,
        zh=f"第 {place.cell} 个单元第 {place.line} 行：{text}{why}",
        en=f"cell {place.cell}, line {place.line}: {text}{why}",
    )
