"""What the keyless planner answers: texts for people in two languages, and arguments of tools."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from quantgraph._util.texts import Language, say, simplified
from quantgraph.errors import BadWindow
from quantgraph.rules import in_words
from quantgraph.sentences import (
    Missing,
    ParsedRequest,
    RequestContext,
    clean_words,
    malformed_dates,
    normalise,
    read_request,
    without_dates,
    write_code,
)

_EXAMPLES: dict[Missing, tuple[str, str]] = {
    "symbols": (
        "例如 600519.SH、000001.SZ，指数成分股如“沪深300成分股”，或者“全部股票”",
        "for example 600519.SH, 000001.SZ, the members of an index such as CSI 300, or all stocks",
    ),
    "window": (
        "例如 20240101 到 20241231、“2024年”或“最近一年”",
        "for example 20240101 to 20241231, 2024, or the last 6 months",
    ),
    "strategy": (
        "例如“5日均线上穿20日均线买入，下穿卖出”或“RSI(14)低于30买入，高于70卖出”",
        'for example "buy when the 5-day SMA crosses above the 20-day SMA, sell when it crosses below" '
        'or "buy when RSI(14) is below 30, sell when it is above 70"',
    ),
    "plan": ("例如“不要它，继续”", 'for example "go on without it"'),
}

_QUESTIONS: dict[Missing, tuple[str, str]] = {
    "symbols": ("请问要看哪些股票", "Which stocks should I use"),
    "window": ("请问要用哪段时间的数据", "Which dates should I use"),
    "strategy": ("请问买入和卖出的条件是什么", "What are the conditions to buy and to sell"),
    "plan": ("请问不要它、继续吗", "Shall I go on without it"),
}

_FAMILY = (
    "均线交叉（SMA/EMA）、价格与均线、MACD、RSI、布林带、KDJ、N日动量（阈值或排名）、N日新高新低、成交量与均量、"
    "市盈率/市净率/市销率/换手率（阈值或排名），以及它们的且、或、非组合",
    "moving-average crosses (SMA, EMA), price against its average, MACD, RSI, Bollinger bands, KDJ, N-day momentum (threshold or "
    "rank), N-day highs and lows, volume against its average, PE/PB/PS/turnover (threshold or rank), and these "
    "joined by and, or, not",
)


def _pick(texts: tuple[str, str], language: Language) -> str:
    return say(language, zh=texts[0], en=texts[1])


def introduction(language: Language) -> str:
    """What the planner is, and which sentences it reads."""
    family, example = _pick(_FAMILY, language), _pick(_EXAMPLES["strategy"], language)
    return say(
        language,
        zh=f"我是免密钥规划器（keyless planner），不是语言模型：我按固定规则读懂一类策略句子：{family}。{example}。",
        en="I am the keyless planner, not a language model: I read a documented family of strategy sentences "
        f"by fixed rules: {family}; {example}.",
    )


def _example(about: Missing, language: Language, codes: Sequence[str]) -> str:
    """Examples of an answer; for stocks the source's, if it gives any."""
    if about != "symbols" or not codes:
        return _pick(_EXAMPLES[about], language)
    return say(
        language,
        zh=f"例如 {'、'.join(codes)}，或者“全部股票”",
        en=f"for example {', '.join(codes)}, or all stocks",
    )


def question(
    about: Missing, unparsed: Sequence[str], language: Language, examples: Sequence[str] = ()
) -> str:
    """A question about one missing part, with examples, which names the unparsed words.

    ``examples`` are codes or index names of the source, in place of the default examples.
    """
    ask, example = _pick(_QUESTIONS[about], language), _example(about, language, examples)
    if language == "zh":
        head = f"这部分我没有读懂：{'；'.join(unparsed)}。" if unparsed else ""
        return f"{head}{ask}？{example}。"
    head = f"I could not read this: {'; '.join(unparsed)}. " if unparsed else ""
    return f"{head}{ask}? {example[0].upper()}{example[1:]}."


def next_question(request: ParsedRequest, examples: Sequence[str] = ()) -> str | None:
    """The question about the first missing part; None if nothing is missing.

    If every part is missing and words are unparsed, it shows a whole readable sentence.
    """
    if not request.missing:
        return None
    about, language = request.missing[0], request.language
    if about == "window" and request.windows:
        return several_spans(request.windows, language)
    if about == "plan":
        return not_executed([clause.words for clause in request.open], language)
    text = question(about, request.unparsed, language, examples)
    if about == "strategy" and request.can_go_on:
        return text + say(
            language,
            zh="也可以回答“不要它，继续”：其余的照做，没有读懂的部分不执行，结果里会写明。",
            en=' Or answer "go on without it": the rest is done, and the result names what was left out.',
        )
    if not {"symbols", "window", "strategy"} <= set(request.missing) or not request.unparsed:
        return text
    code = examples[0] if examples else "600519.SH"
    return text + say(
        language,
        zh=f"也可以一句话说完：“{code}，最近一年，5日均线上穿20日均线买入，下穿卖出”。",
        en=f' Or say it all in one sentence: "{code}, past year, buy when the 5-day average crosses above the '
        '20-day average, sell when it crosses below".',
    )


def not_executed(clauses: Sequence[str], language: Language) -> str:
    """The question about clauses that are read and not executed, with the way to go on without them."""
    return say(
        language,
        zh=f"这些我读懂了，但不能执行：{'；'.join(clauses)}。不要它、继续吗？例如回答“不要它，继续”，就只按买卖条件交易，结果里会写明没有执行；也可以重说一遍策略。",
        en=f"I understand this but cannot do it: {'; '.join(clauses)}. Shall I go on without it? For example, "
        '"go on without it" trades the conditions alone, and the result names what was not done; or say the strategy again.',
    )


def several_spans(spans: Sequence[tuple[str, str]], language: Language) -> str:
    """The question after several spans of dates, which are not joined."""
    named = [f"{start}-{end}" for start, end in spans]
    return say(
        language,
        zh=f"您说了 {len(named)} 段时间（{'、'.join(named)}），一次只能跑一段，也不会把它们连成一段。请问用哪一段？例如 {named[0]}。",
        en=f"You named {len(named)} spans of dates ({', '.join(named)}); one run takes one span, and they are not joined. "
        f"Which one should I use? For example {named[0]}.",
    )


def date_question(why: str, language: Language) -> str:
    """The question after a malformed date."""
    head = say(language, zh=f"日期无法识别（{why}）。", en=f"The date cannot be used ({why}). ")
    return head + question("window", (), language)


def rule_text(request: ParsedRequest) -> str:
    """Entry and exit of the rule; empty without a strategy."""
    rule = request.strategy
    if rule is None:
        return ""
    entry, exit_ = in_words(rule.entry, request.language), in_words(rule.exit, request.language)
    return say(request.language, zh=f"买入：{entry}；卖出：{exit_}", en=f"buy: {entry}; sell: {exit_}")


def analysis(request: ParsedRequest, errors: str) -> str:
    """One or two sentences on what was read and which step failed before."""
    zh = request.language == "zh"
    parts: list[str] = []
    if request.symbols:
        parts.append(("标的 " if zh else "symbols ") + ",".join(request.symbols))
    if request.start or request.end:
        parts.append(("时间 " if zh else "window ") + f"{request.start or '?'}-{request.end or '?'}")
    if rule := rule_text(request):
        parts.append(rule)
    if request.unparsed:
        parts.append(("未读懂 " if zh else "not read: ") + "; ".join(request.unparsed))
    read = ("读到：" if zh else "Read: ") + ("；" if zh else "; ").join(parts or ["无" if zh else "nothing"])
    end = "。" if zh else "."
    if not errors:
        return read + end
    first = errors.strip().splitlines()[0]
    failed = "之前的步骤失败：" if zh else "An earlier step failed: "
    cannot = "。我不能修复代码。" if zh else ". I cannot repair code."
    return f"{failed}{first}{cannot}{'' if zh else ' '}{read}{end}"


_KINDS: dict[str, Missing] = {"symbol": "symbols", "window": "window", "strategy": "strategy"}


def clarification(
    reason: str, kind: str, round_: int, language: Language, examples: Sequence[str] = ()
) -> str:
    """The question of a clarification, with a greeting and, if it has none, an example."""
    zh = language == "zh"
    about = _KINDS.get(kind)
    text = reason.strip() or (question(about, (), language, examples) if about else "")
    if not text:
        text = "执行没有成功，要换一只股票、换一段时间还是换一个策略" if zh else "The run did not succeed"
    has_example = any(word in text.lower() for word in ("例如", "比如", "for example", "e.g."))
    if about and not has_example:
        text = f"{text.rstrip('。.')}{'（' if zh else ' ('}{_example(about, language, examples)}{'）' if zh else ')'}"
    if kind == "failure" and "?" not in text and "？" not in text:
        ask = _pick(
            ("要换股票、换时间还是换策略？", " Shall we change the stocks, the dates or the strategy?"),
            language,
        )
        text = f"{text.rstrip('。.')}{'。' if zh else '.'}{ask}"
    greeting = ("您好！", "Hello! ") if round_ <= 1 else ("还差一点：", "One more thing: ")
    return _pick(greeting, language) + text


def fetched(symbols: str, start: str, end: str, fields: Sequence[str], language: Language) -> str:
    """One line after a successful fetch."""
    zh = f"以及指标 {','.join(fields)}" if fields else ""
    en = f" and the indicators {', '.join(fields)}" if fields else ""
    return say(
        language,
        zh=f"已获取 {symbols} 从 {start} 到 {end} 的日线{zh}。",
        en=f"Fetched daily bars{en} of {symbols} from {start} to {end}.",
    )


def fetch_failure(tool: str, text: str, language: Language) -> str:
    """One line after a data tool failed; the call is not repeated."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return say(
        language,
        zh=f"{tool} 失败：{line}。同样的调用不会再试。",
        en=f"{tool} failed: {line} The same call is not tried again.",
    )


def stored(name: str, rule: str, language: Language) -> str:
    """Summary after the signal was stored. It has no counts: sessions before the window may change them."""
    return say(language, zh=f"信号 {name} 已生成。{rule}。", en=f"Stored the signal {name}: {rule}.")


def strategy_failure(text: str, language: Language) -> str:
    """One line after the code failed."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    return say(
        language,
        zh=f"代码没有成功，没有信号：{last}",
        en=f"The code did not succeed, there is no signal: {last}",
    )


def strategy_question(unparsed: Sequence[str], language: Language) -> str:
    """The question after a strategy outside the family."""
    return question("strategy", unparsed, language)


def _with_codes(text: str, names: Mapping[str, str]) -> str:
    """The text with codes in place of names, so that it reads the same without them."""
    if any(name in simplified(text) and name not in text for name in names):
        text = simplified(text)
    for name in sorted(names, key=len, reverse=True):
        if name:
            text = re.sub(re.escape(name), f" {names[name]} ", text, flags=re.IGNORECASE)  # "贵州茅台"
    return text.strip()


def _as_written(words: str, text: str) -> str:
    """Words of a clause as the person wrote them, if they are found again: ``三成资金`` for 30%资金.

    >>> _as_written("定投 5000元", "每月定投600900.SH5000元，2025年"), _as_written("30%资金", "用三成资金买")
    ('定投600900.SH5000元', '三成资金')
    """
    pieces = map(clean_words, re.split(r"[,，;；。\n]", text))  # "茅台，20日均线"
    if (
        whole := next((piece for piece in pieces if clean_words(normalise(piece)) == words), None)
    ) is not None:
        return whole
    parts = re.split(r"\d+(?:\.\d+)?%?", words)  # "跌5%"
    number = r"[\d.,%一二两三四五六七八九十百千万成半]{1,8}"
    between = r"[^,，;；。\n]{0,24}?"  # a security, where the words have a gap
    found = re.search(number.join(re.escape(part).replace(r"\ ", between) for part in parts), text)
    return found[0] if found and _numbers(words) <= _numbers(normalise(found[0])) else words


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))  # "20"


def _understood(request: ParsedRequest, text: str) -> dict[str, Any]:
    """What is watched and traded, the spans, the rule's clauses, the plan that is executed, and what differs from the sentence."""
    watch, trade = ",".join(request.watch), ",".join(request.trade)
    whole = ",".join(request.symbols)
    open_ = [
        {"quote": _as_written(clause.words, text), "became": "", "status": "not_done"}
        for clause in request.open
    ]
    not_done = {clause.key for clause in request.open}
    settled = [
        {
            "quote": _as_written(note.words, text),
            "became": note.became.text(request.language),
            "status": note.status,
        }
        for note in request.clauses
    ]
    rules = _rule_clauses(request, text)
    return {
        "watch": "" if watch == trade and not request.reads_index else watch,
        "trade": "" if trade == whole else trade,
        "windows": [list(span) for span in request.windows],
        "entry": "entry" if rules else request.entry,
        "exit": "exit" if len(rules) > 1 else "" if rules else request.exit,
        "plan": {key: value for key, value in request.plan.items() if key not in not_done},
        "clauses": [*rules, *settled, *open_],
    }


def _rule_clauses(request: ParsedRequest, text: str) -> list[dict[str, Any]]:
    """Entry and exit as conditions of the rule language, in the person's words."""
    if request.strategy is None:
        return []
    entry, leave = write_code(request.strategy, request.watched).rule.expressions
    sides = {"entry": (request.entry, entry), "exit": (request.exit, leave)}
    return [
        {"name": name, "quote": _as_written(words, text), "rule": rule}
        for name, (words, rule) in sides.items()
        if rule != "never()"
    ]


def _needs_answer(request: ParsedRequest) -> bool:
    """Whether a part is unclear. The host asks itself about several spans, and about clauses that nothing executes."""
    named = {"plan", *(["window"] if request.windows else [])}
    return not named.issuperset(request.missing)


def reflection_answer(
    request: ParsedRequest, text: str, context: RequestContext, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """The reflection's decision: the request as read, the question, and the next action.

    ``facts`` is the context of the prompt, ``errors`` the errors of earlier steps.
    """
    unclear = request.missing[:1] if _needs_answer(request) else ()
    asked = unclear[0] if unclear else None
    query = next_question(request, context.examples) if unclear else None
    start, end = request.windows[0] if request.windows else (request.start, request.end)
    if asked is not None:
        action = "clarify"
    elif facts.get("signal_ready") is True and not errors:
        action = "validate"
    elif request.intent != "data_fetch" and facts.get("data_ready") is True:
        action = "signal_generate"
    else:
        action = "data_fetch"
    return {
        "analysis": analysis(request, errors),
        "task_type": request.intent,
        "next_action": action,
        "user_intent": {
            "type": request.intent,
            "params": {
                "ts_code": ",".join(request.symbols),
                "start_date": start or "",
                "end_date": end or "",
                "strategy_desc": _with_codes(text, context.names) if request.strategy else "",
                "required_indicators": list(request.fields),
                **_understood(request, text),
            },
            "needs_clarification": asked is not None,
        },
        "clarification_question": query,
        "usual_answers": True,
        "reasoning": introduction(request.language),
        "unread": list(request.unparsed),
    }


def malformed_date_answer(
    error: BadWindow, text: str, context: RequestContext, facts: Mapping[str, Any], errors: str
) -> dict[str, Any]:
    """The decision on a request without its malformed dates, which are then missing."""
    lines = [normalise(line) for line in text.splitlines()]
    dates = tuple(dict.fromkeys(found for line in lines for found in malformed_dates(line)))
    rest = [without_dates(line) for line in lines]
    request = read_request("\n".join(rest), context)
    missing: tuple[Missing, ...] = tuple(dict.fromkeys((*request.missing[:1], "window", *request.missing)))
    if "symbols" not in request.missing:
        missing = ("window", *(part for part in request.missing if part != "window"))
    unparsed = (*dates, *request.unparsed)
    request = replace(request, start=None, end=None, missing=missing, unparsed=unparsed)
    found = reflection_answer(request, "\n".join(map(clean_words, rest)), context, facts, errors)
    if missing[0] == "window":
        found["clarification_question"] = date_question(error.message, request.language)
    return found


CODE_TOOL = "python_repl"
"""The tool whose ``query`` is code."""

Tool = Mapping[str, Any]
"""A bound tool in OpenAI's form, the part under ``function``."""


def tool_parameters(tool: Tool) -> dict[str, Any]:
    """Parameters of a tool by name."""
    properties = (tool.get("parameters") or {}).get("properties")
    return properties if isinstance(properties, dict) else {}


def request_facts(request: ParsedRequest, text: str, examples: Sequence[str] = ()) -> dict[str, Any]:
    """The request by the argument names that a schema may use; empty values for unparsed parts.

    ``examples`` belong to the question about the stocks.
    """
    described = text if request.strategy else ""
    return {
        "ts_code": ",".join(request.symbols),
        "ts_codes": list(request.symbols),
        "symbol": ",".join(request.symbols),
        "symbols": list(request.symbols),
        "start_date": request.start or "",
        "start": request.start or "",
        "end_date": request.end or "",
        "end": request.end or "",
        "strategy_desc": described,
        "strategy": described,
        "type": request.intent,
        "task_type": request.intent,
        "intent": request.intent,
        "required_indicators": list(request.fields),
        "fields": ",".join(request.fields),
        "indicators": list(request.fields),
        "language": request.language,
        "missing": list(request.missing),
        "unread": list(request.unparsed),
        "needs_clarification": bool(request.missing),
        "clarification_question": next_question(request, examples),
        "query": _source(request),
    }


def _source(request: ParsedRequest) -> str:
    if request.strategy is None:
        return ""
    return write_code(request.strategy, request.watched).source


def _as_type(value: Any, schema: Mapping[str, Any]) -> Any:
    """A text as a list, or a list as a text, as the schema needs."""
    kind = schema.get("type")
    if kind == "array" and isinstance(value, str):
        return [part for part in value.split(",") if part]
    if kind == "string" and isinstance(value, list):
        return ",".join(value)
    return value


def fill_arguments(tool: Tool, facts: Mapping[str, Any], forced: bool) -> dict[str, Any] | None:
    """Arguments of a tool from the facts; None if a required one was not read."""
    properties = tool_parameters(tool)
    required = (tool.get("parameters") or {}).get("required") or []
    if tool.get("name") != CODE_TOOL:
        facts = {key: value for key, value in facts.items() if key != "query"}
    args = {key: _as_type(facts[key], schema) for key, schema in properties.items() if key in facts}
    if any(key not in args for key in required):
        return None
    if not forced and any(args[key] in ("", [], None) for key in required):
        return None
    kept = {key: value for key, value in args.items() if key in required or value not in ("", [], None)}
    return kept or None
