"""Limits of text from outside: its length, and that it is UTF-8."""

from __future__ import annotations

import re

from quantgraph._util.texts import escape_controls
from quantgraph.errors import BadOption

MAX_TEXT_LENGTH = 10_000
"""Characters of a sentence or an answer; a longer text is a file pasted by mistake."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def check_text(text: str, parameter: str) -> None:
    r"""Check that a text can be written as UTF-8.

    An undecodable byte of a command line or a file name arrives as a lone surrogate, which
    files in UTF-8 and databases refuse.

    Raises
    ------
    BadOption
        Names the place of the first lone surrogate.

    Examples
    --------
    >>> check_text("5日均线\udcff", "question")
    Traceback (most recent call last):
    ...
    quantgraph.errors.BadOption: question is not valid UTF-8 text: character 5 is \udcff
    """
    if found := _SURROGATE.search(text):
        shown = escape_controls(found[0])
        raise BadOption(
            f"{parameter} is not valid UTF-8 text: character {found.start() + 1} is {shown}",
            parameter=parameter,
        )


def check_sentence(text: str, parameter: str) -> None:
    """Check that a sentence is UTF-8 text of at most :data:`MAX_TEXT_LENGTH` characters; else BadOption."""
    if len(text) > MAX_TEXT_LENGTH:
        raise BadOption(
            f"{parameter} has {len(text)} characters; at most {MAX_TEXT_LENGTH} are read", parameter=parameter
        )
    check_text(text, parameter)
