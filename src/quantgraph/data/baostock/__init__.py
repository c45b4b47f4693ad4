"""A-share data from baostock, which needs no account, cached in Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data.baostock._client import BaostockClient
    from quantgraph.data.baostock._source import BaostockSource, open_baostock

__all__ = ["BaostockClient", "BaostockSource", "open_baostock"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
