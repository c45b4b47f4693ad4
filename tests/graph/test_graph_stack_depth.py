"""Few hands between a sentence and a model, and between a signal and a fill."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType

import pytest
from deciders import OneByOne

import quantgraph
from quantgraph import run_strategy
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker.session import _session as execution
from quantgraph.llm import KeylessPlanner

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"
ROOT = Path(quantgraph.__file__).parent
MODEL_DEPTH, FILL_DEPTH, ORDER_DEPTH = 11, 8, 8


def functions_of(frames: Iterable[FrameType | None]) -> dict[CodeType, str]:
    """The functions of quantgraph on stacks, each once, from the outermost one in."""
    found: dict[CodeType, str] = {}
    for frame in frames:
        inner, stack = frame, []
        while inner is not None:
            stack.append(inner.f_code)
            inner = inner.f_back
        for code in reversed(stack):
            if ROOT in Path(code.co_filename).parents:
                found[code] = f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}"
    return found


def frames_up_to(outer: str, inner: str) -> list[str]:
    """The frames of quantgraph from ``outer`` to ``inner``, which the caller's caller calls."""
    frame, names = sys._getframe(2), [inner]
    while frame is not None and names[-1] != outer:
        if ROOT in Path(frame.f_code.co_filename).parents:
            names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[::-1]


@pytest.fixture(scope="module")
def depths(tmp_path_factory):
    """The functions at the first call of a model, in all threads, and at the first fill, in its thread.

    And the longest ways from the decision's node to an order, of the pre-check and of the fill.
    """
    seen: dict[str, list[str]] = {"decide": [], "close": []}
    generate, match_order = KeylessPlanner._generate, execution.match_order

    def generating(self, *arguments, **options):
        if "model" not in seen:
            stub = {generate.__code__}
            found = functions_of(sys._current_frames().values())
            seen["model"] = [name for code, name in found.items() if code not in stub]
        return generate(self, *arguments, **options)

    def matching(*arguments, **options):
        if "fill" not in seen:
            seen["fill"] = [
                *functions_of([sys._getframe()]).values(),
                "broker/session/_matching.py:match_order",
            ]
        frames = frames_up_to("decision_node", "match_order")
        if frames[0] == "decision_node":  # the report's benchmark has orders, too
            way = next(name for name in ("decide", "close") if name in frames)
            seen[way] = max(seen[way], frames, key=len)
        return match_order(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeylessPlanner, "_generate", generating)
        patch.setattr(execution, "match_order", matching)
        told = run_strategy(
            SENTENCE, model="keyless", decider=OneByOne(), out=tmp_path_factory.mktemp("runs")
        )
    assert told["ended_because"] == "done"
    return seen


def test_a_sentence_passes_few_functions_before_a_model_is_asked(depths):
    assert len(depths["model"]) <= MODEL_DEPTH, "\n".join(depths["model"])


def test_a_fill_has_few_functions_above_it(depths):
    assert len(depths["fill"]) <= FILL_DEPTH, "\n".join(depths["fill"])


def test_a_trade_of_the_autonomous_trader_is_eight_frames_from_its_decision(tmp_path, monkeypatch):
    place, frames = execution.Session.place, []

    def placing(*arguments, **options):
        frames.append(frames_up_to("decide", "place"))
        return place(*arguments, **options)

    monkeypatch.setattr(execution.Session, "place", placing)
    told = run_strategy(
        "autonomous trader on 000341.SZ, 600958.SH, 20250102 to 20250106",
        model="keyless",
        decider=TraderAgent(),
        out=tmp_path,
    )
    assert told["ended_because"] == "done"
    longest = max(frames, key=len)
    assert (longest[0], longest[-1]) == ("decide", "place")
    assert len(longest) <= ORDER_DEPTH, "\n".join(longest)


@pytest.mark.parametrize("way", ["decide", "close"])
def test_from_the_decision_to_an_order_are_at_most_eight_frames(depths, way):
    """Of the pre-check, which sells what the signal leaves, and of the fill."""
    frames = depths[way]
    assert (frames[0], frames[-1]) == ("decision_node", "match_order")
    assert way in frames
    assert len(frames) <= ORDER_DEPTH, "\n".join(frames)
