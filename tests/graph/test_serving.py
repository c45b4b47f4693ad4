"""``langgraph.json`` on a real development server: a question is asked and answered over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from quantgraph.graph import serving

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
WATCHED = """
import sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = args[1][0] if event == "socket.connect" and isinstance(args[1], tuple) else args[0]
        if isinstance(host, str) and host not in ("127.0.0.1", "::1", "localhost"):
            print("OUTSIDE", event, host, file=sys.stderr)
            raise ConnectionRefusedError(host)

sys.addaudithook(watch)
"""


@contextmanager
def server(folder: Path) -> Iterator[httpx.Client]:
    """A development server whose state is in ``folder``, and a client of it; it is stopped like by Ctrl-C."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "sitecustomize.py").write_text(WATCHED)
    quiet = {
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_NO_VERSION_CHECK": "true",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "PYTHONPATH": str(folder),
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
            process.send_signal(signal.SIGINT)
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
        known = client.post("/assistants/search", json={}).json()

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
    assert "OUTSIDE" not in log


def test_the_factories_take_nothing_and_give_graphs_that_leave_the_checkpointer_to_the_server():
    for factory in (serving.signal_graph, serving.trading_graph):
        first, again = asyncio.run(factory()), asyncio.run(factory())
        assert first.checkpointer is None
        assert again is first
