"""Rules that are known by a name, without a word about buying or selling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from quantgraph.llm.planner.grammar import SaidTurn, turns
from quantgraph.llm.planner.lexicon import Token
from quantgraph.llm.planner.meaning import Memory, meant, remember
from quantgraph.llm.planner.operands import band_words, kind_at, operands, params_at
from quantgraph.llm.planner.rules import Average, Band, Bar, Compare, Condition, Cross, Number, Rsi, opposite

__all__ = ["Named", "middle_exit", "named_bands", "named_indicator", "named_rule", "trimmed"]

Tokens = Sequence[Token]
Named = tuple[Condition, Condition | None, Memory]
"""Entry, exit (None for the opposite), and what a later line may leave out."""

_STYLES = {"reversion": ("回归", "reversion"), "breakout": ("突破", "breakout", "break-out")}


def trimmed(tokens: Tokens) -> list[Token]:
    """Without the commas and joints at both ends."""
    kept = list(tokens)
    while kept and kept[0].kind in ("SEP", "AND"):
        kept.pop(0)
    while kept and kept[-1].kind in ("SEP", "AND"):
        kept.pop()
    return kept


def named_rule(tokens: Tokens, memory: Memory) -> Named | None:
    """A rule that is known by its name: ``MACD金叉死叉策略``, ``5/20 SMA crossover``, ``RSI 30/70``, ``买入持有``."""
    plain = [token for token in tokens if token.kind not in ("SEP", "AND", "SLASH")]
    if [token.kind for token in plain] == ["HOLDING"]:
        return Compare(left=Bar(), op=">", right=Number(value=0.0)), None, memory
    kinds = [token.kind for token in plain if token.kind in ("GOLDEN", "DEATH", "CROSSOVER")]
    if kinds in (["GOLDEN"], ["CROSSOVER"], ["GOLDEN", "DEATH"]):
        lines = trimmed([token for token in tokens if token.kind not in ("GOLDEN", "DEATH", "CROSSOVER")])
        while lines and lines[-1].kind == "SLASH":
            lines.pop()
        found = {pair for pair, end in turns(lines, 0) if end == len(lines)}
        left, right = found.pop() if len(found) == 1 else (None, None)
        cross = None if left is None else meant(SaidTurn(up=True, left=left, right=right), memory)
        if cross is None:
            return None
        exit_ = None if kinds == ["GOLDEN"] else opposite(cross[0])
        return cross[0], exit_, cross[1]
    if [token.kind for token in tokens[-3:]] == ["NUM", "SLASH", "NUM"]:
        low, high = tokens[-3].value, tokens[-1].value
        for value, end in operands(tokens, 0):
            if isinstance(value, Rsi) and end == len(tokens) - 3 and 0 <= low < high <= 100:
                below = Compare(left=value, op="<", right=Number(value=low))
                above = Compare(left=value, op=">", right=Number(value=high))
                return below, above, remember(memory, value)
    return None


_USES_MACD = re.compile(
    r"(?:用|采用|基于|利用|按照?|根据)\s*macd|macd[^a-z]*做|^(?>.*?\b(?:use|using|apply)\b).*macd",
    re.IGNORECASE,
)
_PLAIN_LABELS = ("策略", "战法", "strategy", "strategies")
_DUAL = re.compile(r"双均线|均线交叉|dual|double|cross", re.IGNORECASE)


def named_indicator(plain: Tokens, tokens: Tokens, line: str, memory: Memory) -> Named | None:
    """``MACD策略`` and ``用MACD做`` alone are the MACD cross, ``双均线策略 10日 30日`` is that of the two averages.

    ``plain`` are the tokens without labels, ``tokens`` all of the line.
    """
    labels = " ".join(token.text for token in tokens if token.kind == "LABEL")
    if (
        plain
        and plain[0].kind == "MACD"
        and (labels in _PLAIN_LABELS or (not labels and _USES_MACD.search(line)))
    ):
        lines = [pair for pair, end in turns(plain, 0) if end == len(plain)]
    elif _DUAL.search(labels):
        days = [token.value for token in plain if token.kind in ("DAYS", "NUM")]
        joints = ("DAYS", "NUM", "LP", "RP", "SEP", "AND", "SLASH")
        if len(days) != 2 or any(day < 1 or day != int(day) for day in days):
            return None
        if any(token.kind not in joints for token in plain):
            return None
        lines = [(Average(period=int(days[0])), Average(period=int(days[1])))]
    else:
        return None
    cross = None if len(lines) != 1 else meant(SaidTurn(up=True, left=lines[0][0], right=lines[0][1]), memory)
    return None if cross is None else (cross[0], opposite(cross[0]), cross[1])


def middle_exit(tokens: Tokens, entry: Condition, memory: Memory) -> tuple[Condition, Memory] | None:
    """``exit at the middle band``: the middle one of the band of the entry, crossed from the side of the entry."""
    if [token.kind for token in tokens if token.kind != "BOLL"] != ["MIDDLE"] or len(tokens) > 2:
        return None
    match entry:
        case (
            Compare(left=Bar(field="close"), op="<", right=Band(side="lower") as band)
            | Cross(left=Bar(field="close"), direction="down", right=Band(side="lower") as band)
        ):
            return Compare(left=Bar(), op=">", right=replace(band, side="middle")), memory
        case (
            Compare(left=Bar(field="close"), op=">", right=Band(side="upper") as band)
            | Cross(left=Bar(field="close"), direction="up", right=Band(side="upper") as band)
        ):
            return Compare(left=Bar(), op="<", right=replace(band, side="middle")), memory
    return None


def named_bands(tokens: Tokens, memory: Memory) -> Named | None:
    """``布林带均值回归``, ``Bollinger breakout (20, 2)``: the two rules that are known by the name of the bands.

    Reversion buys below the lower band and sells above the upper one; breakout buys above the upper band and
    sells below the middle one.
    """
    styles: set[str] = set()
    numbers: dict[str, float] = {}
    named = False
    at = 0
    plain = [token for token in tokens if token.kind not in ("SIGNAL", "SEP", "AND")]
    while at < len(plain):
        token = plain[at]
        _, bollinger, params, end = band_words(plain, at)
        if token.kind in ("LABEL", "BREAKOUT", "BREAK_UP"):
            styles |= {style for style, words in _STYLES.items() if any(word in token.text for word in words)}
        elif bollinger and not named and kind_at(plain, at) in ("BOLL", "DAYS") and end > at:
            named = True
            numbers |= dict(zip(("DAYS", "TIMES"), params, strict=False))
            at = end
            continue
        elif token.kind == "LP" and not numbers:
            params, at = params_at(plain, at)
            if len(params) != 2:
                return None
            numbers = {"DAYS": params[0], "TIMES": params[1]}
            continue
        elif token.kind in ("DAYS", "TIMES") and token.kind not in numbers:
            numbers[token.kind] = token.value
        else:
            return None
        at += 1
    period, width = numbers.get("DAYS", 20.0), numbers.get("TIMES", 2.0)
    if not named or len(styles) != 1 or period != int(period) or period < 2 or width <= 0:
        return None
    upper = Band(side="upper", period=int(period), width=width)
    lower, middle = replace(upper, side="lower"), replace(upper, side="middle")
    seen = replace(memory, band=upper)
    above = Compare(left=Bar(), op=">", right=upper)
    if styles == {"reversion"}:
        return Compare(left=Bar(), op="<", right=lower), above, seen
    return above, Compare(left=Bar(), op="<", right=middle), seen
