"""Clauses of a trade plan beside the rule: stops, holding time, schedule, size, cash, costs, refusals.

A clause is taken out of the line before the rule is read. Its key and value are the trade plan's;
without a key it cannot be done at all.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from quantgraph._util.texts import Note
from quantgraph.sentences._text import chinese_number, clean_words, normalise

_UNITS = {
    "万": 10_000.0, "w": 10_000.0, "千": 1000.0, "k": 1000.0, "thousand": 1000.0, "百万": 1_000_000.0, "m": 1_000_000.0,
    "million": 1_000_000.0, "亿": 100_000_000.0,
}  # fmt: skip
_SMALL = re.compile(  # "万分之三"
    r"(万分之|千分之|万)?\s*([\d.]+|[一二两三四五六七八九十]+)\s*(%|bps?|basis points|个?基点)?",
    re.IGNORECASE,
)
_MOST_COMMISSION = 0.003
"""No broker may take more."""
_PARTS = {"万分之": 10_000.0, "万": 10_000.0, "千分之": 1000.0}


def _figure(text: str) -> float | None:
    plain = text.replace(",", "")
    if re.fullmatch(r"\d+(?:\.\d+)?", plain):  # "20000.5"
        return float(plain)
    return float(chinese_number(text)) if re.fullmatch(r"[一二两三四五六七八九十百]+", text) else None  # "三"


def money_of(match: re.Match[str]) -> float | None:
    """The amount of a match whose groups are pairs of a figure and its unit; None if it is not a number."""
    return _amount(match.groups())


def _amount(groups: Sequence[str | None]) -> float | None:
    for figure, unit in zip(groups[::2], groups[1::2], strict=True):
        if figure is not None:
            amount = _figure(figure.strip(",."))
            return None if amount is None else amount * _UNITS.get((unit or "").lower(), 1.0)
    return None


def fraction_of(match: re.Match[str]) -> float | None:
    """The fraction that a match names, 0.0001 for ``万分之一``; None if it is not a number."""
    found = _SMALL.fullmatch(next((group for group in match.groups() if group is not None), "").strip())
    number = None if found is None else _figure(found[2])
    if found is None or number is None:
        return None
    if found[1]:
        return round(number / _PARTS[found[1]], 10)
    return round(number / (100.0 if found[3] == "%" else 10_000.0), 10)


def _commission(match: re.Match[str]) -> float | None:
    part = fraction_of(match)
    return None if part is None or part > _MOST_COMMISSION else part


PlanValue = float | int | str | dict[str, Any]
PLAN_KEYS = frozenset(
    {
        *("stop_loss", "take_profit", "trailing_stop", "max_holding"),
        *("size", "max_positions", "trade_on", "accumulate", "rebalance"),
        *("cash", "commission", "slippage_bps", "benchmark"),
    }
)
"""Keys of clauses that a trade plan carries out."""
NAMED_ENDS = ("max_holding", "take_profit", "trailing_stop")
"""Those that say when a position ends, so that no exit is a default; a stop alone ends what went wrong."""
Topic = Literal[
    "stop", "target", "trailing", "holding", "schedule", "size", "positions", "cash", "commission", "slippage",
    "leverage", "short", "bars", "accumulate", "fill", "prices", "settlement", "risk", "long_only", "benchmark", "grid",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PlanClause:
    """A clause. ``key`` is its key in the trade plan, empty without one; ``value`` is None if it has none."""

    words: str
    topic: Topic
    key: str = ""
    value: PlanValue | None = None
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """Words that give up clauses of a topic."""

    topic: Topic
    begin: int
    end: int


_P = r"(?<![\d.])(\d{1,9}(?:\.\d{1,9})?)\s*%"
_EACH_TIME = r"(?:\s+(?:(?:each|every)\s+time|at\s+a\s+time|per\s+(?:trade|entry|purchase)))?"
_IS = r"\s*(?:设[为在]?|定[为在]|为|是|在|到|of|at|is|to|[:=])?\s*-?"
_STOP = r"(?:固定)?止损(?:线|位|点|幅度|比例)?|stop(?:[\s-]?loss(?:es)?)?(?![\w-])|\bsl\b"
_TARGET = r"(?:固定)?止盈(?:线|位|点|幅度|比例)?|take[\s-]?profits?|profit[\s-]target|\btp\b"
_TRAIL = r"(?:移动|跟踪|追踪|回撤)止[损盈]|trailing[\s-]stop(?:[\s-]?loss)?"
_ATR = r"(\d{1,9}(?:\.\d{1,9})?)?\s*(?:x|倍|times)?\s*-?\s*的?\s*(?:(\d{1,9})\s*日)?\s*atr\s*(?:\(\s*(\d{1,9})\s*\))?\s*的?\s*"
_ATR_BEHIND = r"\s*(?:为|是|at|of|[:=])?\s*(\d{1,9}(?:\.\d{1,9})?)\s*(?:x|倍|times)?\s*的?\s*(?:(\d{1,9})\s*日)?\s*atr\s*(?:\(\s*(\d{1,9})\s*\))?"
_MONEY = r"([\d,.]{1,18}|[一二两三四五六七八九十百]{1,6})\s*(万|千|百万|亿|w|k|thousand|m|million)?\s*(?:元|块钱?|人民币|rmb|yuan|cny|usd|dollars)?"
_MONEY_UNIT = r"(?:([\d,.]{1,18}|[一二两三四五六七八九十百]{1,6})\s*(万|千|百万|亿)(?:元|块钱?|人民币)?|([\d,.]{1,18})\s*()(?:元|块钱?|人民币))"
_DAYS = r"(\d{1,9})\s*-?\s*个?\s*(?:交易)?(?:日|天|days?\b|sessions?\b)"
_SOLD = r"(?:卖出|卖掉|平仓|离场|出场|清仓|走人|卖)"


def _percent(match: re.Match[str]) -> float | None:
    found = next((group for group in match.groups() if group is not None), None)
    return None if found is None else round(float(found) / 100.0, 10)


def _ranges(match: re.Match[str]) -> PlanValue | None:
    """*a 3x ATR(14) stop*; None without the number."""
    times, before, after = match.groups()
    window = {"window": int(before or after)} if before or after else {}
    return {"atr": float(times), **window} if times else None


def _days(match: re.Match[str]) -> int | None:
    found = next((group for group in match.groups() if group is not None), None)
    return None if found is None else int(found)


def _days_to_sale(match: re.Match[str]) -> int | None:
    """*sell below the 10-day low or after 30 days*; None if the clause does not sell."""
    actions = re.findall(
        r"\b(buy|grab|sell|exit|get out|bail|dump)\b", match.string[: match.start()], re.IGNORECASE
    )
    return int(match[1]) if actions and actions[-1].lower() not in ("buy", "grab") else None


def _share(match: re.Match[str]) -> PlanValue | None:
    found = _percent(match)
    return None if found is None else {"percent": found}


def _constant(value: PlanValue | None) -> Callable[[re.Match[str]], PlanValue | None]:
    return lambda _: value


def _cash(match: re.Match[str]) -> PlanValue | None:
    amount = money_of(match)
    return None if amount is None else {"cash": amount}


def _regular(match: re.Match[str]) -> PlanValue | None:
    amount = money_of(match)
    return None if amount is None else {"amount": amount, "on": "schedule"}


def _read_added(match: re.Match[str]) -> PlanValue | None:
    """*add 20% at each rise of 5%*: how far, then how much; in English the other way round."""
    first, second, more, by = match.groups()
    share, far = (second, first) if first is not None else (more, by)
    return {"percent": round(float(share) / 100, 10), **_move(match, far)}


def _added_units(match: re.Match[str]) -> PlanValue | None:
    """*跌5%加仓1000股*, *涨5%加仓2万元*."""
    far, shares, *money = match.groups()
    amount = _amount(money)
    if shares is None and amount is None:
        return None
    return {**({"amount": amount} if shares is None else {"shares": float(shares)}), **_move(match, far)}


def _move(match: re.Match[str], far: str) -> dict[str, Any]:
    falls = re.search(r"跌|亏|fall|drop|dip|down", match[0], re.IGNORECASE)  # "下跌"
    return {"on": "fall" if falls else "rise", "by": round(float(far) / 100, 10)}


def _every(match: re.Match[str]) -> PlanValue:
    text = match[0].lower()
    if number := re.search(r"\d+", text):  # "every 20 days"
        count = int(number[0])
        if not re.search(r"周一|周1|[月季]度?的?1|第1", text):  # "每月1日"
            return count
    if "季" in text or "quarter" in text:
        return "quarter_start"
    return "month_start" if "月" in text or "month" in text else "week_start"


_Row = tuple[Topic, str, str, str, Callable[[re.Match[str]], PlanValue | None]]
"""Topic, key, words of which a text that matches has one, pattern, and the reader of the value."""
_NONE = _constant(None)
_ROWS: tuple[_Row, ...] = (
    ("long_only", "", "做多 空 long short", r"只做多(?:不做空)?|不做空|不卖空|仅做多|long[\s-]only|no short(?:ing|s| selling)?\b", _NONE),
    ("trailing", "trailing_stop", "atr", rf"(?:{_TRAIL}){_ATR_BEHIND}", _ranges),
    ("stop", "stop_loss", "atr", rf"(?<!移动)(?<!跟踪)(?<!追踪)(?<!trailing )(?:止损|stop(?:[\s-]?loss)?){_ATR_BEHIND}", _ranges),
    ("trailing", "trailing_stop", "atr", rf"{_ATR}(?:trailing\s+stop(?:[\s-]?loss)?|(?:移动|跟踪|追踪)止损)", _ranges),
    ("stop", "stop_loss", "atr", rf"{_ATR}(?:止损|stop(?:[\s-]?loss)?)", _ranges),
    ("trailing", "trailing_stop", "止损 止盈 trail 回撤 回落", rf"(?:{_TRAIL}){_IS}{_P}|{_P}\s*(?:的)?(?:{_TRAIL})|从?最?高[点价位]?(?:回撤|回落){_IS}(?:超过|达到?)?\s*{_P}|\btrail(?:\s+(?:it|by))*\s+{_P}"
     rf"|(?<![\w一-鿿])(?:回撤|回落)(?:超过|达到?)?\s*{_P}\s*(?:时|就|则)?\s*(?:的)?止[损盈]", _percent),
    ("trailing", "trailing_stop", "止损 止盈 回撤 trail", _TRAIL, _NONE),
    ("stop", "stop_loss", "%", rf"(?:{_STOP}){_IS}{_P}|(?:(?:跌破|低于|跌至)(?:买入价格?|买价|成本价?|成本线)(?:的|下方)?|浮?亏损?|下跌|跌)?(?:超过|达到?|到)?\s*{_P}\s*(?:时|就|则|的)?\s*(?:{_STOP})"
     rf"|(?:浮亏|亏损?)(?:超过|达到?|到)?\s*{_P}(?=\s*(?:时|就|则|后)?\s*{_SOLD})|(?<=after )(?:an? )?loss of {_P}|(?<=after )(?:an? )?{_P} loss", _percent),
    ("target", "take_profit", "%", rf"(?:{_TARGET}){_IS}{_P}|(?:浮?盈利?|上涨|涨)?(?:超过|达到?|到)?\s*{_P}\s*(?:时|就|则|的)?\s*(?:{_TARGET})"
     rf"|(?:浮盈|盈利)(?:超过|达到?|到)?\s*{_P}(?=\s*(?:时|就|则|后)?\s*{_SOLD})|(?<=after )(?:an? )?(?:gain|profit) of {_P}", _percent),
    ("stop", "stop_loss", "止损 stop", r"(?:固定)?止损(?:线|位|点)?(?!\s*盈)|stop[\s-]?loss(?:es)?\b", _NONE),
    ("target", "take_profit", "止盈 profit tp", _TARGET, _NONE),
    ("holding", "max_holding", "持 拿 hold after max", rf"(?<!至少)(?<!最少)(?:买入后)?(?:最多|最长)?(?:持有|持股|拿[着住]?)(?:期|时间)?(?:最多|最长|不超过)?{_IS}{_DAYS}(?!\s*(?:均|线|涨|跌|新|动|收|高|低|最|内))(?:之?后)?"
     rf"|(?<!at least )\bhold(?:ing)?(?:\s+(?:it|them|period|time|each))?(?:\s+(?:for|of))?(?:\s+at most)?\s*:?\s*{_DAYS}(?:\s*(?:,\s*)?then\s+sell)?"
     rf"|(?<=sell )after {_DAYS}|(?<=exit )after {_DAYS}|(?<=out )after {_DAYS}|max(?:imum)?\s+holding(?:\s+(?:period|time))?(?:\s+of)?\s*:?\s*{_DAYS}|(?<=, )max(?:imum)?\s+{_DAYS}(?=\s*(?:[,;.]|$))", _days),
    ("holding", "max_holding", "after", rf"\bor\s+after {_DAYS}", _days_to_sale),
    ("accumulate", "accumulate", "% 加 补 add", rf"(?:之后|此后)?(?:每|再)?(?:上?涨|下?跌)(?:超过|到|了)?\s*{_P}\s*(?:时|就|则|后)?[,\s]*(?:就|则|再)*(?:加仓|加码|补仓|加|补)(?:买入?)?\s*{_P}(?:的?(?:仓位?|资金))?"
     rf"|(?:add|buy)\s+{_P}\s+(?:more\s+)?(?:of\s+(?:the\s+|my\s+)?(?:account|equity|capital)\s+)?(?:at|on|for|after|with)\s+(?:each|every|a|any)\s+(?:further\s+)?(?:rise|gain|fall|drop|dip)\s+of\s+{_P}", _read_added),
    ("accumulate", "accumulate", "% 加 补", rf"(?:之后|此后)?(?:每|再)?(?:上?涨|下?跌)(?:超过|到|了)?\s*{_P}\s*(?:时|就|则|后)?[,\s]*(?:就|则|再)*(?:加仓|加码|补仓|加|补)(?:买入?)?\s*(?:(\d{{1,9}})\s*股|{_MONEY_UNIT})", _added_units),
    ("accumulate", "accumulate", "invest put buy", rf"(?:invest|put)\s+\$?{_MONEY}(?=[^,;.\n]*month|[^,;.\n]*week|[^,;.\n]*quarter)|buy\s+\$\s*{_MONEY}\s*(?:worth\s+)?of(?=[^,;.\n]*month|[^,;.\n]*week|[^,;.\n]*quarter)", _regular),
    ("schedule", "trade_on", "每 调仓 换仓 再平衡 轮动 季 quarter rebalanc weekly monthly every each monday first", r"每\s*个?\s*(?:周|星期|礼拜|月|季度?)(?=\s*定投)|每\s*个?\s*季(?:度)?(?:初|的?第[一1]个?交易日)?(?:开盘)?(?:调仓|换仓|再平衡|轮动|交易)?(?:[一1]次)?|(?:按|逐)?季度?(?:调仓|换仓|再平衡|轮动)|(?:rebalanc(?:e|ed|ing)|trade)\s+(?:quarterly|(?:once\s+)?(?:every|each|a|per)\s+quarter)|(?:every|each)\s+quarter\b|quarterly(?=\s*(?:[,;:.]|$))|on\s+the\s+first\s+(?:trading\s+)?(?:day|session)\s+of\s+(?:each|every|the|a)\s+(?:month|week|quarter)|每\s*个?\s*(?:周|星期|礼拜)(?:[一1]|初|第[一1]个?交易日)?(?:开盘)?(?:调仓|换仓|再平衡|轮动|交易)(?:[一1]次)?|每\s*个?\s*(?:周|星期|礼拜)(?:[一1]|初)"
     r"|每\s*个?\s*月(?:初|[1一][日号]|第[一1]个?交易日)?(?:调仓|换仓|再平衡|轮动|交易)(?:[一1]次)?|每\s*个?\s*月(?:初|[1一][日号]|第[一1]个?交易日)"
     r"|每(?:隔)?\s*\d{1,9}\s*个?(?:交易)?[日天](?:调仓|换仓|再平衡|轮动)(?:[一1]次)?|(?:按|逐)?[周月]度?(?:调仓|换仓|再平衡|轮动)"
     r"|rebalanc(?:e|ed|ing)\s+(?:every\s+\d{1,9}\s+(?:days|sessions)|(?:once\s+)?(?:every|each|a|per)\s+(?:week|month)|(?:every|each|on)\s+mondays?|weekly|monthly)"
     r"|(?:weekly|monthly)[\s-]+(?:rebalanc(?:e|ed|ing)|rotation)|(?:every|each|on)\s+mondays?\b|(?:every|each)\s+(?:week|month)\b|(?:weekly|monthly)(?=\s*(?:[,;:.]|$))", _every),
    ("accumulate", "accumulate", "定投 averag", rf"(?:定投|dollar[\s-]cost[\s-]averag(?:e|ing))[^\d,;.。\n]{{0,20}}?\$?{_MONEY}", _regular),
    ("bars", "", "分钟 小时 周 月 日内 min hour weekly monthly intraday trad", r"\d{1,9}\s*(?:分钟|小时)(?:k?线|级别|图)|(?:分钟|小时)(?:k?线|级别|图)|周k?线(?:级别|图)?|月k?线(?:级别|图)?|日内(?:交易)?|\d{1,9}[\s-]*(?:min(?:ute)?|hour)s?\s+(?:bars?|charts?|candles?)"
     r"|(?:weekly|monthly|hourly)(?:\s+(?:bars?|charts?|candles?))?(?=\s+(?:macd|rsi|kdj|boll|[se]?ma\b|close|golden|death|moving|average))|intraday|day[\s-]?trad(?:e|ing)", _NONE),
    ("size", "size", "等 equal", r"等(?:权重|权|额|资金|仓位)(?:配置|分配)?|equal(?:ly)?[\s-]*weight(?:ed|s|ing)?", _constant("equal_weight")),
    ("size", "size", "%", rf"(?:每|单)[只支](?:股票)?(?:仓位|买入?|占|投入|各)?{_IS}(?:总?资金的?)?\s*{_P}(?:的?(?:仓位?|资金|总资产))?|(?:(?:每次|每笔)(?:只|仅|都)?(?:用|买入?|投入?)?|(?:只|仅|都)?(?:用|投入?)|(?:只|仅|都)买入?)?\s*{_P}\s*的?(?:仓位?|资金|总资产)|(?:(?:use|using|with|invest(?:ing)?)\s+)?(?:only\s+)?{_P}\s+of\s+(?:the\s+|my\s+)?(?:account|equity|capital|portfolio|money|cash){_EACH_TIME}(?!\s+(?:in|per|for|to)\b)|{_P}\s+(?:in|per|for|to|of (?:the |my )?(?:equity|capital|cash|portfolio|account|money) (?:in|per|for|to))\s+(?:each|every|stock|position)(?:\s+(?:stock|one|position|name))?"
     rf"|(?:with|using|use|invest(?:ing)?)\s+{_P}\s+of\s+(?:the\s+|my\s+)?(?:equity|capital|cash|portfolio|account|money)", _share),
    ("size", "size", "半 1/2 half", r"(?:一半|半|1/2)\s*的?(?:仓位?|资金)|half\s+(?:of\s+)?(?:the\s+|my\s+|an?\s+)?(?:position\b|(?:cash|capital|money|equity|portfolio|account)" + _EACH_TIME + r")|half[\s-]position", _constant({"percent": 0.5})),
    ("size", "size", "仓 资金 all invest", r"(?:全|满)仓(?:位)?|全部资金|all[\s-]in\b|fully[\s-]invested|all\s+(?:of\s+)?(?:the\s+|my\s+)?(?:cash|money|capital)", _constant({"percent": 1.0})),
    ("size", "size", "股 share", r"(?:每次|每笔|各)\s*(?:买入?)?\s*(\d{1,9})\s*股|(?<=买入)\s*(\d{1,9})\s*股|(?<=买)\s*(\d{1,9})\s*股|\b(\d{1,9})\s+shares\s+(?:each|per\s+trade|at\s+a\s+time)", lambda m: {"shares": float(next(g for g in m.groups() if g))}),
    ("size", "size", "元 块 人民币 万 千 亿", rf"(?:(?<=买)|(?<=买入))\s*{_MONEY_UNIT}(?!以|的|左右)", _cash),
    ("size", "size", "每 per each every", rf"每(?:[只支次笔](?:股票)?)(?:都|各|就)?(?:买入?|投入?|用)?\s*{_MONEY_UNIT}|\$?{_MONEY}\s+(?:per|(?:for|into|in)\s+(?:each|every))\s+(?:stock|position|trade|entry|one)", _cash),
    ("positions", "max_positions", "持 只 支 position holding stock name", r"(?:最多|至多|不超过)(?:同时)?(?:买入?)?\s*(\d{1,9})\s*[只支](?:股票)?|(?:hold\s+|own\s+)?(?:at\s+most|no\s+more\s+than|max(?:imum)?(?:\s+of)?|up\s+to)\s+(\d{1,9})\s+(?:stocks|names)|(?:最多|至多)?同时(?:最多|至多)?持(?:有|仓)\s*(?:不超过)?\s*(\d{1,9})\s*[只支个](?:股票)?|(?:最多|至多)持(?:有|仓)\s*(\d{1,9})\s*[只支](?:股票)?|(?:at\s+most|no\s+more\s+than|max(?:imum)?(?:\s+of)?)\s+(\d{1,9})\s+(?:open\s+)?(?:positions|holdings)", _days),
    ("cash", "cash", "资金 本金 capital cash principal", r"(?:用|以|投入|初始|起始|拿)?\s*([\d,.]{1,18}|[一二三四五六七八九十百]{1,6})\s*(万|千|百万|亿|w|k)?\s*(?:元|块钱?|人民币|rmb)?\s*(?:的)?(?:初始|起始|启动)?(?:本金|资金)"
     r"|(?:初始|起始|启动)?(?:本金|资金)\s*(?:为|是|[:=])?\s*([\d,.]{1,18}|[一二三四五六七八九十百]{1,6})\s*(万|千|百万|亿|w|k)?\s*(?:元|块钱?|人民币|rmb)?"
     r"|(?:initial\s+|starting\s+)?(?:capital|cash|principal)\s*(?:of|is|[:=])?\s*[$¥]?\s*(\d[\d,.]{0,18})\s*(k|m|thousand|million)?(?:\s*(?:yuan|cny|rmb|usd|dollars))?"
     r"|[$¥]?\s*(\d[\d,.]{0,18})\s*(k|m|thousand|million)?\s*(?:yuan|cny|rmb|usd|dollars)?\s*(?:of\s+)?(?:initial\s+|starting\s+)?(?:capital|cash|principal)\b", money_of),
    ("commission", "commission", "费 佣金 commission", r"(万分之\s*[一二两三四五六七八九十\d.]{1,9}|万\s*[一二两三四五六七八九\d.]{1,9})\s*的?(?:交易)?(?:手续费|佣金)|commissions?\s*(?:of|is|at|[:=])?\s*(万分之\s*[一二两三四五六七八九十\d.]{1,9}|万\s*[一二两三四五六七八九\d.]{1,9})", _commission),
    ("commission", "commission", "费 佣金 commission", r"(?:(?:交易)?手续费|佣金|交易费用?|费率)率?\s*(?:为|是|按|[:=])?\s*(万分之\s*[一二两三四五六七八九十\d.]{1,9}|千分之\s*[一二两三四五六七八九十\d.]{1,9}|万\s*[一二两三四五六七八九\d.]{1,9}|\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|个?基点))"
     r"|commissions?\s*(?:of|is|at|[:=])?\s*(\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|basis points))|(\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|basis points))\s*commissions?", _commission),
    ("commission", "commission", "费 佣金 commission fee", r"(?:免|无|不计|不算|零|0)(?:手续费|佣金)|(?:no|zero|without)\s+commissions?", _constant(0.0)),
    ("commission", "commission", "费 佣金 commission fee", r"(?:交易)?手续费|佣金|commissions?|(?:no|zero|without)\s+fees", _NONE),
    ("slippage", "slippage_bps", "滑点 slippage", r"滑点\s*(?:为|是|[:=])?\s*(万分之\s*[一二两三四五六七八九十\d.]{1,9}|千分之\s*[一二两三四五六七八九十\d.]{1,9}|\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|个?基点))|slippage\s*(?:of|is|at|[:=])?\s*(\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|basis points))|(\d{1,9}(?:\.\d{1,9})?\s*(?:%|bps?|basis points))\s*(?:of\s+)?slippage",
     lambda m: None if (part := fraction_of(m)) is None else round(part * 10_000, 6)),
    ("slippage", "slippage_bps", "滑点 slippage", r"滑点|slippage", _NONE),
    ("leverage", "", "杠杆 融资 leverage", r"(?:加|带|使?用|开)?\s*杠杆\s*(?:\d{1,9}(?:\.\d{1,9})?\s*倍)?|\d{1,9}(?:\.\d{1,9})?\s*倍杠杆|融资买入(?=\s*[,;。]|$)|(?:with\s+|use\s+|using\s+)?(?:\d{1,9}(?:\.\d{1,9})?\s*x\s+|\d{1,9}(?:\.\d{1,9})?\s*times\s+)?leverage(?:\s+(?:of\s+)?\d{1,9}(?:\.\d{1,9})?\s*x?)?|\d{1,9}x\s+leveraged", _NONE),
    ("grid", "", "网格 grid", r"(?:做|用)?网格(?:交易|策略)?|grid[\s-]+trad(?:e|es|ing)|\bgrids?\b", _NONE),
    ("fill", "", "成交 撮合 下单 trade fill execute order market", r"(?:以|按|用)?(?:当[日天])?(?:收盘|均)价?(?:成交|撮合|下单)|(?:trade[sd]?|fill(?:s|ed)?|execute[sd]?|order[sd]?)\s+(?:on|at)\s+(?:the\s+)?(?:same\s+day'?s?\s+)?(?:close|closing\s+price)\b|market[\s-]on[\s-]close", _NONE),
    ("prices", "", "复权 adjusted", r"[前后不]复权(?:价格|价)?|(?:forward|backward|split|un)?-?adjusted\s+(?:prices?|closes?)|unadjusted", _NONE),
    ("settlement", "", "+", r"t\s*\+\s*0(?:交易)?", _NONE),
    ("risk", "", "risk 风险", rf"{_P}\s*risk(?:\s+per\s+trade)?|risk(?:ing)?\s+{_P}(?:\s+of\s+(?:the\s+|my\s+)?\w+)?(?:\s+per\s+trade)?|每[笔次]风险{_IS}{_P}", _NONE),
    ("short", "", "空 融券 short", r"(?:做空|卖空|融券|开空)[^,;。\n]*|\b(?:go\s+)?short(?:\s+sell(?:ing)?|ing)?\b(?!\s*-|\s+(?:term|window|period|line|(?:moving\s+)?average|[se]?ma)\b)[^,;.\n]*", _NONE),
)  # fmt: skip
_JOINTS = re.compile(  # "并且设置"
    r"(?:并且|而且|或者|同时|以及|且|或|和|并|设置|设定|设|带有?|加上?|\b(?:and|or|with|plus|using|use|set|a|an|the|at|on|after|by|its|is|hits)\s)\s*$",
    re.IGNORECASE,
)
_SELLS_BEFORE = re.compile(  # "sell it when "
    r"(?:\b(?:sell|exit|close|get\s+out|dump)(?:\s+(?:it|them))?\s+(?:(?:when|if|at|on|with)\s+)*)$",
    re.IGNORECASE,
)
_SELLS_BEHIND = re.compile(rf"\s*(?:时|就|则|后|再)*\s*{_SOLD}(?!\s*(?:\d|其|所))")  # "时卖出"
_BOUNDARY = re.compile(r"(?:^|[,;:。.、\n\x1f])\s*$")  # "MA5上穿MA20,"


def _widen(text: str, begin: int, end: int) -> tuple[int, int]:
    """The place of a clause with the words that join it to the rest, and with a *sell* of its own."""
    begin += len(text[begin:end]) - len(text[begin:end].lstrip())
    start, joined = begin, False
    while match := _JOINTS.search(text, max(0, start - 12), start):
        start, joined = match.start(), True
    ahead = _SELLS_BEFORE.search(text, max(0, start - 40), start)
    if ahead and _BOUNDARY.search(text, 0, ahead.start()):
        return ahead.start(), end
    alone = _BOUNDARY.search(text, 0, start) is not None
    behind = _SELLS_BEHIND.match(text, end) if alone else None
    return (start if joined else begin), (behind.end() if behind else end)


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled when a text first needs it: all of them together take as long as reading a request."""
    return re.compile(pattern, re.IGNORECASE)  # "止损5%"


def find_clauses(text: str) -> tuple[tuple[PlanClause, ...], str]:
    """The clauses of a normalised line in reading order, and the line with spaces in their place."""
    found: list[PlanClause] = []
    lowered = text.lower()
    for topic, key, words_of_it, pattern, value in _ROWS:
        if not any(word in lowered for word in words_of_it.split()):
            continue
        for match in _pattern(pattern).finditer(text):
            if match[0].strip():
                begin, end = _widen(text, match.start(), match.end())
                words = clean_words(text[begin:end])
                found.append(
                    PlanClause(words=words, topic=topic, key=key, value=value(match), begin=begin, end=end)
                )
        text = _blank(text, [(clause.begin, clause.end) for clause in found])
    return tuple(sorted(found, key=lambda clause: clause.begin)), text


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    letters = list(text) if spans else []
    for begin, end in spans:
        letters[begin:end] = " " * (end - begin)
    return "".join(letters) or text


_GIVES_UP = (
    r"(?:(?:那就|那|先|就)?(?:不要|不用|不需要|不设|不带|不加|去掉|去除|忽略|取消|删掉|删除|跳过|别管|不管|放弃|没有|没|无)\s*(?:任何)?"
    r"|(?:(?:go\s+on|continue|proceed|run(?:\s+it)?|do\s+it|trade(?:\s+it)?)\s+)?(?:just\s+)?(?:without|drop|remove|ignore|skip|forget(?:\s+about)?|leave\s+out|no|cancel|never\s+mind)\s+(?:(?:the|any|an?|my|that)\s+)?)"
)
_TOPIC_WORDS: tuple[tuple[Topic, str], ...] = (
    ("trailing", rf"{_TRAIL}|atr(?:\s*(?:止损|(?:trailing\s+)?stop))?"),
    ("stop", r"止损止盈|止损[和与、]?止盈|止损|stop(?:[\s-]?loss(?:es)?|s)?"),
    ("target", r"止损[和与、]?止盈|止盈|take[\s-]?profits?|profit[\s-]targets?|targets?"),
    ("holding", r"持有(?:期|时间|天数)?|holding(?:\s+(?:period|time))?"),
    ("schedule", r"调仓|换仓|再平衡|每[周月]\S?|rebalanc(?:e|ing)|schedule|weekly|monthly"),
    ("size", r"仓位|等权(?:重)?|(?:equal[\s-])?weights?|siz(?:e|ing)|position\s+siz(?:e|ing)"),
    ("positions", r"持仓(?:上限|数量)|position\s+limit"),
    ("cash", r"本金|资金|capital|cash"),
    ("commission", r"手续费|佣金|commissions?|fees?"),
    ("slippage", r"滑点|slippage"),
    ("leverage", r"杠杆|leverage"),
    ("short", r"做空|卖空|shorts?|shorting"),
    ("bars", r"分钟线|周线|月线|(?:weekly|minute|hourly)\s+bars"),
    ("grid", r"网格(?:交易)?|grids?"),
    ("fill", r"收盘价成交|成交价"),
    ("prices", r"[前后不]?复权|adjust(?:ed\s+prices|ment)"),
    ("settlement", r"t\s*\+\s*0"),
    ("risk", r"风险|risk(?:\s+per\s+trade)?"),
    ("accumulate", r"定投|加仓|补仓|adding|pyramiding|regular\s+buying"),
)  # fmt: skip
_AFTERWARDS = r"(?:\s*\d+(?:\.\d+)?\s*%)?\s*(?:了|吧|也行|也可以|都行|就行|即可|也没关系)*(?:\s*,?\s*(?:继续|就这样|go\s+on|continue))?"
_WAIVERS = tuple(
    (
        topic,
        rf"(?:{_GIVES_UP}(?:{words}){_AFTERWARDS}"
        rf"|(?<![\w一-鿿])(?:{words})\s*[就也都]*\s*(?:不要|不用|不设|去掉|取消|不管)[管它]*[了吧]*)(?![\w一-鿿])",
    )
    for topic, words in _TOPIC_WORDS
)
_ALL = re.compile(  # "不要它们了"
    r"\s*(?:好的?|行|可以|ok(?:ay)?|yes|please)?[,\s]*(?:"
    r"(?:(?:那就|那|就)?(?:不要|不用|不需要|去掉|忽略|取消|跳过|不管|没有)(?:它们?|这个|这些|这部分|那个|那些)?(?:了|吧|也行|也可以)?)(?:[,\s]*(?:继续|就这样|跑吧|接着跑))?"
    r"|继续[,\s]*(?:不要|忽略|跳过)(?:它们?|这个|这些|这部分)(?:了|吧)?"
    r"|(?:(?:go\s+on|continue|proceed|run(?:\s+it)?|do\s+it|trade(?:\s+it)?)\s+)?(?:without|drop|ignore|skip|forget|leave\s+out)\s+(?:it|them|that|this|those)(?:[,\s]*(?:and\s+)?(?:go\s+on|continue|proceed))?"
    r")[\s.!。!]*|(?:不使用|go\s+on\s+without)\s+.+",
    re.IGNORECASE,
)


_LONGEST_WAIVER = 400
"""Characters; more than in any such line."""


def is_general_waiver(text: str) -> bool:
    """Whether a whole line gives up what was asked about: *go on without it*, ``不要它，继续``.

    >>> is_general_waiver("go on without it"), is_general_waiver("不要它,继续"), is_general_waiver("buy it")
    (True, True, False)
    """
    return len(text) < _LONGEST_WAIVER and _ALL.fullmatch(text) is not None


def find_waivers(text: str) -> tuple[tuple[Waiver, ...], str]:
    """Clauses that a normalised line gives up (``不要止损了``, *without the stop loss*), and the line without them."""
    found: list[Waiver] = []
    spans: list[tuple[int, int]] = []
    if not _pattern(_GIVES_UP).search(text):
        return (), text
    for topic, pattern in _WAIVERS:
        for match in _pattern(pattern).finditer(text):
            found.append(Waiver(topic=topic, begin=match.start(), end=match.end()))
            spans.append(match.span())
    return tuple(sorted(found, key=lambda waiver: waiver.begin)), _blank(text, spans)


@dataclass(frozen=True, kw_only=True)
class ClauseNote:
    """A piece of the request, what it became, and whether it is done."""

    words: str
    became: Note
    status: Literal["done", "default", "not_done"]


@dataclass(frozen=True, kw_only=True)
class PlanLine:
    """Clauses and waivers of one line, and whether it states a rule.

    ``gives_up`` is the text of a line that gives up what was asked about, else empty; ``after_unknown`` says
    whether that may have been words which are no clause.
    """

    clauses: tuple[PlanClause, ...]
    waivers: tuple[Waiver, ...]
    gives_up: str
    after_unknown: bool
    states_rule: bool


@dataclass(frozen=True, kw_only=True)
class SentencePlan:
    """The plan without its waived parts, the clauses to ask about, and a note on every other one."""

    plan: dict[str, PlanValue]
    open: tuple[PlanClause, ...]
    notes: tuple[ClauseNote, ...]


_REASONS: dict[Topic, Note] = {
    "trailing": Note(zh="移动止损", en="trailing stop"),
    "leverage": Note(zh="账户没有杠杆", en="the account has no leverage"),
    "short": Note(zh="不能做空", en="short selling is not possible"),
    "bars": Note(zh="只有日线", en="there are daily bars only"),
    "grid": Note(zh="不做网格交易", en="grids are not traded"),
    "fill": Note(zh="信号在下一个交易日开盘成交", en="a signal is filled at the next session's open"),
    "prices": Note(zh="用数据源给出的价格", en="prices are those of the source"),
    "settlement": Note(zh="按市场的交收规则", en="the market's settlement rule holds"),
    "risk": Note(zh="不按风险定仓位", en="sizes are not set by risk"),
}
_NOT_DONE = Note(zh="不执行", en="not done")
_LEFT_OUT = Note(zh="重述规则时没有再提，不执行", en="left out of the repeated rule, not done")
_DONE = Note(zh="执行", en="done")


def reason_of(clause: PlanClause) -> Note:
    """Why a clause is not done."""
    return _NOT_DONE if clause.key else _REASONS.get(clause.topic, _NOT_DONE)


def _is_waived(clause: PlanClause, waivers: Sequence[Waiver], open_: Sequence[PlanClause]) -> bool:
    """Whether a waiver means this clause; *no stop* means a trailing stop only where there is no other."""
    topics = {waiver.topic for waiver in waivers}
    fixed = any(other.topic == "stop" for other in open_)
    return clause.topic in topics or (clause.topic == "trailing" and "stop" in topics and not fixed)


def plan_of(lines: Sequence[PlanLine], executes: frozenset[str]) -> SentencePlan:
    """The trade plan of a conversation.

    A clause stays open until a line gives it up.
    """
    open_: list[PlanClause] = []
    notes: list[ClauseNote] = []

    def drop(dropped: Sequence[PlanClause], became: Note | None = None) -> None:
        for clause in dropped:
            open_.remove(clause)
            notes.append(
                ClauseNote(words=clause.words, became=became or reason_of(clause), status="not_done")
            )

    for line in lines:
        drop(_left_out(line, open_, executes))
        named = {clause.topic for clause in line.clauses}
        if line.states_rule:
            drop([clause for clause in open_ if clause.topic not in named], _LEFT_OUT)
        open_ = [clause for clause in open_ if clause.topic not in named]
        for clause in line.clauses:
            if clause.topic == "long_only":
                notes.append(ClauseNote(words=clause.words, became=_DONE, status="done"))
            else:
                open_.append(clause)
    done = _carried_out(open_, executes)
    notes += [ClauseNote(words=clause.words, became=_DONE, status="done") for clause in done]
    asked = tuple(clause for clause in open_ if clause not in done)
    return SentencePlan(plan=_values(open_), open=asked, notes=tuple(notes))


def _left_out(line: PlanLine, open_: Sequence[PlanClause], executes: frozenset[str]) -> list[PlanClause]:
    """The clauses that a line gives up: those it names, else those that are not carried out, else all."""
    named = [
        each
        for each in open_
        if _is_waived(each, line.waivers, open_) or (line.gives_up and normalise(each.words) in line.gives_up)
    ]
    if named or not line.gives_up:
        return named
    done = _carried_out(open_, executes)
    undone = [each for each in open_ if each not in done]
    return undone if undone or line.after_unknown else list(open_)


def _values(clauses: Sequence[PlanClause]) -> dict[str, PlanValue]:
    return {clause.key: clause.value for clause in clauses if clause.key and clause.value is not None}


def _carried_out(clauses: Sequence[PlanClause], executes: frozenset[str]) -> list[PlanClause]:
    """The clauses that are carried out; of two values of one word the first is asked about."""
    plan = _values(clauses)
    return [
        each
        for each in clauses
        if each.key in executes and each.value is not None and plan[each.key] == each.value
    ]
