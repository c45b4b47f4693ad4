"""Anchors: the words of a text that change what is traded, each with its class and the values it may mean.

A number with its unit, a schedule, a security or an index, an indicator, a direction, a side, an exception, a
modifier, a word of the trade plan. Any other word is not an anchor. Synonyms share a value: ``三成``, 30 % and
0.3 have one in common.

To add a word: put it into the row of its meaning in ``_ROWS``, in both languages.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from quantgraph._util.texts import simplified
from quantgraph.sentences._text import FIELD_NAMES, chinese_number

Kind = Literal[
    "number",
    "date",
    "schedule",
    "market",
    "field",
    "direction",
    "extent",
    "extreme",
    "side",
    "not",
    "modifier",
    "plan",
]
"""Classes of anchors. An *extent* (``超过``, *more than*, ``最多``) sizes the movement named before it, or is a direction."""


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A word that matters: its class, the values that it may mean, and its place in the plain text."""

    kind: Kind
    values: frozenset[str]
    begin: int
    end: int
    unit: str = ""
    """Of a number: ``span`` for days and longer, ``share`` for parts and multiples, else empty."""

    @property
    def value(self) -> str:
        """What a word means that has one meaning."""
        (value,) = self.values
        return value

    def meets(self, other: Anchor) -> bool:
        """Whether both may mean the same."""
        units = {self.unit, other.unit}
        return self.kind == other.kind and bool(self.values & other.values) and units != {"span", "share"}


def plain(text: str) -> str:
    """A text in one width, lower case and simplified characters; the places of anchors are places in it.

    >>> plain("ＲＳＩ低於30")
    'rsi低于30'
    """
    return (
        simplified(unicodedata.normalize("NFKC", text)).lower().replace("\u2019", "'").replace("\u2212", "-")
    )


_ZH_FIGURES = "零〇一二两三四五六七八九十百"
_EN_FIGURES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
    "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100,
    "half": 0.5, "third": 3, "thirds": 3, "fourth": 4, "fifth": 5, "sixth": 6, "tenth": 10, "fifteenth": 15, "quarter": 4, "zero": 0, "double": 2, "doubles": 2, "twice": 2, "triple": 3,
}  # fmt: skip
_SHARES = r"%|percent(?:age)?(?: points?)?|per cent|pct|个?百分点|个?点(?![位子])|points?|pp|pts?"
_UNIT = (
    rf"(?P<share>{_SHARES})|(?P<basis>bps?|basis points|个?基点)|(?P<tenths>成(?![交份分本立]))|(?P<times>倍|x(?![a-z])|times)"
    r"|(?P<scale>万|亿|k(?![a-z线])|thousand|million|billion|bn)"
    r"|(?P<week>个?星期|周|-?weeks?)|(?P<month>个?月|-?months?)|(?P<season>个?季度|-?quarters?)|(?P<year>年|-?years?)"
    r"|(?P<days>个?(?:交易)?[日天]|-?days?|sessions?|d(?![a-z])|根)"
)
_NUMBER = re.compile(  # "百分之五"
    rf"(?P<part>百分之|千分之|万分之|(?<=[金费率是为按])万(?=[\d{_ZH_FIGURES}]))?(?:(?P<figure>(?<![\d.])\d+(?:,\d{{3}})*(?:\.\d+)?)(?!\d)"
    rf"|(?P<zh>[{_ZH_FIGURES}]+(?=\s*(?:%|个|日|天|周|月|年|季|倍|成|只|支|名|家|根|次|元|块|万|亿|千|点|连|手|股|档|折|阳|阴|轴))|(?<=[百千万]分之)[{_ZH_FIGURES}]+|(?<=[金费率是为按]万)[{_ZH_FIGURES}]|(?<=连)[{_ZH_FIGURES}](?=[阳阴涨跌升降]))"
    rf"|(?<![a-z])(?P<en>{'|'.join(_EN_FIGURES)}|second(?= (?:consecutive|straight|lower|higher|up|down|day|session|week|month|trading|cross|time|close)))(?![a-z])|(?P<half>半(?=仓|成|数|年|个月|倍)|一半|对半|翻倍|翻番|一倍))"
    rf"(?:[\s-]*(?:{_UNIT}))?"
)
_PARTS_OF = frozenset(("third", "thirds", "fourth", "fifth", "tenth", "quarter"))
"""Words that are an ordinal or a part: the fifth day, a fifth of the cash."""
_NO_NUMBER = re.compile(r"(?<![a-z])[qh]$")  # "2024 q"
_PRONOUN = re.compile(r"(?:个|者)?\s*(?:都|同时|均|者)")  # "个都"
_LINES = re.compile(r"半年线|年线|季线")  # "半年线"
_LINE_DAYS = {"半": "120 125 126 130", "年": "240 242 244 250 252", "季": "60 63 65"}
_SPANS: dict[str, tuple[float, ...]] = {
    "days": (1,), "week": (1, 5, 7), "month": (1, 20, 21, 22, 23, 30), "season": (1, 60, 61, 63, 65, 66, 90),
    "year": (1, 12, 240, 242, 244, 250, 252, 260, 365),
}  # fmt: skip
_SCALE = {"万": 1e4, "亿": 1e8, "k": 1e3, "thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9}


def _values_of(value: float, unit: str, match: re.Match[str]) -> set[float]:
    """The numbers that a figure with its unit may be written as."""
    if match["part"] and match["part"][0] in "千万":
        share = value / (1000 if match["part"] == "千分之" else 10_000)
        return {share, 100 * share, 10_000 * share}
    if match["part"] or unit == "share":
        return {value, value / 100, 1 + value / 100, 1 - value / 100, 100 + value, 100 - value}
    if unit in _SPANS:
        return {value * days for days in _SPANS[unit]}
    match unit:
        case "basis":
            return {value, value / 100, value / 10_000}
        case "tenths":
            return {value, value * 10, value / 10, 1 - value / 10, 100 - 10 * value}
        case "times":
            return {value, 100 * value, value - 1, 100 * value - 100, value + 1}
        case "scale":
            return {value, value * _SCALE[match["scale"]]}
    return {value, *((100 * value, 10 * value) if 0 < value < 1 else ())}


def _numbers(text: str) -> Iterator[Anchor]:
    for found in _NUMBER.finditer(text):
        value, unit = _figure(found), str(found.lastgroup)
        values = _values_of(value, unit, found)
        if found["half"] and value == 2:
            values |= {200.0, 1.0, 100.0}
        if found["en"] in _PARTS_OF:
            values |= {1 / value, 100 / value, 10 / value}
        is_one = value == 1 and unit not in ("share", "tenths", "basis", "scale") and not found["part"]
        if not is_one and not _NO_NUMBER.search(text, 0, found.start()) and not _counts_nothing(text, found):
            kind = (
                "span"
                if unit in _SPANS
                else "share"
                if found["part"] or unit in ("share", "tenths", "times", "basis")
                else ""
            )
            yield _number(values, found.start(), found.end(), kind)
    for line in _LINES.finditer(text):
        yield _number(map(float, _LINE_DAYS[line[0][0]].split()), line.start(), line.start() + 1, "span")


def _number(values: Iterable[float], begin: int, end: int, unit: str) -> Anchor:
    shown = frozenset(f"{round(each, 4):g}" for each in values)
    return Anchor(kind="number", values=shown, begin=begin, end=end, unit=unit)


def _counts_nothing(text: str, found: re.Match[str]) -> bool:
    """Whether a two counts nothing: ``两个都``, and ``第二天``, which is the next day."""
    if found["zh"] not in ("二", "两"):
        return False
    return bool(_PRONOUN.match(text, found.end())) or (
        found.lastgroup == "days" and text[: found.start()].endswith("第")
    )


def _figure(match: re.Match[str]) -> float:
    if match["figure"]:
        return float(match["figure"].replace(",", ""))
    if match["zh"]:
        return float(chinese_number(match["zh"]))
    if match["en"]:
        return float(_EN_FIGURES.get(match["en"], 2))
    return 2.0 if match["half"] in ("翻倍", "翻番", "一倍") else 0.5


_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
_SESSION = r"(?:个?交易)?[日天]"
_ROWS: tuple[tuple[Kind, str, str], ...] = (
    # Dates of the run's window, which other checks hold against the text.
    ("date", "", r"(?<!\d)(?:19|20)\d{2}\s*[-/.年]\s*\d{1,2}(?:\s*[-/.月]\s*\d{1,2}\s*[日号]?|\s*月)?|(?<!\d)(?:19|20)\d{6}(?!\d)|(?<![\d.])(?:19|20)\d{2}(?!\d)\s*年?(?:[上下]半年|第?[一二三四1-4]季度?|全年)?|(?<!\d)\d{1,2}\s*月\s*(?:\d{1,2}\s*[日号]|[底初中份])?"),
    ("date", "", r"(?<!\d)(?:19|20)\d{2}\s*[-–~到至—]+\s*(?:19|20)\d{2}(?!\d)|(?<!\d)\d{2}年(?=\s*(?:q|\d|[上下全底末初一二三四]))|(?<!\d)\d{1,2}/(?:19|20)\d{2}(?!\d)|(?<![一二三四五六七八九十])[一二三四五六七八九十]{1,2}月(?![线均])|[两二三]年(?=$|[，,。\s])"),
    ("date", "", r"今年|去年|前年|年初至今|年初以来|[上下]半年|第?[一二三四]季度|[上本]个?(?:月|季度)(?!线|均)|(?:最近|近|过去)\s*[\d一二两三四五六七八九十半]+\s*个?(?:年|季度?|月)(?!\s*的?(?:新?[高低]|涨|跌|均|收益|线|内|来))|一季|二季|三季|四季"),
    ("date", "", rf"(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?(?:{_MONTHS})\.?(?:\s+\d{{1,2}}(?:st|nd|rd|th)?)?(?:,?\s+(?:19|20)\d{{2}})?(?![a-z])|(?:q[1-4]|[1-4]q|h[12]|[12]h)(?:\s*(?:19|20)\d{{2}})?|(?:this|last) (?:year|quarter)|year[\s-]to[\s-]date|ytd|(?:first|second) half(?: of)?(?: (?:19|20)\d{{2}})?|(?:(?:in|over|for|during) )?the (?:last|past) (?:\d+|two|three|six|twelve) (?:months|years|quarters)"),
    # Schedules.
    ("schedule", "week", r"每个?(?:周|星期|礼拜)[一二三四五1-5]?|(?:周|星期|礼拜)[一二三四五](?![线均])|按周|周度|每\d周|weekly|(?:every|each|per|of the) (?:trading )?week(?!s)|(?:mon|tues|wednes|thurs|fri)days?|every (?:two|\d) weeks"),
    ("schedule", "month", r"每个?月|月[初末底](?!至|到)|按月|月度|monthly|(?:every|each|per|of the) month(?!s)|month[\s-](?:start|end)|first (?:trading )?(?:day|session) of (?:each|every|the) month"),
    ("schedule", "quarter", r"每个?季度?|季[初末度]|按季|quarterly|(?:every|each|per|of the) quarter(?!s)"),
    # Markets and indices.
    ("market", "market", r"大盘|指数(?!平均|移动|均线|加权)|沪深\s*300|上证(?:综指|50|指数)?|中证\s*\d+|创业板指?|深证成指|科创\s*50|整体市场|市场(?!价|份)|the market(?! (?:is|was) (?:shut|closed|open))|(?:broad|overall|whole) market|market (?:index|falls?|fell|drops?|has|closes?|is(?! (?:shut|closed|open))|was(?! (?:shut|closed|open))|down|up|regime|filter)|ind(?:ex|ices)|benchmark|s&p(?:\s*500)?|nasdaq(?:[\s-]?100)?|qqq|spy|csi\s*\d+|sse\s*(?:50|composite)?"),
    # Indicator families; the fields of daily indicators follow below.
    ("field", "ema", r"指数(?:移动|加权)?(?:平均线|平均|均线)|ema|exponential(?:ly)?(?:[\s-]weighted)?(?: moving)?(?: averages?)?"),
    ("field", "volume ma", r"均量线?|平均成交量|平均量|量能均值|(?:average|avg|mean|usual|typical|normal)(?: daily)? vol(?:ume)?"),
    ("field", "ma", r"(?:移动)?平均(?:线|价|值)?|均线|均价|均值|(?<=[日天周月])线|(?<=\d)线|半年线|年线|(?:simple |moving )*averages?|mean(?!s|[\s-]rev)|sma|ma(?![a-z])|d?ma(?=\d)|avg"),
    ("field", "macd", r"macd|dif+(?![a-z])|dea(?![a-z])|快线|慢线|信号线|红绿?柱|绿柱|histogram|signal line"),
    ("field", "rsi", r"rsi|相对强弱"),
    ("field", "kdj", r"kdj|[kdj]值|stochastic|(?<![a-z])[kdj](?= (?:value|line|of|cross|is|turn|rise|fall|drop|exceed|climb|goes|gets|under|over|above|below))|(?<=[的,，])[kdj](?=[上下大小低高])"),
    ("field", "boll", r"布林(?:带|线|通道)?|boll(?:inger)?(?: bands?)?|[上中下]轨|(?:upper|lower|middle|mid)[\s-]?(?:bands?|line|rail)|bands?"),
    ("field", "channel", r"通道|唐奇安|donchian|keltner|channels?"),
    ("field", "atr", r"atr|真实波幅|average true range|true range"),
    ("field", "std", r"标准差|z[\s-]?score|z值|standard dev(?:iation)?s?|std\s?devs?|stds?|sigmas?"),
    ("field", "volatility", r"波动率|波动性|volatil(?:e|ity)"),
    ("field", "amount", r"成交额|turnover value|dollar volume|trading value"),
    ("field", "gap", r"跳空|缺口|高开|低开|gap(?:s|ped|ping)?"),
    ("field", "candle", r"[收]?[阳阴]线?(?=[,，买卖就时则的后且并\s]|$)|十字星|锤子线|k线|up[\s-]days?|down[\s-]days?|(?:green|red|white|black|bullish|bearish) (?:candles?|bars?|days?)|candles?|doji|hammer|(?:higher|lower) closes?"),
    ("field", "open", r"开盘价?|opening(?: price)?|(?:at|the|its|from) open(?!ing|s)"),
    ("field", "return", r"涨跌幅|收益率?|回报率?|动量|表现|returns?|momentum|perform(?:ance|ers?|ing|s)?"),
    # Directions. A word of movement also sizes: "跌超1%", "falls more than 1%".
    ("direction", "up cross", r"上穿|升破|涨破|金叉|黄金交叉|向上(?:穿[过越]?|突破)|自下而上|由下向上|从下(?:方|往上)|golden[\s-]cross(?:es)?|cross(?:es|ed|ing)?(?: back)? (?:up )?(?:above|over)|cross(?:es|ed|ing)? up(?:ward)?s?(?: through)?|from below(?!\s*(?:zero|-?\d))"),
    ("direction", "down cross", r"下穿|死叉|死亡交叉|向下(?:穿[过越]?|跌破)|自上而下|由上向下|从上(?:方|往下)|(?:death|dead)[\s-]cross(?:es)?|cross(?:es|ed|ing)?(?: back)? (?:down )?(?:below|under|beneath)|cross(?:es|ed|ing)? down(?:ward)?s?(?: through)?|from above(?!\s*(?:zero|-?\d))"),
    ("direction", "up cross", r"由[^,，]{1,5}转(?:为|成|向)?(?:上升|上|涨|正|强|多)|从[^,，]{1,5}转(?:为|成|向)?(?:上升|上|涨|正|强|多)|拐头向上|(?:调头|掉头|拐头)?向上|turn(?:s|ing)? up(?:ward)?s?|(?:from|after) (?:falling|declining) to (?:rising|climbing)"),
    ("direction", "down cross", r"由[^,，]{1,5}转(?:为|成|向)?(?:下降|下|跌|负|弱|空)|从[^,，]{1,5}转(?:为|成|向)?(?:下降|下|跌|负|弱|空)|拐头向下|(?:调头|掉头|拐头)?向下|turn(?:s|ing)? down(?:ward)?s?|(?:from|after) (?:rising|climbing) to (?:falling|declining)"),
    ("direction", "up cross", r"突破|站上|站稳|收复|上破|break(?:s|ing|out|outs)?(?: back)?(?: out)?(?: (?:above|over|through))?|(?:rises?|climbs?|moves?|goes|gets?|comes?|closes?|pops?|pushes|turns?)(?: back)? (?:above|over|up)|reclaims?|retakes?|recovers?"),
    ("direction", "down cross", r"跌破|跌穿|跌回|失守|跌至|下破|(?<!不)破(?=\d|位|[五十二三六]|年线|半年线)|break(?:s|ing)?(?: back)?(?: down)? (?:below|under|down)|breakdowns?|(?:falls?|drops?|dips?|slips?|moves?|goes|gets?|comes?|closes?|turns?|sinks?|loses?)(?: back)? (?:below|under|down|beneath)|loses? (?:the|its)|undercuts?"),
    ("direction", "up move", r"上涨|涨幅|涨|上升|走高|回升|反弹|走强|强势|上行|转正|为正|最强|多头|盈利|获利|赚|超买|放量|放大|放巨量|高(?=\d)|阳(?=[,，买卖就时则的后且并线最\s]|$)|连阳|最贵|高开|增加|增大|变大|天量|巨量|溢价|正数|抬升|走牛|牛市|大涨|暴涨|涨停"),
    ("direction", "up move", r"rises?|rising|rose|risen|rall(?:y|ies|ied)|jumps?|jumped|pops?|surges?|surged|spikes?|gain(?:s|ed|ing|er|ers)?|advances?|advanced|climb(?:s|ed|ing)?|outperform(?:s|ed|ing)?|up(?!per|on|date|[\s-]to)|beat(?:s|ing)?|tops?(?= the)|upward|uptrend|higher|larger|bigger|greater|premium|hot|strong(?:er|est)?|best|better|top|leaders?|winners?|overbought|positive|bullish|profit(?:s|able)?|(?:green|white) (?:days?|candles?|bars?)|closes? green|uptrend|expand(?:s|ed|ing)?|grow(?:s|ing)?|increas(?:e|es|ed|ing)|run up|heavy|richest|breakouts?"),
    ("direction", "down move", r"下跌|跌幅|跌|下降|回落|回撤|回调|回踩|走低|走弱|弱势|下行|转负|为负|是负|负(?=的|值|就|，|,|$)|最弱|空头|亏损|亏|浮亏|超卖|缩量|萎缩|缩小|低(?=\d)|阴(?=[,，买卖就时则的后且并线\s]|$)|连阴|落后|最便宜|低开|低估|减少|缩减|变小|地量|折价|负数|下移|走熊|熊市|大跌|暴跌|跌停|走平下"),
    ("direction", "down move", r"falls?|falling|fell|fallen|drop(?:s|ped|ping)?|dip(?:s|ped)?|declin(?:e|es|ed|ing)|slides?|slips?|slumps?|sinks?|plunges?|los(?:e|es|ing|t)|loss(?:es)?|losers?|lag(?:s|ged|ging)?|trail(?:s|ed)? (?=it|the|its)|underperform(?:s|ed|ing)?|down(?!load)|downtrend|drawdowns?|lower|weak(?:er|est)?|worst|bottom|laggards?|oversold|negative|bearish|underwater|pull(?:s|ed|ing)?[\s-]?backs?|shrink(?:s|ing)?|shrank|decreas(?:e|es|ed|ing)|(?:red|black) (?:days?|candles?|bars?)|closes? red|dr(?:y|ies) up|cheap(?:est)?|light|quiet(?:est)?|calm(?:est)?|discount|smaller|less(?! than)|fewer|worse"),
    ("extent", "up", r"不低于|不小于|不弱于|大于(?:等于|或等于)?|以上(?!证|海|市|交所)|之上|上方|高过|高于|高出|强于|>=|(?<!-)>|≥|not (?:below|under|lower)|greater than|larger than|bigger than|higher than|over(?!all|bought|sold|night| (?:the |a )?(?:(?:last|past|previous|prior|course) (?:\d|of|few|two|three|four|five|ten|month|year|week)|\w+ (?:days|sessions|weeks|months|years)))|above|beyond"),
    ("extent", "down", r"不高于|不大于|小于(?:等于|或等于)?|不足|低于|低出|(?<!不)少于|不到|以下|之下|下方|弱于|<=|<|≤|not (?:above|over|higher)|smaller than|lower than|below|under(?!perform|cut|water)|beneath"),
    ("extent", "up size", r"超过|超出|超(?![买卖])|(?<!不)多于|(?<![最])大(?![盘户家阳阴涨跌于])|高(?![开低点位出于过])|(?<![不至最])多(?![头空次少于])|强(?!势|制|于)|more than|exceed(?:s|ed|ing)?"),
    ("extent", "up most", r"最大|最多(?![\d一二两三四五六七八九十持同])|最猛|最好|前列|前(?=\d+[名只])|largest|biggest|most(?! recent)|greatest"),
    ("extent", "down size", r"(?<![最])小(?![时市盘于])|低(?![开点位出于吸])|(?<![不至最])少(?!于)|弱(?!势|于)|less than|fewer than"),
    ("extent", "down most", r"最小|最少|最差|末位|倒数|后(?=\d+[名只])|smallest|least(?<!at least)|fewest"),
    ("extreme", "up", r"新高|最高|高点|高位|顶|上轨|上沿|(?:upper|top)(?: \w+)? (?:band|channel|line|rail)|highs?|highest|peaks?"),
    ("extreme", "down", r"新低|最低|低点|低位|底(?!仓)|下轨|下沿|(?:lower|bottom)(?: \w+)? (?:band|channel|line|rail)|lows?|lowest|troughs?"),
    # Sides.
    ("side", "out", r"空仓(?!观望)|不持有|stay(?:s|ing)? (?:out|flat|in cash)|flat(?![\w])"),
    ("side", "buy", r"买入|买进|买回|买|做多|开多|建仓|开仓|入场|进场|入手|上车|抄底|低吸|追(?=[,，入进\d]|$)|加仓|补仓|定投|吃进|buy(?:s|ing)?(?:[\s-]back)?|bought|go(?:es|ing)? long|(?:re-?)?enter(?:s|ing)?(?! price)|entry(?! price)|get(?:s|ting)? in(?!to)|purchase(?!d| price)s?|add(?:s|ing)?(?= (?:to|more|another|shares|a|\d))|accumulate|ape into|scoop up|pick up|grab|jump in|load up"),
    ("side", "sell", r"卖出|卖掉|卖光|卖|抛售|抛出|抛|平仓|平多|清仓|清掉|离场|出场|退出|出局|走人|跑路|跑(?=[,，。]|$)|减仓|了结|割肉|出掉|sell(?:s|ing)?|sold|exit(?:s|ed|ing)?|clos(?:e|ing)(?= (?:it|the position|out|everything|all|my|half))|get(?:s|ting)? out|go(?:es|ing)? (?:flat|to cash)|bail(?:s|ing)?|cut(?:s|ting)?(?= |$|[,.])|dump(?:s|ing)?|unload|liquidate|take (?:it|them) off|step aside|cash out|ditch|leave(?=s? (?:when|once|if|on|after))|out when|out once|out if|out on|out after|out at"),
    ("side", "hold", r"持有|拿着|拿住|持仓|躺平|hold(?:s|ing)?(?!ings)|held|keep(?:s|ing)?(?! an)|own(?:s|ing)?(?= the| it| only)|stay(?:s|ing)? (?:in|long)"),
    # Exceptions. Words in which 不 or *no* denies nothing come first.
    ("date", "", r"不错|最高价[与和、减-]最低价|high[\s-](?:to[\s-])?low|不管|不论|不断|不同|不过(?!\d)|差不多|不仅|不但|要不|并不是说|不限|no matter|no fancy(?: stuff)?|no[\s-]?brainer|no nonsense|no problem|no rush|no idea|not only|why not|whatever|nothing else|no need"),
    ("not", "not", r"除非|除了|除外|例外|不要|不再|不能|不得|不会|不许|不准|不可|不是|不在|不(?!低|高|小|大|超|少|多|足|到)|没有|(?<!吞)没|消失|未(?!来)|别(?!的|人)|勿|并非|非(?!常)|排除|剔除|避开|回避|跳过|放弃|暂停|过滤|免|unless|except(?:ing|ion)?(?: for| when| if)?|excluding|exclude[sd]?|never(?! more| less| longer)|nothing(?! fancy)|none|not|n't|without|no(?= |$)(?! less| more| later)|cannot|skip(?:s|ping)?|avoid(?:s|ing)?|ignor(?:e|es|ing)|don't|doesn't|isn't|won't|hasn't|haven't|aren't|wasn't|neither|nor|leave out|barring|suspend|forget"),
    # Modifiers.
    ("modifier", "first", r"首次|第一次|首度|头一[次回]|首个|(?:for )?the first time|first(?! (?:trading|session|day|half|quarter|buy|sell|enter))|initially"),
    ("modifier", "consecutive", r"连续|接连|连(?=[\d一二两三四五六七八九][\s天日根次个连]?)|连(?=[涨跌阳阴])|consecutive(?:ly)?|in a row|straight|successive|back[\s-]to[\s-]back|running(?= days)"),
    ("modifier", "again", r"再次|再度|又(?=[站上涨跌突])|again|re-?enter(?:s|ing)?|once more|anew"),
    ("modifier", "first-session", r"第一[天日]|第一个交易日|第一根|首个交易日|月初|first (?:trading )?(?:day|session)"),
    ("modifier", "last-session", r"最后一个?(?:交易)?[天日]|月末|月底|(?:last|final) (?:trading )?(?:day|session)|month[\s-]end"),
    ("modifier", "last-but-one", r"倒数第二|second[\s-]to[\s-]last|last[\s-]but[\s-]one|penultimate|next[\s-]to[\s-]last"),
    ("modifier", "one-day", r"单日|一天内|一日内|single[\s-]day|in (?:one|a single) (?:day|session)"),
    ("modifier", "all", r"全部|清仓|all of (?:it|them)|everything|entire(?:ly)?|the whole"),
    ("modifier", "back", r"重新|重回|重返|回到|back(?= (?:above|below|over|under|in|inside|to|up))"),
    ("modifier", "at-least", r"以上(?!证|海|市|交所)|至少|不少于|不低于|不小于|不足(?=$)|>=|≥|at least|or more|or (?:higher|above|greater)|no less|not (?:below|less|under)|(?<=[\d%])\+"),
    ("modifier", "at-most", r"以内|不超过|不高于|不大于|不多于|至多|最多(?=(?:同时)?(?:持有|持仓|买|拿)?[\d一二两三四五六七八九十])|<=|≤|within(?! the)|at most|(?:no|never) more|up to|max(?:imum)?(?: of)?|or less|not (?:above|more|over|exceed)"),
    ("modifier", "close", r"收盘价?|收在|收于|(?<!gap )closes(?! (?:it|out|the position))|closed(?= (?:above|below|over|under|higher|lower|up|down|at|in))|close(?= (?:above|below|over|under|is|was|price|crosses))|the close|closing"),
    ("modifier", "same-day", rf"当{_SESSION}|同[一]?[天日]|同{_SESSION}|same[\s-](?:day|session)|that (?:very )?(?:day|session)|on the day|that day's"),
    ("modifier", "day-before", rf"前[一1]?{_SESSION}|前1日|昨[天日]?|上[一1]?个?{_SESSION}|the (?:day|session) before|(?:previous|prior|preceding) (?:day|session|close|bar)(?:'s)?|yesterday(?:'s)?|(?:prior|previous) (?:day's )?(?:high|low)"),
    ("modifier", "next-day", rf"次[日]|第二{_SESSION}|隔[天日]|明[天日]|下[一1]?个?{_SESSION}|(?:next|following)[\s-](?:day|session|morning|open|monday|tuesday|wednesday|thursday|friday|week|month)|下周[一二三四五]?|the day after|day after(?= (?:that|the|it)|[,.;]|$)|tomorrow"),
    ("modifier", "intraday", r"盘中|日内|分时|intraday|during the (?:day|session)"),
    ("modifier", "at-the-end-of-the-day", r"尾盘|收盘前|into the close|near the close|market on close"),
    ("modifier", "only", r"只有|只在|只当|仅当|仅在|仅|只(?=[买卖做在当有要拿持选留])|才(?=[买卖做开进入能会可])|only|solely|provided(?: that)?|as long as|只要"),
    ("modifier", "both", r"同时满足|两者都|两个都|都(?=[高低大小在超站满是为])|both(?! ways| directions| sides)|all three|(?<=and )both"),
    # Words of the trade plan.
    ("plan", "trailing", r"移动止[损盈]|跟踪止[损盈]|追踪止[损盈]|回撤止[损盈]|trail(?:s|ing)?(?:[\s-]stop)?(?:[\s-]loss)?|(?:off|below|under|from) (?:its|the|their) (?:highest|peak|high)|自?从?最?高点(?:回落|回撤|下跌)|(?:回撤|回落)(?=\d|超|达|到|百)"),
    ("plan", "stop", r"止损(?:线|位|点)?|割肉|stop(?:[\s-]?loss(?:es)?|ped|s)?(?: out)?|(?:below|under) (?:the |my |its )?(?:entry|purchase|buy|cost)(?: price)?|(?:买入价|成本价?|进场价|入场价)"),
    ("plan", "target", r"止盈(?:线|位|点)?|获利了结|落袋|take(?:s)?[\s-]?profits?|profit[\s-]target|price target|target(?= of| at|s)?|bank(?= it| the| profits)"),
    ("plan", "size", r"仓位|[半满全重轻]仓|成仓|成资金|等权重?|等额|平均分配|equal(?:ly)?[\s-]?weight(?:ed|s)?|equal amounts|position siz\w*|of (?:my |the |our )?(?:cash|capital|account|equity|portfolio|money|funds|book)|(?:half|full|quarter)[\s-](?:position|size)"),
    ("plan", "positions", r"最多(?:同时)?持(?:有|仓)?|同时(?:最多)?持(?:有|仓)?|(?:at most|no more than|max(?:imum)?(?: of)?|up to) \w+ (?:positions|holdings|names|stocks|at (?:a|one) time|at once)"),
    ("plan", "leverage", r"杠杆|融资|两融|leverage[d]?|on margin|margin(?= loan)"),
    ("plan", "short", r"做空|卖空|融券|开空|short(?:s|ing|[\s-]sell(?:ing)?)?(?![\s-](?:term|ma|average|window|period|line|moving|ema|sma|\d))"),
    ("plan", "accumulate", r"定投|加仓|补仓|摊低|pyramid\w*|dollar[\s-]cost|averag(?:e|ing) down|dca"),
    ("plan", "rebalance", r"调仓|换仓|轮动|再平衡|换掉|换股|rebalanc(?:e|ed|es|ing)|rotat(?:e|es|ing|ion)|reconstitut\w*|refresh"),
    ("plan", "minutes", r"\d+\s*分钟|分钟线|小时线|hourly|\d+[\s-]?min(?:ute)?s?|tick"),
    ("plan", "commission", r"手续费|佣金|commissions?|fees?"),
    ("plan", "slippage", r"滑点|slippage"),
    ("plan", "benchmark", r"基准|benchmark(?:ed)?"),
    *(("field", name.partition("_ttm")[0], pattern) for name, pattern in FIELD_NAMES.items()),
    ("field", "pe", r"price[\s/-]earnings|earnings multiple"),
    ("field", "roe", r"roe|净资产收益率|return on equity"),
    ("field", "volume", r"成交量|交易量|量能|放量|缩量|地量|天量|巨量|爆量|量(?=[大小能是比放缩增超低高不])|volume|vol(?![a-z])|turnover(?! rate)"),
)  # fmt: skip


def _whole_words(pattern: str) -> str:
    """A pattern that matches whole ASCII words only; Chinese has no word boundaries."""
    return rf"(?:(?<![a-z])(?=[a-z])(?:{pattern})(?![a-z])|(?![a-z])(?:{pattern}))"


_COMPILED = tuple((kind, value, re.compile(_whole_words(pattern))) for kind, value, pattern in _ROWS)  # "buy"


def find_anchors(text: str) -> tuple[Anchor, ...]:
    """The anchors of a plain text in reading order; of words that overlap in one class the longest.

    >>> [(each.kind, *sorted(each.values)) for each in find_anchors("大盘跌超1%就不买")]
    [('market', 'market'), ('direction', 'down', 'move'), ('extent', 'size', 'up'), ('number', '0.01', '0.99', '1', '1.01', '101', '99'), ('not', 'not'), ('side', 'buy')]
    """
    found = [*_numbers(text)]
    for kind, value, pattern in _COMPILED:
        found += [
            Anchor(kind=kind, values=frozenset(value.split()), begin=match.start(), end=match.end())
            for match in pattern.finditer(text)
        ]
    dates = [each for each in found if each.kind == "date"]
    rest = [each for each in found if each.kind != "date"]
    hidden = _covered_words(dates, rest, same=True)
    kept = [each for each in rest if each not in hidden]
    for kinds in _ONE_WORD:
        same = [each for each in kept if each.kind in kinds]
        hidden |= _covered_words(same, same)
    return tuple(
        sorted((each for each in kept if each not in hidden), key=lambda each: (each.begin, each.end))
    )


_ONE_WORD: tuple[tuple[Kind, ...], ...] = (
    ("direction", "extent", "extreme"), ("schedule",), ("market",), ("field",), ("side",), ("not",), ("modifier",), ("plan",),
)  # fmt: skip
"""Classes in which the longest of words that overlap counts."""


def without_date_words(text: str) -> str:
    """A plain text without its dates.

    >>> without_date_words("2025年5月6日到10月31日")
    '到'
    """
    for kind, _, pattern in _COMPILED:
        if kind == "date":
            text = pattern.sub("", text)
    return text


def _covered_words(longer: Sequence[Anchor], words: Sequence[Anchor], *, same: bool = False) -> set[Anchor]:
    """The words that stand inside a longer one, or ``same`` in the place of another."""
    order = sorted(longer, key=lambda each: (each.begin, -each.end))
    furthest = list(itertools.accumulate((each.end for each in order), max))
    begins = [each.begin for each in order]
    found = set()
    for word in words:
        first, behind = bisect_left(begins, word.begin), bisect_right(begins, word.begin)
        before = bool(first) and furthest[first - 1] >= word.end
        if before or any(each.end > word.end - same for each in order[first:behind]):
            found.add(word)
    return found
