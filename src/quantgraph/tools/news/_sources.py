"""Sources of news by name: the data's own, and those that ask a live server.

Jina searches the web and reads pages (https://jina.ai/reader); what it finds is what the web has today, see
:func:`~quantgraph.tools.news.check_news`. The news of tushare, its endpoint ``news``, are written to its
documentation and not tried on its server.
"""

from __future__ import annotations

import json
from datetime import timedelta, tzinfo
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import requests
from pydantic import SecretStr

from quantgraph._util.packages import call_entry, entries, find_entry
from quantgraph.data.tushare import Endpoint, TushareClient
from quantgraph.errors import (
    BadOption,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    RunDiverged,
    SourceUnavailable,
)
from quantgraph.market import Moment
from quantgraph.settings import Settings, load_settings
from quantgraph.tools.news._gate import NewsItem, NewsSource, first_text, ranked, ranked_text

_MOST_BYTES = 4_000_000
_REFUSED = {401: "the key is refused", 402: "the key's balance is used up", 403: "the key may not do this"}
_NOTHING_FOUND = 422
_TIMES = ("publishedTime", "date")
"""Fields that tell a time: the search engine's of a hit, the page's own of a page."""


class JinaNews:
    """Searches the web, and reads the first pages that it finds.

    Parameters
    ----------
    timeout
        Seconds to wait for one reply.
    """

    name, live = "jina", True

    def __init__(
        self,
        key: SecretStr | str | None,
        *,
        search_url: str = "https://s.jina.ai/",
        reader_url: str = "https://r.jina.ai/",
        pages: int = 3,
        timeout: float = 30.0,
    ) -> None:
        self._key = SecretStr(key) if isinstance(key, str) else key
        self._search_url, self._reader_url = search_url, reader_url
        self._pages, self._timeout = pages, timeout
        self.zone: tzinfo | None = None
        """None: pages of the whole world."""

    def search(self, query: str, moment: Moment) -> list[NewsItem]:  # noqa: ARG002 - the web knows no moment
        """Return what the search finds; of a page that was read, the times of both must pass the gate."""
        hits = self._ask(self._search_url, {"q": query}, {"X-Respond-With": "no-content"})
        found = [each for each in hits if isinstance(each, dict)] if isinstance(hits, list) else []
        return [self._item(hit, read=place < self._pages) for place, hit in enumerate(found)]

    def _item(self, hit: dict[str, Any], *, read: bool) -> NewsItem:
        url, content, of_page = first_text(hit, "url"), first_text(hit, "content", "description"), None
        if read and urlsplit(url).scheme in ("http", "https"):
            page = self._ask(self._reader_url, {"url": url}, {"X-Retain-Images": "none"})
            if isinstance(page, dict):
                content, of_page = first_text(page, "content") or content, _time(page)
        title = first_text(hit, "title")
        return NewsItem(title=title, content=content, url=url, published=_time(hit), page_published=of_page)

    def _ask(self, url: str, body: dict[str, str], headers: dict[str, str]) -> Any:
        """The ``data`` of a reply; an empty list where there is nothing."""
        key = self._key.get_secret_value().strip() if self._key else ""
        if not key:
            raise NotConfigured(
                "jina needs a key and has none; set JINA_API_KEY to your key from https://jina.ai"
            )
        headers = {"Authorization": f"Bearer {key}", "Accept": "application/json", **headers}
        failure = "no answer"
        try:
            with requests.post(
                url, json=body, headers=headers, timeout=self._timeout, stream=True, allow_redirects=False
            ) as reply:
                status, text = reply.status_code, _body(reply)
        except requests.RequestException as error:
            failure = f"no connection ({type(error).__name__})"
        else:
            return _data(status, text, urlsplit(url).netloc)
        # Raised outside of ``except``: the error of requests holds the request, and that the key.
        raise SourceUnavailable(f"jina at {urlsplit(url).netloc}: {failure}")


def _body(reply: requests.Response) -> bytes:
    text = b""
    for part in reply.iter_content(65_536):
        text += part
        if len(text) > _MOST_BYTES:
            raise requests.exceptions.ContentDecodingError("too long")
    return text


def _data(status: int, text: bytes, host: str) -> Any:
    if status in _REFUSED:
        raise PermissionDenied(f"jina at {host}: {_REFUSED[status]} ({status})")
    if status == requests.codes.too_many_requests:
        raise RateLimited(f"jina at {host}: too many requests ({status})")
    if status == _NOTHING_FOUND:
        return []
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if status != requests.codes.ok or not isinstance(document, dict) or "data" not in document:
        raise SourceUnavailable(f"jina at {host}: the answer is not its protocol ({status})")
    return document["data"]


def _time(fields: dict[str, Any]) -> str | None:
    found = (fields.get(name) for name in _TIMES)
    return next((f"{value}" for value in found if value not in (None, "")), None)


NEWS_ENDPOINT = Endpoint(
    name="news",
    text=("datetime", "title", "content"),
    dates=(),
    row_limit=1_500,
    order=("datetime",),
    access="list",
    may_be_empty=True,
)
_GROUP = "quantgraph.news"
_PUBLISHER, _DAYS = "sina", timedelta(days=3)
_MOST_RESULTS = 10
_MISSING = {"None", "nan", "<NA>"}


class TushareNews:
    """Ranks the news of the last days before the moment."""

    name, live = "tushare", True

    def __init__(self, client: TushareClient) -> None:
        self._client = client
        self.zone: tzinfo | None = ZoneInfo("Asia/Shanghai")

    def search(self, query: str, moment: Moment) -> list[NewsItem]:
        """Return at most ten items for a query; errors are those of :meth:`.TushareClient.fetch`."""
        end = moment.timestamp
        window = {
            "src": _PUBLISHER,
            "start_date": f"{end - _DAYS:%Y-%m-%d %H:%M:%S}",
            "end_date": f"{end:%Y-%m-%d %H:%M:%S}",
        }
        rows = self._client.fetch(NEWS_ENDPOINT, window).sort_values("datetime", kind="stable")
        items = [
            NewsItem(title=_text(title), content=_text(content), published=_text(when))
            for when, title, content in zip(rows["datetime"], rows["title"], rows["content"], strict=True)
        ]
        texts = [ranked_text(each.title, each.content) for each in items]
        return [items[place] for place in ranked(query, texts)[:_MOST_RESULTS]]


def _text(value: object) -> str:
    return "" if f"{value}" in _MISSING else f"{value}".strip()


NEWS_NAMES = ("commit", "jina", "tushare")
"""``commit``: the news of the data. The others ask a live server."""


def named_news(name: str, settings: Settings | None = None) -> NewsSource | None:
    """Return a source of news; None for ``commit``, the news that a view has.

    Another package brings one by an entry point of the group ``quantgraph.news``: a class that is called
    without arguments, whose ``name`` is that of the entry point.

    Raises
    ------
    BadOption
        If there is none of that name.
    """
    if name == "commit":
        return None
    settings = settings or load_settings()
    if name == "jina":
        return JinaNews(settings.jina_api_key)
    if name == "tushare":
        token = settings.tushare_token
        return TushareNews(TushareClient(token=token.get_secret_value() if token else None))
    entry = find_entry(_GROUP, name)
    found = call_entry(entry) if entry else None
    if found is not None and found.name == name:
        return found  # type: ignore[no-any-return]
    known = ", ".join([*NEWS_NAMES, *(each.name for each in entries(_GROUP))])
    raise BadOption(f"news={name!r:.60}; valid are {known}, or a NewsSource", parameter="news")


class RecordedNews:
    """Stands for a source that a run was given as an object, where its recorded answers alone are needed.

    Parameters
    ----------
    name, live
        Those of the source.
    """

    zone: tzinfo | None = None

    def __init__(self, name: str, *, live: bool) -> None:
        self.name, self.live = name, live

    def search(self, query: str, moment: Moment) -> list[NewsItem]:
        """Raise ``RunDiverged``: what is asked now was not asked then."""
        del query, moment
        raise RunDiverged(
            f"the news of {self.name!r:.60} came from an object of the caller's, and are asked for again; "
            "pass the decider with it"
        )
