"""What is told of an agent that published no signal: the fault that is open, and not one that was mended."""

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from quantgraph.subgraphs.signal._attempts import no_signal_error

NAME_ERROR = "code_failed: line 3 (peak = highest): NameError: name 'highest' is not defined"
CODE = "close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', {'s': close * 0})"
NO_TOOL_CALL = (
    "no_tool_call: the reply has code in its text, where it does not run; call the tool python_repl with it"
)


def ran(text: str = "(no output)") -> ToolMessage:
    return ToolMessage(text, name="python_repl", tool_call_id="1")


def failed(text: str) -> ToolMessage:
    return ToolMessage(text, name="python_repl", tool_call_id="1", status="error")


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ([failed(NAME_ERROR), AIMessage("Sorry.")], NAME_ERROR),
        (
            [failed(NAME_ERROR), ran(), AIMessage("Done.")],
            "no_signal: the code handed over no signal; call GLOBAL_DATA_STATE.update('signal', "
            "{'name': frame}). Reply: Done.",
        ),
        ([ran(), failed(NAME_ERROR), AIMessage("Done.")], NAME_ERROR),
        ([failed("Error: no such tool"), AIMessage("")], "bad_tool_call: Error: no such tool"),
        (
            [AIMessage("It is a fine\nstrategy.")],
            "no_tool_call: no cell was run; call the tool python_repl with the code, ask with a question to the user, or decline with the reason why the data cannot do it. Reply: It is a fine strategy.",
        ),
        (
            [AIMessage("")],
            "no_tool_call: no cell was run; call the tool python_repl with the code, ask with a question to the user, or decline with the reason why the data cannot do it.",
        ),
        (
            [
                ran(),
                AIMessage(
                    "call_limit: 12 model calls were not enough",
                    response_metadata={"quantgraph_stopped": True},
                ),
            ],
            "call_limit: 12 model calls were not enough",
        ),
    ],
)
def test_the_open_fault_is_told(replies, says):
    assert no_signal_error(replies) == says


@pytest.mark.parametrize(
    "prose",
    [
        f"Here it is:\n```python\n{CODE}\n```\nIt buys strength.",
        f"```\n{CODE}\n```",
        f"Here it is:\n{CODE}\nIt buys strength.",
        "```python\nimport talib\n```",
    ],
)
@pytest.mark.parametrize("before", [[], [ran()], [failed(NAME_ERROR)]])
def test_code_in_prose_is_no_call(prose, before):
    assert no_signal_error([*before, AIMessage(prose)]) == NO_TOOL_CALL


@pytest.mark.parametrize(
    "prose",
    [
        "I called GLOBAL_DATA_STATE.update('signal', …) under the name s.",
        "The rule:\n```\nbuy when it rises\n```",
        '```json\n{"buys": 3, "sells": 2}\n```',
        "```\nsignal\n```",
    ],
)
def test_prose_about_code_is_not_code(prose):
    assert no_signal_error([ran(), AIMessage(prose)]).startswith("no_signal: ")
