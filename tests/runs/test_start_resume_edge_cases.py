"""Resuming after a model has stepped down, after a late answer, and with damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.runtime import RunControl
from load_script import load_script

from quantgraph.errors import BadFile
from quantgraph.llm.messages import _json as tags
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import Fault, OpenAIStub, ScriptedChatModel

pytestmark = pytest.mark.proof

scripted = load_script(Path(__file__).with_name("scripted_run.py"))


def without_tools(request):
    """A server that takes no tools."""
    if request.tools:
        return Fault.http(400, "tools are not supported by this model")
    return scripted.script(request)


def test_a_resumed_run_keeps_the_mode_that_it_had_stepped_down_to(tmp_path):
    control = RunControl()

    def watch(event):
        if event.name == "reflection" and event.kind == "node":
            control.request_drain("enough")

    with OpenAIStub(without_tools) as stub:
        settings = load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="stub")
        options = {"settings": settings, "answer": lambda _: scripted.ANSWER}
        half = run_strategy(
            scripted.QUESTION, out=tmp_path, resources=Resources(control=control, watch=watch, **options)
        )
        assert half["ended_because"] == "cancelled"
        before = len(stub.requests)
        assert resume_run(half["run_dir"], resources=Resources(**options))["ended_because"] == "done"
        asked = [tags.read("user_request", str(one.messages)) for one in stub.requests[before:]]
        tools = [bool(one.tools) for one in stub.requests[before:]]
    assert any(asked), "the answer is read after the stop"
    assert not any(tool for tool, text in zip(tools, asked, strict=True) if text), "reflection knew before it"
    assert replay(half["run_dir"]).differences == ()


def of_two_questions(messages):
    """Without a window, and with a word of the rule that nobody knows; the rest is never got to."""
    text = "\n".join(str(message.text) for message in messages)
    answers = json.loads(tags.read("answers", text) or "[]")
    said = [tags.read("user_request", text) or "", *(each["answer"] for each in answers)]
    if "<clarify>" in text:
        return "?"
    windows = ["2024" in line or "2025" in line for line in said]
    if "MOON" in text:
        return "no more"
    params = {"ts_code": scripted.CODE, "strategy_desc": ""}
    if any(windows):
        params |= {"start_date": "20240102", "end_date": "20240229"}
    intent = {"type": "unclear", "params": params, "needs_clarification": True}
    asked = "what is moon?" if any(windows) else "which window?"
    unread = ["moon"] if any(windows) else []
    told = {"task_type": "unclear", "user_intent": intent, "clarification_question": asked, "unread": unread}
    return AIMessage(json.dumps(told))


def test_a_late_answer_is_for_the_question_that_the_run_ended_for(tmp_path):
    model = ScriptedChatModel(of_two_questions)
    ended = run_strategy(f"{scripted.CODE} moon", model=model, out=tmp_path)
    assert (ended["ended_because"], ended["error"]) == ("needs_answer", "needs_answer: what is moon?")
    (assumed,) = ended["assumptions"]
    resume_run(ended["run_dir"], answer="MOON is a day that is up", model=model)
    asked = [tags.read("answers", str(call.messages[-1].text)) for call in model.calls]
    told = [json.loads(answers) for answers in asked if answers and "MOON" in answers]
    default = assumed.removeprefix("window: ").removesuffix(" (default)")
    assert [(each["answer"], each["by"]) for each in told[0]] == [
        (default, "default"),
        ("MOON is a day that is up", "person"),
    ]
    result = resume_run(ended["run_dir"], model=model)
    assert (result["assumptions"], result["ended_because"]) == ([assumed], "max_retries")
    assert replay(ended["run_dir"]).differences == ()


@pytest.mark.parametrize("name", ["checkpoints.sqlite", "result.json"])
def test_a_damaged_file_is_named_and_the_run_resumes_without_it(tmp_path, name):
    control = RunControl()
    control.request_drain("at once")
    half = run_strategy(
        "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229",
        out=tmp_path,
        resources=Resources(control=control),
    )
    for path in Path(half["run_dir"]).glob(f"{name}*"):
        path.unlink()
    broken = Path(half["run_dir"]) / name
    broken.write_bytes(b"no more than this" * 100)
    with pytest.raises(BadFile, match=f"{name} .*without the file"):
        resume_run(half["run_dir"])
    broken.unlink()
    assert resume_run(half["run_dir"], trust=name == "result.json")["ended_because"] == "done"
