"""Nodes beside the rule of each stock: a market filter, an exit by the market, or one that is added later.

``但当天大盘跌超1%就不买``, *only when the SSE 50 is above its 60-day average*, ``指数跌破60日线全部清仓``. Each is taken out of its line
as text and read alone; one that does not have exactly one meaning stays in the line, whose words are then asked about.
``再加一个条件：成交量大于5日均量`` adds one to the entry.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from quantgraph.data.symbols import index_code, is_index_code
from quantgraph.rules import Node, Rule, make
from quantgraph.sentences._rules import NEVER, leaves_of, of_closes, opposite, rank_of
from quantgraph.sentences._securities import INDEX_CODES
from quantgraph.sentences._strategies import RuleReading, read_condition
from quantgraph.sentences._text import clean_words, tokens_of


@dataclass(frozen=True, kw_only=True)
class MarketFilter:
    """A condition that entries need beside the rule, or one that sells; ``words`` are the clause as written.

    One that ``buys`` is a rule by itself, if there is no other.
    """

    words: str
    condition: Node
    sells: bool = False
    buys: bool = False


_ADDS = re.compile(  # "加一个条件:大盘在20日均线以上"
    r"\s*(?:再|另外|并且?|还要|买入时?)*\s*(?:加上?|增加|添加|附加)\s*(?:一个|1个|一条|1条|个)?\s*(?:买入)?(?:条件|过滤|限制)\s*[:,]?\s*(?P<zh>[^,;。\n]+?)(?:\s*(?:时|才买入?))?\s*[。.]?\s*"
    r"|\s*(?:and\s+|also\s+|now\s+|then\s+)*(?:add\s+(?:a|an|another|one\s+more)\s+(?:entry\s+|buy\s+)?(?:condition|filter)\s*[:,]?|also\s+require)\s*(?:that\s+)?(?P<en>[^,;\n]+?)[.\s]*",
    re.IGNORECASE,
)
_AGAIN = r"指数|\bindex\b"
_MEMBERS = r"(?!\s*(?:的|里|中|内|全部|所有)?\s*(?:成分|成份|股票|个股|members?\b|constituents?\b|components?\b|stocks?\b))"
_INSIDE = (
    r"(?:(?!\band\b|\bor\b|\bbut\b|\bbuy\b|\bsell\b|且|或|并|同时|买|卖|[,;:。!?\x1f]|\.(?!\d)).){2,48}?"
)
_STOP = r"(?=\s*(?:[,;:。!?\x1f]|\.(?!\d)|$))"
_WHEN = r"(?:\s*(?:的?时候|时|的话|那天))?"
_BUYS = r"(?:开仓|建仓|入场|进场|买入|买进|买)"
_SELLS = r"(?:清仓|空仓|卖出|卖掉|卖光|全?清掉|全清|平仓|离场|出场|走人|卖)"
_OUT = r"(?:sell|exit|close|get\s+out(?:\s+of)?|go\s+to\s+cash|liquidate)(?:\s+(?:everything|all(?:\s+(?:positions|of\s+(?:it|them)))?|it|them))?"
_IF_ZH = r"(?:只有|只在|仅当|仅在|必须|要求)?(?:当|如果|若|要是|一旦|在)?\s*"
_IF = r"\b(?:when|if|once|while|whenever|as\s+long\s+as|provided(?:\s+that)?)\s+(?:the\s+)?"
_IN_OR_OUT = r"all\s+in|fully\s+invested|(?:go\s+to|in)\s+cash"
_FORMS: tuple[tuple[str, str], ...] = (
    ("switch", rf"@S\s*@C\s*(?:就|则)?\s*(?P<one>满仓|空仓)\s*[,;、]\s*(?:(?:大盘|指数)\s*)?(?P<two>{_INSIDE})\s*(?:就|则)?\s*(?P<then>满仓|空仓){_STOP}"),
    ("switch", rf"\b(?P<one>{_IN_OR_OUT})\s+{_IF}@S\s+@C\s*,?\s*(?:and\s+)?(?P<then>{_IN_OR_OUT})\s+(?:(?:when|if|once)\s+(?:it\s+)?)?(?P<two>otherwise|{_INSIDE}){_STOP}"),
    ("not", rf"(?:但是?|不过|可是)?\s*{_IF_ZH}@S\s*@C{_WHEN}\s*,?\s*(?:就|则|都)?\s*(?:不(?:再|要|能)?|别再?)\s*{_BUYS}{_STOP}"),
    ("not", rf"除非\s*@S\s*@C{_STOP}"),
    ("not", rf"(?:\b(?:and|but)\s+)?\b(?:(?:do\s+not|don't|never)\s+(?:buy|enter)(?:\s+(?:anything|any))?|no\s+(?:buys|entries|new\s+(?:buys|entries|positions))"
            rf"|skip\s+(?:the\s+)?(?:buys?|entry|entries))\s+{_IF}@S\s+@C{_STOP}"),
    ("not", rf"\bunless\s+(?:the\s+)?@S\s+@C{_STOP}"),
    ("out", rf"(?:\b(?:and|or)\s+)?\b{_OUT}\s+{_IF}@S\s+@C{_STOP}"),
    ("out", rf"{_IF}@S\s+@C\s*,\s*{_OUT}{_STOP}"),
    ("out", rf"(?:但是?|或者?|另外)?\s*{_IF_ZH}@S\s*@C{_WHEN}\s*(?:就|则|都|,)?\s*(?:全部|全都|所有(?:股票|持仓)?|立即|马上)?\s*都?\s*{_SELLS}{_STOP}"),
    ("need", rf"(?:并且|而且|同时|且)?\s*{_IF_ZH}@S\s*@C{_WHEN}\s*,?\s*才(?:能|会|可以)?\s*{_BUYS}{_STOP}"),
    ("need", rf"(?:并且|同时|而且|且)\s*@S\s*@C(?={_WHEN}\s*(?:就|则)?\s*{_BUYS})"),
    ("lead", rf"(?:只有)?(?:当|如果|若|要是|一旦)\s*@S\s*@C{_WHEN}\s*(?=,)"),
    ("join", r"(?:\b(?:and|but)\s+)?(?:\bonly\s+(?:when|if|while)|\bas\s+long\s+as|\bprovided(?:\s+that)?|\bwhile)\s+(?:the\s+)?@S\s+@C(?=\s*(?:[,;:\x1f]|\.(?!\d)|$)|\s+sell\b)"),
    ("join", r"\band\s+(?:the\s+)?@S\s+@C(?=\s*(?:[,;:\x1f]|\.(?!\d)|$)|\s+sell\b)"),
    ("alone", r"(?:the\s+)?@S\s*@C"),
    ("lead", rf"(?:\bonly\s+)?{_IF}@S\s+@C(?=\s*,|\s+buy\b)"),
)  # fmt: skip
"""Clauses by their form; @S is the index, @C what it does.

It buys and sells everything (``switch``); entries need it (``need``; ``join`` behind a clause that buys, ``lead`` before one) or its opposite (``not``), or it sells (``out``).
"""
_NOT_BOUGHT = re.compile(  # "但是RSI已经过了70就别追了"
    rf"(?:^|(?<=[,;:。]))\s*(?:但是?|不过|可是)?\s*{_IF_ZH}(?P<zh>{_INSIDE}){_WHEN}\s*(?:就|则|都|也)?\s*(?:不(?:再|要|能)?|别再?)(?:追高?|买入?|进场){{1,2}}了?{_STOP}"
    rf"|(?:\b(?:and|but)\s+)?\b(?:do\s+not|don't|never)\s+(?:buy|enter|chase)(?:\s+it)?\s+(?:when|if|while)\s+(?P<en>{_INSIDE}){_STOP}",
    re.IGNORECASE,
)
"""What keeps from buying a stock by itself."""
_DAY = r"(?:当天|当日|今天|单日)?"
_MOVE = re.compile(  # "跌幅超过2%"
    rf"^(?:{_DAY}\s*(?P<zh>跌幅?|下跌|大跌|涨幅?|上涨|大涨)\s*(?P<than>超过|超|大于|不低于|至少)\s*(?P<x>\d+(?:\.\d+)?)\s*%"
    r"|(?:is\s+|was\s+)?(?P<en>falls?|fell|drops?|dropped|down|loses|lost|rises?|rose|gains?|gained|up)\s+(?:by\s+)?(?P<over>more\s+than|over|at\s+least)\s+"
    r"(?P<y>\d+(?:\.\d+)?)\s*%\s*(?:(?:on\s+)?(?:that|the\s+same|the)\s+day|in\s+(?:a|one)\s+day|today)?)$",
    re.IGNORECASE,
)
_STATE = re.compile(  # "收盘在"
    rf"^{_DAY}\s*(?:收盘?在|收盘?于|处于|位于|运行在|站在|在|收(?!盘))?\s*|^(?:is|was|stays|trades|trading)\s+",
    re.IGNORECASE,
)
_ACTION = re.compile(rf"{_BUYS}|{_SELLS}|\b(?:buy|enter|sell|exit|get\s+out)\b", re.IGNORECASE)  # "买入"
_MARKET = re.compile(r"大盘|\bmarket\b", re.IGNORECASE)  # "大盘"
_ITS_STOCKS = re.compile(r"(?:其|它的?)?成[分份]股|\b(?:its\s+)?(?:members|constituents)\b", re.IGNORECASE)


def is_market_word(text: str) -> bool:
    """Whether a text speaks of the market as a whole, for which the host names an index."""
    return _MARKET.search(text) is not None


def find_market(
    text: str, names: Mapping[str, str], named: Sequence[str] = ()
) -> tuple[tuple[MarketFilter, ...], str]:
    """The conditions on an index in a normalised line, and the line without them.

    ``names`` are codes by name; *the index* alone is the only index ``named`` in the whole request.
    """
    subjects = {name: code for name, code in names.items() if name and is_index_code(code)}
    if (added := _ADDS.fullmatch(text)) and (
        condition := _added_condition(added["zh"] or added["en"], subjects, named)
    ):
        return (MarketFilter(words=clean_words(text), condition=condition),), ""
    found: list[MarketFilter] = []
    for kind, pattern in _patterns(tuple(sorted(subjects, key=len, reverse=True))):
        for match in [*pattern.finditer(text)][::-1]:
            code = _code_of(match["s"], subjects, named)
            condition = _condition(match["c"]) if code and _fits(kind, text, match) else None
            if code and condition and (made := _filters(kind, match, code, condition)):
                found += made
                text = f"{text[: match.start()]} {text[match.end() :]}"
    for match in [*_NOT_BOUGHT.finditer(text)][::-1]:
        if (condition := read_condition(tokens_of(match["zh"] or match["en"]))) is not None:
            found.append(MarketFilter(words=clean_words(match[0]), condition=make("not", condition)))
            text = f"{text[: match.start()]} {text[match.end() :]}"
    codes = {each.condition.args[0] for each in found if each.condition.name == "index"}
    if codes == set(named) and len(codes) == 1 and not any(is_market_word(each.words) for each in found):
        text = _ITS_STOCKS.sub(lambda _: f" {named[0]} ", text)
    return tuple(found), text


def _filters(kind: str, match: re.Match[str], code: str, condition: Node) -> list[MarketFilter]:
    """What a clause of a form asks of an index; a switch has two sides, and both must be read."""
    words = clean_words(match[0])
    if kind != "switch":
        part = make("not", condition) if kind == "not" else condition
        return [MarketFilter(words=words, condition=make("index", code, part), sells=kind == "out")]
    buys, again = (_IN.search(match[side]) is not None for side in ("one", "then"))
    turned = _TURNED.fullmatch(match["two"].strip())
    other = opposite(condition) if turned else _condition(match["two"])
    if (
        other is None
        or buys == again
        or (turned and other.name not in _TURNS.get(turned[1] or "", (other.name,)))
    ):
        return []
    return [
        MarketFilter(words=words, condition=make("index", code, each), sells=not is_in, buys=is_in)
        for each, is_in in ((condition, buys), (other, again))
    ]


_IN = re.compile(r"满|all|invested", re.IGNORECASE)  # "满仓"
_TURNED = re.compile(r"(?:再|又)?(站|跌)[上回破]|otherwise", re.IGNORECASE)  # "站上"
_TURNS = {"站": ("gt", "cross_up"), "跌": ("lt", "cross_down")}


def _added_condition(words: str, subjects: Mapping[str, str], named: Sequence[str]) -> Node | None:
    """A condition that is added to the entry: on an index if one is its subject, else on each stock."""
    for kind, pattern in _patterns(tuple(sorted(subjects, key=len, reverse=True))):
        if kind == "alone" and (match := pattern.fullmatch(words.strip())):
            code, condition = _code_of(match["s"], subjects, named), _condition(match["c"])
            return make("index", code, condition) if code and condition else None
    return read_condition(tokens_of(words))


@lru_cache(maxsize=64)
def _patterns(subjects: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    names = [
        *map(re.escape, subjects),
        *(re.escape(name).replace(r"\ ", r"\s*") for name in sorted(INDEX_CODES, key=len, reverse=True)),
    ]
    subject = rf"{_DAY}\s*(?P<s>{'|'.join(names)}|(?<!\d)(?:(?:000|99\d)\d{{3}}\.SH|399\d{{3}}\.SZ)|{_AGAIN})(?:\s*指数|\s+index\b)?{_MEMBERS}"
    return tuple(  # "沪深300跌破20日均线时不买"
        (kind, re.compile(form.replace("@S", subject).replace("@C", f"(?P<c>{_INSIDE})"), re.IGNORECASE))
        for kind, form in _FORMS
    )


def _code_of(word: str, subjects: Mapping[str, str], named: Sequence[str]) -> str | None:
    if re.fullmatch(_AGAIN, word, re.IGNORECASE):  # "指数"
        return named[0] if len(named) == 1 else None
    plain = {name.casefold(): code for name, code in subjects.items()}
    return plain.get(word.casefold()) or index_code(word) or INDEX_CODES.get(word.lower())


def _fits(kind: str, text: str, match: re.Match[str]) -> bool:
    """Whether what is bought or sold around a clause is what its form needs."""
    before = [each[0].lower() for each in _ACTION.finditer(text, 0, match.start())]
    if kind == "alone":
        return False
    if kind == "lead":
        behind = re.split(r"[,;:。]|\.\s", text[match.end() :].lstrip(" ,"))[0]  # "上涨时,买入"
        return re.search(rf"{_BUYS}|\b(?:buy|enter)\b", behind, re.IGNORECASE) is not None  # "买入"
    if kind == "join" or match[0].lstrip().lower().startswith(("unless", "除非")):
        return bool(before) and re.fullmatch(rf"{_BUYS}|buy|enter", before[-1]) is not None  # "buy"
    return True


def _condition(words: str) -> Node | None:
    """What an index does, from its closes alone; None without exactly one meaning."""
    words = words.strip()
    words = _MOVE.sub(_moved, words)
    condition = read_condition(tokens_of(_STATE.sub("", words, count=1)))
    return condition if condition and of_closes(condition) else None


def _moved(move: re.Match[str]) -> str:
    """What an index does in a day, as its return."""
    down = re.match("下?大?跌|[fdl]", move["zh"] or move["en"], re.IGNORECASE) is not None  # "下跌"
    least = " ".join((move["than"] or move["over"]).lower().split()) in ("不低于", "至少", "at least")
    word = ("不高于-" if least else "低于-") if down else ("不低于" if least else "高于")
    return f"1日涨幅{word}{move['x'] or move['y']}%"


def with_market(reading: RuleReading, filters: Sequence[MarketFilter], *, is_alone: bool) -> RuleReading:
    """The rule with what it asks of an index: entries need every such condition, each exit by the market sells.

    ``is_alone`` says that there are no other words of a rule.
    """
    buys = next((each for each in filters if each.buys), None)
    sells_ = next((each for each in filters if each.sells), None)
    if reading.rule is None and is_alone and buys and sells_:
        rule = Rule(buys.condition, sells_.condition)
        return replace(reading, rule=rule, entry=buys.words, exit=sells_.words, exit_is_default=False)
    if reading.rule is None or not filters:
        return reading
    needs = tuple(dict.fromkeys(each.condition for each in filters if not each.sells))
    outs = tuple(dict.fromkeys(each.condition for each in filters if each.sells))
    entry, exit_ = reading.rule.entry, reading.rule.exit
    is_ranked = any(map(rank_of, leaves_of(entry)))  # what leaves the ranking is sold besides
    own = () if outs and (exit_ == NEVER or (reading.exit_is_default and not is_ranked)) else (exit_,)
    sells = (*own, *outs)
    words = {sold: "; ".join(each.words for each in filters if each.sells is sold) for sold in (False, True)}
    entry = make("and", entry, *needs) if needs else entry
    exit_ = make("or", *sells) if len(sells) > 1 else sells[0]
    return replace(
        reading,
        rule=Rule(entry, exit_),
        entry="; ".join(filter(None, (reading.entry, words[False]))),
        exit="; ".join(filter(None, (reading.exit, words[True]))),
        exit_is_default=reading.exit_is_default and (is_ranked or not outs),
    )
