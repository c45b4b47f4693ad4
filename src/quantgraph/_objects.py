"""Commits on disk: one Arrow IPC file a frame, one JSON file a commit, both named by content."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quantgraph._frames import FrozenFrame
from quantgraph.errors import BadFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Tree", "read_tree", "write_tree"]

Tree = Mapping[str, Mapping[str, FrozenFrame]]


def write_tree(folder: Path, ref: str, tree: Tree) -> None:
    """Write a commit; files that are there already have the same content and are left alone."""
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    (folder / "commits").mkdir(parents=True, exist_ok=True)
    for fields in tree.values():
        for frame in fields.values():
            path = folder / "objects" / f"{frame.digest}.arrow"
            if not path.exists():
                _replace(path, _encode(frame))
    listing = {
        panel: {name: frame.digest for name, frame in fields.items()} for panel, fields in tree.items()
    }
    path = folder / "commits" / f"{ref}.json"
    if not path.exists():
        _replace(path, json.dumps(listing, sort_keys=True).encode())


def read_tree(folder: Path, ref: str) -> dict[str, dict[str, FrozenFrame]] | None:
    """Read a commit back, or None when the folder does not have it.

    Raises
    ------
    BadFile
        If a file's content does not have the name it is stored under.
    """
    path = folder / "commits" / f"{ref}.json"
    if not path.exists():
        return None
    listing: dict[str, dict[str, str]] = json.loads(path.read_bytes())
    return {
        panel: {
            name: _decode(folder / "objects" / f"{digest}.arrow", digest) for name, digest in fields.items()
        }
        for panel, fields in listing.items()
    }


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


def _decode(path: Path, digest: str) -> FrozenFrame:
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        header = json.loads(table.schema.metadata[b"quantgraph"])
        symbols = tuple(header["symbols"])
        sessions = np.array(header["sessions"], dtype="datetime64[D]").astype("datetime64[us]")
        values = table.column("value").chunk(0).to_numpy(zero_copy_only=True)
        block = values.reshape(len(sessions), len(symbols))
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is not a stored frame: {error}") from error
    frame = FrozenFrame.of(np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols, block)
    if frame.digest != digest:
        raise BadFile(f"{path} has been changed: its content is named {frame.digest}")
    return frame
