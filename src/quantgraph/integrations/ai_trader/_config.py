"""AI-Trader's config file: read strictly, so that nothing that stands in it is silently ignored."""

from __future__ import annotations

import datetime as dt
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from quantgraph._util.files import check_text
from quantgraph._util.texts import escape_controls
from quantgraph._util.values import is_number
from quantgraph.errors import BadFile, BadOption

DEFAULT_CONFIG: Final = Path("configs/default_config.json")

TraderMarket = Literal["cn", "us"]

_LARGEST = 1 << 20
_LONGEST_SIGNATURE = 100
_AGENTS: Final[Mapping[str, TraderMarket | None]] = {"BaseAgent": None, "BaseAgentAStock": "cn"}
"""Agent types that trade days, and the market of each; None: the one of ``market``."""
_MARKETS: Final = ("us", "cn")
_CASH: Final = {"us": 10_000, "cn": 100_000}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("agent_type", "market", "date_range", "models", "agent_config", "log_config"),
    "date_range": ("init_date", "end_date"),
    "models[]": ("name", "basemodel", "signature", "enabled", "openai_base_url", "openai_api_key"),
    "agent_config": ("max_steps", "max_retries", "base_delay", "initial_cash"),
    "log_config": ("log_path",),
}
_WITHOUT_EFFECT: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("comment", "description", "name", "version"),
    "models[]": ("comment", "description"),
    "agent_config": ("verbose", "comment"),
    "log_config": ("comment", "log_level"),
}
"""Keys of public config files that change nothing here; so do all that begin with ``_``."""
_PLACEHOLDER = re.compile(r"(?i)^optional\b|\byour[_ -]|^<.*>$")
"""What public config files have in place of an address or a key."""
_WINDOWS = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?")


@dataclass(frozen=True, kw_only=True)
class TraderModel:
    """A model of the config.

    Attributes
    ----------
    name, basemodel
        For people, and as its server calls it.
    signature
        Name of its folder below ``log_path``.
    openai_base_url, openai_api_key
        Its own server and key; None: those of the settings. The key never shows.
    """

    name: str
    basemodel: str
    signature: str
    enabled: bool = True
    openai_base_url: str | None = None
    openai_api_key: SecretStr | None = None


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
            listed = ", ".join(_called(each) for each in self.enabled)
            raise BadOption(f"signature={signature!r:.80}; enabled are {listed}", parameter="signature")
        return found


def read_trader_config(path: str | Path) -> TraderConfig:
    """Read a config file of AI-Trader.

    Raises
    ------
    BadFile
        If it cannot be read, has more than 1 MB, or is not JSON.
    BadOption
        If a key is missing, unknown or given twice, or a value is not valid: the message names the key.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        if size > _LARGEST:
            raise BadFile(f"{place} has {size:,} bytes; a config has at most {_LARGEST:,}", file=str(place))
        document = json.loads(place.read_bytes().decode("utf-8-sig"), object_pairs_hook=_unique)
    except OSError as error:
        raise BadFile(f"{place} cannot be read: {error.strerror}", file=str(place)) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadFile | BadOption):
            raise
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else _where(error)
        # Not chained: the error may hold the document, and with it a key.
        raise BadFile(f"{place} is not JSON: {reason}", file=str(place)) from None
    return _Reader().config(document)


def check_signature(signature: object, name: str = "signature") -> str:
    """Return a signature that is one folder's name on every system."""
    if not isinstance(signature, str):
        raise _bad(name, signature, "a text")
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


class _Reader:
    """Reads a document, and collects its keys without effect."""

    def __init__(self) -> None:
        self.without_effect: list[str] = []

    def config(self, document: object) -> TraderConfig:
        top = self._table("", document)
        dates = self._table("date_range", top.get("date_range"))
        agent = self._table("agent_config", top.get("agent_config", {}))
        log = self._table("log_config", top.get("log_config", {}))
        market = _market(top.get("agent_type", "BaseAgent"), top.get("market"))
        first, last = _dates(dates)
        models = self._models(top.get("models"))
        return TraderConfig(
            market=market,
            init_date=first,
            end_date=last,
            models=models,
            max_steps=agent.get("max_steps", 30),
            max_retries=agent.get("max_retries", 3),
            base_delay=agent.get("base_delay", 1.0),
            initial_cash=_cash(agent.get("initial_cash", _CASH[market])),
            log_path=_log_path(log.get("log_path", "./data/agent_data")),
            without_effect=tuple(self.without_effect),
        )

    def _table(self, name: str, value: object, kind: str = "") -> dict[str, Any]:
        """Return a table whose keys are known; keys without effect are noted and left out."""
        if not isinstance(value, dict):
            raise _bad(name or "the config", value, "a JSON object")
        keys, ignored = _KEYS[kind or name], _WITHOUT_EFFECT.get(kind or name, ())
        known = {}
        for key, each in value.items():
            path = f"{name}.{key}" if name else key
            if key in keys:
                known[key] = each
            elif key in ignored or key.startswith("_"):
                self.without_effect.append(path)
            else:
                close = get_close_matches(key.lower(), keys, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"valid are {', '.join(keys)}"
                raise BadOption(f"{path!a:.120} is not a key of the config; {hint}", parameter=path)
        return known

    def _models(self, value: object) -> tuple[TraderModel, ...]:
        if not isinstance(value, list) or not value:
            raise _bad("models", value, "a list of models")
        models = tuple(self._model(f"models[{place}]", each) for place, each in enumerate(value))
        enabled = [each for each in models if each.enabled]
        if not enabled:
            names = ", ".join(_called(each) for each in models)
            raise BadOption(f"no model is enabled; enable one of {names}", parameter="models")
        _check_unlike(each.signature for each in enabled)
        return models

    def _model(self, name: str, value: object) -> TraderModel:
        table = self._table(name, value, "models[]")
        enabled = table.get("enabled", True)
        if not isinstance(enabled, bool):
            raise _bad(f"{name}.enabled", enabled, "true or false")
        basemodel = _text(f"{name}.basemodel", table.get("basemodel"))
        signature = check_signature(table.get("signature"), f"{name}.signature")
        key = self._own(f"{name}.openai_api_key", table.get("openai_api_key"), secret=True)
        address = self._own(f"{name}.openai_base_url", table.get("openai_base_url"))
        if address and enabled:
            _check_address(f"{name}.openai_base_url", address)
        return TraderModel(
            name=_text(f"{name}.name", table.get("name", signature)),
            basemodel=basemodel,
            signature=signature,
            enabled=enabled,
            openai_base_url=address,
            openai_api_key=SecretStr(key) if key else None,
        )

    def _own(self, name: str, value: object, *, secret: bool = False) -> str | None:
        """Return a model's own address or key; None without one, or for a placeholder."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, str):
            raise BadOption(f"{name} is not a text", parameter=name)
        check_text(value, name)
        if _PLACEHOLDER.search(value.strip()):
            self.without_effect.append(f"{name} (a placeholder)")
            return None
        if secret and (not value.strip().isascii() or not value.strip().isprintable()):
            raise BadOption(f"{name} has characters that a key cannot have", parameter=name)
        return value.strip()


def _market(agent_type: object, market: object) -> TraderMarket:
    if isinstance(agent_type, str) and agent_type not in _AGENTS:
        for part, what in (("hour", "trades hours"), ("crypto", "trades crypto currencies")):
            if part in agent_type.lower():
                raise BadOption(
                    f"agent_type={agent_type!r:.60} {what}, and only days of stocks are traded here; valid "
                    f"are {', '.join(_AGENTS)}",
                    parameter="agent_type",
                )
    if not isinstance(agent_type, str) or agent_type not in _AGENTS:
        raise _bad("agent_type", agent_type, f"one of {', '.join(_AGENTS)}")
    if market == "crypto":
        raise BadOption("market='crypto' is not traded here; valid are us, cn", parameter="market")
    if market is not None and market not in _MARKETS:
        raise _bad("market", market, "us or cn")
    own = _AGENTS[agent_type]
    if own and market not in (None, own):
        raise BadOption(
            f"market={market!r} and agent_type={agent_type!r} exclude each other", parameter="market"
        )
    return own or ("cn" if market == "cn" else "us")


def _dates(table: Mapping[str, Any]) -> tuple[str, str | None]:
    first = _date("date_range.init_date", table.get("init_date"))
    last = None if table.get("end_date") is None else _date("date_range.end_date", table["end_date"])
    if last is not None and last <= first:
        raise BadOption(
            f"date_range.end_date={last} must be after init_date={first}, the day of the registration",
            parameter="date_range.end_date",
        )
    return first, last


def _date(name: str, value: object) -> str:
    try:
        if isinstance(value, str) and dt.date.fromisoformat(value).isoformat() == value:
            return value
    except ValueError:
        pass
    raise _bad(name, value, "a day, YYYY-MM-DD")


def _cash(value: object) -> float:
    if not is_number(value) or not 0 < value < float("inf"):
        raise _bad("agent_config.initial_cash", value, "an amount above 0")
    return float(value)


def _log_path(value: object) -> Path:
    text = _text("log_config.log_path", value)
    if "\0" in text:
        raise _bad("log_config.log_path", value, "a folder")
    return Path(text).expanduser()


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 1_000:
        raise _bad(name, value, "a text that is not empty")
    check_text(value, name)
    return value


def _check_address(name: str, value: str) -> None:
    """Check an address, which is not shown: it may hold a secret."""
    try:
        parts = urlsplit(value)
        plain = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        _ = parts.port
    except ValueError:
        plain = False
    if not plain or parts.query or parts.fragment:
        raise BadOption(
            f"{name} is not an http(s) URL without user name, password and query, like https://host/v1",
            parameter=name,
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


def _called(model: TraderModel) -> str:
    return model.signature if model.name == model.signature else f"{model.signature} ({model.name})"


def _bad(name: str, value: object, valid: str) -> BadOption:
    given = "missing" if value is None else f"{value!a:.60}"
    return BadOption(f"{name} is {given}; must be {valid}", parameter=name)
