"""The python_repl tool: cells of one session, a process of their own, errors as errors."""

from __future__ import annotations

import asyncio

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_experimental.tools.python.tool import PythonAstREPLTool

from quantgraph.errors import BadFrame, CodeFailed
from quantgraph.market import Moment
from quantgraph.sandbox import CodeResult, default_runner
from quantgraph.state import GLOBAL_DATA_STATE
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import ToolContext, python_repl
from quantgraph.tools._call import tools_catalog
from quantgraph.tools._code import TrustedRunner

SIGNAL = "GLOBAL_DATA_STATE.update('signal', {'s': (snapshot['ohlcv']['close'] > 3).astype(float)})"


@pytest.fixture
def context(store, frame):
    store.update("ohlcv", {"close": frame, "open": frame + 1})
    as_of, tree = Moment.at("2024-01-05"), store.checkout(store.head)
    return ToolContext(tree.view(as_of), code=default_runner(), tree=tree)


def run(context, *cells):
    script = [
        AIMessage("", tool_calls=[{"name": "python_repl", "args": {"query": cell}, "id": str(number)}])
        for number, cell in enumerate(cells)
    ]
    agent = create_agent(ScriptedChatModel([*script, "done"]), [python_repl], context_schema=ToolContext)
    messages = agent.invoke({"messages": [("user", "go")]}, context=context)["messages"]
    return [message for message in messages if isinstance(message, ToolMessage)]


def test_it_is_langchains_repl_by_its_face():
    assert isinstance(python_repl, PythonAstREPLTool)
    assert python_repl.name == "python_repl"
    assert list(python_repl.tool_call_schema.model_json_schema()["properties"]) == ["query"]


def test_by_hand_a_value_comes_back_and_an_error_raises():
    assert python_repl.invoke({"query": "print('a')\n1 + 1"}) == "a\n2"
    assert python_repl.invoke({"query": "x = 1"}) == "(no output)"
    with pytest.raises(CodeFailed, match=r"line 2 \(1 / 0\): ZeroDivisionError"):
        python_repl.invoke({"query": "x = 1\n1 / 0"})


def test_it_works_asynchronously():
    assert asyncio.run(python_repl.ainvoke({"query": "2 * 21"})) == "42"


def test_later_cells_see_earlier_ones_and_a_failed_one_leaves_nothing_behind(context):
    cells = ["x = 20", "y = 22", "x + y"]
    assert [message.text for message in run(context, *cells)] == ["(no output)", "(no output)", "42"]
    with pytest.raises(CodeFailed):
        run(context, "x = 0\nraise ValueError(x)")
    assert context.cells == cells
    assert run(context, "x")[0].text == "20"


@pytest.mark.parametrize("fence", ["```python\n{}\n```", "```\n{}\n```", "\n```py\n{}```\n"])
def test_a_code_fence_around_a_cell_is_taken_off(context, fence):
    assert run(context, fence.format("6 * 7"))[0].text == "42"


def test_code_sees_nothing_after_the_runs_moment(context):
    shape, last = run(
        context, "snapshot['ohlcv']['close'].shape", "str(snapshot['ohlcv']['close'].index[-1].date())"
    )
    assert (shape.text, last.text) == ("(4, 3)", "'2024-01-05'")


def test_in_an_agents_run_a_signal_is_handed_over_and_nothing_is_published(context, store):
    heads = (GLOBAL_DATA_STATE.head, store.head, context.tree.ref)
    (message,) = run(context, SIGNAL)
    assert message.artifact["signals"] == ["s"]
    assert context.signals["s"].to_numpy().sum() == 8.0  # 4.0 to 11.0
    assert (GLOBAL_DATA_STATE.head, store.head, context.tree.ref) == heads


def test_a_context_that_publishes_does_so_to_its_tree_and_not_to_the_process_wide_store(context, store):
    head = GLOBAL_DATA_STATE.head
    context.publish = True
    run(context, SIGNAL)
    assert store.snapshot(context.tree.ref)["signal"]["s"].to_numpy().sum() == 8.0
    assert GLOBAL_DATA_STATE.head == head


@pytest.fixture
def by_hand(frame):
    """The process-wide store with one field, put back afterwards."""
    before = GLOBAL_DATA_STATE.snapshot()
    GLOBAL_DATA_STATE.override(ohlcv={"close": frame}, indicators={}, signal={})
    yield GLOBAL_DATA_STATE
    GLOBAL_DATA_STATE.override(**{panel: dict(before[panel]) for panel in before})


def test_by_hand_a_signal_is_published_and_may_be_replaced(by_hand):
    python_repl.invoke({"query": SIGNAL})
    assert by_hand.snapshot()["signal"]["s"].to_numpy().sum() == 11.0  # 4.0 to 14.0
    python_repl.invoke({"query": SIGNAL.replace("> 3", "> 13")})
    assert by_hand.snapshot()["signal"]["s"].to_numpy().sum() == 1.0
    assert list(by_hand.snapshot()["ohlcv"]) == ["close"]


def test_by_hand_every_call_starts_anew():
    python_repl.invoke({"query": "leftover = 1"})
    with pytest.raises(CodeFailed, match="NameError"):
        python_repl.invoke({"query": "leftover"})
    assert "called by hand, every call starts anew" in python_repl.description


def test_an_agent_that_decides_is_not_told_to_hand_a_signal_over():
    for repl in (python_repl, tools_catalog["python_repl"]):
        assert "vol is in hundreds of shares" in repl.description
    assert "Hand a signal over" in python_repl.description
    assert "Hand a signal over" not in tools_catalog["python_repl"].description


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            "snapshot['ohlcv']['close'] * 0 + 0.5",
            r"0\.5 at \(2024-01-02, 000001\.SZ\); signal values must be 1, 0, -1 or NaN",
        ),
        ("snapshot['ohlcv']['close'] * 0 + np.inf", r"inf at \(2024-01-02, 000001\.SZ\)"),
        ("(snapshot['ohlcv']['close'] * 0).tz_localize('Asia/Shanghai')", "in time zone Asia/Shanghai"),
        ("(snapshot['ohlcv']['close'] * 0).iloc[::-1]", "is not sorted"),
        ("[1, 2]", "must be a pandas DataFrame, not list"),
    ],
)
def test_a_signal_that_is_none_is_refused_where_it_is_made(context, store, code, says):
    ref, head = context.tree.ref, store.head
    with pytest.raises(CodeFailed, match=says) as caught:
        run(context, f"GLOBAL_DATA_STATE.update('signal', {{'s': {code}}})")
    assert BadFrame.__name__ in caught.value.message
    assert (context.tree.ref, store.head) == (ref, head)


@pytest.mark.parametrize(
    ("isolation", "says"),
    [
        ("full", ""),
        ("limits_only", "\n(ran in a process with limits, but with files and network in reach)"),
        ("none", "\n(ran without limits, with files and network in reach)"),
        ("trusted", "\n(ran in this process, not isolated)"),
    ],
)
def test_a_result_says_where_code_ran_if_it_was_not_locked_in(context, isolation, says):
    class Runner:
        def run(self, cells, frames):
            return CodeResult(value="1", isolation=isolation)

    context = ToolContext(context.view, code=Runner())
    (message,) = run(context, "1")
    assert message.text == f"1{says}"
    assert message.artifact["isolation"] == isolation


def test_the_runner_that_is_built_in_locks_code_in(context):
    (message,) = run(context, "1")
    assert (message.text, message.artifact["isolation"]) == ("1", "full")


def test_by_trusted_code_every_result_says_so(context):
    context = ToolContext(context.view, code=TrustedRunner())
    assert [m.text.split("\n")[-1] for m in run(context, "x = 1", "x")] == [
        "(ran in this process, not isolated)"
    ] * 2


def test_sessions_do_not_see_each_others_variables_libraries_or_signals(context):
    one, two = context, ToolContext(context.view, code=default_runner())
    change = "import builtins\nbuiltins.leak = 1\npd.leak = 1\nnp.random.seed(7)\nsecret = 1"
    assert one.run(change).error is None
    assert one.run(SIGNAL).error is None
    for name in ("secret", "leak", "pd.leak"):
        assert "Error" in two.run(name).error.message
        assert one.run(name).value == "1"
    assert (list(one.signals), list(two.signals)) == (["s"], [])
    assert two.run("list(GLOBAL_DATA_STATE.snapshot()['signal'])").value == "[]"
    assert two.run("secret = 2\nsecret").value == "2"
    assert one.run("secret").value == "1"


def test_a_forged_reply_of_a_runner_is_validated_again(context, store):
    """Whatever runs the code, what comes back goes through the store's own checks."""

    class Forger:
        def run(self, cells, frames):
            return CodeResult(signals={"s": store.snapshot()["ohlcv"]["close"]})

    ref = context.tree.ref
    with pytest.raises(BadFrame, match="signal values must be 1, 0, -1 or NaN"):
        run(ToolContext(context.view, code=Forger(), tree=context.tree, publish=True), "anything")
    assert context.tree.ref == ref
