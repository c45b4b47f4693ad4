"""Clauses that leave out their comparison or their joint, and what the rest of the sentence makes of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from quantgraph.llm.planner.lexicon import Token
from quantgraph.llm.planner.meaning import Meant, Memory, remember
from quantgraph.llm.planner.operands import band_words
from quantgraph.llm.planner.rules import Average, Band, Bar, Compare, Condition, Cross

__all__ = ["bare_side", "elided_cross", "is_reversion", "joint_of", "same_line_exit"]

Tokens = Sequence[Token]

_INWARD = re.compile(r"轨\s*(?:之?内|以内|里|中(?!轨))|进入|(?:从|由)[^,;]*轨|\b(?:into|through|from)\b")
"""Words that the lexicon drops and that turn a band into a way back inside it."""
_STANDS = re.compile(r"\b(?:is|are|was|stays?|remains?|trades?)\s*$", re.IGNORECASE)
_WAYS: dict[str, Literal["up", "down"]] = {"above": "up", "over": "up", "below": "down", "under": "down"}
_WITH = re.compile(r"\bwith\b", re.IGNORECASE)


def bare_side(tokens: Tokens, line: str, action: Literal["BUY", "SELL"], memory: Memory) -> Meant | None:
    """``布林带下轨买入``, ``触及上轨卖出``: a close below the lower band is bought, one above the upper sold.

    None for any other side, or where no Bollinger is named. The rule must be :func:`is_reversion` as a whole.
    """
    kinds = [token.kind for token in tokens]
    plain = (
        tokens[2:] if kinds[:2] == ["PRICE", "TOUCH"] else tokens[1:] if kinds[:1] == ["TOUCH"] else tokens
    )
    side, named, numbers, end = band_words(plain, 0)
    if not plain or end != len(plain) or len(numbers) > 2 or _INWARD.search(line.lower()):
        return None
    if memory.band is None or (numbers and not named):
        return None
    band = memory.band
    if named and numbers and numbers != [band.period, band.width][: len(numbers)]:
        return None
    match action, side:
        case "BUY", "lower":
            lower = replace(band, side="lower")
            return Compare(left=Bar(), op="<", right=lower), remember(memory, Bar(), lower)
        case "SELL", "upper":
            upper = replace(band, side="upper")
            return Compare(left=Bar(), op=">", right=upper), remember(memory, Bar(), upper)
    return None


def is_reversion(entry: Condition | None, exit_: Condition | None) -> bool:
    """Whether a close below the lower band is bought, and one above the middle or upper of the same band sold."""
    match entry, exit_:
        case (
            Compare(left=Bar(field="close"), op="<", right=Band(side="lower") as low),
            Compare(left=Bar(field="close"), op=">", right=Band(side="upper" | "middle") as high),
        ):
            return replace(low, side="upper") == replace(high, side="upper")
    return False


def same_line_exit(tokens: Tokens, entry: Condition, memory: Memory) -> Meant | None:
    """``60日均线之上买入，之下卖出``: the other side of the one average that the buy clause compares with."""
    match [token.kind for token in tokens], entry:
        case ["POST_DOWN"], Compare(left=Bar() | Average() as left, op=">", right=Average() as line):
            return Compare(left=left, op="<", right=line), remember(memory, left, line)
        case ["POST_UP"], Compare(left=Bar() | Average() as left, op="<", right=Average() as line):
            return Compare(left=left, op=">", right=line), remember(memory, left, line)
    return None


def elided_cross(tokens: Tokens, line: str, entry: Condition | None, memory: Memory) -> Meant | None:
    """``crosses above … buy, below sell``: the verb is left out, so it is the same event the other way.

    ``sell when it is below`` has a verb of its own and stays a state.
    """
    if not isinstance(entry, Cross) or len(tokens) != 1 or _STANDS.search(line[: tokens[0].begin]):
        return None
    way: Literal["up", "down"] | None = _WAYS.get(tokens[0].text.lower())
    if way is None or way == entry.direction:
        return None
    return replace(entry, direction=way), remember(memory, entry.left, entry.right)


def joint_of(tokens: Tokens, line: str, *, leading_not: bool) -> tuple[Tokens, Tokens] | None:
    """The two conditions of a clause that both must hold without an *and*; None unless there is one such joint.

    *with* joins what stands behind it (``top 10% by momentum with PE < 30``). With ``leading_not`` so does the one
    comma behind a leading *not* of one condition (``不在RSI高于70时，站上20日均线``). Beside an *or* neither is read.
    """
    if any(token.kind == "OR" for token in tokens):
        return None
    if leading_not and tokens and tokens[0].kind == "NOT":
        commas = [at for at, token in enumerate(tokens) if token.kind == "SEP"]
        if len(commas) != 1 or any(token.kind == "AND" for token in tokens[: commas[0]]):
            return None
        return tokens[: commas[0]], tokens[commas[0] + 1 :]
    places = [at for at in range(1, len(tokens)) if _WITH.search(line[tokens[at - 1].end : tokens[at].begin])]
    return (tokens[: places[0]], tokens[places[0] :]) if len(places) == 1 else None
