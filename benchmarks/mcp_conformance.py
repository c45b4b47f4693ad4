"""Clients that are not ours: the conformance tool against the server, and the inspector's CLI for a day.

Usage: ``mcp_conformance.py FOLDER``, where ``FOLDER/node_modules`` has ``@modelcontextprotocol/conformance``
and ``@modelcontextprotocol/inspector``; ``make mcp-conformance`` installs them there. Needs Node 20. What
cannot apply is in ``mcp_expected_failures.yaml`` beside this file. The conformance tool cannot send a
token, so it meets the server without one, on a port of loopback that is open only meanwhile.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from quantgraph.integrations.mcp import ClientHandler
from quantgraph.integrations.mcp._server import bound_socket, serving_http
from quantgraph.tools.mcp import http_app, make_server

EXPECTED = Path(__file__).with_name("mcp_expected_failures.yaml")
COMMAND = [sys.executable, "-c", "from quantgraph.cli import main; main()", "mcp", "trade"]


def conformance(tools: Path) -> int:
    """Run the tool's server suite, and return its exit status."""
    with bound_socket(0, "port") as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        with serving_http([(http_app(make_server(ClientHandler())), listening)]):
            call = [tools / "conformance", "server", "--url", url, "--expected-failures", EXPECTED]
            return subprocess.run(call, check=False, cwd=tempfile.mkdtemp()).returncode


def inspector_day(tools: Path) -> None:
    """Trade a day by the inspector's CLI: each call is a process of its own, which the run survives."""
    folder = Path(tempfile.mkdtemp())
    new = ["--new", "000341.SZ", "--start", "20250106", "--end", "20250106", "--source", "sample"]
    today = asked(tools, [*new, "--out", str(folder)], "get_today")
    (run,) = folder.iterdir()
    order = {"symbol": "000341.SZ", "amount": 100, "order_id": "first"}
    bought = [asked(tools, [str(run)], "buy", **order) for _ in range(2)]
    ended = asked(tools, [str(run)], "finish_day", notes="by the inspector")
    assert bought[0] == bought[1], bought
    assert bought[0]["000341.SZ"] == 100, bought
    assert ended == {"committed": "2025-01-06", "next": None}, ended
    print(f"inspector: {today['date']} traded, {bought[0]}, {ended}")


def asked(tools: Path, own: list[str], name: str, **args: Any) -> Any:
    """Call one tool by the inspector's CLI; it takes options for its own, so the server is a script."""
    script = Path(tempfile.mkdtemp()) / "server"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([*COMMAND, *own])}\n")
    script.chmod(0o700)
    given = [part for key, value in args.items() for part in ("--tool-arg", f"{key}={value}")]
    call = [str(tools / "mcp-inspector"), "--cli", str(script), "--method", "tools/call", "--tool-name", name]
    said = subprocess.run([*call, *given], check=False, capture_output=True, text=True)
    if said.returncode or not said.stdout.strip():
        raise SystemExit(f"inspector: {said.stdout}{said.stderr}")
    answer = json.loads(said.stdout)
    return answer.get("structuredContent") or json.loads(answer["content"][0]["text"])


def main() -> None:
    """Run both."""
    tools = Path(sys.argv[1]).absolute() / "node_modules" / ".bin"
    status = conformance(tools)
    inspector_day(tools)
    sys.exit(status)


if __name__ == "__main__":
    main()
