"""The gate of news: what was not surely published before the moment is not shown.

Every item of every source passes :func:`published_items`. It fails closed: an item whose time is missing,
cannot be read, has no zone in a source that states none, or is not before the moment, is dropped and counted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, MutableSequence, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Literal, Protocol

from quantgraph.market.moment import Moment

__all__ = ["DropReason", "NewsItem", "NewsSource", "published_items"]

DropReason = Literal["no_time", "unreadable_time", "no_zone", "not_before_the_moment"]

_LOG = logging.getLogger(__name__)

_LAST_ZONE = timezone(timedelta(hours=-12))
"""Where a day ends last: a date without a zone is over when it is over there."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?(Z|[+-]\d\d:?\d\d))?", re.ASCII)
_NAMED_DAY = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}), (\d{4})", re.ASCII)
_MAIL_TIME = re.compile(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(:\d\d)? .+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class NewsItem:
    """One item as a source gives it.

    Attributes
    ----------
    published
        When: an instant, a day, or the source's own text for one; None where it tells none.
    """

    title: str
    content: str = ""
    url: str = ""
    published: date | str | None


class NewsSource(Protocol):
    """Where a trader's news come from.

    Attributes
    ----------
    name
        Name of the source.
    live
        Whether it asks a server of today, so that even with dates before the moment what it returns, and in
        which order, may know what came later.
    zone
        Zone of its times that have none; None where it states none.
    """

    @property
    def name(self) -> str:
        """See above, as the next two."""
        ...

    @property
    def live(self) -> bool:
        """See above."""
        ...

    @property
    def zone(self) -> tzinfo | None:
        """See above."""
        ...

    def search(self, query: str, moment: Moment) -> Sequence[NewsItem]:
        """Return items for a query, the best ones first; the gate drops those that are not known yet."""
        ...


def published_items(
    items: Iterable[NewsItem],
    moment: Moment,
    *,
    source_zone: tzinfo | None,
    exchange_zone: tzinfo,
    dropped: MutableSequence[str],
) -> list[tuple[NewsItem, str]]:
    """Return the items that were published before a moment, each with its time as shown.

    Parameters
    ----------
    source_zone
        Zone of times without one; None drops them. A date without one counts until it is over everywhere.
    exchange_zone
        Zone of the moment.
    dropped
        A reason is added for each item that is not returned. It does not tell of the item.
    """
    shown: list[tuple[NewsItem, str]] = []
    for item in items:
        read = _read_time(item.published, source_zone, exchange_zone)
        if isinstance(read, str):
            dropped.append(read)
        elif not moment.knows_published(read):
            dropped.append("not_before_the_moment")
        else:
            is_day = not isinstance(item.published, datetime) and _day_of(item.published) is not None
            shown.append((item, f"{_day_of(item.published)}" if is_day else f"{read:%Y-%m-%d %H:%M}"))
            continue
        _LOG.info("a news item was not shown: %s", dropped[-1])
    return shown


def _read_time(value: object, source_zone: tzinfo | None, exchange_zone: tzinfo) -> datetime | DropReason:
    """The instant from which an item is known, in the exchange's local time, or why there is none."""
    if value is None or value == "":
        return "no_time"
    if (day := _day_of(value)) is not None:
        end = datetime.combine(day, time.max, source_zone or _LAST_ZONE)
        return _local(end, exchange_zone)
    instant = value if isinstance(value, datetime) else _instant_of(value)
    if instant is None:
        return "unreadable_time"
    if instant.tzinfo is None:
        if source_zone is None:
            return "no_zone"
        # Where the clock is set back, the later one of the two instants of that name.
        return max(
            _local_or_late(instant.replace(tzinfo=source_zone, fold=fold), exchange_zone) for fold in (0, 1)
        )
    return _local(instant, exchange_zone)


def _local_or_late(instant: datetime, zone: tzinfo) -> datetime:
    return datetime.max if isinstance(found := _local(instant, zone), str) else found  # noqa: DTZ901 - local


def _local(instant: datetime, zone: tzinfo) -> datetime | DropReason:
    try:
        return instant.astimezone(zone).replace(tzinfo=None, fold=0)
    except (OverflowError, ValueError):
        return "unreadable_time"


def _day_of(value: object) -> date | None:
    """A day without a time; None for everything else."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    text = value.strip() if isinstance(value, str) else ""
    try:
        if found := _ISO_DAY.fullmatch(text):
            return date(*map(int, found.groups()))
        if (found := _NAMED_DAY.fullmatch(text)) and found[1][:3].lower() in _MONTHS:
            return date(int(found[3]), _MONTHS.index(found[1][:3].lower()) + 1, int(found[2]))
    except ValueError:
        pass
    return None


def _instant_of(value: object) -> datetime | None:
    text = value.strip() if isinstance(value, str) else ""
    try:
        if _ISO_TIME.fullmatch(text):
            return datetime.fromisoformat(text.replace(" Z", "Z").replace(" +", "+").replace(" -", "-"))
        if _MAIL_TIME.fullmatch(text):
            return parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        pass
    return None
