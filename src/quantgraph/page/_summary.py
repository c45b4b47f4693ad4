"""The words of a page: how the run ended, its figures in a sentence, what was asked for and done."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from quantgraph._util.texts import Language, say
from quantgraph.audit import first_lines, issue_text
from quantgraph.broker import plan_words
from quantgraph.judgement import is_judged, verdict_line
from quantgraph.page._data import RunView
from quantgraph.page._drawings import axes_drawing, labels, words_of
from quantgraph.report.metrics import table_metrics

_CODE = re.compile(r"\b\d{6}\.(?:SH|SZ|BJ)\b|\b[A-Z][A-Z.]{0,5}\b")  # "600519.SH"
_SYNTHETIC = ("数据是合成的", "the data are synthetic")
"""How a note begins that a badge of the page says already."""


def ending(view: RunView) -> dict[str, str]:
    """How the run ended: whether well, and in a word."""
    because = view.result["ended_because"] or view.result["state"]
    title, _ = first_lines(view.result.get("validation") or {}, view.language)
    if because == "done" and title:
        return {"kind": "bad", "text": title}
    if because == "done":
        kind = "good" if is_judged(judgement_of(view)) else ""
        return {"kind": kind, "text": say(view.language, zh="完成", en="done")}
    endings = {
        "meaning_failed": say(
            view.language, zh="没有交易：代码与所说的不一致", en="not traded: code and sentence differ"
        ),
        "needs_answer": say(view.language, zh="在等待回答，没有结果", en="waits for an answer: no result"),
        "cancelled": say(view.language, zh="中途停止", en="stopped before its end"),
        "failed": say(view.language, zh="失败", en="failed"),
    }
    not_done = say(view.language, zh=f"没有完成（{because}）", en=f"not done ({because})")
    return {"kind": "bad", "text": endings.get(because, not_done)}


def open_findings(view: RunView) -> list[str]:
    """That a signal is not proved or sealed, and where its code departs from the sentence, a line each."""
    return first_lines(view.result.get("validation") or {}, view.language)[1]


def caption(view: RunView) -> str:
    """The small line over the title: data, window, and when it ran."""
    words, source = labels(view.language), str(view.result["source"]["name"])
    window, count = view.result.get("window") or {}, len(view.result.get("symbols") or ())
    parts = [words.get(f"source_{source}", source)]
    if window.get("start"):
        many = "security" if count == 1 else "securities"
        parts.append(say(view.language, zh=f"{count} 只证券", en=f"{count} {many}"))
        judged = ((view.result.get("equity") or {}).get("sessions") or (None, *window.values()))[1:]
        parts.append(f"{day_text(judged[0])} – {day_text(judged[-1])}")
    return " · ".join([*parts, decided_by(view)])


def decided_by(view: RunView) -> str:
    """Who decides, in words."""
    return words_of(view).get(f"decider_{view.decider}", view.decider)


def request_lines(view: RunView) -> Iterator[tuple[str, str]]:
    """The parts of the request: a line and its kind (``done``, ``default``, ``open``)."""
    words = labels(view.language)
    for line in view.understood:
        label = re.split("[:：（(]", line, maxsplit=1)[0].strip()  # "股票：600519.SH"
        kind = {
            words["clause_default"]: "default",
            words["clause_not_done"]: "open",
            words["clause_unparsed"]: "open",
        }
        yield kind.get(label, "done"), with_names(line, view.names)
    plan, understood = view.result.get("plan"), (view.result.get("understanding") or {}).get("plan")
    if plan and plan != understood:  # else it is among the lines
        parts = say(view.language, zh="、", en=", ").join(plan_words(plan, view.language))
        yield "done", say(view.language, zh=f"计划：{parts}", en=f"plan: {parts}")
    if question := view.result.get("open_question"):
        for number, text in enumerate(question.get("options") or [], 1):
            yield "default", f"{number}. {text}"
    for text in view.result.get("assumptions") or []:
        if not any(text in line for line in view.understood):
            yield "default", f"{words['assumed']}{say(view.language, zh='：', en=': ')}{text}"


def with_names(line: str, names: Mapping[str, str]) -> str:
    """A line with the names of its codes: ``990030.SH`` becomes ``合成30 (990030.SH)``.

    >>> with_names("traded: 990030.SH", {"990030.SH": "合成30"})
    'traded: 合成30 (990030.SH)'
    """
    return _CODE.sub(
        lambda found: f"{names[found[0]]} ({found[0]})" if names.get(found[0]) else found[0], line
    )


def facts(view: RunView) -> Iterator[tuple[str, list[str]]]:
    """What a reader should know beside: findings of the checks, costs, what the result cannot tell."""
    result, words = view.result, labels(view.language)
    issues = (result.get("validation") or {}).get("issues_found", [])
    others = (each for each in issues if not each["code"].startswith(("meaning", "own")))
    yield words["check"], [_issue(each, view.language) for each in others if each["severity"] != "info"]
    if proof := proof_text(result.get("causality"), view.language):
        yield words["proof"], [proof + _sessions_before(view)]
    if account := result.get("account"):
        yield words["size"], [_size(view)]
        yield words["compared_with"], list(_compared_with(view))
        yield words["cost"], [_costs(account["costs"], words, view.language)]
    notes = [note for note in result.get("notes") or [] if not note.startswith(_SYNTHETIC)]
    yield words["cannot_tell"], [*notes, *_limits(view)]


def _sessions_before(view: RunView) -> str:
    """How many of the sessions that were checked are before the window; empty if none is."""
    causality = view.result["causality"]
    count = causality["coverage"]["sessions"] - len(view.days) if causality["causal"] else 0
    if not view.result.get("account") or count <= 0:
        return ""
    return say(
        view.language,
        zh=f"（其中 {count} 个在交易之前，是均线等的起步期）",
        en=f" ({count} of them before the first trading day, for averages and the like to begin)",
    )


def not_done(view: RunView) -> list[str]:
    """Words of the sentence that were waived before it was traded."""
    clauses = (view.result.get("understanding") or {}).get("clauses") or []
    if not view.result.get("account"):
        return []
    agreed = say(view.language, zh="（同意去掉后运行）", en=" (it was agreed to go on without)")
    return [str(each["words"]) + agreed for each in clauses if each["status"] == "not_done" and each["words"]]


def _size(view: RunView) -> str:
    """How much a purchase takes, of the rule that trades a signal; who decides it, of another decider."""
    if view.decider == "execution":
        return say(
            view.language,
            zh="由智能体的选项固定，不由模型决定",
            en="fixed by the agent's options, not by its model",
        )
    if view.decider != "signal_rule":
        return say(view.language, zh=f"由{decided_by(view)}决定", en=f"chosen by the {decided_by(view)}")
    return plan_words(view.result.get("plan") or {}, view.language, len(view.result["symbols"]))[0]


def _compared_with(view: RunView) -> Iterator[str]:
    """What stands beside the account: buy and hold of which stocks, levels of which index."""
    words, benchmark, index = labels(view.language), view.result.get("benchmark"), view.result.get("index")
    if benchmark:
        count = benchmark["symbols"]
        yield say(
            view.language,
            zh=f"{words['benchmark']}：首日等额买入这 {count} 只，一直持有",
            en=f"{words['benchmark']}: the {count} traded in equal parts at the first open, and held"
            if count > 1
            else f"{words['benchmark']}: all cash in it at the first open",
        )
    if index:
        traded = (view.result.get("understanding") or {}).get("trade") or []
        known = view.result.get("symbols") or []
        name = "".join(view.names.get(code, code) for code in traded if code not in known)
        yield say(
            view.language,
            zh=f"指数：{name}点位，不计分红和费用",
            en=f"index: the levels{' of ' * bool(name)}{name}, without dividends and costs",
        )


def proof_text(causality: Mapping[str, Any] | None, language: Language) -> str:
    """The result of the look-ahead check in a sentence; empty without one."""
    if not causality:
        return ""
    coverage = causality["coverage"]
    if not causality["causal"] or coverage["method"] == "construction":
        return str(causality["text"]) if not causality["causal"] else labels(language)["proof_built"]
    part, whole = coverage["proved"], coverage["sessions"]
    if coverage["method"] == "sampled":
        return say(
            language,
            zh=f"未来函数检查通过，但只是抽样：{whole} 个交易日中检查了 {part} 个",
            en=f"passed, but sampled: checked at {part} of {whole} sessions",
        )
    return say(
        language,
        zh=f"未来函数检查通过：{whole} 个交易日的信号都只用当时已知的数据重算过，结果相同",
        en=f"passed: at each of {whole} sessions the signal is the same from what was known by then alone",
    )


def provenance(view: RunView, left_out: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Where the data come from, and what the page lacks."""
    words, source = labels(view.language), view.result["source"]
    name = words.get(f"source_{source['name']}", str(source["name"]))
    yield words["data"], [name, *(source.get("provenance") or ())]
    yield words["notes"], list(left_out)


def judgement_of(view: RunView) -> Mapping[str, Any]:
    """The judgement of a run; that of one that never traded where it has none."""
    return view.result.get("judgement") or {"verdict": "never traded", "short": False}


def verdict(view: RunView) -> str:
    """How far the figures can be believed, in a line; empty if nothing was traded."""
    judgement = view.result.get("judgement")
    return verdict_line(judgement, view.language) if judgement else ""


def tiles(view: RunView) -> list[dict[str, Any]]:
    """The six figures of the first screen; empty if nothing was traded."""
    account = view.result.get("account")
    if not account:
        return []
    words, texts = labels(view.language), {metric.name: metric for metric in table_metrics()}
    benchmark, judgement = view.result.get("benchmark") or {}, judgement_of(view)
    short = judgement["short"]

    def coloured(name: str) -> str:
        """Green for what the numbers speak for alone; a year's number of less than a year has no colour."""
        kind = "" if short and name == "annual_return" else way(account[name])
        return "" if kind == "gain" and not is_judged(judgement) else kind

    def beside(name: str) -> str:
        value = benchmark.get(name)
        return "" if value is None else f"{words['benchmark_short']} {texts[name].text(value)}"

    def tile(name: str, text: str = "", *, note: str = "", kind: str = "") -> dict[str, Any]:
        value = account.get(name)
        shown = text or ("–" if value is None else texts[name].text(value))
        return {
            "name": name,
            "label": words[f"tile_{name}"],
            "value": value,
            "text": shown,
            "beside": note,
            "kind": kind,
        }

    guessed = say(view.language, zh="不到一年，只是外推", en="of less than a year: a guess") if short else ""
    won = account.get("win_rate")
    count = account["trades"]
    fills = say(view.language, zh=f"成交 {count:,} 笔", en=f"{count:,} fill{'s' * (count != 1)}")
    rate = "" if won is None else say(view.language, zh=f"盈利 {won:.0%} · ", en=f"{won:.0%} won · ")
    return [
        tile("return", note=beside("return"), kind=coloured("return")),
        tile("annual_return", note=guessed or beside("annual_return"), kind=coloured("annual_return")),
        tile("sharpe", note=guessed or beside("sharpe")),
        tile("max_drawdown", note=_fall(account["drawdown"], view.language), kind=coloured("max_drawdown")),
        tile("round_trips", f"{account['round_trips']:,}", note=rate + fills),
        _proof_tile(view, words),
    ]


def first_screen(view: RunView) -> str:
    """The tiles, the sentence and the curve of a run as HTML that needs no style and no script."""
    cells = "".join(
        f"<td style='text-align:left;vertical-align:top'>{escape(tile['label'])}<br>"
        f"<b style='font-size:150%'>{escape(tile['text'])}</b><br>{escape(tile['beside'])}</td>"
        for tile in tiles(view)
    )
    equity = view.result.get("equity") or {}
    judged = f"<div><b>{escape(verdict(view))}</b></div>"
    told = f"{judged}<table><tr>{cells}</tr></table><div>{escape(sentence(view))}</div>"
    return told + axes_drawing(equity, view.language)


def _fall(dates: Mapping[str, str | None], language: Language) -> str:
    if dates["peak"] is None:
        return ""
    end = day_text(dates["trough"])
    recovered = say(language, zh="未恢复", en="not recovered") if dates["recovery"] is None else ""
    return " · ".join(filter(None, [f"{day_text(dates['peak'])} – {end}", recovered]))


def _proof_tile(view: RunView, words: Mapping[str, str]) -> dict[str, Any]:
    causality = view.result.get("causality")
    text, note, kind = words["proof_daily"], words["proof_daily_note"], ""
    if view.result.get("signal"):  # a frame of the caller's
        text, note, kind = words["proof_none"], words["proof_none_note"], "bad"
    if causality:
        coverage, passed = causality["coverage"], causality["causal"]
        sampled = coverage["method"] == "sampled"
        text = words["proof_failed"] if not passed else words["proof_sampled" if sampled else "proof_passed"]
        kind = "bad" if not passed or sampled else "good"
        zh = f"{coverage['sessions']} 个交易日中的 {coverage['proved']} 个"
        note = say(view.language, zh=zh, en=f"{coverage['proved']} of {coverage['sessions']} sessions")
        note = words["proof_built"] if coverage["method"] == "construction" else note
    return {
        "name": "proof",
        "label": words["proof"],
        "value": None,
        "text": text,
        "beside": note,
        "kind": kind,
    }


def sentence(view: RunView) -> str:
    """What happened, in two or three plain sentences; empty if nothing was traded."""
    account, spoken = view.result.get("account"), view.language
    if not account:
        return ""
    others = [(labels(spoken)[name], view.result.get(name) or {}) for name in ("benchmark", "index")]
    space = say(spoken, zh="", en=" ")
    compared = "".join(
        say(spoken, zh="；", en="; ") + f"{name}{space}{_change(each['return'], spoken)}"
        for name, each in others
        if each.get("return") is not None
    )
    profit = account["final_value"] / (1 + account["return"]) * account["return"]
    cash, change = account["final_value"] - profit, _change(account["return"], spoken)
    whole = say(
        spoken,
        zh=f"{len(view.days)} 个交易日里，{cash:,.0f} 的账户{change}（{profit:+,.0f}）{compared}。",
        en=f"In {len(view.days):,} sessions the account of {cash:,.0f} {change} ({profit:+,.0f}){compared}. ",
    )
    return whole + _closed_trades(account, profit, spoken)


def _closed_trades(account: Mapping[str, Any], profit: float, language: Language) -> str:
    trips, won, costs = account["round_trips"], account.get("win_rate"), account["costs"]["total"]
    closed = say(language, zh=f"平仓 {trips:,} 笔", en=f"It closed {trips:,} trade{'s' * (trips != 1)}")
    if won is not None:
        realised = account["realised"]
        rest = profit - realised
        closed += say(
            language,
            zh=f"，其中 {won:.0%} 盈利，合计 {realised:+,.0f}；其余 {rest:+,.0f} 来自持仓和分红",
            en=f", {won:.0%} of them with a profit, {realised:+,.0f} in all; "
            f"{rest:+,.0f} is from holdings and dividends",
        )
    return closed + say(language, zh=f"。费用共 {costs:,.0f}。", en=f". Costs were {costs:,.0f}.")


def _change(value: float, language: Language) -> str:
    if language == "zh":
        return f"{'盈利' if value >= 0 else '亏损'} {abs(value):.2%}"
    return f"{'gained' if value >= 0 else 'lost'} {abs(value):.2%}"


def way(value: float | None) -> str:
    """The class of a number's colour."""
    return "" if not value or value != value else "gain" if value > 0 else "loss"  # noqa: PLR0124 - NaN


def code_words(code: str, language: Language) -> str:
    """A rejection's code in words."""
    return labels(language).get(f"code_{code}", code)


def _costs(costs: Mapping[str, float], words: Mapping[str, str], language: Language) -> str:
    parts = [
        f"{words.get(f'cost_{name}', name)} {amount:,.2f}"
        for name, amount in costs.items()
        if name != "total" and amount
    ]
    listed = say(language, zh="、", en=", ").join(parts)
    return f"{costs['total']:,.2f}" + (say(language, zh=f"（{listed}）", en=f" ({listed})") if parts else "")


def _issue(issue: Mapping[str, Any], language: str) -> str:
    where = " ".join(filter(None, (issue.get("session"), issue.get("symbol"))))
    place = f" ({where})" if language == "en" and where and where not in issue["message"] else ""
    return issue_text(issue, language) + place


def _limits(view: RunView) -> Iterator[str]:
    """What the result does not tell, where no note of the run says it."""
    result = view.result

    def words(zh: str, en: str) -> str:
        return say(view.language, zh=zh, en=en)

    account = result.get("account")
    if account and account["ex_dates"] is None:
        yield words("数据中没有分红，无法知道除权除息", "the data have no dividends: ex-dates are not known")
    elif account and account["ex_dates"]["count"]:
        count, amount = account["ex_dates"]["count"], account["ex_dates"]["not_credited"]
        yield words(
            f"持有期间 {count} 次除权除息没有分红记录，约 {amount:,.0f} 未计入账户",
            f"{count} ex-dates while held have no dividend in the data, about {amount:,.0f} not credited",
        )
    if result.get("not_judged"):
        count = result["not_judged"]
        yield words(f"区间的前 {count} 个交易日不参与评价", f"the first {count} sessions are not evaluated")


def day_text(value: Any) -> str:
    """A session, a timestamp or ``YYYYMMDD``, as ``YYYY-MM-DD``; a dash for none."""
    if value is None:
        return "–"
    return f"{value:%Y-%m-%d}" if hasattr(value, "strftime") else f"{value[:4]}-{value[4:6]}-{value[6:]}"
