"""Research over MCP: an assistant reads, audits, runs, compares and explains strategies by its tools."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

from quantgraph._util.files import check_sentence, write_atomic
from quantgraph._util.texts import language_of, without_places
from quantgraph.errors import BadOption, DataTooLarge, QuantGraphError, StorageUnavailable, UnknownQuestion
from quantgraph.integrations.mcp._research_answers import (
    audit_answer,
    comparison_answer,
    error_answer,
    result_answer,
    run_answer,
    safe_answer,
    trades_answer,
)
from quantgraph.integrations.mcp._research_runs import BEGINS, ResearchRuns, code_file, spec_of
from quantgraph.integrations.mcp._research_tools import SKILL, TOOLS, checked_args, research_tool
from quantgraph.runs import PAGE_FILE, RunResult, compare
from quantgraph.runs.verification import audit_sentence, audit_strategy
from quantgraph.tools.mcp import Progress, ServedText, ServedTool

SCRIPT_FILE: Final = "research.py"
_PAGES = "quantgraph://runs/{run}/report.html"
_MOST_PAGE, _MOST_SCRIPT, _MOST_LISTED, _MOST_ERROR = 20_000_000, 100_000, 50, 200
_WAIT = 25.0
"""Seconds that a call waits for a run; then the client asks for its status."""


class Research:
    """Carries the calls of research clients out; threads may call at the same time.

    Parameters
    ----------
    runs
        The runs, their log and their limits.
    source
        Name of the source, as the script has it.
    shows_places
        Whether answers may name paths of this machine: only to a client that was started on it.
    """

    def __init__(
        self, runs: ResearchRuns, *, source: str, shows_places: bool = False, wait: float = _WAIT
    ) -> None:
        self._runs, self._source, self._shows_places, self._wait = runs, source, shows_places, wait
        self._lock = threading.Lock()  # a call is checked, written down and set going as one

    @property
    def tools(self) -> Mapping[str, ServedTool]:
        """The tools by name."""
        return {name: research_tool(name) for name in TOOLS}

    @property
    def texts(self) -> Sequence[ServedText]:
        """The skill, and the pages of runs."""
        skill = ServedText(
            address=SKILL,
            name="strategy",
            description=(
                "How to turn a person's sentence into a strategy that is proved and held against the words."
            ),
            read=lambda language="en", **_: _skill(language),
            arguments={"sentence": "the strategy in the person's own words"},
        )
        page = ServedText(
            address=_PAGES, name="page", description="The page of a run.", kind="text/html", read=self._page
        )
        return skill, page

    def call(self, name: str, args: Mapping[str, Any], progress: Progress) -> Any:
        """Carry a call out, and return its answer or refusal."""
        call = None
        try:
            given = checked_args(name, args)
            with self._lock:
                run = self._checked_run(name, given)
                call = self._runs.log.begin(name, _written(name, given), run)
                if run is not None and name in BEGINS:
                    self._set_going(name, given, run)
            answer = getattr(self, f"_{name}")(given, run, self._told(progress))
        except QuantGraphError as error:
            answer = error_answer(error)
        except Exception as error:  # noqa: BLE001 - one call fails, and the server goes on
            answer = error_answer(QuantGraphError(f"{type(error).__name__} in {name}"))
        if call is not None:
            kept = {
                key: answer[key]
                for key in ("state", "error", "code", "causal", "text", "page")
                if key in answer
            }
            with suppress(StorageUnavailable):  # it was carried out, and the client is told
                self._runs.log.end(call, kept)
        return safe_answer(answer, places=self._shows_places)

    def _checked_run(self, name: str, given: Any) -> str | None:
        """The run that a call is about; a new name for one that begins it."""
        run: str | None = getattr(given, "run", "") or None
        if run is not None:
            self._runs.begun_with(run)
            if name in BEGINS:
                self._check_go_on(given, run, trades=name == "run")
            return run
        if name == "audit":
            self._runs.check_disk()
        if name not in BEGINS:
            return None
        if given.question or given.answer or getattr(given, "stop", False):
            raise BadOption("question, answer and stop need run, the run that they are for", parameter="run")
        if not (given.sentence.strip() or getattr(given, "code", "").strip()):
            raise BadOption(f"{name} needs a sentence, or run to go on with one", parameter="sentence")
        check_sentence(given.sentence, "sentence")
        spec_of(given.model_dump())
        run, is_new = self._runs.new_run(given.request_id, name, _written(name, given))
        if is_new:
            self._runs.check_room()
        return run

    def _told(self, progress: Progress) -> Progress:
        if self._shows_places:
            return progress
        return lambda done, total, line: progress(done, total, without_places(line))

    def _set_going(self, name: str, given: Any, run: str) -> None:
        """Begin a run, go on with it, or stop it."""
        if getattr(given, "stop", False):
            self._runs.stop(run)
        elif given.run:
            self._go_on(given, run)
        elif not self._runs.has_begun(run):
            self._runs.begin(run, _written(name, given))

    def _understand(self, _given: Any, run: str, progress: Progress) -> Mapping[str, Any]:
        return self._moved(run, progress, tool="understand")

    def _run(self, _given: Any, run: str, progress: Progress) -> Mapping[str, Any]:
        return self._moved(run, progress, tool="run")

    def _moved(self, run: str, progress: Progress, *, tool: str) -> Mapping[str, Any]:
        """Wait for a run for a while, and say how it stands."""
        self._runs.wait(run, self._wait, progress)
        return run_answer(run, self._runs.standing(run), tool=tool)

    def _check_go_on(self, given: Any, run: str, *, trades: bool) -> None:
        """Check the call that goes on with a run; one that trades what was understood says yes to it."""
        kept = ("sentence", "code", "symbols", "start", "end", "plan", "request_id")
        for name in (name for name in kept if getattr(given, name, "")):
            raise BadOption(
                f"run keeps what it was begun with, so leave {name} out; begin another run without run=",
                parameter=name,
            )
        if bool(given.question) != bool(given.answer.strip()):
            raise BadOption("question (its id) and answer belong together", parameter="answer")
        standing = self._runs.standing(run)
        waits = standing.result is not None and standing.state in {"asks", "understood"}
        asked = standing.result["asked"] if standing.result and waits else None
        if given.question and (asked is None or asked["id"] != given.question):
            raise UnknownQuestion(
                f"run {run} waits for no answer to question {given.question!r}; status shows its open "
                "question",
                question=asked and asked["id"],
            )
        if asked is not None and trades and standing.state == "understood" and not given.question:
            given.question, given.answer = asked["id"], "yes"

    def _go_on(self, given: Any, run: str) -> None:
        if given.question:
            self._runs.go_on(run, {"answer": given.answer, "id": given.question})
        elif self._runs.standing(run).state in {"stopped", "refused", "ended"}:
            self._runs.go_on(run)

    def _audit(self, given: Any, _run: None, _progress: Progress) -> Mapping[str, Any]:
        options = {"symbols": given.symbols, "start": given.start or None, "end": given.end or None}
        live = self._runs.resources
        with self._runs.audit(), code_file(given.code) as path:
            if given.said:
                options = self._runs.window_of(given.said, options)
            verdict = audit_strategy(path, resources=live, **options)
            held = None
            if given.said and verdict.causal:
                held = audit_sentence(path, given.said, resources=live, **options)
        return audit_answer(verdict, held, given.said, language_of(given.said))

    def _status(self, _given: Any, run: str | None, _progress: Progress) -> Mapping[str, Any]:
        if run is not None:
            return run_answer(run, self._runs.standing(run), tool="run")
        names = self._runs.names()
        rows = [{"run": name, **self._row(name)} for name in names[:_MOST_LISTED]]
        return {
            "runs": rows,
            "total": len(names),
            "next": "status, result, trades and report take one of them.",
        }

    def _row(self, run: str) -> dict[str, Any]:
        sentence = self._runs.begun_with(run)["args"]["sentence"][:200]
        try:
            return {"state": self._runs.standing(run).state, "sentence": sentence}
        except QuantGraphError as error:  # its folder was damaged, and the others are listed
            return {"state": "stopped", "sentence": sentence, "error": error.message[:_MOST_ERROR]}

    def _result(self, _given: Any, run: str, _progress: Progress) -> Mapping[str, Any]:
        standing = self._runs.standing(run)
        if standing.state in {"done", "ended"}:
            return result_answer(run, standing)
        return run_answer(run, standing, tool="run")

    def _trades(self, given: Any, run: str, _progress: Progress) -> Mapping[str, Any]:
        return trades_answer(run, self._done(run), given.offset, given.limit)

    def _compare(self, given: Any, _run: None, _progress: Progress) -> Mapping[str, Any]:
        return comparison_answer(given.runs, compare(*(self._done(run) for run in given.runs)))

    def _report(self, given: Any, run: str | None, _progress: Progress) -> Mapping[str, Any]:
        if given.script == (run is not None):
            raise BadOption("report takes either run or script=true", parameter="run")
        if run is None:
            return self._script()
        path = self._done(run, also=("ended",)).report()
        return {
            "run": run,
            "page": str(path.absolute()) if self._shows_places else f"{run}/{PAGE_FILE}",
            "resource": _PAGES.format(run=run),
            "next": "Tell the person where the page is, and its first lines: text and notes of run.",
        }

    def _script(self) -> Mapping[str, Any]:
        script, path = self._runs.script(self._source), self._runs.folder / SCRIPT_FILE
        write_atomic(path, script.encode())
        shown = {"script": script} if len(script) <= _MOST_SCRIPT else {}
        return {
            "page": str(path.absolute()) if self._shows_places else SCRIPT_FILE,
            **shown,
            "next": "python research.py runs all of it again, and says whether each ledger is the same.",
        }

    def _done(self, run: str, *, also: tuple[str, ...] = ()) -> RunResult:
        self._runs.begun_with(run)
        standing = self._runs.standing(run)
        if standing.state not in ("done", *also) or standing.result is None:
            raise BadOption(
                f"run {run} is {standing.state}, not done; status says what it needs", parameter="run"
            )
        return standing.result

    def _page(self, run: str = "", **_: str) -> str:
        """The page of a run, whole in one file."""
        path = self._done(run, also=("ended",)).report(to=self._runs.folder / run / "whole.html", inline=True)
        if path.stat().st_size > _MOST_PAGE:
            raise DataTooLarge(
                f"the page of run {run} has more than {_MOST_PAGE // 1_000_000} MB; report writes it"
            )
        return path.read_text(encoding="utf-8")


def _written(name: str, given: Any) -> dict[str, Any]:
    """The arguments of a call as the log has them."""
    return {**given.model_dump(), "confirm": name == "understand"}


def _skill(language: str) -> str:
    """The text that teaches a client, without what a skill's file begins with."""
    name = "skill_zh.md" if language == "zh" else "SKILL.md"
    text = files("quantgraph.integrations.mcp").joinpath(name).read_text(encoding="utf-8")
    return text.split("\n---\n", 1)[-1].lstrip()
