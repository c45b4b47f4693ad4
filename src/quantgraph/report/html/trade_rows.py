"""The fills of a run with what each sale closed: profit, holding time, and how far it went against or for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from quantgraph.report.run_view import RunView

__all__ = ["per_symbol", "trade_rows"]

_ROUNDING = 1e-6
"""Of a holding: a rest below it is none."""


def trade_rows(view: RunView) -> pd.DataFrame:
    """The fills of a view with four more columns, NaN in purchases.

    ``profit``: what a sale brought, less what its shares had cost on average, charges of both sides included.
    ``holding``: sessions from the position's first purchase. ``mae`` and ``mfe``: the worst and the best price
    while the position was open, of lows, highs and the sale, over the mean purchase price, less 1; NaN where
    the bars do not tell, or a split fell in between.
    """
    fills = view.fills.reset_index(drop=True)
    extra = np.full((len(fills), 4), np.nan)
    sessions = {f"{day:%Y-%m-%d}": place for place, day in enumerate(view.days.index)}
    days = fills["session"].map(sessions).to_numpy()
    columns = [fills[name].to_numpy() for name in ("quantity", "price", "notional", "cost")]
    sells = (fills["side"] == "sell").to_numpy()
    for symbol, places in fills.groupby("symbol", sort=False).indices.items():
        lows, highs = (_bars_of(view, name, str(symbol)) for name in ("low", "high"))
        splits = [(sessions[day], change) for day, change in view.splits.get(str(symbol), ())]
        _close_sales(extra, places, days, columns, sells, (lows, highs), splits)
    found: pd.DataFrame = fills.assign(
        profit=extra[:, 0], holding=extra[:, 1], mae=extra[:, 2], mfe=extra[:, 3]
    )
    return found


def _bars_of(view: RunView, name: str, symbol: str) -> np.ndarray | None:
    frame = view.bars.get(name)
    if frame is None or symbol not in frame.columns:
        return None
    return frame[symbol].reindex(view.days.index).to_numpy(dtype=np.float64)


def _close_sales(
    extra: np.ndarray,
    places: np.ndarray,
    days: np.ndarray,
    columns: Sequence[np.ndarray],
    sells: np.ndarray,
    bars: tuple[np.ndarray | None, np.ndarray | None],
    splits: Sequence[tuple[int, float]],
) -> None:
    """Fill in the rows of one symbol's sales."""
    quantities, prices, notionals, costs = columns
    held = paid = spent = 0.0  # shares, what they cost without and with charges
    opened, last = 0, -1
    for place in places:
        quantity, day = float(quantities[place]), int(days[place])
        held += sum(change for split, change in splits if last < split <= day)
        last = day
        if not sells[place]:
            opened = day if held <= _ROUNDING else opened
            held, paid = held + quantity, paid + float(notionals[place])
            spent += float(notionals[place]) + float(costs[place])
            continue
        part = min(quantity / held, 1.0)
        extra[place, 0] = float(notionals[place]) - float(costs[place]) - spent * part
        extra[place, 1] = day - opened
        mean, price = paid / held, float(prices[place])
        split = any(opened < each <= day for each, _ in splits)  # the bars are as quoted
        if bars[0] is not None and bars[1] is not None and not split:
            lowest, highest = bars[0][opened:day], bars[1][opened:day]
            extra[place, 2] = min(price, np.nanmin(lowest, initial=np.inf)) / mean - 1
            extra[place, 3] = max(price, np.nanmax(highest, initial=-np.inf)) / mean - 1
        held, paid, spent = held - quantity, paid * (1 - part), spent * (1 - part)


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
