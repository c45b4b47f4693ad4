"""The configuration of the dual agent: ``cfg`` as a mapping with known keys, and the models it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quantgraph._util.values import faults_of, first_of
from quantgraph.errors import BadOption
from quantgraph.llm import CacheMode
from quantgraph.recording.budget import Budget
from quantgraph.settings import Role, RoleModel, Settings, load_settings

_ROLE_OF = {"decision": "decision_agent", "filter": "fundamental_filter"}


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, protected_namespaces=()
    )


@dataclass(frozen=True, kw_only=True)
class LLMConfig:
    """The model of one agent: a face of the settings. None leaves a field to the settings.

    Attributes
    ----------
    role
        The agent's: ``filter`` or ``decision``.
    provider
        ``openai``: any server that speaks its protocol.
    model
        A model's name, ``keyless``, or a chat model.
    timeout_sec
        Seconds that one request may take.
    max_retries, backoff_factor
        Repeated requests after the first one, and the first wait in seconds, which doubles.
    cache_mode, cache_ttl_hours
        See :class:`~quantgraph.llm._cache.ReplyCache`.
    max_prompt_tokens, max_completion_tokens
        Budget of a plain call, or of all that share its ``run_id``.
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


class DualAgentConfig(_Section):
    """``cfg`` of the dual agent; every key is optional.

    ``llm`` has ``provider`` (``openai``: any compatible server), ``base_url``, ``model``, ``temperature``,
    ``max_tokens``, ``seed``, ``timeout_sec``, ``retry.{max_retries, backoff_factor}``,
    ``cache.{enabled, ttl_hours}`` and ``budget.{max_prompt_tokens, max_completion_tokens}``;
    ``agents.dual_agent`` has ``decision_agent`` and ``fundamental_filter``, each with ``prompt``, ``model``,
    ``temperature`` and ``max_tokens`` before those of ``llm``; ``agents.retry.max_attempts`` counts the
    attempts of the model and of the market together; ``portfolio`` has ``total_cash`` and
    ``min_cash_ratio``; ``cache.mode`` is one of :data:`~quantgraph.llm.CacheMode`.
    """

    llm: _LLM = _LLM()
    agents: _Agents = _Agents()
    portfolio: _Portfolio = _Portfolio()
    cache: _Mode = _Mode()

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
        told = first_of([fault.line for fault in faults_of(error, DualAgentConfig)])
    raise BadOption(f"cfg: {told}", parameter="cfg")
