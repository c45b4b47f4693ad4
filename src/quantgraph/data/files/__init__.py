"""Market data from CSV, Parquet and JSON files."""

from quantgraph.data.files.file_source import FileSource

__all__ = ["FileSource"]
