"""Small pieces of HTML for notebooks, in which every text is shown and none is obeyed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from quantgraph._util.texts import escape_controls

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
