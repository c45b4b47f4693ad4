"""Replies kept across runs, by the content of the request and how often the run had asked it before.

A reply is kept once the attempt that asked for it has worked, with all others of the attempt: whether one can
be used shows in what is made of it. What an attempt asked that failed is forgotten, though it worked before.
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

__all__ = [
    "CacheMode",
    "PendingReply",
    "ReplyCache",
    "add_pending",
    "cached_attempt",
    "drop_replies",
    "reply_cache",
]

CacheMode = Literal["off", "llm_write_only", "full"]
"""``full``: a reply that is there is served. ``llm_write_only``: the model is asked, and its reply kept."""

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
        self._engine = open_engine(path)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        create_tables(self._engine, _SCHEMA)

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


class PendingReply(NamedTuple):
    """A reply that an attempt has got: a new one, or (None) the one that is kept."""

    cache: ReplyCache
    request: str
    reply: str | None


_ATTEMPT: ContextVar[list[PendingReply] | None] = ContextVar("attempt", default=None)


def add_pending(cache: ReplyCache, request: str, reply: str | None) -> None:
    """Leave a reply to the attempt that is made; outside of all it is kept at once."""
    made = _ATTEMPT.get()
    if made is not None:
        made.append(PendingReply(cache, request, reply))
    elif reply is not None:
        cache.put(request, reply)


@contextmanager
def cached_attempt() -> Iterator[list[PendingReply]]:
    """While an attempt is made, whose replies are in the list. It holds for what inherits the context.

    It has worked if it ends without an error: what is in the list then goes to the attempt around it, and is
    kept where there is none. If it ends with an error of ours all is forgotten. An interrupted one changes
    nothing.
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
    """Keep no reply of an attempt that has failed, though it was kept before; nothing is left in the list."""
    for one in offers:
        one.cache.drop(one.request)
    offers.clear()
