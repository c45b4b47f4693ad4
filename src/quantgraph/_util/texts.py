"""Texts in two languages: notes, escaped control characters, traditional characters as simplified ones."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal

Language = Literal["zh", "en"]
NewsUntil = Literal["previous_day", "open"]
"""What a decider is shown of dated records: those of earlier days, or all before its moment."""

SOURCES = "sample, tushare, baostock, yfinance:AAPL,MSFT, qlib:FOLDER, or the path of a file or folder"
"""Sources of market data that a text can name."""

_LETTERS_A_CHARACTER = 3
"""A Chinese character counts as much as three letters of an English word."""


def language_of(text: str) -> Language:
    """The language of most of a text. Codes, numbers and capitals such as MACD belong to neither.

    >>> language_of("buy 600519.SH"), language_of("买入600519.SH"), language_of("members of 合成30, 2025")
    ('en', 'zh', 'en')
    """
    chinese = len(re.findall(r"[\u4e00-\u9fff]", text))  # "均线"
    english = sum(len(word) for word in re.findall(r"[A-Za-z]?[a-z]{2,}", text))  # "average"
    return "zh" if chinese * _LETTERS_A_CHARACTER > english else "en"


def say(language: str, *, zh: str, en: str) -> str:
    """The text in the user's language."""
    return zh if language == "zh" else en


def table_beside(module: str, name: str) -> list[list[str]]:
    """The rows of a CSV file beside a module, which is named by its ``__file__``."""
    with (Path(module).parent / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines))


@dataclass(frozen=True, kw_only=True)
class Note:
    """A text in both languages. ``str`` gives the English one."""

    zh: str
    en: str

    def __str__(self) -> str:
        return self.en

    def text(self, language: str) -> str:
        """The note in the user's language."""
        return say(language, zh=self.zh, en=self.en)


_EMOJI = r"\U0001f000-\U0001faff\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f"
_UNSAFE = re.compile(  # "\x1b"
    r"[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    r"\xad\u180e\u200b\u200c\u2028\u2029\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # no width
    r"\ud800-\udfff\U000e0000-\U000e007f]"  # lone surrogates, tags
    rf"|(?<![{_EMOJI}])\u200d|\u200d(?![{_EMOJI}])"  # a joiner that joins no emoji
)
_LAID_OUT = frozenset("\n\t")


def escape_controls(text: str, *, multiline: bool = False) -> str:
    r"""Escape the characters of a text that a terminal or a log viewer obeys instead of shows.

    Those are control characters, marks of writing direction, characters without width, line and paragraph
    separators, and lone surrogates.

    >>> print(escape_controls("\x1b[2J5日均线\n"), escape_controls("\u202e\x9b\udcff"))
    \x1b[2J5日均线\n \u202e\x9b\udcff
    """

    def visible(match: re.Match[str]) -> str:
        character = match[0]
        if multiline and character in _LAID_OUT:
            return character
        return character.encode("unicode_escape").decode("ascii")

    return _UNSAFE.sub(visible, text)


_TRADITIONAL = (
    "買賣線際價漲會與於進變動勢點開關盤時間個為據號見過還說無長後從業銀證創綜滬險國農興華聯機電車藥匯場額換總營財報贏虧損獲區"
    "續單雙強舊歲數標準檔兩萬億資產訊貴臺歷態現條並達東減權週極經結約組給絕維網緊縮執項類風餘預輪軌運選遞適陽陰隨隻難離靜頂順須頭題顯驗"
)
_SIMPLIFIED = (
    "买卖线际价涨会与于进变动势点开关盘时间个为据号见过还说无长后从业银证创综沪险国农兴华联机电车药汇场额换总营财报赢亏损获区"
    "续单双强旧岁数标准档两万亿资产讯贵台历态现条并达东减权周极经结约组给绝维网紧缩执项类风余预轮轨运选递适阳阴随只难离静顶顺须头题显验"
)
_TABLE = str.maketrans(_TRADITIONAL, _SIMPLIFIED)


def simplified(text: str) -> str:
    """The text with simplified characters where it has traditional ones; its length stays.

    >>> simplified("貴州茅台,5日均線上穿20日均線買入,下穿賣出")
    '贵州茅台,5日均线上穿20日均线买入,下穿卖出'
    """
    return text.translate(_TABLE)


_WIDTH = 200


def short_line(text: object, width: int = _WIDTH) -> str:
    r"""A text as one line of at most ``width`` characters, without characters that a terminal obeys.

    >>> short_line("one\ntwo\x1b[2J"), short_line("abcdef", 4)
    ('one two\\x1b[2J', 'abc…')
    """
    line = escape_controls(" ".join(str(text).split()))
    return line if len(line) <= width else f"{line[: width - 1]}…"


def html_lines(lines: Iterable[object], width: int = _WIDTH) -> str:
    """A ``div`` a line.

    >>> html_lines(["a < b"])
    '<div>a &lt; b</div>'
    """
    return "".join(f"<div>{escape(short_line(line, width))}</div>" for line in lines)


def html_table(rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> str:
    """A table, whose first column names the rows.

    >>> html_table([["a", 1]])
    "<table><tr><th style='text-align:left'>a</th><td>1</td></tr></table>"
    """
    top = "".join(f"<th>{escape(short_line(cell))}</th>" for cell in head)
    body = "".join(
        f"<tr><th style='text-align:left'>{escape(short_line(name))}</th>"
        + "".join(f"<td>{escape(short_line(cell))}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return f"<table>{f'<tr>{top}</tr>' if top else ''}{body}</table>"


_FOLDERS = re.compile(  # "/data/prices/600519.csv"
    r"(?:file://|(?<![A-Za-z0-9_/:.<]))(?:[A-Za-z]:|~)?(?:[/\\][^\s/\\:;,'\"()<>，。；：（）]+)+[/\\](?=[^\s/\\])"
)
_HOSTS = re.compile(r"(?<=://)[^\s/'\"<>]+|\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d+)?\b")  # "localhost"


def without_places(text: str) -> str:
    """A text for strangers: files without their folders, and no hosts.

    >>> without_places("/home/me/prices/a.csv, row 3: 127.0.0.1:9 or http://host:80/v1 refused 1/2")
    'a.csv, row 3: … or http://…/v1 refused 1/2'
    """
    return _HOSTS.sub("…", _FOLDERS.sub("", text))
