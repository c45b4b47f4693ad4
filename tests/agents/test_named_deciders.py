"""A decider is made of its name, or of its file and class."""

from importlib.metadata import EntryPoint, entry_points

import pytest

from quantgraph import create_trading_graph
from quantgraph._util.canonical_json import file_hash
from quantgraph.agents import SignalRule
from quantgraph.agents._registry import as_decider, decider_code, decider_place, make_decider
from quantgraph.agents.trader import TraderAgent
from quantgraph.errors import BadFile, BadOption
from quantgraph.report import BuyAndHold

SOURCE = """
from dataclasses import dataclass
from quantgraph.broker import Decider

@dataclass
class Holds(Decider):
    size: int = 3
    name = "holds"
    def decide(self, context):
        return []

class NotOne:
    pass
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def test_the_packages_deciders_have_names():
    assert isinstance(make_decider("signal_rule"), SignalRule)
    assert isinstance(make_decider("buy_and_hold"), BuyAndHold)
    assert decider_place(make_decider("buy_and_hold")) == "buy_and_hold"
    assert decider_place(SignalRule()) is None
    assert decider_code(SignalRule()) == {}


def test_another_package_brings_a_name_and_takes_none_of_ours(monkeypatch):
    theirs = [
        EntryPoint(name, "json:JSONDecoder", "quantgraph.deciders") for name in ("trader", "signal_rule")
    ] + [EntryPoint("held", "quantgraph.report:BuyAndHold", "quantgraph.deciders")]
    found = entry_points

    def both(**wanted):
        return [*(each for each in theirs if each.matches(**wanted)), *found(**wanted)]

    monkeypatch.setattr("importlib.metadata.entry_points", both)
    assert isinstance(make_decider("trader"), TraderAgent)
    assert isinstance(make_decider("signal_rule"), SignalRule)
    assert isinstance(make_decider("held"), BuyAndHold)


def test_a_class_of_a_file_is_called_without_arguments(file):
    decider = make_decider(f"{file}:Holds")
    assert (decider.name, decider.size) == ("holds", 3)


def test_a_place_is_found_from_elsewhere(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    decider = make_decider("mine.py:Holds")
    assert decider_place(decider) == f"{file}:Holds"
    assert decider_code(decider) == {"file": file_hash(file)}


@pytest.mark.parametrize("place", ["unknown", "mine.py", "mine.txt:Holds", "mine.py:not a name", ""])
def test_what_is_neither_says_what_would_be_valid(place):
    with pytest.raises(
        BadOption,
        match=r"must be one of buy_and_hold, dual_agent, execution, mcp_client, signal_rule, trader, or FILE\.py:CLASS",
    ):
        make_decider(place)


@pytest.mark.parametrize("name", ["NotOne", "Missing", "Decider"])
def test_a_class_that_is_no_decider_is_refused_with_those_that_are(file, name):
    with pytest.raises((BadOption, BadFile), match=r"it has Holds|abstract"):
        make_decider(f"{file}:{name}")


@pytest.mark.parametrize(("text", "said"), [("1 / 0", "ZeroDivisionError"), ("class", "SyntaxError")])
def test_a_file_that_fails_is_a_bad_file(file, text, said):
    file.write_text(text)
    with pytest.raises(BadFile, match=said):
        make_decider(f"{file}:Holds")


def test_a_missing_file_is_named():
    with pytest.raises(BadFile, match=r"there is no file gone\.py"):
        make_decider("gone.py:Holds")


def test_a_decider_may_be_given_by_its_name_wherever_one_is_given():
    assert isinstance(as_decider("buy_and_hold"), BuyAndHold)
    assert as_decider(None) is None
    own = SignalRule()
    assert as_decider(own) is own
    with pytest.raises(BadOption, match=r"must be one of .*, or FILE\.py:CLASS"):
        create_trading_graph(decider="executor")


def test_a_place_has_the_options_of_its_class(file):
    agent = make_decider('execution?{"rounds": 5, "calling": "native"}')
    assert (agent.rounds, agent.calling) == (5, "native")
    assert decider_place(agent) == 'execution?{"rounds": 5, "calling": "native"}'
    held = make_decider(f'{file}:Holds?{{"size": 7}}')
    assert held.size == 7
    assert decider_place(held) == f'{file}:Holds?{{"size": 7}}'


def test_a_place_is_found_from_another_folder(file, monkeypatch):
    (file.parent / "own.txt").write_text("Hold.")
    monkeypatch.chdir(file.parent)
    places = [
        decider_place(make_decider(text))
        for text in ('mine.py:Holds?{"size": 7}', 'trader?{"prompt": "own.txt"}')
    ]
    monkeypatch.chdir("/")
    held, trader = map(make_decider, places)
    assert (held.size, trader.prompt_text) == (7, "Hold.")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ('execution?{"round": 5}', "there is no option round; did you mean 'rounds'"),
        ('execution?{"rounds": 0}', "rounds=0; must be a whole number from 1 to 50"),
        ('dual_agent?{"cfg": {"features": {"new": false}}}', "cfg: features.new"),
        ('dual_agent?{"rounds": 5}', "unexpected keyword argument 'rounds'"),
        ('trader?{"news": 5}', "news=5; must be a source of news, a name, True or False"),
        ('dual_agent?{"memory": "x"}', "memory='x'; must be an EpisodicMemory"),
        ("execution?{rounds: 5}", "behind the [?] must be a JSON object"),
    ],
)
def test_an_option_that_is_not_valid_is_named(place, told):
    with pytest.raises(BadOption, match=told) as caught:
        make_decider(place)
    assert "\n" not in str(caught.value)
