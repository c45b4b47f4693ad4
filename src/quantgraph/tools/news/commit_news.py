"""The news of the run's own data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from functools import cached_property, lru_cache
from typing import Any

from quantgraph.market.moment import Moment
from quantgraph.state import Record, View
from quantgraph.tools.news.gate import NewsItem
from quantgraph.tools.news.ranking import RankedText, ranked, terms_of

__all__ = ["CommitNews"]

_MOST_RESULTS = 10
_SEARCHED, _SEARCHED_OF_SYMBOL = 2_000, 200
"""The newest news are searched, of all symbols and of each one that the query names."""
_NAMED = 6.0
"""What an item gains for being about a symbol that the query names: about as much as two rare words."""
_SECONDS_A_DAY = 86_400
_CODE = re.compile(r"[A-Za-z0-9]+(?:[.\-][A-Za-z0-9]+)*")
_TITLE_WEIGHT = 2


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
        records = list(self._view.records("news")[-_SEARCHED:])
        if named:
            known = set(records)
            for symbol in sorted(named):
                more = self._view.records("news", symbol)[-_SEARCHED_OF_SYMBOL:]
                records += [each for each in more if each not in known]
            records.sort(key=lambda each: each.instant)  # type: ignore[arg-type,return-value]  # all are known
        now = moment.timestamp.to_pydatetime()
        texts = [
            RankedText(
                terms=_terms(each),
                age=(now - each.instant).total_seconds() / _SECONDS_A_DAY if each.instant else 0.0,
                boost=_NAMED if each.symbol in named else 0.0,
            )
            for each in records
        ]
        return [_item(records[place]) for place in ranked(query, texts)[:_MOST_RESULTS]]

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
def _terms(record: Record) -> Mapping[str, int]:
    title, content, _ = _texts(record)
    terms = terms_of(content)
    for term, count in terms_of(f"{title} {record.symbol}").items():
        terms[term] += _TITLE_WEIGHT * count
    return terms


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
