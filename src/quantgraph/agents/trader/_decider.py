"""The autonomous trader as a decider: its memory, its tools, and its orders."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

from langchain_core.tools import BaseTool

from quantgraph._util.packages import code_values
from quantgraph._util.texts import Note
from quantgraph.agents.loop._facts import NEEDS, facts_at_open
from quantgraph.agents.loop._model_decider import log_step, plan_text
from quantgraph.agents.trader._day import TraderLoop, TraderOptions, TraderState, day_tools
from quantgraph.agents.trader._day_text import earlier_sessions, prompt_texts
from quantgraph.agents.trader._keyless import KEYLESS
from quantgraph.agents.trader._prompt import shown_symbols
from quantgraph.broker import DataNeeds, Decision, DecisionContext, ModelDecider, SessionResult
from quantgraph.errors import BadOption, ModelUnavailable
from quantgraph.settings import Role
from quantgraph.tools import ToolContext, tools_of
from quantgraph.tools.mcp import check_addresses, open_mcp_tools
from quantgraph.tools.news import NEWS_NAMES, RecordedNews, check_news, named_news


def check_toolset(tools: Any, *, allow_leaky_tools: bool) -> Literal["local", "mcp"] | tuple[str, ...]:
    """Return where tools are called."""
    if tools in ("local", "mcp"):
        return tools  # type: ignore[no-any-return]
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        raise BadOption(
            f"tools={tools!r:.80}; must be 'local', 'mcp', or addresses like ['http://127.0.0.1:19003/mcp']",
            parameter="tools",
        )
    addresses = check_addresses(tools)
    if not allow_leaky_tools:
        raise BadOption(
            "tools at other servers answer as of today, not as of the simulated day; pass "
            "allow_leaky_tools=True to take that",
            parameter="allow_leaky_tools",
        )
    return addresses


@contextmanager
def open_toolset(
    tools: Literal["local", "mcp"] | tuple[str, ...], context: ToolContext, *, news: bool
) -> Iterator[Mapping[str, BaseTool]]:
    """Lend a day's tools by name, while its session is decided."""
    own = day_tools(tools_of("trader"), context, news=news)
    if tools == "local":
        yield own
        return
    with open_mcp_tools(context, own, None if tools == "mcp" else tools) as opened:
        yield opened


_ROLE: Role = "trader"
_ALL = "*"
"""What a trader decides: everything that can be traded."""


class TraderAgent(TraderOptions, ModelDecider):
    """A model trades a portfolio by itself: it reads the day, calls tools, and says when it is done.

    At each session's open it reads its positions, yesterday's closes and today's opens, and replies with
    calls of tools. ``buy`` and ``sell`` meet the market at once, on a copy of the account at the open by the
    rules of the real fills: what they answer, a refusal too, is what the ledger has. The day ends when the
    model writes :data:`.STOP_SIGNAL`, or after ``max_steps`` replies; each reply with its calls is kept in
    the run's execution log, and how the day ended in its notes.

    Parameters
    ----------
    max_steps
        Replies of the model in a session at most, from 1 to 200.
    max_retries
        Times that the model is asked for one reply while its server fails, from 1 to 20. After that the
        session ends with what was traded so far. The run ends, to be resumed, where the model gives no reply
        at all in its first session, or in two in a row.
    base_delay
        Seconds before the second time, about twice that before the third, and so on.
    results_as
        ``messages``: each call is answered by a tool message. ``text``: all are answered by one text.
    prompt
        A text file in place of the shipped prompt. The day's facts and the stop signal follow it. Its content
        is part of the run's identity.
    memory
        Whether it reads what it did in the last five sessions of the run, why, and how prices went since.
    watched
        Symbols whose prices it reads, beside those it holds, where more than 120 can be traded.
    window
        Characters of a session's conversation, from 4,000; older results are shortened.
    tool_timeout
        Seconds of one call of a tool.
    tools
        Where tools are called. ``local``: in this process. ``mcp``: through an MCP server of this process
        (extra ``mcp``). Addresses: the reading tools of those servers, with the trader's own ``buy``,
        ``sell`` and ``get_positions``.
    allow_leaky_tools
        Whether ``tools`` may be addresses: what other servers answer is not cut at the simulated moment. The
        result says so then.
    news
        Where ``get_information`` searches: a source, or one of :data:`~quantgraph.tools.news.NEWS_NAMES`.
        True: the news of the run's data; while they have none, there is no such tool. False: no news at all.
    allow_leaky_search
        Whether ``news`` may be a live server: in a simulation its answers may know what came later. The
        result says so then.

    Raises
    ------
    BadOption
        If an argument is not valid, ``prompt`` cannot be read, or ``news`` is live and that is not allowed.
    """

    name: Final = "trader"
    uses_signal: Final = False
    reads_rule: Final = True
    aliases: Final[tuple[str, ...]] = (
        *("autonomous trader", "autonomous_trader", "trader", "trading agent"),
        *("自主交易员", "自主交易", "交易员", "交易代理", "交易智能体"),
    )
    roles: Final[tuple[Role, ...]] = (_ROLE,)
    keyless: Final = KEYLESS

    def __post_init__(self) -> None:
        self._toolset = check_toolset(self.tools, allow_leaky_tools=self.allow_leaky_tools)
        source = None if isinstance(self.news, bool) else self.news
        self._news = named_news(source) if isinstance(source, str) else source
        _ = self.prompt_text  # a file that cannot be read is an error now
        if self._news is not None:
            check_news(self._news, allow_leaky_search=self.allow_leaky_search)

    @classmethod
    def recorded(cls, options: Mapping[str, Any]) -> TraderAgent:
        """Return the trader of a run; a source of news that was an object serves its recorded answers."""
        known = {name: options[name] for name in inspect.signature(cls).parameters if name in options}
        news = known.get("news", True)
        if isinstance(news, str) and news not in NEWS_NAMES and "news.package" not in options:
            known["news"] = RecordedNews(news, live=known["allow_leaky_search"])
        return cls(**known)

    @property
    def needs(self) -> DataNeeds:
        """What the facts read, without the news where they are switched off."""
        kinds = tuple(kind for kind in NEEDS.records if self.news or kind != "news")
        return replace(NEEDS, records=kinds)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options as given."""
        news = self._news
        searched: dict[str, Any] = {"news": news.name, "allow_leaky_search": news.live} if news else {}
        searched |= code_values("quantgraph.news", type(news).__module__, "news.")
        toolset: dict[str, Any] = {} if self._toolset == "local" else {"tools": self._toolset}
        if isinstance(self._toolset, tuple):
            toolset = {"tools": list(self._toolset), "allow_leaky_tools": True}
        return {**self.identity, "memory": self.memory, **searched, **toolset}

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts by language, or the user's own, and the texts of the day."""
        own = {"trader_own": self.prompt_text, "trader_day": prompt_texts()["trader_day"]}
        return own if self.prompt else prompt_texts()

    def result_notes(self, notes: Sequence[Mapping[str, Any]]) -> Sequence[Note]:
        """Return how many sessions did not end as the model wished."""
        days = [each["trader"] for each in notes if "trader" in each]
        ends = Counter(day["ended"] for day in days)
        found = []
        if self._news is not None and self._news.live:
            found.append(
                Note(
                    zh=f"新闻来自实时搜索（{self._news.name}）：结果可能知道当时之后的事，成绩不能当作回测",
                    en=f"news were searched live ({self._news.name}): answers may know what came after "
                    "the moment, so this is not a backtest",
                )
            )
        if isinstance(self._toolset, tuple):
            servers = ", ".join(self._toolset)
            found.append(
                Note(
                    zh=f"工具来自其他服务器（{servers}）：结果可能知道当时之后的事，成绩不能当作回测",
                    en=f"tools of other servers were called ({servers}): answers may know what came after "
                    "the moment, so this is not a backtest",
                )
            )
        if cut := ends["error"] + ends["budget"]:
            found.append(
                Note(
                    zh=f"{cut} 个交易日提前结束：模型无法使用，或预算已用完；之前的成交保留",
                    en=f"{cut} sessions ended before the model was done, because it could not be asked or a "
                    "budget was spent; what was traded before stands",
                )
            )
        if ends["max_steps"]:
            found.append(
                Note(
                    zh=f"{ends['max_steps']} 个交易日用完了全部步数",
                    en=f"{ends['max_steps']} sessions took all their steps",
                )
            )
        return found

    def decide(self, context: DecisionContext) -> Decision:
        """Decide one session; raises what ends the run."""
        tools = ToolContext(
            context.view,
            context.account,
            context.rules,
            session=context.market,
            news=self._news,
            allow_leaky_search=self.allow_leaky_search,
        )
        with open_toolset(self._toolset, tools, news=bool(self.news)) as opened:
            loop = TraderLoop(
                options=self,
                model=context.model(_ROLE),
                context=tools,
                tools=opened,
                rule=context.rule,
                language=context.language,
                plan=plan_text(context, self.executes),
                earlier=earlier_sessions(context, tools, self.name) if self.memory else "",
                table=facts_at_open(context, shown_symbols(context, self.watched), tools=tools),
                keep=partial(_keep, context),
            )
            state = loop.run(TraderState())
        earlier, stands = context.history, context.market.account != context.account
        if state["ended"] == "error" and all(map(_broke_off, earlier)) and (earlier or not stands):
            raise ModelUnavailable(state["error"].partition(": ")[2])
        return Decision(context.market.submitted, notes=self._notes(context, state, tools), in_order=True)

    def _notes(self, context: DecisionContext, state: TraderState, tools: ToolContext) -> dict[str, Any]:
        """Return what the ledger keeps of a session; the log has its steps."""
        market = context.market
        note: dict[str, Any] = {
            "ended": state["ended"],
            "steps": state.get("step", 0),
            "tool_calls": state.get("call_count", 0),
            "traded": market.account is not context.account and market.account != context.account,
            "final_text": state.get("final_text", ""),
        }
        if tools.dropped_news:
            note["dropped_news"] = dict(Counter(tools.dropped_news))
        if "error" in state:
            note["errors"] = [state["error"]]
        errors = state.get("reply_errors", {})
        return {
            "trader": note,
            "reply_errors": {
                "replies": state.get("step", 0),
                **{kind: errors.get(kind, 0) for kind in ("schema", "logic", "cash")},
            },
        }


def _broke_off(session: SessionResult) -> bool:
    """Whether a model's error ended a session."""
    return bool(session.notes.get("trader", {}).get("ended") == "error")


def _keep(context: DecisionContext, step: int, action: Mapping[str, Any], result: Any) -> None:
    log_step(context, step, "model_reply", action, result, name="trader", symbol=_ALL)
