"""What to say: state updates of the nodes, a new request, an answer, a failed attempt, a question."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

import pandas as pd
from langchain_core.messages import AnyMessage, convert_to_messages

from quantgraph._util.texts import Language, Note, say
from quantgraph.data import MarketDataSource
from quantgraph.errors import (
    BadOption,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
)
from quantgraph.runtime.dialogue import answer_schema, question_id
from quantgraph.runtime.endings import end_update, extended_history, language, success_update, user_messages
from quantgraph.runtime.graph_state import (
    Clarification,
    ClarificationKind,
    EndedBecause,
    QuestionAnswered,
    Update,
    changed,
    dialogue_of,
    progress_of,
)
from quantgraph.sentences import normalise
from quantgraph.sentences.phrases import gives_up, restates_without
from quantgraph.subgraphs.signal._attempts import answered_attempts, with_errors
from quantgraph.subgraphs.signal.state import SignalSubgraphState

DEFAULT_STRATEGY: dict[Language, str] = {
    "zh": "5日均线上穿20日均线买入，下穿卖出",
    "en": "buy when the 5-day average crosses above the 20-day average, sell when it crosses below",
}
_STRATEGIES: dict[Language, tuple[str, ...]] = {
    "zh": (DEFAULT_STRATEGY["zh"], "RSI(14)低于30买入，高于70卖出", "收盘价上穿20日均线买入，下穿卖出"),
    "en": (
        DEFAULT_STRATEGY["en"],
        "buy when RSI(14) is below 30, sell when it is above 70",
        "buy when the close crosses above the 20-day average, sell when it crosses below",
    ),
}
_WINDOW_MONTHS = (12, 6, 36)
_WHOLE_BARS = 1_000_000
"""The most bars of a source that are its default window; a vendor's market has more."""
_ALL: dict[Language, str] = {"zh": "全部股票", "en": "all stocks"}
_ACCEPT = re.compile(  # "默认"
    r"\W*(默认|用默认|使用默认|默认方案|好|好的|可以|行|default|use the default|ok|okay|yes|y)\W*",
    re.IGNORECASE,
)


_REASON = r"(?:[:：][\s\S]*)?"
_REFUSE = re.compile(  # "不对"
    rf"\W*(?:(?:不|不是|不对|不要|否|no|n|nope|stop|wrong)\W*|(?:取消|cancel)\W*{_REASON})", re.IGNORECASE
)
_CANCEL = re.compile(rf"\W*(?:取消|退出|cancel|quit|abort)\W*{_REASON}", re.IGNORECASE)  # "取消"
_WAIVE = re.compile(  # "不要"
    r"\W*(不要|不用|不使用|不执行|去掉|忽略|没有.{0,8}也|算了|继续|go on|without|ignore|skip|drop|forget"
    r"|leave .{0,20}out)",
    re.IGNORECASE,
)


def is_default(answer: str) -> bool:
    """Whether an answer accepts the offered default.

    >>> is_default("默认"), is_default("OK."), is_default("600519.SH")
    (True, True, False)
    """
    return bool(_ACCEPT.fullmatch(answer))


def default_window(sessions: pd.DatetimeIndex, months: int = 12) -> tuple[str, str]:
    """Return start and end, YYYYMMDD, of the last ``months`` up to the last session."""
    last = sessions[-1]
    first = max(sessions[0], last - pd.DateOffset(months=months) + pd.Timedelta(days=1))
    return f"{first:%Y%m%d}", f"{last:%Y%m%d}"


def usual_window(source: MarketDataSource) -> tuple[str, str]:
    """Return the default window: all of a file or frame of usual size, else the last year."""
    sessions = source.sessions()
    if source.synthetic or len(sessions) * len(source.symbols()) > _WHOLE_BARS:
        return default_window(sessions)
    return f"{sessions[0]:%Y%m%d}", f"{sessions[-1]:%Y%m%d}"


def without_words(words: Sequence[str], language: Language) -> str:
    """Return the answer that gives up indicator fields, or words that nothing executes.

    >>> without_words(["roe", "peg"], "en")
    'go on without roe, peg'
    """
    return say(language, zh=f"不使用 {'、'.join(words)}", en=f"go on without {', '.join(words)}")


def is_refusal(answer: str) -> bool:
    """Whether an answer declines what was shown.

    >>> is_refusal("不对"), is_refusal("No."), is_refusal("no, use 30 days")
    (True, True, False)
    """
    return bool(_REFUSE.fullmatch(answer))


def is_cancel(answer: str) -> bool:
    """Whether an answer gives up the whole request, also for a reason behind a colon.

    >>> is_cancel("取消"), is_cancel("Cancel: no time"), is_cancel("cancel the stop loss")
    (True, True, False)
    """
    return bool(_CANCEL.fullmatch(answer))


def is_waiver(answer: str, words: Sequence[str], language: Language) -> bool:
    """Whether an answer gives the words of a question up, by its option or in other words.

    >>> is_waiver("without it", ["stop at 5%"], "en"), is_waiver("不要止损了", ["止损5%"], "zh")
    (True, True)
    >>> is_waiver("600519.SH", ["roe"], "en")
    False
    """
    return answer == without_words(words, language) or bool(_WAIVE.match(answer))


def typical_answers(kind: str, language: Language, source: MarketDataSource) -> list[str]:
    """Return a few valid answers to a question; none if the question is about a failure."""
    if kind == "window":
        usual = usual_window(source)
        windows = (usual, *(default_window(source.sessions(), months) for months in _WINDOW_MONTHS))
        return list(dict.fromkeys(_window(*window, language) for window in windows))
    if kind == "symbol":
        listed = source.symbols()
        indices = [name for code, name in source.names().items() if code not in listed and name]
        return [_ALL[language], *indices[:2], *listed[:2]]
    return list(_STRATEGIES[language]) if kind == "strategy" else []


def whole_request(source: MarketDataSource, language: Language) -> str:
    """Return an example of a request that has everything: a stock, a window and a rule."""
    window = _window(*default_window(source.sessions()), language)
    return ("，" if language == "zh" else ", ").join(
        (source.symbols()[0], DEFAULT_STRATEGY[language], window)
    )


def _window(start: str, end: str, language: Language) -> str:
    return say(language, zh=f"{start}到{end}", en=f"from {start} to {end}")


def default_answer(
    kind: str,
    language: Language,
    source: MarketDataSource,
    *,
    symbols: Sequence[str] = (),
    plan_without: Collection[str] | None = None,
) -> str | None:
    """Return the documented default answer to a kind of question.

    The defaults are the ``symbols`` or all stocks of the source (``symbol``), :func:`usual_window`
    (``window``) and :data:`DEFAULT_STRATEGY` (``strategy``); a failure has none. With ``plan_without`` the
    default is a plan of all three parts except those named there, which are known already.
    """
    window = _window(*usual_window(source), language)
    parts = {
        "symbol": ", ".join(symbols) or _ALL[language],
        "window": window,
        "strategy": DEFAULT_STRATEGY[language],
    }
    if plan_without is None:
        return parts.get(kind)
    join = "，" if language == "zh" else ", "
    return join.join(text for part, text in parts.items() if part == kind or part not in plan_without)


MAX_CLARIFICATIONS = 3
"""Questions that one request may put to the user."""
SAME_ERROR_LIMIT = 2
"""Times that an error may occur before the user is asked."""
CAUSALITY_ERRORS = ("not_causal", "causality_undecided")
"""Codes of a signal that uses the future or was not proved not to; at the second time the user is asked."""

_VENDOR_ERRORS = {
    kind.code for kind in (NoData, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)
}
"""Codes of a vendor that is down, refuses, or has no data yet."""


def initial_state(max_retries: int = 3) -> Update:
    """Return all fields except the messages as they are at the start of a request."""
    return {
        "current_task": "reflection",
        "data_ready": False,
        "indicators_ready": False,
        "signal_ready": False,
        "user_intent": {},
        "clarification_needed": None,
        "clarification_count": 0,
        "execution_history": [],
        "error_messages": [],
        "max_retries": max_retries,
        "retry_count": 0,
        "params": {},
        "checked": {},
        "clarification": None,
        "failures": [],
        "assumptions": [],
        "waived": [],
        "waived_symbols": [],
        "accepted_bars": [],
        "moves": [],
        "accepted_code": None,
        "answers": [],
        "confirmed": None,
        "open_question": None,
        "answering": None,
        "ignored_message_ids": [],
        "trail": [],
        "strategy": {},
        "attempts": [],
        "generated": 0,
        "sent_back": [],
        "validation": {},
        "ended": False,
    }


def user_text(state: SignalSubgraphState) -> str:
    """Return the user's messages of this request, one a line, without the ignored ones."""
    return _joined_text(state, dialogue_of(state)["ignored_message_ids"])


def request_text(state: SignalSubgraphState) -> str:
    """Return the same without the answers, which :func:`answered_questions` has."""
    answers = [answer["message"] for answer in dialogue_of(state)["answers"]]
    return _joined_text(state, [*dialogue_of(state)["ignored_message_ids"], *answers])


def sentence_text(state: SignalSubgraphState) -> str:
    """Return the user's messages without the answers that were defaults."""
    defaults = [answer["message"] for answer in dialogue_of(state)["answers"] if answer["by"] == "default"]
    return _joined_text(state, [*dialogue_of(state)["ignored_message_ids"], *defaults])


def answered_questions(state: SignalSubgraphState) -> list[dict[str, str]]:
    """Return the questions of this request with their answers, without the ignored ones, for a prompt."""
    ignored = dialogue_of(state)["ignored_message_ids"]
    return [
        {"question": each["question"], "answer": each["answer"], "by": each["by"]}
        for each in dialogue_of(state)["answers"]
        if each["message"] not in ignored
    ]


def _joined_text(state: SignalSubgraphState, left_out: Collection[str]) -> str:
    return "\n".join(str(message.text) for message in user_messages(state) if str(message.id) not in left_out)


def answer_update(
    state: SignalSubgraphState,
    task: Clarification,
    text: str,
    *,
    message: str,
    by: Literal["person", "callable", "default"] = "person",
) -> Update:
    """Return the update for an answer: the question is closed and the attempts start again."""
    dialogue = dialogue_of(state)
    waived, symbols = list(dialogue["waived"]), list(dialogue["waived_symbols"])
    kinds = ("symbol", "fields", "plan", "strategy")
    gone = is_waiver(text, task["unread"], task["language"])
    gone = gone or (task["kind"] == "plan" and restates_without(text, task["unread"]))
    if task["kind"] in kinds and gone:
        waived += task["unread"]
        symbols += task["unread"] if task["kind"] == "symbol" else []
    waived += [words for words in _also_waived(text, task) if words not in waived]
    answered: QuestionAnswered = {
        "question": task["question"] or task["reason"],
        "answer": text,
        "by": by,
        "message": message,
    }
    return {
        "waived": waived,
        "waived_symbols": symbols,
        "answers": [*dialogue["answers"], answered],
        "answering": task,
        "clarification_needed": None,
        "clarification": None,
        "clarification_count": state.get("clarification_count", 0) + 1,
        "retry_count": 0,
        "failures": [],
        "sent_back": [],
        "trail": [],
        **answered_attempts(progress_of(state)["attempts"], task["reason"], text),
        **success_update(state, f"clarified: {text}"),
    }


_PIECES = re.compile(r"[,，;；。\n]|\band\b", re.IGNORECASE)  # "市值，换手率"
_NAMED = re.compile(r"[a-z]{4,}|\d+|[\u4e00-\u9fff]{2}", re.IGNORECASE)  # "换手"
_ALL_OF_THEM = re.compile(r"都|全|\b(?:all|both|them|those)\b", re.IGNORECASE)  # "all of them"


def _also_waived(text: str, task: Clarification) -> list[str]:
    """Return the words of what was open that a piece of an answer gives up."""
    pieces = [piece for piece in _PIECES.split(text) if is_waiver(piece.strip(), [], task["language"])]

    def is_meant(words: str, piece: str) -> bool:
        named, own_names = ({each.casefold() for each in _NAMED.findall(each)} for each in (words, piece))
        return bool(named & own_names or _ALL_OF_THEM.search(piece))

    open_words = [*task.get("also_unread", ()), *(task["unread"] if task["kind"] == "plan" else ())]
    return [
        words
        for words in open_words
        if gives_up(text, words) or any(is_meant(words, piece) for piece in pieces)
    ]


def read_messages(messages: Any) -> list[AnyMessage]:
    """Return the messages of a node that runs alone, which may be in any form that LangChain reads.

    Raises
    ------
    BadOption
        If one of them is no message.
    """
    try:
        return cast("list[AnyMessage]", convert_to_messages(messages))
    except (ValueError, NotImplementedError) as error:
        raise BadOption(f"messages: {str(error).splitlines()[0]}", parameter="messages") from None


_STEPS = {
    "data_fetch": Note(zh="取数据", en="Fetching the data"),
    "validate data": Note(zh="检查数据", en="Checking the data"),
}
_CODE = Note(zh="按这些话写代码", en="Code for these words")


def failure_update(state: SignalSubgraphState, node: str, errors: Sequence[str]) -> Update:
    """Return the update of a failed attempt: it is counted; after too many the user is asked.

    Its errors are the generation's last attempt's, unless it has errors of its own.
    """
    count = state.get("retry_count", 0) + 1
    failures = [*progress_of(state)["failures"], errors[0]]
    update: Update = {
        "error_messages": list(errors),
        "execution_history": extended_history(state, f"{node} failed (attempt {count}): {errors[0]}"),
        "retry_count": count,
        "failures": failures,
        "attempts": with_errors(progress_of(state)["attempts"], errors),
    }
    if _is_repeated(failures) or count >= state.get("max_retries", 3):
        what = _STEPS.get(node, _CODE).text(language(state))
        reason = say(
            language(state),
            zh=f"{what}试了 {count} 次都没有成功。换一种说法、换股票，还是换时间范围？"
            f"（最后一次的错误代码：{errors[0].partition(':')[0]}）",
            en=f"{what} did not succeed in {count} tries. Shall I use other words, other stocks or other "
            f"dates? (The last one: {errors[0]})",
        )
        update |= question_update(changed(state, update), "failure", reason)
    return update


Worded = Literal["", "code", "model"]


def question_update(
    state: SignalSubgraphState,
    kind: ClarificationKind,
    reason: str,
    *,
    words: Sequence[str] = (),
    options: Sequence[str] = (),
    worded: Worded = "code",
) -> Update:
    """Return the update that asks the user; after the last allowed question, the one that ends the run."""
    count = state.get("clarification_count", 0)
    if count >= MAX_CLARIFICATIONS and kind != "confirmation":
        # The errors of a failure are in the state already, unless they were just answered.
        return (
            end_update(state, failure_reason(state))
            if kind == "failure" and progress_of(state)["failures"]
            else end_update(state, "needs_answer", f"needs_answer: {reason}")
        )
    identifier = question_id(state, len(state["messages"]), kind, reason, count)
    return {
        "clarification_needed": reason,
        "clarification": {
            "id": identifier,
            "kind": kind,
            "reason": reason,
            "worded": worded,
            "question": "",
            "options": list(options),
            "default": None,
            "answer_schema": answer_schema(identifier),
            "rounds_left": max(0, MAX_CLARIFICATIONS - count - 1),
            "language": language(state),
            "unread": list(words),
        },
        "current_task": "clarify",
    }


def first_question_update(state: SignalSubgraphState, source: MarketDataSource, makes_signal: bool) -> Update:
    """Return the question what to trade, after a greeting or without any message, with a whole request."""
    words, greets = language(state), bool(user_messages(state))
    if not makes_signal:
        reason = say(words, zh="请说明要交易哪些股票。", en="Please name the stocks to trade.")
        return question_update(state, "symbol", reason)
    greeting = say(words, zh="您好！", en="Hello! ") if greets else ""
    example = whole_request(source, words)
    reason = say(
        words,
        zh=f"{greeting}请说说您的策略：交易什么、哪段时间、什么时候买卖。例如“{example}”。",
        en=f"{greeting}Please describe your strategy: what to trade, in which dates, when to buy and "
        f'when to sell. For example "{example}".',
    )
    return question_update(state, "strategy", reason, options=[example])


def plan_question_update(state: SignalSubgraphState, words: Sequence[str], rest: str) -> Update:
    """Return the question about what nothing executes, in the person's words, with the rule that is left."""
    user_language, quoted = language(state), ", ".join(f'"{each}"' for each in words)
    left = say(
        user_language, zh=f"去掉的话，执行的是：{rest}。", en=f"Without it, this is what runs: {rest}. "
    )
    reason = say(
        user_language,
        zh=f"目前做不到：「{'」「'.join(words)}」。{left if rest else ''}去掉它继续吗？",
        en=f"This cannot be done: {quoted}. {left if rest else ''}Go on without it?",
    )
    option = without_words(words, user_language)
    return question_update(state, "plan", reason, words=words, options=[option])


def open_lines(others: Sequence[str], language: Language) -> str:
    """Return the lines behind a question that list what else is open; one answer may settle several."""
    if not others:
        return ""
    head = say(language, zh="还有待确认（可以一起回答）：", en="Also open (one answer may settle several):")
    return f"\n{head}" + "".join(f"\n- {each}" for each in others)


def failure_reason(state: SignalSubgraphState) -> EndedBecause:
    """Return why attempts ended: future data, the vendor, the same error repeatedly, or too many errors."""
    failures = progress_of(state)["failures"]
    last = failures[-1].partition(":")[0] if failures else ""
    if last in CAUSALITY_ERRORS:
        return "causality_failed"
    if last in _VENDOR_ERRORS:
        return "data_unavailable"
    return "repeated_error" if _is_repeated(failures) else "max_retries"


def _is_repeated(failures: Sequence[str]) -> bool:
    """Whether an error occurred more often than allowed; a use of the future is allowed once."""
    limits = {error: 1 if error.startswith(CAUSALITY_ERRORS) else SAME_ERROR_LIMIT for error in failures}
    return any(failures.count(error) > limit for error, limit in limits.items())


def repeat_question_update(
    state: SignalSubgraphState,
    kind: str,
    params: Mapping[str, Any],
    words: Sequence[str],
    reason: str,
    *,
    worded: Worded = "code",
) -> dict[str, Any]:
    """Return the update that asks the last question again; empty if its answer was useful.

    An answer is not useful if some of its words were not understood, and either the same question arises
    again, or a part that was known is lost.
    """
    task = dialogue_of(state)["answering"]
    if not task:
        return {}
    answer = user_messages(state)[-1]
    ignored = [*dialogue_of(state)["ignored_message_ids"], str(answer.id)]
    earlier = _plain(user_text(changed(state, {"ignored_message_ids": ignored})))
    not_understood = [
        word for word in map(_plain, words) if word in _plain(answer.text) and word not in earlier
    ]
    known = state.get("user_intent", {}).get("params", {})
    lost = any(known.get(name) and not value for name, value in params.items())
    same = kind == task["kind"]
    if not not_understood or not (lost or (same and kind != "strategy")):
        return {}
    if not same:
        user_language = language(state)
        before = task["reason"].removeprefix(_not_understood(task["unread"], user_language))
        kind, reason = task["kind"], _not_understood(words, user_language) + before
    line = f"{task['kind']}: {answer.text} ("
    return {
        "ignored_message_ids": ignored,
        "answering": None,
        "reflected_on": answer.id,
        "assumptions": [each for each in dialogue_of(state)["assumptions"] if not each.startswith(line)],
        **question_update(state, task["kind"], reason, words=words, options=task["options"], worded=worded),
    }


def _plain(text: object) -> str:
    """Normalise widths, number words, case and spaces, which a model may have changed."""
    return " ".join(normalise(str(text)).casefold().split())


def _not_understood(words: Sequence[str], language: Language) -> str:
    if not words:
        return ""
    return say(
        language,
        zh=f"这部分我没有读懂：{'；'.join(words)}。",
        en=f"I could not read this: {'; '.join(words)}. ",
    )
