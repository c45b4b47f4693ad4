"""Research over MCP in tests: a sentence, code that does it and code that leaks, and servers as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from quantgraph.tools.mcp._package import open_client

COMMAND = [sys.executable, "-c", "from quantgraph.cli import main; main()", "mcp", "--source", "sample"]
TOKEN = "a-token-of-research-clients"
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
SENTENCE = f"000341.SZ, 2025: {RULE}, stop loss 8%"
GOOD = """close = snapshot["ohlcv"]["close"]
fast, slow = (close.apply(lambda s, n=n: s.dropna().rolling(n).mean().reindex(s.index)) for n in (5, 20))
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
signal = (close * 0).mask(buy, 1.0).mask(sell, -1.0).where(slow.notna())
GLOBAL_DATA_STATE.update("signal", {"cross_5_20": signal})
"""
LEAKY = GOOD.replace(
    "fast.shift(1) <= slow.shift(1))", "fast.shift(1) <= slow.shift(1)) & (close.shift(-1) > close)", 1
)


def environment() -> dict[str, str]:
    """The environment of a user, whose audits are not those of quick tests."""
    kept = {name: value for name, value in os.environ.items() if name != "QUANTGRAPH_AUDIT"}
    return {**kept, "QUANTGRAPH_MCP_TOKEN": TOKEN}


class HttpServer:
    """A research server over HTTP, as a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "--http", *options],
            cwd=folder,
            env=environment(),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        line = next(line for line in self.process.stderr if line.startswith("{"))
        self.url = json.loads(line)["mcpServers"]["quantgraph"]["url"]

    def client(self) -> Any:
        """Open a client."""
        return open_client(self.url, headers={"Authorization": f"Bearer {TOKEN}"})

    def kill(self) -> None:
        """End the process at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self) -> int:
        """End the process as its owner does, and return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


def stdio(folder: Path) -> Any:
    """Open a client of a server over stdio, which is the client's child."""
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment(), cwd=folder)
    return Client(stdio_client(parameters))


async def ask(client: Any, name: str, **args: Any) -> dict[str, Any]:
    """What a tool answers."""
    result = await client.call_tool(name, args)
    assert result.structured_content is not None
    assert result.is_error == ("code" in result.structured_content)
    return dict(result.structured_content)
