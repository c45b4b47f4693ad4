"""Which symbol the name of a file or frame says, and whether it says that its prices are adjusted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quantgraph._util.texts import Note
from quantgraph.data._checked_tables import full_codes
from quantgraph.data.symbols._codes import is_code, is_index_code
from quantgraph.market.rules import find_board, market_elsewhere

_PARTS = re.compile(r"[\s_,()（）\[\]#+]+")  # "SH_600519"
_HASH = re.compile(r"(?<![A-Za-z])(S[HZ]|BJ)#(?=\d{6})", re.IGNORECASE)  # "SH#600519"
_OF_US = re.compile(r"(?<=[A-Za-z])\.US$", re.IGNORECASE)  # "AAPL.US"
_OF_TERMINAL = re.compile(r"\b([A-Z0-9/]{1,9})(?: ([A-Z]{2}) Equity| Index)\b")
"""``MSFT US Equity`` and ``600519 CH Equity`` in the rows above a table of Bloomberg's, ``SPX Index``."""
_HERE = frozenset(("US", "UN", "UQ", "UW", "CH", "CG", "CS", "HK"))
_LOWER = re.compile(r"[a-z]{1,5}(?:[.-][a-z]{1,2})?")  # "brk-b"
_ADJUSTED = re.compile(r"(?:^|[^a-z])(?:adj|adjusted|qfq|hfq)(?:[^a-z]|$)|前复权|后复权", re.IGNORECASE)
_COMMON_WORDS = frozenset(
    """
    1d a adj adjusted all amex arca back backtest bao baostock bar bars book candles chart china cleaned
    close closes cn copy csv d daily data dataframe dataset date dates day days demo df download
    downloads eod equity etf example excel export feed file files final frame fund funds hfq hist
    historical historicaldata history hk hourly in index input item kline klines latest list long main
    market markets master merged mine minute month monthly my names nasdaq new noadj nyse ohlc ohlcv old
    only out output panel plain portfolio price prices qfq qlib quote quotes raw report result results
    sample series share shares sheet sheet1 sina sse stock stocks stooq symbols szse table tdx temp test
    ths ticker tickers time tmp trade trades tushare tx txt us v vol volume week weekly wide work xls
    xlsx y yahoo year years yf yfinance
    """.split()  # noqa: SIM905 - a table of words
)
"""Words of file names that are not symbols in small letters."""


@dataclass(frozen=True, kw_only=True)
class NamedSymbol:
    """The symbol of all rows of a table without a column of symbols, and who says it."""

    code: str
    origin: Note


def symbol_of_file(stem: str, symbol: str | None) -> NamedSymbol | None:
    """The symbol of a file without a column of symbols: its name's, else ``symbol``, else a likely one."""
    code = symbol_in(stem) if stem else None
    if symbol and (code is None or (code.isdecimal() and symbol in full_codes(code))):
        origin = Note(zh=f"{symbol}（按 symbols）", en=f"{symbol}, as symbols says")
        return NamedSymbol(code=symbol, origin=origin)
    code = code or likely_symbol(stem)
    return None if code is None else _by_name(code, stem)


def symbol_of_frame(key: str) -> NamedSymbol | None:
    """The symbol of a frame without a column of symbols: its key."""
    code = key_symbol(key)
    return None if code is None else _by_name(code, key)


def _by_name(code: str, name: str) -> NamedSymbol:
    zh, en = ("", "") if code == name else (f"（{code}）", f" ({code})")
    return NamedSymbol(code=code, origin=Note(zh=f"名称{zh}", en=f"its name{en}"))


def symbol_in(text: str) -> str | None:
    """The symbol that a name is or surely holds, such as a file's; None if it holds none.

    A code in capitals or of an exchange of China is sure: beside other words it is one, and it is alone.

    >>> symbol_in("AAPL"), symbol_in("sh600519"), symbol_in("bars"), symbol_in("000001")
    ('AAPL', '600519.SH', None, '000001')
    >>> symbol_in("MSFT_history"), symbol_in("600519_daily"), symbol_in("0700.HK"), symbol_in("aapl")
    ('MSFT', '600519.SH', '0700.HK', None)
    >>> symbol_in("Security MSFT US Equity Currency USD"), symbol_in("700 HK Equity")
    ('MSFT', '0700.HK')
    >>> symbol_in("7203 JT Equity"), symbol_in("SPX Index")
    (None, None)
    """
    if named := _OF_TERMINAL.search(text):
        code = named[1].replace("/", "-")
        return _sure(f"{code:0>4}.HK" if named[2] == "HK" else code) if named[2] in _HERE else None
    text = _OF_US.sub("", _HASH.sub(r"\1", text.strip()))
    if whole := _sure(text):
        return whole
    parts = [part for part in _PARTS.split(text) if part.lower() not in _COMMON_WORDS]
    found = dict.fromkeys(filter(None, map(_sure, parts)))
    return next(iter(found)) if len(found) == 1 else None


def likely_symbol(text: str) -> str | None:
    """The symbol that a name in small letters may be; None if it is a word of file names, or several words.

    >>> likely_symbol("aapl"), likely_symbol("aapl.us"), likely_symbol("brk-b"), likely_symbol("prices")
    ('AAPL', 'AAPL', 'BRK-B', None)
    """
    parts = [part for part in _PARTS.split(_OF_US.sub("", text.strip())) if part]
    parts = [part for part in parts if part.lower() not in _COMMON_WORDS]
    parts = [part for part in parts if not part.isdecimal()]
    if len(parts) != 1 or not _LOWER.fullmatch(parts[0]):
        return None
    return parts[0].upper() if find_board(parts[0].upper()) else None


def key_symbol(text: str) -> str | None:
    """The symbol that the caller gave a frame as its key: a code of any market, small letters raised.

    >>> key_symbol("goog"), key_symbol("0700.HK"), key_symbol("bars"), key_symbol("two words")
    ('GOOG', '0700.HK', None, None)
    """
    if text.lower() in _COMMON_WORDS and text != text.upper():
        return None
    return symbol_in(text) or likely_symbol(text) or (text if is_code(text) else None)


def says_adjusted(text: str) -> bool:
    """Whether a name says that prices are adjusted.

    >>> says_adjusted("AAPL_adj"), says_adjusted("收盘价(前复权)"), says_adjusted("adjacent")
    (True, True, False)
    """
    return _ADJUSTED.search(text) is not None


def _sure(text: str) -> str | None:
    if market_elsewhere(text):
        return text
    codes = full_codes(text) if is_code(text) else ()
    if len(codes) > 1:
        return text  # read_codes asks which one is meant
    return next((code for code in codes if is_index_code(code) or find_board(code)), None)
