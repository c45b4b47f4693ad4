"""The numbers of a text with their units, and its dates.

A number means what its unit says: ``0.1%`` is 0.001, ``三成`` is 0.3, ``2 weeks`` are 10 sessions, ``a third`` is 1/3.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from quantgraph._util.texts import simplified
from quantgraph.sentences._text import chinese_number


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number of a text.

    Attributes
    ----------
    values
        What it may stand for.
    factors
        What else it may be in a condition: 10 % below is 0.9 times.
    begin, end
        Its place in the plain text.
    spelt
        Whether it is in words, which may count something else: a half, a dozen.
    """

    values: frozenset[float]
    begin: int
    end: int
    factors: frozenset[float] = frozenset()
    spelt: bool = False

    def is_one_of(self, others: Iterable[float]) -> bool:
        """Whether one of its values is among others, but for rounding."""
        return any(same(one, other) for one in self.values for other in others)

    def is_planned_by(self, others: Iterable[float]) -> bool:
        """Whether a plan has it; 0.05 % is no 0.05 there."""
        is_share = len(self.values) > 1 and max(self.values) == 100 * min(self.values) and not self.spelt
        kept = [each for each in others if each >= 1 or same(each, min(self.values))] if is_share else others
        return self.is_one_of(kept)

    def is_factor_of(self, others: Iterable[float]) -> bool:
        """Whether a condition has it, in one of the ways in which it can be written there."""
        return any(same(one, other) for one in self.values | self.factors for other in others)


def same(one: float, other: float) -> bool:
    """Whether numbers are equal but for rounding, as 1/3 and 0.333 are."""
    return abs(one - other) <= 0.002 * max(abs(one), abs(other))


@lru_cache(maxsize=512)
def plain(text: str) -> str:
    """A text in one width, lower case and simplified characters; places are places in it.

    >>> plain("ＲＳＩ低於30")
    'rsi低于30'
    """
    found = simplified(unicodedata.normalize("NFKC", text)).lower()
    return found.replace("\u2019", "'").replace("\u2212", "-")


_ZH = "零〇一二两三四五六七八九十百"
_EN = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100,
    "third": 3, "thirds": 3, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10, "zero": 0,
    "dozen": 12, "quarter": 4, "double": 2, "doubles": 2, "twice": 2, "triple": 3, "one": 1,
}  # fmt: skip
_UNITS = (
    r"(?P<per>per (?:ten )?thousand)|(?P<share>%|percent(?:age)?(?: points?)?|pct|个?百分点|个?点(?![位子])|points?|pp|pts?)"
    r"|(?P<basis>bps?|basis points|个?基点)|(?P<tenths>成(?![交份本立]|分股))|(?P<times>倍|x(?![a-z])|times)"
    r"|(?P<scale>万|亿|k(?![a-z线])|thousand|million|billion)"
    r"|(?P<week>个?星期|周(?![一二三四五])|-?weeks?|-?wks?)|(?P<month>个?月|-?months?)|(?P<season>个?季度|-?quarters?)"
    r"|(?P<year>年|-?years?)"
)
_NUMBER = re.compile(  # "百分之五", "3 weeks", "一半"
    rf"(?P<part>百分之|千分之|万分之|(?<=[金费率是为按点])万(?=[\d{_ZH}]))?"
    rf"(?:(?P<figure>(?<![\d.])\d+(?:,\d{{3}})*(?:\.\d+)?(?:e-?\d+)?)(?!\d)"
    rf"|(?P<zh>(?<=[百千万]分之)[{_ZH}]+(?:点[{_ZH}]+)?"
    rf"|[{_ZH}]+(?:点[{_ZH}]+)?(?=\s*(?:%|个|日|天|周|月|年|季|倍|成|只|支|名|家|根|次|元|块|万|亿|千|点|连|手|股|档|折|阳|阴|轴|跌|涨)|分之)"
    rf"|(?<=[金费率是为按点]万)[{_ZH}](?:点[{_ZH}]+)?|(?<=连)[{_ZH}](?=[阳阴涨跌升降]))"
    rf"|(?<![a-z])(?P<en>{'|'.join(_EN)})(?![a-z])(?!(?<=quarter)(?! of (?:the |my |our )?(?:account|equity|cash|capital|money|portfolio|position|book)))|(?P<half>半(?=仓|成|数|年|个月|倍)|一半|对半|(?<![a-z])half(?= of (?:the|my|our) (?!month|year)|[ -](?:position|size|the (?:account|cash|money)|my))))"
    rf"(?:分之(?P<over>[{_ZH}\d]+)|(?<=(?<!\d)[123])/(?P<under>[2-9])(?!\d))?(?:[\s-]*(?:{_UNITS}))?"
)
_ORDINALS = frozenset(("quarter", "third", "thirds", "fourth", "fifth", "sixth", "eighth", "tenth"))
"""Words that are a place or a part: the third day, a third of the account."""
_SPANS = {
    "week": (5,), "month": (20, 21, 22), "season": (60, 61, 63, 65, 66), "year": (240, 242, 244, 250, 252),
}  # fmt: skip
_SCALES = {"万": 1e4, "亿": 1e8, "k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_LINES = {"半年线": (120, 125, 126), "年线": (240, 242, 244, 250, 252), "季线": (60, 63, 65)}
_LINE = re.compile("|".join(_LINES))  # "年线"


def _value(match: re.Match[str]) -> float:
    if match["figure"]:
        return float(match["figure"].replace(",", ""))
    if match["zh"]:
        whole, _, part = match["zh"].partition("点")
        digits = "".join(str(int(chinese_number(each))) for each in part)
        return float(f"{chinese_number(whole):g}.{digits or 0}")
    return float(_EN[match["en"]]) if match["en"] else 0.5


def _values(value: float, match: re.Match[str]) -> set[float]:  # noqa: C901, PLR0911 - one case a unit
    unit = str(match.lastgroup)
    if match["over"] or match["under"]:  # 三分之一, 1/3
        over = match["over"]
        if match["under"]:
            return {value / float(match["under"])}
        return {float(over) / value} if over.isdigit() else {chinese_number(over) / value}
    if match["per"]:  # 2.5 per ten thousand
        return {value / (1e4 if "ten" in match["per"] else 1e3)}
    if match["part"]:
        return {value / {"百": 100, "千": 1000, "万": 1e4}[match["part"][0]]}
    if unit == "share":
        return {value, value / 100}
    if unit == "basis":
        return {value / 1e4}
    if unit == "tenths":
        return {value / 10, 10 * value}
    if unit == "scale":
        return {value * _SCALES[match["scale"]]}
    if unit in _SPANS:
        return {value * each for each in _SPANS[unit]} | ({250.0, 252.0} if value == 52 else set())
    if match["en"] in _ORDINALS:
        return {value, 1 / value, 2 / value, 3 / value, 100 / value}
    return {value, *((100 * value,) if 0 < value < 1 else ())}


def _factors(value: float, match: re.Match[str]) -> set[float]:
    unit = str(match.lastgroup)
    share = value / 10 if unit == "tenths" else value / 100 if unit == "share" else None
    return set() if share is None else {1 + share, 1 - share, 100 - 100 * share}


def numbers_in(text: str) -> Iterator[Number]:
    """The numbers of a plain text; a bare one counts nothing.

    >>> [sorted(each.values)[:2] for each in numbers_in("三成仓，10 bps，2 weeks")]
    [[0.3, 30.0], [0.001], [10.0]]
    """
    for found in _NUMBER.finditer(text):
        value = _value(found)
        is_next = text[: found.start()].endswith("第") and value == 2.0  # "第二天"
        is_one = is_next or (
            value == 1 and found["share"] is None and found.lastgroup not in {"basis", "tenths", "scale"}
        )
        is_part = (
            re.match(r" (?:thirds|quarters|fifths|tenths)", text[found.end() :]) is not None
        )  # "two thirds"
        if not is_part and not (is_one and not (found["part"] or found["over"] or found["under"])):
            yield Number(
                values=frozenset(_values(value, found)),
                factors=frozenset(_factors(value, found)),
                begin=found.start(),
                end=found.end(),
                spelt=found["figure"] is None,
            )
    for line in _LINE.finditer(text):
        yield Number(values=frozenset(map(float, _LINES[line[0]])), begin=line.start(), end=line.end())


_MONTHS = "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
_DATES = re.compile(  # "2025年3月到10月", "from June to October 2025", "last 6 months"
    r"(?<!\d)(?:19|20)\d{2}\s*[-/.年]\s*\d{1,2}(?:\s*[-/.月]\s*\d{1,2}\s*[日号]?|\s*月)?|(?<!\d)(?:19|20)\d{6}(?!\d)"
    r"|(?<![\d.])(?:19|20)\d{2}(?!\d)\s*年?(?:[上下]半年|第?[一二三四1-4]季度?|全年)?|(?<!\d)\d{2}年(?=[上下全底末初]|$|[，,。\s])"
    r"|今年|去年|前年|年初(?:至今|以来)|[上下]半年|(?:最近|近|过去)\s*[\d一二两三四五六七八九十半]+\s*个?(?:年|季度?|月)(?!\s*的?(?:新?[高低]|涨|跌|均|收益|线|内|来))"
    rf"|(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?(?<![a-z])(?:{_MONTHS})(?![a-z])\.?(?:\s+\d{{1,2}}(?:st|nd|rd|th)?(?![\d%]))?"
    r"|(?<![a-z])(?:q[1-4]|h[12])(?![a-z])|(?:this|last) year|ytd|(?:first|second) half(?: of)?"
    r"|(?:(?:in|over|for|during) )?the (?:last|past) (?:\d+|two|three|six|twelve) (?:months|years|quarters)"
)
_MONTH_SPAN = re.compile(
    r"(?:\d{1,2}[、,和]\s*)*(?<![\d个])\d{1,2}月(?![线均])(?!\s*(?:\d|[到至~—-]|起))|(?<![一二三四五六七八九十个])[一二三四五六七八九十]{1,2}月(?![线均])"
    r"|(?<!\d)\d{1,2}月\d{1,2}[日号](?!\s*[到至~—-])|(?<!\d)\d{1,2}\s*月(?:\s*\d{1,2}\s*[日号])?\s*(?:[到至~—-]|起)\s*\d{1,2}\s*月(?:\s*\d{1,2}\s*[日号]|底|末)?"
)  # "3月到10月", "4、8月"
_CODES = re.compile(r"(?<![a-z\d])(?:\d{6}(?:\.(?:sh|sz|bj))?|(?:sh|sz|bj)\d{6})(?![a-z\d])")  # "600519.sh"


_INDICES = re.compile(  # "沪深300", "S&P 500"
    r"沪深\s*300|上证\s*50|上证\s*180|中证\s*\d+|科创\s*50|创业板\s*50|s&p(?:\s*500)?|nasdaq[ -]?100|csi\s*\d+|sse\s*(?:50|180)|russell\s*\d+|dow(?: jones)?(?: 30)?"
)


def without_dates_and_codes(text: str, names: Iterable[str] = ()) -> str:
    """A plain text with blanks in place of codes, names and the dates of its window; places stay.

    >>> without_dates_and_codes("600519.sh 5日线，2025年3月到10月").split()
    ['5日线，']
    """
    patterns = [_MONTH_SPAN, _CODES, _DATES, _INDICES]
    patterns += [re.compile(re.escape(plain(each))) for each in sorted(names, key=len, reverse=True) if each]
    for pattern in patterns:
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def squeezed(text: str) -> str:
    return "".join(plain(text).split()).strip(",，;；。.!！?？\"“”'")


_WEEKDAY = re.compile(
    r"(?:周|星期|礼拜)([一二三四五1-5])|(?<![a-z])(mon|tue|wed|thu|fri)[a-z]*"
)  # "周五", "Fridays"
_MONTH = re.compile(
    rf"(?<!\d)(\d{{1,2}}|[一二三四五六七八九十]{{1,2}})月|(?<![a-z])({_MONTHS})(?![a-z])"
)  # "4月", "April"
_MONTH_NAMES = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def weekdays_in(text: str) -> set[float]:
    """Weekdays that a plain text names, 1 for Monday.

    >>> weekdays_in("周五和4月"), weekdays_in("on mondays")
    ({5.0}, {1.0})
    """
    days = {float("一二三四五12345".index(zh) % 5 + 1) for zh, _ in _WEEKDAY.findall(text) if zh}
    return days | {
        float(["mon", "tue", "wed", "thu", "fri"].index(en) + 1) for _, en in _WEEKDAY.findall(text) if en
    }


def months_in(text: str) -> set[float]:
    """Months that a plain text names.

    >>> months_in("4月、十月"), months_in("no buying in september")
    ({10.0, 4.0}, {9.0})
    """
    listed = re.sub(r"(\d{1,2})(?=(?:[、,和]\s*\d{1,2})*月)", r"\1月", text)  # "1、4、7、10月"
    return {
        float(_MONTH_NAMES.index(en[:3]) + 1 if en else int(zh) if zh.isdigit() else chinese_number(zh))
        for zh, en in _MONTH.findall(listed)
    }
