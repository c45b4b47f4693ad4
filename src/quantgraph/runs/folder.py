"""The folder of a run: made once, held by one process at a time, with what it came to in ``result.json``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from quantgraph._util.files import write_atomic, storage_errors
from quantgraph.errors import BadFile, BadOption
from quantgraph.runs.checksums import RESULT_FILE, write_checksums
from quantgraph.runs.manifest import MANIFEST_FILE
from quantgraph.runs.staging import staging_folder

if os.name == "posix":
    import fcntl

__all__ = ["staged_run_folder", "lock_run", "make_run_folder", "read_result", "write_result"]


def make_run_folder(folder: Path) -> None:
    """Make the folder of a new run.

    Raises
    ------
    BadOption
        If it cannot be made, or is there.
    """
    with _possible(folder):
        folder.mkdir(parents=True)


@contextmanager
def staged_run_folder(folder: Path) -> Iterator[Path]:
    """A folder of that name to make a run in, out of sight: in the end it is put in its place, or is no more.

    What starts that were killed have left beside it is removed.

    Raises
    ------
    BadOption
        As from :func:`make_run_folder`.
    """
    with ExitStack() as stack:
        with _possible(folder):
            if not folder.parent.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
            made = stack.enter_context(staging_folder(folder.parent)) / folder.name
            made.mkdir()
        yield made
        with _possible(folder):
            made.rename(folder)


@contextmanager
def _possible(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadOption(
            f"out={str(folder.parent)!r} cannot hold a run: {error.strerror}: {folder}"
        ) from error


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Hold a run whose ``run.json`` is there; it is let go when this process ends, however it ends.

    Raises
    ------
    BadOption
        If another one holds it: two would pay for every call twice.
    """
    with (folder / MANIFEST_FILE).open("rb") as file:
        if os.name == "posix":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadOption(
                    f"run {folder.name} is going on in another process", parameter="run"
                ) from error
        yield


def write_result(folder: Path, result: Mapping[str, Any], sums: Mapping[str, Any] | None = None) -> None:
    """Write ``result.json``, and before it ``checksums.json``, ``sums`` among them."""
    text = json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    with storage_errors(folder):
        write_checksums(folder, result, text.encode(), sums or {})
    write_atomic(folder / RESULT_FILE, text.encode())


def read_result(folder: Path) -> dict[str, Any] | None:
    """What a run came to; None if there is no ``result.json``.

    The places that it names are those in this folder, which may be a copy of the one that it was written in.

    Raises
    ------
    BadFile
        If it is not what a run writes.
    """
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        result["ended_because"]
        if "run_dir" in result:
            result["run_dir"] = str(folder)
        for each in filter(None, (result.get("strategy"), result.get("signal"))):
            each["path"] = str(folder / Path(each["path"]).name)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise BadFile(
            f"{path} is no result of a run: {type(error).__name__}: {error}; without the file it counts as "
            "a run that was stopped",
            file=str(path),
        ) from error
    return result
