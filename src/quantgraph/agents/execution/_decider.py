"""The stepwise agent as a decider: code sizes the orders by its options and the confidence."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Final

from quantgraph._util.texts import Note
from quantgraph.agents.execution._actions import Action
from quantgraph.agents.execution._keyless import KEYLESS
from quantgraph.agents.execution._run_facts import account_value, facts_of_run
from quantgraph.agents.execution._steps import ExecutionOptions, ExecutionState
from quantgraph.agents.loop._model_decider import SESSIONS, log_step, plan_text
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider, Order, Rejection
from quantgraph.broker.session import largest_buy
from quantgraph.market.money import to_decimal
from quantgraph.recording.scope import happened
from quantgraph.settings import Role
from quantgraph.tools import ToolContext

_SHOWN_REASON = 200


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


def _wish(
    decision: Mapping[str, Any], total: Decimal, symbols: int, options: ExecutionOptions
) -> Decimal | None:
    """Return the value wished for a position; None to leave it as it is."""
    if decision["action"] == "sell":
        return Decimal(0)
    return options.target(total, decision["confidence"], symbols) if decision["action"] == "buy" else None


_NOT_KNOWN_AT_OPEN = frozenset({"volume_cap", "market_closed"})


def errors_of_orders(
    decisions: Mapping[str, Mapping[str, Any]], orders: Sequence[Order], context: DecisionContext
) -> list[str]:
    """Return ``logic`` or ``cash`` for each decision that the market or the cash refuses at the open.

    Sales come first. A sale of what is not held contradicts the facts.
    """
    by_side = sorted(orders, key=lambda order: bool(order.target_value))
    outcomes = [context.market.submit(order) for order in by_side]
    codes = [each.code for each in outcomes if isinstance(each, Rejection)]
    traded = {order.symbol for order in orders}
    sales = [name for name, each in decisions.items() if each["action"] == "sell"]
    codes += ["insufficient_shares" for name in sales if name not in traded]
    known = [code for code in codes if code not in _NOT_KNOWN_AT_OPEN]
    return ["cash" if code == "insufficient_cash" else "logic" for code in known]


_ROLE: Role = "execution"
_RULE_NAME_LENGTH = 60
_REASON = 500
_NO_ORDER = {"buy": "nothing_to_buy", "sell": "nothing_held"}


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
        """The prompts in both languages, as they are sent before the facts."""
        return self.system_prompts

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:
        """Return how many holds the model did not choose."""
        why = Counter(
            each["hold_reason"]
            for session in notes
            for each in session.get("executions", {}).values()
            if each.get("hold_reason", "model") != "model"
        )
        causes = ", ".join(f"{name} {count}" for name, count in sorted(why.items()))
        note = Note(
            zh=f"{why.total()} 次执行以兜底的持有结束（{causes}）：回复不可用，或轮数、时间、预算已用完",
            en=f"{why.total()} executions ended as a hold that the model did not choose ({causes}): its "
            "replies were not usable, rounds or time were over, or a budget was spent",
        )
        return [note] if why else []

    def decide(self, context: DecisionContext) -> Decision:
        """Decide one session; raises what ends the run."""
        symbols = [str(symbol) for symbol in context.view["ohlcv"].frozen("open").symbols]
        size = account_value(context), len(symbols)
        tools = {each: ToolContext(context.view, context.account, context.rules) for each in symbols}
        plans = {each: plan_text(context, self.executes, each, with_rest=False) for each in symbols}
        facts = {
            each: facts_of_run(context, tools[each], each, self, size=size, plan=plans[each])
            for each in symbols
        }
        done = self._side_by_side(context, tools, facts)
        decisions = {symbol: state["decision"] for symbol, state in done.items()}
        orders = orders_of(decisions, context, self)
        sent = {order.symbol for order in orders}
        notes = {symbol: _note(state, is_sent=symbol in sent) for symbol, state in done.items()}
        errors = _reply_errors(done.values(), errors_of_orders(decisions, orders, context))
        return Decision(orders, notes={"executions": notes, "reply_errors": errors})

    def _side_by_side(
        self,
        context: DecisionContext,
        tools: Mapping[str, ToolContext],
        facts: Mapping[str, Mapping[str, Any]],
    ) -> dict[str, ExecutionState]:
        """Return the state of each symbol's execution; raise the error of the first symbol that has one."""
        ended = threading.Event()
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="execution") as pool:
            running: dict[str, Future[ExecutionState]] = {
                symbol: pool.submit(self._execute, context, tools[symbol], symbol, facts[symbol], ended)
                for symbol in facts
            }
            try:
                return {symbol: each.result() for symbol, each in running.items()}
            except BaseException:
                ended.set()  # no symbol asks its model again
                for each in running.values():
                    each.cancel()
                raise

    def _execute(
        self,
        context: DecisionContext,
        tools: ToolContext,
        symbol: str,
        facts: Mapping[str, Any],
        ended: threading.Event,
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
                context=tools,
                is_out_of_time=is_out_of_time,
                keep=keep,
                facts=facts,
            )
            return loop.run(ExecutionState())


def _note(state: ExecutionState, *, is_sent: bool) -> dict[str, Any]:
    """Return what the ledger keeps of an execution; the log has its steps."""
    decision = state["decision"]
    return {
        **decision,
        "reason": decision["reason"][:_REASON],
        "steps": len(state["execution_history"]),
        **({} if is_sent or decision["action"] == "hold" else {"no_order": _NO_ORDER[decision["action"]]}),
    }


def _reply_errors(states: Iterable[ExecutionState], of_orders: Iterable[str]) -> dict[str, int]:
    """Return a session's replies of the model, and their errors by kind."""
    counts = Counter(dict.fromkeys(("replies", "schema", "logic", "cash"), 0))
    for state in states:
        counts.update(state["reply_errors"])
    counts.update(of_orders)
    return dict(counts)
