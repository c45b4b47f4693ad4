"""How a run's cost grows with symbols, sessions, fills and the sessions that are proved.

``python benchmarks/growth.py`` runs each size in a process of its own, prints a line for it, and draws
``docs/growth.svg``. Seconds are those of the graph's nodes, by their events. Memory is the largest sum of the
proportional set sizes (PSS) of the process and those it started, in panels: a panel is what the source holds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree as ET

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "growth.svg"
POINTS: dict[str, list[dict[str, int]]] = {
    "symbols": [{"symbols": n, "sessions": 500} for n in (100, 300, 1000, 2000, 5000)],
    "sessions": [{"symbols": 300, "sessions": n} for n in (150, 300, 600, 1250, 2500)],
    "fills": [{"symbols": 300, "sessions": 1250, "slow": n} for n in (240, 120, 60, 20, 10)],
    "cuts": [{"symbols": 300, "sessions": 1250, "cuts": n} for n in (10, 20, 40, 80, 160)],
}
LARGE = {"symbols": 5000, "sessions": 2500}
"""Run with ``--large``: the whole market over ten years."""
STEPS = {
    "fetch": "data_fetch",
    "signal": "signal_generate",
    "proof": "validate",
    "trading": "decision",
    "report": "report",
}
_COLOURS = ("#0369a1", "#b91c1c", "#15803d", "#a16207", "#1e293b")
MEMORY = 8
"""GB of free memory whose end is drawn: beyond it a run is asked about before it fetches."""
PAUSE = 0.05
"""Seconds between two readings of the memory."""


def run(symbols: int, sessions: int, slow: int = 20, cuts: int = 40) -> dict[str, float]:
    """One run through the graph: seconds by step, fills, and the peak of memory in panels."""
    from langchain_core.messages import HumanMessage
    from peers.panel import Size, make_panel
    from peers.rule import cash_of, plan_of

    from market import PanelSource
    from quantgraph import DataState, Rulebook, create_trading_graph
    from quantgraph.runtime import Resources
    from quantgraph.settings import load_settings

    panel = make_panel(Size(symbols=symbols, sessions=sessions, start="2015-08-03"))
    source = PanelSource(panel)
    days, bars = source.sessions(), source.bars(source.symbols(), *source.sessions()[[0, -1]])
    given = {"ts_code": "ALL", "start_date": f"{days[0]:%Y%m%d}", "end_date": f"{days[-1]:%Y%m%d}"}
    fast = min(5, slow // 2)
    sentence = (
        f"buy when the {fast}-day average crosses above the {slow}-day average, sell when it crosses below"
    )
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        graph = create_trading_graph(
            source=source,
            plan=plan_of(panel),
            rules=Rulebook.mainland(),
            cash=cash_of(panel),
            settings=load_settings(runs_dir=folder, audit={"cuts": cuts}),
            resources=Resources(store=DataState()),
        )
        seconds: dict[str, float] = defaultdict(float)
        begun, started, state = time.perf_counter(), {}, {}
        task = {"messages": [HumanMessage(sentence)], "quantgraph": {"request": {"given": given}}}
        modes = ["custom", "values"]
        for _, mode, part in graph.stream(task, stream_mode=modes, subgraphs=True):
            if mode == "values":
                state = part
            elif part["event"] == "quantgraph.node":
                node = part["path"].rpartition("/")[2].partition(":")[0]
                if part["status"] == "started":
                    started[node] = time.perf_counter()
                else:
                    seconds[node] += time.perf_counter() - started[node]
        whole = time.perf_counter() - begun
    assert state["ended_because"] == "done", state.get("error_messages")
    size = sum(frame.to_numpy().nbytes for frame in bars.values())
    found = {name: round(seconds[node], 3) for name, node in STEPS.items()}
    return {
        **found,
        "whole": round(whole, 3),
        "fills": state["summary"]["account"]["trades"],
        "panel_mb": round(size / 1e6, 1),
        "peak_mb": round(memory.peak / 1e6, 1),
        "panels": round(memory.above / size, 2),
    }


class Memory:
    """The largest PSS of this process and its descendants while it is open."""

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._first = self.peak = pss_of_all()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(PAUSE):
            self.peak = max(self.peak, pss_of_all())

    @property
    def above(self) -> int:
        """Bytes above those at the start, when the source held its panel."""
        return self.peak - self._first


def pss_of_all() -> int:
    """Bytes of this process and its descendants, shared pages by their share (Linux)."""
    children: dict[int, list[int]] = defaultdict(list)
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = status.read_text().partition(" ")
            children[int(rest.rpartition(")")[2].split()[1])].append(int(pid))
        except OSError:  # it has ended
            continue
    total, left = 0, [int(Path("/proc/self").resolve().name)]
    while left:
        process = left.pop()
        left += children[process]
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def draw(found: dict[str, list[dict[str, Any]]]) -> None:
    """Four log-log charts side by side: seconds by step against what grows."""
    from math import log10

    from quantgraph.subgraphs.signal._needs import BYTES_A_CELL

    width, height, left, top = 250, 220, 44, 34
    colours = {
        "signal": "#0369a1",
        "proof": "#b91c1c",
        "trading": "#15803d",
        "report": "#a16207",
        "whole": "#1e293b",
    }
    root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {4 * width} {height + 24}")
    root.set("font-family", "sans-serif")
    root.set("font-size", "11")
    ET.SubElement(root, "rect", width="100%", height="100%", fill="#ffffff")
    for place, (axis, rows) in enumerate(found.items()):
        values = [row[axis] for row in rows]
        other = {"symbols": "sessions", "sessions": "symbols"}.get(axis)
        full = MEMORY * 10**9 // max(BYTES_A_CELL.values()) // rows[0][other] if other else 0
        low, high = log10(min(values)), log10(max(*values, full))

        def at(value: float, seconds: float) -> tuple[float, float]:
            across = (log10(value) - low) / ((high - low) or 1)  # noqa: B023 - called in this turn only
            up = (log10(max(seconds, 0.01)) + 2) / 4
            x = place * width + left + across * (width - left - 14)  # noqa: B023
            return round(x, 1), round(height - 26 - up * (height - top - 26), 1)

        for seconds in (0.01, 0.1, 1, 10, 100):
            (x, y), (end, _) = at(min(values), seconds), at(max(*values, full), seconds)
            ET.SubElement(root, "line", x1=f"{x}", x2=f"{end}", y1=f"{y}", y2=f"{y}", stroke="#e2e8f0")
            ET.SubElement(root, "text", x=f"{x - 6}", y=f"{y + 4}").text = f"{seconds:g} s"
            root[-1].set("text-anchor", "end")
        for name, colour in colours.items():
            points = [at(value, row[name]) for value, row in zip(values, rows, strict=True)]
            line = " ".join(f"{x},{y}" for x, y in points)
            ET.SubElement(root, "polyline", points=line, fill="none", stroke=colour).set("stroke-width", "2")
        if full:
            (x, y), (_, end) = at(full, 0.01), at(full, 100)
            ET.SubElement(root, "line", x1=f"{x}", x2=f"{x}", y1=f"{y}", y2=f"{end}", stroke="#64748b")
            root[-1].set("stroke-dasharray", "4 3")
            ET.SubElement(root, "text", x=f"{x}", y=f"{end - 6}").text = f"{MEMORY} GB"
            root[-1].set("text-anchor", "end")
        for value in (values[0], full or values[-1]):
            x, _ = at(value, 0.01)
            ET.SubElement(root, "text", x=f"{x}", y=f"{height - 10}").text = f"{value:,}"
            root[-1].set("text-anchor", "middle")
        title = {"cuts": "sessions proved"}.get(axis, axis)
        ET.SubElement(root, "text", x=f"{place * width + left}", y="18").text = title
    for place, (name, colour) in enumerate(colours.items()):
        ET.SubElement(root, "text", x=f"{left + 90 * place}", y=f"{height + 14}", fill=colour).text = name
    PICTURE.write_text(ET.tostring(root, encoding="unicode") + "\n", encoding="utf-8")


def measured(point: dict[str, int]) -> dict[str, Any]:
    """A point, run in a process of its own."""
    command = [sys.executable, __file__, "--point", json.dumps(point)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{point}: {done.stderr.strip().splitlines()[-1]}")
    row = json.loads(done.stdout.splitlines()[-1])
    print("  ".join(f"{name} {value:,}" for name, value in {**point, **row}.items()), flush=True)
    return {**point, **row}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", default=",".join(POINTS), help=f"of {', '.join(POINTS)}")
    parser.add_argument("--large", action="store_true", help="5,000 symbols and 2,500 sessions alone")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.point:
        print(json.dumps(run(**json.loads(given.point))))
    elif given.large:
        measured(LARGE)
    else:
        found = {axis: [measured(point) for point in POINTS[axis]] for axis in given.axes.split(",")}
        for axis, rows in found.items():
            rows.sort(key=lambda row: row[axis])
        draw(found)


if __name__ == "__main__":
    main()
