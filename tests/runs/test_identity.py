"""Run identity: its content, and the differences that a refused resume shows."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from langchain_openai import ChatOpenAI
from langgraph.runtime import RunControl
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadFile, RunMismatch
from quantgraph.market import Rulebook
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runs._identity import identity_of
from quantgraph.runs._specification import RunSpec, source_fingerprint
from quantgraph.runs.folder._folder import read_manifest
from quantgraph.runtime import Resources, open_resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

GRAPH = SimpleNamespace(get_graph=lambda **_: SimpleNamespace(edges=[]))
SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"


def configuration(model):
    handles = open_resources(Resources(settings=load_settings(), source=SampleSource(), model=model))
    options = RunSpec(question="q", rules=Rulebook.mainland())
    told = identity_of(options, GRAPH, handles).configuration
    assert json.loads(json.dumps(told, allow_nan=False)) == told, "as run.json gives it back"
    return told


def openai(**more):
    url = "https://me:sesame-open@host/v1?key=sesame-open"
    return ChatOpenAI(model="m", api_key="sk-sesame-open", base_url=url, **more)


def test_a_model_counts_by_class_address_and_parameters_without_secrets():
    secret = {"default_headers": {"x": "sesame-open"}, "default_query": {"y": "sesame-open"}}
    told = configuration(openai(temperature=0.3, max_tokens=5, **secret))
    assert "sesame" not in json.dumps(told)
    assert told["model.reflection"] == "m at https://host/v1"
    assert told["model.reflection.class"] == "ChatOpenAI"
    assert told["model.validation.temperature"] == 0.3
    assert told["model.clarify.max_tokens"] == 5
    assert told == configuration(openai(temperature=0.3, max_tokens=5))
    mixed = configuration({"reflection": openai(temperature=0.9)})
    assert mixed["model.reflection.temperature"] == 0.9
    assert mixed["model.clarify"] == "quantgraph-keyless-planner"


def test_parameters_of_a_role_in_the_settings_are_part_of_it(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sesame-open")
    plain = configuration("m")
    monkeypatch.setenv("QUANTGRAPH_MODELS", '{"clarify": {"seed": 3, "max_tokens": 50, "temperature": 0.5}}')
    told = configuration("m")
    assert {name: told[name] for name in told if told[name] != plain.get(name)} == {
        "model.clarify.max_completion_tokens": 50,
        "model.clarify.max_tokens": 50,
        "model.clarify.seed": 3,
        "model.clarify.temperature": 0.5,
    }
    assert told.keys() - plain.keys() == {
        f"model.clarify.{name}" for name in ("max_completion_tokens", "max_tokens", "seed")
    }


class Odd(ScriptedChatModel):
    @property
    def _identifying_params(self):
        odd = {"words": {"a", "b"}, "client": object(), "call": lambda: None, "deep": [object(), 1]}
        return {**odd, "limit": float("nan"), "most": float("inf"), "seed": 7}


def test_parameters_that_are_not_json_neither_break_nor_change_the_identity():
    told = configuration(Odd(["a"]))
    assert told == configuration(Odd(["b"]))
    mine = {name.rpartition(".")[2]: told[name] for name in told if name.startswith("model.clarify.")}
    assert mine == {"class": "Odd", "deep": [1], "limit": "NaN", "most": "Infinity", "seed": 7}


def test_an_unreadable_file_of_the_source_is_named(a_share, monkeypatch):
    from quantgraph.data.files import FileSource

    def locked(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", locked)
    with pytest.raises(BadFile, match="cannot be read: Permission denied"):
        source_fingerprint(FileSource(a_share))


def test_a_resume_with_another_model_or_code_shows_old_and_new_values(tmp_path):
    control = RunControl()
    control.request_drain("at once")
    half = run_strategy(
        SENTENCE, out=tmp_path, model=openai(temperature=0.1), resources=Resources(control=control)
    )
    path = tmp_path / half["run_id"] / "run.json"
    told = json.loads(path.read_text())
    told["versions"]["numpy"] = "1.0"
    told["identity"]["code"] |= {"graph/_graph.py": "0", "graph/serving.py": "0", "old.py": "0"}
    path.write_text(json.dumps(told))
    with pytest.raises(RunMismatch) as caught:
        resume_run(path.parent, model=openai(temperature=0.7, seed=3))
    line, block = caught.value.line, caught.value.data["diff"]
    assert "other configuration (model.clarify.seed: nothing -> 3 and 9 more; set it as it was)" in line
    assert "; begun with other versions: numpy 1.0 -> " in line
    assert block.splitlines() == [
        "configuration:",
        "  model.*.seed: nothing -> 3",
        "  model.*.temperature: 0.1 -> 0.7",
        "code:",
        "  graph/_graph.py, graph/serving.py: changed",
        "  old.py: gone",
    ]
    assert caught.value.__notes__ == [block]
    shown = CliRunner().invoke(app, ["resume", str(path.parent), "--model", "keyless"])
    assert shown.exit_code == 2
    assert "\n  model.*: m at https://host/v1 -> quantgraph-keyless-planner\n" in shown.stderr


def test_another_library_version_is_reported_and_not_refused(tmp_path):
    control = RunControl()
    control.request_drain("at once")
    half = run_strategy(SENTENCE, out=tmp_path, resources=Resources(control=control))
    path = tmp_path / half["run_id"] / "run.json"
    told = json.loads(path.read_text())
    told["versions"]["numpy"] = "1.0"
    path.write_text(json.dumps(told))
    shown = CliRunner().invoke(
        app, ["resume", str(path.parent), "--json", "--headless", "--budget", "calls=0"]
    )
    assert json.loads(shown.stdout)["ended_because"] == "budget_calls"
    assert "\nbegun with other versions: numpy 1.0 -> " in shown.stderr


def test_packages_that_code_may_import_are_part_of_it_and_come_back_with_the_run(tmp_path, monkeypatch):
    model = ScriptedChatModel([])
    assert configuration(model)["settings.sandbox_packages"] == []
    monkeypatch.setenv("QUANTGRAPH_SANDBOX_PACKAGES", "scipy")
    assert configuration(model)["settings.sandbox_packages"] == ["scipy"]
    run = run_strategy(SENTENCE, out=tmp_path)
    manifest = read_manifest(tmp_path / run["run_id"])
    assert manifest.versions["scipy"] == metadata.version("scipy")
    monkeypatch.delenv("QUANTGRAPH_SANDBOX_PACKAGES")
    assert manifest.recorded_settings(load_settings()).sandbox_packages == ["scipy"]
    assert manifest.other_versions == ""
    assert replay(tmp_path / run["run_id"]).identical


def test_a_resume_without_the_model_of_a_role_names_its_variable(tmp_path, monkeypatch):
    control = RunControl()
    control.request_drain("at once")
    half = run_strategy(
        SENTENCE,
        out=tmp_path,
        model={"reflection": "keyless", "signal_generate": openai(temperature=0.1)},
        resources=Resources(control=control),
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sesame-open")
    monkeypatch.setenv("QUANTGRAPH_MODEL", "other")
    with pytest.raises(RunMismatch) as caught:
        resume_run(tmp_path / half["run_id"], model={"signal_generate": openai(temperature=0.1)})
    assert "name keyless in [models] for " in caught.value.line
    assert "(QUANTGRAPH_MODELS), or give model= in Python" in caught.value.line
