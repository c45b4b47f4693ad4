"""The context that steps of agents share: values, memory, and a trace of what each step did."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, cast

from quantgraph._util.values import is_whole
from quantgraph.agents.memory._memory import EpisodicMemory
from quantgraph.errors import BadOption, QuantGraphError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class AgentStep:
    """One call of a traced agent."""

    agent: str
    status: Literal["running", "success", "failed"] = "running"
    duration_ms: float = 0.0
    tokens: int | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class AgentMemory:
    """The memory of a context."""

    episodes: EpisodicMemory


class PipelineContext:
    """What steps of agents hand to each other.

    Parameters
    ----------
    config
        Configuration of the agents.
    run_id
        Name of the run.
    memory_enabled
        False: agents neither read nor write the memory.
    memory
        Default: one of this context alone.
    as_of
        The simulated session at whose open the memory is read.

    Raises
    ------
    BadOption
        If an argument is not valid.

    Examples
    --------
    >>> ctx = PipelineContext(config={}, run_id="backtest_20250615")
    >>> ctx.put("portfolio", {"cash": 10000.0})
    >>> ctx.get("portfolio"), ctx.get("decisions", {}), ctx.keys()
    ({'cash': 10000.0}, {}, ('portfolio',))
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        run_id: str = "",
        memory_enabled: bool = True,
        memory: EpisodicMemory | None = None,
        as_of: object = None,
    ) -> None:
        _check("config", config, Mapping, "a mapping")
        _check("run_id", run_id, str, "a text")
        _check("memory", memory, EpisodicMemory, "an EpisodicMemory")
        episodes = memory or EpisodicMemory()
        self.config: Mapping[str, Any] = config or {}
        self.run_id = run_id
        self.memory_enabled = memory_enabled
        self.memory = AgentMemory(episodes=episodes if as_of is None else episodes.at(as_of))
        # The lock guards values and steps, which agents in several threads add to.
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._steps: list[AgentStep] = []

    def put(self, key: str, value: Any) -> None:
        """Keep a value for later steps, in place of one of the same key."""
        with self._lock:
            self._values[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        with self._lock:
            return self._values.get(key, default)

    def has(self, key: str) -> bool:
        """Whether there is a value of this key."""
        with self._lock:
            return key in self._values

    def keys(self) -> tuple[str, ...]:
        """The keys, in the order in which they came."""
        with self._lock:
            return tuple(self._values)

    @property
    def steps(self) -> tuple[AgentStep, ...]:
        """The calls of traced agents so far, in the order in which they began."""
        with self._lock:
            return tuple(self._steps)

    @contextmanager
    def traced_step(self, agent: str) -> Iterator[Callable[[object], None]]:
        """Trace a block as a step; the function that it gets takes the step's result."""
        with self._lock:
            place = len(self._steps)
            self._steps.append(AgentStep(agent=agent))
        begun, results = time.perf_counter(), list[object]()
        step = AgentStep(agent=agent, status="failed")
        try:
            yield results.append
            step = _finished(agent, results[-1] if results else None)
        except BaseException as error:
            line = error.line if isinstance(error, QuantGraphError) else f"{type(error).__name__}: {error}"
            step = replace(step, error=" ".join(line.split()))
            raise
        finally:
            spent = 1000 * (time.perf_counter() - begun)
            with self._lock:
                self._steps[place] = replace(step, duration_ms=spent)


def traced_agent(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Trace the calls of an agent in the :class:`PipelineContext` that it gets.

    The context is the keyword ``ctx``, or any argument that is one; without one the agent just runs.
    A step is ``failed`` if the agent raises, which goes on, or if its result says so in
    ``__meta__["failed"]``; its tokens are those of ``__meta__``. Agents may run side by side, in threads or
    as coroutines.

    Examples
    --------
    >>> @traced_agent("decision_agent")
    ... def decide(features_list, ctx=None):
    ...     return {"__meta__": {"tokens_prompt": 3500, "tokens_completion": 850}}
    >>> ctx = PipelineContext()
    >>> _ = decide([], ctx=ctx)
    >>> [(step.agent, step.status, step.tokens) for step in ctx.steps]
    [('decision_agent', 'success', 4350)]
    """

    def decorate(agent: Callable[P, R]) -> Callable[P, R]:
        if inspect.iscoroutinefunction(agent):

            @wraps(agent)
            async def traced_async(*args: P.args, **kwargs: P.kwargs) -> Any:
                context = _context_of(args, kwargs)
                if context is None:
                    return await agent(*args, **kwargs)
                with context.traced_step(name) as take:
                    result = await agent(*args, **kwargs)
                    take(result)
                return result

            return cast(Callable[P, R], traced_async)

        @wraps(agent)
        def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            context = _context_of(args, kwargs)
            if context is None:
                return agent(*args, **kwargs)
            with context.traced_step(name) as take:
                result = agent(*args, **kwargs)
                take(result)
            return result

        return traced

    return decorate


def _check(parameter: str, value: object, kind: type, valid: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise BadOption(f"{parameter} must be {valid}, not {type(value).__name__}", parameter=parameter)


def _context_of(args: tuple[object, ...], kwargs: Mapping[str, object]) -> PipelineContext | None:
    arguments = (kwargs.get("ctx"), *args, *kwargs.values())
    return next((each for each in arguments if isinstance(each, PipelineContext)), None)


def _finished(agent: str, result: object) -> AgentStep:
    """The step of a result, by what it says in ``__meta__``."""
    meta = result.get("__meta__") if isinstance(result, Mapping) else None
    meta = meta if isinstance(meta, Mapping) else {}
    counts = [meta.get(name) for name in ("tokens_prompt", "tokens_completion")]
    known = [each for each in counts if is_whole(each)]
    failed = meta.get("failed")
    return AgentStep(
        agent=agent,
        status="failed" if failed else "success",
        tokens=sum(known) if known else None,
        error=failed if isinstance(failed, str) else "failed" if failed else "",
    )
