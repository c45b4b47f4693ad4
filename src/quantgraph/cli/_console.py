"""Output of the command: all of it goes through here, and terminal escapes in it are made visible.

Names in data files, code that a model wrote, its errors and a model's replies may hold terminal escapes and
markup. They are shown as text; only rich's own escapes reach a terminal.
"""

from __future__ import annotations

import gc
import json
import locale
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from quantgraph._util.texts import Language, escape_controls
from quantgraph.errors import QuantGraphError

if TYPE_CHECKING:
    from quantgraph.settings import Settings


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without the garbage collector, which takes a tenth of the time and finds next to nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start_code_process(settings: Settings) -> None:
    """Begin to start the process of the settings for generated code, if it is one that is kept."""
    from quantgraph.sandbox import ForkRunner, runner_of

    if settings.code_isolation != "trusted":
        runner = runner_of(settings)
        if isinstance(runner, ForkRunner):
            runner.start_early()


FAILED, WRONG_USAGE, NOT_COMPARED, CANCELLED = 1, 2, 3, 130
"""Exit statuses."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else to stdout.")]
Debug = Annotated[bool, typer.Option(help="Show a traceback when something goes wrong.")]


def echo(text: str, *, err: bool = False) -> None:
    """Print a text of one or several lines."""
    typer.echo(escape_controls(text, multiline=True), err=err)


def echo_json(value: object) -> None:
    """Print one JSON object; control characters become JSON's own escapes, so it reads back the same."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if escape_controls(text) != text:
        text = "".join(map(_in_json, text))
    typer.echo(text)


def _in_json(character: str) -> str:
    if escape_controls(character) == character:
        return character
    return r"\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def echo_traceback(error: BaseException) -> None:
    """Print the traceback of an error on stderr."""
    echo("".join(traceback.format_exception(error)).rstrip("\n"), err=True)


def print_status(line: str) -> None:
    """Print one line on stderr."""
    echo(escape_controls(line), err=True)


def print_error(error: QuantGraphError, *, debug: bool) -> None:
    """Print an error in one line and its diff, if it has one, on stderr; with ``debug`` after a traceback."""
    if debug:
        echo_traceback(error)
    echo("\n".join(filter(None, (error.line, error.data.get("diff")))), err=True)


@contextmanager
def usage_errors(*, debug: bool = False) -> Iterator[None]:
    """Print an error of the call and exit with status 2."""
    try:
        yield
    except QuantGraphError as error:
        print_error(error, debug=debug)
        raise typer.Exit(WRONG_USAGE) from None


def plural(number: int, thing: str) -> str:
    """Number and noun: ``1 record``, ``2 records``."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def locale_language() -> Language:
    """The language of the locale, by the variables that name it or else the system."""
    named = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return "zh" if (named or locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"


def literal(text: object, style: str = "") -> Text:
    """A text for a :class:`SafeConsole`, shown as it is written."""
    return Text(escape_controls(str(text), multiline=True), style=style)


def ansi_text(text: str) -> Text:
    """A drawing with colour escapes; it must not contain text from outside."""
    return Text.from_ansi(text)


class SafeConsole(Console):
    """A rich console without markup that escapes control characters.

    It writes to the stream below :func:`safe_streams`, which would escape rich's own escapes.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        below: IO[str] = stream.below if isinstance(stream, _SafeStream) else stream
        super().__init__(file=below, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A plain string is shown as it is written, on as many lines as it needs."""
        shown = super().render_str(escape_controls(text, multiline=True), **options | {"markup": False})
        shown.overflow = "fold"
        return shown

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does; control characters that a renderable still holds are escaped."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else escape_controls(segment.text, multiline=True)
            yield segment if text == segment.text else Segment(text, segment.style)


class _SafeStream:
    """A text stream that escapes control characters, for libraries that print, log or warn."""

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


class _LinesAbove:
    """A text stream whose lines appear above a live display."""

    def __init__(self, console: SafeConsole) -> None:
        self._console = console
        self._unfinished = ""

    def write(self, text: str) -> int:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        for line in lines:
            self._console.print(literal(line), soft_wrap=True)
        return len(text)

    def flush(self) -> None:
        """An unfinished line waits for its line feed."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console.file, name)


def protocol_streams() -> tuple[TextIO, TextIO]:
    """Take stdin and stdout for the protocol: what else is printed goes to stderr."""
    sys.stdout.flush()
    lines_in = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
    lines_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return lines_in, lines_out


@contextmanager
def safe_streams() -> Iterator[None]:
    """Escape control characters in all that this process writes to stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_SafeStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def lines_above(console: SafeConsole) -> Iterator[None]:
    """Show what is written to stderr above the live display of the console."""
    before, sys.stderr = sys.stderr, _LinesAbove(console)
    try:
        yield
    finally:
        sys.stderr = before
