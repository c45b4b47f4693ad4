"""Short news of tushare, its endpoint ``news``: written to its documentation, not tried on its server."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from zoneinfo import ZoneInfo

from quantgraph.data.tushare import Endpoint, TushareClient
from quantgraph.errors import BadOption
from quantgraph.market import Moment
from quantgraph.tools.news._gate import NewsItem
from quantgraph.tools.news._ranking import ranked, ranked_text

NEWS_ENDPOINT = Endpoint(
    name="news",
    text=("datetime", "title", "content"),
    dates=(),
    row_limit=1_500,
    order=("datetime",),
    access="list",
    may_be_empty=True,
)
_PUBLISHERS = (
    "sina",
    "wallstreetcn",
    "10jqka",
    "eastmoney",
    "yuncaijing",
    "fenghuang",
    "jinrongjie",
    "cls",
    "yicai",
)
_MOST_RESULTS = 10
_MISSING = {"None", "nan", "<NA>"}


class TushareNews:
    """Ranks the news of the last days before the moment."""

    name, live = "tushare", True

    def __init__(self, client: TushareClient, *, publisher: str = "sina", days: int = 3) -> None:
        if publisher not in _PUBLISHERS:
            raise BadOption(
                f"publisher={publisher!r:.60}; valid are {', '.join(_PUBLISHERS)}", parameter="publisher"
            )
        self._client, self._publisher, self._days = client, publisher, days
        self.zone: tzinfo | None = ZoneInfo("Asia/Shanghai")

    def search(self, query: str, moment: Moment) -> list[NewsItem]:
        """Return at most ten items for a query; errors are those of :meth:`.TushareClient.fetch`."""
        end = moment.timestamp
        window = {
            "src": self._publisher,
            "start_date": f"{end - timedelta(days=self._days):%Y-%m-%d %H:%M:%S}",
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
