"""How a model is asked again, and how its errors become ours."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from quantgraph.errors import ModelOutputInvalid, ModelUnavailable, QuantGraphError
from quantgraph.llm.faults import Fault, ModelFacts, read_fault
from quantgraph.settings import load_settings

__all__ = ["CallPolicy"]

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """How often a model is asked again, and how long is waited before.

    Waits double with jitter from ``first_wait`` up to ``longest_wait`` seconds; a ``Retry-After`` of the
    server wins. A server that asks for more than ``longest_wait`` is not waited for.
    """

    max_attempts: int | None = None
    """None means ``max_attempts`` of the settings, read once a call has failed."""
    first_wait: float = 0.5
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    async_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def run(
        self,
        call: Callable[[], T],
        *,
        facts: ModelFacts,
        what: str,
        until: Callable[[], float],
    ) -> T:
        """Run ``call`` until it answers, or would be asked again after ``until``, on the monotonic clock.

        Raises
        ------
        ModelUnavailable
            Rate limits, server errors, time-outs, lost connections or unreadable replies outlasted all
            attempts; or the server refused the request.
        NotConfigured
            The server refuses the key (401).
        PermissionDenied
            The key may not use this model (403).
        ModelOutputInvalid
            The answer was cut off or withheld while a structured one was asked for.

        Notes
        -----
        Any other exception is not the model's and passes unchanged. No message holds a key.
        """
        retrying = Retrying(sleep=self.sleep, **self._rules(facts, what, until))
        try:
            return retrying(call)
        except Exception as error:
            problem = _ours(error, facts, what, retrying.statistics["attempt_number"])
            if problem is None:
                raise
            cause = facts.presentable(error)
        raise problem from cause

    async def arun(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        facts: ModelFacts,
        what: str,
        until: Callable[[], float],
    ) -> T:
        """Do as :meth:`run`, for a coroutine function."""
        retrying = AsyncRetrying(sleep=self.async_sleep, **self._rules(facts, what, until))

        async def attempt() -> T:
            return await call()

        try:
            return await retrying(attempt)
        except Exception as error:
            problem = _ours(error, facts, what, retrying.statistics["attempt_number"])
            if problem is None:
                raise
            cause = facts.presentable(error)
        raise problem from cause

    def _rules(self, facts: ModelFacts, what: str, until: Callable[[], float]) -> dict[str, Any]:
        """Build tenacity's options from this policy and from what :func:`read_fault` says."""
        growing = wait_exponential(multiplier=self.first_wait) + wait_random(0, self.first_wait)

        @cache
        def limit() -> int:
            return self.max_attempts or load_settings().max_attempts

        def helps(error: BaseException) -> bool:
            fault = _fault(error, facts)
            return fault is not None and fault.retry and (fault.retry_after or 0.0) <= self.longest_wait

        def wait(state: RetryCallState) -> float:
            fault = _fault(state.outcome.exception() if state.outcome else None, facts)
            asked = fault.retry_after if fault else None
            return min(growing(state), self.longest_wait) if asked is None else asked

        def stop(state: RetryCallState) -> bool:
            late = time.monotonic() + state.upcoming_sleep > until()
            return late or state.attempt_number >= limit()

        def tell(state: RetryCallState) -> None:
            fault = _fault(state.outcome.exception() if state.outcome else None, facts)
            reason = fault.reason if fault else "failed"
            _log.info(
                "%s: model %s: %s; asking again in %.1f s", what, facts.name, reason, state.upcoming_sleep
            )

        return {
            "retry": retry_if_exception(helps),
            "wait": wait,
            "stop": stop,
            "before_sleep": tell,
            "reraise": True,
        }


def _fault(error: BaseException | None, facts: ModelFacts) -> Fault | None:
    return read_fault(error, facts) if isinstance(error, Exception) else None


def _ours(error: Exception, facts: ModelFacts, what: str, attempts: int) -> QuantGraphError | None:
    fault = read_fault(error, facts)
    if fault is None:
        return None
    who = f"{what}: model {facts.name}"
    if fault.kind is ModelOutputInvalid:
        text = f"{what}: the answer of model {facts.name} {fault.reason}"
    elif fault.kind is not ModelUnavailable:
        text = f"{who}: {fault.reason}"
    elif fault.retry:
        text = f"{who} did not answer after {attempts} attempt{'s' * (attempts > 1)}; last: {fault.reason}"
    else:
        text = f"{who} refused the request: {fault.reason}"
    if fault.retry_after:
        text += f" (the server asks to wait {fault.retry_after:g} s)"
    return fault.kind(
        text,
        what=what,
        model=facts.name,
        attempts=attempts,
        status=fault.status,
        retry_after=fault.retry_after,
    )
