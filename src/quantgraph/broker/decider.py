"""How a decider is called: the base class, what it needs, what it returns, and its rule as plain data."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pandas as pd

from quantgraph._util.canonical_json import canonical_json
from quantgraph._util.notebook_html import short_line
from quantgraph._util.texts import Note
from quantgraph.broker.orders import Order
from quantgraph.errors import BadOption
from quantgraph.state.records import RECORD_KINDS, RecordKind

if TYPE_CHECKING:
    from quantgraph.broker.decision_context import DecisionContext


NOTES_LIMIT = 1_000_000
"""Characters of a decision's notes, as JSON."""

_SECRET = re.compile(r"key|token|secret|password", re.IGNORECASE)
_ORDER = tuple(each.name for each in fields(Order))


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
        if isinstance(self.sessions, bool) or not isinstance(self.sessions, int) or self.sessions < 0:
            raise BadOption(f"sessions={self.sessions!r}; must be a whole number >= 0", parameter="sessions")
        for kind in self.records:
            if kind not in RECORD_KINDS:
                raise BadOption(
                    f"records: there is no kind {kind!r}; must be of {', '.join(RECORD_KINDS)}",
                    parameter="records",
                )


@dataclass(frozen=True)
class Decision:
    """What a decider decided for one session.

    Attributes
    ----------
    orders
        Filled or rejected in this session. A decider may return the orders alone instead of a decision.
    notes
        Plain JSON by name, such as the reasons of a hold: kept in the ledger beside the orders.
    in_order
        True submits the orders of each auction as listed, as :class:`.SessionMarket` was told them; False
        submits sells before buys, so that a buy may spend what a sale brings.
    """

    orders: Sequence[Order] = ()
    notes: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    in_order: bool = field(default=False, kw_only=True)


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
    def needs(self) -> DataNeeds:
        """Data that it reads besides the bars of the window."""
        return DataNeeds()

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
    def called(self) -> tuple[str, ...]:
        """What people call it in a sentence: such words are no part of a rule."""
        return (self.name, self.name.replace("_", " "))

    def remarks(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:  # noqa: ARG002 - for subclasses
        """Return what a person must know of how a run was decided, from the notes of its sessions.

        Only deciders with :attr:`roles` are asked.
        """
        return ()

    @property
    def prompts(self) -> Mapping[str, str]:
        """Texts of its prompts by name; their hashes are part of the run's identity."""
        return {}

    @abstractmethod
    def decide(self, context: DecisionContext) -> Decision | Sequence[Order]:
        """Decide the orders of one session."""

    def block_rule(self, context: DecisionContext) -> BlockRule | None:  # noqa: ARG002 - for subclasses
        """Return its rule as data, which array code can trade for many sessions at once.

        None: it is asked again in the next session. The rule must make the orders that :meth:`decide` makes.
        """
        return None


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


@dataclass(frozen=True, kw_only=True)
class BlockRule:
    """A decider's rule as plain data, see :class:`~quantgraph.agents.SignalRule`.

    Attributes
    ----------
    name
        The decider's name.
    trades
        False keeps the holdings as they are.
    signal
        Name of the signal; None means the only one there is.
    weights
        Share of the investable equity by symbol; None means equal shares.
    max_positions
        Largest number of positions; None means no limit.
    max_weight, cash_reserve
        Exact fractions.
    ticket
        Cash of one entry; None means a share of the investable equity.
    """

    name: str
    trades: bool
    signal: str | None = None
    weights: Mapping[str, Fraction] | None = None
    max_positions: int | None = None
    max_weight: Fraction = Fraction(1)
    cash_reserve: Fraction = Fraction(0)
    ticket: Decimal | None = None


def check_decider(decider: object) -> Decider:
    """Return the decider.

    Raises
    ------
    BadOption
        If it is not an instance of :class:`Decider`.
    """
    if isinstance(decider, Decider):
        return decider
    if isinstance(decider, type):
        said = f"an instance, {decider.__name__}(...), not the class {decider.__name__}"
    else:
        said = f"an instance of quantgraph.broker.Decider, which {decider!r:.60} is not"
    raise BadOption(f"decider must be {said}", parameter="decider")


def validate_decision(name: str, returned: object, session: pd.Timestamp) -> Decision:
    """Copy what a decider returned, so that later changes to its own objects have no effect.

    Raises
    ------
    BadOption
        If it is neither a decision nor a list of orders, or the notes are not plain JSON of at most
        :data:`NOTES_LIMIT` characters.
    """
    decision = returned if isinstance(returned, Decision) else None
    listed = returned if decision is None else decision.orders
    orders = list(listed) if isinstance(listed, list | tuple) else [None]
    where = f"decider {name!r} returned {{}} on {session:%Y-%m-%d}"
    if not all(isinstance(order, Order) for order in orders):
        raise BadOption(
            f"{where.format(f'{listed!r:.80}')}; must be a Decision or a list of Order", parameter="decider"
        )
    copies = [Order(**{part: getattr(order, part) for part in _ORDER}) for order in orders]
    if decision is None:
        return Decision(copies)
    return Decision(copies, notes=_plain(decision.notes, where), in_order=bool(decision.in_order))


def _plain(notes: object, where: str) -> dict[str, Any]:
    try:
        text = canonical_json(notes, allow_nan=False)
        copied = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        text, copied = "", None
    if not isinstance(copied, dict) or copied != notes or len(text) > NOTES_LIMIT:
        raise BadOption(
            f"{where.format('notes')} that are not valid; must be a dict of plain JSON (text keys, no NaN, "
            f"no tuples) of at most {NOTES_LIMIT:,} characters",
            parameter="notes",
        )
    return copied
