"""Comparing the execution logs of a run and its replay: every step, whatever ids and order its row has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from quantgraph._util.canonical_json import canonical_json
from quantgraph.broker import LoggedExecution
from quantgraph.broker.ledger import Ledger
from quantgraph.recording.replay_lookup import Change, changes
from quantgraph.runs.verification import ReplayDifference

_Key = tuple[str, str, str, str]
"""Session, symbol, name and text of the rule."""
_NO_STEP: dict[str, Any] = {}


def compare_execution_logs(recorded: Ledger, replayed: Ledger, run_id: str) -> list[ReplayDifference]:
    """Compare the steps of the sessions that the recorded run committed; the first difference.

    The recorded journal must be sound.

    A session that it did not commit was cut off somewhere, or was ended by an error: threads may have reached
    any step of it.
    """
    sessions = set(recorded.sessions(run_id)) if recorded.has_run(run_id) else set()
    old, new = (
        {_key(each): each for each in book.executions(run_id) if each.session in sessions}
        for book in (recorded, replayed)
    )
    return list(islice(_differences(old, new), 1))


def _differences(
    old: Mapping[_Key, LoggedExecution], new: Mapping[_Key, LoggedExecution]
) -> Iterator[ReplayDifference]:
    for key in sorted({*old, *new}):
        pairs = zip_longest(_steps(old.get(key)), _steps(new.get(key)), fillvalue=_NO_STEP)
        for number, (before, after) in enumerate(pairs, start=1):
            if canonical_json(before) != canonical_json(after):
                change = next(
                    changes(before, after), Change("", canonical_json(before), canonical_json(after))
                )
                place = " ".join(filter(None, (*key[:3], f"step {number}", change.place)))
                sides = {"recorded": change.old[:300], "replayed": change.new[:300]}
                yield ReplayDifference(export="executions", place=place, **sides)


def _key(execution: LoggedExecution) -> _Key:
    return f"{execution.session:%Y-%m-%d}", execution.symbol, execution.rule_name, execution.rule


def _steps(execution: LoggedExecution | None) -> list[dict[str, Any]]:
    names = ("action_type", "action", "result", "timestamp")
    return [{name: getattr(step, name) for name in names} for step in (execution.steps if execution else ())]
