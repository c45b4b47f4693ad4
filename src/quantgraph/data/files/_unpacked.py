"""Reading files that may be far larger than they look: gzip and Parquet hide gigabytes in megabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from typing_extensions import Buffer

from quantgraph.errors import BadFile

__all__ = ["MEGABYTE", "check_first_line", "check_parquet", "check_size", "opened"]

MEGABYTE = 1 << 20
_CELL = 8
"""Bytes of a number in memory."""
_ROWS = 4096
"""Rows whose texts are counted at once."""


def check_size(path: Path, most: int) -> None:
    """See that a file as it lies there has no more than ``most`` bytes.

    Raises
    ------
    BadFile
        If it has.
    """
    if path.stat().st_size > most:
        raise _too_large(path, most)


def check_parquet(path: Path, most: int) -> None:
    """See that the cells of a Parquet file take no more than ``most`` bytes in memory.

    Equal cells are written once: a few bytes may stand for a billion numbers, or for a long text a million
    times. So numbers are counted as the file declares them, and texts without putting them side by side.

    Raises
    ------
    BadFile
        If they take more.
    pyarrow.ArrowInvalid, OSError
        If it is not a Parquet file.
    """
    import pyarrow.parquet as pq

    check_size(path, most)
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema, file.metadata
    texts = [place for place in range(len(schema)) if schema.column(place).physical_type == "BYTE_ARRAY"]
    size = 0
    for number in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(number).column(place)
            width = max(_CELL, schema.column(place).length or 0)
            size += max(chunk.total_uncompressed_size, chunk.num_values * width)
            if size > most:
                raise _too_large(path, most)
    if size + _bytes_of_texts(path, [schema.column(place).path for place in texts], most - size) > most:
        raise _too_large(path, most)


def _bytes_of_texts(path: Path, columns: list[str], left: int) -> int:
    """Bytes of all texts of a file, counted until there are more than are ``left``."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    size = 0
    with pq.ParquetFile(path, read_dictionary=columns) as file:
        for batch in file.iter_batches(_ROWS, columns=columns) if columns else ():
            for column in batch.columns:
                if isinstance(column, pa.DictionaryArray):
                    size += pc.sum(pc.binary_length(column.dictionary).take(column.indices)).as_py() or 0
                else:
                    size += column.nbytes
                if size > left:
                    return size
    return size


def check_first_line(path: Path, most: int) -> None:
    """See that the first line of a text ends within a megabyte: the header of a table is read at once.

    Raises
    ------
    BadFile
        If it does not.
    """
    with opened(path, most) as file:
        if len(file.readline(MEGABYTE + 1)) > MEGABYTE:
            raise BadFile(f"{path.name}: its first line is longer than {MEGABYTE} bytes", file=path.name)


@contextmanager
def opened(path: Path, most: int) -> Iterator[IO[bytes]]:
    """Open a file to be read unpacked; reading beyond ``most`` bytes fails.

    Raises
    ------
    BadFile
        Here or while it is read.
    """
    check_size(path, most)
    with gzip.open(path, "rb") if _is_gzip(path) else path.open("rb") as packed:
        yield io.BufferedReader(_Counted(packed, path, most), buffer_size=MEGABYTE)


class _Counted(io.RawIOBase):
    """What is unpacked, a piece at a time, up to so many bytes."""

    def __init__(self, packed: io.BufferedIOBase, path: Path, most: int) -> None:
        self._packed, self._path, self._most = packed, path, most
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        piece = self._packed.read(len(view))
        self._left -= len(piece)
        if self._left < 0:
            raise _too_large(self._path, self._most)
        view[: len(piece)] = piece
        return len(piece)


def _is_gzip(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _too_large(path: Path, most: int) -> BadFile:
    return BadFile(
        f"{path.name} has more than {most // MEGABYTE} MB unpacked; "
        "to read it all the same, raise max_file_mb (QUANTGRAPH_MAX_FILE_MB)",
        file=path.name,
        max_mb=most // MEGABYTE,
    )
