"""A run while it goes on, on stderr: live on a terminal, else as plain lines; and its questions there."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from quantgraph._util.texts import language_of, say
from quantgraph.cli.console import SafeConsole, lines_above, literal, print_status
from quantgraph.runs import RunEvent
from quantgraph.runtime.questions import numbered_options

if TYPE_CHECKING:
    from quantgraph.runtime.state import Clarification


_SESSIONS_A_LINE = 50
_LIVE_ONLY = frozenset({"question", "started", "traded", "tokens"})
"""Events that are not lines; the prompt shows a question."""
_FINISHED = 8
"""Nodes that have finished and are shown."""
_REFRESHES = 4
"""A second. An event only notes what it says; drawing happens so often and not more."""
_MINUTE, _HOUR = 60, 3600


class RunDisplay:
    """Plain lines: one for each node, and one for every fifty sessions.

    Attributes
    ----------
    console
        Where questions are shown.
    """

    def __init__(self, console: SafeConsole | None = None) -> None:
        self.console = console or SafeConsole(stderr=True)
        self._sessions = 0

    def watch(self, event: RunEvent) -> None:
        """Show an event."""
        if event.kind in _LIVE_ONLY:
            return
        if event.kind == "said":
            for line in event.text.splitlines():
                print_status(f"  {line}")
            return
        if event.kind == "session":
            self._sessions += 1
            if self._sessions % _SESSIONS_A_LINE != 1:
                return
            line = f"daily_loop: {event.text}"
        else:
            line = f"{event.name}: {event.text}" if event.text else event.name
        print_status(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        yield


class LiveDisplay(RunDisplay):
    """What was understood stands above; below it the nodes that have finished, and how far the run is.

    Attributes
    ----------
    live
        The part of the terminal that is drawn again.
    """

    def __init__(self, console: SafeConsole, question: str) -> None:
        super().__init__(console)
        self._language = language_of(question)
        self._title = question.strip()[:80]
        self._finished: list[tuple[str, str]] = []
        self._node, self._node_since = "", time.monotonic()
        self._tokens = 0
        self._trading_since: float | None = None
        self._done_before = 0
        self._traded: RunEvent | None = None
        self.live = self._drawn_again()

    def _drawn_again(self) -> Live:
        """A drawing that begins where the cursor is."""
        return Live(
            console=self.console,
            get_renderable=self.drawing,
            refresh_per_second=_REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def watch(self, event: RunEvent) -> None:
        """Note an event; it is drawn with the next refresh."""
        match event.kind:
            case "said":
                console = self.live.console
                console.print(literal(event.text, "bold"), soft_wrap=True)
            case "started":
                self._node, self._node_since = event.name, time.monotonic()
                if event.name == "decision" and self._trading_since is None:
                    self._trading_since = self._node_since
            case "traded":
                if self._traded is None:
                    self._done_before = event.number - 1
                self._traded = event
            case "tokens":
                self._tokens = event.number
            case "node" | "answer" | "proof":
                self._finished = [*self._finished[1 - _FINISHED :], (event.name, event.text)]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question, whose time does not count."""
        begun = time.monotonic()
        self.live.stop()
        try:
            yield
        finally:
            waited = time.monotonic() - begun
            self._node_since += waited
            if self._trading_since is not None:
                self._trading_since += waited
            self.live = self._drawn_again()  # the one before would erase the question
            self.live.start(refresh=True)

    def drawing(self) -> RenderableType:
        """The part that is drawn again."""
        now = time.monotonic()
        nodes = Table.grid(padding=(0, 2))
        for name, text in self._finished:
            nodes.add_row(literal(name, "cyan"), literal(text.splitlines()[0] if text else ""))
        working = f"{self._node}  {_span(now - self._node_since)}" if self._node else ""
        tokens = f"{self._tokens:,} token{'s' if self._language == 'en' else ''}" if self._tokens else ""
        below = "  ·  ".join(filter(None, (working, self._progress(now), tokens)))
        parts = [nodes, literal(below, "green")] if self._finished else [literal(below, "green")]
        return Panel(Group(*parts), title=literal(self._title), title_align="left")

    def _progress(self, now: float) -> str:
        """Sessions in the ledger, how fast they are traded, and how long the rest takes at that speed."""
        traded = self._traded
        if traded is None or self._trading_since is None:
            return ""
        text = say(
            self._language,
            zh=f"第 {traded.number}/{traded.total} 个交易日 {traded.text}",
            en=f"session {traded.number} of {traded.total}, {traded.text}",
        )
        if traded.number == traded.total:
            return text
        each = max(now - self._trading_since, 1e-6) / (traded.number - self._done_before)
        left = _span((traded.total - traded.number) * each)
        if each < 1:
            speed = f"{1 / each:,.1f}/s"
        else:
            speed = say(self._language, zh=f"每个 {_span(each)}", en=f"{_span(each)} each")
        rest = say(self._language, zh=f"约剩 {left}", en=f"about {left} left")
        return f"{text}  ·  {speed}  ·  {rest}"


@contextmanager
def open_display(question: str) -> Iterator[RunDisplay]:
    """A live display if stderr is a terminal, else plain lines."""
    console = SafeConsole(stderr=True)
    if not console.is_terminal:
        yield RunDisplay(console)
        return
    display = LiveDisplay(console, question)
    display.live.start(refresh=True)
    try:
        with lines_above(console):
            yield display
    finally:
        display.live.stop()


def ask_on_terminal(display: RunDisplay) -> Callable[[Mapping[str, Any]], str | None]:
    """A function that asks a question on the terminal; its answer is None at the end of the input."""

    def ask(question: Mapping[str, Any]) -> str | None:
        with display.paused():
            console = display.console
            if question.get("error"):
                console.print(literal(question["error"]), style="yellow")
            console.print(literal(question["question"]), style="bold")
            if question["kind"] != "approval":
                for option in numbered_options(cast("Clarification", question)):
                    console.print(literal(f"  {option}"), soft_wrap=True)
            console.print("> ", end="")
            if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
                sys.stdin.reconfigure(errors="replace")  # invalid bytes must not end the run
            line = sys.stdin.readline()
            if not (line and sys.stdin.isatty()):  # no Enter key has ended the line
                console.print()
        return line.strip() if line else None

    return ask


def _span(seconds: float) -> str:
    """A span of time: ``9 s``, ``2 min 05 s``, ``1 h 01 min``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
