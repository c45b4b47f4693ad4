"""Resume a run to a later end, and die at a step of that: ``growing_child.py RUN END STEP``.

The steps are those after which something is on the disk: the mark in the record, ``result.json``, ``run.json``, and
then each transaction of the ledger. A step beyond them lets the run end. END ``-`` is none.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from quantgraph.broker.ledger import Ledger
from quantgraph.recording import Recording
from quantgraph.runs import _resume, resume_run
from quantgraph.runs.folder._folder import Manifest

STEPS: tuple[tuple[Any, str], ...] = (
    (Recording, "mark_restart"),
    (_resume, "write_result"),
    (Manifest, "write"),
    (Ledger, "extend"),
    (Ledger, "commit_days"),
    (Ledger, "commit_block"),
)


def die_at(step: int) -> None:
    """Kill this process once so many steps are done."""
    seen = [0]

    def counted(function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            done = function(*args, **options)
            seen[0] += 1
            if seen[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return call

    for owner, name in STEPS:
        setattr(owner, name, counted(getattr(owner, name)))


if __name__ == "__main__":
    run, end, last = sys.argv[1:]
    die_at(int(last))
    print(resume_run(run, end="" if end == "-" else end)["ended_because"])
