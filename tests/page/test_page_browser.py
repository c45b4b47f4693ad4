"""Pages of real runs in a real browser: they open offline and quietly, and show what the ledger has."""

from __future__ import annotations

import json
import re
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faulty_models import FaultyChatModel, misbehaving_in
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from quantgraph import Ledger
from quantgraph.page._data import MOST_CANDLES, MOST_FILLS
from quantgraph.page._page import plotly_name, plotly_script, render_page
from quantgraph.runs import RunSpec, run_strategy, write_index, write_page
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState

from .page_views import hostile_view, view_of

pytestmark = pytest.mark.proof

QUESTION = "000341.SZ,000342.SZ，5日均线上穿20日均线买入，下穿卖出，2024年1月到3月"
SHORT = "000341.SZ,000342.SZ，5日均线上穿20日均线买入，下穿卖出，20240304到20240308"
LEAK = (
    "close = GLOBAL_DATA_STATE.snapshot()['ohlcv']['close']\n"
    "later = np.sign(close.shift(-1) - close).fillna(0.0)\n"
    "GLOBAL_DATA_STATE.update('signal', {'later': later})"
)
SECONDS, MEGABYTES = 3.0, 15
SLOW = 4
"""How much slower a machine may be that runs other tests beside."""


def looks_ahead(context):
    calls = [{**call, "args": {"query": LEAK}} for call in context.correct.tool_calls]
    return AIMessage(context.correct.content, tool_calls=calls)


def unreachable_model():
    """A model behind a port where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    return ChatOpenAI(model="far-away", base_url=url, api_key="sk-of-nobody", max_retries=0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of runs that ended in every way, by name."""
    place = tmp_path_factory.mktemp("runs")

    def run(question=QUESTION, **options):
        settings = load_settings(runs_dir=place)
        resources = Resources(settings=settings, **options.pop("live", {}))
        return Path(run_strategy(question, resources=resources, **options)["run_dir"])

    bad = FaultyChatModel(looks_ahead)
    return {
        "done": run(),
        "needs_answer": run("buy 000341.SZ when mumble", live={"on_clarify": "fail"}),
        "approval": run(RunSpec(question=QUESTION, approve=True)),
        "look_ahead": run(model=misbehaving_in("signal_generate", bad)),
        "failed": run(SHORT, decider="dual_agent", live={"model": unreachable_model()}),
        "dual_agent": run(SHORT, decider="dual_agent"),
        "trader": run(SHORT, decider="trader"),
    }


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.fail("no Chromium is installed; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(chromium, path: Path):
    """The page, and its messages and requests."""
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.told, page.asked = [], []
    page.on("console", lambda message: page.told.append(message.text))
    page.on("pageerror", lambda error: page.told.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    yield page
    page.wait_for_timeout(50)
    assert page.told == []
    assert all(url.startswith(("file://", "blob:")) for url in page.asked)
    page.close()


def size_of(path: Path) -> int:
    return path.stat().st_size + sum(
        each.stat().st_size for each in path.parent.parent.glob("report_files/*")
    )


ENDINGS = {
    "done": "完成",
    "needs_answer": "waits for an answer",
    "approval": "完成",
    "look_ahead": "没有完成",
    "failed": "没有完成（model_unavailable）",
    "dual_agent": "完成",
    "trader": "完成",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_page_opens_offline_and_quietly(chromium, runs, name):
    path = write_page([runs[name]])
    assert size_of(path) < MEGABYTES << 20
    with opened(chromium, path) as page:
        taken = page.evaluate("performance.now()")
        assert page.inner_text("#ending").startswith(ENDINGS[name])
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.inner_text("h1")
    assert taken < SECONDS * SLOW * 1000


def test_a_run_that_failed_says_why_and_what_to_do_but_not_where(chromium, runs):
    folder = runs["failed"]
    with opened(chromium, write_page([folder])) as page:
        assert "far-away did not answer after" in page.inner_text("#why")
        assert f"quantgraph resume {folder.name}" in page.inner_text("header")
        text = page.content()
    assert "127.0.0.1" in (folder / "result.json").read_text()
    for hidden in ("127.0.0.1", "sk-of-nobody", str(folder.parent)):
        assert hidden not in text


def test_every_number_is_the_results_and_every_fill_the_ledgers(chromium, runs):
    folder = runs["done"]
    result = json.loads((folder / "result.json").read_text())
    with opened(chromium, write_page([folder])) as page, Ledger(folder / "ledger.sqlite") as ledger:
        for row in page.query_selector_all("#numbers tbody tr"):
            key = row.get_attribute("id").removeprefix("number-")
            cells = [cell.get_attribute("data-value") for cell in row.query_selector_all("td[data-value]")]
            for column, cell in zip(("account", "benchmark", "index"), cells):
                told = (result[column] or {}).get(key)
                assert (None if cell == "" else float(cell)) == told
        fills = ledger.fill_records(result["run_id"])
        assert (
            int(page.get_attribute("#fill-count", "data-value")) == len(fills) == result["account"]["trades"]
        )
        rows = page.query_selector_all("#fills tbody tr")
        assert len(rows) == len(fills)
        for name in ("return", "annual_return", "sharpe", "max_drawdown", "round_trips"):
            told = page.get_attribute(f"#tile-{name} .figure", "data-value")
            assert float(told) == result["account"][name]
        closed = page.evaluate("data.trips.profit.filter((_, row) => data.trips.kind[row] === 0)")
        assert len(closed) == result["account"]["round_trips"]
        assert sum(closed) == pytest.approx(result["account"]["realised"], abs=0.01)
        profit, known = 0.0, DataState(folder / "data").snapshot(result["data_ref"])["ohlcv"]["close"]
        means = {days: known.rolling(days).mean().shift().round(6) for days in (5, 20)}
        for row, fill in zip(rows, fills):
            cells = [cell.text_content() for cell in row.query_selector_all("td")]
            values = [cell.get_attribute("data-value") for cell in row.query_selector_all("td")]
            assert cells[0] == f"{fill.session:%Y-%m-%d}"
            assert cells[1] == fill.order.symbol
            day = known.index[known.index.get_loc(fill.session) - 1]
            told = re.fullmatch(r".+ · 前一收盘时 \((.{5})\): 5日均线 (\S+), 20日均线 (\S+)", cells[8])
            assert told[1] == f"{day:%m-%d}"
            by_hand = [means[days].loc[fill.session, fill.order.symbol] for days in (5, 20)]
            assert [*map(float, told.groups()[1:])] == pytest.approx(by_hand, abs=1e-4)
            assert [float(value) for value in values[3:7]] == [
                float(each) for each in (fill.quantity, fill.price, fill.notional, fill.cost)
            ]
            profit += float(values[7] or 0)
        assert profit == pytest.approx(result["account"]["realised"], abs=0.01)
        lines, head = ledger.head(result["run_id"])
        assert page.text_content("#head") == f"{head} ({lines})"
        equity = page.evaluate("data.curves.equity.account.y")
        assert equity == result["equity"]["account"]


def shown_words(page, pattern):
    """The words of a page that is drawn whole, without code, recorded texts and identifiers."""
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.wait_for_selector("#chart-days .main-svg >> nth=0")
    page.evaluate(
        "document.querySelectorAll('pre, code, #graph, #provenance details').forEach((each) => each.remove())"
    )
    return {*re.findall(pattern, page.inner_text("body"))}


def test_a_chinese_page_has_no_english_word(chromium, runs):
    with opened(chromium, write_page([runs["done"]])) as page:
        words = shown_words(page, r"[A-Za-z][A-Za-z_-]+")
    assert words <= {"SZ", "SH", "CSV", "MAE", "MFE", "SMA", "VaR", "CVaR", "ddof", "min"}


def test_an_english_page_has_no_private_or_chinese_word(chromium, runs):
    with opened(chromium, write_page([runs["done"]], language="en")) as page:
        text = " ".join(shown_words(page, r"[a-z][a-z_ -]+"))
        chinese = shown_words(page, r"[\u4e00-\u9fff]+")
    for private in (
        "decider",
        "causal",
        "realised",
        "not followed",
        "signal_rule",
        "stamp_duty",
        "limit_",
        "signal 1",
    ):
        assert private not in text
    understood = {*re.findall(r"[\u4e00-\u9fff]+", QUESTION + "合成银行02 合成银行01")}
    rule = {"日均线下穿"}  # a rule is in the words of its sentence's language
    assert [each for each in chinese - rule if not any(each in words for words in understood)] == []


def test_filter_sort_click_and_keys(chromium, runs):
    with opened(chromium, write_page([runs["done"]])) as page:
        chart = page.locator("#chart-equity .nsewdrag").first
        chart.scroll_into_view_if_needed()
        place = chart.bounding_box()
        for step in (100, 120):  # in January: nothing is near the middle, a holiday
            page.mouse.move(place["x"] + step, place["y"] + step)
        told = "() => document.querySelector('#chart-equity .hoverlayer').textContent.includes('账户 : ')"
        page.wait_for_function(told)
        page.fill("#filter", "000342.sz")
        shown = page.locator("#trips tbody tr td:nth-child(1)").all_inner_texts()
        assert shown
        assert {*shown} == {"000342.SZ 合成银行02"}
        page.fill("#filter", "")
        page.click("#trips th[data-column=entry_price]")
        prices = [float(each) for each in page.locator("#trips tbody tr td:nth-child(6)").all_inner_texts()]
        assert prices == sorted(prices)
        page.locator("#trips tbody tr").first.click()
        page.wait_for_selector("#chart-symbol .main-svg >> nth=0")
        assert "20日均线" in page.inner_text("#chart-symbol")
        details = page.inner_text("#trip")
        assert "5日均线上穿20日均线 · 前一收盘时 (01-12): 5日均线 " in details
        first = page.url
        assert re.search(r"#trade-\d+$", first)
        page.click("#trip button:has-text('下一个')")
        assert page.url != first
        page.keyboard.press("Escape")
        assert page.locator("#trip").count() == 0
        page.click("#all-fills summary")
        page.locator("#fills tbody tr").first.click()
        assert page.locator("#trip").count() == 1
        page.click("#switch-theme")
        assert page.evaluate("document.documentElement.classList.contains('dark')")
    with opened(chromium, write_page([runs["trader"]])) as page:
        first = page.input_value("#session")
        page.keyboard.press("k")
        page.wait_for_function("first => document.getElementById('session').value > first", arg=first)
        page.wait_for_selector("#story .talk")
        page.keyboard.press("j")
        page.wait_for_function("first => document.getElementById('session').value === first", arg=first)


def test_a_session_reads_as_a_conversation_with_its_drawing(chromium, runs):
    with opened(chromium, write_page([runs["trader"]])) as page:
        page.wait_for_selector("#story .talk")
        page.evaluate("document.querySelectorAll('#story details').forEach((each) => { each.open = true; })")
        assert page.locator("#story figure.drawing img").evaluate("image => image.naturalWidth") > 300
        assert page.locator("#story .talk.asked table tbody tr").count() >= 6
        assert page.locator("#story .talk.tool").count() >= 1
        assert not re.search(r'[{\["]\s*"\w+"\s*:|```', page.inner_text("#story"))


def test_two_runs_are_compared_on_one_page(chromium, runs):
    with opened(chromium, write_page([runs["done"], runs["approval"], runs["failed"]])) as page:
        page.wait_for_selector("#chart-compared .main-svg >> nth=0")
        assert "没有完成（model_unavailable）" in page.locator("#runs li").all_inner_texts()[2]


def test_a_map_of_four_runs_shows_another_number_and_sorts(chromium, tmp_path):
    def run(fast, slow):
        text = f"000341.SZ,000342.SZ，{fast}日均线上穿{slow}日均线买入，下穿卖出，2024年1月到6月"
        return Path(run_strategy(text, out=tmp_path)["run_dir"])

    folders = [run(fast, slow) for fast in (3, 5) for slow in (10, 20)]
    with opened(chromium, write_page([*folders, run(4, 15)][:4])) as page:
        assert page.locator("#grid td.best").count() == 1
        before = page.inner_text("#grid tbody")
        page.select_option("#mapped", "sharpe")
        assert page.inner_text("#grid tbody") != before
        page.wait_for_selector("#chart-compared .main-svg >> nth=0")
        assert "3 / 10" in page.inner_text("#chart-compared")
    with opened(chromium, write_page([*folders, run(4, 15)])) as page:
        page.click("table.sortable thead th:nth-child(2)")
        values = page.locator("table.sortable tbody td:nth-child(2)").evaluate_all(
            "cells => cells.map((cell) => Number(cell.dataset.value))"
        )
        assert values == sorted(values, reverse=True)
    with opened(chromium, write_index(tmp_path, language="zh")) as page:
        assert page.locator("#runs tbody tr").count() == 6
        page.fill("#filter", "4日均线")
        assert page.locator("#runs tbody tr:visible").count() == 2


def test_a_look_ahead_run_draws_its_counterexample(chromium, runs):
    with opened(chromium, write_page([runs["look_ahead"]])) as page:
        assert "shift(-1)" in page.inner_text("#counterexample")
        page.wait_for_selector("#chart-counterexample .main-svg >> nth=0")


def test_hostile_texts_run_nothing(chromium, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(render_page(hostile_view(), inline=True).html, encoding="utf-8")
    with opened(chromium, path) as page:
        page.locator("#trips tbody tr").first.click()
        page.wait_for_timeout(300)
        assert page.locator("#trip").count() == 1
        assert page.evaluate("window.pwned") is None
        assert page.locator("img").count() == 0


def test_a_large_run_loads_its_fills_and_bars_on_demand(chromium, tmp_path):
    rng = np.random.default_rng(3)
    days = [f"{day:%Y-%m-%d}" for day in pd.bdate_range("2023-01-02", periods=260)]
    symbols = [f"{number:06d}.SZ" for number in range(1, 91)]
    rows = [
        (days[day], symbol, "buy" if day % 4 == 0 else "sell", 100.0, 10.0, 1000.0, 5.0, place + 1, "signal")
        for day in range(0, 260, 2)
        for place, symbol in enumerate(symbols)
    ]
    index = pd.DatetimeIndex(days, name="trade_date")
    close = pd.DataFrame(10 + rng.random((260, 90)).cumsum(axis=0) / 100, index=index, columns=symbols)
    bars = {"open": close, "high": close + 0.1, "low": close - 0.1, "close": close}
    page = render_page(view_of(rows, days, bars=bars))
    assert {*page.files} == {
        f"fills-{MOST_FILLS}.js",
        f"trips-{MOST_FILLS}.js",
        *(f"bars-{number}.js" for number in range(MOST_CANDLES, 90)),
    }
    folder = tmp_path / "run" / "report_files"
    folder.mkdir(parents=True)
    for name, content in page.files.items():
        (folder / name).write_bytes(content)
    path = tmp_path / "run" / "report.html"
    path.write_text(page.html, encoding="utf-8")
    (tmp_path / "report_files").mkdir()
    (tmp_path / "report_files" / plotly_name()).write_bytes(plotly_script())
    with opened(chromium, path) as browser:
        browser.click("#more-trips")
        browser.wait_for_function("() => document.getElementById('page').textContent.includes('5,850')")
        browser.click("#all-fills summary")
        browser.click("#more")
        browser.wait_for_function(
            "() => document.getElementById('fills-page').textContent.includes('11,700')"
        )
        browser.fill("#filter", symbols[-1])
        browser.locator("#trips tbody tr").first.click()
        browser.wait_for_function("() => data.candles['000090.SZ'] !== undefined")
        assert browser.evaluate("data.candles['000090.SZ'].close.length") == 260
