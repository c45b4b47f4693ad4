"""Make ten runs whose outcome must stay equal, and compare two such sets.

python scripts/golden_runs.py OUT                     with the quantgraph of this interpreter
python scripts/golden_runs.py OUT --source CHECKOUT   with that of CHECKOUT/.venv
python scripts/golden_runs.py --compare A B           say which are equal to the byte

Of each run OUT has ``NAME.ledger.txt``, the journal and the signal, which must stay equal, and
``NAME.record.txt``, the strategy and all that models, tools and code were asked and replied. Only names that
stay are used, so that the file works on older checkouts and on newer ones.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pandas as pd

from quantgraph.settings import Settings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ai-trader"
QUANTGRAPH = [sys.executable, "-m", "quantgraph"]
JOURNAL = "SELECT line, session, kind, body FROM journal WHERE run_id = ? ORDER BY line"
STEPS = (
    "SELECT timestamp, symbol, step, action_type, action_data, result_data FROM execution_logs"
    " ORDER BY timestamp, symbol, step"
)
RECORD = (
    "SELECT path, seq, kind, attempt, final, session, role, model, request, reply, error FROM recording"
    " WHERE run_id = ? ORDER BY path, kind, seq, request, attempt"
)
CROSS = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
STOP = "<FINISH_SIGNAL>"


def strategy(sentence: str, **options: Any) -> None:
    """Run a sentence below the working folder."""
    from quantgraph import run_strategy

    options = {"model": "keyless", "source": "sample", **options}
    ended = run_strategy(sentence, out="runs", **options)["ended_because"]
    if ended != "done":
        raise SystemExit(f"{sentence}: {ended}")


def chinese() -> None:
    """Trade the signal of a Chinese sentence."""
    strategy("合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年")


def english() -> None:
    """Trade the signal of an English sentence."""
    strategy("members of 合成30, buy the top 20% by 20-day momentum, sell the bottom 20%, 2025")


def us_prices() -> None:
    """Trade real prices of the NASDAQ 100."""
    symbols = "AAPL, MSFT, NVDA, TSLA, AMZN, META, GOOGL, AMD, COST, NFLX, INTC"
    strategy(f"{symbols}, {CROSS}, from 2025-06-10 to 2025-10-30", source=us_file())


def us_file() -> str:
    """Unpack the prices of the NASDAQ 100 in the working folder."""
    prices = Path("us.csv")
    prices.write_bytes(gzip.decompress(next(DATA.glob("us/*.csv.gz")).read_bytes()))
    return str(prices)


def a_share_prices() -> None:
    """Trade real prices of the SSE 50, with what went ex and was suspended."""
    prices = DATA / "a_share" / "daily_prices_sse_50_20250102_20251031.csv"
    codes = ["600519.SH", "601088.SH", "688981.SH", "600036.SH", "600028.SH", "600150.SH"]
    strategy("5日均线上穿20日均线买入，下穿卖出，2025年3月到10月", symbols=codes, source=str(prices))


def sizes() -> None:
    """Trade with sizes of a plan, of a sentence whose stop is given up."""
    from quantgraph import Rulebook, create_trading_graph
    from quantgraph.broker import TradePlan

    plan = TradePlan(size={"cash": 60_000}, max_positions=6, cash_reserve=0.05)
    rules = Rulebook.mainland(commission_rate="0.0003")
    graph = create_trading_graph(
        plan=plan, rules=rules, cash=400_000, model="keyless", on_clarify=lambda _: "不要止损了"
    )
    sentence = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，止损5%，2025年"
    graph.invoke({"messages": [("user", sentence)], "run_id": "options"})


def dual_agent() -> None:
    """Let both models of the dual agent decide a portfolio."""
    strategy("dual agent on 000341.SZ, 600958.SH, January 2025", decider="dual_agent")


def execution() -> None:
    """Let the execution agent decide each symbol step by step."""
    strategy("execution agent on 000341.SZ, 600958.SH, January 2025", decider="execution")


def trader() -> None:
    """Let the trader trade by a script of replies."""
    sentence = "trader on 000341.SZ, 600958.SH, January 2025"
    strategy(sentence, decider="trader", model={"trader": scripted(100, "000341.SZ", "600958.SH")})


def scripted(lot: int, *symbols: str) -> Any:
    """Return a chat model that looks, buys each symbol on odd days, sells on even ones, and ends the day."""
    from langchain_core.messages import AIMessage, BaseMessage

    from quantgraph.testing import ScriptedChatModel

    def play(messages: list[BaseMessage]) -> AIMessage:
        text = next((each.text for each in messages if each.type == "human"), "")
        day = int(next(iter(re.findall(r"\d{4}-\d\d-(\d\d)", text)), "1"))
        side, lots = ("buy", 3 + day % 5) if day % 2 else ("sell", 1 + day % 3)
        trades = [(side, {"symbol": symbol, "amount": lot * lots}) for symbol in symbols]
        steps: list[list[tuple[str, dict[str, Any]]]] = [
            [("get_positions", {}), ("get_price_history", {"symbol": symbols[0], "limit": 5})],
            trades,
        ]
        if "Call the tool report" in text:  # a probe of what the server can do
            steps = [[("report", {"word": "ready", "count": 7})]]
        step = sum(message.type == "ai" for message in messages)
        if step >= len(steps):
            return AIMessage(f"Day {day} is done. {STOP}")
        calls = [
            {"name": name, "args": args, "id": f"call_{place}"}
            for place, (name, args) in enumerate(steps[step])
        ]
        return AIMessage(f"Step {step + 1} of day {day}.", tool_calls=calls)

    return ScriptedChatModel(play)


def mcp() -> None:
    """Let a client of the MCP server trade, over stdio."""
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    args = ["mcp", "trade", "--new", "trader on 000341.SZ, 600958.SH, 20250102 to 20250110"]
    args += ["--source", "sample", "--model", "keyless", "--out", "runs"]
    server = StdioServerParameters(
        command=QUANTGRAPH[0], args=[*QUANTGRAPH[1:], *args], env=dict(os.environ), cwd=Path.cwd()
    )

    async def trade() -> None:
        async with Client(stdio_client(server), mode="legacy") as client:
            for day in range(1, 8):
                await client.call_tool("get_today", {})
                await client.call_tool("get_price_history", {"symbol": "000341.SZ", "limit": 3})
                order = {"symbol": "000341.SZ", "amount": 100 * day, "order_id": f"order {day}"}
                await client.call_tool("sell" if day % 3 == 0 else "buy", order)
                await client.call_tool("finish_day", {"notes": f"day {day}", "request_id": f"end {day}"})

    anyio.run(trade)


def trader_config() -> None:
    """Run a config file of AI-Trader with two models, one of them behind HTTP."""
    from quantgraph.testing import OpenAIStub

    with OpenAIStub.serving(scripted(1, "AAPL", "NVDA")) as stub:
        models = [
            {"name": "a", "signature": "a", "basemodel": "keyless", "enabled": True},
            {"name": "b", "signature": "b", "basemodel": "scripted", "enabled": True}
            | {"openai_base_url": stub.base_url, "openai_api_key": "none"},
        ]
        content = {
            "agent_type": "BaseAgent",
            "market": "us",
            "date_range": {"init_date": "2025-09-30", "end_date": "2025-10-10"},
            "models": models,
            "agent_config": {"max_steps": 10, "max_retries": 3, "base_delay": 0.1, "initial_cash": 10_000.0},
            "log_config": {"log_path": "runs"},
        }
        Path("config.json").write_text(json.dumps(content))
        only = ["--symbols", "AAPL,MSFT,NVDA,TSLA"]
        subprocess.run([*QUANTGRAPH, "trader", "config.json", "--source", us_file(), *only], check=True)


RUNS: dict[str, Callable[[], None]] = {
    run.__name__: run
    for run in (
        chinese,
        english,
        us_prices,
        a_share_prices,
        sizes,
        dual_agent,
        execution,
        trader,
        mcp,
        trader_config,
    )
}


def kept(folder: Path) -> tuple[str, str]:
    """Return ledger and signal of a run, and strategy and record, without its name, place and seconds."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
        (run_id,) = ledger.execute("SELECT DISTINCT run_id FROM journal").fetchone()
        journal, record = [ledger.execute(query, (run_id,)).fetchall() for query in (JOURNAL, RECORD)]
        tables = {name for (name,) in ledger.execute("SELECT name FROM sqlite_master")}
        steps = ledger.execute(STEPS).fetchall() if "execution_logs" in tables else []
    positions = [path.read_text() for path in sorted(folder.glob("../../position/position.jsonl"))]
    strategies = [path.read_text() for path in folder.glob("strategy.py")]
    outcome = [*map(_line, journal), *positions, *_signal(folder)]
    told = [*strategies, *map(_line, record), *map(_line, steps)]
    places = [*map(re.escape, (run_id, str(Path.cwd()))), r"127\.0\.0\.1:\d+"]
    its_own = re.compile("|".join([*places, r'(?<=seconds\\":)[\d.e-]+']))
    return its_own.sub("RUN", "\n".join(outcome) + "\n"), its_own.sub("RUN", "\n".join(told) + "\n")


def _line(row: tuple[Any, ...]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _signal(folder: Path) -> Iterator[str]:
    for path in folder.glob("signal.parquet"):
        frame = pd.read_parquet(path)
        yield f"signal of {', '.join(map(str, frame.columns))}: {sorted(set(map(str, frame.dtypes)))}"
        yield from (f"{row[0]} {list(row[1:])}" for row in frame.itertuples())


def make(name: str, out: Path) -> None:
    """Make one run and write what is kept of it."""
    with tempfile.TemporaryDirectory() as place, chdir(place):
        RUNS[name]()
        parts = [kept(ledger.parent) for ledger in sorted(Path("runs").rglob("ledger.sqlite"))]
    for kind, texts in zip(("ledger", "record"), zip(*parts, strict=True), strict=True):
        (out / f"{name}.{kind}.txt").write_text("".join(texts), encoding="utf-8")


def compare(one: Path, other: Path) -> int:
    """Print which files are equal; 1 if a ledger is not."""
    names = sorted({path.name for folder in (one, other) for path in folder.glob("*.txt")})
    differing = [name for name in names if _content(one / name) != _content(other / name)]
    for name in names:
        print("differs" if name in differing else "equal  ", name)
    return int(not names or any(".ledger." in name for name in differing))


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main() -> int:
    """Make the runs, each in a process of its own, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("out", nargs="?", type=Path, help="folder to write into")
    parser.add_argument("--source", type=Path, help="checkout whose .venv runs; default: this interpreter")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"))
    parser.add_argument("--only", help="one run, in this process")
    given = parser.parse_args()
    if given.compare:
        return compare(*given.compare)
    if given.out is None:
        parser.error("OUT is missing")
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if given.only:
        # A proof samples sessions by a secret seed otherwise; before the settings had tables, it was a field.
        has_tables = "audit" in Settings.model_fields
        os.environ |= {"QUANTGRAPH_AUDIT": '{"seed": 0}'} if has_tables else {"QUANTGRAPH_AUDIT_SEED": "0"}
        make(given.only, out)
        return 0
    python = given.source.resolve() / ".venv" / "bin" / "python" if given.source else sys.executable
    own = {name: text for name, text in os.environ.items() if not name.startswith(("QUANTGRAPH_", "OPENAI_"))}
    for name in RUNS:
        subprocess.run(
            [python, __file__, out, "--only", name], env=own, check=True, stdout=subprocess.DEVNULL
        )
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
