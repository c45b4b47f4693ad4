"""A reply is data that generated code may have written itself: checked in every part, never trusted."""

from __future__ import annotations

import tracemalloc

import pytest

from quantgraph.errors import CodeFailed
from quantgraph.sandbox import FreshRunner

FORGE = """
import json, os, struct
def answer(header, body=b"", lengths=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<QQ", *(lengths or (len(text), len(body)))) + text + body
def everywhere(content):
    for number in range(3, 64):
        try:
            os.write(number, content)
        except OSError:
            pass
    os._exit(0)
AXIS = {"sessions": [1704153600000000], "symbols": ["a"]}
ENTRY = {"panel": "signal", "name": "s", "axis": 0}
PLAIN = {"stdout": "", "value": "", "error": None, "kilobytes": 0, "frames": [], "axes": []}
"""

FORGERIES = {
    "garbage": "everywhere(os.urandom(1000))",
    "text": "everywhere(b'no reply at all, but some text')",
    "huge header": "everywhere(answer(PLAIN, lengths=(1 << 63, 0)))",
    "huge body": "everywhere(answer(PLAIN, lengths=(10, 1 << 62)))",
    "all ones": "everywhere(b'\\xff' * 5000)",
    "no JSON": "everywhere(answer(b'{'))",
    "no UTF-8": "everywhere(answer(b'\\xff\\xfe\\xfa\\x00'))",
    "a list": "everywhere(answer([1, 2]))",
    "null": "everywhere(answer(None))",
    "empty": "everywhere(answer({}))",
    "deep": "everywhere(answer(b'[' * 100_000))",
    "no text": "everywhere(answer({**PLAIN, 'stdout': None}))",
    "no value": "everywhere(answer({k: v for k, v in PLAIN.items() if k != 'value'}))",
    "memory is text": "everywhere(answer({**PLAIN, 'kilobytes': '1'}))",
    "memory is a fraction": "everywhere(answer({**PLAIN, 'kilobytes': 1.5}))",
    "a death without a status": "everywhere(answer({**PLAIN, 'error': {'code': 'died', 'late': False}}))",
    "a death of text": "everywhere(answer({**PLAIN, 'error': {'code': 'died', 'status': 'x', 'late': False}}))",
    "error is text": "everywhere(answer({**PLAIN, 'error': 'x'}))",
    "error is a list": "everywhere(answer({**PLAIN, 'error': [1]}))",
    "error has a line of text": (
        "everywhere(answer({**PLAIN, 'error': {'code': 1, 'type': '', 'text': '', 'message': '', 'line': 'x'}}))"
    ),
    "frames are a number": "everywhere(answer({**PLAIN, 'frames': 5}))",
    "axes are text": "everywhere(answer({**PLAIN, 'axes': 'ab'}))",
    "no such axis": "everywhere(answer({**PLAIN, 'frames': [ENTRY]}))",
    "axis is a flag": "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'axis': False}]}, bytes(8)))",
    "days beyond 64 bits": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [1 << 70]}]}))",
    "days are fractions": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [0.5]}]}))",
    "symbols are lists": "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'symbols': [[]]}]}))",
    "symbol breaks the line": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'symbols': ['a\\nb']}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "name breaks the line": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'name': 'a\\nb'}]}, bytes(8)))"
    ),
    "name is a surrogate": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [{**ENTRY, 'name': '\\ud800'}]}, bytes(8)))"
    ),
    "no midnight": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [1]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "not a time": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [-1 << 63]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "last of times": (
        "everywhere(answer({**PLAIN, 'axes': [{**AXIS, 'sessions': [(1 << 63) - 1]}], 'frames': [ENTRY]}, bytes(8)))"
    ),
    "a signal of 0.5": (
        "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [ENTRY]}, struct.pack('<d', 0.5)))"
    ),
    "frame larger than body": "everywhere(answer({**PLAIN, 'axes': [AXIS], 'frames': [ENTRY, ENTRY]}, bytes(8)))",
    "body larger than frames": "everywhere(answer(PLAIN, bytes(64)))",
    "a patched check": """
import quantgraph._frames, quantgraph.state
def lax(panel, name, frame, strict=quantgraph._frames.freeze):
    return strict('ohlcv', name, frame)
quantgraph._frames.freeze = quantgraph.state.freeze = lax
GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})
""",
}


@pytest.mark.parametrize("case", FORGERIES)
def test_a_forged_reply_is_an_error_and_the_next_call_works(forker, frames, case):
    result = forker.run([FORGE, FORGERIES[case]], frames)
    assert type(result.error) is CodeFailed
    assert result.error.message == "the code's process sent an unreadable reply"
    assert (result.stdout, result.value, result.signals) == ("", "", {})
    assert forker.run(["1 + 1"], frames).value == "2"


@pytest.mark.parametrize("case", ["garbage", "huge body", "deep", "a signal of 0.5", "a patched check"])
def test_a_forged_reply_of_a_fresh_process_is_an_error_too(frames, case):
    result = FreshRunner(timeout=15.0).run([FORGE, FORGERIES[case]], frames)
    assert result.error.message == "the code's process sent an unreadable reply"
    assert result.signals == {}


def test_a_reply_that_ends_early_is_a_death(forker, frames):
    result = forker.run([FORGE, "everywhere(answer(PLAIN, lengths=(5000, 0)))"], frames)
    assert "died without a word" in result.error.message


def test_text_that_is_too_long_or_cannot_be_encoded_is_cut_and_replaced(forker, frames):
    told = "{'code': 'code_failed', 'type': 'E\\n', 'text': '', 'message': 'a\\nb\\ud800', 'line': None}"
    code = (
        "everywhere(answer({**PLAIN, 'stdout': 'x' * 100_000 + '\\ud800', 'value': '\\ud800', 'error': %s}))"
    )
    result = forker.run([FORGE, code % told], frames)
    assert result.error.message == "E: a b?"
    assert (len(result.stdout), result.value) == (20_100, "?")


def test_a_reply_without_end_does_not_fill_the_hosts_memory(frames):
    code = "import os\ntry:\n    while True: os.write(3, b'\\0' * (1 << 20))\nexcept OSError: os._exit(0)"
    tracemalloc.start()
    result = FreshRunner(timeout=15.0).run([code], frames)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.error.message == "the code's process sent an unreadable reply"
    assert peak < 20_000_000
