"""Episodes in LangGraph's stores: in memory, and in a file that memories share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from sqlite_store import sqlite_store

from quantgraph.agents.memory import DecisionEpisode, EpisodicMemory
from quantgraph.errors import BadFile, BadOption, StorageUnavailable


def episode(symbol: str = "AAPL", day: int = 10, **fields: Any) -> DecisionEpisode:
    return DecisionEpisode(**{"symbol": symbol, "action": "increase", "date": f"2025-06-{day}", **fields})


@pytest.fixture(params=["here", "shared", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "file":
        with sqlite_store(tmp_path / "episodes.sqlite") as made:
            yield made
    else:
        yield None if request.param == "here" else InMemoryStore()


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
    path = tmp_path / "episodes.sqlite"
    with sqlite_store(path) as one_store, sqlite_store(path) as other_store:
        one, other = EpisodicMemory(one_store), EpisodicMemory(other_store)
        assert other.query() == []
        one.add(episode("A"))
        assert [each.symbol for each in other.query()] == ["A"]
        other.add(episode("B"))
        one.add_all([episode("B"), episode("C")])
        assert [each.symbol for each in other.query()] == ["A", "B", "C"]
        assert (one.name, EpisodicMemory().name) == ("quantgraph/episodes", "")
    with sqlite_store(path) as later:
        assert len(EpisodicMemory(later).query()) == 3


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
    ("harm", "message"),
    [
        ("lock", "database is locked; another process holds it"),
        ("delete", "attempt to write a readonly database; "),
        ("drop", "no such table: store; open its database anew"),
        ("close", "Cannot operate on a closed database"),
    ],
)
def test_a_store_that_fails_is_one_clear_error(harm: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "episodes.sqlite"
    with (
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as own,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        store = SqliteStore(own)
        store.setup()
        memory = EpisodicMemory(store)
        memory.add(episode("A"))
        if harm == "delete":
            path.unlink()
        elif harm == "close":
            own.close()
        else:
            other.execute("BEGIN EXCLUSIVE" if harm == "lock" else "DROP TABLE store")
        uses = [lambda: memory.add(episode("B")), lambda: memory.discard(episode("A").id), memory.query]
        for use in uses[: 2 if harm == "delete" else 3]:  # a deleted file is read on while it is open
            with pytest.raises(StorageUnavailable) as raised:
                use()
            assert f"the memory quantgraph/episodes cannot be written or read: {message}" in raised.value.line
            assert raised.value.code == "storage_unavailable"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"store": 3}, "store=3; must be a LangGraph BaseStore, such as SqliteStore"),
        ({"store": "episodes.jsonl"}, "must be a LangGraph BaseStore"),
        ({"namespace": ("",)}, "must be a tuple of texts"),
        ({"store": InMemoryStore(), "namespace": "mine"}, "namespace='mine'; must be a tuple of texts"),
        ({"store": InMemoryStore(), "namespace": ()}, "must be a tuple of texts"),
    ],
)
def test_a_store_that_is_none_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        EpisodicMemory(**arguments)


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
