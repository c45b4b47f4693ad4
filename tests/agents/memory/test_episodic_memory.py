"""The memory: what is found, what a prompt is told, and that neither the clock nor a later day is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from langgraph.store.memory import InMemoryStore

from quantgraph.agents.memory import DecisionEpisode, EpisodicMemory
from quantgraph.errors import BadOption
from quantgraph.recording import Recorder
from quantgraph.recording._recordings import Mode
from quantgraph.recording.scope import Scope, in_scope


def episode(day: str, symbol: str = "AAPL", **fields: Any) -> DecisionEpisode:
    values = {"symbol": symbol, "action": "increase", "target_amount": 5000.0, "confidence": 0.8}
    return DecisionEpisode(**{**values, "date": day, **fields})


def filled(*episodes: DecisionEpisode, **options: Any) -> EpisodicMemory:
    memory = EpisodicMemory(**options)
    for each in episodes:
        memory.add(each)
    return memory


def days(found: list[DecisionEpisode]) -> list[str]:
    return [each.date for each in found]


def test_a_prompt_is_told_the_decision_and_the_outcome_once_it_is_known() -> None:
    memory = filled(episode("2025-06-10", actual_result=2.3, outcome_known="2025-06-13"))
    assert memory.at("2025-06-12").get_for_prompt("AAPL") == (
        "2025-06-10: increase to $5000 (confidence: 0.8)"
    )
    assert memory.at("2025-06-13").get_for_prompt("AAPL") == (
        "2025-06-10: increase to $5000 (confidence: 0.8) -> +2.3%"
    )


def test_a_symbol_without_episodes_has_no_text() -> None:
    memory = filled(episode("2025-06-10"))
    assert (memory.get_for_prompt("TSLA"), memory.at("2025-06-10").get_for_prompt("AAPL")) == ("", "")
    assert memory.texts(["TSLA", "AAPL"]) == {"AAPL": "2025-06-10: increase to $5000 (confidence: 0.8)"}


def test_the_last_n_are_shown_oldest_first_and_the_rest_is_counted() -> None:
    memory = filled(*(episode(f"2025-06-{day}") for day in range(10, 18)))
    lines = memory.get_for_prompt("AAPL", n=5).splitlines()
    assert [line[:10] for line in lines[:5]] == [f"2025-06-{day}" for day in range(13, 18)]
    assert lines[5:] == ["(3 earlier ones are left out)"]
    assert memory.get_for_prompt("AAPL", n=7).splitlines()[-1] == "(1 earlier one is left out)"
    assert len(memory.get_for_prompt("AAPL", n=8).splitlines()) == 8


def test_a_decision_of_years_ago_is_found_on_its_simulated_day() -> None:
    memory = filled(episode("2015-03-10"), as_of="2015-03-11")
    assert days(memory.query(days=3)) == ["2015-03-10"]


def test_days_count_back_from_the_simulated_day_or_the_newest_episode() -> None:
    memory = filled(*(episode(f"2025-06-{day}") for day in (10, 12, 16)))
    assert days(memory.at("2025-06-17").query(days=5)) == ["2025-06-16", "2025-06-12"]
    assert days(memory.query(days=4)) == ["2025-06-16", "2025-06-12"]
    assert days(memory.query(days=10**9)) == ["2025-06-16", "2025-06-12", "2025-06-10"]
    assert EpisodicMemory().query(days=1) == []


def test_a_later_run_on_the_store_is_not_seen_on_an_earlier_day() -> None:
    store = InMemoryStore()
    filled(episode("2025-03-10", run_id="a"), episode("2025-05-12", run_id="b"), store=store)
    assert days(EpisodicMemory(store, as_of=pd.Timestamp("2025-04-01")).query()) == ["2025-03-10"]
    assert EpisodicMemory(as_of="2025-04-01").query() == []


def test_a_memory_that_is_cut_is_not_widened_again() -> None:
    memory = filled(episode("2025-03-10"), episode("2025-03-12"), as_of="2025-03-11")
    assert days(memory.at("2025-06-01").query()) == ["2025-03-10"]
    assert days(memory.at("2025-03-10").query()) == []


def test_runs_on_one_store_keep_their_episodes_apart() -> None:
    memory = filled(episode("2025-03-10", run_id="a"), episode("2025-03-10", run_id="b"))
    assert len(memory.query()) == 2


def test_query_filters_by_everything_it_is_told() -> None:
    memory = filled(
        episode("2025-06-10", tags=["momentum", "uptrend"], strategy="dual_agent"),
        episode("2025-06-11", tags=["news"], action="close", strategy="other"),
        episode("2025-06-12", symbol="TSLA", tags=["momentum"]),
    )
    assert days(memory.query("AAPL")) == ["2025-06-11", "2025-06-10"]
    assert days(memory.query(strategy="other")) == ["2025-06-11"]
    assert days(memory.query(tags=["momentum", "nothing"])) == ["2025-06-12", "2025-06-10"]
    assert days(memory.query(tags="news")) == ["2025-06-11"]
    assert memory.query(tags=[]) == []
    assert days(memory.query(action="close")) == ["2025-06-11"]
    assert days(memory.query(limit=1)) == ["2025-06-12"]
    assert memory.query(limit=0) == []


def test_ten_are_returned_unless_more_are_asked_for() -> None:
    memory = filled(*(episode(f"2025-06-{day}") for day in range(10, 25)))
    assert (len(memory.query()), len(memory.query(limit=None))) == (10, 15)


@pytest.mark.parametrize("arguments", [{"days": -1}, {"days": 1.5}, {"limit": True}, {"limit": -3}])
def test_a_bad_argument_of_a_query_is_named(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    with pytest.raises(BadOption, match=f"{name}=.*; must be a whole number >= 0, or None"):
        EpisodicMemory().query(**arguments)


def test_other_bad_arguments_are_named() -> None:
    with pytest.raises(BadOption, match="as_of='soon' of an episode; must be a simulated date"):
        EpisodicMemory(as_of="soon")
    with pytest.raises(BadOption, match="n=-1; must be a whole number >= 0"):
        EpisodicMemory().get_for_prompt("AAPL", n=-1)


def in_a_run(where: Path, memory: EpisodicMemory, mode: Mode = "record") -> dict[str, str]:
    recorder = Recorder(where, mode=mode)
    with in_scope(Scope(recording=recorder.of("r"), path="decision")):
        memory.add(episode("2025-06-10", run_id="r"))
        texts = memory.at("2025-06-12").texts(["AAPL"])
        assert [each.line for each in memory.at("2025-06-12").query()] == texts["AAPL"].splitlines()
    recorder.close("r")
    return texts


def test_a_resume_and_a_replay_read_what_the_run_read_and_a_replay_writes_nothing(tmp_path: Path) -> None:
    where, store = tmp_path / "run.sqlite", InMemoryStore()
    first = in_a_run(where, EpisodicMemory(store))
    EpisodicMemory(store).add(episode("2025-06-11", run_id="another"))
    assert in_a_run(where, EpisodicMemory(store)) == first
    empty = EpisodicMemory(InMemoryStore())
    assert in_a_run(where, empty, "replay") == first
    assert empty.query() == []


def test_a_run_is_told_its_own_past_and_that_of_others_apart():
    memory = EpisodicMemory()
    for run_id, day, target in (
        *(("other", f"2025-06-{day:02}", 1000.0) for day in range(10, 18)),
        ("mine", "2025-06-09", 5000.0),
    ):
        memory.add(
            DecisionEpisode(symbol="AAPL", action="increase", target_amount=target, date=day, run_id=run_id)
        )
    (text,) = memory.histories(["AAPL", "TSLA"], "mine").values()
    own, others = text.split("\nDecisions of other runs, which are not of this account:\n")
    # The eight later ones of the other run use none of this run's lines up.
    assert own == "Previous decisions:\n2025-06-09: increase to $5000 (confidence: 0.5)"
    assert others.splitlines()[0].startswith("2025-06-13: increase to $1000")
    assert others.splitlines()[-1] == "(3 earlier ones are left out)"
