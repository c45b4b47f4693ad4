"""Hostile text from outside has no effect on a terminal, shown through a real pseudo-terminal."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import quantgraph.cli
from quantgraph._util.texts import escape_controls
from quantgraph.cli import main
from quantgraph.cli._console import SafeConsole, echo, echo_json, lines_above, safe_streams
from quantgraph.cli._display import open_display
from quantgraph.testing import OpenAIStub, Reply

pytestmark = pytest.mark.proof

SEQUENCES = {
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;http://x.invalid\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07",
    "palette": "\x1b]4;1;#ffffff\x1b\\",
    "clear": "\x1b[2J\x1b[H",
    "line up": "\x1b[1A\x1b[2K",
    "green": "\x1b[32mcausal\x1b[0m",
    "hidden": "\x1b[8m",
    "scroll": "\x1b[1;3r",
    "alternate screen": "\x1b[?1049h",
    "mouse": "\x1b[?1003h",
    "report": "\x1b[6n",
    "reset": "\x1bc",
    "save": "\x1b7\x1b8",
    "charset": "\x1b(0",
    "device control": "\x1bP$q\x1b\\",
    "application": "\x1b_G\x1b\\",
    "privacy": "\x1b^x\x1b\\",
    "start of string": "\x1bXx\x1b\\",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d0;owned\x9c",
    "C1 DCS": "\x90x\x9c",
    "C1 index": "\x84\x8d\x85",
    "bell": "\x07",
    "backspace": "\x08\x08\x08",
    "return": "\rcausal: proved",
    "tabs and feeds": "\x0b\x0c",
    "shifts": "\x0e\x0f",
    "enquiry": "\x05",
    "cancel": "\x18\x1a",
    "delete": "\x7f",
    "separators": "\x1c\x1d\x1e\x1f",
    "override": "\u202elasuac\u202c",
    "embedding": "\u202a\u202b\u202d",
    "isolates": "\u2066\u2067\u2068\u2069",
    "marks": "\u200e\u200f\u061c",
    "no width": "\u200b\u200c\ufeff\u2060",
    "line separators": "\u2028causal\u2029",
    "surrogates": "\udcff\ud800",
    "markup": "[bold red]x[/] [link=http://x.invalid]y[/link] :smile:",
}
HOSTILE = [f"h{number:02}<{text}>" for number, text in enumerate(SEQUENCES.values())]
SAYABLE = [text for text in HOSTILE if not re.search("[\\ud800-\\udfff]", text)]
"""Without lone surrogates, which no file in UTF-8 holds."""
IN_SOURCE = [text for text in SAYABLE if not set(text) & set("\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029")]
"""Without what ends a line of Python, or of ``str.splitlines``."""
WHAT = ["--source", "sample", "--symbols", "000342.SZ,000343.SZ", "--start", "20240102", "--end", "20240430"]
PLAYED = "000342.SZ，按x买卖，20240102到20240131"
"""What the model of :func:`decision` reads."""
SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年"

CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
OF_RICH = re.compile(r"\x1b\[(?:\d+(?:;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[\d*A|\r")
"""Colours, and what a live view needs to draw itself again."""


def test_there_are_forty_hostile_texts():
    assert len(HOSTILE) == 40
    assert all(CONTROL.search(text) or "[bold" in text for text in HOSTILE)


class Terminal:
    """A pseudo-terminal, and all that came out of it."""

    def __enter__(self):
        self._inner, outer = pty.openpty()
        self.stream = open(outer, "w", encoding="utf-8", errors="surrogatepass")
        self._read = bytearray()
        self._reader = threading.Thread(target=self._drain)
        self._reader.start()
        return self

    def _drain(self):
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while chunk := os.read(self._inner, 65536):
                self._read += chunk

    def __exit__(self, *_):
        self.stream.close()
        self._reader.join()
        os.close(self._inner)

    @property
    def shown(self):
        return self._read.decode("utf-8", "surrogatepass").replace("\r\n", "\n")


@pytest.fixture(params=["dumb", "xterm-256color"])
def terminal(request, monkeypatch):
    """Run the command in this process on a terminal: its status, and what was shown without rich's own codes."""
    monkeypatch.setenv("TERM", request.param)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments, stdin=""):
        monkeypatch.setattr(sys, "argv", ["quantgraph", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = 0
        with Terminal() as pseudo, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", pseudo.stream)
            patch.setattr(sys, "stderr", pseudo.stream)
            try:
                main()
            except SystemExit as ended:
                status = ended.code or 0
        shown = pseudo.shown if request.param == "dumb" else OF_RICH.sub("", pseudo.shown)
        return status, shown

    return call


plain = pytest.mark.parametrize("terminal", ["dumb"], indirect=True)
"""Where nothing is drawn."""


def harmless(shown, *texts):
    """Nothing in it is obeyed, and each text is there, in escapes."""
    assert not (found := CONTROL.search(shown)), ascii(shown[max(0, found.start() - 60) :][:120])
    plain = re.sub(r"\s*\n[│\s]*", "", shown)
    for text in texts:
        assert text[:3] in plain, (text, plain)
    return plain


def code_of(texts):
    """Python that raises an error of a hostile type with a hostile message."""
    return f"raise type({texts[0]!r}, (Exception,), {{}})({' '.join(texts)!r})"


@plain
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_errors_of_generated_code(terminal, tmp_path, options):
    path = tmp_path / "strategy.py"
    path.write_text(code_of(HOSTILE), encoding="utf-8")
    status, shown = terminal("audit", path, *WHAT, *options)
    assert status == 2
    harmless(shown, *HOSTILE)
    assert "[bold red]x[/] [link=http://x.invalid]y[/link] :smile:" in shown


def test_the_real_command_as_a_child_on_a_real_terminal(tmp_path):
    path = tmp_path / "strategy.py"
    path.write_text(code_of(HOSTILE), encoding="utf-8")
    command = Path(sys.executable).with_name("quantgraph")
    with Terminal() as pseudo:
        done = subprocess.run(
            [command, "audit", path, *WHAT],
            stdin=subprocess.DEVNULL,
            stdout=pseudo.stream,
            stderr=pseudo.stream,
            env={**os.environ, "TERM": "dumb"},
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    harmless(pseudo.shown, *HOSTILE)


@plain
def test_comments_beside_a_leak_do_not_repaint_the_verdict(terminal, tmp_path):
    peek = 'signal = (snapshot["ohlcv"]["close"].shift(-1) > 0).astype(float)'
    path = tmp_path / "strategy.py"
    for texts in (IN_SOURCE[:18], IN_SOURCE[18:]):
        hand = 'GLOBAL_DATA_STATE.update("signal", {"peek": signal})'
        path.write_text(
            f'r"""{texts[0]}"""\n{peek}  # {" ".join(texts)}\n{hand}\n', encoding="utf-8", errors="replace"
        )
        for options in ([], ["--json"]):
            status, shown = terminal("audit", path, *WHAT, *options)
            assert status == 1, shown
            harmless(shown)
            assert "shift(-1)" in shown


@plain
def test_names_in_files_and_of_files(terminal, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    head, row = "ts_code,trade_date,open,high,low,close,vol\n", "1,1,1,1,1\n"
    one = [text.replace("/", "|") for text in SAYABLE]
    files = [
        (f"{head}{one[0]} {one[26]},20240102,{row}", "codes.csv"),
        (f"{head}000001.SZ,{one[1]} {one[19]},{row}", "dates.csv"),
        (f'ts_code,trade_date,open,"{one[2]} {one[32]}"\n000001.SZ,20240102,1,1\n', "columns.csv"),
        (f'{{"{one[3]}": "{one[20]}"', "broken.json"),
        (f"{head}000001.SZ,20240102,x,1,1,1,1\n", f"{one[4]}{one[0]}{one[22]}.csv"),
    ]
    for text, name in files:
        path = folder / name
        path.write_text(text, encoding="utf-8")
        status, shown = terminal("run", "--signal-only", SENTENCE, "--source", path, "--headless")
        assert status in {1, 2}, shown
        harmless(shown)
    harmless(terminal("run", "--signal-only", SENTENCE, "--source", path, "--headless", "--json")[1])


@plain
def test_arguments(terminal, tmp_path):
    everything = " ".join(SAYABLE).replace("\x00", "")
    for arguments in (
        ["run", "--signal-only", SENTENCE, "--model", everything, "--headless"],
        ["run", "--signal-only", SENTENCE, "--source", everything[:200], "--headless"],
        ["run", "--signal-only", SENTENCE, "--symbols", everything, "--headless"],
        ["run", "--signal-only", SENTENCE, "--start", everything],
        ["run", SENTENCE, "--cash", everything],
        ["run", SENTENCE, "--fund", everything],
        ["run", SENTENCE, "--budget", everything],
        ["run", SENTENCE, everything],
        ["run", SENTENCE, f"--{everything}"],
        [everything],
        ["replay", everything[:100]],
        ["resume", everything[:100], "--debug"],
        ["ledger", "show", everything[:100]],
        ["ledger", "show", "--ledger", everything[:100]],
        ["ledger", "check", "--ledger", everything[:100], "--json"],
    ):
        status, shown = terminal(*arguments)
        assert status in {1, 2}, (arguments, shown)
        harmless(shown)
    names = [text.replace("/", "|") for text in SAYABLE]
    for name in ("".join(names[:8]), "".join(names[19:24] + names[32:35])):
        positions = tmp_path / f"{name[:100]}.jsonl"
        line = {"date": "2024-01-02", "id": 0, "this_action": {}, "positions": {everything: 1, "CASH": 10.0}}
        positions.write_text(f"{json.dumps(line)}\n{json.dumps(line | {'id': 1})}\n", encoding="utf-8")
        prices = tmp_path / "prices.csv"
        prices.write_text("ts_code,trade_date,open,high,low,close,vol\n600519.SH,20240102,1,1,1,1,1\n")
        status, shown = terminal("ledger", "verify", positions, "--prices", prices, "--market", "us")
        assert status in {1, 2}, shown
        harmless(shown)


def decision(**changes):
    params = {"ts_code": "000342.SZ", "start_date": "20240102", "end_date": "20240131", "strategy_desc": "x"}
    intent = {"type": "mixed", "params": params}
    return Reply.text(json.dumps({"task_type": "mixed", "user_intent": intent, **changes}))


@pytest.fixture
def stub(monkeypatch):
    """Point the command at a server whose replies are the test's."""

    @contextlib.contextmanager
    def serve(code="", notes="", **changes):
        def answer(request):
            text = json.dumps(request.messages, ensure_ascii=False)
            if "<user_request>" in text:
                return decision(**changes)
            if request.messages[-1]["role"] == "tool":
                return Reply.text(notes or "done")
            if "<strategy>" in text:
                return Reply.call("python_repl", query=code)
            if "<fetch>" in text:
                return Reply.call(
                    "tushare_daily_bar", ts_code="000342.SZ", start_date="20240102", end_date="20240131"
                )
            if "<clarify>" in text:
                return Reply.text(notes)
            issue = {"severity": "warning", "type": "other", "message": notes, "suggestion": notes}
            return Reply.text(json.dumps({"validation_passed": True, "issues_found": [issue]}))

        with OpenAIStub(answer) as server:
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-test-secret")
            monkeypatch.setenv("QUANTGRAPH_MODEL", f"stub {SAYABLE[0]}")
            monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "1")
            yield

    return serve


def test_code_names_and_notes_of_a_model_in_the_result(terminal, stub):
    lines = "\n".join(f"# {text}" for text in [*IN_SOURCE, "\x06" * 150])
    code = (
        f'{lines}\nclose = snapshot["ohlcv"]["close"]\nsignal = (close > close.rolling(3).mean()).astype(float)\n'
        f'GLOBAL_DATA_STATE.update("signal", {{NAME: signal}})\nprint("".join({IN_SOURCE!r}))\n'
    )
    refused, taken = "".join(IN_SOURCE[::5]), "[bold red]x[/] [link=http:x]y[/link] :smile:"
    with stub(code.replace("NAME", repr(refused)), " ".join(SAYABLE)):
        status, shown = terminal("run", "--signal-only", PLAYED, "--headless")
        assert status == 1
        harmless(shown)
    with stub(
        code.replace("NAME", repr(taken)), " ".join(SAYABLE), analysis=" ".join(SAYABLE), unread=SAYABLE[:3]
    ):
        status, shown = terminal("run", "--signal-only", PLAYED, "--headless", "--code")
        assert status == 0, shown
        panel = harmless(shown, *IN_SOURCE)
        for text in (text for text in IN_SOURCE if " " not in text):
            assert escape_controls(text) in panel
        assert panel.count(r"\x06") == 150  # the line was broken for what is shown, and nothing cut off
        assert "[bold red]x[/] [link=http:x]y[/link] :smile:" in shown  # the panel's title


def test_replies_and_questions_of_a_model(terminal, stub):
    texts = " ".join(SAYABLE)
    with stub(code_of(HOSTILE), texts):
        status, shown = terminal("run", "--signal-only", PLAYED, "--headless")
        assert status == 1
        harmless(shown, HOSTILE[0])
    asks = {"clarification_question": texts, "task_type": texts}
    with stub("", texts, **asks):
        status, shown = terminal("run", "--signal-only", PLAYED, "--headless", "--debug")
        assert status == 1
        harmless(shown)
    params = {"ts_code": texts, "start_date": "", "end_date": "", "strategy_desc": "x"}
    with stub("", texts, user_intent={"type": "mixed", "params": params}, clarification_question=texts):
        status, shown = terminal("run", "--signal-only", PLAYED, stdin=f"{texts.splitlines()[0]}\n\n")
        assert status == 1
        harmless(shown)


def test_logs_warnings_and_threads_of_any_library(terminal, monkeypatch):
    """What no command prints itself is escaped by the streams, and stands above a live view."""

    def work(*_, **__):
        log = logging.Logger("elsewhere")  # noqa: LOG001 - without a parent: pytest keeps logs in UTF-8
        log.addHandler(logging.StreamHandler())
        log.warning("%s", " ".join(HOSTILE))
        print(" ".join(HOSTILE))
        raise RuntimeError(" ".join(HOSTILE))

    monkeypatch.setattr("quantgraph.runs.run_strategy", work)
    for options in ([], ["--debug"]):
        status, shown = terminal("run", SENTENCE, *options)
        assert status == 1
        harmless(shown, *HOSTILE)


def test_what_is_json_reads_back_the_same(capsys):
    value = {text: [text] for text in [*HOSTILE, "均线 👨‍👩‍👧"]}
    echo_json(value)
    out = capsys.readouterr().out
    assert not CONTROL.search(out)
    assert json.loads(out) == value
    echo_json({"均线": "👨‍👩‍👧 é"})
    assert capsys.readouterr().out == '{"均线": "👨‍👩‍👧 é"}\n'


def test_a_console_escapes_custom_renderables():
    """Whoever forgets the helpers: a plain text, a panel's title with markup."""
    from rich.panel import Panel
    from rich.text import Text

    with Terminal() as pseudo, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", pseudo.stream)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("COLUMNS", "4000")
        console = SafeConsole()
        for text in HOSTILE:
            console.print(text)
            console.print(Text(text))
            console.print(Panel(Text(text), title=Text(text)))
    shown = OF_RICH.sub("", pseudo.shown)
    harmless(shown, *HOSTILE)
    assert shown.count("[bold red]x[/] [link=http://x.invalid]y[/link] :smile:") == 4


def test_echo_escapes_without_a_safe_stream(capsys):
    """A host that runs the command's functions by itself has none."""
    echo("\n".join(HOSTILE))
    echo("\n".join(HOSTILE), err=True)
    for shown in capsys.readouterr():
        harmless(shown, *HOSTILE)


def test_output_during_a_live_display_appears_above_it_line_by_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with Terminal() as pseudo, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", pseudo.stream)
        with safe_streams():
            below = sys.stderr
            with open_display("a sentence"):
                assert sys.stderr is not below
                sys.stderr.write("half of\x1b[2J ")
                sys.stderr.write("a line\n")
        with lines_above(SafeConsole(stderr=True)):
            sys.stderr.write("not yet")
    assert OF_RICH.sub("", pseudo.shown).count(r"half of\x1b[2J a line") == 1
    assert "not yet" not in pseudo.shown


def test_streams_are_put_back():
    before = sys.stdout, sys.stderr
    with safe_streams(), lines_above(SafeConsole(stderr=True)):
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before


CLI = Path(quantgraph.cli.__file__).parent
OTHER_WAYS = {"print", "secho", "style", "from_markup", "from_ansi", "print_exception", "print_exc", "write"}


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.name)
def test_no_module_of_the_command_prints_without_the_console(path):
    """Everything is shown through ``cli/_console.py``; ``os.write`` of bytes that stand there may be a signal's."""
    if path.name == "_console.py":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    consoles = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "SafeConsole"
    }
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', '')}"
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            assert node.module not in {"rich.console", "rich.text"} or not names & {"Console", "Text"}, where
            assert node.module not in {"click", "logging", "warnings", "traceback"}, where
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "sys":
            assert node.attr not in {"stdout", "stderr", "__stdout__", "__stderr__"}, where
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        owner = getattr(getattr(called, "value", None), "id", "")
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        assert (owner, name) != ("typer", "echo"), where
        if (owner, name) == ("os", "write"):
            assert not any(isinstance(part, ast.Call) for part in ast.walk(node.args[1])), where
        elif name in OTHER_WAYS:
            assert owner in consoles, where
        for keyword in node.keywords:
            if name == "Panel" and "title" in keyword.arg:  # rich reads markup in a plain one
                assert isinstance(keyword.value, ast.Call) or keyword.arg == "title_align", where
