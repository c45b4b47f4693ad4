"""US market data of Yahoo through the package ``yfinance``, cached in Parquet files; for personal use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data.yfinance._client import YfinanceClient
    from quantgraph.data.yfinance._source import YfinanceSource, open_yfinance

__all__ = ["YfinanceClient", "YfinanceSource", "open_yfinance"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
