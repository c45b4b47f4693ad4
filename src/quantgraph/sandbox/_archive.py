"""The archive that sealed code imports from: it can name no file.

It is a zip file with the code objects and resources of the standard library and of packages, under the names
of their files; an entry's comment is the file that the code came from. An extension module is an empty entry.

The host makes it once for these files in the folder of caches, and hands its descriptor to the processes that
it starts. Such a process reads it into its own memory, so that no page of it tells what was imported. It
loads the libraries of all extension modules: of a library that it has, the C library opens no file again.
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
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType

from quantgraph._util.files import write_atomic
from quantgraph._util.packages import required_packages
from quantgraph.settings import load_settings

PACKAGES = ("numpy", "pandas", "talib", "dateutil", "six", "tzdata", "pyarrow")
"""Packages that generated code may import."""

_LEFT_OUT = re.compile(
    r"(.*/)?(tests?|idle_test|__pycache__|site-packages|dist-packages|lib-dynload|config-.*|include)"
    r"|(.*/)?(_test|_xx|xx|_tkinter)[^/]*\.so"  # tkinter's library loads a graphical system's
    r"|.*\.(a|c|cc|cpp|exe|h|hpp|o|pxd|pxi|pyc|pyi|pyx|whl|so\.[\d.]+)"
)
"""Files and folders that no strategy imports or reads."""
_EXTENSION = tuple(EXTENSION_SUFFIXES)
_DIGEST_SIZE = 32

_File = tuple[str, str]
"""Name in the archive, and path."""


def open_archive(packages: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the descriptor of the archive of PACKAGES, of ``packages`` and of what these require.

    It stays open for as long as this process lives. There is none where no system call can be refused.
    """
    if sys.platform != "linux":
        return ()
    files = tuple(_files(required_packages(packages)))
    facts = [(*file, stat.st_size, stat.st_mtime_ns) for file in files for stat in _stats(file[1])]
    kind = _digest(repr((sys.version, sys.flags.optimize, sysconfig.get_path("stdlib"), packages)).encode())
    return (_open(f"{kind.hex()[:16]}-{_digest(repr(facts).encode()).hex()}", files),)


@functools.cache
def _open(name: str, files: tuple[_File, ...]) -> int:
    folder = load_settings().cache_dir / "sandbox"
    with contextlib.suppress(OSError):  # it is not there yet
        content = (folder / name).read_bytes()
        if content[:_DIGEST_SIZE] == _digest(content[_DIGEST_SIZE:]):
            return os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    content = _build(files)
    with contextlib.suppress(OSError):  # no folder that can be written
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / name, content)
        for old in folder.glob(f"{name.partition('-')[0]}-*"):
            if old.name != name:
                old.unlink()
        return os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("archive")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    return descriptor


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def _stats(path: str) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError):
        yield os.stat(path)  # noqa: PTH116 - of thousands of files, and much faster


def _files(packages: Sequence[str]) -> Iterator[_File]:
    library = sysconfig.get_path("stdlib")
    yield from _below(library, "")
    yield from _below(f"{library}/lib-dynload", "")
    for name in sorted({*PACKAGES, *packages}):
        spec = importlib.util.find_spec(name)
        folders = spec and spec.submodule_search_locations
        if folders:
            for folder in folders:
                yield from _below(folder, f"{name}/")
        elif spec and spec.origin:
            yield posixpath.basename(spec.origin), spec.origin


def _below(top: str, prefix: str) -> Iterator[_File]:
    for folder, inner, names in os.walk(top):
        inner[:] = sorted(name for name in inner if not _LEFT_OUT.fullmatch(name))
        for name in sorted(names):
            if not _LEFT_OUT.fullmatch(name):
                path = f"{folder}/{name}"
                yield prefix + path[len(top) + 1 :], path


def _build(files: Sequence[_File]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of code that is not ours
        for name, path in files:
            entry = zipfile.ZipInfo(name)
            with contextlib.suppress(OSError, SyntaxError, ValueError):  # it cannot be imported either
                data = _content(path)
                if path.endswith((".py", *_EXTENSION)):
                    entry.comment = path.encode()
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=1)
    body = content.getvalue()
    return _digest(body) + body


def _content(path: str) -> bytes:
    if path.endswith(_EXTENSION):
        return b""
    if path.endswith(".py"):
        return marshal.dumps(SourceFileLoader("_", path).get_code("_"))
    return Path(path).read_bytes()


class _ArchiveFinder(MetaPathFinder):
    """Finds modules in an archive, in the order in which Python looks into a folder."""

    def __init__(self, content: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(content))  # it finds the end, and passes over the digest
        self.origins = {entry.filename: entry.comment.decode() for entry in self.archive.infolist()}
        for name, origin in list(self.origins.items()):
            if origin.endswith(_EXTENSION):
                try:
                    ctypes.CDLL(origin, mode=os.RTLD_NOW)
                except OSError:  # it lacks a library of the system
                    del self.origins[name]

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the specification of a module of the archive."""
        name = fullname.replace(".", "/")
        for suffix in ("/__init__.py", *_EXTENSION, ".py"):
            if origin := self.origins.get(name + suffix):
                is_code = suffix.endswith(".py")
                loader = _ArchiveLoader(self.archive, name + suffix) if is_code else None
                return importlib.util.spec_from_file_location(
                    fullname, origin, loader=loader or ExtensionFileLoader(fullname, origin)
                )
        return None


class _ArchiveLoader(InspectLoader):
    """Loads a module, and the resources beside it."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._name = archive, name

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002
        """Whether the module has modules below it."""
        return self._name.endswith("/__init__.py")

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """Return the code object."""
        code: CodeType = marshal.loads(self._archive.read(self._name))  # noqa: S302 - the host made it
        return code

    def get_source(self, fullname: str) -> None:
        """Return None: lines of a traceback have no text."""

    def get_data(self, path: str) -> bytes:
        """Return the content of a file beside the module, as :func:`pkgutil.get_data` asks for it."""
        origin = self._archive.getinfo(self._name).comment.decode()
        beside = posixpath.relpath(path, posixpath.dirname(origin))
        try:
            return self._archive.read(posixpath.normpath(posixpath.join(self._name, "..", beside)))
        except KeyError:
            raise FileNotFoundError(path) from None

    def get_resource_reader(self, fullname: str) -> _ArchiveLoader:  # noqa: ARG002
        """Return the reader that :func:`importlib.resources.files` asks."""
        return self

    def files(self) -> zipfile.Path:
        """Return the folder of the package."""
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
        spec: ModuleSpec | None = vars(module).get("__spec__")
        found = spec and isinstance(spec.loader, SourceFileLoader) and finder.find_spec(spec.name)
        if spec and found:  # its resources are read from the archive too
            spec.loader = module.__loader__ = found.loader
