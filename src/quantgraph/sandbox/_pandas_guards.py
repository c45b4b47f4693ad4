"""What generated code may import, and operators of pandas that mean something else on object dtype.

``above.shift(1)`` of a boolean frame has NaN in its first row and therefore object dtype, which
``fillna(False)`` keeps. There ``~True`` is -2, which counts as true, and a rule that is written so trades
wrongly in silence.
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_bool_dtype, is_object_dtype

from quantgraph._util.packages import required_packages
from quantgraph.sandbox._archive import PACKAGES

_TOLD = ("numpy", "pandas", "talib")
"""Of the packages that are always readable, those that code is written with."""


_more: dict[str, tuple[str, ...]] = {}  # packages that the settings name, with what they require


class _OtherPackages:
    """A finder that refuses what no other finder may look for."""

    def __init__(self) -> None:
        self._allowed = {*PACKAGES, *sys.stdlib_module_names}.union(*_more.values())
        self._listed = ", ".join(sorted({*_TOLD, *_more}))

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise for a module of another package; leave the others to the next finder."""
        package = fullname.partition(".")[0]
        if package not in self._allowed and not package.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(
                f"{package} is not available here; {self._listed} and the standard library are", name=fullname
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


INVERT_NAME = "__checked_invert__"
"""Name of :func:`invert` in the namespace of cells."""

_WHY = "shift, reindex and where make objects of booleans, and fillna(False) leaves them so"
_WRITE = "write above.shift(1, fill_value=False), or .fillna(False).astype(bool)"
_LOGICAL = {"__and__": "&", "__or__": "|", "__xor__": "^"}
_MINUS = ("__sub__", "__rsub__", "sub", "subtract", "rsub")
_ABSENT = object()


@contextmanager
def refuse_object_operators() -> Iterator[None]:
    """Within this context ``~``, ``&``, ``|``, ``^`` and ``-`` of pandas raise TypeError on objects.

    ``-`` is refused where numpy refuses it for the same values as booleans: objects of other kinds, such as
    decimals and dates, are subtracted as ever. Methods and ufuncs of the operators are included. It changes
    pandas for the whole process: only for a process that runs generated code.
    """
    checks: dict[str, tuple[str, Callable[..., bool]]] = {
        "__invert__": ("~", _has_objects),
        "__array_ufunc__": ("~", _is_invert_of_objects),  # the one ufunc that pandas applies itself
    }
    for name, symbol in _LOGICAL.items():
        checks |= dict.fromkeys((name, name.replace("__", "__r", 1)), (symbol, _has_objects))
    checks |= dict.fromkeys(("__neg__", *_MINUS), ("-", _are_boolean_objects))
    before = [
        (owner, name, vars(owner).get(name, _ABSENT))
        for owner in (pd.DataFrame, pd.Series)
        for name in checks
    ]
    for owner, name, _ in before:
        setattr(owner, name, _guard(getattr(owner, name), *checks[name]))
    try:
        yield
    finally:
        for owner, name, method in before:
            if method is not _ABSENT:
                setattr(owner, name, method)
            elif name in vars(owner):  # generated code may have removed it
                delattr(owner, name)


def _guard(method: Callable[..., Any], symbol: str, is_refused: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(*operands: Any, **options: Any) -> Any:
        if is_refused(*operands[:2]):
            raise TypeError(_message(symbol))
        return method(*operands, **options)

    return checked


def invert(operand: Any) -> Any:
    """Return ``~operand``; what generated code that is went through :func:`add_invert_checks` calls."""
    if isinstance(operand, bool):
        raise TypeError("~ of a Python bool counts: ~True is -2 and ~False is -1, both true; write not")
    if _has_objects(operand):
        raise TypeError(_message("~"))
    return ~operand


def add_invert_checks(tree: ast.Module) -> None:
    """Write each ``~x`` of a syntax tree as a call of :func:`invert`, by the name ``INVERT_NAME``.

    Arrays of numpy and Python's own bools have operators that no process can change.
    """
    for node in reversed(list(ast.walk(tree))):  # the operands first; no recursion, code may be deep
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                value[:] = map(_checked_invert, value)
            else:
                setattr(node, name, _checked_invert(value))


def _checked_invert(node: Any) -> Any:
    if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)):
        return node
    call = ast.Call(func=ast.Name(INVERT_NAME, ast.Load()), args=[node.operand], keywords=[])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _message(symbol: str) -> str:
    if symbol == "-":
        return (
            "- takes no booleans, and as objects True and False are the numbers 1 and 0; "
            "write a & ~b for 'a and not b', or .astype(float) to count them"
        )
    what = "there ~True is -2, not False" if symbol == "~" else "there True and False may be numbers"
    return f"{symbol} on object dtype: {what}. {_WHY}; {_WRITE}"


def _dtypes(operand: Any) -> list[Any]:
    if isinstance(operand, pd.DataFrame):
        common = operand.to_numpy().dtype  # of a frame with one dtype a view, much faster than its dtypes
        return [common] if not is_object_dtype(common) else list({*operand.dtypes.tolist()})
    return [operand.dtype] if isinstance(operand, pd.Series | pd.Index | np.ndarray) else []


def _has_objects(*operands: Any) -> bool:
    return any(is_object_dtype(dtype) for operand in operands for dtype in _dtypes(operand))


def _is_invert_of_objects(operand: Any, ufunc: np.ufunc) -> bool:
    return ufunc is np.invert and _has_objects(operand)


def _are_boolean_objects(*operands: Any) -> bool:
    return _has_objects(*operands) and all(map(_has_booleans, operands))


def _has_booleans(operand: Any) -> bool:
    if isinstance(operand, pd.DataFrame):
        return any(_has_booleans(operand.iloc[:, place]) for place in range(operand.shape[1]))
    if not isinstance(operand, pd.Series | pd.Index | np.ndarray):
        return isinstance(operand, bool | np.bool_)
    if not is_object_dtype(operand.dtype):
        return bool(is_bool_dtype(operand.dtype))
    return infer_dtype(np.asarray(operand).ravel(), skipna=True) == "boolean"
