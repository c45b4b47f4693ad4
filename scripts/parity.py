#!/usr/bin/env python
"""Write what other libraries do with the plans of the tests: a file each in tests/data/parity.

usage: python scripts/parity.py, in an environment with vectorbt, backtrader and ml4t-backtest.

Nothing of quantgraph is used. Signals are decided at a close and filled at the next open; there are no fees,
lots and limits.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "parity"
SYMBOLS = ("AAPL", "MSFT")
SESSIONS, CASH = 160, 100_000.0
EVENTS = {
    "AAPL": ([5, 30, 52, 80, 104, 128], [26, 48, 76, 100, 124, 150]),
    "MSFT": ([9, 41, 90], [36, 85, 140]),
}
"""Sessions at whose close a signal buys and sells, by symbol."""
SCENARIOS: dict[str, dict[str, Any]] = {
    "signal alone": {},
    "stop 5 %": {"stop_loss": 0.05},
    "stop 2 %": {"stop_loss": 0.02},
    "target 6 %": {"take_profit": 0.06},
    "target 2 %": {"take_profit": 0.02},
    "stop and target 3 %": {"stop_loss": 0.03, "take_profit": 0.03},
    "stop 2 %, target 8 %": {"stop_loss": 0.02, "take_profit": 0.08},
    "trailing 5 %": {"trailing_stop": 0.05},
    "trailing 2 %": {"trailing_stop": 0.02},
    "trailing 6 %, target 5 %": {"trailing_stop": 0.06, "take_profit": 0.05},
    "held 6 sessions": {"max_holding": 6},
    "held 4 sessions, stop 3 %": {"max_holding": 4, "stop_loss": 0.03},
    "half of the account": {"size": {"percent": 0.5}},
    "20,000 each": {"size": {"cash": 20_000}},
    "20,000 each, stop 4 %": {"size": {"cash": 20_000}, "stop_loss": 0.04},
    "all of the account, target 4 %": {"size": {"percent": 1}, "take_profit": 0.04},
}
SHARES = 100
Fill = tuple[int, str, str, float, float]
"""Session, symbol, side, shares, price."""


def make_bars() -> dict[str, pd.DataFrame]:
    """Bars of two decimals with gaps; entries are in calm ones, which not all compare with a level."""
    rng = np.random.default_rng(11)
    shape = SESSIONS, len(SYMBOLS)
    close = 50 * np.exp(np.cumsum(rng.normal(0, 0.02, shape), axis=0))
    opened = close * (1 + rng.normal(0, 0.015, shape))
    high = np.maximum(opened, close) * (1 + abs(rng.normal(0, 0.012, shape)))
    low = np.minimum(opened, close) * (1 - abs(rng.normal(0, 0.012, shape)))
    for column, symbol in enumerate(SYMBOLS):
        for at in EVENTS[symbol][0]:
            start = opened[at + 1, column]
            high[at + 1, column], low[at + 1, column], close[at + 1, column] = (
                start * 1.004,
                start * 0.997,
                start,
            )
    index = pd.bdate_range("2024-01-02", periods=SESSIONS)
    named = {"open": opened, "high": high, "low": low, "close": close}
    return {name: pd.DataFrame(values.round(2), index, SYMBOLS) for name, values in named.items()}


def size_of(plan: dict[str, Any]) -> tuple[str, float]:
    """Kind and number of a plan's size; without one it is a number of shares."""
    return next(iter(plan.get("size", {"shares": SHARES}).items()))


def symbols_of(plan: dict[str, Any]) -> tuple[str, ...]:
    """A part of the account is of one symbol: libraries differ in what it is a part of with more."""
    return SYMBOLS[:1] if size_of(plan)[0] == "percent" else SYMBOLS


def by_vectorbt(plan: dict[str, Any], bars: dict[str, pd.DataFrame]) -> tuple[list[Fill], float]:
    """Fills and last value; a holding time is a signal to sell, which it knows beforehand."""
    import vectorbt as vbt

    names = list(symbols_of(plan))
    frames = {name: frame[names] for name, frame in bars.items()}
    entries, exits = (frames["close"] * 0 != 0 for _ in range(2))
    for symbol in names:
        for place, marks in enumerate((entries, exits)):
            for at in EVENTS[symbol][place]:
                marks.iloc[at + 1, marks.columns.get_loc(symbol)] = True
        for at in EVENTS[symbol][0] if "max_holding" in plan else ():
            exits.iloc[min(SESSIONS - 1, at + 1 + plan["max_holding"]), exits.columns.get_loc(symbol)] = True
    kind, number = size_of(plan)
    trail = plan.get("trailing_stop")
    done = vbt.Portfolio.from_signals(
        frames["close"],
        entries,
        exits,
        price=frames["open"],
        open=frames["open"],
        high=frames["high"],
        low=frames["low"],
        size=number,
        size_type={"shares": "amount", "cash": "value", "percent": "percent"}[kind],
        size_granularity=1,
        sl_stop=trail or plan.get("stop_loss"),
        sl_trail=trail is not None,
        tp_stop=plan.get("take_profit"),
        stop_entry_price="fillprice",
        init_cash=CASH,
        cash_sharing=len(names) > 1,
        group_by=len(names) > 1,
        call_seq="auto",
        fees=0.0,
    )
    orders = done.orders.records
    fills = [
        (int(row.idx), names[int(row.col)], "sell" if row.side else "buy", float(row.size), float(row.price))
        for row in orders.itertuples()
    ]
    return fills, float(np.asarray(done.final_value()).sum())


def by_backtrader(  # noqa: C901 - one strategy
    plan: dict[str, Any], bars: dict[str, pd.DataFrame]
) -> tuple[list[Fill], float]:
    """Fills and last value."""
    import backtrader as bt

    names, fills = symbols_of(plan), list[Fill]()
    kind, number = size_of(plan)

    class Planned(bt.Strategy):  # type: ignore[misc]
        """Levels are orders of the library, made at the fill; a trailing one moves at each close."""

        def __init__(self) -> None:
            self.peaks: dict[str, float] = {}
            self.since: dict[str, int] = {}
            self.levels: dict[str, list[Any]] = {}

        def notify_order(self, order: Any) -> None:
            if order.status != order.Completed:
                return
            name, at = order.data._name, len(self) - 1  # noqa: SLF001 - where the library keeps it
            side, price = ("buy", "sell")[order.issell()], float(order.executed.price)
            fills.append((at, name, side, abs(float(order.executed.size)), price))
            if order.issell():
                for other in self.levels.pop(name, []):
                    self.cancel(other)
            else:
                self.since[name], self.peaks[name] = at, price
                self.place(order.data, price)

        def place(self, data: Any, basis: float) -> None:
            found, shares = list[Any](), self.getposition(data).size
            stop = basis * (1 - plan["stop_loss"]) if "stop_loss" in plan else None
            if "trailing_stop" in plan:
                stop = self.peaks[data._name] * (1 - plan["trailing_stop"])  # noqa: SLF001 - where the library keeps it
            if stop is not None:
                found.append(self.sell(data, size=shares, exectype=bt.Order.Stop, price=stop))
            if "take_profit" in plan:
                more = {"oco": found[0]} if found else {}
                price = basis * (1 + plan["take_profit"])
                found.append(self.sell(data, size=shares, exectype=bt.Order.Limit, price=price, **more))
            self.levels[data._name] = found  # noqa: SLF001 - where the library keeps it

        def next(self) -> None:
            at = len(self) - 1
            for data in self.datas:
                name, held = data._name, self.getposition(data).size  # noqa: SLF001 - where the library keeps it
                leaves = at in EVENTS[name][1]
                leaves = leaves or (
                    "max_holding" in plan and held and at + 1 - self.since[name] == plan["max_holding"]
                )
                if held and leaves:
                    for other in self.levels.pop(name, []):
                        self.cancel(other)
                    self.sell(data, size=held)
                elif held and "trailing_stop" in plan:
                    self.peaks[name] = max(self.peaks[name], data.close[0])
                    for other in self.levels.pop(name, []):
                        self.cancel(other)
                    self.place(data, self.getposition(data).price)
                elif not held and at in EVENTS[name][0]:
                    opened = bars["open"][name].iloc[at + 1]
                    cash = {"cash": number, "percent": self.broker.getvalue() * number}.get(kind)
                    self.buy(data, size=number if cash is None else cash // opened)

    engine = bt.Cerebro(stdstats=False)
    engine.broker.setcash(CASH)
    engine.broker.set_checksubmit(False)
    for name in names:
        frame = pd.DataFrame({field: bars[field][name] for field in bars}).assign(volume=0)
        engine.adddata(bt.feeds.PandasData(dataname=frame), name=name)
    engine.addstrategy(Planned)
    engine.run()
    return fills, float(engine.broker.getvalue())


def by_ml4t(plan: dict[str, Any], bars: dict[str, pd.DataFrame]) -> tuple[list[Fill], float]:
    """Fills and last value, with its rules of a position."""
    import polars as pl
    from ml4t.backtest import (
        BacktestConfig,
        OrderSide,
        RuleChain,
        StopLoss,
        Strategy,
        TakeProfit,
        TrailingStop,
        run_backtest,
    )
    from ml4t.backtest.config import CommissionType, ShareType, SlippageType

    names, days = symbols_of(plan), list(bars["close"].index)
    kind, number = size_of(plan)
    chain = [
        rule(pct=plan[name])
        for name, rule in (
            ("stop_loss", StopLoss),
            ("trailing_stop", TrailingStop),
            ("take_profit", TakeProfit),
        )
        if name in plan
    ]

    class Planned(Strategy):  # type: ignore[misc]
        def on_start(self, broker: Any) -> None:
            self.since: dict[str, int] = {}
            if chain:
                broker.set_position_rules(RuleChain(chain))

        def on_data(self, timestamp: Any, data: Any, context: Any, broker: Any) -> None:  # noqa: ARG002
            at = days.index(pd.Timestamp(timestamp).tz_localize(None))
            for name in names:
                position = broker.get_position(name)
                held = 0 if position is None else position.quantity
                self.since[name] = self.since.get(name, at) if held else at + 1
                timed = "max_holding" in plan and held and at + 1 - self.since[name] == plan["max_holding"]
                if held and (at in EVENTS[name][1] or timed):
                    broker.submit_order(name, held, OrderSide.SELL)
                elif not held and at in EVENTS[name][0]:
                    opened = bars["open"][name].iloc[at + 1]
                    cash = {"cash": number, "percent": broker.get_account_value() * number}.get(kind)
                    broker.submit_order(name, number if cash is None else cash // opened, OrderSide.BUY)

    rows = [
        {"timestamp": day.to_pydatetime(), "symbol": name, "volume": 1e6}
        | {field: float(bars[field][name].loc[day]) for field in bars}
        for day in days
        for name in names
    ]
    config = BacktestConfig(
        initial_cash=CASH,
        share_type=ShareType.INTEGER,
        commission_type=CommissionType.NONE,
        slippage_type=SlippageType.NONE,
    )
    done = run_backtest(pl.DataFrame(rows), Planned(), config=config)
    fills = [
        (
            days.index(pd.Timestamp(each.timestamp).tz_localize(None)),
            each.asset,
            "buy" if each.side == OrderSide.BUY else "sell",
            float(each.quantity),
            float(each.price),
        )
        for each in done.fills
    ]
    return fills, float(done.to_dict()["final_value"])


LIBRARIES = {"vectorbt": by_vectorbt, "backtrader": by_backtrader, "ml4t-backtest": by_ml4t}


def main() -> None:
    """Write the files."""
    bars = make_bars()
    FOLDER.mkdir(parents=True, exist_ok=True)
    told = {
        "sessions": [f"{day:%Y-%m-%d}" for day in bars["close"].index],
        "cash": CASH,
        "shares": SHARES,
        "events": EVENTS,
        "scenarios": {name: {"plan": plan, "symbols": symbols_of(plan)} for name, plan in SCENARIOS.items()},
        "bars": {
            name: {symbol: frame[symbol].tolist() for symbol in SYMBOLS} for name, frame in bars.items()
        },
    }
    (FOLDER / "bars.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
    for library, run in LIBRARIES.items():
        found = {}
        for name, plan in SCENARIOS.items():
            fills, value = run(plan, bars)
            shown = [
                [at, symbol, side, shares, round(price, 6)]
                for at, symbol, side, shares, price in sorted(fills)
            ]
            found[name] = {"fills": shown, "value": round(value, 4)}
        text = json.dumps({"library": library, "version": version(library), "scenarios": found})
        (FOLDER / f"{library}.json").write_text(text + "\n", encoding="utf-8")
        print(
            library,
            version(library),
            sum(len(each["fills"]) for each in found.values()),
            "fills",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
