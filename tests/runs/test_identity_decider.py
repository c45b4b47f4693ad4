"""The decider of a run also decides when the run is replayed and resumed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider, TradePlan
from quantgraph.cli._main import app
from quantgraph.errors import BadOption, FutureRequested, RunMismatch
from quantgraph.runs import RunSpec, replay, run_strategy

SENTENCE = "000341.SZ,000342.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月24日"


class Narrow(SignalRule):
    """Has the name and the options of the package's."""

    def decide(self, context):
        return super().decide(context)[:1]


def test_the_signal_rule_is_made_again_with_its_options(tmp_path):
    plan = TradePlan(size={"weights": {"000341.SZ": 0.3, "000342.SZ": 0.07}}, cash_reserve=0.1)
    spec = RunSpec(question=SENTENCE, plan=plan)
    told = run_strategy(spec, out=tmp_path)
    latest = CliRunner().invoke(app, ["replay", "--out", str(tmp_path)])
    assert latest.stdout == f"{told['run_id']}: identical (ledger, execution log, signal, strategy, result)\n"


def test_a_custom_decider_must_be_given_again(tmp_path):
    told = run_strategy(SENTENCE, decider=Narrow(), out=tmp_path)
    replayed = replay(told["run_dir"], decider=Narrow())
    assert repr(replayed) == f"ReplayResult(run_id='{told['run_id']}', identical=True)"
    with pytest.raises(
        RunMismatch,
        match=r"decider.class: Narrow -> nothing; .*--decider FILE.py:CLASS, or decider= in Python",
    ):
        replay(told["run_dir"])
    refused = CliRunner().invoke(app, ["replay", told["run_dir"]])
    assert refused.exit_code == 2
    assert "--decider FILE.py:CLASS, or decider= in Python" in refused.stderr
    assert len([*tmp_path.glob("*/")]) == 1


def nothing():
    return None


def ahead():
    raise FutureRequested("tomorrow's close")


@pytest.mark.parametrize(("decides", "error"), [(nothing, BadOption), (ahead, FutureRequested)])
def test_an_invalid_decider_is_raised_and_the_folder_says_failed(tmp_path, decides, error):
    class Wrong(Decider):
        name = "wrong"
        uses_signal = False

        def decide(self, context):
            return decides()

    with pytest.raises(error) as raised:
        run_strategy(SENTENCE, decider=Wrong(), out=tmp_path)
    (folder,) = tmp_path.glob("*/")
    told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (told["state"], told["ended_because"], told["error"]) == ("failed", None, raised.value.line)
    assert raised.value.data["run_dir"] == str(folder)
    assert replay(folder, decider=Wrong()).differences == ()
