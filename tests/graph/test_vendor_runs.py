"""Whole runs on servers with rules of their own give the fills of a plain server."""

from __future__ import annotations

import json

import pytest
from vendor_proxy import WANTS_THOUGHTS, Vendor, vendor_before

from quantgraph import run_strategy
from quantgraph.llm import KeylessPlanner
from quantgraph.runs import open_run, resume_run
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

CROSS = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
RUNS = {
    "signal_rule": f"000341.SZ, {CROSS}, 2025",
    "trader": "autonomous trader on 000341.SZ, 600958.SH, 20250102 to 20250107",
    "execution": "execution agent on 000341.SZ, 20250102 to 20250106",
    "dual_agent": f"000341.SZ, 600958.SH, {CROSS}, 20250102 to 20250113",
}
THOUGHTS = {"reasoning_content": "Let me think about it.", "marks": [{"index": 0, "type": "mark"}]}
SETTINGS = {
    "streams": {"stream": True},
    "no temperature": {"temperature": None},
    "no system": {"system_role": "user"},
}


@pytest.fixture(scope="module")
def stub():
    with OpenAIStub.serving(KeylessPlanner()) as server:
        yield server


def traded(url, decider, out, monkeypatch, **settings):
    """A run by the settings of a server, and its fills."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-t")
    monkeypatch.setenv("QUANTGRAPH_MODEL", "vendor-model")
    monkeypatch.setenv("QUANTGRAPH_MODELS", json.dumps({"all": settings}))
    told = run_strategy(RUNS[decider], decider=decider, out=out)
    return told, open_run(told["run_dir"]).trades if told["ended_because"] == "done" else None


@pytest.mark.parametrize("decider", RUNS)
def test_a_server_gets_its_own_words_back_and_streams(stub, decider, tmp_path, monkeypatch):
    _, plain = traded(stub.base_url, decider, tmp_path / "plain", monkeypatch)
    for rules in (("thoughts",), ("thoughts", "streams", "no temperature", "no system")):
        options = {name: value for each in rules for name, value in SETTINGS.get(each, {}).items()}
        with vendor_before(stub.base_url, Vendor(refuses=rules, adds=THOUGHTS)) as vendor:
            told, fills = traded(vendor.url, decider, tmp_path / "-".join(rules), monkeypatch, **options)
        assert (told["ended_because"], vendor.refused) == ("done", [])
        assert fills.equals(plain)
        assert vendor.asked


def test_a_run_whose_sessions_all_broke_off_has_not_ended_and_goes_on(stub, tmp_path, monkeypatch):
    _, plain = traded(stub.base_url, "trader", tmp_path / "plain", monkeypatch)
    with vendor_before(stub.base_url, Vendor(refuses=("thoughts",))) as vendor:  # it never sends them
        told, _ = traded(vendor.url, "trader", tmp_path / "runs", monkeypatch)
        assert told["ended_because"] == "model_unavailable"
        assert WANTS_THOUGHTS in told["error"]
        vendor.refuses = ()
        again = resume_run(told["run_dir"])
    assert again["ended_because"] == "done"
    assert open_run(again["run_dir"]).trades.equals(plain)
