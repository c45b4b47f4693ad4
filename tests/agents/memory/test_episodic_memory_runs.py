"""A memory that runs share: a replay reads what its run read, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from sqlite_store import sqlite_store

from quantgraph.agents.memory import DecisionEpisode, EpisodeMemo, EpisodicMemory, episodes_of
from quantgraph.broker import Decider, Decision, Order
from quantgraph.recording.scope import current_scope
from quantgraph.runs import replay, run_strategy

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"
SYMBOL = "000341.SZ"


class Recalling(Decider):
    """Buys a lot for each line that it recalls; keeps what it was shown."""

    name = "recalling"
    uses_signal = False

    def __init__(self, store: BaseStore) -> None:
        self.memory, self.memo, self.shown = EpisodicMemory(store), EpisodeMemo(), {}

    def decide(self, context: Any) -> Decision:
        scope = current_scope()
        assert scope is not None
        run_id = scope.recording.run_id
        self.memory.add_all(
            episodes_of(context.history, context.view, name=self.name, run_id=run_id, memo=self.memo)
        )
        text = self.memory.at(context.session).get_for_prompt(SYMBOL)
        lots = 1 + len(text.splitlines())
        self.shown[f"{context.session:%Y-%m-%d}"] = text
        bought = {"action": "increase", "target_cash_amount": 100.0 * lots, "confidence": 0.8}
        order = Order(symbol=SYMBOL, side="buy", quantity=100 * lots, sequence=1)
        return Decision([order], notes={"decisions": {SYMBOL: bought}})


def of_another_run(day: str) -> DecisionEpisode:
    return DecisionEpisode(
        symbol=SYMBOL, action="close", confidence=0.4, date=day, strategy="recalling", run_id="another"
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SqliteStore, Recalling]]:
    with sqlite_store(tmp_path_factory.mktemp("shared") / "decisions.sqlite") as store:
        yield of_a_run(store, tmp_path_factory.mktemp("runs"))


def of_a_run(store: SqliteStore, out: Path) -> tuple[str, SqliteStore, Recalling]:
    EpisodicMemory(store).add_all([of_another_run("2025-01-03"), of_another_run("2025-02-03")])
    decider = Recalling(store)
    told = run_strategy(SENTENCE, decider=decider, out=out, source="sample")
    assert told["ended_because"] == "done", told["error"]
    return told["run_dir"], store, decider


def test_a_run_is_shown_what_was_decided_before_its_day_by_whatever_run(run: Any) -> None:
    _, store, decider = run
    assert decider.shown["2025-01-02"] == ""
    first, *later = decider.shown["2025-01-06"].splitlines()
    assert first.startswith("2025-01-02: increase to ¥100 (confidence: 0.8)")
    assert "2025-01-03: close to ¥0 (confidence: 0.4)" in later
    assert "%" not in decider.shown["2025-01-06"]
    assert "%" in decider.shown["2025-01-07"]  # three sessions after the 2nd
    assert not any("2025-02" in text for text in decider.shown.values())
    assert len(EpisodicMemory(store).query(limit=None)) > 8


def test_a_replay_is_identical_although_other_runs_have_added_since(run: Any) -> None:
    folder, store, decider = run
    shared = EpisodicMemory(store)
    shared.add(of_another_run("2025-01-02"))
    stored = shared.query(limit=None)
    again = Recalling(store)
    assert replay(folder, decider=again).differences == ()
    assert again.shown == decider.shown
    assert shared.query(limit=None) == stored
    empty = InMemoryStore()
    assert replay(folder, decider=Recalling(empty)).differences == ()
    assert EpisodicMemory(empty).query() == []
