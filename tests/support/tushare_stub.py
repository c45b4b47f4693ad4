"""A server that speaks tushare's protocol on loopback, from given tables, with scripted faults.

For tests and trials without a token: the real ``tushare`` package talks to it over HTTP. A fault is scripted
for one endpoint, or for all (``"*"``), and replaces the reply ``times`` times or always.

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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Literal, cast

import pandas as pd

from quantgraph.testing._openai import StubHandler, StubServer

_CODE_TOKEN = 40101
_CODE_REFUSED = 40203
_DETAILS = "权限的具体详情访问：https://tushare.pro/document/1?doc_id=108。"


@dataclass(frozen=True, kw_only=True)
class TushareFault:
    """One fault. Made by the functions of this module."""

    kind: Literal["refusal", "http", "silence", "drop", "cut", "text"]
    code: int = 0
    message: str = ""
    times: int | None = None


def rate_limited(times: int | None = None, *, per_minute: int = 500) -> TushareFault:
    """Refusal: too many requests in a minute."""
    message = f"抱歉，您每分钟最多访问该接口{per_minute}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def allowance_used_up(times: int | None = None, *, per_day: int = 2) -> TushareFault:
    """Refusal: too many requests in a day."""
    message = f"抱歉，您每天最多访问该接口{per_day}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def no_permission(times: int | None = None) -> TushareFault:
    """Refusal: the token may not use the endpoint."""
    message = f"抱歉，您没有访问该接口的权限，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def points_missing(times: int | None = None) -> TushareFault:
    """Refusal: not enough points."""
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message="抱歉，您的积分不足。", times=times)


def bad_token(times: int | None = None) -> TushareFault:
    """Refusal: the token is not valid."""
    return TushareFault(kind="refusal", code=_CODE_TOKEN, message="您的token不对，请确认。", times=times)


def http_error(status: int = 500, times: int | None = None) -> TushareFault:
    """HTTP error, which the real client turns into an empty frame."""
    return TushareFault(kind="http", code=status, times=times)


def no_answer(times: int | None = None) -> TushareFault:
    """No reply until the client gives up or the stub is closed."""
    return TushareFault(kind="silence", times=times)


def connection_dropped(times: int | None = None) -> TushareFault:
    """Connection closed without a reply."""
    return TushareFault(kind="drop", times=times)


def reply_cut(times: int | None = None) -> TushareFault:
    """Connection closed in the middle of the reply."""
    return TushareFault(kind="cut", times=times)


def garbage(times: int | None = None, *, body: str = "<html>502 Bad Gateway</html>") -> TushareFault:
    """Status 200 with a body that is not the protocol."""
    return TushareFault(kind="text", message=body, times=times)


def without_data(times: int | None = None) -> TushareFault:
    """Success without ``data``."""
    return TushareFault(kind="text", message='{"code": 0, "msg": ""}', times=times)


_DATES = ("trade_date", "cal_date", "ann_date")
_NOT_FILTERS = ("ts_type_name", "limit", "offset", "start_date", "end_date")
_DEFAULTS: dict[str, dict[str, str]] = {"stock_basic": {"list_status": "L"}}
_UNKNOWN_NAME = TushareFault(kind="refusal", code=40101, message="请指定正确的接口名")


@dataclass(frozen=True, kw_only=True)
class TushareRequest:
    """One request. The token is not kept: ``authorized`` tells whether it was accepted."""

    endpoint: str
    params: Mapping[str, Any]
    fields: tuple[str, ...]
    authorized: bool


class _Handler(StubHandler):
    def respond(self, body: bytes) -> None:
        reply = cast("TushareStub", self.server.stub).reply(json.loads(body))
        if not isinstance(reply, TushareFault):
            self._send(200, json.dumps({"code": 0, "msg": "", "data": reply}))
        elif reply.kind == "refusal":
            refusal = {"code": reply.code, "msg": reply.message, "data": None}
            self._send(200, json.dumps(refusal, ensure_ascii=False))
        elif reply.kind == "http":
            self._send(reply.code, "")
        elif reply.kind == "text":
            self._send(200, reply.message)
        elif reply.kind == "cut":
            self._send(200, '{"code": 0, "da', length=1000)
        else:
            if reply.kind == "silence":
                self.server.stub.closing.wait()
            self.disconnect()

    def _send(self, status: int, text: str, *, length: int | None = None) -> None:
        self.send_body(status, text.encode(), length=length)


class TushareStub(StubServer[TushareRequest]):
    """Tushare over HTTP on a free port of 127.0.0.1 while its ``with`` block runs.

    Parameters
    ----------
    tables
        A table by endpoint name, in tushare's columns. Dates may be ``datetime64`` or ``YYYYMMDD``.
        Replies hold the rows that match ``params`` (columns by value, a comma list for several;
        ``start_date`` and ``end_date`` cut ``trade_date``, ``cal_date`` or ``ann_date``), newest first like
        tushare's, with the columns of ``fields``, from ``offset``, at most ``limit`` rows.
    """

    handler = _Handler

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        *,
        token: str | None = None,
        row_limits: Mapping[str, int] | None = None,
        faults: Mapping[str, Iterable[TushareFault]] | None = None,
    ) -> None:
        super().__init__()
        self._tables = {name: _as_text(table) for name, table in tables.items()}
        self._token = token
        self._row_limits = dict(row_limits or {})
        self._faults: dict[str, Iterator[TushareFault]] = {
            name: _repeated(some) for name, some in (faults or {}).items()
        }

    @property
    def url(self) -> str:
        """Base address for ``TushareSource(base_url=...)``."""
        return f"{self.address}/dataapi"

    def add_faults(self, endpoint: str, *faults: TushareFault) -> None:
        """Add faults to an endpoint, ``"*"`` for all."""
        with self._lock:
            self._faults[endpoint] = chain(self._faults.get(endpoint, ()), _repeated(faults))

    def clear_faults(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()

    def set_table(self, endpoint: str, table: pd.DataFrame) -> None:
        """Replace the table of an endpoint."""
        self._tables[endpoint] = _as_text(table)

    def reply(self, message: Mapping[str, Any]) -> TushareFault | dict[str, Any]:
        """Record a request; its reply is a fault, or the ``data`` of a good one."""
        name = str(message["api_name"])
        fields = tuple(field for field in str(message.get("fields") or "").split(",") if field)
        params = dict(message.get("params") or {})
        authorized = self._token is None or message.get("token") == self._token
        self._record(
            lambda _: TushareRequest(endpoint=name, params=params, fields=fields, authorized=authorized)
        )
        with self._lock:
            fault = next(self._faults.get(name, iter(())), None) or next(
                self._faults.get("*", iter(())), None
            )
        if fault is not None:
            return fault
        if not authorized:
            return bad_token()
        if name not in self._tables:
            return _UNKNOWN_NAME
        rows = _matching(self._tables[name], {**_DEFAULTS.get(name, {}), **params})
        return _reply_data(rows, fields, params, self._row_limits.get(name))


def _repeated(faults: Iterable[TushareFault]) -> Iterator[TushareFault]:
    """Each fault as many times as it applies."""
    for fault in faults:
        yield from repeat(fault) if fault.times is None else repeat(fault, fault.times)


def _as_text(table: pd.DataFrame) -> pd.DataFrame:
    """Table with dates as text, newest first, like tushare's."""
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
    filters = {name: str(value) for name, value in params.items() if value not in (None, "")}
    on = _date_column(table)
    rows = table
    if on is not None and "start_date" in filters:
        rows = rows[rows[on] >= filters["start_date"]]
    if on is not None and "end_date" in filters:
        rows = rows[rows[on] <= filters["end_date"]]
    for name, value in filters.items():
        if name in rows.columns and name not in _NOT_FILTERS:
            rows = rows[rows[name].astype("str").isin(value.split(","))]
    return rows


def _reply_data(
    rows: pd.DataFrame, fields: tuple[str, ...], params: Mapping[str, Any], row_limit: int | None
) -> dict[str, Any]:
    columns = [name for name in fields if name in rows.columns] if fields else list(rows.columns)
    offset = int(params.get("offset") or 0)
    size = min((int(n) for n in (params.get("limit"), row_limit) if n), default=len(rows))
    page = rows.iloc[offset : offset + size][columns]
    items = page.astype("object").where(page.notna(), None).to_numpy().tolist()
    return {"fields": columns, "items": items, "has_more": offset + len(page) < len(rows)}
