"""Savers of checkpoints: one place makes them, and what they read is of the types that our states hold."""

from __future__ import annotations

import sqlite3
from typing import Any

import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from quantgraph._util.texts import short_line
from quantgraph.errors import BadFile

_MESSAGES = "langchain_core.messages"
_STATE_TYPES = frozenset(
    {
        *((f"{_MESSAGES}.{kind.lower()}", f"{kind}Message") for kind in ("Human", "System", "Tool")),
        *((f"{_MESSAGES}.ai", name) for name in ("AIMessage", "AIMessageChunk")),
        (f"{_MESSAGES}.modifier", "RemoveMessage"),
        *(("langgraph.types", name) for name in ("Command", "Interrupt", "Overwrite", "Send")),
        *(("builtins", name) for name in ("set", "frozenset")),
        *(("datetime", name) for name in ("date", "datetime", "timedelta", "timezone")),
        ("collections", "deque"),
        ("decimal", "Decimal"),
        ("uuid", "UUID"),
    }
)
"""What checkpoints of our states may hold besides plain JSON; all of it is among what LangGraph allows."""
_NAMES_A_CLASS = range(6)
"""LangGraph's kinds of msgpack extensions that name a class or a function of a module."""


class _StateSerializer(JsonPlusSerializer):
    """Reads the types that our states hold, and refuses a checkpoint that names another."""

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, content = data
        try:
            if kind == "msgpack":  # LangGraph itself leaves out what is not allowed, with a warning
                foreign: list[str] = []
                _check_names(content, foreign)
                if foreign:
                    raise ValueError(f"it holds {foreign[0]}")
            elif kind not in {"null", "bytes", "bytearray"}:
                raise ValueError(f"it is of the serializer {kind}")
            return super().loads_typed(data)
        except (ValueError, RecursionError) as error:
            raise BadFile(f"a checkpoint is not one of ours: {short_line(error, 120)}") from error


def _check_names(content: bytes, foreign: list[str]) -> Any:
    """Return the content without its extensions, and list those that name a type that is not ours."""

    def check(code: int, inner: bytes) -> None:
        found = _check_names(inner, foreign)
        if code in _NAMES_A_CLASS and (not isinstance(found, list) or (*found[:2],) not in _STATE_TYPES):
            foreign.append(f"{found!r:.60}")

    return ormsgpack.unpackb(content, ext_hook=check, option=ormsgpack.OPT_NON_STR_KEYS)


def new_saver(connection: sqlite3.Connection | None = None) -> BaseCheckpointSaver[Any]:
    """Make a saver of checkpoints, in memory or in a SQLite file."""
    if connection is None:
        return InMemorySaver(serde=_StateSerializer())
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver(connection, serde=_StateSerializer())
