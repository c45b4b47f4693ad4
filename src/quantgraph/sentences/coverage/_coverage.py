"""A model's reading held against the person's words: each anchor of them, quoted by a clause, comes back in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from quantgraph._util.texts import Note
from quantgraph.data.symbols import is_index_code
from quantgraph.sentences._text import FILLERS, FILLERS_ZH
from quantgraph.sentences.coverage._anchored_text import (
    AnchoredText,
    ReadClause,
    ReadParameters,
    anchored,
    securities_in,
)
from quantgraph.sentences.coverage._anchors import Anchor, plain, without_date_words
from quantgraph.sentences.coverage._opposites import turned_words
from quantgraph.sentences.coverage._returns import (
    SCHEDULE_WORDS,
    is_in_plan,
    returns,
    same_family,
    shares_value,
)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A difference between a text and its reading, with the person's words that it is about.

    ``not_quoted``: no clause has them; ``not_in_text``: a quote is not in the text; ``lost``: what the clause
    became leaves them out; ``turned``: it says the opposite; ``added``: the user did not write it.
    """

    kind: Literal["not_quoted", "not_in_text", "lost", "turned", "added"]
    piece: str
    word: str
    became: str = ""

    @property
    def note(self) -> Note:
        """The difference in one sentence."""
        return Note(zh=_ZH[self.kind].format(**self.__dict__), en=_EN[self.kind].format(**self.__dict__))


_EN = {
    "not_quoted": "no clause has «{piece}» ({word})",
    "not_in_text": "the quote «{piece}» is not in the user's words: copy them literally",
    "lost": "«{piece}» became «{became}», which leaves out {word}",
    "turned": "«{piece}» became «{became}», which turns {word} round",
    "added": "«{piece}» became «{became}», but nobody said {word}: if it is a default, make it a clause of its own with status default",
}
_ZH = {
    "not_quoted": "没有哪一条写到「{piece}」（{word}）",
    "not_in_text": "「{piece}」不是用户的原话",
    "lost": "「{piece}」被写成「{became}」，少了 {word}",
    "turned": "「{piece}」被写成「{became}」，{word} 的意思相反",
    "added": "「{piece}」被写成「{became}」，而 {word} 没有人说过",
}


def coverage_gaps(
    text: str, clauses: Sequence[ReadClause], parameters: ReadParameters | None = None
) -> tuple[Gap, ...]:
    """Return where a reading differs from the text, one for each piece of the text, in reading order.

    Parameters
    ----------
    text
        The person's words, whole.
    clauses
        The reading. A clause of the part ``whole`` quotes the whole text, of a reading without quotes: only
        numbers, fields, markets, schedules and exceptions must come back in it.

    Examples
    --------
    >>> clauses = [ReadClause(quote="5日线上穿20日线买入", became="5日均线上穿20日均线时买入", part="entry")]
    >>> [str(each.note) for each in coverage_gaps("5日线上穿20日线买入，大盘跌超1%就不买", clauses)]
    ['no clause has «大盘跌超1%就不买» (大盘)']
    """
    whole, params = anchored(text), parameters or ReadParameters()
    quoted = [(clause, whole.places_of(clause.quote)) for clause in clauses if clause.quote]
    found = [
        (0, Gap(kind="not_in_text", piece=clause.quote, word=""))
        for clause, places in quoted
        if not places and clause.done and clause.quote.strip(",，;；。.!！?？ ")
    ]
    planned = {place for place, words in whole.by_piece.items() if _is_about_the_plan(words, whole, params)}
    labels = _labels(whole, anchored("\n".join(each.became for each in clauses)), quoted)
    for anchor in _anchors_of_the_rule(whole, params):
        around = [
            clause
            for clause, places in quoted
            if any(begin < anchor.end and anchor.begin < end for begin, end in places)
        ]
        quotes_all = all(each.part == "whole" for each in around)
        if quotes_all and whole.piece_of(anchor) in planned:
            continue
        if around and not any(returns(anchor, whole, each, params) for each in around):
            found.append(_gap("lost", anchor, whole, became=around[0].became))
        elif not around and not _is_elsewhere(anchor, whole, params, labels):
            found.append(_gap("not_quoted", anchor, whole))
    found += _kept_though_removed(whole, params)
    for clause, places in quoted:
        if clause.done and clause.part != "whole" and places:
            found += [(places[0][0], gap) for gap in _clause_gaps(clause, whole, params)]
    return _first_of_each_piece(found)


def _anchors_of_the_rule(whole: AnchoredText, params: ReadParameters) -> list[Anchor]:
    """The anchors of a text without those inside the names of securities, and in what it replaces."""
    securities = securities_in(whole, params)
    indices = [(each.begin, each.end) for each in whole.of("market")]
    replaced = [match.span(match.lastindex or 0) for match in _REPLACED.finditer(whole.plain)]
    stocks = {each.lower() for each in params.codes}

    def is_a_name(anchor: Anchor) -> bool:
        if params.before and any(begin <= anchor.begin and anchor.end <= end for begin, end in replaced):
            return True
        if anchor.kind == "market" and whole.word(anchor) not in stocks:
            return False
        return any(begin <= anchor.begin and anchor.end <= end for begin, end in (*securities, *indices))

    return [each for each in whole.anchors if not is_a_name(each)]


_REPLACED = re.compile(  # "止损改成5%"
    r"([^,，;；。、:：\n把将]{1,12}?)(?:改成|改为|换成|换为|调成|调到|变成)"
    r"|(?:make|change|turn|switch|replace) (?:the |my )?([^,.;\n]{1,24}?) (?:an?|to|into|with|by) "
    r"|(?:instead of|rather than) ([^,.;\n]{1,24})"
)
"""What a message puts something else in place of."""
_REMOVED = re.compile(  # "去掉"
    r"(?:去掉|取消|撤掉|删掉|删除|不要|不用|不设|without|drop|remove|delete|cancel|forget|skip|no) ?(?:the |any |my |a )?$"
)


def _is_removed(anchor: Anchor, whole: AnchoredText) -> bool:
    return bool(_REMOVED.search(whole.plain[max(0, anchor.begin - 16) : anchor.begin]))


def _kept_though_removed(whole: AnchoredText, params: ReadParameters) -> Iterator[tuple[int, Gap]]:
    """Words that take a part of the plan away, which the parameters still have."""
    for anchor in whole.of("plan"):
        if _is_removed(anchor, whole) and is_in_plan(anchor, params):
            piece = whole.shown(*whole.piece_of(anchor))
            became = str(dict(params.plan))
            yield anchor.begin, Gap(kind="turned", piece=piece, word=whole.word(anchor), became=became)


def _first_of_each_piece(found: Sequence[tuple[int, Gap]]) -> tuple[Gap, ...]:
    order = {"not_in_text": 0, "turned": 1, "lost": 2, "not_quoted": 2, "added": 3}
    kept: dict[str, tuple[int, Gap]] = {}
    for at, gap in sorted(found, key=lambda each: (each[0], order[each[1].kind])):
        before = kept.get(gap.piece)
        if before is None or order[gap.kind] < order[before[1].kind]:
            kept[gap.piece] = (at, gap)
    return tuple(gap for _, gap in sorted(kept.values(), key=lambda each: each[0]))


def unparsed_words(text: str, clauses: Sequence[ReadClause], names: Collection[str] = ()) -> tuple[str, ...]:
    """Return the pieces of a text that no clause quotes and that have no anchor: shown, never asked.

    Dates and the ``names`` of securities are in other parameters.

    >>> unparsed_words("帮我看看，5日线上穿20日线买入，图个吉利", [ReadClause(quote="5日线上穿20日线买入", became="")])
    ('图个吉利',)
    """
    whole = anchored(text)
    places = [place for clause in clauses if clause.quote for place in whole.places_of(clause.quote)]
    rest = []
    for begin, end in whole.pieces:
        touched = any(one < end and begin < other for one, other in places)
        if not touched and not any(begin <= each.begin < end for each in whole.anchors):
            rest.append(whole.shown(begin, end))
    return tuple(words for words in rest if _says_something(words, names))


def plan_pieces(text: str) -> tuple[str, ...]:
    """Return the pieces of a text that speak of the trade plan, as written.

    >>> plan_pieces("5日线上穿20日线买入，每次只用三成资金")
    ('每次只用三成资金',)
    """
    whole = anchored(text)
    return tuple(
        whole.shown(*place)
        for place, words in whole.by_piece.items()
        if any(each.kind == "plan" for each in words)
    )


def _says_something(words: str, names: Collection[str]) -> bool:
    words = plain(words)
    for name in names:
        words = words.replace(plain(name), "")
    left = FILLERS_ZH.sub("", without_date_words(words))
    return any(each not in FILLERS for each in re.findall(r"[a-z']{2,}", left)) or bool(  # "weekly"
        re.search(r"[\u4e00-\u9fff]{2,}", left)  # "均线"
    )


def _gap(
    kind: Literal["lost", "not_quoted"], anchor: Anchor, whole: AnchoredText, became: str = ""
) -> tuple[int, Gap]:
    piece = whole.shown(*whole.piece_of(anchor))
    return anchor.begin, Gap(kind=kind, piece=piece, word=whole.word(anchor), became=became)


def _clause_gaps(clause: ReadClause, whole: AnchoredText, params: ReadParameters) -> Iterator[Gap]:
    """What a clause turns round or adds."""
    quote, became = anchored(clause.quote), anchored(clause.became)
    for word in turned_words(clause, quote, became, params):
        yield Gap(kind="turned", piece=clause.quote, word=word, became=clause.became)
    for word in _added_words(whole, quote, became, params):
        yield Gap(kind="added", piece=clause.quote, word=word, became=clause.became)


_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "macd": ("12", "26", "9"), "rsi": ("14", "6"), "kdj": ("9", "3"), "boll": ("20", "2"), "atr": ("14",), "ma": (),
}  # fmt: skip
"""Parameters that an indicator has by itself."""
_PLAIN_NUMBERS = frozenset({"0", "1", "2", "100"})
_HARD = "rsi macd kdj boll atr pe pb ps roe turnover_rate dv_ratio total_mv circ_mv"
_HARD_FIELDS = frozenset(_HARD.split())
"""Fields that no other words stand for: one that is not in the sentence was added."""


def _added_words(
    whole: AnchoredText, quote: AnchoredText, became: AnchoredText, params: ReadParameters
) -> Iterator[str]:
    names = {name for each in became.of("field") for name in each.values}
    before = anchored(params.before)
    known = {value for text in (whole, quote, before) for each in text.of("number") for value in each.values}
    known |= (
        {value for name in names for value in _DEFAULTS.get(name, ())} | params.plan_numbers | _PLAIN_NUMBERS
    )
    inside = [*securities_in(became, params), *((each.begin, each.end) for each in became.of("market"))]
    for each in became.of("number"):
        if (
            not each.values & known
            and each.end > each.begin
            and not any(begin <= each.begin and each.end <= end for begin, end in inside)
        ):
            yield became.word(each)
    named = (*whole.of("field"), *before.of("field"))
    known_names = {name for each in named for name in each.values} | set(params.fields)
    for each in became.of("field"):
        if (
            each.values & _HARD_FIELDS
            and not each.values & known_names
            and not same_family(each.values, known_names)
        ):
            yield became.word(each)
    if (
        became.of("market")
        and not (whole.of("market") or before.of("market"))
        and not any(map(is_index_code, params.codes))
    ):
        yield became.word(became.of("market")[0])
    for each in became.of("schedule"):
        if not re.search(SCHEDULE_WORDS[each.value], f"{whole.plain}\n{before.plain}"):  # "每周"
            yield became.word(each)


def lost_numbers(texts: Sequence[str], code: Collection[float], params: ReadParameters) -> tuple[str, ...]:
    """Return the numbers above two of clauses, as they were read, that neither code nor plan has.

    >>> lost_numbers(["close above EMA 50"], [60.0, 1.0], ReadParameters())
    ('50',)
    """
    # A window of n may be written as shift(n - 1) or range(n + 1).
    near = {f"{round(each + step, 4):g}" for each in code for step in (-1, 0, 1)}
    known, lost = near | params.plan_numbers, list[str]()
    for text in map(anchored, texts):
        inside = [
            *securities_in(text, params),
            *((each.begin, each.end) for each in text.of("market", "date")),
        ]
        for each in text.of("number"):
            is_plain = each.unit != "share" and bool(each.values & _PLAIN_NUMBERS)
            is_part = any(begin <= each.begin < end for begin, end in inside) or _is_of_a_date(each, text)
            if not (is_plain or is_part or each.values & known):
                lost.append(text.word(each))
    return tuple(dict.fromkeys(lost))


def _is_of_a_date(number: Anchor, whole: AnchoredText) -> bool:
    """Whether a number stands beside nothing but a date."""
    place = whole.piece_of(number)
    beside_dates = bool(_ABOUT_DATES.search(whole.plain[slice(*place)]))
    return beside_dates and all(each.kind == "number" for each in whole.by_piece[place])


def _is_of_parameters(word: Anchor, whole: AnchoredText, params: ReadParameters) -> bool:
    """Whether a word stands beside nothing but dates and securities."""
    begin, end = whole.piece_of(word)
    before, behind = whole.plain[begin : word.begin], whole.plain[word.end : end]
    return not before.strip() and not _says_something(behind, [*params.names, *params.codes])


def _is_about_the_plan(around: Sequence[Anchor], whole: AnchoredText, params: ReadParameters) -> bool:
    """Whether the anchors of a piece only set a part of the plan, which is there, or take one away."""
    if any(each.kind not in ("number", "plan", "direction", "extent", "not") for each in around):
        return False
    words = [each for each in around if each.kind == "plan"]
    if any(_is_removed(each, whole) for each in words):
        return True
    planned = [each for each in around if each.kind in ("number", "plan")]
    return bool(words) and all(is_in_plan(each, params) for each in planned)


_ABOUT_DATES = re.compile(  # "2024"
    r"(?:19|20)\d\d|\d年|月|季|年|q[1-4]|h[12]|month|year|quarter|since|until|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
)


def _is_elsewhere(
    anchor: Anchor, whole: AnchoredText, params: ReadParameters, labels: Collection[tuple[int, int]]
) -> bool:
    """Whether an anchor that no clause quotes is among the parameters, or changes nothing by itself."""
    if anchor.kind in ("not", "modifier"):
        return "only" in anchor.values and _is_of_parameters(anchor, whole, params)
    if anchor.kind in ("number", "schedule", "plan"):
        return is_in_plan(anchor, params) or (anchor.kind == "number" and _is_of_a_date(anchor, whole))
    if anchor.kind == "market":
        return "ALL" in params.codes or any(map(is_index_code, params.codes))
    return whole.piece_of(anchor) in labels


def _labels(
    whole: AnchoredText, pool: AnchoredText, quoted: Sequence[tuple[ReadClause, Sequence[tuple[int, int]]]]
) -> set[tuple[int, int]]:
    """The pieces in which a field, a direction or a side only names the strategy, or is quoted in part."""
    places = [place for _, each in quoted for place in each]
    found = set()
    for piece, words in whole.by_piece.items():
        kinds = {each.kind for each in words}
        says_a_rule = kinds & {"direction", "extent", "extreme"} and kinds & {"field", "side", "number"}
        first, last = words[0].begin, max(each.end for each in words)
        if (
            not says_a_rule
            or any(begin < last and first < end for begin, end in places)
            or all(shares_value(each, pool.of(each.kind)) for each in words)
        ):
            found.add(piece)
    return found
