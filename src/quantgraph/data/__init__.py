"""Market data: the protocol of a source, and the sources that come with the package.

A *source* (:class:`MarketDataSource`) answers with panels: a dict of wide frames by field, index sessions,
columns ``ts_code``, float64, NaN where nothing traded. ``open_source`` makes one of ``sample``, ``tushare``,
a path, or frames; ``AsOfSource`` wraps any source so that it tells only what was known at a moment.

To add a vendor: a folder here with a ``_source`` module whose class has the protocol's methods, an object of
your own passed as ``source=``, or a package with an entry point of the group ``quantgraph.sources``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data._as_of import AsOfSource
    from quantgraph.data._commit_source import commit_source
    from quantgraph.data._frame_source import FrameSource
    from quantgraph.data._open_source import open_source
    from quantgraph.data._source import (
        BAR_FIELDS,
        EVENT_FIELDS,
        INDICATOR_FIELDS,
        STATUS_FIELDS,
        DatedLists,
        DatedRecords,
        DescribedSource,
        MarketDataSource,
        Members,
        Panel,
        SourceLike,
        record_kinds_of,
        records_of,
    )

__all__ = [
    "BAR_FIELDS",
    "EVENT_FIELDS",
    "INDICATOR_FIELDS",
    "STATUS_FIELDS",
    "AsOfSource",
    "DatedLists",
    "DatedRecords",
    "DescribedSource",
    "FrameSource",
    "MarketDataSource",
    "Members",
    "Panel",
    "SourceLike",
    "commit_source",
    "open_source",
    "record_kinds_of",
    "records_of",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
