"""Names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562) for names by their module.

    ``modules`` has the names of each module as one text with spaces.
    """
    home = {name: f"{package}.{module}" for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return get, lambda: sorted(home)
