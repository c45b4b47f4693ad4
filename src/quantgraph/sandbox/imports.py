"""What generated code may import: the standard library and named packages; others get a clear line."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType

from quantgraph.sandbox.lockdown import PACKAGES

__all__ = ["refuse_other_imports"]

_TOLD = ("numpy", "pandas", "talib")
"""Of the packages that are always readable, those that code is written with."""


class _OtherPackages(MetaPathFinder):
    """A finder that refuses what no other finder may look for."""

    def __init__(self, packages: Collection[str]) -> None:
        self._allowed = frozenset({*PACKAGES, *packages, *sys.stdlib_module_names})
        self._told = ", ".join(sorted({*_TOLD, *packages}))

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


@contextmanager
def refuse_other_imports(packages: Collection[str] = ()) -> Iterator[None]:
    """Within this context modules of other packages are not available, wherever their files are.

    What is imported already stays. This explains what cannot be had: the sealing of the process, not this,
    keeps generated code from other files.

    Parameters
    ----------
    packages
        Packages to allow beside those that are always readable.
    """
    finder = _OtherPackages(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:  # generated code may have removed it
            sys.meta_path.remove(finder)
