"""The process in which the package ``yfinance`` runs, with a cache of cookies of its own."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from quantgraph.data._vendor_process import serve

_ZONE = "America/New_York"


def _session(address: str) -> Any:
    """A session of the package's usual kind; with an address all requests go there."""
    from curl_cffi.requests import Session

    if not address:
        return Session(impersonate="chrome")

    class Elsewhere(Session):  # type: ignore[type-arg]
        def get(self, url: str, **options: Any) -> Any:
            return self.request("GET", self._there(url), **options)

        def post(self, url: str, **options: Any) -> Any:
            return self.request("POST", self._there(url), **options)

        def _there(self, url: str) -> str:
            return address.rstrip("/") + urlsplit(url).path

    return Elsewhere()


class _Worker:
    """Sets the package up at the first request."""

    def __init__(self, address: str, folder: str) -> None:
        self._address, self._folder = address, folder
        self._opened: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Daily bars with actions of one symbol, or the error's class and text."""
        try:
            return self._history(request["symbol"], request["start"], request["end"], request["timeout"])
        except Exception as error:  # noqa: BLE001 - whatever the package raises is reported
            reason = getattr(error, "yahoo_reason", None)
            return {"error": type(error).__name__, "reason": reason, "message": str(error)}

    def _history(self, symbol: str, start: str, end: str, timeout: float) -> dict[str, Any]:
        import yfinance
        from yfinance import cache

        if self._opened is None:
            self._opened = _session(self._address)
            yfinance.set_tz_cache_location(self._folder)
            yfinance.config.debug.hide_exceptions = False
        cache.get_tz_cache().store(symbol, _ZONE)  # else it is asked for, in a request of its own
        ticker = yfinance.Ticker(symbol, session=self._opened)
        table = ticker.history(start=start, end=end, auto_adjust=False, actions=True, timeout=timeout)
        answer = ticker.get_history_metadata()
        columns = ["Open", "High", "Low", "Close", "Volume", "Dividends", "Stock Splits"]
        return {
            "symbol": answer["symbol"],
            "currency": answer["currency"],
            "zone": answer["exchangeTimezoneName"],
            "days": [f"{day:%Y-%m-%d}" for day in table.index],
            "columns": {name: table[name].astype("float64").tolist() for name in columns},
        }


if __name__ == "__main__":
    serve(_Worker(sys.argv[1], sys.argv[2]).answer)
