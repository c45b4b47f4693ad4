"""Take the pictures of a run's page in both READMEs: ``python scripts/page_picture.py``; needs Chromium.

The data are the synthetic sample.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from quantgraph.runs import run_strategy
from quantgraph.runs.run_page import write_page
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

DOCS = Path(__file__).resolve().parents[1] / "docs"
SENTENCES = {
    "page.png": "members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when "
    "it crosses below, 2025",
    "page.zh-CN.png": "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年",
}
SIZE: Any = {"width": 960, "height": 1010}


def main() -> int:
    """Write both pictures."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        print("no Chromium is installed; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for picture, sentence in SENTENCES.items():
            resources = Resources(settings=load_settings(runs_dir=folder))
            page = write_page([run_strategy(sentence, resources=resources).folder])
            tab = browser.new_page(viewport=SIZE)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector("#chart-equity .main-svg >> nth=0")
            tab.screenshot(path=DOCS / picture)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
