"""AI-Trader's files of a run, below its signature's folder: rendered from the ledger, whole and at once.

The ledger is the truth and the files are its rendering: what a killed process left out, the next one writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quantgraph._util.files import storage_errors, write_atomic
from quantgraph._util.texts import Note
from quantgraph.agents.trader import first_message, results_text
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.logged_step import LoggedExecution
from quantgraph.broker.open_session import SessionResult
from quantgraph.errors import BadFile
from quantgraph.interop.ai_trader import (
    LogForm,
    PositionRecord,
    SessionMessage,
    opening_record,
    record_line,
    records_of_session,
    session_log,
)

_FORMS: tuple[LogForm, ...] = ("messages", "ai-trader")


class TraderFiles:
    """Writes ``position/position.jsonl`` and ``log/{date}/log.jsonl`` of a run.

    A file that is there must be an earlier rendering of the same run, in either form: anything else is left
    alone, and is an error.

    Parameters
    ----------
    folder
        ``{log_path}/{signature}``; the signature is the folder's name.
    init_date
        Day of the registration, ``YYYY-MM-DD``.
    symbols
        The universe.
    log_form, with_price
        See :func:`~quantgraph.interop.ai_trader.session_log` and
        :func:`~quantgraph.interop.ai_trader.records_of`.
    say
        Called with what was repaired.
    """

    def __init__(
        self,
        folder: Path,
        *,
        init_date: str,
        symbols: tuple[str, ...],
        log_form: LogForm = "messages",
        with_price: bool = False,
        say: Callable[[Note], None] = lambda _note: None,
    ) -> None:
        self.folder = folder
        self.position_file = folder / "position" / "position.jsonl"
        self._init_date, self._symbols = init_date, symbols
        self._log_form, self._with_price, self._say = log_form, with_price, say
        self._last: PositionRecord | None = None
        self._lines: list[str] = []
        self._sessions = 0

    def log_file(self, date: str) -> Path:
        """Return the log of a session."""
        return self.folder / "log" / date / "log.jsonl"

    def check_unused(self) -> None:
        """See that no file of another program is there, before a run begins.

        Raises
        ------
        BadFile
            If there is a ``position.jsonl`` or a ``log.jsonl``.
        """
        logs = sorted((self.folder / "log").glob("*/log.jsonl"))
        for path in (self.position_file, *logs):
            if path.exists():
                raise _foreign(path, "no run of this folder wrote it")

    def render(self, book: Ledger, run_id: str) -> None:
        """Write what the ledger has of the run and the files do not.

        Raises
        ------
        BadFile
            If a file is there that is not of this run.
        StorageUnavailable
            If a file cannot be written.
        """
        results = book.history(run_id) if book.has_run(run_id) else ()
        if self._last is None:
            self._last = opening_record(self._init_date, float(book.cash(run_id)), self._symbols)
            self._lines = [record_line(self._last)]
        elif len(results) == self._sessions:
            return
        for result in results[self._sessions :]:
            for record in records_of_session(self._last, result, with_price=self._with_price):
                self._lines.append(record_line(record))
                self._last = record
            self._write_log(book, run_id, result)
        self._sessions = len(results)
        content = "".join(f"{line}\n" for line in self._lines).encode("ascii")
        self._put(self.position_file, content, lambda: self._with_other_prices(book, run_id, results))

    def _with_other_prices(
        self, book: Ledger, run_id: str, results: tuple[SessionResult, ...] | Any
    ) -> Iterator[bytes]:
        last = opening_record(self._init_date, float(book.cash(run_id)), self._symbols)
        lines = [record_line(last)]
        for result in results:
            for record in records_of_session(last, result, with_price=not self._with_price):
                lines.append(record_line(record))
                last = record
        yield "".join(f"{line}\n" for line in lines).encode("ascii")

    def _write_log(self, book: Ledger, run_id: str, result: SessionResult) -> None:
        date = f"{result.session:%Y-%m-%d}"
        done = [each for each in book.executions(run_id, session=result.session) if each.symbol == "*"]
        messages = session_messages(date, done[0] if done else None, result.notes.get("trader", {}))
        name = self.folder.name
        content = session_log(messages, self._log_form, signature=name)
        others = [form for form in _FORMS if form != self._log_form]
        self._put(
            self.log_file(date),
            content,
            lambda: (session_log(messages, form, signature=name) for form in others),
        )

    def _put(self, path: Path, content: bytes, other_forms: Callable[[], Iterator[bytes]]) -> None:
        """Write a file, unless it has the content; refuse to replace one that is not ours."""
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            there = path.read_bytes() if path.exists() else b""
        if there == content and path.exists():
            return
        if not content.startswith(there) and not any(each.startswith(there) for each in other_forms()):
            raise _foreign(path, "its lines are not those of this run's ledger")
        if there and not there.endswith(b"\n"):
            self._say(
                Note(
                    zh=f"{path} 的最后一行不完整，已按账本重写",
                    en=f"the last line of {path} was torn; it is written again from the ledger",
                )
            )
        write_atomic(path, content)


def session_messages(
    date: str, execution: LoggedExecution | None, notes: Mapping[str, Any]
) -> list[SessionMessage]:
    """Return the messages of a session: the first, each step with its results, and the final answer."""
    messages = [SessionMessage(role="user", content=first_message(date))]
    for step in execution.steps if execution else ():
        answers = step.result
        ends = answers is None or step is execution.steps[-1]  # type: ignore[union-attr]  # it has steps
        messages.append(
            SessionMessage(
                role="assistant",
                content=str(step.action.get("content", "")),
                of_step=answers is not None,
                unresolved=tuple(notes.get("unresolved_numbers", ())) if ends else (),
            )
        )
        if answers is not None:
            told = results_text(each["result"] for each in answers)
            messages.append(SessionMessage(role="user", content=told, of_step=True))
    return messages


def _foreign(path: Path, reason: str) -> BadFile:
    return BadFile(
        f"{path} is there and is left as it is: {reason}; move it away, or choose another signature or "
        "log_path",
        file=str(path),
    )
