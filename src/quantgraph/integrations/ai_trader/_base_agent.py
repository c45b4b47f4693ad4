"""AI-Trader's files of a run, below its signature's folder: rendered from the ledger, whole and at once.

The ledger is the truth and the files are its rendering: what a killed process left out, the next one writes.

``BaseAgent``: AI-Trader's agent as a face of a run, for hosts that trade session by session.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pandas as pd
from langchain_core.language_models import BaseChatModel
from langgraph.runtime import RunControl

from quantgraph._util.files import MANIFEST_FILE, new_run_id, storage_errors, write_atomic
from quantgraph._util.texts import Language, Note, language_of
from quantgraph.agents.trader import TraderAgent, TraderOptions, answer_text, first_message
from quantgraph.broker import Account, Decider, SessionResult
from quantgraph.broker.ledger import IMPORTED, Ledger, LoggedExecution
from quantgraph.data import SourceLike, open_source
from quantgraph.data.symbols import symbol_list
from quantgraph.errors import (
    BadFile,
    BadOption,
    BadWindow,
    ModelUnavailable,
    NoProgress,
    RunMismatch,
    UnknownSymbol,
)
from quantgraph.integrations.ai_trader._config import TraderMarket, check_signature
from quantgraph.integrations.ai_trader._replay import (
    LogForm,
    SessionMessage,
    records_of_session,
    session_log,
    verify_positions,
)
from quantgraph.integrations.ai_trader._trades import (
    PositionRecord,
    open_with_positions,
    opening_record,
    read_positions,
    record_line,
)
from quantgraph.llm import KEYLESS, Model, get_llm
from quantgraph.market import Rulebook, session_of
from quantgraph.market.money import money, to_decimal
from quantgraph.runs import RunResult, RunSpec, read_result, resume_run, start_run
from quantgraph.runs.folder import existing_ledger, lock_folder, read_manifest
from quantgraph.runtime import Resources, run_database_path
from quantgraph.runtime.dialogue import RunEvent
from quantgraph.settings import ROLES, Settings, load_settings
from quantgraph.tools.news import NewsSource

_FORMS: tuple[LogForm, ...] = ("messages", "ai-trader")


class TraderFiles:
    """Writes ``position/position.jsonl`` and ``log/{date}/log.jsonl`` of a run.

    A file that is there must be an earlier rendering of the same run, in either form: anything else is left
    alone, and is an error.
    """

    def __init__(
        self,
        folder: Path,
        *,
        init_date: str,
        symbols: tuple[str, ...],
        language: Language = "en",
        log_form: LogForm = "messages",
        with_price: bool = False,
        say: Callable[[Note], None] = lambda _note: None,
    ) -> None:
        self.folder = folder
        self.position_file = folder / "position" / "position.jsonl"
        self.imported_file = folder / "position" / "imported.jsonl"
        self._init_date, self._symbols = init_date, symbols
        self._language, self._log_form, self._with_price, self._say = language, log_form, with_price, say
        self._last: PositionRecord | None = None
        self._lines: list[str] = []
        self._sessions = 0

    def log_file(self, date: str) -> Path:
        """Return the log of a session."""
        return self.folder / "log" / date / "log.jsonl"

    def begin(self, *, imports: bool) -> None:
        """Keep the positions of another program, which open the account; else no file may be there."""
        if imports:
            write_atomic(self.imported_file, self.position_file.read_bytes())
            return
        logs = sorted((self.folder / "log").glob("*/log.jsonl"))
        for path in (self.position_file, *logs):
            if path.exists():
                raise _foreign(path, "no run of this folder wrote it")

    def render(self, book: Ledger, run_id: str) -> None:
        """Write what the ledger has of the run and the files do not."""
        results = book.history(run_id) if book.has_run(run_id) else ()
        if self._last is None:
            self._lines, self._last = self._first(float(book.cash(run_id)))
        elif len(results) == self._sessions:
            return
        for result in results[self._sessions :]:
            if result.decider == IMPORTED:
                continue
            for record in records_of_session(self._last, result, with_price=self._with_price):
                self._lines.append(record_line(record))
                self._last = record
            self._write_log(book, run_id, result)
        self._sessions = len(results)
        self._put(self.position_file, _text(self._lines), lambda: self._with_other_prices(book, run_id))

    def _first(self, cash: float) -> tuple[list[str], PositionRecord]:
        """The lines before the first session that was traded here, and the last record among them."""
        if self.imported_file.exists():
            lines = self.imported_file.read_text(encoding="utf-8").splitlines()
            return lines, read_positions(self.imported_file)[-1]
        record = opening_record(self._init_date, cash, self._symbols)
        return [record_line(record)], record

    def _with_other_prices(self, book: Ledger, run_id: str) -> Iterator[bytes]:
        lines, last = self._first(float(book.cash(run_id)))
        for result in book.history(run_id):
            if result.decider != IMPORTED:
                records = records_of_session(last, result, with_price=not self._with_price)
                lines, last = [*lines, *map(record_line, records)], records[-1] if records else last
        yield _text(lines)

    def _write_log(self, book: Ledger, run_id: str, result: SessionResult) -> None:
        date = f"{result.session:%Y-%m-%d}"
        done = [each for each in book.executions(run_id, session=result.session) if each.symbol == "*"]
        messages = session_messages(date, done[0] if done else None, self._language)
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
    date: str, execution: LoggedExecution | None, language: Language = "en"
) -> list[SessionMessage]:
    """Return the messages of a session: the first, each step with its results, and the final answer."""
    messages = [SessionMessage(role="user", content=first_message(date, language))]
    for step in execution.steps if execution else ():
        answers = step.result
        content = str(step.action.get("content", ""))
        messages.append(SessionMessage(role="assistant", content=content, of_step=answers is not None))
        if answers is not None:
            answer = answer_text([each["result"] for each in answers], language)
            messages.append(SessionMessage(role="user", content=answer, of_step=True))
    return messages


def _text(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _foreign(path: Path, reason: str) -> BadFile:
    return BadFile(
        f"{path} is there and is left as it is: {reason}; move it away, or choose another signature or "
        "log_path",
        file=str(path),
    )


TRADER_QUESTION: Final = {"us": "The autonomous trader trades all stocks", "cn": "由自主交易员交易全部股票"}
"""What the run is asked; symbols and dates are given beside it."""
NASDAQ_100: Final = "NASDAQ-100"
_RUNS = "runs"


class BaseAgent:
    """A model that trades a portfolio day by day, and keeps AI-Trader's files.

    It is a face of one run, which is in ``{log_path}/{signature}/runs/``: its ledger says which sessions are
    done. An agent of the same arguments, in this process or a later one, goes on with it, also to a later
    ``end_date``. A ``position.jsonl`` of another program opens the account: its trades enter the ledger, its
    last day is the eve of the first session, its registration gives ``init_date`` and cash, and its symbols
    are the universe. Sessions are those of the data. Beside the run stand ``position/position.jsonl`` and
    ``log/{date}/log.jsonl``, rendered from the ledger after each session.

    Parameters
    ----------
    signature
        Name of the agent's folder below ``log_path``.
    basemodel
        A chat model, or the name of one, or ``keyless``.
    stock_symbols
        The universe. Default: all symbols of the source. ``NASDAQ-100``: AI-Trader's default list, the
        index's 101 shares of 1 October 2025, as far as the source has them.
    log_path
        Folder of the signatures' folders. A relative one is below the working folder.
    max_steps, max_retries, base_delay, prompt, memory, news
        See :class:`~quantgraph.agents.trader.TraderAgent`.
    initial_cash
        In the market's currency.
    init_date, end_date
        Day of the registration, ``YYYY-MM-DD``, which need not be a session and is never traded, and the
        last day, which may come later in a later call. Default of the last: that of the data.
    openai_base_url, openai_api_key
        The model's own server and key, used for this model alone and written nowhere. Default: those of the
        settings.
    market
        ``us`` or ``cn``.
    source
        See :class:`~quantgraph.runtime.Resources`.
    rules
        The market's rules and fees. Default: those of ``market``.
    decider
        In place of a ``TraderAgent`` of the options above.
    log_form, with_price
        Form of ``log.jsonl``, ``messages`` or ``ai-trader``; whether ``position.jsonl`` has the prices.
    resources
        Settings, ledger, checkpointer, what watches and what stops the run.

    Raises
    ------
    BadOption
        If an argument is not valid.
    NotConfigured
        If the model needs a key and there is none.
    BadFile, UnknownSymbol
        If a ``position.jsonl`` of another program cannot be read, or has symbols that the data lack.
    """

    def __init__(
        self,
        signature: str,
        basemodel: str | BaseChatModel,
        *,
        stock_symbols: str | Sequence[str] | None = None,
        log_path: str | Path = "./data/agent_data",
        max_steps: int = TraderOptions.max_steps,
        max_retries: int = TraderOptions.max_retries,
        base_delay: float = TraderOptions.base_delay,
        prompt: str | None = TraderOptions.prompt,
        memory: bool = TraderOptions.memory,
        news: NewsSource | str | bool = TraderOptions.news,
        initial_cash: Decimal | float = 10_000,
        init_date: str,
        end_date: str | None = None,
        openai_base_url: str | None = None,
        openai_api_key: str | None = None,
        market: TraderMarket = "us",
        source: SourceLike | None = None,
        rules: Rulebook | None = None,
        decider: Decider | None = None,
        log_form: LogForm = "messages",
        with_price: bool = False,
        resources: Resources | None = None,
    ) -> None:
        if market not in TRADER_QUESTION:
            raise BadOption(f"market={market!r:.40}; must be one of us, cn", parameter="market")
        self.signature = check_signature(signature)
        self.folder = Path(log_path) / signature
        given = resources or Resources()
        self._settings = given.settings or load_settings()
        chosen = given.source if source is None else source
        self._source = self._settings.data_source if chosen is None else chosen
        self._data = open_source(self._source, settings=self._settings)
        self._decider = decider or TraderAgent(
            max_steps=max_steps,
            max_retries=max_retries,
            base_delay=base_delay,
            prompt=prompt,
            memory=memory,
            news=news,
        )
        self._models = _models(basemodel, self._settings, openai_base_url, openai_api_key)
        self._given = replace(given, settings=self._settings, source=self._source, model=None)
        self._market, self._question = market, TRADER_QUESTION[market]
        self._rules = rules or _rules(market)
        self._imported = self._positions_of_another()
        if self._imported:
            init_date, initial_cash = self._imported[0].date, money(to_decimal(self._imported[0].cash))
        self._symbols = self._universe(symbol_list(stock_symbols or ()))
        self._init_date, self._end_date = init_date, end_date
        self._cash = Account.opening(initial_cash).cash
        self.notes: list[Note] = []
        self.files = TraderFiles(
            self.folder,
            init_date=f"{session_of(init_date, name='init_date'):%Y-%m-%d}",
            symbols=self._symbols,
            language=language_of(self._question),
            log_form=log_form,
            with_price=with_price,
            say=self.notes.append,
        )
        # One session at a time: a second call waits, and is then told that its session is done.
        self._lock = threading.Lock()

    @property
    def run_dir(self) -> Path | None:
        """Folder of the run; None before it has begun."""
        runs = sorted((self.folder / _RUNS).glob(f"*/{MANIFEST_FILE}"))
        return runs[-1].parent if runs else None

    @property
    def symbols(self) -> tuple[str, ...]:
        """The universe, in its order."""
        return self._symbols

    @property
    def traded_dates(self) -> list[str]:
        """Sessions that are in the ledger, ``YYYY-MM-DD``, ascending."""
        return [f"{day:%Y-%m-%d}" for day in self._done()]

    @property
    def _eve(self) -> str:
        """The day before which nothing is traded here."""
        return self._imported[-1].date if self._imported else self._init_date

    def get_trading_dates(self, init_date: str | None = None, end_date: str | None = None) -> list[str]:
        """Return the sessions of the data that are left to trade, ``YYYY-MM-DD``, ascending.

        Parameters
        ----------
        init_date, end_date
            Only sessions after the one and up to the other. Default: those of the agent.
        """
        first = session_of(init_date or self._eve, name="init_date")
        last = session_of(end_date or self._end_date or self._last_session(), name="end_date")
        done = self._done()
        sessions = self._data.sessions()
        left = sessions[(sessions > first) & (sessions <= last)]
        return [f"{day:%Y-%m-%d}" for day in left if not done or day > done[-1]]

    def run_for_dates(self, init_date: str | None = None, end_date: str | None = None) -> RunResult:
        """Trade the sessions that :meth:`get_trading_dates` lists, and return the run's result.

        Parameters
        ----------
        init_date
            If given, that of the agent.
        end_date
            Another last day, from now on the agent's.

        Returns
        -------
        RunResult
            As :func:`~quantgraph.runs.run_strategy` returns it: ``ended_because`` says whether all was done.

        Raises
        ------
        BadOption
            If ``init_date`` is another than the agent's, or the end is before the last session traded.
        BadWindow
            If the data have no session between them.
        BadFile
            If a file of another program is where the agent's would be.
        """
        if init_date not in (None, self._init_date):
            raise BadOption(
                f"init_date={init_date!r:.40}; the agent was made with {self._init_date!r}",
                parameter="init_date",
            )
        with self._lock:
            self._end_date = end_date or self._end_date
            return self._go_on(until=None)

    async def run_trading_session(self, today_date: str) -> dict[str, Any]:
        """Trade one session, the next one.

        A session that was interrupted is resumed, never traded twice.

        Returns
        -------
        dict
            The session's notes: ``ended``, ``steps``, ``traded``, ``final_text`` and so on.

        Raises
        ------
        BadOption
            If it is not the next session, whose date the message and ``data["next"]`` tell.
        ModelUnavailable, NoProgress
            If the session could not be traded; it may be tried again.
        """
        return await asyncio.to_thread(self._trade_session, today_date)

    def _trade_session(self, today_date: str) -> dict[str, Any]:
        with self._lock:
            left = self.get_trading_dates()
            following = left[0] if left else None
            if today_date != following:
                hint = f"the next is {following}" if following else "all sessions are done"
                raise BadOption(
                    f"today_date={today_date!r:.40} is not the next session; {hint}",
                    parameter="today_date",
                    next=following,
                )
            session = session_of(today_date, name="today_date")
            result = self._go_on(until=session)
            place, run_id = self._ledger_place()
            with Ledger(place) as book:
                if book.last_session(run_id) == session:
                    notes = book.notes(run_id).get(session, {})
                    return dict(notes.get("trader", notes))
        text = f"{today_date} is not traded: {result.get('error') or result['ended_because']}"
        kind = ModelUnavailable if result["ended_because"] == "model_unavailable" else NoProgress
        raise kind(text, run_dir=result["run_dir"], ended_because=result["ended_because"])

    def _go_on(self, until: pd.Timestamp | None) -> RunResult:
        """Begin the run or go on with it, to a session or to its end; the files follow its ledger."""
        with lock_folder(self.folder, f"signature {self.signature!r}"), ExitStack() as stack:
            folder = self.run_dir
            begins = folder is None
            if folder is None:
                self._check_start()
                folder = self.folder / _RUNS / new_run_id()
            else:
                self._same_run(folder)
            place = self._given.ledger_place or run_database_path(folder.parent, folder.name)
            render = self._renderer(place, folder.name, stack)
            if not begins:
                render()
            control = self._given.control if until is None else RunControl()
            outer = self._given.watch or (lambda _event: None)

            def watch(event: RunEvent) -> None:
                if event.kind == "session":
                    render()
                    if control and until is not None and session_of(event.text) > until:
                        control.request_drain("one session")
                outer(event)

            live = replace(
                self._given,
                model=self._models,
                decider=self._decider,
                watch=watch,
                control=control,
                opening=open_with_positions(self.files.imported_file) if self._imported else None,
            )
            spec = self._spec()
            if begins:
                result = start_run(spec, folder, live)
            else:
                grows = spec.end != read_manifest(folder).spec.end
                result = resume_run(folder, end=spec.end if grows else "", trust=True, resources=live)
            render()
            return result

    def _check_start(self) -> None:
        """See that there is something to trade, and no file of another program in the folder."""
        if not self.get_trading_dates():
            raise BadWindow(
                f"the data have no session after {self._eve} up to {self._end_date or 'their end'}; they end "
                f"at {self._last_session()}",
                parameter="end_date",
            )
        if self._imported:
            found = verify_positions(self.files.position_file, self._data, self._market)
            for fault in found.mismatches[:1]:
                raise BadFile(
                    f"{self.files.position_file}, line {fault.line}: {fault.message}; the account cannot be "
                    "opened with it",
                    file=str(self.files.position_file),
                    line=fault.line,
                )
        self.files.begin(imports=bool(self._imported))

    def _positions_of_another(self) -> Sequence[PositionRecord]:
        """The records that open the account; none if no other program has traded in the folder."""
        position = self.folder / "position"
        found = position / "imported.jsonl"
        if not found.exists() and self.run_dir is None:
            found = position / "position.jsonl"
        return read_positions(found) if found.exists() else ()

    def _universe(self, named: tuple[str, ...]) -> tuple[str, ...]:
        symbols = self._data.symbols()
        listed = {*symbols}
        if named == (NASDAQ_100,):
            named = tuple(symbol for symbol in _nasdaq_100() if symbol in listed)
            if not named:
                raise BadOption(
                    f"stock_symbols={NASDAQ_100}: {self._data.name} has none of them; name some that it has",
                    parameter="stock_symbols",
                )
        if not self._imported:
            return named or tuple(symbols)
        known = {symbol for symbol in self._imported[0].positions if symbol in listed}
        used = {symbol for each in self._imported for symbol, shares in each.positions.items() if shares}
        if unknown := sorted(used - listed):
            raise UnknownSymbol(
                f"{self._data.name} has no prices of {', '.join(unknown[:5])}, which the position.jsonl of "
                f"signature {self.signature!r} holds",
                symbols=tuple(unknown),
            )
        if more := sorted({*named} - known):
            raise BadOption(
                f"stock_symbols: {', '.join(more[:5])} is not in the position.jsonl of signature "
                f"{self.signature!r}, whose symbols are the universe",
                parameter="stock_symbols",
            )
        return named or tuple(sorted(known))

    def _renderer(self, place: str | Path, run_id: str, stack: ExitStack) -> Callable[[], None]:
        """Return what renders the files of a run; its ledger is opened once it is there."""
        opened: list[Ledger] = []

        def render() -> None:
            if not opened:
                if "://" not in str(place) and not Path(place).is_file():
                    return
                opened.append(stack.enter_context(Ledger(place)))
            if opened[0].has_run(run_id):
                self.files.render(opened[0], run_id)

        return render

    def _spec(self) -> RunSpec:
        sessions = self._data.sessions()
        first = sessions[sessions > session_of(self._init_date, name="init_date")][0]
        last = session_of(self._end_date or self._last_session(), name="end_date")
        return RunSpec(
            question=self._question,
            symbols=self._symbols,
            start=f"{first:%Y%m%d}",
            end=f"{last:%Y%m%d}",
            cash=self._cash,
            rules=self._rules,
        )

    def _same_run(self, folder: Path) -> None:
        """Refuse another beginning, other symbols or cash than those that the run was begun with."""
        begun = read_manifest(folder).spec
        now = replace(self._spec(), end=begun.end)
        then, wanted = begun.as_json(), now.as_json()
        differing = [name for name in then if then[name] != wanted[name]]
        if differing:
            changed = ", ".join(f"{name} {then[name]!s:.40} -> {wanted[name]!s:.40}" for name in differing)
            raise RunMismatch(
                f"signature {self.signature!r} has a run that was begun with others: {changed}; give them as "
                "they were, or choose another signature or log_path",
                run_dir=str(folder),
            )

    def _last_session(self) -> str:
        return f"{self._data.sessions()[-1]:%Y-%m-%d}"

    def _ledger_place(self) -> tuple[str | Path, str]:
        folder = self.run_dir
        if folder is None:
            raise BadOption(f"signature {self.signature!r} has no run yet", parameter="signature")
        return self._given.ledger_place or existing_ledger(read_manifest(folder), folder), folder.name

    def _done(self) -> list[pd.Timestamp]:
        """Return the committed sessions."""
        folder = self.run_dir
        if folder is None or "run_id" not in (read_result(folder) or {}):
            return []
        place, run_id = self._ledger_place()
        with Ledger(place) as book:
            return book.sessions(run_id) if book.has_run(run_id) else []


def _models(
    basemodel: str | BaseChatModel, settings: Settings, base_url: str | None, api_key: str | None
) -> Model:
    """The trader's model; nothing else of the run asks a server."""
    given = {"openai_base_url": base_url, "openai_api_key": api_key}
    if own := {name: value for name, value in given.items() if value}:
        settings = load_settings(**{**settings.model_dump(), **own})
    return dict.fromkeys(ROLES, KEYLESS) | {"trader": get_llm("trader", model=basemodel, settings=settings)}


def _nasdaq_100() -> tuple[str, ...]:
    return tuple(Path(__file__).with_name("nasdaq_100.txt").read_text(encoding="ascii").split())


def _rules(market: TraderMarket) -> Rulebook:
    return Rulebook.us() if market == "us" else Rulebook.mainland()
