"""Branches: recorded up to a session, live from it on, and otherwise runs like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantgraph.broker import Decider, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.errors import BadOption, BadWindow, RunDiverged
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.report import BuyAndHold
from quantgraph.runs import RunSpec, replay, replay_from, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import decision_moment
from quantgraph.testing import ScriptedChatModel

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"
LIVE = "2025-01-08"


class Asking(Decider):
    """Buys as many lots as a model says, in each session."""

    name = "asking"
    uses_signal = False

    def __init__(self, model):
        self._model = RecordedChatModel(model, role="decision")

    def decide(self, context):
        account, session = context.account, context.session
        said = self._model.invoke(f"{session:%Y-%m-%d}: cash {account.cash}. How many lots of 000341.SZ?")
        lots = int(said.text)
        return [Order(symbol="000341.SZ", side="buy", quantity=100 * lots, sequence=1, reason="said")]


def saying(lots, name):
    return ScriptedChatModel(lambda _: str(lots), model_name=name)


def lines(folder):
    with Ledger(Path(folder) / "ledger.sqlite") as book:
        return [
            (line["session"], line["kind"], json.dumps(line["body"]))
            for line in book.journal(Path(folder).name)
        ]


def before(journal):
    return [line for line in journal if "" < line[0] < LIVE]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    told = run_strategy(
        SENTENCE, decider=Asking(saying(1, "small")), out=tmp_path_factory.mktemp("recorded"), source="sample"
    )
    assert told["ended_because"] == "done", told["error"]
    return told["run_dir"]


def test_the_new_model_is_called_from_the_session_on_and_no_model_before(recorded, tmp_path):
    other = saying(3, "large")
    told = replay_from(recorded, LIVE, decider=Asking(other), out=tmp_path)
    assert told["ended_because"] == "done", told["error"]
    assert told["run_id"] not in recorded
    assert [call.messages[0].text[:10] for call in other.calls] == [
        session for session, kind, _ in lines(recorded) if kind == "day" and session >= LIVE
    ]
    old, new = lines(recorded), lines(told["run_dir"])
    assert before(new) == before(old)
    assert len(before(new)) > 8
    fills = [json.loads(body)["quantity"] for _, kind, body in new if kind == "fill"]
    assert fills == ["100"] * 4 + ["300"] * (len(fills) - 4)
    assert len(fills) > 6
    manifest = json.loads((Path(told["run_dir"]) / "run.json").read_text(encoding="utf-8"))
    assert manifest["spec"]["branch_of"] == Path(recorded).name
    assert manifest["spec"]["branch_from"] == "20250108"
    usage = {(row["role"], row["model"], row["session"]): row["calls"] for row in told["usage"]}
    assert set(usage.values()) == {1}
    assert {(role, model) for role, model, _ in usage} == {("decision", "large")}  # what was served is free
    settings = load_settings(budget=f"calls={len(other.calls)}")
    told = replay_from(
        recorded,
        LIVE,
        decider=Asking(saying(3, "large")),
        out=tmp_path,
        resources=Resources(settings=settings),
    )
    assert told["ended_because"] == "done", told["error"]


def test_a_branch_replays_without_either_model(recorded, tmp_path):
    told = replay_from(recorded, LIVE, decider=Asking(saying(3, "large")), out=tmp_path)
    silent = saying(9, "nobody")
    assert replay(told["run_dir"], decider=Asking(silent)).differences == ()
    assert silent.calls == ()


def test_a_branch_that_was_stopped_is_resumed_from_where_it_was(recorded, tmp_path):
    class Broken(Exception):
        pass

    def fails(messages):
        return "3" if "2025-01-08" in messages[0].text else Broken("gone")

    with pytest.raises(Broken):
        replay_from(
            recorded, LIVE, decider=Asking(ScriptedChatModel(fails, model_name="large")), out=tmp_path
        )
    (folder,) = tmp_path.iterdir()
    other = saying(3, "large")
    told = resume_run(folder, decider=Asking(other))
    assert told["ended_because"] == "done", told["error"]
    asked = [call.messages[0].text[:10] for call in other.calls]
    assert asked[0] == "2025-01-09"
    assert before(lines(folder)) == before(lines(recorded))
    assert replay(folder, decider=Asking(saying(9, "nobody"))).differences == ()


def test_the_command_says_that_the_model_changed_nothing(tmp_path):
    told = run_strategy(SENTENCE, out=tmp_path / "old", source="sample")
    branch = CliRunner().invoke(
        app,
        ["replay", told["run_dir"], "--from", LIVE, "--model", "keyless", "--keep", str(tmp_path / "new")],
    )
    assert branch.exit_code == 0, branch.stderr
    assert "--model keyless changed nothing: this run asks no model from 20250108 on" in branch.stderr


def test_answers_before_the_session_are_served_and_later_orders_need_approval_again(tmp_path):
    rule, window = SENTENCE.rsplit("，", 1)
    asked = []

    def person(question):
        asked.append(question["kind"])
        return window if question["kind"] == "window" else "reject"

    def function(question):
        return person(question) if decision_moment() is None else "approve all that follow"

    told = run_strategy(
        RunSpec(question=rule, approve=True),
        decider=Asking(saying(1, "small")),
        out=tmp_path,
        resources=Resources(on_clarify=function),
    )
    assert (told["ended_because"], asked) == ("done", ["window"]), told["error"]
    asked.clear()
    branch = replay_from(
        told["run_dir"], LIVE, decider=Asking(saying(1, "large")), resources=Resources(answer=person)
    )
    old, new = lines(told["run_dir"]), lines(branch["run_dir"])
    assert before(new) == before(old)
    live = [line for line in old if line[0] >= LIVE and line[1] == "day"]
    assert (branch["ended_because"], asked) == ("done", ["approval"] * len(live))
    assert not any(kind == "fill" for session, kind, _ in new if session >= LIVE)
    assert replay(branch["run_dir"], decider=Asking(saying(9, "nobody"))).differences == ()


def test_a_branch_that_cannot_begin_leaves_nothing_behind(recorded, tmp_path):
    with pytest.raises(BadOption, match="must be a chat model, a model name, or a mapping by role, not int"):
        replay_from(recorded, LIVE, model={"clarify": 7}, decider=Asking(saying(1, "x")), out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_the_run_did_not_trade_is_refused(recorded, tmp_path):
    told = CliRunner().invoke(app, ["replay", str(recorded), "--from", "20250105", "--keep", str(tmp_path)])
    assert told.exit_code == 2
    assert "it traded 20250102 to 20250114; next to it 20250103 and 20250106" in told.stderr
    with pytest.raises(BadWindow, match=r"next to it 20250114$"):
        replay_from(recorded, "20250201", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_branch_that_repeats_differently_names_the_first_different_line(recorded, tmp_path):
    with pytest.raises(RunDiverged, match="session 2025-01-02 differs from the one that run"):
        replay_from(recorded, LIVE, decider=BuyAndHold(), out=tmp_path)
