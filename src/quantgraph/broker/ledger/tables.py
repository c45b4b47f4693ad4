"""The journal's table. Nothing in it is particular to SQLite."""

from __future__ import annotations

from sqlalchemy import Column, Integer, MetaData, String, Table, Text

__all__ = ["RUN_ID_LENGTH", "SCHEMA", "journal"]

RUN_ID_LENGTH = 200

SCHEMA = MetaData()

journal = Table(
    "journal",
    SCHEMA,
    Column("run_id", String(RUN_ID_LENGTH), primary_key=True),
    Column("line", Integer, primary_key=True, autoincrement=False),
    Column("session", String(10), nullable=False),
    Column("kind", String(10), nullable=False),
    Column("body", Text, nullable=False),
    Column("hash", String(32), nullable=False),
    sqlite_with_rowid=False,
)
"""One row a line. The key lets one writer alone append a line to a run."""
