"""The page of a run: written again with the same bytes, verified, and silent about the machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from quantgraph.errors import BadFile, CodeFailed
from quantgraph.runs import run_strategy
from quantgraph.runs._page import verify_page, write_page
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
    with pytest.raises(BadFile, match=f"name the run, quantgraph verify {done['run_id']} --page FILE"):
        verify_page(alone)
    assert verify_page(alone, done.folder).ok
    alone.unlink()
    with pytest.raises(BadFile, match="not the page of a run"):
        verify_page(done.folder / "result.json")


def test_a_page_tells_no_place_of_the_machine(done):
    text = write_page([done.folder]).read_text()
    assert str(done.folder.parent) not in text


class NotStarted:
    """A runner whose process does not start, and says where its interpreter is."""

    def run(self, _cells, _frames):
        raise CodeFailed(f"the code process did not start; try: {sys.executable} -m it\n/opt/x/y.py")


def test_an_error_of_the_machine_tells_no_folder(tmp_path):
    resources = Resources(runner=NotStarted(), settings=load_settings(runs_dir=tmp_path))
    ended = run_strategy(QUESTION, resources=resources)
    assert ended["ended_because"] == "repeated_error"
    told = write_page([ended.folder]).read_text()
    assert "the code process did not start; try: python" in told
    for place in (Path(sys.executable).parent, sys.prefix, Path.home(), tmp_path, "/opt/"):
        assert str(place) not in told, place


@pytest.mark.parametrize("part", ["data", "strategy.py"])
def test_a_part_that_is_gone_is_named_on_the_page(done, tmp_path, part):
    folder = shutil.copytree(done.folder, tmp_path / done.folder.name)
    gone = folder / part
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert f"运行文件夹里缺少 {part}" in write_page([folder]).read_text()


def test_a_run_without_its_ledger_or_its_result_has_no_page(done, tmp_path):
    folder = shutil.copytree(done.folder, tmp_path / done.folder.name)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(BadFile, match=r"ledger\.sqlite is missing or empty"):
        write_page([folder])
    (folder / "result.json").unlink()
    with pytest.raises(BadFile, match=r"no result\.json: the run goes on, or was killed"):
        write_page([folder])
    (folder / "run.json").write_text((folder / "run.json").read_text().replace('"format": 6', '"format": 99'))
    with pytest.raises(BadFile, match="format 99"):
        write_page([folder])
