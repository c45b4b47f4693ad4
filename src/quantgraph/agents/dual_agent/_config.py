"""The configuration of the dual agent, ``cfg``, and how the models that it names are asked and counted."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
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

_FULL: CacheMode = "full"


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, protected_namespaces=()
    )


class _Retry(_Section):
    max_retries: int = Field(3, ge=0, le=19)
    backoff_factor: float = Field(0.5, ge=0, le=60, allow_inf_nan=False)


class _ReplyCache(_Section):
    enabled: bool = True
    ttl_hours: float = Field(24.0, gt=0, allow_inf_nan=False)


class _Budget(_Section):
    max_prompt_tokens: int | None = Field(None, ge=0)
    max_completion_tokens: int | None = Field(None, ge=0)


class _Model(_Section):
    model: str | BaseChatModel | None = None
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    max_tokens: int | None = Field(None, ge=1)


class _Mode(_Section):
    mode: CacheMode = _FULL


class LLMConfig(_Model):
    """The model of the agents, ``llm`` of ``cfg``; what is not given is that of the settings.

    ``retry`` has the requests after the first one, and the first wait in seconds, which doubles; the budget
    is that of a plain call, or of all that share its ``run_id``.
    """

    provider: Literal["openai"] = "openai"
    base_url: str | None = None
    seed: int | None = None
    timeout_sec: float | None = Field(None, gt=0, allow_inf_nan=False)
    retry: _Retry = _Retry()
    cache: _ReplyCache = _ReplyCache()
    budget: _Budget = _Budget()

    @property
    def model_settings(self) -> dict[str, Any]:
        """What is fixed here, see :meth:`.Settings.with_model`."""
        retry = self.retry if "retry" in self.model_fields_set else None
        fixed = {
            "name": self.model if isinstance(self.model, str) else None,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "retry_wait": retry and retry.backoff_factor,
            "openai_base_url": self.base_url,
            "request_timeout": self.timeout_sec,
            "max_attempts": retry and retry.max_retries + 1,
        }
        return {name: value for name, value in fixed.items() if value is not None}

    def settings(self, role: Role, mode: CacheMode = _FULL) -> Settings:
        """The settings of a plain call."""
        fixed = self.model_settings
        own = {name: fixed.pop(name) for name in [*fixed] if name in RoleModel.model_fields}
        return load_settings(
            models={role: own},
            **fixed,
            llm_cache=mode if self.cache.enabled else "off",
            llm_cache_ttl_hours=self.cache.ttl_hours,
        )


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


class FeatureOptions(_Section):
    """What the models are shown; a part that is switched off is not read at all.

    ``filter`` None asks the filter only where the features have no fundamentals of their own.
    """

    news: bool = True
    fundamentals: bool = True
    filter: bool | None = None
    top_k: int = Field(5, ge=1, le=50)
    news_days: int = Field(2, ge=1, le=90)
    price: bool = False

    @property
    def most_news(self) -> int:
        """News of a symbol at most."""
        return self.top_k if self.news else 0

    def asks_filter(self, features_list: Iterable[Mapping[str, Any]]) -> bool:
        """Whether the filter chooses the symbols whose fundamentals are shown."""
        local = any(item["features"].get("fundamental_data") for item in features_list)
        return self.fundamentals and (not local if self.filter is None else self.filter)


class DualAgentConfig(_Section):
    """``cfg`` of the dual agent; every key is optional.

    ``llm`` has ``provider`` (``openai``: any compatible server), ``base_url``, ``model``, ``temperature``,
    ``max_tokens``, ``seed``, ``timeout_sec``, ``retry.{max_retries, backoff_factor}``,
    ``cache.{enabled, ttl_hours}`` and ``budget.{max_prompt_tokens, max_completion_tokens}``;
    ``agents.dual_agent`` has ``decision_agent`` and ``fundamental_filter``, each with ``prompt`` (the name of
    a file of the package, or the path of one of your own), and with ``model``, ``temperature`` and
    ``max_tokens`` before those of ``llm``; ``agents.retry.max_attempts`` counts the replies of the decision;
    ``portfolio`` has ``total_cash`` and ``min_cash_ratio``; ``cache.mode`` is one of
    :data:`~quantgraph.llm.CacheMode`; ``features``, see :class:`.FeatureOptions`, has ``news`` and
    ``fundamentals`` (False leaves them out), ``filter``, ``top_k`` news of ``news_days``, and ``price``,
    which repeats the open.
    """

    llm: LLMConfig = LLMConfig()
    agents: _Agents = _Agents()
    portfolio: _Portfolio = _Portfolio()
    cache: _Mode = _Mode()
    features: FeatureOptions = FeatureOptions()

    @property
    def max_attempts(self) -> int:
        """Replies of the decision at most."""
        return self.agents.retry.max_attempts

    def agent(self, role: Role) -> _Agent:
        """Options of the agent with a role, ``filter`` or ``decision``."""
        both = self.agents.dual_agent
        return both.decision_agent if role == "decision" else both.fundamental_filter

    def llm_config(self, role: Role) -> LLMConfig:
        """Configuration of a role's model: its agent's own options before those of ``llm``."""
        agent = self.agent(role)
        own = {name: getattr(agent, name) for name in _Model.model_fields}
        return self.llm.model_copy(update={name: each for name, each in own.items() if each is not None})

    def client(self, *roles: Role) -> LLMClient:
        """The models of a plain call."""
        configs = {role: self.llm_config(role) for role in roles}
        return LLMClient(
            {
                role: role_model(role, model=each.model, settings=each.settings(role, self.cache.mode))
                for role, each in configs.items()
            }
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
            role: role_model(role, model=config.model, settings=config.settings(role))
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
    """How the two agents are asked, and what that took."""

    client: Ask
    ends_asking: Callable[[QuantGraphError], bool]
    meter: Meter = field(default_factory=Meter)

    def ask(self, role: Role, messages: Sequence[AnyMessage]) -> AIMessage:
        """Return the reply of a role's model, and count it."""
        meter = self.meter
        try:
            reply = self.client(role, messages)
        except QuantGraphError as error:
            meter.calls += not isinstance(error, BudgetExceeded)  # which is raised before a call
            raise
        prompt, completion = token_counts(reply)
        meter.calls += 1
        meter.tokens_prompt += prompt or 0
        meter.tokens_completion += completion or 0
        return reply

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
        spent = Budget(
            prompt_tokens=config.budget.max_prompt_tokens,
            completion_tokens=config.budget.max_completion_tokens,
        )
        found = _RECORDINGS.pop(run_id, None) or Recording(run_id, budget=spent)
        _RECORDINGS[run_id] = found
        if len(_RECORDINGS) > _MAX_RUNS:
            _RECORDINGS.popitem(last=False)
        return found


_LOCK = threading.Lock()
_RECORDINGS: OrderedDict[str, Recording] = OrderedDict()
