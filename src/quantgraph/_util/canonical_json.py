"""Canonical JSON, and content hashes: what commits, requests, files and settings are identified by.

Text that is only passed on (a message to a child process, a file for people) is plain ``json.dumps``.
"""

from __future__ import annotations

import json
from functools import partial
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

_BYTES = 16


def canonical_json(value: Any, *, sort_keys: bool = True, allow_nan: bool = True) -> str:
    """Write a JSON value as the one text that stands for it: no spaces, sorted keys unless order counts.

    Lone surrogates, which models write at times and no database takes, are replaced by ``?``.

    >>> canonical_json({"b": [1.5, None], "a": "均线"})
    '{"a":"均线","b":[1.5,null]}'
    """
    text = json.dumps(
        value, ensure_ascii=False, sort_keys=sort_keys, allow_nan=allow_nan, separators=(",", ":")
    )
    return text.encode("utf-8", "replace").decode()


def json_copy(value: Any) -> Any:
    """A copy of plain JSON; None for what JSON cannot hold or would change: NaN, tuples, number keys.

    >>> json_copy({"a": [1]}), json_copy({"a": (1,)}), json_copy({1: "a"})
    ({'a': [1]}, None, None)
    """
    try:
        copied = json.loads(canonical_json(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    return copied if copied == value else None


def content_hash(*parts: str | bytes | memoryview, size: int = _BYTES) -> str:
    """BLAKE2b over the parts one after the other, as ``2 * size`` hex digits; text is hashed as UTF-8.

    >>> content_hash("ab") == content_hash("a", b"b")
    True
    """
    name = blake2b(digest_size=size)
    for part in parts:
        name.update(part.encode(errors="surrogatepass") if isinstance(part, str) else part)
    return name.hexdigest()


def file_hash(path: Path) -> str:
    """:func:`content_hash` of a file's bytes, which are never in memory as a whole."""
    with path.open("rb") as file:
        return file_digest(file, partial(blake2b, digest_size=_BYTES)).hexdigest()
