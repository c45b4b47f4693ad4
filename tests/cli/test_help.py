"""Help in groups and panels, wrong calls in one line, and each refusal at once."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from quantgraph.cli._help import GROUPS
from quantgraph.cli._main import app

REFUSED = [
    (["show", "nosuch"], "there is no run.json in nosuch"),
    (["resume", "nosuch"], "there is no run.json in nosuch"),
    (["replay", "nosuch"], "there is no run.json in nosuch"),
    (["verify", "nosuch"], "there is no run.json in nosuch"),
    (["show", "x", "--verify", "y"], "it is now: quantgraph verify RUN --page FILE"),
    (["compare", "a", "b"], "there is no run.json in a"),
    (["logs", "nosuch"], "has no ledger"),
    (["ledger", "show", "nosuch"], "has no ledger"),
    (["ledger", "check"], "has no run with a ledger.sqlite to take"),
    (["show"], "has no run with a run.json to take"),
    (["audit"], "has no run with a strategy.py to take"),
    (["audit", "nosuch.py"], "is neither a file nor a run's folder"),
    (["runs", "--ended", "well"], "is not an end of a run"),
    (["runs", "--limit", "0"], "should be greater than or equal to 1"),
    (["run", "x", "--source", "nosuch.csv"], "is not a known source or an existing path"),
    (["run", "x", "--model", "gpt-9"], "set OPENAI_API_KEY"),
    (["run", "x", "--market", "uk"], "is not one of 'cn', 'us'"),
    (["run", "x", "--cash", "much"], "should be a valid number  (help"),
    (["run", "x", "--decider", "nosuch"], "nosuch"),
    (["run", "x", "--costs", "none"], "--costs none needs --market cn or --market us"),
    (["run", "x", "--markt", "us"], "Did you mean '--market'?"),
    (["run"], "missing argument 'SENTENCE'"),
    (["run", "", "--headless"], "SENTENCE is empty"),
    (["run", "x", "--budget", "much"], "budget"),
    (["runz"], "Did you mean 'run', 'runs'?"),
    (["report"], "it is now: quantgraph show"),
    (["signal", "x"], "it is now: quantgraph run --signal-only"),
]


def called(*arguments: str, place: Path) -> subprocess.CompletedProcess[str]:
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("QUANTGRAPH", "OPENAI"))
    }
    return subprocess.run(
        [sys.executable, "-m", "quantgraph", *arguments],
        cwd=place,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.proof
@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(each) for each, _ in REFUSED])
def test_a_wrong_call_is_one_line_within_a_second_of_cpu(arguments, says, tmp_path):
    spent: list[float] = []
    while not spent or (min(spent) >= 1.0 and len(spent) < 4):  # a busy core takes longer for the same
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = called(*arguments, place=tmp_path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert says in done.stderr
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert not list(tmp_path.glob("runs/*"))
    assert min(spent) < 1.0


def test_help_lists_fifteen_commands_in_groups_with_run_first(tmp_path):
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len({*names}) == 15
    registered = {each.name or each.callback.__name__ for each in app.registered_commands}
    assert {*names} == registered | {each.name for each in app.registered_groups}
    shown = called("--help", place=tmp_path).stdout
    assert shown.index("Run a sentence:") < shown.index("  run ") < shown.index("Look at runs:")
    assert "..." not in shown.partition("Options:")[2]
    assert "…" not in shown


def test_the_options_of_run_stand_in_panels(tmp_path):
    shown = called("run", "--help", place=tmp_path).stdout
    places = [shown.index(f"{title}:\n") for title in ("Data", "Account", "Questions", "Model", "Output")]
    assert places == sorted(places)
    assert shown.index("--source") < shown.index("Account:\n") < shown.index("--commission")
