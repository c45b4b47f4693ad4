"""What every command that runs a graph does: show it, ask, stop when it is told to, say how it ended."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from quantgraph._util.texts import escape_controls, language_of
from quantgraph.cli.console import echo, echo_json, echo_traceback
from quantgraph.errors import BadFile, BadOption, BadWindow, QuantGraphError, RunMismatch

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

__all__ = ["CANCELLED", "FAILED", "WRONG_USAGE", "print_error", "print_status", "run_and_show"]

FAILED, WRONG_USAGE, CANCELLED = 1, 2, 130
_SPENT = re.compile(
    r"budget of the (run|session)[^:]*: (\S+) (calls|prompt tokens|completion tokens|money|seconds)"
)
_PASSING_ENDS = frozenset({"data_unavailable", "model_unavailable", "timeout"})
"""Ends that may be gone later."""
_WRONG = (BadFile, BadOption, BadWindow, RunMismatch)
"""Errors that say of a call that it cannot be."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_PATIENCE = 1.0
"""Seconds for what was interrupted to end by itself."""

Answer = Callable[[Mapping[str, Any]], str | None]
Work = Callable[..., dict[str, Any]]


def run_and_show(
    question: str,
    work: Work,
    *,
    as_json: bool,
    headless: bool,
    debug: bool,
    first_answer: str | None = None,
) -> None:
    """Run ``work(answer=, watch=, control=)``, show its result, and end with its exit status.

    ``first_answer`` is given to the first question; the others are asked unless it is ``headless``.
    """
    from quantgraph.cli.view import ask_on_terminal, open_display, show_result
    from quantgraph.runtime.endings import closing_text

    try:
        with open_display(question) as live, _stopping() as stop:
            ask = None if headless else stop.asking(ask_on_terminal(live))
            answer = ask if first_answer is None else _first(first_answer, ask)
            result = work(answer=answer, watch=live.watch, control=stop.control)
    except QuantGraphError as error:
        run_dir = error.data.get("run_dir")  # none where no run has begun
        if run_dir is None and isinstance(error, _WRONG):
            print_error(error, debug=debug)
            raise typer.Exit(WRONG_USAGE) from None
        if as_json:
            place = {"run_id": error.data.get("run_id"), "run_dir": run_dir}
            stands = {"state": "failed", "ended_because": None, "question": question, "error": error.line}
            echo_json(place | stands)
        print_error(error, debug=debug)
        if run_dir:
            print_status(f"quantgraph resume {run_dir}")
        raise typer.Exit(FAILED) from None
    if as_json:
        echo_json(result)
    else:
        show_result(result)
    because = result["ended_because"]
    if because == "done":
        return
    print_status(f"{result['error']}  [{because}, {result['run_dir']}]")
    for line in filter(None, (closing_text(because, "", language_of(result["question"])), _hint(result))):
        print_status(line)
    raise typer.Exit(CANCELLED if because == "cancelled" else FAILED)


def _hint(result: Mapping[str, Any]) -> str:
    """The command that goes on with a run, empty where that would end so again, or the error has it."""
    from quantgraph.recording.recordings import PASSING_ERRORS
    from quantgraph.runs.resume import questions_used_up

    because, error = result["ended_because"], result["error"]
    on = f"quantgraph resume {result['run_dir']}"
    if because == "needs_answer":
        return "" if questions_used_up(result) else f"{on} --answer TEXT"
    if spent := _SPENT.search(error):
        whose, most, limit = spent.groups()
        option = "--budget" if whose == "run" else "--session-budget"
        return f"{on} {option} {limit.replace(' ', '_')}=N, with N above {most}"
    passes = error.partition(":")[0] in PASSING_ERRORS
    return on if because in _PASSING_ENDS and passes else ""


class _Stop:
    """The first Ctrl-C or SIGTERM stops a run at its next step, the second at once; more do nothing.

    ``hurry`` is called before the second interrupts what goes on.
    """

    def __init__(self, control: RunControl, hurry: Callable[[], None] = lambda: None) -> None:
        self.control = control
        self._hurry = hurry
        self._asking = False
        self._left = False

    def asking(self, ask: Answer) -> Answer:
        """While a question waits there is no next step: it is left at once."""

        def asked(question: Mapping[str, Any]) -> str | None:
            self._asking = True
            try:
                return ask(question)
            finally:
                self._asking = False

        return asked

    @property
    def told(self) -> bool:
        """Whether there was a signal."""
        return self._left or bool(self.control.drain_requested)

    def handle(self, *_: object) -> None:
        if self._left:
            return
        if self._asking or self.control.drain_requested:
            self._left = True
            # It tells of what it was interrupted in with a traceback, which nobody asked for.
            logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
            if not self._asking:
                self._hurry()
            raise KeyboardInterrupt
        self.control.request_drain("told to stop")
        # Not by a stream: the signal may have come in the middle of a write to it, which takes no second one.
        os.write(_STDERR, b"stopping at the next step; once more stops at once\n")


@contextmanager
def _stopping() -> Iterator[_Stop]:
    from langgraph.runtime import RunControl

    from quantgraph.llm.cancellation import AT_ONCE

    control = RunControl()

    def hurry() -> None:
        control.request_drain(AT_ONCE)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, _leave)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)

    stop = _Stop(control, hurry)
    before = {number: signal.signal(number, stop.handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        if control.drain_reason == AT_ONCE and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():  # told to stop, the process is at its end: it may clean up
            signal.signal(number, signal.SIG_IGN if stop.told else handler)


def _leave(*_: object) -> None:
    """What was interrupted waits for a thread that hears of nothing: all that has to last is on the disk."""
    cursor = b"\033[?25h" if os.isatty(_STDERR) else b""
    os.write(_STDERR, cursor + b"left in the middle of a step; 'quantgraph resume RUN' goes on with it\n")
    os._exit(CANCELLED)


def _first(text: str, others: Answer | None) -> Answer:
    left = [text]

    def answer(question: Mapping[str, Any]) -> str | None:
        if left:
            return left.pop()
        return others(question) if others else None

    return answer


def print_error(error: QuantGraphError, *, debug: bool) -> None:
    """One line, and below it what differs; with a traceback before it if that is asked for."""
    if debug:
        echo_traceback(error)
    echo("\n".join(filter(None, (error.line, error.data.get("diff")))), err=True)


def print_status(line: str) -> None:
    """A line on stderr."""
    echo(escape_controls(line), err=True)
