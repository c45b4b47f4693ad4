"""Files and limits: atomic writes, limits of text from outside, processors and memory, runs by name."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadFile, BadOption, StorageUnavailable

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
    """Write a file whole: after a failure its old content is still there."""
    half = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with storage_errors(path):
        try:
            half.write_bytes(content)
            half.replace(path)
        except BaseException:
            with suppress(OSError):
                half.unlink()  # the disk may be full
            raise


MOST_BYTES, MOST_JSON = 2 << 30, 32 << 20
"""Bytes of a file, and of one of JSON, that a reader takes from a folder that anybody may have made."""


def stored_file(folder: Path, name: str, most: int = MOST_BYTES) -> Path | None:
    """Return the path of a regular file in a folder, which may be a stranger's; None if there is none.

    Raises
    ------
    BadFile
        If it is a device, a pipe, a folder or larger than ``most``, or a link leads out of the folder.
    """
    path = folder / name
    if not os.path.lexists(path):
        return None
    try:
        real = path.resolve(strict=True)
        facts, inside = real.stat(), real.is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error}", path=str(path)) from error
    if not inside:
        fault = "it leads out of the folder"
    elif not stat.S_ISREG(facts.st_mode):
        fault = "it must be a regular file"
    elif facts.st_size > most:
        fault = f"it has {facts.st_size:,} bytes, and at most {most:,} are read"
    else:
        return path
    raise BadFile(f"{path} is not read: {fault}", path=str(path))


def read_stored(folder: Path, name: str, most: int = MOST_BYTES) -> bytes | None:
    """Return the bytes of a :func:`stored_file`; None if there is none."""
    path = stored_file(folder, name, most)
    return None if path is None else path.read_bytes()


MAX_TEXT_LENGTH = 10_000
"""Characters of a sentence or an answer; a longer text is a file pasted by mistake."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")  # "\ud800"


def check_text(text: str, parameter: str) -> None:
    r"""Check that a text can be written as UTF-8.

    An undecodable byte of a command line or a file name arrives as a lone surrogate, which
    files in UTF-8 and databases refuse.

    >>> check_text("5日均线\udcff", "question")
    Traceback (most recent call last):
    ...
    quantgraph.errors.BadOption: question is not valid UTF-8 text: character 5 is \udcff
    """
    if found := _SURROGATE.search(text):
        shown = escape_controls(found[0])
        raise BadOption(
            f"{parameter} is not valid UTF-8 text: character {found.start() + 1} is {shown}",
            parameter=parameter,
        )


def check_sentence(text: str, parameter: str) -> None:
    """Check that a sentence is UTF-8 text of at most :data:`MAX_TEXT_LENGTH` characters; else BadOption."""
    if len(text) > MAX_TEXT_LENGTH:
        raise BadOption(
            f"{parameter} has {len(text)} characters; at most {MAX_TEXT_LENGTH} are read", parameter=parameter
        )
    check_text(text, parameter)


_GROUP = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 62


def available_memory() -> int | None:
    """Bytes that can be taken before the machine or the container has no more; None where it is not known.

    Sources: ``MemAvailable`` of ``/proc/meminfo``; ``memory.max`` and ``memory.current`` of the control group
    (Linux ``Documentation/admin-guide/cgroup-v2.rst``).
    """
    free = _NO_LIMIT
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(OSError, ValueError):
        limit, used = ((_GROUP / f"memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        free = min(free, max(0, int(limit) - int(used)))
    return None if free == _NO_LIMIT else free


def new_run_id() -> str:
    """A new run id that sorts by time: ``20240102-030405-a1b2c3``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def run_id_of(value: object) -> str:
    """The run id of a state; a new one for None and for the empty text that forms send."""
    if value is None or value == "":
        return new_run_id()
    if not isinstance(value, str):
        raise BadOption(f"run_id={value!r} must be text, or None for a new one", parameter="run_id")
    check_text(value, "run_id")
    return value


MANIFEST_FILE = "run.json"


def find_run_folder(run: str | Path, runs_dir: Path) -> Path:
    """The folder of a run, as a path or by the run's name.

    Raises
    ------
    BadOption
        If there is no such run.
    """
    places = dict.fromkeys((Path(run), runs_dir / run))  # an absolute path is one place
    for folder in places:
        if (folder / MANIFEST_FILE).is_file():
            return folder
    message = f"RUN={str(run)!r}: there is no {MANIFEST_FILE} in {' or in '.join(map(str, places))}"
    if any((folder / "ledger.sqlite").is_file() for folder in places):
        message += "; a run of your own graph is resumed and replayed with that graph, see docs/embedding.md"
    raise BadOption(message, parameter="run")
