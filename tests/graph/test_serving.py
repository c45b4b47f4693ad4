"""``langgraph.json`` on a real development server: a question is asked and answered over HTTP."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_sdk.runtime import _ExecutionRuntime, _ReadRuntime
from loopback_only import OUTSIDE, loopback_only

from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption
from quantgraph.graph import serving
from quantgraph.graph._context import SignalContext, TradingContext, read_context, trading_options
from quantgraph.graph._trading import make_trading
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"


@contextmanager
def server(folder: Path, *, killed: bool = False) -> Iterator[httpx.Client]:
    """A development server whose state is in ``folder``, and a client; it is stopped like by Ctrl-C, or killed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "PYTHONPATH": loopback_only(folder),
    }
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser", "--no-reload"]
    command += ["--config", str(ROOT / "langgraph.json"), "--host", "127.0.0.1", "--port", str(port)]
    with (
        (folder / "log").open("a") as log,
        subprocess.Popen(command, cwd=folder, env=os.environ | quiet, stdout=log, stderr=log) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        try:
            _await(client, process)
            yield client
        finally:
            process.send_signal(signal.SIGKILL if killed else signal.SIGINT)
            process.wait(timeout=20)


def _await(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert process.poll() is None, "the server has ended"
        try:
            if client.get("/ok").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail("the server does not answer")


def _streamed(client: httpx.Client, thread: str, task: dict[str, Any]) -> list[tuple[str, Any]]:
    """What a run streams: (name of the part, its data)."""
    wanted = {"stream_mode": ["updates", "custom"], "stream_subgraphs": True}
    with client.stream("POST", f"/threads/{thread}/runs/stream", json=task | wanted) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith(("event: ", "data: "))]
    values = [line.partition(": ")[2] for line in lines]
    return [(name, json.loads(data)) for name, data in zip(values[::2], values[1::2], strict=True)]


@pytest.mark.proof
def test_a_question_is_asked_and_answered_over_http_even_if_the_server_is_started_anew(tmp_path):
    with server(tmp_path) as client:
        thread = client.post("/threads", json={}).json()["thread_id"]
        begun = {"assistant_id": "trading", "input": {"messages": [{"role": "user", "content": SENTENCE}]}}
        asked = client.post(f"/threads/{thread}/runs/wait", json=begun).json()
        (pause,) = asked["__interrupt__"]
        assert (pause["value"]["kind"], "ended_because" in asked) == ("window", False)

    with server(tmp_path) as client:
        state = client.get(f"/threads/{thread}/state").json()
        assert [task["interrupts"][0]["value"] for task in state["tasks"]] == [pause["value"]]
        resumed = {"assistant_id": "trading", "command": {"resume": "from 20250102 to 20250331"}}
        parts = _streamed(client, thread, resumed)
        done = client.get(f"/threads/{thread}/state").json()["values"]
        known = _known(client)

    assert done["ended_because"] == "done"
    assert done["summary"]["account"]["trades"] > 0
    assert [message["type"] for message in done["messages"]] == ["human", "ai", "human", "ai", "ai"]
    told = [data for name, data in parts if name.startswith("custom")]
    assert [event["path"] for event in told if event.get("status") == "finished"][:2] == [
        "signal/clarify",
        "signal/reflection",
    ]
    assert [event["session"] for event in told if event["event"] == "quantgraph.session"][-1] == "20250331"
    assert {assistant["graph_id"] for assistant in known} == {"signal", "trading"}
    log = (tmp_path / "log").read_text()
    assert "BlockingError" not in log
    assert "Traceback" not in log
    assert OUTSIDE not in log


def _known(client: httpx.Client) -> list[dict[str, Any]]:
    return client.post("/assistants/search", json={}).json()


def _schemas(client: httpx.Client) -> dict[str, dict[str, Any]]:
    """What the server shows of each graph."""
    return {
        each["graph_id"]: client.get(f"/assistants/{each['assistant_id']}/schemas").json()
        for each in _known(client)
    }


def _await_flush(folder: Path, threads: list[str]) -> None:
    """Wait until the development server has written what it has in memory, as it does every few seconds."""
    for _ in range(300):
        kept = b"".join(path.read_bytes() for path in (folder / ".langgraph_api").glob("*checkpoint*"))
        if all(thread.encode() in kept for thread in threads):
            time.sleep(0.5)
            return
        time.sleep(0.1)
    pytest.fail("the server has written nothing")


def _cash(folder: Path, run_id: str) -> str:
    with Ledger(folder / "runs" / run_id / "ledger.sqlite") as ledger:
        return str(ledger.cash(run_id))


APPROVE = {"decisions": [{"type": "approve"}]}


def _answered(client: httpx.Client, thread: str, assistant: str, resume: Any) -> dict[str, Any]:
    """Resume a thread of an assistant; the output of the run."""
    body = {"assistant_id": assistant, "command": {"resume": resume}}
    return client.post(f"/threads/{thread}/runs/wait", json=body).json()


def _assistant(client: httpx.Client, graph: str = "trading", **context: Any) -> str:
    made = client.post("/assistants", json={"graph_id": graph, "context": context})
    return made.raise_for_status().json()["assistant_id"]


def _begun(client: httpx.Client, assistant: str, text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A new thread, and the output of its first run."""
    thread = client.post("/threads", json={}).json()["thread_id"]
    body = {"assistant_id": assistant, "input": {"messages": [{"role": "user", "content": text}]}, **more}
    return thread, client.post(f"/threads/{thread}/runs/wait", json=body).json()


@pytest.mark.proof
def test_two_assistants_at_once_do_not_mix_and_go_on_after_the_server_was_killed(tmp_path):
    words = f"{SENTENCE}, 20250102 to 20250110"
    with server(tmp_path, killed=True) as client:
        contexts = [
            {"cash": 300_000, "approve": True, "questions": "hitl", "plan": {"max_positions": 2}},
            {"decider": "buy_and_hold", "cash": 500_000, "approve": True},
        ]
        assistants = [_assistant(client, **context) for context in contexts]
        with ThreadPoolExecutor(2) as pool:
            begun = list(pool.map(lambda assistant: _begun(client, assistant, words), assistants))
        values = [output["__interrupt__"][0]["value"] for _, output in begun]
        assert [value["kind"] for value in values] == ["approval", "approval"]
        # On 3 January one symbol has its signal; buy and hold buys all that the sample trades on 2 January.
        first = values[0]["action_requests"]
        assert (len(first), "orders" in values[0]) == (1, False)
        assert len(values[1]["orders"]) == 30
        assert "action_requests" not in values[1]
        _await_flush(tmp_path, [thread for thread, _ in begun])

    with server(tmp_path) as client:
        shown = [client.get(f"/threads/{thread}/state").json() for thread, _ in begun]
        assert [state["tasks"][0]["interrupts"][0]["value"] for state in shown] == values
        thread = begun[0][0]
        output = _answered(client, thread, assistants[0], APPROVE)
        while "__interrupt__" in output:
            count = len(output["__interrupt__"][0]["value"]["action_requests"])
            output = _answered(client, thread, assistants[0], {"decisions": APPROVE["decisions"] * count})
        outputs = [output, _answered(client, begun[1][0], assistants[1], "approve all that follow")]
    assert [output["ended_because"] for output in outputs] == ["done", "done"]
    assert [_cash(tmp_path, output["run_id"]) for output in outputs] == ["300000.00", "500000.00"]
    accounts = [output["summary"]["account"] for output in outputs]
    assert accounts[1]["trades"] == 30
    assert 0 < accounts[0]["trades"] < 10


def made(factory: Any, context: Any = None, *, reads: bool = False) -> Any:
    """The graph that a factory makes for a context, or to read a thread."""
    kind = _ReadRuntime if reads else _ExecutionRuntime
    more = {"access_context": "threads.read"} if reads else {"context": context}
    runtime = kind(**{"access_context": "threads.create_run", "store": None} | more)
    return asyncio.run(factory({"configurable": {"__pregel_checkpointer": object()}}, runtime))


HOSTILE = [
    ({"decider": "x.py:Evil"}, "decider='x.py:Evil' is not offered by this server"),
    ({"decider": "mcp_client"}, "decider='mcp_client' is not offered"),
    ({"decider": 'execution?{"rounds": 500}'}, "is not offered by this server; valid are"),
    ({"source": "/etc/passwd"}, "source='/etc/passwd' is not offered by this server; valid are sample"),
    ({"source": "qlib:/"}, "is not offered"),
    ({"models": {"reflection": "http://127.0.0.1:1/v1"}}, "is not offered by this server; valid are keyless"),
    ({"models": {"reflecton": "keyless"}}, "models.reflecton is not a role; did you mean 'reflection'?"),
    ({"models": {"reflection": {"name": "keyless", "key": "sk"}}}, "must be by role the name of a model"),
    ({"openai_api_key": "sk-1"}, "openai_api_key is not a key; valid are source, models"),
    ({"settings": {"runs_dir": "/tmp"}}, "settings is not a key"),
    ({"cash": -1}, "cash is -1; must be the starting cash, above 0 and at most 1e10"),
    ({"cash": 1e13}, "at most 1e10"),
    ({"cash": True}, "cash is True; must be"),
    ({"cash": "500"}, "cash is '500'; must be"),
    ({"plan": {"cash": 1e18}}, "plan: cash="),
    ({"plan": {"cash": "1e30"}}, "plan: cash="),
    ({"plan": {"cash": "20000000000"}}, "plan: cash must be at most 1e10"),
    ({"models": {"a\nb\x1b[31m": "keyless"}}, "is not a role; valid are"),
    ({"plan": {"size": [[[[]]]]}}, "plan: "),
    ({"cash": "all"}, "must be the starting cash"),
    ({"cash": 0.001}, "cash"),
    ({"market": "uk"}, "must be cn or us"),
    ({"plan": {"stop_loss": 9}}, "plan: stop_loss=9; must be a fraction in (0, 1)"),
    ({"plan": {"stop_los": 0.1}}, "did you mean stop_loss?"),
    ({"plan": {"size": {"weights": {str(n): 0.1 for n in range(3000)}}}}, "more than 16384 characters"),
    ({"questions": "html"}, "must be hitl, which chat pages answer, or quantgraph"),
    ({"approve": "maybe"}, "must be true or false"),
]


@pytest.mark.parametrize(("context", "line"), HOSTILE)
def test_a_context_of_something_else_than_names_and_bounded_numbers_is_a_bad_option(context, line):
    with pytest.raises(BadOption) as caught:
        made(serving.trading_graph, context)
    assert line in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("context", ["keyless", ["keyless"], 7])
def test_a_context_that_is_no_object_is_a_bad_option(context):
    with pytest.raises(BadOption, match="must be a JSON object"):
        made(serving.signal_graph, context)


def test_a_context_is_refused_without_recursion():
    deep: Any = 1
    for _ in range(100_000):
        deep = {"plan": deep}
    with pytest.raises(BadOption, match="nested too deeply"):
        made(serving.trading_graph, deep)


@pytest.mark.parametrize("place", ["source", "decider"])
def test_what_the_server_offers_and_cannot_make_is_refused_without_its_path_or_its_reason(
    place, tmp_path, caplog
):
    (tmp_path / "secret.py").write_text("raise ValueError('token sk-1')")
    offered = {
        "sources": {"it": str(tmp_path / "secret.csv")},
        "deciders": {"it": f"{tmp_path}/secret.py:It"},
    }
    settings = load_settings(assistants=offered)
    context = read_context(TradingContext, {place: "it"}, settings)
    with pytest.raises(BadOption) as caught:
        trading_options(context, settings, Resources(settings=settings))
    assert caught.value.message == f"context: {place}='it' cannot be made; the server's log says why"
    assert caught.value.__cause__ is None
    assert "secret" in caplog.text


def test_tables_of_an_assistant_are_added_to_those_of_the_server():
    defaults = {"plan": {"stop_loss": 0.08}, "models": {"filter": "keyless", "judge": "keyless"}}
    settings = load_settings(assistants={"defaults": defaults})
    context = read_context(TradingContext, {"plan": {"max_positions": 5}}, settings)
    assert context.plan == {"stop_loss": 0.08, "max_positions": 5}
    options = trading_options(context, settings, Resources(settings=settings))
    assert options["resources"].settings.model_for("filter") == "keyless"
    context = read_context(TradingContext, {"models": {"judge2": "keyless"}}, settings)
    with pytest.raises(BadOption, match=r"models\.judge2 is not a role"):
        trading_options(context, settings, Resources(settings=settings))


THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """Makes the trading graph of a context, on one saver, as a server in an empty folder does."""
    monkeypatch.chdir(tmp_path)
    serving._store.cache_clear()
    serving._trading.cache_clear()
    saver = InMemorySaver()

    def make(**context: Any) -> Any:
        return made(serving.trading_graph, context).copy(update={"checkpointer": saver})

    return make


def test_an_approval_is_not_answered_with_another_context(graph):
    words = f"{SENTENCE}, 20250102 to 20250110"
    asked = graph(approve=True).invoke({"messages": [("user", words)]}, THREAD)
    assert asked["__interrupt__"][0].value["kind"] == "approval"
    for context in ({}, {"decider": "buy_and_hold"}):
        with pytest.raises(BadOption, match="this request began with the context"):
            graph(**context).invoke(Command(resume="reject"), THREAD)
    assert graph(approve=True).get_state(THREAD).next == ("approve",)
    state = graph(approve=True).invoke(Command(resume="approve all that follow"), THREAD)
    assert state["summary"]["account"]["trades"] > 0


def test_an_assistant_gets_what_the_server_offers_under_a_name(tmp_path, monkeypatch):
    code = "from quantgraph.broker import Decider\n\nclass Idle(Decider):\n    name = 'idle'\n    def decide(self, context):\n        return []\n"
    (tmp_path / "idle.py").write_text(code)
    bars = "trade_date,open,high,low,close,vol\n2024-01-02,1,1,1,1,100\n"
    (tmp_path / "AAPL.csv").write_text(bars)
    settings = load_settings(
        assistants={
            "sources": {"shares": str(tmp_path / "AAPL.csv")},
            "models": {"small": "qwen3"},
            "deciders": {"idle": f"{tmp_path / 'idle.py'}:Idle"},
            "defaults": {"cash": 500, "questions": "hitl", "source": "shares"},
        }
    )
    context = read_context(TradingContext, {"decider": "idle", "models": {"reflection": "small"}}, settings)
    trading = make_trading(**trading_options(context, settings, Resources(settings=settings)))
    assert (trading.decider.name, trading.cash, trading.rules.market) == ("idle", Decimal(500), "us")
    assert (trading.resources.questions, trading.resources.settings.model_for("reflection")) == (
        "hitl",
        "qwen3",
    )
    assert read_context(TradingContext, {"cash": 7}, settings).cash == 7
    assert read_context(SignalContext, {}, settings).questions == "hitl"
    with pytest.raises(
        BadOption, match="decider='signal_rule' is not offered by this server; valid are idle"
    ):
        read_context(TradingContext, {"decider": "signal_rule"}, settings)
    wrong = load_settings(assistants={"defaults": {"cahs": 1}})
    with pytest.raises(BadOption, match=r"assistants\.defaults\.cahs is not a key; valid are source"):
        read_context(SignalContext, {}, wrong)


def test_a_request_is_not_traded_with_another_context_than_it_began_with(graph, tmp_path):
    asked = graph(cash=500).invoke({"messages": [("user", SENTENCE)]}, THREAD)
    assert asked["__interrupt__"][0].value["kind"] == "window"
    with pytest.raises(
        BadOption, match=r'this request began with the context \{"cash":500.0\}; pass it again'
    ):
        graph().invoke(Command(resume="20250102 to 20250110"), THREAD)
    (place,) = tmp_path.rglob("ledger.sqlite")
    with Ledger(place) as ledger:
        assert ledger.runs() == []
    state = graph(cash=500).invoke(None, THREAD)
    assert (state["ended_because"], _cash(tmp_path, state["run_id"])) == ("done", "500.00")
    again = graph(cash=700).invoke({"messages": [("user", "20250102 to 20250115")]}, THREAD)
    assert _cash(tmp_path, again["run_id"]) == "700.00"


def test_nothing_of_a_server_is_loaded_by_the_graphs_or_their_factories():
    code = (
        "import sys, quantgraph, quantgraph.graph.serving\n"
        "quantgraph.create_trading_graph(), quantgraph.create_signal_subgraph()\n"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('langgraph_api', 'langgraph_runtime', 'langgraph_cli', 'starlette', 'uvicorn', 'deepagents', 'mlflow')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.proof
def test_a_hostile_context_is_refused_in_one_line_before_a_node_runs(tmp_path):
    with server(tmp_path) as client:
        for context, line in HOSTILE:
            thread, output = _begun(client, "trading", SENTENCE, context=context)
            error = output["__error__"]
            assert (error["error"], line in error["message"]) == ("BadOption", True), (context, error)
            assert "\n" not in error["message"]
            assert client.get(f"/threads/{thread}/history").json() == []
    assert not list((tmp_path / "runs").rglob("*.sqlite"))


@pytest.mark.proof
def test_the_servers_own_mcp_and_a2a_endpoints_take_a_sentence_and_an_answer(tmp_path):
    accept = {"accept": "application/json, text/event-stream"}
    with server(tmp_path) as client:

        def call(path: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post(path, json=body, headers=accept).json()["result"]

        tools = {tool["name"]: tool for tool in call("/mcp", "tools/list", {})["tools"]}
        assert len(json.dumps(tools)) < 2500
        for sentence, ended in ((SENTENCE, "needs_answer"), (f"{SENTENCE}, 20250102 to 20250110", "done")):
            arguments = {"messages": [{"role": "user", "content": sentence}]}
            jsonschema.validate(arguments, tools["trading"]["inputSchema"])
            (part,) = call("/mcp", "tools/call", {"name": "trading", "arguments": arguments})["content"]
            result = ast.literal_eval(part["text"])  # the server writes Python's repr
            assert result["ended_because"] == ended
            jsonschema.validate(result, _schemas(client)["trading"]["output_schema"])
        (signal_id,) = [each["assistant_id"] for each in _known(client) if each["graph_id"] == "signal"]

        def send(text: str, **task: str) -> dict[str, Any]:
            message = {
                "role": "user",
                "messageId": text[:9],
                "parts": [{"kind": "text", "text": text}],
            } | task
            return call(f"/a2a/{signal_id}", "message/send", {"message": message})

        asked = send(SENTENCE)
        assert asked["status"]["state"] == "input-required"
        done = send("20250102 to 20250110", contextId=asked["contextId"], taskId=asked["id"])
        assert done["status"]["state"] == "completed"
        assert "cross_up_sma_5_sma_20 is ready" in json.dumps(done)


@pytest.mark.proof
def test_what_the_server_shows_of_a_graph_is_small_and_described(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "QUANTGRAPH_ASSISTANTS",
        json.dumps({"sources": {"shares": "/nowhere"}, "models": {"m": "secret-model"}}),
    )
    with server(tmp_path) as client:
        shown = _schemas(client)
    for schemas in shown.values():
        for name in ("input_schema", "output_schema", "context_schema"):
            assert len(json.dumps(schemas[name])) < 2000
            assert all("description" in field for field in schemas[name]["properties"].values())
    form = shown["trading"]["context_schema"]["properties"]
    assert form["source"]["anyOf"][0]["enum"] == ["sample", "shares"]
    assert "signal_rule" in form["decider"]["anyOf"][0]["enum"]
    assert "nowhere" not in json.dumps(shown)
    assert "secret" not in json.dumps(shown)


def test_a_factory_makes_one_graph_for_each_context_and_leaves_the_checkpointer_to_the_server():
    for factory in (serving.signal_graph, serving.trading_graph):
        first, again = made(factory), made(factory, {})
        assert first.checkpointer is None
        assert again is first
        assert made(factory, {"questions": "hitl"}) is not first
        every = set(made(factory, reads=True).get_graph(xray=True).nodes)
        contexts = [{}] if factory is serving.signal_graph else [{"approve": True}, {"decider": "trader"}]
        for context in contexts:
            assert set(made(factory, context).get_graph(xray=True).nodes) <= every
