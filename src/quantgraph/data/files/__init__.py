"""Market data from CSV, Parquet and JSON files, and from frames."""

from quantgraph.data.files.caller_tables import CallerTables
from quantgraph.data.files.file_source import FileSource

__all__ = ["CallerTables", "FileSource"]
