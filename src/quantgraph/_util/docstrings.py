"""Docstrings that are shown to models, also under ``python -OO``, which drops them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any, TypeVar, cast

Described = TypeVar("Described", bound=Callable[..., Any])


def with_docstring(described: Described) -> Described:
    """Give a function or class the docstring of its source, if it has lost it."""
    if described.__doc__ is None:
        (node,) = ast.parse(dedent(inspect.getsource(described))).body
        described.__doc__ = ast.get_docstring(cast("ast.FunctionDef | ast.ClassDef", node), clean=False)
    return described
