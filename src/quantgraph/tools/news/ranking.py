"""Ranking of texts for a query, in Chinese and English: BM25 over words and pairs of Chinese characters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["RankedText", "ranked", "terms_of"]

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


@dataclass(frozen=True, kw_only=True)
class RankedText:
    """A text to rank.

    Attributes
    ----------
    terms
        Its terms and how often each occurs, see :func:`terms_of`.
    age
        Days since it was published.
    boost
        What it gains for what is known of it beside its text.
    """

    terms: Mapping[str, int]
    age: float = 0.0
    boost: float = 0.0


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


def ranked(query: str, texts: Sequence[RankedText], *, half_life: float = 30.0) -> list[int]:
    """Return the places of the texts that have to do with a query, the best one first.

    The score is that of BM25 plus the text's boost; it halves every ``half_life`` days of age. Among equals
    the later place wins: texts are given in order of publication.
    """
    wanted = list(terms_of(query))
    lengths = [sum(text.terms.values()) for text in texts]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    weights = _weights(wanted, texts)
    scores: dict[int, float] = {}
    for place, text in enumerate(texts):
        score = text.boost
        for term in wanted:
            if count := text.terms.get(term, 0):
                length = _K * (1 - _B + _B * lengths[place] / average)
                score += weights[term] * count * (_K + 1) / (count + length)
        if score > 0:
            scores[place] = score * 0.5 ** (max(0.0, text.age) / half_life)
    return sorted(scores, key=lambda place: (-scores[place], -place))


def _weights(wanted: Sequence[str], texts: Sequence[RankedText]) -> dict[str, float]:
    """Weight of each term: the rarer the higher, and never negative."""
    counts = {term: sum(term in text.terms for text in texts) for term in wanted}
    return {term: math.log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
