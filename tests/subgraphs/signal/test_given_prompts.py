"""Prompts in place of ours: what a node sends, what is refused, and that a run is no other run's."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from quantgraph import create_signal_subgraph, run_strategy
from quantgraph.errors import BadOption, QuantGraphError
from quantgraph.runs import resume_run
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import REFLECTION_NODE_PROMPT, reflection_node
from quantgraph.testing import ScriptedChatModel

SENTENCE = "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when below, 2025"
RULES = "House rule: never name a share by its nickname."
REPLY = json.dumps({"task_type": "unclear", "clarification_needed": "which stocks?"})


def with_rules(text):
    return f"{text}\n{RULES}"


@pytest.mark.parametrize("given", [with_rules, with_rules(REFLECTION_NODE_PROMPT)], ids=["function", "text"])
def test_a_node_sends_the_prompt_that_was_given(given):
    model = ScriptedChatModel([REPLY, REPLY])
    resources = Resources(model={"reflection": model}, store=DataState(), prompts={"reflection": given})
    reflection_node({"messages": [HumanMessage("buy low, sell high", id="1")]}, resources=resources)
    sent = model.calls[0].messages[-1].text
    assert RULES in sent
    assert "buy low, sell high" in sent


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ({"reflecton": "x"}, "is of no node; the nodes are reflection, data_fetch"),
        ({"reflection": "You read requests."}, "lacks {data_ready}"),
        ({"validate": lambda text: text + '{"a": 1}'}, "which the node does not fill"),
        ({"clarify": lambda text: text + "{"}, "cannot be filled"),
        ({"data_fetch": lambda text: None}, "is a NoneType; it must be a text"),
    ],
    ids=["node", "placeholder", "braces", "a brace", "no text"],
)
def test_a_prompt_that_its_node_cannot_fill_is_refused_before_anything_runs(prompts, said):
    with pytest.raises(BadOption, match="prompts") as refused:
        create_signal_subgraph(prompts=prompts)
    assert said in refused.value.message


def test_a_run_goes_on_with_its_own_prompts_alone(tmp_path):
    resources = Resources(prompts={"reflection": with_rules}, on_clarify="ask")
    told = run_strategy(SENTENCE.partition(", ")[2], source="sample", out=tmp_path, resources=resources)
    assert told["ended_because"] == "needs_answer"
    run = json.loads((Path(told["run_dir"]) / "run.json").read_text(encoding="utf-8"))
    assert run["identity"]["configuration"]["prompts.reflection"].startswith("with_rules ")
    with pytest.raises(QuantGraphError, match=r"prompts\.reflection"):
        resume_run(told["run_dir"], answer="000341.SZ")
    done = resume_run(told["run_dir"], answer="000341.SZ", resources=resources)
    assert done["ended_because"] == "done"
