"""The news of the run's own data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import Any

from quantgraph.market.moment import Moment
from quantgraph.state import Record, View
from quantgraph.tools.news.gate import NewsItem
from quantgraph.tools.news.ranking import RankedText, ranked, ranked_text

_MOST_RESULTS = 10
_SEARCHED, _SEARCHED_OF_SYMBOL = 1_000, 200
"""The newest news are searched, of all symbols and of each one that the query names."""
_NAMED = 6.0
"""What an item gains for being about a symbol that the query names: about as much as two rare words."""
_EPOCH, _DAY = datetime(1970, 1, 1), timedelta(days=1)  # noqa: DTZ001 - local, as all instants here
_CODE = re.compile(r"[A-Za-z0-9]+(?:[.\-][A-Za-z0-9]+)*")


class CommitNews:
    """Searches the ``news`` records that a view knows.

    Parameters
    ----------
    view
        The view; its records are cut at its moment.
    zone
        Zone of the exchange, in which the records' times are.
    symbols
        The universe.
    """

    name, live = "commit", False

    def __init__(self, view: View, zone: tzinfo, symbols: Sequence[str]) -> None:
        self._view, self._symbols = view, symbols
        self.zone: tzinfo | None = zone

    def search(self, query: str, moment: Moment) -> list[NewsItem]:
        """Return at most ten items; the newer one of two equals is first."""
        named = self._named(query)
        records = self._records(named)
        texts = [_ranked_text(each) for each in records]
        boosts = {place: _NAMED for place, each in enumerate(records) if each.symbol in named}
        best = ranked(query, texts, now=_days(moment.timestamp.to_pydatetime()), boosts=boosts)
        return [_item(records[place]) for place in best[:_MOST_RESULTS]]

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
    title, content = _text(body, "title"), _text(body, "description", "content", "text")
    address = _text(body, "url", "id")
    return title, content, address if address.startswith(("http://", "https://")) else ""


def _text(body: Mapping[str, Any], *names: str) -> str:
    found = (body.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")
