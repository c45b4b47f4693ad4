"""News as known at a moment: of the run's data, tushare, or a web search that must be allowed by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.tools.news._gate import NewsSource, check_news
    from quantgraph.tools.news._sources import NEWS_NAMES, RecordedNews, named_news

__all__ = ["NEWS_NAMES", "NewsSource", "RecordedNews", "check_news", "named_news"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
