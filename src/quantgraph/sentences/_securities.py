"""The securities in a sentence: codes, names, indices and tickers."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quantgraph.data.symbols import INDEX_NAMES
from quantgraph.sentences._text import MARKS, NO_TICKERS, collapse_spaces

ALL = "ALL"
"""Token for all symbols of the source."""

_FIRST_MARK = 0xF0000
INDEX_CODES: dict[str, str] = {
    **{name.lower(): code for code, names in INDEX_NAMES.items() for name in names},
    "上证指数": "000001.SH",
    "上证综指": "000001.SH",
    "沪指": "000001.SH",
    "深成指": "399001.SZ",
}
"""Index code by the names people use for it."""

_PREFIXES: tuple[tuple[str, str], ...] = (
    ("SH", r"60[0135]|68[89]|900|5[018]\d|56\d"),
    ("SZ", r"00[0123]|30[0-2]|200|15[0-9]|16\d|18\d|399"),
    ("BJ", r"43\d|83\d|87\d|88\d|92\d"),
)

_MEMBERS = (
    r"(?:\s*+指数)?(?:\s*+的?\s*+(?:全部|所有)?\s*+(?:成分股|成份股|成分|成份|股票池|股票|个股))?"
    r"(?:(?:\s+index)?(?:\s+(?:constituents?|members?|components?))?(?:\s+stocks?)?\b)?"
)
_OF = r"(?:(?:all\s+)?(?:the\s+)?(?:constituents?|members?|stocks?|components?)\s+(?:of|in|from)\s+(?:the\s+)?)?"
_INDEX_NAME = re.compile(  # "沪深300"
    _OF
    + "("
    + "|".join(re.escape(name).replace(r"\ ", r"\s*") for name in sorted(INDEX_CODES, key=len, reverse=True))
    + r")(?![0-9a-z])"
    + _MEMBERS,
    re.IGNORECASE,
)
_SUFFIXED = re.compile(  # "600519.SH"
    r"(?<![0-9A-Za-z])(\d{6})\.(SH|SZ|BJ|SS|XSHG|XSHE)(?![A-Za-z0-9])" + _MEMBERS, re.IGNORECASE
)
_PREFIXED = re.compile(r"(?<![0-9A-Za-z])(SH|SZ|BJ)\.?(\d{6})(?!\d)" + _MEMBERS, re.IGNORECASE)  # "SH600519"
_EVERYTHING = re.compile(  # "全部A股"
    r"(?:全部|所有)\s*+的?\s*+(?:A股)?\s*+(?:股票|个股|A股|标的)|(?:整个|全)\s*+A?\s*+(?:股)?市场(?:\s*股票)?|全A股?"
    r"|\ball\s+(?:of\s+)?(?:the\s+)?(?:a-?\s*shares?|stocks|symbols|shares|names|tickers)\b"
    r"|\b(?:the\s+)?(?:whole|entire)\s+(?:market|universe)\b|\bevery\s+(?:stock|symbol)\b",
    re.IGNORECASE,
)
_ALL = re.compile(r"(?<![A-Za-z])ALL(?![A-Za-z])")  # "ALL"
_BARE = re.compile(r"(?<![0-9A-Za-z.\-/])(\d{6})(?![0-9A-Za-z%日天倍]|\.\d)")  # "600519"
_NAMES = list(
    csv.DictReader(Path(__file__).with_name("nicknames.csv").read_text(encoding="utf-8").splitlines())
)
_NICKNAMES = {
    name: row["code"]
    for row in _NAMES
    for name in (*row["chinese"].split(), *filter(None, row["english"].split("|")))
}
"""Code by a name that people use and no source lists; one that may mean two companies is not here."""
_NICKNAME = re.compile(  # "宁王"
    r"(?<![成分手其构搭上山广华])(?:" + "|".join(name for name in _NICKNAMES if not name.isascii())
    + r")(?![股酒酱地概板链业情为动政诺化])|\b(?:" + "|".join(filter(str.isascii, _NICKNAMES)) + r")\b",
    re.IGNORECASE,
)  # fmt: skip
_TICKER = re.compile(r"(?<![A-Za-z0-9.])([A-Z]{2,5}(?:\.[A-Z])?)(?![A-Za-z0-9])")  # "AAPL"
_ENDS = r"(?![A-Za-z0-9-]|\.[A-Za-z0-9])"
_IN_TWO_PARTS = re.compile(rf"(?<![A-Za-z0-9.-])([A-Z]{{2,6}}[.-][A-Z]{{1,6}}|[A-Z][.-][A-Z]{{2,6}}){_ENDS}")
"""A code with an exchange, a class or a currency: ``US.AAPL``, ``BRK-B``, ``BTC-USD``."""
_ABROAD = re.compile(rf"(?<![A-Za-z0-9.-])(?:(\d{{4,5}}\.[A-Z]{{1,2}})|HK[.:](\d{{4,5}})){_ENDS}")
"""Digits with an exchange: ``0700.HK``, ``HK.00700``."""
_PLACES = frozenset(
    ("us", "hk", "uk", "de", "fr", "jp", "cn", "ca", "au", "usd", "usdt", "eur", "gbp", "hkd", "cny")
)
_LETTER = re.compile(r"(?m)(?:^|(?<=[A-Z],)|(?<=[A-Z], ))([A-Z])(?=[ ]*(?:,|$))")  # "F, T"
"""A one-letter ticker, only in a list of tickers or alone on its line."""
_EXCHANGES = {"SS": "SH", "XSHG": "SH", "XSHE": "SZ"}


@dataclass(frozen=True, kw_only=True)
class SymbolMatch:
    """Symbols in reading order, each once; the rest of the text, and that text with a mark where each one stood."""

    symbols: tuple[str, ...]
    rest: str
    marked: str


def symbol_of(mark: str, symbols: Sequence[str]) -> str:
    """The symbol that a mark of :data:`MARKS` stands for."""
    return symbols[ord(mark) - _FIRST_MARK]


def exchange_of(code: str) -> str | None:
    """Exchange suffix of a six-digit code by the exchanges' numbering; None for other codes.

    >>> exchange_of("600519"), exchange_of("000001"), exchange_of("920002"), exchange_of("777777")
    ('SH', 'SZ', 'BJ', None)
    """
    for exchange, pattern in _PREFIXES:
        if re.match(pattern, code):  # "600519"
            return exchange
    return None


class _Marks:
    """Symbols found so far with their places in the text, where marks replace them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[tuple[int, str]] = []
        self._places: Sequence[int] = range(len(text))
        self._numbers: dict[str, int] = {}

    def marked(self) -> tuple[tuple[str, ...], str]:
        """The symbols in reading order, and the text with marks by that order."""
        symbols = tuple(dict.fromkeys(symbol for _, symbol in sorted(self.found, key=lambda found: found[0])))
        order = {_FIRST_MARK + self._numbers[symbol]: _FIRST_MARK + at for at, symbol in enumerate(symbols)}
        return symbols, self.text.translate(order)

    def take(self, pattern: re.Pattern[str], token: Callable[[re.Match[str]], str | None]) -> None:
        pieces: list[str] = []
        places: list[int] = []
        kept = 0
        for match in pattern.finditer(self.text):
            symbol = token(match)
            if symbol is not None and match[0]:
                self.found.append((self._places[match.start()], symbol))
                mark = chr(_FIRST_MARK + self._numbers.setdefault(symbol, len(self._numbers)))
                pieces += (self.text[kept : match.start()], f" {mark} ")
                places += (*self._places[kept : match.start()], *[self._places[match.start()]] * 3)
                kept = match.end()
        self.text = "".join((*pieces, self.text[kept:]))
        self._places = (*places, *self._places[kept:])


def _index_code(match: re.Match[str]) -> str:
    wanted = re.sub(r"\s+", "", match[1].lower())  # "沪深 300"
    return next(code for name, code in INDEX_CODES.items() if name.replace(" ", "") == wanted)


def _bare_code(match: re.Match[str]) -> str | None:
    exchange = exchange_of(match[1])
    return None if exchange is None else f"{match[1]}.{exchange}"


def _own_parts(code: str) -> list[str]:
    """The parts of a code without those that say where it is listed, or in what it is paid."""
    return [part for part in re.split("[.-]", code.lower()) if part not in _PLACES]  # "BRK-B"


_SHORT = "MACD RSI KDJ BOLL SMA EMA EXPMA MA VOL PE PB PS TTM DIF DIFF DEA ALL ETF OHLC OHLCV "
_ABBREVIATIONS = frozenset(_SHORT.split())


def is_shouted(text: str, is_word: Callable[[str], bool]) -> bool:
    """Whether a text is written in capitals throughout, so that its capitals are not tickers.

    More than half of the letters are capitals, and they include a word other than a common abbreviation.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter.isascii() and letter.isupper() for letter in letters) <= len(letters):
        return False
    words = set(re.findall(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])", text)) - _ABBREVIATIONS  # "AAPL"
    return any(is_word(word.lower()) and word.lower() not in NO_TICKERS for word in words)


def capitals_in(text: str) -> list[str]:
    """The words of a text that are written like tickers."""
    return _TICKER.findall(text)


def find_symbols(
    text: str, names: Mapping[str, str], is_word: Callable[[str], bool], listed: Collection[str] | None = None
) -> SymbolMatch:
    """Find codes, names, indices and tickers in a normalised text; with ``listed`` codes other capitals are words."""

    def ticker(match: re.Match[str]) -> str | None:
        is_code = not is_word(match[1].lower()) and (listed is None or match[1] in listed)
        return match[1] if is_code else None

    def nickname(match: re.Match[str]) -> str | None:
        code = _NICKNAMES[match[0].lower() if match[0].isascii() else match[0]]
        return code if listed is None or code in listed else None

    marks = _Marks(text)
    for name in sorted(names, key=len, reverse=True):
        if name:
            code = names[name]
            marks.take(re.compile(re.escape(name) + _MEMBERS, re.IGNORECASE), lambda _, code=code: code)  # type: ignore[misc]
    marks.take(_SUFFIXED, lambda m: f"{m[1]}.{_EXCHANGES.get(m[2].upper(), m[2].upper())}")
    marks.take(_PREFIXED, lambda m: f"{m[2]}.{m[1].upper()}")
    marks.take(_INDEX_NAME, _index_code)
    marks.take(_NICKNAME, nickname)
    marks.take(_EVERYTHING, lambda _: ALL)
    marks.take(_BARE, _bare_code)
    marks.take(_ABROAD, lambda m: m[1] or f"{m[2]}.HK")
    if not is_shouted(marks.text, is_word):
        marks.take(_ALL, lambda _: ALL)
        marks.take(_LETTER, lambda m: m[1] if listed is None or m[1] in listed else None)
        marks.take(_IN_TWO_PARTS, lambda m: None if any(map(is_word, _own_parts(m[1]))) else m[1])
        marks.take(_TICKER, ticker)
    symbols, text = marks.marked()
    text = re.sub(rf"\(([\s{MARKS}]*)\)", r" \1 ", collapse_spaces(text))  # "(\U000f0000)"
    rest = re.sub(f"[{MARKS}]", " ", text)  # "\U000f0000"
    return SymbolMatch(symbols=symbols, rest=collapse_spaces(rest), marked=collapse_spaces(text))
