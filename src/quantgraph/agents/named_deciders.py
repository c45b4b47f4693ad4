"""Deciders by name or file: what a command can make without Python at hand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from quantgraph._util.canonical_json import content_hash, file_hash
from quantgraph.agents.signal_rule import SignalRule
from quantgraph.broker.decider import Decider, check_decider
from quantgraph.errors import BadFile, BadOption
from quantgraph.report.benchmark import BuyAndHold

__all__ = ["NAMED_DECIDERS", "absolute_place", "decider_file_hash", "make_decider"]

NAMED_DECIDERS: Mapping[str, type[Decider]] = {"buy_and_hold": BuyAndHold, "signal_rule": SignalRule}
"""The package's deciders that need no argument."""


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
    if place in NAMED_DECIDERS:
        return NAMED_DECIDERS[place]()
    path, name = _split(place)
    module_name = f"quantgraph_decider_{content_hash(str(path), size=8)}"
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


def absolute_place(place: str) -> str:
    """Return a decider's place as it can be found from any working directory."""
    if place in NAMED_DECIDERS:
        return place
    path, name = _split(place)
    return f"{path.absolute()}:{name}"


def decider_file_hash(place: str) -> str | None:
    """Return the hash of a decider's file; None for a decider of this package."""
    return None if place in NAMED_DECIDERS else file_hash(_split(place)[0])


def _split(place: str) -> tuple[Path, str]:
    file, colon, name = place.rpartition(":")
    if not (colon and file.endswith(".py") and name.isidentifier()):
        raise BadOption(
            f"decider={place!r} must be one of {', '.join(NAMED_DECIDERS)}, or FILE.py:CLASS",
            parameter="decider",
        )
    path = Path(file)
    if not path.is_file():
        raise BadFile(f"decider={place}: there is no file {path}", file=str(path))
    return path, name


def _is_own_decider(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Decider) and value.__module__ == module
