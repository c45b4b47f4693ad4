"""Installed packages, what they require and bring by entry points."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from quantgraph._util.canonical_json import file_hash
from quantgraph.errors import BadFile, BadOption, NotConfigured, QuantGraphError

_PROJECT = __name__.partition(".")[0]


def is_package(name: object) -> bool:
    """Return whether a name is of an installed top-level package or module.

    The standard library, packages without a file of their own, and this package are not.
    """
    if not isinstance(name, str) or not name.isidentifier() or name == _PROJECT:
        return False
    if name in sys.stdlib_module_names:
        return False
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a specification, such as __main__
        return False
    return spec is not None and spec.has_location


def required_packages(names: Iterable[str]) -> tuple[str, ...]:
    """Return packages with all that their distributions require without extras, sorted.

    This package is left out; a requirement that is not installed too.
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name == _PROJECT:
            continue
        found.add(name)
        for distribution in distributions_of(name):
            for requirement in metadata.requires(distribution) or ():
                if "extra ==" not in requirement:
                    waiting += _packages_by_distribution().get(_normal(requirement), ())
    return tuple(sorted(found))


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of packages and of what they require; empty for one without a distribution."""
    return {
        name: ", ".join(metadata.version(each) for each in distributions_of(name))
        for name in required_packages(names)
    }


def distributions_of(name: str) -> list[str]:
    """Return the distributions that a top-level package is installed by, which may have other names."""
    return sorted(set(_distributions().get(name, ())))


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


@functools.cache
def _packages_by_distribution() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for package, distributions in _distributions().items():
        if package.isidentifier():
            for distribution in distributions:
                found.setdefault(_normal(distribution), []).append(package)
    return found


def _normal(requirement: str) -> str:
    """Name of a distribution without its versions, in the form in which names are compared."""
    name = re.match(r"[\w.-]+", requirement)  # "numpy>=2"
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""  # "scikit_learn"


def entries(group: str) -> list[metadata.EntryPoint]:
    """Return the entry points of a group by name, this package's first; nothing is imported."""
    found = _entry_points(tuple(sys.path), metadata.entry_points, group)
    return sorted(found, key=lambda each: (each.name, not is_own(each), each.value))


@functools.cache
def _entry_points(
    _: tuple[str, ...], find: Callable[..., Iterable[metadata.EntryPoint]], group: str
) -> tuple[metadata.EntryPoint, ...]:
    """They are in as many files as there are distributions."""
    return tuple(find(group=group))


def find_entry(group: str, name: str) -> metadata.EntryPoint | None:
    """Return the entry point of a name, which is not imported; None if there is none.

    One of this package comes before another package's of the same name; two others are a ``BadOption``.
    """
    found = [each for each in entries(group) if each.name == name]
    if len(found) > 1 and not is_own(found[0]):
        brought = " and ".join(f"{package_of(each)} ({each.value})" for each in found)
        raise BadOption(
            f"{group.partition('.')[2]}: the name {name!r} is brought by {brought}; uninstall all but one",
            parameter=name,
        )
    return found[0] if found else None


def load_entry(entry: metadata.EntryPoint) -> Any:
    """Import what an entry point names; ``BadFile`` if its code fails."""
    with _failing(entry):
        return entry.load()


def call_entry(entry: metadata.EntryPoint, *arguments: Any, **options: Any) -> Any:
    """Call what an entry point names; ``BadFile`` if its code fails."""
    with _failing(entry):
        return entry.load()(*arguments, **options)


@contextmanager
def _failing(entry: metadata.EntryPoint) -> Iterator[None]:
    try:
        yield
    except QuantGraphError:
        raise
    except Exception as error:
        raise BadFile(
            f"{entry.name!r} of {package_of(entry)} fails: {type(error).__name__}: {error}", file=entry.value
        ) from error


@functools.cache
def wing(name: str) -> Any:
    """Return the module of a wing, a part that the core does without, by its entry point."""
    entry = find_entry("quantgraph.wings", name)
    if entry is None:
        raise NotConfigured(f"the wing {name!r} of quantgraph is not installed: install quantgraph again")
    return load_entry(entry)


def package_of(entry: metadata.EntryPoint) -> str:
    """Return the distribution of an entry point and its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else f"a package of {entry.module}"


def entry_of(group: str, module: str) -> metadata.EntryPoint | None:
    """Return an entry point of the package that a module belongs to, if another package than this has one."""
    theirs = (each for each in entries(group) if not is_own(each))
    return next((each for each in theirs if is_of_package(module, each)), None)


def is_of_package(module: str, entry: metadata.EntryPoint) -> bool:
    """Return whether a module is of the top-level package of an entry point."""
    return module.partition(".")[0] == entry.module.partition(".")[0]


def code_values(group: str, module: str, prefix: str = "") -> dict[str, str]:
    """Return distribution, version and file hashes of the package of an entry point that has a module.

    Empty for a module of no such package. Files of Python's cache are left out.
    """
    entry = entry_of(group, module)
    if entry is None:
        return {}
    root = _root(entry.module)
    files = [root] if root.is_file() else sorted(root.rglob("*"))
    hashes = {
        f"{prefix}file.{path.relative_to(root.parent).as_posix()}": file_hash(path)
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }
    return {f"{prefix}package": package_of(entry)} | hashes


def _root(module: str) -> Path:
    """Return the folder of the outermost package with code of its own, or the file of a module alone."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:end]))
        if spec is not None and spec.has_location and spec.origin:
            return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
    raise BadFile(f"{module} has no file, so a run cannot tell which code it is", file=module)


def is_own(entry: metadata.EntryPoint) -> bool:
    """Return whether an entry point is of this package."""
    return is_of_package(_PROJECT, entry)
