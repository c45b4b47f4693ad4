"""Text becomes tokens: normalised widths, numbers and phrases, and the words of both languages.

Chinese and English become the same tokens, so one grammar reads both. A word in no list is a token
``UNKNOWN``. A filler is a word without trading content and makes no token; words that can change a rule
(only, unless, again, until, first, daily limit …) must not be fillers.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from quantgraph._util.texts import language_of, say, simplified
from quantgraph.sentences._dates import MARK

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
_NUMERAL = re.compile(  # "二十日"
    rf"(?<![{_FIGURES}])(?!一\s*个(?!月|季|交易日|周|星期|年|日|天))[{_FIGURES}]{{1,{MOST_DIGITS}}}+(?=\s*(?:个|日|天|周|月|年|季度|倍|只|支|名|家|成(?![交份分])|%))"
)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1e\x7f-\x9f]")  # "\x00"
_INVISIBLE = re.compile(rf"[{MARKS}\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACES = re.compile(r"[^\S\n]{2,}")  # "MA5  MA20"
_MARK = "\x1f"
_MEASURE = re.compile(r"[个些种套份款]+")  # "个"
_PERCENT_OF = re.compile(rf"百分之([{_FIGURES}]{{1,{MOST_DIGITS}}}+(?![{_FIGURES}])|\d+(?:\.\d+)?)")
_TENTHS = re.compile(rf"(?<!\d)(\d{{1,{MOST_DIGITS}}})\s*成(?![交份分])")  # "3成"
_ENGLISH_NUMBER = re.compile(  # "five days"
    r"\b("
    + "|".join(_WORDS)
    + r")\b(?=[\s-]*(?:days?|sessions?|weeks?|months?|years?|times|percent|stocks?)\b)"
    r"|(?<=\btop )(" + "|".join(_WORDS) + r")\b|(?<=\bbottom )(" + "|".join(_WORDS) + r")\b",
    re.IGNORECASE,
)
_PERCENT_WORD = re.compile(r"(?<=\d)\s*(?:per\s?cent|pct)\b", re.IGNORECASE)  # "5 percent"
_LOOK_BACK_ZH = re.compile(  # "过去20日的涨幅"
    r"(?:过去|最近|近|前)\s*(\d+)\s*个?(?:交易)?[日天]"
    r"(?=\s*内?\s*的?\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量|新高|新低|最高|最低|高点|低点|均|平均))内?\s*的?\s*"
)
_LOOK_BACK_EN = re.compile(  # "return over the past 20 days"
    r"\b(returns?|momentum|gain|highs?|lows?|average(?: volume)?|rsi)\s+(?:over|of|in|for|during)\s+(?:the\s+)?"
    r"(?:last|past|previous|prior)?\s*(\d+)\s+(?:trading\s+)?(?:days|sessions)\b",
    re.IGNORECASE,
)
_PAST_N_DAY = re.compile(  # "past 20 days' return"
    r"\b(?:last|past|previous|prior)\s+(\d+)[\s-]*(?:trading\s+)?days?(?:'s|')?\s+"
    r"(?=returns?\b|momentum\b|gain\b|highs?\b|lows?\b|average\b)",
    re.IGNORECASE,
)


SESSIONS_A_MONTH = 21
"""Sessions of a month of momentum or return."""
_MONTHS_OF = re.compile(  # "过去3个月涨幅"
    r"(?:过去|最近|近|前)?(\d{1,3})个月的?(?=\s*(?:累计)?(?:涨幅|跌幅|涨跌幅|收益|回报|动量))"
    r"|\b(\d{1,3})[\s-]month(?:s')?[\s-]+(?=returns?\b|momentum\b|gains?\b)",
    re.IGNORECASE,
)
_FROM_BELOW = re.compile(  # "crosses the 20-day average from below"
    r"\bcross(es|ed|ing)?\b(?!\s+(?:above|below|over|under|up|down)\b)"
    r"((?:(?!\b(?:and|or|buy|sell|when|then|from)\b)[\w\s'()-]){1,60}?)\bfrom\s+(below|above)\b",
    re.IGNORECASE,
)
_DAYS_BROKEN = re.compile(  # "20日突破,买入"
    r"(?<!\d)(\d+)\s*[日天](突破|跌破)(?=\s*(?:时|就|则|后)?\s*(?:[,;。]|$|买|做多|开仓|入场|卖|平仓|离场|出场|清仓))"
)
_DAYS_THAT_CROSS = re.compile(  # "5日/20日金叉"
    r"(?<![\d.月/-])(\d{1,3})(?:\s*[日天]\s*[/、和与]?|\s*-?\s*days?\s*(?:/|\band)|\s*[/、和与]|\s+and)\s*(\d{1,3})\s*(?:[日天]|-?\s*days?\b)?"
    r"(?=\s*的?(?:黄金交叉|金叉|死亡交叉|死叉|(?:golden|death|dead)[\s-]cross))",
    re.IGNORECASE,
)
_BREAKS = re.compile(  # "breaks its 20-day high"
    r"\bbreak(s|ing)?\s+(?:(?:out\s+of|through)\s+)?(?:(?:its|the|an?)\s+)?(?:new\s+)?(?=\d+[\s-]*days?\s+(high|low)s?\b)",
    re.IGNORECASE,
)
_STOCKS_WITH = re.compile(  # "5 stocks with the highest"
    r"\b(?:top\s+)?(\d+)\s+(?:stocks|names|symbols|companies)\s+(?:with|that\s+have|having)\s+the\s+"
    r"(highest|largest|strongest|best|lowest|smallest|weakest|worst)\b",
    re.IGNORECASE,
)
_DEVIATIONS_EN = re.compile(  # "2 standard deviations below its 20-day moving average"
    r"\b(?:more\s+than\s+)?(\d+(?:\.\d+)?)\s*(?:standard\s+deviations?|std(?:s|\s+devs?)?|sigmas?)\s+(above|below)\s+"
    r"(?:its\s+|the\s+)?(\d+)[\s-]*days?\s+(?:(?:simple\s+)?moving\s+average|average|mean|s?ma)\b",
    re.IGNORECASE,
)
_DEVIATIONS_ZH = re.compile(  # "低于20日均线2个标准差"
    r"(高于|低于|突破|跌破)\s*(\d+)\s*[日天](?:移动平均线|移动平均|均线|均值)的?\s*(\d+(?:\.\d+)?)\s*[个倍]的?标准差"
)
_LEVEL = r"\s*(-?\d+(?:\.\d+)?)(?![\d.]*\s*(?:%|日|天|倍|元|亿))\s*"
_RISES_TO = re.compile(  # "回升到30以上"
    rf"(?:重新|再次)?(?:回升|升回|涨回|升|回到|反弹|上升){{1,2}}[到至]?{_LEVEL}(?:以上|之上|上方)"
)
_FALLS_TO = re.compile(  # "跌回到70以下"
    rf"(?:重新|再次)?(?:跌回|降回|回落|跌|降|下降){{1,2}}[到至]?{_LEVEL}(?:以下|之下|下方)"
)
_RISES_OVER = re.compile(rf"(?:回升|上升|反弹)[到至]?(?:超过|高于|突破){_LEVEL}")  # "反弹超过30"
_FALLS_UNDER = re.compile(rf"(?:回落|下降)[到至]?(?:低于|跌破|跌穿){_LEVEL}")  # "回落低于70"
_BAND_NUMBERS = re.compile(r"\(\s*(\d{1,4})\s*日?\s*,\s*(\d{1,3}(?:\.\d{1,3})?)\s*倍(?:标准差)?\s*\)")
_TESTED_ZH = re.compile(r"回测\s*(?:过去|最近|近)?\s*(\d{1,3})\s*(年|个月)(?!线|均)")  # "回测最近3年"
_TESTED_EN = re.compile(  # "backtest over 3 years"
    r"\b(back-?\s?test(?:ed|ing)?)\s+(?:for|over)\s+(?:the\s+)?(\d{1,3})\s+(years?|months?)\b", re.IGNORECASE
)
_HAS_LINES = re.compile(r"布林|boll|均线|[se]?ma\b|轨", re.IGNORECASE)  # "布林"


def without_names(text: str, names: Iterable[str]) -> str:
    """A text without names of things that are not part of it, such as the names of a decider.

    >>> without_names("Dual agent on 000341.SZ; agents", ["dual agent"]), without_names("用执行代理买入", ["执行代理"])
    ('  on 000341.SZ; agents', '用 买入')
    """
    for name in names:
        bounds = (r"(?<!\w)", r"(?!\w)") if name.isascii() else ("", "")
        text = re.sub(re.escape(name).join(bounds), " ", text, flags=re.IGNORECASE)  # "贵州茅台"
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


_HAN = re.compile(r"[\u4e00-\u9fff]")  # "涨"
_PAUSE = re.compile(r"[,;:!?\n\x1f。、;]")  # ","


def readable_excerpt(word: str, text: str, begin: int, end: int) -> str:
    """An unparsed word for display; a lone Chinese character is shown with its clause.

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


_NUMBER = re.compile(r"\d+(?:\.\d+)?")  # "20"


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
    text = re.sub(r"[\u2018\u2019]", "'", text).replace("\u2212", "-")  # "the stock\u2019s high"
    text = text.replace("半年", "6个月") if not re.search(r"[上下]半年", text) else text  # "上半年"
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


_FILL_ZH = (
    "请帮我", "帮我", "帮忙", "请问", "请", "我想要", "我想", "我要", "我们", "我", "你好", "您好", "您", "你", "想要", "想", "希望", "麻烦",
    "给我", "给", "对于", "对", "把", "将", "使用", "利用", "采用", "应用", "用", "基于", "根据", "按照", "按", "依据", "针对", "关于", "以",
    "在", "的", "得", "了", "吧", "呢", "啊", "谢谢", "时候", "时", "当", "如果", "假如", "若", "只要", "一旦", "则", "就", "便", "那么",
    "然后", "接着", "之后再", "再", "进行", "做", "写", "设计", "构建", "建立", "生成", "产生", "计算", "得到", "运行", "跑", "测试", "一下", "一个", "这个",
    "这只", "该", "其", "它们", "它", "股票池", "股票", "个股", "标的", "成分股", "中", "里", "内", "范围", "期间", "区间", "时间段", "时间",
    "从", "由", "为", "是", "值", "条", "指标", "处于", "位于", "出现", "形成", "发生", "创出", "创下", "创", "排名", "排序", "排列", "每天", "每日",
    "当天", "当日", "今日", "规则", "条件", "参数", "改为", "改成", "换成", "换为", "那些", "那", "公司", "a股", "元", "进入", "包含", "包括", "所有",
    "某", "谁", "些", "个", "帮", "来个", "搞个", "弄个", "一种", "一套", "一份", "一款", "简单", "基础", "基本", "经典", "普通", "常见", "常用", "标准", "看一看", "看看", "看", "的效果", "效果如何", "效果怎么样", "效果", "表现如何", "怎么样", "如何", "再试一次", "再试", "重试", "继续", "好的", "可以", "默认", "是的", "没错", "确认", "都", "请用", "于", "上述", "以下规则",
)  # fmt: skip
FILLERS_ZH = re.compile("|".join(sorted(map(re.escape, _FILL_ZH), key=len, reverse=True)))  # "请"
"""Chinese fillers, the longest first."""

_FILL_EN = (
    "a according across against all also among an any apply are as at band bands based basic be been being "
    "both build by calculate can classic classical companies company compute condition conditions constituents "
    "continue could create creates daily day's default design did do does during each either equities "
    "equity every for from generate generates give has have having hello help hi hit hits i i'd i'll if "
    "in index indicator indicators into is it it's its itself just let let's level levels like make "
    "makes making me members my name names need needs new of ok okay on once one ones our own per "
    "period please produce rank ranked ranking ranks rated retry rule rules run s set sets shall "
    "share shares should simple so some sort sorted stock stocks standard strategy's symbol symbols test thank "
    "thanks that the their them there these they this those through ticker tickers to too try "
    "universe us use used using value values versus via vs want wants was we when whenever where "
    "which who whose will with would write yes you your "
)
FILLERS = frozenset(_FILL_EN.split())
"""English fillers, in lower case."""

_NO_TICKERS = (
    "us usd cny rmb etf st api csi sse szse ttm ok roe eps pnl atr cci adx obv vwap sar mtm roc bias wr dmi kama wma dema "
    "tema and not ath ytd ceo cfo ipo gdp cpi"
)
NO_TICKERS = frozenset(_NO_TICKERS.split())
"""Abbreviations in capitals that are not tickers."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """A kind, the text as written, its number if any, and its place in the text."""

    kind: str
    text: str
    value: float = 0.0
    begin: int = 0
    end: int = 0


FIELD_NAMES: dict[str, str] = {
    "pe_ttm": r"滚动市盈率|市盈率\s*\(?\s*ttm\s*\)?|pe[\s_]?\(?ttm\)?|trailing p/?e(?: ratio)?",
    "pe": r"市盈率(?:\s*\(\s*pe\s*\))?|p/e(?: ratio)?|pe(?: ratio)?|price[\s-]to[\s-]earnings(?: ratio)?",
    "pb": r"市净率(?:\s*\(\s*pb\s*\))?|p/b(?: ratio)?|pb(?: ratio)?|price[\s-]to[\s-]book(?: ratio)?",
    "ps_ttm": r"滚动市销率|市销率\s*\(?\s*ttm\s*\)?|ps[\s_]?\(?ttm\)?",
    "ps": r"市销率(?:\s*\(\s*ps\s*\))?|p/s(?: ratio)?|ps(?: ratio)?|price[\s-]to[\s-]sales(?: ratio)?",
    "turnover_rate": r"换手率?|turnover(?:[\s_]rate)?",
    "volume_ratio": r"量比|volume[\s_]ratio",
    "dv_ratio": r"股息率|dividend yield|dv_ratio",
    "circ_mv": r"流通市值|circ_mv|(?:float|free-float) market cap(?:italization)?",
    "total_mv": r"总市值|市值|total_mv|(?:total )?market (?:cap(?:italization)?|value)",
}
"""Patterns of the fields of tushare's ``daily_basic``."""

_N = r"(\d+(?:\.\d+)?)"

_REST = r"(?:其余|其他|其它|剩下|剩余)的?(?:股票|个股|时间|时候|情况)?"
"""Words for the stocks outside a rank, in an exit."""

_KINDS: tuple[tuple[str, str], ...] = (
    ("FILL", r"try again|go ahead|(?:否则|其余(?:时间)?|其他(?:时间|情况)?|其它(?:时间|情况)?)\s*(?:就|则|都)?\s*(?:继续)?(?:持有|不动|观望|不操作|保持不变|空仓观望)"
             r"|(?:otherwise|else)\s+(?:do nothing|hold|wait)|(?:hold|do nothing)\s+otherwise"),
    ("SIGNAL", r"买(?:入)?(?:和|与|、|/)?卖(?:出)?(?:的)?(?:交易)?(?:信号|点)|交易信号|信号|回测|交易"
               r"|(?:buy\s*(?:and|or|/|&)\s*sell|trading|trade)\s+signals?|signals?(?!\s+line)|back-?\s?test(?:ing)?|trades?|trading"),
    ("UNKNOWN", r"做空|卖空|开空|融券|止损|止盈|short(?:ing|\s+sell(?:ing)?)?|stop[\s-]loss|take[\s-]profit"
                r"|未来(?:\d+个?[日天])?|下1?一?个?交易日|(?:每|上|下|本)?个?(?:周|星期|礼拜)[一二三四五六日天末](?![线均])"
                r"|\d+\s*-?\s*(?:分钟|小时|minutes?|mins?|hours?)(?:线|k线|级别|图)?|(?:分钟|小时)(?:线|k线|级别|图)?"
                r"|\d*\s*个?(?:周|月|季)(?:k?线|均线)|\d+\s*-?\s*(?:weeks?|months?)"),
    ("MAKES", r"创(?:出|下)?(?=\s*(?:新|\d+\s*日))|(?:(?:makes?|hits?|sets?)\s+)?(?:an?\s+)?new(?=\s+(?:\d+|high|low))"),
    ("ELSE", rf"否则|(?<=卖){_REST}|(?<=卖出){_REST}|(?<=卖掉){_REST}|{_REST}(?=\s*[都则就]?\s*(?:卖|清仓|平仓|离场|出场))"
             r"|otherwise|(?:the\s+|all\s+)?(?:rest|others)(?!\s+of)|everything\s+else|else"),
    ("REVERSE", r"反之|反过来|反向|相反|vice versa|(?:on|when) the (?:opposite|reverse)|the opposite"),
    ("RANGE", rf"(?:介于)?{_N}\s*%?\s*(?:到|至|-|~|和|与)\s*{_N}\s*%?\s*之间|between\s+{_N}\s*%?\s+and\s+{_N}\s*%?"),
    ("TURNS_UP", r"由负转正|由负变正|转正|(?:turn(?:s|ing)?|goes|becomes)\s+positive"),
    ("TURNS_DOWN", r"由正转负|由正变负|转负|(?:turn(?:s|ing)?|goes|becomes)\s+negative"),
    ("OVERSOLD", r"超卖区?|oversold"),
    ("OVERBOUGHT", r"超买区?|overbought"),
    ("BUY", r"(?:发出|产生|给出|作为|视为|触发)?(?:买入|买进|做多|开多|建仓|开仓|入场|进场)(?:信号|时机|条件|规则|点)?|持有|买"
            r"|(?:(?:generate|give|emit|as)\s+)?(?:a\s+)?buy(?:ing)?(?:\s+(?:signal|rule|condition))?(?:s\b)?|go(?:es|ing)?\s+long|enter(?:\s+long)?|entry(?:\s+(?:rule|condition))?|hold(?:s|ing)?"),
    ("SELL", r"(?:发出|产生|给出|作为|视为|触发)?(?:卖出|卖掉|平仓|平多|清仓|离场|出场)(?:信号|时机|条件|规则|点)?|卖"
             r"|(?:(?:generate|give|emit|as)\s+)?(?:a\s+)?sell(?:ing)?(?:\s+(?:signal|rule|condition))?(?:s\b)?|exit(?:\s+(?:rule|condition))?|close\s+(?:the\s+|my\s+)?(?:position|long)|go(?:es|ing)?\s+flat"),
    ("NEVER", r"(?:(?:就|并|然后)?(?:一直|永远|永久|长期)\s*(?:拿着|拿住|持有|捂着)?[,\s]*)?(?:永不|从不|决不|绝不|再也不|永远不|不再|不)\s*(?:卖出|卖掉|卖|平仓|清仓)"
              r"|(?:一直|永远|永久|长期)\s*(?:拿着|拿住|持有)(?:不动)?|(?:(?:and|but)\s+)?(?:never|don't\s+(?:ever\s+)?|do\s+not\s+(?:ever\s+)?|without\s+(?:ever\s+)?)\s*(?:sell(?:ing)?|exit(?:ing)?)"
              r"|(?:(?:and|but)\s+)?(?:hold|keep)(?:ing)?\s+(?:it\s+|them\s+)?(?:forever|for\s+ever|indefinitely)|no\s+(?:exit|selling|sells?)"),
    ("DAYS", r"(\d+)\s*-?\s*(?:个)?(?:交易)?(?:日|天|days?\b|sessions?\b|周期|periods?\b|d(?![a-z]))"),
    ("PCT", r"((?<![a-z0-9日天)])-?\d+(?:\.\d+)?|\d+(?:\.\d+)?)\s*%"),
    ("TIMES", _N + r"\s*(?:倍|x(?![a-z])|times|\*)"),
    ("TWICE", r"twice|double"),
    ("YI", _N + r"\s*亿\s*(?:元|人民币)?"),
    ("BILLION", _N + r"\s*(?:billion|bn)(?:\s+(?:yuan|cny|rmb))?"),
    ("SHARES", _N + r"\s*(?:[万亿]?(?:股|手)|(?:million|m|k|thousand)\s+(?:shares|hands|lots)|hands|lots)"),
    ("COUNT", r"(\d+)\s*(?:只|支|名|家|个)(?:股票)?|(\d+)\s+(?:stocks?|names?|shares?|symbols?)"),
    ("ZERO", r"(?:零|0)\s*轴|零线|(?:the\s+)?zero(?:[\s-]?(?:line|axis))?"),
    ("NUM", r"((?<![a-z0-9日天)])-?\d+(?:\.\d+)?|\d+(?:\.\d+)?)"),
    ("GE", r">=|≥|不低于|不小于|不少于|大于\s*(?:或)?等于|至少|at least|(?:not?|no) (?:less|lower|smaller) than|not below|greater than or equal to"),
    ("LE", r"<=|≤|不高于|不大于|不超过|不多于|小于\s*(?:或)?等于|至多|at most|(?:not?|no) (?:more|higher|greater) than|not above|less than or equal to"),
    ("CROSS_UP", r"(?:向上)?上穿|向上穿过|自下而上穿过|cross(?:es|ed|ing)?\s+(?:up\s+)?(?:above|over|up\s+through|upwards?)|cross(?:es|ed|ing)?\s+up"),
    ("CROSS_DOWN", r"(?:向下)?下穿|向下穿过|自上而下穿过|cross(?:es|ed|ing)?\s+(?:down\s+)?(?:below|under|down\s+through|beneath|downwards?)|cross(?:es|ed|ing)?\s+down"),
    ("GOLDEN", r"黄金交叉|金叉|golden[\s-]cross(?:es|over)?|bullish cross(?:over)?"),
    ("DEATH", r"死亡交叉|死叉|(?:death|dead)[\s-]cross(?:es|over)?|bearish cross(?:over)?"),
    ("CROSSOVER", r"交叉|cross-?\s?overs?|cross(?:es|ing)?"),
    ("BREAK_UP", r"向上突破|突破|站上|升破|涨破|上破|(?:breaks?|breaking|rises?|rising|climbs?|moves?|goes|gets?|comes?) (?:back )?(?:out )?(?:above|over)"),
    ("BREAK_DOWN", r"向下跌破|向下突破|跌破|下破|(?:breaks?|breaking|falls?|falling|drops?|dips?|moves?|goes|gets?|comes?|slips?) (?:back )?(?:below|under)"),
    ("ABOVE", r"高于|大于|超过|高过|多于|above|over|(?:greater|more|higher|larger|bigger) than|exceed(?:s|ing)?|>"),
    ("BELOW", r"低于|小于|少于|低过|below|under|(?:less|lower|smaller|fewer) than|<"),
    ("POST_UP", r"以上|之上|上方"),
    ("POST_DOWN", r"以下|之下|下方"),
    ("NOT", r"跌出|掉出|退出|不再(?:处于|属于|在|是)?|不在|不属于|不处于|并非|不是|没有|非|未|不"
            r"|(?:(?:falls?|drops?)\s+)?out of|no longer(?: in)?|leaves?|not|isn't|aren't|doesn't|does not"),
    *((f"FIELD:{name}", pattern) for name, pattern in FIELD_NAMES.items()),
    ("RSI", r"相对强弱(?:指标|指数)?|relative strength index|rsi(?:指标)?"),
    ("MACD", r"macd(?:指标)?"),
    ("KDJ", r"kdj(?:指标)?|stochastic(?: oscillator)?"),
    ("BOLL", r"布林(?:带|线|通道)?|boll(?:inger)?(?:\s+bands?)?"),
    ("TOUCH", r"触及|触碰|碰到|touch(?:es|ed|ing)?"),
    ("UPPER", r"上轨|upper"),
    ("LOWER", r"下轨|lower"),
    ("MIDDLE", r"中轨|middle|mid"),
    ("HIST", r"红绿柱|柱状图|柱子|柱|histogram"),
    ("DIF", r"dif(?:f)?(?:线|\s+line)?|快线"),
    ("DEA", r"dea(?:线|\s+line)?|慢线|信号线|signal line"),
    ("K", r"k(?:值|线)?(?![a-z])"),
    ("D", r"d(?:值|线)?(?![a-z])"),
    ("J", r"j(?:值|线)?(?![a-z])"),
    ("VOLAVG", r"均量线?|平均成交量|均成交量|成交量均值|(?:average|avg|mean) volume"),
    ("EMA", r"指数(?:移动)?(?:平均线|平均|均线)|e(?:xp)?ma(?:均线|线)?|exponential(?:ly)?(?:[\s-]weighted)?(?: moving)? averages?|exponential averages?"),
    ("MA", r"(?:简单)?(?:移动平均线|移动平均|移动均线|平均线|均线|均价线|均价)|均值|sma(?:均线|线)?|(?:simple )?moving averages?|averages?|mean|ma(?:均线|线)?"),
    ("VOL", r"成交量|交易量|volume|vol"),
    ("PRICE", r"收盘价格?|收盘|股价|价格|现价|closing prices?|close prices?|(?:(?:stock|share) )?prices?(?:\s+clos(?:es|ed|ing|e))?|clos(?:es|ed|ing|e)"),
    ("OPEN", r"开盘价格?|opening prices?|open prices?"),
    ("MOMENTUM", r"动量|momentum"),
    ("RETURN", r"(?:累计)?(?:涨跌幅|涨幅|收益率?|回报率?)|returns?|gains?"),
    ("LOSS", r"跌幅|loss(?:es)?|decline"),
    ("HIGHN", r"(?:的)?(?:新高|最高价|最高点|高点)|(?:highest\s+)?highs?"),
    ("LOWN", r"(?:的)?(?:新低|最低价|最低点|低点)|(?:lowest\s+)?lows?"),
    ("TOP", r"(?:排名|排序)?(?:处于|位于|在|进入)?(?:最)?前(?:列)?(?=\s*\d)|最高|最大|最强|top|highest|largest|strongest|best"),
    ("BOTTOM", r"(?:排名|排序)?(?:处于|位于|在|进入)?(?:最)?(?:后|末|倒数)(?=\s*\d)|倒数|最低|最小|最弱|最便宜|bottom|lowest|cheapest|smallest|weakest|worst"),
    ("POSITIVE", r"为正|positive"),
    ("NEGATIVE", r"为负|negative"),
    ("AND", r"并且|而且|同时满足|同时|以及|且|和|与|及|并|&&?|and\s+also|and"),
    ("OR", r"或者|或是|或|\|\|?|or"),
    ("LABEL", r"策略|战法|strategies|strategy|(?:mean[\s-])?reversion|(?:均值)?回归|breakout(?=\s*(?:strategy|system|[:,]))"
              r"|双均线(?:交叉)?|(?:dual|double) (?:moving[\s-]averages?|s?ma)(?:[\s-]cross-?overs?)?"),
    ("HOLDING", r"买入[并后]?(?:长期|一直)?持有|buy[\s-]+(?:and|&)[\s-]+hold(?:ing)?"),
    ("BREAKOUT", r"break-?outs?"),
    ("DATA", r"获取|下载|抓取|拉取|取得|查询|查看|导出|行情|数据|日k线?|日k|日线|开高低收|ohlcv?v?|fetch(?:es)?|download|retrieve|pull|load|get|show|daily (?:bars?|prices?|data|quotes)|bars|data|quotes|prices? data"),
    ("VALUATION", r"估值指标|估值数据|估值|每日指标|基本面指标|valuation(?: (?:data|ratios|indicators))?|daily (?:basic|indicators?)"),
    ("LINE", r"线|lines?"),
    ("LP", r"\("),
    ("RP", r"\)"),
    ("SLASH", r"/"),
    ("SEP", r"[,;。.、:!?\n]|then"),
)  # fmt: skip

_LABELS = re.compile(  # "均线策略"
    r"(?:双均线|均线交叉|均线|动量|价值|估值|突破|趋势跟踪|趋势|均值回归|反转|量价|海龟)(?:选股|交易)?(?:策略|战法)"
    r"|(?:dual |double )?(?:moving[\s-]average|ma|sma|momentum|value|valuation|breakout|trend(?:[\s-]following)?|mean[\s-]reversion)"
    r"(?: cross-?over| cross| trading)? strategy"
)

_STRATEGY_KINDS = (
    "ABOVE BELOW BOLL BOTTOM BREAK_DOWN BREAK_UP BUY CROSSOVER CROSS_DOWN CROSS_UP DAYS DEA DEATH "
    "DIF ELSE EMA GE GOLDEN HIST HOLDING KDJ LABEL LE LOSS LOWER MA MACD MOMENTUM NEVER OVERBOUGHT "
    "OVERSOLD PCT RANGE RETURN REVERSE RSI SELL SIGNAL TIMES TOP TURNS_DOWN TURNS_UP UPPER VOLAVG "
)
STRATEGY_KINDS = frozenset(_STRATEGY_KINDS.split())
"""Kinds that belong to a strategy. A field such as ``pe`` or a price alone may be a data request."""

_DATA_KINDS = "AND DATA HIGHN LINE LOWN LP OPEN PRICE RP SEP SLASH VALUATION VOL"
DATA_KINDS = frozenset((*_DATA_KINDS.split(), *(f"FIELD:{name}" for name in FIELD_NAMES)))
"""Kinds that a data request consists of."""


def _whole_words(pattern: str) -> str:
    """A pattern that matches whole ASCII words only; Chinese has no word boundaries."""
    return rf"(?:(?<![a-z])(?=[a-z])(?:{pattern})(?![a-z])|(?![a-z])(?:{pattern}))"


_COMPILED = tuple((kind, re.compile(_whole_words(pattern))) for kind, pattern in _KINDS)  # "金叉"
_WORD = re.compile(r"[a-z][a-z'_-]*")  # "golden"
_SPACE = re.compile(rf"(?:[\s{MARK}{MARKS}\"'“”《》\[\]「」]|-(?![\d.]))+")  # "》 "
_UNKNOWN_RUN = re.compile(r"[a-z0-9_.']+|.")  # "macd"


def is_word(word: str) -> bool:
    """Whether a lower-case word belongs to this lexicon, so is not a ticker."""
    if word in FILLERS or word in NO_TICKERS or re.fullmatch(r"[qh]\d", word):  # "q1"
        return True
    return any(match.end() == len(word) for _, pattern in _COMPILED if (match := pattern.match(word)))


def _value(kind: str, match: re.Match[str]) -> float:
    if kind == "TWICE":
        return 2.0
    number = next((group for group in match.groups() if group is not None), "0")
    return float(number) if re.fullmatch(r"-?\d+(?:\.\d+)?", number) else 0.0  # "20"


_ALIASES = {"TWICE": "TIMES", "BILLION": "YI"}


def _token_at(text: str, at: int, previous: Token | None) -> Token | None:
    if (label := _LABELS.match(text, at)) and not (previous and previous.kind in ("DAYS", "NUM")):
        return Token(kind="LABEL", text=label[0], begin=at, end=label.end())
    best: Token | None = None
    for kind, pattern in _COMPILED:
        match = pattern.match(text, at)
        if match and match.end() > at and (best is None or match.end() > best.end):
            value = _value(kind, match) * (10.0 if kind == "BILLION" else 1.0)
            best = Token(kind=_ALIASES.get(kind, kind), text=match[0], value=value, begin=at, end=match.end())
    if best is not None and (count := longest_number(best.text)) > MOST_DIGITS:
        shown = f"{best.text[:MOST_DIGITS]}… ({_too_many(text, count)})"
        return Token(kind="UNKNOWN", text=shown, begin=at, end=best.end)
    return best


@lru_cache(maxsize=16)
def _too_many(text: str, digits: int) -> str:
    return say(
        language_of(text),
        zh=f"{digits} 位数字，最多读 {MOST_DIGITS} 位",
        en=f"{digits} digits, at most {MOST_DIGITS} are read",
    )


def tokens_of(text: str) -> list[Token]:
    """Tokens of a normalised text. The longest match wins, and the earlier list on a tie."""
    lower = text.lower()
    found: list[Token] = []
    at = 0
    while at < len(lower):
        if space := _SPACE.match(lower, at):
            at = space.end()
            continue
        token = _token_at(lower, at, found[-1] if found else None)
        word = _WORD.match(lower, at)
        fill = FILLERS_ZH.match(lower, at)
        plain = max((m.end() for m in (word, fill) if m and (m is fill or m[0] in FILLERS)), default=0)
        if token is not None and token.end >= plain:
            if token.kind != "FILL":
                found.append(token)
            at = token.end
        elif plain:
            at = plain
        else:
            run = _UNKNOWN_RUN.match(lower, at)
            end = run.end() if run else at + 1
            last = found[-1] if found else None
            joins = last is not None and last.kind == "UNKNOWN" and last.end == at and not _has_reason(last)
            begin = found.pop().begin if joins else at
            found.append(Token(kind="UNKNOWN", text="", begin=begin, end=end))
            at = end
    return [token if token.text else replace(token, text=text[token.begin : token.end]) for token in found]


def _has_reason(token: Token) -> bool:
    """Whether the token is a number with the reason why it is not read."""
    return "… (" in token.text
