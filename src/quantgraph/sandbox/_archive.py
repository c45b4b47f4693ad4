"""The archive that sealed code imports from: it can name no file.

A zip file has the code objects and resources of the standard library and of packages under the names of
their files; an entry's comment is the file of its code. An extension module is an empty entry. The host makes
it once in the folder of caches and hands its descriptor to the processes that it starts. Such a process reads
it into its own memory, so that no page of it tells what was imported, and loads the libraries of all
extension modules: of a library that it has, the C library opens no file again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import io
import marshal
import os
import posixpath
import re
import sys
import sysconfig
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib.abc import InspectLoader
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from quantgraph._util.files import write_atomic
from quantgraph._util.packages import required_packages
from quantgraph.settings import load_settings

PACKAGES = ("numpy", "pandas", "talib", "dateutil", "six", "tzdata", "pyarrow")
"""Packages that generated code may import."""

_LEFT_OUT = re.compile(  # "tests"
    r"(tests?|idle_test|__pycache__|site-packages|dist-packages|lib-dynload|config-.*|include)"
    r"|(_test|_xx|xx|_tkinter).*\.so"  # tkinter's library loads a graphical system's
    r"|.*\.(a|c|cc|cpp|exe|h|hpp|o|pxd|pxi|pyc|pyi|pyx|whl|so\.[\d.]+)"
)
"""Names of files and folders that no strategy imports or reads."""
_EXTENSION, _DIGEST_SIZE = tuple(EXTENSION_SUFFIXES), 32

_File = tuple[str, str, int, int]
"""Name in the archive, path, size, and time of the last change."""


def open_archive(packages: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the descriptor, open for good, of the archive of packages; there is one on Linux alone."""
    if sys.platform != "linux":
        return ()
    files = tuple(_files(required_packages(packages)))
    kind = _digest(repr((sys.prefix, sys.version, sys.flags.optimize, *packages)).encode()).hex()[:16]
    return (_open(f"{kind}-{_digest(repr(files).encode()).hex()}", files),)


@functools.cache
def _open(name: str, files: tuple[_File, ...]) -> int:
    place = load_settings().cache_dir / "sandbox" / name
    with contextlib.suppress(OSError):  # it is not there yet
        content = place.read_bytes()
        if content[:_DIGEST_SIZE] == _digest(content[_DIGEST_SIZE:]):
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    content = _build(files)
    with contextlib.suppress(OSError):  # no such folder can be written
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, content)
        for old in {*place.parent.glob(f"{name.partition('-')[0]}-*")} - {place}:
            old.unlink(missing_ok=True)
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("archive")
    Path(f"/proc/self/fd/{descriptor}").write_bytes(content)
    return descriptor


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def _files(packages: Sequence[str]) -> Iterator[_File]:
    for library in (sysconfig.get_path("stdlib"), f"{sysconfig.get_path('stdlib')}/lib-dynload"):
        yield from _below(library, "")
    for name in sorted({*PACKAGES, *packages}):
        if spec := importlib.util.find_spec(name):
            for folder in spec.submodule_search_locations or ():
                yield from _below(folder, f"{name}/")
            if not spec.submodule_search_locations and spec.origin:
                yield from _file(posixpath.basename(spec.origin), spec.origin)


def _below(top: str, prefix: str) -> Iterator[_File]:
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if not _LEFT_OUT.fullmatch(name))
        for name in sorted(names):
            if not _LEFT_OUT.fullmatch(name):
                yield from _file(f"{prefix}{folder[len(top) + 1 :]}/{name}".lstrip("/"), f"{folder}/{name}")


def _file(name: str, path: str) -> Iterator[_File]:
    with contextlib.suppress(OSError):  # a link to nothing
        found = os.stat(path)  # noqa: PTH116 - of thousands of files, and much faster
        yield posixpath.normpath(name), path, found.st_size, found.st_mtime_ns


def _build(files: Sequence[_File]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of code that is not ours
        for name, path, *_ in files:
            entry = zipfile.ZipInfo(name)
            entry.comment = path.encode() if path.endswith((".py", *_EXTENSION)) else b""
            with contextlib.suppress(OSError, SyntaxError, ValueError):  # it cannot be imported either
                archive.writestr(entry, _content(path), zipfile.ZIP_DEFLATED, compresslevel=1)
    body = content.getvalue()
    return _digest(body) + body


def _content(path: str) -> bytes:
    if path.endswith(_EXTENSION):
        return b""
    if path.endswith(".py"):
        return marshal.dumps(SourceFileLoader("_", path).get_code("_"))
    return Path(path).read_bytes()


class _ArchiveFinder:
    """Finds modules in an archive, in the order in which Python looks into a folder."""

    def __init__(self, content: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(content))  # it finds the end, and passes over the digest
        self.archive.filename = "archive"  # so that errors can name its paths
        self.origins = {entry.filename: entry.comment.decode() for entry in self.archive.infolist()}
        for name, origin in list(self.origins.items()):
            if origin.endswith(_EXTENSION):
                try:
                    ctypes.CDLL(origin, mode=os.RTLD_NOW)
                except OSError:  # it lacks a library of the system
                    del self.origins[name]

    def find_spec(self, fullname: str, *_: object) -> Any:
        for suffix in ("/__init__.py", *_EXTENSION, ".py"):
            name = fullname.replace(".", "/") + suffix
            if origin := self.origins.get(name):
                code = _ArchiveLoader(self.archive, name) if suffix.endswith(".py") else None
                loader = code or ExtensionFileLoader(fullname, origin)
                return importlib.util.spec_from_file_location(fullname, origin, loader=loader)
        return None


class _ArchiveLoader(InspectLoader):
    """Loads a module, and reads the resources beside it."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name

    def is_package(self, _: str) -> bool:
        return self._name.endswith("/__init__.py")

    def get_code(self, _: str) -> Any:
        return marshal.loads(self._archive.read(self._name))  # noqa: S302 - the host made it

    def get_source(self, _: str) -> None:
        """Lines of a traceback have no text."""

    def get_data(self, path: str) -> bytes:
        """Return the content of a file beside the module, as :func:`pkgutil.get_data` asks for it."""
        origin = self._archive.getinfo(self._name).comment.decode()
        beside = posixpath.relpath(path, posixpath.dirname(origin))
        name = posixpath.normpath(posixpath.join(self._name, "..", beside))
        return zipfile.Path(self._archive, name).read_bytes()

    def get_resource_reader(self, _: str) -> _ArchiveLoader:
        return self

    def files(self) -> zipfile.Path:
        """Return the package's folder, as :func:`importlib.resources.files` asks for it."""
        return zipfile.Path(self._archive, self._name.removesuffix("__init__.py"))


def import_from_archive(descriptor: int | None, packages: Sequence[str]) -> None:
    """Import from the archive only, from now on; without a descriptor from one that is made here."""
    if sys.platform != "linux":
        return
    if descriptor is None:
        finder = _ArchiveFinder(_build(tuple(_files(packages))))
    else:
        finder = _ArchiveFinder(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        os.close(descriptor)
    zipfile.Path(finder.archive).joinpath("os.py").exists()  # fills its tables once for all forks
    sys.meta_path[:] = [finder if each is PathFinder else each for each in sys.meta_path]
    for module in [each for each in sys.modules.values() if isinstance(each, ModuleType)]:
        spec: Any = vars(module).get("__spec__")
        found = spec and isinstance(spec.loader, SourceFileLoader) and finder.find_spec(spec.name)
        if found:  # its resources are read from the archive too
            spec.loader = module.__loader__ = found.loader
