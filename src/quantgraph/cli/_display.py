"""A run while it goes on, on stderr, with its questions; and its result on stdout."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

from quantgraph._util.texts import Language, escape_controls, language_of, say
from quantgraph.audit import first_lines, issue_text
from quantgraph.broker import plan_words
from quantgraph.cli._console import SafeConsole, ansi_text, lines_above, literal, plural, print_status
from quantgraph.judgement import is_judged, verdict_line
from quantgraph.report import format_counts
from quantgraph.report.metrics import table_metrics
from quantgraph.runs import step_words
from quantgraph.runtime.dialogue import RunEvent, numbered_options
from quantgraph.subgraphs.signal import not_evaluated_text, understanding_lines

if TYPE_CHECKING:
    from quantgraph.runtime.graph_state import Clarification


Words = Callable[[str, str], str]

_LABEL_WIDTH = len("largest weight")


def show_result(result: Mapping[str, Any], *, with_code: bool = False) -> None:
    """Print the summary of a run on stdout, in the language of the question; the code last, if at all."""
    console = SafeConsole()
    language = language_of(result["question"])

    def words(zh: str, en: str) -> str:
        return say(language, zh=zh, en=en)

    _show_first_lines(console, result["validation"] or {}, language)
    _show_understood(console, result.get("understanding"), language)
    proof = (result.get("causality") or {}).get("coverage", {})
    if proof.get("method") == "sampled":
        part, whole = proof["proved"], proof["sessions"]
        console.print(
            literal(
                words(
                    f"抽样（sampled）：只在 {whole} 个交易日中的 {part} 个上证明没有用到未来",
                    f"sampled: proved to use no future at {part} of {whole} sessions",
                )
            ),
            style="yellow",
        )
    for line in result["source"].get("provenance", ()):
        console.print(literal(f"{words('数据', 'data')}: {line}"), soft_wrap=True)
    _show_verdict(console, result, language)
    for table in _tables(result, words):
        if table.row_count:
            console.print(table)
    if result.get("equity"):
        names = words("账户", "account"), words("买入持有", "buy and hold")
        console.print("⢕⢕ {}  •• {}".format(*names))
        console.print(ansi_text(_equity_curves(result["equity"], width=min(console.width, 100))))
    if with_code:
        _show_code(console, result, words)
    elif result["strategy"]:
        console.print(f"{words('代码', 'code')}: {result['strategy']['path']}", soft_wrap=True)
    console.print(f"{words('文件夹', 'folder')}: {result['run_dir']}", soft_wrap=True)


def _show_first_lines(console: SafeConsole, report: Mapping[str, Any], language: Language) -> None:
    """Print where the code may depart from the sentence."""
    for line in first_lines(report, language)[1]:
        console.print(literal(line, style="yellow"), soft_wrap=True)


def _show_understood(console: SafeConsole, understood: Any, language: Language) -> None:
    """Print what trades, what was assumed, what is not done, and where each condition first mattered."""
    for line in understanding_lines(understood, language) if understood else ():
        console.print(literal(line), soft_wrap=True)


def _show_verdict(console: SafeConsole, result: Mapping[str, Any], language: Language) -> None:
    """Print how far the figures below can be believed."""
    if judgement := result.get("judgement"):
        style = "green" if is_judged(judgement) else "yellow"
        console.print(literal(verdict_line(judgement, language), style=style), soft_wrap=True)
    elif result["source"]["synthetic"] and not result["notes"]:
        text = say(language, zh="合成数据，不代表任何真实股票", en="synthetic data, not real stocks")
        console.print(literal(text, "yellow"))


def _show_code(console: SafeConsole, result: Mapping[str, Any], words: Callable[[str, str], str]) -> None:
    """Print the code of the signal, and what its model says about it."""
    if result["strategy"]:
        code = Syntax(_code(result["strategy"]["path"]), "python", word_wrap=True)
        console.print(Panel(code, title=literal(result["strategy"]["name"]), title_align="left"))
        if remark := result["strategy"].get("said"):
            console.print(literal(f"{words('模型对代码的说明', 'the model on its code')}: {remark}"))


def _code(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        code = file.read().split("# %%\n", 1)[-1].rstrip()
    return escape_controls(code, multiline=True)


def _tables(result: Mapping[str, Any], words: Words) -> Iterator[Table]:
    """Facts, account and notes, each with columns of its own width."""
    facts, account, notes = _grid(), _grid(), _grid()
    _add_facts(facts, result, words)
    if result["account"]:
        _add_account(account, result, words)
    _add_notes(notes, result, words)
    yield from (facts, account, notes)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=_LABEL_WIDTH)
    return table


def _window_text(result: Mapping[str, Any], words: Words) -> str:
    """The sessions that were judged, and what was asked where that is more."""
    asked = "{start} - {end}".format_map(result["window"])
    days = (result.get("equity") or {}).get("sessions", ())[1:]
    judged = f"{days[0]} - {days[-1]}" if days else asked
    return judged if judged == asked else f"{judged} {words('（要求', '(asked')} {asked}{words('）', ')')}"


def _add_facts(table: Table, result: Mapping[str, Any], words: Words) -> None:
    if result["symbols"]:
        table.add_row(words("股票数", "symbols"), str(len(result["symbols"])))
        table.add_row(words("区间", "window"), _window_text(result, words))
    if result["signal"]:
        counts = result["signal"]["counts"]
        text = words(
            f"买入 {counts['buy']} 次，卖出 {counts['sell']} 次（每只股票每个交易日一格）",
            f"{counts['buy']} buys, {counts['sell']} sells (cells of sessions and symbols)",
        )
        table.add_row(words("信号", "signal"), text)
    plan, spoken = result.get("plan") or {}, language_of(result["question"])
    if result.get("account") and (plan or result["signal"]):
        traded = len(result["symbols"]) if result["signal"] else None  # who else decides has own sizes
        text = words("；", "; ").join(plan_words(plan, spoken, traded))
        table.add_row(words("计划", "plan"), literal(text))
    if result.get("causality"):
        text = result["causality"]["text"] + say(
            language_of(result["question"]), **not_evaluated_text(result)
        )
        table.add_row(words("未来函数检查", "look-ahead"), text)


def _add_notes(table: Table, result: Mapping[str, Any], words: Words) -> None:
    if result["account"]:
        _add_details(table, result["account"], words)
        _add_ex_dates(table, result["account"]["ex_dates"], words)
    if result["usage"] or result.get("cached"):
        table.add_row(words("模型", "models"), _usage(result["usage"], result.get("cached", 0), words))
    for issue in (result["validation"] or {}).get("issues_found", []):
        if issue["severity"] != "info" and not issue["code"].startswith(("meaning", "own")):
            text = issue_text(issue, language_of(result["question"]))
            table.add_row(words("检查", "check"), text, style="yellow")
    for line in _assumption_lines(result["assumptions"], words):
        table.add_row(words("假设", "assumed"), line, style="yellow")
    for line in result["notes"]:
        table.add_row(words("注意", "note"), line, style="yellow")


def _assumption_lines(lines: Sequence[str], words: Words) -> list[str]:
    """The assumptions; one line stands for all sessions whose orders were not approved by default."""
    others = [line for line in lines if not (line.startswith("approval: ") and line.endswith("(default)"))]
    if refused := len(lines) - len(others):
        others.append(
            words(
                f"{refused} 个交易日的订单无人批准，均未发送（逐日列在 result.json 中）",
                f"approval was not asked: the orders of {plural(refused, 'session')} were not sent "
                "(result.json lists them)",
            )
        )
    return others


def _usage(rows: Sequence[Mapping[str, Any]], cached: int, words: Words) -> str:
    """Calls, tokens and cost of all roles; a sum with an unknown part is unknown."""
    served = words(f"{cached} 次取自缓存", f"{cached:,} from the cache")
    if not rows:
        return served
    unknown = words("未知", "unknown")
    tokens = [row[kind] for row in rows for kind in ("prompt_tokens", "completion_tokens")]
    costs = [row["cost"] for row in rows]
    used = unknown if None in tokens else f"{sum(tokens):,}"
    cost = unknown if "unknown" in costs else f"{sum(map(Decimal, costs)):f}"
    calls = sum(row["calls"] for row in rows)
    text = words(
        f"调用 {calls} 次，token {used}，费用 {cost}", f"{plural(calls, 'call')}, {used} tokens, cost {cost}"
    )
    return text + (words("，", ", ") + served if cached else "")


def _add_account(table: Table, result: Mapping[str, Any], words: Words) -> None:
    account, index = result["account"], result.get("index")
    beside = [result["benchmark"], *([index] if index else [])]
    names = [words("买入持有", "buy and hold"), words("指数", "index")]
    table.add_row("", words("账户", "account"), *names[: len(beside)], style="bold")
    language = language_of(result["question"])
    for metric in table_metrics():
        if metric.on_terminal:
            columns = (account,) if metric.of == "account" else (account, *beside)
            cells = (metric.short_text(each.get(metric.name)) for each in columns)
            table.add_row(metric.words(language), *cells)
    trips = words(f"平仓 {account['round_trips']} 笔", f"{account['round_trips']} closed")
    table.add_row(words("交易", "trades"), trips + words("，成交 ", ", fills ") + str(account["trades"]))
    table.add_row(words("费用", "costs"), f"{account['costs']['total']:,.2f}")


def _add_details(table: Table, account: Mapping[str, Any], words: Words) -> None:
    """Rows that are too long for the columns of account and benchmark."""
    dates = account["drawdown"]
    if dates["peak"] is not None:
        back = dates["recovery"]
        text = words(
            f"{dates['peak']} - {dates['trough']}，" + (f"{back} 恢复" if back else "未恢复"),
            f"{dates['peak']} - {dates['trough']}, " + (f"recovered {back}" if back else "not recovered"),
        )
        table.add_row(words("回撤区间", "drawdown"), text)
    if account["rejections"]:
        text = f"{account['rejections']} ({format_counts(account['rejections_by_reason'])})"
        table.add_row(words("被拒委托", "rejected"), text)


def _add_ex_dates(table: Table, ex_dates: Mapping[str, Any] | None, words: Words) -> None:
    if ex_dates is None:
        text = words("数据中没有分红，无法知道除权除息", "the data have no dividends: ex-dates are not known")
        table.add_row(words("注意", "note"), text, style="yellow")
    elif ex_dates["count"]:
        count, amount = ex_dates["count"], f"{ex_dates['not_credited']:,.0f}"
        text = words(
            f"持有期间 {count} 次除权除息，数据中没有分红记录，约 {amount} 元未计入账户",
            f"{count} ex-dates while held without a dividend in the data, about {amount} not credited",
        )
        table.add_row(words("注意", "note"), text, style="yellow")


def _equity_curves(equity: Mapping[str, Any], *, width: int) -> str:
    """Equity curves of account and benchmark, without the initial cash.

    The legend is printed outside of the drawing: plotext takes wide characters for narrow ones.
    """
    import plotext

    plotext.clear_figure()
    plotext.plot_size(width, 16)
    plotext.theme("clear")
    sessions, account, benchmark = (equity[name][1:] for name in ("sessions", "account", "benchmark"))
    x = list(range(len(sessions)))
    plotext.plot(x, account, marker="braille")
    plotext.plot(x, benchmark, marker="dot")
    ticks = sorted({0, len(x) // 3, 2 * len(x) // 3, len(x) - 1})
    plotext.xticks(ticks, [escape_controls(sessions[tick]) for tick in ticks])
    drawing: str = plotext.build()
    return drawing


_SESSIONS_A_LINE = 50
_LIVE_ONLY = frozenset({"question", "started", "traded", "tokens"})
"""Events that are not lines; the prompt shows a question."""
_FINISHED = 8
"""Nodes that have finished and are shown."""
_REFRESHES = 4
"""A second. An event only notes what it says; drawing happens so often and not more."""
_MINUTE, _HOUR = 60, 3600


class RunDisplay:
    """Plain lines: one for each node, and one for every fifty sessions."""

    def __init__(self, console: SafeConsole | None = None, language: Language = "en") -> None:
        self.console = console or SafeConsole(stderr=True)
        self.language = language
        self._sessions = 0

    def watch(self, event: RunEvent) -> None:
        """Show an event."""
        if event.kind in _LIVE_ONLY:
            return
        if event.kind == "said":
            for line in event.text.splitlines():
                print_status(f"  {line}")
            return
        if event.kind == "session":
            self._sessions += 1
            if self._sessions % _SESSIONS_A_LINE != 1:
                return
            line = f"{step_words('daily_loop', self.language)}: {event.text}"
        else:
            text = "" if event.text.startswith("->") else event.text.removeprefix(f"{event.name}: ")
            line = ": ".join(filter(None, (step_words(event.name, self.language), text)))
        print_status(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        yield


class LiveDisplay(RunDisplay):
    """What was understood stands above; below it the nodes that have finished, and how far the run is."""

    def __init__(self, console: SafeConsole, question: str) -> None:
        super().__init__(console, language_of(question))
        self._language = self.language
        self._title = question.strip()[:80]
        self._finished: list[tuple[str, str]] = []
        self._node, self._node_since = "", time.monotonic()
        self._tokens = 0
        self._trading_since: float | None = None
        self._done_before = 0
        self._traded: RunEvent | None = None
        self.live = self._redraw_here()

    def _redraw_here(self) -> Live:
        """A drawing that begins where the cursor is."""
        return Live(
            console=self.console,
            get_renderable=self.drawing,
            refresh_per_second=_REFRESHES,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def watch(self, event: RunEvent) -> None:
        """Note an event; it is drawn with the next refresh."""
        match event.kind:
            case "said":
                console = self.live.console
                console.print(literal(event.text, "bold"), soft_wrap=True)
            case "started":
                self._node, self._node_since = event.name, time.monotonic()
                if event.name == "decision" and self._trading_since is None:
                    self._trading_since = self._node_since
            case "traded":
                if self._traded is None:
                    self._done_before = event.number - 1
                self._traded = event
            case "tokens":
                self._tokens = event.number
            case "node" | "answer" | "proof":
                self._finished = [*self._finished[1 - _FINISHED :], (event.name, event.text)]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question, whose time does not count."""
        begun = time.monotonic()
        self.live.stop()
        try:
            yield
        finally:
            waited = time.monotonic() - begun
            self._node_since += waited
            if self._trading_since is not None:
                self._trading_since += waited
            self.live = self._redraw_here()  # the one before would erase the question
            self.live.start(refresh=True)

    def drawing(self) -> RenderableType:
        """The part that is drawn again."""
        now = time.monotonic()
        nodes = Table.grid(padding=(0, 2))
        for name, text in self._finished:
            shown = "" if text.startswith("->") else text.removeprefix(f"{name}: ").partition("\n")[0]
            nodes.add_row(literal(step_words(name, self.language), "cyan"), literal(shown))
        step = step_words(self._node, self.language)
        working = f"{step}  {_span(now - self._node_since)}" if step else ""
        tokens = f"{self._tokens:,} token{'s' if self._language == 'en' else ''}" if self._tokens else ""
        below = "  ·  ".join(filter(None, (working, self._progress(now), tokens)))
        parts = [nodes, literal(below, "green")] if self._finished else [literal(below, "green")]
        return Panel(Group(*parts), title=literal(self._title), title_align="left")

    def _progress(self, now: float) -> str:
        """Sessions in the ledger, how fast they are traded, and how long the rest takes at that speed."""
        traded = self._traded
        if traded is None or self._trading_since is None:
            return ""
        text = say(
            self._language,
            zh=f"第 {traded.number}/{traded.total} 个交易日 {traded.text}",
            en=f"session {traded.number} of {traded.total}, {traded.text}",
        )
        if traded.number == traded.total:
            return text
        each = max(now - self._trading_since, 1e-6) / (traded.number - self._done_before)
        left = _span((traded.total - traded.number) * each)
        if each < 1:
            speed = f"{1 / each:,.1f}/s"
        else:
            speed = say(self._language, zh=f"每个 {_span(each)}", en=f"{_span(each)} each")
        rest = say(self._language, zh=f"约剩 {left}", en=f"about {left} left")
        return f"{text}  ·  {speed}  ·  {rest}"


@contextmanager
def open_display(question: str) -> Iterator[RunDisplay]:
    """A live display if stderr is a terminal, else plain lines."""
    console = SafeConsole(stderr=True)
    if not console.is_terminal:
        yield RunDisplay(console, language_of(question))
        return
    display = LiveDisplay(console, question)
    display.live.start(refresh=True)
    try:
        with lines_above(console):
            yield display
    finally:
        display.live.stop()


def ask_on_terminal(display: RunDisplay) -> Callable[[Mapping[str, Any]], str | None]:
    """A function that asks a question on the terminal; its answer is None at the end of the input."""

    def ask(question: Mapping[str, Any]) -> str | None:
        with display.paused():
            console = display.console
            if question.get("error"):
                console.print(literal(question["error"]), style="yellow")
            console.print(literal(question["question"]), style="bold")
            if question["kind"] != "approval":
                for option in numbered_options(cast("Clarification", question)):
                    console.print(literal(f"  {option}"), soft_wrap=True)
            console.print("> ", end="")
            if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
                sys.stdin.reconfigure(errors="replace")  # invalid bytes must not end the run
            line = sys.stdin.readline()
            if not (line and sys.stdin.isatty()):  # no Enter key has ended the line
                console.print()
        return line.strip() if line else None

    return ask


def _span(seconds: float) -> str:
    """A span of time: ``9 s``, ``2 min 05 s``, ``1 h 01 min``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"
