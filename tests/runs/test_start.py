"""``run_strategy``: its folder says how the run ended, whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from quantgraph.broker import Decider
from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption, NotConfigured
from quantgraph.market import Rulebook
from quantgraph.recording import Recorder
from quantgraph.runs import RunSpec, resume_run, run_strategy
from quantgraph.runs import _start as start
from quantgraph.runs._outputs import strategy_source
from quantgraph.runtime import Resources
from quantgraph.state import DataState

SHORT = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"
SENTENCE = "合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年"


def results(folder):
    return [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*/result.json")]


class Broken(SampleSource):
    """The sample, until its bars are asked for."""

    def __init__(self, error):
        super().__init__()
        self._error = error

    def bars(self, *_):
        raise self._error


@pytest.mark.parametrize(
    "error", [ValueError("a bug of the source"), OSError("disk gone"), ZeroDivisionError()]
)
def test_an_error_of_the_source_is_raised_and_the_folder_says_failed(tmp_path, error):
    with pytest.raises(type(error)):
        run_strategy(SENTENCE, source=Broken(error), out=tmp_path)
    (told,) = results(tmp_path)
    assert (told["state"], told["ended_because"]) == ("failed", None)
    assert type(error).__name__ in told["error"]


def test_a_model_of_the_decider_that_is_unavailable_is_not_missing_data(tmp_path):
    class Asking(Decider):
        name = "asking"
        uses_signal = False

        def decide(self, context):
            raise NotConfigured("decision: the key is refused", model="gpt-test")

    told = run_strategy(SENTENCE, decider=Asking(), out=tmp_path)
    assert told["ended_because"] == "model_unavailable"
    assert told["error"] == "not_configured: decision: the key is refused"


def test_a_stopped_run_says_cancelled(tmp_path):
    code = "from quantgraph.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        SENTENCE.replace("2025年", "2023年到2025年"),
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        [*command, "--headless"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if line.startswith("逐日交易"):
            break
    (told,) = results(tmp_path)
    assert told["state"] == "running"
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 130, rest
    assert "cancelled" in rest
    assert f"quantgraph resume {told['run_dir']}" in rest
    assert "Traceback" not in rest
    (told,) = results(tmp_path)
    assert told["ended_because"] == "cancelled"


def test_a_killed_run_says_running(tmp_path):
    code = (
        "import os, sys\nfrom quantgraph.runs import run_strategy\nfrom quantgraph.runtime import Resources\n"
        "def watch(event):\n    if event.kind == 'session': os._exit(9)\n"
        f"run_strategy({SENTENCE!r}, out=sys.argv[1], resources=Resources(watch=watch))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == 9
    (told,) = results(tmp_path)
    assert told["state"] == "running"


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot hold a run: Not a directory"):
        run_strategy(SENTENCE, out=tmp_path / "file")


@pytest.mark.parametrize("cash", [0, -1, "much", float("nan")])
def test_cash_is_an_amount_above_zero(tmp_path, cash):
    with pytest.raises(BadOption, match="cash"):
        run_strategy(SENTENCE, cash=cash, out=tmp_path)
    assert results(tmp_path) == []


def test_stocks_that_the_rules_do_not_know_are_refused_before_they_are_fetched(shared_data, tmp_path):
    sentence = "all stocks, buy the top 5 by 20-day momentum, 2025-07-01 to 2025-10-30"
    told = run_strategy(
        RunSpec(question=sentence, rules=Rulebook.mainland()),
        source=shared_data / "ai-trader" / "us",
        out=tmp_path,
    )
    assert told["ended_because"] == "data_unavailable"
    assert "no board for AAPL" in told["error"]
    assert told["signal"] is None


def test_a_question_with_quotes_stays_inside_its_docstring():
    text = strategy_source(
        {"name": "s", "code_hash": "h", "data_ref": "d", "cells": ["x = 1", "y = 2"]}, 'buy """ import os\\'
    )
    scope = {}
    exec(compile(text, "strategy.py", "exec"), scope)
    assert (scope["x"], scope["y"]) == (1, 2)
    assert "os" not in scope
    assert text.count("# %%") == 2


def test_questions_are_answered_by_the_function_and_an_empty_answer_is_asked_again(tmp_path):
    asked, answers = [], iter(["", "合成30成分股", "   ", "2025年"])

    def answer(question):
        asked.append(question["kind"])
        return next(answers)

    told = run_strategy(
        RunSpec(question="5日均线上穿20日均线买入，下穿卖出", trade=False),
        out=tmp_path,
        resources=Resources(answer=answer),
    )
    assert told["ended_because"] == "done"
    assert asked == ["symbol", "symbol", "window", "window"]


class Killed(BaseException):
    """Nothing after it is done by the run."""


def test_a_run_that_is_killed_during_its_start_does_not_exist_or_can_be_resumed(tmp_path, monkeypatch):
    folder, seen, opening = tmp_path / "r", [], start.opened_run

    @contextmanager
    def watched(*arguments):
        with opening(*arguments) as opened:
            seen.append(sorted(path.name for path in folder.iterdir()) if folder.exists() else None)
            yield opened

    def killed(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(start, "new_run_id", lambda: "r")
        patch.setattr(start, "opened_run", watched)
        patch.setattr(start, "execute_run", killed)
        with pytest.raises(Killed):
            run_strategy(SHORT, out=tmp_path)
    assert seen[0] is None
    assert {"run.json", "result.json", "ledger.sqlite"} <= {*seen[1]}
    told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (told["state"], told["ended_because"], told["run_dir"]) == ("running", None, str(folder))
    assert list(tmp_path.iterdir()) == [folder]
    done = resume_run(folder)
    assert (done["state"], done["ended_because"]) == ("ended", "done")


def test_a_run_of_a_custom_graph_is_named_as_one(tmp_path):
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(BadOption, match=r"there is no run.json in .*; a run of your own graph is resumed"):
        resume_run(tmp_path)


def test_an_option_beside_a_whole_specification_is_refused(tmp_path):
    for name, value in {"symbols": ["000341.SZ"], "start": "20250102", "end": "20250114", "cash": 0}.items():
        with pytest.raises(BadOption, match=f"{name}= and a RunSpec are both set") as caught:
            run_strategy(RunSpec(question=SHORT), out=tmp_path, **{name: value})
        assert caught.value.data == {"parameter": name}
    assert list(tmp_path.iterdir()) == []


def test_a_run_makes_its_own_store_and_recorder(tmp_path):
    for given in (Resources(store=DataState()), Resources(recorder=Recorder())):
        with pytest.raises(BadOption, match="a run makes its own, in its folder"):
            run_strategy(SHORT, out=tmp_path, resources=given)


def test_a_specification_that_calls_a_function_needs_one(tmp_path):
    with pytest.raises(BadOption, match=r"needs the function as resources\.on_clarify"):
        run_strategy(RunSpec(question=SHORT, on_clarify="function"), out=tmp_path)


def test_symbols_in_one_text_are_split_at_commas():
    assert RunSpec(question="q", symbols="600519.SH, 000001.SZ").symbols == ("600519.SH", "000001.SZ")
    with pytest.raises(BadOption, match="symbols: 600519 must be a text"):
        RunSpec(question="q", symbols=[600519])
