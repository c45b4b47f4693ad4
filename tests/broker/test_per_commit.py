"""What is read from a commit is read once, and does not keep its data state alive."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from quantgraph.broker.accounts._account import action_book
from quantgraph.broker.accounts._quotes import per_commit
from quantgraph.state import DataState


def test_a_commit_is_read_once_for_each_state_and_question():
    asked = []

    @per_commit
    def read(store, ref, name=""):
        asked.append((ref, name))
        return ref + name

    one, two = DataState(), DataState()
    assert [read(one, "a"), read(one, "a"), read(one, "a", "x"), read(two, "a")] == ["a", "a", "ax", "a"]
    assert asked == [("a", ""), ("a", "x"), ("a", "")]


def test_threads_that_ask_at_once_are_given_the_same_answer():
    @per_commit
    def read(store, ref):
        return object()

    store = DataState()
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: read(store, "a"), range(200)))) == 1


def test_the_data_state_goes_when_nobody_holds_it():
    store = DataState()
    day = pd.DatetimeIndex(["2024-01-02"])
    ref = store.update(
        "ohlcv", {name: pd.DataFrame({"600000.SH": [1.0]}, index=day) for name in ("open", "dividend")}
    )
    assert action_book(store, ref) is action_book(store, ref)
    gone = weakref.ref(store)
    del store
    gc.collect()
    assert gone() is None
