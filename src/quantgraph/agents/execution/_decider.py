"""The stepwise agent as a decider: code sizes the orders by its options and the confidence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from quantgraph._util.texts import Language, Note, short_line
from quantgraph.agents.execution._actions import Action, TradeDecision
from quantgraph.agents.execution._keyless import KEYLESS
from quantgraph.agents.execution._orders import Orders
from quantgraph.agents.execution._steps import ExecutionLoop, ExecutionOptions, ExecutionState, is_error
from quantgraph.agents.loop._facts import NEEDS, facts_at_open
from quantgraph.agents.loop._model_decider import log_step, plan_text
from quantgraph.agents.loop._past import SHOWN_SESSIONS, outcome_text, price_since
from quantgraph.broker import Decision, DecisionContext, ModelDecider, Order, SessionResult
from quantgraph.recording.scope import happened
from quantgraph.settings import Role
from quantgraph.tools import ToolContext

_ROLE: Role = "execution"
_RULE_NAME_LENGTH = 60
_REASON, _EARLIER_REASON = 500, 60
_NO_ORDER: Final = {"buy": "nothing_to_buy", "sell": "nothing_held"}
_WHY_NO_ORDER: Final = {
    "nothing_to_buy": Note(zh="没有委托：不到最少买入", en="no order: below the least buy"),
    "nothing_held": Note(zh="没有委托：没有持仓", en="no order: nothing held"),
    "cash": Note(zh="没有委托：现金不够一手", en="no order: the cash bought no lot"),
}


class ExecutionAgent(ExecutionOptions, ModelDecider):
    """An agent decides each symbol step by step: it calls tools, calculates, and decides.

    At each session's open every symbol has an execution of its own, several side by side. A decision that the
    market refuses at the open goes back to the model while rounds are left. When all have decided, code sends
    the orders: sells, then buys by their confidence; the model decides a buy that the cash does not reach
    once more. Each step is kept in the run's execution log. An execution without a usable decision is a hold,
    and says why.

    Parameters
    ----------
    tools
        Tools of your own, or their names, see :func:`~quantgraph.tools.trading.named_tool`, beside
        :data:`~quantgraph.tools.tools_catalog`. Their results are recorded, and served in a replay.
    size, share, cash
        What a buy aims at for the whole position. ``confidence``: ``share`` of the account's value, else one
        over the number of symbols, times the confidence. ``fixed``: ``cash``.
    rounds
        Actions of an execution at most, from 1 to 50.
    time_limit
        Seconds that an execution waits for the model in all, after which it is not asked again. Default:
        ``rounds`` times the request's timeout of the settings. The time of tools and of code is not counted.
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
    needs: Final = NEEDS
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
        session = _Session(self, context)
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="execution") as pool:
            session.run(pool, dict.fromkeys(session.loops, ExecutionState()))
            orders, lost = session.settled()
            if again := session.told(lost):
                session.run(pool, again)
                orders, lost = session.settled(late=again)
        for symbol, (action, result) in session.stood.items():
            session.log(symbol, action, result)
        sent = {order.symbol for order in orders}
        notes = {
            symbol: _note(state, is_sent=symbol in sent, is_lost=symbol in lost)
            for symbol, state in session.states.items()
        }
        return Decision(orders, notes={"executions": notes, "reply_errors": session.errors})


class _Session:
    """The executions of one session, of each symbol its loop and its state; and what stands of them.

    ``stood`` has the decisions that are not in the log yet: the cash of all together may send one back.
    """

    def __init__(self, agent: ExecutionAgent, context: DecisionContext) -> None:
        tools = ToolContext(context.view, context.account, context.rules)
        table, model = facts_at_open(context, tools=tools), context.model(_ROLE)
        self.context, self.ended, self.limit = context, threading.Event(), agent.patience(model)
        self.orders = Orders(context=context, facts=table, options=agent)
        self.states: dict[str, ExecutionState] = {}
        self.stood: dict[str, tuple[Action, Any]] = {}
        self.cash_errors = 0
        self.loops = {
            symbol: ExecutionLoop(
                options=agent,
                symbol=symbol,
                rule=context.rule,
                language=context.language,
                model=model,
                context=tools.copy(),
                is_out_of_time=self._is_out_of_time,
                keep=partial(self._keep, symbol),
                table=table,
                facts=self._facts(symbol, tools, plan_text(context, agent.executes, symbol, with_rest=False)),
                tried=partial(self.orders.tried, symbol),
            )
            for symbol in table.symbols
        }

    def run(self, pool: ThreadPoolExecutor, begun: Mapping[str, ExecutionState]) -> None:
        """Run executions side by side to their decisions; raise the error of the first that has one."""
        running = {symbol: pool.submit(self._run, symbol, state) for symbol, state in begun.items()}
        try:
            self.states |= {symbol: each.result() for symbol, each in running.items()}
        except BaseException:
            self.ended.set()  # no symbol asks its model again
            for each in running.values():
                each.cancel()
            raise

    def settled(self, late: Collection[str] = ()) -> tuple[list[Order], dict[str, str]]:
        """The orders of the decisions, and what is told to those that the cash does not reach."""
        decisions = {symbol: self.states[symbol]["decision"] for symbol in self.loops}
        orders, lost = self.orders.settled(decisions, late)
        self.cash_errors += len(lost.keys() & set(late) if late else lost)
        return orders, lost

    @property
    def errors(self) -> dict[str, int]:
        """The session's replies of the models, and their errors by kind."""
        counts = Counter(dict.fromkeys(("replies", "schema", "logic"), 0))
        for state in self.states.values():
            counts.update(state["reply_errors"])
        return {**counts, "cash": self.cash_errors}

    def told(self, lost: Mapping[str, str]) -> dict[str, ExecutionState]:
        """The executions of lost buys that have rounds left, with what they are told."""
        found = {}
        for symbol, text in lost.items():
            state, loop = self.states[symbol], self.loops[symbol]
            if symbol in self.stood and state["step"] <= loop.options.rounds:
                action, refused = self.stood.pop(symbol)[0], {"error": text}
                self.log(symbol, action, refused)
                found[symbol] = ExecutionState(**{**state, **loop.answered(state, action, refused)})
        return found

    def log(self, symbol: str, action: Action, result: Any) -> None:
        """Keep a step of a symbol in the run's execution log."""
        name = self.context.rule[:_RULE_NAME_LENGTH] or "(no rule)"
        step = action.step, action.type, action.model_dump(), result
        log_step(self.context, *step, name=name, symbol=symbol)

    def _keep(self, symbol: str, action: Action, result: Any) -> None:
        if isinstance(action.action, TradeDecision) and not is_error(result):
            self.stood[symbol] = action, result
        else:
            self.log(symbol, action, result)

    def _run(self, symbol: str, state: ExecutionState) -> ExecutionState:
        with self.context.scope(symbol):
            return self.loops[symbol].run(ExecutionState(**state))

    def _is_out_of_time(self, waited: float) -> bool:
        if self.ended.is_set():
            raise CancelledError
        return happened("time_limit", lambda: waited >= self.limit)

    def _facts(self, symbol: str, tools: ToolContext, plan: str) -> dict[str, Any]:
        """What an execution is told of its run: sizes, the plan, its last decisions and what came of them."""
        language = self.context.language
        shown = self.context.history[-SHOWN_SESSIONS:]
        earlier = [line for each in shown if (line := _earlier(each, tools, symbol, language))]
        return {
            "order_size": self.orders.size_text(symbol),
            **({"plan": plan} if plan else {}),
            **({"earlier_decisions": earlier} if earlier else {}),
        }


def _earlier(result: SessionResult, tools: ToolContext, symbol: str, language: Language) -> str:
    """What was decided in a session, what became of it, and how the price moved since; "" for nothing."""
    note = result.notes.get("executions", {}).get(symbol)
    if note is None:
        return ""
    parts = [f"{result.session:%m-%d} {note['action']} {note['confidence']:g}"]
    if "no_order" in note:
        parts.append(_WHY_NO_ORDER[note["no_order"]].text(language))
    for each in result.outcomes:
        if each.order.symbol == symbol:
            plan = f" ({each.order.trigger})" if each.order.trigger else ""
            parts.append(outcome_text(each, language) + plan)
    parts.append(price_since(result.session, tools, symbol, language))
    return f"{'; '.join(filter(None, parts))}: {short_line(note['reason'], _EARLIER_REASON)}"


def _note(state: ExecutionState, *, is_sent: bool, is_lost: bool) -> dict[str, Any]:
    """Return what the ledger keeps of an execution; the log has its steps."""
    decision = state["decision"]
    why = "cash" if is_lost else _NO_ORDER.get(decision["action"])
    return {
        **decision,
        "reason": decision["reason"][:_REASON],
        "steps": len(state["execution_history"]),
        **({} if is_sent or why is None else {"no_order": why}),
    }
