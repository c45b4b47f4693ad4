"""A rule in words, in Chinese or English."""

from __future__ import annotations

from quantgraph._util.texts import Language
from quantgraph.llm.planner.rules import (
    AllOf,
    AnyOf,
    Average,
    Band,
    Bar,
    Compare,
    Condition,
    Cross,
    Extreme,
    Indicator,
    Kdj,
    Macd,
    Not,
    Number,
    Rank,
    Return,
    Rsi,
    Scaled,
    Value,
)

__all__ = ["describe", "figure"]


_SIDES = {"upper": ("上轨", "upper"), "middle": ("中轨", "middle"), "lower": ("下轨", "lower")}


def figure(value: float) -> str:
    """A number without a needless fraction.

    >>> figure(20.0), figure(1.5)
    ('20', '1.5')
    """
    return str(int(value)) if value == int(value) else repr(value)


def _value(value: Value, zh: bool) -> str:  # noqa: C901, PLR0911 - one case a node
    match value:
        case Number(value=number):
            return figure(number)
        case Bar(field=name):
            return (
                ("收盘价" if name == "close" else "成交量")
                if zh
                else ("close" if name == "close" else "volume")
            )
        case Average(kind=kind, period=period, field=name):
            return f"{kind.upper()}({period})" + ((" 均量" if zh else " of volume") if name == "vol" else "")
        case Scaled(factor=factor, value=average):
            return f"{figure(factor)} x {_value(average, zh)}"
        case Macd(part=part, fast=fast, slow=slow, signal=signal):
            return f"{part.upper()}({fast},{slow}" + (f",{signal})" if part == "dea" else ")")
        case Rsi(period=period):
            return f"RSI({period})"
        case Band(side=side, period=period, width=width):
            name = f"布林({period},{figure(width)}){_SIDES[side][0]}"
            return name if zh else f"{_SIDES[side][1]} Bollinger band ({period}, {figure(width)})"
        case Kdj(part=part, period=n, smooth_k=m, smooth_d=d):
            return f"KDJ({n},{m},{d}).{part.upper()}"
        case Return(period=period):
            return f"{period}日涨幅" if zh else f"{period}-day return"
        case Extreme(side=side, period=period):
            word = ("最高价" if side == "high" else "最低价") if zh else side
            return f"此前{period}日{word}" if zh else f"{word} of the {period} sessions before"
        case Indicator(field=name):
            return name


def _rank(rank: Rank, zh: bool) -> str:
    amount = figure(rank.amount) + ("%" if rank.unit == "percent" else "")
    top = rank.side == "top"
    if zh:
        unit = "" if rank.unit == "percent" else "只"
        return f"{_value(rank.value, zh)}{'最高' if top else '最低'}的{amount}{unit}"
    return f"{'top' if top else 'bottom'} {amount} by {_value(rank.value, zh)}"


def _threshold(compare: Compare, zh: bool) -> str:
    if isinstance(compare.left, Return) and isinstance(compare.right, Number):
        return figure(round(100 * compare.right.value, 10)) + "%"
    return _value(compare.right, zh)


def describe(condition: Condition, language: Language) -> str:
    """The condition in one phrase.

    >>> describe(Compare(left=Rsi(period=14), op="<", right=Number(value=30.0)), "en")
    'RSI(14) < 30'
    """
    zh = language == "zh"
    match condition:
        case Compare(left=left, op=op):
            return f"{_value(left, zh)} {op} {_threshold(condition, zh)}"
        case Cross(left=left, direction=direction, right=right):
            up = direction == "up"
            word = ("上穿" if up else "下穿") if zh else ("crosses above" if up else "crosses below")
            return f"{_value(left, zh)} {word} {_value(right, zh)}"
        case Rank():
            return _rank(condition, zh)
        case Not(part=part):
            return f"{'非' if zh else 'not'} ({describe(part, language)})"
        case AllOf(parts=parts):
            return (" 且 " if zh else " and ").join(_bracketed(part, language) for part in parts)
        case AnyOf(parts=parts):
            return (" 或 " if zh else " or ").join(_bracketed(part, language) for part in parts)


def _bracketed(part: Condition, language: Language) -> str:
    text = describe(part, language)
    return f"({text})" if isinstance(part, AllOf | AnyOf) else text
