"""Tasks in threads: in order, one at a time in each thread, few ahead, and the first error at its turn."""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from functools import partial

import pytest

from quantgraph.audit.causality._trials import in_threads


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_tasks(threads):
    def slow_if_even(number):
        time.sleep(0.01 * (number % 2 == 0))
        return number

    assert list(in_threads((partial(slow_if_even, number) for number in range(9)), threads)) == list(range(9))


def test_threads_go_on_side_by_side():
    both = threading.Barrier(2, timeout=10)

    def meet():
        both.wait()
        return threading.get_ident()

    threads = list(in_threads([meet] * 6, 2))
    assert len({*threads[::2]}) == len({*threads[1::2]}) == 1
    assert threads[0] != threads[1]


def test_at_most_one_task_more_than_threads_is_begun_ahead():
    begun = []
    results = in_threads((partial(begun.append, number) for number in range(50)), 2)
    next(results)
    time.sleep(0.05)
    assert len(begun) <= 3
    results.close()
    assert len(begun) <= 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("quantgraph-trial")]


def test_an_error_is_raised_at_its_turn():
    results = in_threads([lambda: 1, lambda: 1 / 0, lambda: 3], 2)
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_tasks_see_the_context_of_the_caller():
    variable = ContextVar("variable", default=0)
    variable.set(7)
    assert list(in_threads([variable.get] * 3, 2)) == [7, 7, 7]
