"""Models whose answers look otherwise on the wire, behind a real ``ChatOpenAI``."""

from __future__ import annotations

import pytest
from faulty_models import MISBEHAVING, misbehaving_in
from langchain_openai import ChatOpenAI

from quantgraph.testing import OpenAIStub


@pytest.mark.parametrize(
    "name", ["prose", "bad_json", "truncated", "empty", "refuses", "thinking_blocks", "dsml", "wrong_types"]
)
def test_over_http_the_run_ends_typed_within_its_limits(name, play, stands, right):
    key = "sk-conformance-4711"
    with OpenAIStub.serving(MISBEHAVING[name]()) as stub:
        served = ChatOpenAI(model="m", base_url=stub.base_url, api_key=key, max_retries=0)
        cast = misbehaving_in("signal_generate", served)
        state = stands(play(cast))
        assert stub.requests[0].headers["authorization"] == f"Bearer {key}"
    assert 0 < len(stub.requests) <= 40
    assert state["ended_because"] == "done" or name not in right
