"""Asking the models of a plain call, and counting what they took."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from quantgraph._util.files import new_run_id
from quantgraph.agents.dual_agent._config import LLMConfig
from quantgraph.errors import (
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
)
from quantgraph.llm import role_model
from quantgraph.llm.messages import token_counts
from quantgraph.recording import Entry, Recording
from quantgraph.recording.scope import Scope, current_scope, in_scope
from quantgraph.settings import Role

Ask = Callable[[Role, Sequence[AnyMessage]], AIMessage]
"""Asks the model of a role."""

_MAX_RUNS = 256
"""Run ids whose budgets are kept; an older one begins anew."""


class LLMClient:
    """The models of the agents, by role: a face of :func:`~quantgraph.llm.role_model`."""

    def __init__(self, configs: dict[Role, LLMConfig]) -> None:
        self._models = {
            role: role_model(role, model=config.model, settings=config.settings)
            for role, config in configs.items()
        }

    def ask(self, role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
        """Return the reply of a role's model."""
        reply = self._models[role].invoke(list(messages))
        if not isinstance(reply, AIMessage):
            raise ModelOutputInvalid(f"the model of role {role} replied with a {reply.type} message")
        return reply


@dataclass(kw_only=True)
class Meter:
    """What the model calls of a decision took."""

    calls: int = 0
    cache_hits: int = 0
    parse_errors: int = 0
    logic_errors: int = 0
    cash_errors: int = 0
    latency_ms_sum: int = 0
    tokens_prompt: int = 0
    tokens_completion: int = 0
    failed: str = ""

    def counting(self, ask: Ask) -> Ask:
        """Return an ``ask`` that counts its calls and tokens."""

        def asked(role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
            try:
                reply = ask(role, messages)
            except QuantGraphError as error:
                self.calls += not isinstance(error, BudgetExceeded)  # which is raised before a call
                raise
            self.calls += 1
            prompt, completion = token_counts(reply)
            self.tokens_prompt += prompt or 0
            self.tokens_completion += completion or 0
            return reply

        return asked

    def on_entry(self, entry: Entry, served: bool) -> None:
        """Count a call of the cache, or the time of one that was sent."""
        self.cache_hits += served
        self.latency_ms_sum += round(1000 * float(entry.facts.get("seconds") or 0.0))

    def counts(self) -> dict[str, Any]:
        """The counts as plain JSON; errors of logic and cash, and ``failed``, only if there are any."""
        only_if_any = ("logic_errors", "cash_errors", "failed")
        return {name: value for name, value in asdict(self).items() if value or name not in only_if_any}


@dataclass(frozen=True, kw_only=True)
class Agents:
    """How the two agents are asked."""

    filter_prompt: str
    ask: Ask
    meter: Meter
    is_given_up: Callable[[QuantGraphError], bool]

    def give_up(self, error: QuantGraphError) -> None:
        """Note why the models are asked no more; raise an error that is not given up."""
        if not self.is_given_up(error):
            raise error
        self.meter.failed = error.line


def is_model_failure(error: QuantGraphError) -> bool:
    """Whether an error makes the rest of a decision a fallback outside of a run."""
    return isinstance(
        error, BudgetExceeded | ModelOutputInvalid | ModelUnavailable | PermissionDenied | RateLimited
    )


@contextmanager
def metered(meter: Meter, config: LLMConfig, run_id: str | None) -> Iterator[None]:
    """Count the calls of a block of code, and keep them within the budget of their run id.

    Inside of a node the node's own recording and budget hold.
    """
    if current_scope() is not None:
        yield
        return
    recording = _recording(run_id or new_run_id(), config)
    with in_scope(Scope(recording=recording, path="dual_agent", on_model_call=meter.on_entry)):
        yield


def _recording(run_id: str, config: LLMConfig) -> Recording:
    with _LOCK:
        found = _RECORDINGS.pop(run_id, None) or Recording(run_id, budget=config.budget)
        _RECORDINGS[run_id] = found
        if len(_RECORDINGS) > _MAX_RUNS:
            _RECORDINGS.popitem(last=False)
        return found


_LOCK = threading.Lock()
_RECORDINGS: OrderedDict[str, Recording] = OrderedDict()
