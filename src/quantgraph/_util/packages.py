"""Installed packages with what they require, and Python source parsed safely in several threads."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import metadata

_PROJECT = __name__.partition(".")[0]


def is_package(name: object) -> bool:
    """Return whether a name is that of an installed top-level package or module.

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
    name = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""


_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts the depth of trees for all threads together: two that parse at once may both fail."""


def parse_code(source: str, name: str = "<unknown>") -> ast.Module:
    """:func:`ast.parse`, one thread at a time."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, name)
