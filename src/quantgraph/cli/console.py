"""The command's one way to a terminal: whatever is shown goes through here, and nothing in it is obeyed.

Names in data files, code that a model wrote, its errors and a model's replies may hold terminal escapes and
markup. They are shown as they are written; the only escapes that reach a terminal are rich's own.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from quantgraph._util.texts import escape_controls

__all__ = [
    "SafeConsole",
    "drawing",
    "echo",
    "echo_json",
    "echo_traceback",
    "lines_above",
    "literal",
    "safe_streams",
]


def echo(text: str, *, err: bool = False) -> None:
    """Print a text of one or several lines."""
    typer.echo(escape_controls(text, multiline=True), err=err)


def echo_json(value: object) -> None:
    """Print one JSON object; JSON's own escapes stand for what is not shown, so it reads back the same."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if escape_controls(text) != text:
        text = "".join(map(_in_json, text))
    typer.echo(text)


def _in_json(character: str) -> str:
    if escape_controls(character) == character:
        return character
    return r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def echo_traceback(error: BaseException) -> None:
    """Print where an error was raised, on stderr."""
    echo("".join(traceback.format_exception(error)).rstrip("\n"), err=True)


def literal(text: object, style: str = "") -> Text:
    """A text for a :class:`SafeConsole`, as it is written."""
    return Text(escape_controls(str(text), multiline=True), style=style)


def drawing(text: str) -> Text:
    """A drawing that a library made with colours; nothing of it may come from outside."""
    return Text.from_ansi(text)


class SafeConsole(Console):
    """A console that reads no markup and lets no control character of a text through.

    It writes to the stream below :func:`safe_streams`, which would take rich's own escapes for a text's.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        below: IO[str] = stream.below if isinstance(stream, _SafeStream) else stream
        super().__init__(file=below, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A plain string is shown as it is written."""
        return super().render_str(escape_controls(text, multiline=True), **options | {"markup": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does; what a renderable brought along in spite of all is made visible."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else escape_controls(segment.text, multiline=True)
            yield segment if text == segment.text else Segment(text, segment.style)


class _SafeStream:
    """A text stream whose writes are escaped: for libraries that print, log or warn by themselves."""

    def __init__(self, below: IO[str]) -> None:
        self.below = below

    def write(self, text: str) -> int:
        self.below.write(escape_controls(text, multiline=True))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


class _Above:
    """A text stream whose lines stand above a live view."""

    def __init__(self, console: SafeConsole) -> None:
        self._console = console
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._console.print(literal(line), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        """What has no line feed yet waits for it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console.file, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape what anybody in this process writes to stdout and stderr, not only this package."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_SafeStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def lines_above(console: SafeConsole) -> Iterator[None]:
    """Put what is written to stderr above the live view that the console shows."""
    before, sys.stderr = sys.stderr, _Above(console)
    try:
        yield
    finally:
        sys.stderr = before
