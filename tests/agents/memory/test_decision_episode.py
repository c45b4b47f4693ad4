"""Episodes: the simulated date, values that are checked, and what is known on a day."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quantgraph.agents.memory import DecisionEpisode
from quantgraph.agents.memory._episodes import decision_line
from quantgraph.errors import BadOption


def episode(**fields: Any) -> DecisionEpisode:
    return DecisionEpisode(**{"symbol": "AAPL", "action": "increase", "date": "2025-06-10", **fields})


def test_the_stored_form_of_a_decision_is_taken_and_its_date_is_that_of_the_features() -> None:
    features = {"market_data": {"ticker": "AAPL", "close_7d": [180.0, 182.0], "date": "2025-06-15"}}
    decision = {
        "action": "increase",
        "target_cash_amount": 7500.0,
        "confidence": 0.75,
        "reasons": ["Strong momentum", "Reasonable valuation"],
    }
    stored = DecisionEpisode(
        symbol="AAPL",
        action=decision["action"],
        target_amount=decision["target_cash_amount"],
        reasoning="; ".join(decision["reasons"]),  # type: ignore[arg-type]
        confidence=decision["confidence"],
        market_context=features.get("market_data", {}),
        signals=features.get("technical_indicators", {}),
        tags=["increase", "momentum"],
    )
    assert stored.date == "2025-06-15"
    assert stored.reasoning == "Strong momentum; Reasonable valuation"
    assert stored.line == "2025-06-15: increase to $7500 (confidence: 0.75)"


def test_without_a_simulated_date_there_is_no_episode() -> None:
    with pytest.raises(BadOption, match="date='' of an episode; must be a simulated date"):
        DecisionEpisode(symbol="AAPL", action="increase")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"target_amount": 5000, "confidence": 0.8}, "2025-06-10: increase to $5000 (confidence: 0.8)"),
        (
            {"target_amount": 5000.4, "confidence": 0.8, "actual_result": 2.345},
            "2025-06-10: increase to $5000 (confidence: 0.8) -> +2.3%",
        ),
        (
            {"action": "close", "confidence": 1, "actual_result": -0.04},
            "2025-06-10: close to $0 (confidence: 1) -> -0.0%",
        ),
    ],
)
def test_the_line_of_a_prompt(fields: dict[str, Any], line: str) -> None:
    assert episode(**fields).line == line


def test_a_hold_is_at_its_value() -> None:
    assert decision_line("2025-06-11", "hold", 5000.0, 0.7) == "2025-06-11: hold at $5000 (confidence: 0.7)"
    told = decision_line("2025-06-11", "hold", 5000.0, 0.7, symbol="600519.SH")
    assert told == "2025-06-11: hold at ¥5000 (confidence: 0.7)"


def test_the_id_is_of_run_strategy_day_and_symbol_so_an_outcome_replaces() -> None:
    first, later = episode(), episode(actual_result=1.0, outcome_known="2025-06-13")
    assert first.id == later.id
    assert first.id.startswith("ep_20250610_")
    others = {
        episode(**more).id
        for more in ({"run_id": "x"}, {"strategy": "x"}, {"symbol": "x"}, {"date": "20250611"})
    }
    assert len(others | {first.id}) == 5
    assert episode(id="mine").id == "mine"


def test_an_episode_and_its_outcome_are_known_from_their_days_on() -> None:
    told = episode(actual_result=2.3, outcome_known="2025-06-13", outcome_note="fell back")
    assert told.as_of("2025-06-10") is None
    early = told.as_of("2025-06-12")
    assert early is not None
    assert (early.actual_result, early.outcome_known, early.outcome_note) == (None, "", "")
    assert early.id == told.id
    assert told.as_of("2025-06-13") == told
    never = episode(actual_result=2.3).as_of("2026-01-01")
    assert never is not None
    assert never.actual_result is None


def test_an_outcome_is_added_to_the_same_episode() -> None:
    told = episode().with_outcome(2.3, "20250613", "after 3 sessions")
    assert told == episode(
        actual_result=2.3, outcome_known="2025-06-13", outcome_note="after 3 sessions", id=episode().id
    )
    with pytest.raises(BadOption, match="actual_result=nan"):
        episode().with_outcome(float("nan"))


def test_json_and_back() -> None:
    told = episode(reasons=["好", "b"], tags=["x"], market_context={"a": [1, None]}, actual_result=1.5)
    body = json.loads(json.dumps(told.to_json()))
    assert DecisionEpisode.from_json(body) == told


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"symbol": ""}, "symbol='' of an episode; must be a text that is not empty"),
        ({"action": None}, "action=None of an episode; must be a word"),
        ({"action": "close\nbuy all"}, "must be a word such as increase, decrease or close"),
        ({"run_id": 3}, "run_id=3 of an episode; must be a text"),
        ({"date": "June"}, "date='June' of an episode; must be a simulated date"),
        ({"target_amount": float("nan")}, "target_amount=nan of an episode; must be a finite number"),
        ({"shares": "7"}, "shares='7' of an episode; must be a finite number"),
        ({"confidence": 7}, "confidence=7 of an episode; must be a number from 0 to 1"),
        ({"actual_result": float("inf")}, "actual_result=inf of an episode; must be a finite number"),
        ({"outcome_known": "soon"}, "outcome_known='soon' of an episode; must be a simulated date"),
        ({"tags": "momentum"}, "tags='momentum' of an episode; must be a list of texts"),
        (
            {"market_context": {"a": float("nan")}},
            "market_context={'a': nan} of an episode; must be a dict of plain",
        ),
        ({"signals": [1]}, r"signals=\[1\] of an episode; must be a dict of plain JSON"),
    ],
)
def test_a_bad_value_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        episode(**fields)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "an episode must be a JSON object, not list"),
        ({"symbol": "A"}, "an episode must have the field 'action'"),
        ({"symbol": "A", "action": "close", "mood": 1}, "an episode has no field 'mood'"),
    ],
)
def test_json_that_is_not_an_episode_is_refused(body: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        DecisionEpisode.from_json(body)
