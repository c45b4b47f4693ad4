"""Opening plain, gzip, zip and Parquet files: what they hold unpacked is limited while it is read."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, cast

from typing_extensions import Buffer

from quantgraph.errors import BadFile

MEGABYTE = 1 << 20
MAX_ROWS = 100_000_000
"""Rows of one file: 5000 stocks for 80 years."""
PACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, NotImplementedError)
"""Errors of a file that is not packed as its name says."""
_NUMBER_BYTES = 8
_BATCH_ROWS = 4096  # rows whose texts are counted at once


def check_parquet(path: Path, max_bytes: int) -> None:
    """Check that the cells of a Parquet file take at most ``max_bytes`` in memory.

    Parquet writes equal cells once: a few bytes may stand for a billion numbers, or for a long text a
    million times.
    """
    import pyarrow.parquet as pq

    _check_packed_size(path, max_bytes)
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema, file.metadata
    if metadata.num_rows > MAX_ROWS:
        raise too_many_rows(path)
    size = 0
    for number in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(place)
            width = max(_NUMBER_BYTES, schema.column(place).length or 0)
            size += max(chunk.total_uncompressed_size, chunk.num_values * width)
            if size > max_bytes:
                raise too_large(path, max_bytes)
    columns = [schema.column(place) for place in range(len(schema))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    if size + _text_bytes(path, texts, max_bytes - size) > max_bytes:
        raise too_large(path, max_bytes)


def _text_bytes(path: Path, columns: list[str], limit: int) -> int:
    """Bytes of all texts of a file; counting stops above ``limit``."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    size = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns) if columns else ():
            for column in batch.columns:
                if isinstance(column, pa.DictionaryArray):
                    size += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
                else:
                    size += column.nbytes
                if size > limit:
                    return size
    return size


@contextmanager
def open_unpacked(path: Path, max_bytes: int) -> Iterator[IO[bytes]]:
    """Open a plain or gzip file, or the only table of a zip file, for reading."""
    _check_packed_size(path, max_bytes)
    with ExitStack() as stack:
        packed: IO[bytes]
        if path.name.lower().endswith(".zip"):
            folder = stack.enter_context(zipfile.ZipFile(path))
            packed = stack.enter_context(folder.open(_only_member(folder, path)))
        else:
            opened = gzip.open if path.name.lower().endswith(".gz") else open
            packed = stack.enter_context(cast("IO[bytes]", opened(path, "rb")))
        yield io.BufferedReader(_LimitedReader(packed, path, max_bytes), buffer_size=MEGABYTE)


def unpacked_name(path: Path) -> str:
    """Name of what a file holds: without ``.gz``, and of a zip file the name of its only table."""
    name = path.name
    if name.lower().endswith(".zip"):
        try:
            with zipfile.ZipFile(path) as folder:
                return Path(_only_member(folder, path).filename).name
        except zipfile.BadZipFile as error:
            raise BadFile(
                f"{name} is not a readable zip file: {error}", file=name, unreadable=True
            ) from error
    return name[:-3] if name.lower().endswith(".gz") else name


def _only_member(folder: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    inside = [each for each in folder.infolist() if not each.is_dir() and not _is_hidden(each.filename)]
    if len(inside) != 1:
        raise BadFile(
            f"{path.name} holds {len(inside)} files; unpack it, and give a file or the folder",
            file=path.name,
            unreadable=True,
        )
    if inside[0].flag_bits & 1:
        raise BadFile(f"{path.name} has a password; unpack it", file=path.name, unreadable=True)
    return inside[0]


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


class _LimitedReader(io.RawIOBase):
    """Unpacked content that may be read up to ``max_bytes`` and ``MAX_ROWS`` lines."""

    def __init__(self, packed: IO[bytes], path: Path, max_bytes: int) -> None:
        self._packed, self._path, self._max_bytes = packed, path, max_bytes
        self._remaining, self._rows = max_bytes, MAX_ROWS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        piece = self._packed.read(len(view))
        self._remaining -= len(piece)
        if self._remaining < 0:
            raise too_large(self._path, self._max_bytes)
        self._rows -= piece.count(b"\n")
        if self._rows < 0:
            raise too_many_rows(self._path)
        view[: len(piece)] = piece
        return len(piece)


def _check_packed_size(path: Path, max_bytes: int) -> None:
    if path.stat().st_size > max_bytes:
        raise too_large(path, max_bytes)


def too_large(path: Path, max_bytes: int) -> BadFile:
    """The error about a file with more megabytes than are read."""
    return BadFile(
        f"{path.name} has more than {max_bytes // MEGABYTE} MB unpacked; "
        "to read it all the same, raise max_file_mb (QUANTGRAPH_MAX_FILE_MB)",
        file=path.name,
        max_mb=max_bytes // MEGABYTE,
    )


def too_many_rows(path: Path) -> BadFile:
    """The error about a file with more rows than are read."""
    return BadFile(
        f"{path.name} has more than {MAX_ROWS:,} rows; split it into a folder of files",
        file=path.name,
        max_rows=MAX_ROWS,
    )
