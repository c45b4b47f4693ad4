"""A source in which everything after a moment is an unmistakable sentinel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pandas as pd

from quantgraph.data import MarketDataSource, Members, Panel
from quantgraph.data.as_of import AsOfSource
from quantgraph.errors import BadWindow, NoData, UnknownSymbol
from quantgraph.market.moment import Moment
from quantgraph.state.views import known_rows
from quantgraph.testing.canary.find import MARK
from quantgraph.testing.canary.store import CANARY_SESSIONS, CANARY_SYMBOL, sentinels

__all__ = ["CanarySource"]

Answer = TypeVar("Answer")


class CanarySource:
    """A source that answers with sentinels about everything after a moment.

    It has three more sessions than ``source``, in the year 2177, and a stock that nobody knows before; names
    that are not asked for a day are those of that time, and so are the member lists. What it refuses, it
    refuses with a word about 2177. A run over it needs an ``as_of``, for its last session is a sentinel.

    Parameters
    ----------
    source
        Any source. If it is no :class:`.DatedLists`, names and codes are on no day
        sentinels but for the added ones.
    as_of, seed
        As for :class:`~quantgraph.testing.canary.store.CanaryStore`.
    """

    def __init__(self, source: MarketDataSource, as_of: Moment, *, seed: int = 0) -> None:
        self._source = source
        self._as_of = as_of
        self._seed = seed

    @property
    def name(self) -> str:
        """The source's."""
        return self._source.name

    @property
    def synthetic(self) -> bool:
        """The source's."""
        return self._source.synthetic

    def sessions(self) -> pd.DatetimeIndex:
        """The source's, and the three more."""
        return pd.DatetimeIndex(self._source.sessions().append(CANARY_SESSIONS))

    def symbols(self) -> tuple[str, ...]:
        """The source's, and one more."""
        return tuple(sorted((*self._source.symbols(), CANARY_SYMBOL)))

    def symbols_on(self, day: pd.Timestamp) -> tuple[str, ...]:
        """The source's, and one more after the moment."""
        return AsOfSource(self._source, Moment(day)).symbols() if self._knows(day) else self.symbols()

    def names(self) -> Mapping[str, str]:
        """Names as they will be."""
        named = {code: f"{name} {MARK}" for code, name in self._source.names().items()}
        return named | {CANARY_SYMBOL: MARK}

    def names_on(self, day: pd.Timestamp) -> Mapping[str, str]:
        """The source's, and those that will be after the moment."""
        return AsOfSource(self._source, Moment(day)).names() if self._knows(day) else self.names()

    def members(self, index_code: str, on: pd.Timestamp) -> Members:
        """The source's; after the moment the stock that nobody knows is the only member."""
        if self._knows(on):
            return _refused(lambda: self._source.members(index_code, on))
        listed_on = CANARY_SESSIONS[0]
        return Members(
            index_code=index_code, symbols=(CANARY_SYMBOL,), listed_on=listed_on, point_in_time=True
        )

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> Panel:
        """The source's, and sentinels after the moment."""
        frames = _refused(lambda: self._source.bars(symbols, start, end))
        return {name: self._plant("ohlcv", name, frame, end) for name, frame in frames.items()}

    def indicators(
        self,
        symbols: Sequence[str],
        start: pd.Timestamp,
        end: pd.Timestamp,
        fields: Sequence[str] = (),
    ) -> Panel:
        """The source's, and sentinels after the moment."""
        frames = _refused(lambda: self._source.indicators(symbols, start, end, fields))
        return {name: self._plant("indicators", name, frame, end) for name, frame in frames.items()}

    def index_bars(self, index_code: str, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        """The source's, and sentinels after the moment."""
        levels = _refused(lambda: self._source.index_bars(index_code, start, end))
        fields = {name: self._plant("ohlcv", str(name), levels[[name]], end) for name in levels.columns}
        return pd.DataFrame({name: frame[name] for name, frame in fields.items()})

    def _knows(self, day: pd.Timestamp) -> bool:
        return day <= self._as_of.session

    def _plant(self, panel: str, name: str, frame: pd.DataFrame, end: pd.Timestamp) -> pd.DataFrame:
        index = pd.DatetimeIndex(frame.index).append(
            CANARY_SESSIONS[: CANARY_SESSIONS.searchsorted(end, side="right")]
        )
        longer = frame.reindex(index)
        rows = known_rows(panel, name, index.to_numpy(), self._as_of)
        longer.iloc[rows:] = sentinels(panel, name, longer.shape, self._seed)[rows:]
        return longer


def _refused(ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except (NoData, BadWindow, UnknownSymbol) as error:
        raise type(error)(
            f"{error.message}; its sessions run to {CANARY_SESSIONS[-1]:%Y-%m-%d}", **error.data
        ) from error
