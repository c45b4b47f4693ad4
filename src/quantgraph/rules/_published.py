"""What a rule reads that is known beforehand and no bar has: price limits, and the exchange's calendar."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from quantgraph.broker.accounts import quotes_at
from quantgraph.broker.session import price_band
from quantgraph.market import Moment, Rulebook, sessions
from quantgraph.market.rules import exchange_of
from quantgraph.state import DataState

_PLACES = {
    f"{kind}_in_{name}": (kind, name[0].upper())
    for kind in ("nth", "left")
    for name in ("week", "month", "quarter")
}


def published(store: DataState, ref: str, names: Collection[str]) -> dict[str, dict[str, pd.DataFrame]]:
    """Return the ``names`` that a commit lacks, by panel: limits of the dated rules, places in a period."""
    bars, found = store.snapshot(ref)["ohlcv"], dict[str, dict[str, pd.DataFrame]]()
    if {*names} & _PLACES.keys():
        wanted = {name: _PLACES[name] for name in sorted({*names} & _PLACES.keys())}
        found["indicators"] = {name: _place(bars["close"], *each) for name, each in wanted.items()}
    limits = [name for name in ("up_limit", "down_limit") if name in names]
    if any(name not in bars or len(bars[name]) < len(bars["close"]) for name in limits):
        found["ohlcv"] = _limits(store, ref, bars["close"])
    return found


def _place(close: pd.DataFrame, kind: str, period: str) -> pd.DataFrame:
    """The number of each session in its period, or the sessions left in it, by the exchange's calendar."""
    places = {code: "XSHG" if _is_mainland(code) else "XNYS" for code in close}
    first, last = (day.to_period("Q") for day in (close.index[0], close.index[-1]))
    found = {}
    for place in {*places.values()}:
        days = sessions(first.start_time, last.end_time.normalize(), exchange=place)
        counted = pd.Series(0.0, days).groupby(days.to_period(period)).cumcount(ascending=kind == "nth")
        found[place] = (counted + float(kind == "nth")).astype(float).reindex(close.index)
    return pd.DataFrame({code: found[place] for code, place in places.items()})


def _limits(store: DataState, ref: str, close: pd.DataFrame) -> dict[str, pd.DataFrame]:
    rules, bands = Rulebook.mainland(), []
    for session in pd.DatetimeIndex(close.index):
        quotes = quotes_at(store.view(Moment(session, "open"), ref))
        bands.append(
            [
                price_band(code, session, quotes[code], rules) if _is_mainland(code) else (None, None)
                for code in map(str, close)
            ]
        )
    upper, lower = np.moveaxis(np.array(bands, dtype=np.float64), 2, 0)  # None is NaN
    return {"up_limit": close * 0 + upper, "down_limit": close * 0 + lower}


def _is_mainland(code: object) -> bool:
    return exchange_of(str(code)) in {"sh", "sz", "bj"}
