"""A sentence has a greatest length, and text is UTF-8, at every entrance: one typed line where it is not."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from states import grouped

from quantgraph import create_trading_graph
from quantgraph._util.files import MAX_TEXT_LENGTH, check_sentence, check_text
from quantgraph.cli import main
from quantgraph.data import open_source
from quantgraph.errors import BadFile, BadOption
from quantgraph.runs import RunSpec, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import answer_schema
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import OpenAIStub, Reply

pytestmark = pytest.mark.proof

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
LONG = "请" * (10_001 - len(SENTENCE)) + SENTENCE
HALF = "\udcff"
"""What an undecodable byte of a command line or a file name becomes."""
PAIR_BROKEN = "\ud83d"
THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def command(monkeypatch, capfd):
    """Run the command in this process: exit status, stdout, stderr."""

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["quantgraph", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
        return status, *capfd.readouterr()

    return call


def test_the_greatest_length_is_that_of_an_answer():
    assert MAX_TEXT_LENGTH == 10_000
    text, named = answer_schema("q")["anyOf"]
    assert text["maxLength"] == named["properties"]["answer"]["maxLength"] == 10_000
    check_sentence("买" * 10_000, "question")
    with pytest.raises(BadOption, match=r"^question has 10001 characters; at most 10000 are read$"):
        check_sentence("买" * 10_001, "question")


@pytest.mark.parametrize("text", [HALF, PAIR_BROKEN, f"均线{HALF}均线"])
def test_a_lone_surrogate_is_named_with_its_place(text):
    place = 3 if text.startswith("均线") else 1
    with pytest.raises(BadOption, match=rf"^out is not valid UTF-8 text: character {place} is \\u") as caught:
        check_text(text, "out")
    assert caught.value.data == {"parameter": "out"}
    caught.value.line.encode()  # one that can be written itself


# A run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"question": LONG}, "question"),
        ({"question": SENTENCE + HALF}, "question"),
        ({"symbols": ["000341.SZ", HALF]}, "symbols"),
        ({"start": HALF}, "start"),
        ({"end": PAIR_BROKEN}, "end"),
        ({"source": HALF}, "source"),
        ({"source": Path(HALF)}, "source"),
        ({"model": HALF}, "model"),
        ({"out": Path(HALF)}, "out"),
        ({"resources": Resources(ledger=HALF)}, "ledger"),
    ],
)
def test_a_run_is_not_begun_with_it(options, parameter):
    options = {"question": SENTENCE, "out": "runs", **options}
    with pytest.raises(BadOption) as caught:
        run_strategy(options.pop("question"), **options)
    assert caught.value.data == {"parameter": parameter}
    assert list(Path().iterdir()) == []


def test_a_run_of_the_longest_sentence_works():
    assert run_strategy(RunSpec(question=LONG[1:], trade=False), out="runs")["ended_because"] == "done"


def test_an_answer_with_half_a_character_is_read_with_a_question_mark():
    result = run_strategy(
        RunSpec(question="5日均线上穿20日均线买入", on_clarify="ask", trade=False), out="runs"
    )
    assert result["ended_because"] == "needs_answer"
    result = resume_run(result["run_dir"], answer=f"000341.SZ {HALF}")
    assert result["ended_because"] in {"needs_answer", "done"}
    result = resume_run(result["run_dir"], answer="x" * 10_001)
    assert result["ended_because"] == "needs_answer"


# The graphs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [create_signal_subgraph, create_trading_graph])
@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([LONG], "bad_option: messages has 10001 characters; at most 10000 are read"),
        ([SENTENCE, LONG], "bad_option: messages has 10001 characters; at most 10000 are read"),
        ([f"{HALF}{SENTENCE}"], "bad_option: messages is not valid UTF-8 text: character 1 is \\udcff"),
    ],
)
def test_a_graph_ends_with_a_line_and_its_thread_takes_the_next_request(make, messages, line):
    from langgraph.graph import START, StateGraph

    from quantgraph.subgraphs.signal import SignalSubgraphState

    host = StateGraph(SignalSubgraphState)
    host.add_node("inner", make())
    host.add_edge(START, "inner")
    graph = host.compile(checkpointer=InMemorySaver())
    ended = graph.invoke({"messages": [HumanMessage(text) for text in messages]}, THREAD)
    assert (ended["ended_because"], ended["error_messages"]) == ("needs_answer", [line])
    done = graph.invoke({"messages": [HumanMessage(SENTENCE)]}, THREAD)
    assert done["ended_because"] == "done", done["error_messages"]


def test_half_a_character_in_the_state_does_not_stop_a_saver_on_disk(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        host = create_signal_subgraph().builder.compile(checkpointer=saver)
        ended = host.invoke({"messages": [HumanMessage(SENTENCE + HALF)]}, THREAD)
    assert ended["ended_because"] == "needs_answer"


def test_an_answer_sent_as_a_message_has_the_same_limits():
    graph = create_signal_subgraph(on_clarify="ask").builder.compile(checkpointer=InMemorySaver())
    asked = graph.invoke({"messages": [HumanMessage("5日均线上穿20日均线买入，下穿卖出")]}, THREAD)
    assert asked["__interrupt__"]
    again = graph.invoke(Command(resume="x" * 10_001), THREAD)
    assert "最多 10000 个" in again["__interrupt__"][0].value["error"]
    ended = graph.invoke({"messages": [HumanMessage(LONG)]}, THREAD)
    assert ended["error_messages"][-1].startswith("bad_option: messages has 10001 characters")


@pytest.mark.parametrize(
    "given", [{"ts_code": "000341.SZ," * 1_001}, {"ts_code": HALF}, {"start_date": HALF}]
)
def test_what_the_caller_fixed_has_them_too(given):
    state = grouped({"messages": [HumanMessage(SENTENCE)], "given": given})
    ended = create_signal_subgraph(on_clarify="default").invoke(state)
    (line,) = ended["error_messages"]
    assert line.startswith(f"bad_option: {next(iter(given))} ")


def test_the_name_of_a_run_is_text():
    state = {"messages": [HumanMessage(SENTENCE)], "run_id": HALF}
    with pytest.raises(BadOption, match="run_id is not valid UTF-8 text"):
        create_signal_subgraph(on_clarify="default").invoke(state)


# Replies of a model -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("escaped", "because", "line"), [(False, "done", ""), (True, "max_retries", "model_output_invalid: ")]
)
def test_half_a_character_in_replies_of_a_model(command, monkeypatch, escaped, because, line):
    """As a character it is a question mark; as an escape in a model's JSON it makes the JSON invalid."""

    params = {
        "ts_code": "000341.SZ",
        "start_date": "20240102",
        "end_date": "20240131",
        "strategy_desc": "2日均线上穿5日均线买入，下穿卖出\ud800",
    }
    code = (
        '# \ud800\nclose = snapshot["ohlcv"]["close"]\nprint("\ud800")\n'
        "fast, slow = close.rolling(2).mean(), close.rolling(5).mean()\n"
        "above = (fast > slow).astype(float).where(slow.notna())\n"
        "signal = (0.0 * close).mask((above == 1) & (above.shift(1) == 0), 1.0)\n"
        "signal = signal.mask((above == 0) & (above.shift(1) == 1), -1.0).where(slow.notna())\n"
        'GLOBAL_DATA_STATE.update("signal", {"cross": signal})'
    )

    def answer(request):
        text = json.dumps(request.messages)
        if "<user_request>" in text:
            intent = {"type": "mixed", "params": params}
            told = {"task_type": "mixed", "user_intent": intent, "analysis": "\ud800", "unread": ["\udfff"]}
            return Reply.text(json.dumps(told, ensure_ascii=escaped))
        if request.messages[-1]["role"] == "tool":
            return Reply.text("done \ud800")
        if "<strategy>" in text:
            return Reply.call("python_repl", query=code)
        if "<fetch>" in text:
            window = {"start_date": "20240102", "end_date": "20240131"}
            return Reply.call("tushare_daily_bar", ts_code="000341.SZ", **window)
        issue = {"severity": "warning", "type": "\ud800", "message": "\ud800", "suggestion": "\ud800"}
        return Reply.text(json.dumps({"validation_passed": True, "issues_found": [issue]}))

    with OpenAIStub(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-secret")
        monkeypatch.setenv("QUANTGRAPH_MODEL", "stub")
        monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "1")
        status, out, err = command("run", "--signal-only", SENTENCE, "--headless", "--json")
    assert "Traceback" not in err
    assert "UnicodeEncodeError" not in err + out
    result = json.loads(out)
    assert result["ended_because"] == because, result["error"]
    assert (status, result.get("error", "").startswith(line)) == (int(because != "done"), True)


# The command ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["signal", f"5日均线{HALF}"],
        ["run", SENTENCE, "--source", HALF],
        ["run", SENTENCE, f"--out={HALF}"],
        ["run", SENTENCE, "--model", HALF],
        ["resume", HALF],
        ["resume", "x", "--answer", HALF],
        ["replay", HALF],
        ["audit", f"{HALF}.py"],
        ["ledger", "show", HALF],
        ["ledger", "export", "--to", HALF],
        [HALF],
    ],
)
def test_an_argument_that_is_not_text_is_wrong_usage(command, arguments):
    place = next(at for at, argument in enumerate(arguments, 1) if HALF in argument)
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"bad_option: argument {place} is not valid UTF-8 text: character ")
    assert err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_a_real_byte_on_a_real_command_line():
    program = os.fsencode(Path(sys.executable).with_name("quantgraph"))
    done = subprocess.run(
        [program, b"signal", "5日均线".encode() + b"\xff"], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == b"bad_option: argument 2 is not valid UTF-8 text: character 5 is \\udcff\n"


def test_a_long_sentence_is_wrong_usage(command):
    status, out, err = command("run", LONG, "--headless", "--json")
    assert (status, out) == (2, "")
    assert err == "bad_option: question has 10001 characters; at most 10000 are read\n"
    assert list(Path().iterdir()) == []


def test_a_long_number_is_named_in_the_question(command):
    status, out, err = command(
        "run", f"合成30，{'9' * 400}日均线上穿20日均线买入，2025年", "--headless", "--json"
    )
    assert status == 1
    assert "400 位数字，最多读 15 位" in json.loads(out)["error"]
    assert "OverflowError" not in err


def test_a_typed_answer_that_is_not_text_is_asked_for_again(command):
    status, out, err = command(
        "run", "--signal-only", "5日均线上穿20日均线买入，下穿卖出", "--json", stdin=b"\xff\xfe\n"
    )
    assert status == 1, err
    assert out, err
    assert json.loads(out)["ended_because"] == "needs_answer"
    assert "UnicodeDecodeError" not in err


def test_a_file_with_a_name_that_is_not_text(command, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / os.fsdecode(b"\xff.csv")).write_text("ts_code,trade_date,open,high,low,close,vol\n")
    status, _, err = command("run", "--signal-only", SENTENCE, "--source", folder, "--headless")
    assert status == 2
    assert err.startswith(r"bad_file: the file name '\udcff.csv' is not UTF-8; rename the file")
    with pytest.raises(BadFile, match="is not UTF-8; rename the file"):
        open_source(folder).sessions()


def test_a_setting_that_is_not_text_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_MODEL", HALF)
    with pytest.raises(BadOption, match=r"^QUANTGRAPH_MODEL \(environment\) is not valid UTF-8 text"):
        load_settings()
    monkeypatch.setenv("QUANTGRAPH_MODEL", "keyless")
    for half in (HALF, json.dumps(HALF)[1:-1]):
        monkeypatch.setenv("QUANTGRAPH_MODELS", f'{{"clarify": "{half}"}}')
        with pytest.raises(BadOption, match=r"^QUANTGRAPH_MODELS \(environment\) is not valid UTF-8 text"):
            load_settings()
