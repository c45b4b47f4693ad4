"""What generated code may read: the standard library and the packages it computes with."""

from __future__ import annotations

import contextlib
import importlib.util
import sysconfig
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

__all__ = ["readable_places"]

_PACKAGES = ("numpy", "pandas", "talib", "dateutil", "six", "tzdata", "pyarrow")
_BUNDLED = tuple(f"{name}.libs" for name in ("numpy", "pandas", "ta_lib", "pyarrow"))
_OTHERS = ("site-packages", "dist-packages")


def readable_places() -> tuple[Path, ...]:
    """Files and folders of this interpreter that code imports lazily, to be read with all below them.

    The folder of the standard library is told entry by entry, because other packages lie in it. Shared
    libraries of the system are not among them: those that are needed are loaded with the packages, which
    is before the doors close.
    """
    found = {*_standard_library(), *_packages(), *map(Path, zoneinfo.TZPATH)}
    return tuple(sorted(place for place in found if place.exists()))


def _standard_library() -> Iterator[Path]:
    for name in ("stdlib", "platstdlib"):
        with contextlib.suppress(OSError):
            entries = list(Path(sysconfig.get_path(name)).iterdir())
            yield from (entry for entry in entries if entry.name not in _OTHERS)


def _packages() -> Iterator[Path]:
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        for folder in spec.submodule_search_locations or ():
            yield Path(folder)
            beside = Path(folder).parent.glob("*.libs")
            yield from (libraries for libraries in beside if libraries.name.lower() in _BUNDLED)
        if not spec.submodule_search_locations:
            yield from (Path(file) for file in (spec.origin, spec.cached) if file)
