"""One decision that was traded, with its outcome once that is known, and where such episodes are kept."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from datetime import date
from typing import TYPE_CHECKING, Any

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import short_line
from quantgraph._util.values import finite_number
from quantgraph.errors import BadFile, BadOption, BadWindow
from quantgraph.market import session_of
from quantgraph.market.rules import find_board

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore


_SHOWN_REASON = 120
_ISO = re.compile(r"\d{4}-\d\d-\d\d")  # "2024-01-02"
_NUMBERS = ("target_amount", "cash_change", "shares", "confidence", "importance")
_TEXTS = ("strategy", "reasoning", "outcome_note", "run_id", "id")
_LISTS = ("reasons", "tags")
_MAPPINGS = ("market_context", "signals")


@dataclass(frozen=True, kw_only=True)
class DecisionEpisode:
    """A decision of one symbol on one simulated day.

    Attributes
    ----------
    date
        The simulated session, ``YYYY-MM-DD``; default: that of ``market_context``. Never today's.
    symbol, strategy, action
        What was decided by whom: ``increase``, ``decrease`` or ``close``.
    target_amount, cash_change
        The wished value of the position, and what is bought (positive) or sold for.
    shares
        Shares that were traded.
    confidence, importance
        From 0 to 1.
    reasoning, reasons
        Why, in one text and as a list.
    market_context, signals
        Plain JSON about the open.
    actual_result
        What came of it, in percent: the return of the price, positive where the decision was right; None
        while it is not known.
    outcome_known
        The session from which ``actual_result`` is known; "" if it never is.
    outcome_note
        Remark on the outcome.
    tags
        For :meth:`.EpisodicMemory.query`.
    run_id
        The run.
    id
        Default: made of run, strategy, date and symbol, so that adding the episode again, with its outcome,
        replaces it.

    Raises
    ------
    BadOption
        If a value is not valid, or there is no date.

    Examples
    --------
    >>> episode = DecisionEpisode(
    ...     symbol="AAPL", action="increase", target_amount=5000, confidence=0.8, date="2025-06-10"
    ... )
    >>> episode.line
    '2025-06-10: increase to $5000 (confidence: 0.8)'
    """

    symbol: str
    action: str
    date: str = ""
    strategy: str = ""
    target_amount: float = 0.0
    cash_change: float = 0.0
    shares: float = 0.0
    confidence: float = 0.5
    reasoning: str = ""
    reasons: Sequence[str] = ()
    market_context: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, Any] = field(default_factory=dict)
    actual_result: float | None = None
    outcome_known: str = ""
    outcome_note: str = ""
    tags: Sequence[str] = ()
    importance: float = 0.5
    run_id: str = ""
    id: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.symbol, str) or not self.symbol:
            raise _invalid("symbol", self.symbol, "a text that is not empty")
        if not isinstance(self.action, str) or not self.action or not self.action.isprintable():
            raise _invalid("action", self.action, "a word such as increase, decrease or close")
        for names, read in ((_TEXTS, _text), (_MAPPINGS, _plain), (_LISTS, _texts), (_NUMBERS, _number)):
            for name in names:
                self._set(name, read(name, getattr(self, name)))
        for name in ("confidence", "importance"):
            if not 0 <= getattr(self, name) <= 1:
                raise _invalid(name, getattr(self, name), "a number from 0 to 1")
        self._set("date", day_text(self.date or self.market_context.get("date") or "", "date"))
        _set_outcome(self, self.actual_result, self.outcome_known, self.outcome_note)
        if not self.id:
            key = canonical_json([self.run_id, self.strategy, self.date, self.symbol])
            self._set("id", f"ep_{self.date.replace('-', '')}_{content_hash(key, size=8)}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def line(self) -> str:
        """The decision as a line of a prompt: with the outcome once it is known, and the first reason."""
        line = decision_line(self.date, self.action, self.target_amount, self.confidence, symbol=self.symbol)
        if self.actual_result is not None:
            line = f"{line} -> {self.actual_result:+.1f}%"
        return f"{line}; {short_line(self.reasons[0], _SHOWN_REASON)}" if self.reasons else line

    def with_outcome(
        self, actual_result: float | None, outcome_known: str = "", outcome_note: str = ""
    ) -> DecisionEpisode:
        """The same episode with another outcome, None for none."""
        episode = copy(self)
        _set_outcome(episode, actual_result, outcome_known, outcome_note)
        return episode

    def as_of(self, day: str) -> DecisionEpisode | None:
        """The episode as known at the open of a session, ``YYYY-MM-DD``; None if it is not before it.

        An outcome without the day it is known from is never known.
        """
        if self.date >= day:
            return None
        if self.actual_result is None or (self.outcome_known and self.outcome_known <= day):
            return self
        return self.with_outcome(None)

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {name: list(values[name]) for name in _LISTS}

    @classmethod
    def from_json(cls, body: object) -> DecisionEpisode:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        BadOption
            If it is not an object, a field is not known or missing, or a value is not valid.
        """
        if not isinstance(body, dict):
            raise BadOption(
                f"an episode must be a JSON object, not {type(body).__name__}", parameter="episode"
            )
        names = {each.name for each in fields(cls)}
        if unknown := sorted(map(str, body.keys() - names)):
            raise BadOption(f"an episode has no field {unknown[0]!r:.60}", parameter="episode")
        if missing := sorted({"symbol", "action"} - body.keys()):
            raise BadOption(f"an episode must have the field {missing[0]!r}", parameter="episode")
        return cls(**body)


def decision_line(date: str, action: str, target: float, confidence: float, *, symbol: str = "") -> str:
    """A decision as a line of a prompt, in the currency of the symbol's market.

    >>> decision_line("2025-06-11", "hold", 5000.0, 0.7)
    '2025-06-11: hold at $5000 (confidence: 0.7)'
    >>> decision_line("2025-06-11", "close", 0.0, 0.7, symbol="600519.SH")
    '2025-06-11: close to ¥0 (confidence: 0.7)'
    """
    to, sign = "at" if action == "hold" else "to", "$" if find_board(symbol) in (None, "us") else "¥"
    return f"{date}: {action} {to} {sign}{target:.0f} (confidence: {confidence:.2g})"


def day_text(day: object, parameter: str) -> str:
    """A day as ``YYYY-MM-DD``."""
    if isinstance(day, str) and _ISO.fullmatch(day):
        with suppress(ValueError):
            return date.fromisoformat(day).isoformat()
    try:
        return f"{session_of(day):%Y-%m-%d}"
    except BadWindow as error:
        raise _invalid(parameter, day, "a simulated date such as 2025-06-10") from error


def _set_outcome(episode: DecisionEpisode, result: float | None, known: str, note: str) -> None:
    values = {
        "actual_result": None if result is None else _number("actual_result", result),
        "outcome_known": known and day_text(known, "outcome_known"),
        "outcome_note": _text("outcome_note", note),
    }
    for name, value in values.items():
        object.__setattr__(episode, name, value)


def _invalid(name: str, value: object, valid: str) -> BadOption:
    return BadOption(f"{name}={value!r:.60} of an episode; must be {valid}", parameter=name)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _invalid(name, value, "a text")
    return value


def _number(name: str, value: object) -> float:
    number = finite_number(value)
    if number is None:
        raise _invalid(name, value, "a finite number")
    return number


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise _invalid(name, value, "a list of texts")
    return tuple(value)


def _plain(name: str, value: object) -> dict[str, Any]:
    if value == {}:
        return {}
    try:
        canonical_json(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(name, value, "plain JSON") from error
    if not isinstance(value, dict):
        raise _invalid(name, value, "a dict of plain JSON")
    return value


_PAGE = 1000


class EpisodeStore:
    """Episodes by id in a namespace of a LangGraph ``BaseStore``, one item an episode.

    An episode replaces the one with its id.
    """

    def __init__(self, store: BaseStore, namespace: tuple[str, ...]) -> None:
        self._store, self._namespace = store, namespace
        self._lock = threading.RLock()  # LangGraph's store in memory cannot be written while it is searched
        self._read: dict[str, tuple[object, DecisionEpisode]] = {}
        self._sorted: dict[str | None, list[DecisionEpisode]] = {}

    def refresh(self) -> None:
        """Take what others have written since."""
        with self._lock:
            found: defaultdict[str | None, list[DecisionEpisode]] = defaultdict(list)
            for each in sorted(self._all(), key=lambda each: (each.symbol, each.id)):
                found[None].append(each)
                found[each.symbol].append(each)
            for episodes in found.values():
                episodes.sort(key=lambda each: each.date, reverse=True)
            self._sorted = dict(found)

    def add(self, episodes: Sequence[DecisionEpisode]) -> None:
        """Write the episodes that are not there already."""
        with self._lock:
            for each in episodes:
                found, body = self._store.get(self._namespace, each.id), each.to_json()
                if found is None or found.value != body:
                    self._store.put(self._namespace, each.id, body, index=False)

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there."""
        with self._lock:
            self._store.delete(self._namespace, episode_id)

    def episodes(self, symbol: str | None = None) -> Sequence[DecisionEpisode]:
        """All episodes of the last refresh, or those of a symbol; newest first, and of one day by symbol."""
        return self._sorted.get(symbol, ())

    def _all(self) -> Iterator[DecisionEpisode]:
        read = 0
        while page := self._store.search(self._namespace, limit=_PAGE, offset=read):
            for item in page:
                if tuple(item.namespace) == self._namespace:
                    yield self._episode(item.key, item.value)
            read += len(page)

    def _episode(self, key: str, value: object) -> DecisionEpisode:
        """The episode of an item, read once for each value."""
        before = self._read.get(key)
        if before is None or before[0] != value:
            try:
                before = self._read[key] = deepcopy(value), DecisionEpisode.from_json(value)
            except BadOption as error:
                raise BadFile(
                    f"item {key!r:.80} of the store {'/'.join(self._namespace)} is not an episode: {error}",
                    path="/".join(self._namespace),
                ) from error
        return before[1]
