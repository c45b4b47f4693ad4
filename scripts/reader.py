"""Count how far a reader follows a value through the functions that it is handed to.

python scripts/reader.py quantgraph.subgraphs.signal.nodes.reflection:reflection_node state
python scripts/reader.py MODULE:FUNCTION PARAMETER [--source CHECKOUT] [--steps]

The reader begins in a function and goes, in the order of the source, into each function of the package that
is handed the value, or a copy of it with changes, each time that it is called. A *stay* is what is read in
one module without leaving it; a *climb* goes up, from a room into one that lies above it.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "quantgraph"
ROOMS = (
    *("cli", "testing", "integrations", "serving", "runs", "page", "graph", "subgraphs", "agents", "runtime"),
    *("tools", "llm", "recording", "sentences", "report", "audit", "sandbox", "broker", "data", "state"),
    *("market", "settings", "_util", "errors"),
)
"""The rooms of the package from the top, as in docs/architecture.md."""
COPIES = frozenset({"changed", "with_request"})
"""Functions that return the value with changes."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Sources:
    """The modules of the package, parsed when they are asked for."""

    root: Path
    _trees: dict[str, ast.Module | None] = field(default_factory=dict)

    def tree(self, module: str) -> ast.Module | None:
        """Return a module's tree; None for one that is not in the package."""
        if module not in self._trees:
            base = self.root.joinpath(*module.split("."))
            found = next(
                (path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None
            )
            self._trees[module] = ast.parse(found.read_text(encoding="utf-8")) if found else None
        return self._trees[module]

    def function(self, module: str, name: str) -> tuple[str, FunctionNode] | None:
        """Return where a function is defined that a module has by this name, followed through imports."""
        tree = self.tree(module)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, FunctionNode) and node.name == name:
                return module, node
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.function(node.module, alias.name)
        return None


@dataclass
class Visits:
    """What a reader has read, in order."""

    sources: Sources
    read: list[tuple[str, str]] = field(default_factory=list)
    """Module and name of each function."""

    @property
    def modules(self) -> list[str]:
        """The module of each function."""
        return [module for module, _ in self.read]

    @property
    def stays(self) -> int:
        """How often another module is entered, the first included."""
        return 1 + sum(before != after for before, after in pairwise(self.modules))

    @property
    def climbs(self) -> int:
        """How often the reader goes up into a room above."""
        heights = [ROOMS.index(module.split(".")[1]) for module in self.modules]
        return sum(after < before for before, after in pairwise(heights))

    def enter(self, module: str, function: FunctionNode, names: frozenset[str]) -> None:
        """Read a function that has the value under these names."""
        self.read.append((module, function.name))
        for call, bound in _calls(function, names):
            found = self.sources.function(module, call)
            if found is not None and found[1] is not function:
                parameters = _parameters(found[1])
                self.enter(*found, frozenset(name for key in bound if (name := parameters.get(key))))


def _parameters(function: FunctionNode) -> dict[int | str, str]:
    arguments = function.args
    named = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    keywords = {each: each for each in (*named, *(each.arg for each in arguments.kwonlyargs))}
    return {**dict(enumerate(named)), **keywords}


def _calls(function: FunctionNode, names: frozenset[str]) -> Iterator[tuple[str, list[int | str]]]:
    """Yield the calls that are handed the value, in order: the name that is called, and which arguments."""
    known = set(names)
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Call | ast.Assign | ast.AnnAssign)]
    for node in sorted(nodes, key=lambda each: (each.lineno, isinstance(each, ast.Call), each.col_offset)):
        if isinstance(node, ast.Call):
            handed: list[int | str] = [place for place, each in enumerate(node.args) if _is(each, known)]
            handed += [each.arg for each in node.keywords if each.arg and _is(each.value, known)]
            if handed and isinstance(node.func, ast.Name):
                yield node.func.id, handed
        elif node.value is not None and _is(node.value, known):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known |= {each.id for each in targets if isinstance(each, ast.Name)}


def _is(value: ast.expr, names: set[str]) -> bool:
    """Whether an expression is the value, or a copy of it with changes."""
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Dict):
        return any(
            key is None and _is(each, names) for key, each in zip(value.keys, value.values, strict=True)
        )
    is_copy = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in COPIES
    return is_copy and bool(value.args) and _is(value.args[0], names)


def follow(place: str, parameter: str, source: Path = SOURCE) -> Visits:
    """Follow a parameter from a function, ``module:function``."""
    module, _, name = place.partition(":")
    done = Visits(Sources(source))
    found = done.sources.function(module, name)
    if found is None:
        raise SystemExit(f"{place} is not a function; give one as MODULE:FUNCTION")
    done.enter(*found, frozenset({parameter}))
    return done


def main() -> None:
    """Print the figures of a reading."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("place")
    parser.add_argument("parameter")
    parser.add_argument("--source", type=Path, default=SOURCE.parent)
    parser.add_argument("--steps", action="store_true", help="list the functions in the order of reading")
    given = parser.parse_args()
    done = follow(given.place, given.parameter, given.source / "src")
    if given.steps:
        print("\n".join(map(":".join, done.read)))
    print(
        f"{done.stays} stays in {len(set(done.modules))} modules, {done.climbs} climbs, "
        f"{len(done.read)} functions, {len(set(done.read))} different ones"
    )


if __name__ == "__main__":
    main()
