"""Runs whose disk or database fails, and runs with damaged files."""

from __future__ import annotations

import json
import resource
import shutil
import sqlite3
from contextlib import closing, contextmanager
from functools import partial

import pytest
from langgraph.runtime import RunControl
from typer.testing import CliRunner

from quantgraph._util import database
from quantgraph.broker.ledger import Ledger
from quantgraph.cli._main import app
from quantgraph.errors import BadFile, StorageUnavailable
from quantgraph.runs import _start as start
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources

pytestmark = pytest.mark.proof

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"


@pytest.fixture(autouse=True)
def one_name(monkeypatch):
    """Every run has the same name, so that equal ledgers are equal."""
    monkeypatch.setattr(start, "new_run_id", lambda: "r")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of two runs: one that is done, and one that was stopped before its first session."""
    folder, control = tmp_path_factory.mktemp("made"), RunControl()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "new_run_id", lambda: "r")
        done = run_strategy(SENTENCE, out=folder / "done")
        half = run_strategy(
            SENTENCE,
            out=folder / "half",
            resources=Resources(
                control=control,
                watch=lambda event: control.request_drain("enough") if event.name == "validate" else None,
            ),
        )
    assert (done["ended_because"], half["ended_because"]) == ("done", "cancelled")
    return {"done": folder / "done" / "r", "half": folder / "half" / "r"}


def journal(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        book.check("r")
        return list(book.journal("r"))


@contextmanager
def files_up_to(size):
    """No file of this process grows beyond so many bytes: to whoever writes it, it is a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_run_on_a_full_disk_says_so_and_is_resumed(tmp_path, made, asked):
    with files_up_to(250_000):
        ended = CliRunner().invoke(app, ["run", SENTENCE, "--out", str(tmp_path), "--headless", "--json"])
    told = json.loads(ended.stdout)
    line, hint = ended.stderr.splitlines()[-2:]
    assert ended.exit_code == 1
    assert line == told["error"]
    assert line.startswith(f"storage_unavailable: {tmp_path}/r/")
    assert line.endswith("check that its disk has room and that it may be written")
    assert hint == f"quantgraph resume {told['run_dir']}"
    assert not list(tmp_path.rglob(".*")), "half a file was left behind"
    assert resume_run(tmp_path / "r")["ended_because"] == "done"
    assert journal(tmp_path / "r") == journal(made["done"])
    once = sum(row["calls"] for row in json.loads((made["done"] / "result.json").read_text())["usage"])
    assert len(asked) - once in {0, 1}  # the reply that came while nothing could be written
    assert replay(tmp_path / "r").differences == ()


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path):
    with files_up_to(0), pytest.raises(StorageUnavailable):
        run_strategy(SENTENCE, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_cannot_be_written_is_not_a_tool_result(tmp_path, made, asked, monkeypatch):
    data = tmp_path / "r" / "data"

    def full(_lines):  # in the node, before the fetch
        if not data.exists():
            data.write_text("")

    with monkeypatch.context() as patch:
        patch.setattr("quantgraph.subgraphs.signal._reading.emit_reading", full)
        with pytest.raises(
            StorageUnavailable, match=f"{data} cannot be written or read: Not a directory"
        ) as error:
            run_strategy(SENTENCE, out=tmp_path)
    assert error.value.data["run_dir"] == str(tmp_path / "r")
    assert json.loads((tmp_path / "r" / "result.json").read_text())["state"] == "failed"
    data.unlink()
    assert resume_run(tmp_path / "r")["ended_because"] == "done"
    assert journal(tmp_path / "r") == journal(made["done"])
    assert not any("storage_unavailable" in str(messages) for messages in asked)


def test_a_locked_ledger_is_waited_for_and_then_named(tmp_path, made, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(tmp_path / "held.sqlite", isolation_level=None)) as other:

        def hold(event):
            if event.name == "validate" and not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        reason = "held.sqlite cannot be written or read: database is locked; another process holds it"
        with pytest.raises(StorageUnavailable, match=reason):
            run_strategy(
                SENTENCE, out=tmp_path, resources=Resources(ledger=tmp_path / "held.sqlite", watch=hold)
            )
    assert resume_run(tmp_path / "r")["ended_because"] == "done"
    with Ledger(tmp_path / "held.sqlite") as book:
        assert list(book.journal("r")) == journal(made["done"])


@pytest.fixture
def copied(tmp_path, made):
    def copy(which):
        shutil.copytree(made[which], tmp_path / which / "r")
        return tmp_path / which / "r"

    return copy


@pytest.mark.parametrize(
    ("which", "name", "content", "told"),
    [
        ("done", "run.json", b"5", "resume: run.json does not say what run this is"),
        ("done", "result.json", b"\xff", "replay: result.json is not a result of a run"),
        ("half", "ledger.sqlite", b"", "resume: ledger.sqlite is missing or empty"),
        ("done", "ledger.sqlite", b"", "replay: ledger.sqlite is missing or empty"),
        ("done", "signal.parquet", b"\xff", "replay: signal.parquet is not a signal"),
        ("done", "data/objects/*", b"", "replay: is not a stored frame"),
        ("done", "data/commits/*", None, "replay: data has been changed: commit"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(copied, which, name, content, told):
    folder, (command, words) = copied(which), told.split(": ", 1)
    for path in folder.glob(name):
        path.unlink() if content is None else path.write_bytes(content)
    for path in folder.glob(f"{name}-*"):
        path.unlink()
    trusted = ["--trust"] if command == "resume" else []
    ended = CliRunner().invoke(app, [command, str(folder), *trusted])
    (line,) = ended.stderr.splitlines()
    assert (ended.exit_code, line.startswith("bad_file: "), words in line) == (2, True, True), line


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("reply = '{'", r"its reply '\{' is not JSON"),
        ("request = 'x'", "its request 'x' is not JSON"),
        ('error = \'{"message": "a"}\'', "is not an error of quantgraph"),
        ("error = 'x'", "its error 'x' is not an error of quantgraph"),
        ("kind = 'oracle'", "kind must be one of model, tool, "),
    ],
)
def test_a_line_of_the_record_that_was_changed_is_named(copied, change, words):
    folder = copied("half")
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection:
        path, seq = connection.execute("SELECT path, seq FROM recording WHERE line = 2").fetchone()
        connection.execute(f"UPDATE recording SET {change} WHERE line = 2")
        connection.commit()
    for go in (partial(resume_run, trust=True), replay):
        with pytest.raises(
            BadFile, match=rf"run 'r' was changed at line 2 \({path} number {seq}\): .*{words}"
        ):
            go(folder)
