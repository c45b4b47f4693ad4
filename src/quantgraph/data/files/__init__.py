"""Market data from CSV, Parquet and JSON files."""
