"""Client over the package ``baostock``, which runs in a process of its own: typed errors, a time limit."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pandas as pd

from quantgraph.data._vendor_process import NoAnswer, VendorProcess
from quantgraph.data._vendor_tables import Endpoint, typed_rows
from quantgraph.data._vendor_values import daily_series
from quantgraph.errors import (
    BadOption,
    NotConfigured,
    PermissionDenied,
    QuantGraphError,
    RateLimited,
    SourceUnavailable,
    UnknownSymbol,
)

ADDRESS_VARIABLE = "BAOSTOCK_ADDRESS"
EXCHANGE = "SSE"

_INSTALL = "run: pip install 'quantgraph[baostock]'"
_PRICES = ("open", "high", "low", "close")
_OUTDATED, _TOO_MANY, _BLOCKED, _NOT_ALLOWED = "10001004", "10001005", "10001011", "10001006"
_NO_CODE = ("10004011", "10004015")
_NETWORK, _BAD_REQUEST = "10002", "10004"


BARS = daily_series(
    "query_history_k_data_plus",
    (*_PRICES, "preclose", "volume", "amount", "turn", "tradestatus", "peTTM", "pbMRQ", "psTTM", "isST"),
)
LEVELS = daily_series(BARS.name, _PRICES)
CALENDAR = Endpoint(
    name="query_trade_dates",
    text=("exchange",),
    dates=("calendar_date",),
    numbers=("is_trading_day",),
    key="exchange",
    order=("calendar_date",),
    access="series",
    keeps_empty=False,
)
DIVIDENDS = Endpoint(
    name="query_dividend_data",
    text=("code",),
    dates=("dividPlanDate", "dividRegistDate", "dividOperateDate", "dividPayDate"),
    numbers=("dividCashPsBeforeTax", "dividStocksPs", "dividReserveToStockPs"),
    key="code",
    order=("dividOperateDate", "code"),
    access="series",
    may_be_empty=True,
)
CODES = Endpoint(
    name="query_stock_basic",
    text=("code", "code_name", "type"),
    dates=("ipoDate", "outDate"),
    order=("code",),
    access="list",
)
MEMBERS: dict[str, Endpoint] = {
    index: Endpoint(
        name=f"query_{name}_stocks",
        text=("code",),
        dates=("updateDate",),
        order=("updateDate", "code"),
        access="list",
        may_be_empty=True,
    )
    for index, name in {"000300.SH": "hs300", "000016.SH": "sz50", "000905.SH": "zz500"}.items()
}
"""Requests of an index's members, by its code."""


class BaostockClient:
    """Fetches whole tables from baostock, a :class:`.TableClient`. Thread-safe; one request at a time.

    Parameters
    ----------
    address
        ``host:port`` of the server; else the environment variable ``BAOSTOCK_ADDRESS``, else the package's
        own.
    timeout
        Seconds to wait for the answer to one request, all its pages included.
    """

    vendor: Final = "baostock"

    def __init__(self, *, address: str | None = None, timeout: float = 60.0) -> None:
        self._address = address
        self._timeout = timeout
        self._process: VendorProcess | None = None
        self._lock = threading.Lock()  # guards _process: the package has one connection

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; an empty host means the package's own server."""
        address = self._address or os.environ.get(ADDRESS_VARIABLE) or ""
        if not address:
            return "", 0
        host, colon, port = address.rpartition(":")
        if not (host and colon and port.isdecimal()):
            raise BadOption(
                f"address={address!r} is not an address such as 127.0.0.1:10030", parameter="address"
            )
        return host, int(port)

    def fetch(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """All rows of a request. Dates of ``params`` are ``YYYYMMDD``.

        Raises
        ------
        NotConfigured
            If the package is not installed, or too old for the server.
        RateLimited
            If the server has too many connections.
        PermissionDenied
            If the server refuses this address.
        UnknownSymbol
            If it does not have the code.
        SourceUnavailable
            If there is no answer in time, or it does not follow the protocol.
        """
        wanted = {name: _with_dashes(value) for name, value in params.items()}
        if endpoint is DIVIDENDS:
            return self._dividends(wanted)
        if endpoint.name == BARS.name:
            fields = ",".join(("date", "code", *endpoint.numbers))
            wanted |= {"fields": fields, "frequency": "d", "adjustflag": "3"}
            return _check_bars(self._rows(endpoint, wanted), endpoint)
        if endpoint is CALENDAR:
            del wanted[CALENDAR.key]
        return self._rows(endpoint, wanted)

    def close(self) -> None:
        """End the process in which the package runs; the next request starts another."""
        with self._lock:
            if self._process is not None:
                self._process.end()

    def _dividends(self, wanted: Mapping[str, str]) -> pd.DataFrame:
        """Events whose ex-date is in a window: the server is asked for each of its years."""
        first, last = wanted["start_date"], wanted["end_date"]
        years = range(int(first[:4]), int(last[:4]) + 1)
        parts = [
            self._rows(DIVIDENDS, {"code": wanted["code"], "year": str(year), "yearType": "operate"})
            for year in years
        ]
        rows = pd.concat(parts, ignore_index=True)
        inside = rows[DIVIDENDS.day].between(pd.Timestamp(first), pd.Timestamp(last))
        return rows[inside].reset_index(drop=True)

    def _rows(self, endpoint: Endpoint, arguments: Mapping[str, str]) -> pd.DataFrame:
        with self._lock:
            answer = self._answer({"function": endpoint.name, "arguments": dict(arguments)}, endpoint)
        if answer["code"] != "0":
            raise self._refusal(endpoint, str(answer["code"]), str(answer["message"]), arguments)
        fault = partial(self._unavailable, endpoint)
        fields, rows = answer["fields"], answer["rows"]
        if not rows:
            return typed_rows(endpoint, pd.DataFrame(columns=list(endpoint.fields)), "%Y-%m-%d", fault)
        if any(len(row) != len(fields) for row in rows):
            raise fault("the answer has rows of another length than its header")
        frame = pd.DataFrame(rows, columns=fields).replace("", None)
        if endpoint is CALENDAR:
            frame = frame.assign(exchange=EXCHANGE)
        return typed_rows(endpoint, frame, "%Y-%m-%d", fault)

    def _answer(self, request: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
        """The process's answer; a connection that has answered before is opened once more if it is lost."""
        process = self._start()
        for _ in range(2):
            answered_before = process.answered
            try:
                answer = process.ask(request)
            except NoAnswer as error:
                raise self._unavailable(endpoint, str(error)) from None
            code = str(answer["code"])
            if code != "0" and not code.startswith(_BAD_REQUEST):
                process.end()
            if not (code.startswith(_NETWORK) and answered_before):
                break
        return answer

    def _start(self) -> VendorProcess:
        if self._process is None:
            if importlib.util.find_spec("baostock") is None:
                raise NotConfigured(f"the package baostock is not installed; {_INSTALL}")
            host, port = self.address
            module = "quantgraph.data.baostock._worker"
            self._process = VendorProcess(module, [host, str(port)], self._timeout)
        return self._process

    def _unavailable(self, endpoint: Endpoint, what: str, *, refused: bool = False) -> SourceUnavailable:
        host, port = self.address
        place = f"{host}:{port}" if host else "its server"
        return SourceUnavailable(
            f"baostock {endpoint.name} at {place}: {what}", endpoint=endpoint.name, refused=refused
        )

    def _refusal(
        self, endpoint: Endpoint, code: str, message: str, arguments: Mapping[str, str]
    ) -> QuantGraphError:
        text = " ".join(message.split())[:200]
        where = f"baostock {endpoint.name}"
        if not code:
            return self._unavailable(endpoint, text)
        if code == _OUTDATED:
            return NotConfigured(
                f"{where}: the package is too old for the server; run: pip install -U baostock"
            )
        if code == _TOO_MANY:
            return RateLimited(
                f"{where}: the server has too many connections: {text}; wait some minutes and run again: "
                "what was fetched is kept",
                endpoint=endpoint.name,
            )
        if code in {_BLOCKED, _NOT_ALLOWED}:
            return PermissionDenied(
                f"{where}: the server refuses this address: {text}", endpoint=endpoint.name
            )
        if code in _NO_CODE:
            symbol = arguments.get("code", "")
            return UnknownSymbol(f"{where}: {symbol}: {text}", symbols=[symbol])
        if code.startswith(_NETWORK):
            return self._unavailable(endpoint, f"no connection, or no answer that can be read: {text}")
        return self._unavailable(endpoint, f"refused with {code[:20]}: {text}", refused=True)


def _with_dashes(value: str) -> str:
    return f"{value[:4]}-{value[4:6]}-{value[6:]}" if len(value) == 8 and value.isdecimal() else value


def _check_bars(rows: pd.DataFrame, endpoint: Endpoint) -> pd.DataFrame:
    """Refuse bars that no exchange publishes."""
    if not len(rows):
        return rows
    prices = rows[list(_PRICES)]
    traded = rows["tradestatus"].eq(1) if "tradestatus" in rows else prices["close"].notna()
    wrong = traded & ~((prices > 0).all(axis=1) & (prices < float("inf")).all(axis=1))
    wrong |= traded & ((rows["high"] < prices.max(axis=1)) | (rows["low"] > prices.min(axis=1)))
    what = "prices that cannot be"
    if not wrong.any():
        wrong, what = rows.duplicated("date"), "a day twice"
    if wrong.any():
        day = rows.loc[wrong, "date"].iloc[0]
        raise SourceUnavailable(
            f"baostock {endpoint.name}: the answer has {what}: {rows['code'].iloc[0]} on {day:%Y-%m-%d}",
            endpoint=endpoint.name,
        )
    return rows
