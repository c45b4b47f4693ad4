"""What the words of a quote name: numbers with their units, and a table of the few words that say a side.

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
    rf"(?:(?P<figure>(?<![\d.])\d+(?:,\d{{3}})*(?:\.\d+)?)(?!\d)"
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


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern whose English words begin as words; Chinese has no bounds."""
    return re.compile(
        rf"(?:(?<![a-z])(?=[a-z])(?:{pattern})|(?![a-z])(?:{pattern}))"
    )  # "never", not in "whenever"


WORDS: dict[str, re.Pattern[str]] = {
    name: _compiled(pattern)
    for name, pattern in {
        # Where a value goes, "跌破", "climbs"; and words that size it or a level, "以上", "more than".
        "up move": r"\+(?=\d)|上穿|[升涨上]破|金叉|突破|站[上稳回]|收复|越过|冲|过(?=\d)|[上大暴连]?涨(?!停板)|上升|[走放]强|升|反弹|阳|放量|放大|创?新高|赚|超买|翻正|转正|"
        r"(?<!\w)ris(?:es?|ing)|climb\w*|(?<!\w)up(?!per|on|date| to)|gain\w*|break\w* ?out|break\w* (?:above|over|through)|exceed\w*|(?<!\w)higher|(?<!\w)tops?(?= )|overbought|golden|"
        r"rall(?:y|ies)|strong\w*|jump\w*|reclaim\w*|beats?|spik\w*|surg\w*|new high|overtakes?|profit",
        "down move": r"缩短|变短|变小|breakdowns?|下穿|死叉|跌破|跌穿|跌回|失守|低(?=\d)|跌|下降|走弱|回[落撤调踩]|阴|缩量|量缩|萎缩|新低|破位|(?<![突升涨上])破(?!产)|亏|超卖|翻负|"
        r"falls?|falling|fell|drop\w*|dips?|dipped|declin\w*|(?<!\w)down(?!load)|(?<!\w)los(?:es?|ing|t|s|ses)(?!\w)|(?<!\w)lower|oversold|death|weak\w*|sli(?:ps?|des?|d)(?!\w)|sinks?|"
        r"pull\w* ?back|trails?(?! stop)|new low|cheap\w*|lowest|calm\w*|quiet\w*|discount",
        "up level": r"变长|变大|[大高多超]于|超(?!买|卖)|高[过出]|以上|之上|上方|上面|>|above|over(?!all|sold|night| (?:the )?(?:last |past )?(?:\d+|two|three|five|ten|twenty) ?(?:days|sessions|weeks|months|trading))|more than|greater|at least|at or above",
        "down level": r"[低小少]于|不到|不足|低出|以下|之下|下方|下面|<|below|under(?!perform)|beneath|less than|fewer|smaller",
        "not": r"除非|除了|除外|例外|不要|不再|不能|不会|不许|不准|不可|不是|不在|不(?!低|高|小|大|超|少|多|足|到|断|错|管|同|过|限|仅|但|论)|没有?|未(?!来)|别(?!的|人)|勿|并非|非(?!常)|排除|剔除|避开|跳过|暂停|"
        r"unless|except|excluding|never(?! (?:more|less))|(?<!\w)not(?![a-z])(?! (?:only|more|less|below|above|over|under|higher|lower))|don't|doesn't|isn't|won't|hasn't|haven't|aren't|wasn't|can't|without|(?<!\w)no(?! (?:more|less|later))(?!\w)|skip\w*|avoid\w*|ignor\w*|dont|wont|isnt|doesnt",
        "or": r"或|要么|任[一意何]|其中之一|(?<!\w)or(?!\w)|either|any of|whichever|都算|也(?:行|可|卖|走|出|买|算|跑|清)|而?无论",
        "and": r"且|并|同时|都|均(?=[大高低小在])|(?<!\w)and(?!\w)|both|as well|while|with",
        "event": r"上穿|下穿|往上穿|往下穿|金叉|死叉|(?<!\w)cross\w*|turns? (?:up|down) through",
        "state": r"(?<![->])[<>]|高于|低于|大于|小于|在[^,，]{1,12}(?:之上|上方|上面|以上|之下|下方|下面|以下)|(?:is|are|stays?|trades?|sits?) (?:above|below|over|under)",
        "no buying": r"(?:别|不|勿|停止|暂停)[^,，]{0,3}(?:追|买|开仓|进场|建仓)|(?:don't|do not|dont|never|no|not|without|stop) (?:new )?(?:buy|enter|longs?|entries|purchase|add|chase)",
        "most": r"前\s*[\d一二两三四五六七八九十]+(?=[名只个大强]|$|[,，。的])|最[高大强多贵]|highest|largest|biggest|strongest|best|most|(?<!\w)top|hottest",
        "least": r"最[低小弱少便]|lowest|smallest|weakest|worst|cheapest|calmest|quietest|least|bottom",
        "buy": r"^in(?= )|买|建仓|进场|入场|开仓|上车|抄底|低吸|满仓|(?<!\w)buy\w*|(?<!\w)enter\w*|go(?:es)? long|grab\w*|scoop\w*(?: (?:it|some|them) up)?|get in(?!\w)|pick up",
        "sell": r"卖|清仓|离场|出场|出局|走人|就走|闪人|跑路|割肉|空仓|平仓|撤退|(?<!\w)sell\w*|(?<!\w)exit\w*|get\w* out|(?<!\w)dump\w*|close (?:it|the position|out)|bail\w*|go(?:es)? (?:flat|to cash)|take it off|out(?= |$|,)|ditch|unload",
        "hold": r"持有|拿着|拿住|留着|hold\w*|keep\w*|stay\w*",
        "schedule": r"每个?(?:周|星期|礼拜|月|季|\d+\s*个?(?:交易)?[日天])|(?:周|星期|礼拜)[一二三四五](?![线均])|按[周月季]|月[初末底]|[周月季]度|第一个交易日|最后一?个?交易日|调仓|换仓|轮动|定投|再平衡|"
        r"weekly|monthly|quarterly|(?:every|each|once a|per|of the|a) (?:trading )?(?:week|month|quarter)|(?:mon|tues|wednes|thurs|fri)days?|rebalanc\w*|rotat\w*|month[ -]end|turn of the month|every \w+ (?:sessions|days|weeks|months)",
        "market": r"大盘|指数(?!平均|移动|均线|加权)|沪深\s*300|上证(?:综指|50|指数)?|中证\s*\d+|创业板指?|深证成指|科创\s*50|市场|the (?:broad |overall |whole )?market|ind(?:ex|ices)|s&p(?:\s*500)?|nasdaq|qqq|spy|csi\s*\d+|sse\s*\d+",
    }.items()
}  # fmt: skip
"""The words that say a side, and those that only some nodes or parts of a plan can carry out."""
_FIELDS: tuple[tuple[str, str], ...] = (
    (r"rsi|相对强弱", "rsi"),
    (r"macd|(?<![a-z])di[f](?![a-z])|(?<![a-z])dea(?![a-z])|红柱|绿柱|信号线|signal line", "dif dea macd"),
    (r"零轴|zero line|0轴", "dif dea"),
    (r"kdj|(?<![a-z])[kdj]值|stochastic", "kdj_k kdj_d kdj_j"),
    (r"(?<![a-z])j(?=[大小低高上下在值<>]| (?:is|below|above|under|over|value))", "kdj_j"),
    (r"(?<![a-z])k(?=[大小低高上下在值<>]| (?:is|below|above|under|over|value))", "kdj_k"),
    (r"布林|bol+in|boll|[上下]轨|(?:upper|lower) band", "boll_upper boll_lower std sma"),
    (r"上轨|upper (?:bollinger )?band", "boll_upper std"),
    (r"下轨|lower (?:bollinger )?band", "boll_lower std"),
    (r"中轨|mid(?:dle)? (?:bollinger )?band", "sma"),
    (r"(?<![a-z])atr(?![a-z])|真实波幅|true range", "atr"),
    (r"(?<![a-z])emas?(?![a-z])|指数(?:移动|加权)?(?:平均|均线)|exponential", "ema"),
    (r"(?<![a-z])cci(?![a-z])", "cci"),
    (r"(?<![a-z])adx(?![a-z])", "adx"),
    (r"williams|威廉|%r", "willr"),
    (r"(?<![a-z])mfi(?![a-z])|资金流量", "mfi"),
    (r"(?<![a-z])obv(?![a-z])|能量潮", "obv"),
    (r"成交额|dollar volume", "amount"),
    (
        r"成交量|量能|放量|缩量|均量|量比|地量|天量|倍量|(?<![a-z])vol(?:ume)?s?(?![a-z])",
        "volume mfi obv volume_ratio",
    ),
    (r"涨停", "limit_up up_limit"),
    (r"跌停", "limit_down down_limit"),
    (r"市盈率|(?<![a-z])pe(?![a-z])|p/e", "pe pe_ttm"),
    (r"市净率|(?<![a-z])pb(?![a-z])|p/b", "pb"),
    (r"市销率|(?<![a-z])ps(?![a-z])", "ps ps_ttm"),
    (r"换手率?|turnover rate", "turnover_rate turnover_rate_f"),
    (r"股息率?|dividend yield", "dv_ratio dv_ttm"),
    (r"市值|market (?:cap|value)", "total_mv circ_mv"),
    (r"相关系数|correlat", "correlation"),
)
"""Words of an indicator or a field, and the nodes of which one carries them out; only these words say such a node."""
_SHAPES: tuple[tuple[str, str], ...] = (
    (r"新高|高点|最高(?!的)|(?<!日)(?<!天)前高|(?:day|week|month|year|new|prior|previous|recent|its|the) highs?(?![a-z])|highest", "highest high"),
    (r"新低|低点|最低(?!的)|(?<!日)(?<!天)前低|(?:day|week|month|year|new|prior|previous|recent|its|the) lows?(?![a-z])", "lowest low rank"),
    (r"高开|低开|跳空|开盘价|gaps? (?:up|down|open)|opening price|its open", "open"),
    (r"均线|日线|\d线|年线|季线|均价|moving average|(?<![a-z])[ds]?ma(?![a-z])|averages?", "sma ema dif dea macd boll_upper boll_lower average_of_all median"),
    (r"连续?[\d一二两三四五六七八九]+[日天根]?|[三四五六]连|连[阳阴涨跌]|in a row|straight|consecutive", "streak was count ago total"),
    (r"(?:below|above|under|over) \S+ for \d+ (?:days|sessions)", "streak count"),
    (r"第[一二三四五六七八九十\d]+个?交易日|\d(?:st|nd|rd|th) trading day|最后一?个?交易日|last trading day", "nth left"),
    (r"连续?[\d一二两三四五六七八九]*[日天]?下?[跌涨](?!停)", "ago change was pre_close"),
    (r"之后(?=第一|首次|再|又)|然后(?=再|第一|首次)|then (?:the )?first|, then|after which", "first_after within since was ago count value_when streak"),
    (r"首次|第一次|头一[回次]|for the first time|first time", "first_after since count within was streak"),
    (r"中位数|median", "median"),
    (r"标准差|standard deviation|volatil|波动", "std boll_upper boll_lower zscore atr"),
)  # fmt: skip
"""The same of words that other words may stand for."""
TELLING = tuple((_compiled(pattern), frozenset(names.split())) for pattern, names in _FIELDS)
FIELDS = (*TELLING, *((_compiled(pattern), frozenset(names.split())) for pattern, names in _SHAPES))
PLAN_WORDS: dict[str, re.Pattern[str]] = {
    name: _compiled(pattern)
    for name, pattern in {
        "trailing_stop": r"移动止|跟踪止|追踪止|回撤|回落|高点|最高|吐|trail\w*|(?:from|off|below|under) (?:its|the|their)? ?(?:highest|peak|high|top)|peak|give\w* back",
        "stop_loss": r"止损|割肉|亏|套|成本|买入价|进场价|stop\w*|loss|lose|cut|(?:below|under) (?:the |my |its )?(?:entry|cost|purchase|buy)|跌",
        "take_profit": r"止盈|赚|盈利|获利|目标|涨|翻|take\w*[ -]?profit|profit|target|gain|(?<!\w)up(?!\w)|\+|bank",
        "max_holding": r"持|拿|天|日|周|月|后|hold\w*|day|session|week|month|after|later|time",
        "min_holding": r"至少|最少|起码|满|以上|不到|before|at least|minimum|not? .*(?:until|before)",
        "cooldown": r"歇|停|等|[内再]不|rest|sit out|不再|冷却|隔|再(?:次)?买|cool\w*|again|re-?ent\w*|re-?buy|wait\w*|(?:no|not) .*(?:after|within|for)",
        "no_entry_on": r"不|别|除|no|not|don't|doesn't|isn't|won't|hasn't|haven't|aren't|wasn't|can't|never|except|skip|avoid|only|只",
        "trade_on": "schedule", "rebalance": "schedule", "exit_on": "schedule",
        "size": r"仓|成|资金|等权|平均|均分|分之|一半|各|股|手|元|块|%|\$|万|equal\w*|shares?|of (?:the |my |our )?(?:account|equity|cash|capital|money|portfolio)|half|third|quarter|each|position|k(?!\w)|worth",
        "max_positions": r"前\s*[\d一二三四五六七八九十]|只|个|支|名|选|持仓|同时|two|three|five|ten|names?|stocks?|positions?|top|best|strongest|weakest|cheapest|largest|smallest|at (?:a|one) time|at once",
        "rank": r"按|排|优先|先|rank|prefer|by|first|大|小|高|低",
        "accumulate": r"定投|加|补|再买|摊|每[涨跌]|add\w*|averag\w*|pyramid\w*|every|each|more|dca|invest",
        "commission": r"手续费|佣金|费|commission|fee",
        "slippage_bps": r"滑点|slippage",
        "benchmark": r"基准|对比|比较|跑赢|benchmark|against|compare|versus|vs",
        "cash": r"本金|资金|初始|万|元|块|账户|capital|cash|account|start\w*|\$|with|k(?!\w)",
        "cash_reserve": r"现金|留|备|cash|reserve|keep",
        "band": r"偏离|超过|幅度|band|drift|within",
        "reentry": r"再|重新|again|re-?ent",
    }.items()
    if pattern != "schedule"
} | dict.fromkeys(("trade_on", "rebalance", "exit_on"), WORDS["schedule"])  # fmt: skip
"""What a quote has a word of, if a part of the plan is said in it."""
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


def has(name: str, text: str) -> bool:
    """Whether a plain text has a word of a meaning."""
    return WORDS[name].search(text) is not None


def count(name: str, text: str) -> int:
    """How many words of a meaning a plain text has."""
    return len(WORDS[name].findall(text))
