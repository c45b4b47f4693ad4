"""A watch finds sentinels in all output of a run."""

from __future__ import annotations

import logging
import threading

import pandas as pd
import pytest
from canary_data import CanaryStore
from canary_watch import CanaryFound, CanaryWatch, differences
from langchain_core.messages import HumanMessage

from quantgraph.errors import NoData
from quantgraph.market import Moment
from quantgraph.testing import ScriptedChatModel

ONE, TWO = "000341.SZ", "000342.SZ"
START, END = pd.Timestamp("2024-06-03"), pd.Timestamp("2024-06-28")
MOMENT = Moment.at("20240613", "open")
HUGE = 7.7e76


def speak(model, text="hello"):
    return model.invoke([HumanMessage(text)])


@pytest.mark.parametrize(
    ("say", "where"),
    [
        (lambda: speak(ScriptedChatModel(["fine"]), f"now {HUGE}"), "prompt "),
        (lambda: speak(ScriptedChatModel([f"it was {HUGE}"])), "reply "),
        (lambda: logging.getLogger("a.b").debug("close %s", HUGE), "log of a.b "),
        (lambda: logging.getLogger("a.b").error("x", exc_info=ValueError(f"last is {HUGE}")), "log of a.b "),
    ],
)
def test_a_sentinel_in_any_output_is_found(say, where):
    with pytest.raises(CanaryFound) as caught, CanaryWatch() as watch:
        say()
    assert where in str(caught.value)
    assert watch.found


def test_the_error_that_ends_the_run_is_searched():
    with pytest.raises(CanaryFound, match=r"the run ended with .*7\.7e\+76") as caught, CanaryWatch():
        raise NoData(f"last is {HUGE}")
    assert isinstance(caught.value.__cause__, NoData)
    with pytest.raises(NoData, match="clean"), CanaryWatch():
        raise NoData("clean")


def test_the_error_of_a_model_is_searched():
    with pytest.raises(CanaryFound, match="error of a model"), CanaryWatch():
        speak(ScriptedChatModel([ValueError(f"no model for {HUGE}")]))


def test_after_the_watch_nothing_is_collected_and_logging_is_restored():
    level, handlers = logging.getLogger().level, list(logging.getLogger().handlers)
    with CanaryWatch() as watch:
        speak(ScriptedChatModel(["in"]))
    speak(ScriptedChatModel([f"{HUGE}"]))
    logging.getLogger("a.b").error("%s", HUGE)
    assert watch.transcript == ("prompt: human: hello", "reply: ai: in")
    assert (logging.getLogger().level, logging.getLogger().handlers) == (level, handlers)


def test_a_stores_leaks_fail_the_run():
    store = CanaryStore(MOMENT)
    with pytest.raises(CanaryFound, match=r"committed ohlcv: \['close'\]"), CanaryWatch(store):
        store.update("ohlcv", {"close": pd.DataFrame({ONE: [HUGE]}, index=pd.DatetimeIndex([START]))})


def _speak_from_threads(count):
    with CanaryWatch() as watch:
        threads = [threading.Thread(target=watch.see, args=(f"thread {n}", HUGE)) for n in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_output_of_threads_is_collected_and_a_long_list_is_cut():
    with pytest.raises(CanaryFound) as caught:
        _speak_from_threads(30)
    assert str(caught.value).endswith("and 10 more")


def test_two_runs_are_compared_in_any_order():
    runs = []
    for lines in (("a", "b"), ("b", "a"), ("a", "c")):
        with CanaryWatch() as watch:
            for line in lines:
                watch.see("said", line)
        runs.append(watch)
    assert differences(runs[0], runs[1]) == []
    assert differences(runs[0], runs[2]) == ["only the first said said: b", "only the second said said: c"]
