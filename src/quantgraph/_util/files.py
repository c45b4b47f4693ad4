"""Writing files atomically, and errors of the disk as ``StorageUnavailable``."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from quantgraph.errors import StorageUnavailable

CHECK_DISK = "check that its disk has room and that it may be written"


def storage_unavailable(where: object, reason: str, mend: str) -> StorageUnavailable:
    """Error of a place that cannot be written or read; ``mend`` says what to do."""
    return StorageUnavailable(f"{where} cannot be written or read: {reason}; {mend}", where=str(where))


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise ``StorageUnavailable`` in place of an ``OSError``."""
    try:
        yield
    except OSError as error:
        raise storage_unavailable(path, error.strerror or str(error), CHECK_DISK) from error


def write_atomic(path: Path, content: bytes | memoryview) -> None:
    """Write a file whole: after a failure its old content is still there.

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
                half.unlink()  # the disk may be full
            raise
