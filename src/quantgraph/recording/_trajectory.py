"""A recording as a trajectory: the steps of a run, in the form of agentevals' ``GraphTrajectory``."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from quantgraph.errors import BadOption
from quantgraph.recording._entries import Entry
from quantgraph.recording._recordings import Recorder

INTERRUPT = "__interrupt__"
"""The step at which a run waits for a person, as LangGraph names it."""


class Trajectory(TypedDict):
    """The turns of a run: the request, then one for each answer of a person.

    ``inputs`` has the run's id, then the answers; ``results`` are empty; ``steps`` has a list a turn.
    """

    inputs: list[dict[str, Any]]
    results: list[dict[str, Any]]
    steps: list[list[str]]


def trajectory(where: str | Path, run_id: str) -> Trajectory:
    """Return a recorded run as a trajectory, which evaluators such as agentevals compare.

    Steps are the nodes that asked a model, a person or a code process, and the tool calls of a model:
    ``signal:signal_generate``, ``signal:signal_generate:python_repl``. In a decision the session follows the
    node. Each model call is a step. A node that asks nothing, such as ``daily_loop``, is not one. Calls made
    at the same time are in the order in which they ended.

    Parameters
    ----------
    where
        The file or database URL of the ledger or the recorder.

    Raises
    ------
    BadOption
        If there is no such file, or no such run in it.
    """
    place = str(where).removeprefix("sqlite:///")
    if "://" not in place and not _has_recordings(Path(place)):
        raise BadOption(f"where={str(where)!r} must be a file with recordings", parameter="where")
    with closing(Recorder(where, read_only=True).of(run_id)) as recording:
        turns = _turns(run_id, recording.entries())
    if not turns[0][1]:
        raise BadOption(f"run_id={run_id!r} must be a recorded run", parameter="run_id")
    return Trajectory(
        inputs=[value for value, _ in turns], results=[{} for _ in turns], steps=[steps for _, steps in turns]
    )


def _has_recordings(file: Path) -> bool:
    """Whether a file is a database with recordings; nothing is written into another one."""
    address = f"{file.absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.Error), closing(sqlite3.connect(address, uri=True)) as base:
        return bool(base.execute("SELECT 1 FROM sqlite_master WHERE name = 'recording'").fetchone())
    return False


def _turns(run_id: str, entries: Iterable[Entry]) -> list[tuple[dict[str, Any], list[str]]]:
    """Return the input and the steps of each turn."""
    turns: list[tuple[dict[str, Any], list[str]]] = [({"run_id": run_id}, [])]
    calls: defaultdict[str, list[str]] = defaultdict(list)  # by node: tool calls of its last reply
    waits_for_model = False  # the last step is a node that has asked no model yet
    for entry in entries:
        kind, node, steps = entry.key.kind, entry.key.path.replace("/", ":"), turns[-1][1]
        if not entry.final or kind in ("source", "fact"):
            continue
        if kind == "model":
            calls[node] = [f"{node}:{name}" for name in _tool_calls(entry)]
            steps += [*([] if waits_for_model and steps[-1] == node else [node]), *calls[node]]
            waits_for_model = False
            continue
        tool = json.loads(entry.request).get("tool") if kind == "tool" else None
        step = f"{node}:{tool}" if tool else node
        if step in calls[node]:
            calls[node].remove(step)
        elif tool or steps[-1:] != [node]:
            steps.append(step)
            waits_for_model = not tool
        if kind == "answer" and "role" not in entry.facts:  # a person's
            steps.append(INTERRUPT)
            turns.append(({"resume": entry.outcome()}, []))
            waits_for_model = False
    return turns


def _tool_calls(entry: Entry) -> list[str]:
    reply = json.loads(entry.reply or "{}")
    return [str(call["name"]) for call in reply.get("tool_calls") or ()]
