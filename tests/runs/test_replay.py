"""Replays: the same ledger, signal, strategy and result, or the first difference."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from load_script import load_script
from typer.testing import CliRunner

from quantgraph._util.canonical_json import content_hash
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.errors import BadFile
from quantgraph.runs import replay, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal._agents import prompt_text
from quantgraph.subgraphs.signal.nodes import reflection
from quantgraph.testing import Fault, OpenAIStub

scripted = load_script(Path(__file__).with_name("scripted_run.py"))


def settings_for(stub, **more):
    return load_settings(openai_api_key="sk-test", openai_base_url=stub.base_url, model="stub", **more)


def stumbling():
    """A server that first is busy, then breaks, then answers."""
    faults = iter([Fault.http(429, retry_after=0), Fault.http(500)])
    return OpenAIStub(lambda request: next(faults, None) or scripted.script(request))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a run with a question, two retries, a failing tool and forty sessions; its server is gone."""
    out = tmp_path_factory.mktemp("recorded")
    with stumbling() as stub:
        told = run_strategy(
            scripted.QUESTION,
            out=out,
            resources=Resources(settings=settings_for(stub), answer=lambda _: scripted.ANSWER),
        )
    assert told["ended_because"] == "done", told["error"]
    return Path(told["run_dir"])


@pytest.fixture
def copy(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / "copies" / recorded.name))


def execute(folder, statement, *values):
    with sqlite3.connect(folder / "ledger.sqlite") as database:
        changed = database.execute(statement, values).rowcount
    database.close()
    assert changed == 1


def exported(folder):
    """What anybody can look at."""
    with Ledger(folder / "ledger.sqlite") as book:
        journal = [json.dumps(line, ensure_ascii=False) for line in book.journal(folder.name)]
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    for place in (result, result["strategy"], result["signal"]):
        for name in ("run_dir", "path", "seconds"):
            place.pop(name, None)
    return journal, (folder / "strategy.py").read_bytes(), result


def test_the_recorded_run_has_a_question_retries_failures_and_forty_sessions(recorded):
    with sqlite3.connect(recorded / "ledger.sqlite") as database:
        rows = database.execute("SELECT kind, attempt, final, reply, error FROM recording").fetchall()
    database.close()
    assert {"model", "tool", "source", "code", "answer"} <= {row[0] for row in rows}
    assert [row[1:3] for row in rows if row[1] == 3] == [(3, 1)]
    assert any(row[0] == "tool" and "ZeroDivisionError" in (row[3] or row[4]) for row in rows)
    journal, _, result = exported(recorded)
    assert sum('"kind": "fill"' in line for line in journal) > 10
    assert len(result["equity"]["sessions"]) > 30


@pytest.mark.proof
def test_in_a_fresh_process_with_another_hash_seed_and_no_network_all_exports_are_the_same(
    recorded, tmp_path
):
    command = [sys.executable, "-c", "from quantgraph.cli import main; main()"]
    done = subprocess.run(
        [*command, "replay", str(recorded), "--json", "--keep", str(tmp_path / "again")],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONHASHSEED": "4242"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["identical"], told["differences"], told["diff"]) == (True, [], "")
    again = Path(told["folder"])
    assert exported(again) == exported(recorded)
    signals = [pd.read_parquet(folder / "signal.parquet") for folder in (recorded, again)]
    pd.testing.assert_frame_equal(*signals, check_exact=True)


def test_a_changed_prompt_is_shown_as_a_diff_of_the_first_different_request(recorded, monkeypatch):
    def changed(name, language):
        return prompt_text(name, language).replace(
            "Read what the user wants of", "Read all that the user wants of"
        )

    monkeypatch.setattr(reflection, "prompt_text", changed)
    replayed = replay(recorded)
    assert not replayed.identical
    data = replayed.divergence.data
    assert (data["path"], data["seq"], data["kind"]) == ("signal/reflection", 1, "model")
    assert data["changed"] == ["messages[1].content"]
    lines = data["diff"].splitlines()
    first = [line.strip(' ",')[:40] for line in lines if line.startswith(("-  ", "+  "))]
    assert first == ['-    "Read what the user wants of a quan', '+    "Read all that the user wants of a ']
    (difference,) = replayed.differences
    assert difference.export == "record"


def test_changed_code_is_reported_and_replayed(recorded, monkeypatch):
    told = json.loads((recorded / "run.json").read_text(encoding="utf-8"))
    assert "runs/_replay.py" in told["identity"]["code"]
    monkeypatch.setattr(
        sys.modules["quantgraph.runs._replay"],
        "code_hashes",
        lambda: {**told["identity"]["code"], "graph/_graph.py": "x"},
    )
    replayed = replay(recorded)
    assert replayed.identical
    assert replayed.changed_code == ("graph/_graph.py",)


def test_a_line_of_the_ledger_that_was_changed_is_found(copy):
    execute(
        copy,
        "UPDATE journal SET body = replace(body, '\"buy\"', '\"sell\"') WHERE line = "
        "(SELECT min(line) FROM journal WHERE kind = 'fill')",
    )
    (difference,) = replay(copy).differences
    assert difference.export == "ledger"
    assert "sell" in difference.recorded
    assert "sell" not in difference.replayed
    assert difference.line.index("recorded: {") < difference.line.index(" | replayed: {")


def test_a_reply_that_was_changed_leads_to_another_question_or_another_result(copy):
    execute(
        copy,
        "UPDATE recording SET reply = replace(reply, 'snapshot()', 'snapshot( )') "
        "WHERE kind = 'model' AND reply LIKE '%snapshot()%'",
    )
    divergence = replay(copy).divergence
    assert divergence.data["kind"] == "tool"
    assert divergence.data["changed"] == ["args.query"]
    assert "snapshot( )" in divergence.data["diff"]


def test_a_recorded_request_that_is_not_made_again_is_a_difference(copy):
    execute(
        copy,
        "INSERT INTO recording (run_id, line, path, seq, kind, digest, attempt, final, at, request, reply) "
        "VALUES (?, 9999, 'signal/validate', 9, 'tool', ?, 1, 1, '', '{\"name\":\"python_repl\"}', 'null')",
        copy.name,
        content_hash('{"name":"python_repl"}'),
    )
    (difference,) = replay(copy).differences
    assert (difference.export, difference.place) == ("record", "signal/validate number 9")
    assert "python_repl" in difference.recorded


def test_a_changed_request_is_found_even_if_it_is_not_made_again(copy):
    execute(
        copy,
        "UPDATE recording SET request = replace(request, '\"temperature\":0.0', '\"temperature\":0.9') "
        "WHERE kind = 'model' AND NOT final AND attempt = 1",
    )
    (difference,) = replay(copy).differences
    assert (difference.export, difference.place) == ("record", "signal/reflection number 1")
    assert difference.recorded == "a model request that was changed afterwards"


@pytest.mark.parametrize("missing", ["data", "ledger.sqlite"])
def test_an_incomplete_folder_is_named_and_not_changed(copy, missing):
    (copy / missing).rename(copy.parent / missing)
    told = CliRunner().invoke(app, ["replay", str(copy)])
    assert told.exit_code == 2
    assert told.stderr.startswith(f"bad_file: {copy / missing} is missing")
    assert not (copy / missing).exists()


def test_a_result_that_is_not_kept_has_no_paths(recorded, tmp_path):
    named = ["replay", recorded.name, "--out", str(recorded.parent), "--json"]
    told = json.loads(CliRunner().invoke(app, named).stdout)
    assert (told["identical"], told["folder"]) == (True, None)
    assert "quantgraph-replay-" not in json.dumps(told)
    assert CliRunner().invoke(app, [*named, "--keep", str(tmp_path)]).exit_code == 0
    twice = CliRunner().invoke(app, [*named, "--keep", str(tmp_path)])
    assert (twice.exit_code, f"File exists: {tmp_path / recorded.name}" in twice.stderr) == (2, True)


def test_a_frame_of_the_data_that_was_changed_is_found(copy):
    frames = sorted((copy / "data" / "objects").glob("*.arrow"), key=lambda path: path.stat().st_size)
    for path in frames:
        path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(BadFile, match=r"\.arrow is not a stored frame"):
        replay(copy)


def test_the_command_shows_the_diff_and_exits_with_1(copy):
    execute(
        copy,
        "UPDATE recording SET request = replace(request, 'Read what', 'Read all'), digest = 'd' "
        "WHERE path = 'signal/reflection' AND seq = 1 AND final",
    )
    manifest = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    manifest["versions"]["numpy"] = "1.0"
    (copy / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    shown = CliRunner().invoke(app, ["replay", str(copy)])
    assert shown.exit_code == 1
    assert "changed: messages[1].content; begun with other versions: numpy 1.0 -> " in shown.stdout
    assert '-    "Read all the user wants' in shown.stdout
    (nothing,) = CliRunner().invoke(app, ["replay", "/nothing"]).stderr.splitlines()
    assert nothing == "bad_option: RUN='/nothing': there is no run.json in /nothing"
    assert CliRunner().invoke(app, ["replay", str(copy), "--model", "other"]).exit_code == 2
