"""What a clause turns round: directions, sides, securities, and the two lines of a cross."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from quantgraph.sentences.coverage._anchored_text import (
    PARTS,
    AnchoredText,
    ReadClause,
    ReadParameters,
    anchored,
)
from quantgraph.sentences.coverage._anchors import Anchor, plain


def turned_words(
    clause: ReadClause, quote: AnchoredText, became: AnchoredText, params: ReadParameters
) -> Iterator[str]:
    yield from _turned_side(clause, quote, became)
    if bool(quote.of("not")) != bool(became.of("not")):
        return
    raw = not quote.of("not") or says_opposite(quote, became, flips=False)
    if raw and says_opposite(quote, became):
        yield next(quote.word(each) for each in quote.of("direction", "extent", "extreme"))
    elif (
        _securities_change_places(quote, became, params)
        or _is_crossed(quote, became)
        or (_is_about_one_number(quote) and _is_reversed(directions_of(quote), directions_of(became)))
    ):
        yield quote.plain


def _securities_change_places(quote: AnchoredText, became: AnchoredText, params: ReadParameters) -> bool:
    """Whether another security is bought, or two have exchanged their conditions."""
    ours, theirs = (_signs_of_each(text, params) for text in (quote, became))
    both = [code for code in ours if ours[code] and theirs.get(code)]
    turned = [code for code in both if ours[code].isdisjoint(theirs[code])]
    bought = [{code for code, words in each.items() if "bought" in words} for each in (ours, theirs)]
    return len(turned) > 1 or bool(bought[0] and bought[1] and bought[0] != bought[1])


def _signs_of_each(text: AnchoredText, params: ReadParameters) -> dict[str, set[str]]:
    """For each security, whether it stands right behind a *buy*, and the directions in its part of the text."""
    codes = {plain(name): code for name, code in params.names.items()} | {
        each.lower(): each for each in params.codes
    }
    whole: dict[str, set[str]] = {}
    cuts = [0, *(match.start() for match in PARTS.finditer(text.plain)), len(text.plain)]
    for begin, end in itertools.pairwise(cuts):
        part = text.plain[begin:end]
        named = [(name, code) for name, code in codes.items() if name in part]
        for name, code in named:
            words = whole.setdefault(code, set())
            if re.search(rf"(?:buys?|long|买入?)\s?{re.escape(name)}", part):  # "buy 600519.sh"
                words.add("bought")
            elif len({each for _, each in named}) == 1:
                words.update(directions_of(anchored(part)))
    return whole


def _is_about_one_number(text: AnchoredText) -> bool:
    """Whether a text has one number, or one twice: below 20, and then above 20."""
    numbers = [each.values for each in text.of("number")]
    return len(set(numbers)) < max(len(numbers), 2)


def _is_reversed(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether two opposite directions have changed places: below and then above, above and then below."""
    return len(ours) == len(theirs) == 2 and list(ours) == [*reversed(theirs)] and ours[0] != ours[1]


def says_opposite(quote: AnchoredText, became: AnchoredText, *, flips: bool = True) -> bool:
    """Whether one direction occurs less often in the other text, and its opposite more often."""
    ours, theirs = (Counter(directions_of(text, flips=flips)) for text in (quote, became))
    for words, text in ((ours, quote), (theirs, became)):
        words.update(value for each in text.of("extreme") for value in each.values)
    return any(ours[one] > theirs[one] and theirs[other] > ours[other] for one, other in _OPPOSITE.items())


def _turned_side(clause: ReadClause, quote: AnchoredText, became: AnchoredText) -> Iterator[str]:
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


def _denies_side(became: AnchoredText) -> bool:
    return any(_is_denied(became, side) for side in became.of("side"))


def _is_crossed(quote: AnchoredText, became: AnchoredText) -> bool:
    """Whether the two lines of one cross have changed places: 5 over 20, and 20 over 5."""
    ours, theirs = _crossing(quote), _crossing(became)
    return ours is not None and theirs is not None and ours == (theirs[1], theirs[0])


def _crossing(text: AnchoredText) -> tuple[frozenset[str], frozenset[str]] | None:
    """The numbers of the lines that are over and under after the one comparison of a text."""
    found = []
    numbers = [each for each in text.of("number") if each.unit != "share"]
    for word in text.of("direction", "extent"):
        before = [each for each in numbers if _is_near(text, each, word)]
        behind = [each for each in numbers if _is_near(text, word, each)]
        compares = before and behind and not word.values & {"move", "size", "most"}
        if compares and before[-1].unit == behind[0].unit:
            lines = (before[-1].values, behind[0].values)
            found.append(lines if "up" in word.values else lines[::-1])
    counts = any("consecutive" in each.values for each in text.of("modifier"))
    return found[0] if len(found) == 1 and not counts else None


def directions_of(text: AnchoredText, *, flips: bool = True) -> list[str]:
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


def _is_size(text: AnchoredText, word: Anchor, words: Sequence[Anchor]) -> bool:
    """Whether a word only sizes another one: a place behind a movement, or a size beside anything."""
    before = [each for each in words if each is not word and _is_near(text, each, word)]
    beside = before + [each for each in words if each is not word and _is_near(text, word, each)]
    if "size" in word.values:
        return any(not each.values & {"size", "most"} for each in beside)
    return any("move" in each.values for each in (beside if "most" in word.values else before))


_OPPOSITE = {"up": "down", "down": "up"}


def _is_denied(text: AnchoredText, word: Anchor) -> bool:
    """Whether a word is denied right before it: ``不破``, *isn't up*."""
    return any(
        each.end <= word.begin
        and re.fullmatch(r"\s?(?:in an? |be |to |get |go )?", text.plain[each.end : word.begin])  # " be "
        for each in text.of("not")
    )


def _is_near(text: AnchoredText, one: Anchor, other: Anchor) -> bool:
    """Whether one word stands shortly before another, in one part of a sentence."""
    between = text.plain[one.end : other.begin]
    return one.end <= other.begin and len(between) < 24 and not PARTS.search(between)
