"""Where the routes lead, as plain functions of a state."""

from __future__ import annotations

import copy
import itertools

import pytest
from states import grouped

from quantgraph.subgraphs.signal import (
    route_after_clarify,
    route_after_data_fetch,
    route_after_signal_gen,
    route_after_validation,
    route_from_reflection,
)

ROUTES = (
    route_from_reflection,
    route_after_data_fetch,
    route_after_signal_gen,
    route_after_validation,
    route_after_clarify,
)
NEEDS_PE = {"required_indicators": ["pe"]}


def state(**fields):
    return {"error_messages": [], "retry_count": 0, "max_retries": 3, "user_intent": {}} | fields


def wants(kind, **params):
    return {"type": kind, "params": params, "needs_clarification": False}


CODED = {"user_intent": wants("mixed"), "data_ready": True}
"""A request whose data are there, so that its code may be at fault."""


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({}, "__end__"),
        ({"ended_because": "done", "user_intent": wants("mixed")}, "__end__"),
        ({"ended_because": "max_retries", "clarification_needed": "which?"}, "__end__"),
        ({"clarification_needed": "which?", "user_intent": wants("mixed")}, "clarify"),
        (
            {"clarification_needed": "which?", "user_intent": wants("data_fetch"), "data_ready": True},
            "clarify",
        ),
        ({"user_intent": wants("unclear")}, "clarify"),
        ({"user_intent": wants("data_fetch")}, "data_fetch"),
        ({"user_intent": wants("signal_gen")}, "data_fetch"),
        ({"user_intent": wants("mixed")}, "data_fetch"),
        ({"user_intent": wants("mixed", **NEEDS_PE), "data_ready": True}, "data_fetch"),
        ({"user_intent": wants("data_fetch", **NEEDS_PE), "data_ready": True}, "data_fetch"),
        ({"user_intent": wants("data_fetch"), "data_ready": True}, "validate"),
        (
            {"user_intent": wants("data_fetch", **NEEDS_PE), "data_ready": True, "indicators_ready": True},
            "validate",
        ),
        ({"user_intent": wants("signal_gen"), "data_ready": True}, "signal_generate"),
        ({"user_intent": wants("mixed"), "data_ready": True}, "signal_generate"),
        (
            {"user_intent": wants("mixed", **NEEDS_PE), "data_ready": True, "indicators_ready": True},
            "signal_generate",
        ),
        ({"user_intent": wants("signal_gen"), "data_ready": True, "signal_ready": True}, "validate"),
        ({"user_intent": wants("mixed"), "data_ready": True, "signal_ready": True}, "validate"),
        ({"user_intent": wants("mixed"), "signal_ready": True}, "data_fetch"),
    ],
)
def test_reflection_leads_to_the_first_thing_that_is_not_there(given, target):
    assert route_from_reflection(grouped(state(**given))) == target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"data_ready": True}, "validate"),
        ({"error_messages": ["no_data: x"], "retry_count": 1}, "reflection"),
        ({"error_messages": ["source_unavailable: x"], "retry_count": 1}, "data_fetch"),
        ({"error_messages": ["source_unavailable: x"], "retry_count": 3}, "clarify"),
        ({"error_messages": ["no_data: x"], "retry_count": 3}, "clarify"),
        ({"error_messages": ["no_data: x"], "retry_count": 1, "clarification_needed": "which?"}, "clarify"),
        ({"error_messages": ["model_unavailable: x"], "ended_because": "model_unavailable"}, "__end__"),
    ],
)
def test_a_fetch_leads_to_validation_or_back_or_to_the_user(given, target):
    assert route_after_data_fetch(grouped(state(**given))) == target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"signal_ready": True}, "validate"),
        ({"clarification_needed": "open or close?", "user_intent": wants("mixed")}, "clarify"),
        ({**CODED, "error_messages": ["code_failed: x"], "retry_count": 1}, "signal_generate"),
        ({**CODED, "error_messages": ["bad_window: x"], "retry_count": 1}, "reflection"),
        ({**CODED, "error_messages": ["code_failed: x"], "retry_count": 3}, "clarify"),
        (
            {"error_messages": ["code_failed: x"], "retry_count": 3, "clarification_needed": "which?"},
            "clarify",
        ),
        ({"error_messages": ["model_unavailable: x"], "ended_because": "model_unavailable"}, "__end__"),
    ],
)
def test_a_generation_leads_to_validation_or_back(given, target):
    assert route_after_signal_gen(grouped(state(**given))) == target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"ended_because": "done", "user_intent": wants("mixed")}, "__end__"),
        ({"error_messages": ["bad_price: x"], "retry_count": 1}, "reflection"),
        ({**CODED, "error_messages": ["not_causal: x"], "retry_count": 1}, "signal_generate"),
        ({**CODED, "error_messages": ["warm_up: x"], "retry_count": 1}, "reflection"),
        ({**CODED, "data_ready": False, "error_messages": ["bad_price: x"]}, "reflection"),
        ({**CODED, "user_intent": wants("mixed", **NEEDS_PE), "error_messages": ["x: y"]}, "reflection"),
        ({"error_messages": ["bad_price: x"], "retry_count": 3}, "clarify"),
        ({"error_messages": ["bad_price: x"], "retry_count": 1, "clarification_needed": "which?"}, "clarify"),
        ({"user_intent": wants("data_fetch"), "data_ready": True}, "__end__"),
        ({"user_intent": wants("data_fetch"), "data_ready": False}, "reflection"),
        ({"user_intent": wants("signal_gen"), "data_ready": True}, "reflection"),
        ({"user_intent": wants("mixed"), "data_ready": True}, "reflection"),
        ({"user_intent": wants("signal_gen"), "data_ready": True, "signal_ready": True}, "__end__"),
        ({"user_intent": wants("mixed"), "data_ready": True, "signal_ready": True}, "__end__"),
        ({}, "__end__"),
    ],
)
def test_validation_leads_on_until_all_that_was_wanted_is_there(given, target):
    assert route_after_validation(grouped(state(**given))) == target


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"ended_because": "needs_answer"}, "__end__"),
        ({"clarification": {"question": "which?"}}, "clarify"),
        ({"clarification": {"question": ""}}, "reflection"),
        ({"clarification": None}, "reflection"),
        ({}, "reflection"),
    ],
)
def test_clarify_asks_what_it_has_written_down(given, target):
    assert route_after_clarify(grouped(state(**given))) == target


def test_every_route_leaves_every_state_as_it_was():
    grid = {
        "ended_because": [None, "done"],
        "clarification_needed": [None, "which?"],
        "clarification": [None, {"question": "which?"}],
        "error_messages": [[], ["no_data: x"]],
        "retry_count": [0, 3],
        "data_ready": [False, True],
        "signal_ready": [False, True],
        "user_intent": [wants("mixed", **NEEDS_PE), wants("data_fetch"), wants("unclear"), {}],
    }
    for values in itertools.product(*grid.values()):
        given = state(**copy.deepcopy(dict(zip(grid, values, strict=True))))
        before = copy.deepcopy(given)
        for route in ROUTES:
            route(given)
            assert given == before, f"{route.__name__} changed its state"
