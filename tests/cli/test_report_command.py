"""The page of a run: written after it by the command, written again and verified by ``quantgraph show``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.runs import _page as run_page

pytestmark = pytest.mark.proof

SENTENCE = (
    "000341.SZ, 5-day average crosses above the 20-day average buy, below sell, 2024-01-02 to 2024-03-29"
)


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for more in ("", "; 3-day average"):
        assert (
            command(
                "run", SENTENCE.replace("5-day", "3-day") if more else SENTENCE, "--headless", "--out", place
            ).exit_code
            == 0
        )
    return place


def names(place):
    return sorted(path.name for path in place.glob("2*"))


def test_a_run_writes_its_page_and_says_where(place, tmp_path):
    told = command("run", "mumble", "--headless", "--out", tmp_path)
    (folder,) = tmp_path.glob("2*")
    assert told.exit_code == 1
    assert f"page: {folder / 'report.html'}" in told.stderr.splitlines()
    assert "needs_answer" in (folder / "result.json").read_text()
    for name in names(place):
        assert (place / name / "report.html").is_file()


def test_a_page_that_cannot_be_written_leaves_the_result(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_page, "write_atomic", full)
    told = command("run", SENTENCE, "--headless", "--out", tmp_path)
    assert told.exit_code == 0
    assert "the page was not written" in told.stderr
    (folder,) = tmp_path.glob("2*")
    assert json.loads((folder / "result.json").read_text())["ended_because"] == "done"


def test_a_page_is_written_again_and_verified(place):
    first, second = names(place)
    told = command("show", first, "--out", place, "--lang", "zh")
    assert told.stdout.splitlines()[-1] == f"页面: {place / first / 'report.html'}"
    assert "完成" in (place / first / "report.html").read_text()
    page = place / first / "report.html"
    told = command("verify", "--page", page)
    assert [line.partition(": ")[2] for line in told.stdout.splitlines()[2:]] == [
        "page: what the folder gives",
        "replay: identical",
    ]
    assert (told.exit_code, told.stderr) == (0, "")
    page.write_text(page.read_text().replace("完成", "大赚", 1))
    told = command("verify", first, "--out", place)
    assert told.exit_code == 1
    assert "page: not as the run left it" in told.stdout
    assert f"bad_file: {page}: line" in told.stderr
    told = command("compare", first, second, "--out", place)
    assert told.stdout.splitlines()[-1] == f"page: {place / 'comparison.html'}"
