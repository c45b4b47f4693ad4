"""Daily bars, indicators and records from CSV, JSON and Parquet files, or from frames of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data.files._source import CallerTables, FileSource

__all__ = ["CallerTables", "FileSource"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
