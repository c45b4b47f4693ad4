"""Every misbehaving model in the role ``clarify``: what is asked may be nonsense, the answer is what counts."""

from __future__ import annotations

ROLE = "clarify"
CODES = "000341.SZ,000342.SZ,000343.SZ"


def test_every_accepted_wording_of_an_answer_is_read(misbehaving, staged):
    state = staged(ROLE, misbehaving, f"{CODES}，2日均线上穿5日均线买入，下穿卖出", ask=True)
    assert state["ended_because"] == "done"
    assert state["quantgraph"]["strategy"]["name"] == "cross_up_sma_2_sma_5"
