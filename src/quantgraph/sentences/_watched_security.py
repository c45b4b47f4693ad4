"""The securities of a whole request: what its lines watch and trade together, and whether the rule fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from quantgraph._util.texts import Note
from quantgraph.data.symbols import is_index_code
from quantgraph.sentences._codegen import Watched
from quantgraph.sentences._roles import Roles, is_group
from quantgraph.sentences._rules import (
    Average,
    Band,
    Bar,
    Condition,
    Macd,
    Number,
    Rank,
    Return,
    Rsi,
    Scaled,
    TradingRule,
    Value,
    leaves_of,
)


def merged_roles(lines: Sequence[Roles]) -> Roles:
    """The roles of all lines: a later line that names securities replaces them.

    A bare list behind a line that watches one security and trades another is not placed.
    """
    merged = Roles()
    for roles in lines:
        if not roles.trade:
            merged = replace(merged, problems=(*merged.problems, *roles.problems))
        elif roles.explicit or merged.watch == merged.trade:
            merged = roles
        else:
            merged = replace(merged, problems=(*merged.problems, _unplaced(roles, merged)))
    return merged


def watched_of(watch: Sequence[str], trade: Sequence[str]) -> Watched | None:
    """The one watched security of a rule that trades others; None if both are the same, or cannot be coded."""
    if tuple(watch) == tuple(trade) or len(watch) != 1 or any(map(is_group, trade)):
        return None
    return Watched(code=watch[0], is_index=is_index_code(watch[0]), traded=tuple(trade))


def _unplaced(new: Roles, old: Roles) -> Note:
    said, watched, traded = (", ".join(codes) for codes in (new.trade, old.watch, old.trade))
    return Note(
        zh=f"{said} 是替换所看的 {watched}，还是替换所交易的 {traded}（可以说“观察 A，交易 B”）",
        en=f'whether {said} replaces the watched {watched} or the traded {traded} (say "watch A, trade B")',
    )


def _values(condition: Condition) -> Iterator[Value]:
    for leaf in leaves_of(condition):
        values = (leaf.value,) if isinstance(leaf, Rank) else (leaf.left, leaf.right)
        yield from (value.value if isinstance(value, Scaled) else value for value in values)


def _kinds(condition: Condition) -> set[str]:
    """Kinds of the values of a condition: a price and its average are one kind, as are the lines of MACD."""
    return {
        "price" if isinstance(value, Average | Bar | Band) else type(value).__name__
        for value in _values(condition)
        if not isinstance(value, Number)
    }


def _of_closes(value: Value) -> bool:
    """Whether a value needs closes alone, which an index has."""
    if isinstance(value, Bar | Average):
        return value.field == "close"
    return isinstance(value, Number | Rsi | Macd | Band | Return)


def watching_problem(rule: TradingRule, roles: Roles) -> Note | None:
    """Why a rule cannot be that of one watched security, or None.

    A rank needs several securities; an index has closes alone; and a condition of another kind than the one
    that names its subject may be about either security.
    """
    if roles.watch == roles.trade:
        return None
    watched, traded = ", ".join(roles.watch), ", ".join(roles.trade)
    conditions = (rule.entry, rule.exit)
    if any(isinstance(leaf, Rank) for condition in conditions for leaf in leaves_of(condition)):
        return Note(zh=f"只看 {watched} 一个标的，没有排名", en=f"a ranking of {watched} alone")
    if is_index_code(roles.watch[0]) and not all(
        _of_closes(value) for c in conditions for value in _values(c)
    ):
        return Note(zh=f"指数 {watched} 只有收盘点位", en=f"the index {watched} has closes alone")
    entry, exit_ = (_kinds(condition) for condition in conditions)
    if len(entry) > 1 or (exit_ - entry and roles.subjects < 2):
        return Note(
            zh=f"每个条件看的是 {watched} 还是 {traded}（请逐个写明）",
            en=f"whether each condition is about {watched} or {traded} (name it for each)",
        )
    return None
