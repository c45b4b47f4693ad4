"""A client of a LangGraph server that has our graphs: a question and its answer go over HTTP.

    pip install "langgraph-cli[inmem]"

The script starts the server of `langgraph.json` itself, as `langgraph dev` does in a terminal of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_core.runnables import RunnableConfig
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_sync_client

CONFIG = Path(__file__).resolve().parents[1] / "langgraph.json"
QUIET = {"LANGGRAPH_NO_VERSION_CHECK": "true", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}


@contextmanager
def server() -> Iterator[str]:
    """Run a server on a free port of this machine, with its state in the working folder, and give its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--config", str(CONFIG)]
    command += ["--port", str(address[1]), "--no-browser", "--no-reload"]
    with (
        Path("server.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(command, env=os.environ | QUIET, stdout=log, stderr=log) as process,
    ):
        try:
            while process.poll() is None and not is_open(address):
                time.sleep(0.1)
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            process.send_signal(signal.SIGINT)


def is_open(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


if __name__ == "__main__":
    with server() as url, get_sync_client(url=url) as client:
        trading = RemoteGraph("trading", sync_client=client)
        thread: RunnableConfig = {"configurable": {"thread_id": str(uuid.uuid4())}}
        sentence = "000341.SZ, buy when RSI(14) is below 30, sell when it is above 70"
        state = trading.invoke({"messages": [{"role": "user", "content": sentence}]}, thread)
        print(state["__interrupt__"][0]["value"]["question"])
        state = trading.invoke(Command(resume="2025"), thread)
        print(f"{state['ended_because']}. {state['messages'][-1]['content']}")
