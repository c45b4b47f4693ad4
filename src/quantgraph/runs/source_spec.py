"""The source of a run, said so that it can be opened again, and known by what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b, file_digest
from importlib.resources import files
from pathlib import Path
from typing import Any

from quantgraph._util.input_limits import check_text
from quantgraph.data import MarketDataSource
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadFile, BadOption

__all__ = ["source_fingerprint", "source_json", "recorded_source_name"]


def source_json(source: MarketDataSource, spec: object) -> dict[str, Any]:
    """Name of a source, and ``open``: what to give ``open_source``, None for an object of the caller's."""
    if isinstance(source, FileSource):
        where: str | None = str(Path(source.name).absolute())
    else:
        where = spec if isinstance(spec, str) else None
    return {"name": source.name, "synthetic": source.synthetic, "open": where}


def recorded_source_name(told: Mapping[str, Any]) -> str:
    """What opens the source of a run again.

    Raises
    ------
    BadOption
        If it was an object of the caller's, who has to give it again.
    """
    if told["open"] is None:
        raise BadOption(
            f"source {told['name']!r} of the run was an object; pass it again as source=", parameter="source"
        )
    return str(told["open"])


def source_fingerprint(source: MarketDataSource) -> dict[str, str]:
    """What a source holds, by name: of files their content, for reading them takes longer than this.

    Of a folder those that the source reads, which are none of its sub-folders. What a server holds nobody can
    know beforehand: there the commits count that a run has already, and what it was told is in its record.

    Raises
    ------
    BadFile
        If a file cannot be read.
    BadOption
        If the name of one is not UTF-8 text.
    """
    if isinstance(source, SampleSource):
        folder = files("quantgraph.data.sample") / "market"
        return {each.name: _hash(each.read_bytes()) for each in folder.iterdir() if each.is_file()}
    if isinstance(source, FileSource):
        path = Path(source.name)
        try:
            found = sorted(path.iterdir()) if path.is_dir() else [path]
            seen = [each for each in found if each.is_file() and not each.name.startswith(".")]
            for each in seen:
                check_text(each.name, f"source: the file name {each.name!a}")
            return {each.name: _hash_file(each) for each in seen}
        except OSError as error:
            raise BadFile(f"{error.filename} cannot be read: {error.strerror}", file=source.name) from error
    return {"source": f"{type(source).__qualname__} {source.name}"}


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _hash_file(path: Path) -> str:
    """The same without the whole of it in memory."""
    with path.open("rb") as file:
        return file_digest(file, partial(blake2b, digest_size=16)).hexdigest()
