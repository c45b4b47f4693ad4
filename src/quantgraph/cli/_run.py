"""``quantgraph run``, ``resume`` and ``replay``: options, progress, questions, stop signals, the end."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph._util.texts import language_of, say
from quantgraph.cli._console import (
    CANCELLED,
    FAILED,
    WRONG_USAGE,
    AsJson,
    Debug,
    echo,
    echo_json,
    print_error,
    print_status,
    usage_errors,
)
from quantgraph.cli._help import INSTALLED
from quantgraph.cli._ledger import LedgerPlace, RunsFolder, can_go_on, recorded_folder, reporting_damage
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
    from quantgraph.runs import ReplayResult
    from quantgraph.runtime import Resources
    from quantgraph.settings import Settings


_PLAIN_NAME = re.compile(r"[\w.-]+")  # "600519.SH"
"""A name that a shell takes as it is."""


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
        rich_help_panel="Account",
        metavar="NAME|FILE.py:CLASS",
        help=f"Who decides: signal_rule (the default), buy_and_hold, {INSTALLED}, or a class of a file. A "
        "file or a package must be as trusted as a program that you start.",
    ),
]
DeciderOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        rich_help_panel="Account",
        metavar="NAME=VALUE",
        help="An option of --decider, as JSON or text: rounds=5, cfg.features.news=false. May be repeated.",
    ),
]
ShowCode = Annotated[
    bool, typer.Option("--code", help="Show the signal's code too.", rich_help_panel="Output")
]

_USAGE_ERRORS = (BadFile, BadOption, BadWindow, RunMismatch, UnknownQuestion)
"""Errors of the call itself, if no run has begun."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_GRACE = 1.0
"""Seconds in which an interrupted step may end by itself."""

Answer = Callable[[Mapping[str, Any]], str | None]


def settings_with(budget: str | None, session_budget: str | None) -> Settings:
    """The settings, with the limits of the command."""
    from quantgraph.settings import load_settings

    budgets = {"budget": budget, "session_budget": session_budget}
    return load_settings(**{name: text for name, text in budgets.items() if text})


def decider_of(place: str | None, options: Sequence[str] | None = None) -> Decider | None:
    """Make the decider of ``--decider`` and ``--option``; None for the default."""
    if place is None:
        if options:
            raise BadOption("--option without --decider, whose option it is", parameter="option")
        return None
    from quantgraph.agents import make_decider

    return make_decider(f"{place}?{json.dumps(_option_values(options))}" if options else place)


def _option_values(texts: Sequence[str]) -> dict[str, Any]:
    """Values by name; a dot leads into an object, and a value that is not JSON is a text."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        *parents, last = name.split(".")
        inside: Any = found
        for parent in parents:
            inside = inside.setdefault(parent, {}) if isinstance(inside, dict) else None
        if not equals or not all((*parents, last)) or not isinstance(inside, dict) or last in inside:
            raise BadOption(f"--option {text!r:.80}; must be NAME=VALUE, each name once", parameter="option")
        try:
            inside[last] = json.loads(value)
        except ValueError:
            inside[last] = value
    return found


@dataclass(kw_only=True)
class ShownRun:
    """A run that a command executes: the resources that ask, watch and stop it, and its result."""

    live: Resources
    result: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def showing_run(
    question: str,
    *,
    as_json: bool,
    headless: bool,
    debug: bool,
    again: str = "",
    quiet: bool = False,
    code: bool = False,
) -> Iterator[ShownRun]:
    """Show the result of the run that the block executes, and end with its exit status.

    Nothing is asked if it is ``headless``, and stdout is left to the caller if it is ``quiet``.
    """
    from quantgraph.cli._display import ask_on_terminal, open_display, show_result
    from quantgraph.runtime import Resources

    try:
        with open_display(question) as display, stop_signals() as stop:
            ask = None if headless else stop.asking(ask_on_terminal(display))
            shown = ShownRun(live=Resources(answer=ask, watch=display.watch, control=stop.control))
            yield shown
    except QuantGraphError as error:
        raise typer.Exit(_print_failure(error, question, as_json=as_json, debug=debug, again=again)) from None
    result = shown.result
    if as_json:
        echo_json(result)
    elif not quiet:
        show_result(result, with_code=code)
    _write_page(Path(result["run_dir"]), question)
    if result["ended_because"] != "done":
        print_end(result, again)
        raise typer.Exit(CANCELLED if result["ended_because"] == "cancelled" else FAILED)


def _print_failure(error: QuantGraphError, question: str, *, as_json: bool, debug: bool, again: str) -> int:
    """Show the error that ended a run or kept it from its begin; return the exit status."""
    run_dir = error.data.get("run_dir")  # None if no run has begun
    if run_dir is None and isinstance(error, _USAGE_ERRORS):
        print_error(error, debug=debug)
        return WRONG_USAGE
    if as_json:
        place = {"run_id": error.data.get("run_id"), "run_dir": run_dir}
        state = {"state": "failed", "ended_because": None, "question": question, "error": error.line}
        echo_json(place | state)
    print_error(error, debug=debug)
    if run_dir:
        print_status(again or f"quantgraph resume {run_dir}")
        if not isinstance(error, StorageUnavailable):  # a page could not be written either
            _write_page(Path(run_dir), question)
    return FAILED


def print_end(result: Mapping[str, Any], again: str = "") -> None:
    """Print why a run that ended is not done, and what to do next."""
    from quantgraph.runs import next_command
    from quantgraph.runtime.endings import closing_text

    because = result["ended_because"]
    print_status(f"{result['error']}  [{because}, {result['run_dir']}]")
    shown = bool(result.get("asked"))  # at the prompt
    options = () if shown else (result.get("open_question") or {}).get("options") or ()
    command = next_command(result, again or f"quantgraph resume {result['run_dir']}")
    closing = closing_text(because, "", language_of(result["question"]))
    for line in (closing, *(f"  {number}. {text}" for number, text in enumerate(options, 1)), command):
        if line:
            print_status(line)


def _write_page(folder: Path, question: str) -> None:
    """Write the page of a run and say where it is; a failure is printed, and the run's result stands."""
    from quantgraph.runs import write_page

    language = language_of(question)
    try:
        print_status(f"{say(language, zh='页面', en='page')}: {write_page([folder])}")
    except Exception as error:  # noqa: BLE001 - whatever fails there, the run has ended as it did
        line = error.line if isinstance(error, QuantGraphError) else f"{type(error).__name__}: {error}"
        print_status(f"{say(language, zh='页面没有写成', en='the page was not written')}: {line}")


class _StopHandler:
    """The first Ctrl-C or SIGTERM stops a run at its next step, the second at once; more do nothing.

    ``on_second`` runs before the second interrupts a step.
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
def stop_signals() -> Iterator[_StopHandler]:
    from langgraph.runtime import RunControl

    from quantgraph.llm import AT_ONCE

    control = RunControl()

    def stop_at_once() -> None:
        control.request_drain(AT_ONCE)
        leave_soon()

    stop = _StopHandler(control, stop_at_once)
    before = {number: signal.signal(number, stop.handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        if control.drain_reason == AT_ONCE and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():  # after a signal the process only cleans up
            signal.signal(number, signal.SIG_IGN if stop.signalled else handler)


def leave_soon() -> None:
    """End the process after a moment of grace, whatever its threads still do."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _leave_now)
        signal.setitimer(signal.ITIMER_REAL, _GRACE)


def _leave_now(*_: object) -> None:
    """End a process whose main thread waits for one that cannot be stopped; its data are on the disk."""
    cursor = b"\033[?25h" if os.isatty(_STDERR) else b""
    os.write(_STDERR, cursor + b"left in the middle of a step; 'quantgraph resume RUN' goes on with it\n")
    os._exit(CANCELLED)


def resume(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The answer to the question that the run waits for.")
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The id of the question that --answer is for; no other takes it."),
    ] = None,
    end: Annotated[
        str, typer.Option(metavar="DATE", help="Go on to a later day, also if the run is done: YYYYMMDD.")
    ] = "",
    strategy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --end, the code of a run of code of your own.")
    ] = None,
    out: RunsFolder = None,
    decider: DeciderPlace = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name, where it was set with --model.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Other limits than before, like calls=100,money=2.5.")
    ] = None,
    session_budget: Annotated[str | None, typer.Option(help="The same for each session.")] = None,
    as_json: AsJson = False,
    headless: Annotated[bool, typer.Option(help="Ask nothing: a question ends it again.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="The folder is yours, though it was moved or is another user's.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Continue a run that was stopped, was killed, waits for an answer, or ran out of something.

    What was answered before is not asked again, no model call that had returned is made again, and no
    session is traded twice.
    """
    with usage_errors(debug=debug):
        if question is not None and answer is None:
            raise BadOption("--question needs --answer TEXT", parameter="question")
        settings = settings_with(budget, session_budget)
        folder = recorded_folder(run, out or settings.runs_dir, (lambda _file: True) if end else can_go_on)
        from quantgraph.runs import read_result, resume_run
        from quantgraph.runs.folder import read_manifest

        manifest, before = read_manifest(folder), read_result(folder) or {}
        made = decider_of(decider)
    if before.get("ended_because") == "done" and not end:
        print_status(f"run {manifest.run_id} is done{' and takes no answer' if answer is not None else ''}")
        answer = None

    reply = answer if answer is None or question is None else {"answer": answer, "id": question}
    asked = manifest.spec.question
    with showing_run(asked, as_json=as_json, headless=headless, debug=debug) as shown:
        live = replace(shown.live, settings=settings)
        shown.result = resume_run(
            folder,
            answer=reply,
            end=end,
            strategy=strategy,
            decider=made,
            model=model,
            trust=trust,
            resources=live,
        )
        if manifest.other_versions:
            print_status(manifest.other_versions)


def replay(  # noqa: PLR0917 - typer reads options from the parameters
    run: RecordedRun = None,
    out: RunsFolder = None,
    decider: DeciderPlace = None,
    ledger: LedgerPlace = None,
    keep: Annotated[Path | None, typer.Option(help="Keep what is made anew here.")] = None,
    example: Annotated[
        bool, typer.Option("--example", help="The run that is shipped; with --out it is unpacked there.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a run again from its record, without model, source or network, and compare what comes out.

    Exit status 0: ledger, signal, strategy and result are the same. 1: they are not, and the first difference
    is shown. 2: there is no such run.
    """
    from quantgraph.settings import load_settings

    with ExitStack() as stack, usage_errors(debug=debug):
        runs_dir = out or load_settings().runs_dir
        if example and run is not None:
            raise BadOption("--example with a run: one of them is replayed", parameter="example")
        folder = stack.enter_context(_example(out)) if example else recorded_folder(run, runs_dir)
        from quantgraph.recording import no_network
        from quantgraph.runs import replay as replay_run
        from quantgraph.runtime import Resources

        made = decider_of(decider)
        with no_network(everywhere=True), reporting_damage(folder):
            replayed = replay_run(folder, decider=made, out=keep, resources=Resources(ledger=ledger))
    if as_json:
        echo_json(_as_json(replayed))
    else:
        _show(replayed, tells_code=not (example and replayed.identical))
    if not replayed.identical:
        raise typer.Exit(FAILED)


@contextmanager
def _example(place: Path | None) -> Iterator[Path]:
    """The shipped run: below a folder, where it stays, or in one that is removed."""
    from quantgraph.runs.folder import example_run_name, unpack_example_run

    with tempfile.TemporaryDirectory(prefix="quantgraph-example-") as scratch:
        folder = (place or Path(scratch)) / example_run_name()
        yield folder if folder.is_dir() else unpack_example_run(folder.parent)


def _as_json(replayed: ReplayResult) -> dict[str, object]:
    divergence = replayed.divergence
    return {
        "run_id": replayed.run_id,
        "identical": replayed.identical,
        "differences": [vars(difference) for difference in replayed.differences],
        "diff": divergence.data.get("diff", "") if divergence else "",
        "changed_code": list(replayed.changed_code),
        "other_versions": replayed.other_versions,
        "folder": replayed.folder and str(replayed.folder),
        "result": dict(replayed.result),
    }


def _show(replayed: ReplayResult, *, tells_code: bool) -> None:
    if replayed.identical:
        echo(f"{replayed.run_id}: identical (ledger, execution log, signal, strategy, result)")
    for difference in replayed.differences:
        echo(f"{replayed.run_id}: {difference.line}")
    if replayed.divergence:
        echo(replayed.divergence.data.get("diff", ""))
    if not tells_code:
        return
    if replayed.changed_code:
        names = ", ".join(replayed.changed_code[:5]) + (" ..." if len(replayed.changed_code) > 5 else "")
        print_status(f"made with another quantgraph: {names}")
    if replayed.other_versions and not replayed.divergence:  # whose message includes it
        print_status(replayed.other_versions)
