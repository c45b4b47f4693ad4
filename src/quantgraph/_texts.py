"""Two languages for people: which one they write, and saying a thing in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["Language", "Note", "language_of", "say"]

Language = Literal["zh", "en"]

_LETTERS_A_CHARACTER = 3
"""A Chinese character says about as much as three letters of an English word."""


def language_of(text: str) -> Language:
    """The language that most of a text is in. Codes, numbers and capitals such as MACD belong to neither.

    >>> language_of("buy 600519.SH"), language_of("买入600519.SH"), language_of("members of 合成30, 2025")
    ('en', 'zh', 'en')
    """
    chinese = len(re.findall(r"[\u4e00-\u9fff]", text))
    english = sum(len(word) for word in re.findall(r"[A-Za-z]?[a-z]{2,}", text))
    return "zh" if chinese * _LETTERS_A_CHARACTER > english else "en"


def say(language: str, *, zh: str, en: str) -> str:
    """The text in the user's language."""
    return zh if language == "zh" else en


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something a reader of a result has to know, in both languages. As text it is English."""

    zh: str
    en: str

    def __str__(self) -> str:
        return self.en

    def text(self, language: str) -> str:
        """The note in the user's language."""
        return say(language, zh=self.zh, en=self.en)
