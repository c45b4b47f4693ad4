"""Deciders by name or file: what a command can make without Python at hand."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quantgraph._util.canonical_json import content_hash, file_hash
from quantgraph._util.packages import (
    call_entry,
    code_values,
    entries,
    find_entry,
    is_of_package,
    is_own,
    load_entry,
    package_of,
)
from quantgraph._util.values import json_object
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.broker import Decider

_GROUP = f"{__name__.partition('.')[0]}.deciders"
"""Entry points of deciders that a package brings: a name, and a class that needs no arguments."""
_OWN: Mapping[str, tuple[str, str]] = {
    "buy_and_hold": ("quantgraph.report", "BuyAndHold"),
    "signal_rule": ("quantgraph.agents", "SignalRule"),
}
"""Rooms and classes of our own by name; they are imported when one is made."""


def decider_names() -> list[str]:
    """Names of the deciders that are installed."""
    return sorted({*_OWN, *(each.name for each in entries(_GROUP))})


def _named(name: str, options: Mapping[str, Any]) -> Decider | None:
    """A decider by name, imported now; one of this package comes before another package's."""
    if name in _OWN:
        room, class_name = _OWN[name]
        own: type[Decider] = getattr(importlib.import_module(room), class_name)
        return own(**options)
    entry = find_entry(_GROUP, name)
    if entry is None:
        return None
    from quantgraph.broker import Decider

    found = load_entry(entry)
    if not (isinstance(found, type) and issubclass(found, Decider)):
        raise BadOption(
            f"decider={name}: {entry.value} of {package_of(entry)} must be a subclass of Decider",
            parameter="decider",
        )
    made: Decider = call_entry(entry, **options)
    return made


_PLACE = "_quantgraph_place"
"""Attribute of a decider that was made with options: its place, of which a resume and a replay make it."""
_MODULE = "quantgraph_decider_"
"""Beginning of the names of modules that are loaded from a file."""


def make_decider(place: str) -> Decider:
    """Make a decider of its name, or of ``FILE.py:CLASS``, whose class needs no arguments.

    Behind a ``?`` may be its class's arguments, a JSON object: ``execution?{"rounds": 5}``. A name is one of
    this package, or an entry point of the group ``quantgraph.deciders``. The code runs in this process with
    its rights: a file or package must be as trusted as this package.

    Raises
    ------
    BadOption
        If there is no such decider, the class is not one, or an argument is not valid.
    BadFile
        If the file cannot be read or its code fails.
    """
    name, mark, text = place.partition("?{")
    options = json_object(mark[1:] + text)
    if mark and not options:
        raise BadOption(f"decider={place}: behind the ? must be a JSON object", parameter="decider")
    if isinstance(prompt := options.get("prompt"), str):
        options["prompt"] = str(Path(prompt).expanduser().absolute())  # found from another folder, too
    try:
        made = _made(name, options)
    except (BadFile, TypeError) as error:
        fault = error if isinstance(error, TypeError) else error.__cause__
        if options and isinstance(fault, TypeError):  # the class takes other arguments
            raise BadOption(f"decider={name}: {fault}", parameter="decider") from error
        raise
    if options:
        file, colon, kind = name.rpartition(":")
        whole = f"{Path(file).absolute()}{colon}{kind}" if colon else name
        with suppress(AttributeError):  # of an object with slots the caller names the decider again
            object.__setattr__(made, _PLACE, f"{whole}?{json.dumps(options, ensure_ascii=False)}")
    return made


def _made(place: str, options: Mapping[str, Any]) -> Decider:
    named = _named(place, options)
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
        made = make(**options) if isinstance(make, type) and issubclass(make, Decider) else None
    except BadOption:
        raise
    except Exception as error:
        raise BadFile(f"{path} fails: {type(error).__name__}: {error}", file=str(path)) from error
    if made is None:
        known = [each for each, value in vars(module).items() if _is_own_decider(value, module_name)]
        raise BadOption(
            f"decider={place}: {path.name} has no such decider; it has {', '.join(known) or 'none'}",
            parameter="decider",
        )
    return check_decider(made)


def as_decider(decider: Decider | str | None) -> Decider | None:
    """Return the decider, made of its place if it is a text, see :func:`make_decider`."""
    return make_decider(decider) if isinstance(decider, str) else decider


def decider_place(decider: Decider | None) -> str | None:
    """Return the place that :func:`make_decider` makes a decider of; None for an object of the caller's.

    A :class:`~quantgraph.agents.SignalRule` has options, of which it is made again.
    """
    if decider is None or decider.name == "signal_rule":
        return None
    if place := getattr(decider, _PLACE, None):
        return str(place)
    kind = type(decider)
    name = decider.name if kind.__module__.startswith("quantgraph.") else _entry_name(kind)
    with suppress(BadFile):  # a class with arguments is not made by its name
        made = _named(name, {}) if name else None
        if type(made) is kind and decider.options == made.options:
            return name
    file = _file(decider)
    return f"{file}:{kind.__name__}" if file else None


def _entry_name(kind: type[Decider]) -> str | None:
    """The name of a class in the entry points of its package, which is imported already; None without one."""
    of_package = [each for each in entries(_GROUP) if is_of_package(kind.__module__, each)]
    return next((each.name for each in of_package if load_entry(each) is kind), None)


def recorded_decider_of(name: str, options: Mapping[str, Any]) -> Decider | None:
    """Return a decider of this package made of its recorded options; None for one that is not made so."""
    from quantgraph.broker import ModelDecider

    entry = find_entry(_GROUP, name)
    kind = load_entry(entry) if entry and is_own(entry) else None
    if kind is None or kind.__name__ != options.get("class") or not issubclass(kind, ModelDecider):
        return None
    made: Decider | None = kind.recorded(options)
    return made


def decider_code(decider: Decider) -> dict[str, str]:
    """Return hashes of a decider's code by name: of its file, or of its package with name and version.

    Empty for a decider of this package, and for an object whose class no file or entry point brings.
    """
    file = _file(decider)
    return {"file": file_hash(file)} if file else code_values(_GROUP, type(decider).__module__)


def _file(decider: Decider) -> Path | None:
    """The file that :func:`make_decider` loaded a decider's class from; None for another decider."""
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
