"""The same strategy reaches the same signal in every mode, over real HTTP."""

from __future__ import annotations

import json
import threading

import jsonschema
import pytest
from langchain_core.messages import HumanMessage

from quantgraph.llm import KeylessPlanner
from quantgraph.llm.messages._structured import read_json
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.subgraphs.signal._replies import ReflectionReply
from quantgraph.testing import Fault, OpenAIStub, Reply

SENTENCE = (
    "000341.SZ, buy when RSI(6) is below 40 and PE is below 100, sell when RSI(6) is above 60, "
    "from 20250401 to 20250630"
)
PROBED = {"json_schema": 2, "text": 2}
FORMS = {"json_schema": ("json_schema",), "text": ()}


def run(**options):
    store = DataState()
    settings = load_settings(fetch="agent")
    graph = create_signal_subgraph(
        on_clarify="fail", settings=settings, resources=Resources(store=store), **options
    )
    state = graph.invoke({"messages": [HumanMessage(SENTENCE)]})
    assert state["ended_because"] == "done", state["error_messages"]
    return state, store.snapshot(state["data_ref"])["signal"][state["strategy"]["name"]]


class Told(KeylessPlanner):
    """The planner, with a list of its turns."""

    turns: list = []  # noqa: RUF012 - pydantic copies it

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        result = super()._generate(messages, stop, run_manager, **kwargs)
        self.turns.append(result.generations[0].message)
        return result


@pytest.fixture(scope="module")
def here():
    """The planner's turns in process, and their result."""
    planner = Told(turns=[])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUANTGRAPH_MODEL_RUNG", "native")
        state, signal = run(model=planner)
    return planner.turns, state, signal


class WeakServer:
    """A server whose model repeats the planner's turns in the form of its mode."""

    def __init__(self, mode, turns):
        self.mode, self._turns, self._lock = mode, iter(turns), threading.Lock()
        self.said = []

    def __call__(self, request):
        form = request.body.get("response_format") or {}
        if request.tools:
            return self._tools(request)
        if form and form["type"] not in FORMS[self.mode]:
            return Fault.http(400, f"response_format {form['type']} is not supported")
        if "Call the tool report" in request.messages[-1]["content"]:
            return self._written(form, {"tool": "report", "args": {"word": "ready", "count": 7}}, "")
        with self._lock:
            turn = next(self._turns)
        self.said.append(request.messages)
        if turn.tool_calls:
            (call,) = turn.tool_calls
            return self._written(form, {"tool": call["name"], "args": call["args"]}, turn.text)
        answers = form.get("type") != "json_schema" or _takes_answer(form)
        return self._written(
            form, {"answer": turn.text} if answers else json.loads(_fence(turn.text)), turn.text
        )

    def _tools(self, request):
        """llama.cpp takes tools and writes a call as text; others refuse them."""
        if self.mode == "json_schema":
            return Reply.text('```json\n{"name": "report", "arguments": {}}\n```')
        return Fault.http(400, "tools are not supported")

    def _written(self, form, value, text):
        written = json.dumps(value, ensure_ascii=False)
        if form.get("type") == "json_schema":
            value = _held_to(form["json_schema"]["schema"], value)
            written = json.dumps(value, ensure_ascii=False)
        if self.mode == "text":
            if "answer" in value and "```json" in value["answer"]:
                return f"<think>Done. {{</think>\n{text}"
            return f"<think>A {{tool}}?</think>Of course:\n\n```json\n{written}\n```\n"
        return written


def _held_to(schema, value):
    """The part of a value that a schema-constrained server can write."""
    known = {name for option in schema.get("anyOf", [schema]) for name in option["properties"]}
    value = {name: item for name, item in value.items() if name in known}
    jsonschema.validate(value, schema)
    return value


def _takes_answer(form):
    schema = form["json_schema"]["schema"]
    return any("answer" in option["properties"] for option in schema.get("anyOf", [schema]))


def _fence(text):
    return text.strip().removeprefix("```json").removesuffix("```")


@pytest.mark.parametrize("mode", ["json_schema", "text"])
def test_the_signal_is_the_same_in_every_mode(here, mode, monkeypatch):
    turns, state_here, signal_here = here
    server = WeakServer(mode, turns)
    monkeypatch.setenv("QUANTGRAPH_MODEL_RUNG", "auto")
    monkeypatch.setenv("QUANTGRAPH_MODEL", "weak")
    with OpenAIStub(server) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        state, signal = run()
        assert not stub.errors
        refused = sum(bool(request.tools) for request in stub.requests)
    assert len(server.said) == len(turns)
    assert len(stub.requests) == len(turns) + PROBED[mode]
    assert refused == 1, "tools are offered to the probe alone"
    roles = {message["role"] for messages in server.said for message in messages}
    assert roles == {"system", "user", "assistant"}
    assert state["strategy"]["code_hash"] == state_here["strategy"]["code_hash"]
    assert state["data_ref"] == state_here["data_ref"]
    assert signal.equals(signal_here)


def test_in_native_mode_calls_in_markup_give_the_same_signal(here, monkeypatch):
    turns, state_here, _ = here
    waiting = iter(turns)

    def answer(request):
        turn = next(waiting)
        if not turn.tool_calls:
            return turn
        (call,) = turn.tool_calls
        body = "".join(
            f'<｜DSML｜parameter name="{key}" string="true">{value}</｜DSML｜parameter>'
            for key, value in call["args"].items()
        )
        name = call["name"]
        return f'<｜DSML｜function_calls><｜DSML｜invoke name="{name}">{body}</｜DSML｜invoke></｜DSML｜function_calls>'

    monkeypatch.setenv("QUANTGRAPH_MODEL", "slips")
    with OpenAIStub(answer) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        state, _ = run()
    assert state["data_ref"] == state_here["data_ref"]


def test_the_planners_turns_use_every_tool(here):
    turns, _, signal = here
    called = [call["name"] for turn in turns for call in turn.tool_calls]
    assert called == ["tushare_daily_bar", "tushare_daily_basic", "python_repl"]
    assert read_json(turns[0].content, ReflectionReply).user_intent.params.required_indicators == ["pe"]
    assert set(signal.to_numpy().ravel()) > {1.0, -1.0}
