"""The door of every decider: the base class, what it needs, gets and returns."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, copy_context
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import pandas as pd

from quantgraph._util.texts import Language, Note, short_line
from quantgraph._util.values import is_whole
from quantgraph.broker._plan import FOR_ANYONE, TradePlan
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._orders import BlockRule, Decision, Order
from quantgraph.broker.session._exits import Followed
from quantgraph.broker.session._session import Session
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.state import RECORD_KINDS, RecordKind, View, deciding

if TYPE_CHECKING:
    from quantgraph.broker.accounts._results import SessionResult
    from quantgraph.broker.ledger._steps import LoggedStep


_SCOPE_NAME_LENGTH = 100


def _no_model(role: str) -> Any:
    raise BadOption(
        f"no model for role {role!r}: models come from a run; create_trading_graph and run_strategy hand out "
        "those of the decider's roles",
        parameter="role",
    )


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """What a run hands to the decisions of its decider.

    Attributes
    ----------
    plan
        Sizes, schedules and exits.
    start
        The run's first session; None where it is not known.
    rule
        The user's rule in words, for a decider that reads it; "" without one.
    language
        The user's language.
    history
        Returns the sessions so far.
    gives_exits
        Returns whether a decision of them has exit rules.
    last
        Returns the last of them, None if there is none.
    kept
        What is kept from one step of a run to the next, so that it is not made again from its history.
    scope
        Makes a recording path of its own for what a block of code asks of the world.
    model
        Returns the chat model of a role.
    check
        Raises the error that ends the run, if the decider swallowed it.
    log_step
        Keeps one step of a decision.
    """

    plan: TradePlan = field(default_factory=TradePlan)
    start: pd.Timestamp | None = None
    rule: str = ""
    language: Language = "en"
    history: Callable[[], Sequence[SessionResult]] = tuple
    gives_exits: Callable[[], bool] = lambda: False
    last: Callable[[], pd.Timestamp | None] = lambda: None
    kept: dict[str, Any] = field(default_factory=dict)
    scope: Callable[[str], AbstractContextManager[object]] = nullcontext
    model: Callable[[str], Any] = _no_model
    check: Callable[[], None] = lambda: None
    log_step: Callable[[LoggedStep], None] = lambda _step: None


class _Background(NamedTuple):
    """What a context works with and does not hand out: it leads to the store, and so to later data."""

    view: View | Callable[[], View]
    account: Account
    rules: Rulebook
    followed: Mapping[str, Followed]
    run: RunContext
    variables: Context


class DecisionContext:
    """The data and the account of one open; writing into what it hands out changes nothing for the run.

    No attribute of it leads to anything that is not known at that moment.

    Parameters
    ----------
    view
        The data as known at the session's open, or a function that makes the view when it is asked for.
    account
        The account at that open: what was bought before may be sold.
    rules
        The rulebook in force: lots, ticks, price bands, fees. Default: mainland China's.
    run
        What the run hands on. Default: an empty plan, no history, no models.
    exits
        The sales that plan and exit rules send at this open; the decider need not repeat them.
    exited
        The session of the last of such sales, of symbols that were not bought since.
    sold
        The session of the last sale of all shares of a symbol, for any reason, if the plan has a use for it.
    followed
        What is followed of each position, where the plan or a rule has a use for it.

    Attributes
    ----------
    exits, exited, sold
        See above.
    started
        The run's first session; None where it is not known.
    rule
        The user's rule in words, if the decider :attr:`~.ModelDecider.reads_rule`; else "".
    language
        The user's language.
    """

    def __init__(
        self,
        view: View | Callable[[], View],
        account: Account,
        *,
        rules: Rulebook | None = None,
        run: RunContext | None = None,
        exits: Sequence[Order] = (),
        exited: Mapping[str, pd.Timestamp] | None = None,
        sold: Mapping[str, pd.Timestamp] | None = None,
        followed: Mapping[str, Followed] | None = None,
    ) -> None:
        run, rules = run or RunContext(), rules or Rulebook.mainland()
        _BACKGROUND[self] = _Background(view, account, rules, dict(followed or {}), run, copy_context())
        self.started, self.rule, self.language = run.start, run.rule, run.language
        self.exits, self.exited, self.sold = tuple(exits), dict(exited or {}), dict(sold or {})
        # The lock guards the market and the names of the open scopes, which threads share.
        self._lock = threading.Lock()
        self._market: Session | None = None
        self._open_scopes: set[str] = set()

    @cached_property
    def view(self) -> View:
        """The data as known at the session's open.

        ``view["ohlcv"]["open"]`` ends with this session, ``view["ohlcv"]["close"]`` with the one before;
        ``view.row("ohlcv", "open")`` is the last row.
        """
        view = _BACKGROUND[self].view
        return view if isinstance(view, View) else view()

    @cached_property
    def account(self) -> Account:
        """The account at that open, a copy."""
        return _BACKGROUND[self].account.copy()

    @cached_property
    def rules(self) -> Rulebook:
        """The rulebook in force, a copy."""
        return deepcopy(_BACKGROUND[self].rules)

    @cached_property
    def plan(self) -> TradePlan:
        """The plan, which has sizes, schedules and exits, a copy."""
        return deepcopy(_BACKGROUND[self].run.plan)

    @property
    def session(self) -> pd.Timestamp:
        """The session to decide."""
        return self.view.moment.session

    @cached_property
    def followed(self) -> Mapping[str, Followed]:
        """What is followed of each position, a copy."""
        return deepcopy(_BACKGROUND[self].followed)

    @cached_property
    def history(self) -> Sequence[SessionResult]:
        """The earlier sessions of this run, oldest first: orders, fills, rejections, values and notes.

        It is read from the ledger, so it is the same after a resume; without a ledger it holds the sessions
        yielded so far.
        """
        return tuple(_BACKGROUND[self].run.history())

    @property
    def market(self) -> Session:
        """The session at the open, on a scratch copy of the account: the outcome of an order in advance.

        Only the orders that the decider returns are traded. Those of ``Decision(market.orders,
        in_order=True)`` are filled and rejected as here.
        """
        with self._lock:
            if self._market is None:
                self._market = Session.at_open(self.view, self.account, self.rules)
            return self._market

    def model(self, role: str) -> Any:
        """Return the chat model of one of the decider's roles; its calls are recorded and counted.

        Raises
        ------
        BadOption
            If the decider's ``roles`` do not list it, or the decision is not part of a run with models.
        """
        return _BACKGROUND[self].run.model(role)

    def check(self) -> None:
        """Raise the error that ends the run, if the decider swallowed it."""
        _BACKGROUND[self].run.check()

    def log_step(self, step: LoggedStep) -> None:
        """Keep one step of this decision in the execution log of the run's ledger; without one, do nothing.

        Each step is written at once, from any thread. What is kept cannot be read here, and no decision
        depends on it.

        Raises
        ------
        BadOption
            If the step is of another session, or its action or result is not JSON.
        LedgerConflict
            If the step is there already, or its execution has no step 1.
        StorageUnavailable
            If it cannot be written.
        """
        if step.session != self.session:
            raise BadOption(
                f"a step of {step.session:%Y-%m-%d} in the decision of {self.session:%Y-%m-%d}; must be of "
                "the session that is decided",
                parameter="step",
            )
        _BACKGROUND[self].run.log_step(step)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Enter a scope for a part of the work that is done side by side, such as one symbol.

        A thread in it has the moment of this decision, which a new thread has not, and its model calls and
        tools have a place in the record of their own: a replay finds them in whatever order threads work::

            def judge(symbol):
                with context.scope(symbol):
                    return context.model("judge").invoke(...)

        Raises
        ------
        BadOption
            On entry, if the name is not a text of 1 to 100 characters without ``/``, or is in use already.
        """
        run, variables, moment = _BACKGROUND[self].run, _BACKGROUND[self].variables, self.view.moment
        with self._claimed(name), _in_context(variables), deciding(moment), run.scope(name):
            yield

    @contextmanager
    def _claimed(self, name: str) -> Iterator[None]:
        if not (isinstance(name, str) and 1 <= len(name) <= _SCOPE_NAME_LENGTH and "/" not in name):
            raise BadOption(
                f"scope name {name!r:.120}; must be 1 to {_SCOPE_NAME_LENGTH} characters without '/'",
                parameter="name",
            )
        with self._lock:
            if name in self._open_scopes:
                raise BadOption(f"scope {name!r} is in use; each needs a name of its own", parameter="name")
            self._open_scopes.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._open_scopes.discard(name)


_BACKGROUND: WeakKeyDictionary[DecisionContext, _Background] = WeakKeyDictionary()


@contextmanager
def _in_context(context: Context) -> Iterator[None]:
    """Give this thread the variables of another thread's context."""
    tokens = [(variable, variable.set(value)) for variable, value in context.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)  # "api_key"


@dataclass(frozen=True, kw_only=True)
class DataNeeds:
    """Data that a decider reads besides the bars of the window.

    Attributes
    ----------
    sessions
        Sessions before the window, at least 0: 252 for the high of 52 weeks on the first session.
    indicators
        Daily indicators, ``("pe_ttm", "total_mv")``.
    records
        Kinds of dated records, ``("news",)``.

    Raises
    ------
    BadOption
        If ``sessions`` is not a whole number >= 0, or there is no such kind of records.
    """

    sessions: int = 0
    indicators: tuple[str, ...] = ()
    records: tuple[RecordKind, ...] = ()

    def __post_init__(self) -> None:
        if not is_whole(self.sessions) or self.sessions < 0:
            raise BadOption(f"sessions={self.sessions!r}; must be a whole number >= 0", parameter="sessions")
        for kind in self.records:
            if kind not in RECORD_KINDS:
                raise BadOption(
                    f"records: there is no kind {kind!r}; must be of {', '.join(RECORD_KINDS)}",
                    parameter="records",
                )


class Decider(ABC):
    """Turns what is known at a session's open, and the account, into orders.

    A decider has a name and one method. Everything else has a default here.

    Examples
    --------
    >>> class FirstDip(Decider):
    ...     name = "first_dip"
    ...
    ...     def decide(self, context):
    ...         last = context.view["ohlcv"]["close"].iloc[-1]
    ...         opens = context.view.row("ohlcv", "open")
    ...         dips = [str(symbol) for symbol in opens.index if opens[symbol] < 0.95 * last[symbol]]
    ...         return [
    ...             Order(symbol=symbol, side="buy", quantity=100, sequence=place, reason="5 % lower")
    ...             for place, symbol in enumerate(dips, start=1)
    ...             if symbol not in context.account.positions
    ...         ]
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_options_text(self)})"

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the decider: the ledger keeps it with every session."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Options as plain JSON: a run is not continued with others."""
        return {}

    @property
    def uses_signal(self) -> bool:
        """False: no signal is made, and every session of the window is traded."""
        return True

    @property
    def executes(self) -> frozenset[str]:
        """Words of a :class:`TradePlan` that are carried out where it decides; cash and exits are for any."""
        return FOR_ANYONE

    @property
    def needs(self) -> DataNeeds:
        """Data that it reads besides the bars of the window."""
        return DataNeeds()

    @abstractmethod
    def decide(self, context: DecisionContext) -> Decision | Sequence[Order]:
        """Decide the orders of one session."""

    def block_rule(self, context: DecisionContext) -> BlockRule | None:  # noqa: ARG002 - for subclasses
        """Return its rule as data, which array code can trade for many sessions at once.

        None: it is asked again in the next session. The rule must make the orders that :meth:`decide` makes.
        """
        return None


class ModelDecider(Decider):
    """A decider that asks models: their roles and prompts, and how it appears in sentences and on the page.

    Everything has a default; :attr:`roles` names the models that ``context.model`` hands out.
    """

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the models that it asks by :meth:`.DecisionContext.model`: part of the run's identity."""
        return ()

    @property
    def model_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Fields of the settings that it fixes for the models of its roles, by role: ``temperature``."""
        return {}

    @property
    def reads_rule(self) -> bool:
        """True: a rule in the user's words reaches it as :attr:`.DecisionContext.rule`, for its models.

        Only without a signal. If its models are the keyless planner, the rule is named as not executed.
        """
        return False

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its names in a sentence, which are not part of a rule."""
        return (self.name, self.name.replace("_", " "))

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:  # noqa: ARG002 - for subclasses
        """Return the notes of a run's result, from the notes of its sessions."""
        return ()

    @property
    def prompts(self) -> Mapping[str, str]:
        """Texts of its prompts by name; their hashes are part of the run's identity."""
        return {}

    @property
    def labels(self) -> Mapping[str, tuple[str, str]]:
        """Words of its page in Chinese and English: ``decider_NAME``, ``role_ROLE``, ``field_KEY``."""
        return {}

    @property
    def keyless(self) -> Mapping[str, Callable[[Sequence[Any], str], Any]]:
        """Replies of the keyless planner in its roles, by the name of the part of a prompt that each answers.

        See :func:`quantgraph.llm.messages.wrap`. A reply gets the conversation and the part's text, and
        returns a text, an object, or an ``AIMessage`` of at most one tool call.
        """
        return {}

    @classmethod
    def recorded(cls, options: Mapping[str, Any]) -> ModelDecider | None:  # noqa: ARG003 - for subclasses
        """Return the decider of a run's recorded options, for its replay; None if its name alone makes it."""
        return None

    @staticmethod
    def of(decider: Decider) -> ModelDecider:
        """The decider, or for one that asks no models an object with the defaults and its name."""
        return decider if isinstance(decider, ModelDecider) else _WithoutModels(decider.name)


class _WithoutModels(ModelDecider):
    """A decider that asks no models, as far as a :class:`ModelDecider` has more than it."""

    name = ""

    def __init__(self, name: str) -> None:
        self.name = name

    def decide(self, context: DecisionContext) -> Decision | Sequence[Order]:  # noqa: ARG002 - as the base
        return ()


def _options_text(decider: Decider) -> str:
    """The options of a decider that are set, without what is nested or secret."""
    try:
        options = dict(decider.options)
    except Exception as error:  # noqa: BLE001 - code of a user, and a representation never raises
        return f"options: {type(error).__name__}"
    hidden = {name for name, value in options.items() if isinstance(value, Mapping | list | tuple)}
    hidden |= {name for name in options if _SECRET.search(name)}
    return ", ".join(
        f"{name}={'…' if name in hidden else short_line(repr(value), 60)}"
        for name, value in options.items()
        if value is not None
    )
