"""Parsing Python, also in several threads."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts the depth of trees for all threads together: two that parse at once may both fail."""


def parse_code(source: str, name: str = "<unknown>") -> ast.Module:
    """:func:`ast.parse`, one thread at a time."""
    with _ONE_AT_A_TIME:
        return ast.parse(source, name)
