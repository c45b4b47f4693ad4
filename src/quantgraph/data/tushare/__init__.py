"""A-share data from tushare, cached in Parquet files, each row with the moment it became known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data._vendor_tables import Endpoint
    from quantgraph.data.tushare._client import ENDPOINTS, TushareClient
    from quantgraph.data.tushare._source import TushareSource

__all__ = ["ENDPOINTS", "Endpoint", "TushareClient", "TushareSource"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
