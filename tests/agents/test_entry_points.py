"""What other packages bring by entry points: named before it is imported, known to a run, never in our names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from plugins import install

from quantgraph._util.packages import code_values, find_entry
from quantgraph.agents import decider_code, decider_place, make_decider
from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.cli._doctor import check_parts
from quantgraph.data import open_source
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadFile, BadOption, RunMismatch
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.tools.news import named_news
from quantgraph.tools.trading import named_tool

HOLDS = """
from quantgraph.broker import Decider

class Holds(Decider):
    name = "idle"
    uses_signal = False

    def decide(self, context):
        return []

class Sized(Holds):
    options = {"size": 3}

    def __init__(self, size):
        self.size = size

class NotOne:
    pass
"""
FEEDS = """
from langchain_core.tools import tool
from quantgraph.data.sample import SampleSource

class Feed(SampleSource):
    def __init__(self, place):
        super().__init__()
        self.place = place

def other(place):
    return SampleSource()

class Wire:
    name, live, zone = "wire", False, None

    def search(self, query, moment):
        return []

class Misnamed(Wire):
    name = "another"

@tool
def spread(symbol: str) -> str:
    "Return the symbol."
    return symbol
"""
SENTENCE = "000341.SZ, 20250102 to 20250108"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A path that packages are installed on; their modules are forgotten afterwards."""
    folder, before = tmp_path / "site", {*sys.modules}
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in {*sys.modules} - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_a_package_is_imported_only_when_its_name_is_said(site) -> None:
    install(
        site, "breaks", {"deciders": {"breaks": "breaks_now:X"}}, breaks_now="raise RuntimeError('imported')"
    )
    assert make_decider("buy_and_hold").name == "buy_and_hold"
    with pytest.raises(BadOption, match=r"must be one of breaks, buy_and_hold, .*, or FILE\.py:CLASS"):
        make_decider("unknown")
    (line,) = [part for part in check_parts() if part.name == "deciders"]
    assert (line.ok, line.text.en) == (True, "of other packages: breaks (breaks 0.1.0)")
    assert "breaks_now" not in sys.modules
    with pytest.raises(BadFile, match=r"'breaks' of breaks 0\.1\.0 fails: RuntimeError: imported"):
        make_decider("breaks")


def test_a_name_of_ours_is_not_taken(site) -> None:
    ours = {"trader": "thief:X", "signal_rule": "thief:X"}
    install(
        site,
        "thief",
        {"deciders": ours, "sources": {"sample": "thief:X"}, "news": {"jina": "thief:X"}},
        thief="",
    )
    assert isinstance(make_decider("trader"), TraderAgent)
    assert make_decider("signal_rule").name == "signal_rule"
    assert type(open_source("sample")) is SampleSource
    assert named_news("commit") is None
    assert "thief" not in sys.modules


@pytest.mark.parametrize("group", ["deciders", "sources", "tools", "news"])
def test_two_packages_of_one_name_are_an_error_that_names_both(site, group) -> None:
    for name, version in (("one", "1.0"), ("two", "2.5")):
        install(site, name, {group: {"judge": f"{name}_module:X"}}, version=version)
    make = {"deciders": make_decider, "sources": open_source, "tools": named_tool, "news": named_news}[group]
    with pytest.raises(
        BadOption,
        match=rf"{group}: the name 'judge' is brought by one 1\.0 \(one_module:X\) and two 2\.5 \(two_module:X\)",
    ):
        make("judge")
    (line,) = [part for part in check_parts() if part.name == group]
    assert not line.ok


def test_what_is_no_decider_is_refused_with_its_package(site) -> None:
    install(site, "holds", {"deciders": {"wrong": "holds_module:NotOne"}}, holds_module=HOLDS)
    with pytest.raises(
        BadOption, match=r"holds_module:NotOne of holds 0\.1\.0 must be a subclass of Decider"
    ):
        make_decider("wrong")


def test_the_place_of_a_packages_decider_is_its_entry_point_and_its_code_is_told(site) -> None:
    install(site, "holds", {"deciders": {"holds": "holds_module:Holds"}}, holds_module=HOLDS)
    decider = make_decider("holds")
    assert (decider.name, decider_place(decider)) == ("idle", "holds")
    told = decider_code(decider)
    assert list(told) == ["package", "file.holds_module.py"]
    assert told["package"] == "holds 0.1.0"


def test_a_class_with_arguments_is_given_as_an_object_and_its_code_is_told_too(site) -> None:
    install(site, "holds", {"deciders": {"sized": "holds_module:Sized"}}, holds_module=HOLDS)
    with pytest.raises(BadFile, match=r"'sized' of holds 0\.1\.0 fails: TypeError: .*size"):
        make_decider("sized")
    decider = sys.modules["holds_module"].Sized(3)
    assert decider_place(decider) is None
    assert decider_code(decider)["package"] == "holds 0.1.0"


def test_the_code_of_a_package_folder_is_every_file_but_caches(site) -> None:
    package = site / "many" / "inner"
    package.mkdir(parents=True)
    for path in (site / "many" / "__init__.py", package / "__init__.py", package / "prompt.txt"):
        path.write_text("x = 1")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "a.pyc").write_text("")
    install(site, "many", {"deciders": {"many": "many.inner:X"}})
    told = code_values("quantgraph.deciders", "many.inner.deep")
    assert list(told) == [
        "package",
        *(f"file.many/{path}" for path in ("__init__.py", "inner/__init__.py", "inner/prompt.txt")),
    ]
    assert find_entry("quantgraph.deciders", "absent") is None


def test_a_source_of_a_package_is_opened_by_name_and_part_of_the_identity(site, tmp_path) -> None:
    groups = {"sources": {"feed": "feeds:Feed", "other": "feeds:other"}}
    install(site, "feeds", groups, feeds=FEEDS)
    assert open_source("feed:A,B").place == "A,B"
    with pytest.raises(
        BadOption, match=r"feeds:other of feeds 0\.1\.0 returned a quantgraph.*SampleSource; must be"
    ):
        open_source("other")
    told = run_strategy(
        SENTENCE, decider="buy_and_hold", source="feed", model="keyless", out=tmp_path / "runs"
    )
    assert told["ended_because"] == "done"
    assert replay(told["run_dir"]).identical
    install(site, "feeds", groups, version="0.2.0", feeds=FEEDS + "\n")
    (Path(told["run_dir"]) / "result.json").write_text(json.dumps({**told, "ended_because": "cancelled"}))
    with pytest.raises(RunMismatch, match=r"source\.file\.feeds\.py.*install the version of the package"):
        resume_run(told["run_dir"], source="feed")


def test_a_path_of_the_same_name_is_written_with_its_folder(site, tmp_path, monkeypatch) -> None:
    install(site, "feeds", {"sources": {"feed": "feeds:Feed"}}, feeds=FEEDS)
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(
        {"open": [1.0], "close": [1.0]}, index=pd.DatetimeIndex(["2024-01-02"], name="trade_date")
    )
    (tmp_path / "feed").mkdir()
    frame.to_csv(tmp_path / "feed" / "600519.SH.csv")
    assert type(open_source("feed")).__name__ == "Feed"
    assert type(open_source("./feed")) is FileSource


def test_a_tool_and_news_of_a_package_are_named_and_part_of_the_identity(site) -> None:
    groups = {
        "tools": {"spread": "feeds:spread", "wrong": "feeds:spread"},
        "news": {"wire": "feeds:Wire", "off": "feeds:Misnamed"},
    }
    install(site, "feeds", groups, feeds=FEEDS)
    agent, trader = ExecutionAgent(tools=["spread"]), TraderAgent(news="wire")
    assert agent.options["tool.spread.package"] == trader.options["news.package"] == "feeds 0.1.0"
    before = agent.options["tool.spread.file.feeds.py"]
    assert before == trader.options["news.file.feeds.py"]
    assert ExecutionAgent(tools=[named_tool("spread")]).options == agent.options
    install(site, "feeds", groups, feeds=FEEDS + "\n")
    assert ExecutionAgent(tools=["spread"]).options["tool.spread.file.feeds.py"] != before
    for name in ("wrong", "absent"):
        with pytest.raises(BadOption, match=r"must be a tool, or the name of one .*: spread, wrong"):
            named_tool(name)
    install(site, "feeds", {**groups, "sources": {"feed": "feeds:Feed"}})
    with pytest.raises(BadOption, match=r"or a MarketDataSource, feed$"):
        open_source("absent")
    with pytest.raises(BadOption, match=r"valid are commit, jina, tushare, off, wire"):
        named_news("off")
