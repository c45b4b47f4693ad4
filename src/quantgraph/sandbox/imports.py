"""What generated code may import: the standard library and named packages; others get a clear line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from types import ModuleType

from quantgraph._util.installed_packages import required_packages
from quantgraph.sandbox.lockdown import PACKAGES

_TOLD = ("numpy", "pandas", "talib")
"""Of the packages that are always readable, those that code is written with."""


_more: dict[str, tuple[str, ...]] = {}  # packages that the settings name, with what they require


class _OtherPackages(MetaPathFinder):
    """A finder that refuses what no other finder may look for."""

    def __init__(self) -> None:
        self._allowed = {*PACKAGES, *sys.stdlib_module_names}.union(*_more.values())
        self._told = ", ".join(sorted({*_TOLD, *_more}))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Raise for a module of another package; leave the others to the next finder."""
        package = fullname.partition(".")[0]
        if package not in self._allowed and not package.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(
                f"{package} is not available here; {self._told} and the standard library are", name=fullname
            )


def allow_packages(packages: Sequence[str]) -> tuple[str, ...]:
    """Allow packages in this process for good, import them, and return them with what they require.

    They are imported before the process is sealed, so that the system's libraries that they need are loaded.
    One that is installed and cannot be imported fails where code imports it.
    """
    _more.update({name: required_packages([name]) for name in packages})
    for name in packages:
        with suppress(ImportError):
            importlib.import_module(name)
    return required_packages(packages)


@contextmanager
def refuse_other_imports() -> Iterator[None]:
    """Within this context modules of other packages are not available, wherever their files are.

    What is imported already stays. This explains what cannot be had: the sealing of the process, not this,
    keeps generated code from other files.
    """
    finder = _OtherPackages()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:  # generated code may have removed it
            sys.meta_path.remove(finder)
