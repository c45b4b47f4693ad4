"""Replies kept across runs, by the content of the request and how often the run has made it before.

The replies of an attempt are kept together once the attempt has succeeded: the result shows whether they are
usable. The replies of a failed attempt are dropped, even those that an earlier attempt had kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from sqlalchemy import Column, Float, MetaData, String, Table, Text, delete, insert, select

from quantgraph._util.database import create_tables, open_engine
from quantgraph.errors import QuantGraphError

CacheMode = Literal["off", "llm_write_only", "full"]
"""``full`` serves kept replies. ``llm_write_only`` calls the model and keeps its reply."""

_SCHEMA = MetaData()
_replies = Table(
    "replies",
    _SCHEMA,
    Column("request", String(32), primary_key=True),
    Column("at", Float, nullable=False),
    Column("reply", Text, nullable=False),
)
_HOUR = 3600.0


class ReplyCache:
    """Replies in a file, served for some hours. Safe for several threads and processes."""

    def __init__(self, path: Path, *, mode: CacheMode = "full", ttl_hours: float = 24.0) -> None:
        self.mode = mode
        self._seconds = ttl_hours * _HOUR
        self._engine = open_engine(path)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        create_tables(self._engine, _SCHEMA)

    def get(self, request: str) -> str | None:
        """The reply to a request, by the request's digest; None if it is missing, expired, or not served."""
        if self.mode != "full":
            return None
        query = select(_replies.c.reply).where(
            _replies.c.request == request, _replies.c.at > time.time() - self._seconds
        )
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def put(self, request: str, reply: str) -> None:
        """Keep a reply and replace an earlier one."""
        if self.mode == "off":
            return
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))
            connection.execute(insert(_replies).values(request=request, at=time.time(), reply=reply))

    def drop(self, request: str) -> None:
        """Drop a reply, if there is one."""
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))


@cache
def reply_cache(folder: Path, mode: CacheMode, ttl_hours: float) -> ReplyCache | None:
    """The cache of a folder, one per process; None if the mode is ``off``."""
    if mode == "off":
        return None
    return ReplyCache(folder / "models.sqlite", mode=mode, ttl_hours=ttl_hours)


class PendingReply(NamedTuple):
    """A reply of an attempt: a new one, or None for the one in the cache."""

    cache: ReplyCache
    request: str
    reply: str | None


_ATTEMPT: ContextVar[list[PendingReply] | None] = ContextVar("attempt", default=None)


def add_pending(cache: ReplyCache, request: str, reply: str | None) -> None:
    """Add a reply to the current attempt; without an attempt it is kept at once."""
    made = _ATTEMPT.get()
    if made is not None:
        made.append(PendingReply(cache, request, reply))
    elif reply is not None:
        cache.put(request, reply)


@contextmanager
def cached_attempt() -> Iterator[list[PendingReply]]:
    """Collect the replies of an attempt in a list, also in threads and tasks that inherit the context.

    After a success the replies go to the enclosing attempt, or are kept if there is none. After a
    ``QuantGraphError`` they are dropped. An interrupt changes nothing.
    """
    made: list[PendingReply] = []
    token = _ATTEMPT.set(made)
    try:
        yield made
    except QuantGraphError:
        drop_replies(made)
        raise
    finally:
        _ATTEMPT.reset(token)
    for offered in made:
        add_pending(*offered)


def drop_replies(offers: list[PendingReply]) -> None:
    """Drop the replies of a failed attempt, also those kept before, and empty the list."""
    for one in offers:
        one.cache.drop(one.request)
    offers.clear()
