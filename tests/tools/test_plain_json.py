"""JSON that is not longer than it may be says what was left out."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from quantgraph.tools._results import shortened


def size(value):
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_a_list_keeps_its_last_entries():
    bars = [{"time": n, "open": 50000, "close": 50500} for n in range(1_000, 2_000)]
    short = shortened(bars, 12_000)
    assert size(short) <= 12_000
    kept = short[1:]
    assert kept == bars[-len(kept) :]
    assert short[0] == f"({1_000 - len(kept)} earlier entries left out)"
    assert size(kept) > 12_000 - 200


def test_an_object_keeps_its_short_values():
    short = shortened({"symbol": "600000.SH", "closes": list(range(9_000)), "note": "x" * 9_000}, 2_000)
    assert list(short) == ["symbol", "closes", "note"]
    assert short["symbol"] == "600000.SH"
    assert short["closes"][-1] == 8_999
    assert short["note"].endswith("characters left out)")
    assert 1_500 < size(short) <= 2_000


def test_what_is_short_stays_as_it_is():
    value = {"a": [1.5, None, "均线"], "b": {"c": True}}
    assert shortened(value, 1_000) is value


def test_nesting_has_an_end():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    assert shortened(deep, 1_000) == "(left out: it is nested too deeply)"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=80), inner, max_size=12),
    max_leaves=60,
)


@given(VALUES, st.integers(50, 1_000))
@settings(max_examples=60, deadline=None)
def test_whatever_is_shortened_fits(value, limit):
    assert size(shortened(value, limit)) <= limit
