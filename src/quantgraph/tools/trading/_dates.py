"""Dates as models write them, read in one way or refused."""

from __future__ import annotations

import datetime as dt
import re

from quantgraph.errors import BadWindow
from quantgraph.market import Moment

_DATE = re.compile(  # "2024年1月2日"
    r"(\d{4})(?:(\d\d)(\d\d)|([-/])(\d{1,2})\4(\d{1,2})|年(\d{1,2})月(\d{1,2})日)(?:[ T]00:00(?::00)?)?",
    re.ASCII,
)
_TODAY = {"today", "今天", "今日"}


def parse_date(text: str, moment: Moment, *, name: str = "date") -> dt.date:
    """Read a date that can be read in one way only; ``today`` is the session of the moment.

    >>> now = Moment.at("2025-10-15", "open")
    >>> texts = "2025-10-15", "20251015", "2025/10/15", "2025年10月15日", "2025-10-15T00:00", "today"
    >>> {str(parse_date(each, now)) for each in texts}
    {'2025-10-15'}
    """
    wanted = text.strip()
    if wanted.casefold() in _TODAY:
        return moment.session.date()
    if found := _DATE.fullmatch(wanted):
        try:
            return dt.date(*(int(part) for part in found.groups() if part and part not in "-/"))
        except ValueError:
            pass
    raise BadWindow(f"{name}={text[:40]!r} is not a date; write YYYY-MM-DD", parameter=name)
