"""A process for a vendor's package: what it prints, how long it may take, and when it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantgraph.data._vendor_process import NoAnswer, VendorProcess

WORKER = """
import time
import a_package
from quantgraph.data._vendor_process import serve

def answer(request):
    print("a package says something")
    if "sleep" in request:
        time.sleep(request["sleep"])
    return {"twice": 2 * request["number"]}

serve(answer)
"""


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = tmp_path / "modules"
    place.mkdir()
    (place / "a_package.py").write_text("")
    (place / "a_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(place))
    return "a_worker"


def test_it_answers_one_request_after_the_other_whatever_is_printed(worker: str) -> None:
    process = VendorProcess(worker, [], 20)
    assert [process.ask({"number": number}) for number in (1, 2)] == [{"twice": 2}, {"twice": 4}]
    assert process.answered
    process.end()
    assert process.ask({"number": 3}) == {"twice": 6}
    process.end()


def test_no_answer_in_time_and_a_process_that_ends_are_told_apart(worker: str) -> None:
    process = VendorProcess(worker, [], 2)
    with pytest.raises(NoAnswer, match="no answer within 2 s"):
        process.ask({"number": 1, "sleep": 60})
    process = VendorProcess(worker, [], 20)
    with pytest.raises(NoAnswer, match="its process ended"):
        process.ask({})
    assert process.ask({"number": 1}) == {"twice": 2}
    process.end()


def test_a_file_of_the_working_folder_does_not_hide_a_package(worker: str) -> None:
    Path("a_package.py").write_text("raise SystemExit(3)")
    process = VendorProcess(worker, [], 20)
    assert process.ask({"number": 1}) == {"twice": 2}
    process.end()


def test_it_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tells.py").write_text(
        "import os\nfrom quantgraph.data._vendor_process import serve\nserve(lambda _: dict(os.environ))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    process = VendorProcess("tells", [], 20)
    assert "secret" not in str(process.ask({}))
    process.end()


def test_it_ends_with_the_process_that_started_it_whatever_it_waits_for(worker: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", worker], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    process.stdin.write(b'{"number": 1, "sleep": 60}\n')
    process.stdin.flush()
    time.sleep(0.5)
    process.stdin.close()
    assert process.wait(20) == 0
