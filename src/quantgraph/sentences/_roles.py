"""Which securities a sentence watches, and which it trades.

*When the SSE 50 closes above its 20-day average, buy 600519.SH* watches the index and trades the stock. A
security is the object of a verb (*buy 600519.SH*), the subject of a condition (``上证50站上20日均线``), or a topic,
which is both. One subject for the whole rule is read; anything else is named, and the planner asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from quantgraph._util.texts import Note
from quantgraph.data.symbols import is_index_code
from quantgraph.rules import Node, Rule
from quantgraph.sentences._rules import (
    AVERAGES,
    BANDS,
    CLOSE,
    KDJ_LINES,
    MACD_LINES,
    VOLUME,
    Watched,
    is_field,
    of_closes,
    values_in,
)
from quantgraph.sentences._securities import ALL, symbol_of
from quantgraph.sentences._text import MARKS, Token, clean_words

Codes = tuple[str, ...]


def is_group(code: str) -> bool:
    """Whether a code stands for several stocks when it is traded."""
    return code == ALL or is_index_code(code)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A line after the phrases that choose between securities: ``用A代替B``, ``上证50里的B``, *A instead of B*.

    ``text`` keeps the marks of the chosen ones.
    """

    text: str
    watch: Codes = ()
    trade: Codes = ()
    benchmark: str = ""
    problems: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What one line watches and trades, both empty if it names no security.

    ``explicit`` is False for a line that only lists securities.
    """

    watch: Codes = ()
    trade: Codes = ()
    explicit: bool = False
    subjects: int = 0
    problems: tuple[Note, ...] = ()


_M = f"([{MARKS}])"
_LIST = f"([{MARKS}](?:[\\s,、和与及]*[{MARKS}])*)"
_FIRST = tuple(
    re.compile(pattern, re.IGNORECASE)  # "\U000f0000 instead of \U000f0001"
    for pattern in (
        rf"(?:用|以|换成)?\s*{_M}\s*(?:来)?(?:代替|替代|取代|替换)(?:了|掉)?\s*{_M}",
        rf"{_M}\s*,?\s*(?:instead\s+of|in\s+place\s+of|rather\s+than|(?:and\s+|but\s+)?not|而?不是|而非)\s*{_M}",
        rf"{_M}\s*\(?(?:in|of|from|within|a\s+member\s+of|which\s+is\s+in)\s+(?:the\s+)?{_M}\s*\)?",
    )
)
_SECOND = tuple(
    re.compile(pattern, re.IGNORECASE)  # "把\U000f0000换成\U000f0001"
    for pattern in (
        rf"(?:把|将|由|从)\s*{_M}\s*(?:换成|换为|改成|改为|替换为|替换成|变成)\s*{_M}",
        rf"(?:replace|swap|change)\s*{_M}\s*(?:with|by|for|to)\s*{_M}",
        rf"(?:不要|不买|不做|不是|not)\s*{_M}\s*,?\s*(?:只要|而要|而是|改要|要|只买|只做|but|only|use|trade)?\s*{_M}",
    )
)
_MEMBER = re.compile(rf"{_M}\s*(?:里面?|中|内|之中|当中|范围内?)?\s*的?\s*{_M}")  # "\U000f0000中的\U000f0001"
_BENCHMARK = re.compile(  # "以\U000f0000为基准"
    rf"(?:以|用|对比)\s*{_M}\s*(?:为|作为?|做|当)\s*(?:业绩)?(?:比较)?基准|(?:业绩)?(?:比较)?基准\s*(?:为|是|用|[:=])?\s*{_M}"
    rf"|benchmark(?:ed)?\s*(?:against|to|is|of|with|[:=])?\s*(?:the\s+)?{_M}|{_M}\s+as\s+(?:the\s+|a\s+)?benchmark",
    re.IGNORECASE,
)
_WATCHES = re.compile(  # "watch \U000f0000, trade \U000f0001"
    rf"(?:观察|监控|参考|盯着?|看|watch(?:ing)?)\s*{_LIST}\s*[,;和并]?\s*(?:and\s+)?(?:只?交易|只?买卖|trade|trading)\s*{_LIST}",
    re.IGNORECASE,
)
_EXCEPT = re.compile(  # "除了\U000f0000以外"
    rf"(?:除了|除|除去|除开|剔除|去掉|不含|不包括|不包含|排除|不要|except(?:\s+for)?|excluding|exclude|but\s+not|without|other\s+than)\s*{_LIST}\s*(?:之?外|以外)?的?",
    re.IGNORECASE,
)
_AGAINST = re.compile(  # "跑赢\U000f0000"
    rf"(?:{_M}\s*)?(?:相对于?|对比|relative\s+to|\bvs\b\.?|\bversus\b|against|跑赢|跑输|强于|弱于|outperforms?|underperforms?|(?:stronger|weaker|higher|better|worse)\s+than)\s*(?:the\s+)?{_M}",
    re.IGNORECASE,
)


def marked_codes(marks: str, symbols: Sequence[str]) -> Codes:
    """The codes whose marks a text has, in reading order."""
    return tuple(dict.fromkeys(symbol_of(letter, symbols) for letter in re.findall(f"[{MARKS}]", marks)))


def _show_codes(text: str, symbols: Sequence[str]) -> str:
    """Words of the line with codes in place of their marks."""
    return clean_words(re.sub(f" ?([{MARKS}]) ?", lambda m: f" {symbol_of(m[1], symbols)} ", text))


def choose(text: str, symbols: Sequence[str]) -> Choice:
    """Read the phrases of a marked line that choose between securities, and take them out of it."""
    text, benchmark = _without_benchmark(text, symbols)
    for pattern in _FIRST:
        text = pattern.sub(lambda match: _first(match, symbols), text)
    for pattern in _SECOND:
        text = pattern.sub(r" \2 ", text)
    text, problems = _members(text, symbols)
    watch: Codes = ()
    trade: Codes = ()
    if match := _WATCHES.search(text):
        watch, trade = marked_codes(match[1], symbols), marked_codes(match[2], symbols)
        text = f"{text[: match.start()]} {text[match.end() :]}"
    for pattern, note in ((_EXCEPT, _exclusion_note), (_AGAINST, _comparison_note)):
        problems += [note(_show_codes(match[0], symbols)) for match in pattern.finditer(text)]
        text = pattern.sub(lambda match: " " + "".join(re.findall(f"[{MARKS}]", match[0])) + " ", text)
    return Choice(text=text, watch=watch, trade=trade, benchmark=benchmark, problems=tuple(problems))


def _without_benchmark(text: str, symbols: Sequence[str]) -> tuple[str, str]:
    found = _BENCHMARK.search(text)
    if found is None:
        return text, ""
    code = symbol_of(next(group for group in found.groups() if group), symbols)
    return f"{text[: found.start()]} {text[found.end() :]}", code


def _first(match: re.Match[str], symbols: Sequence[str]) -> str:
    """The first of two securities; of *A in B* only if B is an index."""
    if match.re is _FIRST[-1] and not is_group(symbol_of(match[2], symbols)):
        return match[0]
    return f" {match[1]} "


def _members(text: str, symbols: Sequence[str]) -> tuple[str, list[Note]]:
    """The line with ``上证50里的贵州茅台`` as the member; an index beside a code without a word between is open."""
    problems: list[Note] = []

    def member(match: re.Match[str]) -> str:
        one, other = (symbol_of(match[group], symbols) for group in (1, 2))
        if not is_group(one) or is_group(other):
            return match[0]
        if re.search(r"[里中内的]", match[0]):  # "中的"
            return f" {match[2]} "
        problems.append(_beside(one, other))
        return match[0]

    return _MEMBER.sub(member, text), problems


def _beside(index: str, code: str) -> Note:
    return Note(
        zh=f"{index} 与 {code} 并列：是只交易 {code}，还是指数成分股也交易",
        en=f"{index} beside {code}: is {code} traded alone, or the members of the index too",
    )


def _exclusion_note(words: str) -> Note:
    return Note(
        zh=f"{words}（不能从成分股里去掉个别股票，请列出要交易的代码）",
        en=f"{words} (members cannot be left out; list the codes to trade)",
    )


def _comparison_note(words: str) -> Note:
    return Note(zh=f"{words}（不能比较两个标的）", en=f"{words} (two securities cannot be compared)")


@dataclass(kw_only=True)
class _Named:
    """The securities of a line by their role: ``objects`` of *buy* and *sell*, subjects, topics."""

    bought: list[Codes] = field(default_factory=list)
    sold: list[Codes] = field(default_factory=list)
    subjects: list[Codes] = field(default_factory=list)
    topics: list[Codes] = field(default_factory=list)


_ROW = ("AND", "SEP", "SLASH")
_CONDITION_ENDS = (
    "",
    "BUY",
    "SELL",
    "SEP",
    "AND",
    "OR",
    "LABEL",
    "SIGNAL",
    "HOLDING",
    "ELSE",
    "DATA",
    "VALUATION",
    "RP",
)


_IF = re.compile(r"\b(?:when|if|once|where|whenever|as|while)\b|当|如果|假如|若|一旦|只要", re.IGNORECASE)


def _groups(text: str, tokens: Sequence[Token], symbols: Sequence[str]) -> list[tuple[Codes, str, str]]:
    """Each row of securities with the kinds of the tokens before and behind it."""
    places = [(match.start(), match[0]) for match in re.finditer(f"[{MARKS}]", text)]  # "\U000f0000"
    found: list[tuple[Codes, str, str]] = []
    at = 0
    while at < len(places):
        end = at
        while end + 1 < len(places) and _is_row(text, tokens, places[end][0], places[end + 1][0]):
            end += 1
        since = places[at - 1][0] if at else -1
        before = [token for token in tokens if since < token.begin and token.end <= places[at][0]]
        behind = [token for token in tokens if token.begin > places[end][0]]
        codes = marked_codes("".join(mark for _, mark in places[at : end + 1]), symbols)
        asked = _IF.search(text, before[-1].end if before else 0, places[at][0])
        kind = before[-1].kind if before else ""
        found.append((codes, "IF" if asked else kind, behind[0].kind if behind else ""))
        at = end + 1
    return found


def _is_row(text: str, tokens: Sequence[Token], one: int, other: int) -> bool:
    """Whether nothing but commas, *and* and blanks lies between two marks."""
    between = [token for token in tokens if one < token.begin < other]
    if any(token.kind not in _ROW or token.text in (":", ";", ".", "。", "!", "?") for token in between):
        return False
    words = "".join(text[token.begin : token.end] for token in between)
    rest = [letter for letter in text[one + 1 : other] if letter.isalnum()]
    return len(rest) <= sum(letter.isalnum() for letter in words)


def _named(groups: Sequence[tuple[Codes, str, str]]) -> _Named:
    named = _Named()
    for codes, before, behind in groups:
        if before == "BUY":
            named.bought.append(codes)
        elif before == "SELL":
            named.sold.append(codes)
        elif behind not in _CONDITION_ENDS:
            named.subjects.append(codes)
        elif behind in ("BUY", "SELL") and before and named.subjects:
            (named.bought if behind == "BUY" else named.sold).append(codes)
        else:
            named.topics.append(codes)
    return named


def _union(groups: Sequence[Codes]) -> Codes:
    return tuple(dict.fromkeys(code for group in groups for code in group))


def _join_names(groups: Sequence[Codes]) -> str:
    return "; ".join(", ".join(group) for group in dict.fromkeys(groups))


def roles_of(text: str, tokens: Sequence[Token], symbols: Sequence[str]) -> Roles:
    """The roles of the securities of one marked line."""
    groups = _groups(text, tokens, symbols)
    if not groups:
        return Roles()
    named = _named(groups)
    every = _union([codes for codes, _, _ in groups])
    explicit = bool(named.bought or named.sold or named.subjects)
    count = len(named.subjects)
    subjects, bought, sold = set(named.subjects), set(named.bought), set(named.sold)
    objects = bought | sold
    if len(bought) > 1 or (bought and sold - bought) or len(sold) > 1:
        return Roles(watch=every, trade=every, explicit=True, problems=(_two_objects(named),))
    traded = _union([*objects]) if objects else _union(named.topics) if subjects else every
    plain = Roles(watch=traded or every, trade=traded or every, explicit=explicit, subjects=count)
    if len(subjects) > 1 and {*subjects, *objects, *named.topics} != {every}:
        return Roles(watch=every, trade=every, explicit=True, problems=(_two_subjects(named),))
    if not traded or not (subjects | {*named.topics}) - {traded}:
        return plain
    outside = {*named.topics} - {traded} if objects else set()
    (subject,) = subjects or ((),)
    unclear = outside or len(subject) != 1 or {*subject} & {*traded} or any(map(is_group, traded))
    if unclear or subject == (ALL,):  # a stock and an index, or all stocks, have two readings
        return Roles(watch=every, trade=every, explicit=True, problems=(_unclear(every),))
    return Roles(watch=subject, trade=traded, explicit=True, subjects=count)


def _two_objects(named: _Named) -> Note:
    bought, sold = _join_names(named.bought) or "-", _join_names(named.sold) or "-"
    return Note(
        zh=f"买入的是 {bought}，卖出的是 {sold}：买卖要是同一批股票",
        en=f"{bought} is bought and {sold} is sold: both must be the same stocks",
    )


def _two_subjects(named: _Named) -> Note:
    listed = _join_names(named.subjects)
    return Note(
        zh=f"条件分别说的是 {listed}：一条规则只能观察一个标的",
        en=f"the conditions are about {listed}: a rule watches one security",
    )


def _unclear(codes: Codes) -> Note:
    listed = ", ".join(codes)
    return Note(
        zh=f"{listed} 中哪个是条件所看的、哪个是要交易的，没有读懂",
        en=f"which of {listed} the conditions are about and which is traded",
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
            merged = replace(merged, problems=(*merged.problems, _unplaced_note(roles, merged)))
    return merged


def watched_of(watch: Sequence[str], trade: Sequence[str], rule: Rule | None = None) -> Watched | None:
    """The one watched security of a rule that trades others.

    None if both are the same, if it cannot be coded, or if the rule reads an index beside the traded ones.
    """
    if rule is not None and rule.indices:
        return None
    if tuple(watch) == tuple(trade) or len(watch) != 1 or any(map(is_group, trade)):
        return None
    return Watched(code=watch[0], traded=tuple(trade))


def _unplaced_note(new: Roles, old: Roles) -> Note:
    named, watched, traded = (", ".join(codes) for codes in (new.trade, old.watch, old.trade))
    return Note(
        zh=f"{named} 是替换所看的 {watched}，还是替换所交易的 {traded}（可以说“观察 A，交易 B”）",
        en=f'whether {named} replaces the watched {watched} or the traded {traded} (say "watch A, trade B")',
    )


_KINDS = {
    **dict.fromkeys((*AVERAGES, *BANDS, CLOSE.name, VOLUME.name), "price"),
    **dict.fromkeys(MACD_LINES, "macd"),
    **dict.fromkeys(KDJ_LINES, "kdj"),
}


def _kinds(condition: Node) -> set[str]:
    """Kinds of the values of a condition: a price and its average are one kind, as are the lines of MACD."""
    return {
        "field" if is_field(value) else _KINDS.get(value.name, value.name) for value in values_in(condition)
    }


def watching_problem(rule: Rule, roles: Roles) -> Note | None:
    """Why a rule cannot be about one watched security, or None.

    A rank needs several securities; an index has closes alone; and a condition of another kind than the one
    that names its subject may be about either security.
    """
    if roles.watch == roles.trade:
        return None
    watched, traded = ", ".join(roles.watch), ", ".join(roles.trade)
    conditions = (rule.entry, rule.exit)
    if rule.across:
        return Note(zh=f"只看 {watched} 一个标的，没有排名", en=f"a ranking of {watched} alone")
    if is_index_code(roles.watch[0]) and not all(map(of_closes, conditions)):
        return Note(zh=f"指数 {watched} 只有收盘点位", en=f"the index {watched} has closes alone")
    entry, exit_ = (_kinds(condition) for condition in conditions)
    if len(entry) > 1 or (exit_ - entry and roles.subjects < 2):
        return Note(
            zh=f"每个条件看的是 {watched} 还是 {traded}（请逐个写明）",
            en=f"whether each condition is about {watched} or {traded} (name it for each)",
        )
    return None
