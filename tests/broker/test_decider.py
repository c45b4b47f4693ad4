"""A decider is an instance of the base class, and what it returns is checked and copied."""

import pandas as pd
import pytest

from quantgraph.agents import SignalRule
from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import DataNeeds, Decider, Decision, ModelDecider, Order
from quantgraph.broker.session._simulate import check_decider, validate_decision
from quantgraph.errors import BadOption
from quantgraph.integrations.mcp import McpClient
from quantgraph.report import BuyAndHold

DAY = pd.Timestamp("2024-01-02")
ORDER = Order(symbol="600000.SH", side="buy", quantity=100, sequence=1)


class Plain(Decider):
    name = "plain"

    def decide(self, context):
        return []


def test_a_name_and_one_method_are_enough_and_the_rest_has_a_default():
    plain = Plain()
    assert (plain.options, plain.uses_signal, plain.needs) == ({}, True, DataNeeds())
    assert plain.block_rule(None) is None


def test_the_base_class_has_seven_members():
    members = {name for name in vars(Decider) if not name.startswith("_")}
    assert members == {"name", "options", "uses_signal", "executes", "needs", "decide", "block_rule"}


def test_a_decider_without_models_has_the_defaults_of_one_with_models():
    asking = ModelDecider.of(Plain())
    assert (asking.name, asking.roles, asking.prompts, asking.aliases) == (
        "plain",
        (),
        {},
        ("plain", "plain"),
    )
    agent = TraderAgent()
    assert ModelDecider.of(agent) is agent


@pytest.mark.parametrize("name", ["options", "uses_signal", "needs", "executes"])
def test_attributes_of_the_package_s_deciders_cannot_be_changed(name):
    for decider in (SignalRule(), Decider.__new__(Plain)):
        with pytest.raises(AttributeError):
            setattr(decider, name, "other")


def test_what_is_constant_of_a_decider_is_final():
    constants = {"name", "uses_signal", "reads_rule", "aliases", "needs", "roles", "keyless"}
    for decider in (SignalRule, DualAgent, ExecutionAgent, TraderAgent, McpClient):
        own = {name: vars(decider)[name] for name in constants & vars(decider).keys()}
        final = {name for name, kind in decider.__annotations__.items() if kind.startswith("Final")}
        assert {name for name, value in own.items() if not isinstance(value, property)} == final >= {"name"}


def test_all_deciders_of_the_package_come_through_this_door():
    assert all(issubclass(each, Decider) for each in (SignalRule, BuyAndHold))


def test_a_decider_with_roles_must_be_one_of_models():
    with pytest.raises(
        BadOption, match="'plain' has roles; a decider that asks models must be a ModelDecider"
    ):
        check_decider(type("Asking", (Plain,), {"roles": ("decision",)})())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Plain, r"an instance, Plain\(\.\.\.\), not the class Plain"),
        (object(), "an instance of quantgraph.broker.Decider, which <object object"),
        (None, "which None is not"),
    ],
)
def test_what_is_not_a_decider_is_refused_by_its_parameter(given, said):
    with pytest.raises(BadOption, match=said) as caught:
        check_decider(given)
    assert caught.value.data["parameter"] == "decider"


@pytest.mark.parametrize("sessions", [-1, 1.5, True, "252"])
def test_needed_sessions_are_a_whole_number(sessions):
    with pytest.raises(BadOption, match=r"sessions=.*; must be a whole number >= 0"):
        DataNeeds(sessions=sessions)


def test_a_kind_of_records_that_does_not_exist_is_refused():
    with pytest.raises(BadOption, match=r"records: there is no kind 'tweet'; must be of .*news"):
        DataNeeds(records=("tweet",))


def test_a_list_of_orders_is_a_decision_without_notes():
    assert validate_decision("plain", [ORDER], DAY) == Decision([ORDER])


def test_a_decision_is_copied():
    notes = {"why": ["cheap"]}
    decision = validate_decision("plain", Decision([ORDER], notes=notes, in_order=True), DAY)
    notes["why"].append("later")
    assert decision.notes == {"why": ["cheap"]}
    assert decision.orders[0] == ORDER
    assert decision.orders[0] is not ORDER
    assert decision.in_order


@pytest.mark.parametrize(
    "returned", [None, {}, "hold", [1], Decision([None]), Decision(ORDER), iter([ORDER])]
)
def test_what_is_not_a_decision_names_the_decider_and_the_session(returned):
    with pytest.raises(
        BadOption, match=r"'plain' returned .* on 2024-01-02; must be a Decision or a list of"
    ):
        validate_decision("plain", returned, DAY)


@pytest.mark.parametrize(
    "notes",
    [
        {"price": float("nan")},
        {1: "one"},
        {"pair": (1, 2)},
        {"day": DAY},
        ["a list"],
        {"half": "\ud800"},
        {"long": "x" * 1_000_001},
    ],
)
def test_notes_are_plain_json_of_a_bounded_length(notes):
    with pytest.raises(BadOption, match="notes on 2024-01-02 that are not valid; must be a dict") as caught:
        validate_decision("plain", Decision(notes=notes), DAY)
    assert caught.value.data["parameter"] == "notes"
