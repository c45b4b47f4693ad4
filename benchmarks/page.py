"""What the page of a run costs; ``make bench`` runs it.

``python benchmarks/page.py`` writes the pages of the demo, of the SSE 50 over 200 sessions, and of 300
symbols over 1,250; ``--large`` that of 5,000 symbols over 2,500, which takes minutes to trade. Each line:
what, the smallest of several times, its bound, and the size of the page with its files; then the seconds
until a browser shows it, and what it has loaded by then. Exit status 1 if a bound is missed. ``--keep
FOLDER`` leaves the runs there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from core import A_SHARE, SLACK
from core import SENTENCE as SSE_50

from quantgraph.data import open_source
from quantgraph.runs import run_strategy, write_page
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

DEMO = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年"
CROSS = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
ROUNDS = 3 if SLACK == 1 else 1


def panel_run(symbols: int, sessions: int, settings: Any) -> Path:
    """Trade a synthetic panel by the rule of the market benchmark."""
    from peers.panel import Size, make_panel
    from peers.rule import cash_of, plan_of

    from market import PanelSource

    panel = make_panel(Size(symbols=symbols, sessions=sessions, start="2015-08-03"))
    source = PanelSource(panel)
    days = source.sessions()
    result = run_strategy(
        CROSS,
        symbols="ALL",
        start=f"{days[0]:%Y%m%d}",
        end=f"{days[-1]:%Y%m%d}",
        source=source,
        plan=plan_of(panel),
        cash=cash_of(panel),
        resources=Resources(settings=settings),
    )
    return Path(result["run_dir"])


def measured(what: str, folder: Path, bound: float) -> bool:
    """Show what a page takes; whether it is within its bound."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        page = write_page([folder])
        times.append(time.perf_counter() - started)
    files = [page, *folder.glob("report_files/*")]
    megabytes = sum(each.stat().st_size for each in files) / 1e6
    print(f"{what:<58}{min(times):>10.3f} s  (bound {bound * SLACK:g}), {megabytes:.1f} MB", flush=True)
    return all([min(times) <= bound * SLACK, opened(page)])


def opened(page: Path) -> bool:
    """Show what a browser takes to open a page; whether it is within 3 s and 15 MB."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        print("  no Chromium is installed: the page was not opened")
        return True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        loaded: set[str] = set()
        tab.on("request", lambda request: loaded.add(request.url))
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        seconds = tab.evaluate("performance.now()") / 1000
        browser.close()
    megabytes = sum(Path(unquote(urlsplit(url).path)).stat().st_size for url in loaded) / 1e6
    print(
        f"{'  opened':<58}{seconds:>10.3f} s  (bound {3 * SLACK:g}), {megabytes:.1f} MB (bound 15)",
        flush=True,
    )
    return bool(seconds <= 3 * SLACK and megabytes <= 15)


def main() -> None:
    """Measure, and exit with 1 if a bound is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(runs_dir=chosen.keep or folder)
        if chosen.large:
            kept = measured("the page of 5,000 x 2,500", panel_run(5000, 2500, settings), 60)
            sys.exit(not kept)
        resources = Resources(settings=settings)
        demo = run_strategy(DEMO, resources=resources)["run_dir"]
        kept = measured("the page of the demo", Path(demo), 0.3)
        if A_SHARE.is_dir():
            run = run_strategy(SSE_50, source=open_source(A_SHARE), resources=resources)
            kept = measured("the page of the SSE 50 x 200", Path(run["run_dir"]), 1) and kept
        else:
            print(f"the SSE 50 files are missing at {A_SHARE}: their page was not measured")
        kept = measured("the page of 300 x 1,250", panel_run(300, 1250, settings), 5) and kept
    sys.exit(not kept)


if __name__ == "__main__":
    main()
