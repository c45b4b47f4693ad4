"""Secrets in the options of a model: which values are left out of records and replaced in texts."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from pydantic import SecretStr

_BEFORE = "(?:api|access|auth|client|private|secret)?"
_SECRET = re.compile(
    rf"(?:^|_){_BEFORE}(?:auth|authentication|authorization|bearer|connection_string|cookie|credential|dsn"
    r"|header|jwt|pass|passphrase|passwd|password|pwd|secret|session|sig|signature"
    r"|(?:default|extra)_query)s?\d*(?:_|$)"
)
_UNLESS_COUNTED = re.compile(rf"(?:^|_){_BEFORE}(?:key|token)s?\d*(?:_|$)")
_PUBLIC = frozenset({
    "accept", "accept_language", "anthropic_beta", "anthropic_version", "api_version", "content_type",
    "http_referer", "openai_beta", "prompt_cache_key", "user_agent", "x_title",
})  # fmt: skip
"""Names of headers and queries that are not secret: their values, such as a date, occur in replies too."""
_SCHEMAS = frozenset({"properties", "$defs", "definitions"})
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_URL = re.compile(
    r"://(?:(?P<user>[^\s/?#\"']*)@)?(?P<there>[^\s?#\"']*)(?:\?(?P<query>[^\s#\"']*))?(?:#\S*)?"
)


def without_secrets(value: Any) -> Any:
    """A JSON value without secrets, the same whatever the secrets are.

    Values with the name of a secret are left out at any depth, as are user, password and query of URLs.

    >>> without_secrets({"max_tokens": 9, "apiKeys": ["a"], "at": "http://me:pw@host/v1?code=b", "keys": 1})
    {'max_tokens': 9, 'at': 'http://host/v1', 'keys': 1}
    """
    if isinstance(value, Mapping):
        return {
            name: one if name in _SCHEMAS else without_secrets(one)
            for name, one in value.items()
            if not _is_secret(name, one)
        }
    if isinstance(value, list):
        return [without_secrets(one) for one in value]
    return _URL.sub(r"://\g<there>", value) if isinstance(value, str) else value


def secrets_in(value: Any, *, secret: bool = False) -> Iterator[str]:
    """The secrets in options and fields.

    >>> list(secrets_in({"headers": {"X-Auth": "one", "User-Agent": "two"}, "at": "postgresql://me:three@host"}))
    ['one', 'me', 'three', 'bWU6dGhyZWU=']
    """
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, Mapping):
        for name, one in value.items():
            if name not in _SCHEMAS and _words(name) not in _PUBLIC:
                yield from secrets_in(one, secret=secret or _is_secret(name, one))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from secrets_in(one, secret=secret)
    elif isinstance(value, str):
        if secret:
            yield from dict.fromkeys((value, *value.split()[-1:]))  # without a leading Bearer or Basic
        yield from _in_urls(value)


def _in_urls(text: str) -> Iterator[str]:
    for found in _URL.finditer(text):
        if found["user"]:
            user, _, password = (unquote(part) for part in found["user"].partition(":"))
            yield from (user, password, b64encode(f"{user}:{password}".encode()).decode())
        yield from secrets_in(dict(parse_qsl(found["query"])))


def _is_secret(name: Any, value: Any) -> bool:
    words = _words(name)
    if words in _PUBLIC:
        return False
    return bool(_SECRET.search(words) or (_UNLESS_COUNTED.search(words) and not _counts(value)))


def _words(name: Any) -> str:
    return _WORDS.sub("_", str(name)).lower()


def _counts(value: Any) -> bool:
    """Whether the value is a switch, a number or numbers, such as token counts."""
    if isinstance(value, list | tuple):
        return all(_counts(one) for one in value)
    return value is None or isinstance(value, int | float)
