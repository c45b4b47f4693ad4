"""Where an agent's cells run, and which of them its signals need.

A cell is left out where its syntax shows that it only looked: it neither publishes nor changes anything, and
binds no name that a kept cell reads. In doubt it is kept.

Trusted code runs in this process by LangChain's Python tool, whose package is being sunset. It is imported
here only: without it, the base class is ``BaseTool``.
"""

from __future__ import annotations

import ast
import re
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from langchain_core.callbacks import CallbackManagerForToolRun
from pydantic import PrivateAttr

from quantgraph._util.parsing import parse_code
from quantgraph.errors import CodeFailed
from quantgraph.sandbox import (
    Cell,
    CellOutcome,
    CodeResult,
    CodeRunner,
    cell_namespace,
    check_signal_axes,
    code_error,
    new_signals,
    run_cells,
    runner_of,
)
from quantgraph.sandbox.wire import Frames
from quantgraph.settings import Settings
from quantgraph.state import DataState, Fields

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_STATE = "GLOBAL_DATA_STATE"
_STATE_READS = {"snapshot", "get_field"}
_BY_NAME = {"exec", "eval", "globals", "locals", "vars"}
"""Functions that reach names which the syntax does not show."""
# fmt: off
_LOOKING = {
    "abs", "all", "any", "bool", "callable", "dict", "dir", "divmod", "enumerate", "filter", "float",
    "format", "frozenset", "getattr", "hasattr", "hash", "help", "id", "int", "isinstance", "issubclass",
    "len", "list", "map", "max", "min", "pow", "print", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "type", "zip",
}
# fmt: on
_ONCE = {"zip", "map", "filter", "enumerate", "reversed", "iter", "open"}
"""Functions whose values are used up by looking at them."""
_MODULES = {"np", "pd", "talib", "math", "statistics", "itertools", "datetime", "json", "re", "inspect"}
"""Modules whose functions change nothing, but for those below."""
_CHANGES = re.compile(  # "append"
    r"(append|extend|insert|remove|pop|popitem|clear|sort|add|discard|update|setdefault|fill|place|put\w*|copyto"
    r"|send|throw|close|write\w*|to_(csv|pickle|parquet|json|excel|sql)|(set|reset|register|fill_diagonal)\w*)"
)
_NEW_ARRAYS = {"array", "arange", "where", "select", "nan_to_num", "linspace"} | {
    f"{made}{like}" for made in ("zeros", "ones", "full", "empty") for like in ("", "_like")
}
_COPIES = {"copy", "astype", "mask", "where"}
_WORD = re.compile(r"[^\W\d]\w*")  # "close"


def needed_cells(cells: Sequence[str]) -> list[str]:
    """Return the cells that published signals depend on, in order.

    >>> needed_cells(
    ...     [
    ...         "print(snapshot['ohlcv']['close'].shape)",
    ...         "n = 5",
    ...         "GLOBAL_DATA_STATE.update('signal', {'s': rule(n)})",
    ...     ]
    ... )
    ['n = 5', "GLOBAL_DATA_STATE.update('signal', {'s': rule(n)})"]
    """
    try:
        parsed = [_Cell(parse_code(cell)) for cell in cells]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(cells)
    if any(cell.reaches_everything for cell in parsed):
        return list(cells)
    functions = {name for cell in parsed for name in cell.functions}
    modules = {name for cell in parsed for name in cell.modules} - _MODULES
    kept = {place for place, cell in enumerate(parsed) if cell.acts(functions - cell.functions, modules)}
    while more := _read_by(parsed, kept) - kept:
        kept |= more
    return [cell for place, cell in enumerate(cells) if place in kept]


def _read_by(cells: Sequence[_Cell], kept: set[int]) -> set[int]:
    """Return the cells that bind what kept cells read."""
    found, read = set[int](), set[str]()
    for place in range(max(kept, default=-1), -1, -1):
        cell = cells[place]
        # A function reads names when it runs, which may be after a later cell bound them.
        by_functions = {name for before in kept if before < place for name in cells[before].read_late}
        if place in kept or cell.binds & (read | by_functions):
            found.add(place)
            read = (read - cell.surely_binds) | cell.reads
    return found


@dataclass(frozen=True)
class _Cell:
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> set[str]:
        """Names of functions and classes, and names bound to lambdas."""
        named = {node.name for node in self.nodes if isinstance(node, _Definition)}
        lambdas = (node for node in self.nodes if isinstance(node, ast.Assign) and _holds_lambda(node.value))
        return named.union(*(_bound(target) for node in lambdas for target in node.targets))

    @cached_property
    def modules(self) -> set[str]:
        return {name for node in self.nodes if isinstance(node, ast.Import) for name in _bound_by(node)}

    @cached_property
    def binds(self) -> set[str]:
        return {name for node in self.nodes for name in _bound_by(node)}

    @cached_property
    def surely_binds(self) -> set[str]:
        return {name for statement in self.tree.body for name in _surely_bound(statement)}

    @cached_property
    def reads(self) -> set[str]:
        """Names that are read before the cell has surely bound them."""
        return _read_first(self.tree.body, set())

    @cached_property
    def read_late(self) -> set[str]:
        return {name for node in self.nodes if isinstance(node, _Function) for name in _loaded_names(node)}

    @cached_property
    def reaches_everything(self) -> bool:
        """Whether its syntax does not show what it depends on."""
        return any(_is_opaque(node) for node in self.nodes)

    @cached_property
    def own(self) -> set[str]:
        """Names that stand for new objects, which nothing else holds."""
        fresh, other = set[str](), set[str]()
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_fresh(node.value):
                fresh |= _bound(node.targets[0])
            else:
                other |= _bound_by(node) if isinstance(node, ast.stmt) else set()
        return fresh - other

    def acts(self, others: set[str], modules: set[str]) -> bool:
        """Whether it may change something beyond its own names."""
        return self._passes_state() or any(
            self._call_changes(node, others, modules)
            if isinstance(node, ast.Call)
            else self._changes(node, others)
            for node in self.nodes
        )

    def _passes_state(self) -> bool:
        """Whether it uses the data state otherwise than to read from it."""
        reads = {
            id(node.value)
            for node in self.nodes
            if isinstance(node, ast.Attribute) and node.attr in _STATE_READS
        }
        return any(
            isinstance(node, ast.Name) and node.id == _STATE and id(node) not in reads for node in self.nodes
        )

    def _changes(self, node: ast.AST, others: set[str]) -> bool:
        match node:
            case ast.Global() | ast.Nonlocal() | ast.Delete() | ast.Yield() | ast.YieldFrom() | ast.Await():
                return True
            case ast.Subscript() | ast.Attribute() if isinstance(node.ctx, ast.Store):
                return _root(node) not in self.own
            case ast.AugAssign(target=ast.Name() as target):
                return target.id not in self.own
            case ast.Name(id=name):
                return name in others
        return False

    def _call_changes(self, call: ast.Call, others: set[str], modules: set[str]) -> bool:
        if any(word.arg in {"inplace", "out"} for word in call.keywords):
            return True
        if isinstance(call.func, ast.Name):
            return call.func.id not in _LOOKING | self.functions
        if not isinstance(call.func, ast.Attribute):
            return True
        root, method = _root(call.func), call.func.attr
        if method in others | self.functions or (_CHANGES.fullmatch(method) and root not in self.own):
            return True
        return root in modules


def _is_opaque(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _BY_NAME or "rng" in name or "random" in name
        case ast.Attribute(attr=name) | ast.alias(name=name):
            return "random" in name or name == "*"
        case ast.ImportFrom(module=str(module)):
            return "random" in module
        case ast.Call(func=func, args=args) if _is_query(func):
            return not all(isinstance(each, ast.Constant | ast.JoinedStr) for each in args)
        case ast.Assign(value=ast.GeneratorExp()):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name in _ONCE
    return False


def _is_query(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and func.attr in {"query", "eval"}


def _bound_by(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For() | ast.With():
            return _bound(node)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


def _bound(node: ast.AST) -> set[str]:
    return {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)
    }


def _read_first(statements: Sequence[ast.stmt], bound: set[str]) -> set[str]:
    """Names that statements read and that neither they nor ``bound`` have bound before."""
    found = set[str]()
    for statement in statements:
        match statement:
            case ast.For(target=target, iter=head, body=body, orelse=other):
                inner = bound | _bound(target)
            case ast.If(test=head, body=body, orelse=other) | ast.While(test=head, body=body, orelse=other):
                inner = bound
            case _:
                found |= _loaded_names(statement) - bound
                bound = bound | _surely_bound(statement)
                continue
        found |= _loaded_names(head) - bound | _read_first(body, inner) | _read_first(other, bound)
    return found


def _surely_bound(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.Assign():
            targets = [each for target in statement.targets for each in _flat(target)]
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.ClassDef():
            return _bound_by(statement)
    return set()


def _flat(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for each in target.elts:
            yield from _flat(each)
    else:
        yield target


def _loaded_names(tree: ast.AST) -> set[str]:
    """Names that are read, and the words of texts that pandas reads as names."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.AugAssign):
            found |= _bound(node.target)
        elif isinstance(node, ast.Call) and _is_query(node.func):
            texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            found.update(word for text in texts for word in _WORD.findall(str(text)))
    return found


def _root(node: ast.AST) -> str:
    """Name that a chain of attributes, items and calls begins with; empty for another expression."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_fresh(value: ast.expr) -> bool:
    match value:
        case ast.BinOp() | ast.Compare() | ast.UnaryOp() | ast.Constant() | ast.ListComp() | ast.DictComp():
            return True
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="pd"))):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"), attr=made)):
            return made in _NEW_ARRAYS
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in _COPIES
    return False


def _holds_lambda(value: ast.AST) -> bool:
    return any(isinstance(node, ast.Lambda) for node in ast.walk(value))


with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", category=DeprecationWarning, module="langchain_(experimental|community)"
    )
    warnings.filterwarnings("ignore", message=".*sunset.*")
    from langchain_experimental.tools.python.tool import PythonAstREPLTool

ReplTool = PythonAstREPLTool


class TrustedRunner:
    """Run cells in this process, with its rights: for code that you wrote or have read.

    There is no limit of time or memory, the code can use files and the network, and changes to libraries
    persist.

    Output is captured by replacing ``sys.stdout`` while cells run; the lock keeps runs apart.
    """

    def __init__(self, *, output_limit: int = 20_000) -> None:
        self._output_limit = output_limit
        self._lock = threading.Lock()

    def run(self, cells: Sequence[str], frames: Frames) -> CodeResult:
        """Run cells, see :class:`~quantgraph.sandbox.CodeRunner`."""
        store = DataState()
        store.adopt(frames)
        tool, outcome = _TrustedRepl.over(store, self._output_limit), CellOutcome()
        with self._lock:
            started = time.perf_counter()
            for cell in cells:
                outcome = tool.invoke({"query": cell})
                if outcome.error:
                    break
            seconds = time.perf_counter() - started
        if isinstance(outcome.raised, KeyboardInterrupt):
            raise outcome.raised
        made = new_signals(store, frames)
        try:
            for panel, found in made.items():
                for name, frozen in found.items():
                    check_signal_axes(name, frozen, frames, panel)
        except CodeFailed as error:
            return CodeResult(error=error, seconds=seconds, isolation="trusted")
        return CodeResult(
            stdout=outcome.stdout,
            value=outcome.value,
            signals=Fields("signal", made["signal"]),
            weights=Fields("weights", made["weights"]),
            scores=Fields("score", made["score"]),
            error=code_error(outcome.error, "trusted") if outcome.error else None,
            seconds=seconds,
            isolation="trusted",
        )


class _TrustedRepl(PythonAstREPLTool):
    """The tool over one namespace, which runs a cell as a code process does.

    LangChain's own version runs a failing last expression twice, hides a cell's names from its functions,
    lets ``exit()`` end the host, and returns errors as text without a line.
    """

    output_limit: int
    _count: int = PrivateAttr(default=0)

    @classmethod
    def over(cls, store: DataState, output_limit: int) -> _TrustedRepl:
        tool = cls(output_limit=output_limit)
        # Assigned here: the constructor would copy them into two scopes.
        tool.globals = tool.locals = cell_namespace(store)
        return tool

    def _run(self, query: str, run_manager: CallbackManagerForToolRun | None = None) -> CellOutcome:  # type: ignore[override] # noqa: ARG002
        self._count += 1
        return run_cells([Cell(query, self._count)], self.globals or {}, self.output_limit)


def code_runner(settings: Settings) -> CodeRunner:
    """Return the runner of the settings: one with a process of its own, or the trusted one."""
    if settings.code_isolation == "trusted":
        return TrustedRunner()
    return runner_of(settings)
