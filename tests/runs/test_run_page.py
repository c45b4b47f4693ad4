"""The page of a run: written again with the same bytes, verified, and silent about the machine."""

from __future__ import annotations

import pytest

from quantgraph.errors import BadFile
from quantgraph.runs import run_strategy
from quantgraph.runs.run_page import verify_page, write_page
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

QUESTION = "000341.SZ,000342.SZ，5日均线上穿20日均线买入，下穿卖出，2024年1月到3月"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    settings = load_settings(runs_dir=tmp_path_factory.mktemp("runs"))
    return run_strategy(QUESTION, resources=Resources(settings=settings))


def test_a_page_is_written_again_with_the_same_bytes_and_verified(done):
    page = write_page([done.folder])
    first = page.read_bytes()
    assert done.report() == page
    assert page.read_bytes() == first
    assert verify_page(page).ok
    page.write_bytes(first.replace("完成".encode(), "大赚".encode(), 1))
    checked = verify_page(page)
    assert not checked.ok
    assert "changed" in checked.reason
    assert "<svg" in (done.folder / "report.svg").read_text()
    alone = done.report(to=done.folder.parent / "alone.html", language="en")
    assert b"report_files/plotly" not in alone.read_bytes()
    alone.unlink()
    with pytest.raises(BadFile, match="not the page of a run"):
        verify_page(done.folder / "result.json")


def test_a_page_tells_no_place_of_the_machine(done):
    text = write_page([done.folder]).read_text()
    assert str(done.folder.parent) not in text
