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
from quantgraph.sentences._wording import MOST_DIGITS, chinese_number, plain_wording

__all__ = ["chinese_number"]
MARKS = "\U000f0000-\U000ffffd"
"""Range of the placeholders of securities in a marked text; no text of a user has them."""

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1e\x7f-\x9f]")  # "\x00"
_INVISIBLE = re.compile(rf"[{MARKS}\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACES = re.compile(r"[^\S\n]{2,}")  # "MA5  MA20"
_MARK = "\x1f"
_MEASURE = re.compile(r"[个些种套份款]+")  # "个"


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


def collapse_spaces(text: str) -> str:
    """A text without runs of spaces, on which patterns would backtrack."""
    return _SPACES.sub(lambda run: _MARK if _MARK in run[0] else " ", text)


def normalise(text: str) -> str:
    """Half-width text without control characters, in the words of the lexicon. Letter case stays.

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
    return plain_wording(text)


_FILL_ZH = (
    "请帮我", "帮我", "帮忙", "请问", "请", "我想要", "我想", "我要", "我们", "我", "你好", "您好", "您", "你", "想要", "想", "希望", "麻烦",
    "给我", "给", "对于", "对", "把", "将", "使用", "利用", "采用", "应用", "用", "基于", "根据", "按照", "按", "依据", "针对", "关于", "以",
    "在", "的", "得", "了", "吧", "呢", "啊", "谢谢", "时候", "时", "当", "如果", "假如", "若", "只要", "一旦", "则", "就", "便", "那么",
    "然后", "接着", "之后再", "再", "进行", "做", "写", "设计", "构建", "建立", "生成", "产生", "计算", "得到", "运行", "跑", "测试", "一下", "一个", "这个",
    "这只", "该", "其", "它们", "它", "股票池", "股票", "个股", "标的", "成分股", "中", "里", "内", "范围", "期间", "区间", "时间段", "时间",
    "从", "由", "为", "是", "值", "条", "指标", "处于", "位于", "出现", "形成", "发生", "创出", "创下", "创", "排名", "排序", "排列", "每天", "每日",
    "当天", "当日", "今日", "规则", "条件", "参数", "改为", "改成", "换成", "换为", "那些", "那", "公司", "a股", "元", "进入", "包含", "包括", "所有",
    "某", "谁", "些", "个", "帮", "已经", "来个", "搞个", "弄个", "一种", "一套", "一份", "一款", "简单", "基础", "基本", "经典", "普通", "常见", "常用", "标准", "看一看", "看看", "看", "的效果", "效果如何", "效果怎么样", "效果", "表现如何", "怎么样", "如何", "再试一次", "再试", "重试", "继续", "好的", "可以", "默认", "是的", "没错", "确认", "都", "请用", "于", "上述", "以下规则",
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
    ("BUY", r"(?:买入?(?:后|并)?)?拿[着住]|(?:发出|产生|给出|作为|视为|触发)?(?:买入|买进|做多|开多|建仓|开仓|入场|进场)(?:信号|时机|条件|规则|点)?|持有|买|低吸|抄底|上车"
            r"|grab(?:bing)?|scoop(?:s|ing)?\s+(?:(?:it|them)\s+)?up|pick(?:s|ing)?\s+(?:it|them|some)\s+up|get\s+in(?!to)|(?:(?:generate|give|emit|as)\s+)?(?:a\s+)?buy(?:ing)?(?:\s+(?:signal|rule|condition))?(?:s\b)?|go(?:es|ing)?\s+long|enter(?:\s+long)?|entry(?:\s+(?:rule|condition))?|hold(?:s|ing)?(?:\s+(?:it\s+)?while)?"),
    ("SELL", r"(?:发出|产生|给出|作为|视为|触发)?(?:卖出|卖掉|平仓|平多|清仓|离场|出场)(?:信号|时机|条件|规则|点)?|卖|(?:全部?|全都)?(?:清掉|抛[掉售出]?(?!物)|出掉|卖光|清光)|全清|全卖|(?:全部)?空仓(?!观望|等|期|时)|走人|(?<=就)走(?![势平高低强弱出])|闪人|跑路|(?<=就)跑(?![赢输一回])|下车"
             r"|dump(?:s|ing)?|get(?:s|ting)?\s+out(?:\s+of\s+(?:it|them))?|bail(?:\s+out)?|go(?:es)?\s+to\s+cash|(?<=[,;] )out(?=\s+(?:on|when|if)\b)|(?:(?:generate|give|emit|as)\s+)?(?:a\s+)?sell(?:ing)?(?:\s+(?:signal|rule|condition))?(?:s\b)?|exit(?:\s+(?:rule|condition))?|close\s+(?:the\s+|my\s+)?(?:position|long)|go(?:es|ing)?\s+flat"),
    ("NEVER", r"(?:(?:就|并|然后)?(?:一直|永远|永久|长期)\s*(?:拿着|拿住|持有|捂着)?[,\s]*)?(?:永不|从不|决不|绝不|再也不|永远不|不再|不)\s*(?:卖出|卖掉|卖|平仓|清仓)"
              r"|(?:一直|永远|永久|长期)\s*(?:拿着|拿住|持有)(?:不动)?|(?:(?:and|but)\s+)?(?:never|don't\s+(?:ever\s+)?|do\s+not\s+(?:ever\s+)?|without\s+(?:ever\s+)?)\s*(?:sell(?:ing)?|exit(?:ing)?)"
              r"|(?:(?:and|but)\s+)?(?:hold|keep)(?:ing)?\s+(?:it\s+|them\s+)?(?:forever|for\s+ever|indefinitely)|no\s+(?:exit|selling|sells?)"),
    ("STREAK", r"连续\s*(\d+)\s*(?:个?交易日|[天日])(?![均线])(?:都|均)?|for (\d+) (?:(?:straight|consecutive|trading) )*(?:days|sessions)(?: in a row)?|(\d+) (?:straight|consecutive) (?:trading )?(?:days|sessions)|(\d+) (?:days|sessions) (?:in a row|straight|running)"),
    ("CANDLES", r"(\d+)[阴阳](\d+)[阴阳]线?"),
    ("UP_DAY", r"收涨|收高|clos(?:es|ed|ing) (?:up|higher)"),
    ("DOWN_DAY", r"收跌|收低|clos(?:es|ed|ing) (?:down|lower)"),
    ("UP_CANDLE", r"收阳线?|阳线|up candles?"),
    ("DOWN_CANDLE", r"收阴线?|阴线|down candles?"),
    ("LIMIT_UP", r"涨停(?![板价])|limit[\s-]up"),
    ("LIMIT_DOWN", r"跌停(?![板价])|limit[\s-]down"),
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
    ("GE", r">=|≥|(?:涨|升)[到至](?!\s*-?\d+(?:\.\d+)?\s*%)|不低于|不小于|不少于|大于\s*(?:或)?等于|至少|at least|(?:not?|no) (?:less|lower|smaller) than|not below|greater than or equal to"),
    ("LE", r"<=|≤|(?:跌|回调)[到至](?!\s*-?\d+(?:\.\d+)?\s*%)|不高于|不大于|不超过|不多于|小于\s*(?:或)?等于|至多|at most|(?:not?|no) (?:more|higher|greater) than|not above|less than or equal to"),
    ("CROSS_UP", r"(?:向上)?上穿|向上穿过|自下而上穿过|cross(?:es|ed|ing)?\s+(?:up\s+)?(?:above|over|up\s+through|upwards?)|cross(?:es|ed|ing)?\s+up"),
    ("CROSS_DOWN", r"(?:向下)?下穿|向下穿过|自上而下穿过|cross(?:es|ed|ing)?\s+(?:down\s+)?(?:below|under|down\s+through|beneath|downwards?)|cross(?:es|ed|ing)?\s+down"),
    ("GOLDEN", r"黄金交叉|金叉|golden[\s-]cross(?:es|over)?|bullish cross(?:over)?"),
    ("DEATH", r"死亡交叉|死叉|(?:death|dead)[\s-]cross(?:es|over)?|bearish cross(?:over)?"),
    ("CROSSOVER", r"交叉|cross-?\s?overs?|cross(?:es|ing)?"),
    ("BREAK_UP", r"向上突破|突破|站[上回]|升破|涨破|上破|back (?:above|over)|(?:breaks?|breaking|rises?|rising|climbs?|moves?|goes|gets?|comes?) (?:back )?(?:out )?(?:above|over)"),
    ("BREAK_DOWN", r"向下跌破|向下突破|跌[破回]|下破|back (?:below|under)|(?:breaks?|breaking|falls?|falling|drops?|dips?|moves?|goes|gets?|comes?|slips?) (?:back )?(?:below|under)"),
    ("ABOVE", r"高于|大于|超过|高过|多于|(?<![不没破])(?<!(?<!已)经)过了?(?=\s*\d+(?:\.\d+)?(?![\d.]*\s*[日天个%]))|above|over|(?:greater|more|higher|larger|bigger) than|exceed(?:s|ing)?|>"),
    ("BELOW", r"低于|小于|少于|低过|below|under|(?:less|lower|smaller|fewer) than|<"),
    ("POST_UP", r"以上|之上|上方|上面"),
    ("POST_DOWN", r"以下|之下|下方|下面"),
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
    ("EMA", r"指数(?:移动)?(?:平均线|平均|均线)|e(?:xp)?ma(?:均线|线|s(?![a-z]))?|exponential(?:ly)?(?:[\s-]weighted)?(?: moving)? averages?|exponential averages?"),
    ("MA", r"(?:简单)?(?:移动平均线|移动平均|移动均线|平均线|均线|均价线|均价)|均值|sma(?:均线|线)?|(?:simple )?moving averages?|averages?|mean|ma(?:均线|线|s(?![a-z]))?"),
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
    "DIF DOWN_CANDLE DOWN_DAY CANDLES ELSE EMA GE GOLDEN HIST HOLDING KDJ LABEL LE LIMIT_DOWN LIMIT_UP LOSS LOWER MA MACD MOMENTUM NEVER OVERBOUGHT "
    "OVERSOLD PCT RANGE RETURN REVERSE RSI SELL SIGNAL STREAK TIMES TOP TURNS_DOWN TURNS_UP UPPER UP_CANDLE UP_DAY "
    "VOLAVG "
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
