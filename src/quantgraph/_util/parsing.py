"""Python source parsed safely."""

from __future__ import annotations

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse_code(source: str, name: str = "<unknown>") -> ast.Module:
    """:func:`ast.parse` for threads; what is nested too deeply for it is a ``SyntaxError``, too.

    CPython 3.11 counts the depth of trees for all threads together, so a parse that another one
    crosses may fail. Ours wait for each other; one that a library's own parse crossed is done again.
    """
    with _ONE_AT_A_TIME:
        while True:
            try:
                return ast.parse(source, name)
            except (RecursionError, MemoryError):
                raise SyntaxError("nested too deeply") from None
            except SystemError as error:
                if "recursion depth mismatch" not in str(error):
                    raise
