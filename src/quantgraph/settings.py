"""Settings: argument > environment > ``.env`` > TOML > default.

``.env`` and ``quantgraph.toml`` are read from the working folder only; the environment variable
``QUANTGRAPH_CONFIG`` names another TOML file. An empty value counts as not set.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from platformdirs import user_cache_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from quantgraph._util.files import check_text
from quantgraph._util.packages import is_package
from quantgraph._util.texts import SOURCES, NewsUntil
from quantgraph._util.values import faults_of, near_or_valid
from quantgraph.errors import BadFile, BadOption, NotConfigured

Role = str
"""A use of a model: one of :data:`ROLES`, or one that a decider declares. Each may have its own model."""

ROLES: tuple[Role, ...] = (
    *("reflection", "data_fetch", "signal_generate", "validation", "clarify"),
    *("filter", "decision", "execution", "trader"),
)
"""The roles of the package's own graphs and deciders."""
_ROLE = re.compile(r"[a-z][a-z0-9_]{0,39}")  # "trader"

_PREFIX = "QUANTGRAPH_"
_KINDS = "calls|prompt_tokens|completion_tokens|money|seconds"
_BUDGET = f"{_KINDS.replace('|', ', ')}, each with a number, like calls=100,money=2.5"
_LIMIT = rf"\s*({_KINDS})\s*=\s*\d+(\.\d+)?\s*"
_LIMITS = rf"^{_LIMIT}(,{_LIMIT})*$"
_VENDOR_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai_api_key": ("OPENAI_API_KEY",),
    "openai_base_url": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "tushare_token": ("TUSHARE_TOKEN",),
    "jina_api_key": ("JINA_API_KEY",),
}


def _none_is_none(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _installed(name: str) -> str:
    if not is_package(name):
        raise ValueError("not installed")
    return name


def _role(name: str) -> str:
    if not _ROLE.fullmatch(name):
        raise ValueError("not a role")
    return name


Temperature = Annotated[
    Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None, BeforeValidator(_none_is_none)
]
MaxTokens = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
SystemRole = Literal["system", "user"]
_TEMPERATURE = "a number from 0 to 2, or 'none' to send none"
_MAX_TOKENS, _SEED = "a whole number, at least 1", "a whole number from 0 to 2**63 - 1"
_TABLE = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class RoleModel(BaseModel):
    """The model of one role; what is not set is that of the role ``all``, then the setting of all roles."""

    model_config = _TABLE

    name: str | None = Field(None, description="a model name, or 'keyless' for the planner")
    temperature: Temperature = Field(0.0, description=_TEMPERATURE)
    max_tokens: MaxTokens | None = Field(None, description=_MAX_TOKENS)
    seed: Seed | None = Field(None, description=_SEED)
    reply_limit_field: Literal["auto", "max_tokens", "max_completion_tokens"] = Field(
        "auto", description="auto, max_tokens or max_completion_tokens"
    )
    stream: bool | None = Field(None, description="true to have each reply streamed, or false for never")
    extra_body: dict[str, Any] = Field(
        default_factory=dict,
        repr=False,
        description="further fields of requests, like {enable_thinking = false}",
    )
    system_role: SystemRole = Field(
        "system", description="system, or user for a server without a system role"
    )
    cut_off: str | None = Field(
        None, pattern=r"^\d{4}-\d{2}$", description="the month in which its training ends, like 2025-08"
    )
    retry_wait: float = Field(0.5, ge=0, allow_inf_nan=False, description="seconds, 0 or more")


class TableOptions(BaseModel):
    """What the owner of tables and news says where these do not tell; None asks, with an error."""

    model_config = _TABLE

    volume_unit: Literal["shares", "hands"] | None = Field(None, description="shares, or hands of 100 shares")
    amount_unit: Literal["yuan", "thousand_yuan", "ten_thousand_yuan"] | None = Field(
        None, description="yuan, thousand_yuan or ten_thousand_yuan"
    )
    date_order: Literal["month_first", "day_first"] | None = Field(
        None, description="month_first or day_first, for dates like 01/02/2024"
    )
    decimal: Literal["point", "comma"] | None = Field(
        None, description="point or comma, for numbers like 1,234"
    )
    adjusted: Literal["keep"] | None = Field(
        None, description="keep, for adjusted prices that fall below 0: the other rows are read"
    )
    unit_change: Literal["mend"] | None = Field(
        None, description="mend, for volumes or amounts of some rows in another unit: they are multiplied out"
    )
    bar: Literal["daily", "weekly", "monthly", "irregular"] | None = Field(
        None, description="weekly, monthly or irregular, for rows that are not days"
    )
    unexplained: Literal["ask", "action", "keep", "leave_out"] | None = Field(
        None, description="ask, action, keep or leave_out, for moves that no action in the data explains"
    )
    record_zone: dict[str, str] | None = Field(
        None, description="a time zone, like Asia/Shanghai, or one by publisher, like {Reuters = 'UTC'}"
    )

    @field_validator("record_zone", mode="before")
    @classmethod
    def _by_publisher(cls, value: object) -> object:
        """Zones by publisher of a text: ``UTC``, or ``Reuters=UTC,MarketWatch=America/New_York``."""
        if not isinstance(value, str):
            return value
        pairs = [part.rpartition("=") for part in value.split(",") if part.strip()]
        return {publisher.strip() or "*": zone.strip() for publisher, _, zone in pairs} or None


class AuditOptions(BaseModel):
    """How a strategy is proved causal: at every session up to a size of the data, else at some of them."""

    model_config = _TABLE

    cuts: int = Field(40, ge=1, le=100_000, description="a whole number from 1 to 100000")
    prove: Literal["auto", "all", "sampled"] = Field("auto", description="auto, all or sampled")
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="a whole number, 0 or more")


class AssistantOptions(BaseModel):
    """What an assistant of a LangGraph server may choose by name, and what it has if it does not choose."""

    model_config = _TABLE

    sources: dict[str, str] = Field(
        default_factory=dict, description="by name a source, like {shares = 'data/shares'}"
    )
    models: dict[str, str] = Field(
        default_factory=dict, description="by name a model, like {small = 'qwen3'}"
    )
    deciders: dict[str, str] = Field(
        default_factory=dict, description="by name a decider, like {mine = 'my.py:Mine'}"
    )
    defaults: dict[str, Any] = Field(
        default_factory=dict, description="a context, like {decider = 'trader', cash = 500000}"
    )


_TABLES: Mapping[str, type[BaseModel]] = {
    "models": RoleModel,
    "tables": TableOptions,
    "audit": AuditOptions,
    "assistants": AssistantOptions,
}
"""Settings that are tables, each with its keys; ``models`` has one for each role."""


class Settings(BaseSettings):
    """The configuration. Frozen; secrets never show in ``repr``, logs or errors.

    Build it with :func:`load_settings`, which explains a wrong value in one line.

    Environment variables: ``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` (or ``OPENAI_API_BASE``),
    ``TUSHARE_TOKEN``, ``JINA_API_KEY``; every other field is ``QUANTGRAPH_<FIELD>``, that of a table as JSON.
    In TOML the keys are the field names.
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    openai_api_key: SecretStr | None = Field(None, description="a key of the model server")
    openai_base_url: str | None = Field(
        None, repr=False, description="an http(s) URL without user name or password, like https://host/v1"
    )
    model: str | None = Field(None, description="a model name, or 'keyless' for the planner")
    models: dict[Annotated[Role, AfterValidator(_role)], RoleModel] = Field(
        default_factory=dict,
        description="by role a model name, or a table like {name = …, temperature = …, seed = …}",
    )
    temperature: Temperature = Field(0.0, description=_TEMPERATURE)
    max_tokens: MaxTokens | None = Field(None, description=_MAX_TOKENS)
    request_timeout: float = Field(60.0, gt=0, allow_inf_nan=False, description="seconds above 0")
    max_attempts: int = Field(3, ge=1, le=20, description="a whole number from 1 to 20")
    tool_calling: Literal["auto", "native", "text"] = Field("auto", description="auto, native or text")
    budget: str | None = Field(None, pattern=_LIMITS, description=f"limits of a run: {_BUDGET}")
    session_budget: str | None = Field(
        None, pattern=_LIMITS, description=f"limits of a trading session: {_BUDGET}"
    )
    node_seconds: float = Field(600.0, gt=0, allow_inf_nan=False, description="seconds above 0")
    prices: Path | None = Field(None, description="a TOML file with a table for each model")
    llm_cache: Literal["off", "llm_write_only", "full"] = Field(
        "off", description="off, llm_write_only or full"
    )
    llm_cache_ttl_hours: float = Field(24.0, gt=0, allow_inf_nan=False, description="hours above 0")
    runs_dir: Path = Field(Path("runs"), description="a folder")
    fetch: Literal["code", "agent"] = Field(
        "code", description="code, or agent: a model calls the data tools"
    )
    data_source: str = Field("sample", min_length=1, description=SOURCES)
    max_file_mb: int = Field(2048, ge=1, description="megabytes, at least 1")
    tables: TableOptions = Field(default_factory=TableOptions, description="a table like {volume_unit = …}")
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("quantgraph", appauthor=False), description="a folder"
    )
    tushare_token: SecretStr | None = Field(None, description="a tushare token")
    jina_api_key: SecretStr | None = Field(None, description="a key of jina.ai")
    code_timeout: float = Field(30.0, gt=0, allow_inf_nan=False, description="seconds above 0")
    code_memory_mb: int = Field(2048, ge=64, description="megabytes, at least 64")
    code_isolation: Literal["full", "limits_only", "none", "trusted"] = Field(
        "full",
        description="full, limits_only or none, the least isolation accepted; or trusted, in this process",
    )
    sandbox_packages: list[Annotated[str, AfterValidator(_installed)]] = Field(
        default_factory=list, description="names of installed packages, like scipy,statsmodels"
    )
    assistants: AssistantOptions = Field(
        default_factory=AssistantOptions, description="a table like {models = {small = 'qwen3'}}"
    )
    review: Literal["auto", "always", "never"] = Field("auto", description="auto, always or never")
    news_until: NewsUntil = Field("previous_day", description="previous_day or open")
    tries: Path | None = Field(None, description="a file")
    audit: AuditOptions = Field(default_factory=AuditOptions, description="a table like {cuts = 40}")

    @field_validator(
        "openai_api_key",
        "openai_base_url",
        "model",
        "tushare_token",
        "jina_api_key",
        "budget",
        "session_budget",
        "prices",
        "max_tokens",
        "tries",
        mode="before",
    )
    @classmethod
    def _blank_is_none(cls, value: object) -> object:
        return (value.strip() or None) if isinstance(value, str) else value

    @field_validator("sandbox_packages", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Split names that are written in one text."""
        return value.replace(",", " ").split() if isinstance(value, str) else value

    @field_validator("sandbox_packages")
    @classmethod
    def _sorted(cls, value: list[str]) -> list[str]:
        return sorted({*value})

    @field_validator("openai_base_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError("not a plain http(s) URL")
        return value.strip().rstrip("/")

    @field_validator("runs_dir", "cache_dir", "prices", "tries")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value and value.expanduser()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources in order of precedence, in place of the library's."""
        return init_settings, *(_LayerSource(settings_cls, layer) for layer in _layers())

    def model_for(self, role: Role) -> str | None:
        """Name the model configured for a role, or for all; or None."""
        return self.of_role(role).name or self.model

    def parameters_for(self, role: Role) -> dict[str, Any]:
        """``temperature``, ``max_tokens`` and ``seed`` of a role's requests; None is not sent.

        >>> Settings(models={"decision": RoleModel(seed=42)}).parameters_for("decision")
        {'temperature': 0.0, 'max_tokens': None, 'seed': 42}
        """
        own = self.of_role(role)
        both = ("temperature", "max_tokens")
        found = {name: getattr(own if name in own.model_fields_set else self, name) for name in both}
        return found | {"seed": own.seed}

    def with_model(self, role: Role, fixed: Mapping[str, Any]) -> Settings:
        """A copy with other values for a role's model: by keys of its table, or by settings.

        >>> Settings().with_model("trader", {"seed": 7, "max_attempts": 1}).parameters_for("trader")["seed"]
        7
        """
        own = {name: value for name, value in fixed.items() if name in RoleModel.model_fields}
        others = {name: value for name, value in fixed.items() if name not in own}
        models = {**self.models, role: self.of_role(role).model_copy(update=own)}
        return self.model_copy(update={**others, "models": models})

    def of_role(self, role: Role) -> RoleModel:
        """The model of a role, as far as it, or the table ``models.all``, has settings of its own.

        >>> Settings(models={"all": RoleModel(seed=1), "trader": RoleModel(name="x")}).of_role("trader").seed
        1
        """
        every, own = self.models.get("all", RoleModel()), self.models.get(role, RoleModel())
        return every.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


class _LayerSource(PydanticBaseSettingsSource):
    """One layer as a source of pydantic-settings, which merges them."""

    def __init__(self, settings_cls: type[BaseSettings], layer: _Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return self._layer.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._layer.values


def _layers() -> tuple[_Layer, ...]:
    return (
        _environment_layer(os.environ, place="environment"),
        _dotenv_layer(Path(".env")),
        _toml_layer(os.environ.get("QUANTGRAPH_CONFIG")),
    )


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; each call reads the environment and the files again.

    Parameters
    ----------
    **overrides
        Fields of :class:`Settings`; they win over every other source.

    Raises
    ------
    BadOption
        Names the variable or key with a wrong value and what is valid, or the unknown key.
    BadFile
        ``.env`` or the TOML file cannot be read.
    """
    for name in overrides:
        _require_known(name, Settings.model_fields, "setting")
    shown = {name: _table(name, value, f"argument {name}") for name, value in overrides.items()}
    try:
        return Settings(**shown)
    except ValidationError as error:
        problem = _explain(error, overrides)
    # Raised outside of ``except``: the validation error may hold a secret and must not be its context.
    raise problem


def _explain(error: ValidationError, overrides: Mapping[str, Any]) -> BadOption:
    """The first fault in one line; a value that may be a secret is not shown."""
    fault = faults_of(error, Settings)[0]
    path, shown = [str(part) for part in fault.path], fault.shown
    text = error.errors()[0]["input"]
    if "budget" in path[0] and isinstance(text, str):
        shown = repr(next(part for part in text.split(",") if not re.fullmatch(_LIMIT, part)).strip())
    return BadOption(
        f"{_place(path, overrides)}: {shown} is not valid; it must be {fault.valid}", option=path[0]
    )


def _place(path: list[str], overrides: Mapping[str, Any]) -> str:
    """Where a wrong value came from."""
    if path[0] in overrides:
        return f"argument {'.'.join(path)}"
    for end in range(len(path), 0, -1):
        for layer in _layers():
            if place := layer.places.get(".".join(path[:end])):
                return place
    return ".".join(path)


def _table(name: str, value: Any, where: str) -> Any:
    """The value of a setting; a table of known keys without empty values, and of tables for models."""
    kind = _TABLES.get(name)
    if kind is None or not isinstance(value, Mapping):
        return value
    if name != "models":
        return _known_keys(value, kind, f"{where}: key")
    for role in value:
        check_role(str(role), f"{where}: role")
    return {role: _role_table(one, f"{where}: key of {role}") for role, one in value.items() if one != ""}


def _role_table(model: Any, where: str) -> Any:
    """A plain name is a table with the name alone: the keys of another source are added to it."""
    if isinstance(model, str):
        return {"name": model.strip()}
    if isinstance(model, RoleModel):
        return model.model_dump(exclude_unset=True)
    return _known_keys(model, RoleModel, where) if isinstance(model, Mapping) else model


def _known_keys(table: Mapping[str, Any], kind: type[BaseModel], where: str) -> dict[str, Any]:
    for key in table:
        _require_known(key, kind.model_fields, where)
    return {key: value for key, value in table.items() if value != ""}


def _places(value: Any, path: str, where: str) -> Iterator[tuple[str, str]]:
    """The places of a setting and of the keys of a table."""
    yield path, where
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        yield from _places(inner, f"{path}.{key}", f"{key} of {where}")


def check_role(role: str, where: str = "role") -> Role:
    """Return the role; ``BadOption`` for what cannot be one, or may be a misspelt one of :data:`ROLES`.

    >>> check_role("dip_judge")
    'dip_judge'
    """
    alike = [each for each in ROLES if each.count("_") == role.count("_")]
    near = get_close_matches(role.lower(), alike, n=1)
    if role in ROLES or (_ROLE.fullmatch(role) and not near):
        return role
    advice = f"did you mean {near[0]!r}? A role" if near else "a role"
    raise BadOption(
        f"{where} {role!r:.60} is not known; {advice} of your own is of a-z, 0-9 and _, at most 40, and not "
        "spelt like one of the package, as my_judge",
        option=role,
    )


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """Values by field, and for each the place it was read from, for error messages."""

    values: dict[str, Any] = field(default_factory=dict, repr=False)
    places: dict[str, str] = field(default_factory=dict)


def _environment_layer(variables: Mapping[str, str], *, place: str) -> _Layer:
    """Read the variables of the settings; an empty one counts as not set."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for name in Settings.model_fields:
        for variable in _VENDOR_VARIABLES.get(name, (_PREFIX + name.upper(),)):
            if variables.get(variable, "").strip():
                where = f"{variable} ({place})"
                check_text(variables[variable], where)
                values[name] = _value(name, variables[variable], where)
                places |= _places(values[name], name, where)
                break
    return _Layer(values=values, places=places)


def _value(name: str, text: str, where: str) -> Any:
    """The value of a variable; a table is JSON."""
    if name not in _TABLES:
        return text
    try:
        table = json.loads(text)
    except ValueError:
        table = None
    if not isinstance(table, dict):
        valid = Settings.model_fields[name].description
        raise BadOption(f"{where}: {text!r:.80} is not a JSON object; it must be {valid}", option=name)
    check_text(json.dumps(table, ensure_ascii=False), where)
    return _table(name, table, where)


def _dotenv_layer(path: Path) -> _Layer:
    """Read a ``.env`` file, if it exists, with the names of environment variables."""
    if not path.is_file():
        return _Layer()
    try:
        found = dotenv_values(path, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {_reason(error)}", path=str(path)) from error
    shown = {name: value for name, value in found.items() if value is not None}
    return _environment_layer(shown, place=str(path))


def _toml_layer(named: str | None) -> _Layer:
    """Read the TOML file that ``QUANTGRAPH_CONFIG`` names, else ``quantgraph.toml`` if it exists."""
    path = Path(named or "quantgraph.toml").expanduser()
    if not named and not path.is_file():
        return _Layer()
    if not path.is_file():
        raise BadOption(f"QUANTGRAPH_CONFIG: {path} is not a file; name one or unset it", path=str(path))
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"{path} is not readable TOML: {_reason(error)}", path=str(path)) from error
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for key, value in table.items():
        _require_known(key, Settings.model_fields, f"{path}: key")
        if value != "":
            values[key] = _table(key, value, f"{path}: {key}")
            places |= _places(values[key], key, f"{key} ({path})")
    return _Layer(values=values, places=places)


def _require_known(name: str, names: Iterable[str], where: str) -> None:
    known = sorted(names)
    if name not in known:
        raise BadOption(f"{where} {name!r} is not known; {near_or_valid(name, known)}", option=name)


def _reason(error: Exception) -> str:
    """What is wrong with a file, without quoting it: it may hold a secret."""
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def is_loopback(url: str | None) -> bool:
    """Whether a URL names this machine by ``localhost`` or a loopback address.

    >>> is_loopback("http://127.0.0.1:8000/v1"), is_loopback("http://[::1]/v1"), is_loopback("https://host/v1")
    (True, True, False)
    """
    host = urlsplit(url or "").hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_key(name: str | None, role: Role, settings: Settings) -> None:
    """Raise ``NotConfigured`` if a model needs a key that the settings do not have."""
    if settings.openai_api_key is None and not is_loopback(settings.openai_base_url):
        raise NotConfigured(
            f"model {name!r} for role {role!r} needs a key: set OPENAI_API_KEY, or QUANTGRAPH_MODEL=keyless "
            "for the planner that needs none",
            role=role,
            variable="OPENAI_API_KEY",
        )
