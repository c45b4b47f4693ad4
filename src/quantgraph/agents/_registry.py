"""Deciders by name or file: what a command can make without Python at hand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from quantgraph._util.canonical_json import content_hash
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.broker import Decider

_PACKAGE = __name__.partition(".")[0]
_GROUP = f"{_PACKAGE}.deciders"
"""Entry points of deciders that a package brings: a name, and a class that is called without arguments."""
_OWN: Mapping[str, tuple[str, str]] = {
    "buy_and_hold": ("quantgraph.report", "BuyAndHold"),
    "signal_rule": ("quantgraph.agents", "SignalRule"),
}
"""Rooms and classes of our own by name; they are imported when one is made."""


def decider_names() -> list[str]:
    """Names of the deciders that are installed."""
    return sorted({*_OWN, *(each.name for each in entry_points(group=_GROUP))})


def _named(name: str) -> Decider | None:
    """A decider by name; one of this package comes before another package's of the same name."""
    if name in _OWN:
        room, class_name = _OWN[name]
        own: type[Decider] = getattr(importlib.import_module(room), class_name)
        return own()
    found = sorted(
        entry_points(group=_GROUP, name=name), key=lambda each: each.module.split(".")[0] != _PACKAGE
    )
    make: type[Decider] | None = found[0].load() if found else None
    return make() if make else None


_MODULE = "quantgraph_decider_"
"""Beginning of the names of modules that are loaded from a file."""


def make_decider(place: str) -> Decider:
    """Make a decider of its name, or of ``FILE.py:CLASS``, whose class is called without arguments.

    The code of the file runs in this process with its rights: a file must be as trusted as this package.
    (:class:`~quantgraph.agents.IsolatedDecider` runs code in a sealed process.)

    Raises
    ------
    BadOption
        If there is no such decider, or the class is not one.
    BadFile
        If the file cannot be read or its code fails.
    """
    named = _named(place)
    file = None if named is not None else _split(place)
    from quantgraph.broker import Decider, check_decider  # a wrong place is refused before this is imported

    if file is None:
        return check_decider(named)
    path, name = file
    module_name = f"{_MODULE}{content_hash(str(path), size=8)}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise BadFile(f"{path} cannot be loaded as Python", file=str(path))
    module = importlib.util.module_from_spec(spec)
    # dataclasses and pickle look the module of a class up by its name.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
        make = getattr(module, name, None)
        made = make() if isinstance(make, type) and issubclass(make, Decider) else None
    except Exception as error:
        raise BadFile(f"{path} fails: {type(error).__name__}: {error}", file=str(path)) from error
    if made is None:
        known = [each for each, value in vars(module).items() if _is_own_decider(value, module_name)]
        raise BadOption(
            f"decider={place}: {path.name} has no such decider; it has {', '.join(known) or 'none'}",
            parameter="decider",
        )
    return check_decider(made)


def given_decider(decider: Decider | str | None) -> Decider | None:
    """Return the decider, made of its place if it is a text, see :func:`make_decider`."""
    return make_decider(decider) if isinstance(decider, str) else decider


def decider_place(decider: Decider | None) -> str | None:
    """Return the place that :func:`make_decider` makes a decider of; None for an object of the caller's.

    A :class:`~quantgraph.agents.SignalRule` has options, of which it is made again.
    """
    made = _named(decider.name) if decider is not None and decider.name != "signal_rule" else None
    if decider is not None and type(decider) is type(made) and decider.options == made.options:
        return decider.name
    file = decider_file(decider)
    return f"{file}:{type(decider).__name__}" if file else None


def decider_file(decider: Decider | None) -> Path | None:
    """Return the file that :func:`make_decider` loaded a decider's class from; None for another decider."""
    module = type(decider).__module__
    return Path(str(sys.modules[module].__file__)) if module.startswith(_MODULE) else None


def _split(place: str) -> tuple[Path, str]:
    file, colon, name = place.rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise BadOption(
            f"decider={place!r} must be one of {', '.join(decider_names())}, or FILE.py:CLASS",
            parameter="decider",
        )
    path = Path(file).absolute()
    if not path.is_file():
        raise BadFile(f"decider={place}: there is no file {file}", file=str(path))
    return path, name


def _is_own_decider(value: object, module: str) -> bool:
    from quantgraph.broker import Decider

    return isinstance(value, type) and issubclass(value, Decider) and value.__module__ == module
