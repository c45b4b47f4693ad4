"""What an exception out of a model library means: wait and ask again, or give up, and with which error.

No model library is imported: exceptions are known by their class names and by the attributes that
OpenAI's client and its relatives give them (``status_code``, ``response.headers``, ``body``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from quantgraph.errors import (
    ModelOutputInvalid,
    ModelUnavailable,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
)

__all__ = ["Fault", "ModelFacts", "facts_of", "read_fault"]

_RETRY_STATUS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_TIMEOUTS = frozenset({"APITimeoutError", "TimeoutException", "TimeoutError"})
_CONNECTIONS = frozenset({"APIConnectionError", "TransportError", "ConnectionError"})
_CUT_SHORT = {
    "LengthFinishReasonError": "was cut off at the length limit; raise max_tokens or ask for less",
    "ContentFilterFinishReasonError": "was withheld by the server's content filter",
    "OpenAIRefusalError": "is a refusal",
}
_UNREADABLE = (ValueError, LookupError, TypeError)
_READERS = frozenset({"json", "httpx", "httpx2"})  # what the libraries read a reply with
_EXCERPT = 160
_SECRET_LIKE = re.compile(r"(?i)\b(sk-[\w-]{4,}|bearer\s+[\w.~+/=-]+)")


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What an error message may say of a model, and the secrets it must not."""

    name: str
    host: str | None = None
    secrets: tuple[str, ...] = ()

    def clean(self, text: str) -> str:
        """Make one short line of somebody else's text, without anything like a key."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        line = " ".join(_SECRET_LIKE.sub("***", text).split())
        return line if len(line) <= _EXCERPT else line[: _EXCERPT - 1] + "…"

    def presentable(self, error: Exception) -> Exception | None:
        """Return the exception as a cause to show, or None when its text holds a secret."""
        text = str(error)
        return None if any(secret in text for secret in self.secrets) else error


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One failed call: what happened, whether asking again may help, and the wait the server asks for."""

    reason: str
    retry: bool
    status: int | None = None
    retry_after: float | None = None
    kind: type[QuantGraphError] = ModelUnavailable


def facts_of(model: object) -> ModelFacts:
    """Read name, host and secrets off a chat model, or off whatever is bound around one."""
    while hasattr(model, "bound"):
        model = model.bound
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    url = getattr(model, "openai_api_base", None)
    values = vars(model).values() if hasattr(model, "__dict__") else ()
    secrets = (value.get_secret_value() for value in values if isinstance(value, SecretStr))
    return ModelFacts(
        name=name if isinstance(name, str) else type(model).__name__,
        host=urlsplit(url).netloc.rpartition("@")[2] or None if isinstance(url, str) else None,
        secrets=tuple(secret for secret in secrets if secret),
    )


def read_fault(error: Exception, facts: ModelFacts) -> Fault | None:
    """Classify an exception of a model call; None when it is not the model's fault.

    Notes
    -----
    Retried: 408, 409, 429 (not a spent quota), 5xx, time-outs, lost connections, and replies that are
    not the protocol. Not retried: any other 4xx.
    """
    if isinstance(error, QuantGraphError):
        return None
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= HTTPStatus.BAD_REQUEST:
        return _read_status(error, status, facts)
    reason = _transport_reason(error, facts)
    if reason is not None:
        return Fault(reason=reason, retry=True)
    for kind in type(error).__mro__:
        if kind.__name__ in _CUT_SHORT:
            return Fault(reason=_CUT_SHORT[kind.__name__], retry=False, kind=ModelOutputInvalid)
    return None


def _transport_reason(error: Exception, facts: ModelFacts) -> str | None:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _TIMEOUTS:
        return "it did not answer in time"
    if names & _CONNECTIONS:
        return f"the connection{f' to {facts.host}' if facts.host else ''} failed or broke"
    if "APIError" in names:  # an error event inside a stream has no status
        return f"the server says: {facts.clean(str(error))}"
    if isinstance(error, _UNREADABLE) and not names & _CUT_SHORT.keys() and _raised_by_client(error):
        return f"the reply is not the protocol ({facts.clean(str(error))})"
    return None


def _read_status(error: Exception, status: int, facts: ModelFacts) -> Fault:
    if status == HTTPStatus.UNAUTHORIZED:
        return Fault(
            reason="the key is refused (HTTP 401); set OPENAI_API_KEY to a key of this server",
            retry=False,
            status=status,
            kind=NotConfigured,
        )
    if status == HTTPStatus.FORBIDDEN:
        return Fault(
            reason="this key may not use it (HTTP 403)", retry=False, status=status, kind=PermissionDenied
        )
    said = _server_message(error, facts)
    spent = getattr(error, "code", None) == "insufficient_quota"
    return Fault(
        reason=f"HTTP {status}" + (f": {said}" if said else ""),
        retry=(status in _RETRY_STATUS and not spent) or status >= HTTPStatus.INTERNAL_SERVER_ERROR,
        status=status,
        retry_after=_retry_after(error),
    )


def _server_message(error: Exception, facts: ModelFacts) -> str:
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        inner = body.get("error")
        body = (inner if isinstance(inner, Mapping) else body).get("message")
    return facts.clean(body) if isinstance(body, str) else ""


def _retry_after(error: Exception) -> float | None:
    """Seconds of the ``Retry-After`` header (a number or an HTTP date, RFC 9110 10.2.3), or None."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    text = headers.get("retry-after")
    if not isinstance(text, str):
        return None
    try:
        return max(float(text), 0.0)
    except ValueError:
        pass  # not a number: then it is a date
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def _raised_by_client(error: Exception) -> bool:
    """Whether the exception comes from inside a model library, not from our own code or the caller's."""
    trace = error.__traceback__
    modules: list[str] = []
    while trace is not None:
        modules.append(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    inner = [name for name in modules if name not in _READERS]
    return bool(inner) and (inner[-1] == "openai" or inner[-1].startswith("langchain_"))
