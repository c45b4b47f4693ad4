"""Executing a run for a command: its progress, its questions, stop signals, and how it ended."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph._util.texts import language_of, say
from quantgraph.cli.console import (
    CANCELLED,
    FAILED,
    WRONG_USAGE,
    echo_json,
    print_error,
    print_status,
)
from quantgraph.errors import (
    BadFile,
    BadOption,
    BadWindow,
    QuantGraphError,
    RunMismatch,
    StorageUnavailable,
    UnknownQuestion,
)

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

    from quantgraph.broker import Decider
    from quantgraph.runtime import Resources


_PLAIN_NAME = re.compile(r"[\w.-]+")
"""A name of which a shell obeys no character."""


def complete_run(context: typer.Context, incomplete: str) -> list[str]:
    """The names of runs that begin so, newest first, for the completion of a shell."""
    from quantgraph.settings import load_settings

    try:
        runs_dir = Path(context.params.get("out") or load_settings().runs_dir)
        found = [(path.stat().st_mtime, path.parent.name) for path in runs_dir.glob("*/run.json")]
    except (OSError, QuantGraphError):  # a shell that completes has no place for an error
        return []
    names = [name for _, name in sorted(found, reverse=True) if name.startswith(incomplete)]
    return [name for name in names if _PLAIN_NAME.fullmatch(name)]


RecordedRun = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="A run's folder, or its name in --out. Default: the latest there.",
        autocompletion=complete_run,
    ),
]
DeciderPlace = Annotated[
    str | None,
    typer.Option(
        "--decider",
        metavar="NAME|FILE.py:CLASS",
        help="Who decides: signal_rule (the default), buy_and_hold, dual_agent, execution, trader, or a "
        "class of a file, which must be as trusted as a program that you start.",
    ),
]
RunsFolder = Annotated[
    Path | None, typer.Option("--out", help="Folder of the runs. Default: the settings' runs_dir.")
]

_USAGE_ERRORS = (BadFile, BadOption, BadWindow, RunMismatch, UnknownQuestion)
"""Errors of the call itself, if no run has begun."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_GRACE = 1.0
"""Seconds in which an interrupted step may end by itself."""

Answer = Callable[[Mapping[str, Any]], str | None]
Work = Callable[["Resources"], dict[str, Any]]


def decider_of(place: str | None) -> Decider | None:
    """Make the decider of ``--decider``; None for the default."""
    if place is None:
        return None
    from quantgraph.agents import make_decider

    return make_decider(place)


@contextmanager
def whole_folders(*folders: Path) -> Iterator[None]:
    """Say of folders whose files were changed so that they cannot be used that they are damaged.

    Raises
    ------
    BadFile
        In place of whatever the reading of a damaged file leads to.
    """
    try:
        yield
    except QuantGraphError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        places = " or ".join(map(str, folders))
        raise BadFile(
            f"{places} is damaged, or lacks a part: {type(error).__name__}: {error}; "
            "'quantgraph ledger check RUN' names each file that is not as the run left it"
        ) from error


def execute_and_show(
    question: str,
    work: Work,
    *,
    as_json: bool,
    headless: bool,
    debug: bool,
    again: str = "",
    quiet: bool = False,
) -> None:
    """Run ``work`` with resources that ask, watch and stop it, show its result, and end with its exit status.

    Nothing is asked if it is ``headless``, and stdout is left to the caller if it is ``quiet``. ``again`` is
    the command that goes on with it, if it is another than ``quantgraph resume``.
    """
    from quantgraph.cli.display import show_result
    from quantgraph.cli.run_display import ask_on_terminal, open_display
    from quantgraph.runtime import Resources

    try:
        with open_display(question) as display, _stop_signals() as stop:
            ask = None if headless else stop.asking(ask_on_terminal(display))
            result = work(Resources(answer=ask, watch=display.watch, control=stop.control))
    except QuantGraphError as error:
        run_dir = error.data.get("run_dir")  # None if no run has begun
        if run_dir is None and isinstance(error, _USAGE_ERRORS):
            print_error(error, debug=debug)
            raise typer.Exit(WRONG_USAGE) from None
        if as_json:
            place = {"run_id": error.data.get("run_id"), "run_dir": run_dir}
            state = {"state": "failed", "ended_because": None, "question": question, "error": error.line}
            echo_json(place | state)
        print_error(error, debug=debug)
        if run_dir:
            print_status(again or f"quantgraph resume {run_dir}")
            if not isinstance(error, StorageUnavailable):  # a page could not be written either
                _write_page(Path(run_dir), question)
        raise typer.Exit(FAILED) from None
    if as_json:
        echo_json(result)
    elif not quiet:
        show_result(result)
    _write_page(Path(result["run_dir"]), question)
    if result["ended_because"] != "done":
        print_end(result, again)
        raise typer.Exit(CANCELLED if result["ended_because"] == "cancelled" else FAILED)


def print_end(result: Mapping[str, Any], again: str = "") -> None:
    """Print why a run that ended is not done, and what to do next."""
    from quantgraph.runs.outputs import next_command
    from quantgraph.runtime.endings import closing_text

    because = result["ended_because"]
    print_status(f"{result['error']}  [{because}, {result['run_dir']}]")
    command = next_command(result, again or f"quantgraph resume {result['run_dir']}")
    for line in (closing_text(because, "", language_of(result["question"])), command):
        if line:
            print_status(line)


def _write_page(folder: Path, question: str) -> None:
    """Write the page of a run and say where it is; a failure is told, and the run's result stands."""
    from quantgraph.runs.run_page import write_page

    language = language_of(question)
    try:
        print_status(f"{say(language, zh='页面', en='page')}: {write_page([folder])}")
    except Exception as error:  # noqa: BLE001 - whatever fails there, the run has ended as it did
        line = error.line if isinstance(error, QuantGraphError) else f"{type(error).__name__}: {error}"
        print_status(f"{say(language, zh='页面没有写成', en='the page was not written')}: {line}")


class _StopHandler:
    """The first Ctrl-C or SIGTERM stops a run at its next step, the second at once; more do nothing.

    ``on_second`` is called before the second interrupts a step.
    """

    def __init__(self, control: RunControl, on_second: Callable[[], None] = lambda: None) -> None:
        self.control = control
        self._on_second = on_second
        self._asking = False
        self._interrupted = False

    def asking(self, ask: Answer) -> Answer:
        """Wrap ``ask``: a signal interrupts a waiting question at once, because there is no next step."""

        def asked(question: Mapping[str, Any]) -> str | None:
            self._asking = True
            try:
                return ask(question)
            finally:
                self._asking = False

        return asked

    @property
    def signalled(self) -> bool:
        """Whether there was a signal."""
        return self._interrupted or bool(self.control.drain_requested)

    def handle(self, *_: object) -> None:
        if self._interrupted:
            return
        if self._asking or self.control.drain_requested:
            self._interrupted = True
            # It would log a traceback of the interrupted step.
            logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
            if not self._asking:
                self._on_second()
            raise KeyboardInterrupt
        self.control.request_drain("told to stop")
        # Not by a stream: the signal may have interrupted a write to it, and writes are not reentrant.
        os.write(_STDERR, b"stopping at the next step; once more stops at once\n")


@contextmanager
def _stop_signals() -> Iterator[_StopHandler]:
    from langgraph.runtime import RunControl

    from quantgraph.llm.cancellation import AT_ONCE

    control = RunControl()

    def leave_soon() -> None:
        control.request_drain(AT_ONCE)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, _leave_now)
            signal.setitimer(signal.ITIMER_REAL, _GRACE)

    stop = _StopHandler(control, leave_soon)
    before = {number: signal.signal(number, stop.handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        if control.drain_reason == AT_ONCE and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():  # after a signal the process only cleans up
            signal.signal(number, signal.SIG_IGN if stop.signalled else handler)


def _leave_now(*_: object) -> None:
    """End a process whose main thread waits for one that cannot be stopped; its data are on the disk."""
    cursor = b"\033[?25h" if os.isatty(_STDERR) else b""
    os.write(_STDERR, cursor + b"left in the middle of a step; 'quantgraph resume RUN' goes on with it\n")
    os._exit(CANCELLED)
