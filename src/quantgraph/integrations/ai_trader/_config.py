"""AI-Trader's config file: read strictly, so that nothing that stands in it is silently ignored."""

from __future__ import annotations

import datetime as dt
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from quantgraph._util.files import check_text
from quantgraph._util.texts import escape_controls
from quantgraph._util.values import faults_of, first_of, short_value
from quantgraph.agents.trader import TraderOptions
from quantgraph.errors import BadFile, BadOption

TraderMarket = Literal["cn", "us"]

_LARGEST = 1 << 20
_LONGEST_SIGNATURE = 100
_CASH: Final = {"us": 10_000.0, "cn": 100_000.0}
_WITHOUT_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("comment", "description", "name", "version"),
    "models": ("comment", "description"),
    "agent_config": ("verbose", "comment"),
    "log_config": ("comment", "log_level"),
}
"""Keys of public config files that change nothing here; so do all that begin with ``_``."""
_PLACEHOLDER = re.compile(r"(?i)^optional\b|\byour[_ -]|^<.*>$")  # "your_api_key"
"""What public config files have in place of an address or a key."""
_WINDOWS = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?")  # "nul.csv"


def _is_day(value: str) -> str:
    if dt.date.fromisoformat(value).isoformat() != value:
        raise ValueError("not written YYYY-MM-DD")
    return value


def _without_blanks(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


_Text = Annotated[str, Field(pattern=r"^[^\x00]*[^\x00\s][^\x00]*$", max_length=1_000)]
_TEXT = "a text that is not empty, of at most 1,000 characters"
_Day = Annotated[str, AfterValidator(_is_day)]
_DAY = "a day, YYYY-MM-DD"
_TABLE = "a JSON object"


class _Section(BaseModel):
    """An object of the file. A field's description completes "must be"."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class TraderModel(_Section):
    """A model of the config.

    Attributes
    ----------
    name, basemodel
        For people, and as its server calls it.
    signature
        Name of its folder below ``log_path``.
    openai_base_url, openai_api_key
        Its own server and key, which do not show; None: the settings'.
    """

    basemodel: _Text = Field(description=_TEXT)
    signature: str = Field(description="a text, the name of a folder")
    name: _Text = Field(default_factory=lambda read: str(read.get("signature")), description=_TEXT)
    enabled: bool = Field(True, description="true or false")
    openai_base_url: Annotated[str | None, BeforeValidator(_without_blanks)] = Field(
        None,
        repr=False,
        description="an http(s) URL without user name, password and query, like https://host/v1",
    )
    openai_api_key: Annotated[SecretStr | None, BeforeValidator(_without_blanks)] = Field(
        None, description="a text with characters that a key can have"
    )

    @field_validator("openai_base_url")
    @classmethod
    def _is_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and info.data.get("enabled"):
            parts = urlsplit(value)
            plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
            if not plain or parts.query or parts.fragment or parts.port == 0:  # a bad port raises
                raise ValueError("not a plain http(s) URL")
        return value

    @field_validator("openai_api_key")
    @classmethod
    def _is_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not (value.get_secret_value().isascii() and value.get_secret_value().isprintable()):
            raise ValueError("not printable ASCII")
        return value


class _DateRange(_Section):
    init_date: _Day = Field(description=_DAY)
    end_date: _Day | None = Field(None, description=_DAY)


class _AgentConfig(_Section):
    max_steps: int = Field(TraderOptions.max_steps, description="a whole number")
    max_retries: int = Field(TraderOptions.max_retries, description="a whole number")
    base_delay: float = Field(TraderOptions.base_delay, description="a number of seconds")
    initial_cash: float = Field(0.0, gt=0, allow_inf_nan=False, description="an amount above 0")
    """The default, which is not valid in a file, is the market's."""


class _LogConfig(_Section):
    log_path: _Text = Field("./data/agent_data", description=_TEXT)


class _File(_Section):
    agent_type: Literal["BaseAgent", "BaseAgentAStock"] = Field(
        "BaseAgent",
        description="one of BaseAgent, BaseAgentAStock; an agent that trades hours or trades crypto "
        "currencies is not run here",
    )
    market: TraderMarket | None = Field(None, description="us or cn; crypto is not traded here")
    date_range: _DateRange = Field(description=_TABLE)
    agent_config: _AgentConfig = Field(_AgentConfig(), description=_TABLE)
    log_config: _LogConfig = Field(_LogConfig(), description=_TABLE)
    models: tuple[TraderModel, ...] = Field(
        strict=False, min_length=1, description="a list of models, each a JSON object"
    )


@dataclass(frozen=True, kw_only=True)
class TraderConfig:
    """A config file of AI-Trader.

    Attributes
    ----------
    market
        ``us`` or ``cn``.
    init_date, end_date
        Day of the registration, which is never traded, and the last day; ``YYYY-MM-DD``. None: the data's
        last session.
    models
        In the order of the file, the disabled too.
    max_steps, max_retries, base_delay
        See :class:`~quantgraph.agents.trader.TraderAgent`.
    initial_cash
        In the market's currency. Default: 10,000 in the US, 100,000 in the mainland.
    log_path
        Folder of the signatures' folders. A relative one is below the working folder.
    without_effect
        Keys of the file that change nothing.
    """

    market: TraderMarket
    init_date: str
    end_date: str | None
    models: tuple[TraderModel, ...]
    max_steps: int
    max_retries: int
    base_delay: float
    initial_cash: float
    log_path: Path
    without_effect: tuple[str, ...] = ()

    @property
    def enabled(self) -> tuple[TraderModel, ...]:
        """The models that are enabled."""
        return tuple(each for each in self.models if each.enabled)

    def chosen(self, signature: str | None = None) -> tuple[TraderModel, ...]:
        """Return the models that are traded: all that are enabled, or the one of a signature.

        Raises
        ------
        BadOption
            If no enabled model has it.
        """
        found = tuple(each for each in self.enabled if signature in (None, each.signature))
        if not found:
            listed = ", ".join(_name_of(each) for each in self.enabled)
            raise BadOption(f"signature={signature!r:.80}; enabled are {listed}", parameter="signature")
        return found


def read_trader_config(path: str | Path) -> TraderConfig:
    """Read a config file of AI-Trader.

    Raises
    ------
    BadFile
        If it cannot be read, has more than 1 MB, or is not JSON.
    BadOption
        If a key is missing, unknown or repeated, or a value is not valid: the message names the key.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        if size > _LARGEST:
            raise BadFile(f"{place} has {size:,} bytes; a config has at most {_LARGEST:,}", file=str(place))
        text = place.read_bytes().decode("utf-8-sig")
        set_aside: list[str] = []
        document = _set_aside(json.loads(text, object_pairs_hook=_unique), "", set_aside)
    except OSError as error:
        raise BadFile(f"{place} cannot be read: {error.strerror}", file=str(place)) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadFile | BadOption):
            raise
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else _where(error)
        # Not chained: the error may hold the document, and with it a key.
        raise BadFile(f"{place} is not JSON: {reason}", file=str(place)) from None
    if not isinstance(document, dict):
        raise BadOption(f"the config is {short_value(document)}; must be a JSON object", parameter="config")
    try:
        return _config(_File.model_validate(document), set_aside)
    except ValidationError as error:
        faults = faults_of(error, _File)
    # Raised outside of ``except``: the validation error may hold a key.
    raise BadOption(first_of([fault.line for fault in faults]), parameter=faults[0].place)


def check_signature(signature: object, name: str = "signature") -> str:
    """Return a signature that is one folder's name on every system."""
    if not isinstance(signature, str):
        raise BadOption(f"{name} is {short_value(signature)}; must be a text", parameter=name)
    check_text(signature, name)
    problem = None
    if not signature or len(signature.encode()) > _LONGEST_SIGNATURE:
        problem = f"it must have 1 to {_LONGEST_SIGNATURE} bytes"
    elif escape_controls(signature) != signature or not signature.isprintable():
        problem = "it has a character that does not show"
    elif set(signature) & set('/\\:<>"|?*'):
        problem = 'none of / \\ : < > " | ? * may stand in the name of a folder'
    elif signature[0] in ". ~" or signature[-1] in ". ":
        problem = "it must not begin with '.', '~' or a space, nor end with '.' or a space"
    elif _WINDOWS.fullmatch(signature):
        problem = "it is the name of a device on Windows"
    if problem:
        raise BadOption(f"{name}={signature!a:.120}: {problem}", parameter=name)
    return signature


def _set_aside(value: object, place: str, noted: list[str]) -> object:
    """Return a document without entries that change nothing; their places are noted."""
    if isinstance(value, list):
        return [_set_aside(each, f"{place}[{number}]", noted) for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept, section = {}, place.partition("[")[0]
    for key, each in value.items():
        inner = f"{place}.{key}" if place else key
        is_own = section == "models" and key in ("openai_base_url", "openai_api_key")
        if key in _WITHOUT_EFFECT.get(section, ()) or key.startswith("_"):
            noted.append(inner)
        elif is_own and isinstance(each, str) and _PLACEHOLDER.search(each.strip()):
            noted.append(f"{inner} (a placeholder)")
        else:
            kept[key] = _set_aside(each, inner, noted)
    return kept


def _config(file: _File, set_aside: Iterable[str]) -> TraderConfig:
    """Return what a file says, with what fits or does not fit together."""
    is_mainland = file.agent_type == "BaseAgentAStock"
    if is_mainland and file.market == "us":
        raise BadOption("market='us' and agent_type='BaseAgentAStock' exclude each other", parameter="market")
    market: TraderMarket = "cn" if is_mainland else file.market or "us"
    days = file.date_range
    if days.end_date and days.end_date <= days.init_date:
        raise BadOption(
            f"date_range.end_date={days.end_date} must be after init_date={days.init_date}, the day of the "
            "registration",
            parameter="date_range.end_date",
        )
    for place, model in enumerate(file.models):
        check_signature(model.signature, f"models[{place}].signature")
    enabled = [each.signature for each in file.models if each.enabled]
    if not enabled:
        names = ", ".join(map(_name_of, file.models))
        raise BadOption(f"no model is enabled; enable one of {names}", parameter="models")
    _check_unlike(enabled)
    agent = dict(file.agent_config)
    agent["initial_cash"] = agent["initial_cash"] or _CASH[market]
    return TraderConfig(
        **dict(days),
        **agent,
        market=market,
        models=file.models,
        log_path=Path(file.log_config.log_path).expanduser(),
        without_effect=tuple(sorted(set_aside)),
    )


def _check_unlike(signatures: Iterable[str]) -> None:
    """Refuse signatures that are one folder on some file system."""
    seen: dict[str, str] = {}
    for each in signatures:
        key = unicodedata.normalize("NFKC", each).casefold()
        if key in seen:
            both = "twice" if seen[key] == each else f"beside {seen[key]!r}: one folder on some systems"
            raise BadOption(f"signature={each!r} is there {both}", parameter="signature")
        seen[key] = each


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadOption(f"the config has {twice!a:.80} twice in one object", parameter=twice)
    return table


def _where(error: Exception) -> str:
    """What is wrong with a JSON text, without quoting it: it may hold a key."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno} column {error.colno}"
    return "it is nested too deep" if isinstance(error, RecursionError) else "a number is too long"


def _name_of(model: TraderModel) -> str:
    return model.signature if model.name == model.signature else f"{model.signature} ({model.name})"
