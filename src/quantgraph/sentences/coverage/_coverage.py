"""A model's reading held against the person's words: each anchor of them, quoted by a clause, comes back in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from quantgraph._util.texts import Note
from quantgraph.sentences._text import FILLERS, FILLERS_ZH
from quantgraph.sentences.coverage._anchors import Anchor, find_anchors, plain


@dataclass(frozen=True, kw_only=True)
class ReadClause:
    """A piece of the person's text as a model read it.

    Attributes
    ----------
    quote
        The person's own words; empty for a default.
    became
        The same, said again by the model.
    part
        ``entry``, ``exit``, ``plan``, ``other`` or ``whole``.
    done
        False for a clause that the reading names as not done, or as a default.
    """

    quote: str
    became: str
    part: str = "other"
    done: bool = True


@dataclass(frozen=True, kw_only=True)
class ReadParameters:
    """What a reading has beside its clauses: codes, the trade plan, fields of daily indicators.

    Attributes
    ----------
    names
        ``ts_code`` by security name, for the names in the text.
    """

    codes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A difference between a text and its reading, with the person's words that it is about.

    ``not_quoted``: no clause has them; ``not_said``: a quote is not in the text; ``lost``: what the clause
    became leaves them out; ``turned``: it says the opposite; ``added``: it says what nobody said.
    """

    kind: Literal["not_quoted", "not_said", "lost", "turned", "added"]
    piece: str
    word: str
    became: str = ""

    @property
    def note(self) -> Note:
        """The difference in one sentence."""
        return Note(zh=_ZH[self.kind].format(**self.__dict__), en=_EN[self.kind].format(**self.__dict__))


_EN = {
    "not_quoted": "no clause has «{piece}» ({word})",
    "not_said": "the quote «{piece}» is not in the user's words: copy them literally",
    "lost": "«{piece}» became «{became}», which leaves out {word}",
    "turned": "«{piece}» became «{became}», which turns {word} round",
    "added": "«{piece}» became «{became}», but nobody said {word}: if it is a default, make it a clause of its own with status default",
}
_ZH = {
    "not_quoted": "没有哪一条写到「{piece}」（{word}）",
    "not_said": "「{piece}」不是用户的原话",
    "lost": "「{piece}」被写成「{became}」，少了 {word}",
    "turned": "「{piece}」被写成「{became}」，{word} 的意思相反",
    "added": "「{piece}」被写成「{became}」，而 {word} 没有人说过",
}
_BREAKS = re.compile(
    r"[,，;；。!！?？\n、:：]|\.(?=\s|$)|(?<![a-z])(?:but|unless|except|then|while)(?![a-z])|但是?|不过|除非|然后|并且|而且|同时"
)
_PARTS = re.compile(
    r"[,，;；。!！?？\n、]|(?<![a-z])(?:and|or|but|then|while|unless|when|if)(?![a-z])|[且并或但]|以及|同时"
)


@dataclass(frozen=True)
class _Text:
    """A text in one form, with its anchors; ``whole`` has no spaces."""

    text: str

    @cached_property
    def plain(self) -> str:
        return plain(self.text)

    @cached_property
    def anchors(self) -> tuple[Anchor, ...]:
        return find_anchors(self.plain)

    @cached_property
    def _places(self) -> list[int]:
        return [at for at, letter in enumerate(self.plain) if not letter.isspace()]

    def places_of(self, quote: str) -> list[tuple[int, int]]:
        """Where a quote stands, spaces aside; pieces of one that is joined by dots are found apart."""
        whole, found = "".join(self.plain.split()), []
        for piece in re.split(r"\.{3,}|…+", plain(quote)):
            wanted = "".join(piece.split()).strip(",，;；。.!！?？")
            starts = [match.start() for match in re.finditer(re.escape(wanted), whole)] if wanted else []
            if wanted and not starts:
                return []
            found += [(self._places[at], self._places[at + len(wanted) - 1] + 1) for at in starts]
        return found

    def word(self, anchor: Anchor) -> str:
        return self.plain[anchor.begin : anchor.end].strip()

    def of(self, *kinds: str) -> list[Anchor]:
        return [each for each in self.anchors if each.kind in kinds]

    def piece(self, begin: int, end: int) -> str:
        """The clause of the text around a place, as displayed."""
        before = [
            match.end() if self.plain[match.start()] in ",，;；。!！?？\n、:：." else match.start()
            for match in _BREAKS.finditer(self.plain)
            if match.end() <= begin
        ]
        behind = [match.start() for match in _BREAKS.finditer(self.plain) if match.start() >= end]
        return self.plain[max(before, default=0) : min(behind, default=len(self.plain))].strip()


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
    said, given = _Text(text), parameters or ReadParameters()
    securities = _securities(said, given)
    found: list[tuple[int, Gap]] = []
    quoted: list[tuple[int, int, ReadClause]] = []
    for clause in clauses:
        places = said.places_of(clause.quote) if clause.quote else []
        if clause.done and clause.quote.strip(",，;；。.!！?？ ") and not places:
            found.append((0, Gap(kind="not_said", piece=clause.quote, word="")))
        quoted += [(begin, end, clause) for begin, end in places]
    pool = _Text("\n".join(each.became for each in clauses))
    for anchor in said.anchors:
        if any(begin <= anchor.begin and anchor.end <= end for begin, end in securities):
            continue
        around = [clause for begin, end, clause in quoted if begin < anchor.end and anchor.begin < end]
        if around:
            found += (
                []
                if any(_returns(anchor, said, each, given) for each in around)
                else [_lost(anchor, said, around[0])]
            )
        elif not _is_elsewhere(anchor, said, pool, given, quoted):
            piece = said.piece(anchor.begin, anchor.end)
            found.append((anchor.begin, Gap(kind="not_quoted", piece=piece, word=said.word(anchor))))
    for clause in clauses:
        if (
            clause.quote
            and clause.done
            and clause.part != "whole"
            and (places := said.places_of(clause.quote))
        ):
            found += [(places[0][0], gap) for gap in _clause_gaps(clause, said, given)]
    return _first_of_each_piece(found)


def _first_of_each_piece(found: Sequence[tuple[int, Gap]]) -> tuple[Gap, ...]:
    order = {"not_said": 0, "turned": 1, "lost": 2, "not_quoted": 2, "added": 3}
    kept: dict[str, tuple[int, Gap]] = {}
    for at, gap in sorted(found, key=lambda each: (each[0], order[each[1].kind])):
        before = kept.get(gap.piece)
        if before is None or order[gap.kind] < order[before[1].kind]:
            kept[gap.piece] = (at, gap)
    return tuple(gap for _, gap in sorted(kept.values(), key=lambda each: each[0]))


def unparsed_words(text: str, clauses: Sequence[ReadClause]) -> tuple[str, ...]:
    """Return the pieces of a text that no clause quotes and that have no anchor: shown, never asked.

    >>> unparsed_words("帮我看看，5日线上穿20日线买入，图个吉利", [ReadClause(quote="5日线上穿20日线买入", became="")])
    ('图个吉利',)
    """
    said = _Text(text)
    places = [place for clause in clauses if clause.quote for place in said.places_of(clause.quote)]
    pieces, at = [], 0
    for match in [*_BREAKS.finditer(said.plain), None]:
        end = len(said.plain) if match is None else match.start()
        pieces.append((at, end))
        at = end if match is None else match.end()
    rest = []
    for begin, end in pieces:
        touched = any(one < end and begin < other for one, other in places)
        if not touched and not any(begin <= each.begin < end for each in find_anchors(said.plain)):
            rest.append(said.plain[begin:end].strip())
    return tuple(words for words in rest if _says_something(words))


def _says_something(words: str) -> bool:
    left = FILLERS_ZH.sub("", words)
    return any(each not in FILLERS for each in re.findall(r"[a-z']{2,}", left)) or bool(
        re.search(r"[\u4e00-\u9fff]{2,}", left)
    )


_CODE = re.compile(r"(?<![a-z\d])(?:\d{6}(?:\.(?:sh|sz|bj))?|(?:sh|sz|bj)\d{6})(?![a-z\d])")


def _securities(said: _Text, given: ReadParameters) -> list[tuple[int, int]]:
    """Where the text names securities: numbers in them are no numbers of the rule."""
    found = [match.span() for match in _CODE.finditer(said.plain)]
    names = [
        *given.names,
        *given.codes,
        *(code.partition(".")[0] for code in given.codes if not code[0].isdigit()),
    ]
    for name in filter(None, map(plain, names)):
        bounds = (r"(?<![a-z\d])", r"(?![a-z\d])") if name.isascii() else ("", "")
        found += [match.span() for match in re.finditer(re.escape(name).join(bounds), said.plain)]
    return found + [(each.begin, each.end) for each in said.of("market") if re.search(r"\d", said.word(each))]


def _lost(anchor: Anchor, said: _Text, clause: ReadClause) -> tuple[int, Gap]:
    piece = said.piece(anchor.begin, anchor.end)
    return anchor.begin, Gap(kind="lost", piece=piece, word=said.word(anchor), became=clause.became)


_MARKET_NAME = re.compile(
    r"\d{6}\.(?:sh|sz|csi)|指|index|market|沪深|上证|中证|创业|科创|s&p|nasdaq|sse|csi", re.IGNORECASE
)
_EVENT = re.compile(
    r"穿|叉|突破|升破|跌破|站上|站稳|收复|失守|转|变为|由|从|首次|cross|break|from|turn|mov|ris|fall|climb|drop|goes|get|clear|reclaim|los|dip|slip",
    re.IGNORECASE,
)
_ZERO = re.compile(r"零|(?<![\d.])0(?![\d.])|zero|正|负|positive|negative|水上|水下", re.IGNORECASE)
_INSTEAD_OF_NOT = re.compile(
    r"仍|守住|保持|维持|一直|始终|否则|仅|才|只有|必须|需|取消|停止|放弃|以外|之外|其余|其他|才能|前提|永远|长期|仅当|空仓|观望|hold|stay|remain|still|only|cancel|at or (?:above|below)|forever|outside|other than|else|keep|provided|as long as|refrain|no |rule out|out of|block|veto|stand aside|forbid|prohibit|indefinite",
    re.IGNORECASE,
)
_ALSO: Mapping[str, str] = {
    "first": r"首|第一|刚|初|之前(?:没|未)|前一.{0,3}(?:未|没|不)|此前|first|initial|previously|not (?:yet|before)|had not|has not|earliest|once",
    "consecutive": r"连|每[天日一]|都|均|consecutive|in a row|straight|successive|each|every|running|all|back to back|streak|and (?:again )?the day before",
    "again": r"再|重|又|回|again|back|re-?|recover|return|once more",
    "same-day": r"当|同|今|那[天日]|该日|信号日|same|that|on the day|today|day of|when|signal day|simultan|also|the day's|at the time|while|with",
    "day-before": r"前|昨|上[一个]|之前|t-1|prior|previous|before|yesterday|preceding|last|earlier|一日之前",
    "next-day": r"次|第二|隔|明|下[一个]|后|t\+1|next|following|after|later|tomorrow|1|一",
    "intraday": r"盘中|日内|分时|最高|最低|触|intraday|during|high|low|within the|touch",
    "at-the-end-of-the-day": r"尾盘|收盘|close|end of",
    "only": r"只|仅|才|必须|需|要求|条件|前提|且|同时|并|否则|不|only|must|requir|provided|and|unless|otherwise|just|limit|exclusively|not|condition|while|sole|nothing else|as long as|持有|hold",
    "both": r"都|均|同时|且|并|两|both|and|all|each|two|three|together",
    "trailing": r"移动|跟踪|追踪|回撤|回落|高点|峰值|最高|trail|peak|high|drawdown|maximum",
    "stop": r"止损|亏|跌|成本|买入价|入场|割|低于|stop|loss|lose|entry|below|fall|drop|cost|purchase|bought|buy|down|paid|adverse",
    "target": r"止盈|盈|赚|涨|获利|目标|高于|profit|gain|target|rise|above|up|\+",
    "size": r"仓|资金|等权|等额|平均|份|比例|成|金额|一半|%|size|weight|equal|cash|capital|account|equity|portfolio|money|fund|half|position|each|percent|share|alloc|invest",
    "positions": r"最多|不超过|同时|上限|至多|只|at most|max|no more|up to|limit|position|hold|cap|only|simultan",
    "leverage": r"杠杆|融资|倍|lever|margin|borrow|x",
    "short": r"做空|卖空|融券|空头|空|short",
    "accumulate": r"定投|加|补|追加|增|每|再买|定期|accumul|add|more|regular|averag|pyramid|invest|each|every|again|another|increase|buy",
    "rebalance": r"调|换|轮|再平衡|更新|重新|替换|卖出|rebalanc|rotat|replac|swap|refresh|updat|resel|re-|adjust|re?pick|sell|every|each",
    "minutes": r"分钟|小时|分时|minute|hour|tick|min",
    "costs": r"手续费|佣金|滑点|费|commission|fee|slippage|cost",
}  # fmt: skip
"""What a modifier or a word of the plan may have become."""
_PLAN_KEYS: Mapping[str, tuple[str, ...]] = {
    "stop": ("stop_loss",), "target": ("take_profit",), "trailing": ("trailing_stop",), "size": ("size",),
    "positions": ("max_positions", "size"), "costs": ("commission", "slippage_bps"), "rebalance": ("trade_on", "rebalance"), "accumulate": ("accumulate",),
}  # fmt: skip
_FAMILIES: tuple[frozenset[str], ...] = tuple(
    frozenset(row.split())
    for row in (
        "ma ema",
        "turnover_rate volume amount volume_ratio",
        "std boll",
        "total_mv circ_mv",
        "volatility std atr",
        "ps pe pb ps",
        "boll ma",
        "kdj rsi kdj",
    )
)
_BY_MOVEMENT = frozenset({"return", "candle", "gap", "open", "volatility"})
"""Fields that a movement says too: ``跌幅`` is a return."""


def _plan_numbers(given: ReadParameters) -> set[str]:
    def values(value: Any) -> Iterator[float]:
        if isinstance(value, Mapping):
            for each in value.values():
                yield from values(each)
        elif isinstance(value, list | tuple):
            for each in value:
                yield from values(each)
        elif isinstance(value, bool):
            return
        elif isinstance(value, int | float):
            yield float(value)
        else:
            yield from (float(each) for each in re.findall(r"\d+(?:\.\d+)?", str(value)))

    found = [*values(dict(given.plan))]
    return {f"{round(each * scale, 4):g}" for each in found for scale in (1, 100, 10_000)}


def _returns(anchor: Anchor, said: _Text, clause: ReadClause, given: ReadParameters) -> bool:
    """Whether an anchor comes back in what its clause became."""
    became = _Text(clause.became)
    if not clause.done or (clause.part == "whole" and anchor.kind in ("modifier", "direction", "plan")):
        return True
    match anchor.kind:
        case "number":
            return _has_number(anchor, became) or bool(anchor.values & _plan_numbers(given))
        case "schedule":
            turns = {"5", "7", "20", "21", "22", "60", "63"}
            return (
                _shares(anchor, became.of("schedule"))
                or "trade_on" in given.plan
                or any(turns & each.values for each in became.of("number"))
            )
        case "market":
            return bool(
                became.of("market")
                or _MARKET_NAME.search(became.plain)
                or any(code.lower() in became.plain for code in given.codes)
            )
        case "field":
            return _has_field(anchor, became) or (clause.part == "whole" and _is_listed(anchor, given))
        case "direction":
            if (
                "cross" in anchor.values
                and _is_strict_cross(said.word(anchor))
                and not _EVENT.search(became.plain)
            ):
                return False
            return bool(became.of("direction", "extent", "extreme")) or bool(
                re.search(r"[><≥≤+-]", became.plain)
            )
        case "not":
            return _keeps_not(said, clause, became)
        case "modifier":
            (value,) = anchor.values
            return bool(re.search(_ALSO[value], became.plain))
        case "plan":
            (value,) = anchor.values
            return bool(re.search(_ALSO[value], became.plain)) or any(
                key in given.plan for key in _PLAN_KEYS.get(value, ())
            )
    return True


def _is_strict_cross(word: str) -> bool:
    return bool(re.search(r"上穿|下穿|叉|cross", word))


def _shares(anchor: Anchor, others: Sequence[Anchor]) -> bool:
    return any(anchor.values & each.values for each in others)


def _has_number(anchor: Anchor, became: _Text) -> bool:
    return _shares(anchor, became.of("number")) or ("0" in anchor.values and bool(_ZERO.search(became.plain)))


def _has_field(anchor: Anchor, became: _Text) -> bool:
    names = {name for each in became.of("field") for name in each.values}
    if anchor.values & names or (anchor.values & _BY_MOVEMENT and became.of("direction", "field", "extent")):
        return True
    if "volume" in anchor.values or "turnover_rate" in anchor.values:
        return bool(names & {"volume", "turnover_rate", "amount", "volume_ratio"} or "量" in became.plain)
    return any(anchor.values & family and names & family for family in _FAMILIES)


def _is_listed(anchor: Anchor, given: ReadParameters) -> bool:
    """Whether a field is among those to be fetched, under any of its names."""
    listed = [each.lower() for each in given.fields]
    return any(value.startswith(each) or each.startswith(value) for each in listed for value in anchor.values)


def _quote_anchors(said: _Text, clause: ReadClause) -> _Text:
    del said
    return _Text(clause.quote)


def _keeps_not(said: _Text, clause: ReadClause, became: _Text) -> bool:
    quote = _quote_anchors(said, clause)
    if became.of("not") or _INSTEAD_OF_NOT.search(became.plain):
        return True
    ours, theirs = _polarities(quote), _polarities(became)
    return bool({_opposite(each) for each in ours} & theirs)


def _opposite(polarity: str) -> str:
    return "down" if polarity == "up" else "up"


def _polarities(text: _Text, begin: int = 0, end: int | None = None) -> set[str]:
    """Directions of a text: movements, and comparisons that do not only size a movement before them."""
    found, last = set(), -100
    for each in text.anchors:
        if (
            each.begin < begin
            or (end is not None and each.end > end)
            or each.kind not in ("direction", "extent")
        ):
            continue
        between = text.plain[last : each.begin] if last >= 0 else ""
        sizes = each.kind == "extent" and last >= 0 and len(between) < 24 and not _PARTS.search(between)
        if not sizes:
            found |= each.values & {"up", "down"}
        last = each.end
    return found


def _extremes(text: _Text) -> set[str]:
    return {value for each in text.of("extreme") for value in each.values}


def _clause_gaps(clause: ReadClause, said: _Text, given: ReadParameters) -> Iterator[Gap]:
    """What a clause turns round or adds."""
    quote, became = _quote_anchors(said, clause), _Text(clause.became)
    for word in _turned(clause, quote, became):
        yield Gap(kind="turned", piece=quote.plain, word=word, became=clause.became)
    for word in _added(said, quote, became, given):
        yield Gap(kind="added", piece=quote.plain, word=word, became=clause.became)


def _turned(clause: ReadClause, quote: _Text, became: _Text) -> Iterator[str]:
    denied = bool(quote.of("not")) != bool(became.of("not"))
    yield from _turned_side(clause, quote, became)
    if denied:
        return
    ours, theirs = _polarities(quote), _polarities(became)
    if len(ours) == 1 and theirs and not ours & theirs:
        yield next(quote.word(each) for each in quote.of("direction", "extent"))
    elif (
        not ours
        and len(high := _extremes(quote)) == 1
        and (other := _extremes(became) | theirs)
        and not high & other
    ):
        yield quote.word(quote.of("extreme")[0])
    elif _is_crossed(quote, became):
        yield quote.plain
    else:
        yield from _turned_numbers(quote, became)


def _turned_side(clause: ReadClause, quote: _Text, became: _Text) -> Iterator[str]:
    sides = {"hold": "buy", "out": "sell"}
    ours, theirs = (
        {sides.get(value, value) for each in text.of("side") for value in each.values}
        for text in (quote, became)
    )
    if not theirs and clause.part in ("entry", "exit") and not quote.of("not"):
        theirs = {"buy" if clause.part == "entry" else "sell"}
    if len(ours) == 1 and theirs and not ours & theirs:
        yield quote.word(quote.of("side")[0])
    elif ours == theirs and _is_denied(became) and not quote.of("not"):
        yield quote.word(quote.of("side")[0]) if ours else became.plain


def _is_denied(became: _Text) -> bool:
    """Whether a buy or a sell is denied right before it."""
    denials = became.of("not")
    return any(0 <= side.begin - each.end <= 2 for side in became.of("side") for each in denials)


def _is_crossed(quote: _Text, became: _Text) -> bool:
    """Whether the two lines of one cross have changed places: 5 over 20, and 20 over 5."""
    ours, theirs = _crossing(quote), _crossing(became)
    return ours is not None and theirs is not None and ours == (theirs[1], theirs[0])


def _crossing(text: _Text) -> tuple[frozenset[str], frozenset[str]] | None:
    """The numbers that are over and under after a comparison, where a text has one comparison of two numbers."""
    numbers = text.of("number")
    between = [each for each in text.of("direction", "extent") if len(numbers) == 2 and numbers[0].end <= each.begin and each.end <= numbers[1].begin]  # fmt: skip
    if len(between) != 1 or "move" in between[0].values:
        return None
    over, under = numbers[0].values, numbers[1].values
    return (over, under) if "up" in between[0].values else (under, over)


def _turned_numbers(quote: _Text, became: _Text) -> Iterator[str]:
    """The words of directions beside a number that are opposite in both texts."""
    ours, theirs = (dict(_numbers_with_direction(text)) for text in (quote, became))
    for number, polarity in ours.items():
        other = next((value for key, value in theirs.items() if key & number), polarity)
        if other != polarity:
            yield next(quote.word(each) for each in quote.of("number") if each.values == number)
            return


def _numbers_with_direction(text: _Text) -> Iterator[tuple[frozenset[str], str]]:
    """Each number with the one direction of its part of the text."""
    cuts = [0, *(match.start() for match in _PARTS.finditer(text.plain)), len(text.plain)]
    for begin, end in zip(cuts, cuts[1:], strict=False):
        numbers = [each for each in text.of("number") if begin <= each.begin and each.end <= end]
        polarities = _polarities(text, begin, end)
        if len(polarities) == 1:
            yield from ((each.values, next(iter(polarities))) for each in numbers)


_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "macd": ("12", "26", "9"), "rsi": ("14", "6"), "kdj": ("9", "3"), "boll": ("20", "2"), "atr": ("14",), "ma": (),
}  # fmt: skip
"""Parameters that an indicator has by itself."""
_PLAIN_NUMBERS = frozenset({"0", "1", "2", "100"})
_HARD_FIELDS = frozenset(
    {
        "rsi",
        "macd",
        "kdj",
        "boll",
        "atr",
        "pe",
        "pb",
        "ps",
        "roe",
        "turnover_rate",
        "dv_ratio",
        "total_mv",
        "circ_mv",
    }
)


def _added(said: _Text, quote: _Text, became: _Text, given: ReadParameters) -> Iterator[str]:
    names = {name for each in became.of("field") for name in each.values}
    known = {value for text in (said, quote) for each in text.of("number") for value in each.values}
    known |= (
        {value for name in names for value in _DEFAULTS.get(name, ())} | _plan_numbers(given) | _PLAIN_NUMBERS
    )
    inside = _securities(became, given)
    for each in became.of("number"):
        if not each.values & known and not any(
            begin <= each.begin and each.end <= end for begin, end in inside
        ):
            yield became.word(each)
    said_names = {name for each in said.of("field") for name in each.values} | set(given.fields)
    for each in became.of("field"):
        if each.values & _HARD_FIELDS and not each.values & said_names and not any(each.values & family and said_names & family for family in _FAMILIES):  # fmt: skip
            yield became.word(each)
    if became.of("market") and not said.of("market") and not any(map(_MARKET_NAME.search, given.names)):
        yield became.word(became.of("market")[0])
    if became.of("schedule") and not said.of("schedule"):
        yield became.word(became.of("schedule")[0])


def _is_elsewhere(
    anchor: Anchor,
    said: _Text,
    pool: _Text,
    given: ReadParameters,
    quoted: Sequence[tuple[int, int, ReadClause]],
) -> bool:
    """Whether an anchor that no clause quotes is among the parameters, or changes nothing by itself."""
    match anchor.kind:
        case "number":
            return bool(anchor.values & _plan_numbers(given))
        case "schedule":
            return "trade_on" in given.plan
        case "market":
            return any(_MARKET_NAME.search(code) for code in given.codes) or "ALL" in given.codes
        case "plan":
            (value,) = anchor.values
            return any(key in given.plan for key in _PLAN_KEYS.get(value, ()))
        case "not" | "modifier":
            return False
    # A field, a direction or a side alone may name the strategy ("a breakout strategy").
    whole = said.piece(anchor.begin, anchor.end)
    around = [each for each in said.anchors if said.piece(each.begin, each.end) == whole]
    if any(begin < each.end and each.begin < end for each in around for begin, end, _ in quoted):
        return True
    kinds = {each.kind for each in around}
    says_a_rule = kinds & {"direction", "extent", "extreme"} and kinds & {"field", "side", "number"}
    return not says_a_rule or all(_shares(each, pool.of(each.kind)) for each in around)
