"""The fills of a run with what each sale closed: profit, holding time, how far it went against or for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.report.run_view import RunView

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_ROUNDING = 1e-6
"""Of a holding: a rest below it is none."""


def trade_rows(view: RunView) -> pd.DataFrame:
    """The fills of a view with four more columns, NaN in purchases.

    ``profit``: what a sale brought, less the average cost of its shares, charges of both sides included.
    ``holding``: sessions from the position's first purchase. ``mae`` and ``mfe``: the worst and the best
    price while the position was open, of lows, highs and the sale, over the mean purchase price, less 1; NaN
    where the bars do not tell, or a split fell in between.
    """
    fills = view.fills.reset_index(drop=True)
    extra = np.full((len(fills), 4), np.nan)
    sessions = {f"{day:%Y-%m-%d}": place for place, day in enumerate(view.days.index)}
    days = np.asarray(fills["session"].map(sessions), dtype=np.int64)
    columns = [fills[name].to_numpy() for name in ("quantity", "price", "notional", "cost")]
    sells = (fills["side"] == "sell").to_numpy()
    for name, places in fills.groupby("symbol", sort=False).indices.items():
        symbol = str(name)
        sales = _Sales(
            days=days,
            columns=columns,
            sells=sells,
            low=_bars_of(view, "low", symbol, np.inf),
            high=_bars_of(view, "high", symbol, -np.inf),
            splits=[(sessions[day], change) for day, change in view.splits.get(symbol, ())],
        )
        sales.close(extra, np.asarray(places))
    found: pd.DataFrame = fills.assign(
        profit=extra[:, 0], holding=extra[:, 1], mae=extra[:, 2], mfe=extra[:, 3]
    )
    return found


def _bars_of(view: RunView, name: str, symbol: str, missing: float) -> Floats | None:
    frame = view.bars.get(name)
    if frame is None or symbol not in frame.columns:
        return None
    bars = frame[symbol].reindex(view.days.index).to_numpy(dtype=np.float64)
    return np.where(np.isnan(bars), missing, bars)


@dataclass(frozen=True, kw_only=True)
class _Sales:
    """The fills of a run, by columns, with the bars (infinite where there is none) and splits of a symbol."""

    days: Places
    columns: Sequence[Floats]
    sells: NDArray[np.bool_]
    low: Floats | None
    high: Floats | None
    splits: Sequence[tuple[int, float]]

    def close(self, extra: Floats, places: Places) -> None:
        """Fill in the rows of the symbol's sales, at average cost."""
        quantities, prices, notionals, costs = self.columns
        held = paid = spent = 0.0  # shares, what they cost without and with charges
        opened, last = 0, -1
        for place in places:
            quantity, day = float(quantities[place]), int(self.days[place])
            held += sum(change for split, change in self.splits if last < split <= day)
            last = day
            if not self.sells[place]:
                opened = day if held <= _ROUNDING else opened
                held, paid = held + quantity, paid + float(notionals[place])
                spent += float(notionals[place]) + float(costs[place])
                continue
            part = min(quantity / held, 1.0)
            extra[place, 0] = float(notionals[place]) - float(costs[place]) - spent * part
            extra[place, 1] = day - opened
            extra[place, 2:] = self._excursions(opened, day, float(prices[place]), paid / held)
            held, paid, spent = held - quantity, paid * (1 - part), spent * (1 - part)

    def _excursions(self, opened: int, day: int, price: float, mean: float) -> tuple[float, float]:
        """MAE and MFE of a position that was sold at ``price`` on ``day``."""
        split = any(opened < each <= day for each, _ in self.splits)  # the bars are as quoted
        if self.low is None or self.high is None or split:
            return np.nan, np.nan
        worst = min(price, float(self.low[opened:day].min(initial=np.inf)))
        best = max(price, float(self.high[opened:day].max(initial=-np.inf)))
        return worst / mean - 1, best / mean - 1


def per_symbol(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a symbol, the largest profit or loss first: ``buys, sells, notional, cost, profit, won``."""
    sells = rows["side"] == "sell"
    table = pd.DataFrame(
        {
            "buys": (~sells).groupby(rows["symbol"]).sum(),
            "sells": sells.groupby(rows["symbol"]).sum(),
            "notional": rows["notional"].groupby(rows["symbol"]).sum(),
            "cost": rows["cost"].groupby(rows["symbol"]).sum(),
            "profit": rows["profit"].groupby(rows["symbol"]).sum(min_count=1),
            "won": (rows["profit"] > 0).groupby(rows["symbol"]).sum(),
        }
    )
    order = table["profit"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    return table.reindex(order)
