"""A server that speaks baostock's protocol on loopback, from given tables, with scripted faults.

The real ``baostock`` package talks to it over TCP. A request is a header of 21 characters (version, type and length
of the body, joined by ``\\x01``), a body, ``\\x01``, a CRC-32 and a newline. An answer has a header and a body,
which is compressed for bars, and ends with ``<![CDATA[]]>`` and a newline.
"""

from __future__ import annotations

import json
import socketserver
import threading
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import pandas as pd

SPLIT, END = "\1", b"<![CDATA[]]>\n"
HEADER = 21
COMPRESSED = "query_history_k_data_plus"


@dataclass(frozen=True)
class Request:
    """One request: its method, and what follows the user in its body."""

    method: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """What comes instead of an answer.

    ``refusal`` is an error code, ``close`` ends the connection, ``silence`` says nothing, ``text`` is sent as it
    is, and ``change`` is applied to the table that would be sent.
    """

    refusal: tuple[str, str] | None = None
    close: bool = False
    silence: bool = False
    text: bytes | None = None
    change: Callable[[pd.DataFrame], pd.DataFrame] | None = None


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while line := self.rfile.readline():
            stub: BaostockStub = self.server.stub
            answer = stub.answer(line.decode())
            if answer is None:
                return
            self.wfile.write(answer)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class BaostockStub:
    """baostock on a free port of 127.0.0.1 while its ``with`` block runs.

    ``tables`` are by method, with all columns as text: ``query_stock_basic``, ``query_trade_dates``,
    ``query_history_k_data_plus``, ``query_dividend_data`` and the three of members, whose ``date`` column is the
    day from which on a list holds.
    """

    def __init__(self, tables: Mapping[str, pd.DataFrame]) -> None:
        self.tables = dict(tables)
        self.requests: list[Request] = []
        self.faults: dict[str, deque[Fault]] = {}
        self.closing = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.stub = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *told: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def asked(self, method: str) -> list[tuple[str, ...]]:
        """Arguments of the requests of a method, without page numbers."""
        with self._lock:
            return [each.arguments[2:] for each in self.requests if each.method == method]

    def fail(self, method: str, *faults: Fault) -> None:
        """Answer the next requests of a method with these faults."""
        with self._lock:
            self.faults.setdefault(method, deque()).extend(faults)

    def answer(self, line: str) -> bytes | None:
        body, _, crc = line.rstrip("\n").rpartition(SPLIT)
        method, _user, *arguments = body[HEADER:].split(SPLIT)
        kind = body.split(SPLIT)[1]
        if str(zlib.crc32(body.encode())) != crc or int(body[HEADER - 10 : HEADER]) != len(body) - HEADER:
            return _message(kind, method, ["10004019", "消息格式不正确"])
        with self._lock:
            self.requests.append(Request(method, tuple(arguments)))
            queue = self.faults.get(method)
            fault = queue.popleft() if queue else Fault()
        if fault.silence:
            self.closing.wait(60)
        if fault.close or fault.silence:
            return None
        if fault.text is not None:
            return fault.text
        if fault.refusal is not None:
            return _message(kind, method, list(fault.refusal))
        if method == "login":
            return _message(kind, method, ["0", "success", method, "anonymous"])
        rows = self._rows(method, arguments[2:])
        if fault.change is not None:
            rows = fault.change(rows)
        page, size = int(arguments[0]), int(arguments[1])
        data = json.dumps({"record": rows.iloc[(page - 1) * size : page * size].to_numpy().tolist()})
        parts = ["0", "success", method, "anonymous", *arguments[:2], data if len(rows) else ""]
        fields, rest = ",".join(rows.columns), list(arguments[2:])
        if method == COMPRESSED:
            return _message(kind, method, [*parts, rest[0], fields, *rest[2:]])
        return _message(kind, method, [*parts, *rest, fields])

    def _rows(self, method: str, arguments: list[str]) -> pd.DataFrame:
        table = self.tables[method]
        if method == COMPRESSED:
            code, fields, first, last, _frequency, _adjusted = arguments
            inside = table["code"].eq(code) & table["date"].between(first, last)
            return table.loc[inside, fields.split(",")]
        if method == "query_trade_dates":
            return table[table["calendar_date"].between(*arguments)]
        if method == "query_dividend_data":
            code, year, kind = arguments
            assert kind == "operate"
            return table[table["code"].eq(code) & table["dividOperateDate"].str.startswith(year)]
        if method == "query_stock_basic":
            return table
        (day,) = arguments
        known = table[table["date"] <= day]
        return known[known["date"] == known["date"].max()].drop(columns="date")


def _message(kind: str, method: str, parts: list[str]) -> bytes:
    body = SPLIT.join(parts)
    checked = f"{body}{SPLIT}{zlib.crc32(body.encode())}".encode()
    if method == COMPRESSED and parts[0] == "0":
        checked = zlib.compress(checked)
        kind = "96"
    else:
        kind = f"{int(kind) + 1:02}" if parts[0] == "0" else "04"
    return f"00.9.40{SPLIT}{kind}{SPLIT}{len(checked):010}".encode() + checked + END
