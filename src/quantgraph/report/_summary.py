"""The summary of a run: account, costs, benchmarks, orders, and notes to its numbers, from the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.audit.bars import signal_counts
from quantgraph.broker import Market
from quantgraph.broker.accounts import Delisting, Event, Split
from quantgraph.broker.ledger import CHARGES, Ledger, OrderTable
from quantgraph.report._benchmark import buy_and_hold_values, index_buy_and_hold
from quantgraph.report._round_trips import Trade
from quantgraph.report.metrics._metrics import (
    alpha,
    annual_return,
    beta,
    calmar_ratio,
    information_ratio,
    max_drawdown,
    session_returns,
    sharpe_ratio,
    sortino_ratio,
    tracking_error,
    volatility,
)

_DUST = 1e-6
"""Rounding of sums of shares."""
_ROUNDED = 20
"""Decimals that the cost of a part of a holding is rounded to, as by :func:`.round_trips`."""
_SPLITS, _MERGERS, _FILLS, _DELISTINGS = range(4)
"""What comes first in a session."""

_Move = tuple[int, int, int, bool, int, int | float]
"""Session, what it is, symbol, whether it adds shares, shares, and what was paid (in units) or brought."""


def rejection_counts(orders: OrderTable) -> dict[str, int]:
    """Number of orders refused or cut by code, the most frequent first."""
    return dict(Counter(code for code in orders.refused if code).most_common())


def format_counts(reasons: Mapping[str, int]) -> str:
    """Counts by code in one line.

    >>> format_counts({"limit_up": 3, "suspended": 1})
    'limit_up 3, suspended 1'
    """
    return ", ".join(f"{code} {count:,}" for code, count in reasons.items())


def round_trip_statistics(
    orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex
) -> dict[str, Any]:
    """Round trips at average cost and without dividends, as ``win_rate`` and ``realised`` count them.

    The numbers are those of :func:`.round_trips` with ``basis="average"``, bit for bit: both are exact, this
    one in whole numbers, and both round the cost of a part of a holding to twenty decimals.
    """
    decimals = max(2 * orders.digits, _ROUNDED)
    unit, grain = 10**decimals, 10 ** (decimals - _ROUNDED)
    profits: list[float] = []
    holding = 0
    held: dict[int, tuple[int, int, int]] = {}  # by symbol: first session, shares, cost in units
    for session, what, symbol, adds, shares, money in _moves(orders, events, sessions, decimals):
        opened, there, cost = held.get(symbol, (session, 0, 0))
        if what == _SPLITS:
            held[symbol] = opened, there + shares, cost
        elif adds:
            held[symbol] = opened if there else session, there + shares, cost + int(money)
        else:
            part = cost if shares == there and grain == 1 else _part(cost * shares, there, grain)
            profits.append(money - part / unit)
            holding += session - opened
            if shares == there:
                del held[symbol]
            else:
                held[symbol] = opened, there - shares, cost - part
    lost = math.fsum(profit for profit in profits if profit < 0)
    won = math.fsum(profit for profit in profits if profit > 0)
    return {
        "round_trips": len(profits),
        "profit_factor": won / -lost if lost else None,
        "average_holding": holding / len(profits) if profits else None,
    }


def _part(product: int, whole: int, grain: int) -> int:
    """A product over a whole in grains, half to even, as ``round(Fraction(...), 20)``."""
    count, rest = divmod(product, whole * grain)
    if 2 * rest > whole * grain or (2 * rest == whole * grain and count % 2):
        count += 1
    return count * grain


def _moves(
    orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex, decimals: int
) -> Iterable[_Move]:
    """Fills and events in the order in which they moved shares."""
    place_of = {f"{session:%Y-%m-%d}": place for place, session in enumerate(sessions)}
    found: Iterable[_Move] = _fills(orders, [place_of[day] for day in orders.days], decimals)
    others = list(_event_moves(events, orders, sessions))
    return sorted((*found, *others), key=lambda move: move[:2]) if others else found


def _fills(orders: OrderTable, places: Sequence[int], decimals: int) -> Iterator[_Move]:
    scale, unit = 10**orders.digits, 10**decimals
    more = unit // scale**2
    columns = zip(
        orders.day.tolist(),
        orders.symbol.tolist(),
        orders.sells.tolist(),
        orders.quantity,
        orders.price,
        orders.cost,
        strict=True,
    )
    for day, symbol, sells, quantity, price, cost in columns:
        if sells:
            brought = (quantity * price - cost * scale) * more / unit
            yield places[day], _FILLS, symbol, False, quantity, brought
        elif quantity:
            yield places[day], _FILLS, symbol, True, quantity, (quantity * price + cost * scale) * more


def _event_moves(events: Iterable[Event], orders: OrderTable, sessions: pd.DatetimeIndex) -> Iterator[_Move]:
    symbols = {symbol: place for place, symbol in enumerate(orders.symbols)}
    scale = 10**orders.digits
    for event in events:
        if not isinstance(event, Split | Delisting):
            continue
        session, symbol = int(sessions.searchsorted(event.session)), symbols[event.symbol]
        if isinstance(event, Split) and event.after:
            shares = int((Decimal(event.after) - Decimal(event.before)) * scale)
            yield session, _SPLITS, symbol, True, shares, 0
            continue
        gone = isinstance(event, Delisting)
        trade = Trade.of(event) if isinstance(event, Delisting) else _merged_away(event)
        shares = int(Decimal(trade.quantity) * scale)
        brought = float(Fraction(trade.notional) - Fraction(trade.cost))
        yield session, _DELISTINGS if gone else _MERGERS, symbol, False, shares, brought


def _merged_away(split: Split) -> Trade:
    """A reverse split that leaves no share is a sale for what the fraction brings."""
    return Trade(
        session=split.session,
        symbol=split.symbol,
        side="sell",
        quantity=split.before,
        price=split.cash / split.before,
        cost=0,
    )


def count_unfollowed_buys(
    signal: pd.DataFrame, orders: OrderTable, events: Iterable[Event], sessions: pd.DatetimeIndex
) -> int:
    """Count buys of a signal, for symbols not held, without an order."""
    columns = signal.columns.get_indexer(pd.Index(orders.symbols, dtype="str"))
    rows = sessions.get_indexer(pd.DatetimeIndex(orders.days))
    known = columns[orders.symbol] >= 0
    places = rows[orders.day[known]], columns[orders.symbol[known]]
    shape = len(sessions), signal.shape[1]
    cells = np.ravel_multi_index(places, shape)
    ordered = np.bincount(cells[orders.wishes_to_buy[known]], minlength=math.prod(shape)).reshape(shape)
    moved = np.zeros(shape)
    np.add.at(moved.reshape(-1), cells, orders.shares[known])
    for event in events:
        column = int(signal.columns.get_indexer(pd.Index([event.symbol]))[0])
        if column >= 0 and isinstance(event, Split | Delisting):
            change = event.after - event.before if isinstance(event, Split) else -event.quantity
            moved[sessions.get_loc(event.session), column] += float(change)
    held = np.zeros(shape, dtype=bool)
    held[1:] = moved[:-1].cumsum(axis=0) > _DUST
    buys = signal.reindex(sessions).to_numpy() == 1
    return int((buys & ~held & (ordered == 0)).sum())


_HALF_A_TICK = 0.005
_SESSIONS_A_YEAR = 252
"""The default of every metric."""
_RULE = "signal_rule"
"""Name of the decider that orders what a signal says and nothing else."""


def summarise(
    ledger: Ledger,
    run_id: str,
    market: Market,
    sessions: Sequence[pd.Timestamp] | pd.DatetimeIndex,
    *,
    signal: str | None,
    cash: Decimal,
    index: pd.DataFrame | None = None,
    benchmark: Market | None = None,
) -> dict[str, Any]:
    """Plain JSON of a finished run; a ratio that is not defined (no variation) is None.

    Parameters
    ----------
    signal
        Name of the signal that was traded; None if the decider uses none.
    index
        Levels of the universe's index, see :func:`~quantgraph.report._benchmark.index_buy_and_hold`.
    benchmark
        The market that buy-and-hold buys. Default: all of ``market``.

    Returns
    -------
    dict
        ``run_id``, ``signal {name, counts}``, ``account``, ``benchmark`` and ``index`` (None without a signal
        or an index), in the market's currency and fractions; ``periods_per_year``, the sessions that make a
        year in all yearly numbers; ``cash``, the account that does nothing; and the equity curves (one value
        a session, the initial cash first).

        Of account, benchmark and index: ``final_value, return, max_drawdown``; ``drawdown {peak, trough,
        recovery}``, its dates, None where there is none; ``annual_return, volatility, sharpe, sortino,
        calmar`` (ddof 1; Sortino over the root mean square of losses). Of the two beside the account:
        ``tracking_error, information_ratio, beta, alpha``. The benchmark: ``bought``, in how many of the
        ``symbols`` it could buy anything. The index: ``dividends`` False, it is one of prices.

        ``account``: ``trades, rejections, rejections_by_reason {code: count}``; ``buys_not_followed``, buys
        of the signal for which :class:`~quantgraph.agents.SignalRule` made no order, None for other deciders;
        ``win_rate``, the share of sales that brought more than their shares had cost on average, fees of
        both sides included and dividends not; ``realised``, what the sales brought beyond that cost;
        ``round_trips, profit_factor, average_holding`` by the same cost, see
        :func:`~quantgraph.report._summary.round_trip_statistics`;
        ``turnover``, traded notional over the mean value; ``exposure``, the mean share of the value that is
        in stocks at the session's mark, and ``largest_weight``, the largest share that one stock ever had
        there; ``dividends`` earned; ``ex_dates {count, not_credited}`` of stocks held over the night whose
        price dropped without a dividend in the data, and what they would have paid, None where the data
        cannot tell; ``costs {commission, stamp_duty, transfer_fee, regulatory, slippage, total}``.
    """
    run = ledger.statement(run_id)
    values, days, costs = run.values, run.days, run.costs
    held, bought = buy_and_hold_values(benchmark or market, sessions, cash=cash)
    levels = None if index is None else index_buy_and_hold(index, sessions, cash=cash, at=market.mark_at)
    data, universe = (each.store.snapshot(each.data_ref) for each in (market, benchmark or market))
    counts = traded = None
    if signal is not None:
        counts = {"name": signal, "counts": signal_counts(data["signal"][signal])}
        traded = _as_traded(data["signal"][signal], data["ohlcv"]["open"], ledger.meta(run_id))
    orders, events, done = run.orders, run.events, pd.DatetimeIndex(days.index)
    return {
        "run_id": run_id,
        "signal": counts,
        "account": {
            **_performance(values),
            **_ratios(values),
            "trades": int(days["fills"].sum()),
            "rejections": int(days["rejections"].sum()),
            "rejections_by_reason": rejection_counts(orders),
            "buys_not_followed": (
                None if traded is None else count_unfollowed_buys(traded, orders, events, done)
            ),
            "win_rate": _number(_share(days["won"].sum(), days["sales"].sum())),
            "realised": round(float(days["realised"].sum()), 2),
            **round_trip_statistics(orders, events, done),
            "turnover": float(days["traded"].sum() / days["value"].mean()),
            "exposure": float((days["stocks"] / days["value"]).mean()),
            "largest_weight": float((days["largest"] / days["value"]).max()),
            "dividends": round(float(days["dividends"].sum()), 2),
            "ex_dates": _ex_dates(ledger, run_id, market),
            "costs": {name: float(getattr(costs, name)) for name in (*CHARGES, "total")},
        },
        "benchmark": {
            "name": "equal_weight_buy_and_hold",
            "symbols": universe["ohlcv"]["open"].shape[1],
            "bought": bought,
            **_performance(held),
            **_ratios(held),
            **_against(values, held),
        },
        "index": None if levels is None else _against_index(values, levels),
        "periods_per_year": _SESSIONS_A_YEAR,
        "cash": {"final_value": float(cash), "return": 0.0, "max_drawdown": 0.0},
        "equity": {
            "sessions": [f"{day:%Y%m%d}" for day in values.index],
            "account": [float(value) for value in values],
            "benchmark": [float(value) for value in held],
            "index": None if levels is None else [float(value) for value in levels],
        },
    }


def _ex_dates(ledger: Ledger, run_id: str, market: Market) -> dict[str, Any] | None:
    """Ex-dates show where the reference price of a session is not the close before it.

    None if the data has neither dividends nor reference prices.
    """
    bars = market.store.snapshot(market.data_ref)["ohlcv"]
    nothing = {"count": 0, "not_credited": 0.0}
    if "pre_close" not in bars:
        return nothing if "dividend" in bars else None
    dropped = bars["close"].ffill().shift() - bars["pre_close"].reindex(bars["close"].index)
    dropped = dropped.where(dropped.abs() > _HALF_A_TICK)
    for name in ("dividend", "split"):  # these have reached the account
        if name in bars:
            dropped = dropped.where(bars[name].reindex_like(dropped).isna())
    if not dropped.notna().to_numpy().any():
        return nothing
    quantities, _ = ledger.holdings(run_id)
    drops = dropped.reindex(index=quantities.index, columns=quantities.columns)
    paid = (drops * quantities.shift()).fillna(0.0)
    return {
        "count": int((paid != 0).to_numpy().sum()),
        "not_credited": round(float(paid.to_numpy().sum()), 2),
    }


def _against_index(values: pd.Series[float], levels: pd.Series[float]) -> dict[str, Any]:
    return {"dividends": False, **_performance(levels), **_ratios(levels), **_against(values, levels)}


def _as_traded(signal: pd.DataFrame, bars: pd.DataFrame, meta: Mapping[str, Any]) -> pd.DataFrame | None:
    """The signal at the sessions that trade it, of symbols that may be bought; None for other deciders."""
    options = meta.get("options", {})
    if meta.get("decider") != _RULE or "weights" not in options:
        return None
    weights = options["weights"]
    bought = signal.columns if weights is None else signal.columns.intersection(list(weights))
    return signal[bought].reindex(bars.index).shift()


def _performance(values: pd.Series[float]) -> dict[str, Any]:
    return {
        "final_value": float(values.iloc[-1]),
        "return": float(values.iloc[-1] / values.iloc[0] - 1),
        "max_drawdown": float((values / values.cummax() - 1).min()),
        "drawdown": _dates(values),
    }


def _dates(values: pd.Series[float]) -> dict[str, str | None]:
    """Dates of the deepest fall, ``YYYYMMDD``."""
    if not (values > 0).all():
        return dict.fromkeys(("peak", "trough", "recovery"))
    fall, first = max_drawdown(values), values.index[min(1, len(values) - 1)]
    dates = {"peak": fall.peak, "trough": fall.trough, "recovery": fall.recovery}
    # The initial cash stands on the day before the first session, which need not be a session.
    return {name: None if date is None else f"{max(date, first):%Y%m%d}" for name, date in dates.items()}


def _ratios(values: pd.Series[float]) -> dict[str, Any]:
    if not (values > 0).all():  # all is lost, and division by 0 is not defined
        return dict.fromkeys(("annual_return", "volatility", "sharpe", "sortino", "calmar"))
    returns = session_returns(values)
    return {
        "annual_return": _number(annual_return(values)),
        "volatility": _number(volatility(returns)),
        "sharpe": _number(sharpe_ratio(returns)),
        "sortino": _number(sortino_ratio(returns)),
        "calmar": _number(calmar_ratio(values)),
    }


def _against(values: pd.Series[float], benchmark: pd.Series[float]) -> dict[str, Any]:
    measures = (tracking_error, information_ratio, beta, alpha)
    if not ((values > 0).all() and (benchmark > 0).all()):
        return {measure.__name__: None for measure in measures}
    ours, theirs = session_returns(values), session_returns(benchmark)
    return {measure.__name__: _number(measure(ours, theirs)) for measure in measures}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def summary_notes(summary: Mapping[str, Any]) -> Iterator[Note]:
    """Notes for results whose numbers are easily misread."""
    account, benchmark = summary["account"], summary["benchmark"]
    refused, reasons = account["rejections"], format_counts(account["rejections_by_reason"])
    if refused and not account["trades"]:
        yield Note(
            zh=f"{refused} 笔委托全部被拒，没有成交（{reasons}）",
            en=f"nothing was traded: all {refused:,} orders were refused ({reasons})",
        )
    if missed := account["buys_not_followed"]:
        yield Note(
            zh=f"{missed} 个买入信号未执行：可用资金不够买一手，或持仓数已满",
            en=f"{missed:,} buy signals were not followed: the cash did not cover a lot, or no more "
            "positions were allowed",
        )
    bought, symbols = benchmark["bought"], benchmark["symbols"]
    if not bought:
        yield Note(
            zh=f"等权买入持有在 {symbols} 只股票中一只也没有买到（均分的资金不够买一手）：它只是现金，"
            "不能用来比较",
            en=f"equal-weight buy-and-hold could buy none of {symbols} symbols (no share of the cash covered "
            "a lot): it is cash, and nothing to compare with",
        )
    elif bought < symbols:
        yield Note(
            zh=f"等权买入持有只买到 {symbols} 只股票中的 {bought} 只：其余在首个开盘时没有交易，"
            "或均分的资金不够买一手",
            en=f"equal-weight buy-and-hold bought {bought} of {symbols} symbols: the others did not trade at "
            "its first open, or their share of the cash did not cover a lot",
        )
