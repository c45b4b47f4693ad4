"""Nodes that are broken on purpose: a prompt, an answer or a question that knows too much is found."""

from __future__ import annotations

import logging

import pytest
from canary_watch import CanaryFound, differences

from quantgraph.subgraphs.signal import _agents as agents
from quantgraph.subgraphs.signal import graph
from quantgraph.subgraphs.signal.nodes import clarify, reflection, validation

PLACE = 300


@pytest.fixture
def resources(resources_at, market):
    return resources_at(market.Moment(market.SESSIONS[PLACE]))


@pytest.fixture
def thinking(resources, market):
    """A run at a moment of 2024."""
    return lambda: market.think(resources, resources.store.as_of, market.request(market.SESSIONS[PLACE - 4]))


def test_a_prompt_that_tells_the_sources_last_session_is_found(resources, thinking, monkeypatch):
    facts = reflection._facts

    def told(reading, text):
        return facts(reading, text) | {"last_session": f"{resources.source.sessions()[-1]:%Y%m%d}"}

    monkeypatch.setattr(reflection, "_facts", told)
    with pytest.raises(CanaryFound, match=r"prompt .*last_session.*21770709"):
        thinking()


def test_a_default_that_is_counted_from_the_sources_last_session_is_found(resources, thinking, monkeypatch):
    counted = clarify.default_answer

    def told(kind, language, source, **more):
        return counted(kind, language, resources.source, **more)

    monkeypatch.setattr(clarify, "default_answer", told)
    with pytest.raises(CanaryFound, match=r"question .*21770709"):
        thinking()


def test_a_log_line_that_tells_a_later_price_is_found(thinking, monkeypatch):
    listed = agents.known_source

    def known_source(state, resources):
        snapshot = resources.store.snapshot(state.get("data_ref"))
        if "close" in snapshot["ohlcv"]:
            logging.getLogger("quantgraph.test").debug(
                "last close %s", snapshot["ohlcv"]["close"].iloc[-1, 0]
            )
        return listed(state, resources)

    for node in (reflection, clarify, validation):
        monkeypatch.setattr(node, "known_source", known_source)
    with pytest.raises(CanaryFound, match=r"log of quantgraph\.test"):
        thinking()


def test_a_state_that_tells_which_way_later_closes_went_is_another_in_another_planting(
    resources_at, market, monkeypatch
):
    validate = graph.validation_node

    def told(state, *, resources, agent):
        update = validate(state, resources=resources, agent=agent)
        if "strategy" in update.get("quantgraph", {}):
            close = resources.store.snapshot(state.get("data_ref"))["ohlcv"]["close"]
            rose = (close.pct_change().iloc[-2:] > 0).to_numpy().tolist()
            update["quantgraph"]["strategy"] |= {"rose": rose}
        return update

    monkeypatch.setattr(graph, "validation_node", told)
    moment = market.Moment(market.SESSIONS[PLACE])
    text = market.request(market.SESSIONS[PLACE - 4])
    one, other = (market.think(resources_at(moment, seed=seed), moment, text) for seed in (0, 1))
    found = differences(one, other)
    assert [line.split(": ")[0] for line in found] == [
        "only the first said state",
        "only the second said state",
    ]
