"""What is shown of a run while it goes on: live on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import io
import os
import pty
import sys
import time
from contextlib import suppress

import pytest
from rich.console import Console
from typer.testing import CliRunner

from quantgraph.cli import _display as run_display
from quantgraph.cli._console import SafeConsole
from quantgraph.cli._display import LiveDisplay, RunDisplay
from quantgraph.cli._main import app
from quantgraph.runtime.dialogue import RunEvent

pytestmark = pytest.mark.proof


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_display, "time", clock)
    return clock


def drawn(display: LiveDisplay) -> str:
    console = Console(file=io.StringIO(), width=110)
    console.print(display.drawing())
    return console.file.getvalue()


def traded(number: int, total: int, day: str = "20250102") -> RunEvent:
    return RunEvent(kind="traded", name="decision", text=day, number=number, total=total)


def test_the_node_at_work_the_tokens_the_speed_and_the_time_left_are_shown(clock: Clock) -> None:
    display = LiveDisplay(SafeConsole(stderr=True), "buy 600519.SH, 2025")
    display.watch(RunEvent(kind="started", name="reflection"))
    display.watch(RunEvent(kind="tokens", name="reflection", number=12_345))
    clock.now += 9
    assert "reading the sentence  9 s  ·  12,345 tokens" in drawn(display)
    display.watch(RunEvent(kind="node", name="reflection", text="-> data_fetch\nmore"))
    display.watch(RunEvent(kind="started", name="decision"))
    clock.now += 10
    for number in range(1, 41):
        display.watch(traded(number, 240))
    shown = drawn(display)  # 40 in 10 s, so 200 take 50 s
    assert (
        "trading day by day  10 s  ·  session 40 of 240, 20250102  ·  4.0/s  ·  about 50 s left  ·  12,345 tokens"
        in shown
    )
    assert "trading day by day" in shown
    assert "more" not in shown
    display.watch(traded(240, 240, "20251231"))
    assert "session 240 of 240, 20251231  ·  12,345 tokens" in drawn(display)


def test_a_resumed_run_is_as_fast_as_it_is_now_and_a_question_costs_no_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    display = LiveDisplay(SafeConsole(stderr=True), "买入600519.SH，2025年")
    monkeypatch.setattr(display.live, "start", lambda refresh: None)
    display.watch(RunEvent(kind="started", name="decision"))
    with display.paused():
        clock.now += 10_000
    clock.now += 3600
    display.watch(traded(201, 204))
    display.watch(traded(202, 204))
    assert "第 202/204 个交易日 20250102  ·  每个 30 min 00 s  ·  约剩 1 h 00 min" in drawn(display)


def test_only_the_last_nodes_are_kept_and_nothing_in_them_is_obeyed(clock: Clock) -> None:
    display = LiveDisplay(SafeConsole(stderr=True), "x\x1b[2J [bold]y[/]")
    for number in range(30):
        display.watch(RunEvent(kind="node", name=f"n{number}", text="\x1b]0;owned\x07[red]z[/]"))
    shown = drawn(display)
    assert [f"n{number} " in shown for number in (21, 22, 29)] == [False, True, True]
    assert "\x1b]" not in shown
    assert "[red]z[/]" in shown
    assert "x\\x1b[2J [bold]y[/]" in shown


def test_without_a_terminal_a_run_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    display = RunDisplay()
    for event in (
        RunEvent(kind="started", name="reflection"),
        RunEvent(kind="tokens", name="reflection", number=5),
        RunEvent(kind="said", name="reflection", text="Trade: 600519.SH"),
        RunEvent(kind="node", name="reflection", text="-> data_fetch"),
        *(RunEvent(kind="session", name="daily_loop", text=f"s{number}") for number in range(60)),
        traded(1, 60),
    ):
        display.watch(event)
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == (
        "",
        ["  Trade: 600519.SH", "reading the sentence", "trading day by day: s0", "trading day by day: s50"],
    )


@pytest.mark.proof
def test_an_event_costs_next_to_nothing() -> None:
    display = LiveDisplay(SafeConsole(stderr=True), "buy 600519.SH, 2025")
    begun = time.process_time()
    for number in range(10_000):
        display.watch(traded(number + 1, 10_000))
    assert time.process_time() - begun < 0.5


def test_a_question_on_a_terminal_is_shown_with_its_prompt_before_the_answer(tmp_path):
    sentence = "buy when the 5-day average crosses above the 20-day average, sell below, 2024-01 to 2024-03"
    command = [sys.executable, "-m", "quantgraph", "run", sentence, "--out", str(tmp_path)]
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="xterm", COLUMNS="100")
        os.execv(command[0], command)
    shown, answered = b"", False
    with suppress(OSError):  # the terminal is gone when the command ends
        while part := os.read(terminal, 4096):
            shown += part
            if not answered and b"\n> " in shown:
                answered = True
                before = shown
                os.write(terminal, b"2\n")
    _, status = os.waitpid(process, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, shown.decode()
    asked = before.decode().rpartition("Which stocks should I use?")[2]
    assert "1. all stocks" in asked
    assert "\\x1b" not in shown.decode(), "an escape is obeyed, not shown"
    after = shown[len(before) :].decode()
    assert "\x1b[1A" not in after.partition("╭")[0], "the question is not erased"


def test_a_finding_of_meaning_is_the_first_line_and_nothing_is_cut(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    told, checked = "代码与所说的不一致" + "很长" * 60 + "。", "行情" * 80 + "。"
    issues = [
        {"severity": "warning", "code": "other", "message": checked},
        {"severity": "warning", "code": "meaning_differs", "message": "differs", "zh": told},
    ]
    none: dict[str, object] = dict.fromkeys(("causality", "strategy", "signal", "account", "equity"))
    empty = {"notes": [], "symbols": [], "usage": [], "assumptions": [], "window": {}, "run_dir": "/r"}
    source = {"synthetic": False, "provenance": ["prices.csv"]}
    run_display.show_result(
        {**none, **empty, "question": "买入", "source": source, "validation": {"issues_found": issues}}
    )
    shown = capsys.readouterr().out
    assert shown.splitlines()[:2] == [told, "数据: prices.csv"]
    assert checked in "".join(shown.split())
    assert "…" not in shown


@pytest.mark.parametrize(
    ("decider", "row"), [("signal_rule", "每次买入用全部资金（默认）；止损 5%"), ("buy_and_hold", "止损 5%")]
)
def test_the_row_of_the_plan_has_sizes_where_the_signal_rule_decides(
    decider: str, row: str, tmp_path
) -> None:
    sentence = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，止损5%，20240102到20240229"
    given = ["run", sentence, "--decider", decider, "--headless", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("计划 "))
    assert line.split(maxsplit=1)[1].strip() == row
