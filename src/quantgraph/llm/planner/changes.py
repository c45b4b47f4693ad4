"""A message that changes one thing of the request before it: a period, a security, a span, a clause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from quantgraph.errors import BadWindow
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.llm.planner.request import RequestContext, read_request

_LEAD = re.compile(
    r"^(?:\s|[,.:]|(?:那么?|然后|再|请|帮我|把它|把|现在|如果|试试|看看|只|就)|(?:换成?|改成?|改为|用|选)"
    r"|(?:and|now|then|please|ok|what|how|about|if|let's|try|use|make|it|change|switch|to|with|only|instead|run|the|same|for|on)\b)*",
    re.IGNORECASE,
)
_TRAIL = re.compile(
    r"(?:\s|[?.!,]|呢|吧|试试|看看|怎么样|如何|呀|啊|\b(?:instead|please|now|then)\b)*$", re.IGNORECASE
)
_PERIOD = re.compile(
    r"(\d{1,4})\s*-?(?:日|天|days?|sessions?)?(?:均线|涨幅|周期|线|average|sma|ema)?", re.IGNORECASE
)
_SAID_PERIOD = re.compile(r"(\d{1,4})(?=\s*-?\s*(?:日|天|days?\b|sessions?\b))", re.IGNORECASE)
_AMOUNT = re.compile(r"\d+(?:\.\d+)?\s*(?:万|亿|k|m)(?:元|块)?", re.IGNORECASE)
_DROP = re.compile(
    r"(?:去掉|不要|不用|取消|删掉|remove|drop|without|no)\s*(?:the\s+)?(?P<what>止损|止盈|移动止损|手续费|本金|仓位|stop[- ]?loss|take[- ]?profit"
    r"|trailing stop|stop|target|commission|fees?)(?:了|吧)?",
    re.IGNORECASE,
)


def changed_request(last: Mapping[str, Any], message: str, context: RequestContext) -> str:
    """The text of the whole request after a message; the message itself if it is a whole request.

    Parameters
    ----------
    last
        Parameters of the request before: ``strategy_desc``, ``ts_code``, ``start_date``, ``end_date``.

    Examples
    --------
    >>> last = {"strategy_desc": "600519.SH 收盘价上穿20日均线买入，下穿卖出，止损5%，2025年"}
    >>> changed_request(last, "改成30天", RequestContext())
    '600519.SH 收盘价上穿30日均线买入，下穿卖出，止损5%，2025年'
    >>> changed_request(last, "去掉止损", RequestContext())
    '600519.SH 收盘价上穿20日均线买入，下穿卖出，2025年'
    >>> changed_request(last, "2024年呢？", RequestContext()).splitlines()[1]
    '2024年'
    """
    if not last.get("strategy_desc") or _is_whole(message, context):
        return message
    before = _text_of(last, context)
    change = _TRAIL.sub("", _LEAD.sub("", normalise(message)))
    if dropped := _DROP.fullmatch(_TRAIL.sub("", normalise(message).strip())):
        shorter = _without_clause(before, dropped["what"])
        return shorter if shorter != before else f"{before}\n{message}"
    if (period := _PERIOD.fullmatch(change)) and (replaced := _with_period(before, period[1])):
        return replaced
    if _AMOUNT.fullmatch(change):
        change += "本金"
    return f"{before}\n{change or message}"


def _is_whole(message: str, context: RequestContext) -> bool:
    try:
        read = read_request(message, context)
    except BadWindow:
        return False
    return read.strategy is not None and bool(read.symbols or read.start)


def _text_of(last: Mapping[str, Any], context: RequestContext) -> str:
    """The text of a request, with its symbols and its span if the rule's words do not name them."""
    text = str(last["strategy_desc"])
    try:
        read = read_request(text, context)
    except BadWindow:
        return text
    lines = [text]
    if not read.symbols and last.get("ts_code"):
        lines.append(str(last["ts_code"]))
    if read.start is None and last.get("start_date"):
        lines.append(f"{last['start_date']}到{last['end_date']}")
    return "\n".join(lines)


def _with_period(text: str, period: str) -> str | None:
    """The text with another number of days, if it has only one."""
    found = set(_SAID_PERIOD.findall(text))
    return _SAID_PERIOD.sub(period, text) if len(found) == 1 else None


def _without_clause(text: str, word: str) -> str:
    """The text without the pieces between commas in which a word stands."""
    pieces = re.split(r"([,，;；。\n]\s*)", text)
    kept = [pieces[0]] if word.lower() not in pieces[0].lower() else []
    for mark, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if word.lower() not in piece.lower():
            kept += [mark, piece]
    return "".join(kept).lstrip(",，;；。\n ")
