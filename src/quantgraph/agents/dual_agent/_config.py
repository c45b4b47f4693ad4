"""The configuration of the dual agent, ``cfg``, and how the models that it names are asked and counted."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantgraph._util.files import new_run_id
from quantgraph._util.values import faults_of, first_of
from quantgraph.errors import (
    BadOption,
    BudgetExceeded,
    ModelOutputInvalid,
    ModelUnavailable,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
)
from quantgraph.llm import CacheMode, role_model
from quantgraph.llm.messages import token_counts
from quantgraph.recording import Budget, Entry, Recording
from quantgraph.recording.scope import Scope, current_scope, in_scope
from quantgraph.settings import Role, RoleModel, Settings, load_settings

_ROLE_OF = {"decision": "decision_agent", "filter": "fundamental_filter"}


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, protected_namespaces=()
    )


@dataclass(frozen=True, kw_only=True)
class LLMConfig:
    """The model of one agent, a face of the settings: None leaves a field to them.

    ``max_retries`` are requests after the first one, ``backoff_factor`` is the first wait in seconds, which
    doubles; the budget is that of a plain call, or of all that share its ``run_id``.
    """

    role: Role = "decision"
    provider: Literal["openai"] = "openai"
    base_url: str | None = None
    model: str | BaseChatModel | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    timeout_sec: float | None = None
    max_retries: int | None = None
    backoff_factor: float | None = None
    cache_mode: CacheMode = "full"
    cache_ttl_hours: float = 24.0
    max_prompt_tokens: int | None = None
    max_completion_tokens: int | None = None

    @property
    def model_settings(self) -> dict[str, Any]:
        """What is fixed here, see :meth:`.Settings.with_model`."""
        fixed = {
            "name": self.model if isinstance(self.model, str) else None,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "retry_wait": self.backoff_factor,
            "openai_base_url": self.base_url,
            "request_timeout": self.timeout_sec,
            "max_attempts": None if self.max_retries is None else self.max_retries + 1,
        }
        return {name: value for name, value in fixed.items() if value is not None}

    @property
    def settings(self) -> Settings:
        """The settings of a plain call."""
        cache = {"llm_cache": self.cache_mode, "llm_cache_ttl_hours": self.cache_ttl_hours}
        fixed = self.model_settings
        own = {name: fixed.pop(name) for name in [*fixed] if name in RoleModel.model_fields}
        return load_settings(models={self.role: own}, **fixed, **cache)

    @property
    def budget(self) -> Budget:
        """The budget of a plain call."""
        return Budget(prompt_tokens=self.max_prompt_tokens, completion_tokens=self.max_completion_tokens)


class _Retry(_Section):
    max_retries: int = Field(3, ge=0, le=19)
    backoff_factor: float = Field(0.5, ge=0, le=60, allow_inf_nan=False)


class _ReplyCache(_Section):
    enabled: bool = True
    ttl_hours: float = Field(LLMConfig.cache_ttl_hours, gt=0, allow_inf_nan=False)


class _Budget(_Section):
    max_prompt_tokens: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=0)


class _Model(_Section):
    model: str | BaseChatModel | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int | None = Field(None, ge=1)


class _LLM(_Model):
    provider: Literal["openai"] = LLMConfig.provider
    base_url: str | None = None
    seed: int | None = None
    timeout_sec: float | None = Field(None, gt=0, allow_inf_nan=False)
    retry: _Retry = _Retry()
    cache: _ReplyCache = _ReplyCache()
    budget: _Budget = _Budget()


class _Agent(_Model):
    prompt: str | None = None


class _DualAgent(_Section):
    decision_agent: _Agent = _Agent()
    fundamental_filter: _Agent = _Agent()


class _Attempts(_Section):
    max_attempts: int = Field(3, ge=1, le=20)


class _Agents(_Section):
    dual_agent: _DualAgent = _DualAgent()
    retry: _Attempts = _Attempts()


class _Portfolio(_Section):
    total_cash: float | None = Field(None, ge=0, allow_inf_nan=False)
    min_cash_ratio: float = Field(0.0, ge=0, lt=1, allow_inf_nan=False)


class _Mode(_Section):
    mode: CacheMode = LLMConfig.cache_mode


class FeatureOptions(_Section):
    """What the models are shown; a part that is switched off is not read at all."""

    news: bool = True
    fundamentals: bool = True
    top_k: int = Field(5, ge=1, le=50)
    news_days: int = Field(2, ge=1, le=90)
    price: bool = False

    @property
    def most_news(self) -> int:
        """News of a symbol at most."""
        return self.top_k if self.news else 0


class DualAgentConfig(_Section):
    """``cfg`` of the dual agent; every key is optional.

    ``llm`` has ``provider`` (``openai``: any compatible server), ``base_url``, ``model``, ``temperature``,
    ``max_tokens``, ``seed``, ``timeout_sec``, ``retry.{max_retries, backoff_factor}``,
    ``cache.{enabled, ttl_hours}`` and ``budget.{max_prompt_tokens, max_completion_tokens}``;
    ``agents.dual_agent`` has ``decision_agent`` and ``fundamental_filter``, each with ``prompt`` (the name of
    a file of the package, or the path of one of your own), and with ``model``, ``temperature`` and
    ``max_tokens`` before those of ``llm``; ``agents.retry.max_attempts`` counts the
    attempts of the model and of the market together; ``portfolio`` has ``total_cash`` and
    ``min_cash_ratio``; ``cache.mode`` is one of :data:`~quantgraph.llm.CacheMode`; ``features`` has ``news``
    and ``fundamentals`` (False leaves them out), ``top_k`` news of ``news_days``, and ``price``, which
    repeats the open.
    """

    llm: _LLM = _LLM()
    agents: _Agents = _Agents()
    portfolio: _Portfolio = _Portfolio()
    cache: _Mode = _Mode()
    features: FeatureOptions = FeatureOptions()

    @property
    def max_attempts(self) -> int:
        """Attempts of the model and of the market together."""
        return self.agents.retry.max_attempts

    def agent(self, role: Role) -> _Agent:
        """Options of the agent with a role, ``filter`` or ``decision``."""
        found: _Agent = getattr(self.agents.dual_agent, _ROLE_OF[role])
        return found

    def llm_config(self, role: Role) -> LLMConfig:
        """Configuration of a role's model: its agent's own options before those of ``llm``."""
        llm, agent = self.llm, self.agent(role)
        return LLMConfig(
            role=role,
            provider=llm.provider,
            base_url=llm.base_url,
            model=agent.model or llm.model,
            temperature=llm.temperature if agent.temperature is None else agent.temperature,
            max_tokens=agent.max_tokens or llm.max_tokens,
            seed=llm.seed,
            timeout_sec=llm.timeout_sec,
            max_retries=llm.retry.max_retries if "retry" in llm.model_fields_set else None,
            backoff_factor=llm.retry.backoff_factor if "retry" in llm.model_fields_set else None,
            cache_mode=self.cache.mode if llm.cache.enabled else "off",
            cache_ttl_hours=llm.cache.ttl_hours,
            max_prompt_tokens=llm.budget.max_prompt_tokens,
            max_completion_tokens=llm.budget.max_completion_tokens,
        )


def read_config(cfg: Mapping[str, Any] | None) -> DualAgentConfig:
    """Read ``cfg``; None has all defaults."""
    if cfg is not None and not isinstance(cfg, Mapping):
        raise BadOption(f"cfg must be a mapping, not {cfg!r:.60}", parameter="cfg")
    try:
        return DualAgentConfig.model_validate(dict(cfg or {}))
    except ValidationError as error:
        line = first_of([fault.line for fault in faults_of(error, DualAgentConfig)])
    raise BadOption(f"cfg: {line}", parameter="cfg")


Ask = Callable[[Role, Sequence[AnyMessage]], AIMessage]
"""Asks the model of a role."""

_MAX_RUNS = 256
"""Run ids whose budgets are kept; an older one begins anew."""


class LLMClient:
    """The models of the agents, by role: configurations of models, or models that are made already."""

    def __init__(self, configs: Mapping[Role, LLMConfig | BaseChatModel]) -> None:
        self._models = {
            role: role_model(role, model=config.model, settings=config.settings)
            if isinstance(config, LLMConfig)
            else config
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

    def add(self, counts: Mapping[str, Any]) -> None:
        """Add the counts of calls that were made elsewhere, and why the models failed."""
        for name, value in counts.items():
            setattr(self, name, getattr(self, name) + value)

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
    ends_asking: Callable[[QuantGraphError], bool]

    def give_up(self, error: QuantGraphError) -> None:
        """Note why the models are asked no more; raise an error that is not one of the models."""
        if not self.ends_asking(error):
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
