"""Names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the package's ``__getattr__``, see PEP 562.

    Parameters
    ----------
    package
        Its ``__name__``.
    modules
        Names by the module below it that defines them. A module of a name's own name would hide it.
    """
    home = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return get
