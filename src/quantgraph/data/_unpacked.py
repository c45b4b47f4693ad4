"""Reading files that may be far larger than they look: gzip and Parquet hide gigabytes in megabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from typing_extensions import Buffer

from quantgraph.errors import BadFile

__all__ = ["MEGABYTE", "check_first_line", "check_parquet", "check_size", "opened"]

MEGABYTE = 1 << 20
_CELL = 8
"""Bytes of a number in memory."""


def check_size(path: Path, most: int) -> None:
    """See that a file as it lies there has no more than ``most`` bytes.

    Raises
    ------
    BadFile
        If it has.
    """
    if path.stat().st_size > most:
        raise _too_large(path, most)


def check_parquet(path: Path, metadata: Any, most: int) -> None:
    """See that what a Parquet file says of its columns and rows is no more than ``most`` bytes in memory.

    Raises
    ------
    BadFile
        If it is more.
    """
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    unpacked = sum(group.total_byte_size for group in groups)
    if max(unpacked, metadata.num_rows * metadata.num_columns * _CELL) > most:
        raise _too_large(path, most)


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
