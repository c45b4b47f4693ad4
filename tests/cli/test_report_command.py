"""``quantgraph report``, and the page that every run of the command leaves."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from quantgraph.cli import report_command
from quantgraph.cli.main import app


def report(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_a_run_leaves_its_page_and_says_where(two_runs: Any) -> None:
    for (folder, out, err), label in zip(two_runs, ("页面", "page"), strict=True):
        assert err.splitlines()[-1] == f"{label}: {folder / 'report.html'}"
        assert "report.html" not in out
        assert report("--verify", folder / "report.html")[0] == 0


def test_a_page_is_written_again_with_the_same_bytes(two_runs: Any) -> None:
    folder = two_runs[0][0]
    before = (folder / "report.html").read_bytes()
    assert report(folder.name, "--out", folder.parent) == (0, f"{folder / 'report.html'}\n", "")
    assert (folder / "report.html").read_bytes() == before


def test_options_choose_language_form_and_file(two_runs: Any, tmp_path: Path) -> None:
    folder = two_runs[0][0]
    page = tmp_path / "page.html"
    assert report(folder, "--lang", "en", "--inline", "--to", page) == (0, f"{page}\n", "")
    text = page.read_text(encoding="utf-8")
    assert re.search(r"<html[^>]* lang=\"?en", text)
    assert not re.search(r"<script[^>]* src=", text)


def test_several_runs_are_one_page(two_runs: Any, tmp_path: Path) -> None:
    status, out, _ = report(*(run[0] for run in two_runs), "--to", tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert (status, out) == (0, f"{tmp_path / 'both.html'}\n")
    assert all(run[0].name in text for run in two_runs)


def test_a_browser_is_asked_to_open_the_page(two_runs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    folder = two_runs[0][0]
    monkeypatch.setattr(report_command.webbrowser, "open", lambda url: bool(opened.append(url)))
    status, _, err = report(folder, "--open")
    assert (status, opened) == (0, [(folder / "report.html").as_uri()])
    assert err == f"no browser could be started: open {folder / 'report.html'}\n"


def test_a_page_that_was_changed_is_found(two_runs: Any, tmp_path: Path) -> None:
    folder = tmp_path / two_runs[0][0].name
    shutil.copytree(two_runs[0][0], folder)
    page = folder / "report.html"
    page.write_text(page.read_text(encoding="utf-8") + "<!-- better -->", encoding="utf-8")
    status, out, err = report("--verify", page)
    assert (status, err) == (1, "")
    assert "it was changed" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "there is no run.json in nowhere or in runs/nowhere"),
        (("--verify", "text.html"), "text.html is not the page of a run"),
        (("--verify", "none.html"), "none.html cannot be read"),
        (("--verify", "text.html", "run"), "--verify with a run"),
        ((), "RUN is missing, and runs has no run to take"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    Path("text.html").write_text("<html>")
    status, out, err = report(*arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_page_that_cannot_be_written_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "report_files").write_text("a file where a folder must be made")
    sentence = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
    done = CliRunner().invoke(app, ["signal", sentence, "--headless", "--json"])
    assert done.exit_code == 0
    assert '"ended_because": "done"' in done.stdout
    assert done.stderr.splitlines()[-1].startswith("页面没有写成: storage_unavailable: ")
