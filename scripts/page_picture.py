"""Take the pictures of a run's page in both READMEs: ``make pictures``; needs Chromium.

The data are the synthetic sample.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from quantgraph.runs import run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

DOCS = Path(__file__).resolve().parents[1] / "docs"
SENTENCES = {
    "page.png": "members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when "
    "it crosses below, 2025",
    "page.zh-CN.png": "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年",
}
WIDTH = 1240
COLOURS = 256


def photograph(tab: Page, page: Path) -> Image.Image:
    """A page down to the end of its first curve, in few colours, which makes a small file."""
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("#chart-equity .main-svg >> nth=0")
    curve = tab.locator("#chart-equity").bounding_box()
    if curve is None:
        raise SystemExit(f"{page.name} shows no curve")
    height = round(curve["y"] + curve["height"])
    taken = tab.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": height}, full_page=True)
    return Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main() -> int:
    """Write both pictures."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if program is None:
        print("no Chromium is installed; on Debian: apt-get install chromium", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": 800})
        resources = Resources(settings=load_settings(runs_dir=folder))
        for picture, sentence in SENTENCES.items():
            page = run_strategy(sentence, resources=resources).report()
            photograph(tab, page).save(DOCS / picture, optimize=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
