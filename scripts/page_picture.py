"""Take the pictures of a run's page in both READMEs: ``python scripts/page_picture.py``; needs Chromium.

The run is that of the READMEs' sentence on the synthetic sample.
"""

from __future__ import annotations

import re
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
TWINS = {"README.md": "page.png", "README.zh-CN.md": "page.zh-CN.png"}
SIZE: Any = {"width": 960, "height": 1010}


def main() -> int:
    """Write both pictures."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        print("no Chromium is installed; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for readme, picture in TWINS.items():
            text = (DOCS.parent / readme).read_text(encoding="utf-8")
            (sentence,) = re.findall(r'^!\[.*?\]\(docs/page.*?\.png "(.*?)"\)$', text, re.MULTILINE)
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
