"""A qlib folder as a source: prices without qlib's adjustment, dated members, limits where it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from quantgraph._util.texts import Language, Note
from quantgraph.data._frame_source import complete_bars
from quantgraph.data._source import LEVEL_FIELDS, Members, Panel, check_window
from quantgraph.data._table_columns import ColumnNames
from quantgraph.data._table_units import TableUnits, units_of
from quantgraph.data._vendor_values import shortest_decimals
from quantgraph.data.qlib._folder import CALENDAR, QlibFolder
from quantgraph.data.symbols._codes import is_index_code, standard_code, symbol_list
from quantgraph.data.symbols._resolution import INDEX_NAMES
from quantgraph.errors import BadFile, BadOption, NoData, UnknownSymbol
from quantgraph.market.rules import find_board
from quantgraph.settings import Settings, TableOptions

PREFIX: Final = "qlib:"

_LISTS = {
    "csi100": "000903.SH",
    "csi300": "000300.SH",
    "csi500": "000905.SH",
    "csi800": "000906.SH",
    "csi1000": "000852.SH",
    "csiall": "000985.SH",
    "sse50": "000016.SH",
}
"""Index of a list that is named otherwise."""
_LIMITS = {"up_limit": ("up_limit", "limit_up"), "down_limit": ("down_limit", "limit_down")}
_LEAST_STEP = 1e-4
"""Relative step of ``factor`` above which it is an action: float32 and the vendors' rounding are below it."""
_SAMPLED = 20  # stocks whose numbers tell the units
_SHARES_PER_HAND = 100
_THOUSAND = 1000.0
_SHOWN = 5


class QlibSource:
    """Daily bars of a folder in qlib's ``.bin`` format, a :class:`~quantgraph.data.MarketDataSource`.

    qlib stores ``price * factor`` and ``volume / factor``. Prices and volumes are those before the
    adjustment, and ``factor`` becomes ``adj_factor``. A price is the shortest decimal that float32 does not
    tell from the stored one: in whole cents again where the exchange's was. ``pre_close`` is NaN. A step of
    ``factor`` is a ``split`` of that ratio, a cash dividend too: the account gets it in shares.

    Files are read on each request: the whole market need not fit in memory. Thread-safe.

    Parameters
    ----------
    path
        The folder that has ``calendars``, ``instruments`` and ``features``.
    options
        Units of ``volume`` and ``amount`` where the numbers do not tell.

    Raises
    ------
    BadFile
        Here if it is not a qlib folder; later if a file is damaged, or a stock has no ``factor``.
    """

    synthetic: Final = False  # the numbers are the folder's own
    local: bool = True

    def __init__(self, path: str | Path, *, options: TableOptions | None = None) -> None:
        self._name = f"{PREFIX}{path}"
        self._folder = QlibFolder(Path(path))
        self._options = options or TableOptions()

    def __repr__(self) -> str:
        return f"QlibSource({self._name.removeprefix(PREFIX)!r})"

    @property
    def name(self) -> str:
        """``qlib:`` and the caller's path."""
        return self._name

    def opens(self) -> str:
        """``qlib:`` and the absolute path."""
        return f"{PREFIX}{self._folder.path.absolute()}"

    def fingerprint(self) -> Mapping[str, str]:
        """Hash of the calendar, of each list, and of the names and sizes of all features."""
        return self._folder.fingerprint()

    def provenance(self, language: Language) -> tuple[str, ...]:
        """What the numbers are: adjustment, units, release, and what the folder does not have."""
        units = self._units.notes
        notes = [
            Note(
                zh="开高低收 = qlib 价格 / factor（未复权），adj_factor = factor，vol = volume × factor",
                en="open, high, low, close = qlib's / factor (unadjusted), adj_factor = factor, "
                "vol = volume x factor",
            ),
            *(Note(zh=f"{field}{note.zh}", en=f"{field} {note.en}") for field, note in units.items()),
            Note(
                zh="factor 每次变动记作同比例的拆分：现金分红等同按除权价再投资；"
                "其中没有、记为 NaN：pre_close",
                en="each step of factor is a split of that ratio: cash dividends are as if reinvested on "
                "the ex-date; in no file, so NaN: pre_close",
            ),
        ]
        if release := self._folder.release:
            tag = release.get("release_tag", "")
            notes.append(Note(zh=f"发布版本 {tag}", en=f"release {tag}"))
        return tuple(note.text(language) for note in notes)

    def sessions(self) -> pd.DatetimeIndex:
        """All sessions of the calendar, ascending."""
        return self._calendar

    def symbols(self) -> tuple[str, ...]:
        """All stocks of ``instruments/all.txt``, ascending; indices are not among them."""
        return self._stocks

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """Stocks whose data begin on or before a day, ascending."""
        spans = self._folder.instruments
        begun = {*spans.symbols[spans.first <= day.to_datetime64()].tolist()}
        return tuple(symbol for symbol in self._stocks if symbol in begun)

    def names(self) -> Mapping[str, str]:
        """Names of the indices; the folder has none of stocks."""
        codes = {*self._indices, *(_LISTS.get(name, "") for name in self._folder.lists)}
        return {code: INDEX_NAMES[code][0] for code in sorted(codes) if code in INDEX_NAMES}

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:  # noqa: ARG002 - of the protocol
        """The same: names of indices do not change."""
        return self.names()

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """Members of an index on a day, by the spans of its list.

        After the last span its last day's members, before the first one its first day's with
        ``point_in_time=False``.
        """
        name = next((name for name in self._folder.lists if _code_of(name) == index_code), None)
        if name is None:
            listed = ", ".join(_code_of(each) for each in self._folder.lists) or "none"
            raise UnknownSymbol(
                f"{self.name} has no member list of {index_code}; indices with members: {listed}",
                symbols=(index_code,),
            )
        spans = self._folder.spans(name)
        first, last = pd.Timestamp(spans.first.min()), pd.Timestamp(spans.last.max())
        day = min(max(on, first), last)
        changed = spans.first[spans.first <= day.to_datetime64()].max()
        return Members(
            index_code=index_code,
            symbols=spans.on(day),
            listed_on=pd.Timestamp(changed),
            point_in_time=on >= first,
        )

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """Daily bars, unadjusted, with ``adj_factor`` and, where the folder has them, price limits."""
        check_window(start, end)
        codes = sorted({*symbol_list(symbols)})
        self._check(codes, self._stocks)
        rows = self.sessions().slice_indexer(start, end)
        columns = [self._column(code, rows) for code in codes]
        fields = dict.fromkeys(field for column in columns for field in column)
        missing = np.full(rows.stop - rows.start, np.nan)
        header = pd.Index(codes, name="ts_code", dtype="str")
        panel = {
            field: pd.DataFrame(
                np.column_stack([column.get(field, missing) for column in columns]),
                index=self.sessions()[rows],
                columns=header,
            )
            for field in fields
        }
        if not panel or panel["open"].isna().to_numpy().all():
            raise self._nothing("bars", codes, start, end)
        return complete_bars(panel, self._units.withheld)

    def indicators(
        self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp, fields: Sequence[str] = ()
    ) -> Panel:
        """Raise ``NoData``: units of other features are not known."""
        del symbols, start, end
        raise NoData(f"{self.name} has no daily indicators", fields=tuple(fields))

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """Daily levels of an index, or of a stock, which may be the benchmark."""
        check_window(start, end)
        self._check([index_code], (*self._indices, *self._stocks))
        rows = self.sessions().slice_indexer(start, end)
        levels = {field: self._folder.feature(index_code, field)[rows] for field in LEVEL_FIELDS}
        if "factor" in self._folder.fields_of(index_code):
            factor = self._folder.feature(index_code, "factor")[rows]
            levels = {
                field: shortest_decimals(values / np.where(np.isnan(factor), 1, factor))
                for field, values in levels.items()
            }
        frame = pd.DataFrame(levels, index=self.sessions()[rows]).dropna(how="all")
        if frame.empty:
            raise self._nothing("levels", [index_code], start, end)
        return frame

    @cached_property
    def _calendar(self) -> pd.DatetimeIndex:
        self._folder.release  # noqa: B018 - a folder that is not the release beside it is refused
        return self._folder.calendar

    @cached_property
    def _stocks(self) -> tuple[str, ...]:
        found = {*self._folder.instruments.symbols.tolist()}
        return tuple(sorted(code for code in found if not is_index_code(code)))

    @cached_property
    def _indices(self) -> tuple[str, ...]:
        found = {*self._folder.instruments.symbols.tolist()}
        return tuple(sorted(code for code in found if is_index_code(code)))

    @cached_property
    def _units(self) -> TableUnits:
        """Units of volumes and amounts, from some stocks spread over the list."""
        chosen = self._stocks[:: max(1, len(self._stocks) // _SAMPLED)][:_SAMPLED]
        columns = [self._raw(code) for code in chosen]
        common = set[str].intersection(*(set(each) for each in columns))
        fields = [field for field in ("low", "high", "vol", "amount") if field in common]
        numbers: dict[str, pd.Series] = {
            field: pd.Series(np.concatenate([each[field] for each in columns])) for field in fields
        }
        return units_of(
            ColumnNames(columns={"vol": "volume", "amount": "amount"}),
            numbers,
            self.name,
            options={"volume_unit": self._options.volume_unit, "amount_unit": self._options.amount_unit},
            is_us=all(find_board(code) == "us" for code in self._stocks),
        )

    def _column(self, code: str, rows: slice) -> dict[str, npt.NDArray[np.float64]]:
        """Fields of a stock on some sessions, in the project's units, NaN outside the stock's spans."""
        units = self._units
        found = {field: values for field, values in self._raw(code).items() if field not in units.withheld}
        if "vol" in found:
            shares = shortest_decimals(found["vol"] * units.volume, (0,))
            found["vol"] = shares / _SHARES_PER_HAND
        if "amount" in found:
            found["amount"] = found["amount"] * (units.amount / _THOUSAND)
        spans, days = self._folder.instruments, self.sessions().to_numpy()
        inside = np.zeros(len(days), dtype=bool)
        for row in np.flatnonzero(spans.symbols == code):
            inside |= (spans.first[row] <= days) & (days <= spans.last[row])
        return {field: np.where(inside, values, np.nan)[rows] for field, values in found.items()}

    def _raw(self, code: str) -> dict[str, npt.NDArray[np.float64]]:
        """Fields of a stock without qlib's adjustment, volumes and amounts in the folder's units."""
        read, have = self._folder.feature, self._folder.fields_of(code)
        if "factor" not in have:
            raise BadFile(
                f"{self._folder.path}: features of {code} have no factor.day.bin, so that its prices cannot "
                "be distinguished from adjusted ones; valid is a factor of 1 where they are unadjusted",
                file=str(self._folder.path),
                symbols=(code,),
            )
        factor = read(code, "factor")
        if (factor <= 0).any():
            day = self.sessions()[int((factor <= 0).argmax())]
            raise BadFile(
                f"{self._folder.path}: factor of {code} on {day:%Y-%m-%d} is not above 0",
                file=str(self._folder.path),
                symbols=(code,),
            )
        found = {field: shortest_decimals(read(code, field) / factor) for field in LEVEL_FIELDS}
        if "volume" in have:
            found["vol"] = read(code, "volume") * factor
        if "amount" in have:
            found["amount"] = read(code, "amount")
        found |= self._limits(code, have, found, factor)
        return found | {
            "adj_factor": np.where(np.isnan(found["open"]), np.nan, factor),
            "split": _steps(factor),
        }

    def _limits(
        self,
        code: str,
        have: frozenset[str],
        prices: Mapping[str, npt.NDArray[np.float64]],
        factor: npt.NDArray[np.float64],
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Price limits, as they are or without the adjustment: the nearest that the prices stay within."""
        found = {}
        for field, extreme, sign in (("up_limit", "high", 1), ("down_limit", "low", -1)):
            name = next((name for name in _LIMITS[field] if name in have), None)
            if name is None:
                continue
            stored = self._folder.feature(code, name)
            fitting = []
            for limit in (shortest_decimals(stored), shortest_decimals(stored / factor)):
                room = sign * (limit - prices[extreme])
                if (room[~np.isnan(room)] >= 0).all() and not np.isnan(room).all():
                    fitting.append((float(np.nanmedian(room)), limit))
            if fitting:
                found[field] = min(fitting, key=itemgetter(0))[1]
        return found

    def _check(self, codes: Sequence[str], available: Sequence[str]) -> None:
        unknown = sorted({*codes}.difference(available))
        if not codes:
            raise BadOption("symbols is empty; give at least one code such as 600519.SH", parameter="symbols")
        if unknown:
            raise UnknownSymbol(
                f"{self.name} has no {', '.join(unknown[:_SHOWN])}; it has {len(available)} symbols, "
                f"for example {available[0] if available else 'none'}",
                symbols=tuple(unknown),
            )

    def _nothing(self, what: str, codes: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> NoData:
        days = self.sessions()
        return NoData(
            f"{self.name} has no {what} of {', '.join(codes[:_SHOWN])} from {start:%Y-%m-%d} to "
            f"{end:%Y-%m-%d}; "
            f"{CALENDAR} runs from {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}",
            symbols=tuple(codes),
        )


def _code_of(name: str) -> str:
    """Index of a list of instruments: ``csi300`` is 000300.SH, ``sh000016`` 000016.SH, others as they are."""
    return _LISTS.get(name.lower()) or standard_code(name)


def _steps(factor: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ratio of each session's factor to the last one before it where they differ; NaN elsewhere."""
    known = np.flatnonzero(~np.isnan(factor))
    ratio = shortest_decimals(factor[known[1:]] / factor[known[:-1]]).round(12)  # as in tables of events
    stepped = np.abs(ratio - 1) > _LEAST_STEP
    steps = np.full(len(factor), np.nan)
    steps[known[1:][stepped]] = ratio[stepped]
    return steps


def open_qlib(place: str, settings: Settings) -> QlibSource:
    """Open the source by its name, with the settings of :func:`~quantgraph.data.open_source`."""
    return QlibSource(Path(place).expanduser(), options=settings.tables)
