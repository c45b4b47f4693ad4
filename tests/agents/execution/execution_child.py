"""One process of a run of the stepwise agent: ``execution_child.py ACTION FOLDER PARALLEL [JSON]``.

ACTION is ``run``, with the arguments of ``run_strategy`` as JSON, ``resume`` or ``replay``. Each session that is in
the ledger is a line; the last line is the outcome.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources


def main(action: str, folder: Path, parallel: int, given: dict) -> None:
    decider = ExecutionAgent(parallel=parallel)
    watch = Resources(watch=lambda event: print(event.kind, flush=True))
    if action == "run":
        told = run_strategy(given.pop("sentence"), decider=decider, out=folder, resources=watch, **given)
    else:
        (run,) = (each for each in folder.iterdir() if each.is_dir())
        if action == "resume":
            told = resume_run(run, decider=decider, resources=watch)
        else:
            done = replay(run, decider=decider, out=folder.parent / f"{folder.name}-replay")
            told = {"ended_because": "identical" if done.identical else repr(done)}
    print(json.dumps([told["ended_because"], told.get("error")]))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), json.loads((*sys.argv, "{}")[4]))
