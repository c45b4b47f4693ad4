"""Stores of episodes: files that processes share, damaged lines, and LangGraph's stores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from quantgraph.agents.memory import DecisionEpisode, EpisodicMemory
from quantgraph.errors import BadFile, BadOption, StorageUnavailable


def episode(symbol: str = "AAPL", day: int = 10, **fields: Any) -> DecisionEpisode:
    return DecisionEpisode(**{"symbol": symbol, "action": "increase", "date": f"2025-06-{day}", **fields})


@pytest.fixture(params=["here", "file", "graph"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return {"here": None, "file": tmp_path / "deep" / "episodes.jsonl", "graph": InMemoryStore()}[
        request.param
    ]


def test_an_episode_comes_back_as_it_was_and_its_outcome_replaces_it(store: Any) -> None:
    memory = EpisodicMemory(store)
    first = episode(reasons=["a"], tags=["t"], market_context={"fill_price": 1.5})
    assert memory.add(first) == first.id
    assert memory.query() == [first]
    told = episode(actual_result=2.0, outcome_known="2025-06-13")
    assert memory.add(told) == first.id
    memory.add(told)
    assert memory.query() == [told]
    assert memory.at("2025-06-12").query()[0].actual_result is None


def test_newest_first_by_simulated_date_whatever_came_first(store: Any) -> None:
    memory = EpisodicMemory(store)
    for symbol, day in (("B", 11), ("A", 12), ("C", 11), ("A", 11)):
        memory.add(episode(symbol, day))
    assert [(each.date[-2:], each.symbol) for each in memory.query()] == [
        ("12", "A"),
        ("11", "A"),
        ("11", "B"),
        ("11", "C"),
    ]


def test_a_decision_that_was_rejected_is_dropped(store: Any) -> None:
    memory, first = EpisodicMemory(store), episode("A")
    memory.add_all([first, episode("B"), first])
    memory.discard(first.id)
    memory.discard("nothing")
    assert [each.symbol for each in memory.query()] == ["B"]
    assert memory.query("A") == []
    if store is not None:
        assert [each.symbol for each in EpisodicMemory(store).query()] == ["B"]
    memory.add(first)
    assert [each.symbol for each in memory.query()] == ["A", "B"]


def test_a_store_has_more_episodes_than_a_page() -> None:
    graph = InMemoryStore()
    memory = EpisodicMemory(graph, namespace=("mine",))
    memory.add_all(episode(f"S{number}") for number in range(1200))
    graph.put(("mine", "below"), "other", {"not": "ours"})
    assert len(memory.query(limit=None)) == 1200
    assert EpisodicMemory(graph, namespace=("other",)).query() == []


def test_what_is_written_is_read_by_another_memory_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    one, other = EpisodicMemory(path), EpisodicMemory(str(path))
    assert other.query() == []
    assert not path.exists()
    one.add(episode("A"))
    assert [each.symbol for each in other.query()] == ["A"]
    other.add(episode("B"))
    one.add(episode("B"))
    assert [each.symbol for each in one.query()] == ["A", "B"]
    assert len(path.read_text().splitlines()) == 2
    one.add_all([episode("B"), episode("C"), episode("D")])
    assert [each.symbol for each in other.query()] == ["A", "B", "C", "D"]
    assert len(path.read_text().splitlines()) == 4
    assert (one.name, EpisodicMemory().name) == ("episodes.jsonl", "")


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    memory = EpisodicMemory(path)
    memory.add(episode("A"))
    memory.add(episode("B"))
    path.write_text(path.read_text().splitlines(keepends=True)[1])
    assert [each.symbol for each in memory.query()] == ["B"]
    path.unlink()
    assert memory.query() == []


GOOD = json.dumps(episode().to_json())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{broken\n", "Expecting property name"),
        (b"\n", "Expecting value"),
        (GOOD.encode()[:30], "it is cut off"),
        (GOOD.encode(), "it is cut off"),
        (b"\xff\n", "not UTF-8"),
        (b"[" * 100_000 + b"\n", "too deep|recursion"),
        (b"3\n", "must be a JSON object, not int"),
        (GOOD.replace('"increase"', "null").encode() + b"\n", "action=None of an episode"),
        (GOOD.replace("0.5", "NaN").encode() + b"\n", "confidence=nan of an episode"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_lost(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "episodes.jsonl"
    damaged = GOOD.encode() + b"\n" + line
    path.write_bytes(damaged)
    memory = EpisodicMemory(path)
    for use in (memory.query, lambda: memory.get_for_prompt("AAPL"), lambda: memory.add(episode("B"))):
        with pytest.raises(
            BadFile, match=rf"episodes\.jsonl line 2 is not an episode: .*({reason})"
        ) as caught:
            use()
        assert caught.value.data["line"] == 2
        assert "\n" not in caught.value.message
    assert path.read_bytes() == damaged
    path.write_bytes(GOOD.encode() + b"\n")
    assert len(memory.query()) == 1


def test_an_item_that_another_process_changed_is_read_again() -> None:
    graph = InMemoryStore()
    memory, first = EpisodicMemory(graph, namespace=("mine",)), episode()
    memory.add(first)
    assert memory.query()[0].actual_result is None
    graph.put(("mine",), first.id, first.to_json() | {"actual_result": 1.5})
    assert memory.query()[0].actual_result == 1.5


def test_an_item_that_is_not_an_episode_is_named() -> None:
    graph = InMemoryStore()
    graph.put(("mine",), "odd", {"symbol": "A"})
    with pytest.raises(BadFile, match=r"item 'odd' of the store mine is not an episode: .* field 'action'"):
        EpisodicMemory(graph, namespace=("mine",)).query()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"store": "."}, "must be a file"),
        ({"store": ""}, "must be a file"),
        ({"store": 3}, "store must be a path or a LangGraph BaseStore, not int"),
        ({"store": InMemoryStore(), "namespace": "mine"}, "namespace='mine'; must be a tuple of texts"),
        ({"store": InMemoryStore(), "namespace": ()}, "must be a tuple of texts"),
    ],
)
def test_a_store_that_is_none_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        EpisodicMemory(**arguments)


def test_a_folder_that_cannot_be_written_is_typed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageUnavailable, match="cannot be written or read"):
        EpisodicMemory(tmp_path / "file" / "episodes.jsonl").add(episode())


WRITER = """
import sys
from quantgraph.agents.memory import DecisionEpisode, EpisodicMemory
memory = EpisodicMemory(sys.argv[1])
for number in range(15):
    memory.add(DecisionEpisode(
        symbol=f"{sys.argv[2]}{number}", action="close", date="2025-06-10", reasoning="r" * 9000))
"""


@pytest.mark.proof
def test_two_processes_on_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("left", "right")
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    found = {each.symbol for each in EpisodicMemory(path).query(limit=None)}
    assert found == {f"{name}{number}" for name in ("left", "right") for number in range(15)}


def test_threads_share_a_memory(store: Any) -> None:
    memory = EpisodicMemory(store)

    def work(name: str) -> None:
        for number in range(20):
            memory.add(episode(f"{name}{number}"))
            memory.query(symbol=f"{name}{number}")

    threads = [Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory.query(limit=None)) == 60
