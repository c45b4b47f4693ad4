"""Research over MCP: an assistant reads, audits, runs, compares and explains strategies by its tools."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quantgraph._util.files import check_sentence, write_atomic
from quantgraph._util.texts import without_places
from quantgraph.data import open_source
from quantgraph.errors import BadOption, DataTooLarge, QuantGraphError, StorageUnavailable, UnknownQuestion
from quantgraph.integrations.mcp._client_decider import McpAccess
from quantgraph.integrations.mcp._research_answers import (
    audit_answer,
    comparison_answer,
    error_answer,
    result_answer,
    run_answer,
    safe_answer,
    trades_answer,
)
from quantgraph.integrations.mcp._research_log import BEGINS
from quantgraph.integrations.mcp._research_runs import ResearchRuns, code_file, spec_of
from quantgraph.integrations.mcp._research_tools import (
    INSTRUCTIONS,
    SKILL,
    TOOLS,
    checked_args,
    research_tool,
)
from quantgraph.integrations.mcp._server import bound_socket, serving_http, with_token
from quantgraph.runs import PAGE_FILE, RunResult, compare
from quantgraph.runs.verification import audit_sentence, audit_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
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
    shows_places
        Whether answers may name paths of this machine: only to a client that was started on it.
    wait
        Seconds that a call waits for a run.
    """

    def __init__(self, runs: ResearchRuns, *, shows_places: bool = False, wait: float = _WAIT) -> None:
        self._runs, self._shows_places, self._wait = runs, shows_places, wait
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
            address=_PAGES,
            name="page",
            description="The page of a run, whole, of some 5 MB: for a browser, not to be read.",
            kind="text/html",
            read=self._page,
        )
        return skill, page

    def call(self, name: str, sent: Mapping[str, Any], progress: Progress) -> Any:
        """Carry a call out, and return its answer or refusal."""
        call = None
        try:
            args = checked_args(name, sent)
            with self._lock:
                run = self._checked_run(name, args)
                call = self._runs.log.begin(name, _written(name, args), run)
                if run is not None and name in BEGINS:
                    self._set_going(name, args, run)
            answer = getattr(self, f"_{name}")(args, run, self._safe(progress))
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
            with suppress(StorageUnavailable):  # it was carried out, and the client has its answer
                self._runs.log.end(call, kept)
        return safe_answer(answer, places=self._shows_places)

    def _checked_run(self, name: str, args: Any) -> str | None:
        """The run that a call is about; a new name for one that begins it."""
        run: str | None = getattr(args, "run", "") or None
        if run is not None:
            self._runs.begun_with(run)
            if name in BEGINS:
                self._check_go_on(args, run, trades=name == "run")
            return run
        if name == "audit":
            self._runs.check_disk()
        if name not in BEGINS:
            return None
        if args.question or args.answer or getattr(args, "stop", False):
            raise BadOption("question, answer and stop need run, the run that they are for", parameter="run")
        if not (args.sentence.strip() or getattr(args, "code", "").strip()):
            raise BadOption(f"{name} needs a sentence, or run to go on with one", parameter="sentence")
        check_sentence(args.sentence, "sentence")
        spec_of(args.model_dump())
        run, is_new = self._runs.new_run(args.request_id, name, _written(name, args))
        if is_new:
            self._runs.check_room()
        return run

    def _safe(self, progress: Progress) -> Progress:
        if self._shows_places:
            return progress
        return lambda done, total, line: progress(done, total, without_places(line))

    def _set_going(self, name: str, args: Any, run: str) -> None:
        """Begin a run, go on with it, or stop it."""
        if getattr(args, "stop", False):
            self._runs.stop(run)
        elif args.run:
            self._go_on(name, args, run)
        elif not self._runs.has_begun(run):
            self._runs.begin(run, _written(name, args))

    def _understand(self, _args: Any, run: str, progress: Progress) -> Mapping[str, Any]:
        return self._moved(run, progress, tool="understand")

    def _run(self, _args: Any, run: str, progress: Progress) -> Mapping[str, Any]:
        return self._moved(run, progress, tool="run")

    def _moved(self, run: str, progress: Progress, *, tool: str) -> Mapping[str, Any]:
        """Wait for a run for a while, and say how it stands."""
        self._runs.wait(run, self._wait, progress)
        return run_answer(run, self._runs.status_of(run), tool=tool)

    def _check_go_on(self, args: Any, run: str, *, trades: bool) -> None:
        """Check the call that goes on with a run; one that trades what was understood says yes to it."""
        kept = ("sentence", "code", "symbols", "start", "end", "plan", "request_id")
        for name in (name for name in kept if getattr(args, name, "")):
            raise BadOption(
                f"run keeps what it was begun with, so leave {name} out; begin another run without run=",
                parameter=name,
            )
        if getattr(args, "stop", False) and (args.question or args.answer):
            raise BadOption("stop and answer exclude each other; send one", parameter="stop")
        if bool(args.question) != bool(args.answer.strip()):
            raise BadOption("question (its id) and answer belong together", parameter="answer")
        status = self._runs.status_of(run)
        waits = status.result is not None and status.state in {"asks", "understood"}
        asked = status.result["asked"] if status.result and waits else None
        if args.question and (asked is None or asked["id"] != args.question):
            raise UnknownQuestion(
                f"run {run} waits for no answer to question {args.question!r}; status shows its open "
                "question",
                question=asked and asked["id"],
            )
        stops = getattr(args, "stop", False)
        if asked is not None and trades and status.state == "understood" and not (args.question or stops):
            args.question, args.answer = asked["id"], "yes"

    def _go_on(self, name: str, args: Any, run: str) -> None:
        if args.question:
            self._runs.go_on(run, {"answer": args.answer, "id": args.question})
            return
        left = self._runs.status_of(run).state in {"stopped", "refused", "ended"}
        if left and (name == "run" or not self._runs.has_traded(run)):
            self._runs.go_on(run)

    def _audit(self, args: Any, _run: None, _progress: Progress) -> Mapping[str, Any]:
        options = {"symbols": args.symbols, "start": args.start or None, "end": args.end or None}
        live = self._runs.resources
        with self._runs.audit(), code_file(args.code) as path:
            if args.sentence:
                options = self._runs.window_of(args.sentence, options)
            verdict = audit_strategy(path, resources=live, **options)
            held = None
            if args.sentence and verdict.causal:
                held = audit_sentence(path, args.sentence, resources=live, **options)
        return audit_answer(verdict, held, args.sentence)

    def _status(self, _args: Any, run: str | None, _progress: Progress) -> Mapping[str, Any]:
        if run is not None:
            return run_answer(run, self._runs.status_of(run), tool="run")
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
            return {"state": self._runs.status_of(run).state, "sentence": sentence}
        except QuantGraphError as error:  # its folder was damaged, and the others are listed
            return {"state": "stopped", "sentence": sentence, "error": error.message[:_MOST_ERROR]}

    def _result(self, _args: Any, run: str, _progress: Progress) -> Mapping[str, Any]:
        status = self._runs.status_of(run)
        if status.state in {"done", "ended"}:
            return result_answer(run, status)
        return run_answer(run, status, tool="run")

    def _trades(self, args: Any, run: str, _progress: Progress) -> Mapping[str, Any]:
        return trades_answer(run, self._done(run), args.offset, args.limit)

    def _compare(self, args: Any, _run: None, _progress: Progress) -> Mapping[str, Any]:
        return comparison_answer(args.runs, compare(*(self._done(run) for run in args.runs)))

    def _report(self, args: Any, run: str | None, _progress: Progress) -> Mapping[str, Any]:
        if args.script == (run is not None):
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
        script, path = self._runs.script(places=self._shows_places), self._runs.folder / SCRIPT_FILE
        write_atomic(path, script.encode())
        shown = {"script": script} if len(script) <= _MOST_SCRIPT else {}
        return {
            "page": str(path.absolute()) if self._shows_places else SCRIPT_FILE,
            **shown,
            "next": "python research.py runs all of it again, and says whether each ledger is the same.",
        }

    def _done(self, run: str, *, also: tuple[str, ...] = ()) -> RunResult:
        self._runs.begun_with(run)
        status = self._runs.status_of(run)
        if status.state not in ("done", *also) or status.result is None:
            raise BadOption(
                f"run {run} is {status.state}, not done; status says what it needs", parameter="run"
            )
        return status.result

    def _page(self, run: str = "", **_: str) -> str:
        """The page of a run, whole in one file."""
        result = self._done(run, also=("ended",))
        with TemporaryDirectory() as folder:
            path = result.report(to=Path(folder, PAGE_FILE), inline=True)
            if path.stat().st_size > _MOST_PAGE:
                raise DataTooLarge(
                    f"the page of run {run} has more than {_MOST_PAGE // 1_000_000} MB; report writes it"
                )
            return path.read_text(encoding="utf-8")


def _written(name: str, args: Any) -> dict[str, Any]:
    """The arguments of a call as the log has them."""
    return {**args.model_dump(), "confirm": name == "understand"}


def _skill(language: str) -> str:
    """The text that teaches a client, without what a skill's file begins with."""
    name = "skill_zh.md" if language == "zh" else "SKILL.md"
    text = files("quantgraph.integrations.mcp").joinpath(name).read_text(encoding="utf-8")
    return text.split("\n---\n", 1)[-1].lstrip()


_MAX_BODY = 1024 * 1024
"""Bytes of a request over HTTP: code of the largest size, written as JSON."""


def serve_research(
    access: McpAccess,
    *,
    source: str | None = None,
    out: Path | None = None,
    most_runs: int = 2,
    disk_mb: int = 2_000,
    tell: Callable[[str], None] = lambda _line: None,
    leave: Callable[[], None] = lambda: None,
) -> None:
    """Serve research to MCP clients until the one over stdio leaves, or the process gets a signal to stop.

    Parameters
    ----------
    source
        What all runs read, see :class:`~quantgraph.runtime.Resources`; clients cannot choose another.
    out
        Parent of the runs' folders. Default: ``runs_dir`` of the settings.
    most_runs
        Runs and audits at once.
    disk_mb
        Megabytes that the folder may have when a run begins.
    tell
        Called with the configuration of a client over HTTP, one line of JSON.
    leave
        Called at the end if code of a run or an audit cannot be stopped: its thread would hold the process.

    Raises
    ------
    BadOption
        If the settings accept less than full isolation of code, or a port is in use.
    NotConfigured
        If the extra ``mcp`` is not installed.
    """
    from quantgraph.tools.mcp import http_app, make_server, serve_stdio

    settings = load_settings(**({"data_source": source} if source else {}))
    if settings.code_isolation != "full":
        raise BadOption(
            f"code_isolation={settings.code_isolation}: code of an MCP client runs with full isolation alone",
            parameter="code_isolation",
        )
    open_source(None, settings=settings)  # one that cannot be opened is refused at once
    folder = Path(out or settings.runs_dir)
    runs = ResearchRuns(folder, Resources(settings=settings), most=most_runs, most_mb=disk_mb)
    research = Research(runs, shows_places=access.stdio is not None)
    server = make_server(research, instructions=INSTRUCTIONS, texts=research.texts)
    try:
        if access.stdio is not None:
            serve_stdio(server, *access.stdio).join()  # which a signal ends, whatever a thread waits for
            return
        with bound_socket(access.port or 0, "port") as listening:
            app = with_token(http_app(server, max_body=_MAX_BODY), access.token, "research")
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            with serving_http([(app, listening)]):
                headers = {"Authorization": f"Bearer {access.token}"}
                tell(
                    json.dumps(
                        {"mcpServers": {"quantgraph": {"type": "http", "url": url, "headers": headers}}}
                    )
                )
                threading.Event().wait()
    finally:
        if not runs.close():
            leave()
