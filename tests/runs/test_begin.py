"""Whoever looks at the folder of a run, at whatever instant, sees what it is, or no folder."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from quantgraph.errors import BadOption
from quantgraph.runs import begin, resume_run, run_strategy, start

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"


class Killed(BaseException):
    """Nothing after it is done by the run."""


def test_a_run_that_is_killed_while_its_databases_are_made_is_not_there_or_can_be_resumed(
    tmp_path, monkeypatch
):
    folder, seen, opening = tmp_path / "r", [], begin.open_run

    @contextmanager
    def watched(*arguments):
        with opening(*arguments) as opened:
            seen.append(sorted(path.name for path in folder.iterdir()) if folder.exists() else None)
            yield opened

    def killed(*_):
        raise Killed

    monkeypatch.setattr(start, "new_run_id", lambda: "r")
    monkeypatch.setattr(begin, "open_run", watched)
    monkeypatch.setattr(begin, "execute_run", killed)
    with pytest.raises(Killed):
        run_strategy(SENTENCE, out=tmp_path)
    assert seen[0] is None
    assert {"run.json", "result.json", "ledger.sqlite"} <= {*seen[1]}
    told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (told["state"], told["ended_because"], told["run_dir"]) == ("running", None, str(folder))
    assert list(tmp_path.iterdir()) == [folder]
    done = resume_run(folder)
    assert (done["state"], done["ended_because"]) == ("ended", "done")


def test_a_run_of_a_graph_of_ones_own_is_said_to_be_one(tmp_path):
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(BadOption, match=r"there is no run.json in .*; a run of your own graph is resumed"):
        resume_run(tmp_path)
