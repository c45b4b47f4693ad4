"""What a page says first: how the run ended, what was said, proved and found, and what it cannot tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quantgraph._util.texts import say
from quantgraph.audit.findings import in_chinese
from quantgraph.report.html.page_words import labels
from quantgraph.report.run_view import RunView


def ending(view: RunView) -> dict[str, str]:
    """How the run ended: whether well, and in a word."""
    because = view.result["ended_because"] or view.result["state"]
    if because == "done":
        return {"kind": "good", "text": say(view.language, zh="完成", en="done")}
    endings = {
        "needs_answer": say(view.language, zh="在等待回答，没有结果", en="waits for an answer: no result"),
        "cancelled": say(view.language, zh="中途停止", en="stopped before its end"),
        "failed": say(view.language, zh="失败", en="failed"),
    }
    not_done = say(view.language, zh=f"没有完成（{because}）", en=f"not done ({because})")
    return {"kind": "bad", "text": endings.get(because, not_done)}


def facts(view: RunView) -> Iterator[tuple[str, list[str]]]:
    """The first lines: a label, and what there is to say."""
    result, words = view.result, labels(view.language)
    yield words["said"], list(view.said)
    if question := result.get("open_question"):
        options = [f"{number}. {text}" for number, text in enumerate(question.get("options") or [], 1)]
        yield words["question"], [question["question"], *options]
    if result.get("causality"):
        coverage = result["causality"]["coverage"]
        lines = [result["causality"]["text"]]
        if coverage["method"] == "sampled":
            part, whole = coverage["proved"], coverage["sessions"]
            zh = f"抽样（sampled）：只在 {whole} 个交易日中的 {part} 个上证明"
            lines.append(say(view.language, zh=zh, en=f"sampled: proved at {part} of {whole} sessions"))
        yield words["proof"], lines
    issues = (result.get("validation") or {}).get("issues_found", [])
    yield words["check"], [_issue(issue, view.language) for issue in issues if issue["severity"] != "info"]
    yield words["data"], list(_data_lines(view))
    if account := result.get("account"):
        costs = account["costs"]
        parts = ", ".join(
            f"{name} {amount:,.2f}" for name, amount in costs.items() if name != "total" and amount
        )
        yield words["cost"], [f"{costs['total']:,.2f}" + (f" ({parts})" if parts else "")]
    assumed = result.get("assumptions") or []
    yield words["assumed"], [text for text in assumed if not any(text in line for line in view.said)]
    yield words["cannot_tell"], [*(result.get("notes") or []), *_limits(view)]


def _issue(issue: Mapping[str, Any], language: str) -> str:
    where = " ".join(filter(None, (issue.get("session"), issue.get("symbol"))))
    place = f" ({where})" if where and where not in issue["message"] else ""
    return say(language, zh=in_chinese(issue), en=f"{issue['message']}{place}")


def _data_lines(view: RunView) -> Iterator[str]:
    result, window = view.result, view.result.get("window") or {}
    name = result["source"]["name"]
    if result["source"]["synthetic"]:
        name += f" · {labels(view.language)['synthetic']}"
    yield name
    if window.get("start"):
        count = len(result.get("symbols") or [])
        span = f"{shown_day(window['start'])} – {shown_day(window['end'])}"
        plural = "" if count == 1 else "s"
        yield say(view.language, zh=f"{span}，{count} 个代码", en=f"{span}, {count} symbol{plural}")
    if ref := view.hashes.get("data"):
        yield say(view.language, zh=f"数据哈希 {ref}", en=f"hash of the data {ref}")
    yield from result["source"].get("provenance") or ()


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
    if account and not result.get("causality"):
        yield words(
            "没有信号可证明：逐日决策只看到当日已知的数据",
            "no signal to prove: each session saw only what was known",
        )


def shown_day(value: Any) -> str:
    """A session, a timestamp or ``YYYYMMDD``, as ``YYYY-MM-DD``; a dash for none."""
    if value is None:
        return "–"
    return f"{value:%Y-%m-%d}" if hasattr(value, "strftime") else f"{value[:4]}-{value[4:6]}-{value[6:]}"
