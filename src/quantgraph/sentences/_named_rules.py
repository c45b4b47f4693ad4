"""Rules and styles that a sentence names (``MACD策略``, ``低市盈率选股：``), and clauses that leave words out.

A heading is dropped only if its rule has the same style; otherwise its words stay and are asked about.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quantgraph.rules import Node, Rule, make, number
from quantgraph.sentences._grammar import CrossClause, band_side, band_words, line_pairs, operands, upper_band
from quantgraph.sentences._meaning import Memory, Resolved, remember, resolve
from quantgraph.sentences._rules import (
    AVERAGES,
    CLOSE,
    HELD,
    is_extreme,
    is_field,
    leaves_of,
    opposite,
    rank_of,
)
from quantgraph.sentences._text import FILLERS_ZH, Token

Tokens = Sequence[Token]

_INWARD = re.compile(r"轨\s*(?:之?内|以内|里|中(?!轨))|进入|(?:从|由)[^,;]*轨|\b(?:into|through|from)\b")
"""Words that the lexicon drops, and that mean a return into the band, such as "下轨以内"."""
_STANDS = re.compile(r"\b(?:is|are|was|stays?|remains?|trades?)\s*$", re.IGNORECASE)  # "price is"
_TURNED = {"above": "cross_up", "over": "cross_up", "below": "cross_down", "under": "cross_down"}
_WITH = re.compile(r"\bwith\b", re.IGNORECASE)  # "with"


def bare_side(tokens: Tokens, line: str, action: str, memory: Memory) -> Resolved | None:
    """``布林带下轨买入``, ``触及上轨卖出``: buy a close below the lower band, sell one above the upper band.

    None for any other side, or without a Bollinger band.
    """
    plain = [token for token in tokens if token.kind not in ("PRICE", "TOUCH")]
    side, named, numbers, end = band_words(plain, 0)
    if memory.band is None or end != len(plain) or _INWARD.search(line.lower()):
        return None
    if numbers and (not named or tuple(numbers) != memory.band.args[: len(numbers)]):
        return None
    word = {("BUY", "lower"): "lt", ("SELL", "upper"): "gt"}.get((action, side or ""))
    band = band_side(side or "middle", memory.band)
    return None if word is None else (make(word, CLOSE, band), remember(memory, CLOSE, band))


def is_reversion(entry: Node | None, exit_: Node | None) -> bool:
    """Whether the rule buys below the lower band and sells above the middle or upper of the same band."""
    match entry, exit_:
        case Node("lt", (Node("close"), Node("boll_lower") as low)), Node(
            "gt", (Node("close"), Node() as high)
        ):
            return high in (band_side("upper", low), band_side("middle", low))
    return False


def turned_exit(tokens: Tokens, line: str, entry: Node, memory: Memory) -> Resolved | None:
    """The opposite of the entry in one word: ``之上买入，之下卖出`` of an average, *crosses above … buy, below sell* of a cross.

    ``sell when it is below`` has a verb and is a state.
    """
    if len(tokens) != 1:
        return None
    wanted = {"POST_UP": "gt", "POST_DOWN": "lt"}.get(tokens[0].kind)
    if wanted is None and not _STANDS.search(line[: tokens[0].begin]):
        wanted = _TURNED.get(tokens[0].text.lower())
    other = opposite(entry)
    if wanted is None or other is None or other.name != wanted:
        return None
    is_line = wanted.startswith("cross") or entry.operands[1].name in AVERAGES
    return (other, remember(memory, *entry.operands)) if is_line else None


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


NamedRule = tuple[Node, Node | None, Memory]
"""Entry, exit (None for the opposite), and the memory after it."""

_STYLES = {"reversion": "回归|reversion", "breakout": "突破|break-?out"}


def strip_separators(tokens: Tokens, last: str = "") -> list[Token]:
    """The tokens without separators at both ends, and without ``last`` ones at the end."""
    kept = list(tokens)
    while kept and kept[0].kind in ("SEP", "AND"):
        kept.pop(0)
    while kept and kept[-1].kind in ("SEP", "AND", last):
        kept.pop()
    return kept


def _only_cross(tokens: Tokens, memory: Memory) -> Resolved | None:
    """The rising cross of the only two lines that tokens name."""
    pairs = {pair for pair, end in line_pairs(tokens, 0) if end == len(tokens)}
    if len(pairs) != 1:
        return None
    left, right = pairs.pop()
    return resolve(CrossClause(up=True, left=left, right=right), memory)


def named_rule(tokens: Tokens, memory: Memory) -> NamedRule | None:
    """A rule by its name: ``MACD金叉死叉策略``, ``5/20 SMA crossover``, ``RSI 30/70``, ``买入持有``."""
    plain = [token for token in tokens if token.kind not in ("SEP", "AND", "SLASH")]
    if [token.kind for token in plain] == ["HOLDING"]:
        return HELD, None, memory
    kinds = [token.kind for token in plain if token.kind in _CROSSES]
    if kinds in (["GOLDEN"], ["CROSSOVER"], ["GOLDEN", "DEATH"]):
        lines = strip_separators([token for token in tokens if token.kind not in _CROSSES], "SLASH")
        cross = _only_cross(lines, memory)
        exit_ = opposite(cross[0]) if cross and kinds != ["GOLDEN"] else None
        return None if cross is None else (cross[0], exit_, cross[1])
    if [token.kind for token in tokens[-3:]] == ["NUM", "SLASH", "NUM"]:
        low, high = tokens[-3].value, tokens[-1].value
        for value, end in operands(tokens[:-3], 0):
            if not isinstance(value, Node) or value.name != "rsi" or end != len(tokens) - 3:
                continue
            if 0 <= low < high <= 100:
                below, above = make("lt", value, number(low)), make("gt", value, number(high))
                return below, above, remember(memory, value)
    return None


_CROSSES = ("GOLDEN", "DEATH", "CROSSOVER")
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
    is_macd = labels in _PLAIN_LABELS if labels else _USES_MACD.search(line)
    if plain and plain[0].kind == "MACD" and is_macd:
        cross = _only_cross(plain, memory)
    elif _DUAL.search(labels) and all(token.kind in _TWO_NUMBERS for token in plain):
        days = [replace(token, kind="DAYS") for token in plain if token.kind in ("DAYS", "NUM")]
        average_ = Token(kind="MA", text="", begin=0, end=0)
        cross = _only_cross([*days, average_], memory) if len(days) == 2 else None
    else:
        return None
    return None if cross is None else (cross[0], opposite(cross[0]), cross[1])


_TWO_NUMBERS = ("DAYS", "NUM", "LP", "RP", "SEP", "AND", "SLASH")


def middle_exit(tokens: Tokens, entry: Node, memory: Memory) -> Resolved | None:
    """``exit at the middle band``: the price on the other side of the middle of the entry's band."""
    if [token.kind for token in tokens if token.kind != "BOLL"] != ["MIDDLE"] or len(tokens) > 2:
        return None
    match entry:
        case Node("lt" | "cross_down", (Node("close"), Node("boll_lower") as band)):
            return make("gt", CLOSE, band_side("middle", band)), memory
        case Node("gt" | "cross_up", (Node("close"), Node("boll_upper") as band)):
            return make("lt", CLOSE, band_side("middle", band)), memory
    return None


def named_bands(tokens: Tokens, memory: Memory) -> NamedRule | None:
    """``布林带均值回归``, ``Bollinger breakout (20, 2)``: the two rules named after the bands.

    Reversion buys below the lower band and sells above the upper one; breakout buys above the upper band and
    sells below the middle one.
    """
    styled = [token for token in tokens if token.kind in ("LABEL", "BREAKOUT", "BREAK_UP")]
    styles = {
        style for style, word in _STYLES.items() if any(re.search(word, token.text) for token in styled)
    }
    sizes = [token for token in tokens if token.kind in ("DAYS", "TIMES")]
    others = [token for token in tokens if token not in (*styled, *sizes) and token.kind != "SIGNAL"]
    side, named, numbers, end = band_words(strip_separators(others), 0)
    by_kind = {token.kind: token.value for token in sizes}
    if (
        side
        or not named
        or end != len(strip_separators(others))
        or len(by_kind) < len(sizes)
        or (sizes and numbers)
    ):
        return None
    upper = upper_band(numbers or [by_kind.get("DAYS", 20.0), by_kind.get("TIMES", 2.0)])
    if upper is None or len(styles) != 1:
        return None
    lower, middle = band_side("lower", upper), band_side("middle", upper)
    seen, above = replace(memory, band=upper), make("gt", CLOSE, upper)
    if styles == {"reversion"}:
        return make("lt", CLOSE, lower), above, seen
    return above, make("lt", CLOSE, middle), seen


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

    def fits(self, rule: Rule) -> bool:
        """Whether the entry of a rule has this style."""
        return any(self._fits(leaf) for leaf in leaves_of(rule.entry))

    def _fits(self, leaf: Node) -> bool:
        if found := rank_of(leaf):
            return found[0].name in self.fields and found[1] == self.high
        match leaf:
            case Node("gt" | "ge" | "lt" | "le" as name, (Node() as value, Node("number"))) if is_field(
                value
            ):
                return value.name in self.fields and (name in ("gt", "ge")) == self.high
            case Node("gt", (Node("close"), Node() as right)) if is_extreme(right):
                return not self.fields and right.operands[0].name == "highest"
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
