"""The stepwise agent as a decider: its decisions become orders in sizes that the model does not choose."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Final

from quantgraph._util.texts import Note, say
from quantgraph.agents._model_decider import SESSIONS, log_step
from quantgraph.agents.execution._actions import Action
from quantgraph.agents.execution._keyless import KEYLESS
from quantgraph.agents.execution._prompt import prompt_texts
from quantgraph.agents.execution._steps import ExecutionOptions, ExecutionState
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider, Order, Rejection
from quantgraph.broker.session import largest_buy
from quantgraph.market.money import to_decimal
from quantgraph.recording.scope import happened
from quantgraph.settings import Role
from quantgraph.tools import ToolContext

_SHOWN_REASON = 200


def account_value(context: DecisionContext) -> Decimal:
    """Return what the account is worth at the open; what has no open counts as nothing."""
    opens, account = context.view.numbers("ohlcv", "open"), context.account
    worths = (
        to_decimal(opens[name]) * held.quantity
        for name, held in account.positions.items()
        if 0 < opens.get(name, math.nan) < math.inf
    )
    return sum(worths, account.cash)


def orders_of(
    decisions: Mapping[str, Mapping[str, Any]], context: DecisionContext, options: ExecutionOptions
) -> list[Order]:
    """Return the orders of decisions, in their order.

    A sell sells all; a buy raises the position to its size.
    """
    opens, account, total = context.view.numbers("ohlcv", "open"), context.account, account_value(context)
    orders: list[Order] = []
    for symbol, decision in decisions.items():
        held, wish = account.quantity(symbol), _wish(decision, total, len(decisions), options)
        if wish is None or (not wish and not held):
            continue
        if wish and held and 0 < opens[symbol] < math.inf:
            price = to_decimal(opens[symbol])
            room = wish - price * held
            if not largest_buy(symbol, price, room, context.rules, context.session):
                continue
        orders.append(
            Order(
                symbol=symbol,
                target_value=wish,
                sequence=len(orders) + 1,
                reason=decision["reason"][:_SHOWN_REASON],
            )
        )
    return orders


def size_text(
    context: DecisionContext, symbol: str, options: ExecutionOptions, total: Decimal, symbols: int
) -> str:
    """Say to a model what a buy aims at, and what the least one is."""
    target, lots = options.target(total, 1.0, symbols), context.rules.lots(symbol, context.session.date())
    price = context.view.numbers("ohlcv", "open").get(symbol, math.nan)
    scaled = options.size == "confidence"
    told = say(
        context.language,
        zh=f"买入把整个持仓补到 {target}{'乘以信心' if scaled else ''}，不足一手的差额不动",
        en=f"a buy raises the whole position to {target}{' times its confidence' if scaled else ''}; less "
        "than a lot of difference changes nothing",
    )
    if not 0 < price < math.inf:
        return told
    least = float(lots.first) * price
    return told + say(
        context.language,
        zh=f"；至少买 {lots.first} 股，按开盘价为 {least:.2f}",
        en=f"; the least buy is {lots.first} shares, {least:.2f} at the open",
    )


def _wish(
    decision: Mapping[str, Any], total: Decimal, symbols: int, options: ExecutionOptions
) -> Decimal | None:
    """Return the value wished for a position; None to leave it as it is."""
    if decision["action"] == "sell":
        return Decimal(0)
    return options.target(total, decision["confidence"], symbols) if decision["action"] == "buy" else None


_ROLE: Role = "execution"
_RULE_NAME_LENGTH = 60
_REASON = 500
_NO_ORDER = {"buy": "the size is held already", "sell": "nothing is held"}


class ExecutionAgent(ExecutionOptions, ModelDecider):
    """An agent decides each symbol step by step: it calls tools, calculates, and decides.

    At each session's open every symbol has an execution of its own, several side by side. When all have
    decided, code sends the orders, in the order of the symbols and sells first. Each step is kept in the
    run's execution log. An execution without a usable decision is a hold, and says why.

    Parameters
    ----------
    tools
        Tools of your own, or their names, see :func:`~quantgraph.tools.named_tool`, beside
        :data:`~quantgraph.tools.tools_catalog`. Their results are recorded, and served in a replay.
    size, share, cash
        What a buy aims at for the whole position. ``confidence``: ``share`` of the account's value, else one
        over the number of symbols, times the confidence. ``fixed``: ``cash``.
    rounds
        Actions of an execution at most, from 1 to 50.
    time_limit
        Seconds of an execution, after which the model is not asked again.
    tool_timeout
        Seconds of one call of a tool.
    parallel
        Symbols that are decided at the same time, from 1 to 64. It changes no result.
    calling
        ``json``: the model writes each action as JSON. ``native``: tools are bound to the model, which may
        call them; JSON is read too.

    Raises
    ------
    BadOption
        If an argument is not valid.
    """

    name: Final = "execution"
    uses_signal: Final = False
    reads_rule: Final = True
    aliases: Final[tuple[str, ...]] = (
        "execution agent",
        "execution_agent",
        "stepwise agent",
        "执行代理",
        "执行智能体",
        "逐步执行",
    )
    needs: Final[DataNeeds] = DataNeeds(sessions=SESSIONS, records=("news",))
    roles: Final[tuple[Role, ...]] = (_ROLE,)
    keyless: Final = KEYLESS

    @property
    def options(self) -> Mapping[str, Any]:
        """The options, without ``parallel``, which changes no result."""
        given = {"share": self.share, "cash": self.cash}
        sizes = {name: value for name, value in given.items() if value is not None}
        return {**self.identity, "size": self.size, **sizes}

    @property
    def prompts(self) -> Mapping[str, str]:
        """The system prompt in both languages."""
        return prompt_texts()

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:
        """Return how many holds the model did not choose, and how many of its calculations were wrong."""
        executions = [each for session in notes for each in session.get("executions", {}).values()]
        why = Counter(
            each["hold_reason"] for each in executions if each.get("hold_reason", "model") != "model"
        )
        unchosen, causes = why.total(), ", ".join(f"{name} {count}" for name, count in sorted(why.items()))
        wrong, malformed = (
            sum(each.get(name, 0) for each in executions) for name in ("mismatches", "malformed")
        )
        told = []
        if unchosen:
            told.append(
                Note(
                    zh=f"{unchosen} 次执行以兜底的持有结束（{causes}）：回复不可用，或轮数、时间、预算已用完",
                    en=f"{unchosen} executions ended as a hold that the model did not choose ({causes}): its "
                    "replies were not usable, rounds or time were over, or a budget was spent",
                )
            )
        if malformed:
            told.append(
                Note(
                    zh=f"{malformed} 个回复不是可用的操作，已退回",
                    en=f"replies that were no usable action and were sent back: {malformed}",
                )
            )
        if wrong:
            told.append(
                Note(
                    zh=f"模型自行计算的 {wrong} 个结果与 TA-Lib 不符，见执行日志",
                    en=f"{wrong} of the model's own calculations differ from TA-Lib's; see the execution log",
                )
            )
        return told

    def decide(self, context: DecisionContext) -> Decision:
        """Decide one session; raises what ends the run."""
        symbols = [str(symbol) for symbol in context.view["ohlcv"].frozen("open").symbols]
        outcomes, total = _last_outcomes(context), account_value(context)
        told = {
            symbol: {
                "order_size": size_text(context, symbol, self, total, len(symbols)),
                **({"last_order": outcomes[symbol]} if symbol in outcomes else {}),
            }
            for symbol in symbols
        }
        done = self._side_by_side(context, told)
        decisions = {symbol: state["decision"] for symbol, state in done.items()}
        orders = orders_of(decisions, context, self)
        sent = {order.symbol for order in orders}
        notes = {symbol: _note(state, is_sent=symbol in sent) for symbol, state in done.items()}
        return Decision(orders, notes={"executions": notes})

    def _side_by_side(
        self, context: DecisionContext, told: Mapping[str, Mapping[str, str]]
    ) -> dict[str, ExecutionState]:
        """Return the state of each symbol's execution; raise the error of the first symbol that has one."""
        ended = threading.Event()
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="execution") as pool:
            running: dict[str, Future[ExecutionState]] = {
                symbol: pool.submit(self._execute, context, symbol, status, ended)
                for symbol, status in told.items()
            }
            try:
                return {symbol: each.result() for symbol, each in running.items()}
            except BaseException:
                ended.set()  # no symbol asks its model again
                for each in running.values():
                    each.cancel()
                raise

    def _execute(
        self, context: DecisionContext, symbol: str, status: Mapping[str, str], ended: threading.Event
    ) -> ExecutionState:
        rule, begun = context.rule, time.monotonic()

        def keep(action: Action, result: Any) -> None:
            name = rule[:_RULE_NAME_LENGTH] or "(no rule)"
            log_step(context, action.step, action.type, action.model_dump(), result, name=name, symbol=symbol)

        def is_out_of_time() -> bool:
            if ended.is_set():
                raise CancelledError
            return happened("time_limit", is_over)

        def is_over() -> bool:
            return time.monotonic() - begun >= self.time_limit

        with context.scope(symbol):
            loop = self.loop(
                symbol=symbol,
                rule=rule,
                language=context.language,
                model=context.model(_ROLE),
                context=ToolContext(context.view, context.account, context.rules),
                is_out_of_time=is_out_of_time,
                keep=keep,
                status=status,
            )
            return loop.run(ExecutionState())


def _note(state: ExecutionState, *, is_sent: bool) -> dict[str, Any]:
    """Return what the ledger keeps of an execution; the log has its steps."""
    decision, history = state["decision"], state["execution_history"]
    wrong = sum(
        isinstance(each.get("result"), dict) and each["result"].get("matches") is False for each in history
    )
    return {
        **decision,
        "reason": decision["reason"][:_REASON],
        "steps": len(history),
        **({"mismatches": wrong} if wrong else {}),
        **({"malformed": state["malformed"]} if state.get("malformed") else {}),
        **({} if is_sent or decision["action"] == "hold" else {"no_order": _NO_ORDER[decision["action"]]}),
    }


def _last_outcomes(context: DecisionContext) -> dict[str, str]:
    """Return what became of the last session's orders, by symbol."""
    if not context.history:
        return {}
    last = context.history[-1]
    notes = last.notes.get("executions", {})
    unsent = {
        symbol: f"{last.session:%Y-%m-%d}: no order: {each['no_order']}"
        for symbol, each in notes.items()
        if "no_order" in each
    }
    return unsent | {
        each.order.symbol: f"{last.session:%Y-%m-%d}: "
        + (
            f"rejected: {each.message}"
            if isinstance(each, Rejection)
            else f"{each.side} {each.quantity} at {each.price} filled"
        )
        for each in last.outcomes
    }
