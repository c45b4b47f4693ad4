"""Writing files that outlive the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantgraph.errors import StorageUnavailable

__all__ = ["CHECK_DISK", "storage_errors", "storage_unavailable", "write_atomic"]

CHECK_DISK = "see that its disk has room and that it may be written"


def storage_unavailable(where: object, reason: str, mend: str) -> StorageUnavailable:
    """The error of a place that cannot be written or read, and what may be done."""
    return StorageUnavailable(f"{where} cannot be written or read: {reason}; {mend}", where=str(where))


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Tell what the disk refuses meanwhile.

    Raises
    ------
    StorageUnavailable
        In the place of an ``OSError``.
    """
    try:
        yield
    except OSError as error:
        raise storage_unavailable(path, error.strerror or str(error), CHECK_DISK) from error


def write_atomic(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that there is the whole of it, or what was there before.

    Raises
    ------
    StorageUnavailable
        If it cannot be written.
    """
    half = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with storage_errors(path):
        try:
            half.write_bytes(content)
            half.replace(path)
        except BaseException:
            with suppress(OSError):
                half.unlink()  # or it would take room that is wanted
            raise
