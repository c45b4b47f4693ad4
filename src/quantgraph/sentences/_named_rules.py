"""Rules and styles that a sentence names (``MACD策略``, ``低市盈率选股：``), and clauses that leave words out.

A heading is dropped only if its rule has the same style; otherwise its words stay and are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from quantgraph.sentences import _rules as tree
from quantgraph.sentences._grammar import CrossClause, band_words, kind_at, line_pairs, operands, params_at
from quantgraph.sentences._meaning import Memory, Resolved, remember, resolve
from quantgraph.sentences._text import FILLERS_ZH, Token

Tokens = Sequence[Token]

_INWARD = re.compile(r"轨\s*(?:之?内|以内|里|中(?!轨))|进入|(?:从|由)[^,;]*轨|\b(?:into|through|from)\b")
"""Words that the lexicon drops, and that mean a return into the band, such as "下轨以内"."""
_STANDS = re.compile(r"\b(?:is|are|was|stays?|remains?|trades?)\s*$", re.IGNORECASE)  # "price is"
_WAYS: dict[str, Literal["up", "down"]] = {"above": "up", "over": "up", "below": "down", "under": "down"}
_WITH = re.compile(r"\bwith\b", re.IGNORECASE)  # "with"


def bare_side(tokens: Tokens, line: str, action: Literal["BUY", "SELL"], memory: Memory) -> Resolved | None:
    """``布林带下轨买入``, ``触及上轨卖出``: buy a close below the lower band, sell one above the upper band.

    None for any other side, or without a Bollinger band.
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
            return tree.Compare(left=tree.Bar(), op="<", right=lower), remember(memory, tree.Bar(), lower)
        case "SELL", "upper":
            upper = replace(band, side="upper")
            return tree.Compare(left=tree.Bar(), op=">", right=upper), remember(memory, tree.Bar(), upper)
    return None


def is_reversion(entry: tree.Condition | None, exit_: tree.Condition | None) -> bool:
    """Whether the rule buys below the lower band and sells above the middle or upper of the same band."""
    match entry, exit_:
        case (
            tree.Compare(left=tree.Bar(field="close"), op="<", right=tree.Band(side="lower") as low),
            tree.Compare(
                left=tree.Bar(field="close"), op=">", right=tree.Band(side="upper" | "middle") as high
            ),
        ):
            return replace(low, side="upper") == replace(high, side="upper")
    return False


def same_line_exit(tokens: Tokens, entry: tree.Condition, memory: Memory) -> Resolved | None:
    """``60日均线之上买入，之下卖出``: the other side of the only average of the buy clause."""
    match [token.kind for token in tokens], entry:
        case ["POST_DOWN"], tree.Compare(
            left=tree.Bar() | tree.Average() as left, op=">", right=tree.Average() as line
        ):
            return tree.Compare(left=left, op="<", right=line), remember(memory, left, line)
        case ["POST_UP"], tree.Compare(
            left=tree.Bar() | tree.Average() as left, op="<", right=tree.Average() as line
        ):
            return tree.Compare(left=left, op=">", right=line), remember(memory, left, line)
    return None


def elided_cross(tokens: Tokens, line: str, entry: tree.Condition | None, memory: Memory) -> Resolved | None:
    """``crosses above … buy, below sell``: without a verb, *below* is the same event in the other direction.

    ``sell when it is below`` has a verb and is a state.
    """
    if not isinstance(entry, tree.Cross) or len(tokens) != 1 or _STANDS.search(line[: tokens[0].begin]):
        return None
    way: Literal["up", "down"] | None = _WAYS.get(tokens[0].text.lower())
    if way is None or way == entry.direction:
        return None
    return replace(entry, direction=way), remember(memory, entry.left, entry.right)


def joint_of(tokens: Tokens, line: str, *, leading_not: bool) -> tuple[Tokens, Tokens] | None:
    """Two conditions joined without an *and*; None unless there is exactly one such joint.

    The joint is *with* (``top 10% by momentum with PE < 30``), or, with ``leading_not``, the only comma
    behind a leading *not* (``不在RSI高于70时，站上20日均线``).
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


NamedRule = tuple[tree.Condition, tree.Condition | None, Memory]
"""Entry, exit (None for the opposite), and the memory after it."""

_STYLES = {"reversion": ("回归", "reversion"), "breakout": ("突破", "breakout", "break-out")}


def strip_separators(tokens: Tokens) -> list[Token]:
    """The tokens without separators at both ends."""
    kept = list(tokens)
    while kept and kept[0].kind in ("SEP", "AND"):
        kept.pop(0)
    while kept and kept[-1].kind in ("SEP", "AND"):
        kept.pop()
    return kept


def named_rule(tokens: Tokens, memory: Memory) -> NamedRule | None:
    """A rule by its name: ``MACD金叉死叉策略``, ``5/20 SMA crossover``, ``RSI 30/70``, ``买入持有``."""
    plain = [token for token in tokens if token.kind not in ("SEP", "AND", "SLASH")]
    if [token.kind for token in plain] == ["HOLDING"]:
        return tree.Compare(left=tree.Bar(), op=">", right=tree.Number(value=0.0)), None, memory
    kinds = [token.kind for token in plain if token.kind in ("GOLDEN", "DEATH", "CROSSOVER")]
    if kinds in (["GOLDEN"], ["CROSSOVER"], ["GOLDEN", "DEATH"]):
        lines = strip_separators(
            [token for token in tokens if token.kind not in ("GOLDEN", "DEATH", "CROSSOVER")]
        )
        while lines and lines[-1].kind == "SLASH":
            lines.pop()
        found = {pair for pair, end in line_pairs(lines, 0) if end == len(lines)}
        left, right = found.pop() if len(found) == 1 else (None, None)
        cross = None if left is None else resolve(CrossClause(up=True, left=left, right=right), memory)
        if cross is None:
            return None
        exit_ = None if kinds == ["GOLDEN"] else tree.opposite(cross[0])
        return cross[0], exit_, cross[1]
    if [token.kind for token in tokens[-3:]] == ["NUM", "SLASH", "NUM"]:
        low, high = tokens[-3].value, tokens[-1].value
        for value, end in operands(tokens, 0):
            if isinstance(value, tree.Rsi) and end == len(tokens) - 3 and 0 <= low < high <= 100:
                below = tree.Compare(left=value, op="<", right=tree.Number(value=low))
                above = tree.Compare(left=value, op=">", right=tree.Number(value=high))
                return below, above, remember(memory, value)
    return None


_USES_MACD = re.compile(  # "基于MACD"
    r"(?:用|采用|基于|利用|按照?|根据)\s*macd|macd[^a-z]*做|^(?>.*?\b(?:use|using|apply)\b).*macd",
    re.IGNORECASE,
)
_PLAIN_LABELS = ("策略", "战法", "strategy", "strategies")
_DUAL = re.compile(r"双均线|均线交叉|dual|double|cross", re.IGNORECASE)  # "双均线"


def named_indicator(plain: Tokens, tokens: Tokens, line: str, memory: Memory) -> NamedRule | None:
    """``MACD策略`` and ``用MACD做`` mean the MACD cross, ``双均线策略 10日 30日`` the cross of two averages.

    ``plain`` are the tokens without labels, ``tokens`` all tokens of the line.
    """
    labels = " ".join(token.text for token in tokens if token.kind == "LABEL")
    if (
        plain
        and plain[0].kind == "MACD"
        and (labels in _PLAIN_LABELS or (not labels and _USES_MACD.search(line)))
    ):
        lines = [pair for pair, end in line_pairs(plain, 0) if end == len(plain)]
    elif _DUAL.search(labels):
        days = [token.value for token in plain if token.kind in ("DAYS", "NUM")]
        joints = ("DAYS", "NUM", "LP", "RP", "SEP", "AND", "SLASH")
        if len(days) != 2 or any(day < 1 or day != int(day) for day in days):
            return None
        if any(token.kind not in joints for token in plain):
            return None
        lines = [(tree.Average(period=int(days[0])), tree.Average(period=int(days[1])))]
    else:
        return None
    cross = (
        None
        if len(lines) != 1
        else resolve(CrossClause(up=True, left=lines[0][0], right=lines[0][1]), memory)
    )
    return None if cross is None else (cross[0], tree.opposite(cross[0]), cross[1])


def middle_exit(
    tokens: Tokens, entry: tree.Condition, memory: Memory
) -> tuple[tree.Condition, Memory] | None:
    """``exit at the middle band``: the price on the other side of the middle of the entry's band."""
    if [token.kind for token in tokens if token.kind != "BOLL"] != ["MIDDLE"] or len(tokens) > 2:
        return None
    match entry:
        case (
            tree.Compare(left=tree.Bar(field="close"), op="<", right=tree.Band(side="lower") as band)
            | tree.Cross(
                left=tree.Bar(field="close"), direction="down", right=tree.Band(side="lower") as band
            )
        ):
            return tree.Compare(left=tree.Bar(), op=">", right=replace(band, side="middle")), memory
        case (
            tree.Compare(left=tree.Bar(field="close"), op=">", right=tree.Band(side="upper") as band)
            | tree.Cross(left=tree.Bar(field="close"), direction="up", right=tree.Band(side="upper") as band)
        ):
            return tree.Compare(left=tree.Bar(), op="<", right=replace(band, side="middle")), memory
    return None


def named_bands(tokens: Tokens, memory: Memory) -> NamedRule | None:
    """``布林带均值回归``, ``Bollinger breakout (20, 2)``: the two rules named after the bands.

    Reversion buys below the lower band and sells above the upper one; breakout buys above the upper band and
    sells below the middle one.
    """
    styles: set[str] = set()
    numbers: dict[str, float] = {}
    named = False
    at = 0
    plain = [token for token in tokens if token.kind not in ("SIGNAL", "SEP", "AND")]
    while at < len(plain):
        token = plain[at]
        _, bollinger, params, end = band_words(plain, at)
        if token.kind in ("LABEL", "BREAKOUT", "BREAK_UP"):
            styles |= {style for style, words in _STYLES.items() if any(word in token.text for word in words)}
        elif bollinger and not named and kind_at(plain, at) in ("BOLL", "DAYS") and end > at:
            named = True
            numbers |= dict(zip(("DAYS", "TIMES"), params, strict=False))
            at = end
            continue
        elif token.kind == "LP" and not numbers:
            params, at = params_at(plain, at)
            if len(params) != 2:
                return None
            numbers = {"DAYS": params[0], "TIMES": params[1]}
            continue
        elif token.kind in ("DAYS", "TIMES") and token.kind not in numbers:
            numbers[token.kind] = token.value
        else:
            return None
        at += 1
    period, width = numbers.get("DAYS", 20.0), numbers.get("TIMES", 2.0)
    if not named or len(styles) != 1 or period != int(period) or period < 2 or width <= 0:
        return None
    upper = tree.Band(side="upper", period=int(period), width=width)
    lower, middle = replace(upper, side="lower"), replace(upper, side="middle")
    seen = replace(memory, band=upper)
    above = tree.Compare(left=tree.Bar(), op=">", right=upper)
    if styles == {"reversion"}:
        return tree.Compare(left=tree.Bar(), op="<", right=lower), above, seen
    return above, tree.Compare(left=tree.Bar(), op="<", right=middle), seen


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

    def fits(self, rule: tree.TradingRule) -> bool:
        """Whether the entry of a rule has this style."""
        return any(self._fits(leaf) for leaf in tree.leaves_of(rule.entry))

    def _fits(self, leaf: object) -> bool:
        match leaf:
            case tree.Rank(value=tree.Indicator(field=name), side=side):
                return name in self.fields and (side == "top") == self.high
            case tree.Compare(left=tree.Indicator(field=name), op=op, right=tree.Number()):
                return name in self.fields and op.startswith(">") == self.high
            case tree.Compare(left=tree.Bar(field="close"), op=">", right=tree.Extreme(side="high")):
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
_HEADING = re.compile(  # "海龟交易法则:"
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
    fields = next(  # "总市值"
        fields for words, fields in _FIELDS.items() if re.fullmatch(words, match["what"], re.IGNORECASE)
    )
    high = match["end"].lower() in ("高", "大", "high", "large")
    return Heading(begin=match.start(), end=match.end(), fields=fields, high=high)


_OF_NO_STYLE = re.compile(r"(?:策略|战法|strategy|strategies)|.*(?:均线|average|\bs?ma\b).*")  # "策略"
"""The bare word, and the style of the default rule, the cross of two averages."""

_WORDS = r"index|indicators?|bands?|levels?|rank(?:s|ed|ing|ings)?|sort(?:ed)?|values?"
_VAGUE = re.compile(  # "index based strategy"
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
