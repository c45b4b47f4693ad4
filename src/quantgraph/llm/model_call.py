"""One question to a model: served if it was answered before, else sent within the budget and written down."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BudgetExceeded, ModelUnavailable, QuantGraphError, StorageUnavailable
from quantgraph.llm.cache import ReplyCache, add_pending
from quantgraph.llm.cancellation import AT_ONCE, current_run_control, drain_error, is_abandoned
from quantgraph.llm.faults import ModelFacts, classify_error
from quantgraph.llm.model_json import (
    ModelRequest,
    finish_reason,
    is_usable,
    message_from_json,
    reply_to_json,
    token_counts,
)
from quantgraph.llm.token_prices import Price
from quantgraph.recording import Entry, Key, Scope
from quantgraph.recording.budget import CallEstimate, CallUsage
from quantgraph.recording.budget_tracker import Caller, Reservation, max_tokens_of, no_answer_text
from quantgraph.recording.entry import error_json
from quantgraph.recording.scope import NumberedCall

if TYPE_CHECKING:
    from langgraph.runtime import RunControl

__all__ = ["ModelCall"]


@dataclass(kw_only=True)
class ModelCall:
    """One question and its attempts, of one thread or task.

    Attributes
    ----------
    node_seconds
        A node that has worked for so long sends nothing any more, and waits for nothing.
    attempt
        Number of the attempt under way, from 1.
    """

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
    _ticket: Reservation | None = field(init=False, default=None)
    _began: float = field(init=False, default=0.0)
    _failed: Entry | None = field(init=False, default=None)
    _cached_as: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._session = self.scope.session
        self._control = current_run_control()
        self._call = self.scope.next_call(self.request.digest)

    def recorded_reply(self) -> AIMessage | None:
        """What was answered here before, or to the same request in another run; None if it has to be asked.

        Raises
        ------
        RunDiverged
            In a replay, if it was not asked.
        QuantGraphError
            The recorded one.
        """
        self._key = self.scope.key_of(self._call)
        entry = self.scope.recording.find(self._key, self.request.text)
        if entry is None:
            kept = self._cached()
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
        self._tell(entry, served=True)
        return self._message(entry)

    def reserve(self) -> bool:
        """Take leave to send the next attempt; False if it has to wait for calls under way.

        Raises
        ------
        BudgetExceeded, NotConfigured
            See :meth:`~quantgraph.recording.budget_tracker.BudgetTracker.reserve`; or the node has
            worked for too long.
        GraphDrained
            If the run was told to stop.
        """
        self.check()
        self._write_failed()
        asker = Caller(self.role, self.facts.name, self._session)
        self._ticket = self.scope.recording.budget_tracker.reserve(
            asker, self._needs(self.request.max_tokens)
        )
        if self._ticket is None:
            return False
        self.attempt += 1
        self._began = time.monotonic()
        return True

    def on_reply(self, message: AIMessage) -> AIMessage:
        """Write a reply down; returned is what will be served in its place."""
        text = self.facts.hide(canonical_json(reply_to_json(message)))
        prompt, completion = token_counts(message)
        facts = self._settle(prompt, completion, self._needs(max_tokens_of(text)))
        entry = self._entry(reply=text, facts={**facts, "finish": finish_reason(message)})
        self._end(entry)
        if self.cache is not None and is_usable(message):
            add_pending(self.cache, self._cached_as, text)
        return self._message(entry)

    def on_failure(self, error: BaseException) -> None:
        """Count an attempt that gave no reply; it is written down once the next begins, or none does."""
        fault = classify_error(error, self.facts) if isinstance(error, Exception) else None
        # An error status is no completion, and costs nothing; of all else nobody knows.
        tokens = None if fault is None or fault.status is None else 0
        facts = self._settle(tokens, tokens, self._needs(0))
        if isinstance(error, QuantGraphError):
            told = error_json(error)
        else:
            reason = fault.reason if fault else f"{type(error).__name__}: {error}"
            told = error_json(ModelUnavailable(reason) if fault else QuantGraphError(reason))
        self._failed = self._entry(error=told, facts=facts, final=False)

    def on_end(self, problem: BaseException) -> None:
        """Write down how it ended, if without a reply: with an error of ours, or with another."""
        if self._ticket is not None:  # who asks was stopped before it was sent
            self.scope.recording.budget_tracker.release(self._ticket)
        told = None
        if isinstance(problem, QuantGraphError) and not isinstance(problem, StorageUnavailable):
            told = error_json(problem)
        if told and (self._failed is None or isinstance(problem, BudgetExceeded)):
            self._write_failed()  # for reasons of its own
            self.attempt += 1
            self._end(self._entry(error=told, facts=self._facts()))
        elif self._failed is not None:
            last, self._failed = self._failed, None
            self._end(replace(last, error=self._redacted(told), final=True) if told else last)

    def check(self, seconds: float = 0.0) -> None:
        """See that the run was not told to stop, and that there is time to wait for so long.

        Raises
        ------
        GraphDrained
            If it was told to.
        BudgetExceeded
            If the time of the node, the session or the run is over by then.
        """
        if self._control is not None and self._control.drain_reason is not None:
            raise drain_error(self._control.drain_reason)
        if is_abandoned():
            raise drain_error(AT_ONCE)
        self._check_time(seconds)

    def check_in_flight(self) -> None:
        """Do as :meth:`check` while the model is at work: what was sent is waited for, unless in a hurry."""
        if is_abandoned() or (self._control is not None and self._control.drain_reason == AT_ONCE):
            raise drain_error(AT_ONCE)
        self._check_time(0.0)

    def message_id(self) -> str:
        """The id of the attempt's message: the same in a run that is resumed or replayed."""
        return self._id(self._key, self.attempt)

    def _cached(self) -> str | None:
        """The cache's reply; a run that asks again what it asked before wants another one than then."""
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
            )

    def _needs(self, completion: int | None) -> CallEstimate:
        """What a call takes at most if its reply has at most so many tokens."""
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
        if self._ticket is not None:
            spent = CallUsage(prompt_tokens=prompt, completion_tokens=completion, cost=cost, at_most=most)
            self.scope.recording.budget_tracker.settle(self._ticket, spent)
            self._ticket = None
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
            outcome["error"] = self._redacted(outcome["error"])
        return Entry(
            key=self._key,
            request=self.request.text,
            attempt=self.attempt,
            final=final,
            session=self._session,
            facts=facts,
            **outcome,
        )

    def _redacted(self, error: Mapping[str, Any]) -> Any:
        return json.loads(self.facts.hide(canonical_json(error)))

    def _write_failed(self) -> None:
        if self._failed is not None:
            self.scope.recording.add(self._failed)
            self._failed = None

    def _end(self, entry: Entry) -> None:
        self.scope.recording.add(
            replace(entry, final=entry.final and not is_abandoned())
        )  # given to nobody then
        self._tell(entry, served=False)

    def _tell(self, entry: Entry, *, served: bool) -> None:
        if self.scope.on_model_call is not None:
            self.scope.on_model_call(entry, served)

    def _message(self, entry: Entry) -> AIMessage:
        message = message_from_json(entry.outcome())
        message.id = message.id or self._id(entry.key, entry.attempt)
        return message

    def _id(self, key: Key, attempt: int) -> str:
        return content_hash(f"{self.scope.recording.run_id}|{key.path}|{key.seq}|{key.digest}|{attempt}")
