"""What a run may spend, and how it is counted."""

from __future__ import annotations

import itertools
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from quantgraph.errors import BadOption, BudgetExceeded, NotConfigured, QuantGraphError
from quantgraph.recording import Budget, Entry, Key, Recorder
from quantgraph.recording._budget import (
    BudgetTracker,
    Caller,
    CallEstimate,
    CallUsage,
    Reservation,
    max_tokens_of,
)
from quantgraph.recording._entries import error_json
from quantgraph.recording.scope import Scope, in_scope

WHO = Caller("reflection", "m", None)
SMALL = CallEstimate(prompt_tokens=10, completion_tokens=5)


def took(prompt: int | None = 10, completion: int | None = 5, cost: str | None = None) -> CallUsage:
    paid = None if cost is None else Decimal(cost)
    return CallUsage(prompt_tokens=prompt, completion_tokens=completion, cost=paid, at_most=SMALL)


def begin(tracker: BudgetTracker, need: CallEstimate = SMALL, who: Caller = WHO) -> Reservation:
    reservation = tracker.reserve(who, need)
    assert reservation is not None
    return reservation


def limit_of(tracker: BudgetTracker, need: CallEstimate = SMALL, who: Caller = WHO) -> str:
    with pytest.raises(BudgetExceeded) as refused:
        tracker.reserve(who, need)
    return str(refused.value.data["limit"])


def is_over(tracker: BudgetTracker, ahead: float) -> bool:
    try:
        tracker.check_seconds(None, ahead)
    except BudgetExceeded as over:
        return over.data == {"limit": "seconds", "of": "run"}
    return False


def test_limits_are_read_from_a_text() -> None:
    budget = Budget.parse(" calls=100, money=2.50,seconds=1.5,prompt_tokens=7 ")
    assert budget == Budget(calls=100, money=Decimal("2.50"), seconds=1.5, prompt_tokens=7)
    assert Budget.parse(None) == Budget()


@pytest.mark.parametrize(
    "text", ["calls", "calls=1.5", "calls=-1", "calls=1,calls=2", "dollars=1", "calls=1;money=2", "money=nan"]
)
def test_what_is_no_limit_is_refused_with_what_is_valid(text: str) -> None:
    with pytest.raises(BadOption, match=r"valid are calls, prompt_tokens, .*seconds"):
        Budget.parse(text)


def test_the_call_after_the_last_is_refused_while_others_are_under_way() -> None:
    tracker = BudgetTracker(Budget(calls=2))
    first = begin(tracker)
    begin(tracker)
    assert limit_of(tracker) == "calls"
    tracker.settle(first, took())
    assert limit_of(tracker) == "calls"


def test_tokens_are_held_until_it_is_known_what_was_taken() -> None:
    tracker = BudgetTracker(Budget(prompt_tokens=25))
    first, second = begin(tracker), begin(tracker)
    assert tracker.reserve(WHO, SMALL) is None  # 5 are left, unless the first took less than was held
    tracker.settle(first, took(prompt=2))
    third = begin(tracker)
    tracker.settle(second, took())
    tracker.settle(third, took())
    assert limit_of(tracker) == "prompt_tokens"  # 22 used, 10 more do not fit


def test_a_reply_of_unknown_length_holds_all_that_is_left() -> None:
    tracker = BudgetTracker(Budget(completion_tokens=100))
    endless = CallEstimate(prompt_tokens=10)
    first = begin(tracker, endless)
    assert tracker.reserve(WHO, endless) is None
    tracker.settle(first, took(completion=99))
    second = begin(tracker, endless)
    tracker.settle(second, took(completion=1))
    assert limit_of(tracker, endless) == "completion_tokens"


def test_money_is_exact_and_a_model_without_a_price_is_an_error() -> None:
    tracker = BudgetTracker(Budget(money=Decimal("0.3")))
    need = CallEstimate(
        prompt_tokens=1, completion_tokens=1, money=Decimal("0.1"), least_money=Decimal("0.05")
    )
    for _ in range(3):
        tracker.settle(begin(tracker, need), took(cost="0.1"))
    assert limit_of(tracker, need) == "money"
    with pytest.raises(NotConfigured, match="price of model m is unknown; add it to the file of prices"):
        tracker.reserve(WHO, SMALL)


def test_a_session_has_a_budget_of_its_own() -> None:
    tracker = BudgetTracker(Budget(calls=3), Budget(calls=1))
    monday, tuesday = WHO._replace(session="20240102"), WHO._replace(session="20240103")
    begin(tracker, who=monday)
    assert limit_of(tracker, who=monday) == "calls"
    begin(tracker, who=tuesday)
    begin(tracker)
    assert limit_of(tracker, who=WHO._replace(session="20240104")) == "calls"


def test_seconds_pass_while_a_node_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("quantgraph.recording._budget.time.monotonic", lambda: clock[0])
    tracker = BudgetTracker(Budget(seconds=10))
    with tracker.working(), tracker.working():
        clock[0] += 6
    clock[0] += 1000  # somebody thinks about a question
    assert (is_over(tracker, 3.99), is_over(tracker, 4)) == (False, True)
    with tracker.working():
        begin(tracker)
        clock[0] += 4
        assert limit_of(tracker) == "seconds"


def test_usage_counts_by_role_model_and_session_and_does_not_guess() -> None:
    tracker = BudgetTracker()
    for who, spent in (
        (WHO, took(cost="0.10")),
        (WHO, took(cost="0.05")),
        (WHO._replace(session="20240102"), took(prompt=None)),
    ):
        tracker.settle(begin(tracker, who=who), spent)
    assert tracker.usage() == [
        {
            "role": "reflection",
            "model": "m",
            "session": None,
            "calls": 2,
            "prompt_tokens": 20,
            "completion_tokens": 10,
            "cost": "0.15",
        },
        {
            "role": "reflection",
            "model": "m",
            "session": "20240102",
            "calls": 1,
            "prompt_tokens": None,
            "completion_tokens": 5,
            "cost": "unknown",
        },
    ]


def test_a_run_that_is_opened_again_goes_on_counting(tmp_path: Path) -> None:
    numbers = itertools.count(1)

    def entry(**given: Any) -> Entry:
        facts = {"role": "reflection", "model": "m", **given.pop("facts", {})}
        return Entry(key=Key("a", next(numbers), "model", "0"), request=f'"{"x" * 48}"', facts=facts, **given)

    refusal = error_json(BudgetExceeded("no", limit="calls"))
    recording = Recorder(tmp_path / "run.sqlite").of("r")
    known = {"prompt_tokens": 10, "completion_tokens": 5, "cost": "0.5", "seconds": 0.5}
    broke = error_json(QuantGraphError("broke"))
    recording.add(entry(reply="{}", facts=known, at="2025-01-02T09:30:00.500+00:00"))
    # Tokens unknown: 50 bytes at most. It was under way before the other one, and after it.
    recording.add(entry(final=False, error=broke, facts={"seconds": 1.5}, at="2025-01-02T09:30:01+00:00"))
    recording.add(entry(error=refusal))
    recording.add(entry(reply="{}", facts={"cached": True, "seconds": 0.0}))
    again = Recorder(tmp_path / "run.sqlite", budget=Budget(prompt_tokens=69, calls=3)).of("r")
    (row,) = again.usage()
    assert (row["calls"], row["prompt_tokens"], row["cost"]) == (2, None, "unknown")
    assert limit_of(again.budget_tracker) == "prompt_tokens"  # 10 + 50 + 10 is one more than 69
    begin(again.budget_tracker, CallEstimate(prompt_tokens=9))
    assert limit_of(again.budget_tracker, CallEstimate(prompt_tokens=0)) == "calls"
    timed = Recorder(tmp_path / "run.sqlite", budget=Budget(seconds=5)).of("r")
    assert (is_over(timed.budget_tracker, 3.49), is_over(timed.budget_tracker, 3.5)) == (False, True)


def test_many_threads_take_no_more_than_there_is() -> None:
    tracker, sent = BudgetTracker(Budget(calls=50, prompt_tokens=405)), []

    def work() -> None:
        for _ in range(20):
            try:
                while (reservation := tracker.reserve(WHO, SMALL)) is None:
                    pass
            except BudgetExceeded:
                return
            sent.append(1)
            tracker.settle(reservation, took())

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == 40  # 405 tokens, ten a call


def test_limits_of_the_settings_hold_where_a_recorder_has_none(tmp_path: Path) -> None:
    mine = Recorder(tmp_path / "run.sqlite", budget=Budget(calls=2))
    mine.limit(Budget(calls=1), Budget(calls=1))
    tracker = mine.of("r").budget_tracker
    begin(tracker)
    begin(tracker)
    assert limit_of(tracker) == "calls"


def test_text_is_no_more_tokens_than_bytes() -> None:
    assert max_tokens_of("均线 ma") == 9


def test_a_scope_is_a_nodes_work(tmp_path: Path) -> None:
    recording = Recorder(budget=Budget(seconds=1000)).of("r")
    assert not is_over(recording.budget_tracker, 999.98)
    with in_scope(Scope(recording=recording, path="a")):
        threading.Event().wait(0.02)
    assert is_over(recording.budget_tracker, 999.98)
