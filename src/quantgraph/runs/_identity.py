"""Identity of a run: configuration, graph, data and code, in parts, so that differences can be shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args

import quantgraph
from quantgraph._util.canonical_json import canonical_json, content_hash, file_hash
from quantgraph._util.texts import short_line
from quantgraph.agents import SignalRule, decider_code, decider_names, make_decider, recorded_decider_of
from quantgraph.broker import DataNeeds, Decider, ModelDecider
from quantgraph.errors import BadOption, RunDiverged, RunMismatch
from quantgraph.llm import KeylessPlanner, Model, get_llm, model_facts
from quantgraph.llm.messages import build_request
from quantgraph.recording import Entry, unrecorded_source
from quantgraph.runs._specification import RunSpec, source_fingerprint
from quantgraph.runtime import OpenResources, settings_of
from quantgraph.runtime.dialogue import OnClarify
from quantgraph.settings import Role, Settings, check_role

Part = Literal["configuration", "graph", "data", "code"]

IDENTITY_SETTINGS = (
    "temperature",
    "tool_calling",
    "fetch",
    "tables",
    "code_timeout",
    "code_memory_mb",
    "code_isolation",
    "sandbox_packages",
    "review",
    "news_until",
    "audit",
)
"""Settings that change what a run does; retries of a server and budgets do not."""
_TABLES = ("tables", "audit")
_ROLES: tuple[Role, ...] = ("reflection", "data_fetch", "signal_generate", "validation", "clarify")
_REMEDY = {
    "configuration": "set it as it was",
    "graph": "use the quantgraph that it was begun with",
    "data": "give the data that it was begun with",
    "code": "use the quantgraph that it was begun with",
}
_DECIDER_REMEDY = "give the one that it was begun with: --decider FILE.py:CLASS, or decider= in Python"
_PACKAGE_REMEDY = "install the version of the package that it was begun with"
_DECIDER = "decider."
_OF_PACKAGE = (
    "decider.package",
    "decider.file.",
    "decider.news.",
    "decider.tool.",
    "source.package",
    "source.file.",
)
"""Beginnings of the names of values that tell the code of a package with an entry point."""
_MAX_WIDTH, _MAX_NAMES, _MAX_PLACE = 60, 5, 200


@dataclass(frozen=True, kw_only=True)
class IdentityDifference:
    """One value that differs; None where there is none on that side."""

    part: Part
    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}{' is ' if self._hashed else ': '}{self.change}"

    @property
    def change(self) -> str:
        """The change without the name; long values are cut."""
        if self._hashed:  # a hash says nothing to a person
            return "new" if self.old is None else "gone" if self.new is None else "changed"
        return " -> ".join(
            short_line("nothing" if side is None else side, _MAX_WIDTH) for side in (self.old, self.new)
        )

    @property
    def _hashed(self) -> bool:
        return self.part in {"code", "data"}


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Each part maps a name to a JSON value."""

    configuration: Mapping[str, Any]
    graph: Mapping[str, Any]
    data: Mapping[str, Any]
    code: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Content hash of all parts, 32 hex digits."""
        return content_hash(canonical_json({part: getattr(self, part) for part in get_args(Part)}))

    def differences(self, now: Identity) -> list[IdentityDifference]:
        """Values that differ from another identity's."""
        return [
            IdentityDifference(part=part, name=name, old=old.get(name), new=new.get(name))
            for part in get_args(Part)
            for old, new in [(getattr(self, part), getattr(now, part))]
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]


def identity_of(spec: RunSpec, graph: Any, resources: OpenResources) -> Identity:
    """Identity that a run of this specification and these resources has now."""
    settings, decider = resources.settings, resources.decider or SignalRule()
    found = _spec_values(spec) | _decider_values(decider) | setting_values(settings) | resources.prompt_values
    for role in (*_ROLES, *map(check_role, ModelDecider.of(decider).roles)):
        found |= _model_values(role, resources.model, settings_of(decider, role, settings))
    return Identity(
        configuration=found,
        graph={
            f"{edge.source} -> {edge.target}": "conditional" if edge.conditional else "always"
            for edge in graph.get_graph(xray=True).edges
        },
        data=source_fingerprint(unrecorded_source(resources.source)),
        code=code_hashes(),
    )


def setting_values(settings: Settings) -> dict[str, Any]:
    """The settings that are part of an identity; each key of a table is a value of its own."""
    values: dict[str, Any] = {}
    for name, value in settings.model_dump(mode="json", include={*IDENTITY_SETTINGS}).items():
        if name in _TABLES:
            values |= {f"settings.{name}.{key}": inner for key, inner in value.items()}
        else:
            values[f"settings.{name}"] = value
    return values


def with_setting_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """``settings`` with the values that :func:`setting_values` returned."""
    tables = {
        name: getattr(settings, name).model_copy(
            update={
                path.removeprefix(f"settings.{name}."): value
                for path, value in values.items()
                if path.startswith(f"settings.{name}.")
            }
        )
        for name in _TABLES
    }
    plain = {name: values[f"settings.{name}"] for name in IDENTITY_SETTINGS if f"settings.{name}" in values}
    return settings.model_copy(update=plain | tables)


def grown_identity(then: Identity, now: Identity) -> Identity:
    """The identity of a run of which the data have grown: what is traded on them is proved by the ledger."""
    computed = ("start", "own.ref", "own.code_hash", "own.data_start", "own.warm_up")
    own = {name: value for name, value in now.configuration.items() if name in computed}
    if now.configuration.get("own.kind") != "frame":
        own.pop("own.code_hash", None)
    return replace(then, data=now.data, configuration={**then.configuration, **own})


def check_identity(run_id: str, then: Identity, now: Identity, *, also: str = "") -> None:
    """Refuse to continue a run under another identity."""
    found = then.differences(now)
    if not found:
        return
    parts = []
    for part in dict.fromkeys(each.part for each in found):
        of_part = [each for each in found if each.part == part]
        more = f" and {len(of_part) - 1} more" if len(of_part) > 1 else ""
        parts.append(f"other {part} ({of_part[0]}{more}; {_remedy(of_part[0])})")
    error = RunMismatch(
        f"run {run_id} was begun with {', '.join(parts)}, or begin a new run" + (f"; {also}" if also else ""),
        run_id=run_id,
        differences=[vars(each) for each in found],
        diff=_diff_text(found),
    )
    error.add_note(error.data["diff"])
    raise error


def _remedy(difference: IdentityDifference) -> str:
    """Say what makes a value again what it was."""
    name, role = difference.name, difference.name.removeprefix("model.")
    if name.startswith(_OF_PACKAGE):
        return _PACKAGE_REMEDY
    if _of_decider(name):
        return _DECIDER_REMEDY
    if role != name and "." not in role and isinstance(difference.old, str):
        is_keyless = difference.old == KeylessPlanner().model_name
        model = "keyless" if is_keyless else difference.old.partition(" at ")[0]
        return f"name {model} in [models] for {role} (QUANTGRAPH_MODELS), or give model= in Python"
    return _REMEDY[difference.part]


def check_same_decider(run_id: str, then: Identity, decider: Decider) -> None:
    """Refuse another decider than the one that the run was begun with."""
    others = {name: value for name, value in then.configuration.items() if not _of_decider(name)}
    check_identity(run_id, then, replace(then, configuration=others | _decider_values(decider)))


def recorded_decider(identity: Identity, place: str | None) -> Decider:
    """The run's decider, made again of its name or, a ``SignalRule`` or a trader, of its options.

    If the run had an object of another kind, it is the default ``SignalRule``.

    Raises
    ------
    BadOption
        If it is no installed one's name, or an option is a file: nothing that a folder names is run or read.
    """
    if place is not None:
        name, _, options = place.partition("?")
        if name not in decider_names() or "/" in options or "\\" in options:
            raise _named_by_caller(place)
        return make_decider(place)
    stored = identity.configuration
    own = {name.removeprefix(_DECIDER): value for name, value in stored.items() if _of_decider(name)}
    if own.get("prompt"):
        raise _named_by_caller(f"{stored['decider']} with the prompt {own['prompt']}")
    if made := recorded_decider_of(stored["decider"], own):
        return made
    if f"{_DECIDER}class" in stored or stored["decider"] != SignalRule().name:
        return SignalRule()
    return SignalRule(signal=stored[f"{_DECIDER}signal"])


def _named_by_caller(place: str) -> BadOption:
    return BadOption(
        f"the run was begun with the decider {short_line(place, _MAX_PLACE)}, a file, and nothing that a "
        "folder names is run or read: if you trust it, name it yourself, --decider FILE.py:CLASS or NAME, or "
        "decider= in Python",
        parameter="decider",
    )


def recorded_on_clarify(spec: RunSpec, entries: Iterable[Entry]) -> OnClarify:
    """How questions are answered: as recorded; a stub stands in for a function.

    A run that was begun with the defaults may have been resumed with a person who answers.
    """
    if spec.on_clarify == "function":
        return _no_answer
    answered = any(entry.key.kind == "answer" and entry.facts.get("role") != "default" for entry in entries)
    return "ask" if answered else spec.on_clarify


def _no_answer(question: Mapping[str, Any]) -> str:
    not_recorded(f"a person: {question['question']}")


def not_recorded(request: str) -> NoReturn:
    """Refuse a request that a replay made of something that it must not use."""
    raise RunDiverged(f"a replay asked for {request}; every request of a replay must be in its record")


@cache
def code_hashes() -> dict[str, str]:
    """A hash of each file of this package, by its path in it."""
    root = Path(quantgraph.__file__).parent
    return {str(path.relative_to(root)): file_hash(path) for path in sorted(root.rglob("*.py"))}


def _spec_values(spec: RunSpec) -> dict[str, Any]:
    """All of the specification but how questions are answered, and the end, which may come later."""
    values = spec.as_json()
    rules, plan = values.pop("rules"), spec.plan.to_json() if spec.plan else {}
    own = values.pop("own") or {}
    if own.get("panel") == "signal":  # as it was before there were others
        own = {name: value for name, value in own.items() if name not in {"panel", "bottom"}}
    own.pop("proof", None)  # it follows from code and data, and counts the looks before it
    del values["on_clarify"], values["plan"], values["end"]
    parts = {f"rules.{name}": value for name, value in rules.items()}
    if values["cash"] is None:  # it is not fixed
        del values["cash"]
    parts |= {f"plan.{name}": value for name, value in plan.items()}
    parts |= {f"params.{name}": value for name, value in own.pop("params", {}).items()}
    return values | parts | {f"own.{name}": value for name, value in own.items()}


def _of_decider(name: str) -> bool:
    return f"{name}.".startswith(_DECIDER)


def _decider_values(decider: Decider) -> dict[str, Any]:
    """Name and options; besides, unless it is ``SignalRule``, its class, roles, prompts and file."""
    values, asking = _json(canonical_json(dict(decider.options))), ModelDecider.of(decider)
    if type(decider) is not SignalRule:
        prompts = {f"prompt.{name}": content_hash(text) for name, text in sorted(asking.prompts.items())}
        values |= {"class": type(decider).__name__, **prompts}
    if asking.roles:
        values["roles"] = list(asking.roles)
    if decider.needs != DataNeeds():
        values["needs"] = _json(canonical_json(asdict(decider.needs)))
    values |= decider_code(decider)
    return {"decider": decider.name} | {_DECIDER + name: value for name, value in values.items()}


def _model_values(role: Role, model: Model | None, settings: Settings) -> dict[str, Any]:
    """What a request to the model shows of it, without secrets."""
    chosen = get_llm(role, model=model, settings=settings)
    request = _json(build_request(chosen, model_facts(chosen), ()).text)
    address = f" at {request['base_url']}" if request["base_url"] else ""
    return {
        f"model.{role}": request["model"] + address,
        f"model.{role}.class": type(chosen).__name__,
        **{f"model.{role}.{name}": value for name, value in request["params"].items()},
    }


def _json(text: str) -> dict[str, Any]:
    """Parse JSON; NaN and the infinities become text, because NaN does not equal itself."""
    values: dict[str, Any] = json.loads(text, parse_constant=str)
    return values


def _diff_text(differences: Sequence[IdentityDifference]) -> str:
    """All differences by part; equal changes share a line."""
    parts: dict[Part, dict[str, list[str]]] = {}
    for each in differences:
        parts.setdefault(each.part, {}).setdefault(each.change, []).append(each.name)
    return "\n".join(
        line
        for part, changes in parts.items()
        for line in (f"{part}:", *(f"  {_joined(names)}: {change}" for change, names in changes.items()))
    )


def _joined(names: list[str]) -> str:
    """The first few names; ``model.*`` stands for the model of every role."""
    first_role = f"model.{_ROLES[0]}"
    for end in [name.removeprefix(first_role) for name in names if name.startswith(first_role)]:
        of_all = {f"model.{role}{end}" for role in _ROLES}
        if of_all <= {*names}:
            names = [f"model.*{end}", *(name for name in names if name not in of_all)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more
