"""A decider of another package, by the commands alone: found by its name, killed, resumed, replayed, drawn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from plugins import install

from quantgraph.broker.ledger import Ledger
from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages import read
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_decider"
SOURCE = (EXAMPLE / "dip_judge.py").read_text("utf-8")
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
ENTRIES = {"deciders": PROJECT["entry-points"]["quantgraph.deciders"]}
SENTENCE = "dip judge on 000341.SZ, 000342.SZ, 600958.SH, 20250102 to 20250117"
SESSIONS = 12
"""Of them all but the first three have four closes, and so a question."""


class Shop:
    """A folder with the package installed beside it, and a server that kills the command at a question."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.kill_at, self.child = folder, [], None, None
        self.site = install(folder / "site", PROJECT["name"], ENTRIES, dip_judge=SOURCE)

    def answer(self, request) -> str:
        text = str(request.messages[-1]["content"])
        self.asked.append(text)
        if self.kill_at == len(self.asked):
            os.kill(self.child.pid, signal.SIGKILL)
        facts = json.loads(read("dip_facts", text))
        first = min(facts)
        key = "sell" if facts[first]["held"] else "buy"
        return json.dumps({key: [first], "why": f"{key} it"})

    def command(self, *arguments: str, **environment: str):
        self.child = subprocess.Popen(
            [Path(sys.executable).with_name("quantgraph"), *arguments],
            cwd=self.folder,
            env={**os.environ, "QUANTGRAPH_MODEL": "keyless", "PYTHONPATH": str(self.site), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = self.child.communicate(timeout=120)
        return self.child.returncode, out, err


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def resumed(shop):
    """A run whose model is of a server, killed at its fourth question and resumed by the command alone."""
    with OpenAIStub(shop.answer) as stub:
        server = {"QUANTGRAPH_MODELS": '{"dip_judge": "sage"}', "OPENAI_BASE_URL": stub.base_url}
        shop.kill_at = 4
        killed = shop.command(
            "run", SENTENCE, "--decider", "dip_judge", "--headless", "--out", "runs", **server
        )
        assert killed[0] == -signal.SIGKILL, killed
        shop.kill_at = None
        code, out, err = shop.command("resume", "--json", "--out", "runs", **server)
        assert code == 0, err
    shop.server = server
    return json.loads(out)


def test_the_package_is_a_hundred_lines_with_its_project_file() -> None:
    files = [path for path in EXAMPLE.iterdir() if path.is_file()]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in files) <= 150


@pytest.mark.proof
def test_a_killed_run_is_resumed_by_the_command_and_asks_nothing_twice(shop, resumed) -> None:
    assert resumed["ended_because"] == "done"
    assert resumed["account"]["trades"] > 0
    with Ledger(shop.folder / resumed["run_dir"] / "ledger.sqlite") as book:
        book.check(resumed["run_id"])
        why = [each["why"] for each in book.notes(resumed["run_id"]).values()]
    assert len(why) == SESSIONS
    questions = sum(each.endswith(" it") for each in why)
    assert questions <= len(shop.asked) <= questions + 1, "only the question in flight is asked again"


@pytest.mark.proof
def test_it_is_replayed_without_its_server_and_drawn(shop, resumed) -> None:
    code, out, err = shop.command("replay", "--out", "runs", OPENAI_BASE_URL="http://127.0.0.1:1")
    assert (code, "identical" in out) == (0, True), (out, err)
    page = (shop.folder / resumed["run_dir"] / "report.html").read_text("utf-8")
    assert "dip judge" in page
    assert "judge of dips" in page


@pytest.mark.proof
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"dip_judge": SOURCE.replace("> 0.02", "> 0.03")}, "decider.file.dip_judge.py: "),
        ({"dip_judge": SOURCE, "version": "0.2.0"}, "decider.package: dip-judge 0.1.0 -> dip-judge 0.2.0"),
    ],
)
def test_another_file_or_version_is_refused_with_what_to_do(shop, resumed, change, told) -> None:
    folder = shop.folder / resumed["run_dir"]
    before = (folder / "result.json").read_text("utf-8")
    (folder / "result.json").write_text(json.dumps(resumed | {"ended_because": "cancelled"}), "utf-8")
    install(shop.site, PROJECT["name"], ENTRIES, **change)
    try:
        refusals = [
            shop.command("resume", "--out", "runs", **shop.server),
            shop.command("replay", "--out", "runs"),
        ]
    finally:
        install(shop.site, PROJECT["name"], ENTRIES, dip_judge=SOURCE)
        (folder / "result.json").write_text(before, "utf-8")
    for code, _, err in refusals:
        assert code == 2
        assert "run_mismatch" in err
        assert told in err
        assert "install the version of the package that it was begun with" in err


def test_without_a_key_its_own_reply_stands_in_and_is_replayed(shop) -> None:
    code, out, err = shop.command(
        "run", SENTENCE, "--decider", "dip_judge", "--headless", "--out", "keyless", "--json"
    )
    assert code == 0, err
    told = json.loads(out)
    with Ledger(shop.folder / told["run_dir"] / "ledger.sqlite") as book:
        whys = {each["why"] for each in book.notes(told["run_id"]).values()}
    assert whys == {
        "fewer than four closes are known",
        "keyless rule: the change of three sessions against 2 %",
    }
    assert told["account"]["trades"] > 0
    code, out, err = shop.command("replay", "--out", "keyless")
    assert (code, "identical" in out) == (0, True), (out, err)


def test_the_bare_planner_does_not_answer_for_a_package_that_is_not_named() -> None:
    assert "keyless rule" not in KeylessPlanner().invoke("<dip_facts>{}</dip_facts>").text
