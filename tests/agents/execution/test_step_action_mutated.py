"""10,000 mutated replies: each is an action that holds what it says, or a fault in one line; nothing else is raised."""

import json
import math
import random

from langchain_core.messages import AIMessage
from mutated_replies import mutated_calls, mutated_reply

from quantgraph.agents.execution._actions import ACTION_TYPES, Action, parse_action
from quantgraph.errors import ModelOutputInvalid


def is_whole(action):
    """Whether an action is valid by itself, and plain JSON that UTF-8 has."""
    told = action.model_dump()
    text = json.dumps(told, ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode().decode()) == told
    assert Action.model_validate(told) == action
    assert action.type in ACTION_TYPES
    assert action.step == 3
    assert len(text) < 10_000
    if action.type == "decision":
        decided = action.action
        assert decided.action in {"buy", "sell", "hold"}
        assert math.isfinite(decided.confidence)
        assert 0 <= decided.confidence <= 1
        assert decided.confidence > 0 or decided.action == "hold"
        assert decided.reason
    return True


def read(reply):
    """Return the action of a reply; None if it has none."""
    try:
        action = parse_action(reply, step=3)
    except ModelOutputInvalid as error:
        told = str(error)
        assert "\n" not in told
        assert 0 < len(told.encode()) < 1_000
        return None
    assert is_whole(action)
    return action


def test_a_mutated_text_is_an_action_or_a_fault():
    rng = random.Random(20251103)
    kinds = dict.fromkeys((*ACTION_TYPES, None), 0)
    for _ in range(8_000):
        action = read(mutated_reply(rng))
        kinds[action.type if action else None] += 1
    assert min(kinds.values()) > 100, kinds  # the mutations reach every ending


def test_a_mutated_call_is_an_action_or_a_fault():
    rng = random.Random(20251104)
    faults = sum(read(AIMessage("why", tool_calls=mutated_calls(rng))) is None for _ in range(2_000))
    assert 200 < faults < 1_900
