"""Does the code do it: the conversation in which a model writes it, kept in the state as its attempts.

The node of the generation runs once for each attempt, perhaps in another process. What an attempt ran, what
was wrong with it, and what the user answered is plain JSON, of which the same messages are made each time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from typing_extensions import TypedDict

from quantgraph._util.packages import parse_code
from quantgraph._util.texts import Language, Note, say
from quantgraph.broker import TradePlan
from quantgraph.llm.messages import wrap
from quantgraph.runtime import as_earlier_reply, stop_line, tool_errors
from quantgraph.runtime.graph_state import Attempt, Update
from quantgraph.tools import python_repl

_MAX_ATTEMPTS = 8
"""Attempts that are kept, the newest."""
_MAX_CELL = 20_000
"""Characters of a cell that are kept for the conversation."""
_MAX_TEXT = 2_000
"""Characters of a reply that are kept."""
_FINDING = Note(
    zh="还不正确：\n{errors}\n各段代码的变量已不在：改好后作为一段完整的代码重新运行。",
    en="That is not right yet:\n{errors}\nThe cells' variables are gone: mend the code and run it as one "
    "complete cell.",
)
_QUESTION = Note(
    zh="{errors}\n若属实请改代码；若不属实，请原样再运行一次并说明理由。各段代码的变量已不在：运行一段完整的代码。",
    en="{errors}\nIf that is right, mend the code; if it is not, hand the same code over again and say why. "
    "The cells' variables are gone: run one complete cell.",
)
REVIEW = "review: "
"""Begins what a reviewer thinks and no cell shows."""
_ANSWER = Note(
    zh="用户的回答：\n{answer}\n请写出完整的代码并运行。",
    en="The user's answer to your question:\n{answer}\nNow write the code and run it as one complete cell.",
)


class CodeRefusal(TypedDict):
    """What a model says in place of code: a question to the user, or why it declines."""

    kind: Literal["ask", "decline"]
    text: str


def instead_of_code(replies: Sequence[AnyMessage]) -> CodeRefusal | None:
    """Return what the first call of ``ask`` or ``decline`` says; None if there is none."""
    for message in replies:
        if isinstance(message, ToolMessage) and message.status != "error":
            if message.name == "ask":
                return CodeRefusal(kind="ask", text=str(message.text))
            if message.name == "decline":
                return CodeRefusal(kind="decline", text=str(message.text))
    return None


def _closing_words(replies: Sequence[AnyMessage]) -> str:
    """Return the words with which a model closes; empty if a limit ended it."""
    last = replies[-1]
    return (
        str(last.text).strip()[:_MAX_TEXT] if isinstance(last, AIMessage) and not stop_line(replies) else ""
    )


def attempt_of(request: Mapping[str, Any], replies: Sequence[AnyMessage], kept: Collection[str]) -> Attempt:
    """Return the attempt that a model's replies are."""
    cells = (
        list(kept)
        or [
            str(call["args"].get("query", ""))
            for message in replies
            if isinstance(message, AIMessage)
            for call in message.tool_calls
            if call["name"] == python_repl.name
        ][-1:]
    )
    return Attempt(
        request=dict(request),
        cells=[cell[:_MAX_CELL] for cell in cells],
        said=_closing_words(replies),
        errors=[],
        made=None,
    )


def with_errors(attempts: Sequence[Attempt], errors: Sequence[str]) -> list[Attempt]:
    """Return the attempts, the last of which has these errors unless it has others."""
    if not attempts or attempts[-1]["errors"]:
        return list(attempts)
    return [*attempts[:-1], {**attempts[-1], "errors": list(errors)}]


def open_attempts(attempts: Sequence[Attempt], request: Mapping[str, Any]) -> list[Attempt]:
    """Return the attempts with which the conversation about a request goes on.

    They are attempts at the same rule with errors or an answered question.
    """
    rule = request["strategy"]
    return [
        each
        for each in attempts
        if "answer" in each or (each["errors"] and each["request"]["strategy"] == rule)
    ]


def keep_attempts(attempts: Sequence[Attempt], attempt: Attempt) -> list[Attempt]:
    """Return the attempts and a new one, without the oldest if they are many."""
    return [*attempts, attempt][-_MAX_ATTEMPTS:]


def answered_attempts(attempts: Sequence[Attempt], question: str, answer: str) -> Update:
    """Return the update in which the generation's open question has its answer; empty if it is not its."""
    if not attempts or attempts[-1].get("question") != question or "answer" in attempts[-1]:
        return {}
    return {"attempts": [*attempts[:-1], {**attempts[-1], "answer": answer}]}


def earlier_messages(attempts: Sequence[Attempt], language: Language) -> list[AnyMessage]:
    """Return the messages of earlier attempts: cells, closing words or question, and what came of them."""
    messages: list[AnyMessage] = []
    for number, attempt in enumerate(attempts, start=1):
        for place, cell in enumerate(attempt["cells"], start=1):
            messages += _call(python_repl.name, {"query": cell}, f"cell_{number}_{place}", "(ran)")
        if "question" in attempt:
            asked = {"question": attempt["question"]}
            messages += _call("ask", asked, f"ask_{number}", "(asked)")
        elif attempt["said"]:
            messages.append(as_earlier_reply(AIMessage(attempt["said"])))
        if "answer" in attempt:
            messages.append(
                HumanMessage(_ANSWER.text(language).format(answer=wrap("answers", attempt["answer"])))
            )
        if attempt["errors"]:
            errors = wrap("errors", "\n".join(attempt["errors"]))
            asks = all(error.startswith(REVIEW) for error in attempt["errors"])
            messages.append(
                HumanMessage((_QUESTION if asks else _FINDING).text(language).format(errors=errors))
            )
    return messages


def _call(tool: str, args: dict[str, Any], call_id: str, result: str) -> list[AnyMessage]:
    call = AIMessage("", tool_calls=[{"name": tool, "args": args, "id": call_id}])
    return [as_earlier_reply(call), ToolMessage(result, name=tool, tool_call_id=call_id)]


_REPLY_CHARACTERS = 160
_FENCE = re.compile(r"```[a-zA-Z0-9_+-]*\n(.*?)```", re.DOTALL)  # "```python\nprices\n```"
_LINE_OF_CODE = re.compile(  # "GLOBAL_DATA_STATE.update("
    r"^\s*(GLOBAL_DATA_STATE\.update\(|\w+ = (snapshot|GLOBAL_DATA_STATE)\b)", re.MULTILINE
)
_DOES = ast.Import | ast.ImportFrom | ast.Assign | ast.AugAssign | ast.Call


def no_signal_error(replies: Sequence[AnyMessage]) -> str:
    """Return why an agent that was to publish a signal has published none, as ``code: message``.

    In this order: a limit that ended it; code that it wrote into its reply instead of calling the tool;
    the error of its last tool call.
    """
    if line := stop_line(replies):
        return line
    text, calls = str(replies[-1].text), [each for each in replies if isinstance(each, ToolMessage)]
    if _LINE_OF_CODE.search(text) or any(_does_something(code) for code in _FENCE.findall(text)):
        return (
            "no_tool_call: the reply has code in its text, where it does not run; "
            f"call the tool {python_repl.name} with it"
        )
    if calls and (errors := tool_errors(calls[-1:])):
        return errors[0]
    reply_line = f" Reply: {reply}" if (reply := " ".join(text.split())[:_REPLY_CHARACTERS]) else ""
    if not calls:
        return (
            f"no_tool_call: no cell was run; call the tool {python_repl.name} with the code, ask with "
            f"a question to the user, or decline with the reason why the data cannot do it.{reply_line}"
        )
    return (
        "no_signal: the code handed over no signal; call GLOBAL_DATA_STATE.update('signal', "
        f"{{'name': frame}}).{reply_line}"
    )


def _does_something(code: str) -> bool:
    try:
        return any(isinstance(node, _DOES) for node in ast.walk(parse_code(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """A piece of code that is right."""

    about: Note
    words: str
    code: str


IDIOMS: dict[str, Idiom] = {
    "event": Idiom(
        about=Note(
            zh="上穿、下穿：一条线穿过另一条，是事件", en="crosses: one line through another, an event"
        ),
        words=r"穿|突破|跌破|站上|金叉|死叉|cross|break|(rise|climb|go)(s|es)? above|"
        r"(fall|drop|go)(s|es)? below",
        code="""\
above = (fast > slow).astype(float).where(fast.notna() & slow.notna()).ffill()
was = above.shift(1)
signal = zero.mask((above == 1) & (was == 0), 1.0).mask((above == 0) & (was == 1), -1.0)
signal = signal.where(slow.notna())""",
    ),
    "rank": Idiom(
        about=Note(zh="最高的10只：在每个交易日内排名", en="the 10 highest: rank within each session"),
        words=r"排名|[最前][高低大小强弱多少]?\S{0,3}\s*[\d一二三四五六七八九十]+\s*[只个名支]|\b(top|bottom|rank|best|worst|"
        r"(high|low|larg|small|strong|weak|cheap)est)\b(?!\s+(?:close|high|low|price)s?\b)",
        code="""\
order = score.rank(axis=1, ascending=False, method="first")
signal = zero.mask(order <= 10, 1.0).mask(order > 10, -1.0).where(score.notna())""",
    ),
    "path": Idiom(
        about=Note(
            zh="与买入后走势有关的卖出：这里是比买入后的最高收盘价低8%",
            en="an exit that depends on the entry: here 8 % below the highest close since then",
        ),
        words=r"回落|回撤|高点|峰值|止损|止盈|成本|买入价|买入后|持有\S{0,3}\d+|海龟|trail|peak|stop|drawdown|turtle|"
        r"since (the )?(entry|buying)|entry price|below its high|hold(s|ing)? for",
        code="""\
price, enter, marks = close.to_numpy(), buy.to_numpy(), np.zeros(close.shape)
for j in range(close.shape[1]):
    held, peak = False, 0.0
    for i in range(close.shape[0]):
        if np.isnan(price[i, j]):
            continue
        if held:
            peak = max(peak, price[i, j])
            if price[i, j] <= 0.92 * peak:
                marks[i, j], held = -1.0, False
        elif enter[i, j]:
            marks[i, j], held, peak = 1.0, True, price[i, j]
signal = pd.DataFrame(marks, index=close.index, columns=close.columns).where(close.notna())""",
    ),
    "weekly": Idiom(
        about=Note(
            zh="每周：在一周的第一个交易日决定", en="weekly: decided in the first session of the week"
        ),
        words=r"每周|每星期|周[初一二三四五]|周度|\bweek(s|ly)?\b|monday",
        code="""\
week = pd.Series(close.index.to_period("W").astype(str), index=close.index)
first = (week != week.shift(1)).to_numpy()[:, None]
signal = zero.mask(buy & first, 1.0).mask(sell & first, -1.0)""",
    ),
    "monthly": Idiom(
        about=Note(
            zh="每月：在一月的第一个交易日决定", en="monthly: decided in the first session of the month"
        ),
        words=r"每月|每个月|月初|月度|\bmonth(s|ly)?\b",
        code="""\
month = pd.Series(close.index.to_period("M").astype(str), index=close.index)
first = (month != month.shift(1)).to_numpy()[:, None]
signal = zero.mask(buy & first, 1.0).mask(sell & first, -1.0)""",
    ),
    "suspension": Idiom(
        about=Note(
            zh="跨停牌的指标：按各股自己的交易日计算",
            en="indicators over suspensions: computed on the sessions that a stock traded",
        ),
        words=r"rsi|macd|kdj|atr|ema|boll|布林|指数平均|wilder",
        code="""\
rsi = close.apply(lambda s: talib.RSI(s.dropna(), 14).reindex(s.index))
signal = zero.mask(rsi < 30, 1.0).mask(rsi > 70, -1.0).where(rsi.notna())""",
    ),
    "index": Idiom(
        about=Note(zh="对指数的条件，用于每一列", en="a condition on an index, for every column"),
        words=r"(?!)",
        code="""\
level = snapshot["index"]["close"][code]
held = np.broadcast_to((level > level.rolling(20).mean()).to_numpy()[:, None], zero.shape)
signal = zero.mask(held, 1.0).mask(~held, -1.0)""",
    ),
}
"""By name. That of the index is for requests that watch one."""


def _done_by(plan: Mapping[str, Any]) -> set[str]:
    """Names of idioms for which there is no need, as the trade plan does the same."""
    ends = {"path"} if TradePlan.of(plan).exits else set[str]()
    return ends | ({"weekly", "monthly"} if "trade_on" in plan else set())


def idioms_for(
    rule: str,
    indices: Collection[str] = (),
    language: Language = "en",
    plan: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Return the idioms that a rule needs beside a trade plan, for a prompt; empty if it needs none.

    >>> print(idioms_for("buy the 10 cheapest each month").splitlines()[1])
    # the 10 highest: rank within each session
    >>> idioms_for("buy when the close is above 100")
    ''
    """
    done = _done_by(plan)
    chosen = [
        idiom
        for name, idiom in IDIOMS.items()
        if (re.search(idiom.words, rule, re.IGNORECASE) or (name == "index" and indices)) and name not in done
    ]
    if not chosen:
        return ""
    pieces = [f"# {idiom.about.text(language)}\n{idiom.code}" for idiom in chosen]
    return "\n".join(
        [say(language, zh="写法（zero = close * 0）：", en="Idioms (zero = close * 0):"), *pieces]
    )
