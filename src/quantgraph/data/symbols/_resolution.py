"""Codes, names and indexes as people write them become symbols of a source, with their market."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from quantgraph._util.texts import Note, simplified
from quantgraph.data._source import DescribedSource, MarketDataSource, Members
from quantgraph.data.symbols._codes import is_index_code, possible_codes, standard_code, symbol_list
from quantgraph.errors import BadOption, UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.market.rules import find_board

INDEX_NAMES: dict[str, tuple[str, ...]] = {
    "000016.SH": ("上证50", "SSE 50", "SSE50"),
    "000300.SH": ("沪深300", "CSI 300", "HS300"),
    "000905.SH": ("中证500", "CSI 500", "ZZ500"),
    "000852.SH": ("中证1000", "CSI 1000", "ZZ1000"),
    "000688.SH": ("科创50", "STAR 50", "SSE STAR 50"),
    "399006.SZ": ("创业板指", "ChiNext Index", "ChiNext"),
    "399001.SZ": ("深证成指", "SZSE Component", "SZSE Component Index"),
    "990030.SH": ("合成30", "SYN30", "Synthetic 30"),
}
"""Names of indices by code, the Chinese name first. The last index is the embedded sample's."""


_EVERYTHING = {"all", "allstocks", "allsymbols", "thewholemarket", "全部", "全部股票", "所有股票", "全市场"}


@dataclass(frozen=True, kw_only=True)
class ResolvedSymbols:
    """Symbols of a list of tokens.

    ``symbols`` is ascending and unique. ``index_code`` is the index among the tokens if there is exactly
    one. ``notes`` are to show with the results.
    """

    symbols: tuple[str, ...]
    notes: tuple[Note, ...] = ()
    index_code: str | None = None


def index_code(token: str) -> str | None:
    """``ts_code`` of an index by its code or its name; None for anything else.

    >>> index_code("上证50"), index_code("上证50指数"), index_code("sh000016"), index_code("600519.SH")
    ('000016.SH', '000016.SH', '000016.SH', None)
    """
    code = standard_code(token)
    plain = _plain(token)
    bare = plain.removesuffix("指数").removesuffix("index")
    return code if is_index_code(code) else _INDEX_CODES.get(plain) or _INDEX_CODES.get(bare)


def names_in(text: str, source: MarketDataSource) -> dict[str, str]:
    """``ts_code`` by the source's names that a text has, in simplified or traditional characters."""
    plain = f"{text}\n{simplified(text)}"
    return {name: code for code, name in source.names().items() if name and name in plain}


def resolve_symbols(
    source: MarketDataSource, tokens: str | Sequence[str], on: pd.Timestamp
) -> ResolvedSymbols:
    """Resolve tokens to the symbols of a source.

    Parameters
    ----------
    tokens
        Each a ``ts_code`` (``sh600519`` and ``600519.SS`` too), a bare six-digit code, a stock's name,
        an index's code or name (:data:`INDEX_NAMES`, or a name of the source's own), or ``ALL`` (全部股票).
        One text is split at its commas.
    on
        Day of an index's members.

    Raises
    ------
    UnknownSymbol
        At the first token that the source does not know, or that may be a share and an index; the error
        names close matches.
    BadOption
        If ``tokens`` is empty.
    """
    resolver, listed = _Resolver(source, on), symbol_list(tokens)
    if not listed:
        raise BadOption(f"no symbol; {resolver.valid()}", parameter="symbols")
    for token in listed:
        resolver.add(token)
    return resolver.result()


class _Resolver:
    def __init__(self, source: MarketDataSource, on: pd.Timestamp) -> None:
        self._source, self._on = source, on
        self._listed = source.symbols()
        self._listed_set = frozenset(self._listed)
        self._names = source.names()
        self._symbols: set[str] = set()
        self._indices: list[str] = []
        self._notes: list[Note] = []

    def result(self) -> ResolvedSymbols:
        return ResolvedSymbols(
            symbols=tuple(sorted(self._symbols)),
            notes=tuple(dict.fromkeys(self._notes)),
            index_code=self._indices[0] if len(set(self._indices)) == 1 else None,
        )

    def add(self, token: str) -> None:
        text = token.strip()
        if _plain(text) in _EVERYTHING:
            self._symbols.update(self._listed)
            return
        code = self._stock(text)
        if code is not None:
            self._symbols.add(code)
            return
        index = self._index(text)
        members = None if index is None else self._members(index)
        if members is not None:
            self._add_members(members)
        elif index is not None and len(self._listed) == _size_of(index):
            self._add_all_as(index)
        else:
            raise self._without_members(token, index) if index in INDEX_NAMES else self._unknown(token)

    def _stock(self, text: str) -> str | None:
        code = standard_code(text)
        if code in self._listed_set:
            return code
        if re.fullmatch(r"\d{6}", code):  # "600519"
            return self._bare(code)
        named = sorted(symbol for symbol, name in self._names.items() if _plain(name) == _plain(text))
        stocks = [symbol for symbol in named if symbol in self._listed_set]
        if len(stocks) > 1:
            raise UnknownSymbol(
                f"{text!r} is the name of {', '.join(stocks)}; write the code that is meant", token=text
            )
        return stocks[0] if stocks else None

    def _bare(self, digits: str) -> str | None:
        known = [code for code in possible_codes(digits) if self._knows(code)]
        if len(known) > 1:
            raise UnknownSymbol(
                f"{digits!r} may be {' or '.join(self._codes_in(code) for code in known)} of "
                f"{self._source.name}; write the one that is meant",
                token=digits,
                close=tuple(known),
            )
        listed = [code for code in self._listed if code.partition(".")[0] == digits]
        return listed[0] if len(listed) == 1 else None

    def _knows(self, code: str) -> bool:
        if code in self._listed_set or code in self._names:
            return True
        return is_index_code(code) and self._members(code) is not None

    def _codes_in(self, code: str) -> str:
        """A code with its name, if it has one."""
        name = self._names.get(code)
        return f"{code} ({name})" if name else code

    def _index(self, text: str) -> str | None:
        code = standard_code(text)
        if is_index_code(code):
            return code
        own = {_plain(name): symbol for symbol, name in self._names.items() if symbol not in self._listed_set}
        bare = {index.partition(".")[0]: index for index in INDEX_NAMES}
        return own.get(_plain(text)) or index_code(text) or bare.get(code)

    def _members(self, index: str) -> Members | None:
        try:
            return self._source.members(index, self._on)
        except UnknownSymbol:
            return None

    def _add_all_as(self, index: str) -> None:
        """Take the source's symbols for the members of an index, whose number they have."""
        name, count = INDEX_NAMES[index][0], len(self._listed)
        self._symbols.update(self._listed)
        self._notes.append(
            Note(
                zh=f"{self._source.name} 没有 {index}（{name}）的成分股名单：交易它的全部 {count} 只股票",
                en=f"{self._source.name} has no list of the members of {index} ({name}): all its {count} "
                "symbols are traded",
            )
        )

    def _without_members(self, token: str, index: str) -> UnknownSymbol:
        count = len(self._listed)
        return UnknownSymbol(
            f"{token!r}: {self._source.name} has no list of the members of {index}; say ALL for all "
            f"its {count} symbols, or codes such as {self._listed[0] if count else '600519.SH'}",
            token=index,
            close=("ALL",),
        )

    def _add_members(self, members: Members) -> None:
        present = [symbol for symbol in members.symbols if symbol in self._listed_set]
        missing = [symbol for symbol in members.symbols if symbol not in self._listed_set]
        if missing:
            counts, names = f"{len(missing)} of {len(members.symbols)}", ", ".join(missing)
            self._notes.append(
                Note(
                    zh=f"{members.index_code} 的 {len(members.symbols)} 只成分股中有 {len(missing)} 只不在 "
                    f"{self._source.name} 中，已略去：{names}",
                    en=f"{counts} members of {members.index_code} are not in {self._source.name} and are "
                    f"left out: {names}",
                )
            )
        if not members.point_in_time:
            published, day = f"{members.listed_on:%Y-%m-%d}", f"{self._on:%Y-%m-%d}"
            self._notes.append(
                Note(
                    zh=f"{members.index_code} 的成分股名单公布于 {published}，晚于 {day}："
                    "股票池带有幸存者偏差",
                    en=f"members of {members.index_code} are the list of {published}, later than {day}: the "
                    "universe carries survivorship bias",
                )
            )
        self._symbols.update(present)
        self._indices.append(members.index_code)

    def _unknown(self, token: str) -> UnknownSymbol:
        close = self._close(token)
        hint = f"did you mean {', '.join(close)}? " if close else ""
        return UnknownSymbol(
            f"{token!r} is not known to {self._source.name}; {hint}{self.valid()}",
            token=token,
            close=tuple(close),
        )

    def valid(self) -> str:
        """Examples of valid tokens, from the source."""
        index = next((code for code in INDEX_NAMES if code in self._names and self._members(code)), None)
        code = self._listed[0] if self._listed else "600519.SH"
        shown = f"an index ({INDEX_NAMES[index][0]} or {index}) " if index else ""
        return f"write a ts_code such as {code}, a name, {shown}or ALL"

    def _close(self, token: str) -> list[str]:
        candidates = {_plain(code): code for code in self._listed}
        for code, name in self._names.items():
            candidates[_plain(name)] = f"{name} ({code})"
        for code, aliases in INDEX_NAMES.items():
            if code in self._names:
                candidates.update({_plain(alias): f"{alias} ({code})" for alias in aliases})
        close = difflib.get_close_matches(_plain(token), list(candidates), n=3, cutoff=0.6)
        return list(dict.fromkeys(candidates[each] for each in close))


def _size_of(index: str) -> int | None:
    """The number of members that the name of an index says.

    >>> _size_of("000016.SH"), _size_of("399006.SZ")
    (50, None)
    """
    found = re.search(r"\d+", INDEX_NAMES.get(index, ("",))[0])  # "沪深300"
    return int(found[0]) if found else None


def _plain(name: str) -> str:
    """Name without case, blanks and hyphens, for comparison."""
    return re.sub(r"[\s\-]", "", name).casefold()  # "S&P 500"


_INDEX_CODES = {_plain(alias): index for index, aliases in INDEX_NAMES.items() for alias in aliases}


_TOKEN = re.compile(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)?")  # "BRK-B"


def rules_of(
    source: MarketDataSource, symbols: Iterable[str] = (), sentence: str = "", *, traded: bool = True
) -> Rulebook:
    """The rules of the market that all codes are of; mainland China's if there is no code.

    Parameters
    ----------
    source
        Its codes count if none of ``symbols`` is one, and if it has them here: a vendor is not asked.
        Of two markets, the codes and names of the sentence count.
    symbols
        What the caller trades: codes, names or indices.
    sentence
        The words that may name codes.
    traded
        False takes mainland China's rules where nothing tells between two markets.

    Raises
    ------
    BadOption
        If the codes are of two markets.
    BadFile
        If the files of the source are not valid.
    """
    codes = [code for code in symbols if find_board(code) and _plain(code) not in _EVERYTHING]
    if not codes and isinstance(source, DescribedSource) and source.local and not source.synthetic:
        held = source.symbols()
        codes = list(held) if len(_markets(held)) < 2 else _codes_in(source, sentence) or list(held)
    return rules_of_codes(codes, traded=traded)


def rules_of_codes(codes: Iterable[str], *, traded: bool = True) -> Rulebook:
    """The rules of the market that some codes are of; see :func:`rules_of`.

    Raises
    ------
    BadOption
        If they are of two markets.
    """
    markets = _markets(codes)
    if len(markets) > 1 and traded:
        raise BadOption(
            f"{', '.join(markets.values())} are of two markets; say which market's rules hold: "
            "rules=Rulebook.mainland() or Rulebook.us(), on the command line --market cn or us",
            parameter="rules",
        )
    return Rulebook.us() if markets.keys() == {True} else Rulebook.mainland()


def _markets(codes: Iterable[str]) -> dict[bool, str]:
    """An example of each market, whether of the US or not."""
    found: dict[bool, str] = {}
    for code in codes:
        if board := find_board(code):
            found.setdefault(board == "us", code)
    return found


def _codes_in(source: MarketDataSource, sentence: str) -> list[str]:
    """Codes of a source that a sentence names; words in small letters are none."""
    tokens = [token for token in _TOKEN.findall(sentence) if re.search(r"[A-Z0-9]", token)]  # "AAPL"
    meant = [code for token in tokens for code in (standard_code(token), *possible_codes(token))]
    held = frozenset(source.symbols())
    return [code for code in (*names_in(sentence, source).values(), *meant) if code in held]
