"""The words that no clause quotes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from quantgraph.sentences._text import FILLERS, FILLERS_ZH
from quantgraph.sentences.coverage._words import plain, squeezed, without_dates_and_codes


def left_words(text: str, quotes: Iterable[str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the pieces of a text outside of all quotes that say something, beside dates and securities.

    >>> left_words("5日线上穿20日线或者放量买入，图个吉利", ["5日线上穿20日线", "放量买入"])
    ('图个吉利',)
    """
    left = said = plain(text)
    pieces = (piece for each in quotes for piece in re.split(r"\.{3,}|…+", each))  # "买入…卖出"
    for quote in sorted(pieces, key=len, reverse=True):
        left = re.sub(r"\s*".join(map(re.escape, squeezed(quote))), lambda found: "," * len(found[0]), left)
    left = without_dates_and_codes(left, names)
    breaks = [(0, 0), *(each.span() for each in _BREAKS.finditer(left)), (len(left), len(left))]
    found = dict[str, None]()
    for (begin, after), (end, _) in itertools.pairwise(breaks):
        piece = left[after:end]
        if _says_something(piece):
            is_word = left[begin:after].strip(_MARKS) != ""  # "unless it ran up"
            start = begin if is_word else after + len(piece) - len(piece.lstrip())
            found[" ".join(said[start : after + len(piece.rstrip())].split())] = None
    return tuple(found)


_MARKS = ",，;；。!！?？.:：\n "
_BREAKS = re.compile(  # "但"
    r"[,，;；。!！?？\n、:：]|\.(?=\s|$)|(?<![a-z])(?:but|unless|except|then)(?![a-z])|但是?|不过|除非|然后"
)
_SMALL = re.compile(  # "买入过去"
    r"过去|最近|其中|或者|并且|而且|回测|交易|跑一遍|试试|[到里]|买入?|建仓|进场|入场|卖出?|清仓|离场|出场|持有|拿着"
    r"|(?<![a-z])(?:and|or|on|in|at|the|it|then|so|to|of|with|for|buy\w*|sell\w*|enter\w*|exit\w*|hold\w*|keep\w*|stay\w*|trad\w*)(?![a-z])"
)


def _says_something(piece: str) -> bool:
    words = _SMALL.sub("", FILLERS_ZH.sub("", piece))
    letters = re.findall(r"[a-z']{2,}", words)  # "weekly"
    return any(each not in FILLERS for each in letters) or bool(
        re.search(r"[\u4e00-\u9fff]{2,}|\d|[<>%]", words)  # "均线"
    )
