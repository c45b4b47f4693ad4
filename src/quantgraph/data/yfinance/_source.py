"""Daily US data of Yahoo as a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.data._frame_source import complete_bars
from quantgraph.data._source import LEVEL_FIELDS, Members, Panel
from quantgraph.data._vendor_source import VendorSource
from quantgraph.data._vendor_store import ParquetCache, VendorStore, cache_folder
from quantgraph.data.symbols._codes import symbol_list
from quantgraph.data.yfinance._client import ADDRESS_VARIABLE, HISTORY, YfinanceClient
from quantgraph.errors import BadOption, NoData, UnknownSymbol
from quantgraph.market import sessions
from quantgraph.settings import Settings, load_settings

_NEW_YORK = ZoneInfo("America/New_York")
_FIELDS = ("open", "high", "low", "close", "vol", "dividend", "split")
_FORM = "yfinance:AAPL,MSFT"


def new_york_now() -> pd.Timestamp:
    """Current time in New York."""
    return pd.Timestamp.now(_NEW_YORK)


class YfinanceSource(VendorSource):
    """Daily bars, dividends and splits of US securities from Yahoo, kept in a local cache.

    A :class:`~quantgraph.data.MarketDataSource`. Yahoo's terms allow personal use. It has no list of
    symbols, so that they are named here; those with ``^`` are indices. Prices are as they were traded: the
    division by later splits is undone.

    Parameters
    ----------
    symbols
        Yahoo's symbols, such as ``AAPL``, ``BRK-B``, ``^GSPC``.
    cache_dir
        Folder of the cache; None is ``yfinance`` in the settings' ``cache_dir``.
        Rules: :mod:`quantgraph.data._vendor_store`.
    client
        A client with a server or a time limit of its own.
    now
        Function that returns the current time with its zone.

    Raises
    ------
    BadOption
        If there is no symbol, or one is not a symbol of the US.
    """

    name = "yfinance"
    first_session = pd.Timestamp("1990-01-02").as_unit("us")  # of the calendar
    stock_code = re.compile(r"[A-Z][A-Z0-9]{0,5}(-[A-Z]{1,2})?")  # "BRK-B"
    example = "AAPL"
    local = True
    read_as = Note(
        zh="yfinance（Yahoo，仅限个人使用）：不复权价格（auto_adjust=False，并还原其后的拆分），vol 由股换算"
        "为手；分红、拆分按除权除息日；没有、记为 NaN：pre_close、amount",
        en="yfinance (Yahoo, for personal use): prices as traded (auto_adjust=False, later splits undone), "
        "vol from shares to hundreds; dividends and splits by ex-date; in no table, so NaN: pre_close, "
        "amount",
    )
    _index_code = re.compile(r"\^[A-Z0-9]{1,8}")  # "^GSPC"

    def __init__(
        self,
        symbols: str | Sequence[str],
        *,
        cache_dir: Path | None = None,
        client: YfinanceClient | None = None,
        now: Callable[[], pd.Timestamp] = new_york_now,
    ) -> None:
        codes = sorted({code.upper() for code in symbol_list(symbols)})
        if not codes:
            raise BadOption(
                f"yfinance has no list of symbols; name those to fetch, like source='{_FORM}'",
                parameter="source",
            )
        wrong = [c for c in codes if not self.stock_code.fullmatch(c) and not self._index_code.fullmatch(c)]
        if wrong:
            raise BadOption(
                f"source: {', '.join(wrong)}: not a US symbol of Yahoo; valid is for example AAPL or ^GSPC",
                parameter="source",
            )
        self._codes = tuple(codes)
        root = load_settings().cache_dir
        folder = cache_dir or cache_folder(root, self.name, os.environ.get(ADDRESS_VARIABLE))
        self._client = client or YfinanceClient(folder / "session")
        store = VendorStore(self._client, ParquetCache(folder), now=now, zone=_NEW_YORK, ready_hour=20)
        super().__init__(store)

    def __repr__(self) -> str:
        return f"YfinanceSource({','.join(self._codes)!r})"

    def opens(self) -> str:
        """``yfinance:`` and the symbols."""
        return f"{self.name}:{','.join(self._codes)}"

    def close(self) -> None:
        """End the process in which the vendor's package runs; the next request starts another."""
        self._client.close()

    def symbols(self) -> tuple[str, ...]:
        """The named securities, ascending; indices are not among them."""
        return tuple(code for code in self._codes if not code.startswith("^"))

    def names(self) -> Mapping[str, str]:
        """The named indices; there are no names of securities."""
        return {code: code for code in self._codes if code.startswith("^")}

    def members(self, index_code: str, on: pd.Timestamp) -> Members:  # noqa: ARG002 - of the protocol
        """Raise ``UnknownSymbol``: Yahoo has no lists of members."""
        raise UnknownSymbol(
            f"yfinance has no member list of {index_code}, nor of others", symbols=[index_code]
        )

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars as they were traded, with dividends and splits."""
        codes, days = self._request(symbols, start, end)
        self._check(codes, self.symbols())
        rows = pd.concat([self._rows(code, days) for code in codes], ignore_index=True)
        if rows.empty:
            raise self._no_data("bars", codes, days)
        rows = rows.assign(vol=rows["volume"] / 100)
        return complete_bars(self._panel(rows, HISTORY, _FIELDS, days, codes))

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Raise ``NoData``: there are none by day."""
        del symbols, start, end
        raise NoData("yfinance has no daily indicators", fields=tuple(fields))

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of a named index or security; of a security its prices as they were traded."""
        self._check([index_code], self._codes)
        days = self._window_sessions(start, end)
        rows = self._rows(index_code, days)
        if rows.empty:
            raise self._no_data("levels", (index_code,), days)
        levels = self._panel(rows, HISTORY, LEVEL_FIELDS, days, (index_code,))
        return pd.DataFrame({field: frame[index_code] for field, frame in levels.items()})

    def _sessions_between(self, first: pd.Timestamp, last: pd.Timestamp) -> pd.DatetimeIndex:
        return sessions(first, last, exchange="XNYS")

    def _rows(self, code: str, days: pd.DatetimeIndex) -> pd.DataFrame:
        rows = self._store.series(HISTORY, code, days[0], days[-1])
        return rows.rename(columns={"date": "trade_date", "code": "ts_code"})

    def _check(self, codes: Sequence[str], named: Sequence[str]) -> None:
        unknown = sorted({*codes}.difference(named))
        if unknown:
            raise UnknownSymbol(
                f"{', '.join(unknown)}: not among the symbols of this source ({', '.join(named)}); name it, "
                f"like source='{self.opens()},{unknown[0]}'",
                symbols=unknown,
            )


def open_yfinance(place: str, settings: Settings) -> YfinanceSource:
    """Open the source by its name, with the settings of :func:`~quantgraph.data.open_source`."""
    return YfinanceSource(
        place, cache_dir=cache_folder(settings.cache_dir, "yfinance", os.environ.get(ADDRESS_VARIABLE))
    )
