"""A text with its anchors: its pieces, the places of quotes, and the securities that it names."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from quantgraph.sentences.coverage._anchors import Anchor, find_anchors, plain


@dataclass(frozen=True, kw_only=True)
class ReadClause:
    """A piece of the person's text as a model read it.

    Attributes
    ----------
    quote
        The person's own words; empty for a default.
    became
        The same in the model's words.
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
        The request that the text changes, in words: they are not additions, and what the text puts something
        else in place of is not an anchor.
    """

    codes: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    before: str = ""

    @cached_property
    def plan_numbers(self) -> frozenset[str]:
        """The numbers of the plan, as they are, as percents and as basis points."""
        found = _numbers_in([*self.plan.values()])
        return frozenset(f"{round(each * scale, 4):g}" for each in found for scale in (1, 100, 10_000))


def _numbers_in(value: object) -> Iterator[float]:
    if isinstance(value, Mapping | list | tuple):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _numbers_in(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, str):
        yield from map(float, re.findall(r"\d+(?:\.\d+)?", value))  # "跌5.5%"


_BREAKS = re.compile(  # "然后"
    r"[,，;；。!！?？\n、:：]|\.(?=\s|$)|(?<![a-z])(?:but|unless|except|then|while)(?![a-z])|但是?|不过|除非|然后|并且|而且|同时"
)
PARTS = re.compile(  # "and"
    r"[,，;；。!！?？\n、()]|(?<![a-z])(?:and|or|but|then|while|unless|when|if|after|before|once)(?![a-z])|[且并或但再后]|以及|同时"
)


_MOST_PLACES = 20
"""Places of one quote that are looked at."""


@dataclass(frozen=True)
class AnchoredText:
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
        for piece in re.split(r"\.{3,}|…+", plain(quote)):  # "买入…卖出"
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


anchored = lru_cache(maxsize=512)(AnchoredText)


_CODE = re.compile(r"(?<![a-z\d])(?:\d{6}(?:\.(?:sh|sz|bj))?|(?:sh|sz|bj)\d{6})(?![a-z\d])")  # "600519.sh"


def securities_in(whole: AnchoredText, params: ReadParameters) -> list[tuple[int, int]]:
    """Where the text names securities: numbers in them are not the rule's."""
    found = [match.span() for match in _CODE.finditer(whole.plain)]
    names = [
        *params.names,
        *params.codes,
        *(code.partition(".")[0] for code in params.codes if not code[0].isdigit()),
    ]
    for name in filter(None, map(plain, names)):
        bounds = (r"(?<![a-z\d])", r"(?![a-z\d])") if name.isascii() else ("", "")
        found += [match.span() for match in re.finditer(re.escape(name).join(bounds), whole.plain)]
    return found
