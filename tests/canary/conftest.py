"""A market with sentinels after a moment, a model that wants to see everything, and a hundred sessions."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from canary_data import CanarySource, CanaryStore
from canary_watch import CanaryWatch
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from states import flat, grouped

from quantgraph.data.sample import SampleSource
from quantgraph.llm.messages import _json as tags
from quantgraph.market import Moment
from quantgraph.runtime import Resources, open_resources
from quantgraph.sandbox import CodeResult
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import build_signal_graph, clarify_node
from quantgraph.testing import ScriptedChatModel

SAMPLE = SampleSource()
SESSIONS = SAMPLE.sessions()
PLACES = range(12, len(SESSIONS), 34)
"""Rows of SESSIONS; a step of 34 meets every weekday, and the last session of the sample is among them."""
if os.environ.get("WHOLE"):
    PLACES = range(5, len(SESSIONS), 7)
CODES = "000341.SZ,000344.SZ"  # the second one is ST for a time, renamed, and named as before again
LATER = "20251231"
LOOK = """\
for panel in snapshot:
    for name in snapshot[panel]:
        frame = snapshot[panel][name]
        print(panel, name, list(frame), frame.index.strftime("%Y-%m-%d").tolist(), frame.to_numpy().tolist())
"""
CODE = """\
close = snapshot["ohlcv"]["close"]
signal = (close.diff() > 0).astype(float).where(close.diff().notna())
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
"""


class Inline:
    """Runs cells in this process: a hundred runs of a graph with its audit take too long in children."""

    def run(self, cells, frames):
        store = DataState()
        store.adopt(frames)
        signals, said = {}, []
        handed = SimpleNamespace(snapshot=store.snapshot, update=lambda panel, fresh: signals.update(fresh))
        scope = {"pd": pd, "np": np, "GLOBAL_DATA_STATE": handed, "snapshot": store.snapshot()}
        scope["print"] = lambda *words: said.append(" ".join(str(word) for word in words))
        for cell in cells:
            said.clear()
            exec(cell, scope)
        return CodeResult(stdout="\n".join(said), signals=dict(signals), isolation="trusted")


def _calls(*calls):
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": str(n)} for n, (name, args) in enumerate(calls)]
    )


def _first(role, text):
    """What a role does before it answers: look at all it can, and ask for more than there is."""
    if role != "fetch":
        return _calls(("python_repl", {"query": CODE if role == "code" else LOOK}))
    wanted = json.loads(tags.read("fetch", text))
    window = {"ts_code": wanted["ts_code"], "start_date": wanted["start_date"], "end_date": LATER}
    return _calls(
        ("tushare_daily_bar", window),
        ("tushare_daily_basic", {**window, "fields": "pe,total_mv"}),
        ("tushare_daily_bar", {**window, "start_date": "20251229"}),
    )


def curious(messages):
    """Play all roles, look at everything, and repeat what was seen. The user's text is the intent in JSON."""
    text = "\n".join(str(each.text) for each in messages if not isinstance(each, AIMessage | ToolMessage))
    of_role = {"fetch": "fetch", "code": "strategy", "ask": "clarify", "review": "validate"}
    roles = {**of_role, "reflect": "user_request"}
    role = next(name for name, tag in roles.items() if tags.read(tag, text) is not None)
    begun = max(place for place, each in enumerate(messages) if isinstance(each, HumanMessage))
    told = [each for each in messages[begun:] if isinstance(each, ToolMessage)]
    if role == "ask":
        return f"Please say more; I was told: {text}"
    if not told:
        return _first(role, text)
    seen = " ".join(str(each.text) for each in told)
    if role == "reflect":
        wanted = json.loads(tags.read("user_request", text))
        intent = {"type": "mixed", "params": wanted, "needs_clarification": False}
        return json.dumps({"task_type": "mixed", "user_intent": intent, "reasoning": seen})
    return json.dumps({"issues_found": [], "seen": seen}) if role == "review" else seen


def request(first, codes=CODES):
    """What a user says: a window that ends with the sample."""
    wanted = {"ts_code": codes, "start_date": f"{first:%Y%m%d}", "end_date": LATER}
    return json.dumps(
        {**wanted, "strategy_desc": "buy after an up day", "required_indicators": ["pe", "total_mv"]}
    )


@pytest.fixture
def resources_at():
    """A resources over a store and a source that have sentinels after the moment."""
    settings = load_settings(audit={"cuts": 1, "prove": "sampled"})
    options = {"source": SAMPLE, "runner": Inline(), "settings": settings}
    opened = {
        False: open_resources(
            Resources(
                **{
                    **options,
                    "model": ScriptedChatModel(curious),
                    "settings": settings.model_copy(update={"fetch": "agent"}),
                }
            )
        ),
        True: open_resources(Resources(**options)),
    }

    def make(moment, *, seed=0, planner=False):
        source, store = CanarySource(SAMPLE, moment, seed=seed), CanaryStore(moment, seed=seed)
        return replace(opened[planner], source=source, store=store)

    return make


def think(resources, moment, text):
    """Run the signal subgraph, and watch all that it says, with the questions that clarify would ask."""
    asked = HumanMessage(text, id="asked")  # one that is made is told in the state, and so is the run's name
    given = grouped({"messages": [asked], "as_of": f"{moment.session:%Y%m%d}", "run_id": "watched"})
    with CanaryWatch(resources.store) as watch:
        state = build_signal_graph(resources).compile().invoke(given)
        assert state["ended_because"] == "done", state["error_messages"]
        watch.see("state", {**state, "messages": None})
        watch.see("request", flat(state)["request"])
        watch.see_signals(resources.store, state["data_ref"])
        for kind in ("symbol", "window", "strategy"):
            watch.see("question", _asked(resources, state, kind))
    return watch


def _asked(resources, state, kind):
    task = {"id": "1", "kind": kind, "reason": "?", "question": "", "default": None, "language": "en"}
    task |= {"rounds_left": 0, "unread": [], "options": [], "answer_schema": {}}
    asking = grouped({**state, "clarification": task, "clarification_needed": "?"})
    return flat(clarify_node(asking, resources=resources))["clarification"]


class Helpers:
    """What test modules take from here, since test folders are no packages."""

    SAMPLE, SESSIONS, PLACES, LOOK = SAMPLE, SESSIONS, PLACES, LOOK
    Inline = Inline
    Moment = Moment
    curious = staticmethod(curious)
    request = staticmethod(request)
    think = staticmethod(think)


@pytest.fixture(scope="session")
def market():
    """``SAMPLE`` and its parts."""
    return Helpers
