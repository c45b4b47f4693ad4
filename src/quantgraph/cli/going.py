"""What every command that runs a graph does: show it, ask, stop when it is told to, say how it ended."""

from __future__ import annotations

import json
import os
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from quantgraph.errors import BadFile, BadOption, BadWindow, QuantGraphError, RunMismatch

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

__all__ = ["CANCELLED", "FAILED", "WRONG_USAGE", "fail", "go", "say"]

FAILED, WRONG_USAGE, CANCELLED = 1, 2, 130
_SPENT = re.compile(
    r"budget of the (run|session)[^:]*: (\S+) (calls|prompt tokens|completion tokens|money|seconds)"
)
_PASSING_ENDS = frozenset({"data_unavailable", "model_unavailable", "timeout"})
"""Ends that may be gone later; ``failed`` is a mistake, which has to be mended first."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2

Answer = Callable[[Mapping[str, Any]], str | None]
Work = Callable[..., dict[str, Any]]


def go(
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
    from quantgraph.cli.view import prompt, show_result, view

    try:
        with view(question) as live, _stopping() as stop:
            ask = None if headless else stop.asking(prompt(live))
            answer = ask if first_answer is None else _first(first_answer, ask)
            result = work(answer=answer, watch=live.watch, control=stop.control)
    except (BadFile, BadOption, BadWindow, RunMismatch) as error:
        fail(error, debug=debug)
        raise typer.Exit(WRONG_USAGE) from None
    except QuantGraphError as error:  # before the run had a folder: a model without its key, for example
        if as_json:
            nowhere = {"run_id": None, "run_dir": None, "ended_because": "failed"}
            typer.echo(json.dumps({**nowhere, "question": question, "error": error.line}, ensure_ascii=False))
        fail(error, debug=debug)
        raise typer.Exit(FAILED) from None
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
    else:
        show_result(result)
    because = result["ended_because"]
    if because == "done":
        return
    say(f"{result['error']}  [{because}, {result['run_dir']}]")
    if hint := _hint(result):
        say(hint)
    raise typer.Exit(CANCELLED if because == "cancelled" else FAILED)


def _hint(result: Mapping[str, Any]) -> str:
    """How to go on with a run, empty where that would end as it did; of a cancelled one its error says it."""
    from quantgraph.recording.run import PASSING
    from quantgraph.run.resume import asked_all

    because, error = result["ended_because"], result["error"]
    on = f"quantgraph resume {result['run_dir']}"
    if because == "needs_answer":
        return "begin a new run with the whole sentence" if asked_all(result) else f"{on} --answer TEXT"
    if spent := _SPENT.search(error):
        whose, most, limit = spent.groups()
        option = "--budget" if whose == "run" else "--session-budget"
        return f"{on} {option} {limit.replace(' ', '_')}=N, with N above {most}"
    passes = error.partition(":")[0] in PASSING
    return on if because in _PASSING_ENDS and passes else ""


class _Stop:
    """The first Ctrl-C or SIGTERM stops a run at its next step, the second at once; more do nothing."""

    def __init__(self, control: RunControl) -> None:
        self.control = control
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
            raise KeyboardInterrupt
        self.control.request_drain("told to stop")
        # Not by a stream: the signal may have come in the middle of a write to it, which takes no second one.
        os.write(_STDERR, b"stopping at the next step; once more stops at once\n")


@contextmanager
def _stopping() -> Iterator[_Stop]:
    from langgraph.runtime import RunControl

    stop = _Stop(RunControl())
    before = {number: signal.signal(number, stop.handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():  # told to stop, the process is at its end: it may clean up
            signal.signal(number, signal.SIG_IGN if stop.told else handler)


def _first(text: str, others: Answer | None) -> Answer:
    left = [text]

    def answer(question: Mapping[str, Any]) -> str | None:
        if left:
            return left.pop()
        return others(question) if others else None

    return answer


def fail(error: QuantGraphError, *, debug: bool) -> None:
    """One line, with a traceback before it if that is asked for."""
    if debug:
        traceback.print_exception(error)
    say(error.line)


def say(line: str) -> None:
    """A line on stderr."""
    typer.echo(line, err=True)
