"""Codes of securities: how they are written, and lists of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from quantgraph.errors import BadOption
from quantgraph.market.rules import find_board

_CODE = re.compile(r"[!-~]{1,24}")  # "600519.SH"
_INDEX_CODE = re.compile(r"(?:000\d{3}|99\d{4})\.SH|399\d{3}\.SZ|899\d{3}\.BJ|[0-9A-Z]{6}\.(?:CSI|CNI)")
_DIGITS = re.compile(r"\d{6}", re.ASCII)  # "600519"
_MAINLAND = re.compile(r"\d{6}\.(?:SH|SZ|BJ)", re.ASCII)  # "600519.SH"
_PREFIXED = re.compile(r"(SH|SZ|BJ|[01](?=\.)|(?:S|SH|SZ|B)SE|XSH[EG])[.:]?(\d{6})")  # "SH600519"
_ABROAD = re.compile(  # "HK.00700"
    r"HK[.:](\d{4,5})|(?:US|NASDAQ|NYSE|AMEX|ARCA)[.:]([A-Z]{1,5})|([A-Z]{1,5})(?:\.OQ|-US| US EQUITY)"
)
"""Codes of other markets with their exchange first, or Reuters' and Bloomberg's behind."""
_EXCHANGES = {
    **dict.fromkeys(("SH", "SS", "SSE", "SHSE", "XSHG", "上交所", "1"), "SH"),  # 1 and 0 are of a secid
    **dict.fromkeys(("SZ", "SZSE", "XSHE", "深交所", "0"), "SZ"),
    **dict.fromkeys(("BJ", "BSE", "BJSE", "XBSE", "北交所"), "BJ"),
}
"""Exchanges of China by the names that vendors give them."""


def is_code(text: str) -> bool:
    """Whether a text may be a code. Codes appear in prompts, so sentences must not pass.

    >>> is_code("600519.SH"), is_code("BRK.B"), is_code("buy everything"), is_code("")
    (True, True, False, False)
    """
    return _CODE.fullmatch(text) is not None


def is_index_code(code: str) -> bool:
    """Whether a code lies in a numbering range of indices.

    >>> is_index_code("000016.SH"), is_index_code("000016.SZ"), is_index_code("399006.SZ")
    (True, False, True)
    """
    return _INDEX_CODE.fullmatch(code) is not None


def standard_code(text: str) -> str:
    """Code in tushare's form, from any of the usual forms; bare digits stay as they are.

    >>> [standard_code(text) for text in ("sh600519", "SZ.000001", "600519.ss", "000001.XSHE", "1.600519")]
    ['600519.SH', '000001.SZ', '600519.SH', '000001.SZ', '600519.SH']
    >>> [standard_code(text) for text in ("SSE:600519", "HK.00700", "US.AAPL", "AAPL.OQ", "MSFT US Equity")]
    ['600519.SH', '00700.HK', 'AAPL', 'AAPL', 'MSFT']
    """
    code = text.strip().upper()
    if abroad := _ABROAD.fullmatch(code):
        return f"{abroad[1]}.HK" if abroad[1] else abroad[2] or abroad[3]
    if prefixed := _PREFIXED.fullmatch(code):
        return f"{prefixed[2]}.{_EXCHANGES[prefixed[1]]}"
    stem, _, exchange = code.rpartition(".")
    return f"{stem}.{_EXCHANGES[exchange]}" if _DIGITS.fullmatch(stem) and exchange in _EXCHANGES else code


def mainland_code(text: str) -> str | None:
    """Code of six digits at an exchange of China, from any of the usual forms; None of other texts.

    >>> mainland_code("600519.SSE"), mainland_code("600519"), mainland_code("RELIANCE.BSE")
    ('600519.SH', None, None)
    """
    code = standard_code(text)
    return code if _MAINLAND.fullmatch(code) else None


def possible_codes(digits: str) -> tuple[str, ...]:
    """Codes that six bare digits may mean, by the exchanges' numbering: shares and funds, then indices.

    >>> possible_codes("600519"), possible_codes("000001"), possible_codes("900901")
    (('600519.SH',), ('000001.SZ', '000001.SH'), ())
    """
    codes = [f"{digits}.{exchange}" for exchange in ("SH", "SZ", "BJ")]
    return (*filter(find_board, codes), *filter(is_index_code, codes))


def symbol_list(symbols: str | Iterable[str]) -> tuple[str, ...]:
    """Symbols as a tuple; a text is split at commas, never into its characters.

    >>> symbol_list("600519.SH, 000001.SZ"), symbol_list(["SSE 50"]), symbol_list("")
    (('600519.SH', '000001.SZ'), ('SSE 50',), ())

    Raises
    ------
    BadOption
        If one of them is not a text.
    """
    if isinstance(symbols, str):
        return tuple(part.strip() for part in re.split(r"[,，、;；]", symbols) if part.strip())  # "AAPL,F"
    listed = tuple(symbols)
    for each in listed:
        if not isinstance(each, str):
            raise BadOption(
                f"symbols: {each!r:.40} must be a text, such as '600519.SH' or 'AAPL'", parameter="symbols"
            )
    return listed
