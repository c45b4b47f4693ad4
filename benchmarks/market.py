"""Whole-market simulation, ours and other tools: one panel, one rule, one process per tool.

``python benchmarks/market.py --sizes s,m,l --tools bare,ours,vectorbt`` prints for each tool the median time,
its ratio to the bare numba loop, peak memory, fills and final equity, with ``=`` where both are the bare
loop's. Exit status 1 if ours are not. The rule is in ``peers/rule.py``; where a tool cannot follow it, its
module says so. The tools themselves are in ``requirements.txt``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from peers.measure import Figures
    from peers.panel import Panel

    from quantgraph.broker import Market

TOOLS = {
    "bare": "peers.bare:bare",
    "account": "market:account",
    "us": "market:us",
    "floats": "market:floats",
    "ours": "market:ours",
    "graph": "market:graph",
    "decimals": "peers.decimals:decimals",
    "vectorbt": "peers.vectorbt_run:vectorbt",
    "bt": "peers.bt_run:bt_",
    "backtrader": "peers.backtrader_run:backtrader_",
}
SENTENCE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
CELLS = {"s": 50 * 500, "m": 300 * 1250, "l": 5000 * 2500, "xl": 5000 * 5000}
LARGEST = {"decimals": "m", "backtrader": "s"}
"""Beyond it a tool is left out: it would take minutes, or hours."""


def market_of(panel: Panel, *, us: bool = False, by: float | None = None) -> Market:
    """The panel in a data state: under the mainland's rules, or of US shares; ``by`` makes eight decimals."""
    from peers.panel import PRICES

    from quantgraph import DataState, Rulebook
    from quantgraph.broker import Market

    prices = {name: panel.frame(getattr(panel, name)) for name in (PRICES[:2] if us else PRICES)}
    frames = {**prices, "cross": panel.frame(panel.signal.astype(float))}
    if us:
        letters = [
            [chr(65 + place // 26**power % 26) for power in (2, 1, 0)] for place in range(len(panel.symbols))
        ]
        frames = {name: frame.set_axis(map("".join, letters), axis=1) for name, frame in frames.items()}
    if by is not None:
        frames |= {name: (frames[name] * by).round(8) for name in prices}
    store, signal = DataState(), frames.pop("cross")
    store.update("ohlcv", frames)
    ref = store.update("signal", {"cross": signal})
    rules = Rulebook.us() if us else Rulebook.mainland()
    return Market(store=store, data_ref=ref, rules=rules, blocks_from=0)


def us(panel: Panel) -> Figures:
    """The account's arithmetic over US shares at the same prices."""
    return account(panel, us=True)


def floats(panel: Panel) -> Figures:
    """The account's arithmetic in prices of eight decimals, as adjusted ones are."""
    return account(panel, by=1.0173461)


def account(panel: Panel, **kind: Any) -> Figures:
    """Our account's arithmetic with its preparation: every fill and value, no journal."""
    from peers.measure import measure
    from peers.rule import cash_of, plan_of

    from quantgraph import SignalRule
    from quantgraph.broker import Account, RunContext
    from quantgraph.broker.session import advance

    market, days = market_of(panel, **kind), list(panel.index)

    def once() -> tuple[int, float]:
        account = Account.opening(cash_of(panel))
        blocks = advance(market, days, SignalRule(), account=account, run=RunContext(plan=plan_of(panel)))
        return 0, float([value for block in blocks for value in block.values][-1])

    return measure(once, compiles=True)


def ours(panel: Panel) -> Figures:
    """Our simulation, into a durable ledger."""
    from peers.measure import measure
    from peers.rule import cash_of, plan_of

    from quantgraph import SignalRule
    from quantgraph.broker.ledger import Ledger
    from quantgraph.broker.session import run_sessions

    market = market_of(panel)

    def once() -> tuple[int, float]:
        with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.db") as ledger:
            run_sessions(
                market,
                panel.index,
                SignalRule(),
                cash=cash_of(panel),
                ledger=ledger,
                run_id="cross",
                plan=plan_of(panel),
            )
            days = ledger.days("cross")
            return int(days["fills"].sum()), float(days["value"].iloc[-1])

    return measure(once, compiles=True)


class PanelSource:
    """A market data source over a panel in memory."""

    name = "panel"
    synthetic = True

    def __init__(self, panel: Panel) -> None:
        from peers.panel import PRICES

        self._bars = {name: panel.frame(getattr(panel, name)) for name in PRICES}
        for name, furthest in (("high", np.fmax), ("low", np.fmin)):
            self._bars[name] = panel.frame(furthest(panel.open, panel.close))

    def sessions(self) -> pd.DatetimeIndex:
        return self._bars["open"].index

    def symbols(self) -> tuple[str, ...]:
        return tuple(self._bars["open"].columns)

    def names(self) -> dict[str, str]:
        return {}

    def members(self, index_code: str, on: pd.Timestamp) -> None:
        raise NotImplementedError

    def bars(self, symbols: Sequence[str], start: pd.Timestamp, end: pd.Timestamp) -> dict[str, pd.DataFrame]:
        assert len(symbols) == len(self.symbols())
        return {name: frame.loc[start:end] for name, frame in self._bars.items()}

    def indicators(self, *_: object) -> dict[str, pd.DataFrame]:
        return {}

    def index_bars(self, *_: object) -> None:
        raise NotImplementedError


def graph(panel: Panel) -> Figures:
    """The whole run through the main graph: sentence, code in its process, signal, trades, ledger, summary.

    Its signal is the code's own: averages in floats, so a tie may fall otherwise than in whole cents.
    """
    from langchain_core.messages import HumanMessage
    from peers.measure import measure
    from peers.rule import cash_of, plan_of

    from quantgraph import DataState, Rulebook, create_trading_graph
    from quantgraph.broker.session import load_block_code
    from quantgraph.broker.session._simulate import BLOCKS_FROM, is_block_code_loaded
    from quantgraph.runtime import Resources
    from quantgraph.settings import load_settings

    source, rules = PanelSource(panel), Rulebook.mainland()
    days = source.sessions()
    given = {"ts_code": "ALL", "start_date": f"{days[0]:%Y%m%d}", "end_date": f"{days[-1]:%Y%m%d}"}

    def once() -> tuple[int, float]:
        with tempfile.TemporaryDirectory() as folder:
            trading = create_trading_graph(
                source=source,
                plan=plan_of(panel),
                rules=rules,
                cash=cash_of(panel),
                settings=load_settings(runs_dir=folder),
                resources=Resources(store=DataState()),
            )
            state = trading.invoke(
                {"messages": [HumanMessage(SENTENCE)], "quantgraph": {"request": {"given": given}}}
            )
            assert state["ended_because"] == "done", state.get("error_messages")
            account = state["summary"]["account"]
            return account["trades"], account["final_value"]

    settings = load_settings()
    load_block_code(BLOCKS_FROM, settings.cache_dir)  # as after the first large run on a machine
    while not is_block_code_loaded():
        time.sleep(0.01)
    return measure(once, compiles=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="One panel, one rule, one process per tool.")
    sizes = "of s (50 x 500), m (300 x 1250), l (5000 x 2500), xl (5000 x 5000)"
    parser.add_argument("--sizes", default="s", help=sizes)
    parser.add_argument("--tools", default="bare,ours", help=f"of {', '.join(TOOLS)}; bare is always run")
    given = parser.parse_args()
    sizes, tools = given.sizes.split(","), given.tools.split(",")
    for name, known, wished in (("--sizes", CELLS, sizes), ("--tools", TOOLS, tools)):
        if unknown := [word for word in wished if word not in known]:
            parser.error(f"{name}: {', '.join(unknown)}; known are {', '.join(known)}")
    child("check")
    print("the bare loop agrees with exact decimals, fill by fill and session by session\n")
    print(f"   {'tool':<11}{'median ms':>13}{'runs':>5}{'Mcell/s':>9}{'x bare':>11}", end="")
    print(f"{'peak MB':>9}{'fills':>9}{'final equity':>17}")
    return max(compare(size, ["bare", *(tool for tool in tools if tool != "bare")]) for size in sizes)


def compare(size: str, tools: list[str]) -> int:
    """Print a line per tool, and return the exit status."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        child("panel", size, folder)
        bare = None
        for tool in tools:
            if list(CELLS).index(size) > list(CELLS).index(LARGEST.get(tool, size)):
                print(f"{size:<3}{tool:<11}{'not run':>13}")
                continue
            it = child("run", TOOLS[tool], folder)
            bare = bare or it
            same = it["trades"] in (0, bare["trades"]) and round(it["equity"], 2) == round(bare["equity"], 2)
            status |= tool == "ours" and not same
            print(
                f"{size:<3}{tool:<11}{it['seconds'] * 1e3:>13,.3f}{it['runs']:>5}"
                f"{CELLS[size] / 1e6 / it['seconds']:>9.3g}{it['seconds'] / bare['seconds']:>11,.1f}"
                f"{it['peak_mb']:>9,.0f}{it['trades']:>9}{it['equity']:>17,.2f}{' =' if same else ''}",
                flush=True,
            )
    return status


def child(*arguments: str) -> dict[str, float]:
    """Do one thing in a process of its own (``peers/child.py``); a failure there ends the benchmark."""
    command = [sys.executable, "-m", "peers.child", *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
