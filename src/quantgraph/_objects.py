"""Commits on disk: one Arrow IPC file a frame, one JSON file a commit, both named by content."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quantgraph._frames import FrozenFrame
from quantgraph.errors import BadFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PANELS", "Tree", "read_tree", "tree_name", "write_tree"]

PANELS: tuple[str, ...] = ("ohlcv", "indicators", "signal")

Tree = Mapping[str, Mapping[str, FrozenFrame]]

_NAME = re.compile(r"[0-9a-f]{32}")


def tree_name(tree: Tree) -> str:
    """Content name of a commit: 32 hex digits over its listing of panels, fields and frames."""
    return _name_of(_listing(tree))


def write_tree(folder: Path, ref: str, tree: Tree) -> None:
    """Write a commit; files that are there already have the same content and are left alone."""
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    for fields in tree.values():
        for frame in fields.values():
            path = folder / "objects" / f"{frame.digest}.arrow"
            if not path.exists():
                _replace(path, _encode(frame))
    path = folder / "commits" / f"{ref}.json"
    if not path.exists():
        _replace(path, _listing(tree))


def read_tree(folder: Path, ref: str) -> Tree | None:
    """Read a commit back, or None when the folder does not have it.

    Raises
    ------
    BadFile
        If a file cannot be read, is missing, or its content does not have the name it is stored under.
    """
    path = folder / "commits" / f"{ref}.json"
    if not _NAME.fullmatch(ref) or not path.exists():
        return None
    return {
        panel: {name: _decode(folder / "objects", digest) for name, digest in fields.items()}
        for panel, fields in _read_listing(path, ref).items()
    }


def _listing(tree: Tree) -> bytes:
    digests = {panel: {name: frame.digest for name, frame in tree[panel].items()} for panel in PANELS}
    return json.dumps(digests, sort_keys=True).encode()


def _read_listing(path: Path, ref: str) -> dict[str, dict[str, str]]:
    try:
        content = path.read_bytes()
        told = json.loads(content)
        listing = {panel: {str(name): str(told[panel][name]) for name in told[panel]} for panel in PANELS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile(f"{path} is not a stored commit: {error}") from error
    if _name_of(content) != ref:
        raise BadFile(f"{path} has been changed: its content is named {_name_of(content)}")
    return listing


def _name_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _replace(path: Path, content: bytes | pa.Buffer) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(content)
    part.replace(path)


def _encode(frame: FrozenFrame) -> pa.Buffer:
    import pyarrow as pa  # a tenth of a second that only spilling pays

    header = {
        "symbols": list(frame.symbols),
        "sessions": frame.sessions.astype("datetime64[D]").astype(int).tolist(),
    }
    schema = pa.schema([("value", pa.float64())], metadata={"quantgraph": json.dumps(header)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(frame.values.reshape(-1))], schema=schema))
    return sink.getvalue()


def _decode(folder: Path, digest: str) -> FrozenFrame:
    import pyarrow as pa

    path = folder / f"{digest}.arrow"
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        header = json.loads(table.schema.metadata[b"quantgraph"])
        symbols = tuple(header["symbols"])
        sessions = np.array(header["sessions"], dtype="datetime64[D]").astype("datetime64[us]")
        values = table.column("value").cast(pa.float64()).chunk(0).to_numpy(zero_copy_only=True)
        block = values.reshape(len(sessions), len(symbols))
        frame = FrozenFrame.of(np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols, block)
    except (OSError, pa.ArrowException, LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadFile(f"{path} is not a stored frame: {error}") from error
    if frame.digest != digest:
        raise BadFile(f"{path} has been changed: its content is named {frame.digest}")
    return frame
