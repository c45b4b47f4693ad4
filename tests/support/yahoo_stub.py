"""A server with the addresses of Yahoo that the package ``yfinance`` asks, on loopback, from raw bars.

The shapes are those of ``/v8/finance/chart``: time stamps of the open, float32 prices, and all prices and
dividends divided by the splits after them, volumes multiplied.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd

OPENS = pd.Timedelta(hours=9, minutes=30)
ZONE = "America/New_York"


@dataclass
class Security:
    """Raw daily bars by day, with cash and ratio of actions by ex-date."""

    bars: pd.DataFrame
    dividends: dict[str, float] = field(default_factory=dict)
    splits: dict[str, tuple[int, int]] = field(default_factory=dict)
    currency: str = "USD"
    zone: str = ZONE

    def later(self, day: pd.Timestamp) -> float:
        """Shares now for one share of a day."""
        ratios = [new / old for ex, (new, old) in self.splits.items() if pd.Timestamp(ex) > day]
        return float(np.prod(ratios))


@dataclass(frozen=True)
class Fault:
    """An answer in place of a chart: a status with a body, silence, or a changed chart."""

    status: int = 200
    body: str = ""
    silence: bool = False
    change: Callable[[dict[str, Any]], None] | None = None


def _second(day: pd.Timestamp) -> int:
    return int((day + OPENS).tz_localize(ZONE).timestamp())


def _float32(value: float) -> float:
    return float(np.float32(value))


def chart(symbol: str, security: Security, first: int, last: int) -> dict[str, Any]:
    """A chart of the bars from ``first`` until before ``last``, in seconds since 1970."""
    rows = [day for day in security.bars.index if first <= _second(day) < last]
    later = {day: security.later(day) for day in rows}
    quote = {
        name: [_float32(security.bars.loc[day, name] / later[day]) for day in rows]
        for name in ("open", "high", "low", "close")
    }
    quote["volume"] = [int(security.bars.loc[day, "volume"] * later[day]) for day in rows]
    inside = {f"{day:%Y-%m-%d}": day for day in rows}
    dividends = {
        str(_second(inside[ex])): {"amount": round(cash / later[inside[ex]], 6), "date": _second(inside[ex])}
        for ex, cash in security.dividends.items()
        if ex in inside
    }
    splits = {
        str(_second(inside[ex])): {
            "date": _second(inside[ex]),
            "numerator": float(new),
            "denominator": float(old),
            "splitRatio": f"{new}:{old}",
        }
        for ex, (new, old) in security.splits.items()
        if ex in inside
    }
    meta = {
        "currency": security.currency,
        "symbol": symbol,
        "exchangeName": "NMS",
        "instrumentType": "EQUITY",
        "exchangeTimezoneName": security.zone,
        "timezone": "EST",
        "gmtoffset": -18000,
        "priceHint": 2,
        "dataGranularity": "1d",
        "range": "",
        "validRanges": ["1d", "5d", "1mo", "max"],
    }
    events = {name: found for name, found in (("dividends", dividends), ("splits", splits)) if found}
    result = {
        "meta": meta,
        "timestamp": [_second(day) for day in rows],
        **({"events": events} if events else {}),
        "indicators": {"quote": [quote], "adjclose": [{"adjclose": quote["close"]}]},
    }
    return {"chart": {"result": [result], "error": None}}


def refusal(code: str, description: str) -> str:
    return json.dumps({"chart": {"result": None, "error": {"code": code, "description": description}}})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *told: Any) -> None:
        """Requests are in ``YahooStub.asked``."""

    def do_GET(self) -> None:
        answer = self.server.stub.answer(self.path)
        if answer is None:
            self.close_connection = True
            return
        status, body = answer
        sent = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


class YahooStub:
    """Yahoo on a free port of 127.0.0.1 while its ``with`` block runs; ``asked`` are the symbols of charts."""

    def __init__(self, securities: dict[str, Security]) -> None:
        self.securities = securities
        self.asked: list[str] = []
        self.faults: deque[Fault] = deque()
        self.closing = threading.Event()

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.stub = self
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *told: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str) -> tuple[int, str] | None:
        place = urlsplit(path)
        if place.path == "/v1/test/getcrumb":
            return 200, "a.crumb"
        if not place.path.startswith("/v8/finance/chart/"):
            return 404, ""
        symbol = place.path.rpartition("/")[2].replace("%5E", "^")
        self.asked.append(symbol)
        fault = self.faults.popleft() if self.faults else Fault()
        if fault.silence:
            self.closing.wait(60)
            return None
        if fault.status != 200 or fault.body:
            return fault.status, fault.body
        if symbol not in self.securities:
            return 404, refusal("Not Found", "No data found, symbol may be delisted")
        asked = parse_qs(place.query)
        made = chart(symbol, self.securities[symbol], int(asked["period1"][0]), int(asked["period2"][0]))
        if not made["chart"]["result"][0]["timestamp"]:
            window = f"startDate = {asked['period1'][0]}, endDate = {asked['period2'][0]}"
            return 400, refusal("Bad Request", f"Data doesn't exist for {window}")
        if fault.change is not None:
            fault.change(made["chart"]["result"][0])
        return 200, json.dumps(made)
