"""Retries of model calls, and the typed errors after the last attempt."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tenacity import (
    AsyncRetrying,
    AttemptManager,
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from quantgraph._util.texts import escape_controls
from quantgraph.errors import ModelOutputInvalid, ModelUnavailable, QuantGraphError
from quantgraph.llm.cancellation import async_interruptible_sleep, interruptible_sleep
from quantgraph.llm.faults import ModelFacts, ModelFault, classify_error
from quantgraph.settings import load_settings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class CallPolicy:
    """The number of attempts and the waits between them.

    Waits double with jitter from ``first_wait`` up to ``longest_wait`` seconds; the server's ``Retry-After``
    wins. A ``Retry-After`` above ``longest_wait`` ends the call.
    """

    max_attempts: int | None = None
    """None means ``max_attempts`` of the settings, read after the first failure."""
    first_wait: float = 0.5
    longest_wait: float = 60.0
    sleep: Callable[[float], None] | None = None
    """Replaces the default wait, which ends as soon as ``check`` raises."""
    async_sleep: Callable[[float], Awaitable[None]] | None = None

    def attempts(
        self, *, facts: ModelFacts, what: str, check: Callable[[float], None]
    ) -> Iterator[AttemptManager]:
        """Yield attempts until one succeeds, all are used up, or ``check`` raises; run the call inside each.

        ``check`` gets the seconds of the next wait after each failed attempt, and 0 during the wait. Its
        exception replaces the model's fault.

        Raises
        ------
        ModelUnavailable
            All attempts failed with rate limits, server errors, time-outs, lost connections or unreadable
            replies; or the server refused the request.
        NotConfigured
            The server refuses the key (401), or the request cannot be sent.
        PermissionDenied
            The key may not use this model (403).
        ModelOutputInvalid
            A structured answer was truncated or withheld.

        Notes
        -----
        Any other exception passes unchanged, unless it holds a secret: no error message holds one.
        """
        sleep = self.sleep or (lambda seconds: interruptible_sleep(seconds, lambda: check(0.0)))
        retrying = Retrying(sleep=sleep, **self._rules(facts, what, check))
        try:
            yield from retrying
        except Exception as error:
            problem = _typed_error(error, facts, what, retrying.statistics["attempt_number"])
            if problem is None:
                raise
            cause = facts.presentable(error)
        else:
            return
        raise problem from cause

    async def async_attempts(
        self, *, facts: ModelFacts, what: str, check: Callable[[float], None]
    ) -> AsyncIterator[AttemptManager]:
        """As :meth:`attempts`, in a task."""
        sleep = self.async_sleep or (lambda seconds: async_interruptible_sleep(seconds, lambda: check(0.0)))
        retrying = AsyncRetrying(sleep=sleep, **self._rules(facts, what, check))
        try:
            async for attempt in retrying:
                yield attempt
        except Exception as error:
            problem = _typed_error(error, facts, what, retrying.statistics["attempt_number"])
            if problem is None:
                raise
            cause = facts.presentable(error)
        else:
            return
        raise problem from cause

    def _rules(self, facts: ModelFacts, what: str, check: Callable[[float], None]) -> dict[str, Any]:
        """Tenacity's options from this policy and :func:`classify_error`."""
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
            last = state.attempt_number >= limit()
            check(0.0 if last else state.upcoming_sleep)
            return last

        def tell(state: RetryCallState) -> None:
            fault = _fault(state.outcome.exception() if state.outcome else None, facts)
            reason = fault.reason if fault else "failed"
            _log.info(
                "%s; asking again in %.1f s",
                escape_controls(f"{what}: model {facts.name}: {reason}"),
                state.upcoming_sleep,
            )

        return {
            "retry": retry_if_exception(helps),
            "wait": wait,
            "stop": stop,
            "before_sleep": tell,
            "reraise": True,
        }


def _fault(error: BaseException | None, facts: ModelFacts) -> ModelFault | None:
    return classify_error(error, facts) if isinstance(error, Exception) else None


def _typed_error(error: Exception, facts: ModelFacts, what: str, attempts: int) -> QuantGraphError | None:
    fault = classify_error(error, facts)
    who = f"{what}: model {facts.name}"
    if fault is None:
        if isinstance(error, QuantGraphError) or facts.presentable(error):
            return None
        return ModelUnavailable(f"{who} failed: {type(error).__name__}: {facts.clean(str(error))}")
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
