"""Folders that a stranger made: reading commands run nothing of them, write nothing, dial nothing, and end."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import ormsgpack
import pandas as pd
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.errors import BadFile, BadOption, QuantGraphError
from quantgraph.runs import list_runs, open_run, replay, resume_run, run_strategy, write_page

SENTENCE = "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229"
SECONDS = 100
"""The time bound of a command; on an idle machine each takes two or three."""
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
UNTYPED = re.compile(r"^\w*(Error|Exception|Interrupt)\b|--debug shows where|Traceback", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Canary:
    """What no reading command may touch."""

    touched: Path
    secret: Path
    other: Path
    port: int
    listener: socket.socket

    @property
    def connections(self) -> int:
        """How many processes have dialled the address."""
        count = 0
        while True:
            try:
                self.listener.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    done = run_strategy(SENTENCE, out=tmp_path_factory.mktemp("finished"))
    assert done["ended_because"] == "done"
    write_page([done.folder])
    return done.folder


@pytest.fixture
def canary(tmp_path) -> Iterator[Canary]:
    place = tmp_path / "mine"
    place.mkdir()
    (place / "secret.txt").write_text("the secret of another folder", encoding="utf-8")
    with closing(sqlite3.connect(place / "other.sqlite")) as base:
        base.execute("CREATE TABLE mine (x)")
        base.commit()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield Canary(
            touched=place / "touched",
            secret=place / "secret.txt",
            other=place / "other.sqlite",
            port=listener.getsockname()[1],
            listener=listener,
        )


def edit(folder: Path, name: str, **changes: object) -> None:
    stored = json.loads((folder / name).read_text(encoding="utf-8"))
    (folder / name).write_text(json.dumps(stored | changes), encoding="utf-8")


def evil_code(folder: Path, canary: Canary) -> Path:
    file = folder / "evil.py"
    file.write_text(
        f"open({str(canary.touched)!r}, 'w').close()\n"
        "from quantgraph.broker import Decider\n\n\nclass Evil(Decider):\n    name = 'evil'\n",
        encoding="utf-8",
    )
    return file


def statements(file: Path, *texts: str) -> None:
    with closing(sqlite3.connect(file)) as base:
        for text in texts:
            base.execute(text)
        base.commit()


def decider_file(folder: Path, canary: Canary) -> None:
    edit(folder, "run.json", decider=f"{evil_code(folder, canary)}:Evil")


def decider_relative(folder: Path, canary: Canary) -> None:
    evil_code(folder, canary)
    edit(folder, "run.json", decider="evil.py:Evil")


def decider_prompt(folder: Path, canary: Canary) -> None:
    edit(folder, "run.json", decider='trader?{"prompt": "/dev/zero"}')


def ledger_elsewhere(folder: Path, canary: Canary) -> None:
    edit(folder, "run.json", ledger=str(canary.other))


def ledger_dials(folder: Path, canary: Canary) -> None:
    url = f"postgresql+psycopg://me@127.0.0.1:{canary.port}/x?passfile={canary.secret}"
    edit(folder, "run.json", ledger=url)


def ledger_link(folder: Path, canary: Canary) -> None:
    (folder / "ledger.sqlite").unlink()
    (folder / "ledger.sqlite").symlink_to(canary.other)


def ledger_view(table: str) -> Callable[[Path, Canary], None]:
    def make(folder: Path, canary: Canary) -> None:
        file = folder / "ledger.sqlite"
        with closing(sqlite3.connect(file)) as base:
            columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        values = ", ".join(f"x AS {name}" for name in columns)
        view = f"CREATE VIEW {table} AS {ENDLESS} SELECT {values} FROM n"
        statements(file, f"DROP TABLE {table}", view)

    return make


def ledger_virtual(folder: Path, canary: Canary) -> None:
    file = folder / "ledger.sqlite"
    statements(file, "DROP TABLE recording", "CREATE VIRTUAL TABLE recording USING fts5(run_id, line)")


def ledger_trigger(folder: Path, canary: Canary) -> None:
    change = f"DELETE FROM journal WHERE line IN ({ENDLESS}SELECT x FROM n)"
    statements(folder / "ledger.sqlite", f"CREATE TRIGGER t AFTER INSERT ON recording BEGIN {change}; END")


def ledger_computes(folder: Path, canary: Canary) -> None:
    much = "ALTER TABLE journal ADD COLUMN much AS (hex(zeroblob(900000000)))"
    statements(folder / "ledger.sqlite", much)


def ledger_holes(folder: Path, canary: Canary) -> None:
    with (folder / "ledger.sqlite").open("r+b") as file:
        file.truncate(10 << 30)


def ledger_log_holes(folder: Path, canary: Canary) -> None:
    with (folder / "ledger.sqlite-wal").open("wb") as file:
        file.truncate(10 << 30)


def ledger_log_pipe(folder: Path, canary: Canary) -> None:
    os.mkfifo(folder / "ledger.sqlite-wal")


def ledger_nonsense(folder: Path, canary: Canary) -> None:
    statements(folder / "ledger.sqlite", "UPDATE journal SET body = '[[]]'")


def record_deep(folder: Path, canary: Canary) -> None:
    deep = "[" * 900 + "]" * 900
    statements(folder / "ledger.sqlite", f"UPDATE recording SET request = '{deep}', reply = '{deep}'")


def forged_result(folder: Path, canary: Canary) -> None:
    account = json.loads((folder / "result.json").read_text())["account"]
    edit(folder, "result.json", account={**account, "return": 9.99})


def deep_result(folder: Path, canary: Canary) -> None:
    (folder / "result.json").write_text("[" * 200_000 + "]" * 200_000)


def nested_result(folder: Path, canary: Canary) -> None:
    (folder / "result.json").write_text('{"ended_because": ' + "[" * 900 + "]" * 900 + "}")


def large_result(folder: Path, canary: Canary) -> None:
    with (folder / "result.json").open("r+b") as file:
        file.truncate(1 << 40)


def odd_result(folder: Path, canary: Canary) -> None:
    edit(folder, "result.json", account=[1], equity="x", history=7, source=None, understanding=3)


def long_number(folder: Path, canary: Canary) -> None:
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(text.replace('"trades": ', '"trades": ' + "9" * 5_000, 1))


def odd_manifest(folder: Path, canary: Canary) -> None:
    edit(folder, "run.json", labels=5, versions=[1], budgets="x", source={"name": 4})


def escapes(folder: Path, canary: Canary) -> None:
    spec = json.loads((folder / "run.json").read_text())["spec"]
    question = "</script><script>x</script>\x1b[2J\u202e"
    edit(folder, "run.json", spec={**spec, "question": question})
    edit(folder, "result.json", question=question)


def run_above(folder: Path, canary: Canary) -> None:
    edit(folder, "run.json", run_id="../mine/other")


def pipes(folder: Path, canary: Canary) -> None:
    for name in ("result.json", "checksums.json", "strategy.py", "signal.parquet", "report.html"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)


def devices(folder: Path, canary: Canary) -> None:
    for name in ("ledger.sqlite", "strategy.py", "signal.parquet", "checkpoints.sqlite"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")


def page_links(folder: Path, canary: Canary) -> None:
    (folder / "report.html").unlink()
    (folder / "report.html").symlink_to(canary.secret)
    shutil.rmtree(folder / "report_files", ignore_errors=True)
    (folder / "report_files").symlink_to(canary.secret.parent)


def code_link(folder: Path, canary: Canary) -> None:
    (folder / "strategy.py").unlink()
    (folder / "strategy.py").symlink_to(canary.secret)


def data_link(folder: Path, canary: Canary) -> None:
    shutil.rmtree(folder / "data")
    (folder / "data").symlink_to("/")


def data_pipe(folder: Path, canary: Canary) -> None:
    for file in filter(Path.is_file, (folder / "data").rglob("*")):
        file.unlink()
        os.mkfifo(file)


def parquet_bomb(folder: Path, canary: Canary) -> None:
    pd.DataFrame({"x": pd.array([0.0], dtype="float64").repeat(120_000_000)}).to_parquet(
        folder / "signal.parquet"
    )


def checksums_elsewhere(folder: Path, canary: Canary) -> None:
    sums = {"../../mine/secret.txt": "x", "/dev/zero": "x", "result.json": 5, "record": {"lines": "x"}}
    fits = {"checksums.json": content_hash(canonical_json(sums))}
    (folder / "checksums.json").write_text(json.dumps(sums | fits))


def checkpoint(value: bytes, kind: str = "msgpack") -> Callable[[Path, Canary], None]:
    def make(folder: Path, canary: Canary) -> None:
        content = value.replace(b"TOUCHED", str(canary.touched).encode())
        if kind == "msgpack":
            named = ormsgpack.packb(("os", "system", f"touch {canary.touched}"))
            content = ormsgpack.packb({"channel_values": {"x": ormsgpack.Ext(0, named)}, "id": "1", "v": 4})
        with closing(sqlite3.connect(folder / "checkpoints.sqlite")) as base:
            SqliteSaver(base).setup()
            base.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (kind, content))
            base.execute("UPDATE writes SET type = ?, value = ?", (kind, content))
            base.commit()
        edit(folder, "result.json", state="running", ended_because=None, run_dir=str(folder))

    return make


checkpoint_code = checkpoint(b"")
checkpoint_pickle = checkpoint(b"cos\nsystem\n(S'touch TOUCHED'\ntR.", "pickle")


def checkpoint_computes(folder: Path, canary: Canary) -> None:
    much = "ALTER TABLE writes ADD COLUMN much AS (hex(zeroblob(900000000)))"
    statements(folder / "checkpoints.sqlite", much)


HOSTILE: dict[str, Callable[[Path, Canary], None]] = {
    make.__name__: make
    for make in (
        *(decider_file, decider_relative, decider_prompt, ledger_elsewhere, ledger_dials, ledger_link),
        *(ledger_virtual, ledger_trigger, ledger_computes, ledger_holes, ledger_log_holes, ledger_log_pipe),
        *(ledger_nonsense, record_deep, forged_result, deep_result, nested_result, large_result, odd_result),
        *(long_number, odd_manifest, escapes, run_above, pipes, devices, page_links, code_link, data_link),
        *(data_pipe, parquet_bomb, checksums_elsewhere, checkpoint_computes),
    )
} | {
    "journal_view": ledger_view("journal"),
    "recording_view": ledger_view("recording"),
    "checkpoint_code": checkpoint_code,
    "checkpoint_pickle": checkpoint_pickle,
}
READERS = (
    ("show",),
    ("runs", "--out"),
    ("verify",),
    ("replay",),
    ("ledger", "check"),
    ("ledger", "show"),
    ("logs",),
    ("show", "--to", "page.html"),
    ("runs", "--page", "--out"),
)


@pytest.fixture
def hostile(finished, tmp_path, canary) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        folder = Path(shutil.copytree(finished, tmp_path / "theirs" / finished.name))
        HOSTILE[name](folder, canary)
        return folder

    return make


def digest(folder: Path) -> dict[str, str]:
    """What each file of a folder holds; of what is no plain file of moderate size, what it is."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        plain = path.is_file() and not path.is_symlink() and facts.st_size < 1 << 28
        content = hashlib.sha256(path.read_bytes()).hexdigest() if plain else ""
        found[str(path.relative_to(folder))] = f"{facts.st_mode} {facts.st_size} {content}"
    return found


def called(*arguments: object, place: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which is ended after a time."""
    return subprocess.run(
        ["timeout", str(SECONDS), sys.executable, "-m", "quantgraph", *map(str, arguments)],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def readings(folder: Path, work: Path) -> list[tuple[int, str, str]]:
    """What each reading command says of a folder: exit status, standard output, standard error."""
    calls = [[*each, str(folder.parent if each[-1] == "--out" else folder)] for each in READERS]
    script = Path(__file__).parents[1] / "support" / "reading_commands.py"
    done = subprocess.run(
        [sys.executable, str(script), str(SECONDS), json.dumps(calls)],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return [(status, out, err) for status, out, err in json.loads(done.stdout)]


@pytest.mark.proof
@pytest.mark.parametrize("name", HOSTILE)
def test_every_reading_command_runs_writes_and_dials_nothing_and_ends_typed(name, hostile, canary, tmp_path):
    folder = hostile(name)
    work = tmp_path / "work"
    work.mkdir()
    before = digest(folder.parent), digest(canary.other.parent)
    for reader, (status, out, err) in zip(READERS, readings(folder, work), strict=True):
        said = f"{reader}: {status}\n{out[-600:]}\n{err[-600:]}"
        assert status in {0, 1, 2}, said
        assert not UNTYPED.search(err), said
        assert canary.secret.read_text() not in out + err, said
    index = folder.parent / "index.html"  # what --page asked for
    assert canary.secret.read_text() not in index.read_text()
    index.unlink()
    assert (digest(folder.parent), digest(canary.other.parent)) == before
    assert (canary.touched.exists(), canary.connections) == (False, 0)


@pytest.mark.proof
@pytest.mark.parametrize("name", ["code_link", "pipes", "devices"])
def test_a_strategy_that_is_no_file_is_not_audited(name, hostile, canary, tmp_path):
    folder = hostile(name)
    done = called("audit", folder, "--source", "sample", place=tmp_path)
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "bad_file"), done.stderr
    assert canary.secret.read_text() not in done.stdout + done.stderr


@pytest.mark.proof
def test_a_checkpoint_that_names_code_ends_a_resume_in_one_line(hostile, canary, tmp_path):
    folder = hostile("checkpoint_code")
    done = called("resume", folder, "--headless", place=tmp_path)
    assert not canary.touched.exists()
    assert (done.returncode, UNTYPED.search(done.stderr)) == (2, None), done.stderr
    assert "a checkpoint is not one of ours: it holds" in done.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("decider_file", "names is run or read: if you trust it, name it yourself, --decider FILE.py:CLASS"),
        ("decider_prompt", "nothing that a folder names is run or read"),
        ("ledger_elsewhere", "outside of its folder, and is read only if you name it: --ledger"),
        ("ledger_dials", "outside of its folder, and is read only if you name it: --ledger"),
        ("ledger_link", "it leads out of the folder"),
        ("recording_view", "its view recording is not as quantgraph makes it"),
        ("ledger_virtual", "its table recording is not as quantgraph makes it"),
        ("ledger_computes", "its table journal is not as quantgraph makes it"),
        ("ledger_holes", "at most 2,147,483,648 are read"),
        ("ledger_log_pipe", "it must be a regular file"),
        ("deep_result", "nested too deeply"),
        ("data_link", "it must be a folder"),
    ],
)
def test_a_replay_refuses_a_folder_that_leads_elsewhere(name, says, hostile, canary):
    folder = hostile(name)
    before = digest(folder)
    with pytest.raises((BadFile, BadOption)) as refused:
        replay(folder)
    assert says in refused.value.line
    assert digest(folder) == before
    assert (canary.touched.exists(), canary.connections) == (False, 0)


@pytest.mark.parametrize("name", ["checkpoint_code", "checkpoint_pickle"])
def test_a_checkpoint_of_others_is_refused_and_not_executed(name, hostile, canary):
    folder = hostile(name)
    with pytest.raises(BadFile, match="a checkpoint is not one of ours"):
        resume_run(folder)
    assert not canary.touched.exists()


@pytest.mark.parametrize("name", ["deep_result", "nested_result", "large_result", "long_number", "pipes"])
def test_a_result_that_is_none_is_a_typed_error_and_a_row_of_the_list(name, hostile):
    folder = hostile(name)
    with pytest.raises(QuantGraphError):
        open_run(folder)
    (row,) = list_runs(folder.parent).to_dict("records")
    assert (row["ended"], row["error"].partition(":")[0]) == ("unreadable", "bad_file")


def test_a_list_names_a_result_that_was_changed(hostile, finished):
    folder = hostile("forged_result")
    (row,) = list_runs(folder.parent).to_dict("records")
    assert row["return"] == 9.99
    assert "result.json has been changed: its checksum must be" in row["error"]
    (row,) = list_runs(finished.parent).to_dict("records")
    assert row["error"] == ""


def test_only_a_folder_that_was_not_moved_is_resumed(finished, tmp_path):
    folder = Path(shutil.copytree(finished, tmp_path / "copies" / finished.name))
    edit(folder, "result.json", state="running", ended_because=None)
    with pytest.raises(BadOption, match=f"was in {finished}, and is in {folder} now: .*add --trust"):
        resume_run(folder)
    (folder / "result.json").unlink()
    with pytest.raises(BadOption, match="was in a place that it does not say"):
        resume_run(folder)
    assert resume_run(folder, trust=True)["ended_because"] == "done"
