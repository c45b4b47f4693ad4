"""Commits in memory and on disk: an Arrow IPC file a frame, a file of records, a JSON file a commit.

All are named by their content.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.files import (
    MOST_BYTES,
    MOST_JSON,
    read_stored,
    storage_errors,
    stored_file,
    write_atomic,
)
from quantgraph._util.values import json_of
from quantgraph.errors import BadFile
from quantgraph.state.frames._frames import MADE, FrozenFrame
from quantgraph.state.frames._records import NO_RECORDS, Record, Records

if TYPE_CHECKING:
    import pyarrow as pa


PANELS: tuple[str, ...] = ("ohlcv", "indicators", "index", *MADE)
"""Panels of a commit; ``index`` has the levels of indices, its columns are index codes."""
Panels = Mapping[str, Mapping[str, FrozenFrame]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Commit:
    """An immutable state of the data: frames by panel and field, and records."""

    panels: Panels
    records: Records = NO_RECORDS

    def __repr__(self) -> str:
        held = [f"{panel} {len(fields)}" for panel, fields in self.panels.items() if fields]
        held += [f"records {len(self.records.entries)}"] if self.records.entries else []
        return f"Commit({', '.join(held) or 'empty'})"

    @property
    def frames(self) -> Iterator[FrozenFrame]:
        """All frames."""
        return (frame for fields in self.panels.values() for frame in fields.values())


class CommitCache:
    """Frames and records of many commits, equal ones once; ``nbytes`` counts their bytes."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._kept: dict[str, Any] = {}
        self._uses: Counter[str] = Counter()

    def take(self, tree: Commit) -> Commit:
        """Add a commit's frames and records, and return the commit over the kept ones.

        Its fields are in one order: prices first, then by name. Signals stay in the order in which they were
        committed: the last one is the strategy's.
        """
        panels = {
            panel: {
                name: self._take(fields[name])
                for name in (fields if panel in MADE else sorted(fields, key=_place))
            }
            for panel, fields in tree.panels.items()
        }
        return Commit(panels=panels, records=self._take(tree.records))

    def release(self, tree: Commit) -> None:
        """Drop the frames and records that no other commit has."""
        for frame in tree.frames:
            self._release(frame)
        self._release(tree.records)

    def _take(self, thing: Any) -> Any:
        if not self._uses[thing.digest]:
            if isinstance(thing, Records):
                thing = Records(tuple(self._take(entry) for entry in thing.entries))
            self._kept[thing.digest] = thing
            self.nbytes += thing.nbytes
        self._uses[thing.digest] += 1
        return self._kept[thing.digest]

    def _release(self, thing: FrozenFrame | Record | Records) -> None:
        self._uses[thing.digest] -= 1
        if not self._uses[thing.digest]:
            self.nbytes -= thing.nbytes
            del self._kept[thing.digest], self._uses[thing.digest]
            for entry in thing.entries if isinstance(thing, Records) else ():
                self._release(entry)


_PRICES = ("open", "high", "low", "close")


def _place(field: str) -> tuple[int, str]:
    return _PRICES.index(field) if field in _PRICES else len(_PRICES), field


_MAPPED = 1 << 20  # bytes of a frame whose memory is its file
_NAME = re.compile(r"[0-9a-f]{32}")  # "d41d8cd98f00b204e9800998ecf8427e"


def commit_name(tree: Commit) -> str:
    """Content name of a commit: 32 hex digits over its listing of panels, fields and frames."""
    return content_hash(_listing(tree))


def write_commit(folder: Path, ref: str, tree: Commit) -> Commit:
    """Write a commit, and return it in the memory of its files; one that exists is not written again."""
    with storage_errors(folder):
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        (folder / "commits").mkdir(parents=True, exist_ok=True)

    def put(frame: FrozenFrame) -> FrozenFrame:
        path = folder / "objects" / f"{frame.digest}.arrow"
        if path.exists():
            return frame
        write_atomic(path, _encode(frame))
        return _decode(path.parent, frame.digest) if frame.nbytes >= _MAPPED else frame

    panels = {key: {name: put(each) for name, each in fields.items()} for key, fields in tree.panels.items()}
    path = _records_path(folder, tree.records.digest)
    if tree.records.entries and not path.exists():
        write_atomic(path, _lines(tree.records))
    path = folder / "commits" / f"{ref}.json"
    if not path.exists():
        write_atomic(path, _listing(tree))
    return Commit(panels=panels, records=tree.records)


def read_commit(folder: Path, ref: str) -> Commit | None:
    """Read a commit back, or None when the folder does not have it."""
    path = folder / "commits" / f"{ref}.json"
    if not _NAME.fullmatch(ref) or not path.exists():
        return None
    panels, records = _read_listing(path, ref)
    return Commit(
        panels={
            panel: {name: _decode(folder / "objects", digest) for name, digest in fields.items()}
            for panel, fields in panels.items()
        },
        records=_read_records(_records_path(folder, records), records) if records else NO_RECORDS,
    )


@dataclass(frozen=True, kw_only=True)
class StoredCommits:
    """The check of a folder of commits."""

    commits: frozenset[str]
    files: int
    faults: tuple[BadFile, ...]


def check_stored_commits(folder: Path) -> StoredCommits:
    """Read every commit of a folder, and every object that is there or that a commit names, once."""
    commits = sorted(path.stem for path in (folder / "commits").glob("[!.]*"))
    objects = {path.name for path in (folder / "objects").glob("[!.]*")}
    faults: list[BadFile] = []
    for ref in commits:
        try:
            panels, records = _read_listing(folder / "commits" / f"{ref}.json", ref)
        except BadFile as error:
            faults.append(error)
        else:
            objects |= {f"{digest}.arrow" for fields in panels.values() for digest in fields.values()}
            objects |= {f"{records}.records"} if records else set()
    for name in sorted(objects):
        try:
            _check_object(folder / "objects" / name)
        except BadFile as error:
            faults.append(error)
    return StoredCommits(commits=frozenset(commits), files=len(commits) + len(objects), faults=tuple(faults))


def _content(path: Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a file of the folder above its own."""
    content = read_stored(path.parents[1], f"{path.parent.name}/{path.name}", most)
    if content is None:
        raise FileNotFoundError(f"{path.name} is missing")
    return content


def _check_object(path: Path) -> None:
    """Check that a file holds what its name says, and only the bytes that this version of Arrow writes."""
    if path.suffix == ".records":
        written: bytes | pa.Buffer = _lines(_read_records(path, path.stem))
    elif path.suffix == ".arrow":
        frame, same = _decode_frame(path, path.stem)
        written = _encode(frame) if same else _content(path)
    else:
        raise BadFile(f"{path} is not an object; objects end in .arrow or .records", path=str(path))
    if _content(path) != bytes(written):
        raise BadFile(f"{path} has been changed: its bytes are not those that were written", path=str(path))


def _lines(records: Records) -> bytes:
    return "\n".join(entry.line for entry in records.entries).encode()


_UNLISTED_IF_EMPTY = ("index", "weights", "score")
"""Panels that are newer than the format: without them a commit keeps its name."""


def _listing(tree: Commit) -> bytes:
    digests: dict[str, object] = {
        panel: {name: frame.digest for name, frame in tree.panels.get(panel, {}).items()}
        for panel in PANELS
        if panel not in _UNLISTED_IF_EMPTY or tree.panels.get(panel)
    }
    if tree.records.entries:
        digests["records"] = tree.records.digest
    return canonical_json(digests).encode()


def _records_path(folder: Path, digest: str) -> Path:
    return folder / "objects" / f"{digest}.records"


def _read_records(path: Path, digest: str) -> Records:
    try:
        records = Records.of(Record.read(line) for line in _content(path).decode().split("\n"))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{path} is not a file of records: {error}", path=str(path)) from error
    if records.digest != digest:
        raise _damage(path, records.digest)
    return records


def _read_listing(path: Path, ref: str) -> tuple[dict[str, dict[str, str]], str | None]:
    try:
        content = _content(path, MOST_JSON)
        named = json_of(content)
        named = {panel: {} for panel in _UNLISTED_IF_EMPTY} | named
        listing = {panel: {str(name): str(named[panel][name]) for name in named[panel]} for panel in PANELS}
        records = named.get("records")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{path} is not a stored commit: {error}", path=str(path)) from error
    if content_hash(content) != ref:
        raise _damage(path, content_hash(content))
    return listing, records


def _damage(path: Path, name: str) -> BadFile:
    return BadFile(f"{path} has been changed: its content is named {name}", path=str(path))


def _encode(frame: FrozenFrame) -> pa.Buffer:
    import pyarrow as pa  # takes a tenth of a second, which only spilling needs

    header = {
        "symbols": list(frame.symbols),
        "sessions": frame.sessions.astype("datetime64[D]").astype(int).tolist(),
    }
    metadata = {"quantgraph": canonical_json(header), "writer": pa.__version__}
    schema = pa.schema([("value", pa.float64())], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array(frame.values.reshape(-1))], schema=schema))
    return sink.getvalue()


def _decode(folder: Path, digest: str) -> FrozenFrame:
    return _decode_frame(folder / f"{digest}.arrow", digest)[0]


def _decode_frame(path: Path, digest: str) -> tuple[FrozenFrame, bool]:
    """A stored frame, and whether this version of Arrow wrote it: another may write other bytes."""
    import pyarrow as pa

    stored_file(path.parents[1], f"{path.parent.name}/{path.name}")
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        header = json.loads(table.schema.metadata[b"quantgraph"])
        symbols = tuple(header["symbols"])
        sessions = np.array(header["sessions"], dtype="datetime64[D]").astype("datetime64[us]")
        values = table.column("value").cast(pa.float64()).chunk(0).to_numpy(zero_copy_only=True)
        block = values.reshape(len(sessions), len(symbols))
        frame = FrozenFrame(np.frombuffer(sessions.tobytes(), dtype="datetime64[us]"), symbols, block)
    except (OSError, pa.ArrowException, LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadFile(f"{path} is not a stored frame: {error}", path=str(path)) from error
    if frame.digest != digest:
        raise _damage(path, frame.digest)
    return frame, table.schema.metadata.get(b"writer") == pa.__version__.encode()
