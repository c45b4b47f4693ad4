"""call_tool: what a tool is given, what becomes of its result and of its failures, and what is recorded."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from decision_views import tools_at
from langchain.tools import ToolRuntime
from langchain_core.tools import StructuredTool, tool
from langgraph.types import Command

from quantgraph.errors import BadOption, CodeFailed, RateLimited, SourceUnavailable, ToolFailed, ToolTimeout
from quantgraph.recording import Recording
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.tools import call_tool, python_repl
from quantgraph.tools.trading._prices import get_kline_data

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04"])


@pytest.fixture
def context():
    close = pd.DataFrame({"600519.SH": [10.0, 11.0, 12.0]}, index=DAYS)
    return tools_at({"open": close, "close": close}, "2024-01-04")


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(sys.modules["quantgraph.tools._call"], "_FIRST_WAIT", 0.0)


def returning(value):
    return StructuredTool.from_function(lambda: value, name="own", description="Return a value.")


def raising(error):
    def own():
        raise error

    return StructuredTool.from_function(own, name="own", description="Fail.")


def called(own, context, timeout=5.0, **params):
    return call_tool(own, params, context, timeout=timeout)


@tool
def sized(symbol: str, count: int = 2) -> list[str]:
    """Repeat a symbol."""
    return [symbol] * count


def test_parameters_are_read_and_the_result_is_json(context):
    assert called(sized, context, symbol="a") == ["a", "a"]
    assert called(sized, context, symbol="a", count="3") == ["a"] * 3


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"symbol": "a", "days": 3}, "sized has no parameter 'days'; valid are symbol, count"),
        ({"count": 3}, "sized lacks its parameter 'symbol'; valid are symbol, count"),
        (
            {"symbol": "a", "count": "many"},
            "sized has count='many': .* valid integer.*; valid are symbol, count",
        ),
        ({"symbol": None}, "sized has symbol=None: .* valid string"),
    ],
)
def test_parameters_that_are_not_valid(context, params, says):
    with pytest.raises(BadOption, match=says):
        call_tool(sized, params, context, timeout=5)


def test_a_tool_may_ask_for_the_context_and_a_model_cannot_pass_it(context):
    @tool
    def own(runtime: ToolRuntime[Any, Any]) -> str:
        """Say when it is."""
        return str(runtime.context.moment)

    assert called(own, context) == "2024-01-04 open"
    with pytest.raises(BadOption, match="own has no parameter 'runtime'; it has none"):
        called(own, context, runtime="mine")


def test_a_tool_of_a_coroutine_alone_is_called_too(context):
    async def own(x: int) -> int:
        """Double it."""
        return 2 * x

    assert called(StructuredTool.from_function(coroutine=own), context, x=21) == 42


def test_a_schema_that_is_a_dict_is_read(context):
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    own = StructuredTool(name="own", description="Add.", args_schema=schema, func=lambda x: x + 1)
    assert called(own, context, x=1) == 2
    with pytest.raises(BadOption, match="own lacks its parameter 'x'; valid are x"):
        called(own, context)


def test_numbers_that_json_has_not_are_null_and_frames_are_rows(context):
    assert called(returning({"a": float("nan"), "b": [np.float64("inf"), np.int64(3)]}), context) == {
        "a": None,
        "b": [None, 3],
    }
    frame = pd.DataFrame({"600519.SH": [1.5, np.nan]}, index=pd.DatetimeIndex(DAYS[:2], name="day"))
    assert called(returning(frame), context) == [
        {"day": "2024-01-02T00:00:00", "600519.SH": 1.5},
        {"day": "2024-01-03T00:00:00", "600519.SH": None},
    ]


@pytest.mark.parametrize(
    "value", ["x" * 5_000_000, ["row"] * 1_000_000, {"a": "均" * 5_000_000}, ["\x00" * 10**6]]
)
def test_five_megabytes_become_twenty_thousand_characters_with_a_note(context, value):
    text = json.dumps(called(returning(value), context), ensure_ascii=False, separators=(",", ":"))
    assert 15_000 < len(text) <= 20_000
    assert "left out" in text


def test_of_a_long_list_the_last_entries_are_kept(context):
    result = called(returning(list(range(100_000))), context)
    assert result[-1] == 99_999
    assert result[0] == f"({100_000 - len(result) + 1} earlier entries left out)"


def test_what_holds_itself_ends(context):
    endless = []
    endless.append(endless)
    assert called(returning(endless), context)


@pytest.mark.parametrize(
    "error", [ValueError("no\nsuch thing"), KeyError("x"), SystemExit(3), RecursionError()]
)
def test_what_a_tool_raises_is_one_typed_line(context, error):
    with pytest.raises(ToolFailed, match=f"own: {type(error).__name__}") as caught:
        called(raising(error), context)
    assert "\n" not in caught.value.line


def test_a_typed_error_passes_and_a_command_is_refused(context):
    with pytest.raises(CodeFailed):
        called(python_repl, context, query="1 / 0")
    with pytest.raises(ToolFailed, match="own returns a Command, which only a graph can carry out"):
        called(returning(Command(goto="x")), context)


@pytest.mark.parametrize("error", [ConnectionError("down"), TimeoutError(), RateLimited("slow down")])
def test_an_error_that_may_pass_is_tried_three_times(context, error):
    calls = []

    def own():
        calls.append(1)
        if len(calls) < 3 or error.args[:1] == ("down",):
            raise error
        return "there"

    made = StructuredTool.from_function(own, description="Fail twice.")
    if error.args[:1] == ("down",):
        with pytest.raises(SourceUnavailable, match="own: ConnectionError: down"):
            called(made, context)
    else:
        assert called(made, context) == "there"
    assert len(calls) == 3


@pytest.mark.proof
def test_a_tool_that_hangs_ends_in_time(context):
    end = threading.Event()
    own = StructuredTool.from_function(
        end.wait, name="own", description="Hang.", infer_schema=False, args_schema={}
    )
    begun = time.monotonic()
    with pytest.raises(ToolTimeout, match=r"own did not answer within 0\.1 s") as caught:
        called(own, context, timeout=0.1)
    assert time.monotonic() - begun < 2
    assert caught.value.code == "tool_timeout"
    end.set()


@pytest.fixture
def run_of(tmp_path):
    """Enter the scope of a node of one run, as a live try or as a replay."""

    def enter(mode="record"):
        recording = Recording("run", tmp_path / "recordings.db", mode=mode)
        return in_scope(Scope(recording=recording, path="decide"))

    return enter


def test_an_own_tool_is_called_once_in_a_run(context, run_of):
    calls = []
    own = StructuredTool.from_function(
        lambda: calls.append(1) or {"n": len(calls)}, name="own", description="Count."
    )
    for mode in ("record", "record", "replay"):
        with run_of(mode):
            assert called(own, context) == {"n": 1}
    assert calls == [1]


def test_a_hang_and_a_failure_are_served_again(context, run_of):
    with run_of(), pytest.raises(ToolFailed, match="ValueError: once"):
        called(raising(ValueError("once")), context)
    for mode in ("record", "replay"):
        with run_of(mode), pytest.raises(ToolFailed, match="ValueError: once"):
            called(returning("now it works"), context)


def test_what_was_unreachable_is_asked_again_on_resume_and_served_in_a_replay(context, run_of):
    with run_of(), pytest.raises(SourceUnavailable):
        called(raising(ConnectionError("down")), context)
    with run_of("replay"), pytest.raises(SourceUnavailable):
        called(returning("up"), context)
    with run_of():
        assert called(returning("up"), context) == "up"


def test_cells_of_python_are_served_and_the_next_one_goes_on_after_them(context, run_of):
    with run_of():
        assert called(python_repl, context, query="x = 20") == "(no output)"
    context.restore([], ())
    with run_of():
        assert called(python_repl, context, query="x = 20") == "(no output)"
        assert context.cells == ["x = 20"]
        assert called(python_repl, context, query="x + 22") == "42"


def test_a_tool_that_reads_the_view_is_not_recorded(context, run_of):
    with run_of("replay"):
        assert len(called(get_kline_data, context, symbol="600519.SH")) == 2


def test_errors_of_http_clients_may_pass_and_keys_stay_out_of_the_message(context):
    class ConnectTimeout(type("TransportError", (Exception,), {})):
        """As httpx has it: not one of the builtin errors."""

    with pytest.raises(
        SourceUnavailable, match=r"own: ConnectTimeout: Bearer \*\*\*|own: ConnectTimeout: \*\*\*"
    ):
        called(raising(ConnectTimeout("Bearer abcdefghijklmnopqrstuvwxyz")), context)


def test_a_cell_that_comes_too_late_is_not_kept(context):
    end, late = threading.Event(), threading.Event()

    @tool
    def own(runtime: ToolRuntime[Any, Any]) -> str:
        """Add a cell after the time is over."""
        end.wait()
        runtime.context.cells.append("late = 1")
        late.set()
        return "done"

    with pytest.raises(ToolTimeout):
        called(own, context, timeout=0.05)
    end.set()
    assert late.wait(5)
    assert context.cells == []
