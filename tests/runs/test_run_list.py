"""Every folder of a run is a row, whatever state it is in; a comparison shows the numbers and what differs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadOption
from quantgraph.runs import RunSpec, compare, list_runs, run_strategy

SHORT = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月到3月"
COLUMNS = ["run", "started", "sentence", "decider", "ended", "return", "max_drawdown", "folder", "error"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def first(place):
    return run_strategy(SHORT, out=place)


@pytest.fixture(scope="module")
def second(place):
    """The same with another sentence, other cash, symbol and window."""
    return run_strategy("000342.SZ" + SHORT[9:].replace("20日", "10日"), cash=50_000, out=place)


@pytest.fixture(scope="module")
def waiting(place):
    spec = RunSpec(question="5日均线上穿20日均线买入，下穿卖出", on_clarify="fail")
    return run_strategy(spec, out=place)


def edited(source, folder, **changes):
    """A copy of a run's two files, with other values in ``run.json`` (``run_...``) or ``result.json``."""
    folder.mkdir()
    for name in ("run.json", "result.json"):
        stored = json.loads((source / name).read_text(encoding="utf-8"))
        for key, value in changes.items():
            if key.startswith("run_") == (name == "run.json"):
                stored[key.removeprefix("run_")] = value
        (folder / name).write_text(json.dumps(stored), encoding="utf-8")
    return folder


def test_a_run_is_a_row_with_how_it_ended(first, waiting, place):
    table = list_runs(place)
    assert list(table.columns) == COLUMNS
    assert str(table["started"].dtype) == "datetime64[us, UTC]"
    assert {
        str(table[name].dtype) for name in ("run", "sentence", "decider", "ended", "folder", "error")
    } == {"str"}
    rows = {row["run"]: row for row in table.to_dict("records")}
    done, asked = rows[first["run_id"]], rows[waiting["run_id"]]
    assert (done["sentence"], done["decider"], done["ended"], done["error"]) == (
        SHORT,
        "signal_rule",
        "done",
        "",
    )
    assert done["return"] == first["account"]["return"]
    assert done["max_drawdown"] == first["account"]["max_drawdown"]
    assert done["started"] == pd.Timestamp(first["started"])
    assert done["folder"] == first["run_dir"]
    assert (asked["ended"], asked["error"]) == ("needs_answer", waiting["error"])
    assert np.isnan(asked["return"])


def test_whatever_state_a_folder_is_in_it_is_a_row(first, tmp_path):
    source = first.folder
    edited(source, tmp_path / "older", run_started="2020-01-01T00:00:00+00:00")
    edited(source, tmp_path / "other_version", run_format=2)
    edited(source, tmp_path / "running", state="running", ended_because=None, account=None)
    edited(source, tmp_path / "failed", state="failed", ended_because=None, error="failed: ValueError: a bug")
    edited(source, tmp_path / "odd_account", account={"return": "a lot"})
    edited(source, tmp_path / "huge", account={"return": 10**400})
    edited(source, tmp_path / "odd_account_list", account=[1])
    edited(source, tmp_path / "odd_start", run_started=["then"])
    edited(source, tmp_path / "odd_identity", run_identity={"hash": "x"})
    edited(source, tmp_path / "no_end").joinpath("result.json").write_text("{}", encoding="utf-8")
    edited(source, tmp_path / "no_result").joinpath("result.json").unlink()
    edited(source, tmp_path / "cut").joinpath("run.json").write_text('{"format": 3, "spe', encoding="utf-8")
    edited(source, tmp_path / "deep").joinpath("result.json").write_text("[" * 100_000, encoding="utf-8")
    edited(source, tmp_path / "binary").joinpath("run.json").write_bytes(b"\xff\xfe\x00")
    edited(source, tmp_path / "folder_inside").joinpath("run.json").unlink()
    (tmp_path / "folder_inside" / "run.json").mkdir()
    edited(source, tmp_path / "without_its_start").joinpath("run.json").unlink()
    (tmp_path / "of_a_graph").mkdir()
    shutil.copy(source / "ledger.sqlite", tmp_path / "of_a_graph")
    (tmp_path / "report_files").mkdir()
    (tmp_path / ".start-1").mkdir()
    shutil.copy(source / "run.json", tmp_path / ".start-1" / "run.json")
    (tmp_path / "a_file").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    table = list_runs(tmp_path)
    ended = dict(zip(table["run"], table["ended"], strict=True))
    unreadable = {
        *(
            "other_version",
            "odd_account",
            "odd_account_list",
            "huge",
            "odd_identity",
            "no_end",
            "cut",
            "deep",
        ),
        *("binary", "folder_inside", "without_its_start"),
    }
    assert {name for name, told in ended.items() if told == "unreadable"} == unreadable
    others = {
        "older": "done",
        "running": "running",
        "failed": "failed",
        "odd_start": "done",
        "no_result": "running",
        "of_a_graph": "graph",
    }
    assert {name: told for name, told in ended.items() if told != "unreadable"} == others
    errors = dict(zip(table["run"], table["error"], strict=True))
    assert all(errors[name] for name in unreadable)
    assert "format 2" in errors["other_version"]
    assert errors["failed"] == "failed: ValueError: a bug"
    assert not any("\n" in error for error in errors.values())
    known = table["started"].dropna()
    assert known.is_monotonic_decreasing
    assert table["run"][len(known) - 1] == "older"


def test_a_folder_without_runs_has_the_columns_and_one_that_is_not_there_is_named(tmp_path, monkeypatch):
    assert list_runs(tmp_path).empty
    assert list(list_runs().columns) == COLUMNS
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", str(tmp_path))
    assert list_runs().dtypes.to_dict() == list_runs(tmp_path).dtypes.to_dict()
    with pytest.raises(BadOption, match=r"'.*nowhere' is not a folder"):
        list_runs(tmp_path / "nowhere")


def test_two_runs_are_compared_in_numbers_words_and_parameters(first, second, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", str(first.folder.parent))
    found, names = compare(first, second["run_id"]), ["000341 / 20", "000342 / 10"]
    assert list(found.numbers.columns) == list(found.differences.columns) == names
    assert dict(found.runs) == dict(zip(names, (first["run_id"], second["run_id"]), strict=True))
    for key in ("return", "max_drawdown", "final_value", "trades"):
        assert found.numbers.loc[key].tolist() == [first["account"][key], second["account"][key]]
    assert found.differences.loc["question"].tolist() == [first["question"], second["question"]]
    assert found.differences.loc["traded"].tolist() == ["1: 000341.SZ", "1: 000342.SZ"]
    assert found.differences.loc["cash"].tolist() == ["", "50000.00"]
    assert "said" in found.differences.index
    assert not {"source", "window", "plan", "ended", "decider"} & {*found.differences.index}
    assert f"{first['account']['return']:.2%}" in repr(found)
    assert "收益" in repr(found)
    assert "50000.00" in found._repr_html_()


def test_a_run_without_an_account_is_compared_too(first, waiting):
    found = compare(first["run_dir"], waiting)
    assert found.numbers.iloc[:, 1].isna().all()
    assert found.differences.loc["ended"].tolist() == ["done", "needs_answer"]


def test_runs_that_differ_in_nothing_say_so_and_copies_are_told_apart(first, tmp_path):
    copied = shutil.copytree(first.folder, tmp_path / first["run_id"])
    found = compare(first, copied)
    assert found.differences.empty
    assert list(found.numbers.columns) == [first["run_dir"], str(copied)]
    assert "没有不同" in repr(found)
    assert "没有不同" in found._repr_html_()


def test_one_run_or_one_run_twice_is_refused(first):
    with pytest.raises(BadOption, match="two runs or more, not 1"):
        compare(first)
    with pytest.raises(BadOption, match="occurs twice"):
        compare(first, first["run_dir"])


def test_hostile_text_in_a_comparison_stays_text(first, tmp_path):
    hostile = "<script>alert(1)</script>\x1b[2J\u202e"
    folder = shutil.copytree(first.folder, tmp_path / "copy")
    told = {**first, "question": hostile, "understanding": {**first["understanding"], "plan": {hostile: 1}}}
    told["plan"] = {hostile: 1}
    (folder / "result.json").write_text(json.dumps(told), encoding="utf-8")
    found = compare(first, folder)
    for shown in (repr(found), found._repr_html_()):
        assert not {"\x1b", "\u202e"} & {*shown}
    assert not any(tag in found._repr_html_() for tag in ("<script", "<b>"))
    folder.rename(tmp_path / f"{hostile[:8]}\x1b")
    assert list_runs(tmp_path)["run"].tolist() == [r"<script>\x1b"]
