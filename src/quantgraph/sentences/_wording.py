"""Everyday wordings become the words of the lexicon: ``三连阳`` is three up candles in a row.

A row is a pattern and what stands in its place; rows apply one after the other. What a row cannot place
stays as it is, so that its words are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_DIGITS = 15
"""Most digits of a number in a sentence: a float holds as many exactly."""

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
_FIGURE = "|".join(_WORDS)
SESSIONS_A_MONTH = 21
"""Sessions of a month of momentum or return."""


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


_N = r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?)"
_D = r"(?<!\d)(\d{1,4})"
_DAY = r"\s*-?\s*(?:trading\s+)?(?:days?|sessions?)\b"
_LEVEL = r"\s*(-?\d+(?:\.\d+)?)(?![\d.]*\s*(?:%|日|天|倍|元|亿))\s*"
_RISES = r"回升|升回|涨回|涨|升|回到|反弹|上升"
_FALLS = r"跌回|降回|回落|跌|降|下降"
_LOOKED_BACK = (
    r"\s*内?\s*的?\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量|新高|新低|最高|最低|高点|低点|均|平均)"
)
_UP = {"涨": "收涨", "上涨": "收涨", "跌": "收跌", "下跌": "收跌", "阳": "收阳", "阴": "收阴"}
_NOT_MORE = r"(?!停|幅|超|到|至|破|过|去|势|\s*\d)"
_HAS_LINES = re.compile(r"布林|boll|均线|[se]?ma\b|轨", re.IGNORECASE)  # "布林"


def _candles(match: re.Match[str]) -> str:
    """*three red days* are three closes below the one before, *three red candles* three closes below the open."""
    is_up = match[2].lower() in ("green", "up", "higher")
    is_candle = match[3].lower().startswith(("candle", "bar"))
    word = f"{'up' if is_up else 'down'} candle" if is_candle else f"closes {'higher' if is_up else 'lower'}"
    return f"{word} {match[1]} straight days"


def _average_of_days(match: re.Match[str]) -> str:
    """*the 50 day* is an average, unless the text has another kind of average."""
    if re.search(r"\be(?:xp)?ma|exponential", match.string, re.IGNORECASE):  # "EMA(20)"
        return match[0]
    word = match[1].lower()
    words = "falls below" if word.startswith("lo") else "rises above" if word.startswith("rec") else match[1]
    return f"{words} the {match[2]}-day average"


_Row = tuple[str, str | Callable[[re.Match[str]], str]]
_ROWS: tuple[_Row, ...] = (
    # such as "百分之五", "二十日", "三成"
    (rf"百分之([{_FIGURES}]{{1,{MOST_DIGITS}}}+(?![{_FIGURES}])|(\d+(?:\.\d+)?))", lambda m: f"{m[2] or chinese_number(m[1])}%"),
    (rf"(?<![{_FIGURES}])(?!一\s*个(?!月|季|交易日|周|星期|年|日|天))[{_FIGURES}]{{1,{MOST_DIGITS}}}+"
     r"(?=\s*(?:个|日|天|周|月|年|季度|倍|只|支|名|家|根|连?[阴阳](?![历性])|连[涨跌]|成(?![交份分])|%))", lambda m: str(chinese_number(m[0]))),
    (rf"(?<!\d)(\d{{1,{MOST_DIGITS}}})\s*成(?![交份分])", lambda m: f"{int(m[1]) * 10}%"),
    # such as "five days", "5 percent"
    (rf"\b({_FIGURE})\b(?=[\s-]*(?:days?|sessions?|weeks?|months?|years?|times|percent|stocks?|(?:straight|consecutive|red|green|up|down)\s+\w+)\b)|(?<=\btop )({_FIGURE})\b"
     rf"|(?<=\bbottom )({_FIGURE})\b", lambda m: str(_WORDS[m[0].lower()])),
    (r"(?<=\d)\s*(?:per\s?cent|pct)\b", "%"),
    # such as "过去3个月涨幅", "3-month momentum"
    (r"(?:过去|最近|近|前)?(\d{1,3})个月的?(?=\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量))"
     r"|\b(\d{1,3})[\s-]month(?:s')?[\s-]+(?=returns?\b|momentum\b|gains?\b)",
     lambda m: f" {SESSIONS_A_MONTH * int(m[1] or m[2])}{'日' if m[1] else '-day '}"),
    # such as "crosses the 20-day average from below"
    (r"\bcross(es|ed|ing)?\b(?!\s+(?:above|below|over|under|up|down)\b)"
     r"((?:(?!\b(?:and|or|buy|sell|when|then|from)\b)[\w\s'()-]){1,60}?)\bfrom\s+(below|above)\b",
     lambda m: f"cross{m[1] or ''} {'above' if m[3].lower() == 'below' else 'below'} {m[2]}"),
    # such as "20日突破,买入"
    (r"(?<!\d)(\d+)\s*[日天](突破|跌破)(?=\s*(?:时|就|则|后)?\s*(?:[,;。]|$|买|做多|开仓|入场|卖|平仓|离场|出场|清仓))",
     lambda m: m[0] if _HAS_LINES.search(m.string) else f"{m[2]}{m[1]}日{'新高' if m[2] == '突破' else '新低'}"),
    # such as "低于20日均线2个标准差", "2 standard deviations below its 20-day moving average"
    (r"(高于|低于|突破|跌破)\s*(\d+)\s*[日天](?:移动平均线|移动平均|均线|均值)的?\s*(\d+(?:\.\d+)?)\s*[个倍]的?标准差",
     lambda m: f"{m[1]}布林带({m[2]},{m[3]}){'上轨' if m[1] in ('高于', '突破') else '下轨'}"),
    (r"\b(?:more\s+than\s+)?(\d+(?:\.\d+)?)\s*(?:standard\s+deviations?|std(?:s|\s+devs?)?|sigmas?)\s+(above|below)\s+"
     r"(?:its\s+|the\s+)?(\d+)[\s-]*days?\s+(?:(?:simple\s+)?moving\s+average|average|mean|s?ma)\b",
     lambda m: f"{m[2]} the {'upper' if m[2].lower() == 'above' else 'lower'} Bollinger band ({m[3]}, {m[1]})"),
    # such as "(20日,2倍标准差)", "回测最近3年", "backtest over 3 years"
    (r"\(\s*(\d{1,4})\s*日?\s*,\s*(\d{1,3}(?:\.\d{1,3})?)\s*倍(?:标准差)?\s*\)", r"(\1,\2)"),
    (r"回测\s*(?:过去|最近|近)?\s*(\d{1,3})\s*(年|个月)(?!线|均)", r"回测最近\1\2"),
    (r"\b(back-?\s?test(?:ed|ing)?)\s+(?:for|over)\s+(?:the\s+)?(\d{1,3})\s+(years?|months?)\b", r"\1 last \2 \3"),
    # such as "回升到30以上", "反弹超过30", "跌回到70以下", "回落低于70"
    (rf"(?:重新|再次)?(?:{_RISES}){{1,2}}[到至]?{_LEVEL}(?:以上|之上|上方)", r"突破\1"),
    (rf"(?:回升|上升|反弹)[到至]?(?:超过|高于|突破){_LEVEL}", r"突破\1"),
    (rf"(?:重新|再次)?(?:{_FALLS}){{1,2}}[到至]?{_LEVEL}(?:以下|之下|下方)", r"跌破\1"),
    (rf"(?:回落|下降)[到至]?(?:低于|跌破|跌穿){_LEVEL}", r"跌破\1"),
    # such as "5日/20日金叉"
    (r"(?<![\d.月/-])(\d{1,3})(?:\s*[日天]\s*[/、和与]?|\s*-?\s*days?\s*(?:/|\band)|\s*[/、和与]|\s+and)\s*(\d{1,3})\s*(?:[日天]|-?\s*days?\b)?"
     r"(?=\s*的?(?:黄金交叉|金叉|死亡交叉|死叉|(?:golden|death|dead)[\s-]cross))", r"\1日\2日均线"),
    # such as "5 stocks with the highest"
    (r"\b(?:top\s+)?(\d+)\s+(?:stocks|names|symbols|companies)\s+(?:with|that\s+have|having)\s+the\s+"
     r"(highest|largest|strongest|best|lowest|smallest|weakest|worst)\b", r"\2 \1 by"),
    # such as "过去20日的涨幅", "return over the past 20 days", "past 20 days' return"
    (rf"(?:过去|最近|近|前)\s*(\d+)\s*个?(?:交易)?[日天](?={_LOOKED_BACK})内?\s*的?\s*", r" \1日"),
    (r"\b(returns?|momentum|gain|highs?|lows?|average(?: volume)?|rsi)\s+(?:over|of|in|for|during)\s+(?:the\s+)?"
     r"(?:last|past|previous|prior)?\s*(\d+)\s+(?:trading\s+)?(?:days|sessions)\b", r"\2-day \1"),
    (r"\b(?:last|past|previous|prior)\s+(\d+)[\s-]*(?:trading\s+)?days?(?:'s|')?\s+"
     r"(?=returns?\b|momentum\b|gain\b|highs?\b|lows?\b|average\b)", r"\1-day "),
    # such as "breaks its 20-day high"
    (r"\bbreak(s|ing)?\s+(?:(?:out\s+of|through)\s+)?(?:(?:its|the|an?)\s+)?(?:new\s+)?(?=\d+[\s-]*days?\s+(high|low)s?\b)",
     lambda m: f"break{m[1] or ''} {'above' if m[2].lower() == 'high' else 'below'} "),
    # such as "3连阳", "连跌了3天", "连续3天上涨", "连续3根阴线之后出现阳线"
    (rf"{_D}连收?([涨跌阳阴])线?{_NOT_MORE}", lambda m: f"连续{m[1]}日{_UP[m[2]]}"),
    (rf"连续?收?([涨跌阳阴])线?了?\s*{_D}\s*(?:个?交易日|[天日根])", lambda m: f"连续{m[2]}日{_UP[m[1]]}"),
    (rf"(?:连续|连着)\s*{_D}\s*(?:个?交易日|[天日根])(?:都|均|全)?是?收?(上涨|下跌|[涨跌阳阴])线?{_NOT_MORE}", lambda m: f"连续{m[1]}日{_UP[m[2]]}"),
    (rf"连续{_D}日收([阴阳])(?:之后|后|然后|再)+(?:出现|收|来)*(?:1根)?([阴阳])线?", r"\1\g<2>1\3"),
    (r"(?<=收[涨跌阴阳])之?后(?=\s*[就则再]?\s*(?:买|卖|低吸|抄底|入场|开仓|清仓|离场|走人))", ""),
    # such as "after 3 red days in a row", "drops 3 days in a row"
    (rf"\b(?:after\s+)?{_D}\s+(?:(?:straight|consecutive)\s+)?(red|green|up|down|higher|lower)\s+(candles?|bars?|days|sessions|closes)(?:\s+in\s+a\s+row)?\b", _candles),
    (r"\b(?:after\s+(?:it\s+|the\s+(?:stock|price)\s+)?)?(?:(drops?|falls?|declines?)|(?:rises?|gains?))\s+(?:for\s+)?(\d+\s+(?:(?:straight|consecutive)\s+(?:days|sessions)|(?:days|sessions)\s+(?:in\s+a\s+row|straight|running)))\b",
     lambda m: f"closes {'lower' if m[1] else 'higher'} {m[2]}"),
    # such as "above its 200 day, ", "loses the 50 day"
    (r"\b(above|below|over|under|loses?|lost|reclaims?)\s+(?:its|the|their)\s+(\d{1,3})[\s-]*days?(?=\s*(?:[,.;:)]|$|(?:and|or|but|buy|sell|exit|get|then|on|in)\b))", _average_of_days),
    # such as "crosses back below", "otherwise cash"
    (r"\b(cross(?:es|ed|ing)?)\s+back\s+(?=above|below|over|under)", r"\1 "),
    (r"\botherwise\s+(?:(?:stay\s+|be\s+|go\s+)?(?:in|to)\s+)?cash\b", "otherwise sell"),
    # such as "on a 55-day high"
    (r"\b(?:on|at)\s+an?\s+(?:new\s+)?(?=\d+[\s-]*days?\s+(?:high|low)\b)", "when new "),
    # such as "比20日高点回落8%", "从60日低点反弹10%以上", "比60日均线低8%"
    (rf"(?:比|较|从|自|距离?)\s*(?:最近|近)?{_D}[日天]内?的?(?:最高价|最高点|新?高点?|高位)\s*(?:回落|回撤|回调|下跌|跌去|跌|低)(?:了|超过|达到?|至少)*\s*{_N}%(?:以上)?(?!\s*(?:的|就)?\s*止)", r"低于\1日高点\2%"),
    (rf"(?:比|较|从|自|距离?)\s*(?:最近|近)?{_D}[日天]内?的?(?:最低价|最低点|新?低点?|低位)\s*(?:反弹|回升|上涨|涨|高)(?:了|超过|达到?|至少)*\s*{_N}%(?:以上)?(?!\s*(?:的|就)?\s*止)", r"高于\1日低点\2%"),
    (rf"(?:比|较)\s*{_D}[日天](均线|均量|线)\s*(低|高|多|少)出?\s*{_N}%", lambda m: f"{'低于' if m[3] in '低少' else '高于'}{m[1]}日{m[2]}{m[4]}%"),
    # such as "收在20日线上方", "回到60日线上方", "反弹过5日高点"
    (r"收盘?[在于](?=\s*\d+[日天]|\s*e?ma)", "收盘价在"),
    (r"(?:重新?|又)?(?:站?回到?|反弹到|回升到)(\s*\d+[日天](?:均线|线))\s*(?:上方|之上|以上|上面)", r"站上\1"),
    (r"(?:跌回?到?|回落到)(\s*\d+[日天](?:均线|线))\s*(?:下方|之下|以下|下面)", r"跌破\1"),
    (r"反弹(?:(?=突破|站上)|过\s*(?=\d+日高点))", lambda m: "突破" if "过" in m[0] else ""),
    # such as "drops 8% from its 20-day high", "5% off the 20-day high"
    (rf"\b(?:(?:drops?|falls?|dips?|pulls?\s+back|declines?|is\s+down)\s+(?:by\s+)?)?((?:more\s+than\s+|at\s+least\s+)?{_N}%)\s+(?:from|off)\s+(?:its|the|a)\s+{_D}[\s-]*day\s+high\b", r"\1 below the \3-day high"),
    (rf"\b(?:rises?|bounces?|climbs?|gains?|is\s+up)\s+(?:by\s+)?((?:more\s+than\s+|at\s+least\s+)?{_N}%)\s+(?:from|off)\s+(?:its|the|a)\s+{_D}[\s-]*day\s+low\b", r"\1 above the \3-day low"),
    # such as "rises 3% in a day"
    (rf"\b(?:(?:the\s+)?(?:stock|price|close)\s+)?(?:(rises?|gains?|jumps?)|drops?|falls?|loses?)\s+(?:by\s+)?(?:(more\s+than|over)\s+)?{_N}%\s+in\s+(?:a|one|a\s+single)\s+day\b",
     lambda m: f"1-day return is {'above ' if m[1] else 'below -'}{m[3]}%"),
    # such as "放量1.5倍突破", "on volume at least 1.5x its 20-day average", "on 1.5x volume"
    (rf"(?<![不没有未非])放量\s*(?:超过)?{_N}\s*倍(?:以上)?\s*(?=突破|站上|上穿|创)", r"成交量大于\1倍20日均量且"),
    (rf"(?<![不没有未非]){_N}\s*倍的?放?量\s*(?=突破|站上|上穿|创)", r"成交量大于\1倍20日均量且"),
    (rf"(?<!not )\bon\s+(?:volume\s+(?:of\s+)?)?(?:(at\s+least)\s+|(?:above|over|more\s+than)\s+)?{_N}\s*x\s+(?:the\s+|its\s+)?(?:{_D}[\s-]*day\s+)?(?:average\s+volume|average|volume)\b",
     lambda m: f"and volume {m[1] or 'above'} {m[2]} times the {m[3] or 20}-day average volume"),
    # such as "EMA50上方连跌3天"
    (r"(上方|之上|以上|下方|之下|以下)的?(?=连续\d+日收[涨跌阴阳])", r"\1且"),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), new) for pattern, new in _ROWS)  # "20日突破"


def plain_wording(text: str) -> str:
    """A text with the words of the lexicon in place of everyday ones.

    >>> plain_wording("二十日涨幅超过百分之五"), plain_wording("five days")
    ('20日涨幅超过5%', '5 days')
    """
    for pattern, new in _COMPILED:
        text = pattern.sub(new, text)
    return text
