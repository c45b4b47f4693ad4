"""What was asked: codes, dates, and the leaves of clauses that a model read otherwise than the words say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Language, Note, say
from quantgraph.broker import plan_words
from quantgraph.data.symbols import index_code
from quantgraph.errors import BadOption
from quantgraph.rules import Rule, in_words, read_condition
from quantgraph.runtime.endings import language, user_messages
from quantgraph.runtime.graph_state import ClarificationKind, Update, dialogue_of
from quantgraph.sentences import PLAN_KEYS, ParsedRequest, write_code
from quantgraph.sentences.coverage import (
    QuotedClause,
    ReadingFault,
    left_words,
    plain,
    reading_faults,
    says_part,
)
from quantgraph.sentences.phrases import (
    joined_spans,
    possible_names,
    symbols_in,
    unlisted_capitals,
    watched_only,
    windows_in,
)
from quantgraph.subgraphs.signal._agents import ReflectionReply, on_schedule, rule_in, whole_plan
from quantgraph.subgraphs.signal._plan import executed_plan, parts_in
from quantgraph.subgraphs.signal._updates import is_default, is_waiver, question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import Symbols, symbols_of, understand, understanding_lines
from quantgraph.tools import split_codes

_TOLERANCE = pd.Timedelta(days=7)
"""Ends of a span that differ by less are the same: its first session may come days after its first day."""
_LOOK_BACK = pd.Timedelta(days=100)
_SPEAKS_OF_TIME = re.compile(  # "最近"
    r"年|月|季|周|天|日期|最近|以来|历史|全部数据|(?<!\d)(?:19|20)\d\d(?:\d{4})?(?!\d)|\bq[1-4]\b|year|month|quarter|week|day|since|until|last|past|ytd"
    r"|date|history|recent|all data",
    re.IGNORECASE,
)
_FULL_DAY = re.compile(r"(?<!\d)(?:\d{8}|\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{4}年\d{1,2}月\d{1,2})(?!\d)")
_FROM_OR_TO = re.compile(  # "截止"
    r"起|以来|至|到|开始|[以之]后|截止|from|since|until|till|\bto\b|after|onward", re.IGNORECASE
)
_LEAVES_OUT = re.compile(  # "剔除"
    r"不要|除了|剔除|排除|不含|代替|换成|里的|中的|except|instead|without|exclud|rather|\bnot\b|\bno\b",
    re.IGNORECASE,
)
_TEMPLATE = {"one or two sentences", "why", "same as task_type"}
"""Placeholders of the reflection prompt's template."""


@dataclass(frozen=True, kw_only=True)
class Misreading:
    """A difference between a reading and its sentence."""

    kind: Literal["symbol", "window", "plan", "rule"]
    note: Note
    quote: str = ""
    """The person's words that it is about."""
    certain: bool = True
    """Whether the text contradicts the reading; if not, a model that reads the same again is believed."""


def is_echo(reply: ReflectionReply) -> bool:
    """Whether a reply repeats the prompt's template, as small models do, and says nothing of the sentence."""
    params = reply.user_intent.params
    texts = (reply.analysis, reply.reasoning, params.strategy_desc)
    says_nothing = not params.ts_code or params.strategy_desc.strip().lower() in {"", *_TEMPLATE}
    return says_nothing and any(text.strip().lower() in _TEMPLATE for text in texts)


def reading_errors(
    params: Mapping[str, Any],
    text: str,
    *,
    sessions: pd.DatetimeIndex,
    names: Mapping[str, str],
    listed: Collection[str],
    fixed: Mapping[str, str],
) -> list[Misreading]:
    """Return where a reading differs from what the text names; capitals that are not ``listed`` are words."""
    found = list[Misreading]()
    if "ts_code" not in fixed:
        found = [*_symbol_errors(params, text, names, listed), *_role_errors(params, text, names, listed)]
    return found + ([] if "start_date" in fixed else _window_errors(params, text, sessions, fixed))


def clause_errors(
    state: SignalSubgraphState,
    params: Mapping[str, Any],
    names: Mapping[str, str],
    executes: Collection[str],
    read_again: ParsedRequest | None,
) -> list[Misreading]:
    """Return where the clauses of a reading differ from the words that they quote, number by number.

    What was waived, what a question was about already, and what a decider does not execute is none, nor is
    a reading that the keyless reader ``read_again`` in the same words.
    """
    if broken := [*_broken(params)]:
        return broken
    try:
        rule = rule_in(params)
        if rule is not None and read_again is not None and _same_rule(rule, params, read_again):
            return []
        clauses = [_quoted(each) for each in params["clauses"]]
    except BadOption as error:
        return [Misreading(kind="rule", note=Note(zh=error.message, en=error.message))]
    found = [*_unplanned(params, executes), *_combined(params)]
    dialogue, lines = dialogue_of(state), own_lines(state)
    last, text = dialogue["last_request"].get("clauses", ()), "\n".join(lines)
    before = "\n".join(each["quote"] for each in last)
    if not any(each["quote"] and each["part"] in {"entry", "exit"} for each in params["clauses"]):
        rest = lines[-1] if lines else ""  # which may replace those before
        for each in clauses:
            rest = rest.replace(each.quote, "…") if each.quote else rest
        words = [params["strategy_desc"], params["entry"], params["exit"], *params["required_indicators"]]
        clauses += [QuotedClause(quote=rest, became="; ".join(words))] if any(words) else []
    faults = reading_faults(
        text, clauses, names=_named(params, names), traded=len(symbols_of(params)["trade"]), before=before
    )
    plan = params["plan"].items()  # beside the clauses
    settled = [*dialogue["waived"], *(each["question"] for each in dialogue["answers"])]
    found += [
        Misreading(kind="rule", note=each.note, quote=each.quote, certain=not _is_earlier(each, lines))
        for each in faults
        if not _is_settled(each, lines, plain("\n".join(settled)), state)
        and (plain(each.quote) in plain(text) or plain(each.quote) not in plain(before))
        and not (each.kind == "unquoted" and last)  # what a change makes of the request is shown
        and not (each.kind == "unquoted" and any(says_part(each.quote, *part) for part in plan))
    ]
    return found + _left_behind(last, params["clauses"], text)


def _broken(params: Mapping[str, Any]) -> Iterator[Misreading]:
    """The clauses whose expressions are not of the language, each with the cure."""
    for clause in (each for each in params["clauses"] if each["rule"]):
        try:
            read_condition(clause["rule"], clause["name"] or "rule")
        except BadOption as error:
            zh, en = f"「{clause['quote']}」：{error.message}", f"“{clause['quote']}”: {error.message}"
            yield Misreading(kind="rule", note=Note(zh=zh, en=en), quote=clause["quote"])


def _same_rule(rule: Rule, params: Mapping[str, Any], again: ParsedRequest) -> bool:
    if again.strategy is None or again.unparsed:
        return False
    if on_schedule(write_code(again.strategy, again.watched).rule, again.plan.get("trade_on")) != rule:
        return False
    return executed_plan(whole_plan(params), PLAN_KEYS)[0] == executed_plan(again.plan, PLAN_KEYS)[0]


def _quoted(clause: Mapping[str, Any]) -> QuotedClause:
    named = {name: clause[name] for name in ("quote", "name", "plan", "became")}
    rule = read_condition(clause["rule"], clause["name"] or "rule") if clause["rule"] else None
    return QuotedClause(**named, rule=rule, done=clause["status"] == "done")


def _unplanned(params: Mapping[str, Any], executes: Collection[str]) -> Iterator[Misreading]:
    """Values that no plan has, and clauses of the plan without one."""
    done = [each for each in params["clauses"] if (each["part"], each["status"]) == ("plan", "done")]
    plan = dict(params["plan"])
    for clause in done:
        plan |= clause["plan"]
    said = {each["quote"]: parts_in(each, plan) for each in done}
    for name, why in executed_plan(plan, executes)[1].items():
        quote = next((each for each, parts in said.items() if name in parts), "")
        if why:
            yield Misreading(kind="plan", note=Note(zh=f"plan：{why}", en=f"plan: {why}"), quote=quote)
    for quote in (each for each, parts in said.items() if not parts):
        note = Note(zh=f"plan：没有什么执行「{quote}」", en=f"plan: nothing carries out “{quote}”")
        yield Misreading(kind="plan", note=note, quote=quote, certain=False)


def _named(params: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Codes by the names of securities, by themselves and without their market."""
    codes = [code for name in ("ts_code", "watch", "trade") for code in split_codes(params[name])]
    return {**names, **{each: code for code in codes for each in (code, code.partition(".")[0])}}


def _combined(params: Mapping[str, Any]) -> Iterator[Misreading]:
    """A condition that neither entry nor exit names."""
    used = re.findall(r"\w+", f"{params['entry']} {params['exit']}")  # "up and not quiet"
    for clause in params["clauses"]:
        if clause["rule"] and clause["status"] == "done" and clause["name"] not in used:
            name = clause["name"] or clause["quote"]
            en = f"neither entry nor exit names the clause {name!r}"
            note = Note(zh=f"entry 和 exit 都没有用到条款 {name}", en=en)
            yield Misreading(kind="rule", note=note, quote=clause["quote"])


_DROPS = re.compile(  # "去掉"
    r"去掉|不要|不用|取消|删|换|改|remove|drop|without|instead|replace|change|forget|skip|no longer",
    re.IGNORECASE,
)


def _left_behind(
    last: Sequence[Mapping[str, Any]], clauses: Sequence[Mapping[str, Any]], text: str
) -> list[Misreading]:
    """The clauses of the last request that its change leaves out without saying so."""
    before = [each for each in last if each["quote"] and each["status"] == "done"]
    quotes, old = {each["quote"] for each in clauses}, {each["quote"] for each in before}
    if not quotes & old or _DROPS.search(text):  # a new strategy, or less of it
        return []
    new = {each["part"] for each in clauses if each["quote"] not in old}
    gone = [each["quote"] for each in before if each["quote"] not in quotes and each["part"] not in new]
    notes = (Note(zh=f"「{each}」：上次有，这次没有", en=f"“{each}”: said before, and gone") for each in gone)
    return [Misreading(kind="rule", quote=each, note=note) for each, note in zip(gone, notes, strict=True)]


def lines_of(params: Mapping[str, Any], symbols: Symbols, words: Language) -> list[str]:
    """Return a reading in lines, before code has checked it."""
    span = {"start": params["start_date"], "end": params["end_date"]}
    return understanding_lines(understand(params, span, symbols, []), words)


def changed_lines(state: SignalSubgraphState, params: Mapping[str, Any]) -> list[str]:
    """Return what a message makes of the request before it, in two lines; none for another request."""
    last, words = dialogue_of(state)["last_request"], language(state)
    if not last.get("strategy_desc"):
        return []
    before, now = (lines_of(each, symbols_of(each), words) for each in (last, params))
    gone, new = ([each for each in before if each not in now], [each for each in now if each not in before])
    if gone == new or len(gone) == len(before):
        return []
    nothing = say(words, zh="无", en="nothing")
    labels = say(words, zh="原来|现在", en="before|now").split("|")
    return [f"{label} {' | '.join(each) or nothing}" for label, each in zip(labels, (gone, new), strict=True)]


def _is_settled(fault: ReadingFault, lines: Sequence[str], settled: str, state: SignalSubgraphState) -> bool:
    """Whether words were given up or asked about; an answer, and what was replaced, need no quote."""
    answered = plain("\n".join(each["answer"] for each in dialogue_of(state)["answers"]))
    may_go = _is_earlier(fault, lines) or plain(fault.quote) in answered
    gone = fault.kind == "unquoted" and (may_go or is_waiver(fault.quote, [], language(state)))
    return plain(fault.quote) in settled or gone


def _is_earlier(fault: ReadingFault, lines: Sequence[str]) -> bool:
    """Whether it is about a line that a later one may have changed."""
    return len(lines) > 1 and plain(fault.quote) not in plain(lines[-1])


def own_lines(state: SignalSubgraphState) -> list[str]:
    """The person's messages of this request, without answers that only take or leave what is offered."""
    dialogue = dialogue_of(state)
    taken = {
        each["message"]
        for each in dialogue["answers"]
        if each["by"] == "default"
        or is_default(each["answer"])
        or each["answer"] == AS_READ[language(state)]
        or each["answer"].startswith(TAKE_OTHER[language(state)])
        or is_waiver(each["answer"], [], language(state))
    }
    left_out = {*dialogue["ignored_message_ids"], *taken}
    return [str(each.text) for each in user_messages(state) if str(each.id) not in left_out]


def unparsed(
    state: SignalSubgraphState, params: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the person's words that no clause quotes and that change no trade."""
    quotes = [each["quote"] for each in params.get("clauses", ())]
    if not any(quotes):
        return ()
    found = left_words("\n".join(own_lines(state)), quotes, _named(params, names))
    return tuple(each for each in found if not symbols_in(each, {}))  # "茅台", which a code stands for


def doubts_noted(
    state: SignalSubgraphState, params: Mapping[str, Any], doubts: Sequence[Misreading]
) -> Update:
    """Return the update that names words which a model read twice in a way that code doubts."""
    check, before = say(language(state), zh="请核对", en="please check"), dialogue_of(state)["assumptions"]
    words, clauses = language(state), [each for each in params["clauses"] if each["quote"]]
    read = {each["quote"]: _in_words(each, words) for each in clauses}
    lines = dict.fromkeys(f"{check}: {each.quote} → {read.get(each.quote, '')}" for each in doubts)
    return {"assumptions": list(dict.fromkeys([*before, *lines]))} if doubts else {}


TAKE_OTHER: dict[str, str] = {"zh": "按另一种读法：", "en": "as in the other reading: "}
"""How the answer begins that takes the second of two readings."""
AS_READ: dict[str, str] = {"zh": "就按读到的做", "en": "go on as read"}
"""The answer that takes a reading as it is."""


def misread_update(
    state: SignalSubgraphState, params: Mapping[str, Any], misreadings: Sequence[Misreading]
) -> Update:
    """Return the question to a person about the first words that a model read otherwise, twice."""
    words, first = language(state), misreadings[0]
    if not first.quote:
        lines = "; ".join(each.note.text(words) for each in misreadings)
        zh = f"模型两次没有读对：{lines}。请说明您的意思。"
        en = f"The model misread this twice: {lines}. What did you mean?"
        kind: ClarificationKind = "strategy" if first.kind == "rule" else first.kind
        return question_update(state, kind, say(words, zh=zh, en=en), words=[lines])
    read = [each for each in params["clauses"] if plain(each["quote"]) == plain(first.quote)]
    became = "; ".join(filter(None, (_in_words(each, words) for each in read)))
    why = first.note.text(words).partition("：" if words == "zh" else ": ")[2]
    zh = f"目前读成“{became}”（{why}）。要这样吗？" if became else "这里应该怎么处理？"
    en = f"so far it reads “{became}” ({why}). Is that right?" if became else "what should happen with this?"
    zh, en = f"「{first.quote}」：{zh}", f"“{first.quote}”: {en}"
    options = [AS_READ[words]] if became else [without_words([first.quote], words)]
    return question_update(state, "strategy", say(words, zh=zh, en=en), words=[first.quote], options=options)


def _in_words(clause: Mapping[str, Any], words: Language) -> str:
    with suppress(BadOption):
        if clause["rule"]:
            return in_words(read_condition(clause["rule"]), words)
    planned = executed_plan(clause["plan"], PLAN_KEYS)[0]
    return "; ".join(plan_words(planned, words)) if planned else str(clause["became"])


def _symbol_errors(
    params: Mapping[str, Any], text: str, names: Mapping[str, str], listed: Collection[str]
) -> list[Misreading]:
    lines = [codes for line in text.splitlines() if (codes := symbols_in(line, names, listed))]
    named = tuple(dict.fromkeys(code for codes in lines for code in codes))
    listed = ",".join(str(params.get(name, "")) for name in ("ts_code", "watch", "trade"))
    read = dict.fromkeys(names.get(code) or index_code(code) or code.upper() for code in split_codes(listed))
    if not named or not read:
        return []
    found = []
    beside, capitals = possible_names(text, names, listed), unlisted_capitals(text, listed)
    capital = text.upper()  # a code may be written without its market
    not_named = [code for code in read if code not in named and code.partition(".")[0] not in capital]
    if len(not_named) > len(beside):  # else by names that only a model knows
        unsaid, others = ", ".join(not_named), ", ".join(named)
        zh = f"句子里没有 {unsaid}，只有 {others}"
        en = f"the sentence does not name {unsaid}; it names {others}"
        found.append(_error("symbol", zh=zh, en=en, certain=len(not_named) > len({*beside, *capitals})))
    missing = [code for code in lines[-1] if code not in read and code != "ALL"]
    unknown = (
        [] if missing or not_named else [word for word in beside if word in capitals and word not in read]
    )
    if (missing or unknown) and not _LEAVES_OUT.search(text):
        left_out = ", ".join(missing or unknown)
        en = f"the sentence names {left_out}, which the reading has neither in watch nor in trade"
        found.append(_error("symbol", zh=f"句子里有 {left_out}，解读里没有", en=en, certain=bool(missing)))
    return found


def _role_errors(
    params: Mapping[str, Any], text: str, names: Mapping[str, str], listed: Collection[str]
) -> list[Misreading]:
    """A code that the sentence only watches and the reading trades."""
    read = [names.get(code) or index_code(code) or code.upper() for code in symbols_of(params)["trade"]]
    if not (wrong := ", ".join(code for code in watched_only(text, names, listed) if code in read)):
        return []
    en = f"the sentence only watches {wrong} and trades others; the reading trades it: fill watch and trade"
    return [_error("symbol", zh=f"句子只观察 {wrong}，交易的是别的股票，而解读交易了它", en=en)]


def names_no_dates(text: str) -> bool:
    """Whether a text names no time, so that a reading's dates are not the user's.

    >>> names_no_dates("600519.SH golden cross"), names_no_dates("since the crash")
    (True, False)
    """
    return _SPEAKS_OF_TIME.search(text) is None


def names_one_day(text: str) -> bool:
    """Whether a text names one day alone, so that the other end of a span is not the user's.

    >>> names_one_day("600519.SH，2025年1月6日：金叉买入"), names_one_day("600519.SH since 2025-01-06")
    (True, False)
    """
    return len(_FULL_DAY.findall(text)) == 1 and _FROM_OR_TO.search(text) is None


def _error(kind: Literal["symbol", "window"], *, zh: str, en: str, certain: bool = True) -> Misreading:
    return Misreading(kind=kind, note=Note(zh=zh, en=en), certain=certain)


def _window_errors(
    params: Mapping[str, Any], text: str, sessions: pd.DatetimeIndex, fixed: Mapping[str, str]
) -> list[Misreading]:
    last_session = f"{sessions[-1]:%Y%m%d}"
    for clause in params.get("clauses", ()):  # "4月、8月不开新仓" is no window
        text = text.replace(clause["quote"], " ") if clause["rule"] or clause["plan"] else text
    start, end = params.get("start_date", ""), params.get("end_date", "")
    named = [span for span in windows_in(text, last_session) if not _looks_back(span, last_session)]
    named = [(first, fixed.get("end_date", last)) for first, last in named]
    read = [tuple(span) for span in params.get("windows") or ()] or ([(start, end)] if start and end else [])
    if not read or not named:
        return []
    read = [*joined_spans(read)] if len(named) == 1 else read
    spans, others = (", ".join(f"{first}-{final}" for first, final in each) for each in (named, read))
    if len(named) > 1 and not params.get("windows"):
        en = f"the sentence names several spans, {spans}: list them in windows"
        return [_error("window", zh=f"句子里有几段时间：{spans}", en=en)]
    if _all_among(read, named, sessions) and _all_among(named, read, sessions):
        return []
    zh = f"句子里的时间是 {spans}，不是 {others}"
    return [_error("window", zh=zh, en=f"the sentence says {spans}, not {others}")]


def _all_among(
    spans: Sequence[Sequence[str]], others: Sequence[Sequence[str]], sessions: pd.DatetimeIndex
) -> bool:
    return all(any(_same_span(span, other, sessions) for other in others) for span in spans)


def _looks_back(span: tuple[str, str], last_session: str) -> bool:
    """Whether a span may be the length of an indicator, counted back from the last session."""
    days = pd.to_datetime(pd.Series(span), errors="coerce", format="%Y%m%d")
    return span[1] == last_session and bool(days[1] - days[0] <= _LOOK_BACK)


def _same_span(one: Sequence[str], other: Sequence[str], sessions: pd.DatetimeIndex) -> bool:
    """Whether two spans are the same as far as there are data; a date that is not one is left to others."""
    if not all(re.fullmatch(r"\d{8}", day) for day in (*one, *other)):  # "20240102"
        return True
    low, high = f"{sessions[0]:%Y%m%d}", f"{sessions[-1]:%Y%m%d}"
    clipped = [min(max(day, low), high) for day in (*one, *other)]
    days = [*one, *other] if clipped[2] == clipped[3] else clipped
    dates = pd.to_datetime(pd.Series(days), errors="coerce", format="%Y%m%d")
    apart = (dates[:2] - dates[2:].to_numpy()).abs() > _TOLERANCE
    return not apart.any()
