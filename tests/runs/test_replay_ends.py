"""Replays of runs that ended early, were stopped, or were killed."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from langgraph.runtime import RunControl
from load_script import load_script

from quantgraph.broker.ledger import Ledger
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

scripted = load_script(Path(__file__).with_name("scripted_run.py"))

KEYLESS = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年2月14日"


def settings_for(stub, **more):
    return load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="stub", **more)


@pytest.mark.parametrize(
    ("options", "limits", "because"),
    [
        ({"on_clarify": "ask"}, {}, "needs_answer"),
        ({"on_clarify": "fail"}, {}, "needs_answer"),
        ({"answer": lambda _: scripted.ANSWER}, {"budget": "calls=4"}, "budget_calls"),
        ({"on_clarify": lambda _: scripted.ANSWER}, {}, "done"),
    ],
)
def test_a_run_that_ended_early_replays_to_the_same_end(tmp_path, options, limits, because):
    with OpenAIStub(scripted.script) as stub:
        told = run_strategy(
            scripted.QUESTION,
            out=tmp_path,
            resources=Resources(settings=settings_for(stub, **limits), **options),
        )
    assert told["ended_because"] == because
    replayed = replay(told["run_dir"])
    assert replayed.differences == ()
    assert replayed.result["ended_because"] == because


def test_a_keyless_run_replays_where_the_settings_name_a_model(tmp_path, monkeypatch):
    told = run_strategy(KEYLESS, out=tmp_path)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "some-model")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://nowhere.invalid/v1")
    assert replay(told["run_dir"]).differences == ()


@pytest.mark.parametrize("place", ["signal_generate", "daily_loop"])
def test_a_run_that_was_stopped_replays_as_far_as_it_got(tmp_path, place):
    control = RunControl()

    def watch(event):
        if event.name == place:
            control.request_drain()

    told = run_strategy(KEYLESS, out=tmp_path, resources=Resources(control=control, watch=watch))
    assert told["ended_because"] == "cancelled"
    assert replay(told["run_dir"]).differences == ()


def test_approvals_and_rejections_are_the_same_in_the_replay(tmp_path):
    turns = count(1)
    told = run_strategy(
        RunSpec(question=KEYLESS, approve=True),
        out=tmp_path,
        resources=Resources(answer=lambda asked: asked["options"][next(turns) % 2]),
    )
    assert told["ended_because"] == "done", told["error"]
    with Ledger(Path(told["run_dir"]) / "ledger.sqlite") as book:
        kinds = [
            line["body"].get("code") for line in book.journal(told["run_id"]) if line["kind"] == "rejection"
        ]
    assert "not_approved" in kinds
    assert replay(told["run_dir"]).differences == ()


def test_an_approval_of_all_later_orders_holds_after_a_resume_and_in_the_replay(tmp_path):
    control, said = RunControl(), ["后续全部同意", "reject", "1"]

    def watch(event):
        if event.kind == "session" and not said:
            control.request_drain()

    rule = "000341.SZ，000342.SZ，000343.SZ，2日均线上穿5日均线买入，下穿卖出，2025年1月2日到2025年3月14日"
    half = run_strategy(
        RunSpec(question=rule, approve=True),
        out=tmp_path,
        resources=Resources(answer=lambda _asked: said.pop(), watch=watch, control=control),
    )
    assert half["ended_because"] == "cancelled"
    for path in Path(half["run_dir"]).glob("checkpoints.sqlite*"):
        path.unlink()
    done = resume_run(
        half["run_dir"], resources=Resources(answer=lambda asked: pytest.fail(asked["question"]))
    )
    assert done["ended_because"] == "done"
    with Ledger(Path(done["run_dir"]) / "ledger.sqlite") as book:
        refused = [outcome for outcome in book.order_records(done["run_id"]) if not hasattr(outcome, "price")]
    assert {outcome.code for outcome in refused} == {"not_approved"}
    assert len(refused) < len({outcome.session for outcome in refused}) * 3
    assert replay(done["run_dir"]).differences == ()


@pytest.mark.proof
def test_a_killed_run_replays_as_far_as_it_got_and_after_a_resume_to_its_end(tmp_path):
    code = (
        "import os, sys\n"
        "from quantgraph.graph import _loop as decision\n"
        "from quantgraph.runs import run_strategy\n"
        "from quantgraph.runtime import Resources\n"
        "sys.modules['quantgraph.broker.session._simulate'].TOGETHER = 1\n"
        "decision.emit_session = lambda day, _, window: day.day == 15 and os.kill(os.getpid(), 9)\n"
        "resources = Resources(answer=lambda _: sys.argv[2])\n"
        "run_strategy(sys.argv[1], out=sys.argv[3], resources=resources)\n"
    )
    with OpenAIStub(scripted.script) as stub:
        settings = settings_for(stub)
        done = subprocess.run(
            [sys.executable, "-c", code, scripted.QUESTION, scripted.ANSWER, str(tmp_path / "runs")],
            timeout=60,
            env=os.environ
            | {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": "sk-test", "QUANTGRAPH_MODEL": "stub"},
        )
        assert done.returncode == -9
        (folder,) = (tmp_path / "runs").glob("*/")
        with Ledger(folder / "ledger.sqlite") as book:
            assert f"{book.last_session(folder.name):%Y%m%d}" == "20240115"
        assert replay(folder).differences == ()
        assert resume_run(folder, resources=Resources(settings=settings))["ended_because"] == "done"
    assert replay(folder).differences == ()
