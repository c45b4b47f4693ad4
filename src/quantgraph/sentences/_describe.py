"""A rule in words, in Chinese or English; the name of its signal, and the sessions that it needs."""

from __future__ import annotations

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import Language
from quantgraph.sentences import _rules as tree

_LONGEST_NAME = 80


def slug(value: float) -> str:
    """A number as part of a name: ``1p5`` for 1.5."""
    return format_number(value).replace(".", "p").replace("-", "minus")


def _sessions_of(value: tree.Value) -> int:
    match value:
        case tree.Average(period=period) | tree.Band(period=period) | tree.Kdj(period=period):
            return period
        case tree.Scaled(value=average):
            return average.period
        case tree.Macd(part="dif", fast=fast, slow=slow):
            return max(fast, slow)
        case tree.Macd(fast=fast, slow=slow, signal=signal):
            return max(fast, slow) + signal - 1
        case tree.Rsi(period=period) | tree.Return(period=period) | tree.Extreme(period=period):
            return period + 1
    return 1


def lookback_of(rule: tree.TradingRule) -> int:
    """Number of sessions up to and including the first one that can have a signal."""
    longest = 1
    for leaf in (*tree.leaves_of(rule.entry), *tree.leaves_of(rule.exit)):
        if isinstance(leaf, tree.Rank):
            longest = max(longest, _sessions_of(leaf.value))
        else:
            needs = max(_sessions_of(leaf.left), _sessions_of(leaf.right))
            longest = max(longest, needs + isinstance(leaf, tree.Cross))
    return longest


def _value_name(value: tree.Value) -> str:  # noqa: C901, PLR0911 - one case a node
    match value:
        case tree.Number(value=number):
            return slug(number)
        case tree.Bar(field=name) | tree.Indicator(field=name):
            return name
        case tree.Average(kind=kind, period=period, field=name):
            return f"{'vol_' if name == 'vol' else ''}{kind}_{period}"
        case tree.Scaled(factor=factor, value=average):
            return f"{slug(factor)}x_{_value_name(average)}"
        case tree.Macd(part=part, fast=fast, slow=slow, signal=signal):
            return f"{part}_{fast}_{slow}" + (f"_{signal}" if part == "dea" else "")
        case tree.Rsi(period=period):
            return f"rsi_{period}"
        case tree.Band(side=side, period=period, width=width):
            return f"boll_{side}_{period}_{slug(width)}"
        case tree.Kdj(part=part, period=n, smooth_k=m, smooth_d=d):
            return f"{part}_{n}_{m}_{d}"
        case tree.Return(period=period):
            return f"return_{period}"
        case tree.Extreme(side=side, period=period):
            return f"{side}_{period}"


_OPERATOR_NAMES = {">": "above", "<": "below", ">=": "at_least", "<=": "at_most"}


def _condition_name(condition: tree.Condition) -> str:  # noqa: C901, PLR0911 - one case a node
    match condition:
        case tree.Cross(
            left=tree.Average(kind=kind, field="close", period=a), right=tree.Average(kind=other, period=b)
        ) if kind == other:
            return f"{kind}_cross_{a}_{b}" + _down(condition)
        case tree.Cross(left=tree.Macd(part="dif"), right=tree.Macd(fast=fast, slow=slow, signal=signal)):
            return f"macd_cross_{fast}_{slow}_{signal}" + _down(condition)
        case tree.Cross(left=tree.Kdj(part="k"), right=tree.Kdj(part="d", period=n, smooth_k=m, smooth_d=d)):
            return f"kdj_cross_{n}_{m}_{d}" + _down(condition)
        case tree.Cross(left=left, direction=direction, right=right):
            return f"{_value_name(left)}_cross_{direction}_{_value_name(right)}"
        case tree.Compare(left=tree.Bar(field="close"), op=op, right=tree.Extreme(side=side, period=period)):
            return f"{_OPERATOR_NAMES[op]}_{period}_day_{side}"
        case tree.Compare(left=left, op=op, right=right):
            return f"{_value_name(left)}_{_OPERATOR_NAMES[op]}_{_value_name(right)}"
        case tree.Rank(value=value, side=side, amount=amount, unit=unit):
            return f"{side}_{slug(amount)}{'_percent' if unit == 'percent' else ''}_by_{_value_name(value)}"
        case tree.Not(part=part):
            return f"not_{_condition_name(part)}"
        case tree.OfIndex(part=part):
            return f"index_{_condition_name(part)}"
        case tree.AllOf(parts=parts):
            return "_and_".join(map(_condition_name, parts))
        case tree.AnyOf(parts=parts):
            return "_or_".join(map(_condition_name, parts))


def _down(cross: tree.Cross) -> str:
    return "" if cross.direction == "up" else "_down"


def name_of(rule: tree.TradingRule) -> str:
    """Name of a rule's signal, at most 80 characters; it includes the exit unless that is the opposite."""
    name = _condition_name(rule.entry)
    if rule.exit != tree.opposite(rule.entry):
        name = f"{name}_exit_{'never' if rule.exit == tree.NEVER else _condition_name(rule.exit)}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = content_hash(name, size=4)
    return f"{name[: _LONGEST_NAME - 9].rstrip('_')}_{digest}"


_SIDES = {"upper": ("上轨", "upper"), "middle": ("中轨", "middle"), "lower": ("下轨", "lower")}


def format_number(value: float) -> str:
    """A number without a zero fraction.

    >>> format_number(20.0), format_number(1.5)
    ('20', '1.5')
    """
    return str(int(value)) if value == int(value) else repr(value)


def _value(value: tree.Value, zh: bool) -> str:  # noqa: C901, PLR0911 - one case a node
    match value:
        case tree.Number(value=number):
            return format_number(number)
        case tree.Bar(field=name):
            return (
                ("收盘价" if name == "close" else "成交量")
                if zh
                else ("close" if name == "close" else "volume")
            )
        case tree.Average(kind=kind, period=period, field=name):
            return f"{kind.upper()}({period})" + ((" 均量" if zh else " of volume") if name == "vol" else "")
        case tree.Scaled(factor=factor, value=average):
            return f"{format_number(factor)} x {_value(average, zh)}"
        case tree.Macd(part=part, fast=fast, slow=slow, signal=signal):
            return f"{part.upper()}({fast},{slow}" + (f",{signal})" if part == "dea" else ")")
        case tree.Rsi(period=period):
            return f"RSI({period})"
        case tree.Band(side=side, period=period, width=width):
            name = f"布林({period},{format_number(width)}){_SIDES[side][0]}"
            return name if zh else f"{_SIDES[side][1]} Bollinger band ({period}, {format_number(width)})"
        case tree.Kdj(part=part, period=n, smooth_k=m, smooth_d=d):
            return f"KDJ({n},{m},{d}).{part.upper()}"
        case tree.Return(period=period):
            return f"{period}日涨幅" if zh else f"{period}-day return"
        case tree.Extreme(side=side, period=period):
            word = ("最高价" if side == "high" else "最低价") if zh else side
            return f"此前{period}日{word}" if zh else f"{word} of the {period} sessions before"
        case tree.Indicator(field=name):
            return name


def describe_value(value: tree.Value, language: Language) -> str:
    """A value as one phrase.

    >>> describe_value(tree.Average(kind="ema", period=12), "en")
    'EMA(12)'
    """
    return _value(value, language == "zh")


def _rank(rank: tree.Rank, zh: bool) -> str:
    amount = format_number(rank.amount) + ("%" if rank.unit == "percent" else "")
    top = rank.side == "top"
    if zh:
        unit = "" if rank.unit == "percent" else "只"
        return f"{_value(rank.value, zh)}{'最高' if top else '最低'}的{amount}{unit}"
    return f"{'top' if top else 'bottom'} {amount} by {_value(rank.value, zh)}"


def _threshold(compare: tree.Compare, zh: bool) -> str:
    if isinstance(compare.left, tree.Return) and isinstance(compare.right, tree.Number):
        return format_number(round(100 * compare.right.value, 10)) + "%"
    return _value(compare.right, zh)


def describe(condition: tree.Condition, language: Language) -> str:
    """A condition as one phrase.

    >>> describe(tree.Compare(left=tree.Rsi(period=14), op="<", right=tree.Number(value=30.0)), "en")
    'RSI(14) < 30'
    """
    zh = language == "zh"
    if condition == tree.NEVER:
        return "从不" if zh else "never"
    match condition:
        case tree.Compare(left=left, op=op):
            return f"{_value(left, zh)} {op} {_threshold(condition, zh)}"
        case tree.Cross(left=left, direction=direction, right=right):
            up = direction == "up"
            word = ("上穿" if up else "下穿") if zh else ("crosses above" if up else "crosses below")
            return f"{_value(left, zh)} {word} {_value(right, zh)}"
        case tree.Rank():
            return _rank(condition, zh)
        case tree.Not(part=part):
            return f"{'非' if zh else 'not'} ({describe(part, language)})"
        case tree.OfIndex(code=code, part=part):
            return f"{code} {describe(part, language)}"
        case tree.AllOf(parts=parts):
            return (" 且 " if zh else " and ").join(_in_brackets(part, language) for part in parts)
        case tree.AnyOf(parts=parts):
            return (" 或 " if zh else " or ").join(_in_brackets(part, language) for part in parts)


def _in_brackets(part: tree.Condition, language: Language) -> str:
    text = describe(part, language)
    return f"({text})" if isinstance(part, tree.AllOf | tree.AnyOf | tree.OfIndex) else text
