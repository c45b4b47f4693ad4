"""Names of a package that are imported when they are first used, so that importing the package is cheap."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from quantgraph._util.parsing import parse_code


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) of a package whose source is a file.

    The names, and where they come from, are what it imports for a type checker: its first ``if`` holds
    nothing but ``from … import …``.
    """
    checked = next(
        node for node in parse_code(Path(file).read_text("utf-8")).body if isinstance(node, ast.If)
    )
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    home = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return get, lambda: sorted(home)
