"""A reply is data that generated code may have written itself: checked in every part, never trusted."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from quantgraph.errors import CodeFailed, CodeTimeout
from quantgraph.sandbox import ForkRunner
from quantgraph.sandbox import _result as result
from quantgraph.sandbox._runner import FreshRunner
from quantgraph.state.frames import _frames as frame_module

pytestmark = pytest.mark.proof

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
AXIS = {"sessions": [1704153600000000], "symbols": ["600000.SH"]}
ENTRY = {"panel": "signal", "name": "s", "axis": 0}
PLAIN = {"stdout": "", "value": "", "error": None, "frames": [], "axes": []}
FAULT = {"code": "code_failed", "type": "E", "message": "m", "line": 1, "text": "t"}
FAR = 86_400_000_000 * 365 * 18_100
def signal(days=(1704153600000000,), names=("600000.SH",), values=(1.0,), count=1, **more):
    entries = [{**ENTRY, "name": f"s{number}", **more} for number in range(count)]
    axis = {"sessions": list(days), "symbols": list(names)}
    body = struct.pack(f"<{len(values)}d", *values) * count
    return answer({**PLAIN, "axes": [axis], "frames": entries}, body)
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
    "a session twice, far away": "everywhere(signal([FAR, FAR], values=(1.0, 1.0)))",
    "no order, far away": "everywhere(signal([FAR + 86_400_000_000, FAR], values=(1.0, 1.0)))",
    "a session far away": "everywhere(signal([FAR]))",
    "a session long ago": "everywhere(signal([-FAR]))",
    "an axis counted from the end": "everywhere(signal(axis=-1))",
    "a symbol twice": "everywhere(signal(names='aa', values=(1.0, 1.0), count=2))",
    "a line of 4000 digits": "everywhere(answer({**PLAIN, 'error': {**FAULT, 'line': int('9' * 4000)}}))",
    "a line before the first": "everywhere(answer({**PLAIN, 'error': {**FAULT, 'line': -1}}))",
    "a death of no signal": (
        "everywhere(answer({**PLAIN, 'error': {'code': 'died', 'status': -2**70, 'late': False}}))"
    ),
    "a death of no status": (
        "everywhere(answer({**PLAIN, 'error': {'code': 'died', 'status': 10**3000, 'late': False}}))"
    ),
    "a header of 3 MB": "everywhere(answer(b' ' * 3_000_000 + json.dumps(PLAIN).encode()))",
    "a patched check": """
import quantgraph.state.frames._frames, quantgraph.state._data_state
def lax(panel, name, frame, strict=quantgraph.state.frames._frames.freeze):
    return strict('ohlcv', name, frame)
quantgraph.state.frames._frames.freeze = quantgraph.state._data_state.freeze = lax
GLOBAL_DATA_STATE.update('signal', {'s': snapshot['ohlcv']['close'] * 0 + 0.5})
""",
}


def test_a_forged_reply_is_an_error_and_the_next_call_works(forker, frames, subtests):
    for case, forgery in FORGERIES.items():
        with subtests.test(case=case):
            result = forker.run([FORGE, forgery], frames)
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
    assert "died without a reply" in result.error.message


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


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("signal(count=33)", "33 signals; at most 32 are allowed"),
        (
            "signal(range(20_000), range(10_001), ())",
            "a signal of 20000 sessions and 10001 symbols; at most 30000",
        ),
        (
            "signal(range(10_000), range(5_001), ())",
            "10000 sessions and 5001 symbols; at most 30000 of both, and 500",
        ),
    ],
)
def test_more_than_a_reply_may_hold_is_said(forker, frames, code, words):
    result = forker.run([FORGE, f"everywhere({code})"], frames)
    assert type(result.error) is CodeFailed
    assert words in result.error.message


def test_names_that_many_signals_share_are_checked_once(forker, frames, monkeypatch):
    seen = []
    is_plain = frame_module.is_plain
    monkeypatch.setattr(frame_module, "is_plain", lambda name: seen.append(name) or is_plain(name))
    names = ["000001.SZ", "600000.SH", "600519.SH"]
    code = f"everywhere(signal(names={names}, values=(1.0, 0.0, -1.0), count=32))"
    result = forker.run([FORGE, code], frames)
    assert len(result.signals) == 32
    assert result.signals["s31"].iloc[0].to_dict() == dict(zip(names, (1.0, 0.0, -1.0), strict=True))
    assert [name for name in seen if name in names] == names


@pytest.mark.proof
def test_a_reply_that_takes_too_long_to_check_ends_at_the_deadline(frames, monkeypatch):
    runner, freeze = ForkRunner(timeout=0.2), result.freeze
    runner.run(["1"], frames)
    warm = runner._server.process
    monkeypatch.setattr(result, "freeze", lambda *a, **k: time.sleep(0.2) or freeze(*a, **k))
    started = time.perf_counter()
    assert type(runner.run([FORGE, "everywhere(signal(count=32))"], frames).error) is CodeTimeout
    assert time.perf_counter() - started < 4.0
    runner.timeout = 20.0
    assert runner.run(["1"], frames).value == "1"
    assert runner._server.process is warm
    runner.close()


def test_whatever_reading_a_reply_raises_is_a_typed_error(forker, frames, monkeypatch):
    def fail(*arguments, **named):
        raise NotImplementedError("a library's own reason")

    monkeypatch.setattr(result, "freeze", fail)
    error = forker.run([FORGE, "everywhere(signal())"], frames).error
    assert error.message == "the code's process sent an unreadable reply"
    assert error.data["reason"] == "NotImplementedError: a library's own reason"


@pytest.mark.proof
def test_half_a_header_and_then_nothing_is_a_timeout(frames):
    runner = ForkRunner(timeout=0.5)
    half = "import os, time\nfor n in range(3, 64):\n    try: os.write(n, b'\\1' * 7)\n    except OSError: pass\ntime.sleep(30)"
    assert type(runner.run([half], frames).error) is CodeTimeout
    runner.close()


def test_code_that_hands_over_a_session_no_calendar_has_is_told_so(forker, frames):
    code = (
        "far = pd.DatetimeIndex(np.array(['20000-01-03'], 'datetime64[us]'))\n"
        "GLOBAL_DATA_STATE.update('signal', {'s': pd.DataFrame(1.0, index=far, columns=['a'])})"
    )
    result = forker.run([code], frames)
    assert (
        "has 20000-01-03 in its index at row 0; sessions must be dates of the years 1678"
        in result.error.message
    )
