"""One model call: served from the record or the cache, else sent within the budget and recorded.

The cache keeps replies across runs, by the content of the request and how often the run has made it before:
those of an attempt once it has succeeded, which shows that they are usable, and none of a failed one.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_core.messages import AIMessage
from sqlalchemy import Column, Float, MetaData, String, Table, Text, delete, insert, select

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.database import create_tables, open_engine
from quantgraph.errors import BadFile, BudgetExceeded, ModelUnavailable, QuantGraphError, StorageUnavailable
from quantgraph.llm._retry import (
    AT_ONCE,
    ModelFacts,
    classify_error,
    current_run_control,
    drain_error,
    is_abandoned,
)
from quantgraph.llm.messages._json import (
    ModelRequest,
    finish_reason,
    is_usable,
    message_from_json,
    reply_to_json,
    token_counts,
)
from quantgraph.recording import (
    Caller,
    CallEstimate,
    CallUsage,
    Entry,
    Key,
    Reservation,
    error_json,
    max_tokens_of,
    no_answer_text,
)
from quantgraph.recording.scope import NumberedCall, Scope

if TYPE_CHECKING:
    from langgraph.runtime import RunControl


CacheMode = Literal["off", "llm_write_only", "full"]
"""``full`` serves kept replies. ``llm_write_only`` calls the model and keeps its reply."""

_SCHEMA = MetaData()
_replies = Table(
    "replies",
    _SCHEMA,
    Column("request", String(32), primary_key=True),
    Column("at", Float, nullable=False),
    Column("reply", Text, nullable=False),
)
_HOUR = 3600.0


class ReplyCache:
    """Replies in a file, served for some hours. Safe for several threads and processes."""

    def __init__(self, path: Path, *, mode: CacheMode = "full", ttl_hours: float = 24.0) -> None:
        self.mode = mode
        self._seconds = ttl_hours * _HOUR
        self._engine = open_engine(path)
        self._writer = self._engine.execution_options(quantgraph_writes=True)
        create_tables(self._engine, _SCHEMA)

    def get(self, request: str) -> str | None:
        """The reply to a request, by the request's digest; None if it is missing, expired, or not served."""
        if self.mode != "full":
            return None
        query = select(_replies.c.reply).where(
            _replies.c.request == request, _replies.c.at > time.time() - self._seconds
        )
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def put(self, request: str, reply: str) -> None:
        """Keep a reply and replace an earlier one."""
        if self.mode == "off":
            return
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))
            connection.execute(insert(_replies).values(request=request, at=time.time(), reply=reply))

    def drop(self, request: str) -> None:
        """Drop a reply, if there is one."""
        with self._writer.begin() as connection:
            connection.execute(delete(_replies).where(_replies.c.request == request))


@cache
def reply_cache(folder: Path, mode: CacheMode, ttl_hours: float) -> ReplyCache | None:
    """The cache of a folder, one per process; None if the mode is ``off``."""
    if mode == "off":
        return None
    return ReplyCache(folder / "models.sqlite", mode=mode, ttl_hours=ttl_hours)


class PendingReply(NamedTuple):
    """A reply of an attempt: a new one, or None for the one in the cache."""

    cache: ReplyCache
    request: str
    reply: str | None


_ATTEMPT: ContextVar[list[PendingReply] | None] = ContextVar("attempt", default=None)


def add_pending(cache: ReplyCache, request: str, reply: str | None) -> None:
    """Add a reply to the current attempt; without an attempt it is kept at once."""
    made = _ATTEMPT.get()
    if made is not None:
        made.append(PendingReply(cache, request, reply))
    elif reply is not None:
        cache.put(request, reply)


@contextmanager
def cached_attempt() -> Iterator[list[PendingReply]]:
    """Collect the replies of an attempt in a list, also in threads and tasks that inherit the context.

    After a success the replies go to the enclosing attempt, or are kept if there is none. After a
    ``QuantGraphError`` they are dropped. An interrupt changes nothing.
    """
    made: list[PendingReply] = []
    token = _ATTEMPT.set(made)
    try:
        yield made
    except QuantGraphError:
        drop_replies(made)
        raise
    finally:
        _ATTEMPT.reset(token)
    for offered in made:
        add_pending(*offered)


def drop_replies(offers: list[PendingReply]) -> None:
    """Drop the replies of a failed attempt, also those kept before, and empty the list."""
    for one in offers:
        one.cache.drop(one.request)
    offers.clear()


_MILLION = Decimal(1_000_000)
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")  # "gpt-4o-2024-08-06"


class Price(NamedTuple):
    """Money per million tokens."""

    prompt: Decimal
    completion: Decimal

    def cost(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """The exact cost; tokens from the server's cache count in full.

        >>> Price(Decimal("0.15"), Decimal("0.60")).cost(1000, 500)
        Decimal('0.00045')
        """
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / _MILLION


def _usd(prompt: str, completion: str) -> Price:
    return Price(Decimal(prompt), Decimal(completion))


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "quantgraph-keyless-planner": _usd("0", "0"),
        "gpt-4o": _usd("2.50", "10.00"),
        "gpt-4o-mini": _usd("0.15", "0.60"),
        "gpt-4.1": _usd("2.00", "8.00"),
        "gpt-4.1-mini": _usd("0.40", "1.60"),
        "gpt-4.1-nano": _usd("0.10", "0.40"),
        "gpt-5": _usd("1.25", "10.00"),
        "gpt-5-mini": _usd("0.25", "2.00"),
        "gpt-5-nano": _usd("0.05", "0.40"),
        "o3": _usd("2.00", "8.00"),
        "o4-mini": _usd("1.10", "4.40"),
        "deepseek-chat": _usd("0.28", "0.42"),
        "deepseek-reasoner": _usd("0.28", "0.42"),
    }
)
"""List prices in US dollars: OpenAI's as of April 2026, DeepSeek's as of December 2025."""


def price_of(model: str, prices: Mapping[str, Price] = PRICES) -> Price | None:
    """Price of a model; a dated version has the price of the model. None if unknown.

    >>> price_of("gpt-4o-mini-2024-07-18") == price_of("gpt-4o-mini"), price_of("mine")
    (True, None)
    """
    return prices.get(model) or prices.get(_DATED.sub("", model))


def load_prices(path: Path | None) -> Mapping[str, Price]:
    """The table, updated from a TOML file with a table of ``prompt`` and ``completion`` per model."""
    if path is None:
        return PRICES
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
    except OSError as error:
        raise BadFile(f"prices: {path} cannot be read: {error.strerror}", path=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"prices: {path} is not readable TOML: {error}", path=str(path)) from error
    return {**PRICES, **{model: _read(path, model, entry) for model, entry in table.items()}}


def _read(path: Path, model: str, entry: Any) -> Price:
    numbers = list(entry.values()) if isinstance(entry, dict) and entry.keys() == {*Price._fields} else []
    if not numbers or not all(map(_is_money, numbers)):
        raise BadFile(
            f"prices: {path}: model {model!r} needs prompt and completion, money for a million "
            f'tokens, 0 or more, like ["{model}"] prompt = 0.5, completion = 1.5',
            path=str(path),
        )
    return Price(Decimal(entry["prompt"]), Decimal(entry["completion"]))


def _is_money(value: Any) -> bool:
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return number and Decimal(value).is_finite() and value >= 0


@dataclass(kw_only=True)
class ModelCall:
    """One call and its attempts, of one thread; a node sends no call after ``node_seconds`` of work."""

    request: ModelRequest
    facts: ModelFacts
    role: str
    scope: Scope
    price: Price | None
    cache: ReplyCache | None
    node_seconds: float
    attempt: int = 0
    _call: NumberedCall = field(init=False)
    _key: Key = field(init=False)
    _session: str | None = field(init=False)
    _control: RunControl | None = field(init=False)
    _reservation: Reservation | None = field(init=False, default=None)
    _began: float = field(init=False, default=0.0)
    _failed: Entry | None = field(init=False, default=None)
    _cached_as: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._session = self.scope.session
        self._control = current_run_control()
        self._call = self.scope.next_call(self.request.digest)

    def recorded_reply(self) -> AIMessage | None:
        """The reply in the record or the cache; None if the model must answer."""
        self._key = self.scope.key_of(self._call)
        entry = self.scope.recording.find(self._key, self.request.text)
        if entry is None:
            kept = self._cached_reply()
            if kept is None:
                return None
            self.attempt = 1
            nothing = {"prompt_tokens": 0, "completion_tokens": 0, "cost": "0", "seconds": 0.0}
            facts = self._facts(
                finish=finish_reason(message_from_json(json.loads(kept))), cached=True, **nothing
            )
            entry = self._entry(reply=kept, facts=facts)
            self.scope.recording.add(entry)
            if self.cache is not None:
                add_pending(self.cache, self._cached_as, None)
        self._notify(entry, served=True)
        return self._message(entry)

    def reserve(self) -> bool:
        """Reserve the budget of the next attempt; False if it must wait for calls in flight."""
        self.check()
        self._record_failed()
        caller = Caller(self.role, self.facts.name, self._session)
        self._reservation = self.scope.recording.budget_tracker.reserve(
            caller, self._needs(self.request.max_tokens)
        )
        if self._reservation is None:
            return False
        self.attempt += 1
        self._began = time.monotonic()
        return True

    def on_reply(self, message: AIMessage) -> AIMessage:
        """Record a reply and return it as replays will serve it."""
        text = self.facts.hide(canonical_json(reply_to_json(message)))
        prompt, completion = token_counts(message)
        facts = self._settle(prompt, completion, self._needs(max_tokens_of(text)))
        entry = self._entry(reply=text, facts={**facts, "finish": finish_reason(message)})
        self._record(entry)
        if self.cache is not None and is_usable(message):
            add_pending(self.cache, self._cached_as, text)
        return self._message(entry)

    def on_failure(self, error: BaseException) -> None:
        """Count an attempt without a reply; it is recorded when the next begins or the call ends."""
        fault = classify_error(error, self.facts) if isinstance(error, Exception) else None
        # An error status costs nothing; the cost of any other failure is unknown.
        tokens = None if fault is None or fault.status is None else 0
        facts = self._settle(tokens, tokens, self._needs(0))
        if isinstance(error, QuantGraphError):
            error_fields = error_json(error)
        else:
            reason = fault.reason if fault else f"{type(error).__name__}: {error}"
            error_fields = error_json(ModelUnavailable(reason) if fault else QuantGraphError(reason))
        self._failed = self._entry(error=error_fields, facts=facts, final=False)

    def on_end(self, problem: BaseException) -> None:
        """Record the end of a call without a reply: a ``QuantGraphError`` or another exception."""
        if _ends_run(problem):
            self.scope.fatal = self.scope.fatal or problem
        if self._reservation is not None:  # stopped before the attempt was sent
            self.scope.recording.budget_tracker.release(self._reservation)
        error_fields = None
        if isinstance(problem, QuantGraphError) and not isinstance(problem, StorageUnavailable):
            error_fields = error_json(problem)
        if error_fields and (self._failed is None or isinstance(problem, BudgetExceeded)):
            self._record_failed()  # the error has a cause of its own
            self.attempt += 1
            self._record(self._entry(error=error_fields, facts=self._facts()))
        elif self._failed is not None:
            last, self._failed = self._failed, None
            self._record(
                replace(last, error=self._redact(error_fields), final=True) if error_fields else last
            )

    def check(self, seconds: float = 0.0) -> None:
        """Check that the run goes on and has time to wait for so many seconds."""
        if self._control is not None and self._control.drain_reason is not None:
            raise drain_error(self._control.drain_reason)
        if is_abandoned():
            raise drain_error(AT_ONCE)
        self._check_time(seconds)

    def check_in_flight(self) -> None:
        """As :meth:`check` for a call in flight, which only a stop "at once" abandons."""
        if is_abandoned() or (self._control is not None and self._control.drain_reason == AT_ONCE):
            raise drain_error(AT_ONCE)
        self._check_time(0.0)

    def message_id(self) -> str:
        """The id of the attempt's message, the same after a resume and in a replay."""
        return self._id(self._key, self.attempt)

    def _cached_reply(self) -> str | None:
        """The cached reply. A run that repeats a request gets another reply than before."""
        if self.cache is None:
            return None
        before = self.scope.times_before(self._call)
        self._cached_as = content_hash(f"{self.request.digest}|{before}") if before else self.request.digest
        return self.cache.get(self._cached_as)

    def _check_time(self, ahead: float) -> None:
        self.scope.recording.budget_tracker.check_seconds(self._session, ahead)
        if time.monotonic() + ahead - self.scope.begun >= self.node_seconds:
            raise BudgetExceeded(
                f"{self.role}: a node may work for {self.node_seconds:g} seconds (settings: node_seconds)"
                + no_answer_text(ahead),
                limit="seconds",
                of="node",
            )

    def _needs(self, completion: int | None) -> CallEstimate:
        """The most that a call takes if its reply has at most so many tokens."""
        prompt = max_tokens_of(self.request.text)
        if self.price is None:
            return CallEstimate(prompt_tokens=prompt, completion_tokens=completion)
        endless = completion is None and self.price.completion > 0
        return CallEstimate(
            prompt_tokens=prompt,
            completion_tokens=completion,
            money=None if endless else self.price.cost(prompt, completion or 0),
            least_money=self.price.cost(prompt, 0),
        )

    def _settle(self, prompt: int | None, completion: int | None, most: CallEstimate) -> dict[str, Any]:
        cost = None
        if prompt == completion == 0 or self.price == Price(Decimal(0), Decimal(0)):
            cost = Decimal(0)
        elif self.price is not None and prompt is not None and completion is not None:
            cost = self.price.cost(prompt, completion)
        if self._reservation is not None:
            spent = CallUsage(prompt_tokens=prompt, completion_tokens=completion, cost=cost, at_most=most)
            self.scope.recording.budget_tracker.settle(self._reservation, spent)
            self._reservation = None
        return self._facts(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost=None if cost is None else str(cost),
            seconds=time.monotonic() - self._began,
        )

    def _facts(self, **more: Any) -> dict[str, Any]:
        return {"role": self.role, "model": self.facts.name, **more}

    def _entry(self, *, facts: Mapping[str, Any], final: bool = True, **outcome: Any) -> Entry:
        if outcome.get("error"):
            outcome["error"] = self._redact(outcome["error"])
        return Entry(
            key=self._key,
            request=self.request.text,
            attempt=self.attempt,
            final=final,
            session=self._session,
            facts=facts,
            **outcome,
        )

    def _redact(self, error: Mapping[str, Any]) -> Any:
        return json.loads(self.facts.hide(canonical_json(error)))

    def _record_failed(self) -> None:
        if self._failed is not None:
            self.scope.recording.add(self._failed)
            self._failed = None

    def _record(self, entry: Entry) -> None:
        self.scope.recording.add(
            replace(entry, final=entry.final and not is_abandoned())
        )  # an abandoned reply is never served
        self._notify(entry, served=False)

    def _notify(self, entry: Entry, *, served: bool) -> None:
        if self.scope.on_model_call is not None:
            self.scope.on_model_call(entry, served)

    def _message(self, entry: Entry) -> AIMessage:
        message = message_from_json(entry.outcome())
        message.id = message.id or self._id(entry.key, entry.attempt)
        return message

    def _id(self, key: Key, attempt: int) -> str:
        return content_hash(f"{self.scope.recording.run_id}|{key.path}|{key.seq}|{key.digest}|{attempt}")


def _ends_run(problem: BaseException) -> bool:
    """Whether no code of a decider may go on after the end of a call: a stop, or the end of the budget."""
    from langgraph.errors import GraphDrained  # the package is imported without LangGraph

    if isinstance(problem, BudgetExceeded):
        return problem.data.get("of") != "session"
    return isinstance(problem, GraphDrained | StorageUnavailable)
