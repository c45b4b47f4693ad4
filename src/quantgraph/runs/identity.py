"""What a run is: configuration, graph, data and code, each in parts, so that a difference can be shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import quantgraph
from quantgraph.agents import SignalRule
from quantgraph.broker.decider import Decider
from quantgraph.errors import RunMismatch
from quantgraph.llm import get_light_llm, get_llm
from quantgraph.llm.faults import model_facts
from quantgraph.llm.model_json import build_request
from quantgraph.recording import canonical, digest
from quantgraph.runs.resources import Resources
from quantgraph.runs.options import RunSpec
from quantgraph.runs.source_spec import source_fingerprint
from quantgraph.settings import LIGHT_ROLES, Role, Settings
from quantgraph.llm.models import Model

__all__ = [
    "IDENTITY_SETTINGS",
    "IdentityDifference",
    "Identity",
    "check_decider",
    "check_same",
    "code_files",
    "identity_of",
]

Part = Literal["configuration", "graph", "data", "code"]

IDENTITY_SETTINGS = (
    "temperature",
    "model_rung",
    "code_timeout",
    "code_memory_mb",
    "code_isolation",
    "audit_cuts",
    "audit_cells",
    "audit_seed",
)
"""Settings that change what a run does. How often and how long a server is asked does not, nor do budgets."""
_ROLES: tuple[Role, ...] = ("reflection", "data_fetch", "signal_generate", "validation", "clarify")
_REMEDY = {
    "configuration": "set it as it was",
    "graph": "use the quantgraph that it was begun with",
    "data": "give the data that it was begun with",
    "code": "use the quantgraph that it was begun with",
}
_GIVE_DECIDER = "give the one that it was begun with as decider= in Python: replay, replay_from, resume_run"
_WIDTH, _NAMED = 60, 5


@dataclass(frozen=True, kw_only=True)
class IdentityDifference:
    """One thing that is not as it was; None where it was not, or is not any more."""

    part: Part
    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}{' is ' if self._hashed else ': '}{self.change}"

    @property
    def change(self) -> str:
        """What became of it, without its name; a long value is cut."""
        if self._hashed:  # hashes tell nobody anything
            return "new" if self.old is None else "gone" if self.new is None else "changed"
        return " -> ".join(_cut(side) for side in (self.old, self.new))

    @property
    def _hashed(self) -> bool:
        return self.part in {"code", "data"}


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Each part maps a name to a JSON value.

    Attributes
    ----------
    configuration
        Options, the settings that matter, and the model of each role: name and address, class, parameters.
    graph
        ``always`` or ``conditional`` by edge, ``begin -> signal``.
    data
        What the source holds, see :func:`~quantgraph.runs.source_spec.source_fingerprint`.
    code
        A hash of each file of this package; prompts are in them.
    """

    configuration: Mapping[str, Any]
    graph: Mapping[str, Any]
    data: Mapping[str, Any]
    code: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Name of the whole by its content, 32 hex digits."""
        return digest(canonical({part: getattr(self, part) for part in get_args(Part)}))

    def differences(self, now: Identity) -> list[IdentityDifference]:
        """What another one has otherwise."""
        return [
            IdentityDifference(part=part, name=name, old=old.get(name), new=new.get(name))
            for part in get_args(Part)
            for old, new in [(getattr(self, part), getattr(now, part))]
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]


def identity_of(options: RunSpec, graph: Any, handles: Resources) -> Identity:
    """Look at everything that a run of these options would use now."""
    settings = handles.settings
    configuration = (
        _options(options)
        | _decider(handles.decider or SignalRule())
        | {f"settings.{name}": getattr(settings, name) for name in IDENTITY_SETTINGS}
    )
    for role in _ROLES:
        configuration |= _model(role, handles.model, settings)
    return Identity(
        configuration=configuration,
        graph={
            f"{edge.source} -> {edge.target}": "conditional" if edge.conditional else "always"
            for edge in graph.get_graph(xray=True).edges
        },
        data=source_fingerprint(handles.source),
        code=code_files(),
    )


def check_same(run_id: str, then: Identity, now: Identity, *, also: str = "") -> None:
    """Refuse to go on with a run as another one.

    Parameters
    ----------
    also
        What is another, too, and no reason to refuse it; empty if nothing is.

    Raises
    ------
    RunMismatch
        Naming each part that differs, with the first of its differences; ``data["differences"]`` has all, and
        ``data["diff"]`` shows them.
    """
    found = then.differences(now)
    if not found:
        return
    told = []
    for part in dict.fromkeys(each.part for each in found):
        of_part = [each for each in found if each.part == part]
        more = f" and {len(of_part) - 1} more" if len(of_part) > 1 else ""
        remedy = _REMEDY[part] if not _of_decider(of_part[0].name) else _GIVE_DECIDER
        told.append(f"other {part} ({of_part[0]}{more}; {remedy})")
    error = RunMismatch(
        f"run {run_id} was begun with {', '.join(told)}, or begin a new run" + (f"; {also}" if also else ""),
        run_id=run_id,
        differences=[vars(each) for each in found],
        diff=_shown(found),
    )
    error.add_note(error.data["diff"])
    raise error


def check_decider(run_id: str, then: Identity, decider: Decider) -> None:
    """Refuse another decider than a run was begun with.

    Raises
    ------
    RunMismatch
        As from :func:`check_same`.
    """
    others = {name: value for name, value in then.configuration.items() if not _of_decider(name)}
    check_same(run_id, then, replace(then, configuration=others | _decider(decider)))


def _of_decider(name: str) -> bool:
    return name.partition(".")[0] == "decider"


def _shown(differences: Sequence[IdentityDifference]) -> str:
    """All of them to read, by part; what changed alike is one line."""
    parts: dict[Part, dict[str, list[str]]] = {}
    for each in differences:
        parts.setdefault(each.part, {}).setdefault(each.change, []).append(each.name)
    return "\n".join(
        line
        for part, changes in parts.items()
        for line in (f"{part}:", *(f"  {_few(names)}: {change}" for change, names in changes.items()))
    )


def _options(options: RunSpec) -> dict[str, Any]:
    """All but who answers questions, which is nobody's business but the user's."""
    told = options.as_json()
    rules = told.pop("rules")
    del told["on_clarify"]
    return told | {f"rules.{name}": value for name, value in rules.items()}


def _decider(decider: Decider) -> dict[str, Any]:
    """Name and options, and the class of one that is not the package's rule."""
    told = _json(canonical(dict(getattr(decider, "options", {}))))
    kind = {} if type(decider) is SignalRule else {"class": type(decider).__name__}
    return {"decider": decider.name} | {f"decider.{name}": value for name, value in (told | kind).items()}


def _model(role: Role, model: Model | None, settings: Settings) -> dict[str, Any]:
    """What a request to it says of it: nothing secret, and nothing that is no JSON."""
    choose = get_light_llm if role in LIGHT_ROLES else get_llm
    chosen = choose(role, model=model, settings=settings)
    said = _json(build_request(chosen, model_facts(chosen), ()).text)
    place = f" at {said['base_url']}" if said["base_url"] else ""
    return {
        f"model.{role}": said["model"] + place,
        f"model.{role}.class": type(chosen).__name__,
        **{f"model.{role}.{name}": value for name, value in said["params"].items()},
    }


def _json(text: str) -> dict[str, Any]:
    """As ``run.json`` gives it back; NaN and the infinities are texts, for NaN is not what it was."""
    told: dict[str, Any] = json.loads(text, parse_constant=str)
    return told


@cache
def code_files() -> dict[str, str]:
    """A hash of each file of this package, by its path in it."""
    root = Path(quantgraph.__file__).parent
    return {
        str(path.relative_to(root)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
        for path in sorted(root.rglob("*.py"))
    }


def _cut(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _few(names: list[str]) -> str:
    """The first of them; what is so for the model of every role is ``model.*``."""
    of_first = f"model.{_ROLES[0]}"
    for end in [name.removeprefix(of_first) for name in names if name.startswith(of_first)]:
        of_all = {f"model.{role}{end}" for role in _ROLES}
        if of_all <= {*names}:
            names = [f"model.*{end}", *(name for name in names if name not in of_all)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
