"""A decider of a file, by the commands alone: killed, resumed, replayed, and refused if anything differs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quantgraph.broker.ledger import Ledger
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_models.py"
SENTENCE = "000341.SZ 000342.SZ, buy when RSI(14) is below 30, 20250102 to 20250108"
PANEL = ("--decider", "panel.py:Panel")
QUESTIONS = 5 * 2 * 2
"""Sessions, symbols, models."""


class Desk:
    """Server of both models; it kills the command after so many questions."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked, self.kill_at, self.child = folder, [], None, None
        (folder / "panel.py").write_text(EXAMPLE.read_text("utf-8"), "utf-8")

    def answer(self, request) -> str:
        text = str(request.messages[-1]["content"])
        self.asked.append(text)
        if self.kill_at == len(self.asked):
            os.kill(self.child.pid, signal.SIGKILL)
        if text.startswith("Is "):
            return "yes"
        return "sell" if "said: buy" in text else "buy"

    def command(self, *arguments: str, url: str, **environment: str):
        keyless = {
            "QUANTGRAPH_MODEL": "keyless",
            "QUANTGRAPH_MODELS": '{"filter": "filter", "decision": "decision"}',
            "OPENAI_BASE_URL": url,
        }
        self.child = subprocess.Popen(
            [Path(sys.executable).with_name("quantgraph"), *arguments, "--out", "runs"],
            cwd=self.folder,
            env={**os.environ, **keyless, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = self.child.communicate(timeout=120)
        return self.child.returncode, out, err


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A run that was killed in the middle of its third session, resumed by the command."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    with OpenAIStub(desk.answer) as stub:
        desk.kill_at = 9
        desk.killed = desk.command("run", SENTENCE, *PANEL, "--headless", url=stub.base_url)
        desk.kill_at = None
        desk.resumed = desk.command("resume", "--json", *PANEL, url=stub.base_url)
        desk.url = stub.base_url
        yield desk


@pytest.mark.proof
def test_a_killed_run_is_resumed_by_the_command_alone_and_pays_for_nothing_twice(desk):
    assert desk.killed[0] == -signal.SIGKILL, desk.killed
    code, out, err = desk.resumed
    assert code == 0, err
    assert json.loads(out)["ended_because"] == "done"
    (folder,) = (desk.folder / "runs").glob("2*")
    with Ledger(folder / "ledger.sqlite") as book:
        notes = list(book.notes(folder.name).values())
        book.check(folder.name)
    assert notes == [
        dict.fromkeys(("000341.SZ", "000342.SZ"), word) for word in ("buy", "sell", "buy", "sell", "buy")
    ]
    # The questions in flight when it was killed are asked again: one, or one of each symbol's thread.
    assert QUESTIONS <= len(desk.asked) <= QUESTIONS + 2


def test_it_is_replayed_by_the_command_alone(desk):
    before = len(desk.asked)
    code, _, err = desk.command("replay", url="http://127.0.0.1:1")
    assert (code, "name it yourself, --decider FILE.py:CLASS" in err) == (2, True), err
    code, out, err = desk.command("replay", *PANEL, url="http://127.0.0.1:1")
    assert (code, "identical" in out) == (0, True), (out, err)
    assert len(desk.asked) == before


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"QUANTGRAPH_MODELS": '{"filter": "filter", "decision": "another"}'}, "model.decision: decision at"),
        ({}, "decider.file"),
    ],
)
def test_another_model_or_another_file_is_refused_with_the_difference(desk, changed, told):
    (folder,) = (desk.folder / "runs").glob("2*")
    result = json.loads((folder / "result.json").read_text("utf-8"))
    (folder / "result.json").write_text(json.dumps(result | {"ended_because": "cancelled"}), "utf-8")
    text = (desk.folder / "panel.py").read_text("utf-8")
    if not changed:
        (desk.folder / "panel.py").write_text(text.replace("worth a look", "worth it"), "utf-8")
    try:
        code, _, err = desk.command("resume", *PANEL, url=desk.url, **changed)
    finally:
        (desk.folder / "panel.py").write_text(text, "utf-8")
        (folder / "result.json").write_text(json.dumps(result), "utf-8")
    assert code == 2
    assert "run_mismatch" in err
    assert told in err
    if not changed:
        assert "decider.prompt.filter" in err


def test_what_is_no_decider_is_one_line(desk):
    code, out, err = desk.command("run", SENTENCE, "--decider", "nobody", url=desk.url)
    assert (code, out) == (2, "")
    assert err.startswith(
        "bad_option: decider='nobody' must be one of buy_and_hold, dual_agent, execution, mcp_client, signal_rule, trader, or FILE.py:CLASS"
    )


def test_options_of_the_command_are_the_deciders_and_a_replay_knows_them(tmp_path):
    desk = Desk(tmp_path)
    run = ("run", SENTENCE, "--decider", "dual_agent", "--headless", "--json")
    off = ("--option", "cfg.features.fundamentals=false", "--option", "cfg.portfolio.min_cash_ratio=0.5")
    with OpenAIStub(lambda _request: "no JSON") as stub:
        done = desk.command(*run, *off, url=stub.base_url)
        assert done[0] == 0, done
        replayed = desk.command("replay", "--json", url=stub.base_url)
    assert replayed[0] == 0, replayed
    (folder,) = (tmp_path / "runs").glob("2*")
    told = json.loads((folder / "run.json").read_text("utf-8"))
    assert told["decider"].startswith('dual_agent?{"cfg": {"features": {"fundamentals": false}')
    roles = {row["role"] for row in json.loads(done[1])["usage"]}
    assert "decision" in roles
    assert "filter" not in roles


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--option", "rounds=5"), "--option without --decider"),
        (("--decider", "execution", "--option", "rounds"), "must be NAME=VALUE"),
        (("--decider", "execution", "--option", "rounds=5", "--option", "rounds=6"), "each name once"),
        (("--decider", "buy_and_hold", "--option", "x=1"), "decider=buy_and_hold: "),
        (("--decider", "execution", "--option", "rounds=0"), "rounds=0; must be a whole number from 1 to 50"),
    ],
)
def test_an_option_that_is_not_valid_is_one_line(tmp_path, options, told):
    code, _, err = Desk(tmp_path).command("run", SENTENCE, *options, url="http://127.0.0.1:9/v1")
    assert code == 2
    assert told in err
    assert len(err.strip().splitlines()) == 1
