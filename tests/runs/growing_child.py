"""Resume a run to a later end, and die at a step of that: ``growing_child.py RUN END STEP``.

The steps are those after which something is on the disk: the mark in the record, ``result.json``, ``run.json``, and
then each transaction of the ledger. A step beyond them lets the run end.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from quantgraph.broker.ledger import Ledger
from quantgraph.recording import Recording
from quantgraph.runs import _start, resume_run
from quantgraph.runs.folder._folder import Manifest

run, end, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = [0]


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        done = function(*args, **options)
        seen[0] += 1
        if seen[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return call


Recording.mark_restart = counted(Recording.mark_restart)  # type: ignore[method-assign]
_start.write_result = counted(_start.write_result)  # type: ignore[assignment]
Manifest.write = counted(Manifest.write)  # type: ignore[method-assign]
Ledger.commit_days = counted(Ledger.commit_days)  # type: ignore[method-assign]
Ledger.commit_block = counted(Ledger.commit_block)  # type: ignore[method-assign]
Ledger.extend = counted(Ledger.extend)  # type: ignore[method-assign]
print(resume_run(run, end="" if end == "-" else end)["ended_because"])
