"""The gate of news: what was not surely published before the moment is not shown.

Every item of every source passes :func:`published_items`. It fails closed: an item whose time is missing,
cannot be read, or is not surely before the moment, is dropped and counted.
The news of the data are ranked by BM25 over words and pairs of Chinese characters.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Protocol

import pandas as pd

from quantgraph.errors import BadOption
from quantgraph.market import Moment, instant_of, surely_known
from quantgraph.state import Record, View

_K, _B = 1.2, 0.75
"""The usual constants of BM25 (Robertson and Zaragoza 2009, section 3.4)."""
_WORD = re.compile(r"[a-z0-9]+(?:[.\-][a-z0-9]+)*|[\u3400-\u4dbf\u4e00-\u9fff]+")  # "20-day"
# fmt: off
_NOISE = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "how", "in", "is", "it",
    "its", "latest", "news", "of", "on", "or", "recent", "stock", "stocks", "that", "the", "this", "to",
    "today", "was", "what", "which", "will", "with",
})
# fmt: on


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedText:
    """A text to rank, see :func:`ranked_text`."""

    terms: Mapping[str, int]
    length: int
    published: float


def ranked_text(title: str, content: str, published: float = 0.0) -> RankedText:
    """Make a text to rank; the words of its title count twice."""
    terms = terms_of(content)
    for term, count in terms_of(title).items():
        terms[term] += 2 * count
    return RankedText(terms=dict(terms), length=terms.total(), published=published)


def terms_of(text: str) -> Counter[str]:
    """Count the terms of a text: English words and numbers, Chinese characters in pairs.

    >>> sorted(terms_of("贵州茅台 Q3 earnings of 600519.SH"))
    ['600519', '600519.sh', 'earnings', 'q3', '州茅', '茅台', '贵州']
    """
    terms: Counter[str] = Counter()
    for word in _WORD.findall(text.lower()):
        if word[0] >= "\u3400":
            terms.update(word[place : place + 2] for place in range(max(1, len(word) - 1)))
        elif word not in _NOISE:
            terms[word] += 1
            if "." in word:  # a code with its exchange is found by the code alone
                terms[word.partition(".")[0]] += 1
    return terms


def ranked(
    query: str,
    texts: Sequence[RankedText],
    *,
    now: float = 0.0,
    boosts: Mapping[int, float] | None = None,
    half_life: float = 90.0,
) -> list[int]:
    """Return the places of the texts that have to do with a query, the best one first.

    The score is that of BM25, and what ``boosts`` has for the text's place; it halves with each
    ``half_life`` in days before ``now``.
    """
    wanted, boosts = terms_of(query).keys(), boosts or {}
    matches = [(place, wanted & text.terms.keys()) for place, text in enumerate(texts)]
    matches = [(place, terms) for place, terms in matches if terms or place in boosts]
    counts = Counter(chain.from_iterable(terms for _, terms in matches))
    weights = sorted(_weights(counts, len(texts)).items())  # in one order: a sum of floats depends on it
    average = (sum(text.length for text in texts) or 1) / max(1, len(texts))
    scores: dict[int, float] = {}
    for place, terms in matches:
        text, score = texts[place], boosts.get(place, 0.0)
        norm = _K * (1 - _B + _B * text.length / average)
        for term, weight in weights:
            if term in terms:
                count = text.terms[term]
                score += weight * count * (_K + 1) / (count + norm)
        scores[place] = score * 0.5 ** (max(0.0, now - text.published) / half_life)
    return sorted(scores, key=lambda place: (-scores[place], -place))


def _weights(counts: Mapping[str, int], number: int) -> dict[str, float]:
    """Weight of each term by the texts that have it: the rarer the higher, and never negative."""
    return {term: math.log(1 + (number - count + 0.5) / (count + 0.5)) for term, count in counts.items()}


_LOG = logging.getLogger(__name__)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ISO_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)  # "2024-01-02"
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?( ?(Z|[+-]\d\d:?\d\d))?", re.ASCII)
_NAMED_DAY = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}), (\d{4})", re.ASCII)  # "Jan 2, 2024"
_MAIL_TIME = re.compile(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d(:\d\d)? .+", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class NewsItem:
    """One item as a source gives it."""

    title: str
    content: str = ""
    url: str = ""
    published: date | str | None
    page_published: date | str | None = None


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
        Zone of its times; None where it states none, so that an item is known at the end of its day.
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
    """Return the items that were published before a moment, each with its time as shown."""
    shown: list[tuple[NewsItem, str]] = []
    for item in items:
        stated = [each for each in (item.published, item.page_published) if each not in (None, "")]
        times = [_known(each, source_zone, exchange_zone) for each in stated]
        readable = [each for each in times if each is not None]
        latest = max(readable, key=instant_of, default=None)
        if latest is not None and len(readable) == len(times) and moment.knows_published(latest):
            shown.append((item, shown_time(latest)))
            continue
        is_late = len(readable) == len(times)
        dropped.append("no_time" if not times else "not_before_the_moment" if is_late else "unreadable_time")
        _LOG.info("a news item was not shown: %s", dropped[-1])
    return shown


def shown_time(known: date) -> str:
    """When an item was published, as it is shown: a day alone where no more is proved."""
    return f"{known:%Y-%m-%d %H:%M}" if isinstance(known, datetime) else f"{known}"


def _known(value: object, source_zone: tzinfo | None, exchange_zone: tzinfo) -> date | None:
    """When an item is surely known, in the exchange's local time; None if its time cannot be read."""
    stamp = _day_of(value) or (value if isinstance(value, datetime) else _instant_of(value))
    try:
        return None if stamp is None or pd.isna(stamp) else surely_known(stamp, source_zone, exchange_zone)
    except (OverflowError, ValueError):
        return None


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


_MOST_RESULTS = 10
_SEARCHED, _SEARCHED_OF_SYMBOL = 1_000, 200
"""The newest news are searched, of all symbols and of each one that the query names."""
_NAMED = 6.0
"""What an item gains for being about a symbol that the query names: about as much as two rare words."""
_EPOCH, _DAY = datetime(1970, 1, 1), timedelta(days=1)  # noqa: DTZ001 - local, as all instants here
_CODE = re.compile(r"[A-Za-z0-9]+(?:[.\-][A-Za-z0-9]+)*")  # "BRK-B"


class CommitNews:
    """Searches the ``news`` records that a view knows."""

    name, live = "commit", False

    def __init__(self, view: View, zone: tzinfo, symbols: Sequence[str]) -> None:
        self._view, self._symbols = view, symbols
        self.zone: tzinfo | None = zone

    def search(self, query: str, moment: Moment) -> list[NewsItem]:
        """Return at most ten items; the newer one of two equals is first.

        An article about several symbols is one item.
        """
        named = self._named(query)
        records = self._records(named)
        texts = [_ranked_text(each) for each in records]
        boosts = {place: _NAMED for place, each in enumerate(records) if each.symbol in named}
        best = ranked(query, texts, now=_days(moment.timestamp.to_pydatetime()), boosts=boosts)
        items = {
            (each.title, each.url, each.published): each for each in (_item(records[place]) for place in best)
        }
        return list(items.values())[:_MOST_RESULTS]

    def _records(self, named: set[str]) -> Sequence[Record]:
        """What is searched, in order of becoming known."""
        newest = self._view.records("news")
        if len(newest) <= _SEARCHED:
            return newest
        newest = newest[-_SEARCHED:]
        more = {
            record: None
            for symbol in sorted(named)
            for record in self._view.records("news", symbol)[-_SEARCHED_OF_SYMBOL:]
        }
        for record in newest:
            more.pop(record, None)
        older = sorted(more, key=lambda record: _ranked_text(record).published)
        return (*older, *newest)

    @cached_property
    def _names(self) -> dict[str, str]:
        return self._view.names()

    @cached_property
    def _codes(self) -> dict[str, set[str]]:
        """Symbols by code: with the exchange, and the six digits of a mainland code alone."""
        codes: dict[str, set[str]] = {}
        for symbol in self._symbols:
            codes.setdefault(symbol, set()).add(symbol)
            digits = symbol.partition(".")[0]
            if digits.isdecimal():
                codes.setdefault(digits, set()).add(symbol)
                codes.setdefault(symbol.lower(), set()).add(symbol)
        return codes

    def _named(self, query: str) -> set[str]:
        """The symbols that a query names: by code as it is written, or by name."""
        found = {symbol for word in _CODE.findall(query) for symbol in self._codes.get(word, ())}
        return found | {symbol for symbol, name in self._names.items() if name in query}


@lru_cache(maxsize=8_192)
def _ranked_text(record: Record) -> RankedText:
    title, content, _ = _texts(record)
    instant = record.instant
    return ranked_text(f"{title} {record.symbol}", content, _days(instant) if instant else 0.0)


def _days(local: datetime) -> float:
    return (local - _EPOCH) / _DAY


def _item(record: Record) -> NewsItem:
    title, content, url = _texts(record)
    return NewsItem(title=title, content=content, url=url, published=record.known)


def _texts(record: Record) -> tuple[str, str, str]:
    body = record.body if isinstance(record.body, Mapping) else {"title": str(record.body or "")}
    title, content = first_text(body, "title"), first_text(body, "description", "content", "text")
    address = first_text(body, "url", "id")
    return title, content, address if address.startswith(("http://", "https://")) else ""


def first_text(body: Mapping[str, Any], *names: str) -> str:
    """The first of these values that is a text and not blank, else an empty one."""
    found = (body.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value.strip()), "")


def check_news(source: NewsSource, *, allow_leaky_search: bool) -> None:
    """Check that a source of news may serve a simulation.

    Raises
    ------
    BadOption
        If it is not a source, or is live and was not allowed: what a server of today returns knows what came
        later.
    """
    if not isinstance(getattr(source, "live", None), bool):
        raise BadOption(
            f"news={source!r:.60}; must be a source of news, a name, True or False", parameter="news"
        )
    if source.live and not allow_leaky_search:
        raise BadOption(
            f"news={source.name!r} asks a live server, whose answers may know what came after the simulated "
            "day; pass allow_leaky_search=True to take that, or use the news of the data",
            parameter="allow_leaky_search",
        )
