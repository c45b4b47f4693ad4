"""The stepwise agent decides two symbols of the sample, and one of its executions is drawn.

`quantgraph run "execution agent on 600958.SH, January 2025" --decider execution` is the same without Python,
and `quantgraph logs` shows its steps. Without a key the keyless planner answers for the model.
"""

from __future__ import annotations

from quantgraph import run_strategy
from quantgraph.agents.execution import ExecutionAgent, draw_execution
from quantgraph.broker.ledger import Ledger

if __name__ == "__main__":
    sentence = "execution agent on 000341.SZ, 600958.SH, 20250102 to 20250106"
    done = run_strategy(sentence, decider=ExecutionAgent(size="fixed", cash=100_000), out="runs")
    with Ledger(f"{done['run_dir']}/ledger.sqlite") as ledger:
        executions = ledger.executions(done["run_id"])
    for execution in executions:
        decision = execution.steps[-1].action["action"]
        print(f"{execution.session:%m-%d}", execution.symbol, decision["action"], decision["reason"])
    draw_execution(executions[3]).save("runs/execution.svg")
    print(f"{done['ended_because']}: {len(executions)} executions, drawn in runs/execution.svg")
