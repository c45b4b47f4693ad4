"""Measure the house: its size, its doors, and imports that go around a door or in a circle.

python scripts/house.py                    the whole of src/quantgraph, beside its ceilings
python scripts/house.py llm state          rooms of it
python scripts/house.py --names            list the circles and the imports around a face
python scripts/house.py --check            print what is circular, around a face or above a ceiling, and fail
python scripts/house.py --faces            list each face with its names, as tests/faces.txt keeps them
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "quantgraph"
OPEN = frozenset({f"{PACKAGE}._util", f"{PACKAGE}.errors", f"{PACKAGE}.settings"})
"""What every room may use by module: the shared helpers, the errors and the settings."""
CEILINGS = {
    "lines of the longest function's body": 50,
    "imports around a face": 0,
    "import circles, types included": 0,
    "lines with words of our own": 32,
}
"""What the house may measure at most; its lines are held by FEATURES.toml."""
OWN_WORDS = re.compile(r"(?<![A-Za-z])(desk|rung|lane|whoever|doubtful|unread)s?(?![a-z])")
"""Words that a reader of the field would not search for, in code and prose; they only become fewer."""
FACE_NAMES, FACE_LINES = 20, 30
FIXED = frozenset(
    """
    create_signal_subgraph SignalSubgraphState map_to_subgraph_state map_to_main_state
    reflection_node data_fetch_node signal_generate_node clarify_node validation_node
    route_from_reflection route_after_data_fetch route_after_signal_gen route_after_validation
    route_after_clarify
    REFLECTION_NODE_PROMPT DATA_FETCH_AGENT_PROMPT SIGNAL_GENERATE_AGENT_PROMPT CLARIFY_NODE_PROMPT
    VALIDATION_NODE_PROMPT GLOBAL_DATA_STATE get_llm get_light_llm tushare_daily_bar tushare_daily_basic
    decide_batch_dual_agent filter_stocks_needing_fundamental _prompt_dir _load_prompt _prompt_version
    _filter_hallucination_decisions _validate_decision_logic _extract_decision_tags
    _decide_batch_portfolio_dual_agent PipelineContext traced_agent EpisodicMemory DecisionEpisode
    """.split()  # noqa: SIM905 - a table of names
)
"""Names that the project's design documents fix; a face has them beside its own."""

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
    def room(self) -> str:
        """The folder or file directly in the package that it belongs to."""
        return ".".join(self.name.split(".")[:2])

    @property
    def is_visible(self) -> bool:
        """Whether no part of its name is private."""
        return not any(part.startswith("_") and not part.startswith("__") for part in self.name.split("."))

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

    @cached_property
    def exported(self) -> list[str]:
        """What it lists in ``__all__``."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return [str(name) for name in ast.literal_eval(node.value)]
        return []

    @cached_property
    def homes(self) -> dict[str, str]:
        """Of a face: the module that each of its names comes from."""
        return {
            alias.name: node.module
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
            if alias.name in self.exported
        }

    def functions(self) -> Iterator[FunctionNode]:
        """Every function and method."""
        return (node for node in ast.walk(self.tree) if isinstance(node, FunctionNode))

    def imports(self) -> Iterator[tuple[str, str]]:
        """``(module, name)`` of each name that it imports from this package, at its start or later."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                yield from ((node.module or "", alias.name) for alias in node.names)


def modules(source: Path = SOURCE) -> dict[str, Module]:
    """All modules of the package, by dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path)
    return found


def imports(module: Module, known: Mapping[str, Module]) -> set[str]:
    """Modules of the package that a module needs, for types too; a face's name leads to its home."""
    found: set[str] = set()
    for place, name in module.imports():
        inner = f"{place}.{name}"
        home = known[place].homes.get(name, place) if place in known else place
        found.add(inner if inner in known else home)
    return {name for name in found if name in known and name != module.name}


def circles(known: Mapping[str, Module]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others; faces only hand names out."""
    graph = {name: set() if module.homes else imports(module, known) for name, module in known.items()}
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


def around_faces(known: Mapping[str, Module]) -> list[str]:
    """``importer -> module.name`` where a module takes a name of another room from behind its face."""
    return [
        f"{module.name} -> {place}.{name}"
        for module in known.values()
        for place, name in module.imports()
        if place in known and known[place].room not in (module.room, *OPEN) and place != PACKAGE
        if not known[place].is_package or name not in known[place].exported
    ]


def faces(known: Mapping[str, Module]) -> dict[str, list[str]]:
    """Names of each face by package."""
    return {name: sorted(module.exported) for name, module in known.items() if module.is_package}


def statement_lines(module: Module) -> int:
    """Lines of code: no blanks, comments, docstrings, imports, ``__all__``, nor heads of functions."""
    form: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, FunctionNode):
            form.update(range(node.lineno, max(node.lineno + 1, node.body[0].lineno)))
        for each in _form_of(node):
            form.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    lines = enumerate(module.text.splitlines(), start=1)
    return sum(number not in form and line.strip()[:1] not in ("", "#") for number, line in lines)


def _form_of(node: ast.AST) -> Iterator[ast.stmt]:
    """The imports, the docstring or the list of names that a node is or has."""
    is_list = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    if isinstance(node, ast.stmt) and (is_list or isinstance(node, (ast.Import, ast.ImportFrom))):
        yield node
    elif isinstance(node, (FunctionNode, ast.ClassDef, ast.Module)) and ast.get_docstring(node) is not None:
        yield node.body[0]


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


def _functions(known: Mapping[str, Module]) -> list[FunctionNode]:
    return [function for module in known.values() for function in module.functions()]


def figures(known: Mapping[str, Module]) -> dict[str, int]:
    """What has a ceiling, see :data:`CEILINGS`."""
    return {
        "lines of the longest function's body": max(map(body_lines, _functions(known)), default=0),
        "imports around a face": len(around_faces(known)),
        "import circles, types included": len(circles(known)),
        "lines with words of our own": sum(
            bool(OWN_WORDS.search(line)) for module in known.values() for line in module.text.splitlines()
        ),
    }


def broken(known: Mapping[str, Module]) -> list[str]:
    """What breaks the plan: circles, imports around a face, figures above their ceilings."""
    above = [
        f"{what}: {n:,}, at most {CEILINGS[what]:,}"
        for what, n in figures(known).items()
        if n > CEILINGS[what]
    ]
    return [*(", ".join(group) for group in circles(known)), *around_faces(known), *above]


def shapes(known: Mapping[str, Module]) -> dict[str, str]:
    """Sizes of modules and functions."""
    sizes = {name: module.lines for name, module in known.items()}
    greatest = max(sizes, key=lambda name: sizes[name])
    functions = _functions(known)
    bodies = sorted(map(body_lines, functions))
    most = max((each for each in functions if not each.name.startswith("_")), key=parameters)
    exported = {name for names in faces(known).values() for name in names} - FIXED
    return {
        "lines": f"{sum(module.lines for module in known.values()):,}",
        "lines of statements": f"{sum(map(statement_lines, known.values())):,}",
        "modules": f"{len(known)}",
        "modules that a stranger sees": f"{sum(module.is_visible for module in known.values())}",
        "exported names": f"{len(exported)}",
        "lines of a module, median": f"{statistics.median(sizes.values()):.0f}",
        "lines of the greatest": f"{sizes[greatest]} ({greatest})",
        "lines of a function's body, median": f"{statistics.median(bodies):.0f}",
        "the same, 95 of 100 are at most": str(bodies[len(bodies) * 95 // 100]),
        "most parameters of a public function": f"{parameters(most)} ({most.name})",
    }


def by_room(known: Mapping[str, Module]) -> list[tuple[str, int, int]]:
    """``(room, modules, lines)`` of each folder and file directly in the package."""
    rooms: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for name, module in known.items():
        room = [*name.split("."), PACKAGE][1]
        rooms[room] += 1
        lines[room] += module.lines
    return [(room, rooms[room], lines[room]) for room in sorted(rooms)]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("rooms", nargs="*", help="packages, as llm or subgraphs.signal; default: all")
    parser.add_argument("--names", action="store_true", help="list circles and imports around a face")
    parser.add_argument("--check", action="store_true", help="print what breaks the plan, and fail")
    parser.add_argument("--faces", action="store_true", help="list the faces and their names")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the folder that holds the package")
    given = parser.parse_args()
    known = modules(given.source)
    if given.faces:
        print(faces_text(known), end="")
        return
    if given.check:
        found = broken(known)
        print(*found, sep="\n", end="\n" if found else "")
        raise SystemExit(bool(found))
    wanted = [f"{PACKAGE}.{room}" for room in given.rooms] or [PACKAGE]
    rooms = {
        name: module
        for name, module in known.items()
        if any(name == room or name.startswith(f"{room}.") for room in wanted)
    }
    if not rooms:
        parser.error(f"no such room: {', '.join(given.rooms)}")
    for what, figure in figures(known if not given.rooms else rooms).items():
        print(f"{what:40} {figure:,}" + ("" if given.rooms else f"  (at most {CEILINGS[what]:,})"))
    for what, shape in shapes(rooms).items():
        print(f"{what:40} {shape}")
    if not given.rooms:
        print()
        for room, count, lines in by_room(known):
            print(f"{room:14} {count:4} modules {lines:7,} lines")
    if given.names:
        for title, found in (
            ("circles", [", ".join(group) for group in circles(known)]),
            ("imports around a face", around_faces(known)),
        ):
            print(f"\n{title}", *found, sep="\n  ")


def faces_text(known: Mapping[str, Module]) -> str:
    """The faces as text, one name a line below its package."""
    return "".join(
        f"{package}\n" + "".join(f"    {name}\n" for name in names)
        for package, names in sorted(faces(known).items())
        if names
    )


if __name__ == "__main__":
    main()
