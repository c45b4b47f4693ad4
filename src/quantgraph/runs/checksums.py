"""``checksums.json``: by which each file of a run's folder is known to be the one that the run wrote.

Checksums are 128 bits of BLAKE2b, hexadecimal. What the data state keeps is named by its content, and the
ledger's lines are a chain of hashes: they need none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, select

from quantgraph._util.database import open_engine
from quantgraph._util.files import write_atomic
from quantgraph.errors import BadFile
from quantgraph.recording import Recording, canonical, digest
from quantgraph.runs.checkpoints import CHECKPOINTS_FILE
from quantgraph.runs.manifest import MANIFEST_FILE

__all__ = [
    "CHECKSUMS_FILE",
    "RECORD_KEY",
    "RESULT_FILE",
    "final_checksums",
    "file_checksum",
    "rows_checksum",
    "read_checksums",
    "write_checksums",
]

CHECKSUMS_FILE, RESULT_FILE, RECORD_KEY = "checksums.json", "result.json", "record"


def write_checksums(folder: Path, result: Mapping[str, Any], text: bytes, more: Mapping[str, Any]) -> None:
    """Write it before the result whose ``text`` is to be written: whenever that is, it holds for both.

    Parameters
    ----------
    result
        Its strategy and signal name files.
    more
        What of :func:`final_checksums` is known.
    """
    named = [Path(result[each]["path"]).name for each in ("strategy", "signal") if result.get(each)]
    there = {name: file_checksum(folder / name) for name in (MANIFEST_FILE, RESULT_FILE, *named) if (folder / name).is_file()}
    before = there.pop(RESULT_FILE, None)
    now = blake2b(text, digest_size=16).hexdigest()
    sums = {**there, **more, RESULT_FILE: [now] if before in {None, now} else [before, now]}
    told = json.dumps({**sums, CHECKSUMS_FILE: _content(sums)}, indent=1)
    write_atomic(folder / CHECKSUMS_FILE, f"{told}\n".encode())


def read_checksums(folder: Path) -> dict[str, Any]:
    """By name, the checksum of each file; of ``result.json`` a list, of the record its lines and content.

    Raises
    ------
    BadFile
        If it is not there, or not as it was written.
    """
    path = folder / CHECKSUMS_FILE
    try:
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        said = told.pop(CHECKSUMS_FILE)
    except (OSError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadFile(
            f"{path} is not the file of checksums that a run writes: {reason}", path=str(path)
        ) from error
    if said != _content(told):
        raise BadFile(f"{path} has been changed: its own checksum must be {_content(told)}", path=str(path))
    return told


def final_checksums(folder: Path, recording: Recording) -> dict[str, Any]:
    """Checksums of what grows while a run goes on: the lines of its record so far, and its checkpoints."""
    lines, content = recording.content()
    path = folder / CHECKPOINTS_FILE
    stands = {CHECKPOINTS_FILE: rows_checksum(path)} if path.is_file() else {}
    return {RECORD_KEY: {"lines": lines, "content": content}, **stands}


def file_checksum(path: Path) -> str:
    """Checksum of a file's bytes."""
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()


def rows_checksum(path: Path) -> str:
    """Checksum of all rows of a SQLite file, in whichever order they are.

    Raises
    ------
    BadFile
        If it is damaged.
    """
    engine, tables = open_engine(path), MetaData()
    try:
        tables.reflect(engine)
        with engine.connect() as connection:
            rows = [
                blake2b(repr((name, *row)).encode(errors="backslashreplace"), digest_size=16).digest()
                for name, table in tables.tables.items()
                for row in connection.execute(select(table))
            ]
    finally:
        engine.dispose()
    return blake2b(b"".join(sorted(rows)), digest_size=16).hexdigest()


def _content(sums: Mapping[str, Any]) -> str:
    return digest(canonical(dict(sums)))
