"""A decider in a process of its own, which never received what was not known."""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd

from quantgraph._util.canonical_json import content_hash
from quantgraph._util.texts import escape_controls
from quantgraph.broker import Account, Order
from quantgraph.errors import BadFile, BadOption, CodeFailed, SandboxTooWeak
from quantgraph.market.moment import Moment, session_of
from quantgraph.sandbox.account_json import account_to_json, date_text, orders_from_json
from quantgraph.sandbox.child import Child
from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.result import read_json_reply
from quantgraph.sandbox.runner import ForkRunner, can_fork
from quantgraph.sandbox.view_sync import ViewSender
from quantgraph.sandbox.wire import Block, encode_message
from quantgraph.state import View
from quantgraph.state.frames import PLAIN_RULE, is_plain
from quantgraph.state.views import GrowingViewId

__all__ = ["IsolatedDecider"]

_log = logging.getLogger(__name__)


class IsolatedDecider:
    """A decider whose code need not be trusted: it runs in a sealed process that is sent what is known.

    Parameters
    ----------
    source
        Python that defines ``name``. It has ``pd``, ``np``, ``Order`` and ``Decimal``, and may import the
        standard library, numpy, pandas and talib, ``quantgraph.broker`` and ``quantgraph.state``.
    name
        A class or a function in it that, called with ``options``, makes a decider: it has
        ``decide(view, account, session)``, and a ``name`` and ``uses_signal`` if it likes; see
        :class:`~quantgraph.broker.Decider`.
    options
        Keyword arguments of it, plain JSON.
    timeout, memory_mb
        Limits of a session, and of the source: seconds; megabytes, the data that it is sent included.
    isolation
        The least that is accepted; where the system gives less, SandboxTooWeak is raised.

    Attributes
    ----------
    name
        As the decider calls itself, else ``name``.
    options
        A ``code_hash`` and the options, which the ledger keeps: a run is not continued with other code.
    uses_signal
        As the decider says.

    Raises
    ------
    BadOption
        If an option is of the wrong kind.
    CodeFailed
        If the source fails, or makes no decider; with the line.
    SandboxTooWeak
        If this system cannot lock it in well enough.

    Notes
    -----
    Each run has a process of its own, which stays as long as the run. Before a session it is sent the rows,
    actions and records that became known since the one before, and the account; it answers with orders, of
    which every part is checked here. ``view.data_ref`` is empty there: the name of a commit is made from all
    of it. What is printed goes to the log at debug.

    The object is kept between sessions with what it has in its attributes. A process that is begun in the
    middle of a run (the run was resumed, or its code failed) has a new object, which knows the data and the
    account, and nothing that the one before kept. Views that do not come from a walk, as in
    ``trade_session``, are taken for one run while their moments ascend.

    Before each session ``random`` and ``numpy.random`` are seeded with its date, and the order of sets of
    strings is fixed, so a run can be done again. The clock, ``numpy.random.default_rng()`` without a seed,
    ``secrets``, ``id()`` and the order of sets of objects differ from run to run.
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
        given = _checked(source, name, options)
        if not can_fork():
            raise SandboxTooWeak("isolated deciders need a system that can fork: Linux or macOS")
        self._opening = {"decider": source, "name": name, "options": given}
        self._runner = ForkRunner(timeout=timeout, memory_mb=memory_mb, isolation=isolation)
        # The lock protects the table of runs; threads may trade runs at the same time.
        self._lock = threading.Lock()
        self._runs: weakref.WeakKeyDictionary[GrowingViewId, _Run] = weakref.WeakKeyDictionary()
        self._alone = GrowingViewId()
        first = _Run(self._runner, self._opening)
        told = first.begin()
        first.close()
        if not is_plain(told.get("name")):
            raise CodeFailed(f"the decider's name is {told.get('name')!r:.60}; names are {PLAIN_RULE}")
        self.name: str = told["name"]
        self.uses_signal = told.get("uses_signal") is not False
        self.options = {"code_hash": _code_hash(source, name), **given}

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """A decider whose source is a file; the rest as in the class.

        Raises
        ------
        BadFile
            If it cannot be read as UTF-8.
        """
        try:
            source = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path} cannot be read as Python: {error}") from error
        return cls(source, **options)

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> list[Order]:
        """See :class:`~quantgraph.broker.Decider`.

        Raises
        ------
        CodeFailed, CodeTimeout, CodeMemoryExceeded, CodeRefused
            If the code fails, with the line; or its process ends; or what it returns are no orders.
        """
        mark = view.growing_view_id or self._alone
        with self._lock:
            run = self._runs.get(mark)
            if run is None:
                run = self._runs[mark] = _Run(self._runner, self._opening)
                # The process ends with the run that it belongs to.
                weakref.finalize(mark, run.close)
        try:
            printed, orders = run.decide(view, account, session)
        except CodeFailed as error:
            place = f"decider {self.name!r} on {session_of(session):%Y-%m-%d}"
            raise type(error)(f"{place}: {error.message}", **error.data) from error
        if printed:
            _log.debug(
                "decider %s on %s printed: %s", self.name, session, escape_controls(printed, multiline=True)
            )
        return orders

    def close(self) -> None:
        """End its processes. The next decision begins another one."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.close()
        self._runner.close()


class _Run:
    """The child of one run.

    The lock protects the conversation with the child against threads that share a run.
    """

    def __init__(self, runner: ForkRunner, opening: dict[str, Any]) -> None:
        self._child: Child = runner.child()
        self._opening = opening | {"output_limit": runner.output_limit}
        self._lock = threading.Lock()
        self._last: tuple[str, Moment] | None = None
        self._sent = ViewSender()

    def begin(self) -> dict[str, Any]:
        """Let a new child make the decider, and return what it says of itself."""
        self._child.close()
        self._sent, self._last = ViewSender(), None
        return self._ask(encode_message(self._opening))

    def decide(self, view: View, account: Account, session: pd.Timestamp) -> tuple[str, list[Order]]:
        """What was printed, and the orders."""
        with self._lock:
            if not (self._child.lives and self._goes_on(view)):
                self.begin()
            header, blocks = self._sent.next(view)
            header |= {"account": account_to_json(account), "session": date_text(session_of(session))}
            try:
                told = self._ask(encode_message(header, blocks))
                orders = orders_from_json(told.get("orders"))
            except BaseException:
                self.close()
                raise
            self._last = view.data_ref, Moment(view.moment.session, view.moment.phase)
            return told["stdout"], orders

    def _goes_on(self, view: View) -> bool:
        return self._last is not None and self._last[0] == view.data_ref and self._last[1] < view.moment

    def _ask(self, parts: list[Block]) -> dict[str, Any]:
        answer, error = self._child.ask(
            parts, lambda read, started: read_json_reply(read, self._child.limits, started, self._child.level)
        )
        if error:
            self.close()
            raise error
        return answer

    def close(self) -> None:
        """End the child."""
        self._child.close()


def _checked(source: object, name: object, options: object) -> dict[str, Any]:
    if not isinstance(source, str):
        raise BadOption(f"source={source!r:.60}; Python source as text is wanted", parameter="source")
    if not (isinstance(name, str) and name.isidentifier()):
        raise BadOption(f"name={name!r:.60}; the name of a class or function is wanted", parameter="name")
    given = dict(options) if isinstance(options, Mapping) else {} if options is None else None
    if given is None or not _is_plain_json(given) or "code_hash" in given:
        raise BadOption(
            f"options={options!r:.80}; a mapping of plain JSON without 'code_hash' is wanted",
            parameter="options",
        )
    return given


def _is_plain_json(given: dict[Any, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(given, allow_nan=False)) == given)
    except (TypeError, ValueError, RecursionError):
        return False


def _code_hash(source: str, name: str) -> str:
    return content_hash(f"{name}\n{source}")
