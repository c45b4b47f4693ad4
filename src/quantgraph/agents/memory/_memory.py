"""Earlier decisions as known at a simulated moment, and a run's own ones, from its ledger alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from langgraph.store.base import BaseStore, Item
from langgraph.store.memory import InMemoryStore
from numpy.typing import NDArray

from quantgraph._util.database import storage_error
from quantgraph._util.files import storage_unavailable
from quantgraph._util.texts import short_line
from quantgraph._util.values import check_whole, is_whole
from quantgraph.agents.memory._episodes import DecisionEpisode, day_text
from quantgraph.broker import Fill, SessionResult
from quantgraph.errors import BadFile, BadFrame, BadOption
from quantgraph.recording.scope import call_once, replaying
from quantgraph.state import View
from quantgraph.tools.trading import column_adjustment

T = TypeVar("T")

HISTORY_HEADING = "Previous decisions:"
_OTHERS_HEADING = "Decisions of other runs, which are not of this account:"
_NAMESPACE = ("quantgraph", "episodes")
_PAGE = 1000


class EpisodicMemory:
    """Decisions that can be asked for by symbol, strategy, tags and action.

    Time is simulated time only: no clock is read. What a run reads of a memory that runs share is recorded
    with the run, so that a resume and a replay read the same, whatever other runs have added since.

    ``store`` is a LangGraph ``BaseStore``, which runs share and ``namespace`` names: ``SqliteStore`` or
    ``PostgresStore`` for what should last. By default it is an ``InMemoryStore`` of this object alone, and
    ``name``, which is the namespace, is "". ``as_of`` is the session at whose open it is read: episodes of it
    and of later days are not seen, and an outcome that became known later is not there; without it everything
    is seen. An argument that is not valid is a ``BadOption``, a database that is gone, locked or full a
    ``StorageUnavailable``.

    Examples
    --------
    >>> memory = EpisodicMemory(as_of="2025-06-12")
    >>> for day, target in ("2025-06-10", 5000), ("2025-06-12", 7000):
    ...     _ = memory.add(
    ...         DecisionEpisode(symbol="AAPL", action="increase", target_amount=target, date=day)
    ...     )
    >>> memory.get_for_prompt("AAPL")
    '2025-06-10: increase to $5000 (confidence: 0.5)'
    """

    def __init__(
        self, store: BaseStore | None = None, *, namespace: Sequence[str] = _NAMESPACE, as_of: object = None
    ) -> None:
        self._store, self._namespace = _checked(InMemoryStore() if store is None else store, namespace)
        self.name = "" if store is None else "/".join(self._namespace)
        self._lock = threading.RLock()  # LangGraph's store in memory cannot be written while it is searched
        self._as_of = None if as_of is None else day_text(as_of, "as_of")

    def at(self, as_of: object) -> EpisodicMemory:
        """The same memory as known at the open of a session, and never later than this one is."""
        other, day = copy(self), day_text(as_of, "as_of")
        vars(other)["_as_of"] = day if self._as_of is None else min(self._as_of, day)
        return other

    def add(self, episode: DecisionEpisode) -> str:
        """Keep an episode, in place of the one with its id, and return the id.

        A replay writes nothing into what runs share.
        """
        self.add_all([episode])
        return episode.id

    def add_all(self, episodes: Iterable[DecisionEpisode]) -> None:
        """:meth:`add` many at once."""
        if self.name and replaying():
            return
        with self._use():
            for each in episodes:
                found, body = self._store.get(self._namespace, each.id), each.to_json()
                if found is None or found.value != body:
                    self._store.put(self._namespace, each.id, body, index=False)

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there: of a decision that was rejected after it was added."""
        if not (self.name and replaying()):
            with self._use():
                self._store.delete(self._namespace, episode_id)

    def query(  # noqa: PLR0917 - the documented signature
        self,
        symbol: str | None = None,
        strategy: str | None = None,
        days: int | None = None,
        tags: Collection[str] | str | None = None,
        action: str | None = None,
        limit: int | None = 10,
    ) -> list[DecisionEpisode]:
        """Return the episodes that fit, newest first by simulated date.

        ``days`` are calendar days back from ``as_of``, or without one from the newest episode; any of
        ``tags`` fits; ``limit`` None returns all. A number that is not valid is a ``BadOption``, an item of
        the store that is not an episode a ``BadFile``.
        """
        for parameter, value in (("days", days), ("limit", limit)):
            if value is not None and (not is_whole(value) or value < 0):
                raise BadOption(
                    f"{parameter}={value!r:.40}; must be a whole number >= 0, or None", parameter=parameter
                )
        wanted = None if tags is None else sorted({tags} if isinstance(tags, str) else {*tags})
        asked = {"symbol": symbol, "strategy": strategy, "days": days, "tags": wanted, "action": action}

        def ask() -> list[dict[str, Any]]:
            seen = self._seen()
            since = _days_before(self._as_of or (seen[0].date if seen else ""), days)
            found = [
                each
                for each in seen
                if symbol in (None, each.symbol)
                and strategy in (None, each.strategy)
                and action in (None, each.action)
                and (wanted is None or not {*wanted}.isdisjoint(each.tags))
                and each.date >= since
            ]
            return [each.to_json() for each in found[:limit]]

        return [
            DecisionEpisode.from_json(each) for each in self._read("query", asked | {"limit": limit}, ask)
        ]

    def get_for_prompt(self, symbol: str, n: int = 5) -> str:
        """Lines of a symbol's last ``n`` episodes for a prompt, oldest first; "" without any.

        A last line says how many earlier ones are left out.
        """
        return self.texts([symbol], n).get(symbol, "")

    def texts(self, symbols: Iterable[str], n: int = 5) -> dict[str, str]:
        """:meth:`get_for_prompt` of each symbol that has some, read at once."""
        check_whole("n", n, 0)
        wanted = list(symbols)

        def ask() -> dict[str, str]:
            return {symbol: _lines(seen, n) for symbol, seen in _by_symbol(self._seen(), wanted).items()}

        return self._read("texts", {"symbols": wanted, "n": n}, ask)

    def histories(self, symbols: Iterable[str], run_id: str, n: int = 5) -> dict[str, str]:
        """The history of each symbol for a prompt: its last ``n`` episodes, apart from those of other runs.

        Each part has its heading, so that nothing that another run did reads as this account's past.
        """
        wanted = list(symbols)

        def ask() -> dict[str, str]:
            of_symbol = _by_symbol(self._seen(), wanted)
            return {symbol: "\n".join(_parts(seen, run_id, n)) for symbol, seen in of_symbol.items()}

        return self._read("histories", {"symbols": wanted, "n": n}, ask)

    @contextmanager
    def _use(self) -> Iterator[None]:
        """A use of the store, by one thread; an error of its database is a ``StorageUnavailable``."""
        where = "/".join(self._namespace)
        try:
            with self._lock:
                yield
        except Exception as error:
            cause, place = error.__cause__ or error, f"the memory {where}"  # SqliteStore wraps some
            told = storage_error(cause, place)
            if told is None and isinstance(cause, sqlite3.Error):  # it was closed, or lacks its table
                told = storage_unavailable(place, short_line(cause), "open its database anew")
            if told is None:
                raise
            raise told from error

    def _read(self, what: str, request: Mapping[str, Any], ask: Callable[[], T]) -> T:
        """Read plain JSON, of what runs share once in a run."""
        if not self.name:
            return ask()
        return call_once("tool", {"memory": self.name, "as_of": self._as_of, what: request}, ask)

    def _seen(self) -> list[DecisionEpisode]:
        """The episodes as known at the day, newest first, and of one day by symbol."""
        items = list[Item]()
        with self._use():
            while page := self._store.search(self._namespace, limit=_PAGE, offset=len(items)):
                items += page
        own = (_episode(item) for item in items if tuple(item.namespace) == self._namespace)
        day = self._as_of
        known = (each if day is None else each.as_of(day) for each in own)
        seen = sorted((each for each in known if each), key=lambda each: (each.symbol, each.id))
        return sorted(seen, key=lambda each: each.date, reverse=True)


def _episode(item: Item) -> DecisionEpisode:
    try:
        return DecisionEpisode.from_json(item.value)
    except BadOption as error:
        where = "/".join(item.namespace)
        raise BadFile(
            f"item {item.key!r:.80} of the store {where} is not an episode: {error}", path=where
        ) from error


def _days_before(day: str, days: int | None) -> str:
    if days is None or not day:
        return ""
    end = date.fromisoformat(day)
    return (end - timedelta(days=min(days, end.toordinal() - 1))).isoformat()


def _by_symbol(
    newest_first: Iterable[DecisionEpisode], symbols: Iterable[str]
) -> dict[str, list[DecisionEpisode]]:
    """The episodes of each symbol that has some."""
    found: dict[str, list[DecisionEpisode]] = {symbol: [] for symbol in symbols}
    for each in newest_first:
        if each.symbol in found:
            found[each.symbol].append(each)
    return {symbol: episodes for symbol, episodes in found.items() if episodes}


def _parts(newest_first: Sequence[DecisionEpisode], run_id: str, n: int) -> Iterator[str]:
    """The history of a symbol under its headings: the run's own, and that of other runs."""
    for heading, is_own in ((HISTORY_HEADING, True), (_OTHERS_HEADING, False)):
        part = [each for each in newest_first if (each.run_id == run_id) == is_own]
        if part:
            yield f"{heading}\n{_lines(part, n)}"


def _lines(newest_first: Sequence[DecisionEpisode], n: int) -> str:
    """Lines of the last ``n`` episodes, oldest first, and one that says how many are left out."""
    lines = [each.line for each in reversed(newest_first[:n])]
    left = len(newest_first) - len(lines)
    more = [f"({left} earlier {'one is' if left == 1 else 'ones are'} left out)"] if left else []
    return "\n".join([*lines, *more])


def _checked(store: object, namespace: Sequence[str]) -> tuple[BaseStore, tuple[str, ...]]:
    parts = tuple(namespace)
    if isinstance(namespace, str) or not parts or not all(isinstance(each, str) and each for each in parts):
        raise BadOption(f"namespace={namespace!r:.80}; must be a tuple of texts", parameter="namespace")
    if not isinstance(store, BaseStore):
        valid = "must be a LangGraph BaseStore, such as SqliteStore"
        raise BadOption(f"store={store!r:.80}; {valid}", parameter="store")
    return store, parts


_SIDES = {"increase": "buy", "decrease": "sell", "close": "sell"}

Floats = NDArray[np.float64]
_ADJUSTED_BY = ("close", "adj_factor", "pre_close", "dividend", "split")


@dataclass(kw_only=True)
class EpisodeMemo:
    """What :func:`episodes_of` found so far, so that the next session costs little. It changes no result."""

    sessions: dict[tuple[str, int, str], list[_Session]] = field(default_factory=dict)


class _Session(NamedTuple):
    """The episodes of a session, and whether all outcomes are known."""

    result: SessionResult
    episodes: list[DecisionEpisode]
    is_settled: bool


def episodes_of(
    history: Sequence[SessionResult],
    view: View,
    *,
    name: str,
    horizon: int = 3,
    run_id: str = "",
    memo: EpisodeMemo | None = None,
) -> list[DecisionEpisode]:
    """Return the decisions that were traded, with the outcomes known at the view's moment, oldest first.

    An episode is a decision of a session's notes (``notes["decisions"]``) to increase, decrease or close,
    whose order was filled, at least in part. A rejected order or a hold is not an episode. Its outcome is
    the return in percent from the price of the fill to the open ``horizon`` sessions later, or to the first
    open after that, adjusted for dividends and splits; for a decrease or a close its sign is turned. It is
    known from the session of that open on.

    ``history`` are the earlier sessions of a run, ``name`` the decider's, the ``strategy`` of the episodes:
    sessions of other deciders are left out. ``memo`` is kept by the caller from session to session: only new
    sessions and open outcomes are worked on. A ``horizon`` that is not a whole number >= 1 is a
    ``BadOption``.
    """
    check_whole("horizon", horizon, 1)
    prices = _Prices(view)
    kept = [] if memo is None else memo.sessions.setdefault((name, horizon, run_id), [])
    episodes: list[DecisionEpisode] = []
    for place, result in enumerate(history):
        before = kept[place] if place < len(kept) and kept[place].result is result else None
        if before is None or not before.is_settled:
            outcome = partial(prices.outcome, result.session, horizon)
            found = _traded(result, name, run_id) if before is None else before.episodes
            found = [each if each.actual_result is not None else outcome(each) for each in found]
            settled = all(each.actual_result is not None for each in found)
            before = _Session(result, found, is_settled=settled)
            kept[place : place + 1] = [before]
        episodes += before.episodes
    return episodes


def history_texts(episodes: Iterable[DecisionEpisode], symbols: Iterable[str], n: int = 5) -> dict[str, str]:
    r"""Return the last ``n`` episodes of each symbol that has some, oldest first, as text for a prompt.

    >>> history_texts(
    ...     [DecisionEpisode(symbol="AAPL", action="close", confidence=0.8, date="2025-06-10")],
    ...     ["AAPL", "TSLA"],
    ... )
    {'AAPL': 'Previous decisions:\n2025-06-10: close to $0 (confidence: 0.8)'}
    """
    of_symbol = _by_symbol(reversed(list(episodes)), symbols)
    return {symbol: f"{HISTORY_HEADING}\n{_lines(found, n)}" for symbol, found in of_symbol.items()}


def _traded(result: SessionResult, name: str, run_id: str) -> list[DecisionEpisode]:
    decisions = result.notes.get("decisions") if result.decider == name else None
    if not isinstance(decisions, Mapping):
        return []
    fills: dict[str, list[Fill]] = {}
    for fill in result.fills:
        fills.setdefault(fill.order.symbol, []).append(fill)
    episodes = []
    for symbol, decision in decisions.items():
        side = _SIDES.get(decision["action"])
        own = [fill for fill in fills.get(symbol, ()) if fill.side == side]
        if own:
            reasons = decision.get("reasons", [])
            episodes.append(
                DecisionEpisode(
                    date=f"{result.session:%Y-%m-%d}",
                    symbol=symbol,
                    strategy=name,
                    action=decision["action"],
                    target_amount=decision.get("wished_cash_amount", decision["target_cash_amount"]),
                    confidence=decision["confidence"],
                    reasoning="; ".join(reasons),
                    reasons=reasons,
                    tags=decision.get("tags", []),
                    run_id=run_id,
                    **_filled(own),
                )
            )
    return episodes


def _filled(fills: Sequence[Fill]) -> dict[str, Any]:
    """What was traded of a decision; the price is the mean of a share."""
    traded = sum((fill.notional for fill in fills), Decimal())
    shares = sum((Decimal(fill.quantity) for fill in fills), Decimal())
    paid = sum((fill.price * fill.quantity for fill in fills), Decimal())
    return {
        "shares": float(shares),
        "cash_change": float(traded if fills[0].side == "buy" else -traded),
        "market_context": {"fill_price": float(paid / shares)},
    }


class _Prices:
    """Prices of a view by symbol."""

    def __init__(self, view: View) -> None:
        self._panel = view["ohlcv"]
        self._columns: dict[str, tuple[NDArray[np.datetime64], Floats, dict[str, int]]] = {}

    def outcome(self, session: pd.Timestamp, horizon: int, episode: DecisionEpisode) -> DecisionEpisode:
        """The episode with its outcome, if that is known by now."""
        symbol, price = episode.symbol, episode.market_context["fill_price"]
        sessions, opens = self._column("open", symbol)
        first = int(np.searchsorted(sessions, session.to_datetime64())) + horizon
        known = np.flatnonzero(np.isfinite(opens[first:]) & (opens[first:] > 0))
        if not known.size:
            return episode
        place = first + int(known[0])
        grown = opens[place] * self._growth(symbol, session, sessions[place]) / price - 1
        sign = 1 if episode.action == "increase" else -1
        return episode.with_outcome(float(100 * sign * grown), f"{pd.Timestamp(sessions[place]):%Y-%m-%d}")

    def _growth(self, symbol: str, since: pd.Timestamp, day: np.datetime64) -> float:
        """What one share of ``since`` has become by ``day``, dividends put into the share."""
        columns = {name: self._column(name, symbol) for name in _ADJUSTED_BY if name in self._panel}
        ends = np.array([since.to_datetime64(), day])
        with suppress(BadFrame):  # a dividend above the price adjusts nothing
            factors = column_adjustment(symbol, columns, ends)
            if factors is not None and np.isfinite(factors).all():
                return float(factors[1] / factors[0])
        return 1.0

    def _column(self, name: str, symbol: str) -> tuple[NDArray[np.datetime64], Floats]:
        if name not in self._columns:
            frame = self._panel.frozen(name)
            places = {each: place for place, each in enumerate(frame.symbols)}
            self._columns[name] = frame.sessions, frame.values, places
        sessions, values, places = self._columns[name]
        place = places.get(symbol)
        return sessions, np.full(len(sessions), np.nan) if place is None else values[:, place]
