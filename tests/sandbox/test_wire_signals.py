"""Signals on the wire: a byte a cell; what is no opinion is not made one."""

from __future__ import annotations

import io

import numpy as np
import pytest

from quantgraph.sandbox.wire._wire import decode_frames, encode_signals, exact_reader
from quantgraph.state.frames import FrozenFrame

SESSIONS = np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[us]")
SYMBOLS = ("600000.SH", "600519.SH", "000001.SZ")


def there_and_back(values, change=lambda data: data):
    frame = FrozenFrame(SESSIONS, SYMBOLS, np.array(values))
    data = change(b"".join(bytes(part) for part in encode_signals({}, {"signal": {"s": frame}})))
    _, frames = decode_frames(exact_reader(io.BytesIO(data)), limit=1 << 20)
    return len(data), frames["signal"]["s"].values


def test_opinions_take_a_byte_and_come_back_exactly():
    signal = [[1.0, 0.0, -1.0], [np.nan, 1.0, 0.0]]
    size, values = there_and_back(signal)
    assert np.array_equal(values, signal, equal_nan=True)
    assert not values.flags.writeable
    longer, _ = there_and_back([[1.0, 0.0, -1.0], [np.nan, 1.0, 0.5]])
    assert longer - size == 6 * 7 + len("false") - len("true")


@pytest.mark.parametrize("number", [0.5, 2.0, -2.0, 1e300, np.inf, 255.0, 1 + 1e-15])
def test_a_number_that_is_no_opinion_is_sent_as_it_is_for_the_host_to_refuse(number):
    _, values = there_and_back([[1.0, number, -1.0], [np.nan, 1.0, 0.0]])
    assert values[0, 1] == number


@pytest.mark.parametrize("code", [3, 127, 128, 254])
def test_a_byte_that_stands_for_no_opinion_is_refused(code):
    signal = [[1.0, 0.0, -1.0], [np.nan, 1.0, 0.0]]
    with pytest.raises(ValueError, match=f"{code} is the code of no opinion"):
        there_and_back(signal, lambda data: data[:-1] + bytes([code]))
