"""Ranking of texts for a query, in Chinese and English: BM25 over words and pairs of Chinese characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

_K, _B = 1.2, 0.75
"""The usual constants of BM25 (Robertson and Zaragoza 2009, section 3.4)."""
_WORD = re.compile(r"[a-z0-9]+(?:[.\-][a-z0-9]+)*|[\u3400-\u4dbf\u4e00-\u9fff]+")
# fmt: off
_NOISE = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "has", "have", "how", "in", "is", "it",
    "its", "latest", "news", "of", "on", "or", "recent", "stock", "stocks", "that", "the", "this", "to",
    "today", "was", "what", "which", "will", "with",
})
# fmt: on


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedText:
    """A text to rank, see :func:`ranked_text`."""

    terms: Mapping[str, int]
    length: int
    published: float


def ranked_text(title: str, content: str, published: float = 0.0) -> RankedText:
    """Make a text to rank; the words of its title count twice."""
    terms = terms_of(content)
    for term, count in terms_of(title).items():
        terms[term] += 2 * count
    return RankedText(terms=dict(terms), length=terms.total(), published=published)


def terms_of(text: str) -> Counter[str]:
    """Count the terms of a text: English words and numbers, Chinese characters in pairs.

    >>> sorted(terms_of("贵州茅台 Q3 earnings of 600519.SH"))
    ['600519', '600519.sh', 'earnings', 'q3', '州茅', '茅台', '贵州']
    """
    terms: Counter[str] = Counter()
    for word in _WORD.findall(text.lower()):
        if word[0] >= "\u3400":
            terms.update(word[place : place + 2] for place in range(max(1, len(word) - 1)))
        elif word not in _NOISE:
            terms[word] += 1
            if "." in word:  # a code with its exchange is found by the code alone
                terms[word.partition(".")[0]] += 1
    return terms


def ranked(
    query: str,
    texts: Sequence[RankedText],
    *,
    now: float = 0.0,
    boosts: Mapping[int, float] | None = None,
    half_life: float = 90.0,
) -> list[int]:
    """Return the places of the texts that have to do with a query, the best one first.

    The score is that of BM25, and what ``boosts`` has for the text's place; it halves with each
    ``half_life`` in days before ``now``.
    """
    wanted, boosts = terms_of(query).keys(), boosts or {}
    matches = [(place, wanted & text.terms.keys()) for place, text in enumerate(texts)]
    matches = [(place, terms) for place, terms in matches if terms or place in boosts]
    counts = Counter(chain.from_iterable(terms for _, terms in matches))
    weights = sorted(_weights(counts, len(texts)).items())  # in one order: a sum of floats depends on it
    average = (sum(text.length for text in texts) or 1) / max(1, len(texts))
    scores: dict[int, float] = {}
    for place, terms in matches:
        text, score = texts[place], boosts.get(place, 0.0)
        norm = _K * (1 - _B + _B * text.length / average)
        for term, weight in weights:
            if term in terms:
                count = text.terms[term]
                score += weight * count * (_K + 1) / (count + norm)
        scores[place] = score * 0.5 ** (max(0.0, now - text.published) / half_life)
    return sorted(scores, key=lambda place: (-scores[place], -place))


def _weights(counts: Mapping[str, int], number: int) -> dict[str, float]:
    """Weight of each term by the texts that have it: the rarer the higher, and never negative."""
    return {term: math.log(1 + (number - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
