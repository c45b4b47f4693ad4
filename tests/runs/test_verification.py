"""Integrity of finished runs: every changed byte is named, and read-only runs can be checked and replayed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.runtime import RunControl
from typer.testing import CliRunner

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runs import _outputs as result_module
from quantgraph.runtime import Resources
from quantgraph.state import DataState, Record
from quantgraph.state.frames import freeze

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年2月28日"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that is done."""
    told = run_strategy(SENTENCE, out=tmp_path_factory.mktemp("runs"))
    assert told["ended_because"] == "done", told["error"]
    return Path(told["run_dir"])


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copies" / finished.name))


def check(folder):
    done = CliRunner().invoke(app, ["ledger", "check", str(folder)])
    return done.exit_code, done.stdout, done.stderr


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def test_an_unchanged_run_is_sound(finished):
    status, out, err = check(finished)
    kept = [path for path in finished.rglob("*") if path.is_file()]
    assert (status, err) == (0, "")
    assert out.endswith(f" lines, each follows from the one before; {len(kept)} files as the run left them\n")
    assert [path for path in finished.rglob("*") if path.is_file()] == kept


@pytest.mark.parametrize(
    "name", ["run.json", "result.json", "checksums.json", "strategy.py", "signal.parquet"]
)
@pytest.mark.parametrize("place", [0.1, 0.5, 0.99])
def test_one_bit_of_a_file_is_named_with_its_path(copy, name, place):
    flip(copy / name, place)
    status, out, err = check(copy)
    assert (status, out) == (1, "")
    assert str(copy / name) in err.splitlines()[0]
    line = next(line for line in err.splitlines() if line.startswith(f"bad_file: {copy / name} "))
    assert "must be" in line or "is not a run's file of checksums" in line


@pytest.mark.parametrize("pattern", ["commits/*.json", "objects/*.arrow", "objects/*.records"])
def test_one_bit_of_any_commit_or_object_is_named_with_its_path(copy, pattern):
    store = DataState(copy / "data")
    store.record([Record("name", None, "000341.SZ", {"name": "示例"})], base=store.empty)
    for path in sorted((copy / "data").glob(pattern)):
        before = path.read_bytes()
        flip(path)
        status, _, err = check(copy)
        assert status == 1
        assert err.startswith(f"bad_file: {path} ")
        assert err.count("\n") == 1
        path.write_bytes(before)
    assert check(copy)[0] == 0


def test_an_object_that_a_replay_never_opens_is_read_by_the_check(copy):
    store = DataState(copy / "data", read_only=True)
    result = json.loads((copy / "result.json").read_text(encoding="utf-8"))
    unused = freeze("ohlcv", "vol", store.snapshot(result["data_ref"])["ohlcv"]["vol"])
    path = copy / "data" / "objects" / f"{unused.digest}.arrow"
    assert path.is_file()
    path.write_bytes(b"garbage")
    status, _, err = check(copy)
    assert (status, err.startswith(f"bad_file: {path} is not a stored frame: ")) == (1, True)


@pytest.mark.parametrize(
    ("file", "statement", "says"),
    [
        ("ledger.sqlite", "UPDATE journal SET body = replace(body, '\"', '''') WHERE line = 40", "the chain breaks at line 40"),
        ("ledger.sqlite", "UPDATE recording SET reply = replace(reply, '0.0', '0.5') WHERE line = (SELECT min(line) FROM recording WHERE reply LIKE '%0.0%')", "the record of run"),
        ("ledger.sqlite", "UPDATE recording SET reply = '{' WHERE line = 3", "was changed at line 3"),
        ("ledger.sqlite", "UPDATE recording SET request = request || ' ' WHERE line = 2", "at its line 2: the request must have the hash"),
        ("ledger.sqlite", "DELETE FROM recording WHERE line = (SELECT max(line) FROM recording)", "lines are there"),
        ("checkpoints.sqlite", "UPDATE checkpoints SET metadata = metadata || ' ' WHERE rowid = 3", "the checksum of its rows must be"),
        ("checkpoints.sqlite", "DELETE FROM writes WHERE rowid = 5", "the checksum of its rows must be"),
    ],
)  # fmt: skip
def test_a_row_of_a_database_that_was_changed_is_named_with_its_file(copy, file, statement, says):
    with closing(sqlite3.connect(copy / file)) as database, database:
        assert database.execute(statement).rowcount == 1
    status, _, err = check(copy)
    assert status == 1
    assert str(copy / file) in err
    assert says in err


@pytest.mark.parametrize("file", ["ledger.sqlite", "checkpoints.sqlite"])
def test_a_page_of_a_database_that_is_damaged_is_named_with_its_file(copy, file):
    content = bytearray((copy / file).read_bytes())
    content[4096 * 2 : 4096 * 2 + 8] = b"\xff" * 8
    (copy / file).write_bytes(content)
    status, _, err = check(copy)
    assert status in {1, 2}
    assert str(copy / file) in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "name", ["run.json", "result.json", "checksums.json", "strategy.py", "checkpoints.sqlite"]
)
def test_a_missing_file_is_named(copy, name):
    (copy / name).unlink()
    status, _, err = check(copy)
    assert (status, f"bad_file: {copy / name} is" in err) == (1, True)


def test_a_missing_commit_and_a_missing_object_are_named(copy):
    (commit, *_) = sorted((copy / "data" / "commits").iterdir())
    (thing, *_) = sorted((copy / "data" / "objects").iterdir())
    result = json.loads((copy / "result.json").read_text(encoding="utf-8"))
    commit = copy / "data" / "commits" / f"{result['data_ref']}.json"
    commit.unlink()
    thing.unlink()
    status, _, err = check(copy)
    assert status == 1
    assert f"bad_file: {commit} is missing, a commit that the run names\n" in err
    assert f"bad_file: {thing} is not a stored frame: " in err


def test_an_emptied_journal_is_found(copy):
    with closing(sqlite3.connect(copy / "ledger.sqlite")) as database, database:
        database.execute("DELETE FROM journal")
    status, _, err = check(copy)
    assert (status, err.endswith("the ledger before its first session: lines at the end are missing\n")) == (
        1,
        True,
    )


def test_checksums_hold_whenever_the_run_is_killed(copy, monkeypatch):
    write_atomic = result_module.write_atomic

    def killed(path, content):
        if path.name == "result.json":
            raise KeyboardInterrupt
        write_atomic(path, content)

    told = json.loads((copy / "result.json").read_text(encoding="utf-8"))
    monkeypatch.setattr(result_module, "write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        result_module.write_result(copy, {**told, "state": "running"})
    monkeypatch.undo()
    assert check(copy)[0] == 0
    result_module.write_result(copy, {**told, "state": "running"})
    assert check(copy)[0] == 0


def test_stopped_runs_runs_without_trades_and_kept_replays_are_sound(finished, tmp_path):
    control = RunControl()

    def stop(event):
        if event.name == "signal_generate":
            control.request_drain()

    stopped = run_strategy(SENTENCE, out=tmp_path, resources=Resources(watch=stop, control=control))
    assert stopped["ended_because"] == "cancelled"
    status, out, err = check(stopped["run_dir"])
    assert (status, out.split(";")[0], err) == (0, f"{stopped['run_id']}: no line yet", "")
    assert check(resume_run(stopped["run_dir"])["run_dir"])[0] == 0
    alone = run_strategy(RunSpec(question=SENTENCE, trade=False), out=tmp_path)
    assert check(alone["run_dir"])[::2] == (0, "")
    flip(Path(alone["run_dir"], "strategy.py"))
    assert check(alone["run_dir"])[2].startswith(f"bad_file: {alone['run_dir']}/strategy.py has been changed")
    kept = replay(finished, out=tmp_path / "kept").folder
    assert check(kept)[::2] == (0, "")
    flip(kept / "signal.parquet")
    assert check(kept)[2].startswith(f"bad_file: {kept / 'signal.parquet'} has been changed")


def test_a_copied_folder_names_its_own_files(finished, copy):
    result = resume_run(copy)  # it is done: what it came to is returned
    assert result["run_dir"] == str(copy)
    assert result["strategy"]["path"] == str(copy / "strategy.py")
    assert result["signal"]["path"] == str(copy / "signal.parquet")
    assert resume_run(finished)["run_dir"] == str(finished)


CHILD = """
import json, sys
from typer.testing import CliRunner
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.errors import StorageUnavailable
from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.runs import replay, resume_run

folder, half = sys.argv[1:]
made = replay(folder)
told = {"differences": [each.line for each in made.differences], "result": content_hash(canonical_json(made.result))}
for command in ("show", "check"):
    done = CliRunner().invoke(app, ["ledger", command, folder, *(["--json"] if command == "show" else [])])
    told[command] = [done.exit_code, done.stdout]
told["resume"] = resume_run(folder)["ended_because"]
if half:
    with Ledger(f"{half}/ledger.sqlite") as book:
        told["cash"] = str(book.account("half").cash)
        try:
            book.open_run("another", 100)
        except StorageUnavailable as error:
            told["refused"] = error.line
print(json.dumps(told))
"""
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>&- && exec "$@"'


def read_only(folder):
    """How a command is begun for which a folder is read-only."""
    before = ["unshare", "-rm", "sh", "-c", READ_ONLY, str(folder)]
    if subprocess.run([*before, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system makes no read-only mount for a test")
    return before


def stand(folder):
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(folder.rglob("*"))}


def half_a_ledger(folder, *, index):
    """A copy of a ledger that a process has open: its last lines are in the log, beside it perhaps the index."""
    with Ledger(folder / "open" / "ledger.sqlite") as book:
        book.open_run("half", 12_345)
        shutil.copytree(folder / "open", folder / "half")
    if not index:
        (folder / "half" / "ledger.sqlite-shm").unlink()
    assert (folder / "half" / "ledger.sqlite-wal").stat().st_size
    return folder / "half"


@pytest.mark.proof
@pytest.mark.skipif(sys.platform != "linux", reason="a read-only mount in a test takes Linux")
def test_a_replay_is_the_same_under_other_hash_seeds_from_a_copied_folder_and_on_a_read_only_medium(
    finished, copy, tmp_path
):
    medium, log_alone = tmp_path / "medium", half_a_ledger(tmp_path / "one", index=False)
    (tmp_path / "two").mkdir()
    with_index = half_a_ledger(tmp_path / "two", index=True)
    for each in (log_alone, with_index):
        shutil.move(each, medium / each.parent.name)
    there = Path(shutil.copytree(finished, medium / finished.name))
    closed = read_only(medium)
    runs = [
        ("0", [], copy, ""),
        ("1", closed, there, medium / "one"),
        ("random", closed, there, medium / "two"),
    ]
    before = [stand(folder) for folder in (finished, copy, medium)]
    started = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", CHILD, str(folder), str(half)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed, prefix, folder, half in runs
    ]
    told = []
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        told.append(json.loads(out.splitlines()[-1]))
    expected = content_hash(canonical_json(replay(finished).result))
    assert [(each["differences"], each["result"]) for each in told] == [([], expected)] * 3
    assert {each["check"][0] for each in told} == {0}
    assert len({each["show"][1] for each in told}) == 1
    assert {each["resume"] for each in told} == {"done"}
    for each in told[1:]:
        assert each["cash"] == "12345.00"
        assert each["refused"].startswith(f"storage_unavailable: {medium}/")
    assert [stand(folder) for folder in (finished, copy, medium)] == before
