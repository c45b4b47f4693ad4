"""One question to a model: served if it was answered before, else sent within the budget and written down."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from langchain_core.messages import AIMessage

from quantgraph.errors import BudgetExceeded, ModelUnavailable, QuantGraphError
from quantgraph.llm.cache import CACHE_KEY, ReplyCache
from quantgraph.llm.faults import ModelFacts, read_fault
from quantgraph.llm.prices import Price
from quantgraph.llm.reply import finish_of, is_usable, message_of, reply_of, tokens_of
from quantgraph.llm.request import Request
from quantgraph.recording import Entry, Key, Scope, canonical, digest
from quantgraph.recording.account import Need, Spent
from quantgraph.recording.entry import error_json
from quantgraph.recording.tally import Asker, Ticket, tokens_at_most

__all__ = ["Asking"]


@dataclass(kw_only=True)
class Asking:
    """One question and its attempts, of one thread or task.

    Attributes
    ----------
    node_seconds
        A node that has worked for so long sends nothing any more.
    attempt
        Number of the attempt under way, from 1.
    """

    request: Request
    facts: ModelFacts
    role: str
    scope: Scope
    price: Price | None
    cache: ReplyCache | None
    node_seconds: float
    attempt: int = 0
    _key: Key = field(init=False)
    _session: str | None = field(init=False)
    _ticket: Ticket | None = field(init=False, default=None)
    _began: float = field(init=False, default=0.0)
    _failed: Entry | None = field(init=False, default=None)
    _cached_as: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._session = self.scope.session
        self._key = Key(*self.scope.next_call(), "model", self.request.digest)

    def known(self) -> AIMessage | None:
        """What was answered here before, or to the same request in another run; None if it has to be asked.

        Raises
        ------
        RunDiverged
            In a replay, if it was not asked.
        QuantGraphError
            The recorded one.
        """
        entry = self.scope.recording.find(self._key, self.request.text)
        if entry is None:
            kept = self._cached()
            if kept is None:
                return None
            self.attempt = 1
            nothing = {"prompt_tokens": 0, "completion_tokens": 0, "cost": "0", "seconds": 0.0}
            facts = self._facts(finish=finish_of(message_of(json.loads(kept))), cached=True, **nothing)
            entry = self._entry(reply=kept, facts=facts)
            self.scope.recording.add(entry)
        self._tell(entry, served=True)
        return self._message(entry)

    def begin(self) -> bool:
        """Take leave to send the next attempt; False if it has to wait for calls under way.

        Raises
        ------
        BudgetExceeded, NotConfigured
            See :meth:`~quantgraph.recording.tally.Tally.reserve`; or the node has worked for too long.
        """
        try:
            self._check_node()
            asker = Asker(self.role, self.facts.name, self._session)
            need = self._most(self.request.max_tokens)
            self._ticket = self.scope.recording.tally.reserve(asker, need)
        except QuantGraphError as refusal:
            self._write_failed()
            self.attempt += 1
            self._end(self._entry(error=error_json(refusal), facts=self._facts()))
            raise
        if self._ticket is None:
            return False
        self._write_failed()
        self.attempt += 1
        self._began = time.monotonic()
        return True

    def came(self, message: AIMessage) -> AIMessage:
        """Write a reply down; returned is what will be served in its place."""
        reply = reply_of(message)
        if self.cache is not None:
            reply["response_metadata"] = {**reply["response_metadata"], CACHE_KEY: self._cached_as}
        text = self.facts.hide(canonical(reply))
        prompt, completion = tokens_of(message)
        facts = self._settle(prompt, completion, self._most(tokens_at_most(text)))
        entry = self._entry(reply=text, facts={**facts, "finish": finish_of(message)})
        self._end(entry)
        if self.cache is not None and is_usable(message):
            self.cache.put(self._cached_as, text)
        return self._message(entry)

    def failed(self, error: BaseException) -> None:
        """Count an attempt that gave no reply; it is written down once the next begins, or none does."""
        fault = read_fault(error, self.facts) if isinstance(error, Exception) else None
        # An error status is no completion, and costs nothing; of all else nobody knows.
        tokens = None if fault is None or fault.status is None else 0
        facts = self._settle(tokens, tokens, self._most(0))
        if isinstance(error, QuantGraphError):
            told = error_json(error)
        else:
            reason = fault.reason if fault else f"{type(error).__name__}: {error}"
            told = error_json(ModelUnavailable(reason) if fault else QuantGraphError(reason))
        self._failed = self._entry(error=told, facts=facts, final=False)

    def ended(self, problem: BaseException) -> None:
        """Write down how it ended, if without a reply: with an error of ours, or with another."""
        last, self._failed = self._failed, None
        if last is None:
            return
        if isinstance(problem, QuantGraphError):
            last = replace(last, error=self._hidden(error_json(problem)), final=True)
        self._end(last)

    def until(self) -> float:
        """When, on the monotonic clock, nothing may be sent any more."""
        end = self.scope.begun + self.node_seconds
        left = self.scope.recording.tally.seconds_left(self._session)
        return end if left is None else min(end, time.monotonic() + left)

    def message_id(self) -> str:
        """The id of the attempt's message: the same in a run that is resumed or replayed."""
        return self._id(self.attempt)

    def _cached(self) -> str | None:
        """The cache's reply; a run that asks again what it asked before wants another one than then."""
        if self.cache is None:
            return None
        before = self.scope.recording.times("model", self.request.digest)
        self._cached_as = digest(f"{self.request.digest}|{before}") if before else self.request.digest
        return self.cache.get(self._cached_as)

    def _check_node(self) -> None:
        if time.monotonic() - self.scope.begun >= self.node_seconds:
            raise BudgetExceeded(
                f"{self.role}: the node has worked for more than {self.node_seconds:g} seconds (settings: "
                "node_seconds); the model was not asked",
                limit="seconds",
            )

    def _most(self, completion: int | None) -> Need:
        """What a call takes at most if its reply has at most so many tokens."""
        prompt = tokens_at_most(self.request.text)
        if self.price is None:
            return Need(prompt_tokens=prompt, completion_tokens=completion)
        endless = completion is None and self.price.completion > 0
        return Need(
            prompt_tokens=prompt,
            completion_tokens=completion,
            money=None if endless else self.price.cost(prompt, completion or 0),
            least_money=self.price.cost(prompt, 0),
        )

    def _settle(self, prompt: int | None, completion: int | None, most: Need) -> dict[str, Any]:
        cost = None
        if prompt == completion == 0 or self.price == Price(Decimal(0), Decimal(0)):
            cost = Decimal(0)
        elif self.price is not None and prompt is not None and completion is not None:
            cost = self.price.cost(prompt, completion)
        if self._ticket is not None:
            spent = Spent(prompt_tokens=prompt, completion_tokens=completion, cost=cost, at_most=most)
            self.scope.recording.tally.settle(self._ticket, spent)
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
            outcome["error"] = self._hidden(outcome["error"])
        return Entry(
            key=self._key,
            request=self.request.text,
            attempt=self.attempt,
            final=final,
            session=self._session,
            facts=facts,
            **outcome,
        )

    def _hidden(self, error: Mapping[str, Any]) -> Any:
        return json.loads(self.facts.hide(canonical(error)))

    def _write_failed(self) -> None:
        if self._failed is not None:
            self.scope.recording.add(self._failed)
            self._failed = None

    def _end(self, entry: Entry) -> None:
        self.scope.recording.add(entry)
        self._tell(entry, served=False)

    def _tell(self, entry: Entry, *, served: bool) -> None:
        if self.scope.heard is not None:
            self.scope.heard(entry, served)

    def _message(self, entry: Entry) -> AIMessage:
        message = message_of(entry.outcome())
        message.id = message.id or self._id(entry.attempt)
        return message

    def _id(self, attempt: int) -> str:
        path, seq, _, _ = self._key
        return digest(f"{self.scope.recording.run_id}|{path}|{seq}|{attempt}")
