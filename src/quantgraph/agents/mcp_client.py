"""A decider whose decisions come from a client of the run's MCP server, call by call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from quantgraph.agents.client_day import ClientDay
from quantgraph.broker import DataNeeds, Decider, Decision, DecisionContext
from quantgraph.broker.logged_step import LoggedStep
from quantgraph.errors import NotConfigured
from quantgraph.llm.cancellation import current_run_control, drain_error
from quantgraph.mcp.client_desk import ClientDesk
from quantgraph.mcp.served_tools import FINISH_DAY
from quantgraph.recording import recorded
from quantgraph.tools.decision_tools import DecisionTools

_SESSIONS = 260
"""A year, and what the slowest usual indicators need before they are stable."""


class McpClient(Decider):
    """A program outside of the run trades its portfolio, by the tools of an MCP server.

    Each call is recorded before it is carried out, so a run that was killed goes on at the next call, and a
    replay needs no client. ``buy`` and ``sell`` meet the market as those of
    :class:`~quantgraph.agents.trader.TraderAgent` do; ``finish_day`` commits the session.

    Parameters
    ----------
    desk
        Where the calls arrive. Without one only recorded calls are carried out, as in a replay.

    Notes
    -----
    A replay carries the recorded calls out anew. It compares orders, fills and the notes, and the log with
    what each call was answered.
    """

    def __init__(self, desk: ClientDesk | None = None) -> None:
        self._desk = desk
        self._committed: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """``mcp_client``."""
        return "mcp_client"

    @property
    def uses_signal(self) -> bool:
        """False: the client decides, session by session."""
        return False

    @property
    def reads_rule(self) -> bool:
        """True: ``get_today`` tells the client a rule in words."""
        return True

    @property
    def called(self) -> tuple[str, ...]:
        """Its name in both languages."""
        return ("MCP client", "mcp_client", "mcp", "client", "MCP客户端", "客户端")

    @property
    def needs(self) -> DataNeeds:
        """A year of sessions, and news."""
        return DataNeeds(sessions=_SESSIONS, records=("news",))

    def decide(self, context: DecisionContext) -> Decision:
        """Carry the client's calls out until it finishes the day.

        Raises
        ------
        NotConfigured
            If a call is wanted that is not recorded, and there is no desk.
        GraphDrained
            If the run is told to stop: it goes on with the same day.
        """
        tools = DecisionTools.of(context.view, context.account, context.rules, market=context.market)
        day = ClientDay(tools=tools, rule=context.rule, sessions=lambda: context.history)
        if self._desk is not None and self._committed not in (None, day.committed):
            self._desk.answer({**(self._committed or {}), "next": day.date})
        number = 0
        while not day.finished:
            number += 1
            call = recorded("tool", {"client": number}, self._next_call)
            answer = day.answer(call["tool"], call["args"])
            context.log_step(_step(context, number, call, answer))
            if self._desk is not None and not day.finished:
                self._desk.answer(answer)
        self._committed = day.committed
        return Decision(context.market.submitted, notes=day.notes, in_order=True)

    def _next_call(self) -> dict[str, Any]:
        if self._desk is None:
            raise NotConfigured(
                "the decisions of this run come from an MCP client; 'quantgraph mcp RUN' goes on with it"
            )
        return self._desk.next_call(partial(_check_stop, current_run_control()))

    def close_desk(self, answer: Mapping[str, Any], *, is_done: bool) -> None:
        """Answer all calls from now on by one answer, when the run has ended.

        Parameters
        ----------
        is_done
            Whether the last session was committed, which its ``finish_day`` is told.
        """
        if self._desk is not None:
            last = {**self._committed, "next": None} if self._committed and is_done else None
            self._desk.close(answer, last=last)


def _check_stop(control: Any) -> None:
    if control is not None and control.drain_requested:
        raise drain_error("told to stop")


def _step(context: DecisionContext, number: int, call: Mapping[str, Any], answer: Any) -> LoggedStep:
    moment = context.view.moment
    calls = [{"name": call["tool"], "args": call["args"]}]
    return LoggedStep(
        rule_name="mcp_client",
        rule=context.rule,
        symbol="*",
        session=moment.session,
        step=number,
        action_type="decision" if call["tool"] == FINISH_DAY else "tool_call",
        action={"content": "", "tool_calls": calls},
        result=[{"name": call["tool"], "result": answer}],
        timestamp=moment.timestamp.isoformat(),
    )
