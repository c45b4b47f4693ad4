"""Normalise text before it is read: character widths, number words, and phrases with a shorter form."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache

from quantgraph._util.traditional import simplified

MOST_DIGITS = 15
"""Most digits of a number in a sentence: a float holds as many exactly."""

MARKS = "\U000f0000-\U000ffffd"
"""Range of the placeholders of securities in a marked text; no text of a user has them."""

_DIGITS = {
    "零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4,
    "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
}  # fmt: skip
_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40,
    "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
}  # fmt: skip

_FIGURES = "零〇一二两三四五六七八九十百"
_NUMERAL = re.compile(
    rf"(?<![{_FIGURES}])(?!一\s*个(?!月|季|交易日|周|星期|年|日|天))[{_FIGURES}]{{1,{MOST_DIGITS}}}+(?=\s*(?:个|日|天|周|月|年|季度|倍|只|支|名|家|成(?![交份分])|%))"
)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1e\x7f-\x9f]")
_INVISIBLE = re.compile(rf"[{MARKS}\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACES = re.compile(r"[^\S\n]{2,}")
_MARK = "\x1f"
_MEASURE = re.compile(r"[个些种套份款]+")
_PERCENT_OF = re.compile(rf"百分之([{_FIGURES}]{{1,{MOST_DIGITS}}}+(?![{_FIGURES}])|\d+(?:\.\d+)?)")
_TENTHS = re.compile(rf"(?<!\d)(\d{{1,{MOST_DIGITS}}})\s*成(?![交份分])")
_ENGLISH_NUMBER = re.compile(
    r"\b("
    + "|".join(_WORDS)
    + r")\b(?=[\s-]*(?:days?|sessions?|weeks?|months?|years?|times|percent|stocks?)\b)"
    r"|(?<=\btop )(" + "|".join(_WORDS) + r")\b|(?<=\bbottom )(" + "|".join(_WORDS) + r")\b",
    re.IGNORECASE,
)
_PERCENT_WORD = re.compile(r"(?<=\d)\s*(?:per\s?cent|pct)\b", re.IGNORECASE)
_LOOK_BACK_ZH = re.compile(
    r"(?:过去|最近|近|前)\s*(\d+)\s*个?(?:交易)?[日天]"
    r"(?=\s*内?\s*的?\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量|新高|新低|最高|最低|高点|低点|均|平均))内?\s*的?\s*"
)
_LOOK_BACK_EN = re.compile(
    r"\b(returns?|momentum|gain|highs?|lows?|average(?: volume)?|rsi)\s+(?:over|of|in|for|during)\s+(?:the\s+)?"
    r"(?:last|past|previous|prior)?\s*(\d+)\s+(?:trading\s+)?(?:days|sessions)\b",
    re.IGNORECASE,
)
_PAST_N_DAY = re.compile(
    r"\b(?:last|past|previous|prior)\s+(\d+)[\s-]*(?:trading\s+)?days?(?:'s|')?\s+"
    r"(?=returns?\b|momentum\b|gain\b|highs?\b|lows?\b|average\b)",
    re.IGNORECASE,
)


SESSIONS_A_MONTH = 21
"""Sessions of a month of momentum or return."""
_MONTHS_OF = re.compile(
    r"(?:过去|最近|近|前)?(\d{1,3})个月的?(?=\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量))"
    r"|\b(\d{1,3})[\s-]month(?:s')?[\s-]+(?=returns?\b|momentum\b|gains?\b)",
    re.IGNORECASE,
)
_FROM_BELOW = re.compile(
    r"\bcross(es|ed|ing)?\b(?!\s+(?:above|below|over|under|up|down)\b)"
    r"((?:(?!\b(?:and|or|buy|sell|when|then|from)\b)[\w\s'()-]){1,60}?)\bfrom\s+(below|above)\b",
    re.IGNORECASE,
)
_DAYS_BROKEN = re.compile(
    r"(?<!\d)(\d+)\s*[日天](突破|跌破)(?=\s*(?:时|就|则|后)?\s*(?:[,;。]|$|买|做多|开仓|入场|卖|平仓|离场|出场|清仓))"
)
_DAYS_THAT_CROSS = re.compile(
    r"(?<![\d.月/-])(\d{1,3})(?:\s*[日天]\s*[/、和与]?|\s*-?\s*days?\s*(?:/|\band)|\s*[/、和与]|\s+and)\s*(\d{1,3})\s*(?:[日天]|-?\s*days?\b)?"
    r"(?=\s*的?(?:黄金交叉|金叉|死亡交叉|死叉|(?:golden|death|dead)[\s-]cross))",
    re.IGNORECASE,
)
_BREAKS = re.compile(
    r"\bbreak(s|ing)?\s+(?:(?:out\s+of|through)\s+)?(?:(?:its|the|an?)\s+)?(?:new\s+)?(?=\d+[\s-]*days?\s+(high|low)s?\b)",
    re.IGNORECASE,
)
_STOCKS_WITH = re.compile(
    r"\b(?:top\s+)?(\d+)\s+(?:stocks|names|symbols|companies)\s+(?:with|that\s+have|having)\s+the\s+"
    r"(highest|largest|strongest|best|lowest|smallest|weakest|worst)\b",
    re.IGNORECASE,
)
_DEVIATIONS_EN = re.compile(
    r"\b(?:more\s+than\s+)?(\d+(?:\.\d+)?)\s*(?:standard\s+deviations?|std(?:s|\s+devs?)?|sigmas?)\s+(above|below)\s+"
    r"(?:its\s+|the\s+)?(\d+)[\s-]*days?\s+(?:(?:simple\s+)?moving\s+average|average|mean|s?ma)\b",
    re.IGNORECASE,
)
_DEVIATIONS_ZH = re.compile(
    r"(高于|低于|突破|跌破)\s*(\d+)\s*[日天](?:移动平均线|移动平均|均线|均值)的?\s*(\d+(?:\.\d+)?)\s*[个倍]的?标准差"
)
_LEVEL = r"\s*(-?\d+(?:\.\d+)?)(?![\d.]*\s*(?:%|日|天|倍|元|亿))\s*"
_RISES_TO = re.compile(
    rf"(?:重新|再次)?(?:回升|升回|涨回|升|回到|反弹|上升){{1,2}}[到至]?{_LEVEL}(?:以上|之上|上方)"
)
_FALLS_TO = re.compile(
    rf"(?:重新|再次)?(?:跌回|降回|回落|跌|降|下降){{1,2}}[到至]?{_LEVEL}(?:以下|之下|下方)"
)
_RISES_OVER = re.compile(rf"(?:回升|上升|反弹)[到至]?(?:超过|高于|突破){_LEVEL}")
_FALLS_UNDER = re.compile(rf"(?:回落|下降)[到至]?(?:低于|跌破|跌穿){_LEVEL}")
_BAND_NUMBERS = re.compile(r"\(\s*(\d{1,4})\s*日?\s*,\s*(\d{1,3}(?:\.\d{1,3})?)\s*倍(?:标准差)?\s*\)")
_TESTED_ZH = re.compile(r"回测\s*(?:过去|最近|近)?\s*(\d{1,3})\s*(年|个月)(?!线|均)")
_TESTED_EN = re.compile(
    r"\b(back-?\s?test(?:ed|ing)?)\s+(?:for|over)\s+(?:the\s+)?(\d{1,3})\s+(years?|months?)\b", re.IGNORECASE
)
_HAS_LINES = re.compile(r"布林|boll|均线|[se]?ma\b|轨", re.IGNORECASE)


def without_names(text: str, names: Iterable[str]) -> str:
    """A text without names of things that are no part of it, such as what a decider is called.

    >>> without_names("Dual agent on 000341.SZ; agents", ["dual agent"]), without_names("用执行代理买入", ["执行代理"])
    ('  on 000341.SZ; agents', '用 买入')
    """
    for name in names:
        bounds = (r"(?<!\w)", r"(?!\w)") if name.isascii() else ("", "")
        text = re.sub(re.escape(name).join(bounds), " ", text, flags=re.IGNORECASE)
    return text


def clean_words(text: str) -> str:
    r"""Words for display: one line without control characters and outer punctuation.

    Empty if only punctuation or a measure word is left.

    >>> clean_words(" MACD大于0,\x1f "), clean_words("个"), clean_words("!?")
    ('MACD大于0', '', '')
    """
    shown = (" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in text)
    words = " ".join("".join(shown).split()).strip(" ,;:!?。、")
    return words if any(letter.isalnum() for letter in words) and not _MEASURE.fullmatch(words) else ""


_HAN = re.compile(r"[\u4e00-\u9fff]")
_PAUSE = re.compile(r"[,;:!?\n\x1f。、;]")


def readable_excerpt(word: str, text: str, begin: int, end: int) -> str:
    """An unread word for display; a lone Chinese character is shown with its clause.

    >>> readable_excerpt("小", "MACD金叉,小市值买入", 7, 8), readable_excerpt("茅台", "茅台,买入", 0, 2)
    ('小市值买入', '茅台')
    """
    if not _HAN.fullmatch(word):
        return word
    pauses = _pauses(text)
    before, behind = bisect_left(pauses, begin), bisect_left(pauses, end)
    return _clause(
        text, pauses[before - 1] + 1 if before else 0, pauses[behind] if behind < len(pauses) else len(text)
    )


@lru_cache(maxsize=16)
def _pauses(text: str) -> tuple[int, ...]:
    return tuple(match.start() for match in _PAUSE.finditer(text))


@lru_cache(maxsize=16)
def _clause(text: str, begin: int, end: int) -> str:
    """One string per clause, or a line of many unknown characters would have as many copies."""
    return text[begin:end].strip()


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def longest_number(text: str) -> int:
    """Significant digits of the longest number in a text.

    >>> longest_number("0.05到123.45"), longest_number("均线")
    (5, 0)
    """
    return max((len(number.replace(".", "").lstrip("0")) for number in _NUMBER.findall(text)), default=0)


def chinese_number(numeral: str) -> int:
    """A Chinese numeral below a thousand.

    >>> chinese_number("二十"), chinese_number("十二"), chinese_number("一百二十"), chinese_number("六零")
    (20, 12, 120, 60)
    """
    if not set(numeral) & {"十", "百"}:
        return int("".join(str(_DIGITS[digit]) for digit in numeral))
    total, digit = 0, 0
    for letter in numeral:
        if letter in _DIGITS:
            digit = _DIGITS[letter]
        else:
            total += (digit or 1) * (100 if letter == "百" else 10)
            digit = 0
    return total + digit


def collapse_spaces(text: str) -> str:
    """A text without runs of spaces, on which patterns would backtrack."""
    return _SPACES.sub(lambda run: _MARK if _MARK in run[0] else " ", text)


def normalise(text: str) -> str:
    """Half-width text without control characters, with digits for number words and one form of a look-back.

    Letter case stays.

    >>> normalise("二十日涨幅超过百分之五，五日均线")
    '20日涨幅超过5%,5日均线'
    """
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > 2 * len(text) + 12:  # NFKC may expand a character to eighteen, in no supported language
        plain = unicodedata.normalize("NFC", text)
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", plain))
    text = simplified(collapse_spaces(text))
    text = re.sub(r"[\u2018\u2019]", "'", text).replace("\u2212", "-")
    text = text.replace("半年", "6个月") if not re.search(r"[上下]半年", text) else text
    text = _PERCENT_OF.sub(lambda m: f"{m[1] if m[1][0].isdigit() else chinese_number(m[1])}%", text)
    text = _NUMERAL.sub(lambda m: str(chinese_number(m[0])), text)
    text = _TENTHS.sub(lambda m: f"{int(m[1]) * 10}%", text)
    text = _ENGLISH_NUMBER.sub(lambda m: str(_WORDS[m[0].lower()]), text)
    text = _PERCENT_WORD.sub("%", text)
    text = _MONTHS_OF.sub(
        lambda m: f" {SESSIONS_A_MONTH * int(m[1] or m[2])}{'日' if m[1] else '-day '}", text
    )
    text = _FROM_BELOW.sub(
        lambda m: f"cross{m[1] or ''} {'above' if m[3].lower() == 'below' else 'below'} {m[2]}", text
    )
    if not _HAS_LINES.search(text):
        text = _DAYS_BROKEN.sub(lambda m: f"{m[2]}{m[1]}日{'新高' if m[2] == '突破' else '新低'}", text)
    text = _DEVIATIONS_ZH.sub(
        lambda m: f"{m[1]}布林带({m[2]},{m[3]}){'上轨' if m[1] in ('高于', '突破') else '下轨'}", text
    )
    text = _DEVIATIONS_EN.sub(
        lambda m: (
            f"{m[2]} the {'upper' if m[2].lower() == 'above' else 'lower'} Bollinger band ({m[3]}, {m[1]})"
        ),
        text,
    )
    text = _BAND_NUMBERS.sub(r"(\1,\2)", text)
    text = _TESTED_ZH.sub(r"回测最近\1\2", text)
    text = _TESTED_EN.sub(r"\1 last \2 \3", text)
    for pattern, word in (
        (_RISES_TO, "突破"),
        (_RISES_OVER, "突破"),
        (_FALLS_TO, "跌破"),
        (_FALLS_UNDER, "跌破"),
    ):
        text = pattern.sub(rf"{word}\1", text)
    text = _DAYS_THAT_CROSS.sub(r"\1日\2日均线", text)
    text = _STOCKS_WITH.sub(r"\2 \1 by", text)
    text = _LOOK_BACK_ZH.sub(r" \1日", text)
    text = _LOOK_BACK_EN.sub(r"\2-day \1", text)
    text = _PAST_N_DAY.sub(r"\1-day ", text)
    return _BREAKS.sub(lambda m: f"break{m[1] or ''} {'above' if m[2].lower() == 'high' else 'below'} ", text)
