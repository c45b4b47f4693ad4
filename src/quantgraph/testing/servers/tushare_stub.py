"""A server that speaks tushare's protocol on this machine, from tables you give it.

For tests and for trying things without a token: the real ``tushare`` package talks to it over HTTP.

>>> import pandas as pd
>>> bars = pd.DataFrame(
...     {"ts_code": ["600519.SH"], "trade_date": ["20240102"], "close": [1685.01]}
... )
>>> with TushareStub({"daily": bars}) as stub:
...     stub.url.startswith("http://127.0.0.1:"), stub.requests
(True, [])
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, repeat
from types import TracebackType
from typing import Any, Literal, Self

import pandas as pd

__all__ = [
    "TushareFault",
    "TushareRequest",
    "TushareStub",
    "allowance_used_up",
    "bad_token",
    "connection_dropped",
    "garbage",
    "http_error",
    "no_answer",
    "no_permission",
    "points_missing",
    "rate_limited",
    "reply_cut",
    "without_data",
]

_CODE_TOKEN = 40101
_CODE_REFUSED = 40203
_DETAILS = "权限的具体详情访问：https://tushare.pro/document/1?doc_id=108。"


@dataclass(frozen=True, kw_only=True)
class TushareFault:
    """One way to fail.

    ``kind`` says how: ``refusal`` is a well-formed reply with ``code`` and ``message``; ``http`` has status
    ``code``; ``silence`` never answers; ``drop`` closes the connection; ``cut`` closes it within the reply;
    ``text`` answers ``message`` with status 200. ``times`` is how many requests it spoils; None is all.
    """

    kind: Literal["refusal", "http", "silence", "drop", "cut", "text"]
    code: int = 0
    message: str = ""
    times: int | None = None


def rate_limited(times: int | None = None, *, per_minute: int = 500) -> TushareFault:
    """Complain of too many requests in a minute."""
    message = f"抱歉，您每分钟最多访问该接口{per_minute}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def allowance_used_up(times: int | None = None, *, per_day: int = 2) -> TushareFault:
    """Complain of too many requests in a day."""
    message = f"抱歉，您每天最多访问该接口{per_day}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def no_permission(times: int | None = None) -> TushareFault:
    """Refuse the endpoint to this token."""
    message = f"抱歉，您没有访问该接口的权限，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def points_missing(times: int | None = None) -> TushareFault:
    """Refuse for want of points."""
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message="抱歉，您的积分不足。", times=times)


def bad_token(times: int | None = None) -> TushareFault:
    """Refuse the token."""
    return TushareFault(kind="refusal", code=_CODE_TOKEN, message="您的token不对，请确认。", times=times)


def http_error(status: int = 500, times: int | None = None) -> TushareFault:
    """Answer with an HTTP error, which the real client turns into an empty frame."""
    return TushareFault(kind="http", code=status, times=times)


def no_answer(times: int | None = None) -> TushareFault:
    """Say nothing until the client gives up or the stub is closed."""
    return TushareFault(kind="silence", times=times)


def connection_dropped(times: int | None = None) -> TushareFault:
    """Close the connection without a reply."""
    return TushareFault(kind="drop", times=times)


def reply_cut(times: int | None = None) -> TushareFault:
    """Close the connection in the middle of the reply."""
    return TushareFault(kind="cut", times=times)


def garbage(times: int | None = None, *, body: str = "<html>502 Bad Gateway</html>") -> TushareFault:
    """Answer with status 200 and a body that is not the protocol."""
    return TushareFault(kind="text", message=body, times=times)


def without_data(times: int | None = None) -> TushareFault:
    """Claim success, and leave ``data`` out."""
    return TushareFault(kind="text", message='{"code": 0, "msg": ""}', times=times)


_DATES = ("trade_date", "cal_date", "ann_date")
_OF_THE_REPLY = ("ts_type_name", "limit", "offset", "start_date", "end_date")
_DEFAULTS: dict[str, dict[str, str]] = {"stock_basic": {"list_status": "L"}}
_UNKNOWN_NAME = TushareFault(kind="refusal", code=40101, message="请指定正确的接口名")


@dataclass(frozen=True, kw_only=True)
class TushareRequest:
    """One request as it came. The token is not kept: ``authorized`` says whether it was the right one."""

    endpoint: str
    params: Mapping[str, Any]
    fields: tuple[str, ...]
    authorized: bool


class TushareStub:
    """Tushare over HTTP on a free port of 127.0.0.1, while the ``with`` block runs.

    Parameters
    ----------
    tables
        A table by endpoint name, in tushare's columns. Dates may be ``datetime64`` or ``YYYYMMDD``.
        Replies hold the rows that match ``params`` (columns by value, a comma list for several;
        ``start_date`` and ``end_date`` cut ``trade_date``, ``cal_date`` or ``ann_date``), newest first as
        tushare has them, with the columns of ``fields``, from ``offset``, at most ``limit`` rows.
    token
        The only token that is accepted; None accepts any.
    row_limits
        Largest reply by endpoint; none where not given.
    faults
        Faults by endpoint, ``"*"`` for all; each is used up before the next one starts.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        *,
        token: str | None = None,
        row_limits: Mapping[str, int] | None = None,
        faults: Mapping[str, Iterable[TushareFault]] | None = None,
    ) -> None:
        self._tables = {name: _as_text(table) for name, table in tables.items()}
        self._token = token
        self._row_limits = dict(row_limits or {})
        self._faults: dict[str, Iterator[TushareFault]] = {
            name: _spread(some) for name, some in (faults or {}).items()
        }
        self._requests: list[TushareRequest] = []
        self._lock = threading.Lock()  # guards _requests and _faults: each connection has its thread
        self._closing = threading.Event()
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        self._closing.clear()
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def url(self) -> str:
        """Base address for ``TushareSource(base_url=...)``."""
        if self._server is None:
            raise RuntimeError("the stub is not running; use it in a with block")
        return f"http://127.0.0.1:{self._server.server_port}/dataapi"

    @property
    def requests(self) -> list[TushareRequest]:
        """All requests so far, in their order."""
        with self._lock:
            return list(self._requests)

    def fail(self, endpoint: str, *faults: TushareFault) -> None:
        """Add faults to an endpoint, ``"*"`` for all."""
        with self._lock:
            self._faults[endpoint] = chain(self._faults.get(endpoint, ()), _spread(faults))

    def heal(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    def put(self, endpoint: str, table: pd.DataFrame) -> None:
        """Put a table in place of the one of an endpoint."""
        self._tables[endpoint] = _as_text(table)

    def _outcome(self, message: Mapping[str, Any]) -> TushareFault | dict[str, Any]:
        """Reply to one request: a fault, or the ``data`` of a reply."""
        name = str(message["api_name"])
        fields = tuple(field for field in str(message.get("fields") or "").split(",") if field)
        params = dict(message.get("params") or {})
        authorized = self._token is None or message.get("token") == self._token
        with self._lock:
            self._requests.append(
                TushareRequest(endpoint=name, params=params, fields=fields, authorized=authorized)
            )
            fault = self._next_fault(name) or self._next_fault("*")
        if fault is not None:
            return fault
        if not authorized:
            return bad_token()
        if name not in self._tables:
            return _UNKNOWN_NAME
        rows = _matching(self._tables[name], {**_DEFAULTS.get(name, {}), **params})
        return _reply_data(rows, fields, params, self._row_limits.get(name))

    def _next_fault(self, endpoint: str) -> TushareFault | None:
        return next(self._faults.get(endpoint, iter(())), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, stub: TushareStub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stub = stub


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        stub = self.server.stub
        outcome = stub._outcome(json.loads(body))  # noqa: SLF001 - one class in two halves
        if not isinstance(outcome, TushareFault):
            self._send(200, json.dumps({"code": 0, "msg": "", "data": outcome}))
        elif outcome.kind == "refusal":
            refusal = {"code": outcome.code, "msg": outcome.message, "data": None}
            self._send(200, json.dumps(refusal, ensure_ascii=False))
        elif outcome.kind == "http":
            self._send(outcome.code, "")
        elif outcome.kind == "text":
            self._send(200, outcome.message)
        elif outcome.kind == "cut":
            self._send(200, '{"code": 0, "da', missing=1000)
        elif outcome.kind == "silence":
            stub._closing.wait()  # noqa: SLF001

    def _send(self, status: int, text: str, *, missing: int = 0) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: what came in is in ``TushareStub.requests``."""


def _spread(faults: Iterable[TushareFault]) -> Iterator[TushareFault]:
    """Repeat each fault as often as it is to happen."""
    for fault in faults:
        yield from repeat(fault) if fault.times is None else repeat(fault, fault.times)


def _as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Write dates as tushare does."""
    text = table.copy()
    for name in text.columns:
        if pd.api.types.is_datetime64_any_dtype(text[name]):
            text[name] = text[name].dt.strftime("%Y%m%d")
        elif name.endswith("_date"):
            text[name] = text[name].astype("str")
    on = _date_column(text)
    return text if on is None else text.sort_values(on, ascending=False, kind="stable")


def _date_column(table: pd.DataFrame) -> str | None:
    return next((name for name in _DATES if name in table.columns), None)


def _matching(table: pd.DataFrame, params: Mapping[str, Any]) -> pd.DataFrame:
    given = {name: str(value) for name, value in params.items() if value not in (None, "")}
    on = _date_column(table)
    rows = table
    if on is not None and "start_date" in given:
        rows = rows[rows[on] >= given["start_date"]]
    if on is not None and "end_date" in given:
        rows = rows[rows[on] <= given["end_date"]]
    for name, value in given.items():
        if name in rows.columns and name not in _OF_THE_REPLY:
            rows = rows[rows[name].astype("str").isin(value.split(","))]
    return rows


def _reply_data(
    rows: pd.DataFrame, fields: tuple[str, ...], params: Mapping[str, Any], row_limit: int | None
) -> dict[str, Any]:
    columns = [name for name in fields if name in rows.columns] if fields else list(rows.columns)
    offset = int(params.get("offset") or 0)
    most = min((int(n) for n in (params.get("limit"), row_limit) if n), default=len(rows))
    page = rows.iloc[offset : offset + most][columns]
    items = page.astype("object").where(page.notna(), None).to_numpy().tolist()
    return {"fields": columns, "items": items, "has_more": offset + len(page) < len(rows)}
