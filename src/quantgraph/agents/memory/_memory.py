"""Earlier decisions, as known at a simulated moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from quantgraph._util.values import check_whole, is_whole
from quantgraph.agents.memory._episodes import DecisionEpisode, day_text
from quantgraph.agents.memory._store import EpisodeFile, EpisodeStore, GraphStore
from quantgraph.errors import BadOption
from quantgraph.recording.scope import recorded, replaying

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore


T = TypeVar("T")

HISTORY_HEADING = "Previous decisions:"
_OTHERS_HEADING = "Decisions of other runs, which are not of this account:"
_NAMESPACE = ("quantgraph", "episodes")


class EpisodicMemory:
    """Decisions that can be asked for by symbol, strategy, tags and action.

    Time is simulated time only: no clock is read. What a run reads of a memory that runs share is recorded
    with the run, so that a resume and a replay read the same, whatever other runs have added since.

    Parameters
    ----------
    store
        None keeps the episodes in this object. What runs share is given by name: a JSONL file, or a
        LangGraph ``BaseStore``.
    namespace
        Of a ``BaseStore``.
    as_of
        The session on whose morning is read: episodes of it and of later days are not seen, and an outcome
        that became known later is not there. None: everything is seen.

    Raises
    ------
    BadOption
        If an argument is not valid.

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
        self,
        store: str | Path | BaseStore | None = None,
        *,
        namespace: Sequence[str] = _NAMESPACE,
        as_of: object = None,
    ) -> None:
        self._store = _opened(store, namespace)
        self._as_of = None if as_of is None else day_text(as_of, "as_of")

    @property
    def name(self) -> str:
        """Name of the file, or the namespace; "" if it is in this object alone."""
        return self._store.name

    def at(self, as_of: object) -> EpisodicMemory:
        """The same memory as known on the morning of a session, and never later than this one is."""
        other = EpisodicMemory(as_of=as_of)
        other._store = self._store
        if self._as_of is not None:
            other._as_of = min(self._as_of, other._as_of or self._as_of)
        return other

    def add(self, episode: DecisionEpisode) -> str:
        """Keep an episode, in place of the one with its id, and return the id.

        A replay writes nothing into what runs share.

        Raises
        ------
        BadFile, StorageUnavailable
            If the store is damaged, or cannot be written.
        """
        self.add_all([episode])
        return episode.id

    def add_all(self, episodes: Iterable[DecisionEpisode]) -> None:
        """:meth:`add` many at once, which a file takes in one write."""
        if not (self.name and replaying()):
            self._store.add(list(episodes))

    def discard(self, episode_id: str) -> None:
        """Drop an episode, if it is there: of a decision that was rejected after it was added."""
        if not (self.name and replaying()):
            self._store.discard(episode_id)

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

        Parameters
        ----------
        days
            Calendar days back from ``as_of``, or without one from the newest episode; None: all.
        tags
            Any of these.
        limit
            Most episodes; None: all.

        Raises
        ------
        BadOption
            If ``days`` or ``limit`` is not a whole number >= 0.
        BadFile, StorageUnavailable
            If the store is damaged, or cannot be read.
        """
        for parameter, value in (("days", days), ("limit", limit)):
            if value is not None and (not is_whole(value) or value < 0):
                raise BadOption(
                    f"{parameter}={value!r:.40}; must be a whole number >= 0, or None", parameter=parameter
                )
        wanted = None if tags is None else sorted({tags} if isinstance(tags, str) else {*tags})
        asked = {"symbol": symbol, "strategy": strategy, "days": days, "tags": wanted, "action": action}

        def ask() -> list[DecisionEpisode]:
            self._store.refresh()
            since = self._since(days)
            found = [
                each
                for each in self._seen(symbol)
                if strategy in (None, each.strategy)
                and action in (None, each.action)
                and (wanted is None or not {*wanted}.isdisjoint(each.tags))
                and each.date >= since
            ]
            return self._as_known(found[:limit])

        if not self.name:
            return ask()
        told = self._read("query", asked | {"limit": limit}, lambda: [each.to_json() for each in ask()])
        return [DecisionEpisode.from_json(each) for each in told]

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
            self._store.refresh()
            found = ((symbol, self._seen(symbol)) for symbol in wanted)
            return {
                symbol: "\n".join(_lines(self._as_known(seen[:n]), len(seen)))
                for symbol, seen in found
                if seen
            }

        return self._read("texts", {"symbols": wanted, "n": n}, ask)

    def histories(self, symbols: Iterable[str], run_id: str, n: int = 5) -> dict[str, str]:
        """What a run's prompt is told of each symbol: its last ``n`` episodes, and apart those of other runs.

        Each part has its heading, so that nothing that another run did reads as this account's past.
        """
        wanted = list(symbols)

        def ask() -> dict[str, str]:
            self._store.refresh()
            return {
                symbol: "\n".join(self._parts(seen, run_id, n))
                for symbol in wanted
                if (seen := self._seen(symbol))
            }

        # Without the run's name: a branch of the run makes the same requests under another one.
        return self._read("histories", {"symbols": wanted, "n": n}, ask)

    def _parts(self, seen: Sequence[DecisionEpisode], run_id: str, n: int) -> Iterator[str]:
        for heading, is_own in ((HISTORY_HEADING, True), (_OTHERS_HEADING, False)):
            part = [each for each in seen if (each.run_id == run_id) == is_own]
            if part:
                yield "\n".join([heading, *_lines(self._as_known(part[:n]), len(part))])

    def _read(self, what: str, request: Mapping[str, Any], ask: Callable[[], T]) -> T:
        """Read plain JSON, of what runs share once in a run."""
        if not self.name:
            return ask()
        return recorded("tool", {"memory": self.name, "as_of": self._as_of, what: request}, ask)

    def _seen(self, symbol: str | None) -> Sequence[DecisionEpisode]:
        """Episodes before the day, with outcomes that may not be known yet."""
        episodes, day = self._store.episodes(symbol), self._as_of
        return episodes if day is None else [each for each in episodes if each.date < day]

    def _as_known(self, seen: Sequence[DecisionEpisode]) -> list[DecisionEpisode]:
        day = self._as_of
        if day is None:
            return list(seen)
        return [known for each in seen if (known := each.as_of(day)) is not None]

    def _since(self, days: int | None) -> str:
        if days is None:
            return ""
        newest = next((each.date for each in self._store.episodes()), None)
        day = self._as_of or newest
        if day is None:
            return ""
        end = date.fromisoformat(day)
        return (end - timedelta(days=min(days, end.toordinal() - 1))).isoformat()


def episode_lines(newest_first: Sequence[DecisionEpisode], n: int) -> list[str]:
    """Lines of the last ``n`` episodes, oldest first, and one that says how many are left out."""
    return _lines(newest_first[:n], len(newest_first))


def _lines(newest_first: Sequence[DecisionEpisode], count: int) -> list[str]:
    lines = [each.line for each in reversed(newest_first)]
    left = count - len(lines)
    return [*lines, f"({left} earlier {'one is' if left == 1 else 'ones are'} left out)"] if left else lines


def _opened(store: str | Path | BaseStore | None, namespace: Sequence[str]) -> EpisodeStore:
    if store is None:
        return EpisodeStore()
    if isinstance(store, str | Path):
        if Path(store).is_dir() or not str(store):
            raise BadOption(f"store={str(store)!r:.80}; must be a file, which is made", parameter="store")
        return EpisodeFile(Path(store))
    if not all(hasattr(store, method) for method in ("get", "put", "search")):
        raise BadOption(
            f"store must be a path or a LangGraph BaseStore, not {type(store).__name__}", parameter="store"
        )
    parts = tuple(namespace)
    if isinstance(namespace, str) or not parts or not all(isinstance(each, str) and each for each in parts):
        raise BadOption(f"namespace={namespace!r:.80}; must be a tuple of texts", parameter="namespace")
    return GraphStore(store, parts)
