"""The summary of a run beside its benchmarks, which are traded by the same rules and valued alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.texts import Note
from quantgraph._util.values import is_whole
from quantgraph.audit.bars import signal_counts
from quantgraph.broker import Account, BlockRule, Decider, DecisionContext, Market, Order, TradePlan
from quantgraph.broker.accounts import Block, MarkAt, quotes_at, value_series
from quantgraph.broker.ledger import CHARGES, Ledger, OrderTable
from quantgraph.broker.session import advance, days_without_entries, split_buys, trade_days
from quantgraph.errors import BadWindow, NoData
from quantgraph.market import DAYS_IN_A_YEAR
from quantgraph.market.money import CENT, to_decimal
from quantgraph.report.metrics._registry import RunData, Track

_RULE = "signal_rule"
"""Name of the decider that orders what a signal says and nothing else."""


class BuyAndHold(Decider):
    """A decider that buys equal amounts of everything that trades when it holds nothing, and keeps it.

    Lots, limits and fees apply as to any decider; what does not fill a lot stays in cash.
    """

    name = "buy_and_hold"
    uses_signal = False

    def block_rule(self, context: DecisionContext) -> BlockRule | None:
        """Once something is held it makes no orders."""
        return BlockRule(name=self.name, trades=False) if context.account.positions else None

    def decide(self, context: DecisionContext) -> list[Order]:
        """Orders for an account that holds nothing."""
        if context.account.positions:
            return []
        opens = {symbol: quote.open for symbol, quote in quotes_at(context.view).items() if quote.open > 0}
        ticket = (context.account.cash / max(1, len(opens))).quantize(CENT, rounding=ROUND_DOWN)
        buys = [
            (symbol, quantity)
            for symbol, price in sorted(opens.items())
            for quantity in split_buys(symbol, to_decimal(price), ticket, context.rules, context.session)
        ]
        return [
            Order(symbol=symbol, side="buy", quantity=quantity, sequence=sequence, reason="buy and hold")
            for sequence, (symbol, quantity) in enumerate(buys, start=1)
        ]


def buy_and_hold_values(
    market: Market, sessions: Iterable[pd.Timestamp], *, cash: Decimal | float | str
) -> tuple[pd.Series[float], int]:
    """Equal cash into every symbol that trades at the first open at which any does, held to the end.

    Returns its values, and the number of symbols it could buy.
    """
    start = Account.opening(cash)
    values: list[tuple[pd.Timestamp, Decimal]] = []
    bought: set[str] = set()
    for done in advance(market, list(sessions), BuyAndHold(), account=start):
        if isinstance(done, Block):
            values += zip(done.sessions, done.values, strict=True)
        else:
            values.append((done.session, done.value))
            bought |= {fill.order.symbol for fill in done.fills}
    if not values:
        raise BadWindow("a benchmark needs at least one session", parameter="sessions")
    return value_series(start.cash, values), len(bought)


def index_buy_and_hold(
    levels: pd.DataFrame,
    sessions: Iterable[pd.Timestamp],
    *,
    cash: Decimal | float | str,
    at: MarkAt = "close",
) -> pd.Series[float]:
    """A price index bought at the first session's open level, without costs or dividends."""
    index = pd.DatetimeIndex(list(sessions))
    if not len(index):
        raise BadWindow("a benchmark needs at least one session", parameter="sessions")
    marks = levels[at].reindex(index).ffill()
    base = levels["open"].reindex(index[:1]).iloc[0]
    if not base > 0 or marks.isna().any():
        raise NoData(f"the index has no level on {index[0]:%Y-%m-%d}")
    start, growth = to_decimal(cash), (marks / base).tolist()
    return value_series(start, [(day, start * to_decimal(x)) for day, x in zip(index, growth, strict=True)])


def format_counts(reasons: Mapping[str, int]) -> str:
    """Counts by code in one line.

    >>> format_counts({"limit_up": 3, "suspended": 1})
    'limit_up 3, suspended 1'
    """
    return ", ".join(f"{code} {count:,}" for code, count in reasons.items())


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
    judge: Callable[[RunData, pd.Series[float]], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """Plain JSON of a finished run; a number that is not defined (no variation) is None.

    Parameters
    ----------
    signal
        Name of the signal that was traded; None if the decider uses none.
    index
        Levels of the universe's index, see :func:`index_buy_and_hold`.
    benchmark
        The market that buy-and-hold buys. Default: all of ``market``.
    judge
        Returns ``judgement`` of the run and of what it is compared with: the index, else buy and hold.

    Returns
    -------
    dict
        ``run_id``, ``signal {name, counts}``, ``account``, ``benchmark`` and ``index`` (None without a signal
        or an index) with the numbers of :data:`~quantgraph.report.metrics.METRICS`, in the market's currency
        and fractions; ``periods_per_year``, the sessions that make a year in all yearly numbers; ``cash``,
        the account that does nothing; and the equity curves (one value a session, the initial cash first).

        The account, the benchmark and the index also have ``drawdown {peak, trough, recovery}``, dates, None
        where there is none; the account ``rejections_by_reason {code: count}``, ``ex_dates {count,
        not_credited}`` of stocks held over the night whose price dropped without a dividend in the data, and
        what they would have paid, None where the data cannot tell, and ``costs {commission, stamp_duty,
        transfer_fee, regulatory, slippage, total}``; the benchmark ``bought``, in how many of the ``symbols``
        it could buy anything; the index ``dividends`` False, it is one of prices. ``purchase`` is what a
        purchase cost on average, None without one. ``reply_errors`` are the ``replies`` of the decider's
        models, and of them those that could not be read (``schema``), that contradict the facts or the
        market's rules (``logic``), and that spent too much (``cash``); None if the decider counts none.
    """
    held, bought = buy_and_hold_values(benchmark or market, sessions, cash=cash)
    levels = None if index is None else index_buy_and_hold(index, sessions, cash=cash, at=market.mark_at)
    data, universe = (each.store.snapshot(each.data_ref) for each in (market, benchmark or market))
    made = None if signal is None else data["signal"][signal]
    meta, bars = ledger.meta(run_id), data["ohlcv"]
    plan, index_of_bars = TradePlan.of(meta.get("plan", {})), bars["open"].index
    rows = (index_of_bars if made is None else made.index).to_numpy()
    days, rules = index_of_bars.to_numpy(), market.rules
    buys = trade_days(days, plan.trade_on, rows, started=sessions[0], market=rules.market)
    run = _run_data(
        ledger,
        run_id,
        bars,
        traded=None
        if made is None or meta.get("decider") != _RULE
        else _as_traded(made, index_of_bars, plan),
        plan=plan,
        trades=buys,
        closed=partial(days_without_entries, when=plan.no_entry_on, market=rules.market),
    )
    return {
        "run_id": run_id,
        "signal": None if made is None else {"name": signal, "counts": signal_counts(made)},
        "account": run.account.numbers("each", "account"),
        "benchmark": {
            "name": "equal_weight_buy_and_hold",
            "symbols": universe["ohlcv"]["open"].shape[1],
            "bought": bought,
            **Track(values=held, run=run).numbers("each", "benchmark"),
        },
        "index": None
        if levels is None
        else {"dividends": False, **Track(values=levels, run=run).numbers("each", "benchmark")},
        "periods_per_year": run.account.periods,
        "purchase": _mean_purchase(run.orders),
        "reply_errors": _reply_errors(ledger.notes(run_id).values()),
        **({} if judge is None else {"judgement": judge(run, held if levels is None else levels)}),
        "cash": {"final_value": float(cash), "return": 0.0, "max_drawdown": 0.0},
        "equity": {
            "sessions": [f"{day:%Y%m%d}" for day in run.values.index],
            "account": [float(value) for value in run.values],
            "benchmark": [float(value) for value in held],
            "index": None if levels is None else [float(value) for value in levels],
        },
    }


def _run_data(ledger: Ledger, run_id: str, bars: Mapping[str, pd.DataFrame], **signal: Any) -> RunData:
    """What the ledger tells of a run, for its numbers."""
    run = ledger.statement(run_id)
    return RunData(
        values=run.values,
        days=run.days,
        orders=run.orders,
        events=run.events,
        costs={name: float(getattr(run.costs, name)) for name in (*CHARGES, "total")},
        **signal,
        bars=bars,
        holdings=lambda: ledger.holdings(run_id)[0],
    )


def _as_traded(signal: pd.DataFrame, days: pd.Index, plan: TradePlan) -> pd.DataFrame:
    """The signal at the sessions that trade it, of symbols that may be bought."""
    weights = plan.size.get("weights") if isinstance(plan.size, Mapping) else None
    bought = signal.columns if weights is None else signal.columns.intersection(list(weights))
    return signal[bought].reindex(days).shift()


def _reply_errors(notes: Iterable[Mapping[str, Any]]) -> dict[str, int] | None:
    """The sums of the ``reply_errors`` of each session's notes."""
    counts = [each["reply_errors"] for each in notes if isinstance(each.get("reply_errors"), Mapping)]
    sums = {kind: sum(each[kind] for each in counts if is_whole(each.get(kind))) for kind in _OF_REPLIES}
    return sums if sums["replies"] > 0 else None


def _mean_purchase(orders: OrderTable) -> float | None:
    """What the fills of purchases cost on average, charges included; None without one."""
    shares, scale = orders.shares, 10**orders.digits
    paid = (shares * np.array(orders.price, np.float64) + np.array(orders.cost, np.float64)) / scale
    return float(paid[shares > 0].mean()) if (shares > 0).any() else None


_UNBOUGHT = {
    "no_room": Note(zh="持仓数已满", en="found no free position"),
    "too_little_cash": Note(zh="资金不够买一手", en="had too little cash for a lot"),
    "awaits_new_signal": Note(zh="止损止盈后等新信号", en="awaited a new signal after an exit of the plan"),
    "cooldown": Note(zh="卖出后的冷却期内", en="came in the cooldown after a sale"),
    "not_a_trade_day": Note(zh="计划当天不买", en="came on a session on which the plan does not buy"),
}
_MUCH_LESS = 0.9
"""Part of the planned cash of a purchase; a smaller part gets a note."""


def _lot_notes(plan: Mapping[str, Any], paid: float | None) -> Iterator[Note]:
    """A note where whole lots take much less than the cash that the plan says for a purchase."""
    size, more = plan.get("size"), plan.get("accumulate") or {}
    wanted = more.get("amount") or (size.get("cash") if isinstance(size, dict) else None)
    if wanted is not None and paid is not None and paid < _MUCH_LESS * float(wanted):
        yield Note(
            zh=f"每次说的是 {float(wanted):,.0f}，按整手平均只买了 {paid:,.0f}，其余留作现金",
            en=f"{float(wanted):,.0f} was planned for a purchase; whole lots took {paid:,.0f} on average, "
            "the rest stays in cash",
        )


_OF_REPLIES = ("replies", "schema", "logic", "cash")


def summary_notes(summary: Mapping[str, Any]) -> Iterator[Note]:
    """Notes for results whose numbers are easily misread."""
    account, benchmark = summary["account"], summary["benchmark"]
    if (periods := summary["periods_per_year"]) != DAYS_IN_A_YEAR:
        yield Note(
            zh=f"行情不是日线：年化按每年 {periods} 根计算；涨跌停、T+1 和费用是按日的规则",
            en=f"the bars are not daily: yearly numbers are of {periods} bars a year; price limits, T+1 and "
            "fees are rules of days",
        )
    refused, reasons = account["rejections"], format_counts(account["rejections_by_reason"])
    if refused and not account["trades"]:
        yield Note(
            zh=f"{refused} 笔委托全部被拒，没有成交（{reasons}）",
            en=f"nothing was traded: all {refused:,} orders were refused ({reasons})",
        )
    if missed := account["buys_not_followed"]:
        found = account["buys_not_followed_by_reason"].items()
        zh = "，".join(f"{_UNBOUGHT[reason].zh} {count:,}" for reason, count in found)
        en = ", ".join(f"{count:,} {_UNBOUGHT[reason].en}" for reason, count in found)
        yield Note(
            zh=f"{missed:,} 个买入信号没有下单：{zh}", en=f"{missed:,} buy signals led to no order: {en}"
        )
    if (errors := summary.get("reply_errors")) and sum(errors.values()) > errors["replies"]:
        replies, schema, logic, cash = (
            f"{errors[kind]} ({errors[kind] / errors['replies']:.0%})" if place else errors[kind]
            for place, kind in enumerate(_OF_REPLIES)
        )
        yield Note(
            zh=f"决策模型的 {replies} 个回复中，{schema} 个有格式错误，{logic} 个违背事实或市场规则，"
            f"{cash} 个超出资金",
            en=f"of {replies} replies of the decider's models {schema} had an error of form, {logic} "
            f"contradicted the facts or the market's rules, and {cash} spent more than there was",
        )
    yield from _lot_notes(summary.get("plan") or {}, summary.get("purchase"))
    bought, symbols = benchmark["bought"], benchmark["symbols"]
    if not bought:
        yield Note(
            zh=f"买入持有在 {symbols} 只股票中一只也没有买到（均分的资金不够买一手）：它只是现金，"
            "不能用来比较",
            en=f"buy and hold could buy none of {symbols} symbols (no share of the cash covered "
            "a lot): it is cash, and nothing to compare with",
        )
    elif bought < symbols:
        yield Note(
            zh=f"买入持有只买到 {symbols} 只股票中的 {bought} 只：其余在首个开盘时没有交易，"
            "或均分的资金不够买一手",
            en=f"buy and hold bought {bought} of {symbols} symbols: the others did not trade at "
            "its first open, or their share of the cash did not cover a lot",
        )
