"""A source of news by name."""

from __future__ import annotations

from datetime import tzinfo

from quantgraph.errors import BadOption, RunDiverged
from quantgraph.market import Moment
from quantgraph.settings import Settings, load_settings
from quantgraph.tools.news._gate import NewsItem, NewsSource

NEWS_NAMES = ("commit", "jina", "tushare")
"""``commit``: the news of the data. The others ask a live server."""


def named_news(name: str, settings: Settings | None = None) -> NewsSource | None:
    """Return a source of news; None for ``commit``, the news that a view has.

    Raises
    ------
    BadOption
        If there is none of that name.
    """
    if name == "commit":
        return None
    settings = settings or load_settings()
    if name == "jina":
        from quantgraph.tools.news._jina import JinaNews

        return JinaNews(settings.jina_api_key)
    if name == "tushare":
        from quantgraph.data.tushare import TushareClient
        from quantgraph.tools.news._tushare import TushareNews

        token = settings.tushare_token
        return TushareNews(TushareClient(token=token.get_secret_value() if token else None))
    raise BadOption(
        f"news={name!r:.60}; valid are {', '.join(NEWS_NAMES)}, or a NewsSource", parameter="news"
    )


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
