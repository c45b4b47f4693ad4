"""Replies kept across runs, by the content of the request and how often the run had asked it before."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Literal
from weakref import WeakSet

from langchain_core.messages import BaseMessage
from sqlalchemy import Column, Float, MetaData, String, Table, Text, delete, insert, select

from quantgraph._database import engine_of, make_schema

__all__ = ["CacheMode", "ReplyCache", "reply_cache", "unusable"]

CacheMode = Literal["off", "llm_write_only", "full"]
"""``full``: a reply that is there is served. ``llm_write_only``: the model is asked, and its reply kept."""

CACHE_KEY = "quantgraph_request"
"""Under which a reply's metadata says what it is kept as."""

_SCHEMA = MetaData()
_replies = Table(
    "replies",
    _SCHEMA,
    Column("request", String(32), primary_key=True),
    Column("at", Float, nullable=False),
    Column("reply", Text, nullable=False),
)
_HOUR = 3600.0
_OPEN: WeakSet[ReplyCache] = WeakSet()


class ReplyCache:
    """Replies in a file, served for some hours. Safe to use from several threads and processes.

    Parameters
    ----------
    path
        The file, made when it is not there.
    mode
        See :data:`CacheMode`.
    ttl_hours
        For how long a reply is served.
    """

    def __init__(self, path: Path, *, mode: CacheMode = "full", ttl_hours: float = 24.0) -> None:
        self.mode = mode
        self._seconds = ttl_hours * _HOUR
        self._engine = engine_of(path)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        with self._writer.begin() as connection:
            make_schema(connection, _SCHEMA)
        _OPEN.add(self)

    def get(self, request: str) -> str | None:
        """The reply to a request, by its name; None if there is none, it is too old, or none is served."""
        if self.mode != "full":
            return None
        query = select(_replies.c.reply).where(
            _replies.c.request == request, _replies.c.at > time.time() - self._seconds
        )
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def put(self, request: str, reply: str) -> None:
        """Keep a reply, in the place of an earlier one."""
        if self.mode == "off":
            return
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))
            connection.execute(insert(_replies).values(request=request, at=time.time(), reply=reply))

    def drop(self, request: str) -> None:
        """Forget a reply, if it is there."""
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))


@cache
def reply_cache(folder: Path, mode: CacheMode, ttl_hours: float) -> ReplyCache | None:
    """The cache of a folder, one in a process; None if it is off."""
    if mode == "off":
        return None
    return ReplyCache(folder / "models.sqlite", mode=mode, ttl_hours=ttl_hours)


def unusable(message: BaseMessage) -> None:
    """Say that a reply could not be used: it is never served again."""
    request = message.response_metadata.get(CACHE_KEY)
    for opened in list(_OPEN):
        if isinstance(request, str):
            opened.drop(request)
