"""What a run is: configuration, graph, data and code, each in parts, so that a difference can be shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args

import quantgraph
from quantgraph.agents import SignalRule
from quantgraph.broker.decider import Decider
from quantgraph.data import MarketDataSource
from quantgraph.errors import RunMismatch
from quantgraph.llm import get_light_llm, get_llm
from quantgraph.llm.faults import facts_of
from quantgraph.recording import canonical, digest
from quantgraph.run.options import Options
from quantgraph.run.sources import fingerprint
from quantgraph.settings import LIGHT_ROLES, Role, Settings
from quantgraph.subgraphs.signal.kit import Model

__all__ = ["SETTINGS", "Difference", "Identity", "check_same", "code_files", "identity_of"]

Part = Literal["configuration", "graph", "data", "code"]

SETTINGS = (
    "temperature",
    "model_rung",
    "code_timeout",
    "code_memory_mb",
    "code_isolation",
    "audit_cuts",
    "audit_cells",
)
"""Settings that change what a run does. How often and how long a server is asked does not, nor do budgets."""
_ROLES: tuple[Role, ...] = ("reflection", "data_fetch", "signal_generate", "validation", "clarify")
_REMEDY = {
    "configuration": "set it as it was",
    "graph": "use the quantgraph that it was begun with",
    "data": "give the data that it was begun with",
    "code": "use the quantgraph that it was begun with",
}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not as it was; None where it was not, or is not any more."""

    part: Part
    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        if self.part in {"code", "data"}:  # hashes tell nobody anything
            how = "new" if self.old is None else "gone" if self.new is None else "changed"
            return f"{self.name} is {how}"
        return f"{self.name}: {_shown(self.old)} -> {_shown(self.new)}"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Each part maps a name to a JSON value.

    Attributes
    ----------
    configuration
        Options, the settings that matter, and the model of each role with its address.
    graph
        ``always`` or ``conditional`` by edge, ``begin -> signal``.
    data
        What the source holds, see :func:`~quantgraph.run.sources.fingerprint`.
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

    def differences(self, now: Identity) -> list[Difference]:
        """What another one has otherwise."""
        return [
            Difference(part=part, name=name, old=old.get(name), new=new.get(name))
            for part in get_args(Part)
            for old, new in [(getattr(self, part), getattr(now, part))]
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]


def identity_of(
    options: Options,
    *,
    graph: Any,
    source: MarketDataSource,
    model: Model | None,
    settings: Settings,
    decider: Decider | None = None,
) -> Identity:
    """Look at everything that a run of these options would use now."""
    return Identity(
        configuration=_options(options)
        | _decider(decider or SignalRule())
        | {f"settings.{name}": getattr(settings, name) for name in SETTINGS}
        | {f"model.{role}": _model(role, model, settings) for role in _ROLES},
        graph={
            f"{edge.source} -> {edge.target}": "conditional" if edge.conditional else "always"
            for edge in graph.get_graph(xray=True).edges
        },
        data=fingerprint(source),
        code=code_files(),
    )


def check_same(run_id: str, then: Identity, now: Identity) -> None:
    """Refuse to go on with a run as another one.

    Raises
    ------
    RunMismatch
        Naming each part that differs, with the first of its differences; ``data["differences"]`` has all.
    """
    found = then.differences(now)
    if not found:
        return
    told = []
    for part in dict.fromkeys(each.part for each in found):
        of_part = [each for each in found if each.part == part]
        more = f" and {len(of_part) - 1} more" if len(of_part) > 1 else ""
        told.append(f"other {part} ({of_part[0]}{more}; {_REMEDY[part]})")
    raise RunMismatch(
        f"run {run_id} was begun with {', '.join(told)}, or begin a new run",
        run_id=run_id,
        differences=[vars(each) for each in found],
    )


def _options(options: Options) -> dict[str, Any]:
    """All but who answers questions, which is nobody's business but the user's."""
    told = options.as_json()
    rules = told.pop("rules")
    del told["on_clarify"]
    return told | {f"rules.{name}": value for name, value in rules.items()}


def _decider(decider: Decider) -> dict[str, Any]:
    told = dict(getattr(decider, "options", {}))
    return {"decider": decider.name} | {f"decider.{name}": value for name, value in told.items()}


def _model(role: Role, model: Model | None, settings: Settings) -> str:
    choose = get_light_llm if role in LIGHT_ROLES else get_llm
    facts = facts_of(choose(role, model=model, settings=settings))
    return f"{facts.name} at {facts.base_url}" if facts.base_url else facts.name


@cache
def code_files() -> dict[str, str]:
    """A hash of each file of this package, by its path in it."""
    root = Path(quantgraph.__file__).parent
    return {
        str(path.relative_to(root)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
        for path in sorted(root.rglob("*.py"))
    }


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
