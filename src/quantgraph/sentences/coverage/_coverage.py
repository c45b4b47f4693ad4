"""A model's reading held against the person's words: each anchor of them, quoted by a clause, comes back in it."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

from quantgraph._util.texts import Note
from quantgraph.data.symbols import is_index_code
from quantgraph.sentences._text import FILLERS, FILLERS_ZH
from quantgraph.sentences.coverage._anchors import Anchor, find_anchors, plain, without_dates


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
    before
        The request that the text changes, in words: they are no additions, and what the text puts something
        else in place of is no anchor.
    """

    codes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    before: str = ""


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
    r"[,，;；。!！?？\n、()]|(?<![a-z])(?:and|or|but|then|while|unless|when|if|after|before|once)(?![a-z])|[且并或但再后]|以及|同时"
)


_MOST_PLACES = 20
"""Places of one quote that are looked at."""


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
            found += [
                (self._places[at], self._places[at + len(wanted) - 1] + 1) for at in starts[:_MOST_PLACES]
            ]
        return found

    def shown(self, begin: int, end: int) -> str:
        """A piece as written, unless another width moved its place."""
        written = self.text if len(self.text) == len(self.plain) else self.plain
        return written[begin:end].strip()

    def word(self, anchor: Anchor) -> str:
        return self.plain[anchor.begin : anchor.end].strip()

    def of(self, *kinds: str) -> list[Anchor]:
        return [each for each in self.anchors if each.kind in kinds]

    @cached_property
    def pieces(self) -> tuple[tuple[int, int], ...]:
        """Where the text is divided by punctuation and by words such as *but* and *unless*, in order."""
        ends = [
            (each.start(), each.end() if each[0] in ",，;；。.!！?？\n、:：" else each.start())
            for each in _BREAKS.finditer(self.plain)
        ]
        begins = [0, *(behind for _, behind in ends)]
        return tuple(zip(begins, [*(before for before, _ in ends), len(self.plain)], strict=True))

    def piece_of(self, anchor: Anchor) -> tuple[int, int]:
        """The piece in which a word begins; a word that divides the text belongs to the piece behind it."""
        at = bisect_right(self.pieces, (anchor.begin, len(self.plain) + 1)) - 1
        begin, end = self.pieces[max(at, 0)]
        return begin, max(end, anchor.end)

    @cached_property
    def by_piece(self) -> dict[tuple[int, int], list[Anchor]]:
        found: dict[tuple[int, int], list[Anchor]] = {}
        for each in self.anchors:
            found.setdefault(self.piece_of(each), []).append(each)
        return found


_read = lru_cache(maxsize=512)(_Text)


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
    said, given = _read(text), parameters or ReadParameters()
    quoted = [(clause, said.places_of(clause.quote)) for clause in clauses if clause.quote]
    found = [
        (0, Gap(kind="not_said", piece=clause.quote, word=""))
        for clause, places in quoted
        if not places and clause.done and clause.quote.strip(",，;；。.!！?？ ")
    ]
    planned = {place for place, words in said.by_piece.items() if _is_about_the_plan(words, said, given)}
    labels = _labels(said, _Text("\n".join(each.became for each in clauses)), quoted)
    for anchor in _anchors_of_the_rule(said, given):
        around = [
            clause
            for clause, places in quoted
            if any(begin < anchor.end and anchor.begin < end for begin, end in places)
        ]
        quotes_all = all(each.part == "whole" for each in around)
        if quotes_all and said.piece_of(anchor) in planned:
            continue
        if around and not any(_returns(anchor, said, each, given) for each in around):
            found.append(_gap("lost", anchor, said, became=around[0].became))
        elif not around and not _is_elsewhere(anchor, said, given, labels):
            found.append(_gap("not_quoted", anchor, said))
    found += _kept_though_removed(said, given)
    for clause, places in quoted:
        if clause.done and clause.part != "whole" and places:
            found += [(places[0][0], gap) for gap in _clause_gaps(clause, said, given)]
    return _first_of_each_piece(found)


def _anchors_of_the_rule(said: _Text, given: ReadParameters) -> list[Anchor]:
    """The anchors of a text without those inside the names of securities, and in what it replaces."""
    securities, indices = _securities(said, given), [(each.begin, each.end) for each in said.of("market")]
    replaced = [match.span(match.lastindex or 0) for match in _REPLACED.finditer(said.plain)]
    stocks = {each.lower() for each in given.codes}

    def is_a_name(anchor: Anchor) -> bool:
        if given.before and any(begin <= anchor.begin and anchor.end <= end for begin, end in replaced):
            return True
        if anchor.kind == "market" and said.word(anchor) not in stocks:
            return False
        return any(begin <= anchor.begin and anchor.end <= end for begin, end in (*securities, *indices))

    return [each for each in said.anchors if not is_a_name(each)]


_REPLACED = re.compile(
    r"([^,，;；。、:：\n把将]{1,12}?)(?:改成|改为|换成|换为|调成|调到|变成)"
    r"|(?:make|change|turn|switch|replace) (?:the |my )?([^,.;\n]{1,24}?) (?:an?|to|into|with|by) "
    r"|(?:instead of|rather than) ([^,.;\n]{1,24})"
)
"""What a message puts something else in place of."""
_REMOVED = re.compile(
    r"(?:去掉|取消|撤掉|删掉|删除|不要|不用|不设|without|drop|remove|delete|cancel|forget|skip|no) ?(?:the |any |my |a )?$"
)


def _is_removed(anchor: Anchor, said: _Text) -> bool:
    return bool(_REMOVED.search(said.plain[max(0, anchor.begin - 16) : anchor.begin]))


def _kept_though_removed(said: _Text, given: ReadParameters) -> Iterator[tuple[int, Gap]]:
    """Words that take a part of the plan away, which the parameters still have."""
    for anchor in said.of("plan"):
        if _is_removed(anchor, said) and _is_in_plan(anchor, given):
            piece = said.shown(*said.piece_of(anchor))
            became = str(dict(given.plan))
            yield anchor.begin, Gap(kind="turned", piece=piece, word=said.word(anchor), became=became)


def _first_of_each_piece(found: Sequence[tuple[int, Gap]]) -> tuple[Gap, ...]:
    order = {"not_said": 0, "turned": 1, "lost": 2, "not_quoted": 2, "added": 3}
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
    said = _Text(text)
    places = [place for clause in clauses if clause.quote for place in said.places_of(clause.quote)]
    rest = []
    for begin, end in said.pieces:
        touched = any(one < end and begin < other for one, other in places)
        if not touched and not any(begin <= each.begin < end for each in said.anchors):
            rest.append(said.shown(begin, end))
    return tuple(words for words in rest if _says_something(words, names))


def _says_something(words: str, names: Collection[str]) -> bool:
    for name in names:
        words = words.replace(plain(name), "")
    left = FILLERS_ZH.sub("", without_dates(words))
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
    return found


def _gap(
    kind: Literal["lost", "not_quoted"], anchor: Anchor, said: _Text, became: str = ""
) -> tuple[int, Gap]:
    piece = said.shown(*said.piece_of(anchor))
    return anchor.begin, Gap(kind=kind, piece=piece, word=said.word(anchor), became=became)


_SCHEDULE = {
    "week": r"周|星期|week|day(?<=[nsi]day)|monday|friday",
    "month": r"月|month",
    "quarter": r"季|quarter",
}
_EVENT = re.compile(
    r"穿|叉|突破|升破|跌破|站上|站稳|收复|失守|转|变为|由|从|首次|cross|break|from|turn|mov|ris|fall|climb|drop|goes|get|clear|reclaim|los|dip|slip",
    re.IGNORECASE,
)
_ZERO = re.compile(r"零|(?<![\d.])0(?![\d.])|zero|正|负|positive|negative|水上|水下", re.IGNORECASE)
_INSTEAD_OF_NOT = re.compile(
    r"仍|守住|保持|维持|一直|始终|否则|取消|停止|放弃|以外|之外|其余|其他|永远|长期|空仓|观望|stay|remain|still|cancel|at or (?:above|below)|forever|outside|other than|else|keep|refrain|no |rule out|out of|block|veto|stand aside|forbid|prohibit|indefinite|at the latest|latest",
    re.IGNORECASE,
)
_ALSO: Mapping[str, str] = {
    "first-session": r"首|第一|头|初|开始|(?<!\d)1(?!\d)|first|open|start|beginning|begins|new",
    "last-session": r"末|底|最后|last|final|end",
    "last-but-one": r"倒数第?二|second[\s-]to[\s-]last|last[\s-]but[\s-]one|penultimate|next[\s-]to[\s-]last",
    "one-day": r"单日|一天|一日|当[天日]|日[内跌涨]|每日|daily|one|single|a day|the day|session",
    "all": r"全|清|所有|全数|all|whole|entire|everything|fully|complete|liquidat",
    "first": r"首|第一|头一|头次|刚|(?:此前|之前).{0,8}[未没]|first|initial|not (?:yet|before)|had not|has not|previously|once|start|earliest",
    "consecutive": r"连|每[天日一]|都|均|consecutive|in a row|straight|successive|each|every|running|all|back to back|streak|and (?:again )?the day before",
    "again": r"再|重|又|回|again|back|re-?|recover|return|once more",
    "back": r"再|重|又|回|穿|突破|升|跌|涨|降|back|re-?|again|ris|climb|fall|drop|cross|above|below|end|inside|return|recover|return|once more",
    "at-least": r"以上|至少|不少|不低|不小|超过|大于|达|多于|高于|及以上|>|≥|at least|or more|more than|over|above|no less|no fewer|not less|exceed|minimum|greater|\+|beyond|or (?:higher|worse|lower)|not (?:below|under|less)|not fallen|worse|no lower|最少|起码|不跌破|守住|超|hold",
    "at-most": r"以内|不超过|不高|不大|不多|至多|最多|小于|低于|少于|不到|<|≤|within|at most|no more|up to|max|under|below|less|limit|cap|不得|only|只|not (?:above|over|exceed|more)|latest|上限|满|期|fewer|之内|near|within|inside|closer",
    "close": r"收|clos|end|finish|settle",
    "same-day": r"当|同|今|一天|那[天日]|该日|信号日|same|that|on (?:a|the|any) day|today|day of|when|signal day|simultan|also|the day's|at the time|while|with",
    "day-before": r"前|昨|上[一个]|之前|t-1|prior|previous|before|yesterday|preceding|last|earlier|一日之前",
    "next-day": r"次|第二|隔|明|下[一个]|之后|t\+1|next|following|after|later|tomorrow",
    "intraday": r"盘中|日内|分时|最高|最低|触|intraday|during|high|low|within the|touch",
    "at-the-end-of-the-day": r"尾盘|收盘|close|end of",
    "only": r"只|仅|才|必须|需|要求|条件|前提|且|同时|并|否则|不|only|must|requir|provided|and|unless|otherwise|just|limit|exclusively|not|condition|while|sole|nothing else|as long as|持有|hold",
    "both": r"都|均(?![线价量值])|同时|且|并|两|both|and|all|each|two|three|together",
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
        "boll channel",
    )
)
_BY_MOVEMENT = frozenset({"return", "candle", "gap", "open", "volatility", "channel"})
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
    if not clause.done or (clause.part == "whole" and anchor.kind in ("modifier", "direction", "plan")):
        return True
    became = _read(clause.became)
    if anchor.kind == "modifier":
        return _has_modifier(anchor, said, became)
    if anchor.kind == "direction":
        return _has_direction(anchor, said, became)
    if anchor.kind == "not":
        return bool(became.of("not") or _INSTEAD_OF_NOT.search(became.plain)) or _says_opposite(
            _read(clause.quote), became, flips=False
        )
    if anchor.kind == "market":
        return _names_a_market(became) or _is_universe(anchor, said, given)
    if anchor.kind == "field":
        return _has_field(anchor, became) or (clause.part == "whole" and _is_listed(anchor, given))
    return _is_in_plan(anchor, given) or _says_again(anchor, became)


def _says_again(anchor: Anchor, became: _Text) -> bool:
    """Whether a number, a schedule or a word of the plan comes back; other words need not."""
    if anchor.kind == "number":
        return _shares(anchor, became.of("number")) or (
            "0" in anchor.values and bool(_ZERO.search(became.plain))
        )
    if anchor.kind == "schedule":
        turns = any(
            _TURNS & each.values and each.unit == "span" and _EVERY.search(became.plain)
            for each in became.of("number")
        )
        return turns or bool(re.search(_SCHEDULE[_value(anchor)], became.plain))
    return anchor.kind != "plan" or bool(re.search(_ALSO[_value(anchor)], became.plain))


def _value(anchor: Anchor) -> str:
    (value,) = anchor.values
    return value


def _is_in_plan(anchor: Anchor, given: ReadParameters) -> bool:
    """Whether the parameters of the trade plan have an anchor."""
    if anchor.kind == "number":
        return bool(anchor.values & _plan_numbers(given))
    if anchor.kind == "schedule":
        return "trade_on" in given.plan
    return anchor.kind == "plan" and any(key in given.plan for key in _PLAN_KEYS.get(_value(anchor), ()))


def _has_modifier(anchor: Anchor, said: _Text, became: _Text) -> bool:
    """Whether a modifier comes back; *at least* and *at most* beside their number."""
    words, value = became.plain, _value(anchor)
    if value in ("at-least", "at-most"):
        numbers = [
            each
            for each in said.of("number")
            if -4 <= anchor.begin - each.end <= 4 or -4 <= each.begin - anchor.end <= 12
        ]
        beside = [each for each in became.of("number") if any(each.meets(number) for number in numbers)]
        if not beside:
            return bool(re.search(_ALSO[value], words))
        ahead = [became.plain[max(0, each.begin - 28) : each.begin] for each in beside]
        behind = [became.plain[each.end : each.end + 14] for each in beside]
        return any(re.search(_ALSO[value], each) for each in ahead) or any(
            map(_AT_LEAST_BEHIND.match, behind)
        )
    return bool(re.search(_ALSO[value], words))


def _has_direction(anchor: Anchor, said: _Text, became: _Text) -> bool:
    crosses = "cross" in anchor.values and bool(re.search(r"上穿|下穿|叉|cross", said.word(anchor)))
    if crosses and not _EVENT.search(became.plain):
        return False
    return bool(became.of("direction", "extent", "extreme") or re.search(r"[><≥≤+-]", became.plain))


_AT_LEAST_BEHIND = re.compile(
    r"\s*(?:个?(?:交易)?[日天]|[只支]|days?|sessions?|%)?\s*(?:及|或)?(?:以上|以内|之内|以下|更[多高大少低小]|or (?:more|less|higher|lower|worse|above|below)|\+|plus|at (?:least|most)|and (?:more|above)|的?上限)"
)
_EVERY = re.compile(r"每|every|each|rebalanc|调")
_TURNS = frozenset({"5", "7", "20", "21", "22", "60", "63"})
"""Sessions of a week, a month, a quarter."""
_INDEX_CODE = re.compile(r"\d{6}\.(?:sh|sz|csi)")
_MEMBERS = re.compile(
    r"\s*(?:里|中|内|的|成分|股票池|全部|members?|names?|stocks?|constituents?|components?|universe)"
)


def _names_a_market(became: _Text) -> bool:
    codes = _INDEX_CODE.findall(became.plain)
    return bool(became.of("market")) or any(is_index_code(code.upper()) for code in codes)


def _is_universe(anchor: Anchor, said: _Text, given: ReadParameters) -> bool:
    """Whether an index says which stocks are traded, as the codes do."""
    traded = "ALL" in given.codes or any(map(is_index_code, given.codes))
    named = _MEMBERS.match(said.plain, anchor.end)
    return bool(named or (traded and _OF.search(said.plain, 0, anchor.begin)))


_OF = re.compile(r"(?:\b(?:in|of|from|among|within|rank|across)(?: the)?|在|从)\s*$")


def _shares(anchor: Anchor, others: Sequence[Anchor]) -> bool:
    return any(anchor.meets(each) for each in others)


def _has_field(anchor: Anchor, became: _Text) -> bool:
    names = {name for each in became.of("field") for name in each.values}
    if anchor.values & names or (
        anchor.values & _BY_MOVEMENT and became.of("direction", "field", "extent", "extreme")
    ):
        return True
    if "volume" in anchor.values or "turnover_rate" in anchor.values:
        return bool(names & {"volume", "turnover_rate", "amount", "volume_ratio"} or "量" in became.plain)
    return any(anchor.values & family and names & family for family in _FAMILIES)


def _is_listed(anchor: Anchor, given: ReadParameters) -> bool:
    """Whether a field is among those to be fetched, under any of its names."""
    listed = [each.lower() for each in given.fields]
    return any(value.startswith(each) or each.startswith(value) for each in listed for value in anchor.values)


def _directions(text: _Text, *, flips: bool = True) -> list[str]:
    """Directions of a text in order: movements and comparisons, without those that only size another one.

    With ``flips`` one that is denied right before it is its opposite.
    """
    found: list[str] = []
    words = text.of("direction", "extent", "extreme")
    for each in words:
        if each.kind == "extreme" or (each.kind == "extent" and _is_size(text, each, words)):
            continue
        (polarity,) = each.values & {"up", "down"}
        found.append(_OPPOSITE[polarity] if flips and _is_denied(text, each) else polarity)
    return found


def _is_size(text: _Text, word: Anchor, words: Sequence[Anchor]) -> bool:
    """Whether a word only sizes another one: a place behind a movement, or a size beside anything."""
    before = [each for each in words if each is not word and _is_near(text, each, word)]
    beside = before + [each for each in words if each is not word and _is_near(text, word, each)]
    if "size" in word.values:
        return any(not each.values & {"size", "most"} for each in beside)
    return any("move" in each.values for each in (beside if "most" in word.values else before))


_OPPOSITE = {"up": "down", "down": "up"}


def _is_denied(text: _Text, word: Anchor) -> bool:
    """Whether a word is denied right before it: ``不破``, *isn't up*."""
    return any(
        each.end <= word.begin
        and re.fullmatch(r"\s?(?:in an? |be |to |get |go )?", text.plain[each.end : word.begin])
        for each in text.of("not")
    )


def _is_near(text: _Text, one: Anchor, other: Anchor) -> bool:
    """Whether one word stands shortly before another, in one part of a sentence."""
    between = text.plain[one.end : other.begin]
    return one.end <= other.begin and len(between) < 24 and not _PARTS.search(between)


def _extremes(text: _Text) -> list[str]:
    return [value for each in text.of("extreme") for value in each.values]


def _clause_gaps(clause: ReadClause, said: _Text, given: ReadParameters) -> Iterator[Gap]:
    """What a clause turns round or adds."""
    quote, became = _read(clause.quote), _read(clause.became)
    for word in _turned(clause, quote, became, given):
        yield Gap(kind="turned", piece=clause.quote, word=word, became=clause.became)
    for word in _added(said, quote, became, given):
        yield Gap(kind="added", piece=clause.quote, word=word, became=clause.became)


def _turned(clause: ReadClause, quote: _Text, became: _Text, given: ReadParameters) -> Iterator[str]:
    yield from _turned_side(clause, quote, became)
    if bool(quote.of("not")) != bool(became.of("not")):
        return
    raw = not quote.of("not") or _says_opposite(quote, became, flips=False)
    if raw and _says_opposite(quote, became):
        yield next(quote.word(each) for each in quote.of("direction", "extent", "extreme"))
    elif (
        _securities_change_places(quote, became, given)
        or _is_crossed(quote, became)
        or (_is_about_one_number(quote) and _is_reversed(_directions(quote), _directions(became)))
    ):
        yield quote.plain


def _securities_change_places(quote: _Text, became: _Text, given: ReadParameters) -> bool:
    """Whether another security is bought, or two have exchanged what is said of them."""
    ours, theirs = (_said_of_each(text, given) for text in (quote, became))
    both = [code for code in ours if ours[code] and theirs.get(code)]
    turned = [code for code in both if ours[code].isdisjoint(theirs[code])]
    bought = [{code for code, words in each.items() if "bought" in words} for each in (ours, theirs)]
    return len(turned) > 1 or bool(bought[0] and bought[1] and bought[0] != bought[1])


def _said_of_each(text: _Text, given: ReadParameters) -> dict[str, set[str]]:
    """For each security, whether it stands right behind a *buy*, and the directions in its part of the text."""
    codes = {plain(name): code for name, code in given.names.items()} | {
        each.lower(): each for each in given.codes
    }
    said: dict[str, set[str]] = {}
    cuts = [0, *(match.start() for match in _PARTS.finditer(text.plain)), len(text.plain)]
    for begin, end in itertools.pairwise(cuts):
        part = text.plain[begin:end]
        named = [(name, code) for name, code in codes.items() if name in part]
        for name, code in named:
            words = said.setdefault(code, set())
            if re.search(rf"(?:buys?|long|买入?)\s?{re.escape(name)}", part):
                words.add("bought")
            elif len({each for _, each in named}) == 1:
                words.update(_directions(_read(part)))
    return said


def _is_about_one_number(text: _Text) -> bool:
    """Whether a text has one number, or one twice: below 20, and then above 20."""
    numbers = [each.values for each in text.of("number")]
    return len(set(numbers)) < max(len(numbers), 2)


def _is_reversed(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether two opposite directions have changed places: below and then above, above and then below."""
    return len(ours) == len(theirs) == 2 and list(ours) == [*reversed(theirs)] and ours[0] != ours[1]


def _says_opposite(quote: _Text, became: _Text, *, flips: bool = True) -> bool:
    """Whether one direction is said less often in the other text, and its opposite more often."""
    ours, theirs = (Counter([*_directions(text, flips=flips), *_extremes(text)]) for text in (quote, became))
    return any(ours[one] > theirs[one] and theirs[other] > ours[other] for one, other in _OPPOSITE.items())


def _turned_side(clause: ReadClause, quote: _Text, became: _Text) -> Iterator[str]:
    sides = {"hold": "buy", "out": "sell"}
    ours, theirs = (
        {sides.get(value, value) for each in text.of("side") for value in each.values}
        for text in (quote, became)
    )
    if not theirs and clause.part in ("entry", "exit") and not quote.of("not"):
        theirs = {"buy" if clause.part == "entry" else "sell"}
    if quote.of("not") or (became.of("not") and not _denies_side(became)):
        return
    if len(ours) == 1 and theirs and not ours & theirs:
        yield quote.word(quote.of("side")[0])
    elif ours == theirs and _denies_side(became):
        yield quote.word(quote.of("side")[0]) if ours else became.plain


def _denies_side(became: _Text) -> bool:
    return any(_is_denied(became, side) for side in became.of("side"))


def _is_crossed(quote: _Text, became: _Text) -> bool:
    """Whether the two lines of one cross have changed places: 5 over 20, and 20 over 5."""
    ours, theirs = _crossing(quote), _crossing(became)
    return ours is not None and theirs is not None and ours == (theirs[1], theirs[0])


def _crossing(text: _Text) -> tuple[frozenset[str], frozenset[str]] | None:
    """The numbers of the lines that are over and under after the one comparison of a text."""
    found = []
    for word in text.of("direction", "extent"):
        before = [each for each in text.of("number") if each.unit != "share" and _is_near(text, each, word)]
        behind = [each for each in text.of("number") if each.unit != "share" and _is_near(text, word, each)]
        if before and behind and not word.values & {"move", "size", "most"}:
            if before[-1].unit != behind[0].unit:
                continue
            lines = (before[-1].values, behind[0].values)
            found.append(lines if "up" in word.values else lines[::-1])
    counts = any("consecutive" in each.values for each in text.of("modifier"))
    return found[0] if len(found) == 1 and not counts else None


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
    before = _Text(given.before)
    known = {value for text in (said, quote, before) for each in text.of("number") for value in each.values}
    known |= (
        {value for name in names for value in _DEFAULTS.get(name, ())} | _plan_numbers(given) | _PLAIN_NUMBERS
    )
    inside = [*_securities(became, given), *((each.begin, each.end) for each in became.of("market"))]
    for each in became.of("number"):
        if (
            not each.values & known
            and each.end > each.begin
            and not any(begin <= each.begin and each.end <= end for begin, end in inside)
        ):
            yield became.word(each)
    told = (*said.of("field"), *before.of("field"))
    said_names = {name for each in told for name in each.values} | set(given.fields)
    for each in became.of("field"):
        if each.values & _HARD_FIELDS and not each.values & said_names and not any(each.values & family and said_names & family for family in _FAMILIES):  # fmt: skip
            yield became.word(each)
    if (
        became.of("market")
        and not (said.of("market") or before.of("market"))
        and not any(map(is_index_code, given.codes))
    ):
        yield became.word(became.of("market")[0])
    for each in became.of("schedule"):
        if not re.search(_SCHEDULE[next(iter(each.values))], f"{said.plain}\n{before.plain}"):
            yield became.word(each)


def _is_of_a_date(number: Anchor, said: _Text) -> bool:
    """Whether a number stands beside nothing but a date."""
    place = said.piece_of(number)
    beside_dates = bool(_ABOUT_DATES.search(said.plain[slice(*place)]))
    return beside_dates and all(each.kind == "number" for each in said.by_piece[place])


def _is_about_the_plan(around: Sequence[Anchor], said: _Text, given: ReadParameters) -> bool:
    """Whether the anchors of a piece only set a part of the plan, which is there, or take one away."""
    if any(each.kind not in ("number", "plan", "direction", "extent", "not") for each in around):
        return False
    words = [each for each in around if each.kind == "plan"]
    if any(_is_removed(each, said) for each in words):
        return True
    planned = [each for each in around if each.kind in ("number", "plan")]
    return bool(words) and all(_is_in_plan(each, given) for each in planned)


_ABOUT_DATES = re.compile(
    r"(?:19|20)\d\d|\d年|月|季|年|q[1-4]|h[12]|month|year|quarter|since|until|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
)


def _is_elsewhere(
    anchor: Anchor, said: _Text, given: ReadParameters, labels: Collection[tuple[int, int]]
) -> bool:
    """Whether an anchor that no clause quotes is among the parameters, or changes nothing by itself."""
    if anchor.kind in ("not", "modifier"):
        return False
    if anchor.kind in ("number", "schedule", "plan"):
        return _is_in_plan(anchor, given) or (anchor.kind == "number" and _is_of_a_date(anchor, said))
    if anchor.kind == "market":
        return "ALL" in given.codes or any(map(is_index_code, given.codes))
    return said.piece_of(anchor) in labels


def _labels(
    said: _Text, pool: _Text, quoted: Sequence[tuple[ReadClause, Sequence[tuple[int, int]]]]
) -> set[tuple[int, int]]:
    """The pieces in which a field, a direction or a side only names the strategy, or is quoted in part."""
    places = [place for _, each in quoted for place in each]
    found = set()
    for piece, words in said.by_piece.items():
        kinds = {each.kind for each in words}
        says_a_rule = kinds & {"direction", "extent", "extreme"} and kinds & {"field", "side", "number"}
        first, last = words[0].begin, max(each.end for each in words)
        if (
            not says_a_rule
            or any(begin < last and first < end for begin, end in places)
            or all(_shares(each, pool.of(each.kind)) for each in words)
        ):
            found.add(piece)
    return found
