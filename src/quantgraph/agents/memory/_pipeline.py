"""The context that steps of agents share: values, memory, and a trace of what each step did."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NamedTuple, TypeVar, cast

from quantgraph._util.values import is_whole
from quantgraph.agents.memory._memory import EpisodicMemory
from quantgraph.errors import BadOption, QuantGraphError

Agent = TypeVar("Agent", bound=Callable[..., Any])


@dataclass(kw_only=True)
class AgentStep:
    """One call of a traced agent."""

    agent: str
    status: Literal["running", "success", "failed"] = "running"
    duration_ms: float = 0.0
    tokens: int | None = None
    error: str = ""

    def take(self, result: object) -> None:
        """Take over what a result says in ``__meta__``."""
        meta = result.get("__meta__") if isinstance(result, Mapping) else None
        meta = meta if isinstance(meta, Mapping) else {}
        known = [each for name in ("tokens_prompt", "tokens_completion") if is_whole(each := meta.get(name))]
        failed = meta.get("failed")
        self.tokens = sum(known) if known else None
        self.error = failed if isinstance(failed, str) else "failed" if failed else ""


class AgentMemory(NamedTuple):
    """The memory of a context."""

    episodes: EpisodicMemory


class PipelineContext:
    """What steps of agents hand to each other: values by key, ``memory.episodes``, and the ``steps`` so far.

    The default memory is one of this context alone; with ``as_of`` it is read at the open of that simulated
    session, and without ``memory_enabled`` not at all. An argument that is not valid is a ``BadOption``.

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
        for name, value, kind, valid in (
            ("config", config, Mapping, "a mapping"),
            ("run_id", run_id, str, "a text"),
            ("memory", memory, EpisodicMemory, "an EpisodicMemory"),
        ):
            if value is not None and not isinstance(value, kind):
                raise BadOption(f"{name} must be {valid}, not {type(value).__name__}", parameter=name)
        episodes = memory or EpisodicMemory()
        self.config: Mapping[str, Any] = config or {}
        self.run_id, self.memory_enabled = run_id, memory_enabled
        self.memory = AgentMemory(episodes if as_of is None else episodes.at(as_of))
        self._values: dict[str, Any] = {}  # threads may share it: each access is one operation of a dict
        self._steps: list[AgentStep] = []

    def put(self, key: str, value: Any) -> None:
        """Keep a value for later steps, in place of one of the same key."""
        self._values[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        return self._values.get(key, default)

    def has(self, key: str) -> bool:
        """Whether there is a value of this key."""
        return key in self._values

    def keys(self) -> tuple[str, ...]:
        """The keys, in the order in which they came."""
        return tuple(self._values)

    @property
    def steps(self) -> tuple[AgentStep, ...]:
        """The calls of traced agents so far, in the order in which they began."""
        return tuple(self._steps)

    @contextmanager
    def traced_step(self, agent: str) -> Iterator[AgentStep]:
        """Trace a block as a step, which takes the block's result."""
        begun, step = time.perf_counter(), AgentStep(agent=agent)
        self._steps.append(step)
        try:
            yield step
        except BaseException as error:
            line = error.line if isinstance(error, QuantGraphError) else f"{type(error).__name__}: {error}"
            step.error = " ".join(line.split())
            raise
        finally:
            step.status = "failed" if step.error else "success"
            step.duration_ms = 1000 * (time.perf_counter() - begun)


def traced_agent(name: str) -> Callable[[Agent], Agent]:
    """Trace the calls of an agent in the :class:`PipelineContext` that it gets, as ``ctx`` or otherwise.

    A step is ``failed`` if the agent raises, which goes on, or if its result says so in
    ``__meta__["failed"]``; its tokens are those of ``__meta__``. Agents may run side by side, in threads or
    as coroutines; without a context they just run.
    """

    def decorate(agent: Agent) -> Agent:
        @wraps(agent)
        async def traced_async(*args: Any, **kwargs: Any) -> Any:
            with _context_of(args, kwargs).traced_step(name) as step:
                result = await agent(*args, **kwargs)
                step.take(result)
            return result

        @wraps(agent)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with _context_of(args, kwargs).traced_step(name) as step:
                result = agent(*args, **kwargs)
                step.take(result)
            return result

        return cast(Agent, traced_async if inspect.iscoroutinefunction(agent) else traced)

    return decorate


def _context_of(args: tuple[object, ...], kwargs: Mapping[str, object]) -> PipelineContext:
    """The context among the arguments; without one the trace is kept nowhere."""
    arguments = (kwargs.get("ctx"), *args, *kwargs.values())
    return next((each for each in arguments if isinstance(each, PipelineContext)), PipelineContext())
