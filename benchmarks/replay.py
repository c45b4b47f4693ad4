"""Cost of recording a model call, and of replaying a run beyond start-up.

Starting up is importing, and building the graph; the rest of :func:`quantgraph.runs._replay` is the replay:
reading the record, running the graph, trading, the report, writing the exports and comparing them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from core import best, missed, show

from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.runs import replay, run_strategy
from quantgraph.runs._execute import opened_run
from quantgraph.runs._replay import ReplayCodeRunner, ReplaySource, replay_models
from quantgraph.runs.folder import read_manifest
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

SENTENCE = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月2日到2025年1月14日"
PROMPT = "均线上穿买入，下穿卖出。" * 200


def recording_a_call(folder: Path) -> None:
    bare = ScriptedChatModel(lambda _: "好的。" * 50)
    model = RecordedChatModel(bare)
    recording = Recorder(folder / "calls.sqlite").of("run")
    scope = Scope(recording=recording, path="signal/reflection")
    with in_scope(scope):
        recorded = best(lambda: model.invoke(PROMPT), calls=20)
    recording.close()
    alone = best(lambda: bare.invoke(PROMPT), calls=20)
    show("recording a model call of 7 kB", (recorded - alone) * 1e3, 1, "ms")


def replaying_a_run(folder: Path) -> None:
    steps: list[str] = []
    told = run_strategy(
        SENTENCE,
        model="keyless",
        source="sample",
        out=folder,
        resources=Resources(watch=lambda event: steps.append(event.name)),
    )
    if told["ended_because"] != "done":
        raise SystemExit(told["error"])
    run = told["run_dir"]
    if not replay(run).identical:
        raise SystemExit(f"{run} does not replay")
    built, whole = best(lambda: build(run)), best(lambda: replay(run))
    print(f"{'  building the graph of a run, part of starting up':<58}{built * 1e3:>12.3f} ms")
    show(
        f"replaying a run of {len(steps) + 3} steps and 9 sessions, beyond that",
        (whole - built) * 1e3,
        100,
        "ms",
    )


def build(run: str) -> None:
    manifest = read_manifest(Path(run))
    resources = Resources(
        settings=load_settings(),
        source=ReplaySource("sample", synthetic=True),
        model=replay_models([]),
        runner=ReplayCodeRunner(),
        recorder=Recorder(),
    )
    with tempfile.TemporaryDirectory() as empty, opened_run(manifest.spec, "run", Path(empty), resources):
        pass


def replaying() -> None:
    with tempfile.TemporaryDirectory() as folder:
        recording_a_call(Path(folder))
        replaying_a_run(Path(folder))


if __name__ == "__main__":
    replaying()
    sys.exit(1 if missed else 0)
