"""Size limits for files that are much larger unpacked: gzip and Parquet hide gigabytes in megabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from typing_extensions import Buffer

from quantgraph.errors import BadFile

MEGABYTE = 1 << 20
_NUMBER_BYTES = 8
_BATCH_ROWS = 4096  # rows whose texts are counted at once


def check_parquet(path: Path, max_bytes: int) -> None:
    """Check that the cells of a Parquet file take at most ``max_bytes`` in memory.

    Parquet writes equal cells once: a few bytes may stand for a billion numbers, or for a long text a million
    times. So numbers are counted as the file declares them, and texts without materializing them.

    Raises
    ------
    BadFile
        If they take more.
    pyarrow.ArrowInvalid, OSError
        If it is not a Parquet file.
    """
    import pyarrow.parquet as pq

    _check_packed_size(path, max_bytes)
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema, file.metadata
    size = 0
    for number in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(place)
            width = max(_NUMBER_BYTES, schema.column(place).length or 0)
            size += max(chunk.total_uncompressed_size, chunk.num_values * width)
            if size > max_bytes:
                raise _too_large(path, max_bytes)
    columns = [schema.column(place) for place in range(len(schema))]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    if size + _text_bytes(path, texts, max_bytes - size) > max_bytes:
        raise _too_large(path, max_bytes)


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


def check_first_line(path: Path, max_bytes: int) -> None:
    """Check that the first line ends within a megabyte: pandas reads a table's header whole.

    Raises
    ------
    BadFile
        If it does not, or as :func:`open_unpacked`.
    """
    with open_unpacked(path, max_bytes) as file:
        if len(file.readline(MEGABYTE + 1)) > MEGABYTE:
            raise BadFile(f"{path.name}: its first line is longer than {MEGABYTE} bytes", file=path.name)


@contextmanager
def open_unpacked(path: Path, max_bytes: int) -> Iterator[IO[bytes]]:
    """Open a plain or gzip file for reading.

    Raises
    ------
    BadFile
        If the file has more than ``max_bytes``: packed, on opening; unpacked, on reading beyond them.
    """
    _check_packed_size(path, max_bytes)
    is_gzip = path.name.lower().endswith(".gz")
    with gzip.open(path, "rb") if is_gzip else path.open("rb") as packed:
        yield io.BufferedReader(_LimitedReader(packed, path, max_bytes), buffer_size=MEGABYTE)


class _LimitedReader(io.RawIOBase):
    """Unpacked content that may be read up to ``max_bytes``."""

    def __init__(self, packed: io.BufferedIOBase, path: Path, max_bytes: int) -> None:
        self._packed, self._path, self._max_bytes = packed, path, max_bytes
        self._remaining = max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        piece = self._packed.read(len(view))
        self._remaining -= len(piece)
        if self._remaining < 0:
            raise _too_large(self._path, self._max_bytes)
        view[: len(piece)] = piece
        return len(piece)


def _check_packed_size(path: Path, max_bytes: int) -> None:
    if path.stat().st_size > max_bytes:
        raise _too_large(path, max_bytes)


def _too_large(path: Path, max_bytes: int) -> BadFile:
    return BadFile(
        f"{path.name} has more than {max_bytes // MEGABYTE} MB unpacked; "
        "to read it all the same, raise max_file_mb (QUANTGRAPH_MAX_FILE_MB)",
        file=path.name,
        max_mb=max_bytes // MEGABYTE,
    )
