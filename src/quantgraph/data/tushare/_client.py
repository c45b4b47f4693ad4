"""Client over the ``tushare`` package: endpoints, all pages, typed errors, waits for rate limits.

The package itself returns an empty frame for an HTTP error and raises a bare ``Exception`` with the vendor's
message for every other one. Here both become errors of :mod:`quantgraph.errors`. Vendor exceptions are never
chained: errors of ``requests`` carry the request, and the request carries the token.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pandas as pd
import requests
import tenacity
from pydantic import SecretStr

from quantgraph.data._vendor_tables import Endpoint, typed_rows
from quantgraph.errors import (
    BadOption,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    SourceUnavailable,
)


def _endpoints() -> Iterator[Endpoint]:
    for row in json.loads(Path(__file__).with_name("endpoints.json").read_text(encoding="utf-8")):
        values: dict[str, Any] = {
            key: tuple(each) if isinstance(each, list) else each for key, each in row.items()
        }
        yield Endpoint(**values)


ENDPOINTS: dict[str, Endpoint] = {endpoint.name: endpoint for endpoint in _endpoints()}
"""All endpoints by name."""


TOKEN_VARIABLE = "TUSHARE_TOKEN"  # noqa: S105 - the name of the variable, not a token
URL_VARIABLE = "TUSHARE_URL"

_URL_ATTRIBUTE = "_DataApi__http_url"
_SET_TOKEN = f"set {TOKEN_VARIABLE} to your token from https://tushare.pro, or pass token=..."
_PER_MINUTE = re.compile("每分钟最多")  # "每分钟最多访问该接口200次"
_PER_HOUR_OR_DAY = re.compile("每小时最多|每天最多|每日最多")  # "每天最多访问该接口5次"
_BAD_TOKEN = re.compile("token.{0,4}(不对|无效|失效|过期|错误)", re.IGNORECASE)  # "token不对"
_NOT_ALLOWED = re.compile("权限|积分")  # "没有访问该接口的权限"


class _MinuteLimit(Exception):
    """The vendor's limit per minute; waiting helps."""


class TushareClient:
    """Fetches whole tables from tushare, a :class:`.TableClient`. Thread-safe.

    Parameters
    ----------
    token
        The vendor's token; else the environment variable ``TUSHARE_TOKEN``, read at first use.
    base_url
        Address of the endpoints, such as ``http://127.0.0.1:8000/dataapi``; else the environment variable
        ``TUSHARE_URL``, else the package's own (plain ``http``: the token is sent in clear).
    timeout
        Seconds to wait for one reply.
    max_wait
        Seconds to wait in total, per page, for the vendor's limit per minute.
    row_limits
        Row limits by endpoint that differ from the documented ones.
    sleep
        Function that waits so many seconds.
    """

    vendor: Final = "tushare"

    def __init__(
        self,
        *,
        token: str | None = None,
        base_url: str | None = None,
        timeout: float = 30.0,
        max_wait: float = 120.0,
        row_limits: Mapping[str, int] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._token = SecretStr(token) if token else None
        self._base_url = base_url
        self._timeout = timeout
        self._max_wait = max_wait
        self._row_limits = dict(row_limits or {})
        self._sleep = sleep
        self._api: Any = None
        self._lock = threading.Lock()  # guards _api: one client for all threads

    @property
    def url(self) -> str | None:
        """Address of the requests; None means the package's own server."""
        url = self._base_url or os.environ.get(URL_VARIABLE) or None
        if url is not None and urlsplit(url).scheme not in {"http", "https"}:
            raise BadOption(f"base_url={url!r} is not an http address such as http://127.0.0.1:8000/dataapi")
        return url.rstrip("/") if url else None

    def fetch(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """All rows of a request, from as many pages as it takes.

        A page with as many rows as the endpoint's limit is not the last one. Rows that two pages share are
        kept once.

        Returns
        -------
        DataFrame
            Columns ``endpoint.fields``: text as ``str``, dates as ``datetime64[us]`` (NaT where empty),
            numbers as float64 (NaN where empty). Empty if the vendor has no row.

        Raises
        ------
        NotConfigured
            If the token or the package is missing.
        PermissionDenied
            If the vendor refuses the token, or refuses this endpoint to it.
        RateLimited
            If a limit per hour or day is used up, or ``max_wait`` is too short for a limit per minute.
        SourceUnavailable
            If there is no answer, or it does not follow tushare's protocol.
        """
        limit = self._row_limits.get(endpoint.name, endpoint.row_limit)
        pages: list[pd.DataFrame] = []
        offset = 0
        while True:
            page = self._page(endpoint, {**params, "limit": limit, "offset": offset})
            if pages and len(page) and page.equals(pages[-1]):
                raise SourceUnavailable(
                    f"tushare {endpoint.name}: the same page came twice, so offset={offset} was ignored "
                    "and the rest of the rows cannot be had; ask for a shorter window",
                    endpoint=endpoint.name,
                )
            pages.append(page)
            if len(page) < limit:
                break
            offset += len(page)
        filled = [page for page in pages if len(page)] or pages[:1]
        return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True)

    def _page(self, endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
        waiting = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_MinuteLimit),
            wait=tenacity.wait_exponential(multiplier=5, max=60),
            stop=lambda state: state.idle_for + state.upcoming_sleep > self._max_wait,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return waiting(self._request, endpoint, params)
        except _MinuteLimit as error:
            message = str(error)
        raise RateLimited(
            f"tushare {endpoint.name}: still over the limit per minute after waiting up to "
            f"{self._max_wait:g} s: {message}",
            endpoint=endpoint.name,
        )

    def _request(self, endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
        api = self._get_api()
        failure: Exception
        try:
            frame = api.query(endpoint.name, fields=",".join(endpoint.fields), **params)
        except requests.Timeout:
            failure = self._unavailable(endpoint, f"no answer within {self._timeout:g} s")
        except requests.RequestException as error:
            failure = self._unavailable(endpoint, f"no connection ({type(error).__name__})")
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            failure = self._unavailable(endpoint, f"the answer is not its protocol ({type(error).__name__})")
        except Exception as error:
            if type(error) is not Exception:
                raise
            failure = self._refusal(endpoint, str(error))
        else:
            return self._cast(endpoint, frame)
        raise failure

    def _get_api(self) -> Any:
        with self._lock:
            if self._api is None:
                self._api = self._connect()
            return self._api

    def _connect(self) -> Any:
        token = self._secret()
        if not token:
            raise NotConfigured(f"tushare needs a token and has none; {_SET_TOKEN}")
        try:
            import tushare
        except ImportError as error:
            raise NotConfigured(
                f"the package tushare cannot be imported ({error}); run: pip install tushare six"
            ) from error
        api = tushare.pro_api(token, timeout=self._timeout)
        if self.url is not None:
            if not hasattr(type(api), _URL_ATTRIBUTE):
                raise NotConfigured(
                    "this version of the package tushare has no known way to set its address; "
                    "install tushare 1.4, or do not set base_url"
                )
            setattr(api, _URL_ATTRIBUTE, self.url)
        return api

    def _secret(self) -> str:
        token = self._token.get_secret_value() if self._token else os.environ.get(TOKEN_VARIABLE, "")
        return token.strip()

    def _unavailable(self, endpoint: Endpoint, what: str, *, refused: bool = False) -> SourceUnavailable:
        host = urlsplit(self.url).netloc.rpartition("@")[2] if self.url else "its server"
        return SourceUnavailable(
            f"tushare {endpoint.name} at {host}: {what}", endpoint=endpoint.name, refused=refused
        )

    def _refusal(self, endpoint: Endpoint, message: str) -> QuantGraphError | _MinuteLimit:
        text = " ".join(message.replace(self._secret(), "***").split())
        where = f"tushare {endpoint.name}"
        if _PER_MINUTE.search(message):
            return _MinuteLimit(text)
        if _PER_HOUR_OR_DAY.search(message):
            return RateLimited(f"{where}: the allowance is used up: {text}", endpoint=endpoint.name)
        if _BAD_TOKEN.search(message):
            return PermissionDenied(
                f"{where}: the token is refused: {text}; {_SET_TOKEN}", endpoint=endpoint.name
            )
        if _NOT_ALLOWED.search(message):
            return PermissionDenied(
                f"{where}: the token may not use this endpoint: {text}", endpoint=endpoint.name
            )
        return self._unavailable(endpoint, f"refused with: {text}", refused=True)

    def _cast(self, endpoint: Endpoint, frame: pd.DataFrame) -> pd.DataFrame:
        if not len(frame.columns):
            raise self._unavailable(endpoint, "an HTTP error, or an answer without columns")
        fault = partial(self._unavailable, endpoint)
        return typed_rows(endpoint, frame, "%Y%m%d", fault)
