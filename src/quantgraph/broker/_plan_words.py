"""A trade plan's JSON in words for people."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from quantgraph._util.texts import Language, Note, table_beside
from quantgraph.broker._plan import TradePlan

_WORDS = {word: Note(zh=zh, en=en) for word, zh, en in table_beside(__file__, "plan_words.csv")}
_SIZES = {
    "equal_slots": Note(zh="每只等分资金", en="each position an equal slot"),
    "equal_weight": Note(zh="持仓等权", en="equal weights"),
    "percent": Note(zh="每次买入账户的 {}", en="buys {} of the account each time"),
    "cash": Note(zh="每次买入 {}", en="buys for {} each time"),
    "shares": Note(zh="每次买入 {} 股", en="buys {} shares each time"),
    "weights": Note(zh="各占账户 {}", en="weights {}"),
    "rows": Note(zh="按权重表", en="by the rows of weights"),
}
_SLOTS = {
    "one": Note(zh="每次买入用全部资金", en="each purchase all of the account"),
    "many": Note(zh="每次买入用账户的 1/{}", en="each purchase 1/{} of the account"),
    "code": Note(zh="{1} 只里最多持有 {0} 只，先后按代码", en="at most {} of {} positions, by code"),
    "rank": Note(zh="{1} 只里最多持有 {0} 只", en="at most {} of {} positions"),
}
_DEFAULT = Note(zh="（默认）", en=" (default)")
_ADDED = {
    "amount": Note(zh="{} 元", en="{}"),
    "percent": Note(zh="账户的 {}", en="{} of the account"),
    "shares": Note(zh="{} 股", en="{} shares"),
}
_ON = {
    "schedule": Note(zh="定期买入 {}", en="buys {} more at each time"),
    "rise": Note(zh="每涨 {by} 加 {}", en="buys {} more at each rise of {by}"),
    "fall": Note(zh="每跌 {by} 加 {}", en="buys {} more at each fall of {by}"),
}
_TIMES = Note(zh="，最多 {} 次", en=", at most {} times")
_SCHEDULES = {
    "every": Note(zh="每个交易日", en="each session"),
    "week_start": Note(zh="每周第一个交易日", en="on the first session of a week"),
    "month_start": Note(zh="每月第一个交易日", en="on the first session of a month"),
    "quarter_start": Note(zh="每季第一个交易日", en="on the first session of a quarter"),
    "n": Note(zh="每 {} 个交易日", en="every {} sessions"),
    "trade_on": Note(zh="买卖日", en="on trade days"),
}
_DAYS = {
    "weekdays": Note(zh=" 周一 周二 周三 周四 周五 周六 周日", en=" Mon Tue Wed Thu Fri Sat Sun"),
    "months": Note(
        zh=" 1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月",
        en=" Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    ),
    "first": Note(zh="每月第 {} 个交易日", en="session {} of a month"),
    "last": Note(zh="每月倒数第 {} 个交易日", en="session {} from the end of a month"),
}
_LEVELS = {"stop_loss", "take_profit", "trailing_stop"}
_SHARES = {*_LEVELS, "cash_reserve", "band", "commission", "percent", "by"}


def plan_words(values: Mapping[str, Any], language: Language, traded: int | None = None) -> list[str]:
    """A plan's JSON for people, a part each.

    With the number of symbols that are traded, the first part is how much a purchase takes and how many
    positions there are; defaults say so.

    >>> plan_words({"stop_loss": "0.08", "max_holding": 20, "size": {"cash": "20000"}}, "en")
    ['stop loss 8%', 'held at most 20 sessions', 'buys for 20,000 each time']
    >>> plan_words({}, "en", 30)
    ['each purchase 1/10 of the account; at most 10 of 30 positions, by code (default)']
    >>> plan_words({}, "zh", 1), plan_words({"size": {"percent": "0.3"}, "max_positions": 5}, "en", 3)
    (['每次买入用全部资金（默认）'], ['buys 30% of the account each time; at most 5 positions'])
    """
    if traded is None:
        return [_part(name, value, language) for name, value in values.items()]
    rest = (_part(name, value, language) for name, value in values.items() if name not in _OF_SIZE)
    return [_size_in_words(values, traded, language), *rest]


_OF_SIZE = ("size", "max_positions")


def _size_in_words(values: Mapping[str, Any], traded: int, language: Language) -> str:
    plan, join = TradePlan.of(values), "；" if language == "zh" else "; "
    slots, parts = plan.slots(traded), list[str]()
    kind, value = plan.sizing(traded)
    if plan.size is None and kind == "percent" and value == Fraction(1, slots):
        parts.append(_SLOTS["one" if slots == 1 else "many"].text(language).format(slots))
    else:
        parts.append(_size_words(values.get("size") or {kind: value}, language))
    if plan.max_positions is not None and (plan.rank or slots >= traded):
        parts.append(_WORDS["max_positions"].text(language).format(slots))
    elif slots < traded and kind != "weights":
        ranked = "rank" if plan.rank else "code"
        parts.append(_SLOTS[ranked].text(language).format(slots, traded))
    is_cut = kind != "weights" and plan.max_positions is None and slots < traded
    if (plan.size is None or is_cut) and plan.accumulate is None:
        parts[-1 if is_cut else 0] += _DEFAULT.text(language)
    return join.join(parts)


def _part(name: str, value: Any, language: Language) -> str:
    if name == "size":
        return _size_words(value, language)
    if name == "accumulate":
        return _accumulate_words(value, language)
    if name in {"reentry", "entry_row"}:
        return _WORDS[value].text(language)
    if name == "no_entry_on":
        join = "、" if language == "zh" else ", "
        days = (_day(kind, each, language) for kind, numbers in value.items() for each in numbers)
        return _WORDS[name].text(language).format(join.join(days))
    if name in {"trade_on", "exit_on", "rebalance"}:
        schedule = _SCHEDULES[value if isinstance(value, str) else "n"].text(language).format(value)
        return _WORDS[name].text(language).format(schedule)
    if name == "rank":
        key = "-rank" if value.startswith("-") else "rank"
        return _WORDS[key].text(language).format(value.removeprefix("-"))
    words = _WORDS[name].text(language) if name in _WORDS else f"{name} {{}}"  # a result of elsewhere
    return words.format(_format(name, value))


def _day(kind: str, number: int, language: Language) -> str:
    if kind == "sessions":
        return _DAYS["first" if number > 0 else "last"].text(language).format(abs(number))
    return _DAYS[kind].text(language).split(" ")[number]


def _size_words(size: Any, language: Language) -> str:
    if isinstance(size, str):
        return _SIZES["rows" if size == "weights" else size].text(language)
    ((kind, value),) = size.items()
    if kind == "weights":
        join = "、" if language == "zh" else ", "
        value = join.join(f"{symbol} {_format('percent', weight)}" for symbol, weight in value.items())
    return _SIZES[kind].text(language).format(_format(kind, value))


def _accumulate_words(values: Mapping[str, Any], language: Language) -> str:
    kind = next(name for name in _ADDED if name in values)
    more = _ADDED[kind].text(language).format(_format(kind, values[kind]))
    times = _TIMES.text(language).format(values["times"]) if "times" in values else ""
    return _ON[values["on"]].text(language).format(more, by=_format("by", values.get("by", 0))) + times


def _format(name: str, value: Any) -> str:
    """A number as people write it: fractions in percent, amounts with commas."""
    if name in _LEVELS and isinstance(value, Mapping):
        return f"{value['atr']} ATR({value['window']})"
    if name in _SHARES:
        return f"{(100 * Decimal(value)).normalize():f}%"
    return f"{Decimal(value):,f}" if name in {"cash", "amount", "shares"} else str(value)
