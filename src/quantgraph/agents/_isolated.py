"""A decider in a sealed process, and the view that a host's state names for one decided session."""

from __future__ import annotations

import logging
import pickle
import threading
import weakref
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import TypeAdapter, ValidationError

from quantgraph._util.canonical_json import content_hash, json_copy
from quantgraph._util.texts import NewsUntil, escape_controls
from quantgraph.broker import DataNeeds, Decider, Decision, DecisionContext
from quantgraph.errors import BadFile, BadOption, BadWindow, CodeFailed, SandboxTooWeak, UnknownSymbol
from quantgraph.market import Moment, session_of
from quantgraph.sandbox import Call, ForkRunner, IsolationLevel, can_fork, with_restarts
from quantgraph.sandbox.wire import ViewSender, account_to_json, decision_from_json, encode_message
from quantgraph.state import DataState, GrowingViewId, View
from quantgraph.state.frames import PLAIN_RULE, is_plain

_log = logging.getLogger(__name__)
_NEEDS = TypeAdapter(DataNeeds)


class IsolatedDecider(Decider):
    """A decider of untrusted code: it runs in a sealed process that is sent what is known.

    Parameters
    ----------
    source
        Python that defines ``name``. It has ``pd``, ``np``, ``Decider``, ``Decision``, ``DataNeeds``,
        ``ExitRule``, ``Order`` and ``Decimal``, and may import the standard library, numpy, pandas and talib,
        ``quantgraph.broker`` and ``quantgraph.state``.
    name
        A class or function in ``source`` that takes ``options`` and returns a
        :class:`~quantgraph.broker.Decider`. Its context has everything but models and scopes; its block rule
        is not asked for.
    options
        Its keyword arguments, plain JSON.
    timeout, memory_mb
        Limits of a session, and of loading the source: seconds; megabytes, the received data included.
    isolation
        The weakest level to accept; SandboxTooWeak is raised where the system offers less.

    Raises
    ------
    BadOption
        If an argument is invalid.
    CodeFailed
        If the source fails, or makes no decider; with the line.
    SandboxTooWeak
        If this system does not reach the required isolation level.

    Notes
    -----
    Each run has a process of its own, for as long as the run lasts. Before a session it is sent the rows,
    actions and records that became known since the session before, and the account. It answers with orders,
    every part of which is checked here. ``view.data_ref`` is empty there, because a commit's name is made
    from the whole commit.

    The decider object and its attributes are kept between sessions. A process that starts in the middle of a
    run (the run was resumed, or its code failed) makes a new object, which gets the data and the account
    and has none of the attributes of the old one. Views that stand alone belong to one run
    while their moments ascend.

    What the code prints is logged at level debug. Before each session ``random`` and ``numpy.random`` are
    seeded with its date, and the order of sets of strings is fixed, so that a run can be repeated. The clock,
    ``numpy.random.default_rng()`` without a seed, ``secrets``, ``id()`` and the order of sets of objects
    differ from run to run.
    """

    def __init__(
        self,
        source: str,
        *,
        name: str = "Decider",
        options: Mapping[str, Any] | None = None,
        timeout: float = 30.0,
        memory_mb: int = 2048,
        isolation: IsolationLevel = "full",
    ) -> None:
        checked = _check_arguments(source, name, options)
        if not can_fork():
            raise SandboxTooWeak("isolated deciders need a system that can fork: Linux or macOS")
        self._opening = {"decider": source, "name": name, "options": checked}
        self._runner = ForkRunner(timeout=timeout, memory_mb=memory_mb, isolation=isolation)
        # The lock guards the table of runs: threads may trade runs at the same time.
        self._lock = threading.Lock()
        self._runs: weakref.WeakKeyDictionary[GrowingViewId, _RunProcess] = weakref.WeakKeyDictionary()
        self._single_views = GrowingViewId()
        process = _RunProcess(self._runner, self._opening)
        loaded = process.start()
        process.close()
        if not is_plain(loaded.get("name")):
            raise CodeFailed(f"the decider's name is {loaded.get('name')!r:.60}; names are {PLAIN_RULE}")
        self._name: str = loaded["name"]
        self._uses_signal = loaded.get("uses_signal") is not False
        self._needs = _needs(loaded.get("needs"))
        self._options = {"code_hash": content_hash(f"{name}\n{source}"), **checked}

    @property
    def name(self) -> str:
        """The decider's own name."""
        return self._name

    @property
    def options(self) -> Mapping[str, Any]:
        """A ``code_hash`` and the options: a run is not continued with other code."""
        return self._options

    @property
    def uses_signal(self) -> bool:
        """The decider's own value."""
        return self._uses_signal

    @property
    def needs(self) -> DataNeeds:
        """The decider's own value."""
        return self._needs

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """Make a decider whose source is a file; ``options`` are the arguments of the class.

        Raises
        ------
        BadFile
            If the file cannot be read as UTF-8.
        """
        try:
            source = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path} cannot be read as Python: {error}") from error
        return cls(source, **options)

    def decide(self, context: DecisionContext) -> Decision:
        """Return the decision of the code.

        Raises
        ------
        CodeFailed, CodeTimeout, CodeMemoryExceeded, CodeRefused
            If the code fails, with the line; or its process ends; or it returns something else than orders.
        CodeUnavailable
            If the machine has no process for it.
        """
        session, run_id = context.session, context.view.growing_view_id or self._single_views
        with self._lock:
            process = self._runs.get(run_id)
            if process is None:
                process = self._runs[run_id] = _RunProcess(self._runner, self._opening)
                # The process ends with its run.
                weakref.finalize(run_id, process.close)
        try:
            printed, decision = with_restarts(lambda: process.decide(context))
        except CodeFailed as error:
            place = f"decider {self.name!r} on {session:%Y-%m-%d}"
            raise type(error)(f"{place}: {error.message}", **error.data) from error
        if printed:
            _log.debug(
                "decider %s on %s printed: %s", self.name, session, escape_controls(printed, multiline=True)
            )
        return decision

    def close(self) -> None:
        """End all processes. The next decision starts another one."""
        with self._lock:
            processes = list(self._runs.values())
        for process in processes:
            process.close()
        self._runner.close()


class _RunProcess:
    """The child that decides for one run.

    The lock guards the conversation with the child against threads that share a run.
    """

    def __init__(self, runner: ForkRunner, opening: dict[str, Any]) -> None:
        self._child = runner.child()
        self._opening = opening | {"output_limit": runner.output_limit}
        self._lock = threading.Lock()
        self._last: tuple[str, Moment] | None = None
        self._sender = ViewSender()
        self._sent = 0  # sessions of the history

    def start(self) -> dict[str, Any]:
        """Make the decider in a new child, and return its attributes unchecked."""
        self._child.close()
        self._sender, self._last, self._sent = ViewSender(), None, 0
        return self._child.request(encode_message(self._opening), Call.read_json)

    def decide(self, context: DecisionContext) -> tuple[str, Decision]:
        """Return what the code printed, and its decision."""
        view, history = context.view, context.history
        with self._lock:
            if not (self._child.is_alive and self._continues(view)):
                self.start()
            header, blocks = self._sender.send(view)
            known = {"plan": context.plan, "start": context.started}
            exits = {"exits": context.exits, "exited": context.exited, "followed": context.followed}
            run = pickle.dumps((context.rules, known, exits, list(history[self._sent :])))
            header |= {"account": account_to_json(context.account), "run": b64encode(run).decode()}
            try:
                reply = self._child.request(encode_message(header, blocks), Call.read_json)
                decision = decision_from_json(reply)
            except BaseException:
                self.close()
                raise
            self._last = view.data_ref, Moment(view.moment.session, view.moment.phase)
            self._sent = len(history)
            return reply["stdout"], decision

    def _continues(self, view: View) -> bool:
        return self._last is not None and self._last[0] == view.data_ref and self._last[1] < view.moment

    def close(self) -> None:
        """End the child."""
        self._child.close()


def _check_arguments(source: object, name: object, options: object) -> dict[str, Any]:
    """Return the options as a dict."""
    if not isinstance(source, str):
        raise BadOption(f"source must be Python source as text, not {source!r:.60}", parameter="source")
    if not (isinstance(name, str) and name.isidentifier()):
        raise BadOption(f"name must be the name of a class or function, not {name!r:.60}", parameter="name")
    copied = {} if options is None else dict(options) if isinstance(options, Mapping) else None
    checked: dict[str, Any] | None = json_copy(copied)
    if checked is None or "code_hash" in checked:
        raise BadOption(
            f"options must be a mapping of plain JSON without 'code_hash', not {options!r:.80}",
            parameter="options",
        )
    return checked


def _needs(needs: object) -> DataNeeds:
    """Return what untrusted code needs, checked."""
    try:
        checked: DataNeeds = _NEEDS.validate_python(needs)
    except (ValidationError, BadOption) as error:
        raise CodeFailed(f"the decider's needs are {needs!r:.80}; must be DataNeeds(...)") from error
    return checked


_MEANINGS: Final = {"data_ref": "a commit", "moment": "the session, YYYYMMDD, that opens"}


def view_of(state: Mapping[str, Any], store: DataState, news_until: NewsUntil, *also: str) -> View:
    """Return the view at the open that ``data_ref`` and ``moment`` of a state name."""
    needed = (*also, *_MEANINGS)
    missing = [name for name in needed if name not in state]
    if missing:
        listed = [f"{name} ({_MEANINGS[name]})" if name in _MEANINGS else name for name in needed]
        raise BadOption(
            f"the state has no {missing[0]}; it needs {', '.join(listed[:-1])} and {listed[-1]}",
            parameter=missing[0],
        )
    session = session_of(state["moment"], name="moment")
    view = store.view(Moment(session, "open"), state["data_ref"], news_until)
    if session not in view["ohlcv"]["open"].index:
        raise BadWindow(f"moment={state['moment']!r:.40} is not a session of the data", parameter="moment")
    return view


def check_symbols(view: View, symbols: Iterable[str]) -> None:
    """Check that the data has the shares that a host names."""
    known = view["ohlcv"].frozen("open").symbols
    for symbol in symbols:
        if symbol not in known:
            raise UnknownSymbol(
                f"symbol={symbol!r:.40}: the data has no such symbol; it has {', '.join(known[:10])}"
                f"{' …' if len(known) > 10 else ''}",
                symbols=(symbol,),
            )
