"""A rule: when to buy and when to sell, read from two expressions, computed and written as a cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Language
from quantgraph.audit.causality import BuiltTrials, CodeTrials, SessionsProved
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.rules import _formulas
from quantgraph.rules._code import lines_of, short_name, write_cell
from quantgraph.rules._parse import read_condition
from quantgraph.rules._registry import ROWS
from quantgraph.rules._tree import GIVEN, WATCHED, Node, edited, expression, lookback, make, tree_hash, walk
from quantgraph.rules._words import in_words
from quantgraph.sandbox import CodeRunner
from quantgraph.state import Snapshot

_CHECKED = 40
"""Sessions on which the sealed cell is compared, beside those that the rule needs before them."""


_MIRRORED = {"cross_up": "cross_down", "cross_down": "cross_up", "gt": "lt", "lt": "gt"}


@dataclass(frozen=True)
class Rule:
    """An entry and an exit.

    Every node looks back only, so a signal is causal by construction: that of a session never changes with
    later data. The exit wins where both hold, and never opens a short. ``BadOption`` if they are the same.
    """

    entry: Node
    exit: Node

    def __post_init__(self) -> None:
        if self.entry == self.exit or self.entry.name == "never":
            raise BadOption(
                f"entry and exit are the same, {expression(self.entry):.80}: it would buy what it sells"
                if self.entry == self.exit and self.entry.name != "never"
                else "entry: never() buys nothing",
                parameter="exit",
            )

    @classmethod
    def read(cls, entry: str, exit: str | None = None) -> Rule:  # noqa: A002 - the field's word
        """Read two expressions; without an exit nothing is sold by the rule."""
        left = make("never") if exit is None else read_condition(exit, "exit")
        return cls(read_condition(entry, "entry"), left)

    @property
    def expressions(self) -> tuple[str, str]:
        """Entry and exit as they are read."""
        return expression(self.entry), expression(self.exit)

    @property
    def name(self) -> str:
        """A name for its signal; the exit is in it unless that is the entry the other way."""
        is_back = self.exits_on_opposite or self.exit.name == "never"
        return short_name(self.entry) + ("" if is_back else f"_exit_{short_name(self.exit, 40)}")

    @property
    def exits_on_opposite(self) -> bool:
        """Whether its exit is its entry the other way, so that both never hold at once."""
        back = Node(_MIRRORED.get(self.entry.name, ""), self.entry.args)
        return self.exit in {back, make("not", self.entry)}

    @property
    def hash(self) -> str:
        """What identifies the rule, however it was spelt."""
        return tree_hash(self.entry, self.exit)

    @property
    def lookback(self) -> int:
        """Sessions before today's that it needs to be known."""
        return max(lookback(self.entry), lookback(self.exit))

    @property
    def across(self) -> bool:
        """Whether it compares securities with each other."""
        return any(ROWS[each.name].across for each in walk(self.entry, self.exit) if each.name in ROWS)

    @property
    def watched(self) -> tuple[str, ...]:
        """Codes of other securities that it reads."""
        return self._codes("of")

    @property
    def indices(self) -> tuple[str, ...]:
        """Codes of indices that it reads."""
        return self._codes("index")

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the conditions that code computes."""
        return self._codes(GIVEN)

    @property
    def inputs(self) -> frozenset[str]:
        """Names of the fields of the data that it reads."""
        rows = [ROWS[each.name] for each in walk(self.entry, self.exit) if each.name in ROWS]
        return frozenset(name for row in rows for name in (row.inputs if row.formula else (row.name,)))

    def words(self, language: Language) -> tuple[str, str]:
        """When it buys and when it sells, in words."""
        return in_words(self.entry, language), in_words(self.exit, language)

    def edited(self, side: str, path: Sequence[int], arg: Node | float | str) -> Rule:
        """The rule with one argument of a side replaced, found by positions."""
        changed = {"entry": self.entry, "exit": self.exit}
        return Rule(**{**changed, side: edited(changed[side], path, arg)})

    def cell(self, signal: str, symbols: Sequence[str] = ()) -> str:
        """Python of one cell, which hands its signal over under a name; ``symbols`` as of the evaluator."""
        heads = ("Buy", "Sell", "entry", "exit")
        about = map(": ".join, zip(heads, (*self.words("en"), *self.expressions), strict=True))
        return write_cell({"entry": self.entry, "leave": self.exit}, signal, about, symbols)

    def _codes(self, name: str) -> tuple[str, ...]:
        found = (str(each.args[0]) for each in walk(self.entry, self.exit) if each.name == name)
        return tuple(dict.fromkeys(found))


def trials_of(
    runner: CodeRunner, cells: Sequence[str], name: str | None = None, *, prove: SessionsProved = "auto"
) -> BuiltTrials | CodeTrials:
    """The trials of code: those of a rule, if it is its cell, unchanged, and no whole walk is asked for."""
    found = _rule_of_cell(cells[-1]) if cells else None
    if found and found[0].given:
        return CodeTrials(runner, cells, name, partial(_needs, runner, cells[:-1], found[0]))
    sealed = CodeTrials(runner, cells, name)
    if found is None or len(cells) > 1 or prove == "all":
        return sealed
    rule, symbols = found

    def compute(snapshot: Snapshot) -> pd.DataFrame:
        return RuleEvaluator(snapshot, symbols).signal(rule)

    return BuiltTrials(compute, sealed, checked=rule.lookback + _CHECKED, needs=rule.lookback + 1)


def _needs(
    runner: CodeRunner, cells: Sequence[str], rule: Rule, measure: Callable[[CodeTrials], int | None]
) -> int | None:
    """Sessions that a row of a rule needs, by itself and by each condition that cells compute for it."""
    found = {name: measure(CodeTrials(runner, cells, name)) for name in rule.given}
    if not all(found.values()):
        return None
    given = {name: (need or 1) - 1 for name, need in found.items()}
    return 1 + max(lookback(rule.entry, **given), lookback(rule.exit, **given))


def rule_of_cells(cells: Sequence[str]) -> tuple[Rule, list[str]] | None:
    """The rule whose cell this is, unchanged, and its symbols; None for other code."""
    return _rule_of_cell(cells[0]) if len(cells) == 1 else None


def _rule_of_cell(cell: str) -> tuple[Rule, list[str]] | None:
    sides = re.search(r"^# entry: (.+)\n# exit: (.+)$", cell, re.MULTILINE)
    name = re.search(r'^GLOBAL_DATA_STATE.update\("signal", {"(.+)": signal}\)$', cell, re.MULTILINE)
    symbols = re.findall(r"'([^']+)'", *re.findall(r"^symbols = (.+)$", cell, re.MULTILINE)[:1] or [""])
    if sides and name:
        with suppress(BadOption):
            rule = Rule.read(*sides.groups())
            return (rule, symbols) if rule.cell(name[1], symbols).strip() == cell.strip() else None
    return None


_CELLS = 1 << 19
"""How many are computed at a time: a few arrays of so many stay in a processor's cache."""


class _SomeColumns(Mapping[str, Any]):
    """Panels, or the fields of one, with some of their securities; an index is whole."""

    def __init__(self, whole: Any, symbols: Sequence[str]) -> None:
        self._whole, self._symbols = whole, symbols

    def __getitem__(self, name: str) -> Any:
        found = self._whole[name]
        if isinstance(found, pd.DataFrame):
            return found.loc[:, found.columns.isin(self._symbols)]
        return found if name == "index" else _SomeColumns(found, self._symbols)

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    def adjusted(self, name: str) -> pd.DataFrame:
        """Return adjusted prices, as the whole panels do."""
        found: pd.DataFrame = type(self._whole).adjusted(self, name)
        return found


class RuleEvaluator:
    """The data of a commit or a view, on which rules are computed; what rules share is computed once.

    Rules are of ``symbols``, by default of all; others are only watched.
    """

    def __init__(self, panels: Any, symbols: Sequence[str] = ()) -> None:
        self._panels, self._symbols = panels, symbols
        self._scope = {**vars(_formulas), "snapshot": panels}
        self._known: dict[str, Any] = {}

    def signal(self, rule: Rule) -> pd.DataFrame:
        """Return a rule's signal, sessions x securities: 1 to buy, -1 to sell, 0, NaN where it is unknown.

        Raises
        ------
        UnknownField, UnknownSymbol
            If the data lack a field, a security or an index of the rule.
        """

        def signal(data: RuleEvaluator) -> pd.DataFrame:
            names = data._values({"entry": rule.entry, "leave": rule.exit})
            made: pd.DataFrame = _formulas.signal_of(names["entry"], names["leave"], names["traded"])
            return made

        return self._by_columns(signal, rule.entry, rule.exit)

    def value(self, node: Node) -> pd.DataFrame:
        """Return a node's value, sessions x securities; prices on the basis on which they compare."""

        def value(data: RuleEvaluator) -> pd.DataFrame:
            names = data._values({"value": node})
            made: pd.DataFrame = _formulas.on_calendar(names["value"], names["traded"])
            return made

        return self._by_columns(value, node)

    def compared(self, rule: Rule) -> dict[Node, pd.DataFrame]:
        """Return the values of the traded securities that a rule compares or ranks, prices as traded."""
        nodes = dict.fromkeys((*_compared(rule.entry), *_compared(rule.exit)))
        names = {node: self._values({"value": node}, raw=True) for node in nodes}
        return {node: _formulas.on_calendar(each["value"], each["traded"]) for node, each in names.items()}

    def ties(self, rule: Rule) -> pd.DataFrame | None:
        """Return where values that a rule compares are equal but for rounding, also on the session before."""
        found: pd.DataFrame | None = None
        for node in (*_comparisons(rule.entry), *_comparisons(rule.exit)):
            sides: Any = [x.constant if x.name == "number" else self.value(x) for x in node.operands]
            equal = abs(sides[0] - sides[1]) <= _ROUNDING * abs(sides[1])
            found = equal if found is None else found | equal
        return None if found is None else found | found.shift(1, fill_value=False)

    def _by_columns(self, compute: Callable[[RuleEvaluator], pd.DataFrame], *nodes: Node) -> pd.DataFrame:
        """Compute some securities at a time, unless they are compared with each other or few."""
        close = self._panels["ohlcv"]["close"]
        close = close[list(self._symbols)] if self._symbols else close
        width = max(1, _CELLS // max(1, len(close)))
        across = any(ROWS[each.name].across for each in walk(*nodes) if each.name in ROWS)
        if across or close.shape[1] <= width:
            return compute(self)
        watched = [str(each.args[0]) for each in walk(*nodes) if each.name in WATCHED]
        made = np.empty(close.shape)
        for first in range(0, close.shape[1], width):
            part = [*close.columns[first : first + width]]
            panels = _SomeColumns(self._panels, [*part, *watched])
            made[:, first : first + width] = compute(RuleEvaluator(panels, part if watched else ()))
        return pd.DataFrame(made, index=close.index, columns=close.columns)

    def _values(self, roots: dict[str, Node], *, raw: bool = False) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for node in walk(*roots.values()):
            if node.name in WATCHED:
                self._check_code(node.name, str(node.args[0]))
        with np.errstate(invalid="ignore", divide="ignore"):
            for line in lines_of(roots, self._symbols, raw=raw):
                if line.key not in self._known:
                    self._known[line.key] = eval(line.code, self._scope, names)  # noqa: S307 - of a checked tree
                names[line.name] = self._known[line.key]
        return names

    def _check_code(self, kind: str, code: str) -> None:
        there = self._panels["index" if kind == "index" else "ohlcv"].get("close", pd.DataFrame())
        if code not in there:
            what = "levels of the index" if kind == "index" else "prices of"
            raise UnknownSymbol(f"the data have no {what} {code}, which the rule reads", symbols=(code,))


def _comparisons(node: Node) -> Iterator[Node]:
    """The comparisons of a condition, but for those on another security."""
    if node.name in _COMPARED:
        yield node
    for each in () if node.name in WATCHED else node.operands:
        yield from _comparisons(each)


_COMPARED = ("gt", "ge", "lt", "le", "cross_up", "cross_down")
_ROUNDING = 1e-9
"""Of a price, beside what sums in another order differ by."""


def _compared(node: Node) -> Iterator[Node]:
    """The values below a condition, but for numbers and what is of another security."""
    for each in () if node.name in WATCHED else node.operands:
        if each.unit == "truth" or (each.name in ROWS and ROWS[each.name].across):
            yield from _compared(each)
        elif each.unit != "number":
            yield each
