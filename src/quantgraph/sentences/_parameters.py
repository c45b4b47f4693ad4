"""Parameters that a request names once for all clauses: ``RSI(6)低于30买入，RSI高于70卖出``.

A bare indicator name takes the parameters that the request names for the indicator anywhere. If it names two
different ones, the bare name becomes ``UNKNOWN``; if none, the defaults hold. Lines are grouped in rounds: a
line with a buy clause behind an earlier buy clause starts a new round, and parameters of an earlier round
hold only for indicators that later rounds do not name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from quantgraph.rules import Node, number_text
from quantgraph.sentences._grammar import averages, band_words, kind_at, pairs, params_at
from quantgraph.sentences._rules import average, field_of, period_of
from quantgraph.sentences._text import Token

Tokens = Sequence[Token]
Numbers = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TokenLine:
    """Tokens of one line and its text."""

    tokens: tuple[Token, ...]
    text: str


@dataclass(frozen=True, kw_only=True)
class _Mention:
    """An indicator from ``begin`` to ``end``; a bare one has no ``numbers``.

    ``before`` is the kind of token that its parameters need in front (``DIF`` needs ``MACD``).
    """

    family: str
    begin: int
    end: int
    numbers: Numbers = ()
    before: str = ""
    side: bool = False


_GROUPS = {"MACD": ("DIF", "DEA", "LINE", "HIST"), "KDJ": ("K", "D", "J")}
_PART_OF = {"DIF": "MACD", "DEA": "MACD", "K": "KDJ", "D": "KDJ", "J": "KDJ"}
_LEVEL_BEHIND = ("POST_UP", "POST_DOWN", "SLASH", "BUY", "SELL")
_CLAUSE_BEGINS = ("", "SEP", "BUY", "SELL", "AND", "OR", "LP", "LABEL")


def _kind_before(tokens: Tokens, at: int) -> str:
    return tokens[at - 1].kind if at else ""


def _rsi_at(tokens: Tokens, at: int) -> _Mention:
    """``RSI(6)``, ``6日RSI``, ``RSI6``; in ``RSI 30以下`` and ``RSI 30/70`` the number is a level."""
    ahead = _kind_before(tokens, at)
    if ahead == "DAYS" or (ahead == "NUM" and _kind_before(tokens, at - 1) in _CLAUSE_BEGINS):
        return _Mention(family="RSI", begin=at - 1, end=at + 1, numbers=(tokens[at - 1].value,))
    numbers, end = params_at(tokens, at + 1)
    if numbers:
        return _Mention(family="RSI", begin=at, end=end, numbers=tuple(numbers))
    if kind_at(tokens, at + 1) in ("NUM", "DAYS") and kind_at(tokens, at + 2) not in _LEVEL_BEHIND:
        return _Mention(family="RSI", begin=at, end=at + 2, numbers=(tokens[at + 1].value,))
    return _Mention(family="RSI", begin=at, end=at + 1)


def _group_at(tokens: Tokens, at: int) -> tuple[_Mention, int]:
    """MACD or KDJ, and the place behind it and its line, if one follows."""
    name = tokens[at].kind
    numbers, end = params_at(tokens, at + 1)
    end = end if numbers else at + 1
    mention = _Mention(family=name, begin=at, end=end, numbers=tuple(numbers))
    return mention, end + (kind_at(tokens, end) in _GROUPS[name])


def _return_at(tokens: Tokens, at: int) -> _Mention | None:
    """A return over days; a bare one counts only as momentum or in a rank."""
    for days in (at - 1, at + 1):
        if days >= 0 and kind_at(tokens, days) == "DAYS":
            return _Mention(family="RETURN", begin=at, end=at + 1, numbers=(tokens[days].value,))
    ranked = kind_at(tokens, at + 1) in ("TOP", "BOTTOM")
    if tokens[at].kind == "MOMENTUM" or (tokens[at].kind == "RETURN" and ranked):
        return _Mention(family="RETURN", begin=at, end=at + 1, before="DAYS")
    return None


def _mentions(tokens: Tokens) -> Iterator[_Mention]:
    at = 0
    while at < len(tokens):
        kind, behind = tokens[at].kind, at + 1
        if kind == "RSI":
            yield _rsi_at(tokens, at)
        elif kind in _GROUPS:
            mention, behind = _group_at(tokens, at)
            yield mention
        elif kind in _PART_OF:
            yield _Mention(family=_PART_OF[kind], begin=at, end=at + 1, before=_PART_OF[kind])
        elif kind in ("MOMENTUM", "RETURN", "LOSS"):
            if (found := _return_at(tokens, at)) is not None:
                yield found
        else:
            side, named, numbers, end = band_words(tokens, at)
            if end > at and (named or (side and not numbers)):
                shown = tuple(numbers) if len(numbers) != 1 else (numbers[0], 2.0)
                yield _Mention(family="BOLL", begin=at, end=end, numbers=shown, side=not named)
                behind = end
        at = behind


def _rounds(lines: Sequence[TokenLine]) -> list[int]:
    """Number of the round of each line."""
    found: list[int] = []
    number, bought = 0, False
    for line in lines:
        buys = any(token.kind == "BUY" for token in line.tokens)
        if buys and bought:
            number += 1
        bought = bought or buys
        found.append(number)
    return found


def _by_round(lines: Sequence[TokenLine]) -> Iterator[tuple[int, list[TokenLine]]]:
    """The lines of each round."""
    for number, pairs_ in groupby(zip(_rounds(lines), lines, strict=True), key=itemgetter(0)):
        yield number, [line for _, line in pairs_]


def _number(kind: str, value: float, place: int) -> Token:
    return Token(kind=kind, text=number_text(value), value=value, begin=place, end=place)


def _brackets(numbers: Numbers, place: int) -> list[Token]:
    found = [Token(kind="LP", text="(", begin=place, end=place)]
    for number in numbers:
        found += [_number("NUM", number, place), Token(kind="SEP", text=",", begin=place, end=place)]
    return [*found[:-1], Token(kind="RP", text=")", begin=place, end=place)]


def _complete(tokens: Tokens, mention: _Mention, numbers: Numbers) -> list[Token]:
    """The tokens of a mention with its parameters."""
    words = list(tokens[mention.begin : mention.end])
    first, last = words[0].begin, words[-1].end
    if mention.before == "DAYS":
        return [_number("DAYS", numbers[0], first), *words]
    if mention.before:
        name = Token(kind=mention.before, text=mention.before, begin=first, end=first)
        return [name, *_brackets(numbers, first), *words]
    return [*words, *_brackets(numbers, last)]


def _open(line: TokenLine, mention: _Mention, named: frozenset[Numbers]) -> Token:
    """A name with several possible parameters, as an unknown word."""
    begin, end = line.tokens[mention.begin].begin, line.tokens[mention.end - 1].end
    choices = " / ".join(",".join(map(number_text, numbers)) for numbers in sorted(named))
    return Token(kind="UNKNOWN", text=f"{line.text[begin:end]} ({choices})", begin=begin, end=end)


def _read_again(line: TokenLine, named: dict[str, frozenset[Numbers]]) -> TokenLine:
    tokens = list(line.tokens)
    for mention in reversed(list(_mentions(line.tokens))):
        choices = named[mention.family]
        if mention.numbers or not choices or (mention.side and len(choices) == 1):
            continue
        new = (
            _complete(line.tokens, mention, next(iter(choices)))
            if len(choices) == 1
            else [_open(line, mention, choices)]
        )
        tokens[mention.begin : mention.end] = new
    return replace(line, tokens=tuple(tokens))


_FAMILIES = ("RSI", "MACD", "KDJ", "BOLL", "RETURN")
_COUNTS = {"RSI": 1, "MACD": 3, "KDJ": 3, "BOLL": 2, "RETURN": 1}
_OF_DAYS = ("MOMENTUM", "RETURN", "LOSS", "HIGHN", "LOWN", "RSI", "BOLL", "UPPER", "MIDDLE", "LOWER", "TIMES")


def _averages_of(lines: Sequence[TokenLine]) -> frozenset[Node]:
    """Averages in the lines; bare days count as an average too."""
    found: set[Node] = set()
    for line in lines:
        tokens = line.tokens
        for at, token in enumerate(tokens):
            found |= {value for value, _ in averages(tokens, at)}
            found |= {value for pair, _ in pairs(tokens, at) for value in pair}
            around = {kind_at(tokens, at + 1), _kind_before(tokens, at)}
            if token.kind == "DAYS" and not around & {*_OF_DAYS, "MA", "EMA", "VOLAVG", "VOL", "LINE", "LP"}:
                found.add(average(token.value))
    return frozenset(found)


def _with_average(line: TokenLine, named: frozenset[Node], volume: bool) -> TokenLine:
    """The line with the only named average in place of a bare *average*, unless volume is named too."""
    if len(named) != 1 or volume:
        return line
    (value,) = named
    found: list[Token] = []
    for at, token in enumerate(line.tokens):
        bare = (
            token.kind in ("MA", "EMA")
            and _kind_before(line.tokens, at) not in ("DAYS", "NUM")
            and kind_at(line.tokens, at + 1) not in ("DAYS", "NUM", "LP")
        )
        exact = token.kind == "EMA" or token.text.startswith(("简单", "sma", "simple"))
        kind = "EMA" if value.name == "ema" else "MA"
        if bare and (token.kind == kind or not exact):
            found += [_number("DAYS", period_of(value), token.begin), replace(token, kind=kind)]
        else:
            found.append(token)
    return replace(line, tokens=tuple(found))


def complete_parameters(lines: Sequence[TokenLine]) -> list[TokenLine]:
    """The lines with the parameters of the request for every bare indicator name."""
    named: dict[str, list[frozenset[Numbers]]] = {family: [] for family in _FAMILIES}
    for _, of_round in _by_round(lines):
        mentions = [mention for line in of_round for mention in _mentions(line.tokens)]
        for family in _FAMILIES:
            named[family].append(
                frozenset(
                    m.numbers for m in mentions if m.family == family and len(m.numbers) == _COUNTS[family]
                )
            )
    found: list[TokenLine] = []
    volume, so_far = False, frozenset[Node]()
    choices: dict[str, frozenset[Numbers]] = dict.fromkeys(_FAMILIES, frozenset())
    for number, of_round in _by_round(lines):
        choices = {family: sets[number] or choices[family] for family, sets in named.items()}
        volume = volume or any(token.kind in ("VOL", "VOLAVG") for line in of_round for token in line.tokens)
        averages_ = _averages_of(of_round)
        so_far |= averages_
        found += (_with_average(_read_again(line, choices), averages_ or so_far, volume) for line in of_round)
    return found


def count_crosses(lines: Sequence[TokenLine]) -> list[int]:
    """For each line, the number of crosses that a bare *golden cross* could mean in its round."""
    found: list[int] = []
    for _, of_round in _by_round(lines):
        groups = {
            (mention.family, mention.numbers)
            for line in of_round
            for mention in _mentions(line.tokens)
            if mention.family in _GROUPS and not mention.before
        }
        whole = {name for name, _ in groups}
        groups |= {
            (mention.family, ())
            for line in of_round
            for mention in _mentions(line.tokens)
            if mention.before in _GROUPS and mention.before not in whole
        }
        fields = [field_of(value) for value in _averages_of(of_round)]
        found += [len(groups) + (len(fields) > len(set(fields)))] * len(of_round)
    return found
