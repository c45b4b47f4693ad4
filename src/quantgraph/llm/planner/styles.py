"""Styles of strategies: as a heading of a rule (``低市盈率选股：``) or without a rule (``均值回归策略``).

A heading is dropped only if its rule has the same style; otherwise its words stay and are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quantgraph.llm.planner.lexicon import FILLERS_ZH, Token
from quantgraph.llm.planner.rules import (
    Bar,
    Compare,
    Extreme,
    Indicator,
    Number,
    Rank,
    TradingRule,
    leaves_of,
)


@dataclass(frozen=True, kw_only=True)
class Heading:
    """A heading: its place, its fields (empty for the turtle), and whether it selects their high end."""

    begin: int
    end: int
    fields: tuple[str, ...] = ()
    high: bool = True

    @property
    def selects(self) -> bool:
        """Whether it selects stocks, so that a rank behind it needs no verb."""
        return bool(self.fields)

    def fits(self, rule: TradingRule) -> bool:
        """Whether the entry of a rule has this style."""
        return any(self._fits(leaf) for leaf in leaves_of(rule.entry))

    def _fits(self, leaf: object) -> bool:
        match leaf:
            case Rank(value=Indicator(field=name), side=side):
                return name in self.fields and (side == "top") == self.high
            case Compare(left=Indicator(field=name), op=op, right=Number()):
                return name in self.fields and op.startswith(">") == self.high
            case Compare(left=Bar(field="close"), op=">", right=Extreme(side="high")):
                return not self.fields
        return False


_FIELDS: dict[str, tuple[str, ...]] = {
    r"市盈率|p/?e": ("pe", "pe_ttm"),
    r"市净率|p/?b": ("pb",),
    r"市销率|p/?s": ("ps", "ps_ttm"),
    r"估值|valuation": ("pe", "pe_ttm", "pb", "ps", "ps_ttm"),
    r"股息率?|红利|dividend(?:[\s-]yield)?": ("dv_ratio",),
    r"换手率?|turnover": ("turnover_rate",),
    r"(?:流通|总)?市值|cap": ("total_mv", "circ_mv"),
}
_HEADING = re.compile(
    r"(?:^|(?<=[,;:。\s\x1f]))(?:请|帮我|帮忙|做|写|用|按|来|1?个)*(?:(?P<end>低|高|小|大|(?:low|high|small|large)(?=[\s-]))[\s-]*(?P<what>"
    + "|".join(_FIELDS)
    + r")|(?P<turtle>海龟|turtle))(?:\s*(?:选股|交易|轮动|投资|法则|系统|策略|战法|strategy|trading|picking|selection|system))*"
    r"\s*[:,]",
    re.IGNORECASE,
)


def find_heading(text: str) -> Heading | None:
    """The only heading of a normalised line; None without one, or with several."""
    found = list(_HEADING.finditer(text))
    if len(found) != 1:
        return None
    match = found[0]
    if match["turtle"]:
        return Heading(begin=match.start(), end=match.end())
    fields = next(
        fields for words, fields in _FIELDS.items() if re.fullmatch(words, match["what"], re.IGNORECASE)
    )
    high = match["end"].lower() in ("高", "大", "high", "large")
    return Heading(begin=match.start(), end=match.end(), fields=fields, high=high)


_OF_NO_STYLE = re.compile(r"(?:策略|战法|strategy|strategies)|.*(?:均线|average|\bs?ma\b).*")
"""The bare word, and the style of the default rule, the cross of two averages."""

_WORDS = r"index|indicators?|bands?|levels?|rank(?:s|ed|ing|ings)?|sort(?:ed)?|values?"
_VAGUE = re.compile(
    rf"\b(?:{_WORDS})(?:\s+(?:based|trading|stocks?|shares?|equit(?:y|ies)))*\s+strateg(?:y|ies)\b"
    rf"|\bstrateg(?:y|ies)\s+(?:(?:based|on|by|of|using|with|from|the|a)\s+)+(?:{_WORDS})\b"
    rf"|(?:指标|排名|排序|区间)(?:{FILLERS_ZH.pattern}|选股|交易){{0,4}}(?:策略|战法)",
    re.IGNORECASE,
)
"""Words without a meaning in a rule, where they describe the strategy."""


def styles_of(tokens: Sequence[Token], text: str) -> tuple[str, ...]:
    """The styles in a line without a rule, as written; empty for any strategy.

    ``tokens`` are the tokens of ``text``.
    """
    named = [
        text[token.begin : token.end]
        for token in tokens
        if token.kind == "LABEL" and not _OF_NO_STYLE.fullmatch(token.text)
    ]
    return tuple(named or (match[0] for match in _VAGUE.finditer(text)))
