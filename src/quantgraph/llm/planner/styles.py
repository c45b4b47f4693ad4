"""Styles that a line names without a rule: ``均值回归策略``, ``a value strategy``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quantgraph.llm.planner.fillers import FILLERS_ZH
from quantgraph.llm.planner.lexicon import Token

__all__ = ["styles_of"]

_OF_NO_STYLE = re.compile(r"(?:策略|战法|strategy|strategies)|.*(?:均线|average|\bs?ma\b).*")
"""The bare word, and the style of the default rule: the cross of two averages."""

_WORDS = r"index|indicators?|bands?|levels?|rank(?:s|ed|ing|ings)?|sort(?:ed)?|values?"
_VAGUE = re.compile(
    rf"\b(?:{_WORDS})(?:\s+(?:based|trading|stocks?|shares?|equit(?:y|ies)))*\s+strateg(?:y|ies)\b"
    rf"|\bstrateg(?:y|ies)\s+(?:(?:based|on|by|of|using|with|from|the|a)\s+)+(?:{_WORDS})\b"
    rf"|(?:指标|排名|排序|区间)(?:{FILLERS_ZH.pattern}|选股|交易){{0,4}}(?:策略|战法)",
    re.IGNORECASE,
)
"""Words that a rule may contain without a meaning of their own, where they say what the strategy is."""


def styles_of(tokens: Sequence[Token], text: str) -> tuple[str, ...]:
    """What kind of strategy a line without a rule wants, as it was written; empty for any strategy at all.

    ``tokens`` are those of the line and ``text`` what they were read from.
    """
    named = [
        text[token.begin : token.end]
        for token in tokens
        if token.kind == "LABEL" and not _OF_NO_STYLE.fullmatch(token.text)
    ]
    return tuple(named or (match[0] for match in _VAGUE.finditer(text)))
