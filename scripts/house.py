"""Measure the house: size, names used twice, import circles, private imports across packages.

python scripts/house.py                    the whole of src/quantgraph
python scripts/house.py llm state          rooms of it
python scripts/house.py --names            list the names used twice, the circles, the private imports
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "quantgraph"
SHARED_NAMES = frozenset({"__init__", "graph", "state", "nodes", "routes"})
"""Module names that LangGraph projects expect once in each graph."""
SHARED_ROOM = f"{PACKAGE}._util"
"""The one package whose private place is everybody's."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """One source file, parsed."""

    name: str
    path: Path

    @property
    def is_package(self) -> bool:
        """Whether it is the ``__init__`` of a package."""
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        """The package that it is in; of a package, itself."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """Lines of the file."""
        return len(self.text.splitlines())

    def functions(self) -> Iterator[FunctionNode]:
        """Every function and method."""
        return (node for node in ast.walk(self.tree) if isinstance(node, FunctionNode))

    def public_classes(self) -> list[str]:
        """Names of the classes at the top that do not begin with an underscore."""
        names = (node.name for node in self.tree.body if isinstance(node, ast.ClassDef))
        return [name for name in names if not name.startswith("_")]


def modules(source: Path = SOURCE) -> dict[str, Module]:
    """All modules of the package, by dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path)
    return found


def imports(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Modules of the package that a module imports when it runs, at its start or later."""
    found: set[str] = set()
    for node in _running(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name in known and name != module.name}


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _running(node)


def circles(known: Mapping[str, Module]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""
    graph = {name: imports(module, known) for name, module in known.items()}
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in graph[name]:
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in order:
            visit(name)
    return found


def private_imports(known: Mapping[str, Module]) -> list[str]:
    """``importer -> imported`` where a private module, or a private name, of another package is imported.

    A name that its module lists in ``__all__`` is public, whatever it is called.
    """
    found = []
    for name, module in known.items():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(PACKAGE):
                continue
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                if node.module in known and alias.name in _published(known[node.module]):
                    continue
                if not target.startswith(SHARED_ROOM) and _is_foreign(target, module.package):
                    found.append(f"{name} -> {target}")
    return found


def _published(module: Module) -> list[str]:
    """What a module lists in ``__all__``."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _is_foreign(target: str, package: str) -> bool:
    """Whether a dotted name passes through a private part that does not belong to the package."""
    parts = target.split(".")
    owners = (".".join(parts[:place]) for place, part in enumerate(parts) if _is_private(part))
    return any(package != owner and not package.startswith(f"{owner}.") for owner in owners)


def _is_private(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


def classes_used_twice(known: Mapping[str, Module]) -> dict[str, list[str]]:
    """Public classes of one name, with the modules that define them."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in known.items():
        for each in module.public_classes():
            places[each].append(name)
    return {each: where for each, where in sorted(places.items()) if len(where) > 1}


def modules_used_twice(known: Mapping[str, Module]) -> dict[str, list[str]]:
    """Module names that stand in more than one package, but for those that the field expects there.

    The commands of ``cli`` are named for what they do to a run, as the modules of ``runs`` are.
    """
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in known.items():
        base = module.path.stem.lstrip("_")
        if module.path.stem not in SHARED_NAMES and not name.startswith(f"{PACKAGE}.cli."):
            places[base].append(name)
    return {each: where for each, where in sorted(places.items()) if len(where) > 1}


def body_lines(function: FunctionNode) -> int:
    """Lines of a function's body without its docstring."""
    first, *rest = function.body
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    body = rest if is_text and rest else function.body
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1


def parameters(function: FunctionNode) -> int:
    """How many parameters a function has, ``self`` and ``cls`` not counted."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def measured(rooms: Mapping[str, Module], known: Mapping[str, Module]) -> dict[str, str]:
    """The figures of some modules, among all that are known."""
    sizes = {name: module.lines for name, module in rooms.items()}
    greatest = max(sizes, key=lambda name: sizes[name])
    functions = [function for module in rooms.values() for function in module.functions()]
    bodies = sorted(map(body_lines, functions))
    public = [function for function in functions if not function.name.startswith("_")]
    most = max(public, key=parameters)
    counts = [parameters(function) for function in public]
    return {
        "lines": f"{sum(sizes.values()):,}",
        "modules": str(len(rooms)),
        "lines of a module, median": f"{statistics.median(sizes.values()):.0f}",
        "lines of the greatest": f"{sizes[greatest]} ({greatest})",
        "lines of a function's body, median": f"{statistics.median(bodies):.0f}",
        "the same, nine of ten are at most": str(bodies[len(bodies) * 9 // 10]),
        "the same, longest": str(bodies[-1]),
        "public functions' parameters, median": f"{statistics.median(counts):.0f}",
        "the same, most": f"{parameters(most)} ({most.name})",
        "public functions with more than 8": str(sum(count > 8 for count in counts)),
        "public classes of one name": str(len(_within(classes_used_twice(known), rooms))),
        "module names used twice": str(len(_within(modules_used_twice(known), rooms))),
        "import circles": str(sum(any(name in rooms for name in group) for group in circles(known))),
        "private imports across packages": str(
            sum(line.split(" -> ")[0] in rooms for line in private_imports(known))
        ),
    }


def _within(twice: Mapping[str, list[str]], rooms: Mapping[str, Module]) -> dict[str, list[str]]:
    return {name: where for name, where in twice.items() if any(each in rooms for each in where)}


def by_room(known: Mapping[str, Module]) -> list[tuple[str, int, int]]:
    """``(room, modules, lines)`` of each folder and file directly in the package."""
    rooms: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name, module in known.items():
        room = [*name.split("."), "quantgraph"][1]
        rooms[room] += 1
        lines[room] += module.lines
    return [(room, rooms[room], lines[room]) for room in sorted(rooms)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("rooms", nargs="*", help="packages, as llm or subgraphs.signal; default: all")
    parser.add_argument("--names", action="store_true", help="list what is used twice, circular or private")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the folder that holds the package")
    given = parser.parse_args()
    known = modules(given.source)
    wanted = [f"{PACKAGE}.{room}" for room in given.rooms] or [PACKAGE]
    rooms = {
        name: module
        for name, module in known.items()
        if any(name == room or name.startswith(f"{room}.") for room in wanted)
    }
    if not rooms:
        parser.error(f"no such room: {', '.join(given.rooms)}")
    for what, figure in measured(rooms, known).items():
        print(f"{what:40} {figure}")
    if not given.rooms:
        print()
        for room, count, lines in by_room(known):
            print(f"{room:14} {count:4} modules {lines:7,} lines")
    if given.names:
        for title, twice in (("classes", classes_used_twice(known)), ("modules", modules_used_twice(known))):
            print(f"\n{title} of one name")
            for name, where in _within(twice, rooms).items():
                print(f"  {name}: {', '.join(each.removeprefix(f'{PACKAGE}.') for each in where)}")
        print("\ncircles")
        for group in circles(known):
            print("  " + ", ".join(each.removeprefix(f"{PACKAGE}.") for each in group))
        print("\nprivate imports across packages")
        for line in private_imports(known):
            print("  " + line.replace(f"{PACKAGE}.", ""))


if __name__ == "__main__":
    main()
