"""Failures of model calls: what is tried again and how long, with which error it ends, and kept secrets.

No model library is imported: exceptions are recognised by their class names and by the attributes that
OpenAI's client and similar clients give them (``status_code``, ``response.headers``, ``body``). Waits can be
cancelled: ``check`` runs every :data:`CHECK_SECONDS` seconds, and an exception from it ends the wait.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from traceback import format_exception
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote_plus, unquote, urlsplit

from pydantic import SecretStr
from tenacity import (
    AttemptManager,
    RetryCallState,
    Retrying,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from quantgraph._util.texts import escape_controls, short_line
from quantgraph.errors import (
    ModelOutputInvalid,
    ModelUnavailable,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
)
from quantgraph.settings import load_settings

if TYPE_CHECKING:
    from langgraph.errors import GraphDrained
    from langgraph.runtime import RunControl


T = TypeVar("T")
Check = Callable[[], None]

AT_ONCE = "at once"
"""Reason of a drain that also abandons a model call in flight."""

CHECK_SECONDS = 0.05
_ABANDONED: ContextVar[tuple[threading.Event, ...]] = ContextVar("left", default=())


def current_run_control() -> RunControl | None:
    """The control of the running graph, which can request a stop; None outside of a graph."""
    from langgraph.runtime import get_runtime

    try:
        return getattr(get_runtime(), "control", None)  # a chain without a graph has none
    except RuntimeError:
        return None


def drain_error(reason: str) -> GraphDrained:
    """The error of a run that was requested to stop."""
    from langgraph.errors import GraphDrained

    return GraphDrained(reason)


def is_abandoned() -> bool:
    """Whether this code runs inside an abandoned model call, such as a model that calls another."""
    return any(event.is_set() for event in _ABANDONED.get())


def interruptible_sleep(seconds: float, check: Check) -> None:
    """Sleep in a thread."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, CHECK_SECONDS))


def run_in_thread(call: Callable[[], T], check: Check) -> T:
    """Return or raise the outcome of a call, made in a daemon thread of its own.

    An abandoned call goes on in its thread until its own timeout, since Python cannot stop a thread; its
    result is dropped.
    """
    under_way: Future[T] = Future()
    gone = threading.Event()

    def work() -> None:
        _ABANDONED.set((*_ABANDONED.get(), gone))
        try:
            under_way.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            under_way.set_exception(error)

    threading.Thread(target=copy_context().run, args=(work,), name="model call", daemon=True).start()
    try:
        while not wait([under_way], timeout=CHECK_SECONDS).done:
            check()
    except BaseException:
        gone.set()
        raise
    return under_way.result()


_SENT = frozenset({"default_headers", "default_query", "extra_headers", "extra_query", "headers"})
"""Fields of clients and options of calls whose values are sent beside a request: they may be secrets."""
_PUBLIC = frozenset({
    "accept", "accept-language", "anthropic-beta", "anthropic-version", "api-version", "content-type",
    "http-referer", "openai-beta", "user-agent", "x-title",
})  # fmt: skip
"""Names of headers and queries that are not secret: their values, such as a date, occur in replies too."""
_URL = re.compile(  # "https://api.openai.com/v1?key=abc"
    r"://(?:(?P<user>[^\s/?#\"']*)@)?(?P<there>[^\s?#\"']*)(?:\?[^\s#\"']*)?(?:#\S*)?"
)


def without_secrets(value: Any) -> Any:
    """A JSON value without headers and queries, and without user, password and query of URLs, at any depth.

    >>> without_secrets({"max_tokens": 9, "extra_headers": {"a": "b"}, "at": "http://me:pw@host/v1?code=b"})
    {'max_tokens': 9, 'at': 'http://host/v1'}
    """
    if isinstance(value, Mapping):
        return {name: without_secrets(one) for name, one in value.items() if name not in _SENT}
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return _URL.sub(r"://\g<there>", value) if isinstance(value, str) else value


def secrets_in(value: Any, *, sent: bool = False) -> Iterator[str]:
    """The secrets in options and fields: the values of type ``SecretStr``, headers, queries, users of URLs.

    >>> list(secrets_in({"headers": {"X-Auth": "one", "User-Agent": "two"}, "at": "postgresql://me:three@host"}))
    ['one', 'me', 'three', 'bWU6dGhyZWU=']
    """
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if not (sent and str(name).lower().replace("_", "-") in _PUBLIC):
                yield from secrets_in(one, sent=sent or name in _SENT)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from secrets_in(one, sent=sent)
    elif isinstance(value, str):
        if sent:
            yield from dict.fromkeys((value, *value.split()[-1:]))  # without a leading Bearer or Basic
        yield from _in_urls(value)


def _in_urls(text: str) -> Iterator[str]:
    for given in filter(None, (found["user"] for found in _URL.finditer(text))):
        user, _, password = (unquote(part) for part in given.partition(":"))
        yield from (user, password, b64encode(f"{user}:{password}".encode()).decode())


_RETRY_STATUS = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
_TIMEOUTS = frozenset({"APITimeoutError", "TimeoutException", "TimeoutError"})
_CONNECTIONS = frozenset({"APIConnectionError", "TransportError", "ConnectionError"})
_CUT_SHORT = {
    "LengthFinishReasonError": "was cut off at the length limit; raise max_tokens or ask for less",
    "ContentFilterFinishReasonError": "was withheld by the server's content filter",
    "OpenAIRefusalError": "is a refusal",
}
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_READERS = frozenset({"json", "httpx", "httpx2", "pydantic"})  # the parsers that model libraries use
_NO_ADDRESS = "its address must begin with http:// or https://; set OPENAI_BASE_URL to it"
_NO_HEADER = "its key has characters that HTTP headers cannot hold; set OPENAI_API_KEY to the key alone"
_NEVER_SENT = {
    "UnsupportedProtocol": _NO_ADDRESS,
    "InvalidURL": _NO_ADDRESS,
    "LocalProtocolError": _NO_HEADER,
    "UnicodeEncodeError": _NO_HEADER,
}
_NOT_TRUSTED = (
    "the certificate of its server is not trusted; set SSL_CERT_FILE to a file of trusted certificates"
)
_EXCERPT = 160
_SECRET_LIKE = re.compile(  # "Bearer abcd", "http://user:password@localhost"
    r"(?i)\bsk-[\w-]{4,}|\bbearer\s+[\w.~+/=-]+|(?<=://)[^/\s\"'@:]*:[^/\s\"'@]+(?=@)"
)
"""In the error of a tool or a server; the texts of a model are kept as they are."""
_SHORTEST_SECRET = 6
_CLIENTS = ("root_client", "root_async_client", "_client")
_URLS = re.compile(r"(?:base_url|api_base|api_url|endpoint|endpoint_url|server_url)$")  # "api_base"


class MissingMessage(Exception):
    """A reply without a readable message."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What error messages may say of a model, and the secrets that they must not."""

    name: str
    base_url: str | None = None
    secrets: tuple[str, ...] = ()

    @property
    def host(self) -> str | None:
        """Host and port of the server, if known."""
        return urlsplit(self.base_url or "").netloc or None

    def hide(self, text: str) -> str:
        """The text without the secrets of the model."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    def clean(self, text: str) -> str:
        """One short line of foreign text, without anything like a key."""
        return short_line(_SECRET_LIKE.sub("***", self.hide(text)), _EXCERPT)

    def presentable(self, error: Exception) -> Exception | None:
        """The exception as a cause to show; None if its traceback holds a secret."""
        text = "".join(format_exception(error))
        return error if self.hide(text) == text else None


@dataclass(frozen=True, kw_only=True)
class ModelFault:
    """One failed call: the reason, whether a retry may help, and the seconds that the server asks to wait."""

    reason: str
    retry: bool
    status: int | None = None
    retry_after: float | None = None
    kind: type[QuantGraphError] = ModelUnavailable


def innermost_model(model: Any) -> Any:
    """The model inside wrappers (``inner``) and bindings (``bound``)."""
    while (inner := getattr(model, "inner", None) or getattr(model, "bound", None)) is not None:
        model = inner
    return model


def model_facts(model: object, options: Mapping[str, Any] | None = None) -> ModelFacts:
    """Name, address and secrets of a chat model, wrapped or not.

    Parameters
    ----------
    options
        Further options of a call, which may hold secrets too.
    """
    others = [vars(innermost_model(each)) for each in getattr(model, "others", ())]
    model = innermost_model(model)
    name = getattr(model, "model_name", None) or getattr(model, "model", None)
    fields = {**(getattr(model, "__pydantic_private__", None) or {}), **getattr(model, "__dict__", {})}
    url = _address(fields)
    query = {"default_query": dict(parse_qsl(urlsplit(url).query))}
    held = secrets_in([fields, *others, options, url, query])
    found = {one for one in held if len(one) >= _SHORTEST_SECRET}
    return ModelFacts(
        name=name if isinstance(name, str) else type(model).__name__,
        base_url=without_secrets(url).rstrip("/") or None,
        secrets=tuple(sorted({form for one in found for form in _forms(one)}, key=len, reverse=True)),
    )


def _address(fields: Mapping[str, Any]) -> str:
    """The model's base URL, from its client or else its fields; empty if it has none."""
    clients = [fields.get(name) for name in _CLIENTS]
    clients += [getattr(client, "_client", None) for client in clients]  # the httpx client inside Ollama's
    used = [getattr(client, "base_url", None) for client in clients]
    urls = [one for name, one in fields.items() if _URLS.search(name) and isinstance(one, str)]
    return next((str(one) for one in [*used, *urls] if one is not None and str(one)), "")


def _forms(secret: str) -> tuple[str, ...]:
    """A secret as it is, and as errors, JSON and URLs escape it."""
    return secret, repr(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], quote_plus(secret)


def classify_error(error: Exception, facts: ModelFacts) -> ModelFault | None:
    """Classify an exception of a model call; None if the model did not cause it.

    Retried: 408, 409, 429 (except a spent quota), 5xx except 501, time-outs, lost connections, and replies
    that violate the protocol. Not retried: any other 4xx, and requests that cannot leave this machine.
    """
    if isinstance(error, QuantGraphError):
        return None
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= HTTPStatus.BAD_REQUEST:
        return _read_status(error, status, facts)
    reason = _never_sent(error)
    if reason is not None:
        return ModelFault(reason=reason, retry=False, kind=NotConfigured)
    reason = _transport_reason(error, facts)
    if reason is not None:
        return ModelFault(reason=reason, retry=True)
    for kind in type(error).__mro__:
        if kind.__name__ in _CUT_SHORT:
            return ModelFault(reason=_CUT_SHORT[kind.__name__], retry=False, kind=ModelOutputInvalid)
    return None


def _never_sent(error: Exception) -> str | None:
    """Why no attempt can send the request. The library's own message may hold the key."""
    cause: BaseException | None = error if _raised_by_client(error) else None
    while cause is not None:
        if "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return _NOT_TRUSTED
        of_text = isinstance(cause, UnicodeEncodeError) and cause.encoding != "ascii"
        if type(cause).__name__ in _NEVER_SENT and not of_text:
            return _NEVER_SENT[type(cause).__name__]
        cause = cause.__cause__
    return None


def _transport_reason(error: Exception, facts: ModelFacts) -> str | None:
    if isinstance(error, MissingMessage):
        return f"the reply is not the protocol ({error})"
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _TIMEOUTS:
        return "it did not answer in time"
    if names & _CONNECTIONS:
        return f"the connection{f' to {facts.host}' if facts.host else ''} failed or broke"
    if "APIError" in names:  # an error event in a stream has no status
        return f"the server says: {facts.clean(str(error))}"
    if isinstance(error, _UNREADABLE) and not names & _CUT_SHORT.keys() and _raised_by_client(error):
        return f"the reply is not the protocol ({facts.clean(str(error))})"
    return None


def _read_status(error: Exception, status: int, facts: ModelFacts) -> ModelFault:
    if status == HTTPStatus.UNAUTHORIZED:
        return ModelFault(
            reason="the key is refused (HTTP 401); set OPENAI_API_KEY to a key of this server",
            retry=False,
            status=status,
            kind=NotConfigured,
        )
    if status == HTTPStatus.FORBIDDEN:
        return ModelFault(
            reason="this key may not use it (HTTP 403)", retry=False, status=status, kind=PermissionDenied
        )
    server_line = _server_message(error, facts)
    spent = getattr(error, "code", None) == "insufficient_quota"
    return ModelFault(
        reason=f"HTTP {status}" + (f": {server_line}" if server_line else "") + _settings_named(server_line),
        retry=(status in _RETRY_STATUS and not spent) or _may_pass(status),
        status=status,
        retry_after=_retry_after(error),
    )


_SETTINGS = {
    r"temperature": "temperature (none sends none)",
    r"\bseed\b": "seed",
    r"max_(completion_)?tokens\W+(is|are) not|use \W*max_(completion_)?tokens": "reply_limit_field",
    r"system.{0,3} (role|message|prompt)|role\W+system": "system_role (user)",
    r"non-?stream|stream\w* (is )?(only|required)|only .{0,20}stream": "stream (true)",
    r"thinking|reasoning_effort|chat_template": "extra_body",
    r"tool_choice|tools?\b.{0,20} not": "tool_calling (text)",
}
"""What a server's refusal names, and the setting of ours that decides it."""


def _settings_named(line: str) -> str:
    named = [ours for theirs, ours in _SETTINGS.items() if re.search(theirs, line, re.IGNORECASE)]  # "seed"
    return f"; settings that decide it: {', '.join(named)}" if named else ""


def _may_pass(status: int) -> bool:
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED


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
        seconds = float(text)
    except ValueError:
        pass  # not a number, so a date
    else:
        return None if math.isnan(seconds) else max(seconds, 0.0)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def _raised_by_client(error: Exception) -> bool:
    """Whether a model library raised the exception, not our own code or the caller's."""
    trace = error.__traceback__
    modules: list[str] = []
    while trace is not None:
        modules.append(str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0])
        trace = trace.tb_next
    inner = [name for name in modules if name not in _READERS]
    return bool(inner) and (inner[-1] == "openai" or inner[-1].startswith("langchain_"))


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
        retrying = self._retrying(facts, what, check)
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

    def _retrying(self, facts: ModelFacts, what: str, check: Callable[[float], None]) -> Retrying:
        """Tenacity's attempts by this policy and :func:`classify_error`."""
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

        return Retrying(
            sleep=self.sleep or (lambda seconds: interruptible_sleep(seconds, lambda: check(0.0))),
            retry=retry_if_exception(helps),
            wait=wait,
            stop=stop,
            before_sleep=tell,
            reraise=True,
        )


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
