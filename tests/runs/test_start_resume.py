"""Resuming: from which state a run goes on, what is refused, and what is not repeated."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import RunControl
from typer.testing import CliRunner

from quantgraph.agents import SignalRule
from quantgraph.broker import Decider
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadFile, BadOption, BudgetExceeded, NoData, RunMismatch, SourceUnavailable
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runs import _identity as identity
from quantgraph.runs.folder._folder import lock_folder, read_manifest
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

pytestmark = pytest.mark.proof

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"
WITHOUT_WINDOW = "000341.SZ，2日均线上穿5日均线买入，下穿卖出"
WINDOW = "20240102-20240229"


def stop_at(name):
    """A control and a watcher that stop a run once a node has finished."""
    control = RunControl()

    def watch(event):
        if event.name == name:
            control.request_drain("enough")

    return {"control": control, "watch": watch}


def journal(result):
    with Ledger(f"{result['run_dir']}/ledger.sqlite") as book:
        return [(line["kind"], line["body"]) for line in book.journal(result["run_id"])][1:]


def test_run_json_is_written_before_the_first_call(tmp_path, asked, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen = []

    def watch(_event):
        seen.append((len(asked), [read_manifest(folder) for folder in tmp_path.glob("*/")]))

    rules = Rulebook.mainland(slippage_bps=3)
    done = run_strategy(
        RunSpec(question=SENTENCE, cash=Decimal(500000), rules=rules),
        model="keyless",
        out=tmp_path,
        resources=Resources(watch=watch),
    )
    (manifest,) = seen[0][1]
    assert manifest.run_id == done["run_id"]
    assert manifest.spec == RunSpec(question=SENTENCE, cash=Decimal("500000.00"), rules=rules)
    text = (tmp_path / done["run_id"] / "run.json").read_text()
    assert json.loads(text)["identity"]["hash"] == manifest.identity.hash
    assert "sk-secret" not in text
    assert manifest.identity.configuration["model.reflection"] == "quantgraph-keyless-planner"


class OldSaver(InMemorySaver):
    """One from before ``put_writes`` was given the task's path."""

    def put_writes(self, config, writes, task_id):
        super().put_writes(config, writes, task_id)


@pytest.mark.parametrize("left", ["everything", "no checkpoints", "another saver"])
def test_a_stopped_run_is_resumed_without_repeated_calls(tmp_path, asked, left):
    whole = run_strategy(SENTENCE, out=tmp_path / "whole")
    calls = len(asked)
    asked.clear()
    saver = OldSaver() if left == "another saver" else None
    half = run_strategy(
        SENTENCE, out=tmp_path / "half", resources=Resources(checkpointer=saver, **stop_at("signal_generate"))
    )
    assert half["ended_because"] == "cancelled"
    assert "quantgraph resume" in half["error"]
    assert half["history"]
    if left == "no checkpoints":
        (tmp_path / "half" / half["run_id"] / "checkpoints.sqlite").unlink()
    done = resume_run(half["run_id"], resources=Resources(settings=load_settings(runs_dir=tmp_path / "half")))
    assert done["ended_because"] == "done"
    assert journal(done) == journal(whole)
    assert len(asked) == calls
    assert sum(row["calls"] for row in done["usage"]) == calls
    before = (tmp_path / "half" / half["run_id"] / "result.json").read_bytes()
    assert resume_run(done["run_dir"]) == done
    assert len(asked) == calls
    assert (tmp_path / "half" / half["run_id"] / "result.json").read_bytes() == before


def test_a_question_waits_for_its_answer_in_another_process(tmp_path):
    waiting = run_strategy(RunSpec(question=WITHOUT_WINDOW, on_clarify="ask"), out=tmp_path)
    assert waiting["ended_because"] == "needs_answer"
    assert waiting["asked"]["kind"] == "window"
    assert resume_run(waiting["run_dir"])["ended_because"] == "needs_answer"
    command = [sys.executable, "-c", "from quantgraph.cli import main; main()", "resume", waiting["run_id"]]
    done = subprocess.run(
        [*command, "--answer", WINDOW, "--out", str(tmp_path), "--json", "--headless"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ended_because"] == "done"
    assert result["window"] == {"start": "20240102", "end": "20240229"}
    assert result["run_id"] == waiting["run_id"]


def test_a_run_that_ended_for_want_of_an_answer_takes_one(tmp_path):
    ended = run_strategy(RunSpec(question=WITHOUT_WINDOW, on_clarify="fail"), out=tmp_path)
    assert ended["ended_because"] == "needs_answer"
    assert resume_run(ended["run_dir"], answer=WINDOW)["ended_because"] == "done"


def test_a_run_is_answered_by_the_decisions_of_a_chat_page_and_replays(tmp_path):
    spec = RunSpec(question=WITHOUT_WINDOW, on_clarify="ask", approve=True)
    waiting = run_strategy(spec, out=tmp_path)
    with pytest.raises(BadOption, match="the answer needs 1 decision, not 2; it must be a text, have answer"):
        resume_run(waiting["run_dir"], answer={"decisions": [{"type": "approve"}] * 2})
    edited = {"name": "answer_question", "args": {"answer": WINDOW, "id": waiting["asked"]["id"]}}
    waiting = resume_run(waiting["run_dir"], answer={"type": "edit", "edited_action": edited})
    assert waiting["asked"]["kind"] == "approval"
    refused = resume_run(waiting["run_dir"], answer=[{"type": "ignore", "args": None}])
    assert refused["asked"]["kind"] == "approval"
    done = resume_run(refused["run_dir"], answer="approve all that follow")
    assert done["ended_because"] == "done"
    assert done["account"]["rejections_by_reason"]["not_approved"] == len(waiting["asked"]["orders"])
    assert replay(done["run_dir"]).identical


def test_a_run_whose_questions_are_used_up_takes_no_answer(tmp_path):
    ended = run_strategy(WITHOUT_WINDOW, out=tmp_path, resources=Resources(answer=lambda _question: "不知道"))
    assert (ended["ended_because"], "asked" in ended) == ("needs_answer", False)
    with pytest.raises(BadOption, match=r"3 questions of run .* used up.*begin a new run"):
        resume_run(ended["run_dir"], answer=WINDOW)
    assert resume_run(ended["run_dir"]) == ended
    told = CliRunner().invoke(app, ["resume", ended["run_dir"], "--answer", WINDOW])
    assert told.exit_code == 2


def test_a_run_that_is_interrupted_at_its_question_asks_it_again(tmp_path):
    def gone(_question):
        raise KeyboardInterrupt

    left = run_strategy(WITHOUT_WINDOW, out=tmp_path, resources=Resources(answer=gone))
    assert left["ended_because"] == "cancelled"
    asked = []
    done = resume_run(
        left["run_dir"], resources=Resources(answer=lambda question: asked.append(question["kind"]) or WINDOW)
    )
    assert (done["ended_because"], asked) == ("done", ["window"])


def test_an_answering_function_must_be_given_again(tmp_path):
    half = run_strategy(
        WITHOUT_WINDOW,
        out=tmp_path,
        resources=Resources(on_clarify=lambda _question: WINDOW, **stop_at("data_fetch")),
    )
    with pytest.raises(BadOption, match="begun with a function as on_clarify; give it again"):
        resume_run(half["run_dir"])
    done = resume_run(half["run_dir"], resources=Resources(on_clarify=lambda _question: WINDOW))
    assert done["ended_because"] == "done"
    assert len(done["assumptions"]) == 1


@pytest.mark.parametrize(
    "mended", [{"answer": WINDOW}, {"resources": Resources(on_clarify=lambda _question: WINDOW)}]
)
def test_recorded_answers_keep_their_origin_after_a_resume(tmp_path, mended):
    code, *rest = WITHOUT_WINDOW.split("，")
    lost = {"symbol": code, "window": ""}
    ended = run_strategy(
        "，".join(rest), out=tmp_path, resources=Resources(on_clarify=lambda question: lost[question["kind"]])
    )
    assert (ended["ended_because"], ended["assumptions"]) == ("needs_answer", [f"symbol: {code} (callable)"])
    done = resume_run(ended["run_dir"], **mended)
    by_function = [f"window: {WINDOW} (callable)"] if "resources" in mended else []
    assert (done["ended_because"], done["assumptions"]) == ("done", [*ended["assumptions"], *by_function])
    assert replay(done["run_dir"]).differences == ()


def slow(_question):
    raise TimeoutError("the desk is closed")


async def later(_question):
    return WINDOW


@pytest.mark.parametrize("option", ["answer", "on_clarify"])
def test_a_function_that_cannot_answer_leaves_a_run_that_can_go_on(tmp_path, option):
    with pytest.raises(TimeoutError, match="the desk is closed"):
        run_strategy(WITHOUT_WINDOW, out=tmp_path / "raises", resources=Resources(**{option: slow}))
    (folder,) = (tmp_path / "raises").glob("*/")
    assert (
        json.loads((folder / "result.json").read_text())["error"]
        == "failed: TimeoutError: the desk is closed"
    )
    ended = run_strategy(
        WITHOUT_WINDOW, out=tmp_path / "none", resources=Resources(**{option: lambda _question: " "})
    )
    assert ended["ended_because"] == "needs_answer"
    answers = Resources(**{option: lambda _question: WINDOW})
    assert resume_run(ended["run_dir"], resources=answers)["ended_because"] == "done"


def test_an_async_answering_function_is_refused(tmp_path):
    with pytest.raises(
        BadOption, match="answer must be a plain function that returns text, not an async one"
    ) as mistake:
        run_strategy(WITHOUT_WINDOW, out=tmp_path, resources=Resources(answer=later))
    assert resume_run(mistake.value.data["run_dir"], answer=WINDOW)["ended_because"] == "done"
    ended = run_strategy(WITHOUT_WINDOW, out=tmp_path, resources=Resources(on_clarify=later))
    assert "on_clarify must be a plain function that returns text, not an async one" in ended["error"]


def test_a_run_out_of_budget_goes_on_with_another_one(tmp_path, asked):
    read_twice = SENTENCE.replace("，下穿卖出", "")  # no exit is said
    ended = run_strategy(
        read_twice, out=tmp_path, resources=Resources(settings=load_settings(budget="calls=1"))
    )
    assert (ended["ended_because"], len(asked)) == ("budget_calls", 1)
    assert resume_run(ended["run_dir"])["ended_because"] == "budget_calls"
    assert len(asked) == 1
    done = resume_run(ended["run_dir"], resources=Resources(settings=load_settings(budget="calls=100")))
    assert done["ended_because"] == "done"
    asked.clear()
    run_strategy(read_twice, out=tmp_path)
    assert sum(row["calls"] for row in done["usage"]) == len(asked) == 2


class Poor(Decider):
    """A decider with a budget of its own."""

    name = "poor"

    def __init__(self, sessions):
        self.left = sessions

    def decide(self, context):
        self.left -= 1
        if self.left < 0:
            raise BudgetExceeded("no more calls", limit="calls")
        return []


def test_sessions_that_were_decided_before_the_budget_was_spent_are_reported_and_kept(tmp_path):
    ended = run_strategy(SENTENCE, decider=Poor(5), out=tmp_path)
    assert (ended["ended_because"], len(ended["equity"]["sessions"])) == ("budget_calls", 1 + 5)
    with pytest.raises(RunMismatch, match="decider: poor -> "):
        resume_run(ended["run_dir"])
    done = resume_run(ended["run_dir"], decider=Poor(32))
    assert (done["ended_because"], len(done["equity"]["sessions"])) == ("done", 1 + 37)


def test_a_different_configuration_or_code_is_refused_and_shown(tmp_path, monkeypatch):
    half = run_strategy(SENTENCE, out=tmp_path, resources=Resources(**stop_at("reflection")))
    monkeypatch.setenv("QUANTGRAPH_TEMPERATURE", "0.7")
    files = dict(identity.code_hashes())
    files["graph/_report.py"] = "0"
    del files["graph/_graph.py"]
    monkeypatch.setattr(identity, "code_hashes", lambda: files)
    with pytest.raises(RunMismatch) as error:
        resume_run(half["run_dir"])
    assert "other configuration (settings.temperature: 0.0 -> 0.7; set it as it was)" in error.value.line
    assert (
        "other code (graph/_graph.py is gone and 1 more; use the quantgraph that it was begun"
        in error.value.line
    )
    assert [each["name"] for each in error.value.data["differences"]] == [
        "settings.temperature",
        "graph/_graph.py",
        "graph/_report.py",
    ]


def test_different_decider_options_are_refused(tmp_path):
    half = run_strategy(
        SENTENCE, decider=SignalRule(signal="a"), out=tmp_path, resources=Resources(**stop_at("reflection"))
    )
    with pytest.raises(
        RunMismatch, match=r"decider\.signal: a -> b; give the one that it was begun with: --decider"
    ):
        resume_run(half["run_dir"], decider=SignalRule(signal="b"))


def test_different_data_and_a_different_graph_are_refused_and_shown(tmp_path, a_share, monkeypatch):
    files = tmp_path / "data"
    shutil.copytree(a_share, files)
    sentence = "600519.SH，2日均线上穿5日均线买入，下穿卖出，20250102到20250331"
    half = run_strategy(
        sentence, source=files, out=tmp_path / "runs", resources=Resources(**stop_at("reflection"))
    )
    assert half["ended_because"] == "cancelled"
    changed = next(path for path in sorted(files.iterdir()) if path.is_file())
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(RunMismatch, match=f"other data \\({changed.name} is changed; give the data"):
        resume_run(half["run_dir"])
    changed.write_bytes(changed.read_bytes()[:-1])
    manifest = read_manifest(tmp_path / "runs" / half["run_id"])
    told = json.loads((tmp_path / "runs" / half["run_id"] / "run.json").read_text())
    told["identity"]["graph"]["report -> audit"] = told["identity"]["graph"].pop("report -> __end__")
    (tmp_path / "runs" / half["run_id"] / "run.json").write_text(json.dumps(told))
    with pytest.raises(RunMismatch, match="other graph \\(report -> __end__: nothing -> always and 1 more"):
        resume_run(half["run_dir"])
    manifest.write(tmp_path / "runs" / half["run_id"])
    monkeypatch.chdir("/")
    assert resume_run(half["run_dir"])["ended_because"] == "done"


@pytest.mark.parametrize("lacking", [SourceUnavailable("the vendor is down"), NoData("no bars yet")])
def test_a_run_without_data_is_resumed_when_the_source_has_them_and_replays(tmp_path, lacking):
    class Down(SampleSource):
        down = True

        def bars(self, *window):
            if self.down:
                raise lacking
            return super().bars(*window)

    source = Down()
    half = run_strategy(SENTENCE, source=source, out=tmp_path)
    assert (half["ended_because"], half["error"]) == ("data_unavailable", lacking.line)
    assert replay(half["run_dir"]).differences == ()
    source.down = False
    whole = resume_run(half["run_dir"], source=source)
    assert whole["ended_because"] == "done", whole["error"]
    assert replay(half["run_dir"]).differences == ()


def test_a_run_that_another_process_executes_is_refused(tmp_path):
    half = run_strategy(SENTENCE, out=tmp_path, resources=Resources(**stop_at("reflection")))
    with (
        lock_folder(tmp_path / half["run_id"], f"run {half['run_id']}"),
        pytest.raises(BadOption, match="is going on in another process"),
    ):
        resume_run(half["run_dir"])


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(BadOption, match=r"RUN='nothing': there is no run\.json in"):
        resume_run("nothing", resources=Resources(settings=load_settings(runs_dir=tmp_path)))
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadFile, match="does not say what run this is"):
        resume_run(tmp_path)
