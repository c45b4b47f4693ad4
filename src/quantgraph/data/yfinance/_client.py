"""Client over the package ``yfinance``, which runs in a process of its own: raw bars, typed errors."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from quantgraph.data._vendor_process import NoAnswer, VendorProcess
from quantgraph.data._vendor_tables import Endpoint
from quantgraph.data._vendor_values import daily_series, shortest_decimals
from quantgraph.errors import NotConfigured, QuantGraphError, RateLimited, SourceUnavailable, UnknownSymbol

ADDRESS_VARIABLE = "YFINANCE_URL"

_INSTALL = "run: pip install 'quantgraph[yfinance]'"
_PRICES = {"Open": "open", "High": "high", "Low": "low", "Close": "close"}
_FIELDS = (*_PRICES.values(), "volume", "dividend", "split")
_ZONE, _CURRENCY = "America/New_York", "USD"
_ROOM = 1e-5  # a dividend that Yahoo divides by later splits has six decimals
_RESERVE = 10.0  # seconds that the process has beside the request's

HISTORY = daily_series("history", _FIELDS)


class YfinanceClient:
    """Fetches daily bars, dividends and splits, a :class:`.TableClient`. Thread-safe; one request at a time.

    Yahoo divides prices and dividends by all later splits. They are asked for up to now, with the splits, and
    multiplied again: what is returned never changes with a later split.

    Parameters
    ----------
    folder
        Folder for the package's cookies.
    address
        Server in place of Yahoo's, ``http://127.0.0.1:8000``; else the environment variable ``YFINANCE_URL``.
    timeout
        Seconds to wait for one reply of the server.
    """

    vendor: Final = "yfinance"

    def __init__(self, folder: Path, *, address: str | None = None, timeout: float = 30.0) -> None:
        self._folder = folder
        self._address = address
        self._timeout = timeout
        self._process: VendorProcess | None = None
        self._lock = threading.Lock()  # guards _process: the package has one session

    @property
    def address(self) -> str:
        """Address of the server; empty means Yahoo's."""
        return self._address or os.environ.get(ADDRESS_VARIABLE) or ""

    def fetch(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """Unadjusted bars of one symbol, volumes in shares.

        Raises
        ------
        NotConfigured
            If the package is not installed.
        RateLimited
            If Yahoo limits the rate of requests.
        UnknownSymbol
            If Yahoo does not have the symbol, or not in US dollars.
        SourceUnavailable
            If there is no answer in time, or it does not follow the protocol.
        """
        code = params[endpoint.key]
        first, last = pd.Timestamp(params["start_date"]), pd.Timestamp(params["end_date"])
        tomorrow = pd.Timestamp.now("America/New_York").tz_localize(None).normalize() + pd.Timedelta(days=1)
        end = max(last + pd.Timedelta(days=1), tomorrow)
        request = {
            "symbol": code,
            "start": f"{first:%Y-%m-%d}",
            "end": f"{end:%Y-%m-%d}",
            "timeout": self._timeout,
        }
        with self._lock:
            answer = self._ask(request)
        if "error" in answer:
            if _is_empty(answer):
                return _rows(code, [], {name: [] for name in _FIELDS})
            raise self._refusal(code, answer)
        if answer["symbol"] != code or answer["zone"] != _ZONE or answer["currency"] != _CURRENCY:
            raise UnknownSymbol(
                f"yfinance: {code} is {answer['symbol']}, in {answer['currency']}, zone {answer['zone']}; "
                f"this source has symbols in {_CURRENCY}, zone {_ZONE}",
                symbols=[code],
            )
        rows = _unadjust(code, answer["days"], answer["columns"])
        rows = rows[rows["date"].between(first, last)].reset_index(drop=True)
        self._check(rows, code)
        return rows

    def close(self) -> None:
        """End the process in which the package runs; the next request starts another."""
        with self._lock:
            if self._process is not None:
                self._process.end()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None:
            if importlib.util.find_spec("yfinance") is None:
                raise NotConfigured(f"the package yfinance is not installed; {_INSTALL}")
            self._folder.mkdir(parents=True, exist_ok=True)
            module, limit = "quantgraph.data.yfinance._worker", 2 * self._timeout + _RESERVE
            self._process = VendorProcess(module, [self.address, str(self._folder)], limit)
        try:
            return self._process.ask(request)
        except NoAnswer as error:
            raise self._unavailable(str(error)) from None

    def _unavailable(self, what: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"yfinance history at {self.address or 'Yahoo'}: {what}", endpoint=HISTORY.name
        )

    def _refusal(self, code: str, answer: Mapping[str, Any]) -> QuantGraphError:
        kind, reason = str(answer["error"]), answer["reason"]
        text = " ".join(str(reason or answer["message"]).split())[:200]
        if kind == "YFRateLimitError":
            return RateLimited(
                "yfinance history: Yahoo limits the rate of requests; wait some minutes and run again: what "
                "was fetched is kept",
                endpoint=HISTORY.name,
            )
        if kind == "YFPricesMissingError" and reason:
            return UnknownSymbol(f"yfinance history: Yahoo has no {code}: {text}", symbols=[code])
        return self._unavailable(f"no answer that can be read ({kind}): {text}")

    def _check(self, rows: pd.DataFrame, code: str) -> None:
        """Refuse bars that no exchange publishes."""
        prices = rows[list(_PRICES.values())]
        wrong = prices.notna().any(axis=1) & ~((prices > 0) & np.isfinite(prices)).all(axis=1)
        high, low = prices.max(axis=1), prices.min(axis=1)
        wrong |= (rows["high"] < high * (1 - _ROOM)) | (rows["low"] > low * (1 + _ROOM))
        wrong |= (rows["volume"] < 0) | (rows["dividend"] < 0) | rows["date"].duplicated()
        if wrong.any():
            raise self._unavailable(
                f"prices that cannot be: {code} on {rows.loc[wrong, 'date'].iloc[0]:%Y-%m-%d}"
            )


def _is_empty(answer: Mapping[str, Any]) -> bool:
    """Whether an error says that a symbol has no bar in the window."""
    reason = answer["reason"]
    if answer["error"] != "YFPricesMissingError":
        return False
    return reason is None or str(reason).startswith("Data doesn't exist")


def _rows(code: str, days: list[str], columns: Mapping[str, Any]) -> pd.DataFrame:
    dates = pd.to_datetime(pd.Series(days, dtype="str"), format="%Y-%m-%d").astype("datetime64[us]")
    numbers = {name: pd.Series(values, dtype="float64") for name, values in columns.items()}
    return pd.DataFrame({"code": pd.Series([code] * len(days), dtype="str"), "date": dates, **numbers})


def _unadjust(code: str, days: list[str], columns: Mapping[str, list[float]]) -> pd.DataFrame:
    """Bars as they were traded: prices and dividends times all later splits, volumes divided by them."""
    found = {name: np.array(values, dtype="float64") for name, values in columns.items()}
    split = np.where(found["Stock Splits"] > 0, found["Stock Splits"], 1.0)
    later = np.append(np.cumprod(split[::-1])[::-1][1:], 1.0)[: len(split)]
    prices = {ours: shortest_decimals(found[name] * later) for name, ours in _PRICES.items()}
    dividend = shortest_decimals(found["Dividends"] * later, room=_ROOM)
    return _rows(
        code,
        days,
        {
            **prices,
            "volume": np.round(found["Volume"] / later),
            "dividend": np.where(dividend > 0, dividend, np.nan),
            "split": np.where(split == 1, np.nan, split),
        },
    )
