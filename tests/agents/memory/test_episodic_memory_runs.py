"""A memory that runs share: a replay reads what its run read, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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

    def __init__(self, path: Path) -> None:
        self.memory, self.memo, self.shown = EpisodicMemory(path), EpisodeMemo(), {}

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
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Recalling]:
    path = tmp_path_factory.mktemp("shared") / "decisions.jsonl"
    EpisodicMemory(path).add_all([of_another_run("2025-01-03"), of_another_run("2025-02-03")])
    decider = Recalling(path)
    told = run_strategy(SENTENCE, decider=decider, out=tmp_path_factory.mktemp("runs"), source="sample")
    assert told["ended_because"] == "done", told["error"]
    return told["run_dir"], path, decider


def test_a_run_is_shown_what_was_decided_before_its_day_by_whatever_run(run: Any) -> None:
    _, path, decider = run
    assert decider.shown["2025-01-02"] == ""
    first, *later = decider.shown["2025-01-06"].splitlines()
    assert first.startswith("2025-01-02: increase to ¥100 (confidence: 0.8)")
    assert "2025-01-03: close to ¥0 (confidence: 0.4)" in later
    assert "%" not in decider.shown["2025-01-06"]
    assert "%" in decider.shown["2025-01-07"]  # three sessions after the 2nd
    assert not any("2025-02" in text for text in decider.shown.values())
    assert len(EpisodicMemory(path).query(limit=None)) > 8


def test_a_replay_is_identical_although_other_runs_have_added_since(run: Any) -> None:
    folder, path, decider = run
    EpisodicMemory(path).add(of_another_run("2025-01-02"))
    stored = path.read_bytes()
    again = Recalling(path)
    assert replay(folder, decider=again).differences == ()
    assert again.shown == decider.shown
    assert path.read_bytes() == stored
    path.rename(path.with_name("away"))
    assert replay(folder, decider=Recalling(path)).differences == ()
    assert not path.exists()
    path.with_name("away").rename(path)
