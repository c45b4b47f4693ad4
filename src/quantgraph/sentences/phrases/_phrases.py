"""What a person's text names, read without its rule; its rule if it is complete; what a message changes.

A model's answer is held against these: a window of another year or an invented code is a misreading.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from quantgraph.errors import BadWindow
from quantgraph.rules import Rule
from quantgraph.sentences._clauses import find_clauses, find_waivers
from quantgraph.sentences._dates import Span, Window, find_window, merge_windows
from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._roles import choose, marked_codes
from quantgraph.sentences._rules import opposite
from quantgraph.sentences._securities import capitals_in, find_symbols
from quantgraph.sentences._text import MARKS, is_word, normalise, tokens_of


def windows_in(text: str, last_session: str | None) -> tuple[Span, ...]:
    """The spans of dates that a text of one or several lines names, of the last line that names any.

    Parameters
    ----------
    last_session
        Last session of the data as ``YYYYMMDD``: relative dates count back from it, and a start alone ends
        there.

    Returns
    -------
    tuple
        First and last day of each span, ``YYYYMMDD``; empty if the text names none, or one that is malformed,
        ambiguous or open at an end that ``last_session`` does not close.

    Examples
    --------
    >>> windows_in("600519.SH 2025年1月和3月", None)
    (('20250101', '20250131'), ('20250301', '20250331'))
    >>> windows_in("buy the top 10 since 2024-03-01", "20251231")
    (('20240301', '20251231'),)
    """
    window = Window()
    for line in text.splitlines():
        try:
            found, _ = find_window(find_symbols(normalise(line), {}, is_word).rest, last_session)
        except BadWindow:
            return ()
        window = found.in_year_of(window) or window.in_year_of(found) or merge_windows(window, found)
    if window.spans:
        return window.spans
    end = window.end or (last_session if window.open_end else None)
    return ((window.start, end),) if window.start and end else ()


def symbols_in(text: str, names: Mapping[str, str], listed: Collection[str] | None = None) -> tuple[str, ...]:
    """The codes that a text names for its rule, in reading order: of stocks, of indices by code or name, and ``ALL``.

    An index that only says where a stock belongs, a stock that gives way to another one, and a benchmark are
    left out.

    Parameters
    ----------
    names
        ``ts_code`` by security name.
    listed
        Codes of the source: other words in capitals are not codes. Without it all of them are.

    Examples
    --------
    >>> symbols_in("上证50里的贵州茅台", {"贵州茅台": "600519.SH"})
    ('600519.SH',)
    >>> symbols_in("buy ICBC (601398.SH)", {}, {"601398.SH"})
    ('601398.SH',)
    """
    found = (_codes_of(line, names, listed) for line in text.splitlines())
    return tuple(dict.fromkeys(code for codes in found for code in codes))


def _codes_of(line: str, names: Mapping[str, str], listed: Collection[str] | None) -> Iterator[str]:
    found = find_symbols(normalise(line), names, is_word, listed)
    choice = choose(found.marked, found.symbols)
    kept = {*choice.watch, *choice.trade, *marked_codes(choice.text, found.symbols)}
    yield from (code for code in found.symbols if code in kept)


_JOINED = r"\s*(?:[,、&/和与跟及]|\band\b|\bor\b|以及)+\s*(?:the\s+)?"
_WORD = r"([a-z][a-z'.-]+|[一-鿿]{2,6}?)"
_BESIDE = re.compile(  # "\U000f0000和茅台"
    rf"(?<![a-z一-鿿]){_WORD}{_JOINED}[{MARKS}]|[{MARKS}]{_JOINED}{_WORD}(?![a-z一-鿿])", re.IGNORECASE
)


def possible_names(
    text: str, names: Mapping[str, str], listed: Collection[str] | None = None
) -> tuple[str, ...]:
    """Words in a row with a security that no rule reads: perhaps a nickname of another one.

    >>> possible_names("maotai and 601318.SH, golden cross, 2025", {}), possible_names("老干妈、601318.SH 2025年", {})
    (('maotai',), ('老干妈',))
    >>> possible_names("buy and 601318.SH", {}), possible_names("golden cross, 601318.SH", {})
    ((), ())
    """
    found = []
    for line in text.splitlines():
        marked = find_symbols(normalise(line), names, is_word, listed).marked
        strange = " ".join(token.text for token in tokens_of(marked) if token.kind == "UNKNOWN")
        found += [match[1] or match[2] for match in _BESIDE.finditer(marked)]
        found = [word for word in found if word in strange and not is_word(word.lower())]
    return tuple(dict.fromkeys(found))


def unlisted_capitals(text: str, listed: Collection[str]) -> tuple[str, ...]:
    """Words written like tickers that are neither codes of the source nor of the language: names or abbreviations.

    >>> unlisted_capitals("Buy ICBC or AAPL on a dip from the ATH", {"AAPL"})
    ('ICBC',)
    """
    found = (
        word for word in capitals_in(normalise(text)) if word not in listed and not is_word(word.lower())
    )
    return tuple(dict.fromkeys(found))


_VOLUMES = {
    "vol": re.compile(  # "放量"
        r"成交量|[放缩均巨天地]量|(?<![数质])量(?![化比])|\bvolumes?\b|\b(?:vwap|obv|mfi)\b", re.IGNORECASE
    ),
    "amount": re.compile(r"成交金?额|\bdollar\s+volumes?\b", re.IGNORECASE),  # "成交额"
}


def volume_words(text: str) -> dict[str, list[str]]:
    """The words of a text for volumes and amounts, by the field of bars that they need.

    >>> volume_words("放量突破时买入"), volume_words("数量不限，close above EMA20")
    ({'vol': ['放量']}, {})
    """
    found = {field: list(dict.fromkeys(pattern.findall(text))) for field, pattern in _VOLUMES.items()}
    return {field: words for field, words in found.items() if words}


def gives_up(text: str, clause: str) -> bool:
    """Whether a text gives up a clause of a trade plan by what it is about.

    >>> gives_up("2025年，仓位也不要了", "每次只用三成资金"), gives_up("不要止损了", "每次只用三成资金")
    (True, False)
    """
    waived = {waiver.topic for line in text.splitlines() for waiver in find_waivers(normalise(line))[0]}
    return bool(waived & {each.topic for each in find_clauses(normalise(clause))[0]})


def restates_without(text: str, clauses: Sequence[str]) -> bool:
    """Whether a text says a rule again without these clauses of a trade plan, which it thereby waives.

    >>> restates_without("5日均线上穿20日均线买入，下穿卖出", ["止损5%"])
    True
    >>> restates_without("金叉买入，止损8%", ["止损5%"]), restates_without("为什么？", ["止损5%"])
    (False, False)
    """
    topics = {clause.topic for words in clauses for clause in find_clauses(normalise(words))[0]}
    again = {clause.topic for line in text.splitlines() for clause in find_clauses(normalise(line))[0]}
    try:
        rule = read_request(text, RequestContext()).strategy
    except BadWindow:
        return False
    return rule is not None and bool(topics) and not topics & again


def says_parameters(text: str, names: Mapping[str, str], last_session: str | None) -> bool:
    """Whether a text names a security, a span of dates, or a clause of a trade plan.

    >>> says_parameters("since the close", {}, None), says_parameters("000342.SZ", {}, None)
    (False, True)
    """
    if symbols_in(text, names) or possible_names(text, names) or windows_in(text, last_session):
        return True
    return any(find_clauses(normalise(line))[0] for line in text.splitlines())


def watched_only(
    text: str, names: Mapping[str, str], listed: Collection[str] | None = None
) -> tuple[str, ...]:
    """The codes that the conditions of a text are about while it trades others; empty if the roles are not read.

    >>> watched_only("when 601318.SH closes above its 20-day average, buy 600519.SH", {})
    ('601318.SH',)
    >>> watched_only("601318.SH, 600519.SH golden cross", {})
    ()
    """
    try:
        read = read_request(text, RequestContext(names=names, listed=listed))
    except BadWindow:
        return ()
    return tuple(code for code in read.watch if code not in read.trade)


def says_a_rule(text: str, names: Mapping[str, str]) -> bool:
    """Whether a text has words of a rule, readable or not, beside its securities and dates.

    Examples
    --------
    >>> says_a_rule("600519.SH，买点强势股，2025年", {}), says_a_rule("600519.SH，2025年", {})
    (True, False)
    """
    try:
        read = read_request(text, RequestContext(names=names))
    except BadWindow:
        return False
    return read.strategy is not None or bool(read.unparsed)


_COURTESY = re.compile(  # "你好"
    r"(?:\b(?:hello|hi|hey|there|everyone|good\s+(?:morning|afternoon|evening|job)|how\s+are\s+you|thanks?|you|thx|cheers|a\s+lot|so\s+much|very\s+much|many"
    r"|great|nice|perfect|cool|awesome|ok|okay|got\s+it|bye|goodbye)\b|你好|您好|嗨|哈喽|在吗|大家好|早上好|下午好|晚上好|谢谢|多谢|感谢|辛苦了?|太好了|太棒了|不错|很好|好的?"
    r"|明白了?|知道了|收到|再见|[你您啦了哦啊呀]|[\W_])+",
    re.IGNORECASE,
)
_LONGEST_COURTESY = 60


def is_courtesy(text: str) -> bool:
    """Whether a text only greets or thanks.

    >>> is_courtesy("Thanks a lot!"), is_courtesy("你好"), is_courtesy("thanks, now use 30 days"), is_courtesy("重试")
    (True, True, False, False)
    """
    stripped = text.strip()
    return (
        0 < len(stripped) <= _LONGEST_COURTESY
        and any(map(str.isalnum, stripped))
        and bool(_COURTESY.fullmatch(stripped))
    )


def says_nothing(text: str) -> bool:
    """Whether a text has nothing that a request could be made of.

    >>> says_nothing("hello"), says_nothing("run a test"), says_nothing("a simple strategy"), says_nothing("600519")
    (True, True, False, False)
    """
    kinds = {token.kind for token in tokens_of(normalise(text))}
    return bool(text.strip()) and (is_courtesy(text) or kinds <= {"SEP", "AND"})


_EXIT_WORDS = frozenset({"SELL", "ELSE", "REVERSE"})


def rule_in(text: str, request: ParsedRequest) -> Rule | None:
    """Return the rule of a text that was read; None if a part is missing or not read.

    That is an unparsed word, an open clause of a trade plan, an exit that is a default, or a rule of several
    securities for others.

    >>> from quantgraph.sentences import RequestContext, read_request
    >>> text = "5日均线上穿20日均线买入"
    >>> rule_in(text, read_request(text, RequestContext())) is None
    True
    """
    rule = request.strategy
    if rule is None or request.unparsed or request.open:
        return None
    if request.watch != request.trade and not request.reads_index and request.watched is None:
        return None
    return rule if names_exit(text) or rule.exit != opposite(rule.entry) else None


def names_exit(text: str) -> bool:
    """Whether a text has a word of selling; never to sell is not an exit.

    >>> names_exit("RSI低于30买入，高于70卖出"), names_exit("buy the dip"), names_exit("RSI低于30买入，一直拿着不卖")
    (True, False, False)
    """
    return any(token.kind in _EXIT_WORDS for token in tokens_of(normalise(text)))


_LEAD = re.compile(  # "那么换成"
    r"^(?:\s|[,.:]|(?:那么?|然后|再|请|帮我|把它|把|现在|如果|试试|看看|只|就)|(?:换成?|改成?|改为|用|选)"
    r"|(?:and|now|then|please|ok|what|how|about|if|let's|try|use|make|it|change|switch|to|with|only|instead|run|the|same|for|on)\b)*",
    re.IGNORECASE,
)
_TRAIL = re.compile(  # "怎么样"
    r"(?:\s|[?.!,]|呢|吧|试试|看看|怎么样|如何|呀|啊|\b(?:instead|please|now|then)\b)*$", re.IGNORECASE
)
_PERIOD = re.compile(  # "20日均线"
    r"(?!(?:19|20)\d\d$)(\d{1,4})\s*-?(?:日|天|days?|sessions?)?(?:均线|涨幅|周期|线|average|sma|ema)?",
    re.IGNORECASE,
)
_ITS_PERIOD = re.compile(  # "均线的周期改成"
    r"^(?:均线|周期|天数|参数|the\s+(?:average|period)\s+)(?:的(?:周期|天数))?\s*(?:改成|改为|换成|用|to)?\s*",
    re.IGNORECASE,
)
_EXCHANGED = re.compile(  # "把20日改成60日"
    r"(?:把|将)?\s*(\d{1,4})\s*[日天]?(?:均线|线)?\s*(?:改成|改为|换成|换为)\s*(\d{1,4})\s*[日天]?(?:均线|线)?"
    r"|(?:the\s+)?(\d{1,4})[\s-]*days?(?:\s+(?:average|sma|ema))?\s+(?:to|with|by|into)\s+(?:an?\s+)?"
    r"(\d{1,4})(?:[\s-]*days?)?(?:\s+(?:average|sma|ema))?",
    re.IGNORECASE,
)
_NEXT_CHANGE = re.compile(  # ",再加上一个条件"
    r"\s*[,;。]\s*(?=(?:再|另外|并且?|还要)?\s*(?:加上?|增加|添加|附加)|(?:and\s+|also\s+)?add\b|also\s+require)",
    re.IGNORECASE,
)
_SAID_PERIOD = re.compile(r"(\d{1,4})(?=\s*-?\s*(?:日|天|days?\b|sessions?\b))", re.IGNORECASE)  # "20日"
_AMOUNT = re.compile(r"\d+(?:\.\d+)?\s*(?:万|亿|k|m)(?:元|块)?", re.IGNORECASE)  # "10万元"
_DROP = re.compile(  # "去掉止损"
    r"(?:去掉|不要|不用|取消|删掉|remove|drop|without|no)\s*(?:the\s+)?(?P<what>止损|止盈|移动止损|手续费|本金|仓位|stop[- ]?loss|take[- ]?profit"
    r"|trailing stop|stop|target|commission|fees?)(?:了|吧)?",
    re.IGNORECASE,
)


def changed_request(last: Mapping[str, Any], message: str, context: RequestContext) -> str:
    """The text of the whole request after a message; the message itself if it is a whole request.

    Parameters
    ----------
    last
        Parameters of the request before: ``strategy_desc``, ``ts_code``, ``start_date``, ``end_date``.

    Examples
    --------
    >>> last = {"strategy_desc": "600519.SH 收盘价上穿20日均线买入，下穿卖出，止损5%，2025年"}
    >>> changed_request(last, "改成30天", RequestContext())
    '600519.SH 收盘价上穿30日均线买入，下穿卖出，止损5%，2025年'
    >>> changed_request(last, "去掉止损", RequestContext())
    '600519.SH 收盘价上穿20日均线买入，下穿卖出，2025年'
    >>> changed_request(last, "2024年呢？", RequestContext()).splitlines()[1]
    '2024年'
    """
    if not last.get("strategy_desc") or _is_whole(message, context):
        return message
    first, *others = _NEXT_CHANGE.split(normalise(message), maxsplit=1)
    if first and others:
        return changed_request(
            {**last, "strategy_desc": changed_request(last, first, context)}, others[0], context
        )
    before = _text_of(last, context)
    change = _TRAIL.sub("", _LEAD.sub("", normalise(message)))
    if dropped := _DROP.fullmatch(_TRAIL.sub("", normalise(message).strip())):
        shorter = _without_clause(before, dropped["what"])
        return shorter if shorter != before else f"{before}\n{message}"
    if (pair := _EXCHANGED.fullmatch(change)) and (
        exchanged := _with_period(before, *[*filter(None, pair.groups())][::-1])
    ):
        return exchanged
    if (period := _PERIOD.fullmatch(_ITS_PERIOD.sub("", change))) and (
        replaced := _with_period(before, period[1])
    ):
        return replaced
    if _AMOUNT.fullmatch(change):
        change += "本金"
    return f"{before}\n{change or message}"


def with_answers(text: str, answers: Sequence[tuple[str, str]], context: RequestContext) -> str:
    r"""The text of a request with answers to questions: one about words that were not read takes their place.

    It does so if more is read then; else it stands behind the text.

    >>> with_answers("600519.SH 金叉买入，死叉闪电", [("没有读懂：闪电。", "卖出")], RequestContext())
    '600519.SH 金叉买入，死叉卖出'
    >>> with_answers("600519.SH 金叉买入", [("请问要用哪段时间的数据", "2025年")], RequestContext())
    '600519.SH 金叉买入\n2025年'
    """
    for question, answer in answers:
        behind = f"{text}\n{answer}"
        not_read = _not_read(text, context)
        spans = [word for word in not_read if word and word in question and word in text]
        inside = [text.replace(word, answer, 1) for word in spans]
        counts = [len(_not_read(each, context)) for each in (*inside, behind)]
        least = min(range(len(counts)), key=lambda at: (counts[at], at == len(inside)))
        text = inside[least] if inside and least < len(inside) and counts[least] < counts[-1] else behind
    return text


def _not_read(text: str, context: RequestContext) -> tuple[str, ...]:
    """The words of a text that are not read; all of it if a date in it is malformed."""
    try:
        read = read_request(text, context)
    except BadWindow:
        return (text,)
    return (*read.unparsed, *(("",) if read.strategy is None else ()))


def _is_whole(message: str, context: RequestContext) -> bool:
    try:
        read = read_request(message, context)
    except BadWindow:
        return False
    return read.strategy is not None and bool(read.symbols or read.start)


def _text_of(last: Mapping[str, Any], context: RequestContext) -> str:
    """The text of a request, with its symbols and its span if the rule's words do not name them."""
    text = str(last["strategy_desc"])
    try:
        read = read_request(text, context)
    except BadWindow:
        return text
    lines = [text]
    if not read.symbols and last.get("ts_code"):
        lines.append(str(last["ts_code"]))
    if read.start is None and last.get("start_date"):
        lines.append(f"{last['start_date']}到{last['end_date']}")
    return "\n".join(lines)


def _with_period(text: str, new: str, old: str = "") -> str | None:
    """The text with another number of days in place of an old one, or of the only one; None if it has none."""
    found = set(_SAID_PERIOD.findall(text))
    old = old or (min(found) if len(found) == 1 else "")
    return (
        _SAID_PERIOD.sub(lambda match: new if match[1] == old else match[0], text) if old in found else None
    )


def _without_clause(text: str, word: str) -> str:
    """The text without the pieces between commas in which a word stands."""
    pieces = re.split(r"([,，;；。\n]\s*)", text)  # "贵州茅台，20日均线"
    kept = [pieces[0]] if word.lower() not in pieces[0].lower() else []
    for mark, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if word.lower() not in piece.lower():
            kept += [mark, piece]
    return "".join(kept).lstrip(",，;；。\n ")
