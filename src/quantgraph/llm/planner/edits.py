"""A message that changes one thing of the last request: *now use 30 days*, ``换成招商银行``, ``2024年呢``, ``去掉止损``, ``改成50万``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from quantgraph.errors import BadWindow
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.llm.planner.request import RequestContext, read_request

__all__ = ["with_last_request"]

_TO = r"(?:(?:now|please|then|请|那|现在)\s*)*(?:use|try|make\s+it|with|change\s+(?:it\s+)?to|改成|改为|换成|换为|变成|用|试试)\s*"
_DAYS = r"(?:个?(?:交易)?[日天]|[\s-]*(?:days?|sessions?))"
_AFTER = r"\s*(?:的?(?:均线|周期|average|window|period))?\s*(?:呢|吧|了|instead|试试)?\s*[.。?!]*"
_PERIOD = re.compile(rf"{_TO}(\d{{1,4}})\s*{_DAYS}{_AFTER}", re.IGNORECASE)
_FROM_TO = re.compile(
    rf"(?:把|将|change\s+)?\s*(\d{{1,4}})\s*{_DAYS}?\s*(?:均线)?\s*(?:改成|改为|换成|换为|变成|to)\s*(\d{{1,4}})\s*{_DAYS}?{_AFTER}",
    re.IGNORECASE,
)
_MONEY = re.compile(rf"(?:{_TO})?(\d{{1,9}}(?:\.\d{{1,4}})?\s*万)\s*元?{_AFTER}", re.IGNORECASE)
_SAID_PERIOD = re.compile(
    rf"(?<![\d.])(\d{{1,4}})(?=\s*{_DAYS})|(?<=RSI\()(\d{{1,4}})(?=\))|(?<=MA\()(\d{{1,4}})(?=\))",
    re.IGNORECASE,
)


def _periods(text: str) -> list[str]:
    return list(dict.fromkeys(next(filter(None, match.groups())) for match in _SAID_PERIOD.finditer(text)))


def _edited(rule: str, message: str) -> tuple[str, str] | None:
    """The rule with a period in place of its only one, or of the one named; None for any other message."""
    if match := _PERIOD.fullmatch(message):
        old = _periods(rule)
        return (_replaced(rule, old[0], match[1]), "") if len(old) == 1 else None
    if (match := _FROM_TO.fullmatch(message)) and match[1] in _periods(rule):
        return _replaced(rule, match[1], match[2]), ""
    if match := _MONEY.fullmatch(message):
        return rule, f"本金{match[1]}元"
    return None


def _replaced(rule: str, old: str, new: str) -> str:
    return _SAID_PERIOD.sub(lambda match: new if match[0] == old else match[0], rule)


def with_last_request(text: str, last: Mapping[str, Any], context: RequestContext) -> str:
    """The request of a message that follows another: the last one, and the message as its newest line.

    A message that is a whole request stands alone. A period that could replace several is left as it is said, so that
    the planner asks.
    """
    rule = str(last.get("strategy_desc") or "")
    try:
        alone = not rule or not read_request(text, context).missing
    except BadWindow:
        alone = False
    if alone:
        return text
    codes, start, end = (str(last.get(name) or "") for name in ("ts_code", "start_date", "end_date"))
    before = read_request(rule, context)
    lines = [] if before.trade else [codes]
    lines += [] if before.start else [f"{start} - {end}"]
    said: list[str] = []
    for line in text.splitlines():
        edit = _edited(normalise(rule), normalise(line).strip())
        if edit is not None:  # it answers which period an earlier line means
            said = [each for each in said if not _PERIOD.fullmatch(normalise(each).strip())]
        rule, message = edit or (rule, line)
        said.append(message)
    return "\n".join(line for line in (*lines, rule, *said) if line)
