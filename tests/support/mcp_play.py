"""A run that is traded over MCP in tests: its bars, its server in this process, and the package's own client."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from langgraph.runtime import RunControl

from quantgraph.broker.ledger import Ledger
from quantgraph.integrations.mcp import McpAccess, resume_mcp_run, start_mcp_run
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec
from quantgraph.runtime import Resources
from quantgraph.tools.mcp._package import open_client

DAYS = ["2025-08-28", "2025-08-29", "2025-09-02", "2025-09-03"]
OPENS = {"AAA": [10.0, 11.0, 12.0, 13.0], "BBB": [50.0, 50.0, 50.0, 50.0]}
QUESTION = "AAA, BBB: the autonomous trader trades"
TOKEN = "a-token-of-twenty-four-c"


def prices(folder: Path) -> Path:
    """Write the bars; the opens are :data:`OPENS`."""
    rows = ["symbol,date,open,high,low,close,volume"]
    for symbol, opens in OPENS.items():
        rows += [
            f"{symbol},{day},{at},{at + 1},{at - 1},{at},100000" for day, at in zip(DAYS, opens, strict=True)
        ]
    file = folder / "prices.csv"
    file.write_text("\n".join(rows) + "\n")
    return file


def spec(start: str = "20250829", end: str = "20250902", cash: int = 1_000) -> RunSpec:
    """Two sessions, without fees."""
    return RunSpec(
        question=QUESTION,
        symbols=("AAA", "BBB"),
        start=start,
        end=end,
        cash=cash,  # type: ignore[arg-type]
        rules=Rulebook.zero_cost("us"),
    )


class McpRun:
    """A run in a thread of its own, and where its server is."""

    def __init__(
        self,
        folder: Path,
        *,
        run: Path | None = None,
        token: str = TOKEN,
        services: bool = False,
        cash: int = 1_000,
    ) -> None:
        self.control, self.result, self.error = RunControl(), {}, None
        self.ready = threading.Event()
        self.servers: dict[str, Any] = {}
        access = McpAccess(port=0, token=token, services=(0, 0, 0, 0) if services else None)
        live = Resources(source=str(folder / "prices.csv"), control=self.control)

        def work() -> None:
            try:
                if run is None:
                    self.result = start_mcp_run(
                        spec(cash=cash), access, resources=live, out=folder / "runs", tell=self._told
                    )
                else:
                    self.result = resume_mcp_run(run, access, resources=live, tell=self._told)
            except BaseException as error:
                self.error = error
            finally:
                self.ready.set()

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        assert self.ready.wait(30)
        if self.error:
            raise self.error

    def _told(self, line: str) -> None:
        self.servers = json.loads(line)["mcpServers"]
        self.ready.set()

    @property
    def url(self) -> str:
        return self.servers["quantgraph"]["url"]

    def end(self) -> dict[str, Any]:
        """Wait for the result."""
        self.thread.join(30)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error
        return self.result

    def stop(self) -> dict[str, Any]:
        """Stop the run at its next step, and return its result."""
        self.control.request_drain("told to stop")
        return self.end()


Talk = Callable[[Callable[..., Awaitable[Any]]], Awaitable[Any]]


def talk(url: str, say: Talk, token: str = TOKEN) -> Any:
    """Let ``say(call)`` speak with a server over HTTP; ``call(name, **args)`` returns what a tool answers."""

    async def main() -> Any:
        async with open_client(url, headers={"Authorization": f"Bearer {token}"}) as client:

            async def call(name: str, **args: Any) -> Any:
                return (await client.call_tool(name, args)).structured_content

            return await say(call)

    return anyio.run(main)


def trades(folder: Path | str) -> list[tuple[str, str, str, int, float]]:
    """Session, side, symbol, shares and price of each fill in a run's ledger."""
    with Ledger(Path(folder) / "ledger.sqlite") as book:
        return [
            (f"{fill.session:%Y-%m-%d}", fill.side, fill.order.symbol, int(fill.quantity), float(fill.price))
            for result in book.history(Path(folder).name)
            for fill in result.fills
        ]
